
/*
 * A template's values: truth, equality, order, dictionaries.
 */

#include "jinja.h"


static mst_err_t   err;
static mst_work_t  w;


/* the value of a JSON text */

static mst_value_t
value(const char *json)
{
    mst_value_t  v;

    assert_int_equal(mst_python_loads(&w, mst_str(json, strlen(json)),
                                      &v), MST_OK);

    return v;
}


static int
setup(void **state)
{
    (void) state;
    err.text[0] = '\0';
    mst_work_init(&w, 50000000, 2000000, &err);

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
test_truth(void **state)
{
    size_t  i;

    static const char *const  yes[] = {
        "true", "1", "-1", "0.5", "\"a\"", "[0]", "{\"a\":0}",
        "12345678901234567890"
    };
    static const char *const  no[] = {
        "null", "false", "0", "0.0", "-0.0", "\"\"", "[]", "{}"
    };

    (void) state;

    for (i = 0; i < 8; i++) {
        assert_true(mst_value_true(value(yes[i])));
        assert_false(mst_value_true(value(no[i])));
    }

    assert_false(mst_value_true(mst_value(MST_VALUE_UNDEFINED)));
    assert_true(mst_value_true(mst_value(MST_VALUE_CALL)));
}


static void
test_equal(void **state)
{
    size_t  i;

    static const char *const  same[][2] = {
        { "1", "1.0" }, { "true", "1" }, { "null", "null" },
        { "\"a\"", "\"\\u0061\"" }, { "[1,[2]]", "[1.0,[2]]" },
        { "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}" },
        { "12345678901234567890", "12345678901234567890" }
    };
    static const char *const  differ[][2] = {
        { "1", "2" }, { "1", "\"1\"" }, { "null", "false" },
        { "[1]", "[1,2]" }, { "{\"a\":1}", "{\"a\":2}" },
        { "{\"a\":1}", "{\"b\":1}" }, { "NaN", "NaN" }, { "[]", "{}" }
    };

    (void) state;

    for (i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_int_equal(mst_value_equal(&w, value(same[i][0]),
                                         value(same[i][1])), 1);
    }

    for (i = 0; i < sizeof(differ) / sizeof(differ[0]); i++) {
        assert_int_equal(mst_value_equal(&w, value(differ[i][0]),
                                         value(differ[i][1])), 0);
    }
}


static void
test_order(void **state)
{
    int     order;
    size_t  i;

    static const char *const  ascending[][2] = {
        { "1", "1.5" }, { "-1", "true" }, { "\"a\"", "\"b\"" },
        { "\"a\"", "\"ab\"" }, { "\"z\"", "\"\xc3\xa9\"" },
        { "[1,2]", "[1,3]" }, { "[1]", "[1,0]" }
    };

    (void) state;

    for (i = 0; i < sizeof(ascending) / sizeof(ascending[0]); i++) {
        assert_int_equal(mst_value_order(&w, value(ascending[i][0]),
                                         value(ascending[i][1]), &order),
                         MST_OK);
        assert_int_equal(order, -1);
        assert_int_equal(mst_value_order(&w, value(ascending[i][1]),
                                         value(ascending[i][0]), &order),
                         MST_OK);
        assert_int_equal(order, 1);
    }

    assert_int_equal(mst_value_order(&w, value("NaN"), value("1"), &order),
                     MST_OK);
    assert_int_equal(order, 2);
    assert_int_equal(mst_value_order(&w, value("null"), value("1"), &order),
                     MST_ERROR);
    assert_string_equal(err.text, "'None' and 'int' have no order");
}


static void
test_dict(void **state)
{
    int                rc;
    char               name[16];
    size_t             i;
    mst_dict_t        *d;
    mst_value_t        key;
    mst_dict_entry_t  *e;

    (void) state;

    d = mst_dict_create(&w, 0);

    for (i = 0; i < 5000; i++) {
        (void) snprintf(name, sizeof(name), "k%zu", i % 2500);
        assert_int_equal(mst_value_str(&w, name, strlen(name), 0, &key),
                         MST_OK);
        key = mst_value_text(mst_text_copy(&w, name, strlen(name), 0));
        assert_int_equal(mst_dict_set(&w, d, key,
                                      mst_value_int((int64_t) i)), MST_OK);
    }

    /* the last value at the first place */

    assert_int_equal(d->n, 2500);
    assert_int_equal(mst_dict_get(d, mst_str("k7", 2))->u.n, 2507);
    assert_memory_equal(d->entries[7].key.u.text->data, "k7", 2);
    assert_null(mst_dict_get(d, mst_str("k2500", 5)));

    /* 1, 1.0 and true are one key; what is no key says so */

    d = mst_dict_create(&w, 0);
    assert_int_equal(mst_dict_set(&w, d, value("1"), value("1")), MST_OK);
    assert_int_equal(mst_dict_set(&w, d, value("1.0"), value("2")), MST_OK);
    assert_int_equal(mst_dict_set(&w, d, value("true"), value("3")), MST_OK);
    assert_int_equal(mst_dict_set(&w, d, value("null"), value("4")), MST_OK);
    assert_int_equal(d->n, 2);

    e = mst_dict_find(&w, d, value("1"), &rc);
    assert_int_equal(e->value.u.n, 3);
    assert_null(mst_dict_find(&w, d, value("0"), &rc));
    assert_int_equal(rc, MST_OK);
    assert_null(mst_dict_find(&w, d, value("[]"), &rc));
    assert_int_equal(rc, MST_ERROR);
    assert_string_equal(err.text, "unhashable type: 'list'");
}


/* what is nested without end is refused, what is shared without end ends at
   the steps */

static void
test_deep(void **state)
{
    int           i;
    mst_list_t   *a, *b;
    mst_value_t   u, v;

    (void) state;

    u = value("1");
    v = u;

    for (i = 0; i < 200; i++) {
        a = mst_list_create(&w, 0);
        b = mst_list_create(&w, 0);
        assert_int_equal(mst_list_add(&w, a, u), MST_OK);
        assert_int_equal(mst_list_add(&w, b, v), MST_OK);
        u = mst_value_list(MST_VALUE_LIST, a);
        v = mst_value_list(MST_VALUE_LIST, b);
    }

    assert_int_equal(mst_value_equal(&w, u, v), MST_ERROR);
    assert_string_equal(err.text, "values are nested too deeply to be "
                        "compared");

    err.text[0] = '\0';
    u = value("1");
    v = u;

    for (i = 0; i < 60; i++) {
        a = mst_list_create(&w, 0);
        b = mst_list_create(&w, 0);
        assert_int_equal(mst_list_add(&w, a, u), MST_OK);
        assert_int_equal(mst_list_add(&w, a, u), MST_OK);
        assert_int_equal(mst_list_add(&w, b, v), MST_OK);
        assert_int_equal(mst_list_add(&w, b, v), MST_OK);
        u = mst_value_list(MST_VALUE_LIST, a);
        v = mst_value_list(MST_VALUE_LIST, b);
    }

    assert_int_equal(mst_value_equal(&w, u, v), MST_ERROR);
    assert_string_equal(err.text, "the template takes more than 2000000 "
                        "steps");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_truth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_equal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dict, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deep, setup, teardown)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
