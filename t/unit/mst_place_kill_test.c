
/*
 * Queue places and kill -9: a worker or an engine is stopped by ptrace after
 * each single instruction of each step in turn and killed there, and what is
 * held afterwards must be exact; then the same by random kills among many
 * processes.
 */

#include "place.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "seed.h"


/* each instruction; the sanitizers make many of one: each time others */

#ifdef __SANITIZE_ADDRESS__
#define STRIDE     11
#else
#define STRIDE     1
#endif


/* runs step(w) in a child and kills it after n instructions: 1 = killed, 0 =
   it came to its end before */

static int
killed_after(world_t *w, void (*step)(world_t *w), int n)
{
    int    status;
    pid_t  pid;

    pid = fork();
    assert_true(pid >= 0);

    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == -1) {
            _exit(1);
        }

        (void) raise(SIGSTOP);
        step(w);
        (void) raise(SIGTRAP);
        _exit(0);
    }

    assert_int_equal(waitpid(pid, &status, 0), pid);

    if (!WIFSTOPPED(status)) {
        fail_msg("ptrace() is not permitted here");
    }

    /* the way out of raise() counts, too */

    while (n-- > 0) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSTOPPED(status));
    }

    /* is it beyond its step? */

    status = *(volatile uint32_t *) &w->m.shm->unused == 1;

    (void) kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    return !status;
}


static void
finished(world_t *w)
{
    *(volatile uint32_t *) &w->m.shm->unused = 1;
}


static void
step_take(world_t *w)
{
    (void) mst_place_take(w->m.shm, w->a, 10, 100, 0);
    submit(&w->m, 0, 10);
    finished(w);
}


static void
step_untake(world_t *w)
{
    mst_place_untake(w->m.shm, w->a, 10);
    finished(w);
}


static void
step_engine(world_t *w)
{
    int64_t     tokens;
    mst_ring_t  req, rsp;

    mst_slot_rings(&w->m, 0, 0, &req, &rsp);

    tokens = receive(&w->m, 0, &req);
    mst_place_give(w->m.shm, w->a, (uint32_t) tokens);
    finished(w);
}


static void
step_reclaim(world_t *w)
{
    (void) mst_place_reclaim(w->m.shm, w->a);
    mst_slot_free(&w->m, 0);
    finished(w);
}


static void
step_new_engine(world_t *w)
{
    new_engine(&w->m);
    finished(w);
}


/* runs step(w) while another process moves the word before each of its
   instructions, so that no swap succeeds; the number of instructions */

static int
against_a_mover(world_t *w, void (*step)(world_t *w))
{
    int    n, status;
    pid_t  pid;

    w->m.shm->unused = 0;
    pid = fork();
    assert_true(pid >= 0);

    if (pid == 0) {
        (void) ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        (void) raise(SIGSTOP);
        step(w);
        (void) pause();
        _exit(0);
    }

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status));

    for (n = 0; *(volatile uint32_t *) &w->m.shm->unused == 0; n++) {

        if (n == 1000000) {
            (void) kill(pid, SIGKILL);
            (void) waitpid(pid, NULL, 0);
            fail_msg("it does not end while the word moves");
        }

        w->m.shm->places += 1ull << 52;        /* the version */

        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSTOPPED(status));
    }

    (void) kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    return n;
}


static void
step_take_only(world_t *w)
{
    w->m.shm->unused = mst_place_take(w->m.shm, w->a, 10, 100, 0) == MST_BUSY
                       ? 2 : 1;
}


static void
step_give(world_t *w)
{
    mst_place_give(w->m.shm, w->a, 10);
    finished(w);
}


/* a peer that never lets the word be: nobody loops for ever, and the next
   audit puts it right */

static void
test_mover(void **state)
{
    world_t  w;

    (void) state;

    world_init(&w);

    printf("take: %d instructions\n", against_a_mover(&w, step_take_only));
    assert_int_equal(w.m.shm->unused, 2);      /* busy */
    assert_int_equal(w.a->intent, 0);
    held(&w, 1, 7, "not taken", 0);
    assert_int_equal(mst_place_audit(&w.m), MST_OK);
    held(&w, 1, 7, "not taken", 0);

    assert_int_equal(mst_place_take(w.m.shm, w.a, 10, 100, 0), MST_OK);
    assert_int_equal(mst_place_take(w.m.shm, w.a, 10, 100, 0), MST_OK);

    (void) against_a_mover(&w, step_untake);
    assert_int_equal(w.a->intent, 0);
    held(&w, 3, 27, "the word is too large", 0);
    assert_int_equal(mst_place_audit(&w.m), MST_OK);
    held(&w, 2, 17, "untaken", 0);

    (void) against_a_mover(&w, step_give);
    held(&w, 2, 17, "the word is too large", 0);
    assert_int_equal(mst_place_audit(&w.m), MST_OK);
    held(&w, 1, 7, "given", 0);

    world_fini(&w);
}


static void
test_worker_dies(void **state)
{
    int      n, rc, again;
    world_t  w;

    (void) state;

    again = 1;

    for (n = (int) (test_seed() % STRIDE); again; n += STRIDE) {
        world_init(&w);
        again = killed_after(&w, step_take, n);

        /* the audit before the reclaim never takes what is in the middle */

        rc = mst_place_audit(&w.m);
        assert_int_equal(rc, w.a->intent ? MST_AGAIN : MST_OK);

        (void) mst_place_reclaim(w.m.shm, w.a);
        mst_slot_free(&w.m, 0);
        assert_int_equal(mst_place_audit(&w.m), MST_OK);
        held(&w, 1, 7, "take", n);
        world_fini(&w);
    }

    printf("take and submit: %d instructions\n", n);

    again = 1;

    for (n = (int) (test_seed() % STRIDE); again; n += STRIDE) {
        world_init(&w);
        (void) mst_place_take(w.m.shm, w.a, 10, 100, 0);
        (void) mst_place_take(w.m.shm, w.a, 20, 100, 0);
        again = killed_after(&w, step_untake, n);

        (void) mst_place_reclaim(w.m.shm, w.a);
        mst_slot_free(&w.m, 0);
        assert_int_equal(mst_place_audit(&w.m), MST_OK);
        held(&w, 1, 7, "untake", n);
        world_fini(&w);
    }

    printf("untake: %d instructions\n", n);
}


/*
 * The worker has a reservation of 3, two SUBMITs that an engine has in work
 * (20, 30), one that it is about to read (40) and one behind (50).
 */

static void
busy_world(world_t *w)
{
    mst_ring_t  req, rsp;

    world_init(w);

    (void) mst_place_take(w->m.shm, w->a, 3, 100, 0);
    (void) mst_place_take(w->m.shm, w->a, 20, 100, 0);
    (void) mst_place_take(w->m.shm, w->a, 30, 100, 0);
    (void) mst_place_take(w->m.shm, w->a, 40, 100, 0);
    (void) mst_place_take(w->m.shm, w->a, 50, 100, 0);
    submit(&w->m, 0, 20);
    submit(&w->m, 0, 30);

    mst_slot_rings(&w->m, 0, 0, &req, &rsp);
    assert_int_equal(receive(&w->m, 0, &req), 20);
    assert_int_equal(receive(&w->m, 0, &req), 30);

    submit(&w->m, 0, 40);
    submit(&w->m, 0, 50);

    held(w, 6, 150, "busy", 0);
}


static void
test_engine_dies(void **state)
{
    int      n, again;
    world_t  w;

    (void) state;

    again = 1;

    for (n = (int) (test_seed() % STRIDE); again; n += STRIDE) {
        busy_world(&w);
        again = killed_after(&w, step_engine, n);

        new_engine(&w.m);
        held(&w, 2, 10, "engine reads and gives", n);

        mst_place_untake(w.m.shm, w.a, 3);
        held(&w, 1, 7, "untaken after it", n);

        /* and the books go on */

        (void) mst_place_take(w.m.shm, w.a, 9, 100, 0);
        submit(&w.m, 0, 9);
        new_engine(&w.m);
        held(&w, 1, 7, "next", n);
        world_fini(&w);
    }

    printf("engine reads and gives: %d instructions\n", n);

    again = 1;

    for (n = (int) (test_seed() % STRIDE); again; n += STRIDE) {
        busy_world(&w);
        mst_slot_leave(&w.m, 0);
        again = killed_after(&w, step_reclaim, n);

        new_engine(&w.m);

        if (mst_slot_state(&w.m.slots[0]) != MST_SLOT_FREE) {
            (void) mst_place_reclaim(w.m.shm, w.a);
            mst_slot_free(&w.m, 0);
        }

        assert_int_equal(mst_place_audit(&w.m), MST_OK);
        held(&w, 1, 7, "reclaim", n);

        assert_int_equal(mst_slot_claim(&w.m, 1), 0);
        (void) mst_place_take(w.m.shm, w.a, 9, 100, 0);
        submit(&w.m, 0, 9);
        new_engine(&w.m);
        held(&w, 1, 7, "next owner", n);
        world_fini(&w);
    }

    printf("reclaim and free: %d instructions\n", n);

    /* half a million single steps if all were tried: the seed says which */

    again = 1;

    for (n = (int) (test_seed() % (19 * STRIDE)); again;
         n += 19 * STRIDE)
    {
        busy_world(&w);
        again = killed_after(&w, step_new_engine, n);

        new_engine(&w.m);
        held(&w, 2, 10, "new engine", n);
        world_fini(&w);
    }

    printf("new engine: %d instructions\n", n);
}


static pid_t
worker(mst_map_t *m, uint64_t seed, _Atomic uint32_t *stop)
{
    int    i;
    pid_t  pid;

    pid = fork();

    if (pid != 0) {
        assert_true(pid > 0);
        return pid;
    }

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);

    i = mst_slot_claim(m, (uint32_t) getpid());

    if (i < 0) {
        _exit(9);
    }

    worker_run(m, (uint32_t) i, seed, stop);

    _exit(0);
}


static pid_t
engine(mst_map_t *m, _Atomic uint32_t *stop, uint32_t audits)
{
    pid_t  pid;

    pid = fork();

    if (pid != 0) {
        assert_true(pid > 0);
        return pid;
    }

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);

    engine_run(m, stop, audits);

    _exit(0);
}


static void
wait_ok(pid_t pid)
{
    int  status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}


static void
test_random_kills(void **state)
{
    int                i, k, fd;
    pid_t              e, w[N_WORKERS];
    world_t            world;
    uint32_t           s, killed;
    uint64_t           x, r2;
    mst_map_t         *m;
    mst_err_t          err;
    _Atomic uint32_t  *stop, *stop_engine;

    (void) state;

    m = &world.m;
    assert_int_equal(mst_shm_create(m, &fd, "demo", 8, 65536, 4096, &err),
                     MST_OK);
    world.fd = fd;

    stop = (_Atomic uint32_t *) &m->shm->stat.running;
    stop_engine = (_Atomic uint32_t *) &m->shm->stat.waiting;

    x = test_seed();

    e = engine(m, stop_engine, 1);

    for (i = 0; i < N_WORKERS; i++) {
        w[i] = worker(m, x + (uint64_t) i, stop);
    }

    for (k = 0; k < 200; k++) {
        x = mst_hash_mix(x + 1);
        (void) usleep((useconds_t) (300 + x % 3000));

        /* the engine reclaims, so for a moment there is none */

        assert_int_equal(kill(e, SIGKILL), 0);
        assert_int_equal(waitpid(e, NULL, 0), e);

        i = (int) ((x >> 32) % (N_WORKERS + 1));

        if (i < N_WORKERS) {
            killed = (uint32_t) w[i];
            assert_int_equal(kill(w[i], SIGKILL), 0);
            assert_int_equal(waitpid(w[i], NULL, 0), w[i]);

            for (s = 0; s < m->n_slots; s++) {
                if (mst_slot_pid(&m->slots[s]) == killed) {
                    (void) mst_place_reclaim(m->shm, &m->slots[s]);
                    mst_slot_free(m, s);
                }
            }

            w[i] = worker(m, x, stop);
        }

        e = engine(m, stop_engine, 1);
    }

    /* an engine that does not audit: from here on all must be exact by
       itself; the one before may still have an orphan to find */

    assert_int_equal(kill(e, SIGKILL), 0);
    assert_int_equal(waitpid(e, NULL, 0), e);
    mst_place_restart(m);

    while (mst_place_audit(m) != MST_OK) {
        (void) sched_yield();
    }

    e = engine(m, stop_engine, 0);
    (void) usleep(300000);

    atomic_store(stop, 1);

    for (i = 0; i < N_WORKERS; i++) {
        wait_ok(w[i]);
    }

    atomic_store(stop_engine, 1);
    wait_ok(e);

    mst_place_held(m->shm, &s, &r2);
    assert_int_equal(s, 0);
    assert_int_equal(r2, 0);
    assert_true(m->shm->places != 0);          /* its version has moved */

    world_fini(&world);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_mover),
        cmocka_unit_test(test_worker_dies),
        cmocka_unit_test(test_engine_dies),
        cmocka_unit_test(test_random_kills)
    };

    return cmocka_run_group_tests_name("mst_place_kill", tests, NULL, NULL);
}
