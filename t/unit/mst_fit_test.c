
/* Requests beside a model: length, ids, experts. */

#include "request.h"
#include "api/mst_fit.h"


typedef struct {
    mst_api_t    api;
    const char  *fields;
    size_t       n_prompt;
    uint32_t     context;
    uint32_t     max_tokens;           /* 0: context_length_exceeded */
    uint32_t     soft_tokens;
} mst_limit_t;


static void
test_limits(void **state)
{
    char                body[300];
    size_t              i;
    mst_request_t      *r;
    mst_api_error_t     e;
    const mst_limit_t  *l;

    static const mst_limit_t  t[] = {
        { C, "", 10, 100, 90, 0 },
        { T, "", 10, 100, 16, 0 },
        { T, "", 90, 100, 10, 0 },
        { C, "", 99, 100, 1, 0 },
        { C, "", 100, 100, 0, 0 },
        { C, "", 101, 100, 0, 0 },
        { C, "", SIZE_MAX, 100, 0, 0 },
        { C, "", (size_t) 1 << 32, 100, 0, 0 },
        { C, ",\"max_tokens\":5", 10, 100, 5, 0 },
        { T, ",\"max_tokens\":50", 10, 100, 50, 0 },
        { C, ",\"max_tokens\":2147483647", 10, 100, 90, 0 },
        { C, ",\"max_tokens\":5,\"max_completion_tokens\":7", 10, 100, 7, 0 },
        { C, ",\"max_tokens\":7,\"max_completion_tokens\":5", 10, 100, 5, 0 },

        /* soft: hard end at the larger of 1024 and itself */

        { C, ",\"max_new_tokens\":20", 10, 8192, 1024, 20 },
        { T, ",\"max_new_tokens\":20", 10, 8192, 1024, 20 },
        { C, ",\"max_new_tokens\":1024", 10, 8192, 1024, 0 },
        { C, ",\"max_new_tokens\":2000", 10, 8192, 2000, 0 },
        { C, ",\"max_new_tokens\":20", 10, 100, 90, 20 },
        { C, ",\"max_new_tokens\":200", 10, 100, 90, 0 },
        { C, ",\"max_new_tokens\":20,\"hard_max_new_tokens\":30", 10, 100, 30,
          20 },
        { C, ",\"max_new_tokens\":30,\"hard_max_new_tokens\":30", 10, 100, 30,
          0 },
        { C, ",\"max_new_tokens\":20,\"hard_max_new_tokens\":3000", 10, 8192,
          3000, 20 },
        { C, ",\"hard_max_new_tokens\":30", 10, 100, 30, 0 },
        { T, ",\"hard_max_new_tokens\":30", 10, 100, 30, 0 },

        /* both families: the strict one bounds too */

        { C, ",\"max_new_tokens\":20,\"max_tokens\":50", 10, 8192, 50, 20 },
        { C, ",\"max_new_tokens\":20,\"max_tokens\":5", 10, 8192, 5, 0 },
        { C, ",\"max_new_tokens\":20,\"max_tokens\":5000", 10, 8192, 1024,
          20 },
        { C, ",\"max_new_tokens\":20,\"hard_max_new_tokens\":40,"
          "\"max_completion_tokens\":30,\"max_tokens\":10", 10, 8192, 30, 20 }
    };

    (void) state;

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        l = &t[i];

        (void) snprintf(body, sizeof(body), "{%s%s}", l->api == C ? M : P,
                        l->fields);
        r = good(l->api, body);
        memset(&e, 0, sizeof(e));

        if (l->max_tokens == 0) {
            assert_int_equal(mst_fit_length(r, 0, l->n_prompt, l->context,
                                            &e), MST_ERROR);
            assert_int_equal(e.status, 400);
            assert_string_equal(e.code, "context_length_exceeded");
            assert_string_equal(e.param, "messages");
            assert_non_null(strstr(e.message,
                                   "maximum context length is 100 tokens"));

        } else {
            assert_int_equal(mst_fit_length(r, 0, l->n_prompt, l->context,
                                            &e), MST_OK);

            if (r->params.max_tokens != l->max_tokens
                || r->params.soft_tokens != l->soft_tokens)
            {
                fail_msg("%s: %u %u", body, r->params.max_tokens,
                         r->params.soft_tokens);
            }
        }

        mst_request_destroy(r);
    }

    r = good(T, "{\"prompt\":\"\"}");
    assert_int_equal(mst_fit_length(r, 0, 0, 100, &e), MST_ERROR);
    assert_string_equal(e.param, "prompt");
    assert_non_null(strstr(e.message, "the prompt is empty"));
    assert_int_equal(mst_fit_length(r, 0, 1234, 1000, &e), MST_ERROR);
    assert_string_equal(e.param, "prompt");
    assert_non_null(strstr(e.message, "1000"));
    assert_non_null(strstr(e.message, "1234"));
    mst_request_destroy(r);

    r = good(T, "{\"prompt\":[\"a\",[1,2],\"\"]}");
    assert_int_equal(mst_fit_length(r, 2, 0, 100, &e), MST_ERROR);
    assert_string_equal(e.param, "prompt[2]");
    assert_non_null(strstr(e.message, "prompt[2] is empty"));
    assert_int_equal(mst_fit_length(r, 1, 1234, 1000, &e), MST_ERROR);
    assert_string_equal(e.param, "prompt[1]");
    assert_non_null(strstr(e.message, "but prompt[1] has 1234"));
    mst_request_destroy(r);
}


static void
test_ids(void **state)
{
    mst_request_t    *r;
    mst_api_error_t   e;

    (void) state;

    r = good(T, "{\"prompt\":[1,99],\"logit_bias\":{\"98\":1},"
                "\"stop_token_ids\":[2,97]}");
    assert_int_equal(mst_fit_ids(r, 100, &e), MST_OK);

    assert_int_equal(mst_fit_ids(r, 99, &e), MST_ERROR);
    assert_string_equal(e.param, "prompt[1]");
    assert_string_equal(e.message,
                        "prompt[1] is 99, must be a token id below 99");
    mst_request_destroy(r);

    r = good(C, "{" M ",\"logit_bias\":{\"98\":1},"
                "\"stop_token_ids\":[2,97]}");
    assert_int_equal(mst_fit_ids(r, 99, &e), MST_OK);
    assert_int_equal(mst_fit_ids(r, 98, &e), MST_ERROR);
    assert_string_equal(e.param, "logit_bias");
    assert_string_equal(e.message, "logit_bias has the key 98, must be a "
                        "token id below 98");
    mst_request_destroy(r);

    r = good(C, "{" M ",\"stop_token_ids\":[2,97]}");
    assert_int_equal(mst_fit_ids(r, 97, &e), MST_ERROR);
    assert_string_equal(e.param, "stop_token_ids[1]");
    assert_int_equal(e.status, 400);
    mst_request_destroy(r);

    r = good(D, "{\"tokens\":[5]}");
    assert_int_equal(mst_fit_ids(r, 5, &e), MST_ERROR);
    assert_string_equal(e.param, "tokens[0]");
    mst_request_destroy(r);
}


/* the host's cap bounds both families; its default is for neither */

static void
test_cap(void **state)
{
    size_t           i;
    mst_request_t   *r;
    mst_api_error_t  e;

    static const struct {
        mst_api_t    api;
        const char  *body;
        uint32_t     length;           /* the default; 0 = none */
        uint32_t     cap;
        uint32_t     max;              /* what comes of it */
        uint32_t     soft;
    } limits[] = {
        { C, "{" M "}", 0, 0, 90, 0 },
        { C, "{" M "}", 0, 50, 50, 0 },
        { C, "{" M "}", 20, 0, 20, 0 },
        { C, "{" M "}", 20, 10, 10, 0 },
        { C, "{" M "}", 0, 500, 90, 0 },
        { C, "{" M ",\"max_tokens\":30}", 20, 0, 30, 0 },
        { C, "{" M ",\"max_tokens\":30}", 20, 25, 25, 0 },
        { C, "{" M ",\"max_tokens\":30}", 20, 40, 30, 0 },
        { C, "{" M ",\"max_new_tokens\":5}", 3, 40, 40, 5 },
        { C, "{" M ",\"max_new_tokens\":50}", 3, 40, 40, 0 },
        { C, "{" M ",\"max_new_tokens\":5,\"hard_max_new_tokens\":60}", 3,
          40, 40, 5 },
        { C, "{" M ",\"hard_max_new_tokens\":60}", 3, 0, 60, 0 },
        { C, "{" M ",\"min_tokens\":30}", 20, 0, 30, 0 },
        { C, "{" M ",\"min_tokens\":30}", 20, 25, 25, 0 },
        { T, "{" P "}", 0, 0, 16, 0 },
        { T, "{" P "}", 0, 9, 9, 0 },
        { T, "{" P "}", 40, 0, 40, 0 },
        { T, "{" P ",\"echo\":true,\"max_tokens\":0}", 40, 9, 0, 0 }
    };

    (void) state;

    for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        r = mst_request_parse(limits[i].api, limits[i].body,
                              strlen(limits[i].body), &e);
        assert_non_null(r);

        if (limits[i].length) {
            mst_fit_default_length(r, limits[i].length);
        }

        r->cap = limits[i].cap;

        assert_int_equal(mst_fit_length(r, 0, 10, 100, &e), MST_OK);
        assert_int_equal(r->params.max_tokens, limits[i].max);
        assert_int_equal(r->params.soft_tokens, limits[i].soft);

        mst_request_destroy(r);
    }
}


static void
test_experts(void **state)
{
    mst_request_t    *r;
    mst_api_error_t   e;

    (void) state;

    r = good(C, "{" M ",\"num_experts_per_tok\":3}");
    assert_int_equal(mst_fit_experts(r, 3, &e), MST_OK);

    memset(&e, 0, sizeof(e));
    assert_int_equal(mst_fit_experts(r, 2, &e), MST_ERROR);
    assert_string_equal(e.param, "num_experts_per_tok");
    assert_string_equal(e.message, "num_experts_per_tok is 3, must be at most "
                        "the model's 2 experts");

    memset(&e, 0, sizeof(e));
    assert_int_equal(mst_fit_experts(r, 0, &e), MST_ERROR);
    assert_string_equal(e.message, "num_experts_per_tok is 3, which is for "
                        "mixtures of experts, and the model is none");
    assert_int_equal(e.status, 400);
    mst_request_destroy(r);

    r = good(C, "{" M "}");
    assert_int_equal(mst_fit_experts(r, 0, &e), MST_OK);
    mst_request_destroy(r);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_experts)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
