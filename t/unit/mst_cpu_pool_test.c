
/*
 * Threads of the CPU backend: all run, barriers hold, nobody burns a core
 * while there is nothing to do.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "backend/mst_cpu_pool.h"

#define TEST_PHASES  50


typedef struct {
    mst_cpu_pool_t  *pool;
    uint32_t         n;
    uint32_t         seen[MST_CPU_POOL_MAX];
    uint32_t         wrong;
    uint64_t         sum[TEST_PHASES];
} job_t;


static void
count(void *data, uint32_t thread)
{
    job_t  *j;

    j = data;
    j->seen[thread]++;
}


/* a phase adds to a word that the next one checks */

static void
phases(void *data, uint32_t thread)
{
    job_t     *j;
    uint32_t   i;

    j = data;

    for (i = 0; i < TEST_PHASES; i++) {
        (void) __atomic_fetch_add(&j->sum[i], thread + 1, __ATOMIC_RELAXED);
        mst_cpu_pool_barrier(j->pool);

        if (j->sum[i] != (uint64_t) j->n * (j->n + 1) / 2) {
            (void) __atomic_fetch_add(&j->wrong, 1, __ATOMIC_RELAXED);
        }
    }
}


static void
threads_test(void **state)
{
    job_t      j;
    uint32_t   i, k;
    mst_err_t  err = { "" };

    static const uint32_t  sizes[] = { 1, 2, 3, 8, 64 };

    (void) state;

    for (k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        memset(&j, 0, sizeof(j));
        j.n = sizes[k];
        j.pool = mst_cpu_pool_create(j.n, &err);
        assert_non_null(j.pool);
        assert_int_equal(mst_cpu_pool_threads(j.pool), j.n);

        for (i = 1; i <= 20; i++) {
            mst_cpu_pool_run(j.pool, count, &j);

            if (i == 10) {
                usleep(2000);                  /* they fall asleep */
            }
        }

        for (i = 0; i < MST_CPU_POOL_MAX; i++) {
            assert_int_equal(j.seen[i], i < j.n ? 20 : 0);
        }

        mst_cpu_pool_run(j.pool, phases, &j);
        assert_int_equal(j.wrong, 0);
        mst_cpu_pool_destroy(j.pool);
    }

    mst_cpu_pool_destroy(NULL);
}


static double
cpu_seconds(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);

    return (double) ts.tv_sec + (double) ts.tv_nsec * 1e-9;
}


static void
idle_test(void **state)
{
    job_t      j;
    double     used;
    mst_err_t  err = { "" };

    (void) state;

    memset(&j, 0, sizeof(j));
    j.pool = mst_cpu_pool_create(2, &err);
    assert_non_null(j.pool);
    mst_cpu_pool_run(j.pool, count, &j);
    usleep(20000);

    used = cpu_seconds();
    usleep(500000);
    used = cpu_seconds() - used;
    print_message("idle: %.3f %% of a core\n", used * 200);
    assert_true(used < 0.005 * 0.5);

    mst_cpu_pool_destroy(j.pool);
}


static void
cores_test(void **state)
{
    cpu_set_t  one, old;

    (void) state;

    assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
    assert_true(mst_cpu_pool_cores() >= 1);
    assert_true((int) mst_cpu_pool_cores() <= CPU_COUNT(&old));

    CPU_ZERO(&one);

    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &old)) {
            CPU_SET(i, &one);
            break;
        }
    }

    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(mst_cpu_pool_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
}


static void
error_test(void **state)
{
    mst_err_t  err = { "" };

    (void) state;

    assert_null(mst_cpu_pool_create(65, &err));
    assert_string_equal(err.text, "65 threads, limits are 1 and 64");

    err.text[0] = '\0';
    assert_null(mst_cpu_pool_create(0, &err));
    assert_string_equal(err.text, "0 threads, limits are 1 and 64");

    err.text[0] = '\0';
    mst_mem_fail_after(1);
    assert_null(mst_cpu_pool_create(2, &err));
    mst_mem_fail_after(0);
    assert_string_equal(err.text, "out of memory for 2 threads");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(threads_test),
        cmocka_unit_test(idle_test),
        cmocka_unit_test(cores_test),
        cmocka_unit_test(error_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
