
/*
 * What a stranger sends as a token, what an operator gives as keys, and what
 * an issuer may claim; the first byte says which.
 */

#include "fuzz.h"

#include <openssl/err.h>

#include "api/mst_claim.h"
#include "api/mst_jwt.h"


/* of RFC 7515 A.1 and A.3, and RFC 8037 A.2 */

static const char  keys[] =
    "{\"keys\":[{\"kty\":\"oct\",\"alg\":\"HS256\",\"k\":\"AyM1SysPpbyDfgZld3u"
    "mj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow\"},"
    "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"ec\",\"x\":\"f83OJ3D2xF1Bg8vu"
    "b9tLe1gHMzV76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikY"
    "jKIWI5a0\"},{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7T"
    "yWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";


static void
fuzz_algs(mst_jwa_list_t *algs)
{
    size_t                    i;
    static const char *const  secret[] = { "HS256", "HS384", "HS512" };

    mst_jwa_list_default(algs);

    for (i = 0; i < 3; i++) {
        algs->alg[algs->n++] = mst_jwa_find(mst_str(secret[i], 5));
    }
}


static void
fuzz_claims(const json_t *claims)
{
    int                i, rc;
    mst_buf_t          out;
    json_t            *value;
    const char        *name;
    mst_str_t          wanted;
    mst_jwt_policy_t   p;

    memset(&p, 0, sizeof(p));
    wanted = mst_str("joe", 3);

    for (i = 0; i < 8; i++) {
        p.issuers = &wanted;
        p.n_issuers = i & 1;
        p.audiences = &wanted;
        p.n_audiences = i >> 1 & 1;
        p.require_exp = i >> 2;
        p.leeway = i;

        rc = (int) mst_jwt_check(claims, &p, 1300819379);
        fuzz_check(mst_jwt_text((mst_jwt_rc_t) rc)[0] != '\0');
    }

    json_object_foreach((json_t *) claims, name, value) {
        fuzz_check(mst_claim_name(claims, mst_str(name, strlen(name)))
                   == value);

        mst_buf_init(&out);
        rc = mst_claim_text(value, &out);
        fuzz_check(rc == MST_OK || rc == MST_DECLINED);

        if (rc == MST_OK && out.len) {
            fuzz_check(memchr(out.data, '\n', out.len) == NULL);
            fuzz_check(memchr(out.data, '\0', out.len) == NULL);
        }

        mst_buf_fini(&out);
    }
}


static void
fuzz_token(mst_str_t token)
{
    json_t             *claims;
    mst_err_t           err = { "" };
    mst_jwt_rc_t        rc;
    mst_jwa_list_t      algs;
    static mst_jwks_t  *set;

    if (set == NULL) {
        fuzz_algs(&algs);
        set = mst_jwks_parse(keys, sizeof(keys) - 1, &algs, &err);
        fuzz_check(set != NULL && set->n == 3);
    }

    claims = mst_jwt_verify(set, token, &rc);
    fuzz_check((claims == NULL) == (rc != MST_JWT_OK));
    fuzz_check(ERR_peek_error() == 0);

    if (claims) {
        fuzz_check(token.len <= MST_JWT_MAX_SIZE);
        fuzz_claims(claims);
        json_decref(claims);
    }
}


static void
fuzz_keys(mst_str_t file)
{
    size_t           i;
    mst_err_t        err = { "" };
    mst_jwks_t      *set;
    mst_jwa_list_t   algs;

    fuzz_algs(&algs);
    set = mst_jwks_parse(file.data, file.len, &algs, &err);

    fuzz_check((set == NULL) == (err.text[0] != '\0'));
    fuzz_check(ERR_peek_error() == 0);

    for (i = 0; set && i < set->n; i++) {
        fuzz_check(mst_jwa_fits(set->key[i].alg, set->key[i].pkey));
        fuzz_check(!mst_jwa_verify(set->key[i].alg, set->key[i].pkey, file,
                                   file));
    }

    mst_jwks_destroy(set);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t     *claims;
    mst_str_t   s;

    if (size == 0) {
        return 0;
    }

    s = mst_str((const char *) data + 1, size - 1);

    switch (data[0]) {

    case 't':
        fuzz_token(s);
        break;

    case 'k':
        fuzz_keys(s);
        break;

    default:
        claims = json_loadb(s.data, s.len, JSON_REJECT_DUPLICATES, NULL);

        if (json_is_object(claims)) {
            fuzz_claims(claims);
        }

        json_decref(claims);
    }

    return 0;
}
