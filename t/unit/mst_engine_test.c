
/*
 * The engine's rules, one by one: limits, cancels, priorities, broken numbers,
 * times, failing memory.  Refusals: mst_engine_refuse_test.c.
 */

#include "mst_engine_host.h"


static void
test_limits(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       ids[64] = { 1, 2, 3 }, stop[] = { 103, 105 };
    mst_runner_t   r;
    mst_submit_t   s;

    (void) state;

    fault_runner(&r, &f, 64, 100);
    host_open(&h, &r, 8, 64, 10);

    /* a stop id is counted and told */

    host_submit_init(&s, 1, ids, 3, 20);
    s.stop_ids = stop;
    s.n_stop = 2;
    mst_engine_submit(h.e, &s, h.now);

    /* before min_tokens it is none: 103 is the 4th token, 4 must stand
       before */

    s.tag = 2;
    s.params.min_tokens = 4;
    mst_engine_submit(h.e, &s, h.now);

    s.tag = 3;
    s.params.min_tokens = 3;
    mst_engine_submit(h.e, &s, h.now);

    host_submit_init(&s, 4, ids, 3, 20);       /* hard end */
    s.params.soft_tokens = 5;
    mst_engine_submit(h.e, &s, h.now);

    host_submit_init(&s, 5, ids, 60, 20);      /* context of 64 */
    mst_engine_submit(h.e, &s, h.now);

    host_submit_init(&s, 6, ids, 63, 20);
    mst_engine_submit(h.e, &s, h.now);

    host_submit_init(&s, 7, ids, 3, 0);        /* the prompt only */
    mst_engine_submit(h.e, &s, h.now);

    host_submit_init(&s, 8, ids, 1, 1);
    mst_engine_submit(h.e, &s, h.now);

    host_run(&h, 0);

    assert_int_equal(h.answers[1].finish, MST_FINISH_STOP);
    assert_int_equal(h.answers[1].n, 4);
    assert_int_equal(h.answers[1].ids[3], 103);
    assert_int_equal(h.answers[1].usage.prompt, 3);

    assert_int_equal(h.answers[2].finish, MST_FINISH_STOP);
    assert_int_equal(h.answers[2].n, 6);
    assert_int_equal(h.answers[3].n, 4);

    assert_int_equal(h.answers[4].finish, MST_FINISH_LENGTH);
    assert_int_equal(h.answers[4].n, 20);
    assert_int_equal(h.answers[4].ids[4], 104);
    assert_int_equal(h.answers[4].ids[5], 99);
    assert_int_equal(h.answers[4].ids[19], 99);

    assert_int_equal(h.answers[5].finish, MST_FINISH_LENGTH);
    assert_int_equal(h.answers[5].n, 4);
    assert_int_equal(h.answers[6].n, 1);

    assert_int_equal(h.answers[7].finish, MST_FINISH_LENGTH);
    assert_int_equal(h.answers[7].n, 0);
    assert_int_equal(h.answers[7].usage.prompt, 3);
    assert_int_equal(h.answers[7].admits, 1);

    assert_int_equal(h.answers[8].n, 1);

    host_check_counts(&h);
    host_close(&h);
}


/*
 * A plan may preempt, end the one that it preempted for, and hold nothing:
 * the second has only blocks that the first has too, so that its preemption
 * frees none.  It must start in the next step, though no time has passed.
 */

static void
test_empty_plan(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       i, ids[64];
    mst_runner_t   r;
    mst_submit_t   s;

    (void) state;

    for (i = 0; i < 64; i++) {
        ids[i] = i;
    }

    fault_runner(&r, &f, 1000, 6);
    host_open(&h, &r, 4, 200, 5);

    f.sleep_n = 1;
    f.sleep_ns = h.now + 33;

    /* 64 tokens, 4 blocks */

    host_submit_init(&s, 1, ids, 64, 100);
    mst_engine_submit(h.e, &s, h.now);

    host_submit_init(&s, 2, ids, 64, 5);
    s.params.seed = 7;
    mst_engine_submit(h.e, &s, h.now);

    /* the first has 96 computed and 6 blocks after 33 steps, when the second,
       asleep since its first token, wakes up */

    for (i = 0; i < 33; i++) {
        assert_int_equal(host_step(&h), MST_OK);
        h.now++;
    }

    assert_int_equal(h.answers[1].n, 33);
    assert_int_equal(h.answers[2].n, 1);

    h.now = f.sleep_ns;
    assert_int_equal(host_step(&h), MST_OK);
    assert_int_equal(h.answers[1].finish, MST_FINISH_LENGTH);
    assert_int_equal(h.answers[2].n, 1);

    host_run(&h, 0);
    assert_int_equal(h.answers[2].n, 5);
    assert_int_equal(h.answers[2].usage.preemptions, 1);

    host_close(&h);
}


static void
test_cancel(void **state)
{
    host_t              h;
    uint32_t            ids[4] = { 1, 2, 3 };
    mst_runner_t        r;
    mst_submit_t        s;
    mst_engine_stats_t  st;

    (void) state;

    host_null(&r, 10, 50 * MST_MS, 0, 12);
    host_open(&h, &r, 2, 32, 10);

    mst_engine_cancel(h.e, 7, h.now);          /* unknown: nothing */
    assert_int_equal(h.events, 0);

    /* never started; with a deadline and no_wait */

    host_submit_init(&s, 1, ids, 3, 5);
    s.no_wait = 1;
    s.deadline_ns = h.now + 1000;
    mst_engine_submit(h.e, &s, h.now);
    h.now += 10;
    mst_engine_cancel(h.e, 1, h.now);
    assert_int_equal(h.answers[1].finish, MST_FINISH_CANCELLED);
    assert_int_equal(h.answers[1].usage.queue_ns, 10);
    assert_int_equal(h.answers[1].usage.prompt, 3);
    assert_int_equal(h.answers[1].admits, 0);

    h.now += 5000;
    assert_int_equal(host_step(&h), MST_AGAIN);
    assert_int_equal(h.wake, 0);

    /* in the middle of its prompt */

    host_submit(&h, 2, 100, 5);
    host_step(&h);
    mst_engine_stats(h.e, &st);
    assert_int_equal(st.blocks_used, 7);
    mst_engine_cancel(h.e, 2, h.now);
    mst_engine_stats(h.e, &st);
    assert_int_equal(st.blocks_used, 0);
    assert_int_equal(st.running, 0);
    assert_int_equal(h.answers[2].finish, MST_FINISH_CANCELLED);
    assert_int_equal(h.answers[2].n, 0);

    /* asleep until its first token */

    host_submit(&h, 3, 10, 5);
    host_run(&h, 0);
    mst_engine_cancel(h.e, 3, h.now);
    assert_int_equal(host_step(&h), MST_AGAIN);
    assert_int_equal(h.wake, 0);

    /* between tokens, and due */

    host_submit(&h, 4, 10, 50);
    host_run(&h, 0);
    h.now = h.wake;
    host_run(&h, 0);
    h.now = h.wake;
    host_run(&h, 0);
    assert_int_equal(h.answers[4].n, 2);
    h.now = h.wake;
    mst_engine_cancel(h.e, 4, h.now);
    assert_int_equal(h.answers[4].usage.completion, 2);
    assert_int_equal(host_step(&h), MST_AGAIN);

    /* preempted: 12 blocks, two that grow to 8 each */

    host_close(&h);
    host_null(&r, 10, 0, 0, 12);
    host_open(&h, &r, 2, 200, 10);

    host_submit(&h, 5, 90, 100);
    host_submit(&h, 6, 90, 100);

    do {
        host_run(&h, 0);
        h.now = h.wake;
        mst_engine_stats(h.e, &st);
    } while (st.preemptions == 0);

    assert_int_equal(st.running, 1);
    assert_int_equal(st.waiting, 1);
    mst_engine_cancel(h.e, 6, h.now);
    assert_int_equal(h.answers[6].usage.preemptions, 1);
    assert_true(h.answers[6].n > 0);
    mst_engine_stats(h.e, &st);
    assert_int_equal(st.waiting, 0);
    assert_int_equal(st.waiting_tokens, 0);

    host_run(&h, 1);
    host_check_fox(&h.answers[5], 100);
    mst_engine_stats(h.e, &st);
    assert_int_equal(st.blocks_used, 0);

    host_close(&h);
}


static void
test_priority(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       i, ids[8] = { 1, 2, 3 };
    mst_runner_t   r;
    mst_submit_t   s;
    static const int32_t  priorities[] = { 1, 2, 3, 2, MST_PRIORITY_MAX, 0 };
    static const int      order[] = { 4, 2, 1, 3, 0, 5 };

    (void) state;

    fault_runner(&r, &f, 100, 20);
    host_open(&h, &r, 1, 64, 10);

    for (i = 0; i < 6; i++) {
        host_submit_init(&s, i, ids, 3, 4);
        s.claim.priority = priorities[i];
        mst_engine_submit(h.e, &s, h.now);
    }

    host_run(&h, 0);

    for (i = 0; i < 6; i++) {
        assert_int_equal(h.order[i], order[i]);
    }

    host_close(&h);
}


static void
test_numeric(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       i, ids[64] = { 1, 2, 3 };
    mst_runner_t   r;
    mst_submit_t   s;

    (void) state;

    fault_runner(&r, &f, 100, 20);
    f.nan_id = 104;                            /* its fifth token */
    host_open(&h, &r, 8, 200, 10);

    host_submit_init(&s, 1, ids, 40, 20);
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);

    assert_int_equal(h.answers[1].finish, MST_FINISH_NUMERIC);
    assert_int_equal(h.answers[1].n, 5);

    /* what it computed is not given to another, although it is the same */

    s.tag = 2;
    mst_engine_submit(h.e, &s, h.now);
    host_step(&h);
    assert_int_equal(h.answers[2].cached, 0);

    /* the others go on */

    for (i = 3; i < 6; i++) {
        host_submit_init(&s, i, ids, 3, 4);
        mst_engine_submit(h.e, &s, h.now);
    }

    host_run(&h, 0);
    assert_int_equal(h.answers[2].finish, MST_FINISH_NUMERIC);

    for (i = 3; i < 6; i++) {
        assert_int_equal(h.answers[i].finish, MST_FINISH_LENGTH);
        assert_int_equal(h.answers[i].n, 4);
    }

    host_check_counts(&h);
    host_close(&h);
}


static void
test_death(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       i;
    mst_runner_t   r;

    (void) state;

    fault_runner(&r, &f, 100, 10);
    host_open(&h, &r, 3, 200, 10);

    for (i = 0; i < 5; i++) {
        host_submit(&h, i, 30, 20);
    }

    host_step(&h);
    f.fail = 1;
    assert_int_equal(host_step(&h), MST_ERROR);
    assert_string_equal(h.err.text, "the device is gone");

    for (i = 0; i < 5; i++) {
        assert_int_equal(h.answers[i].finish, MST_FINISH_ERROR);
        assert_int_equal(h.answers[i].n, i < 3);
    }

    host_check_counts(&h);

    f.fail = 0;
    assert_int_equal(host_step(&h), MST_ERROR);
    assert_string_equal(h.err.text, "the device is gone");

    host_submit(&h, 6, 30, 20);
    assert_int_equal(h.answers[6].refuse, MST_REFUSE_DRAINING);

    host_close(&h);
}


static uint64_t  fake_ns;


static uint64_t
fake_clock(void)
{
    return fake_ns += 500;                     /* a step takes 500 ns */
}


static void
test_times(void **state)
{
    host_t              h;
    fault_t             f;
    mst_runner_t        r;
    mst_engine_conf_t   conf;
    mst_engine_stats_t  st;

    (void) state;

    fault_runner(&r, &f, 100, 10);
    host_conf(&h, &conf, 1, 20);
    conf.clock = fake_clock;
    host_open_conf(&h, &r, &conf, 5);

    host_submit(&h, 1, 30, 3);                 /* at 1000 */
    h.now = 1100;
    host_step(&h);                             /* 20 of its prompt */
    h.now = 2000;
    host_step(&h);                             /* the rest, a token */
    h.now = 3000;
    host_step(&h);
    h.now = 4000;
    host_step(&h);

    assert_int_equal(h.answers[1].dones, 1);
    assert_int_equal(h.answers[1].usage.queue_ns, 100);
    assert_int_equal(h.answers[1].usage.prefill_ns, 2500 - 1100);
    assert_int_equal(h.answers[1].usage.decode_ns, 4500 - 2500);

    mst_engine_stats(h.e, &st);
    assert_int_equal(st.last_step_ns, 500);

    /* cancelled in its prompt, by a host whose clock stepped back */

    host_submit(&h, 2, 90, 3);
    host_step(&h);
    h.now = 10;
    mst_engine_cancel(h.e, 2, h.now);
    assert_int_equal(h.answers[2].usage.prefill_ns, 0);
    assert_int_equal(h.answers[2].usage.decode_ns, 0);

    host_close(&h);
}


static void
test_memory(void **state)
{
    long                n;
    host_t              h;
    fault_t             f;
    uint32_t            i, ids[8] = { 1, 2, 3 }, refused, failed;
    mst_bias_t          bias = { 1, 1 };
    mst_runner_t        r;
    mst_submit_t        s;
    mst_engine_t       *e;
    mst_engine_conf_t   conf;

    (void) state;

    fault_runner(&r, &f, 1000, 100);
    host_conf(&h, &conf, 8, 64);

    for (n = 1; /* void */ ; n++) {
        h.err.text[0] = '\0';
        mst_mem_fail_after(n);
        e = mst_engine_create(&conf, &r, &h.err);
        mst_mem_fail_after(0);

        if (e) {
            mst_engine_destroy(e);
            break;
        }

        assert_string_equal(h.err.text, "no memory for an engine of 8 "
                            "sequences and 100 KV blocks");
    }

    assert_true(n > 8);

    host_open(&h, &r, 8, 64, 1000);
    refused = 0;
    failed = 0;

    for (i = 0; i < 400; i++) {
        host_submit_init(&s, i, ids, 3, 120);
        s.stop_ids = ids;
        s.n_stop = 3;
        s.bias = &bias;
        s.n_bias = 1;

        mst_mem_fail_after(1 + i % 7);
        mst_engine_submit(h.e, &s, h.now);
        mst_mem_fail_after(0);

        if (h.answers[i].refuses) {
            assert_int_equal(h.answers[i].refuse, MST_REFUSE_MEMORY);
            refused++;
        }

        /* growth in a step: one that has begun ends, one that has not is
           refused, the others go on */

        if (i % 16 == 0) {
            mst_mem_fail_after(1 + i % 5);
            host_step(&h);
            mst_mem_fail_after(0);
        }
    }

    host_run(&h, 0);

    for (i = 0; i < 400; i++) {
        assert_int_equal(h.answers[i].dones + h.answers[i].refuses, 1);

        if (h.answers[i].dones && h.answers[i].n != 120) {
            assert_int_equal(h.answers[i].finish, MST_FINISH_ERROR);
            failed++;
        }
    }

    assert_true(refused > 50 && refused < 350);
    assert_true(failed > 0);
    host_check_counts(&h);
    host_close(&h);
}


static void
test_conf(void **state)
{
    host_t              h;
    fault_t             f;
    mst_runner_t        r;
    mst_engine_conf_t   conf;

    (void) state;

    fault_runner(&r, &f, 1000, 100);

    host_conf(&h, &conf, 0, 64);
    h.err.text[0] = '\0';
    assert_null(mst_engine_create(&conf, &r, &h.err));
    assert_string_equal(h.err.text, "max_batch 0 is outside 1 .. 1048576");

    host_conf(&h, &conf, 8, 0);
    h.err.text[0] = '\0';
    assert_null(mst_engine_create(&conf, &r, &h.err));
    assert_string_equal(h.err.text, "prefill_chunk 0 is outside 1 .. "
                        "16777216");

    r.info.n_blocks = 0;
    host_conf(&h, &conf, 8, 1);
    h.err.text[0] = '\0';
    assert_null(mst_engine_create(&conf, &r, &h.err));
    assert_string_equal(h.err.text, "a KV pool of 0 blocks of 16 tokens and "
                        "a vocabulary of 1000 cannot be used");

    mst_engine_destroy(NULL);
}


/* the room in used blocks that holds nothing; a cache that is forgotten */

static void
test_slack_and_forget(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       i, ids[64];
    mst_runner_t   r;
    mst_submit_t   s;

    (void) state;

    for (i = 0; i < 64; i++) {
        ids[i] = i;
    }

    fault_runner(&r, &f, 200, 100);            /* blocks of 16 */
    host_open(&h, &r, 8, 64, 10);

    assert_int_equal(mst_engine_slack(h.e), 0);

    host_submit_init(&s, 1, ids, 40, 3);
    mst_engine_submit(h.e, &s, h.now);
    assert_int_equal(mst_engine_slack(h.e), 0);

    (void) host_step(&h);
    assert_int_equal(mst_engine_slack(h.e), 8);
    (void) host_step(&h);
    assert_int_equal(mst_engine_slack(h.e), 7);
    host_run(&h, 0);
    assert_int_equal(mst_engine_slack(h.e), 0);

    host_submit_init(&s, 2, ids, 40, 3);
    mst_engine_submit(h.e, &s, h.now);
    (void) host_step(&h);
    assert_int_equal(h.answers[2].cached, 32);

    /* while it runs: its blocks stay its own and are no longer found */

    assert_int_equal(mst_engine_forget(h.e), 2);
    assert_int_equal(mst_engine_forget(h.e), 0);

    host_submit_init(&s, 3, ids, 40, 3);
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(h.answers[3].cached, 0);
    assert_int_equal(h.answers[2].n, 3);

    host_submit_init(&s, 4, ids, 40, 3);
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(h.answers[4].cached, 32);

    host_check_counts(&h);
    host_close(&h);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_empty_plan),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_numeric),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_slack_and_forget),
        cmocka_unit_test(test_conf)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
