
/*
 * Percentiles of the tools, against sorting.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "tools/mistral_stats.c"


static mistral_stats_t  s;


static void
test_empty(void **state)
{
    double  none;

    (void) state;

    mistral_stats_init(&s);
    assert_int_equal(mistral_stats_percentile(&s, 50), 0);
    assert_true(mistral_stats_mean(&s) == 0);
    assert_true(mistral_stats_median(&none, 0) == 0);
}


static void
test_small(void **state)
{
    size_t    i;

    static const struct {
        double    percent;
        uint64_t  value;
    } cases[] = {
        { 0, 1 }, { 1, 1 }, { 1.01, 2 }, { 50, 50 }, { 50.5, 51 }, { 90, 90 },
        { 99, 99 }, { 99.1, 100 }, { 100, 100 }
    };

    (void) state;

    mistral_stats_init(&s);

    for (i = 100; i > 0; i--) {
        mistral_stats_add(&s, i);
    }

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(mistral_stats_percentile(&s, cases[i].percent),
                         cases[i].value);
    }

    assert_true(mistral_stats_mean(&s) == 50.5);
    assert_int_equal(s.min, 1);
    assert_int_equal(s.max, 100);
}


static void
test_one(void **state)
{
    (void) state;

    mistral_stats_init(&s);
    mistral_stats_add(&s, 123456789);

    assert_int_equal(mistral_stats_percentile(&s, 1), 123456789);
    assert_int_equal(mistral_stats_percentile(&s, 99), 123456789);
}


/* cells are in order, without a gap, and each holds its own middle */

static void
test_cells(void **state)
{
    size_t    cell, last;
    uint64_t  v, w;

    (void) state;

    last = 0;

    for (v = 0; v < 70000; v++) {
        cell = mistral_stats_cell(v);
        assert_true(cell == last || cell == last + 1);
        last = cell;
    }

    for (v = 1; v != 0; v = v > UINT64_MAX / 3 ? 0 : v * 3 + 1) {
        cell = mistral_stats_cell(v);
        w = mistral_stats_value(cell);

        assert_true(cell < MISTRAL_STATS_CELLS);
        assert_int_equal(mistral_stats_cell(w), cell);
        assert_true((w > v ? w - v : v - w) <= v / 256);
    }

    assert_int_equal(mistral_stats_cell(UINT64_MAX), MISTRAL_STATS_CELLS - 1);

    w = mistral_stats_value(MISTRAL_STATS_CELLS - 1);
    assert_int_equal(mistral_stats_cell(w), MISTRAL_STATS_CELLS - 1);
}


/* random values of all sizes against their sorted list */

static void
test_random(void **state)
{
    size_t    i, k, rank;
    uint64_t  seed, got;

    static double        v[5001];
    static const double  percents[] = { 0.1, 10, 50, 90, 99, 99.9 };

    (void) state;

    seed = 20240229;
    print_message("# seed %llu\n", (unsigned long long) seed);
    mistral_stats_init(&s);

    for (i = 0; i < 5001; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        got = (seed >> 20) >> (seed % 40);
        v[i] = (double) got;
        mistral_stats_add(&s, got);
    }

    (void) mistral_stats_median(v, 5001);      /* sorts */

    for (k = 0; k < sizeof(percents) / sizeof(*percents); k++) {
        rank = (size_t) ceil(percents[k] / 100 * 5001) - 1;
        got = mistral_stats_percentile(&s, percents[k]);

        assert_true(fabs((double) got - v[rank]) <= v[rank] / 256);
    }
}


static void
test_median(void **state)
{
    double  odd[] = { 5, 1, 4, 2, 3 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };

    (void) state;

    assert_true(mistral_stats_median(odd, 5) == 3);
    assert_true(mistral_stats_median(even, 4) == 2.5);
    assert_true(mistral_stats_median(one, 1) == 7);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_median)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
