
/*
 * Tools of a chat: what is taken, and what each mistake is called.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "api/mst_tools.h"
#include "base/mst_mem.h"

#define F      "{\"type\":\"function\",\"function\":{\"name\":\"get_x\"}}"
#define G      "{\"function\":{\"name\":\"g-2\",\"description\":\"d\","        \
               "\"parameters\":{\"type\":\"object\"},\"strict\":true}}"
#define TOOLS  "\"tools\":[" F "," G "]"


static int
parse(const char *text, mst_tools_t *tools, mst_buf_t *buf,
    mst_api_error_t *e)
{
    int           rc;
    json_t       *root;
    mst_field_t   f;

    memset(tools, 0, sizeof(mst_tools_t));
    memset(e, 0, sizeof(mst_api_error_t));

    root = json_loads(text, 0, NULL);
    assert_non_null(root);

    mst_buf_init(buf);
    assert_int_equal(mst_buf_reserve(buf, strlen(text)), MST_OK);

    f.object = root;
    f.path[0] = '\0';
    f.e = e;

    rc = mst_tools_parse(&f, buf, tools);
    json_decref(root);

    return rc;
}


static void
test_good(void **state)
{
    size_t           i;
    mst_buf_t        buf;
    mst_tools_t      tools;
    mst_api_error_t  e;

    static const struct {
        const char          *text;
        uint32_t             n;
        mst_tools_choice_t   choice;
        const char          *name;
        int                  single;
    } cases[] = {
        { "{}", 0, MST_TOOLS_AUTO, "", 0 },
        { "{\"tools\":[],\"tool_choice\":\"auto\"}", 0, MST_TOOLS_AUTO, "",
          0 },
        { "{\"tools\":null,\"tool_choice\":null,"
          "\"parallel_tool_calls\":null}", 0, MST_TOOLS_AUTO, "", 0 },
        { "{" TOOLS "}", 2, MST_TOOLS_AUTO, "", 0 },
        { "{" TOOLS ",\"tool_choice\":\"none\"}", 2, MST_TOOLS_NONE, "", 0 },
        { "{\"tool_choice\":\"none\"}", 0, MST_TOOLS_NONE, "", 0 },
        { "{" TOOLS ",\"tool_choice\":\"required\","
          "\"parallel_tool_calls\":false}", 2, MST_TOOLS_REQUIRED, "", 1 },
        { "{" TOOLS ",\"tool_choice\":\"any\","
          "\"parallel_tool_calls\":true}", 2, MST_TOOLS_REQUIRED, "", 0 },
        { "{" TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":"
          "{\"name\":\"g-2\"}}}", 2, MST_TOOLS_NAMED, "g-2", 0 }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {

        if (parse(cases[i].text, &tools, &buf, &e) != MST_OK) {
            fail_msg("%s: %s", cases[i].text, e.message);
        }

        assert_int_equal(tools.n, cases[i].n);
        assert_int_equal(tools.choice, cases[i].choice);
        assert_int_equal(tools.name.len, strlen(cases[i].name));
        assert_true(tools.name.len == 0
                    || mst_str_eq(tools.name, cases[i].name));
        assert_int_equal(tools.single, cases[i].single);

        assert_int_equal(mst_tools_has(&tools, mst_str("get_x", 5)),
                         tools.n != 0);
        assert_int_equal(mst_tools_has(&tools, mst_str("", 0)), 0);
        assert_int_equal(mst_tools_has(&tools, mst_str("get_x\n", 6)), 0);

        mst_free(tools.owned);
        mst_buf_fini(&buf);
    }
}


static void
test_bad(void **state)
{
    size_t           i;
    mst_buf_t        buf;
    mst_tools_t      tools;
    mst_api_error_t  e;

    static const struct {
        const char  *text;
        const char  *code;
        const char  *param;
        const char  *part;     /* of the sentence */
    } cases[] = {
        { "{\"tools\":{}}", "invalid_type", "tools", "must be a list" },
        { "{\"tools\":[1]}", "invalid_type", "tools[0]",
          "must be an object" },
        { "{\"tools\":[" F ",{\"type\":\"web_search\"}]}", "invalid_value",
          "tools[1].type", "must be \"function\"" },
        { "{\"tools\":[{\"type\":\"function\"}]}",
          "missing_required_parameter", "tools[0].function", "is missing" },
        { "{\"tools\":[{\"function\":{}}]}", "missing_required_parameter",
          "tools[0].function.name", "is missing" },
        { "{\"tools\":[{\"function\":{\"name\":\"a b\"}}]}", "invalid_value",
          "tools[0].function.name", "1 to 64 letters" },
        { "{\"tools\":[{\"function\":{\"name\":\"\"}}]}", "invalid_value",
          "tools[0].function.name", "1 to 64 letters" },
        { "{\"tools\":[{\"function\":{\"name\":\"f\","
          "\"parameters\":\"{}\"}}]}", "invalid_type",
          "tools[0].function.parameters", "must be an object" },
        { "{\"tools\":[{\"function\":{\"name\":\"f\",\"strict\":1}}]}",
          "invalid_type", "tools[0].function.strict", "true or false" },
        { "{" TOOLS ",\"tool_choice\":\"some\"}", "invalid_value",
          "tool_choice", "must be one of" },
        { "{" TOOLS ",\"tool_choice\":1}", "invalid_type", "tool_choice",
          "must be a string, or an object" },
        { "{" TOOLS ",\"tool_choice\":{\"function\":{}}}",
          "missing_required_parameter", "tool_choice.function.name",
          "is missing" },
        { "{" TOOLS ",\"tool_choice\":{\"function\":{\"name\":\"h\"}}}",
          "invalid_value", "tool_choice.function.name",
          "must be one of the tools" },
        { "{\"tool_choice\":\"any\"}", "invalid_value", "tool_choice",
          "needs \"tools\"" },
        { "{\"parallel_tool_calls\":1}", "invalid_type",
          "parallel_tool_calls", "must be true or false" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i].text, &tools, &buf, &e), MST_ERROR);
        assert_int_equal(e.status, 400);
        assert_string_equal(e.code, cases[i].code);
        assert_string_equal(e.param, cases[i].param);

        if (strstr(e.message, cases[i].part) == NULL) {
            fail_msg("%s: %s", cases[i].text, e.message);
        }

        mst_free(tools.owned);
        mst_buf_fini(&buf);
    }
}


static void
test_many(void **state)
{
    int              n;
    mst_buf_t        text, buf;
    mst_tools_t      tools;
    mst_api_error_t  e;

    (void) state;

    mst_buf_init(&text);
    (void) mst_buf_text(&text, "{\"tools\":[");

    for (n = 0; n < MST_TOOLS_MAX; n++) {
        (void) mst_buf_text(&text, n ? "," F : F);
    }

    (void) mst_buf_append(&text, "]}", 3);
    assert_int_equal(parse(text.data, &tools, &buf, &e), MST_OK);
    assert_int_equal(tools.n, MST_TOOLS_MAX);
    mst_free(tools.owned);
    mst_buf_fini(&buf);

    text.len -= 3;
    (void) mst_buf_append(&text, "," F "]}", sizeof("," F "]}"));
    assert_int_equal(parse(text.data, &tools, &buf, &e), MST_ERROR);
    assert_string_equal(e.param, "tools");
    mst_free(tools.owned);
    mst_buf_fini(&buf);
    mst_buf_fini(&text);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_many)
    };

    return cmocka_run_group_tests_name("mst_tools", tests, NULL, NULL);
}
