
/*
 * The JSON of Mistral's formats: what is shown of tools, calls and results,
 * and in what order.
 */

#include <string.h>

#include "jinja.h"

#include "text/mst_python_dumps.h"
#include "text/mst_mistral.h"

#define S(s)  mst_str(s, sizeof(s) - 1)


static mst_err_t   err;
static mst_work_t  w;


static int
setup(void **state)
{
    (void) state;
    err.text[0] = '\0';
    mst_work_init(&w, 10000000, 1000000, &err);

    return 0;
}


static int
teardown(void **state)
{
    (void) state;
    mst_work_fini(&w);

    return 0;
}


static void
expect(mst_value_t v, const char *want)
{
    char            text[1000];
    mst_text_out_t  out;

    mst_text_out_init(&out);
    assert_int_equal(mst_python_dumps(&w, v, NULL, &out), MST_OK);
    (void) snprintf(text, sizeof(text), "%.*s", (int) out.buf.len,
                    (char *) out.buf.data);
    assert_string_equal(text, want);
    mst_text_out_fini(&out);
}


static void
test_value(void **state)
{
    size_t       i;
    mst_value_t  v;

    static const struct {
        const char  *text;
        const char  *want;
    } cases[] = {
        { "", "{}" },
        { " {\"b\":1e5,\"a\":\"\\u00e9\"} ",
          "{\"b\": 100000.0, \"a\": \"\xc3\xa9\"}" },
        { "[1,2", "\"[1,2\"" },
        { "sunny", "\"sunny\"" },
        { "\"sunny\"", "\"sunny\"" },
        { "NaN", "NaN" },
        { " ", "\" \"" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(mst_mistral_json_value(&w,
                             mst_str(cases[i].text, strlen(cases[i].text)),
                             &v), MST_OK);
        expect(v, cases[i].want);
    }
}


static void
test_tools(void **state)
{
    size_t       i;
    mst_value_t  v;

    static const char *const  bad[] = {
        "{}", "[", "[1]", "[{}]", "[{\"function\":1}]"
    };

    (void) state;

    assert_int_equal(mst_mistral_json_tools(&w, S("[]"), &v), MST_OK);
    expect(v, "[]");

    assert_int_equal(mst_mistral_json_tools(&w, S("[{\"function\":{"
        "\"strict\":true,\"parameters\":{\"b\":{}},\"name\":\"f\","
        "\"description\":null}, \"type\":\"other\",\"x\":1},"
        "{\"function\":{\"name\":\"g\",\"description\":\"d\"}}]"), &v),
        MST_OK);
    expect(v, "[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
           "\"description\": \"\", \"parameters\": {\"b\": {}}}}, {\"type\": "
           "\"function\", \"function\": {\"name\": \"g\", \"description\": "
           "\"d\", \"parameters\": {}}}]");

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        assert_int_equal(mst_mistral_json_tools(&w,
                             mst_str(bad[i], strlen(bad[i])), &v),
                         MST_ERROR);
        assert_string_equal(err.text, i < 2 ? "the tools are no list"
                            : "a tool has no function");
    }
}


static void
test_calls(void **state)
{
    mst_call_t          calls[2];
    mst_value_t         v;
    mst_mistral_t       f;
    mst_mistral_turn_t  turn;

    (void) state;

    memset(&f, 0, sizeof(f));
    memset(calls, 0, sizeof(calls));
    memset(&turn, 0, sizeof(turn));

    calls[0].id = S("call_123456789");
    calls[0].name = S("f");
    calls[0].arguments = S("{\"a\":[]}");
    calls[1].id = S("abc");
    calls[1].name = S("g\"");
    calls[1].arguments = S("no");
    turn.calls = calls;
    turn.n_calls = 2;

    f.version = 2;
    assert_int_equal(mst_mistral_json_calls(&f, &w, &turn, &v), MST_OK);
    expect(v, "[{\"name\": \"f\", \"arguments\": {\"a\": []}}, {\"name\": "
           "\"g\\\"\", \"arguments\": \"no\"}]");

    /* the last nine letters of an id */

    f.version = 3;
    assert_int_equal(mst_mistral_json_calls(&f, &w, &turn, &v), MST_OK);
    expect(v, "[{\"name\": \"f\", \"arguments\": {\"a\": []}, \"id\": "
           "\"123456789\"}, {\"name\": \"g\\\"\", \"arguments\": \"no\", "
           "\"id\": \"abc\"}]");
}


static void
test_results(void **state)
{
    mst_value_t         v;
    mst_mistral_t       f;
    mst_mistral_turn_t  turn;

    (void) state;

    memset(&f, 0, sizeof(f));
    memset(&turn, 0, sizeof(turn));
    turn.call_id = S("123456789");

    f.version = 2;
    assert_int_equal(mst_mistral_json_result(&f, &w, &turn, S("17"), &v),
                     MST_OK);
    expect(v, "[{\"name\": null, \"content\": 17}]");

    turn.name = S("f");
    assert_int_equal(mst_mistral_json_result(&f, &w, &turn, S("a b"), &v),
                     MST_OK);
    expect(v, "[{\"name\": \"f\", \"content\": \"a b\"}]");

    f.version = 3;
    assert_int_equal(mst_mistral_json_result(&f, &w, &turn, S(""), &v),
                     MST_OK);
    expect(v, "{\"content\": {}, \"call_id\": \"123456789\"}");
}


static void
test_settings(void **state)
{
    mst_value_t  v;

    (void) state;

    assert_int_equal(mst_mistral_json_settings(&w,
                         mst_mistral_effort(S("high")), &v), MST_OK);
    expect(v, "{\"reasoning_effort\": \"high\"}");
}


/* no memory is an error and nothing worse */

static void
test_limits(void **state)
{
    size_t       size;
    mst_work_t   small;
    mst_value_t  v;

    (void) state;

    for (size = 0; ; size += 64) {
        mst_work_init(&small, size, 1000000, &err);

        if (mst_mistral_json_tools(&small, S("[{\"function\":{\"name\":"
                                             "\"f\"}}]"), &v) == MST_OK)
        {
            break;
        }

        mst_work_fini(&small);
    }

    assert_true(size > 0);
    mst_work_fini(&small);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tools, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_results, setup, teardown),
        cmocka_unit_test_setup_teardown(test_settings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
