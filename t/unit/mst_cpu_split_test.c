
/*
 * Parts of a command: every unit is taken exactly once, whoever comes.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mst_cpu_pool.h"
#include "backend/mst_cpu_split.h"

#define TEST_JOBS   400
#define TEST_UNITS  600


typedef struct {
    mst_cpu_pool_t   *pool;
    mst_cpu_split_t  *splits;
    uint32_t          threads;
    uint32_t          first;       /* number of the first job */
    uint32_t          lazy;        /* this thread takes nothing */
    uint32_t          taken[TEST_JOBS][TEST_UNITS];
} test_t;


static void
first_test(void **state)
{
    uint32_t  i, n, threads, total;

    (void) state;

    for (threads = 1; threads <= MST_CPU_POOL_MAX; threads++) {
        for (total = 0; total < 300; total += 7) {
            assert_int_equal(mst_cpu_split_first(total, threads, 0), 0);
            assert_int_equal(mst_cpu_split_first(total, threads, threads),
                             total);

            for (i = 0; i < threads; i++) {
                n = mst_cpu_split_first(total, threads, i + 1)
                    - mst_cpu_split_first(total, threads, i);
                assert_in_range(n, total / threads, total / threads + 1);
            }
        }
    }

    /* no overflow */
    assert_int_equal(mst_cpu_split_first(UINT32_MAX, 64, 64), UINT32_MAX);
}


/* alone, a thread takes its own part in order, then a neighbour's */

static void
order_test(void **state)
{
    uint32_t          at, left, n, want;
    mst_cpu_split_t  *s;

    static const mst_cpu_split_job_t  four = { 1, 30, 4, 0 };
    static const mst_cpu_split_job_t  many = { 1, 30, 100, 0 };
    static const mst_cpu_split_job_t  next = { 2, 100, 0, 0 };

    (void) state;

    s = aligned_alloc(64, 3 * sizeof(*s));
    memset(s, 0, 3 * sizeof(*s));

    for (want = 10; want < 20; want += n) {
        n = mst_cpu_split_take(s, 3, 1, &four, &at);
        assert_int_equal(at, want);
        assert_int_equal(n, want < 18 ? 4 : 2);
    }

    assert_int_equal(mst_cpu_split_take(s, 3, 1, &four, &at), 4);
    assert_int_equal(at, 20);
    assert_int_equal(mst_cpu_split_take(s, 3, 2, &many, &at), 6);
    assert_int_equal(at, 24);
    assert_int_equal(mst_cpu_split_take(s, 3, 2, &many, &at), 10);
    assert_int_equal(at, 0);
    assert_int_equal(mst_cpu_split_take(s, 3, 0, &many, &at), 0);

    /* the next job begins anew; pieces shrink */

    for (left = 100, want = 0; left; left -= n, want += n) {
        n = mst_cpu_split_take(s, 1, 0, &next, &at);
        assert_int_equal(at, want);
        assert_int_equal(n, left / 4 + 1 < left ? left / 4 + 1 : left);
    }

    assert_int_equal(mst_cpu_split_take(s, 1, 0, &next, &at), 0);
    free(s);
}


/* a far part is found by who looks at all of them */

static void
all_test(void **state)
{
    uint32_t              at, n, sum;
    mst_cpu_split_t      *s;
    mst_cpu_split_job_t   job = { 1, 640, 0, 0 };

    (void) state;

    s = aligned_alloc(64, 64 * sizeof(*s));
    memset(s, 0, 64 * sizeof(*s));
    sum = 0;

    while ((n = mst_cpu_split_take(s, 64, 60, &job, &at)) != 0) {
        assert_true(at >= 600 || at < 10);     /* 60 .. 63 and 0 */
        sum += n;
    }

    assert_int_equal(sum, 50);
    job.all = 1;

    while ((n = mst_cpu_split_take(s, 64, 60, &job, &at)) != 0) {
        assert_in_range(at, 10, 599);
        sum += n;
    }

    assert_int_equal(sum, 640);
    free(s);
}


static void
run(void *data, uint32_t phase, uint32_t thread, int last)
{
    test_t               *t;
    uint32_t              at, n;
    mst_cpu_split_job_t   job;

    t = data;

    job.number = t->first + phase;
    job.total = phase * 31 % TEST_UNITS;
    job.piece = phase % 4;
    job.all = last;

    while ((thread != t->lazy || last)
           && (n = mst_cpu_split_take(t->splits, t->threads, thread, &job,
                                      &at)) != 0)
    {
        while (n--) {
            (void) __atomic_add_fetch(&t->taken[phase][at++], 1,
                                      __ATOMIC_RELAXED);
        }
    }
}


static void
threads_test(void **state)
{
    test_t              *t;
    uint32_t             i, job, n;
    mst_err_t            err = { "" };
    mst_cpu_pool_job_t   pool_job = { 0 };

    (void) state;

    for (n = 2; n <= 17; n += n < 5 ? 1 : 6) {
        t = calloc(1, sizeof(*t));
        t->splits = aligned_alloc(64, n * sizeof(mst_cpu_split_t));
        memset(t->splits, 0, n * sizeof(mst_cpu_split_t));
        t->pool = mst_cpu_pool_create(n, &err);
        assert_non_null(t->pool);
        t->threads = n;
        t->lazy = n == 2 || n == 4;            /* neighbours do its part */
        t->lazy = t->lazy ? 1 : n;
        t->first = UINT32_MAX - TEST_JOBS / 2;     /* numbers wrap around */

        pool_job.run = run;
        pool_job.data = t;
        pool_job.n_phases = TEST_JOBS;

        mst_cpu_pool_run(t->pool, &pool_job);

        for (job = 0; job < TEST_JOBS; job++) {
            for (i = 0; i < TEST_UNITS; i++) {
                assert_int_equal(t->taken[job][i],
                                 i < job * 31 % TEST_UNITS);
            }
        }

        mst_cpu_pool_destroy(t->pool);
        free(t->splits);
        free(t);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(first_test),
        cmocka_unit_test(order_test),
        cmocka_unit_test(all_test),
        cmocka_unit_test(threads_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
