
/* Which keys of a file are taken, for what, and which are an error. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/mst_jwk.h"
#include "base/mst_mem.h"
#include "mst_jwt_sign.h"


static mst_jwa_list_t  standard, all;
static mst_buf_t       file;


static const mst_jwa_t *
find(const char *name)
{
    return mst_jwa_find(mst_str(name, strlen(name)));
}


static mst_jwks_t *
parse(const char *text, const mst_jwa_list_t *algs, mst_err_t *err)
{
    mst_jwks_t  *set;

    err->text[0] = '\0';
    set = mst_jwks_parse(text, strlen(text), algs, err);

    assert_int_equal(ERR_peek_error(), 0);
    assert_int_equal(set == NULL, err->text[0] != '\0');

    return set;
}


static void
fails(const char *text, const mst_jwa_list_t *algs, const char *part)
{
    mst_err_t  err;

    assert_null(parse(text, algs, &err));

    if (strstr(err.text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, err.text);
    }
}


static const char *
text(void)
{
    (void) mst_buf_char(&file, '\0');
    file.len--;

    return file.data;
}


/* one JWK of this key, with more members */

static const char *
jwk(EVP_PKEY *key, const char *more)
{
    mst_buf_reset(&file);
    sign_jwk(&file, key, more);

    return text();
}


/* one is enough: they take long to make */

static EVP_PKEY *
rsa_key(void)
{
    static EVP_PKEY  *key;

    if (key == NULL) {
        key = sign_key("RSA");
    }

    EVP_PKEY_up_ref(key);

    return key;
}


static int
setup(void **state)
{
    (void) state;

    mst_buf_init(&file);
    mst_jwa_list_default(&standard);
    mst_jwa_list_default(&all);

    all.alg[all.n++] = find("HS256");
    all.alg[all.n++] = find("HS384");
    all.alg[all.n++] = find("HS512");

    return 0;
}


static int
teardown(void **state)
{
    (void) state;
    mst_buf_fini(&file);

    return 0;
}


typedef struct {
    const char  *type;
    const char  *alg;                  /* of a key that names none */
} mst_default_t;


static void
test_types(void **state)
{
    size_t       i;
    EVP_PKEY    *key;
    mst_err_t    err;
    mst_jwks_t  *set;

    static const mst_default_t  types[] = {
        { "RSA", "RS256" }, { "P-256", "ES256" }, { "P-384", "ES384" },
        { "P-521", "ES512" }, { "Ed25519", "EdDSA" }, { "Ed448", "EdDSA" }
    };

    (void) state;

    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        key = sign_key(types[i].type);

        set = parse(jwk(key, ""), &standard, &err);
        assert_non_null(set);
        assert_int_equal(set->n, 1);
        assert_string_equal(set->key[0].alg->name, types[i].alg);
        assert_null(set->key[0].kid.data);
        assert_int_equal(EVP_PKEY_eq(set->key[0].pkey, key), 1);
        mst_jwks_destroy(set);

        mst_buf_reset(&file);
        sign_pem(&file, key, 0);
        set = parse(text(), &standard, &err);
        assert_non_null(set);
        assert_string_equal(set->key[0].alg->name, types[i].alg);
        assert_int_equal(EVP_PKEY_eq(set->key[0].pkey, key), 1);
        mst_jwks_destroy(set);

        mst_buf_reset(&file);
        sign_pem(&file, key, 1);
        fails(text(), &standard, "private key");

        EVP_PKEY_free(key);
    }
}


/* a set as a provider has it: rotation, and keys for other things */

static void
test_set(void **state)
{
    EVP_PKEY    *rsa, *ec, *ed, *x, *secret;
    mst_err_t    err;
    mst_jwks_t  *set;

    (void) state;

    rsa = rsa_key();
    ec = sign_key("P-256");
    ed = sign_key("Ed25519");
    x = sign_key("X25519");
    secret = sign_secret("0123456789abcdef0123456789abcdef", 32);

    mst_buf_reset(&file);
    (void) mst_buf_text(&file, "\n {\"keys\":[");
    sign_jwk(&file, rsa, ",\"kid\":\"old\",\"alg\":\"PS384\"");
    (void) mst_buf_char(&file, ',');
    sign_jwk(&file, rsa, ",\"kid\":\"new\",\"use\":\"sig\","
                         "\"key_ops\":[\"verify\"],\"x5t\":\"abc\"");
    (void) mst_buf_char(&file, ',');
    sign_jwk(&file, rsa, ",\"use\":\"enc\",\"alg\":\"RSA-OAEP\"");
    (void) mst_buf_char(&file, ',');
    sign_jwk(&file, rsa, ",\"alg\":\"RSA-OAEP\"");
    (void) mst_buf_char(&file, ',');
    sign_jwk(&file, rsa, ",\"key_ops\":[\"encrypt\"]");
    (void) mst_buf_char(&file, ',');
    sign_jwk(&file, ec, ",\"kid\":\"\"");
    (void) mst_buf_char(&file, ',');
    sign_jwk(&file, x, "");
    (void) mst_buf_char(&file, ',');
    sign_jwk(&file, secret, ",\"kid\":\"hs\"");
    (void) mst_buf_text(&file, ",{\"kty\":\"AKP\"},"
                               "{\"kty\":\"EC\",\"crv\":\"secp256k1\"},");
    sign_jwk(&file, ed, "");
    (void) mst_buf_text(&file, "]}\n");

    set = parse(text(), &standard, &err);
    assert_non_null(set);
    assert_int_equal(set->n, 4);
    assert_true(mst_str_eq(set->key[0].kid, "old"));
    assert_string_equal(set->key[0].alg->name, "PS384");
    assert_true(mst_str_eq(set->key[1].kid, "new"));
    assert_string_equal(set->key[1].alg->name, "RS256");
    assert_non_null(set->key[2].kid.data);
    assert_int_equal(set->key[2].kid.len, 0);
    assert_string_equal(set->key[3].alg->name, "EdDSA");
    mst_jwks_destroy(set);

    /* secrets only where they are asked for */

    set = parse(text(), &all, &err);
    assert_non_null(set);
    assert_int_equal(set->n, 5);
    assert_string_equal(set->key[3].alg->name, "HS256");
    mst_jwks_destroy(set);

    EVP_PKEY_free(rsa);
    EVP_PKEY_free(ec);
    EVP_PKEY_free(ed);
    EVP_PKEY_free(x);
    EVP_PKEY_free(secret);
}


/* the list says which algorithm a key gets, and whether it gets one */

static void
test_list(void **state)
{
    EVP_PKEY        *rsa;
    mst_err_t        err;
    mst_jwks_t      *set;
    mst_jwa_list_t   list;

    (void) state;

    rsa = rsa_key();
    list.n = 2;
    list.alg[0] = find("PS512");
    list.alg[1] = find("RS512");

    set = parse(jwk(rsa, ""), &list, &err);
    assert_non_null(set);
    assert_string_equal(set->key[0].alg->name, "PS512");
    mst_jwks_destroy(set);

    fails(jwk(rsa, ",\"alg\":\"RS256\""), &list, "holds no key");
    fails(jwk(rsa, ",\"alg\":\"ES256\""), &standard, "type");
    fails(jwk(rsa, ",\"alg\":\"HS256\""), &all, "type");
    fails(jwk(rsa, ",\"alg\":\"none\""), &all, "holds no key");
    fails(jwk(rsa, ",\"alg\":1"), &all, "\"alg\"");
    fails(jwk(rsa, ",\"kid\":1"), &all, "\"kid\"");
    fails(jwk(rsa, ",\"n\":\"AAAA\""), &all, "duplicate");
    fails(jwk(rsa, ",\"d\":\"AAAA\""), &all, "private key");

    EVP_PKEY_free(rsa);
}


static void
test_errors(void **state)
{
    EVP_PKEY  *rsa, *secret;

    (void) state;

    fails("", &standard, "neither a JWKS nor PEM");
    fails("hello\n", &standard, "neither a JWKS nor PEM");
    fails("{", &standard, "line 1");
    fails("{}", &standard, "key 1: is no JWK");
    fails("{\"keys\":{}}", &standard, "not an array");
    fails("{\"keys\":[]}", &standard, "holds no key");
    fails("{\"keys\":[7]}", &standard, "key 1: is no JWK");
    fails("{\"keys\":[{\"kty\":\"X\"},{}]}", &standard, "key 2: is no JWK");
    fails("{\"kty\":\"RSA\"}", &standard, "\"n\"");
    fails("{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"A+/=\"}", &standard,
          "\"e\"");
    fails("{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}", &standard,
          "17 bits");
    fails("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AQAB\",\"y\":\"AQAB\"}",
          &standard, "3 and 3 bytes");
    fails("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAAAAAAAAAAAAAAAAAAAAAA"
          "AAAAAAAAAAAAAAAAAAA\",\"y\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
          "AAAAAAAAA\"}", &standard, "no point on curve P-256");
    fails("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AQAB\"}", &standard,
          "no Ed25519 key");
    fails("{\"kty\":\"OKP\",\"crv\":\"P-256\",\"x\":\"AQAB\"}", &standard,
          "holds no key");
    fails("-----BEGIN PUBLIC KEY-----\nAQAB\n-----END PUBLIC KEY-----\n",
          &standard, "damaged");
    fails("-----BEGIN PUBLIC KEY-----\nAQAB\n", &standard, "damaged");
    fails("-----BEGIN CERTIFICATE-----\nAQAB\n-----END CERTIFICATE-----\n",
          &standard, "damaged");
    fails("-----BEGIN X-----\nAQAB\n-----END X-----\n", &standard,
          "\"BEGIN X\" is neither");

    rsa = sign_key("RSA1024");
    fails(jwk(rsa, ""), &standard, "1024 bits");
    EVP_PKEY_free(rsa);

    secret = sign_secret("0123456789abcdef0123456789abcdef", 32);
    fails(jwk(secret, ""), &standard, "holds no key");
    fails(jwk(secret, ",\"alg\":\"HS256\""), &standard, "holds no key");
    fails(jwk(secret, ",\"alg\":\"HS384\""), &all, "32 bytes");
    EVP_PKEY_free(secret);
}


/* a certificate is a coat of its key; the old form of RSA keys */

static void
test_pem(void **state)
{
    BIO         *bio;
    char        *data;
    long         n;
    X509        *cert;
    EVP_PKEY    *rsa, *ec;
    mst_err_t    err;
    mst_jwks_t  *set;

    (void) state;

    rsa = rsa_key();
    ec = sign_key("P-384");

    cert = X509_new();
    assert_int_equal(X509_set_pubkey(cert, ec), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    assert_true(X509_sign(cert, ec, EVP_sha384()) > 0);

    bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_X509(bio, cert), 1);
    (void) BIO_puts(bio, "\ntext between the blocks is none of ours\n");
    assert_int_equal(PEM_write_bio_PUBKEY(bio, rsa), 1);
    n = BIO_get_mem_data(bio, &data);

    set = mst_jwks_parse(data, (size_t) n, &standard, &err);
    assert_non_null(set);
    assert_int_equal(set->n, 2);
    assert_string_equal(set->key[0].alg->name, "ES384");
    assert_string_equal(set->key[1].alg->name, "RS256");
    mst_jwks_destroy(set);

    /* cut in the second block: not a file with one key */

    err.text[0] = '\0';
    assert_null(mst_jwks_parse(data, (size_t) n - 100, &standard, &err));
    assert_non_null(strstr(err.text, "block 2 is damaged"));

    BIO_free(bio);
    X509_free(cert);
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(ec);
}


static void
test_many(void **state)
{
    int          i;
    EVP_PKEY    *ed;
    mst_err_t    err;
    mst_jwks_t  *set;

    (void) state;

    ed = sign_key("Ed25519");
    mst_buf_reset(&file);
    (void) mst_buf_text(&file, "{\"keys\":[");

    for (i = 0; i < MST_JWK_MAX; i++) {
        (void) mst_buf_text(&file, i ? "," : "");
        sign_jwk(&file, ed, "");
    }

    (void) mst_buf_text(&file, "]}");
    set = parse(text(), &standard, &err);
    assert_non_null(set);
    assert_int_equal(set->n, MST_JWK_MAX);
    mst_jwks_destroy(set);

    file.len -= 2;
    (void) mst_buf_char(&file, ',');
    sign_jwk(&file, ed, "");
    (void) mst_buf_text(&file, "]}");
    fails(text(), &standard, "more than 64 keys");

    EVP_PKEY_free(ed);
}


static void
test_memory(void **state)
{
    long         n;
    EVP_PKEY    *ed;
    mst_err_t    err;
    mst_jwks_t  *set;

    (void) state;

    ed = sign_key("Ed25519");
    (void) jwk(ed, ",\"kid\":\"a\"");
    set = NULL;

    for (n = 1; set == NULL; n++) {
        err.text[0] = '\0';
        mst_mem_fail_after(n);
        set = mst_jwks_parse(file.data, file.len, &standard, &err);
        mst_mem_fail_after(0);
        assert_int_equal(set == NULL, strstr(err.text, "memory") != NULL);
    }

    assert_int_equal(n, 4);
    mst_jwks_destroy(set);
    EVP_PKEY_free(ed);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_pem),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
