
/*
 * JSON as Python's json.loads() reads it.
 */

#include "jinja.h"
#include "text/mst_python_dumps.h"


/* what json.dumps(json.loads(text), ensure_ascii=False) is; NULL: no JSON */

static void
expect(const char *text, const char *want)
{
    int             rc;
    mst_err_t       err = { "" };
    mst_work_t      w;
    mst_value_t     v;
    mst_text_out_t  out;

    mst_work_init(&w, 10000000, 1000000, &err);
    mst_text_out_init(&out);

    rc = mst_python_loads(&w, mst_str(text, strlen(text)), &v);

    if (want == NULL) {

        if (rc != MST_DECLINED) {
            fail_msg("%s: %d %s", text, rc, err.text);
        }

    } else {

        if (rc != MST_OK) {
            fail_msg("%s: %d %s", text, rc, err.text);
        }

        assert_int_equal(mst_python_dumps(&w, v, NULL, &out), MST_OK);
        assert_int_equal(out.buf.len, strlen(want));
        assert_memory_equal(out.buf.data, want, out.buf.len);
        assert_int_equal(out.n, 1);
        assert_int_equal(out.runs[0].from, MST_TEXT_VALUE);
    }

    mst_text_out_fini(&out);
    mst_work_fini(&w);
}


static void
test_values(void **state)
{
    (void) state;

    expect("{\"city\":\"Z\\u00fcrich\",\"days\":2}",
           "{\"city\": \"Z\xc3\xbcrich\", \"days\": 2}");
    expect(" [ 1 , null,true ,false ] ", "[1, null, true, false]");
    expect("{}", "{}");
    expect("[]", "[]");
    expect("[ ]", "[]");
    expect("{ }", "{}");
    expect("\"\"", "\"\"");
    expect("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}");
    expect("\"a\\/b\\u2028\\u007f\"", "\"a/b\xe2\x80\xa8\x7f\"");
    expect("\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\\"",
           "\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\\"");
    expect("\"\\ud83e\\udd8a\\ud800x\\udc00\"",
           "\"\xf0\x9f\xa6\x8a\xef\xbf\xbdx\xef\xbf\xbd\"");
    expect("\"\\ud800\\u0041\"", "\"\xef\xbf\xbd" "A\"");
}


static void
test_numbers(void **state)
{
    (void) state;

    expect("12345678901234567890", "12345678901234567890");
    expect("-12345678901234567890", "-12345678901234567890");
    expect("123456789012345678", "123456789012345678");
    expect("-0", "0");
    expect("0", "0");
    expect("1.0", "1.0");
    expect("1.10", "1.1");
    expect("1e5", "100000.0");
    expect("1E-7", "1e-07");
    expect("1e16", "1e+16");
    expect("123456789012345680.0", "1.2345678901234568e+17");
    expect("1e400", "Infinity");
    expect("-1e400", "-Infinity");
    expect("[NaN,Infinity,-Infinity]", "[NaN, Infinity, -Infinity]");
    expect("-0.0", "-0.0");
}


static void
test_refused(void **state)
{
    size_t  i;

    static const char *const  bad[] = {
        "", " ", "not json", "01", "1.", ".5", "1e", "-", "+1", "--1", "[1,]",
        "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}", "{a:1}", "{\"a\":1,}",
        "\"a", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"a\nb\"", "\"\t\"",
        "[1", "{\"a\":1", "nul", "truex", "1 2", "[]]", "'a'", "\"\\",
        "\xef\xbb\xbf" "1", "-Inf", "1e+", "{1:2}", "{\"a\\\n\":1}"
    };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect(bad[i], NULL);
    }
}


static void
test_limits(void **state)
{
    char         text[1000];
    mst_err_t    err = { "" };
    mst_work_t   w;
    mst_value_t  v;

    (void) state;

    mst_work_init(&w, 10000000, 1000000, &err);

    memset(text, '[', sizeof(text));
    assert_int_equal(mst_python_loads(&w, mst_str(text, 1000), &v),
                     MST_ERROR);
    assert_string_equal(err.text, "JSON is nested deeper than 96 levels");

    err.text[0] = '\0';
    memset(text, '1', sizeof(text));
    assert_int_equal(mst_python_loads(&w, mst_str(text, 1000), &v),
                     MST_OK);
    assert_int_equal(v.type, MST_VALUE_BIG);
    assert_int_equal(v.u.text->len, 1000);

    text[999] = 'e';
    text[998] = 'e';
    text[999] = '1';
    assert_int_equal(mst_python_loads(&w, mst_str(text, 1000), &v),
                     MST_ERROR);
    assert_string_equal(err.text, "a number of 1000 bytes is too long, at "
                        "most 399");
    mst_work_fini(&w);
}


/* each allocation fails in its turn */

static void
test_memory(void **state)
{
    int          rc;
    long         n;
    mst_err_t    err = { "" };
    mst_work_t   w;
    mst_value_t  v;

    static const char  json[] = "{\"a\":[1,\"\\u0041\",{\"b\":2.5}]}";

    (void) state;

    for (n = 1; ; n++) {
        mst_work_init(&w, 10000000, 1000000, &err);
        mst_mem_fail_after(n);

        rc = mst_python_loads(&w, mst_str(json, sizeof(json) - 1), &v);

        mst_mem_fail_after(0);
        mst_work_fini(&w);

        if (rc == MST_OK) {
            break;
        }

        assert_int_equal(rc, MST_ERROR);
        assert_string_equal(err.text, "");
    }

    assert_true(n > 1);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
