
/*
 * Algorithms of signed tokens: see mst_jwa.h.
 */

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/rsa.h>

#include "api/mst_jwa.h"


static int mst_jwa_curve(EVP_PKEY *key);
static int mst_jwa_asymmetric(const mst_jwa_t *alg, EVP_PKEY *key,
    mst_str_t input, mst_str_t signature);
static int mst_jwa_hmac(const mst_jwa_t *alg, EVP_PKEY *key, mst_str_t input,
    mst_str_t signature);
static unsigned char *mst_jwa_der(const mst_jwa_t *alg, mst_str_t signature,
    size_t *len);


/* a key without an algorithm of its own gets the first that fits */

static const mst_jwa_t  mst_jwas[MST_JWA_MAX] = {
    { "RS256", "SHA256", "RSA", 0, 0, 0, 0 },
    { "RS384", "SHA384", "RSA", 0, 0, 0, 0 },
    { "RS512", "SHA512", "RSA", 0, 0, 0, 0 },
    { "PS256", "SHA256", "RSA", 0, 0, 1, 0 },
    { "PS384", "SHA384", "RSA", 0, 0, 1, 0 },
    { "PS512", "SHA512", "RSA", 0, 0, 1, 0 },
    { "ES256", "SHA256", "EC", NID_X9_62_prime256v1, 32, 0, 0 },
    { "ES384", "SHA384", "EC", NID_secp384r1, 48, 0, 0 },
    { "ES512", "SHA512", "EC", NID_secp521r1, 66, 0, 0 },
    { "EdDSA", NULL, "ED25519", 0, 0, 0, 0 },
    { "HS256", "SHA256", "HMAC", 0, 32, 0, 1 },
    { "HS384", "SHA384", "HMAC", 0, 48, 0, 1 },
    { "HS512", "SHA512", "HMAC", 0, 64, 0, 1 }
};


const mst_jwa_t *
mst_jwa_find(mst_str_t name)
{
    size_t  i;

    for (i = 0; i < MST_JWA_MAX; i++) {
        if (mst_str_eq(name, mst_jwas[i].name)) {
            return &mst_jwas[i];
        }
    }

    return NULL;
}


void
mst_jwa_list_default(mst_jwa_list_t *list)
{
    size_t  i;

    list->n = 0;

    for (i = 0; i < MST_JWA_MAX; i++) {
        if (!mst_jwas[i].secret) {
            list->alg[list->n++] = &mst_jwas[i];
        }
    }
}


int
mst_jwa_list_has(const mst_jwa_list_t *list, const mst_jwa_t *alg)
{
    size_t  i;

    for (i = 0; i < list->n; i++) {
        if (list->alg[i] == alg) {
            return 1;
        }
    }

    return 0;
}


int
mst_jwa_fits(const mst_jwa_t *alg, EVP_PKEY *key)
{
    if (EVP_PKEY_is_a(key, "RSA-PSS")) {
        return alg->pss;
    }

    if (EVP_PKEY_is_a(key, "ED448")) {
        return strcmp(alg->type, "ED25519") == 0;
    }

    if (!EVP_PKEY_is_a(key, alg->type)) {
        return 0;
    }

    return alg->curve == 0 || mst_jwa_curve(key) == alg->curve;
}


static int
mst_jwa_curve(EVP_PKEY *key)
{
    char    name[64];
    size_t  len;

    if (EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, name,
                                       sizeof(name), &len)
        != 1)
    {
        ERR_clear_error();
        return NID_undef;
    }

    return OBJ_sn2nid(name);
}


int
mst_jwa_verify(const mst_jwa_t *alg, EVP_PKEY *key, mst_str_t input,
    mst_str_t signature)
{
    int  ok;

    if (signature.len == 0) {
        return 0;
    }

    ok = alg->secret ? mst_jwa_hmac(alg, key, input, signature)
                     : mst_jwa_asymmetric(alg, key, input, signature);

    ERR_clear_error();

    return ok;
}


static int
mst_jwa_asymmetric(const mst_jwa_t *alg, EVP_PKEY *key, mst_str_t input,
    mst_str_t signature)
{
    int                   ok;
    size_t                len;
    EVP_MD_CTX           *ctx;
    EVP_PKEY_CTX         *pctx;
    unsigned char        *der;
    const unsigned char  *sig;

    der = NULL;
    sig = (const unsigned char *) signature.data;
    len = signature.len;

    if (alg->curve) {
        der = mst_jwa_der(alg, signature, &len);
        if (der == NULL) {
            return 0;
        }

        sig = der;
    }

    ctx = EVP_MD_CTX_new();

    ok = ctx != NULL
         && EVP_DigestVerifyInit_ex(ctx, &pctx, alg->digest, NULL, NULL, key,
                                    NULL)
            == 1;

    /* PKCS #1 v1.5 is EVP's default; the salt is as long as the digest */

    if (ok && alg->pss) {
        ok = EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING) == 1
             && EVP_PKEY_CTX_set_rsa_pss_saltlen(pctx, RSA_PSS_SALTLEN_DIGEST)
                == 1;
    }

    ok = ok && EVP_DigestVerify(ctx, sig, len,
                                (const unsigned char *) input.data, input.len)
               == 1;

    EVP_MD_CTX_free(ctx);
    OPENSSL_free(der);

    return ok;
}


/* r and s side by side, as a token has them, to what EVP takes */

static unsigned char *
mst_jwa_der(const mst_jwa_t *alg, mst_str_t signature, size_t *len)
{
    int                   n;
    BIGNUM               *r, *s;
    ECDSA_SIG            *sig;
    unsigned char        *der;
    const unsigned char  *p;

    if (signature.len != 2 * alg->size) {
        return NULL;
    }

    p = (const unsigned char *) signature.data;
    der = NULL;

    r = BN_bin2bn(p, (int) alg->size, NULL);
    s = BN_bin2bn(p + alg->size, (int) alg->size, NULL);
    sig = ECDSA_SIG_new();

    if (r && s && sig && ECDSA_SIG_set0(sig, r, s) == 1) {
        r = NULL;
        s = NULL;

        n = i2d_ECDSA_SIG(sig, &der);
        *len = n > 0 ? (size_t) n : 0;
    }

    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);

    return der;
}


static int
mst_jwa_hmac(const mst_jwa_t *alg, EVP_PKEY *key, mst_str_t input,
    mst_str_t signature)
{
    int             ok;
    size_t          len;
    EVP_MD_CTX     *ctx;
    unsigned char   mac[EVP_MAX_MD_SIZE];

    len = sizeof(mac);
    ctx = EVP_MD_CTX_new();

    ok = ctx != NULL
         && EVP_DigestSignInit_ex(ctx, NULL, alg->digest, NULL, NULL, key,
                                  NULL)
            == 1
         && EVP_DigestSign(ctx, mac, &len,
                           (const unsigned char *) input.data, input.len)
            == 1
         && len == signature.len
         && CRYPTO_memcmp(mac, signature.data, len) == 0;

    EVP_MD_CTX_free(ctx);

    return ok;
}
