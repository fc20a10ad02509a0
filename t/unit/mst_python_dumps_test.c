
/*
 * JSON as Python's json.dumps() writes it; the wanted texts are CPython's.
 */

#include <math.h>

#include "jinja.h"
#include "text/mst_python_dumps.h"


static const mst_python_dumps_t  lines = {
    "  ", 2, mst_string(","), mst_string(": "), 0, 0
};

static const mst_python_dumps_t  plain = {
    NULL, 0, mst_string(","), mst_string(":"), 1, 1
};


static void
expect_text(mst_work_t *w, mst_value_t v, const mst_python_dumps_t *f,
    const char *want)
{
    mst_text_out_t  out;

    mst_text_out_init(&out);

    if (mst_python_dumps(w, v, f, &out) != MST_OK) {
        fail_msg("%s: %s", want, w->err->text);
    }

    assert_int_equal(out.buf.len, strlen(want));
    assert_memory_equal(out.buf.data, want, out.buf.len);
    mst_text_out_fini(&out);
}


/* what json.loads() makes of a text, written */

static void
expect(const char *json, const mst_python_dumps_t *f, const char *want)
{
    mst_err_t    err = { "" };
    mst_work_t   w;
    mst_value_t  v;

    mst_work_init(&w, 10000000, 1000000, &err);
    assert_int_equal(mst_python_loads(&w, mst_str(json, strlen(json)), &v),
                     MST_OK);
    expect_text(&w, v, f, want);
    mst_work_fini(&w);
}


static void
test_forms(void **state)
{
    (void) state;

    expect("{\"b\":[1,{}],\"a\":[]}", NULL, "{\"b\": [1, {}], \"a\": []}");
    expect("{\"b\":[1,{}],\"a\":[]}", &plain, "{\"a\":[],\"b\":[1,{}]}");
    expect("{\"b\":[1,{}],\"a\":[]}", &lines,
           "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": []\n}");
    expect("[]", &lines, "[]");
}


static void
test_strings(void **state)
{
    (void) state;

    expect("\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\/\\u007f\"", NULL,
           "\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\/\x7f\"");
    expect("\"Z\xc3\xbcrich \xf0\x9f\xa6\x8a\"", NULL,
           "\"Z\xc3\xbcrich \xf0\x9f\xa6\x8a\"");
    expect("\"Z\xc3\xbcrich \xf0\x9f\xa6\x8a\\u007f\"", &plain,
           "\"Z\\u00fcrich \\ud83e\\udd8a\\u007f\"");
}


/* keys that are no strings, as json.dumps() spells them */

static void
test_keys(void **state)
{
    size_t           i;
    mst_err_t        err = { "" };
    mst_work_t       w;
    mst_dict_t      *d;
    mst_list_t      *pair;
    mst_text_out_t  out;
    mst_value_t      keys[4];

    (void) state;

    mst_work_init(&w, 10000000, 1000000, &err);

    keys[0] = mst_value(MST_VALUE_NONE);
    keys[1] = mst_value_bool(0);
    keys[2] = mst_value_int(-7);
    keys[3] = mst_value_float(0.5);

    d = mst_dict_create(&w, 4);
    assert_non_null(d);

    for (i = 0; i < 4; i++) {
        assert_int_equal(mst_dict_set(&w, d, keys[i],
                                      mst_value_int((int64_t) i)),
                         MST_OK);
    }

    expect_text(&w, mst_value_dict(MST_VALUE_DICT, d), NULL,
                "{\"null\": 0, \"false\": 1, \"-7\": 2, \"0.5\": 3}");

    pair = mst_list_create(&w, 0);
    assert_non_null(pair);
    assert_int_equal(mst_dict_set(&w, d, mst_value_list(MST_VALUE_TUPLE, pair),
                                  keys[0]),
                     MST_OK);

    mst_text_out_init(&out);
    assert_int_equal(mst_python_dumps(&w, mst_value_dict(MST_VALUE_DICT, d),
                                      NULL, &out),
                     MST_ERROR);
    assert_string_equal(err.text, "a tuple is no key of a JSON object");
    mst_text_out_fini(&out);
    mst_work_fini(&w);
}


static void
test_numbers(void **state)
{
    mst_err_t   err = { "" };
    mst_work_t  w;

    (void) state;

    mst_work_init(&w, 10000000, 1000000, &err);
    expect_text(&w, mst_value_float(NAN), NULL, "NaN");
    expect_text(&w, mst_value_float(-INFINITY), NULL, "-Infinity");
    expect_text(&w, mst_value_float(1e16), NULL, "1e+16");
    expect_text(&w, mst_value_float(3), NULL, "3.0");
    expect_text(&w, mst_value_int(INT64_MIN), NULL, "-9223372036854775808");
    mst_work_fini(&w);

    expect("123456789012345678901234567890", NULL,
           "123456789012345678901234567890");
}


static void
test_refused(void **state)
{
    size_t           i;
    mst_err_t        err = { "" };
    mst_work_t       w;
    mst_list_t      *list;
    mst_value_t      v;
    mst_text_out_t  out;

    (void) state;

    mst_work_init(&w, 10000000, 1000000, &err);
    mst_text_out_init(&out);

    v = mst_value_int(1);

    for (i = 0; i < MST_VALUE_DEPTH + 1; i++) {
        list = mst_list_create(&w, 1);
        assert_non_null(list);
        assert_int_equal(mst_list_add(&w, list, v), MST_OK);
        v = mst_value_list(MST_VALUE_LIST, list);
    }

    assert_int_equal(mst_python_dumps(&w, v, NULL, &out), MST_ERROR);
    assert_string_equal(err.text, "a value is nested too deeply to be "
                        "written");

    mst_text_out_fini(&out);
    mst_work_fini(&w);
}


/* each allocation fails in its turn */

static void
test_memory(void **state)
{
    int              rc;
    long             n;
    mst_err_t        err = { "" };
    mst_work_t       w;
    mst_value_t      v;
    mst_text_out_t  out;

    static const char  json[] = "{\"b\":[1,\"A\\n\",{\"b\":2.5}],\"a\":0}";

    (void) state;

    for (n = 1; ; n++) {
        mst_work_init(&w, 10000000, 1000000, &err);
        mst_text_out_init(&out);
        assert_int_equal(mst_python_loads(&w, mst_str(json, sizeof(json) - 1),
                                          &v),
                         MST_OK);
        mst_mem_fail_after(n);

        rc = mst_python_dumps(&w, v, &plain, &out);

        mst_mem_fail_after(0);
        mst_text_out_fini(&out);
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
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
