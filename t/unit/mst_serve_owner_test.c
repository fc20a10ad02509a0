
/*
 * Owners of slots: those that leave, die or cannot be named, a worker that
 * says for ever that it is in the middle of a step, and the next engine.
 */

#include "serve.h"

#include <signal.h>

#include "engine/mst_serve_local.h"


/* a worker that is killed with requests running, waiting and in its ring */

static void
test_killed(void **state)
{
    int       i;
    pid_t     pid;
    world_t   w;
    uint64_t  wake, until;
    worker_t  a, b;
    mst_err_t err;

    (void) state;

    world_init(&w, NULL, 2);
    worker_claim(&w, &b, (uint32_t) getpid());

    pid = fork();

    if (pid == 0) {
        (void) pause();
        _exit(0);
    }

    worker_claim(&w, &a, (uint32_t) pid);

    for (i = 0; i < 6; i++) {
        worker_send(&a, worker_submit(&w, &a, (uint64_t) i, 10, 100000));
    }

    worker_send(&b, worker_submit(&w, &b, 1, 7, 100000));
    pass(&w, 20);
    worker_send(&a, worker_submit(&w, &a, 50, 10, 10));
    assert_int_equal(mst_place_take(w.map.shm, a.slot, 30, 100, 0), MST_OK);
    atomic_store(&a.slot->intent, 1);          /* died in the middle */
    world_held(&w, 9, 107);

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    until = mst_time_ns() + 3 * MST_S;
    memset(&err, 0, sizeof(err));

    while (mst_slot_state(a.slot) != MST_SLOT_FREE) {
        (void) mst_serve_pass(w.serve, &wake, &err);
        mst_serve_poll(w.serve, 0);
        assert_true(mst_time_ns() < until);
    }

    pass(&w, 2);
    world_held(&w, 1, 7);
    assert_int_equal(w.map.shm->stat.slots_reclaimed, 1);
    assert_int_equal(w.map.shm->stat.running, 1);

    world_fini(&w);
}


/* its owner was dead before this engine looked for the first time */

static void
test_dead_before(void **state)
{
    pid_t     pid;
    world_t   w;
    worker_t  a;

    (void) state;

    pid = fork();

    if (pid == 0) {
        _exit(0);
    }

    assert_int_equal(waitpid(pid, NULL, 0), pid);

    world_init(&w, NULL, 2);
    worker_claim(&w, &a, (uint32_t) pid);
    worker_send(&a, worker_submit(&w, &a, 1, 10, 100));

    world_held(&w, 1, 10);
    pass(&w, 2);
    world_held(&w, 0, 0);
    assert_int_equal(mst_slot_state(a.slot), MST_SLOT_FREE);

    world_fini(&w);
}


/* words that name no owner: the slot is not lost for ever */

static void
test_no_owner(void **state)
{
    size_t    i;
    world_t   w;
    worker_t  a;

    static const uint64_t  owners[] = {
        (uint64_t) MST_SLOT_USED << 32,
        (uint64_t) MST_SLOT_USED << 32 | 0x80000000u,
        (uint64_t) MST_SLOT_USED << 32 | UINT32_MAX,
        7ull << 32 | 1, UINT64_MAX
    };

    (void) state;

    world_init(&w, NULL, 2);

    for (i = 0; i < sizeof(owners) / sizeof(owners[0]); i++) {
        worker_claim(&w, &a, (uint32_t) getpid());
        worker_send(&a, worker_submit(&w, &a, 1, 10, 100000));
        pass(&w, 2);
        world_held(&w, 1, 10);

        atomic_store(&a.slot->owner, owners[i]);
        pass(&w, 1);

        world_held(&w, 0, 0);
        assert_int_equal(mst_slot_state(a.slot), MST_SLOT_FREE);
        assert_int_equal(w.map.shm->stat.slots_reclaimed, i + 1);
        assert_int_equal(w.map.shm->stat.running, 0);
    }

    world_fini(&w);
}


/* an engine dies with work; the next one serves the same worker */

static void
test_next_engine(void **state)
{
    world_t            w;
    worker_t           a;
    mst_rec_submit_t  *s;

    (void) state;

    world_init(&w, NULL, 2);
    worker_claim(&w, &a, (uint32_t) getpid());

    worker_send(&a, worker_submit(&w, &a, 1, 10, 100000));
    worker_send(&a, worker_submit(&w, &a, 2, 11, 100000));
    worker_send(&a, worker_submit(&w, &a, 3, 12, 100000));
    pass(&w, 5);
    worker_send(&a, worker_submit(&w, &a, 4, 13, 10));   /* never read */
    s = worker_submit(&w, &a, 5, 14, 3);                 /* not published */
    world_held(&w, 5, 60);

    world_engine_dies(&w);
    world_engine(&w, NULL, 2);
    world_held(&w, 2, 27);                     /* the three are void */
    settle(&w, 10);
    world_held(&w, 1, 14);                     /* and the stale one */

    while (worker_next(&a) != NULL) {
        /* of the dead engine */
    }

    s->head.engine_epoch = w.epoch;
    worker_send(&a, s);
    settle(&w, 20);
    world_held(&w, 0, 0);
    (void) worker_expect(&a, MST_REC_ADMIT, 5);
    assert_int_equal(w.map.shm->stat.slots_reclaimed, 0);

    world_fini(&w);
}


/* a worker that says for ever that it is in the middle of a step */

static void
test_intent(void **state)
{
    int        n;
    uint64_t   until, at;
    world_t    w;
    worker_t   a;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());
    settle(&w, 10);

    a.slot->intent = 1;
    w.serve->audit = 1;
    w.serve->audit_ns = 0;

    n = 0;
    at = 0;
    until = mst_time_ns() + 100 * MST_MS;

    while (mst_time_ns() < until) {
        pass(&w, 1);
        n += w.serve->audit_ns != at;
        at = w.serve->audit_ns;
    }

    /* at 0, 1, 3, 7, 15, 31 and 63 ms; fewer where this process stood */

    assert_true(n <= 8);
    assert_true(w.serve->audit_pause > 2 * MST_MS);
    assert_true(w.serve->audit);

    /* it is found all the same when that is over */

    w.map.shm->places = 0x500000000ull;
    a.slot->intent = 0;
    w.serve->audit_ns = 0;
    pass(&w, 1);
    world_held(&w, 0, 0);
    assert_false(w.serve->audit);
    assert_int_equal(w.serve->audit_pause, MST_MS);

    world_fini(&w);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_dead_before),
        cmocka_unit_test(test_no_owner),
        cmocka_unit_test(test_next_engine),
        cmocka_unit_test(test_intent)
    };

    return cmocka_run_group_tests_name("mst_serve_owner", tests, NULL, NULL);
}
