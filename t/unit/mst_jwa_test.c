
/* Each algorithm: its own signatures, and nobody else's. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/mst_b64url.h"
#include "mst_jwt_sign.h"


typedef struct {
    const char  *alg;
    const char  *type;                 /* of its key */
} mst_pair_t;


static const mst_pair_t  pairs[] = {
    { "RS256", "RSA" }, { "RS384", "RSA" }, { "RS512", "RSA" },
    { "PS256", "RSA" }, { "PS384", "RSA" }, { "PS512", "RSA" },
    { "ES256", "P-256" }, { "ES384", "P-384" }, { "ES512", "P-521" },
    { "EdDSA", "Ed25519" }, { "EdDSA", "Ed448" },
    { "HS256", NULL }, { "HS384", NULL }, { "HS512", NULL }
};

#define N_PAIRS  (sizeof(pairs) / sizeof(pairs[0]))

static const mst_str_t  input = mst_string("header.payload");
static EVP_PKEY        *keys[N_PAIRS];


static const mst_jwa_t *
find(const char *name)
{
    return mst_jwa_find(mst_str(name, strlen(name)));
}


static int
setup(void **state)
{
    size_t             i;
    static const char  secret[64] = "secret";

    (void) state;

    for (i = 0; i < N_PAIRS; i++) {
        if (i && pairs[i].type && strcmp(pairs[i].type, pairs[i - 1].type)
            == 0)
        {
            keys[i] = keys[i - 1];
            EVP_PKEY_up_ref(keys[i]);
            continue;
        }

        keys[i] = pairs[i].type ? sign_key(pairs[i].type)
                                : sign_secret(secret, sizeof(secret));
    }

    return 0;
}


static int
teardown(void **state)
{
    size_t  i;

    (void) state;

    for (i = 0; i < N_PAIRS; i++) {
        EVP_PKEY_free(keys[i]);
    }

    return 0;
}


static void
test_verify(void **state)
{
    size_t            i, j, len;
    const mst_jwa_t  *alg;
    unsigned char     sig[1024];

    (void) state;

    for (i = 0; i < N_PAIRS; i++) {
        alg = find(pairs[i].alg);
        assert_non_null(alg);

        len = sign_bytes(alg, keys[i], input, RSA_PSS_SALTLEN_DIGEST, sig);

        assert_true(mst_jwa_fits(alg, keys[i]));
        assert_true(mst_jwa_verify(alg, keys[i], input,
                                   mst_str((char *) sig, len)));

        /* any bit, any length, other bytes signed */

        for (j = 0; j < len; j += len / 9 + 1) {
            sig[j] ^= 1;
            assert_false(mst_jwa_verify(alg, keys[i], input,
                                        mst_str((char *) sig, len)));
            sig[j] ^= 1;
            assert_false(mst_jwa_verify(alg, keys[i], input,
                                        mst_str((char *) sig, j)));
        }

        assert_false(mst_jwa_verify(alg, keys[i], input,
                                    mst_str((char *) sig, len + 1)));
        assert_false(mst_jwa_verify(alg, keys[i],
                                    mst_str(input.data, input.len - 1),
                                    mst_str((char *) sig, len)));

        /* nginx takes what lies there for its own */

        assert_int_equal(ERR_peek_error(), 0);

        /* as another algorithm, and with another key */

        for (j = 0; j < N_PAIRS; j++) {
            if (find(pairs[j].alg) == alg && keys[j] == keys[i]) {
                continue;
            }

            if (mst_jwa_fits(find(pairs[j].alg), keys[j])) {
                assert_false(mst_jwa_verify(find(pairs[j].alg), keys[j],
                                            input,
                                            mst_str((char *) sig, len)));
            }
        }

        assert_int_equal(ERR_peek_error(), 0);
    }
}


/* a key is fit for the algorithms of its type and curve only */

static void
test_fits(void **state)
{
    size_t      i, j;
    EVP_PKEY   *odd;
    const char *a, *b;

    (void) state;

    for (i = 0; i < N_PAIRS; i++) {
        for (j = 0; j < N_PAIRS; j++) {
            a = pairs[i].type ? pairs[i].type : "oct";
            b = pairs[j].type ? pairs[j].type : "oct";

            assert_int_equal(mst_jwa_fits(find(pairs[i].alg), keys[j]),
                             strcmp(a, b) == 0
                             || (a[0] == 'E' && b[0] == 'E'));
        }
    }

    /* 256 bits, but another curve */

    odd = sign_key("secp256k1");

    for (i = 0; i < N_PAIRS; i++) {
        assert_false(mst_jwa_fits(find(pairs[i].alg), odd));
    }

    EVP_PKEY_free(odd);
}


static void
test_forms(void **state)
{
    size_t                len;
    ECDSA_SIG            *ec;
    unsigned char         sig[1024], *der;
    const mst_jwa_t      *alg;

    (void) state;

    /* DER, which EVP would take, is no signature of a token */

    alg = find("ES256");
    len = sign_bytes(alg, keys[6], input, 0, sig);
    ec = ECDSA_SIG_new();
    ECDSA_SIG_set0(ec, BN_bin2bn(sig, 32, NULL), BN_bin2bn(sig + 32, 32, NULL));
    der = NULL;
    len = (size_t) i2d_ECDSA_SIG(ec, &der);

    assert_false(mst_jwa_verify(alg, keys[6], input,
                                mst_str((char *) der, len)));
    OPENSSL_free(der);
    ECDSA_SIG_free(ec);

    /* r = s = 0 */

    memset(sig, 0, sizeof(sig));
    assert_false(mst_jwa_verify(alg, keys[6], input,
                                mst_str((char *) sig, 64)));

    /* the salt of PSS has one length */

    alg = find("PS256");
    len = sign_bytes(alg, keys[3], input, 20, sig);
    assert_false(mst_jwa_verify(alg, keys[3], input,
                                mst_str((char *) sig, len)));
    assert_int_equal(ERR_peek_error(), 0);
}


/* RFC 7515 A.1 and RFC 8037 A.4 */

static void
test_vectors(void **state)
{
    size_t          len, klen;
    EVP_PKEY       *key;
    unsigned char   sig[128], k[128];

    static const mst_str_t  hs_input = mst_string(
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJle"
        "HAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlf"
        "Q");
    static const mst_str_t  hs_sig = mst_string(
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    static const mst_str_t  hs_key = mst_string(
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hc"
        "gUuTwjAzZr1Z9CAow");

    static const mst_str_t  ed_input = mst_string(
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc");
    static const mst_str_t  ed_sig = mst_string(
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt"
        "9g7sVvpAr_MuM0KAg");
    static const mst_str_t  ed_key = mst_string(
        "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");

    (void) state;

    assert_int_equal(mst_b64url_decode(hs_sig, sig, &len), 0);
    assert_int_equal(mst_b64url_decode(hs_key, k, &klen), 0);
    key = sign_secret((char *) k, klen);
    assert_true(mst_jwa_verify(find("HS256"), key, hs_input,
                               mst_str((char *) sig, len)));
    EVP_PKEY_free(key);

    assert_int_equal(mst_b64url_decode(ed_sig, sig, &len), 0);
    assert_int_equal(mst_b64url_decode(ed_key, k, &klen), 0);
    key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, k, klen);
    assert_true(mst_jwa_verify(find("EdDSA"), key, ed_input,
                               mst_str((char *) sig, len)));
    EVP_PKEY_free(key);
}


static void
test_names(void **state)
{
    size_t          i;
    mst_jwa_list_t  list;

    static const char *const  wrong[] = {
        "none", "None", "NONE", "nOnE", "", "rs256", "RS256 ", "RS25", "RS1",
        "HS1", "ES256K", "Ed25519", "eddsa", "RSA-OAEP", "A128KW", "dir"
    };

    (void) state;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_null(find(wrong[i]));
    }

    assert_null(mst_jwa_find(mst_str("none\0", 5)));
    assert_null(mst_jwa_find(mst_str("RS256\0", 6)));

    mst_jwa_list_default(&list);
    assert_int_equal(list.n, 10);

    for (i = 0; i < N_PAIRS; i++) {
        assert_int_equal(mst_jwa_list_has(&list, find(pairs[i].alg)),
                         pairs[i].type != NULL);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_names)
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
