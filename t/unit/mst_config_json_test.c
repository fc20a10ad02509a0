
/*
 * Typed values: absent, null, of another type, out of range.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "model/mst_config_json.h"


static void
test_values(void **state)
{
    int                 b;
    double              d;
    uint32_t            u;
    mst_err_t           err = { "" };
    const char         *s;
    mst_config_json_t   j;

    static const char  text[] =
        "{\"u\":7,\"n\":null,\"neg\":-1,\"d\":0.5,\"b\":true,\"s\":\"x\"}";

    (void) state;

    assert_int_equal(mst_config_json_open(&j, text, sizeof(text) - 1,
                                          "f", NULL, &err),
                     MST_OK);

    assert_int_equal(mst_config_json_given(j.root, "n"), 1);
    assert_int_equal(mst_config_json_given(j.root, "none"), 0);

    u = 3;
    assert_int_equal(mst_config_json_uint(&j, j.root, "none", 0, 9, &u),
                     MST_DECLINED);
    assert_int_equal(mst_config_json_uint(&j, j.root, "n", 0, 9, &u),
                     MST_DECLINED);
    assert_int_equal(u, 3);
    assert_int_equal(mst_config_json_uint(&j, j.root, "u", 0, 9, &u), MST_OK);
    assert_int_equal(u, 7);

    assert_int_equal(mst_config_json_double(&j, j.root, "u", &d), MST_OK);
    assert_true(d == 7);
    assert_int_equal(mst_config_json_double(&j, j.root, "d", &d), MST_OK);
    assert_true(d == 0.5);
    assert_int_equal(mst_config_json_bool(&j, j.root, "b", &b), MST_OK);
    assert_int_equal(b, 1);
    assert_int_equal(mst_config_json_string(&j, j.root, "s", &s), MST_OK);
    assert_string_equal(s, "x");
    assert_int_equal(mst_config_json_string(&j, j.root, "none", &s), MST_OK);
    assert_string_equal(s, "");

    assert_int_equal(mst_config_json_uint(&j, j.root, "u", 8, 9, &u),
                     MST_ERROR);
    assert_string_equal(err.text, "f: u is 7, limits are 8 and 9");
    err.text[0] = '\0';
    assert_int_equal(mst_config_json_uint(&j, j.root, "neg", 0, 9, &u),
                     MST_ERROR);
    assert_string_equal(err.text, "f: neg is -1, limits are 0 and 9");
    err.text[0] = '\0';
    assert_int_equal(mst_config_json_uint(&j, j.root, "d", 0, 9, &u),
                     MST_ERROR);
    assert_string_equal(err.text, "f: d is no integer");
    err.text[0] = '\0';
    assert_int_equal(mst_config_json_bool(&j, j.root, "u", &b), MST_ERROR);
    assert_string_equal(err.text, "f: u is neither true nor false");
    err.text[0] = '\0';
    assert_int_equal(mst_config_json_double(&j, j.root, "s", &d), MST_ERROR);
    assert_string_equal(err.text, "f: s is no number");
    err.text[0] = '\0';
    assert_int_equal(mst_config_json_string(&j, j.root, "u", &s), MST_ERROR);
    assert_string_equal(err.text, "f: u is no string");

    mst_config_json_close(&j);

    err.text[0] = '\0';
    assert_int_equal(mst_config_json_open(&j, "{", 1, "f", NULL, &err),
                     MST_ERROR);
    assert_non_null(strstr(err.text, "f: no JSON object"));
}


static void
test_stops(void **state)
{
    mst_err_t          err = { "" };
    mst_config_t       c;
    mst_config_json_t  j;

    static const char  text[] = "{\"a\":3,\"b\":[1,2],\"c\":[9],\"d\":\"x\"}";

    (void) state;

    memset(&c, 0, sizeof(c));
    c.n_vocab = 5;
    assert_int_equal(mst_config_json_open(&j, text, sizeof(text) - 1,
                                          "f", NULL, &err),
                     MST_OK);
    assert_int_equal(mst_config_json_stops(&j, j.root, "none", &c), MST_OK);
    assert_int_equal(mst_config_json_stops(&j, j.root, "a", &c), MST_OK);
    assert_int_equal(mst_config_json_stops(&j, j.root, "b", &c), MST_OK);
    assert_int_equal(c.n_stop, 3);
    assert_int_equal(c.stop_ids[0], 3);
    assert_int_equal(c.stop_ids[2], 2);
    assert_int_equal(mst_config_json_stops(&j, j.root, "c", &c), MST_ERROR);
    assert_string_equal(err.text, "f: c is no token of the vocabulary of 5");
    assert_int_equal(mst_config_json_stops(&j, j.root, "d", &c), MST_ERROR);
    mst_config_json_close(&j);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_stops)
    };

    return cmocka_run_group_tests_name("mst_config_json", tests, NULL, NULL);
}
