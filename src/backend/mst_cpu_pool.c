
/*
 * Threads of the CPU backend: see mst_cpu_pool.h.
 *
 * Two words carry everything: "run" counts the jobs, "passed" the barriers.
 * Each is an event: a counter to wait for the change of, and the number of
 * sleepers, so that nobody makes a system call while all are awake.
 */

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "backend/mst_cpu_group.h"
#include "backend/mst_cpu_pool.h"

#define MST_CPU_POOL_SPINS      3000   /* of about 30 ns */
#define MST_CPU_POOL_SPINS_LOW  50


typedef struct {
    _Alignas(64) uint32_t  value;
    uint32_t               sleepers;
} mst_cpu_event_t;


struct mst_cpu_pool_s {
    mst_cpu_event_t         run;       /* jobs so far; the caller adds */
    mst_cpu_event_t         passed;    /* barriers so far; the last adds */
    _Alignas(64) uint32_t   arrived;   /* threads at this barrier */
    _Alignas(64) uint32_t   n;
    uint32_t                n_started; /* pthreads, to be joined */
    uint32_t                spins;     /* before a thread sleeps for lack of
                                          work */
    uint32_t                patience;  /* the same at a barrier; all threads
                                          write, any value will do */
    uint32_t                stop;      /* read after run has changed */
    mst_cpu_pool_pt         fn;
    void                   *data;
    pthread_t               threads[MST_CPU_POOL_MAX];
};


typedef struct {
    mst_cpu_pool_t  *pool;
    uint32_t         index;
    uint32_t         taken;        /* the new thread has read this */
} mst_cpu_pool_start_t;


static void
mst_cpu_pool_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile ("" ::: "memory");
#endif
}


/* returns when the value is no longer "old"; nonzero: without sleep */

static int
mst_cpu_pool_await(mst_cpu_event_t *e, uint32_t old, uint32_t spins)
{
    uint32_t  i;

    for (i = 0; i < spins; i++) {

        /* partner: the addition in mst_cpu_pool_signal() */
        if (__atomic_load_n(&e->value, __ATOMIC_ACQUIRE) != old) {
            return 1;
        }

        mst_cpu_pool_pause();
    }

    /* sleepers, then value here; value, then sleepers there: one of the two
       sees the other, so that no wake-up is lost */

    (void) __atomic_add_fetch(&e->sleepers, 1, __ATOMIC_SEQ_CST);

    while (__atomic_load_n(&e->value, __ATOMIC_SEQ_CST) == old) {
        (void) syscall(SYS_futex, &e->value, FUTEX_WAIT_PRIVATE, old, NULL,
                       NULL, 0);
    }

    (void) __atomic_sub_fetch(&e->sleepers, 1, __ATOMIC_SEQ_CST);

    return 0;
}


static void
mst_cpu_pool_signal(mst_cpu_event_t *e)
{
    (void) __atomic_add_fetch(&e->value, 1, __ATOMIC_SEQ_CST);

    if (__atomic_load_n(&e->sleepers, __ATOMIC_SEQ_CST) != 0) {
        (void) syscall(SYS_futex, &e->value, FUTEX_WAKE_PRIVATE, INT_MAX,
                       NULL, NULL, 0);
    }
}


/* half the patience after a wait that was too long for it, twice after one
   that was not */

static void
mst_cpu_pool_meet(mst_cpu_pool_t *p, uint32_t old)
{
    uint32_t  n;

    n = __atomic_load_n(&p->patience, __ATOMIC_RELAXED);

    if (!mst_cpu_pool_await(&p->passed, old, n)) {
        n = n / 2 > MST_CPU_POOL_SPINS_LOW ? n / 2 : MST_CPU_POOL_SPINS_LOW;

    } else if (n < p->spins) {
        n *= 2;

    } else {
        return;
    }

    __atomic_store_n(&p->patience, n, __ATOMIC_RELAXED);
}


void
mst_cpu_pool_barrier(mst_cpu_pool_t *p)
{
    uint32_t  old;

    if (p->n == 1) {
        return;
    }

    /* cannot change before this thread has arrived */
    old = __atomic_load_n(&p->passed.value, __ATOMIC_RELAXED);

    /* partner: the same addition of the other threads */
    if (__atomic_add_fetch(&p->arrived, 1, __ATOMIC_ACQ_REL) < p->n) {
        mst_cpu_pool_meet(p, old);
        return;
    }

    __atomic_store_n(&p->arrived, 0, __ATOMIC_RELAXED);
    mst_cpu_pool_signal(&p->passed);
}


void
mst_cpu_pool_run(mst_cpu_pool_t *p, mst_cpu_pool_pt run, void *data)
{
    p->fn = run;
    p->data = data;

    if (p->n > 1) {
        mst_cpu_pool_signal(&p->run);
    }

    run(data, 0);
    mst_cpu_pool_barrier(p);
}


static void *
mst_cpu_pool_thread(void *data)
{
    uint32_t               index, seen;
    mst_cpu_pool_t        *p;
    mst_cpu_pool_start_t  *start;

    start = data;
    p = start->pool;
    index = start->index;

    /* partner: the load in mst_cpu_pool_start() */
    __atomic_store_n(&start->taken, 1, __ATOMIC_RELEASE);

    for (seen = 0; /* void */ ; seen++) {
        (void) mst_cpu_pool_await(&p->run, seen, p->spins);

        if (p->stop) {
            return NULL;
        }

        p->fn(p->data, index);
        mst_cpu_pool_barrier(p);
    }
}


static int
mst_cpu_pool_start(mst_cpu_pool_t *p, mst_err_t *err)
{
    int                   rc;
    sigset_t              all, old;
    mst_cpu_pool_start_t  start;

    /* signals are for the host's own threads */

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &old);

    for (rc = 0; p->n_started < p->n - 1; p->n_started++) {
        start.pool = p;
        start.index = p->n_started + 1;
        start.taken = 0;

        rc = pthread_create(&p->threads[p->n_started], NULL,
                            mst_cpu_pool_thread, &start);
        if (rc != 0) {
            break;
        }

        while (__atomic_load_n(&start.taken, __ATOMIC_ACQUIRE) == 0) {
            (void) sched_yield();
        }
    }

    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);

    if (rc != 0) {
        return mst_err_errno(err, rc, "cannot start thread %u of %u",
                             p->n_started + 2, p->n);
    }

    return MST_OK;
}


uint32_t
mst_cpu_pool_cores(void)
{
    int        n;
    uint64_t   quota;
    cpu_set_t  set;

    CPU_ZERO(&set);

    /* the set is too small where there are more than 1024 CPUs */

    n = sched_getaffinity(0, sizeof(set), &set) == 0
        ? CPU_COUNT(&set) : (int) sysconf(_SC_NPROCESSORS_ONLN);

    /* whole cores only: who is stopped for the rest of a period while others
       wait at a barrier stops them, too */

    quota = mst_cpu_group_quota() / 1000;

    if (n > 0 && quota < (uint64_t) n) {
        n = (int) quota;
    }

    if (n < 1) {
        return 1;
    }

    return n < MST_CPU_POOL_MAX ? (uint32_t) n : MST_CPU_POOL_MAX;
}


uint32_t
mst_cpu_pool_threads(const mst_cpu_pool_t *p)
{
    return p->n;
}


mst_cpu_pool_t *
mst_cpu_pool_create(uint32_t n, mst_err_t *err)
{
    mst_cpu_pool_t  *p;

    if (n < 1 || n > MST_CPU_POOL_MAX) {
        (void) mst_err_set(err, "%u threads, limits are 1 and %d", n,
                           MST_CPU_POOL_MAX);
        return NULL;
    }

    p = mst_memalign(64, sizeof(mst_cpu_pool_t));

    if (p == NULL) {
        (void) mst_err_set(err, "out of memory for %u threads", n);
        return NULL;
    }

    *p = (mst_cpu_pool_t) { .n = n };

    /* who spins on a core that the awaited thread needs only delays it */

    p->spins = n <= mst_cpu_pool_cores() ? MST_CPU_POOL_SPINS
                                         : MST_CPU_POOL_SPINS_LOW;
    p->patience = p->spins;

    if (mst_cpu_pool_start(p, err) != MST_OK) {
        mst_cpu_pool_destroy(p);
        return NULL;
    }

    return p;
}


void
mst_cpu_pool_destroy(mst_cpu_pool_t *p)
{
    uint32_t  i;

    if (p == NULL) {
        return;
    }

    p->stop = 1;
    mst_cpu_pool_signal(&p->run);

    for (i = 0; i < p->n_started; i++) {
        (void) pthread_join(p->threads[i], NULL);
    }

    mst_free(p);
}
