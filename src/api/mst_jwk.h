
/*
 * Keys that verify tokens: a JWKS (RFC 7517: several keys, kid), one JWK, or
 * PEM (public keys and certificates, one after the other).
 *
 * Each key has exactly one algorithm, that of its "alg", else the first of
 * the list that fits its type: a token cannot choose another.  A JWKS may
 * hold keys for other purposes (encryption, algorithms that are not listed):
 * they are left out.  A key that is damaged, weak or private is an error.
 *
 * A set does not change; processes that fork may share it, threads too.
 */

#ifndef MST_JWK_H
#define MST_JWK_H

#include "api/mst_jwa.h"
#include "base/mst_err.h"


#define MST_JWK_MAX       64           /* keys in a file */
#define MST_JWK_RSA_BITS  2048         /* at least */
#define MST_JWK_RSA_MAX   8192         /* a signature's cost is a stranger's */


typedef struct {
    mst_str_t         kid;             /* owned; data NULL: it has none */
    const mst_jwa_t  *alg;
    EVP_PKEY         *pkey;
} mst_jwk_t;


typedef struct {
    size_t            n;
    mst_jwk_t         key[MST_JWK_MAX];
} mst_jwks_t;


/* NULL with a sentence in err; one usable key at least */
mst_jwks_t *mst_jwks_parse(const char *data, size_t len,
    const mst_jwa_list_t *algs, mst_err_t *err);

void mst_jwks_destroy(mst_jwks_t *set);        /* NULL is fine */


#endif /* MST_JWK_H */
