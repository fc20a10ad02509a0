
/*
 * The supervisor of an engine dies, stands still, or is not alone: the
 * engine serves on, and nothing outlives nginx.
 */

#include "master.h"

#include <sys/resource.h>


/* a stream goes on over kill -9 of supervisor after supervisor */

static void
test_supervisor_killed(void **state)
{
    int         i;
    char        path[64];
    uint32_t    n, engine, super, epoch;
    master_t    m;
    worker_t    a;
    struct stat  st;
    const mst_record_t  *rec;

    (void) state;

    master_init(&m);
    m.setup.null_rate = 200;
    master_start(&m);
    worker_claim(&m, &a);

    engine = m.shm->engine_pid;
    epoch = m.shm->engine_epoch;
    super = m.shm->supervisor_pid;

    worker_submit(&m, &a, 1, 200);
    n = stream_on(&m, &a, 1, 0, 1);

    for (i = 0; i < 3; i++) {
        super = super_kill(&m);
        n = stream_on(&m, &a, 1, n, n + 30);

        assert_int_equal(m.shm->state, MST_STATE_READY);
        assert_int_equal(m.shm->engine_pid, engine);
        assert_int_equal(m.shm->engine_epoch, epoch);
        assert_false(ended(m.alive_r));
    }

    assert_int_equal(stream_on(&m, &a, 1, n, 200), 200);
    rec = worker_next(&m, &a, 20000);
    assert_non_null(rec);
    assert_int_equal(rec->type, MST_REC_DONE);
    assert_int_equal(places(&m), 0);
    assert_int_equal(m.shm->restarts, 0);

    /* it has what the first one had, and no more rights */

    assert_int_equal(getsid((pid_t) super), super);
    check_descriptors(super);
    check_descriptors(engine);
    assert_int_equal(atoi(status_line(super, "NoNewPrivs:")), 1);
    assert_non_null(strstr(status_line(super, "CapPrm:"),
                           "0000000000000000"));

    if (geteuid() == 0) {
        (void) snprintf(path, sizeof(path), "/proc/%u/fd", super);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_uid, 0);        /* not dumpable */
    }

    assert_null(strstr(master_log(&m), "<1>"));

    /* and does its work: the engine's death, twice */

    for (i = 0; i < 2; i++) {
        engine = m.shm->engine_pid;
        assert_int_equal(kill((pid_t) engine, SIGKILL), 0);
        wait_for(1000, m.shm->engine_epoch == epoch + 1 + (uint32_t) i);
        wait_for(1000, m.shm->state == MST_STATE_READY);
        assert_int_not_equal(m.shm->engine_pid, engine);
        assert_int_equal(m.shm->supervisor_pid, super);
        assert_int_equal(atoi(status_line(m.shm->engine_pid, "PPid:")),
                         super);
        worker_answer(&m, &a, 2, 5);
    }

    assert_non_null(strstr(master_log(&m), " died, the next one starts at "
                                           "once"));
    assert_non_null(strstr(m.log, "exited on signal 9"));
    assert_int_equal(m.shm->restarts, 2);

    /* once more, then nginx ends */

    engine = m.shm->engine_pid;
    super = super_kill(&m);
    (void) close(m.life_w);
    m.life_w = -1;
    wait_for(1000, is_gone(engine) && is_gone(super));
    wait_for(1000, ended(m.alive_r));
    assert_int_equal(m.shm->state, MST_STATE_DOWN);

    master_fini(&m);
}


/* engine_timeout holds under the second supervisor, too */

static void
test_adopted_hangs(void **state)
{
    uint32_t   engine, super;
    master_t   m;
    worker_t   a;

    (void) state;

    master_init(&m);
    m.shm->timeout_ms = 500;
    master_start(&m);
    worker_claim(&m, &a);

    super = super_kill(&m);
    engine = m.shm->engine_pid;
    assert_int_equal(kill((pid_t) engine, SIGSTOP), 0);
    wait_for(4000, is_gone(engine));
    wait_for(1000, m.shm->engine_epoch == 2);
    wait_for(1000, m.shm->state == MST_STATE_READY);
    assert_int_equal(m.shm->supervisor_pid, super);
    worker_answer(&m, &a, 1, 5);
    assert_non_null(strstr(master_log(&m), "hung, its last heartbeat was"));

    master_fini(&m);
}


/* no supervisor can be started: the engine serves on, and ends with nginx */

static void
test_supervisor_impossible(void **state)
{
    uint32_t       engine, super;
    master_t       m;
    worker_t       a;
    struct rlimit  rl;

    (void) state;

    master_init(&m);
    master_start(&m);
    worker_claim(&m, &a);
    super = m.shm->supervisor_pid;
    engine = m.shm->engine_pid;

    /* room for no file more: the program's start fails */

    rl.rlim_cur = N_FDS;
    rl.rlim_max = N_FDS;
    assert_int_equal(prlimit((pid_t) engine, RLIMIT_NOFILE, &rl, NULL), 0);
    assert_int_equal(kill((pid_t) super, SIGKILL), 0);

    wait_for(4000, strstr(master_log(&m), "<1>engine ") != NULL);
    assert_non_null(strstr(m.log, "in 3 attempts"));
    assert_int_equal(m.shm->engine_pid, engine);
    worker_answer(&m, &a, 1, 5);

    (void) close(m.life_w);
    m.life_w = -1;
    wait_for(1000, is_gone(engine));
    wait_for(1000, ended(m.alive_r));
    assert_int_equal(m.shm->supervisor_pid, super);

    master_fini(&m);
}


/* the end of nginx finds a supervisor that stands still, or none at all */

static void
test_supervisor_useless(void **state)
{
    uint32_t   engine, super;
    master_t   m;

    (void) state;

    master_init(&m);
    master_start(&m);
    super = super_kill(&m);
    engine = m.shm->engine_pid;

    assert_int_equal(kill((pid_t) super, SIGSTOP), 0);
    (void) close(m.life_w);
    m.life_w = -1;
    wait_for(3000, is_gone(engine));
    assert_int_equal(kill((pid_t) super, SIGCONT), 0);
    wait_for(1000, is_gone(super));
    wait_for(1000, ended(m.alive_r));
    master_fini(&m);

    master_init(&m);
    master_start(&m);
    super = m.shm->supervisor_pid;
    engine = m.shm->engine_pid;

    assert_int_equal(kill((pid_t) super, SIGSTOP), 0);
    (void) close(m.life_w);
    m.life_w = -1;
    assert_int_equal(kill((pid_t) super, SIGKILL), 0);
    wait_for(1000, is_gone(engine) && is_gone(super));
    wait_for(1000, ended(m.alive_r));
    assert_int_equal(m.shm->supervisor_pid, super);    /* no other one */
    master_fini(&m);
}


/* both at once: the engine that could bring another supervisor is dead */

static void
test_both_killed(void **state)
{
    master_t   m;
    worker_t   a;
    uint32_t   engine, super;

    (void) state;

    master_init(&m);
    master_start(&m);
    worker_claim(&m, &a);
    worker_answer(&m, &a, 1, 5);

    super = m.shm->supervisor_pid;
    engine = m.shm->engine_pid;

    assert_int_equal(kill((pid_t) super, SIGSTOP), 0);
    assert_int_equal(kill((pid_t) engine, SIGKILL), 0);
    assert_int_equal(kill((pid_t) super, SIGKILL), 0);
    wait_for(1000, is_gone(engine) && is_gone(super));
    wait_for(1000, ended(m.alive_r));

    /* what a reload does: another supervisor on the same segment */

    (void) close(m.life_w);
    (void) close(m.alive_r);
    master_start(&m);
    assert_int_equal(m.shm->engine_epoch, 2);
    assert_int_not_equal(m.shm->engine_pid, engine);
    worker_answer(&m, &a, 2, 5);

    master_fini(&m);
}


/*
 * Whoever asks for a supervisor where there is one is told of that one; words
 * of the segment, which workers can write, change nothing about who serves.
 */

static void
test_two(void **state)
{
    int        life, alive;
    master_t   m;
    worker_t   a;
    uint32_t   engine, super;

    (void) state;

    master_init(&m);
    m.setup.null_rate = 200;
    master_start(&m);
    worker_claim(&m, &a);

    super = m.shm->supervisor_pid;
    engine = m.shm->engine_pid;
    life = m.life_w;
    alive = m.alive_r;

    worker_submit(&m, &a, 1, 100);
    (void) stream_on(&m, &a, 1, 0, 1);

    m.shm->supervisor_pid = 1;                 /* a lie */

    assert_int_equal(master_spawn(&m), 0);
    assert_int_equal(atoi(m.answer + 3), super);
    wait_for(1000, ended(m.alive_r));             /* nobody took it */
    (void) close(m.life_w);
    (void) close(m.alive_r);
    m.life_w = life;
    m.alive_r = alive;

    assert_int_equal(m.shm->state, MST_STATE_READY);
    assert_int_equal(m.shm->engine_epoch, 1);
    assert_int_equal(stream_on(&m, &a, 1, 1, 100), 100);
    assert_int_equal(worker_next(&m, &a, 20000)->type, MST_REC_DONE);

    /* the lie has no consequence when somebody dies, either */

    assert_int_equal(kill((pid_t) engine, SIGKILL), 0);
    wait_for(1000, m.shm->state == MST_STATE_READY && m.shm->restarts == 1);
    assert_int_equal(atoi(status_line(m.shm->engine_pid, "PPid:")), super);
    engine = m.shm->engine_pid;

    m.shm->supervisor_pid = 0;
    assert_int_equal(kill((pid_t) super, SIGKILL), 0);
    wait_for(1000, m.shm->supervisor_pid != 0);
    assert_int_equal(m.shm->engine_pid, engine);
    worker_answer(&m, &a, 2, 5);

    master_fini(&m);
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_supervisor_killed),
        cmocka_unit_test(test_adopted_hangs),
        cmocka_unit_test(test_supervisor_impossible),
        cmocka_unit_test(test_supervisor_useless),
        cmocka_unit_test(test_both_killed),
        cmocka_unit_test(test_two)
    };

    (void) argc;

    if (master_program(argv[0]) == -1) {
        return 1;
    }

    return cmocka_run_group_tests_name("mistral_supervisor", tests, NULL, NULL);
}
