
/*
 * What the sampler asks of a row: against obvious loops and long double, for
 * rows of any length and with what is no number anywhere.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>

#include "base/mst_err.h"
#include "base/mst_hash.h"
#include "engine/mst_row.h"


#define ROW_MAX  5000


static const uint32_t  sizes[] = { 1, 2, 7, 8, 9, 63, 64, 65, 257, 1023, 1024,
                                   1025, 1031, 2048, 4999, ROW_MAX };

#define ROW_SIZES  (sizeof(sizes) / sizeof(*sizes))

static uint64_t  draws;


static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(77 + ++draws * 0x9e3779b9ull) % n);
}


static float
rndf(float low, float high)
{
    return low + (high - low) * ((float) rnd(1 << 20) / (float) (1 << 20));
}


/* behind the row stands what must not be read: the sanitizers look */

static float *
row_of(uint32_t n, int kind)
{
    float     *x;
    uint32_t   i;

    x = malloc(n * sizeof(float));

    for (i = 0; i < n; i++) {
        x[i] = kind == 0 ? rndf(-20, 20)
               : kind == 1 ? (float) rnd(5) - 2            /* ties */
               : kind == 2 ? rndf(-1e38f, 1e38f)
               : rnd(3) ? -INFINITY : rndf(-900, 100);
    }

    x[rnd(n)] = 1;

    return x;
}


static void
max_test(void **state)
{
    int        kind;
    float     *x, max = 0, tops[mst_row_groups(ROW_MAX)];
    size_t     k;
    uint32_t   at, i, n, want;

    static const float  bad[] = { NAN, INFINITY, -NAN };

    (void) state;

    for (k = 0; k < 4 * ROW_SIZES; k++) {
        n = sizes[k / 4];
        kind = (int) (k % 4);
        x = row_of(n, kind);

        for (want = 0, i = 1; i < n; i++) {
            want = x[i] > x[want] ? i : want;
        }

        assert_int_equal(mst_row_max(x, n, tops, &at), MST_OK);
        assert_int_equal(at, want);

        for (i = 0; i < n; i++) {
            max = i % MST_ROW_GROUP && max > x[i] ? max : x[i];

            if (i + 1 == n || (i + 1) % MST_ROW_GROUP == 0) {
                assert_true(tops[i / MST_ROW_GROUP] == max);
            }
        }

        for (i = 0; i < n; i += 1 + n / 70) {
            max = x[i];
            x[i] = bad[i % 3];
            assert_int_equal(mst_row_max(x, n, tops, &at), MST_ERROR);
            x[i] = max;
        }

        for (i = 0; i < n; i++) {
            x[i] = -INFINITY;
        }

        assert_int_equal(mst_row_max(x, n, tops, &at), MST_ERROR);
        free(x);
    }
}


static void
above_test(void **state)
{
    float     *x, least, tops[mst_row_groups(ROW_MAX)];
    size_t     k;
    uint32_t  *ids, at, i, m, n;

    (void) state;

    for (k = 0; k < 12 * ROW_SIZES; k++) {
        n = sizes[k / 12];
        x = row_of(n, (int) (k % 4));
        ids = malloc(n * sizeof(uint32_t));
        assert_int_equal(mst_row_max(x, n, tops, &at), MST_OK);
        least = k % 3 == 0 ? -INFINITY : k % 3 == 1 ? x[at] : x[rnd(n)];

        m = mst_row_above(x, n, tops, least, ids);

        for (at = 0, i = 0; i < n; i++) {
            if (x[i] >= least && x[i] > -INFINITY) {
                assert_true(at < m);
                assert_int_equal(ids[at++], i);
            }
        }

        assert_int_equal(at, m);
        free(ids);
        free(x);
    }
}


static void
weigh_check(const float *x, uint32_t n, double factor)
{
    float         max;
    double       *u, *w, sum, sums[2][mst_row_blocks(ROW_MAX)];
    uint32_t      b, i;
    long double   all, block, want, z;

    w = malloc(n * sizeof(double));
    u = malloc(n * sizeof(double));

    for (max = -INFINITY, i = 0; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }

    sum = mst_row_weigh(x, n, max, factor, w, sums[0]);

    /* a wider vector gives the same bits */

    assert_true(mst_row_weigh_any(x, n, max, factor, u, sums[1]) == sum);
    assert_memory_equal(u, w, n * sizeof(double));
    assert_memory_equal(sums[0], sums[1],
                        mst_row_blocks(n) * sizeof(double));

    for (all = 0, b = 0, i = 0; b < mst_row_blocks(n); b++) {
        for (block = 0; i < n && i < (b + 1) * MST_ROW_BLOCK; i++) {
            z = ((long double) x[i] - (long double) max)
                * (long double) factor;
            want = z > -1000.001L ? exp2l(z) : 0;
            block += (long double) w[i];

            if (x[i] == max) {
                assert_true(w[i] == 1);
            }

            /* of the exponent, of the rest */

            assert_true(fabsl((long double) w[i] - want)
                        <= want * (fminl(-z, 1000) * 3e-16L + 2e-15L)
                           + 1e-300L);
        }

        all += block;
        assert_true(fabsl((long double) sums[0][b] - block) <= block * 1e-14L);
    }

    assert_true(fabsl((long double) sum - all) <= all * 1e-14L);
    free(u);
    free(w);
}


static void
weigh_test(void **state)
{
    float   *x;
    size_t   i, k;

    static const double  factors[] = { 1.4426950408889634, 2.06, 0.72, 1e3,
                                       1e30 };

    (void) state;

    for (k = 0; k < 4 * ROW_SIZES; k++) {
        x = row_of(sizes[k / 4], (int) (k % 4));

        for (i = 0; i < sizeof(factors) / sizeof(*factors); i++) {
            weigh_check(x, sizes[k / 4], factors[i]);
        }

        free(x);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(max_test),
        cmocka_unit_test(above_test),
        cmocka_unit_test(weigh_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
