
/*
 * The engine's rates: over work only, from the sums of all.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mst_time.h"
#include "engine/mst_meter.h"


static int
near(double a, double b)
{
    return a > b * 0.99 && a < b * 1.01;
}


static void
test_work(void **state)
{
    int          i;
    uint64_t     now;
    mst_meter_t  m;

    (void) state;

    mst_meter_init(&m);
    now = 5 * MST_S;

    for (i = 1; i <= 1000; i++) {
        mst_meter_begin(&m, now);
        now += 20 * MST_MS;
        mst_meter_add(&m, (uint64_t) i, 10 * (uint64_t) i, now, 1,
                      i % 10 != 0);

        /* an hour off after each ten steps */

        now += i % 10 ? 0 : 3600 * MST_S;
    }

    assert_true(near(mst_rate_get(&m.finishes), 50));
    assert_true(near(mst_rate_get(&m.tokens), 500));

    /* sleeping beside work that goes on is work */

    mst_meter_begin(&m, now);
    mst_meter_add(&m, 1000, 10000, now, 1, 1);
    mst_meter_begin(&m, now + 100 * MST_S);
    mst_meter_add(&m, 1100, 10000, now + 100 * MST_S, 1, 1);
    assert_true(near(mst_rate_get(&m.finishes), 1));

    /* a clock that steps back is no time */

    mst_meter_add(&m, 1100, 10000, now, 1, 1);
    assert_true(near(mst_rate_get(&m.finishes), 1));

    /* with places free nobody knows how many could have ended */

    mst_meter_add(&m, 1200, 10500, now + 100 * MST_S, 0, 1);
    assert_true(near(mst_rate_get(&m.finishes), 1));
    assert_true(near(mst_rate_get(&m.tokens), 5));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_work)
    };

    return cmocka_run_group_tests_name("mst_meter", tests, NULL, NULL);
}
