
/*
 * Bounded memory and steps.
 */

#include "jinja.h"


static void
test_memory(void **state)
{
    char        *p;
    size_t       i;
    mst_err_t    err = { "" };
    mst_work_t   w;

    (void) state;

    mst_work_init(&w, 100000, 10, &err);

    for (i = 0; i < 1000; i++) {
        p = mst_work_alloc(&w, i % 60);
        assert_non_null(p);
        assert_int_equal((uintptr_t) p % 16, 0);
        memset(p, 1, i % 60);
    }

    p = mst_work_alloc(&w, 50000);
    assert_non_null(p);
    memset(p, 1, 50000);

    assert_null(mst_work_alloc(&w, 50000));
    assert_string_equal(err.text, "the template needs more than 97 KiB of "
                        "memory");
    assert_null(mst_work_array(&w, SIZE_MAX, 2));
    assert_int_equal(mst_work_charge(&w, 50000), MST_ERROR);
    assert_int_equal(mst_work_charge(&w, 10), MST_OK);

    mst_work_fini(&w);
    mst_work_fini(&w);

    /* malloc()'s failure has no sentence */

    err.text[0] = '\0';
    mst_work_init(&w, 100000, 10, &err);
    mst_mem_fail_after(1);
    assert_null(mst_work_alloc(&w, 1));
    assert_null(mst_work_alloc(&w, 10000));
    mst_mem_fail_after(0);
    assert_string_equal(err.text, "");
    mst_work_fini(&w);
}


static void
test_steps(void **state)
{
    mst_err_t   err = { "" };
    mst_work_t  w;

    (void) state;

    mst_work_init(&w, 0, 10, &err);
    assert_int_equal(mst_work_steps(&w, 10), MST_OK);
    assert_int_equal(mst_work_steps(&w, 0), MST_OK);
    assert_int_equal(mst_work_steps(&w, 1), MST_ERROR);
    assert_string_equal(err.text, "the template takes more than 10 steps");
    assert_int_equal(mst_work_steps(&w, 0), MST_ERROR);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_steps)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
