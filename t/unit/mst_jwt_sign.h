
/*
 * The other side of tokens: keys are made, JWK and PEM of them written, and
 * tokens signed with any header and payload.
 */

#ifndef MST_JWT_SIGN_H
#define MST_JWT_SIGN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "api/mst_jwa.h"
#include "base/mst_buf.h"


/* "RSA", "RSA1024", "P-256", "P-384", "P-521", "secp256k1", "Ed25519", ... */

static inline EVP_PKEY *
sign_key(const char *type)
{
    EVP_PKEY  *key;

    if (strncmp(type, "RSA", 3) == 0) {
        key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA",
                                (size_t) (type[3] ? atoi(type + 3) : 2048));

    } else if (strncmp(type, "Ed", 2) == 0 || strncmp(type, "X", 1) == 0) {
        key = EVP_PKEY_Q_keygen(NULL, NULL, type);

    } else {
        key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", type);
    }

    assert_non_null(key);

    return key;
}


static inline EVP_PKEY *
sign_secret(const char *secret, size_t len)
{
    EVP_PKEY  *key;

    key = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL,
                                       (const unsigned char *) secret, len);
    assert_non_null(key);

    return key;
}


static inline void
sign_b64(mst_buf_t *out, const void *data, size_t len)
{
    size_t                i;
    unsigned              v;
    const unsigned char  *p;
    static const char     digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    p = data;

    for (i = 0; i < len; i += 3) {
        v = (unsigned) p[i] << 16;
        v |= i + 1 < len ? (unsigned) p[i + 1] << 8 : 0;
        v |= i + 2 < len ? (unsigned) p[i + 2] : 0;

        (void) mst_buf_char(out, digits[v >> 18]);
        (void) mst_buf_char(out, digits[v >> 12 & 63]);

        if (i + 1 < len) {
            (void) mst_buf_char(out, digits[v >> 6 & 63]);
        }

        if (i + 2 < len) {
            (void) mst_buf_char(out, digits[v & 63]);
        }
    }

    assert_false(out->failed);
}


static inline void
sign_member(mst_buf_t *out, const char *name, const void *data, size_t len)
{
    (void) mst_buf_printf(out, ",\"%s\":\"", name);
    sign_b64(out, data, len);
    (void) mst_buf_char(out, '"');
}


static inline void
sign_number(mst_buf_t *out, EVP_PKEY *key, const char *name,
    const char *param, int size)
{
    int             n;
    BIGNUM         *bn;
    unsigned char   data[1024];

    bn = NULL;
    assert_int_equal(EVP_PKEY_get_bn_param(key, param, &bn), 1);

    n = size ? size : BN_num_bytes(bn);
    assert_int_equal(BN_bn2binpad(bn, data, n), n);
    sign_member(out, name, data, (size_t) n);

    BN_free(bn);
}


/* {"kty":... MORE}; more begins with a comma or is empty */

static inline void
sign_jwk(mst_buf_t *out, EVP_PKEY *key, const char *more)
{
    int             size;
    size_t          len;
    unsigned char   raw[128];

    len = sizeof(raw);

    if (EVP_PKEY_is_a(key, "RSA")) {
        (void) mst_buf_text(out, "{\"kty\":\"RSA\"");
        sign_number(out, key, "n", OSSL_PKEY_PARAM_RSA_N, 0);
        sign_number(out, key, "e", OSSL_PKEY_PARAM_RSA_E, 0);

    } else if (EVP_PKEY_is_a(key, "EC")) {
        size = (EVP_PKEY_get_bits(key) + 7) / 8;
        (void) mst_buf_printf(out, "{\"kty\":\"EC\",\"crv\":\"P-%d\"",
                              EVP_PKEY_get_bits(key));
        sign_number(out, key, "x", OSSL_PKEY_PARAM_EC_PUB_X, size);
        sign_number(out, key, "y", OSSL_PKEY_PARAM_EC_PUB_Y, size);

    } else if (EVP_PKEY_is_a(key, "HMAC")) {
        assert_int_equal(EVP_PKEY_get_raw_private_key(key, raw, &len), 1);
        (void) mst_buf_text(out, "{\"kty\":\"oct\"");
        sign_member(out, "k", raw, len);

    } else {
        assert_int_equal(EVP_PKEY_get_raw_public_key(key, raw, &len), 1);
        (void) mst_buf_printf(out, "{\"kty\":\"OKP\",\"crv\":\"%s\"",
                              EVP_PKEY_is_a(key, "ED25519") ? "Ed25519"
                              : EVP_PKEY_is_a(key, "ED448") ? "Ed448"
                              : "X25519");
        sign_member(out, "x", raw, len);
    }

    (void) mst_buf_printf(out, "%s}", more);
    assert_false(out->failed);
}


static inline void
sign_pem(mst_buf_t *out, EVP_PKEY *key, int secret)
{
    BIO   *bio;
    char  *data;
    long   n;

    bio = BIO_new(BIO_s_mem());

    if (secret) {
        assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0,
                                                  NULL, NULL), 1);
    } else {
        assert_int_equal(PEM_write_bio_PUBKEY(bio, key), 1);
    }

    n = BIO_get_mem_data(bio, &data);
    (void) mst_buf_append(out, data, (size_t) n);
    BIO_free(bio);
}


/* r and s side by side instead of DER */

static inline size_t
sign_raw(unsigned char *sig, size_t len, size_t size)
{
    ECDSA_SIG            *ec;
    const unsigned char  *p;

    p = sig;
    ec = d2i_ECDSA_SIG(NULL, &p, (long) len);
    assert_non_null(ec);

    BN_bn2binpad(ECDSA_SIG_get0_r(ec), sig, (int) size);
    BN_bn2binpad(ECDSA_SIG_get0_s(ec), sig + size, (int) size);
    ECDSA_SIG_free(ec);

    return 2 * size;
}


/* salt: of PSS, RSA_PSS_SALTLEN_DIGEST as it should be */

static inline size_t
sign_bytes(const mst_jwa_t *alg, EVP_PKEY *key, mst_str_t input, int salt,
    unsigned char *sig)
{
    size_t         len;
    EVP_MD_CTX    *ctx;
    EVP_PKEY_CTX  *pctx;

    len = 1024;
    ctx = EVP_MD_CTX_new();

    assert_int_equal(EVP_DigestSignInit_ex(ctx, &pctx, alg->digest, NULL,
                                           NULL, key, NULL), 1);

    if (alg->pss) {
        EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING);
        EVP_PKEY_CTX_set_rsa_pss_saltlen(pctx, salt);
    }

    assert_int_equal(EVP_DigestSign(ctx, sig, &len,
                                    (const unsigned char *) input.data,
                                    input.len), 1);
    EVP_MD_CTX_free(ctx);

    return alg->curve ? sign_raw(sig, len, alg->size) : len;
}


/* header.payload.signature in "out", emptied before */

static inline mst_str_t
sign_token(mst_buf_t *out, const char *alg, EVP_PKEY *key,
    const char *header, const char *payload)
{
    size_t           len;
    unsigned char    sig[1024];
    const mst_jwa_t *a;

    a = mst_jwa_find(mst_str(alg, strlen(alg)));
    assert_non_null(a);

    mst_buf_reset(out);
    sign_b64(out, header, strlen(header));
    (void) mst_buf_char(out, '.');
    sign_b64(out, payload, strlen(payload));

    len = sign_bytes(a, key, mst_str(out->data, out->len),
                     RSA_PSS_SALTLEN_DIGEST, sig);

    (void) mst_buf_char(out, '.');
    sign_b64(out, sig, len);

    return mst_str(out->data, out->len);
}


#endif /* MST_JWT_SIGN_H */
