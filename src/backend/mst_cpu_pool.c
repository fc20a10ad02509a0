
/*
 * Threads of the CPU backend: see mst_cpu_pool.h.
 *
 * One word carries everything: the number of the phase, of which there is one
 * at a time, whether it is open, how many threads have begun it and how many
 * are at it.  A thread begins a phase by adding itself to the word, so that
 * the phase cannot end meanwhile; who leaves it last ends it and is at the
 * next one already.  Numbers go on over all jobs.  Between jobs the phase
 * that comes next stands there and is not open: then the fields of a job may
 * change.
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

#define MST_CPU_POOL_SPINS      3000   /* within a job; of about 30 ns */
#define MST_CPU_POOL_SPINS_GAP  15000  /* between two */
#define MST_CPU_POOL_SPINS_LOW  50
#define MST_CPU_POOL_SPINS_HELD 1200   /* a wake-up reaches another core */
#define MST_CPU_POOL_NEAR       8      /* threads that may all look at a word
                                          while others change it */

/* the word: phase << 32 | open | stop | begun << 8 | at it */

#define MST_CPU_POOL_PHASE  ((uint64_t) 1 << 32)
#define MST_CPU_POOL_OPEN   ((uint64_t) 1 << 31)
#define MST_CPU_POOL_STOP   ((uint64_t) 1 << 30)   /* no job comes any more */
#define MST_CPU_POOL_BEGUN  ((uint64_t) 1 << 8)
#define MST_CPU_POOL_AT     ((uint64_t) 1)

#define mst_cpu_pool_number(w)  ((uint32_t) ((w) >> 32))
#define mst_cpu_pool_begun(w)   ((uint32_t) (w) >> 8 & 0xff)
#define mst_cpu_pool_at(w)      ((uint32_t) (w) & 0xff)


struct mst_cpu_pool_s {
    _Alignas(64) uint64_t   word;
    _Alignas(64) uint64_t   turn;      /* the word as it was when its phase
                                          opened or the job ended */
    _Alignas(64) uint32_t   sleepers;  /* since the last wake-up */
    uint32_t                wakes;     /* so far; what they sleep on */
    _Alignas(64) uint32_t   patience;  /* spins within a job, now; all threads
                                          write, any value will do */
    uint32_t                held;      /* number of a phase that thread 0 will
                                          begin first; 0: none */
    _Alignas(64) uint32_t   n;         /* from here on all read much more than
                                          they write */
    uint32_t                n_started; /* pthreads, to be joined */
    uint32_t                gap;       /* spins before a thread sleeps for lack
                                          of a job */
    uint32_t                spins;     /* the same within a job, at most */
    const uint64_t         *look;      /* what waiting threads look at */

    /* the job; who is at a phase of it may read */
    mst_cpu_pool_job_t      job;
    uint32_t                first;     /* number of its first phase */
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


/* another phase than the one that was seen; open, if that is asked for */

static int
mst_cpu_pool_news(uint64_t word, uint32_t seen, int open)
{
    return mst_cpu_pool_number(word) != seen
           && (!open || (word & (MST_CPU_POOL_OPEN | MST_CPU_POOL_STOP)));
}


/* returns when there is news; nonzero: without sleep */

static int
mst_cpu_pool_await(mst_cpu_pool_t *p, uint32_t seen, int open, uint32_t spins)
{
    uint32_t  i, wakes;

    for (i = 0; i < spins; i++) {

        /* partner: mst_cpu_pool_turn() */
        if (mst_cpu_pool_news(__atomic_load_n(p->look, __ATOMIC_ACQUIRE),
                              seen, open))
        {
            return 1;
        }

        mst_cpu_pool_pause();
    }

    for ( ;; ) {

        /* sleepers, then the word here; the word, then sleepers there: one
           of the two sees the other, so that no wake-up is lost.  Who is no
           longer counted as a sleeper finds another number of wakes. */

        wakes = __atomic_load_n(&p->wakes, __ATOMIC_SEQ_CST);
        (void) __atomic_add_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);

        if (mst_cpu_pool_news(__atomic_load_n(p->look, __ATOMIC_SEQ_CST),
                              seen, open))
        {
            return 0;
        }

        (void) syscall(SYS_futex, &p->wakes, FUTEX_WAIT_PRIVATE, wakes, NULL,
                       NULL, 0);
    }
}


/* after a change of the word that others wait for */

static void
mst_cpu_pool_turn(mst_cpu_pool_t *p, uint64_t word)
{
    if (p->look == &p->turn) {
        __atomic_store_n(&p->turn, word, __ATOMIC_SEQ_CST);
    }

    if (__atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST) == 0) {
        return;
    }

    __atomic_store_n(&p->sleepers, 0, __ATOMIC_SEQ_CST);
    (void) __atomic_add_fetch(&p->wakes, 1, __ATOMIC_SEQ_CST);
    (void) syscall(SYS_futex, &p->wakes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL,
                   NULL, 0);
}


/* a phase as it opens, with n threads at it */

static uint64_t
mst_cpu_pool_opened(const mst_cpu_pool_t *p, uint32_t number, uint32_t n)
{
    n = p->job.all ? p->n : n;

    return number * MST_CPU_POOL_PHASE | MST_CPU_POOL_OPEN
           | n * (MST_CPU_POOL_BEGUN | MST_CPU_POOL_AT);
}


/* the next phase after the one that was seen, with this thread at it; 0: the
   job has ended */

static uint64_t
mst_cpu_pool_begin(mst_cpu_pool_t *p, uint32_t seen)
{
    uint64_t  word, more;

    word = __atomic_load_n(&p->word, __ATOMIC_ACQUIRE);

    do {
        if (!(word & MST_CPU_POOL_OPEN)
            || mst_cpu_pool_number(word) == seen)
        {
            return 0;
        }

        /* of a job for all it is counted already */

        if (mst_cpu_pool_begun(word) == p->n) {
            return word;
        }

        more = word + (MST_CPU_POOL_BEGUN | MST_CPU_POOL_AT);

        /* partner: who opened the phase, mst_cpu_pool_leave() or _run() */

    } while (!__atomic_compare_exchange_n(&p->word, &word, more, 0,
                                          __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));

    return more;
}


static int
mst_cpu_pool_held(const mst_cpu_pool_t *p, uint32_t number)
{
    /* partner: mst_cpu_pool_hold() */
    return __atomic_load_n(&p->held, __ATOMIC_ACQUIRE) == number;
}


/* 0, or the next phase that this thread has opened and is at */

static uint64_t
mst_cpu_pool_leave(mst_cpu_pool_t *p, uint32_t number, uint32_t thread)
{
    int       swept;
    uint64_t  word, next;

    swept = 0;
    word = __atomic_load_n(&p->word, __ATOMIC_RELAXED);

    for ( ;; ) {

        if (mst_cpu_pool_at(word) > 1) {
            next = word - MST_CPU_POOL_AT;

        } else if (mst_cpu_pool_begun(word) < p->n && !swept) {

            /* who has not come may have left work that nobody looked at */

            p->job.run(p->job.data, number - p->first, thread, 1);
            swept = 1;
            word = __atomic_load_n(&p->word, __ATOMIC_RELAXED);
            continue;

        } else if (number + 1 - p->first == p->job.n_phases) {
            next = (number + 1) * MST_CPU_POOL_PHASE;

        } else {
            next = mst_cpu_pool_opened(p, number + 1, thread == 0
                                       || !mst_cpu_pool_held(p, number + 1));
        }

        /* partner: the same of the other threads, and mst_cpu_pool_begin() */

        if (__atomic_compare_exchange_n(&p->word, &word, next, 0,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        {
            break;
        }
    }

    if (mst_cpu_pool_number(next) == number) {
        return 0;
    }

    mst_cpu_pool_turn(p, next);

    return mst_cpu_pool_at(next) ? next : 0;
}


/* phases as long as this thread is among those that open them; returns the
   number of the last */

static uint32_t
mst_cpu_pool_work(mst_cpu_pool_t *p, uint64_t word, uint32_t thread)
{
    uint32_t  number;

    do {
        number = mst_cpu_pool_number(word);
        p->job.run(p->job.data, number - p->first, thread, 0);
        word = mst_cpu_pool_leave(p, number, thread);

    } while (word);

    return number;
}


/* the end of a phase: half the patience after a wait that was too long for
   it, twice after one that was not.  A job for all would only be kept up by
   who slept. */

static void
mst_cpu_pool_meet(mst_cpu_pool_t *p, uint32_t seen, int all)
{
    uint32_t  n;

    if (all) {
        (void) mst_cpu_pool_await(p, seen, 0, p->spins);
        return;
    }

    n = __atomic_load_n(&p->patience, __ATOMIC_RELAXED);

    if (!mst_cpu_pool_await(p, seen, 0, n)) {
        n = n / 2 > MST_CPU_POOL_SPINS_LOW ? n / 2 : MST_CPU_POOL_SPINS_LOW;

    } else if (n < p->spins) {
        n *= 2;

    } else {
        return;
    }

    __atomic_store_n(&p->patience, n, __ATOMIC_RELAXED);
}


void
mst_cpu_pool_run(mst_cpu_pool_t *p, const mst_cpu_pool_job_t *job)
{
    uint32_t  i, end, seen;
    uint64_t  word;

    if (job->n_phases == 0) {
        return;
    }

    if (p->n == 1) {
        if (job->begun) {
            job->begun(job->data);
        }

        for (i = 0; i < job->n_phases; i++) {
            job->run(job->data, i, 0, 0);
        }

        return;
    }

    /* who comes late to the job before may still look at the word */

    p->job = *job;
    p->first = mst_cpu_pool_number(__atomic_load_n(&p->word,
                                                   __ATOMIC_RELAXED));
    end = p->first + job->n_phases;
    word = mst_cpu_pool_opened(p, p->first, 0);

    /* partner: mst_cpu_pool_begin() */
    __atomic_store_n(&p->word, word, __ATOMIC_SEQ_CST);
    mst_cpu_pool_turn(p, word);

    if (job->begun) {
        job->begun(job->data);
    }

    seen = p->first - 1;

    do {
        word = mst_cpu_pool_begin(p, seen);

        if (word) {
            seen = mst_cpu_pool_work(p, word, 0);
        }

        mst_cpu_pool_meet(p, seen, job->all);

    } while (mst_cpu_pool_number(__atomic_load_n(p->look, __ATOMIC_ACQUIRE))
             != end);
}


void
mst_cpu_pool_hold(mst_cpu_pool_t *p, uint32_t phase)
{
    uint32_t  number;

    number = phase ? p->first + phase : 0;

    /* the others read the line in each phase */

    if (p->held != number) {
        __atomic_store_n(&p->held, number, __ATOMIC_RELEASE);
    }
}


/* outside of a phase that is held, not for ever: thread 0 may be who has lost
   its core */

static void
mst_cpu_pool_stay(const mst_cpu_pool_t *p)
{
    uint32_t  i, number;

    number = mst_cpu_pool_number(__atomic_load_n(p->look, __ATOMIC_RELAXED));

    for (i = 0; i < MST_CPU_POOL_SPINS_HELD; i++) {
        if (!mst_cpu_pool_held(p, number)) {
            return;
        }

        mst_cpu_pool_pause();
    }
}


static void *
mst_cpu_pool_thread(void *data)
{
    int                    all;
    uint32_t               index, seen;
    uint64_t               word;
    mst_cpu_pool_t        *p;
    mst_cpu_pool_start_t  *start;

    start = data;
    p = start->pool;
    index = start->index;

    /* partner: the load in mst_cpu_pool_start() */
    __atomic_store_n(&start->taken, 1, __ATOMIC_RELEASE);

    for (seen = 0; /* void */ ; /* void */ ) {
        (void) mst_cpu_pool_await(p, seen, 1, p->gap);

        if (__atomic_load_n(p->look, __ATOMIC_RELAXED) & MST_CPU_POOL_STOP) {
            return NULL;
        }

        mst_cpu_pool_stay(p);
        word = mst_cpu_pool_begin(p, seen);

        if (word) {
            all = p->job.all;                  /* until the phase is left */
            seen = mst_cpu_pool_work(p, word, index);
            mst_cpu_pool_meet(p, seen, all);
        }
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
    p->word = MST_CPU_POOL_PHASE;
    p->turn = p->word;
    p->look = n > MST_CPU_POOL_NEAR ? &p->turn : &p->word;

    /* who spins on a core that the awaited thread needs only delays it */

    p->gap = MST_CPU_POOL_SPINS_LOW;
    p->spins = MST_CPU_POOL_SPINS_LOW;

    if (n <= mst_cpu_pool_cores()) {
        p->gap = MST_CPU_POOL_SPINS_GAP;
        p->spins = MST_CPU_POOL_SPINS;
    }

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
    uint64_t  word;

    if (p == NULL) {
        return;
    }

    /* who comes late to a job finds it closed */

    word = __atomic_load_n(&p->word, __ATOMIC_RELAXED) | MST_CPU_POOL_STOP;
    __atomic_store_n(&p->word, word, __ATOMIC_SEQ_CST);
    mst_cpu_pool_turn(p, word);

    for (i = 0; i < p->n_started; i++) {
        (void) pthread_join(p->threads[i], NULL);
    }

    mst_free(p);
}
