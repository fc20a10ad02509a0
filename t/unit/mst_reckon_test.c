
/*
 * What steps will take, by what steps took: the mean, the margin that 99 of
 * 100 steps keep, and hope where nothing was measured for a while.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mst_hash.h"
#include "base/mst_time.h"
#include "engine/mst_reckon.h"


#define BUDGET  512


static int
near(double a, double b)
{
    return a > b * 0.99 && a < b * 1.01;
}


static void
test_known(void **state)
{
    mst_reckon_t  r;

    (void) state;

    mst_reckon_init(&r, BUDGET);
    assert_false(mst_reckon_known(&r));
    assert_int_equal(mst_reckon_ns(&r, 1000, MST_S), 0);
    assert_int_equal(mst_reckon_sure_ns(&r, 1000, MST_S), 0);

    /* decodes alone say nothing of prompts */

    mst_reckon_add(&r, BUDGET, 0, MST_S, 100 * MST_S);
    assert_false(mst_reckon_known(&r));

    /* the first is known by whatever there is, then by what is enough */

    mst_reckon_add(&r, 10, 2, 10 * MST_MS, 100 * MST_S);
    assert_true(mst_reckon_known(&r));
    assert_true(near(mst_reckon_ns(&r, 100, 100 * MST_S), MST_S / 2));

    mst_reckon_add(&r, BUDGET / 8 - 1, BUDGET / 8 - 1, 10 * MST_S,
                   100 * MST_S);
    assert_true(near(mst_reckon_ns(&r, 100, 100 * MST_S), MST_S / 2));

    mst_reckon_add(&r, BUDGET / 8, BUDGET / 8, 10 * MST_S, 100 * MST_S);
    assert_true(mst_reckon_ns(&r, 100, 100 * MST_S) > 10 * MST_S);

    /* a step full of decodes does not end what is known of prompts */

    mst_reckon_add(&r, BUDGET, 0, 1000 * MST_S, 100 * MST_S);
    assert_true(mst_reckon_ns(&r, 100, 100 * MST_S) < 20 * MST_S);

    /* no more than a clock can show */

    assert_true(mst_reckon_ns(&r, UINT64_MAX, 100 * MST_S)
                == 1000000000000000000ull);
}


/* steps that are off by as much as "worst", one of 20 by all of it: how many
   were longer than it was said of them? */

static double
broken(double worst, uint64_t seed, double *margin)
{
    uint32_t      i, n, n_broken;
    uint64_t      ns, now, draw;
    mst_reckon_t  r;

    mst_reckon_init(&r, BUDGET);
    now = MST_S;
    n_broken = 0;

    for (i = 0; i < 20000; i++) {
        draw = mst_hash_mix(seed + i);
        n = 64 + (uint32_t) (draw % (BUDGET - 64));
        draw = mst_hash_mix(draw);
        ns = n * MST_MS
             + (uint64_t) (n * MST_MS * (worst - 1)
                           * (draw % 20 == 0 ? 1 : (double) (draw % 1000)
                                                   / 3000));

        n_broken += i >= 2000 && ns > mst_reckon_sure_ns(&r, n, now);
        now += ns;
        mst_reckon_add(&r, n, n, ns, now);
    }

    *margin = r.margin;

    return (double) n_broken / (i - 2000);
}


static void
test_margin(void **state)
{
    double    share, margin;
    uint64_t  seed;

    (void) state;

    for (seed = 1; seed < 6; seed++) {
        share = broken(1.1, seed << 32, &margin);
        assert_true(share < 0.015);
        assert_true(margin < 1.3);             /* and nothing is given away */

        share = broken(2.5, seed << 32, &margin);
        assert_true(share < 0.015);
        assert_true(margin > 1.5 && margin < 2.6);
    }
}


/* what was measured while others had the machine is not for ever */

static void
test_hope(void **state)
{
    uint32_t      i;
    uint64_t      now;
    mst_reckon_t  r;

    (void) state;

    mst_reckon_init(&r, BUDGET);
    now = MST_S;

    for (i = 0; i < 100; i++) {
        now += 10 * MST_S;
        mst_reckon_add(&r, 100, 100, 10 * MST_S, now);
    }

    assert_true(near(mst_reckon_ns(&r, 100, now), 10 * MST_S));
    assert_true(near(mst_reckon_ns(&r, 100, now + 5 * MST_S), 10 * MST_S));
    assert_true(near(mst_reckon_ns(&r, 100, now + 10 * MST_S), 5 * MST_S));
    assert_true(near(mst_reckon_ns(&r, 100, now + 20 * MST_S),
                     10 * MST_S / 8));
    assert_true(mst_reckon_ns(&r, 100, now + 3600 * MST_S) < MST_MS);
    assert_true(mst_reckon_sure(&r, MST_S, now + 20 * MST_S)
                > 4 * mst_reckon_sure(&r, MST_S, now));

    /* a clock that steps back is no time */

    assert_true(near(mst_reckon_ns(&r, 100, 0), 10 * MST_S));

    /* one step is enough then, and a short one, too */

    now += 60 * MST_S;
    mst_reckon_add(&r, 10, 10, 10 * MST_MS, now);
    assert_true(near(mst_reckon_ns(&r, 100, now), 100 * MST_MS));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_margin),
        cmocka_unit_test(test_hope)
    };

    return cmocka_run_group_tests_name("mst_reckon", tests, NULL, NULL);
}
