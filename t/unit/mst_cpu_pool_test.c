
/*
 * Threads of the CPU backend: each piece of each phase is done once and before
 * the next phase, whoever comes, and nobody burns a core while there is
 * nothing to do.
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

#define TEST_PHASES  200
#define TEST_PIECES  6


typedef struct {
    uint32_t  n;                                   /* threads */
    uint32_t  seen[MST_CPU_POOL_MAX];
    uint32_t  n_phases;
    uint32_t  begun;
    uint32_t  wrong;
    uint32_t  next[TEST_PHASES];
    uint32_t  part[TEST_PHASES][MST_CPU_POOL_MAX];
    uint32_t  done[TEST_PHASES];                   /* pieces */
} job_t;


static void
begun(void *data)
{
    ((job_t *) data)->begun++;
}


/* all threads, each phase */

static void
count(void *data, uint32_t phase, uint32_t thread, int last)
{
    job_t  *j;

    j = data;
    j->seen[thread] += phase + 1;

    if (last) {
        (void) __atomic_fetch_add(&j->wrong, 1, __ATOMIC_RELAXED);
    }
}


/* what was written in the phase before is read without locks */

static void
check(job_t *j, uint32_t phase, uint32_t want)
{
    if (phase != 0 && j->done[phase - 1] != want) {
        (void) __atomic_fetch_add(&j->wrong, 1, __ATOMIC_RELAXED);
    }
}


static void
pieces(void *data, uint32_t phase, uint32_t thread, int last)
{
    job_t  *j;

    (void) thread;
    (void) last;

    j = data;

    if (phase >= j->n_phases) {
        (void) __atomic_fetch_add(&j->wrong, 1, __ATOMIC_RELAXED);
        return;
    }

    check(j, phase, TEST_PIECES);

    while (__atomic_fetch_add(&j->next[phase], 1, __ATOMIC_RELAXED)
           < TEST_PIECES)
    {
        (void) __atomic_fetch_add(&j->done[phase], 1, __ATOMIC_RELAXED);
    }
}


/* a piece for each thread, which others take only when they are the last:
   those who come late have theirs done, once */

static void
parts(void *data, uint32_t phase, uint32_t thread, int last)
{
    job_t     *j;
    uint32_t   i;

    j = data;
    check(j, phase, j->n);

    for (i = last ? 0 : thread; i < (last ? j->n : thread + 1); i++) {
        if (__atomic_exchange_n(&j->part[phase][i], 1, __ATOMIC_RELAXED) == 0)
        {
            (void) __atomic_fetch_add(&j->done[phase], 1, __ATOMIC_RELAXED);
        }
    }
}


static void
run(mst_cpu_pool_t *p, job_t *j, mst_cpu_pool_pt fn, uint32_t n, int all)
{
    mst_cpu_pool_job_t  job = { 0 };

    memset(j, 0, sizeof(*j));
    j->n = mst_cpu_pool_threads(p);
    j->n_phases = n;
    job.run = fn;
    job.begun = begun;
    job.data = j;
    job.n_phases = n;
    job.all = all;

    mst_cpu_pool_run(p, &job);

    assert_int_equal(j->wrong, 0);
    assert_int_equal(j->begun, n != 0);
}


static void
threads_test(void **state)
{
    uint32_t         i, k, n;
    mst_err_t        err = { "" };
    mst_cpu_pool_t  *p;

    static job_t           j;
    static const uint32_t  sizes[] = { 1, 2, 3, 8, 9, 64 };

    (void) state;

    for (k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        n = sizes[k];
        p = mst_cpu_pool_create(n, &err);
        assert_non_null(p);
        assert_int_equal(mst_cpu_pool_threads(p), n);

        for (i = 1; i <= 20; i++) {
            run(p, &j, pieces, i % 5, 0);

            if (i % 5) {
                assert_int_equal(j.done[i % 5 - 1], TEST_PIECES);
            }

            run(p, &j, parts, i, 0);
            assert_int_equal(j.done[i - 1], n);

            if (i == 10) {
                usleep(2000);                  /* they fall asleep */
            }
        }

        for (i = 0; i < 3; i++) {
            run(p, &j, parts, TEST_PHASES, 0);
            assert_int_equal(j.done[TEST_PHASES - 1], n);

            run(p, &j, pieces, TEST_PHASES, 0);
            assert_int_equal(j.done[TEST_PHASES - 1], TEST_PIECES);
        }

        mst_cpu_pool_destroy(p);
    }

    mst_cpu_pool_destroy(NULL);
}


/* each thread has its part of each phase */

static void
all_test(void **state)
{
    uint32_t         i, k, n;
    mst_err_t        err = { "" };
    mst_cpu_pool_t  *p;

    static job_t  j;

    (void) state;

    for (n = 1; n <= 16; n += 5) {
        p = mst_cpu_pool_create(n, &err);
        assert_non_null(p);

        for (i = 1; i <= 12; i++) {
            run(p, &j, count, i, 1);

            for (k = 0; k < MST_CPU_POOL_MAX; k++) {
                assert_int_equal(j.seen[k], k < n ? i * (i + 1) / 2 : 0);
            }

            run(p, &j, parts, i, 0);
            assert_int_equal(j.done[i - 1], n);
        }

        mst_cpu_pool_destroy(p);
    }
}


/* threads that come late to the last job of a pool are given none */

static void
late_test(void **state)
{
    uint32_t         i;
    mst_err_t        err = { "" };
    mst_cpu_pool_t  *p;

    static job_t  j;

    (void) state;

    for (i = 0; i < 100; i++) {
        p = mst_cpu_pool_create(16, &err);
        assert_non_null(p);
        run(p, &j, pieces, 2, 0);
        mst_cpu_pool_destroy(p);
        assert_int_equal(j.wrong, 0);
        assert_int_equal(j.done[1], TEST_PIECES);
    }
}


static double
seconds(clockid_t clock)
{
    struct timespec  ts;

    (void) clock_gettime(clock, &ts);

    return (double) ts.tv_sec + (double) ts.tv_nsec * 1e-9;
}


static void
idle_test(void **state)
{
    double           used;
    mst_err_t        err = { "" };
    mst_cpu_pool_t  *p;

    static job_t  j;

    (void) state;

    p = mst_cpu_pool_create(2, &err);
    assert_non_null(p);
    run(p, &j, count, 1, 1);
    usleep(20000);

    used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    usleep(500000);
    used = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
    print_message("idle: %.3f %% of a core\n", used * 200);
    assert_true(used < 0.005 * 0.5);

    mst_cpu_pool_destroy(p);
}


/* what thread 1 has used until now */

static void
used_by_one(void *data, uint32_t phase, uint32_t thread, int last)
{
    (void) phase;
    (void) last;

    if (thread == 1) {
        *(double *) data = seconds(CLOCK_THREAD_CPUTIME_ID);
    }
}


/* who waits for the next step of a busy engine does not sleep: for so long it
   looks for one, in time of its own, which others on its core do not change */

static void
gap_test(void **state)
{
#if defined(__x86_64__)
    int                 i;
    double              now, before, least;
    mst_err_t           err = { "" };
    mst_cpu_pool_t     *p;
    mst_cpu_pool_job_t  job = { 0 };

    (void) state;

    if (mst_cpu_pool_cores() < 2) {
        skip();
    }

    p = mst_cpu_pool_create(2, &err);
    assert_non_null(p);

    job.run = used_by_one;
    job.data = &now;
    job.n_phases = 1;
    job.all = 1;
    least = 1;

    mst_cpu_pool_run(p, &job);

    for (i = 0; i < 8; i++) {
        before = now;
        usleep(20000);
        mst_cpu_pool_run(p, &job);
        least = now - before < least ? now - before : least;
    }

    print_message("a gap without sleep: %.3f ms\n", least * 1000);
    assert_true(least > 0.00025);
    mst_cpu_pool_destroy(p);
#else
    (void) state;
    skip();
#endif
}


typedef struct {
    mst_cpu_pool_t  *pool;
    int              release;
    uint32_t         begun[3];     /* threads, by phase */
    uint32_t         early;        /* in phase 1 before thread 0 said so */
    uint32_t         wrong;
} held_t;


/* thread 0 holds phase 1 and is busy at its begin, as if it woke a process */

static void
held_phase(void *data, uint32_t phase, uint32_t thread, int last)
{
    double   from;
    held_t  *h;

    h = data;

    if (last) {
        return;
    }

    if (phase > 0
        && __atomic_load_n(&h->begun[phase - 1], __ATOMIC_RELAXED) == 0)
    {
        (void) __atomic_fetch_add(&h->wrong, 1, __ATOMIC_RELAXED);
    }

    (void) __atomic_fetch_add(&h->begun[phase], 1, __ATOMIC_RELAXED);

    if (thread == 0 && phase == 0) {
        mst_cpu_pool_hold(h->pool, 1);
    }

    if (phase == 1 && thread == 0) {
        for (from = seconds(CLOCK_MONOTONIC);
             seconds(CLOCK_MONOTONIC) < from + 0.00001;
             /* void */ )
        {
            /* void */
        }

        h->early += __atomic_load_n(&h->begun[1], __ATOMIC_RELAXED) > 1;

        if (h->release) {
            mst_cpu_pool_hold(h->pool, 0);
        }
    }

    /* all are there when the phase ends */

    for (from = seconds(CLOCK_MONOTONIC);
         seconds(CLOCK_MONOTONIC) < from + 0.00001;
         /* void */ )
    {
        /* void */
    }
}


/* others do not begin a phase that is held, but wait for nobody for ever */

static void
hold_test(void **state)
{
    uint32_t            i, k, n, early;
    held_t              h;
    mst_err_t           err = { "" };
    mst_cpu_pool_job_t  job = { 0 };

    static const uint32_t  sizes[] = { 1, 2, 3, 12 };

    (void) state;

    for (k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        n = sizes[k];
        memset(&h, 0, sizeof(h));
        h.pool = mst_cpu_pool_create(n, &err);
        assert_non_null(h.pool);

        job.run = held_phase;
        job.data = &h;
        job.n_phases = 3;

        for (i = 0, early = 0; i < 400; i++) {
            memset(h.begun, 0, sizeof(h.begun));
            h.release = i % 2;
            h.early = 0;

            mst_cpu_pool_run(h.pool, &job);

            assert_int_equal(h.wrong, 0);
            assert_true(h.begun[0] >= 1 && h.begun[0] <= n);
            assert_true(h.begun[1] >= 1 && h.begun[1] <= n);
            assert_true(h.begun[2] >= 1 && h.begun[2] <= n);
            early += h.early;
        }

        print_message("%u threads: %u of 400 early\n", n, early);

        if (n <= mst_cpu_pool_cores()) {
            assert_true(early < 100);
        }

        mst_cpu_pool_destroy(h.pool);
    }
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
        cmocka_unit_test(all_test),
        cmocka_unit_test(late_test),
        cmocka_unit_test(idle_test),
        cmocka_unit_test(gap_test),
        cmocka_unit_test(hold_test),
        cmocka_unit_test(cores_test),
        cmocka_unit_test(error_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
