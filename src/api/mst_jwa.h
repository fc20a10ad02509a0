
/*
 * The algorithms of signed tokens (RFC 7518, RFC 8037), and one signature
 * verified by one.  "none" is no algorithm here.  Which one a key is for is
 * the key's affair (mst_jwk.h): a token's header never chooses.
 *
 * OpenSSL 3's EVP below.  Its error queue is left empty, since nginx takes
 * what it finds there for an error of a connection.  Any thread.
 */

#ifndef MST_JWA_H
#define MST_JWA_H

#include <openssl/evp.h>

#include "base/mst_str.h"


#define MST_JWA_MAX  13


typedef struct {
    const char     *name;          /* "RS256" */
    const char     *digest;        /* "SHA256"; NULL: a part of the
                                      algorithm */
    const char     *type;          /* "RSA", "EC", "ED25519", "HMAC" */
    int             curve;         /* NID; EC only */
    size_t          size;          /* bytes: of r and of s (EC), of the
                                      code (HMAC); else 0 */
    unsigned        pss:1;
    unsigned        secret:1;      /* HMAC: who verifies can sign */
} mst_jwa_t;


/* algorithms in the order of preference */
typedef struct {
    size_t            n;
    const mst_jwa_t  *alg[MST_JWA_MAX];
} mst_jwa_list_t;


/* by its exact name; NULL: not one of ours */
const mst_jwa_t *mst_jwa_find(mst_str_t name);

/* all that verify with a public key */
void mst_jwa_list_default(mst_jwa_list_t *list);

int mst_jwa_list_has(const mst_jwa_list_t *list, const mst_jwa_t *alg);

/* type of the key and its curve are those of the algorithm */
int mst_jwa_fits(const mst_jwa_t *alg, EVP_PKEY *key);

/* 1: signature (bytes, as in the token) is the key's over input; else 0 */
int mst_jwa_verify(const mst_jwa_t *alg, EVP_PKEY *key, mst_str_t input,
    mst_str_t signature);


#endif /* MST_JWA_H */
