
/*
 * Values spelled as Python spells them.
 */

#include "jinja.h"


static void
expect_float(double x, const char *want)
{
    char  text[MST_PYTHON_FLOAT];

    assert_int_equal(mst_python_float(x, text), strlen(want));
    assert_string_equal(text, want);
}


static void
test_floats(void **state)
{
    int       i;
    char      text[MST_PYTHON_FLOAT];
    double    x;
    uint64_t  bits;

    (void) state;

    expect_float(0, "0.0");
    expect_float(-0.0, "-0.0");
    expect_float(1, "1.0");
    expect_float(1.1, "1.1");
    expect_float(100000, "100000.0");
    expect_float(1e15, "1000000000000000.0");
    expect_float(1e16, "1e+16");
    expect_float(123456789012345680.0, "1.2345678901234568e+17");
    expect_float(1e-4, "0.0001");
    expect_float(1e-5, "1e-05");
    expect_float(1e-7, "1e-07");
    expect_float(1234.5678, "1234.5678");
    expect_float(9007199254740993.0, "9007199254740992.0");
    expect_float(1.7976931348623157e308, "1.7976931348623157e+308");
    expect_float(5e-324, "5e-324");
    expect_float(1e-323, "1e-323");
    expect_float(0.1 + 0.2, "0.30000000000000004");

    /* a power of two: the nearest sixteen digits do not read back */

    expect_float(0x1p-44, "5.684341886080802e-14");
    expect_float(1 / 0.0, "inf");
    expect_float(-1 / 0.0, "-inf");
    expect_float(0 / 0.0, "nan");

    /* all read back */

    for (i = 0, bits = 1; i < 20000; i++) {
        bits = bits * 6364136223846793005ull + 1442695040888963407ull;
        memcpy(&x, &bits, sizeof(x));
        assert_in_range(mst_python_float(x, text), 3, 24);
        assert_true(x != x || strtod(text, NULL) == x);
    }
}


static void
test_values(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ v }}", "{\"v\":[1,-2,1.0,null,true,\"a\"]}",
          "[1, -2, 1.0, None, True, 'a']" },
        { "{{ v }}", "{\"v\":{\"a\":{},\"b\":[]}}", "{'a': {}, 'b': []}" },
        { "{{ v }}", "{\"v\":12345678901234567890}",
          "12345678901234567890" },
        { "{{ (1,), (), (1, 2) }}", NULL, "((1,), (), (1, 2))" },
        { "{{ [v] }}", "{\"v\":\"it's\"}", "[\"it's\"]" },
        { "{{ [v] }}", "{\"v\":\"it's \\\"it\\\"\"}",
          "['it\\'s \"it\"']" },
        { "{{ [v] }}", "{\"v\":\"\\n\\t\\r\\\\\\u0000\\u007f\\u00a0\"}",
          "['\\n\\t\\r\\\\\\x00\\x7f\\xa0']" },
        { "{{ [v] }}", "{\"v\":\"\\u00e9\\u200b\\ud83e\\udd8a\\udb40\\udc01\"}",
          "['\xc3\xa9\\u200b\xf0\x9f\xa6\x8a\\U000e0001']" },
        { "{{ u }}{{ [u] }}{{ none }}", NULL, "[Undefined]None" },
        { "{{ {'a':1}.items() }}", NULL, "dict_items([('a', 1)])" },
        { "{{ namespace(a=1) }}", NULL, "<Namespace {'a': 1}>" }
    };
    static const jinja_case_t  bad[] = {
        { "{{ range }}", NULL,
          "chat template, line 1: a function cannot be written" },
        { "{% for x in [1] %}{{ loop }}{% endfor %}", NULL,
          "chat template, line 1: a loop cannot be written" }
    };

    (void) state;

    jinja_table(cases);
    jinja_refusals(bad);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_values)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
