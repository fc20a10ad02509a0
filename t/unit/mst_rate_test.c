
/*
 * Rates: right from the first event on, the newer counts more, no time
 * without work.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mst_time.h"
#include "engine/mst_rate.h"


static int
near(double a, double b)
{
    return a > b * 0.999 && a < b * 1.001;
}


static void
test_constant(void **state)
{
    int         i;
    mst_rate_t  r;

    (void) state;

    mst_rate_init(&r, 10);
    assert_true(mst_rate_get(&r) == 0);

    mst_rate_add(&r, 0, 0);
    assert_true(mst_rate_get(&r) == 0);

    for (i = 0; i < 1000; i++) {
        mst_rate_add(&r, 5, 50 * MST_MS);
        assert_true(near(mst_rate_get(&r), 100));
    }

    /* events first, time later: as at a finish inside of a step */

    mst_rate_init(&r, 10);
    mst_rate_add(&r, 7, 0);
    assert_true(mst_rate_get(&r) == 0);
    mst_rate_add(&r, 0, MST_S);
    assert_true(mst_rate_get(&r) < 7 && mst_rate_get(&r) > 6);
}


static void
test_change(void **state)
{
    int         i;
    mst_rate_t  r;

    (void) state;

    mst_rate_init(&r, 10);

    for (i = 0; i < 1000; i++) {
        mst_rate_add(&r, 10, 100 * MST_MS);    /* 100 s of 100 */
    }

    for (i = 0; i < 100; i++) {
        mst_rate_add(&r, 1, 100 * MST_MS);     /* 10 s of 10 */
    }

    /* 10 + 90 / e */

    assert_true(mst_rate_get(&r) > 42 && mst_rate_get(&r) < 44);

    mst_rate_add(&r, 0, 1000 * MST_S);
    assert_true(mst_rate_get(&r) < 0.001);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_change)
    };

    return cmocka_run_group_tests_name("mst_rate", tests, NULL, NULL);
}
