
/*
 * Keys that verify tokens: see mst_jwk.h.
 */

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "api/mst_b64url.h"
#include "api/mst_jwk.h"
#include "base/mst_mem.h"


/* the bytes of a member; a modulus of 8192 bits has 1024 */
#define MST_JWK_FIELD  2048


typedef struct {
    unsigned char  data[MST_JWK_FIELD];
    size_t         len;
} mst_jwk_bytes_t;


typedef struct {
    const char  *name;                 /* "crv" */
    const char  *group;                /* of EC; NULL: OKP */
    int          type;                 /* EVP_PKEY_* */
    size_t       size;                 /* bytes of a coordinate */
} mst_jwk_curve_t;


/* a type's reader: MST_OK with *pkey, MST_DECLINED: not for signatures of
   ours, MST_ERROR: err */
typedef int (*mst_jwk_read_pt)(const json_t *jwk, EVP_PKEY **pkey,
    mst_err_t *err);

typedef struct {
    const char       *kty;
    mst_jwk_read_pt   read;
} mst_jwk_type_t;


static int mst_jwks_json(mst_jwks_t *set, const char *data, size_t len,
    const mst_jwa_list_t *algs, mst_err_t *err);
static int mst_jwk_add(mst_jwks_t *set, const json_t *jwk,
    const mst_jwa_list_t *algs, mst_err_t *err);
static int mst_jwk_meant(const json_t *jwk, const mst_jwa_list_t *algs,
    const mst_jwa_t **alg, mst_err_t *err);
static int mst_jwk_rsa(const json_t *jwk, EVP_PKEY **pkey, mst_err_t *err);
static int mst_jwk_ec(const json_t *jwk, EVP_PKEY **pkey, mst_err_t *err);
static int mst_jwk_okp(const json_t *jwk, EVP_PKEY **pkey, mst_err_t *err);
static int mst_jwk_oct(const json_t *jwk, EVP_PKEY **pkey, mst_err_t *err);
static const mst_jwk_curve_t *mst_jwk_curve(const json_t *jwk, int okp);
static int mst_jwk_bytes(const json_t *jwk, const char *name,
    mst_jwk_bytes_t *b, mst_err_t *err);
static EVP_PKEY *mst_jwk_build(const char *type, OSSL_PARAM_BLD *bld);
static int mst_jwks_pem(mst_jwks_t *set, const char *data, size_t len,
    const mst_jwa_list_t *algs, mst_err_t *err);
static int mst_jwk_pem(const char *name, const unsigned char *der, long len,
    EVP_PKEY **pkey, mst_err_t *err);
static int mst_jwk_keep(mst_jwks_t *set, EVP_PKEY *pkey, mst_str_t kid,
    const mst_jwa_t *alg, mst_err_t *err);
static int mst_jwk_check(EVP_PKEY *pkey, const mst_jwa_t *alg,
    mst_err_t *err);
static const mst_jwa_t *mst_jwk_choose(const mst_jwa_list_t *algs,
    EVP_PKEY *pkey);


static const mst_jwk_type_t  mst_jwk_types[] = {
    { "RSA", mst_jwk_rsa },
    { "EC", mst_jwk_ec },
    { "OKP", mst_jwk_okp },
    { "oct", mst_jwk_oct }
};

static const mst_jwk_curve_t  mst_jwk_curves[] = {
    { "P-256", "prime256v1", EVP_PKEY_EC, 32 },
    { "P-384", "secp384r1", EVP_PKEY_EC, 48 },
    { "P-521", "secp521r1", EVP_PKEY_EC, 66 },
    { "Ed25519", NULL, EVP_PKEY_ED25519, 32 },
    { "Ed448", NULL, EVP_PKEY_ED448, 57 }
};


mst_jwks_t *
mst_jwks_parse(const char *data, size_t len, const mst_jwa_list_t *algs,
    mst_err_t *err)
{
    int          rc;
    size_t       i;
    mst_jwks_t  *set;

    set = mst_calloc(1, sizeof(mst_jwks_t));
    if (set == NULL) {
        (void) mst_err_set(err, "out of memory");
        return NULL;
    }

    for (i = 0; i < len && strchr(" \t\r\n", data[i]); i++) { /* void */ }

    rc = i < len && data[i] == '{' ? mst_jwks_json(set, data, len, algs, err)
                                   : mst_jwks_pem(set, data, len, algs, err);

    if (rc == MST_OK && set->n == 0) {
        rc = mst_err_set(err, "holds no key for any of the algorithms that "
                         "are allowed");
    }

    ERR_clear_error();

    if (rc != MST_OK) {
        mst_jwks_destroy(set);
        return NULL;
    }

    return set;
}


static int
mst_jwks_json(mst_jwks_t *set, const char *data, size_t len,
    const mst_jwa_list_t *algs, mst_err_t *err)
{
    int            rc;
    size_t         i, n;
    char           place[32];
    json_t        *root, *keys;
    json_error_t   error;

    root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return mst_err_set(err, "line %d: %s", error.line, error.text);
    }

    /* one key needs no set around it */

    keys = json_object_get(root, "keys");
    n = keys ? json_array_size(keys) : 1;
    rc = MST_OK;

    if (keys && !json_is_array(keys)) {
        rc = mst_err_set(err, "\"keys\" is not an array");
    }

    for (i = 0; i < n && rc == MST_OK; i++) {
        rc = mst_jwk_add(set, keys ? json_array_get(keys, i) : root, algs,
                         err);

        if (rc != MST_OK) {
            (void) snprintf(place, sizeof(place), "key %zu", i + 1);
            (void) mst_err_prefix(err, place);
        }
    }

    json_decref(root);

    return rc;
}


static int
mst_jwk_add(mst_jwks_t *set, const json_t *jwk, const mst_jwa_list_t *algs,
    mst_err_t *err)
{
    int               rc;
    size_t            i;
    EVP_PKEY         *pkey;
    const char       *kty;
    mst_str_t         kid;
    const json_t     *id;
    const mst_jwa_t  *alg;

    id = json_object_get(jwk, "kid");
    kty = json_string_value(json_object_get(jwk, "kty"));

    if (kty == NULL || (id && !json_is_string(id))) {
        return mst_err_set(err, "is no JWK: \"kty\" and \"kid\" are strings");
    }

    rc = mst_jwk_meant(jwk, algs, &alg, err);
    if (rc != MST_OK) {
        return rc == MST_DECLINED ? MST_OK : rc;
    }

    pkey = NULL;
    rc = MST_DECLINED;

    for (i = 0; i < sizeof(mst_jwk_types) / sizeof(mst_jwk_types[0]); i++) {
        if (strcmp(kty, mst_jwk_types[i].kty) == 0) {
            rc = mst_jwk_types[i].read(jwk, &pkey, err);
        }
    }

    if (rc != MST_OK) {
        return rc == MST_DECLINED ? MST_OK : rc;
    }

    if (alg == NULL) {
        alg = mst_jwk_choose(algs, pkey);

        if (alg == NULL) {
            EVP_PKEY_free(pkey);
            return MST_OK;
        }
    }

    kid = mst_str(json_string_value(id), json_string_length(id));

    return mst_jwk_keep(set, pkey, kid, alg, err);
}


/* MST_DECLINED: for another purpose, or not allowed */

static int
mst_jwk_meant(const json_t *jwk, const mst_jwa_list_t *algs,
    const mst_jwa_t **alg, mst_err_t *err)
{
    size_t         i;
    const char    *name, *use;
    const json_t  *ops;

    use = json_string_value(json_object_get(jwk, "use"));

    if (use && strcmp(use, "sig") != 0) {
        return MST_DECLINED;
    }

    ops = json_object_get(jwk, "key_ops");

    if (ops) {
        for (i = 0; i < json_array_size(ops); i++) {
            name = json_string_value(json_array_get(ops, i));

            if (name && strcmp(name, "verify") == 0) {
                break;
            }
        }

        if (i == json_array_size(ops)) {
            return MST_DECLINED;
        }
    }

    *alg = NULL;

    if (json_object_get(jwk, "alg") == NULL) {
        return MST_OK;
    }

    name = json_string_value(json_object_get(jwk, "alg"));
    if (name == NULL) {
        return mst_err_set(err, "\"alg\" is not a string");
    }

    *alg = mst_jwa_find(mst_str(name, strlen(name)));

    return *alg && mst_jwa_list_has(algs, *alg) ? MST_OK : MST_DECLINED;
}


static int
mst_jwk_rsa(const json_t *jwk, EVP_PKEY **pkey, mst_err_t *err)
{
    BIGNUM           *n, *e;
    OSSL_PARAM_BLD   *bld;
    mst_jwk_bytes_t   nb, eb;

    if (json_object_get(jwk, "d")) {
        return mst_err_set(err, "is a private key, which has no place here");
    }

    if (mst_jwk_bytes(jwk, "n", &nb, err) != MST_OK
        || mst_jwk_bytes(jwk, "e", &eb, err) != MST_OK)
    {
        return MST_ERROR;
    }

    n = BN_bin2bn(nb.data, (int) nb.len, NULL);
    e = BN_bin2bn(eb.data, (int) eb.len, NULL);
    bld = OSSL_PARAM_BLD_new();

    if (n && e && bld
        && OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_N, n) == 1
        && OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_E, e) == 1)
    {
        *pkey = mst_jwk_build("RSA", bld);
    }

    OSSL_PARAM_BLD_free(bld);
    BN_free(n);
    BN_free(e);

    return *pkey ? MST_OK : mst_err_set(err, "is no RSA key");
}


static int
mst_jwk_ec(const json_t *jwk, EVP_PKEY **pkey, mst_err_t *err)
{
    size_t                  size;
    OSSL_PARAM_BLD         *bld;
    unsigned char           point[1 + 2 * MST_JWK_FIELD];
    mst_jwk_bytes_t         x, y;
    const mst_jwk_curve_t  *curve;

    if (json_object_get(jwk, "d")) {
        return mst_err_set(err, "is a private key, which has no place here");
    }

    curve = mst_jwk_curve(jwk, 0);
    if (curve == NULL) {
        return MST_DECLINED;
    }

    if (mst_jwk_bytes(jwk, "x", &x, err) != MST_OK
        || mst_jwk_bytes(jwk, "y", &y, err) != MST_OK)
    {
        return MST_ERROR;
    }

    size = curve->size;

    if (x.len != size || y.len != size) {
        return mst_err_set(err, "coordinates have %zu and %zu bytes, on "
                           "curve %s they have %zu", x.len, y.len,
                           curve->name, size);
    }

    point[0] = POINT_CONVERSION_UNCOMPRESSED;
    memcpy(point + 1, x.data, size);
    memcpy(point + 1 + size, y.data, size);

    bld = OSSL_PARAM_BLD_new();

    if (bld
        && OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME,
                                           curve->group, 0)
           == 1
        && OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY,
                                            point, 1 + 2 * size)
           == 1)
    {
        *pkey = mst_jwk_build("EC", bld);
    }

    OSSL_PARAM_BLD_free(bld);

    return *pkey ? MST_OK : mst_err_set(err, "is no point on curve %s",
                                        curve->name);
}


static int
mst_jwk_okp(const json_t *jwk, EVP_PKEY **pkey, mst_err_t *err)
{
    mst_jwk_bytes_t         x;
    const mst_jwk_curve_t  *curve;

    if (json_object_get(jwk, "d")) {
        return mst_err_set(err, "is a private key, which has no place here");
    }

    curve = mst_jwk_curve(jwk, 1);
    if (curve == NULL) {
        return MST_DECLINED;
    }

    if (mst_jwk_bytes(jwk, "x", &x, err) != MST_OK) {
        return MST_ERROR;
    }

    if (x.len == curve->size) {
        *pkey = EVP_PKEY_new_raw_public_key(curve->type, NULL, x.data, x.len);
    }

    return *pkey ? MST_OK : mst_err_set(err, "is no %s key", curve->name);
}


static int
mst_jwk_oct(const json_t *jwk, EVP_PKEY **pkey, mst_err_t *err)
{
    mst_jwk_bytes_t  k;

    if (mst_jwk_bytes(jwk, "k", &k, err) != MST_OK) {
        return MST_ERROR;
    }

    *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, k.data, k.len);
    OPENSSL_cleanse(&k, sizeof(k));

    return *pkey ? MST_OK : mst_err_set(err, "is no secret");
}


static const mst_jwk_curve_t *
mst_jwk_curve(const json_t *jwk, int okp)
{
    size_t       i;
    const char  *crv;

    crv = json_string_value(json_object_get(jwk, "crv"));

    for (i = 0; i < sizeof(mst_jwk_curves) / sizeof(mst_jwk_curves[0]); i++) {
        if (crv && strcmp(crv, mst_jwk_curves[i].name) == 0
            && okp == (mst_jwk_curves[i].group == NULL))
        {
            return &mst_jwk_curves[i];
        }
    }

    return NULL;
}


static int
mst_jwk_bytes(const json_t *jwk, const char *name, mst_jwk_bytes_t *b,
    mst_err_t *err)
{
    mst_str_t      s;
    const json_t  *value;

    value = json_object_get(jwk, name);
    s = mst_str(json_string_value(value), json_string_length(value));

    if (s.len == 0 || mst_b64url_size(s.len) > MST_JWK_FIELD
        || mst_b64url_decode(s, b->data, &b->len) != MST_OK)
    {
        return mst_err_set(err, "\"%s\" is not base64url of 1 to %d bytes",
                           name, MST_JWK_FIELD - 2);
    }

    return MST_OK;
}


static EVP_PKEY *
mst_jwk_build(const char *type, OSSL_PARAM_BLD *bld)
{
    EVP_PKEY      *pkey;
    OSSL_PARAM    *params;
    EVP_PKEY_CTX  *ctx;

    pkey = NULL;
    params = OSSL_PARAM_BLD_to_param(bld);
    ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);

    if (params == NULL || ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1
        || EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_PUBLIC_KEY, params) != 1)
    {
        pkey = NULL;
    }

    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);

    return pkey;
}


static int
mst_jwks_pem(mst_jwks_t *set, const char *data, size_t len,
    const mst_jwa_list_t *algs, mst_err_t *err)
{
    int               rc;
    BIO              *bio;
    long              n;
    char             *name, *header;
    size_t            i;
    EVP_PKEY         *pkey;
    unsigned char    *der;
    const mst_jwa_t  *alg;

    if (len > INT_MAX) {
        return mst_err_set(err, "is too large");
    }

    bio = BIO_new_mem_buf(data, (int) len);
    if (bio == NULL) {
        return mst_err_set(err, "out of memory");
    }

    rc = MST_OK;
    ERR_clear_error();

    for (i = 0; rc == MST_OK; i++) {

        if (PEM_read_bio(bio, &name, &header, &der, &n) != 1) {

            if (ERR_GET_REASON(ERR_peek_last_error())
                != PEM_R_NO_START_LINE)
            {
                rc = mst_err_set(err, "block %zu is damaged", i + 1);
            }

            break;
        }

        pkey = NULL;
        rc = mst_jwk_pem(name, der, n, &pkey, err);

        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_clear_free(der, (size_t) n);

        if (rc != MST_OK) {
            break;
        }

        alg = mst_jwk_choose(algs, pkey);

        if (alg == NULL) {
            EVP_PKEY_free(pkey);
            continue;
        }

        rc = mst_jwk_keep(set, pkey, mst_str(NULL, 0), alg, err);
    }

    BIO_free(bio);

    if (rc == MST_OK && i == 0) {
        return mst_err_set(err, "is neither a JWKS nor PEM");
    }

    return rc;
}


static int
mst_jwk_pem(const char *name, const unsigned char *der, long len,
    EVP_PKEY **pkey, mst_err_t *err)
{
    X509  *cert;

    if (strstr(name, "PRIVATE KEY")) {
        return mst_err_set(err, "holds a private key, which has no place "
                           "here: openssl pkey -pubout makes a public one");
    }

    if (strcmp(name, "PUBLIC KEY") == 0) {
        *pkey = d2i_PUBKEY(NULL, &der, len);

    } else if (strcmp(name, "RSA PUBLIC KEY") == 0) {
        *pkey = d2i_PublicKey(EVP_PKEY_RSA, NULL, &der, len);

    } else if (strcmp(name, "CERTIFICATE") == 0) {
        cert = d2i_X509(NULL, &der, len);
        *pkey = X509_get_pubkey(cert);
        X509_free(cert);

    } else {
        return mst_err_set(err, "\"BEGIN %.64s\" is neither a public key nor "
                           "a certificate", name);
    }

    return *pkey ? MST_OK : mst_err_set(err, "\"BEGIN %s\" is damaged or of "
                                        "an unknown type", name);
}


/* takes the key over, in every case */

static int
mst_jwk_keep(mst_jwks_t *set, EVP_PKEY *pkey, mst_str_t kid,
    const mst_jwa_t *alg, mst_err_t *err)
{
    char       *copy;
    mst_jwk_t  *key;

    copy = NULL;

    if (mst_jwk_check(pkey, alg, err) != MST_OK) {
        goto failed;
    }

    if (set->n == MST_JWK_MAX) {
        (void) mst_err_set(err, "holds more than %d keys", MST_JWK_MAX);
        goto failed;
    }

    if (kid.data) {
        copy = mst_alloc(kid.len + 1);
        if (copy == NULL) {
            (void) mst_err_set(err, "out of memory");
            goto failed;
        }

        memcpy(copy, kid.data, kid.len + 1);
    }

    key = &set->key[set->n++];
    key->kid = mst_str(copy, kid.len);
    key->alg = alg;
    key->pkey = pkey;

    return MST_OK;

failed:

    EVP_PKEY_free(pkey);

    return MST_ERROR;
}


static int
mst_jwk_check(EVP_PKEY *pkey, const mst_jwa_t *alg, mst_err_t *err)
{
    int            ok, bits;
    size_t         len;
    EVP_PKEY_CTX  *ctx;

    if (!mst_jwa_fits(alg, pkey)) {
        return mst_err_set(err, "has a type that is not of %s", alg->name);
    }

    if (alg->secret) {
        len = 0;
        (void) EVP_PKEY_get_raw_private_key(pkey, NULL, &len);

        return len >= alg->size ? MST_OK
                                : mst_err_set(err, "has %zu bytes, a secret "
                                              "of %s must have %zu", len,
                                              alg->name, alg->size);
    }

    bits = EVP_PKEY_get_bits(pkey);

    if (strcmp(alg->type, "RSA") == 0
        && (bits < MST_JWK_RSA_BITS || bits > MST_JWK_RSA_MAX))
    {
        return mst_err_set(err, "has %d bits, an RSA key here must have %d "
                           "to %d", bits, MST_JWK_RSA_BITS, MST_JWK_RSA_MAX);
    }

    ctx = EVP_PKEY_CTX_new_from_pkey(NULL, pkey, NULL);
    ok = ctx && EVP_PKEY_public_check(ctx) == 1;
    EVP_PKEY_CTX_free(ctx);

    return ok ? MST_OK : mst_err_set(err, "is no sound public key");
}


static const mst_jwa_t *
mst_jwk_choose(const mst_jwa_list_t *algs, EVP_PKEY *pkey)
{
    size_t  i;

    for (i = 0; i < algs->n; i++) {
        if (mst_jwa_fits(algs->alg[i], pkey)) {
            return algs->alg[i];
        }
    }

    return NULL;
}


void
mst_jwks_destroy(mst_jwks_t *set)
{
    size_t  i;

    if (set == NULL) {
        return;
    }

    for (i = 0; i < set->n; i++) {
        mst_free((void *) set->key[i].kid.data);
        EVP_PKEY_free(set->key[i].pkey);
    }

    mst_free(set);
}
