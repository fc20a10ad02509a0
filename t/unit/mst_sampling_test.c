
/*
 * Sampling fields, stops and limits, as a chat and as a text completion
 * give them.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_sampling.h"
#include "base/mst_mem.h"


#define C  MST_API_CHAT
#define T  MST_API_COMPLETION

#define RANGE   "invalid_value"
#define TYPE    "invalid_type"
#define UNSERV  "unsupported"

#define IDS32   "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,"    \
                "22,23,24,25,26,27,28,29,30,31"

#define Z8      "zzzzzzzz"
#define Z64     Z8 Z8 Z8 Z8 Z8 Z8 Z8 Z8
#define Z256    Z64 Z64 Z64 Z64


typedef struct {
    mst_api_t    api;
    const char  *fields;
    const char  *code;                 /* NULL: accepted */
    const char  *param;
    const char  *part;
} mst_case_t;


static const mst_case_t  cases[] = {

    /* n and best_of */

    { C, "\"n\":1", NULL, NULL, NULL },
    { C, "\"n\":1.0", NULL, NULL, NULL },
    { C, "\"n\":null", NULL, NULL, NULL },
    { C, "\"n\":0", RANGE, "n", "n is 0, must be an integer from 1 to 128" },
    { C, "\"n\":-1", RANGE, "n", "n is -1" },
    { C, "\"n\":129", RANGE, "n", "n is 129" },
    { C, "\"n\":2", NULL, NULL, NULL },
    { C, "\"n\":128", NULL, NULL, NULL },
    { T, "\"n\":2", NULL, NULL, NULL },
    { C, "\"n\":1.5", TYPE, "n", "n is 1.5" },
    { C, "\"n\":\"1\"", TYPE, "n", "n is \"1\"" },
    { T, "\"best_of\":1", NULL, NULL, NULL },
    { T, "\"best_of\":1,\"n\":1", NULL, NULL, NULL },
    { T, "\"best_of\":null", NULL, NULL, NULL },
    { T, "\"best_of\":2", UNSERV, "best_of", "best_of is 2" },
    { T, "\"best_of\":0", RANGE, "best_of", "from 1 to 128" },
    { T, "\"best_of\":\"x\"", TYPE, "best_of", "is \"x\"" },
    { C, "\"best_of\":7", NULL, NULL, NULL },

    /* temperature and its kind */

    { C, "\"temperature\":0", NULL, NULL, NULL },
    { C, "\"temperature\":2", NULL, NULL, NULL },
    { C, "\"temperature\":null", NULL, NULL, NULL },
    { C, "\"temperature\":2.01", RANGE, "temperature",
      "temperature is 2.01, must be a number from 0 to 2" },
    { T, "\"temperature\":-0.1", RANGE, "temperature", "is -0.1" },
    { C, "\"temperature\":\"hot\"", TYPE, "temperature", "is \"hot\"" },
    { C, "\"temperature\":true", TYPE, "temperature", "is true" },
    { C, "\"temperature\":[1]", TYPE, "temperature", "is a list" },
    { C, "\"top_p\":1", NULL, NULL, NULL },
    { C, "\"top_p\":1.0", NULL, NULL, NULL },
    { C, "\"top_p\":1e-300", NULL, NULL, NULL },
    { C, "\"top_p\":0", RANGE, "top_p", "above 0 and at most 1" },
    { C, "\"top_p\":0.0", RANGE, "top_p", "top_p is 0, must be" },
    { C, "\"top_p\":1.0001", RANGE, "top_p", "is 1.0001" },
    { C, "\"top_p\":-1", RANGE, "top_p", "is -1" },
    { T, "\"top_p\":\"1\"", TYPE, "top_p", "is \"1\"" },
    { C, "\"top_k\":-1", NULL, NULL, NULL },
    { C, "\"top_k\":0", NULL, NULL, NULL },
    { C, "\"top_k\":40.0", NULL, NULL, NULL },
    { C, "\"top_k\":-2", RANGE, "top_k", "is -2" },
    { C, "\"top_k\":2147483648", RANGE, "top_k", "is 2147483648" },
    { C, "\"top_k\":1.5", TYPE, "top_k", "is 1.5" },
    { C, "\"min_p\":0", NULL, NULL, NULL },
    { C, "\"min_p\":1", NULL, NULL, NULL },
    { C, "\"min_p\":1.1", RANGE, "min_p", "from 0 to 1" },
    { C, "\"min_p\":-0.1", RANGE, "min_p", "is -0.1" },
    { C, "\"frequency_penalty\":-2", NULL, NULL, NULL },
    { C, "\"frequency_penalty\":2.1", RANGE, "frequency_penalty",
      "from -2 to 2" },
    { C, "\"presence_penalty\":2", NULL, NULL, NULL },
    { C, "\"presence_penalty\":-2.1", RANGE, "presence_penalty",
      "from -2 to 2" },
    { C, "\"presence_penalty\":{}", TYPE, "presence_penalty",
      "is an empty object" },
    { C, "\"repetition_penalty\":1.1", NULL, NULL, NULL },
    { C, "\"repetition_penalty\":0", RANGE, "repetition_penalty",
      "from 0.01 to 100" },
    { C, "\"repetition_penalty\":-1", RANGE, "repetition_penalty", "is -1" },
    { C, "\"repetition_penalty\":\"1\"", TYPE, "repetition_penalty",
      "is \"1\"" },

    /* seed */

    { C, "\"seed\":-1", NULL, NULL, NULL },
    { C, "\"seed\":9223372036854775807", NULL, NULL, NULL },
    { C, "\"seed\":1.5", TYPE, "seed", "is 1.5" },
    { C, "\"seed\":\"x\"", TYPE, "seed", "is \"x\"" },
    { C, "\"seed\":9223372036854775808", "invalid_json", "seed", "64 bits" },
    { C, "\"seed\":1e19", TYPE, "seed", "is 1e+19" },
    { C, "\"random_seed\":5", NULL, NULL, NULL },
    { C, "\"random_seed\":true", TYPE, "random_seed", "is true" },
    { C, "\"seed\":5,\"random_seed\":true", TYPE, "random_seed", "is true" },
    { C, "\"random_seed\":5,\"seed\":null", NULL, NULL, NULL },
    { C, "\"ignore_eos\":true", NULL, NULL, NULL },
    { C, "\"ignore_eos\":1", TYPE, "ignore_eos", "true or false" },

    /* limits */

    { C, "\"max_tokens\":1", NULL, NULL, NULL },
    { C, "\"max_tokens\":5.0", NULL, NULL, NULL },
    { C, "\"max_tokens\":2147483647", NULL, NULL, NULL },
    { C, "\"max_tokens\":null", NULL, NULL, NULL },
    { C, "\"max_tokens\":0", RANGE, "max_tokens",
      "max_tokens is 0, must be an integer from 1 to 2147483647" },
    { T, "\"max_tokens\":0", RANGE, "max_tokens", "is 0" },
    { T, "\"max_tokens\":0,\"echo\":true", NULL, NULL, NULL },
    { T, "\"max_tokens\":0,\"echo\":true,\"min_tokens\":1", RANGE,
      "min_tokens", "at most the answer's limit, 0" },
    { T, "\"max_tokens\":-1,\"echo\":true", RANGE, "max_tokens", "is -1" },
    { C, "\"max_tokens\":-1", RANGE, "max_tokens", "is -1" },
    { C, "\"max_tokens\":2147483648", RANGE, "max_tokens", "is 2147483648" },
    { C, "\"max_tokens\":1e10", RANGE, "max_tokens", "is 1e+10" },
    { C, "\"max_tokens\":5.5", TYPE, "max_tokens", "is 5.5" },
    { C, "\"max_tokens\":\"5\"", TYPE, "max_tokens", "is \"5\"" },
    { C, "\"max_tokens\":1e400", "invalid_json", "max_tokens", "is too large" },
    { C, "\"max_completion_tokens\":0", RANGE, "max_completion_tokens",
      "is 0" },
    { C, "\"max_completion_tokens\":5.5", TYPE, "max_completion_tokens",
      "is 5.5" },
    { C, "\"max_completion_tokens\":5,\"max_tokens\":0", RANGE, "max_tokens",
      "is 0" },
    { C, "\"max_new_tokens\":0", RANGE, "max_new_tokens", "is 0" },
    { C, "\"max_new_tokens\":2.5", TYPE, "max_new_tokens", "is 2.5" },
    { C, "\"hard_max_new_tokens\":0", RANGE, "hard_max_new_tokens", "is 0" },
    { C, "\"hard_max_new_tokens\":true", TYPE, "hard_max_new_tokens",
      "is true" },
    { C, "\"hard_max_new_tokens\":9,\"max_new_tokens\":10", RANGE,
      "hard_max_new_tokens", "is 9, must be at least max_new_tokens, 10" },
    { C, "\"hard_max_new_tokens\":9,\"max_new_tokens\":9", NULL, NULL, NULL },
    { C, "\"hard_max_new_tokens\":9", NULL, NULL, NULL },
    { C, "\"min_tokens\":0", NULL, NULL, NULL },
    { C, "\"min_tokens\":-1", RANGE, "min_tokens", "is -1" },
    { C, "\"min_tokens\":6,\"max_tokens\":5", RANGE, "min_tokens",
      "min_tokens is 6, must be at most the answer's limit, 5" },
    { C, "\"min_tokens\":5,\"max_tokens\":5", NULL, NULL, NULL },

    /* logprobs */

    { C, "\"logprobs\":true", NULL, NULL, NULL },
    { C, "\"logprobs\":false", NULL, NULL, NULL },
    { C, "\"logprobs\":3", TYPE, "logprobs", "is 3, must be true or false" },
    { C, "\"logprobs\":true,\"top_logprobs\":0", NULL, NULL, NULL },
    { C, "\"logprobs\":true,\"top_logprobs\":20", NULL, NULL, NULL },
    { C, "\"logprobs\":true,\"top_logprobs\":21", RANGE, "top_logprobs",
      "from 0 to 20" },
    { C, "\"logprobs\":true,\"top_logprobs\":-1", RANGE, "top_logprobs",
      "is -1" },
    { C, "\"top_logprobs\":5", RANGE, "top_logprobs",
      "top_logprobs is 5, which needs \"logprobs\": true" },
    { C, "\"logprobs\":false,\"top_logprobs\":5", RANGE, "top_logprobs",
      "which needs" },
    { C, "\"top_logprobs\":null", NULL, NULL, NULL },
    { T, "\"logprobs\":0", NULL, NULL, NULL },
    { T, "\"logprobs\":20", NULL, NULL, NULL },
    { T, "\"logprobs\":21", RANGE, "logprobs", "from 0 to 20" },
    { T, "\"logprobs\":true", TYPE, "logprobs", "is true" },
    { T, "\"top_logprobs\":5", NULL, NULL, NULL },

    /* logit_bias */

    { C, "\"logit_bias\":{}", NULL, NULL, NULL },
    { C, "\"logit_bias\":null", NULL, NULL, NULL },
    { C, "\"logit_bias\":{\"0\":-100,\"4294967295\":100}", NULL, NULL, NULL },
    { C, "\"logit_bias\":[]", TYPE, "logit_bias", "must be an object" },
    { C, "\"logit_bias\":{\"x\":1}", RANGE, "logit_bias",
      "the key \"x\", must be a token id" },
    { C, "\"logit_bias\":{\"\":1}", RANGE, "logit_bias", "key \"\"" },
    { C, "\"logit_bias\":{\"-1\":1}", RANGE, "logit_bias", "key \"-1\"" },
    { C, "\"logit_bias\":{\"01\":1}", RANGE, "logit_bias", "key \"01\"" },
    { C, "\"logit_bias\":{\" 1\":1}", RANGE, "logit_bias", "key \" 1\"" },
    { C, "\"logit_bias\":{\"1.0\":1}", RANGE, "logit_bias", "key \"1.0\"" },
    { C, "\"logit_bias\":{\"4294967296\":1}", RANGE, "logit_bias",
      "key \"4294967296\"" },
    { C, "\"logit_bias\":{\"99999999999999999999\":1}", RANGE, "logit_bias",
      "key \"99999999999999999999\"" },
    { C, "\"logit_bias\":{\"5\":100.5}", RANGE, "logit_bias",
      "logit_bias of token 5 must be a number from -100 to 100" },
    { C, "\"logit_bias\":{\"5\":-101}", RANGE, "logit_bias", "of token 5" },
    { C, "\"logit_bias\":{\"5\":\"1\"}", TYPE, "logit_bias", "of token 5" },
    { C, "\"logit_bias\":{\"5\":null}", TYPE, "logit_bias", "of token 5" },

    /* stop */

    { C, "\"stop\":null", NULL, NULL, NULL },
    { C, "\"stop\":[]", NULL, NULL, NULL },
    { C, "\"stop\":\"x\"", NULL, NULL, NULL },
    { C, "\"stop\":\"" Z256 "\"", NULL, NULL, NULL },
    { C, "\"stop\":\"" Z256 "z\"", RANGE, "stop",
      "must have 1 to 256 bytes, has 257" },
    { C, "\"stop\":\"\"", RANGE, "stop", "must have 1 to 256 bytes, has 0" },
    { C, "\"stop\":[\"a\",\"\"]", RANGE, "stop[1]", "stop[1] is \"\"" },
    { C, "\"stop\":[\"a\",1]", TYPE, "stop[1]", "must be a string" },
    { C, "\"stop\":[null]", TYPE, "stop[0]", "must be a string" },
    { C, "\"stop\":5", TYPE, "stop", "stop is 5, must be a string" },
    { C, "\"stop\":{}", TYPE, "stop", "must be a string" },
    { C, "\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\","
      "\"10\",\"11\",\"12\",\"13\",\"14\",\"15\",\"16\"]", NULL, NULL, NULL },
    { T, "\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\","
      "\"10\",\"11\",\"12\",\"13\",\"14\",\"15\",\"16\",\"17\"]", RANGE,
      "stop", "stop has 17 strings, must have at most 16" },
    { C, "\"stop_token_ids\":[" IDS32 "]", NULL, NULL, NULL },
    { C, "\"stop_token_ids\":[" IDS32 ",32]", RANGE, "stop_token_ids",
      "has 33 ids, must have at most 32" },
    { C, "\"stop_token_ids\":5", TYPE, "stop_token_ids", "must be a list" },
    { C, "\"stop_token_ids\":[1,-1]", RANGE, "stop_token_ids[1]",
      "is -1, must be a token id" },
    { C, "\"stop_token_ids\":[4294967296]", RANGE, "stop_token_ids[0]",
      "is 4294967296" },
    { C, "\"stop_token_ids\":[1.5]", RANGE, "stop_token_ids[0]", "is 1.5" },
    { C, "\"stop_token_ids\":[\"1\"]", TYPE, "stop_token_ids[0]",
      "is \"1\"" }
};


static mst_request_t *
parse(mst_api_t api, const char *fields, mst_api_error_t *e)
{
    mst_buf_t       b;
    mst_request_t  *r;

    memset(e, 0, sizeof(mst_api_error_t));

    mst_buf_init(&b);
    (void) mst_buf_text(&b, api == C
                        ? "{\"messages\":[{\"role\":\"user\",\"content\":"
                          "\"x\"}]," : "{\"prompt\":\"x\",");
    (void) mst_buf_text(&b, fields);
    assert_int_equal(mst_buf_char(&b, '}'), MST_OK);

    r = mst_request_parse(api, b.data, b.len, e);

    mst_buf_fini(&b);

    return r;
}


static mst_request_t *
good(mst_api_t api, const char *fields)
{
    mst_request_t    *r;
    mst_api_error_t   e;

    r = parse(api, fields, &e);

    if (r == NULL) {
        fail_msg("%s: %s: %s", fields, e.param, e.message);
    }

    return r;
}


static void
test_table(void **state)
{
    size_t             i;
    mst_err_t          err;
    mst_request_t     *r;
    mst_api_error_t    e;
    const mst_case_t  *c;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        c = &cases[i];
        r = parse(c->api, c->fields, &e);

        if (c->code == NULL) {
            if (r == NULL) {
                fail_msg("%s: %s", c->fields, e.message);
            }

            /* what the API lets in, the engine must take */

            err.text[0] = '\0';

            if (mst_params_check(&r->params, &err) != MST_OK) {
                fail_msg("%s: %s", c->fields, err.text);
            }

            mst_request_destroy(r);
            continue;
        }

        if (r) {
            fail_msg("%s is accepted", c->fields);
        }

        if (strstr(e.message, c->part) == NULL || strcmp(e.code, c->code) != 0
            || strcmp(e.param, c->param) != 0)
        {
            fail_msg("%s: param %s, code %s, \"%s\"", c->fields, e.param,
                     e.code, e.message);
        }

        assert_int_equal(e.status, 400);
    }
}


static void
test_defaults(void **state)
{
    mst_params_t    d;
    mst_request_t  *r;

    (void) state;

    mst_params_default(&d);

    r = good(C, "\"unknown\":{\"a\":[1]}");

    assert_memory_equal(&r->params, &d, sizeof(d));
    assert_int_equal(r->n, 1);
    assert_int_equal(r->has_seed, 0);
    assert_int_equal(r->n_bias, 0);
    assert_int_equal(r->n_stop, 0);
    assert_int_equal(r->n_stop_ids, 0);
    assert_int_equal(r->max_tokens, 0);
    assert_int_equal(r->max_new_tokens, 0);
    assert_int_equal(r->hard_max_new_tokens, 0);
    assert_int_equal(r->logprobs, 0);

    mst_request_destroy(r);
}


static void
test_fields(void **state)
{
    mst_request_t  *r;

    (void) state;

    r = good(C, "\"temperature\":0.25,\"top_p\":0.5,\"min_p\":0.125,"
                "\"frequency_penalty\":-1.5,\"presence_penalty\":1.5,"
                "\"repetition_penalty\":1.25,\"top_k\":40,\"seed\":-7,"
                "\"random_seed\":8,\"ignore_eos\":true,\"min_tokens\":3,"
                "\"max_tokens\":50,\"max_completion_tokens\":60,"
                "\"max_new_tokens\":70,\"hard_max_new_tokens\":80,"
                "\"logprobs\":true,\"top_logprobs\":4,\"n\":1,"
                "\"logit_bias\":{\"17\":-2.5},\"stop_token_ids\":[9,8],"
                "\"stop\":[\"a\\u0000b\",\"\xc3\xa9\"]");

    assert_true(r->params.temperature == 0.25f);
    assert_true(r->params.top_p == 0.5f);
    assert_true(r->params.min_p == 0.125f);
    assert_true(r->params.frequency_penalty == -1.5f);
    assert_true(r->params.presence_penalty == 1.5f);
    assert_true(r->params.repetition_penalty == 1.25f);
    assert_int_equal(r->params.top_k, 40);
    assert_true(r->params.seed == (uint64_t) -7);
    assert_int_equal(r->has_seed, 1);
    assert_int_equal(r->params.flags,
                     MST_PARAMS_IGNORE_EOS | MST_PARAMS_LOGPROBS);
    assert_int_equal(r->params.min_tokens, 3);
    assert_int_equal(r->params.n_top, 4);
    assert_int_equal(r->max_tokens, 60);
    assert_int_equal(r->max_new_tokens, 70);
    assert_int_equal(r->hard_max_new_tokens, 80);
    assert_int_equal(r->logprobs, 1);

    assert_int_equal(r->n_bias, 1);
    assert_int_equal(r->bias[0].id, 17);
    assert_true(r->bias[0].value == -2.5f);

    assert_int_equal(r->n_stop_ids, 2);
    assert_int_equal(r->stop_ids[0], 9);
    assert_int_equal(r->stop_ids[1], 8);

    assert_int_equal(r->n_stop, 2);
    assert_int_equal(r->stop[0].len, 3);
    assert_memory_equal(r->stop[0].data, "a\0b", 3);
    assert_int_equal(r->stop[1].len, 2);
    assert_memory_equal(r->stop[1].data, "\xc3\xa9", 2);

    mst_request_destroy(r);
}


static void
test_forms(void **state)
{
    mst_request_t  *r;

    (void) state;

    r = good(C, "\"random_seed\":-8,\"top_k\":-1,\"stop\":\"END\","
                "\"max_tokens\":50.0,\"max_completion_tokens\":null");
    assert_true(r->params.seed == (uint64_t) -8);
    assert_int_equal(r->has_seed, 1);
    assert_int_equal(r->params.top_k, 0);
    assert_int_equal(r->max_tokens, 50);
    assert_int_equal(r->n_stop, 1);
    assert_memory_equal(r->stop[0].data, "END", 3);
    mst_request_destroy(r);

    r = good(C, "\"logprobs\":true");
    assert_int_equal(r->params.flags, MST_PARAMS_LOGPROBS);
    assert_int_equal(r->params.n_top, 0);
    mst_request_destroy(r);

    r = good(T, "\"logprobs\":5");
    assert_int_equal(r->logprobs, 1);
    assert_int_equal(r->params.flags, MST_PARAMS_LOGPROBS);
    assert_int_equal(r->params.n_top, 5);
    mst_request_destroy(r);

    r = good(T, "\"logprobs\":0");
    assert_int_equal(r->logprobs, 1);
    assert_int_equal(r->params.n_top, 0);
    mst_request_destroy(r);

    /* one entry for a key that came twice: the last */

    r = good(C, "\"logit_bias\":{\"5\":1,\"5\":2}");
    assert_int_equal(r->n_bias, 1);
    assert_true(r->bias[0].value == 2);
    mst_request_destroy(r);
}


static void
test_bias_many(void **state)
{
    char              key[32];
    unsigned          i, n;
    mst_buf_t         b;
    mst_request_t    *r;
    mst_api_error_t   e;

    (void) state;

    for (n = MST_MAX_BIAS; n <= MST_MAX_BIAS + 1; n++) {
        mst_buf_init(&b);
        (void) mst_buf_text(&b, "\"logit_bias\":{");

        for (i = 0; i < n; i++) {
            (void) snprintf(key, sizeof(key), "%s\"%u\":1", i ? "," : "", i);
            (void) mst_buf_text(&b, key);
        }

        (void) mst_buf_char(&b, '}');
        assert_int_equal(mst_buf_char(&b, '\0'), MST_OK);

        r = parse(C, b.data, &e);

        if (n == MST_MAX_BIAS) {
            assert_non_null(r);
            assert_int_equal(r->n_bias, n);
            mst_request_destroy(r);

        } else {
            assert_null(r);
            assert_string_equal(e.param, "logit_bias");
            assert_string_equal(e.message, "logit_bias has 1025 entries, "
                                "must have at most 1024");
        }

        mst_buf_fini(&b);
    }
}


/* every allocation may fail: 500, nothing leaks (the sanitizer looks) */

static void
test_memory(void **state)
{
    long              n;
    mst_request_t    *r;
    mst_api_error_t   e;

    static const char  body[] =
        "{\"prompt\":[1,2],\"logit_bias\":{\"5\":1},\"stop\":[\"a\"],"
        "\"stop_token_ids\":[1],\"user\":\"u\",\"model\":\"m\"}";

    (void) state;

    for (n = 1; n < 20; n++) {
        mst_mem_fail_after(n);
        r = mst_request_parse(T, body, sizeof(body) - 1, &e);
        mst_mem_fail_after(0);

        if (r) {
            mst_request_destroy(r);
            break;
        }

        assert_int_equal(e.status, 500);
        assert_string_equal(e.type, "server_error");
    }

    assert_int_equal(n, 10);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_bias_many),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
