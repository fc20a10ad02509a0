
/*
 * Tokens: which are believed, and which must never be.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/mst_jwt.h"
#include "mst_jwt_sign.h"


#define PAYLOAD  "{\"sub\":\"me\",\"exp\":2000}"

static EVP_PKEY     *rsa, *rsa2, *ec, *ed, *secret, *stranger;
static mst_jwks_t   *set;
static mst_buf_t     out, buf;


/* what became of a token, and that nothing is left behind */

static mst_jwt_rc_t
verify(mst_str_t token)
{
    json_t        *claims;
    mst_jwt_rc_t   rc;

    claims = mst_jwt_verify(set, token, &rc);

    assert_int_equal(claims == NULL, rc != MST_JWT_OK);
    assert_int_equal(ERR_peek_error(), 0);
    json_decref(claims);

    return rc;
}


static mst_jwt_rc_t
signed_by(EVP_PKEY *key, const char *alg, const char *header)
{
    return verify(sign_token(&out, alg, key, header, PAYLOAD));
}


static int
setup(void **state)
{
    mst_err_t       err;
    mst_jwa_list_t  algs;

    (void) state;

    mst_buf_init(&out);
    mst_buf_init(&buf);

    rsa = sign_key("RSA");
    rsa2 = sign_key("RSA");
    ec = sign_key("P-256");
    ed = sign_key("Ed25519");
    stranger = sign_key("RSA");
    secret = sign_secret("0123456789abcdef0123456789abcdef", 32);

    mst_jwa_list_default(&algs);
    algs.alg[algs.n++] = mst_jwa_find(mst_str("HS256", 5));

    (void) mst_buf_text(&buf, "{\"keys\":[");
    sign_jwk(&buf, rsa, ",\"kid\":\"a\"");
    (void) mst_buf_char(&buf, ',');
    sign_jwk(&buf, rsa2, ",\"kid\":\"b\",\"alg\":\"PS256\"");
    (void) mst_buf_char(&buf, ',');
    sign_jwk(&buf, ec, ",\"kid\":\"c\"");
    (void) mst_buf_char(&buf, ',');
    sign_jwk(&buf, ed, "");
    (void) mst_buf_char(&buf, ',');
    sign_jwk(&buf, secret, ",\"kid\":\"s\",\"alg\":\"HS256\"");
    (void) mst_buf_text(&buf, "]}");

    err.text[0] = '\0';
    set = mst_jwks_parse(buf.data, buf.len, &algs, &err);
    assert_non_null(set);
    assert_int_equal(set->n, 5);

    return 0;
}


static int
teardown(void **state)
{
    (void) state;

    mst_jwks_destroy(set);
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(rsa2);
    EVP_PKEY_free(ec);
    EVP_PKEY_free(ed);
    EVP_PKEY_free(secret);
    EVP_PKEY_free(stranger);
    mst_buf_fini(&out);
    mst_buf_fini(&buf);

    return 0;
}


static void
test_good(void **state)
{
    json_t        *claims;
    mst_jwt_rc_t   rc;

    (void) state;

    claims = mst_jwt_verify(set, sign_token(&out, "RS256", rsa,
                                            "{\"alg\":\"RS256\",\"kid\":\"a\","
                                            "\"typ\":\"JWT\"}", PAYLOAD), &rc);
    assert_int_equal(rc, MST_JWT_OK);
    assert_string_equal(json_string_value(json_object_get(claims, "sub")),
                        "me");
    json_decref(claims);

    /* without kid: the keys for this algorithm; a key without kid: any */

    assert_int_equal(signed_by(rsa, "RS256", "{\"alg\":\"RS256\"}"),
                     MST_JWT_OK);
    assert_int_equal(signed_by(rsa2, "PS256",
                               "{\"kid\":\"b\",\"alg\":\"PS256\"}"),
                     MST_JWT_OK);
    assert_int_equal(signed_by(ec, "ES256",
                               "{\"kid\":\"c\",\"alg\":\"ES256\"}"),
                     MST_JWT_OK);
    assert_int_equal(signed_by(ed, "EdDSA", "{\"alg\":\"EdDSA\"}"),
                     MST_JWT_OK);
    assert_int_equal(signed_by(ed, "EdDSA",
                               "{\"alg\":\"EdDSA\",\"kid\":\"x\"}"),
                     MST_JWT_OK);
    assert_int_equal(signed_by(secret, "HS256",
                               "{\"alg\":\"HS256\",\"kid\":\"s\"}"),
                     MST_JWT_OK);
}


static void
test_algorithm(void **state)
{
    size_t         i;
    BIGNUM        *n;
    EVP_PKEY      *key;
    unsigned char  raw[256];

    static const char *const  names[] = {
        "none", "None", "NONE", "nOnE", "", "rs256", "RS512", "PS256",
        "ES256", "EdDSA", "HS256", "RSA-OAEP"
    };

    (void) state;

    /* a good signature under another name */

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mst_buf_reset(&buf);
        (void) mst_buf_printf(&buf, "{\"alg\":\"%s\",\"kid\":\"a\"}%c",
                              names[i], 0);
        assert_int_not_equal(signed_by(rsa, "RS256", buf.data), MST_JWT_OK);

        /* and none at all */

        (void) sign_token(&out, "RS256", rsa, buf.data, PAYLOAD);
        out.len = (size_t) ((char *) memrchr(out.data, '.', out.len)
                            - out.data) + 1;
        assert_int_not_equal(verify(mst_str(out.data, out.len)), MST_JWT_OK);
        assert_int_equal(verify(mst_str(out.data, out.len - 1)),
                         MST_JWT_MALFORMED);
    }

    /* a key is for one algorithm, though its type could do others */

    assert_int_equal(signed_by(rsa, "RS384", "{\"alg\":\"RS384\"}"),
                     MST_JWT_ALG);
    assert_int_equal(signed_by(rsa, "PS256",
                               "{\"alg\":\"PS256\",\"kid\":\"a\"}"),
                     MST_JWT_NO_KEY);
    assert_int_equal(signed_by(rsa2, "RS256",
                               "{\"alg\":\"RS256\",\"kid\":\"b\"}"),
                     MST_JWT_NO_KEY);

    /* what everybody knows of an RSA key is no secret of HS256 */

    mst_buf_reset(&buf);
    sign_pem(&buf, rsa, 0);
    key = sign_secret(buf.data, buf.len);
    assert_int_equal(signed_by(key, "HS256", "{\"alg\":\"HS256\"}"),
                     MST_JWT_SIGNATURE);
    assert_int_equal(signed_by(key, "HS256",
                               "{\"alg\":\"HS256\",\"kid\":\"a\"}"),
                     MST_JWT_NO_KEY);
    EVP_PKEY_free(key);

    n = NULL;
    assert_int_equal(EVP_PKEY_get_bn_param(rsa, OSSL_PKEY_PARAM_RSA_N, &n), 1);
    assert_int_equal(BN_bn2binpad(n, raw, 256), 256);
    BN_free(n);
    key = sign_secret((char *) raw, sizeof(raw));
    assert_int_equal(signed_by(key, "HS256", "{\"alg\":\"HS256\"}"),
                     MST_JWT_SIGNATURE);
    assert_int_equal(signed_by(key, "HS256",
                               "{\"alg\":\"HS256\",\"kid\":\"a\"}"),
                     MST_JWT_NO_KEY);
    EVP_PKEY_free(key);
}


static void
test_key(void **state)
{
    (void) state;

    assert_int_equal(signed_by(rsa, "RS256",
                               "{\"alg\":\"RS256\",\"kid\":\"b\"}"),
                     MST_JWT_NO_KEY);
    assert_int_equal(signed_by(rsa, "RS256",
                               "{\"alg\":\"RS256\",\"kid\":\"A\"}"),
                     MST_JWT_NO_KEY);
    assert_int_equal(signed_by(rsa, "RS256",
                               "{\"alg\":\"RS256\",\"kid\":\"\"}"),
                     MST_JWT_NO_KEY);
    assert_int_equal(signed_by(stranger, "RS256",
                               "{\"alg\":\"RS256\",\"kid\":\"a\"}"),
                     MST_JWT_SIGNATURE);

    /* a key that the token brings along is looked at by nobody */

    mst_buf_reset(&buf);
    (void) mst_buf_text(&buf, "{\"alg\":\"RS256\",\"kid\":\"a\",\"jwk\":");
    sign_jwk(&buf, stranger, "");
    (void) mst_buf_printf(&buf, ",\"jku\":\"https://example.com/keys\","
                          "\"x5u\":\"https://example.com/cert\"}%c", 0);
    assert_int_equal(signed_by(stranger, "RS256", buf.data),
                     MST_JWT_SIGNATURE);
    assert_int_equal(signed_by(rsa, "RS256", buf.data), MST_JWT_OK);
}


static void
test_header(void **state)
{
    size_t  i;

    static const char *const  headers[] = {
        "", "{", "[]", "null", "\"x\"", "7", "{\"alg\":\"RS256\"} {}",
        "{\"alg\":\"RS256\"}x", "{}", "{\"alg\":null}", "{\"alg\":[\"RS256\"]}",
        "{\"alg\":\"RS256\",\"kid\":1}", "{\"alg\":\"RS256\",\"kid\":null}",
        "{\"alg\":\"none\",\"alg\":\"RS256\"}",
        "{\"alg\":\"RS256\",\"alg\":\"RS256\"}",
        "{\"alg\":\"RS256\",\"crit\":[\"exp\"]}",
        "{\"alg\":\"RS256\",\"crit\":[\"b64\"],\"b64\":false}",
        "{\"alg\":\"RS256\\u0000\"}", "{\"alg\":\"RS256\",\"x\":\"\xff\"}"
    };

    (void) state;

    for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        assert_int_equal(signed_by(rsa, "RS256", headers[i]),
                         MST_JWT_MALFORMED);
    }
}


static void
test_form(void **state)
{
    size_t      i, len;
    char       *copy, *big;
    mst_str_t   token;

    static const char *const  texts[] = {
        "", ".", "..", "...", "a", "a.b", "a.b.c.d", "a.b.c", "....",
        "eyJhbGciOiJSUzI1NiJ9", "eyJhbGciOiJSUzI1NiJ9.",
        "eyJhbGciOiJSUzI1NiJ9..", "eyJhbGciOiJSUzI1NiJ9.e30.",
        "eyJhbGciOiJSUzI1NiJ9.e30.AAAA", "eyJhbGciOiJSUzI1NiJ9.e30.AAAA=",
        "eyJhbGciOiJSUzI1NiJ9=.e30.AAAA", " eyJhbGciOiJSUzI1NiJ9.e30.AAAA"
    };

    (void) state;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_not_equal(verify(mst_str(texts[i], strlen(texts[i]))),
                             MST_JWT_OK);
    }

    /* every prefix, every changed character, at the end of its memory */

    token = sign_token(&out, "ES256", ec, "{\"alg\":\"ES256\"}", PAYLOAD);
    assert_int_equal(verify(token), MST_JWT_OK);

    for (len = 0; len < token.len; len++) {
        copy = malloc(len + 1);
        memcpy(copy, token.data, len);
        assert_int_not_equal(verify(mst_str(copy, len)), MST_JWT_OK);
        free(copy);
    }

    copy = malloc(token.len + 1);
    memcpy(copy, token.data, token.len);

    for (i = 0; i < token.len; i++) {
        copy[i] = token.data[i] == 'A' ? 'B' : 'A';
        assert_int_not_equal(verify(mst_str(copy, token.len)), MST_JWT_OK);
        copy[i] = token.data[i];
    }

    copy[token.len] = '=';
    assert_int_equal(verify(mst_str(copy, token.len + 1)), MST_JWT_SIGNATURE);
    free(copy);

    /* 64 KiB, with a good signature: too much */

    big = malloc(65536);
    memset(big, 'x', 65536);
    memcpy(big, "{\"a\":\"", 6);
    memcpy(big + 49000, "\"}", 3);
    token = sign_token(&out, "RS256", rsa, "{\"alg\":\"RS256\"}", big);
    assert_true(token.len > 65535);
    assert_int_equal(verify(token), MST_JWT_MALFORMED);

    /* and just enough */

    memset(big, 'x', 65536);
    memcpy(big, "{\"a\":\"", 6);
    memcpy(big + 11900, "\"}", 3);
    token = sign_token(&out, "RS256", rsa, "{\"alg\":\"RS256\"}", big);
    assert_in_range(token.len, 16000, MST_JWT_MAX_SIZE);
    assert_int_equal(verify(token), MST_JWT_OK);

    /* a signature that is longer than any */

    out.len = (size_t) ((char *) memrchr(out.data, '.', out.len) - out.data)
              + 1;
    memset(big, 'A', 4000);
    (void) sign_token(&out, "RS256", rsa, "{\"alg\":\"RS256\"}", "{}");
    out.len = (size_t) ((char *) memrchr(out.data, '.', out.len) - out.data)
              + 1;
    (void) mst_buf_append(&out, big, 4000);
    assert_int_equal(verify(mst_str(out.data, out.len)), MST_JWT_SIGNATURE);

    free(big);
}


static void
test_claims(void **state)
{
    size_t  i;

    static const char *const  wrong[] = {
        "", "[]", "[{\"sub\":\"me\"}]", "\"me\"", "7", "null", "{",
        "{\"sub\":\"me\",\"sub\":\"you\"}", "{\"exp\":1,\"exp\":9e9}",
        "{\"a\":{\"b\":1,\"b\":2}}", "{} {}", "{}x", "{\"a\":\"\\u0000\"}",
        "{\"a\":1e400}", "{\"a\":\"\xff\"}", "{\"exp\":NaN}"
    };

    (void) state;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(verify(sign_token(&out, "EdDSA", ed,
                                           "{\"alg\":\"EdDSA\"}", wrong[i])),
                         MST_JWT_CLAIMS);
    }
}


typedef struct {
    const char    *claims;
    mst_jwt_rc_t   rc;
    time_t         leeway;
} mst_case_t;


static void
test_times(void **state)
{
    size_t             i;
    json_t            *claims;
    mst_jwt_policy_t   p;

    /* it is 1000 o'clock */

    static const mst_case_t  cases[] = {
        { "{\"exp\":1001}", MST_JWT_OK, 0 },
        { "{\"exp\":1000.5}", MST_JWT_OK, 0 },
        { "{\"exp\":1000}", MST_JWT_EXPIRED, 0 },
        { "{\"exp\":999}", MST_JWT_EXPIRED, 0 },
        { "{\"exp\":999}", MST_JWT_OK, 2 },
        { "{\"exp\":998}", MST_JWT_EXPIRED, 2 },
        { "{\"exp\":0}", MST_JWT_EXPIRED, 0 },
        { "{\"exp\":-1e300}", MST_JWT_EXPIRED, 0 },
        { "{\"exp\":1e300}", MST_JWT_OK, 0 },
        { "{\"exp\":9223372036854775807}", MST_JWT_OK, 0 },
        { "{\"exp\":\"1001\"}", MST_JWT_CLAIMS, 0 },
        { "{\"exp\":null}", MST_JWT_CLAIMS, 0 },
        { "{\"exp\":true}", MST_JWT_CLAIMS, 0 },
        { "{\"exp\":[1001]}", MST_JWT_CLAIMS, 0 },
        { "{}", MST_JWT_NO_EXP, 0 },
        { "{\"Exp\":1001}", MST_JWT_NO_EXP, 0 },

        { "{\"exp\":2000,\"nbf\":1000}", MST_JWT_OK, 0 },
        { "{\"exp\":2000,\"nbf\":1001}", MST_JWT_EARLY, 0 },
        { "{\"exp\":2000,\"nbf\":1001}", MST_JWT_OK, 1 },
        { "{\"exp\":2000,\"nbf\":1002}", MST_JWT_EARLY, 1 },
        { "{\"exp\":2000,\"nbf\":\"1\"}", MST_JWT_CLAIMS, 0 },
        { "{\"exp\":2000,\"nbf\":null}", MST_JWT_CLAIMS, 0 },
        { "{\"exp\":2000,\"iat\":1000}", MST_JWT_OK, 0 },
        { "{\"exp\":2000,\"iat\":1001}", MST_JWT_EARLY, 0 },
        { "{\"exp\":2000,\"iat\":1005}", MST_JWT_OK, 5 },
        { "{\"exp\":2000,\"iat\":\"now\"}", MST_JWT_CLAIMS, 0 },
        { "{\"exp\":2000,\"sub\":7}", MST_JWT_CLAIMS, 0 },
        { "{\"exp\":2000,\"sub\":\"\"}", MST_JWT_OK, 0 }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(&p, 0, sizeof(p));
        p.leeway = cases[i].leeway;
        p.require_exp = 1;

        claims = json_loads(cases[i].claims, 0, NULL);
        assert_non_null(claims);

        if (mst_jwt_check(claims, &p, 1000) != cases[i].rc) {
            fail_msg("%s: %s", cases[i].claims,
                     mst_jwt_text(mst_jwt_check(claims, &p, 1000)));
        }

        p.require_exp = 0;

        assert_int_equal(mst_jwt_check(claims, &p, 1000),
                         cases[i].rc == MST_JWT_NO_EXP ? MST_JWT_OK
                                                       : cases[i].rc);
        json_decref(claims);
    }
}


static void
test_audience(void **state)
{
    size_t             i;
    json_t            *claims;
    mst_jwt_policy_t   p;

    static const mst_str_t  issuers[] = {
        mst_string("https://a.example"), mst_string("https://b.example")
    };
    static const mst_str_t  audiences[] = {
        mst_string("llm"), mst_string("chat")
    };

    static const mst_case_t  cases[] = {
        { "{\"iss\":\"https://a.example\",\"aud\":\"llm\"}", MST_JWT_OK, 0 },
        { "{\"iss\":\"https://b.example\",\"aud\":[\"x\",\"chat\"]}",
          MST_JWT_OK, 0 },
        { "{\"iss\":\"https://a.example/\",\"aud\":\"llm\"}",
          MST_JWT_ISSUER, 0 },
        { "{\"iss\":[\"https://a.example\"],\"aud\":\"llm\"}",
          MST_JWT_ISSUER, 0 },
        { "{\"iss\":\"\",\"aud\":\"llm\"}", MST_JWT_ISSUER, 0 },
        { "{\"aud\":\"llm\"}", MST_JWT_ISSUER, 0 },
        { "{\"iss\":\"https://a.example\"}", MST_JWT_AUDIENCE, 0 },
        { "{\"iss\":\"https://a.example\",\"aud\":\"LLM\"}",
          MST_JWT_AUDIENCE, 0 },
        { "{\"iss\":\"https://a.example\",\"aud\":\"llm chat\"}",
          MST_JWT_AUDIENCE, 0 },
        { "{\"iss\":\"https://a.example\",\"aud\":[]}", MST_JWT_AUDIENCE, 0 },
        { "{\"iss\":\"https://a.example\",\"aud\":[[\"llm\"]]}",
          MST_JWT_AUDIENCE, 0 },
        { "{\"iss\":\"https://a.example\",\"aud\":{\"llm\":1}}",
          MST_JWT_AUDIENCE, 0 },
        { "{\"iss\":\"https://a.example\",\"aud\":[1,null,\"llm\"]}",
          MST_JWT_OK, 0 }
    };

    (void) state;

    memset(&p, 0, sizeof(p));

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        claims = json_loads(cases[i].claims, 0, NULL);
        assert_non_null(claims);

        p.issuers = issuers;
        p.n_issuers = 2;
        p.audiences = audiences;
        p.n_audiences = 2;

        if (mst_jwt_check(claims, &p, 1000) != cases[i].rc) {
            fail_msg("%s: %s", cases[i].claims,
                     mst_jwt_text(mst_jwt_check(claims, &p, 1000)));
        }

        p.n_issuers = 0;
        p.n_audiences = 0;
        assert_int_equal(mst_jwt_check(claims, &p, 1000), MST_JWT_OK);

        json_decref(claims);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_algorithm),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_audience)
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
