
/*
 * The breaker: each step of its life, the borders of its times, several
 * processes at once, and random calls against a slow model that keeps lists.
 */

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mst_breaker.h"
#include "base/mst_hash.h"
#include "base/mst_time.h"

#include "seed.h"


#define T0  (1000 * MST_S)


static mst_breaker_conf_t  conf = {
    .errors = 3, .window_ns = 30 * MST_S, .open_ns = 10 * MST_S, .probes = 2
};


static mst_breaker_state_t
state_at(const mst_breaker_t *b, uint64_t now)
{
    uint64_t  wait;

    return mst_breaker_state(b, now, &wait);
}


static uint64_t
wait_at(const mst_breaker_t *b, uint64_t now)
{
    uint64_t  wait;

    (void) mst_breaker_state(b, now, &wait);

    return wait;
}


/* one that three faults at T0 have opened */

static void
open_one(mst_breaker_t *b)
{
    memset(b, 0, sizeof(mst_breaker_t));

    assert_int_equal(mst_breaker_fault(b, &conf, T0), MST_OK);
    assert_int_equal(mst_breaker_fault(b, &conf, T0), MST_OK);
    assert_int_equal(mst_breaker_fault(b, &conf, T0), MST_DONE);
}


static void
test_open(void **state)
{
    uint64_t       probe;
    mst_breaker_t  b;

    (void) state;

    memset(&b, 0, sizeof(b));
    probe = 7;

    assert_int_equal(state_at(&b, T0), MST_BREAKER_CLOSED);
    assert_int_equal(mst_breaker_look(&b, &conf, T0), MST_OK);
    assert_int_equal(mst_breaker_enter(&b, &conf, T0, &probe), MST_OK);
    assert_int_equal(probe, 0);

    open_one(&b);

    assert_int_equal(b.opened, 1);
    assert_int_equal(state_at(&b, T0), MST_BREAKER_OPEN);
    assert_int_equal(wait_at(&b, T0), 10 * MST_S);
    assert_int_equal(wait_at(&b, T0 + 10 * MST_S - MST_MS), MST_MS);
    assert_int_equal(mst_breaker_look(&b, &conf, T0), MST_BUSY);
    assert_int_equal(mst_breaker_enter(&b, &conf, T0, &probe), MST_BUSY);
    assert_int_equal(mst_breaker_enter(&b, &conf, T0 + 10 * MST_S - MST_MS,
                                       &probe), MST_BUSY);

    /* late faults of the same crash make it no longer */

    assert_int_equal(mst_breaker_fault(&b, &conf, T0 + MST_S), MST_OK);
    assert_int_equal(wait_at(&b, T0), 10 * MST_S);
    assert_int_equal(state_at(&b, T0 + 10 * MST_S), MST_BREAKER_HALF_OPEN);
    assert_int_equal(wait_at(&b, T0 + 10 * MST_S), 0);
}


static void
test_window(void **state)
{
    uint64_t       t;
    mst_breaker_t  b;

    (void) state;

    /* the third one in time, and just not in time */

    for (t = conf.window_ns - 1; t <= conf.window_ns; t++) {
        memset(&b, 0, sizeof(b));

        assert_int_equal(mst_breaker_fault(&b, &conf, T0), MST_OK);
        assert_int_equal(mst_breaker_fault(&b, &conf, T0 + 5), MST_OK);
        assert_int_equal(mst_breaker_fault(&b, &conf, T0 + t),
                         t < conf.window_ns ? MST_DONE : MST_OK);
    }

    /* the first left, the next three count */

    assert_int_equal(mst_breaker_fault(&b, &conf, T0 + 5 + conf.window_ns - 1),
                     MST_DONE);

    /* clocks of two processes differ a little */

    memset(&b, 0, sizeof(b));

    assert_int_equal(mst_breaker_fault(&b, &conf, T0 + 9), MST_OK);
    assert_int_equal(mst_breaker_fault(&b, &conf, T0 + 5), MST_OK);
    assert_int_equal(mst_breaker_fault(&b, &conf, T0), MST_DONE);
}


static void
test_errors(void **state)
{
    uint32_t            i;
    mst_breaker_t       b;
    mst_breaker_conf_t  c;

    (void) state;

    c = conf;
    c.errors = 1;
    memset(&b, 0, sizeof(b));
    assert_int_equal(mst_breaker_fault(&b, &c, T0), MST_DONE);

    c.errors = MST_BREAKER_ERRORS;
    memset(&b, 0, sizeof(b));

    for (i = 1; i < MST_BREAKER_ERRORS; i++) {
        assert_int_equal(mst_breaker_fault(&b, &c, T0 + i), MST_OK);
    }

    assert_int_equal(mst_breaker_fault(&b, &c, T0 + i), MST_DONE);
}


static void
test_half_open(void **state)
{
    uint64_t       one, two, three, t;
    mst_breaker_t  b;

    (void) state;

    open_one(&b);
    t = T0 + conf.open_ns;

    assert_int_equal(mst_breaker_enter(&b, &conf, t, &one), MST_OK);
    assert_int_equal(mst_breaker_look(&b, &conf, t), MST_OK);
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &two), MST_OK);
    assert_true(one != 0 && two != 0);
    assert_int_equal(mst_breaker_look(&b, &conf, t), MST_BUSY);
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &three), MST_BUSY);

    /* one that never was asked gives its turn to another */

    mst_breaker_leave(&b, two);
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &two), MST_OK);

    /* one that went well does not */

    assert_int_equal(mst_breaker_pass(&b, &conf, one), MST_OK);
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &three), MST_BUSY);
    assert_int_equal(state_at(&b, t), MST_BREAKER_HALF_OPEN);

    assert_int_equal(mst_breaker_pass(&b, &conf, two), MST_DONE);
    assert_int_equal(state_at(&b, t), MST_BREAKER_CLOSED);

    /* the faults of before are forgotten, though the window has not ended */

    assert_int_equal(mst_breaker_fault(&b, &conf, t), MST_OK);
    assert_int_equal(mst_breaker_fault(&b, &conf, t), MST_OK);
    assert_int_equal(mst_breaker_fault(&b, &conf, t), MST_DONE);
    assert_int_equal(b.opened, 2);
}


static void
test_fails_again(void **state)
{
    uint64_t       one, two, t;
    mst_breaker_t  b;

    (void) state;

    open_one(&b);
    t = T0 + conf.open_ns;

    assert_int_equal(mst_breaker_enter(&b, &conf, t, &one), MST_OK);
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &two), MST_OK);
    assert_int_equal(mst_breaker_fault(&b, &conf, t + MST_S), MST_DONE);
    assert_int_equal(mst_breaker_fault(&b, &conf, t + MST_S), MST_OK);
    assert_int_equal(wait_at(&b, t + MST_S), conf.open_ns);

    /* what the other one says comes too late */

    assert_int_equal(mst_breaker_pass(&b, &conf, two), MST_OK);
    mst_breaker_leave(&b, two);
    assert_int_equal(wait_at(&b, t + MST_S), conf.open_ns);

    t += MST_S + conf.open_ns;
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &one), MST_OK);
    assert_int_equal(mst_breaker_pass(&b, &conf, two), MST_OK);
    assert_int_equal(mst_breaker_pass(&b, &conf, one), MST_OK);
    assert_int_equal(state_at(&b, t), MST_BREAKER_HALF_OPEN);
}


/* their worker was killed, or they wait for their first token */

static void
test_lost_probes(void **state)
{
    uint64_t       probe, late, t;
    mst_breaker_t  b;

    (void) state;

    open_one(&b);
    t = T0 + conf.open_ns;

    assert_int_equal(mst_breaker_enter(&b, &conf, t, &late), MST_OK);
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &probe), MST_OK);

    t += conf.open_ns - MST_MS;
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &probe), MST_BUSY);

    t += MST_MS;
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &probe), MST_OK);
    assert_int_equal(mst_breaker_pass(&b, &conf, late), MST_OK);
    assert_int_equal(mst_breaker_pass(&b, &conf, probe), MST_OK);
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &probe), MST_OK);
    assert_int_equal(mst_breaker_enter(&b, &conf, t, &late), MST_BUSY);
    assert_int_equal(mst_breaker_pass(&b, &conf, probe), MST_DONE);
}


static void
test_reset(void **state)
{
    uint64_t       probe;
    mst_breaker_t  b;

    (void) state;

    open_one(&b);
    assert_int_equal(mst_breaker_enter(&b, &conf, T0 + conf.open_ns, &probe),
                     MST_OK);

    mst_breaker_reset(&b);
    assert_int_equal(state_at(&b, T0), MST_BREAKER_CLOSED);
    assert_int_equal(mst_breaker_pass(&b, &conf, probe), MST_OK);
    mst_breaker_leave(&b, probe);
    assert_int_equal(b.word, 0);

    assert_int_equal(mst_breaker_fault(&b, &conf, T0), MST_OK);
    assert_int_equal(mst_breaker_fault(&b, &conf, T0), MST_OK);
    mst_breaker_reset(&b);
    assert_int_equal(mst_breaker_fault(&b, &conf, T0), MST_OK);
    assert_int_equal(state_at(&b, T0), MST_BREAKER_CLOSED);
}


typedef struct {
    mst_breaker_t     b;
    _Atomic uint32_t  go;
    _Atomic uint32_t  ready;
    _Atomic uint32_t  done;        /* how many saw it open */
    _Atomic uint32_t  entered;
    _Atomic uint32_t  closed;
} shared_t;

#define N_PROCESSES  8


static void
process(shared_t *s)
{
    uint32_t  i;
    uint64_t  probe, t;

    (void) atomic_fetch_add(&s->ready, 1);

    while (!atomic_load(&s->go)) {
        (void) sched_yield();
    }

    for (i = 0; i < 1000; i++) {
        if (mst_breaker_fault(&s->b, &conf, T0 + i) == MST_DONE) {
            (void) atomic_fetch_add(&s->done, 1);
        }
    }

    (void) atomic_fetch_add(&s->ready, 1);

    while (atomic_load(&s->ready) < 2 * N_PROCESSES) {
        (void) usleep(100);
    }

    t = T0 + conf.open_ns + MST_S;

    for (i = 0; i < 1000; i++) {
        if (mst_breaker_enter(&s->b, &conf, t, &probe) == MST_OK && probe) {
            (void) atomic_fetch_add(&s->entered, 1);

            if (i % 2) {
                mst_breaker_leave(&s->b, probe);
                (void) atomic_fetch_sub(&s->entered, 1);

            } else if (mst_breaker_pass(&s->b, &conf, probe) == MST_DONE) {
                (void) atomic_fetch_add(&s->closed, 1);
            }
        }
    }

    _exit(0);
}


static void
test_processes(void **state)
{
    int        i, status, round;
    pid_t      pids[N_PROCESSES];
    shared_t  *s;

    (void) state;

    s = mmap(NULL, sizeof(shared_t), PROT_READ|PROT_WRITE,
             MAP_SHARED|MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s, MAP_FAILED);

    for (round = 0; round < 10; round++) {
        memset(s, 0, sizeof(shared_t));

        for (i = 0; i < N_PROCESSES; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);

            if (pids[i] == 0) {
                process(s);
            }
        }

        while (atomic_load(&s->ready) < N_PROCESSES) {
            (void) usleep(100);
        }

        atomic_store(&s->go, 1);

        for (i = 0; i < N_PROCESSES; i++) {
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_int_equal(status, 0);
        }

        assert_int_equal(s->done, 1);
        assert_int_equal(s->entered, conf.probes);
        assert_int_equal(s->closed, 1);
        assert_int_equal(s->b.word, 0);
    }

    (void) munmap(s, sizeof(shared_t));
}


/* two faults at once: whoever is the last sees both, so it never stays
   closed */

static void
test_no_fault_is_missed(void **state)
{
    int                 i, status;
    pid_t               pid;
    shared_t           *s;
    mst_breaker_conf_t  c;

    (void) state;

    c = conf;
    c.errors = 2;

    s = mmap(NULL, sizeof(shared_t), PROT_READ|PROT_WRITE,
             MAP_SHARED|MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s, MAP_FAILED);

    pid = fork();
    assert_true(pid >= 0);

    for (i = 1; i <= 20000; i++) {

        /* a hand-shake each round */

        if (pid) {
            memset(&s->b, 0, sizeof(s->b));
            atomic_store(&s->go, i);

        } else {
            while (atomic_load(&s->go) != (uint32_t) i) {
                (void) sched_yield();
            }
        }

        (void) mst_breaker_fault(&s->b, &c, T0 + i);

        if (pid) {
            while (atomic_load(&s->ready) != (uint32_t) i) {
                (void) sched_yield();
            }

            if (s->b.word == 0) {
                (void) kill(pid, SIGKILL);
                fail_msg("round %d: it is closed", i);
            }

        } else {
            atomic_store(&s->ready, i);
        }
    }

    if (pid == 0) {
        _exit(0);
    }

    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void) munmap(s, sizeof(shared_t));
}


/* the same in plain words: a list of faults, a state, times */

typedef struct {
    uint64_t  faults[4096];
    uint32_t  n;
    uint64_t  from_ms;             /* 0: closed */
    uint32_t  taken;
    uint32_t  passed;
} model_t;


static int
model_fault(model_t *m, uint64_t now)
{
    uint32_t  i, n;

    if (m->from_ms && now / MST_MS < m->from_ms) {
        return MST_OK;
    }

    if (m->from_ms == 0) {
        m->faults[m->n++] = now;

        for (i = 0, n = 0; i < m->n; i++) {
            n += now - m->faults[i] < conf.window_ns;
        }

        if (n < conf.errors) {
            return MST_OK;
        }
    }

    m->n = 0;
    m->from_ms = (now + conf.open_ns) / MST_MS;
    m->taken = 0;
    m->passed = 0;

    return MST_DONE;
}


static int
model_enter(model_t *m, uint64_t now, uint64_t *probe)
{
    *probe = 0;

    if (m->from_ms == 0) {
        return MST_OK;
    }

    if (now / MST_MS < m->from_ms) {
        return MST_BUSY;
    }

    if (m->taken == conf.probes) {
        if (now / MST_MS - m->from_ms < conf.open_ns / MST_MS) {
            return MST_BUSY;
        }

        m->from_ms = now / MST_MS;
        m->taken = 0;
        m->passed = 0;
    }

    m->taken++;
    *probe = m->from_ms;

    return MST_OK;
}


static int
model_pass(model_t *m, uint64_t probe)
{
    if (probe == 0 || m->from_ms != probe) {
        return MST_OK;
    }

    if (++m->passed < conf.probes) {
        return MST_OK;
    }

    m->from_ms = 0;

    return MST_DONE;
}


static void
test_random(void **state)
{
    int            i, k, n;
    uint64_t       x, now, a, b, held[64], wait;
    model_t        m;
    mst_breaker_t  br;

    (void) state;

    x = test_seed();

    memset(&m, 0, sizeof(m));
    memset(&br, 0, sizeof(br));
    now = T0;
    n = 0;

    for (i = 0; i < 200000; i++) {
        x = mst_hash_mix(x + i + 1);
        now += x % 64 == 0 ? (x >> 8) % (15 * MST_S) : (x >> 8) % (MST_S / 2);
        k = (int) (x >> 60);

        if (k < 6) {
            assert_int_equal(mst_breaker_look(&br, &conf, now),
                             model_enter(&(model_t) { .from_ms = m.from_ms,
                                                      .taken = m.taken },
                                         now, &a));
            assert_int_equal(mst_breaker_enter(&br, &conf, now, &a),
                             model_enter(&m, now, &b));
            assert_int_equal(a, b);

            if (a && n < 64) {
                held[n++] = a;
            }

        } else if (k < 12 && n) {
            a = held[--n];
            assert_int_equal(mst_breaker_pass(&br, &conf, a),
                             model_pass(&m, a));

        } else if (k < 13 && n) {
            a = held[--n];
            mst_breaker_leave(&br, a);

            if (m.from_ms == a && m.taken > m.passed) {
                m.taken--;
            }

        } else if (k >= 13) {
            if (m.n > 4000) {
                memmove(m.faults, m.faults + 2000, 8 * (m.n -= 2000));
            }

            assert_int_equal(mst_breaker_fault(&br, &conf, now),
                             model_fault(&m, now));
        }

        assert_int_equal(mst_breaker_state(&br, now, &wait),
                         m.from_ms == 0 ? MST_BREAKER_CLOSED
                         : now / MST_MS < m.from_ms ? MST_BREAKER_OPEN
                                                    : MST_BREAKER_HALF_OPEN);
    }

    assert_true(br.opened > 100);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_half_open),
        cmocka_unit_test(test_fails_again),
        cmocka_unit_test(test_lost_probes),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_no_fault_is_missed),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
