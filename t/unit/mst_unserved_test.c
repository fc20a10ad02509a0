
/* Known fields that are not served: the inert values and all others. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_unserved.h"


#define C  MST_API_CHAT
#define T  MST_API_COMPLETION
#define K  MST_API_TOKENIZE


typedef struct {
    mst_api_t    api;
    const char  *name;
    const char  *inert[4];
    const char  *served[4];            /* refused values */
} mst_case_t;


static const mst_case_t  cases[] = {
    { C, "functions", { "[]" }, { "[{\"name\":\"f\"}]" } },
    { C, "function_call", { "\"none\"", "\"auto\"" },
      { "{\"name\":\"f\"}" } },
    { C, "response_format", { "{\"type\":\"text\"}" },
      { "{}", "\"text\"" } },
    { C, "audio", { NULL }, { "{\"voice\":\"a\"}", "{}" } },
    { C, "modalities", { "[\"text\"]" },
      { "[\"text\",\"audio\"]", "[\"audio\"]", "[]", "\"text\"" } },
    { C, "prediction", { NULL }, { "{\"type\":\"content\"}" } },
    { T, "reasoning_effort", { "\"none\"" }, { "\"low\"", "\"high\"" } },
    { C, "verbosity", { "\"medium\"" }, { "\"low\"" } },
    { C, "web_search_options", { NULL }, { "{}" } },
    { T, "suffix", { "\"\"" }, { "\"x\"", "1" } },
    { T, "safe_prompt", { "false" }, { "true", "0" } },
    { C, "prompt_mode", { NULL }, { "\"reasoning\"" } },
    { C, "documents", { "[]" }, { "[{}]" } },
    { T, "guided_json", { NULL }, { "{}", "\"{}\"" } },
    { C, "guided_regex", { NULL }, { "\"a+\"" } },
    { C, "structured_outputs", { "{}" }, { "{\"regex\":\"a\"}" } },
    { C, "grammar", { NULL }, { "\"root ::= x\"" } },
    { C, "bad_words", { "[]" }, { "[\"x\"]" } },
    { C, "allowed_token_ids", { NULL }, { "[1]", "[]" } },
    { C, "prompt_logprobs", { NULL }, { "1" } },
    { C, "use_beam_search", { "false" }, { "true" } },
    { C, "include_stop_str_in_output", { "false" }, { "true" } },
    { C, "skip_special_tokens", { "true" }, { "false" } },
    { C, "chat_template", { NULL }, { "\"x\"" } }
};


static int
check(mst_api_t api, const char *name, const char *value, mst_api_error_t *e)
{
    int           rc;
    char          body[200];
    json_t       *root;
    mst_field_t   f;

    memset(e, 0, sizeof(mst_api_error_t));
    memset(&f, 0, sizeof(mst_field_t));

    (void) snprintf(body, sizeof(body), "{\"%s\":%s}", name, value);

    root = json_loads(body, 0, NULL);
    assert_non_null(root);

    f.object = root;
    f.e = e;

    rc = mst_unserved_check(&f, api);

    json_decref(root);

    return rc;
}


static void
test_values(void **state)
{
    size_t             i, k;
    mst_api_error_t    e;
    const mst_case_t  *c;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        c = &cases[i];

        assert_int_equal(check(c->api, c->name, "null", &e), MST_OK);

        for (k = 0; k < 4 && c->inert[k]; k++) {
            if (check(c->api, c->name, c->inert[k], &e) != MST_OK) {
                fail_msg("%s: %s: %s", c->name, c->inert[k], e.message);
            }
        }

        for (k = 0; k < 4 && c->served[k]; k++) {
            if (check(c->api, c->name, c->served[k], &e) != MST_ERROR) {
                fail_msg("%s: %s is accepted", c->name, c->served[k]);
            }

            assert_int_equal(e.status, 400);
            assert_string_equal(e.code, "unsupported");
            assert_string_equal(e.param, c->name);
            assert_non_null(strstr(e.message, "does not support"));
        }
    }
}


/* not the object is what is not served: {"type": "text"} is one */

static void
test_format(void **state)
{
    mst_api_error_t  e;

    (void) state;

    assert_int_equal(check(C, "response_format", "{\"type\":\"json_object\"}",
                           &e), MST_ERROR);
    assert_string_equal(e.param, "response_format.type");
    assert_string_equal(e.code, "unsupported");
    assert_string_equal(e.message, "response_format.type is \"json_object\", "
                        "which this server does not support");

    assert_int_equal(check(T, "response_format", "{\"type\":1}", &e),
                     MST_ERROR);
    assert_string_equal(e.param, "response_format.type");
}


/* a field of the other API is an unknown one here, and ignored */

static void
test_other_api(void **state)
{
    size_t           i;
    mst_api_error_t  e;

    static const char  *ignored[] = {
        "store", "service_tier", "parallel_tool_calls", "metadata",
        "prompt_cache_key", "safety_identifier", "foo"
    };

    (void) state;

    assert_int_equal(check(C, "echo", "true", &e), MST_OK);
    assert_int_equal(check(C, "suffix", "\"x\"", &e), MST_OK);
    assert_int_equal(check(C, "tools", "[1]", &e), MST_OK);
    assert_int_equal(check(T, "tools", "[1]", &e), MST_OK);
    assert_int_equal(check(T, "audio", "{}", &e), MST_OK);
    assert_int_equal(check(K, "echo", "true", &e), MST_OK);
    assert_int_equal(check(MST_API_DETOKENIZE, "tools", "[1]", &e), MST_OK);

    for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        assert_int_equal(check(C, ignored[i], "{\"a\":1}", &e), MST_OK);
        assert_int_equal(check(T, ignored[i], "true", &e), MST_OK);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_other_api)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
