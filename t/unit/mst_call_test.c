
/*
 * Calls of tools in a chat's history, in OpenAI's form and Mistral's.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/mst_call.h"
#include "base/mst_mem.h"


static mst_buf_t        text;
static mst_call_t      *calls;
static size_t           n, room;
static mst_api_error_t  e;


static int
parse(const char *message)
{
    int          rc;
    json_t      *root;
    mst_field_t  f;

    memset(&e, 0, sizeof(e));
    mst_buf_init(&text);
    assert_int_equal(mst_buf_reserve(&text, strlen(message)), MST_OK);

    root = json_loads(message, JSON_ALLOW_NUL, NULL);
    assert_non_null(root);

    room = mst_call_count(root);
    calls = mst_calloc(room + 1, sizeof(mst_call_t));
    assert_non_null(calls);

    f.object = root;
    f.e = &e;
    (void) strcpy(f.path, "messages[0].");

    rc = mst_call_parse(&f, &text, calls, &n);
    json_decref(root);

    return rc;
}


static void
drop(void)
{
    mst_call_free(calls, room);
    mst_buf_fini(&text);
}


static void
expect(mst_str_t s, const char *want)
{
    assert_int_equal(s.len, strlen(want));
    assert_memory_equal(s.data, want, s.len);
}


static void
test_calls(void **state)
{
    (void) state;

    assert_int_equal(parse("{\"tool_calls\":[{\"id\":\"a1\",\"type\":"
                           "\"function\",\"function\":{\"name\":\"f\","
                           "\"arguments\":\"{\\\"x\\\": 1}\"}},"
                           "{\"function\":{\"name\":\"g\",\"arguments\":"
                           "{\"b\":1.10,\"a\":[null,\"\\u00e9\"]}}},"
                           "{\"function\":{\"name\":\"h\"}}]}"), MST_OK);
    assert_int_equal(n, 3);
    expect(calls[0].id, "a1");
    expect(calls[0].name, "f");
    expect(calls[0].arguments, "{\"x\": 1}");
    assert_null(calls[0].owned);
    expect(calls[1].id, "");
    expect(calls[1].arguments, "{\"b\":1.1000000000000001,\"a\":[null,"
           "\"\xc3\xa9\"]}");
    assert_non_null(calls[1].owned);
    expect(calls[2].arguments, "");
    drop();

    assert_int_equal(parse("{\"function_call\":{\"name\":\"f\","
                           "\"arguments\":\"\"}}"), MST_OK);
    assert_int_equal(n, 1);
    expect(calls[0].name, "f");
    drop();

    assert_int_equal(parse("{\"tool_calls\":[],\"function_call\":null}"),
                     MST_OK);
    assert_int_equal(n, 0);
    drop();
}


static void
test_errors(void **state)
{
    size_t  i;

    static const char *const  bad[][2] = {
        { "{\"tool_calls\":1}", "messages[0].tool_calls" },
        { "{\"tool_calls\":[1]}", "messages[0].tool_calls[0]" },
        { "{\"tool_calls\":[{}]}", "messages[0].tool_calls[0].function" },
        { "{\"tool_calls\":[{\"function\":{}}]}",
          "messages[0].tool_calls[0].function.name" },
        { "{\"tool_calls\":[{\"function\":{\"name\":1}}]}",
          "messages[0].tool_calls[0].function.name" },
        { "{\"tool_calls\":[{\"id\":1,\"function\":{\"name\":\"f\"}}]}",
          "messages[0].tool_calls[0].id" },
        { "{\"tool_calls\":[{\"type\":\"x\",\"function\":{\"name\":\"f\"}}]}",
          "messages[0].tool_calls[0].type" },
        { "{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":1}}]}",
          "messages[0].tool_calls[0].function.arguments" },
        { "{\"function_call\":\"f\"}", "messages[0].function_call" }
    };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {

        if (parse(bad[i][0]) != MST_ERROR) {
            fail_msg("%s is accepted", bad[i][0]);
        }

        assert_int_equal(e.status, 400);
        assert_string_equal(e.param, bad[i][1]);
        drop();
    }
}


static void
test_memory(void **state)
{
    size_t   len;
    json_t  *root;

    (void) state;

    root = json_loads("{\"a\":[1,2]}", 0, NULL);
    mst_mem_fail_after(1);
    assert_null(mst_call_dump(root, &len));
    mst_mem_fail_after(0);
    json_decref(root);
    mst_call_free(NULL, 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
