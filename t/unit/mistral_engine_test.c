
/*
 * The engine program without nginx: this test is the master and a worker.
 */

#include "master.h"


static void
test_serve(void **state)
{
    int        i;
    char       path[64], buf[256];
    ssize_t    n;
    master_t   m;
    worker_t   a, b;
    uint32_t   super, engine;

    (void) state;

    master_init(&m);
    assert_int_equal(m.shm->state, MST_STATE_INIT);
    master_start(&m);

    super = m.shm->supervisor_pid;
    engine = m.shm->engine_pid;

    assert_int_equal(m.shm->engine_epoch, 1);
    assert_int_equal(m.shm->max_batch, 4);
    assert_int_equal(m.shm->context, 200000);
    assert_int_equal(m.shm->restarts, 0);

    worker_claim(&m, &a);
    worker_claim(&m, &b);

    for (i = 0; i < 50; i++) {
        worker_answer(&m, i & 1 ? &a : &b, (uint64_t) i, 1 + (uint32_t) i * 7);
    }

    worker_answer(&m, &a, 99, 100000);
    assert_int_equal(places(&m), 0);

    /* a session of its own, nothing inherited that it does not need, nothing
       on its command line but numbers */

    assert_int_equal(getsid((pid_t) super), super);
    check_descriptors(super);
    check_descriptors(engine);
    assert_int_equal(atoi(status_line(engine, "PPid:")), super);
    assert_non_null(strstr(status_line(engine, "SigBlk:"),
                           "0000000000000000"));
    assert_int_equal(atoi(status_line(engine, "NoNewPrivs:")), 1);
    assert_non_null(strstr(status_line(engine, "CapEff:"),
                           "0000000000000000"));
    assert_non_null(strstr(status_line(engine, "CapPrm:"),
                           "0000000000000000"));

    (void) snprintf(path, sizeof(path), "/proc/%u/cmdline", engine);
    i = open(path, O_RDONLY | O_CLOEXEC);
    n = read(i, buf, sizeof(buf) - 1);
    (void) close(i);
    assert_true(n > 0);
    buf[n] = '\0';
    assert_string_equal(buf, "mistral");
    assert_null(memmem(buf, (size_t) n, "demo", 4));

    wait_for(1000, strstr(master_log(&m), "ready: null:"));
    assert_non_null(strstr(m.log, "<5>engine "));
    assert_string_equal(master_logfile(&m), "");

    /* nginx ends */

    (void) close(m.life_w);
    m.life_w = -1;
    wait_for(1000, is_gone(engine) && is_gone(super));
    wait_for(1000, ended(m.alive_r));
    assert_int_equal(m.shm->state, MST_STATE_DOWN);
    assert_non_null(strstr(master_logfile(&m), " [notice] "));
    assert_non_null(strstr(master_logfile(&m), "#0: mistral model \"demo\": "
                                               "supervisor "));
    assert_non_null(strstr(master_logfile(&m), "leaving\n"));

    master_fini(&m);
}


static void
test_engine_killed(void **state)
{
    int        downs;
    master_t   m;
    worker_t   a, b;
    uint32_t   engine, super, epoch;
    uint64_t   start, took, count;
    const mst_record_t  *rec;

    (void) state;

    master_init(&m);
    m.setup.null_rate = 100;
    master_start(&m);

    worker_claim(&m, &a);
    worker_claim(&m, &b);
    super = m.shm->supervisor_pid;
    engine = m.shm->engine_pid;
    epoch = m.shm->engine_epoch;

    worker_submit(&m, &a, 1, 1000);
    worker_submit(&m, &a, 2, 1000);
    rec = worker_next(&m, &a, 20000);
    assert_int_equal(rec->type, MST_REC_ADMIT);
    assert_int_equal(mst_place_take(m.shm, b.slot, 2, 100, 0), MST_OK);
    assert_int_equal(places(&m), 3);
    (void) read(m.slots[b.i], &count, 8);

    start = mst_time_ns();
    assert_int_equal(kill((pid_t) engine, SIGKILL), 0);

    wait_for(1000, m.shm->engine_epoch == epoch + 1);
    wait_for(1000, m.shm->state == MST_STATE_READY);
    took = (mst_time_ns() - start) / MST_MS;
    print_message("serving %llu ms after kill -9\n",
                  (unsigned long long) took);

    assert_int_equal(read(m.slots[b.i], &count, 8), 8);  /* told everybody */
    assert_true(count >= 2);
    assert_int_not_equal(m.shm->engine_pid, engine);
    assert_int_equal(m.shm->supervisor_pid, super);
    assert_int_equal(m.shm->restarts, 1);

    /* requests of the dead one are void and their places back; a
       reservation is still the worker's */

    wait_for(1000, places(&m) == 1);
    mst_place_untake(m.shm, b.slot, 2);

    while ((rec = worker_next(&m, &a, 50)) != NULL) {
        assert_int_equal(rec->engine_epoch, epoch);
    }

    worker_answer(&m, &a, 3, 10);
    worker_answer(&m, &b, 1, 10);
    assert_int_equal(places(&m), 0);

    wait_for(1000, strstr(master_log(&m), "exited on signal 9, the next one "
                                          "starts at once"));

    /* the second death within 10 s: a pause, in which it is down */

    start = mst_time_ns();
    assert_int_equal(kill((pid_t) m.shm->engine_pid, SIGSEGV), 0);
    wait_for(1000, m.shm->state == MST_STATE_DOWN);
    assert_int_equal(m.shm->engine_epoch, epoch + 2);
    assert_int_equal(m.shm->engine_pid, 0);

    downs = 0;

    while (m.shm->state != MST_STATE_READY && downs < 30000) {
        downs++;
        (void) usleep(1000);
    }

    took = (mst_time_ns() - start) / MST_MS;
    assert_true(took >= 99);
    wait_for(1000, strstr(master_log(&m), "exited on signal 11, the next one "
                                          "starts in 100 ms"));
    worker_answer(&m, &a, 4, 10);

    /* also what was published while it was down is served by the next: it
       says the epoch that is to come */

    assert_int_equal(kill((pid_t) m.shm->engine_pid, SIGKILL), 0);
    wait_for(1000, m.shm->state == MST_STATE_DOWN);
    worker_answer(&m, &a, 5, 10);
    assert_non_null(strstr(master_log(&m), "starts in 200 ms"));
    assert_int_equal(m.shm->restarts, 3);

    master_fini(&m);
}


static void
test_worker_killed(void **state)
{
    int        i;
    pid_t      pid;
    master_t   m;
    worker_t   a;

    (void) state;

    master_init(&m);
    m.setup.null_rate = 100;
    master_start(&m);

    pid = fork();

    if (pid == 0) {
        worker_claim(&m, &a);

        for (i = 0; i < 9; i++) {
            worker_submit(&m, &a, (uint64_t) i, 1000);
        }

        (void) mst_place_take(m.shm, a.slot, 2, 100, 0);
        (void) pause();
        _exit(0);
    }

    wait_for(1000, m.shm->stat.running == 4);  /* max_batch */
    wait_for(1000, places(&m) == 10);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    wait_for(1000, m.shm->stat.running == 0 && places(&m) == 0);
    wait_for(1000, mst_slot_state(&m.map.slots[0]) == MST_SLOT_FREE);
    assert_int_equal(m.shm->stat.slots_reclaimed, 1);

    worker_claim(&m, &a);
    worker_answer(&m, &a, 1, 5);

    master_fini(&m);
}


/* what cannot run says why, once per pause, and nginx is not kept */

static void
refused(const char *device, uint32_t n_files, uint32_t null, const char *why)
{
    const char  *line;
    master_t     m;

    master_init(&m);
    strcpy(m.setup.device, device);
    m.setup.null = null;
    m.setup.n_files = n_files;
    strcpy(m.setup.path, "model.gguf");

    assert_int_equal(master_spawn(&m), 0);
    wait_for(3000, m.shm->restarts == 1);
    wait_for(1000, (line = strstr(master_log(&m), why)));
    wait_for(1000, strstr(master_log(&m), "exited with code 78, the next one "
                                          "starts in 5000 ms"));
    (void) usleep(100000);
    assert_int_equal(m.shm->state, MST_STATE_DOWN);
    assert_int_equal(m.shm->restarts, 1);

    master_fini(&m);
}


static void
test_refused(void **state)
{
    master_t  m;

    (void) state;

    refused("cuda:0", 1, 0, "device cuda:0: the engine was given "
            "no libmst_cuda.so");
    refused("auto", 1, 0, "model.gguf: ");     /* a text is no GGUF file */

    /* before anything is started */

    master_init(&m);
    m.shm->layout = 0x1234567890abcdefull;
    assert_int_equal(master_spawn(&m), MST_EXIT_REFUSED);
    assert_non_null(strstr(m.answer, "1234567890abcdef"));
    assert_int_equal(m.shm->supervisor_pid, 0);
    master_fini(&m);

    master_init(&m);
    m.setup.n_files = 5;
    assert_int_equal(master_spawn(&m), MST_EXIT_REFUSED);
    assert_non_null(strstr(m.answer, "is not open"));
    master_fini(&m);
}


static void
test_privileges(void **state)
{
    master_t  m;

    (void) state;

    if (geteuid() != 0) {
        return;                    /* nothing to give up */
    }

    master_init(&m);
    m.setup.uid = 65534;
    m.setup.gid = 65533;
    m.setup.n_groups = 2;
    m.setup.groups[0] = 65533;
    m.setup.groups[1] = 65500;
    master_start(&m);

    assert_string_equal(status_line(m.shm->engine_pid, "Uid:"),
                        "\t65534\t65534\t65534\t65534");
    assert_string_equal(status_line(m.shm->engine_pid, "Gid:"),
                        "\t65533\t65533\t65533\t65533");
    assert_non_null(strstr(status_line(m.shm->engine_pid, "Groups:"),
                           "65500 65533"));

    /* it comes back without a right to open anything */

    assert_int_equal(kill((pid_t) m.shm->engine_pid, SIGKILL), 0);
    wait_for(1000, m.shm->restarts == 1);
    wait_for(1000, m.shm->state == MST_STATE_READY);

    master_fini(&m);
}


/* a real model, from the master's descriptor; the same text each time */

static void
real_answer(master_t *m, worker_t *k, uint64_t id, uint32_t *ids)
{
    uint32_t                 n;
    const mst_record_t      *rec;
    const unsigned char     *at;
    const mst_rec_top_t     *top;
    const mst_rec_token_t   *token;
    const mst_rec_tokens_t  *tokens;

    worker_submit(m, k, id, 12);
    n = 0;

    do {
        rec = worker_next(m, k, 60000);
        assert_non_null(rec);
        assert_int_not_equal(rec->type, MST_REC_REFUSE);

        if (rec->type != MST_REC_TOKENS) {
            continue;
        }

        tokens = (const mst_rec_tokens_t *) rec;
        at = (const unsigned char *) (tokens + 1);

        while ((token = mst_record_next_token(tokens, &at, &top)) != NULL) {
            assert_true(n < 12 && token->id < 49152);
            ids[n++] = token->id;
        }

    } while (rec->type != MST_REC_DONE);

    assert_int_equal(n, 12);
}


static void
test_model(void **state)
{
    char         name[64];
    master_t     m;
    worker_t     a;
    uint32_t     first[12], second[12];
    const char  *path;

    (void) state;

    path = "build/models/SmolLM2-135M-Instruct.Q4_1.gguf";

    master_init(&m);
    (void) close(m.text);
    m.text = open(path, O_RDONLY | O_CLOEXEC);

    if (m.text == -1) {
        fail_msg("%s is missing: make model", path);
    }

    m.setup.null = 0;
    m.setup.context = 512;
    m.setup.threads = 2;
    strcpy(m.setup.path, path);

    assert_int_equal(master_spawn(&m), 0);
    wait_for(20000, m.shm->state == MST_STATE_READY);

    assert_int_equal(m.shm->context, 512);
    assert_true(m.shm->stat.weight_size > 50000000);
    assert_true(m.shm->stat.blocks_total * m.shm->stat.block_tokens >= 512);
    assert_true(m.shm->stat.load_ns > 0);
    mst_stat_backend(&m.shm->stat, name);
    assert_string_equal(name, "cpu, 2 threads");

    worker_claim(&m, &a);
    real_answer(&m, &a, 1, first);

    assert_int_equal(kill((pid_t) m.shm->engine_pid, SIGKILL), 0);
    wait_for(1000, m.shm->restarts == 1);

    /* its supervisor dies while it loads */

    wait_for(1000, m.shm->state == MST_STATE_LOADING);
    (void) super_kill(&m);
    wait_for(20000, m.shm->state == MST_STATE_READY);
    assert_int_equal(m.shm->restarts, 1);

    real_answer(&m, &a, 2, second);
    assert_memory_equal(first, second, sizeof(first));

    master_fini(&m);
}


/* nobody reads the pipe: nothing blocks, nothing is lost */

static void
test_log(void **state)
{
    int        n;
    master_t   m;
    const char *p;

    (void) state;

    master_init(&m);
    while (write(m.log_w, "0123456789abcdef", 16) == 16) {
        /* until it is full */
    }

    master_start(&m);
    assert_non_null(strstr(master_logfile(&m), "ready: null:"));

    (void) close(m.log_r);                     /* and without any reader */
    assert_int_equal(kill((pid_t) m.shm->engine_pid, SIGKILL), 0);
    wait_for(1000, m.shm->restarts == 1);
    wait_for(1000, m.shm->state == MST_STATE_READY);

    n = 0;

    for (p = master_logfile(&m); (p = strchr(p, '\n')) != NULL; p++) {
        n++;
    }

    assert_int_equal(n, 3);
    p = strstr(master_logfile(&m), "[alert]");
    assert_non_null(p);
    p -= 20;                                   /* the time, as nginx has it */
    assert_true(p[4] == '/' && p[7] == '/' && p[10] == ' ' && p[13] == ':'
                && p[16] == ':' && p[19] == ' ');
    assert_non_null(strstr(p, "exited on signal 9"));

    m.log_r = dup(m.log_w);
    master_fini(&m);
}


/*
 * A process that the master left behind holds the life pipe: the supervisor
 * leaves when no worker and no master is alive.  And a supervisor that is
 * stopped: then the engine itself leaves at the pipe's end.
 */

static void
test_stray(void **state)
{
    int        fds[2];
    char       c;
    pid_t      pid;
    master_t   m, n;
    worker_t   a;
    uint32_t   engine, super;

    (void) state;

    master_init(&m);
    master_start(&m);

    /* the second story, which takes as long */

    master_init(&n);
    master_start(&n);
    assert_int_equal(kill((pid_t) n.shm->supervisor_pid, SIGSTOP), 0);
    (void) close(n.life_w);
    n.life_w = -1;

    assert_int_equal(pipe(fds), 0);
    pid = fork();

    if (pid == 0) {                            /* a master, with a worker */
        if (fork() == 0) {
            worker_claim(&m, &a);
            (void) !write(fds[1], "x", 1);
            (void) pause();
        }

        (void) pause();
    }

    assert_int_equal(read(fds[0], &c, 1), 1);
    super = m.shm->supervisor_pid;
    engine = m.shm->engine_pid;
    assert_int_equal(m.map.slots[0].master, pid);

    (void) kill((pid_t) mst_slot_pid(&m.map.slots[0]), SIGKILL);
    wait_for(1000, mst_slot_state(&m.map.slots[0]) == MST_SLOT_FREE);
    (void) usleep(300000);
    assert_false(is_gone(engine));             /* a master may start more */

    (void) kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    wait_for(4000, is_gone(engine) && is_gone(super));
    assert_non_null(strstr(master_logfile(&m), "something holds the life"));

    wait_for(4000, is_gone(n.shm->engine_pid));
    assert_int_equal(kill((pid_t) n.shm->supervisor_pid, SIGCONT), 0);

    (void) close(fds[0]);
    (void) close(fds[1]);
    master_fini(&m);
    master_fini(&n);
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_serve),
        cmocka_unit_test(test_engine_killed),
        cmocka_unit_test(test_worker_killed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_privileges),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_stray)
    };

    (void) argc;

    if (master_program(argv[0]) == -1) {
        return 1;
    }

    return cmocka_run_group_tests_name("mistral_engine", tests, NULL, NULL);
}
