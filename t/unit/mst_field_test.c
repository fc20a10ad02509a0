
/* Typed fields: what is taken, what is refused and in which words. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_field.h"


static mst_api_error_t  error;


static json_t *
field(mst_field_t *f, const char *value)
{
    json_t  *root;

    memset(f, 0, sizeof(mst_field_t));
    memset(&error, 0, sizeof(mst_api_error_t));

    root = json_pack("{s:o}", "x", json_loads(value, JSON_DECODE_ANY
                                              | JSON_ALLOW_NUL, NULL));
    assert_non_null(root);

    f->object = root;
    f->e = &error;

    return root;
}


typedef struct {
    const char  *value;
    int          rc;
    int64_t      n;
    const char  *message;
} mst_integer_t;


static void
test_integer(void **state)
{
    size_t        i;
    json_t       *root;
    int64_t       n;
    mst_field_t   f;

    static const mst_integer_t  t[] = {
        { "5", MST_OK, 5, NULL },
        { "-5", MST_OK, -5, NULL },
        { "10", MST_OK, 10, NULL },
        { "5.0", MST_OK, 5, NULL },
        { "1e1", MST_OK, 10, NULL },
        { "-0", MST_OK, 0, NULL },
        { "-0.0", MST_OK, 0, NULL },
        { "null", MST_DECLINED, 77, NULL },
        { "11", MST_ERROR, 77, "x is 11, must be an integer from -5 to 10" },
        { "-6", MST_ERROR, 77, "x is -6, must be an integer from -5 to 10" },
        { "5.5", MST_ERROR, 77,
          "x is 5.5, must be an integer from -5 to 10" },
        { "1e300", MST_ERROR, 77,
          "x is 1e+300, must be an integer from -5 to 10" },
        { "-1e19", MST_ERROR, 77,
          "x is -1e+19, must be an integer from -5 to 10" },
        { "9223372036854775808.0", MST_ERROR, 77,
          "x is 9.22337204e+18, must be an integer from -5 to 10" },
        { "9223372036854775807", MST_ERROR, 77,
          "x is 9223372036854775807, must be an integer from -5 to 10" },
        { "\"5\"", MST_ERROR, 77,
          "x is \"5\", must be an integer from -5 to 10" },
        { "true", MST_ERROR, 77,
          "x is true, must be an integer from -5 to 10" },
        { "[]", MST_ERROR, 77,
          "x is an empty list, must be an integer from -5 to 10" },
        { "[1]", MST_ERROR, 77,
          "x is a list, must be an integer from -5 to 10" },
        { "{}", MST_ERROR, 77,
          "x is an empty object, must be an integer from -5 to 10" },
        { "{\"a\":1}", MST_ERROR, 77,
          "x is an object, must be an integer from -5 to 10" }
    };

    (void) state;

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        root = field(&f, t[i].value);
        n = 77;

        assert_int_equal(mst_field_integer(&f, "x", -5, 10, &n), t[i].rc);
        assert_int_equal(n, t[i].n);

        if (t[i].message) {
            assert_string_equal(error.message, t[i].message);
            assert_string_equal(error.param, "x");
            assert_int_equal(error.status, 400);
        }

        n = 77;
        assert_int_equal(mst_field_integer(&f, "y", -5, 10, &n),
                         MST_DECLINED);
        assert_int_equal(n, 77);

        json_decref(root);
    }

    root = field(&f, "-9223372036854775808");
    assert_int_equal(mst_field_integer(&f, "x", INT64_MIN, INT64_MAX, &n),
                     MST_OK);
    assert_true(n == INT64_MIN);
    json_decref(root);

    root = field(&f, "-9223372036854775808.0");
    assert_int_equal(mst_field_integer(&f, "x", INT64_MIN, INT64_MAX, &n),
                     MST_OK);
    assert_true(n == INT64_MIN);
    json_decref(root);
}


static void
test_number(void **state)
{
    json_t       *root;
    double        x;
    mst_field_t   f;

    (void) state;

    root = field(&f, "2");
    assert_int_equal(mst_field_number(&f, "x", 0, 2, &x), MST_OK);
    assert_true(x == 2);
    json_decref(root);

    root = field(&f, "0.25");
    assert_int_equal(mst_field_number(&f, "x", 0, 2, &x), MST_OK);
    assert_true(x == 0.25);
    json_decref(root);

    root = field(&f, "2.0000001");
    assert_int_equal(mst_field_number(&f, "x", 0, 2, &x), MST_ERROR);
    assert_string_equal(error.message,
                        "x is 2.0000001, must be a number from 0 to 2");
    assert_string_equal(error.code, "invalid_value");
    json_decref(root);

    root = field(&f, "\"hot\"");
    assert_int_equal(mst_field_number(&f, "x", 0, 2, &x), MST_ERROR);
    assert_string_equal(error.message,
                        "x is \"hot\", must be a number from 0 to 2");
    assert_string_equal(error.code, "invalid_type");
    json_decref(root);

    root = field(&f, "null");
    x = 7;
    assert_int_equal(mst_field_number(&f, "x", 0, 2, &x), MST_DECLINED);
    assert_true(x == 7);
    json_decref(root);
}


static void
test_others(void **state)
{
    int            flag;
    json_t        *root;
    mst_str_t      s;
    mst_field_t    f;
    const json_t  *v;

    (void) state;

    root = field(&f, "true");
    assert_int_equal(mst_field_flag(&f, "x", &flag), MST_OK);
    assert_int_equal(flag, 1);
    assert_int_equal(mst_field_string(&f, "x", &s), MST_ERROR);
    assert_string_equal(error.message, "x is true, must be a string");
    assert_int_equal(mst_field_array(&f, "x", &v), MST_ERROR);
    assert_string_equal(error.message, "x is true, must be a list");
    assert_int_equal(mst_field_object(&f, "x", &v), MST_ERROR);
    assert_string_equal(error.message, "x is true, must be an object");
    json_decref(root);

    root = field(&f, "false");
    flag = 1;
    assert_int_equal(mst_field_flag(&f, "x", &flag), MST_OK);
    assert_int_equal(flag, 0);
    json_decref(root);

    root = field(&f, "1");
    assert_int_equal(mst_field_flag(&f, "x", &flag), MST_ERROR);
    assert_string_equal(error.message, "x is 1, must be true or false");
    json_decref(root);

    root = field(&f, "\"a\\u0000b\"");
    assert_int_equal(mst_field_string(&f, "x", &s), MST_OK);
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.data, "a\0b", 3);
    assert_int_equal(mst_field_flag(&f, "x", &flag), MST_ERROR);
    assert_string_equal(error.message,
                        "x is \"a?b\", must be true or false");
    json_decref(root);

    root = field(&f, "[1]");
    assert_int_equal(mst_field_array(&f, "x", &v), MST_OK);
    assert_int_equal(json_array_size(v), 1);
    json_decref(root);

    root = field(&f, "{}");
    assert_int_equal(mst_field_object(&f, "x", &v), MST_OK);
    assert_true(json_is_object(v));
    json_decref(root);

    root = field(&f, "null");
    assert_int_equal(mst_field_flag(&f, "x", &flag), MST_DECLINED);
    assert_int_equal(mst_field_string(&f, "x", &s), MST_DECLINED);
    assert_int_equal(mst_field_array(&f, "x", &v), MST_DECLINED);
    assert_int_equal(mst_field_object(&f, "x", &v), MST_DECLINED);
    assert_null(mst_field_get(&f, "x"));
    json_decref(root);
}


/* a long string is cut between characters; the path stands in front */

static void
test_words(void **state)
{
    json_t       *root;
    mst_field_t   f;

    (void) state;

    root = field(&f, "\"0123456789012345678901234567890123456789\"");
    (void) strcpy(f.path, "messages[7].");
    (void) mst_field_unsupported(&f, "x", mst_field_get(&f, "x"));
    assert_string_equal(error.message, "messages[7].x is "
                        "\"0123456789012345678901234567890123456789\", "
                        "which this server does not support");
    assert_string_equal(error.param, "messages[7].x");
    assert_string_equal(error.code, "unsupported");
    json_decref(root);

    root = field(&f, "\"01234567890123456789012345678901234567890\"");
    (void) mst_field_unsupported(&f, "x", mst_field_get(&f, "x"));
    assert_non_null(strstr(error.message, "6789...\", which"));
    json_decref(root);

    root = field(&f, "\"012345678901234567890123456789012345678"
                     "\xf0\x9f\x98\x80\"");
    (void) mst_field_unsupported(&f, "x", mst_field_get(&f, "x"));
    assert_non_null(strstr(error.message, "678...\", which"));
    json_decref(root);

    root = field(&f, "1");
    assert_int_equal(mst_field_missing(&f, "y", "a string"), MST_ERROR);
    assert_string_equal(error.message, "y is missing, must be a string");
    assert_string_equal(error.param, "y");
    assert_string_equal(error.code, "missing_required_parameter");
    json_decref(root);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_integer),
        cmocka_unit_test(test_number),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_words)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
