
/*
 * Queue places: the arithmetic, and many workers beside an engine.
 */

#include "place.h"

#include <pthread.h>

#include "seed.h"


static void
test_limits(void **state)
{
    world_t    w;
    mst_shm_t *shm;

    (void) state;

    world_init(&w);
    shm = w.m.shm;

    assert_int_equal(mst_place_take(shm, w.a, 10, 1, 0), MST_BUSY);
    assert_int_equal(mst_place_take(shm, w.a, 10, 2, 0), MST_OK);
    held(&w, 2, 17, "two", 0);
    assert_int_equal(mst_place_take(shm, w.a, 10, 3, 26), MST_BUSY);
    assert_int_equal(mst_place_take(shm, w.a, 10, 3, 27), MST_OK);
    assert_int_equal(mst_place_take(shm, w.a, UINT32_MAX - 26, 9, 0),
                     MST_BUSY);
    assert_int_equal(mst_place_take(shm, w.a, UINT32_MAX - 27, 9, UINT64_MAX),
                     MST_OK);
    held(&w, 4, UINT32_MAX, "all tokens", 0);
    mst_place_untake(shm, w.a, UINT32_MAX - 27);
    held(&w, 3, 27, "untaken", 0);
    assert_int_equal(w.a->intent, 0);
    assert_int_equal(mst_place_audit(&w.m), MST_OK);
    held(&w, 3, 27, "audited", 0);

    mst_place_untake(shm, w.a, 10);
    mst_place_untake(shm, w.a, 10);
    held(&w, 1, 7, "back", 0);

    /* the word is full at 2^20 - 1, whoever asks */

    w.a->taken = (uint64_t) (MST_PLACE_MAX_REQUESTS - 1) << 32;
    assert_int_equal(mst_place_audit(&w.m), MST_OK);
    held(&w, MST_PLACE_MAX_REQUESTS, 7, "full", 0);
    assert_int_equal(mst_place_take(shm, w.a, 0, UINT32_MAX, 0), MST_BUSY);

    world_fini(&w);
}


/* a slot gets back what it took and no more; counters wrap */

static void
test_give(void **state)
{
    world_t     w;
    mst_ring_t  req, rsp;

    (void) state;

    world_init(&w);
    mst_slot_rings(&w.m, 0, 0, &req, &rsp);

    w.a->taken = w.a->given = 0xffffffff00000000ull | (UINT32_MAX - 3);
    w.a->received[0] = w.a->received[1] = w.a->taken;

    assert_int_equal(mst_place_take(w.m.shm, w.a, 10, 100, 0), MST_OK);
    submit(&w.m, 0, 10);
    assert_int_equal(receive(&w.m, 0, &req), 10);
    held(&w, 2, 17, "received", 0);
    mst_place_give(w.m.shm, w.a, 10);
    held(&w, 1, 7, "given", 0);
    assert_true(w.a->given == w.a->taken);

    mst_place_give(w.m.shm, w.a, 5);
    held(&w, 1, 7, "given twice", 0);

    assert_int_equal(mst_place_take(w.m.shm, w.a, 10, 100, 0), MST_OK);
    mst_place_give(w.m.shm, w.a, 4000000000u);
    held(&w, 1, 7, "given too much", 0);

    mst_place_restart(&w.m);
    held(&w, 1, 7, "nothing in work", 0);

    /* words that no engine wrote are put right */

    w.m.shm->places = 0;
    assert_int_equal(mst_place_audit(&w.m), MST_OK);
    held(&w, 1, 7, "audited", 0);

    w.b->intent = 1;
    assert_int_equal(mst_place_audit(&w.m), MST_AGAIN);
    mst_slot_leave(&w.m, 1);
    assert_int_equal(mst_place_audit(&w.m), MST_OK);
    assert_int_equal(mst_place_reclaim(w.m.shm, w.b), MST_AGAIN);
    mst_slot_free(&w.m, 1);
    assert_int_equal(mst_place_audit(&w.m), MST_OK);
    held(&w, 0, 0, "nothing", 0);

    world_fini(&w);
}


/* workers and an engine as threads, whom the thread sanitizer sees */

typedef struct {
    mst_map_t         *m;
    uint64_t           seed;
    _Atomic uint32_t  *stop;
    int                slot;
} thread_t;


static void *
worker_thread(void *data)
{
    thread_t  *t = data;

    t->slot = mst_slot_claim(t->m, 1);

    if (t->slot >= 0) {
        worker_run(t->m, (uint32_t) t->slot, t->seed, t->stop);
        mst_slot_leave(t->m, (uint32_t) t->slot);
    }

    return NULL;
}


static void *
engine_thread(void *data)
{
    thread_t  *t = data;

    engine_run(t->m, t->stop, 1);

    return NULL;
}


static void
test_threads(void **state)
{
    int               i, k;
    world_t           world;
    uint32_t          requests;
    uint64_t          tokens;
    thread_t          w[N_WORKERS], e;
    pthread_t         id[N_WORKERS + 1];
    mst_err_t         err;
    _Atomic uint32_t  stop[2];

    (void) state;

    assert_int_equal(mst_shm_create(&world.m, &world.fd, "demo", 8, 65536,
                                    4096, &err), MST_OK);
    atomic_init(&stop[0], 0);
    atomic_init(&stop[1], 0);

    e.m = &world.m;
    e.stop = &stop[1];
    assert_int_equal(pthread_create(&id[N_WORKERS], NULL, engine_thread, &e),
                     0);

    for (i = 0; i < N_WORKERS; i++) {
        w[i].m = &world.m;
        w[i].seed = test_seed() + (uint64_t) i;
        w[i].stop = &stop[0];
        assert_int_equal(pthread_create(&id[i], NULL, worker_thread, &w[i]),
                         0);
    }

    (void) usleep(300000);
    atomic_store(&stop[0], 1);

    for (i = 0; i < N_WORKERS; i++) {
        assert_int_equal(pthread_join(id[i], NULL), 0);
        assert_true(w[i].slot >= 0);

        for (k = 0; k < i; k++) {
            assert_int_not_equal(w[i].slot, w[k].slot);
        }
    }

    atomic_store(&stop[1], 1);
    assert_int_equal(pthread_join(id[N_WORKERS], NULL), 0);

    assert_int_equal(mst_place_audit(&world.m), MST_OK);
    mst_place_held(world.m.shm, &requests, &tokens);
    assert_int_equal(requests, 0);
    assert_int_equal(tokens, 0);
    assert_true(world.m.shm->places != 0);

    world_fini(&world);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_give),
        cmocka_unit_test(test_threads)
    };

    return cmocka_run_group_tests_name("mst_place", tests, NULL, NULL);
}
