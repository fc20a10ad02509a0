
/*
 * What a credential costs a worker, without nginx around it: nanoseconds of
 * a call, the best of several rounds, as JSON.  For t/bench/policy.py.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/mst_jwt.h"
#include "api/mst_jwt_cache.h"
#include "api/mst_keyfile.h"
#include "base/mst_time.h"
#include "mst_jwt_sign.h"


#define ROUNDS   7
#define N_KEYS   10000


typedef struct {
    const char       *alg;
    const char       *type;
} bench_alg_t;


static const char  payload[] =
    "{\"iss\":\"https://id.example.com/\",\"aud\":[\"llm\",\"account\"],"
    "\"sub\":\"6c1d8bd2-6f0f-4ff7-8c7e-3a8a2f0b9a55\",\"exp\":4000000000,"
    "\"iat\":1700000000,\"azp\":\"llm-client\",\"scope\":\"openid email\","
    "\"realm_access\":{\"roles\":[\"llm\",\"offline_access\",\"user\"]},"
    "\"email\":\"someone@example.com\",\"name\":\"Some One\",\"jti\":"
    "\"b7c6c0f2-31c7-4d0b-9c5b-0a2f2f4f6f11\",\"sid\":"
    "\"c1f0a6d8-8b1d-4c55-9f52-57a2a1b9d0aa\"}";


static mst_jwks_t       *set;
static mst_jwt_cache_t  *cache;
static mst_keyfile_t    *keys;
static mst_str_t         token;
static mst_jwt_policy_t  policy;


static void
bench_verify(void)
{
    json_t        *claims;
    mst_jwt_rc_t   rc;

    claims = mst_jwt_verify(set, token, &rc);
    assert_non_null(claims);
    json_decref(claims);
}


/* what jwt.c and keyset.c do with a token that was seen before */

static void
bench_cached(void)
{
    json_t  *claims;

    claims = mst_jwt_cache_find(cache, token);
    assert_non_null(claims);
    json_incref(claims);
    assert_int_equal(mst_jwt_check(claims, &policy, 1800000000), MST_JWT_OK);
    json_decref(claims);
}


static void
bench_key(void)
{
    assert_non_null(mst_keyfile_find(keys, mst_str("sk-4711", 7)));
}


static double
bench_ns(void (*call)(void), int n)
{
    int       i, round;
    double    ns, best;
    uint64_t  start;

    best = 0;

    for (round = 0; round < ROUNDS; round++) {
        start = mst_time_ns();

        for (i = 0; i < n; i++) {
            call();
        }

        ns = (double) (mst_time_ns() - start) / n;
        best = (round == 0 || ns < best) ? ns : best;
    }

    return best;
}


static void
bench_tokens(void)
{
    size_t           i;
    EVP_PKEY        *key;
    mst_err_t        err;
    mst_buf_t        jwk, out;
    mst_jwa_list_t   algs;
    json_t          *claims;
    mst_jwt_rc_t     rc;
    char             header[64];

    static const bench_alg_t  all[] = {
        { "RS256", "RSA" }, { "PS256", "RSA" }, { "ES256", "P-256" },
        { "EdDSA", "Ed25519" }
    };
    static const mst_str_t  issuer = mst_string("https://id.example.com/");
    static const mst_str_t  audience = mst_string("llm");

    policy.issuers = &issuer;
    policy.n_issuers = 1;
    policy.audiences = &audience;
    policy.n_audiences = 1;
    policy.require_exp = 1;

    for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        mst_buf_init(&jwk);
        mst_buf_init(&out);

        (void) snprintf(header, sizeof(header),
                        "{\"alg\":\"%s\",\"typ\":\"JWT\"}", all[i].alg);
        key = sign_key(all[i].type);
        algs.n = 1;
        algs.alg[0] = mst_jwa_find(mst_str(all[i].alg, 5));

        sign_jwk(&jwk, key, "");
        err.text[0] = '\0';
        set = mst_jwks_parse(jwk.data, jwk.len, &algs, &err);
        assert_non_null(set);
        token = sign_token(&out, all[i].alg, key, header, payload);

        printf("\"%s\": %.0f, ", all[i].alg, bench_ns(bench_verify, 500));

        if (i == 0) {
            cache = mst_jwt_cache_create(4096, 8 << 20, 7);
            claims = mst_jwt_verify(set, token, &rc);
            mst_jwt_cache_add(cache, token, claims);
            json_decref(claims);

            printf("\"cached\": %.0f, \"bytes\": %zu, ",
                   bench_ns(bench_cached, 20000), token.len);
            mst_jwt_cache_destroy(cache);
        }

        mst_jwks_destroy(set);
        EVP_PKEY_free(key);
        mst_buf_fini(&jwk);
        mst_buf_fini(&out);
    }
}


static void
bench_keys(void)
{
    int             i;
    char            key[32];
    size_t          j;
    mst_buf_t       file;
    mst_err_t       err;
    unsigned char   md[EVP_MAX_MD_SIZE];

    mst_buf_init(&file);

    for (i = 0; i < N_KEYS; i++) {
        (void) snprintf(key, sizeof(key), "sk-%d", i);
        EVP_Digest(key, strlen(key), md, NULL, EVP_sha256(), NULL);
        (void) mst_buf_printf(&file, "user%d:{SHA256}", i);

        for (j = 0; j < MST_KEYFILE_DIGEST; j++) {
            (void) mst_buf_printf(&file, "%02x", md[j]);
        }

        (void) mst_buf_char(&file, '\n');
    }

    err.text[0] = '\0';
    keys = mst_keyfile_parse(file.data, file.len, 7, &err);
    assert_non_null(keys);

    printf("\"key\": %.0f", bench_ns(bench_key, 20000));

    mst_keyfile_destroy(keys);
    mst_buf_fini(&file);
}


int
main(void)
{
    printf("{");
    bench_tokens();
    bench_keys();
    printf("}\n");

    return 0;
}
