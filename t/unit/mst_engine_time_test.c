
/*
 * What a claim says of time: pace, pauses, the first token's deadline, and the
 * rates that the engine measures; exact to the token.
 */

#include "mst_engine_claim.h"


/* a reader who does not read keeps nobody waiting */

static void
test_pause(void **state)
{
    uint32_t            i, a, b, c;
    uint64_t            text;
    mst_claim_t         claim;
    mst_engine_stats_t  s;

    (void) state;

    memset(&claim, 0, sizeof(claim));
    claim.kv_reserve = MST_RESERVE_FULL;

    begin(2, 256, 20, 1);                      /* 320 tokens */

    a = submit(&claim, 20, 100);
    b = submit(&claim, 20, 100);
    steps(10);
    mst_engine_pause(engine, a, 1, now);
    mst_engine_pause(engine, a, 1, now);
    steps(10);

    assert_int_equal(tags[a].n, 10);
    assert_int_equal(tags[b].n, 20);

    mst_engine_stats(engine, &s);
    assert_int_equal(s.running, 2);
    assert_int_equal(s.paused, 1);

    /* it has its place and its blocks as long as nobody wants them */

    mst_engine_pause(engine, a, 0, now);
    steps(1);
    assert_int_equal(tags[a].n, 11);
    mst_engine_pause(engine, a, 1, now);

    c = submit(&claim, 20, 100);
    steps(1);
    assert_int_equal(tags[c].n, 1);

    mst_engine_stats(engine, &s);
    assert_int_equal(s.running, 2);
    assert_int_equal(s.waiting, 1);
    assert_int_equal(s.preemptions, 1);

    /* then it waits as anybody, and its answer goes on where it was */

    mst_engine_pause(engine, a, 0, now);
    steps(5);
    assert_int_equal(tags[a].n, 11);
    steps(300);

    for (i = 0; i < 3; i++) {
        assert_int_equal(tags[i].n, 100);
        assert_int_equal(tags[i].done, MST_FINISH_LENGTH);
    }

    assert_int_equal(tags[a].preemptions, 1);
    text = events;
    end();

    /* the same calls: the same events */

    begin(2, 256, 20, 1);
    (void) submit(&claim, 20, 100);
    (void) submit(&claim, 20, 100);
    steps(10);
    mst_engine_pause(engine, a, 1, now);
    steps(10);
    mst_engine_pause(engine, a, 0, now);
    steps(1);
    mst_engine_pause(engine, a, 1, now);
    (void) submit(&claim, 20, 100);
    steps(1);
    mst_engine_pause(engine, a, 0, now);
    steps(305);
    assert_int_equal(events, text);

    /* paused before its start, ended while it is paused */

    a = submit(&claim, 20, 100);
    mst_engine_pause(engine, a, 1, now);
    steps(3);
    assert_int_equal(tags[a].admitted, 0);
    mst_engine_cancel(engine, a, now);
    assert_int_equal(tags[a].done, MST_FINISH_CANCELLED);

    end();
}


/* a pace is one stream's own: the others go on at each step */

static void
test_pace(void **state)
{
    uint32_t     slow, fast, k;
    mst_claim_t  c;

    (void) state;

    memset(&c, 0, sizeof(c));
    begin(8, 256, 1000, 0);
    step_ns = 7 * MST_MS;

    fast = submit(&c, 10, 4000);
    c.pace = 20000;                            /* 50 ms */
    slow = submit(&c, 10, 4000);

    steps(1 + 10 * 1000 / 7);                  /* 10 s */
    assert_in_range(tags[slow].n, 199, 202);
    assert_int_equal(tags[fast].n, 1 + 10 * 1000 / 7);

    mst_engine_pace(engine, slow, 5000, now);
    k = tags[slow].n;
    steps(10 * 1000 / 7);
    assert_in_range(tags[slow].n - k, 49, 51);
    assert_int_equal(tags[fast].n, 1 + 2 * (10 * 1000 / 7));

    mst_engine_pace(engine, slow, 0, now);
    k = tags[slow].n;
    steps(100);
    assert_int_equal(tags[slow].n - k, 100);

    mst_engine_pace(engine, 12345, 1, now);    /* nobody */
    end();
}


/* what cannot have its first token in time is refused at once, by what was
   measured */

static void
test_deadline(void **state)
{
    uint32_t            a, b, c, d;
    mst_claim_t         claim;
    mst_engine_stats_t  s;

    (void) state;

    memset(&claim, 0, sizeof(claim));
    begin(16, 100, 4000, 0);
    step_ns = 10 * MST_MS;                     /* 100 tokens: 10000 a second */

    /* nothing is known yet: nothing is refused */

    claim.ttft_ns = now + 1;
    a = submit(&claim, 1000, 1);
    assert_int_equal(tags[a].refused, 0);
    steps(1);                                  /* it began in time */
    assert_true(tags[a].admitted != 0);

    steps(20);
    assert_int_equal(tags[a].done, MST_FINISH_LENGTH);

    mst_engine_stats(engine, &s);
    assert_true(s.prompt_rate > 9990 && s.prompt_rate < 10010);

    /* 2000 tokens: 0.2 s */

    claim.ttft_ns = now + 190 * MST_MS;
    b = submit(&claim, 2000, 1);
    assert_int_equal(tags[b].refused, MST_REFUSE_DEADLINE);

    claim.ttft_ns = now + 250 * MST_MS;
    b = submit(&claim, 2000, 1);
    assert_int_equal(tags[b].refused, 0);

    /* behind it there is no time for as much again, unless it is wanted
       first */

    claim.ttft_ns = now + 390 * MST_MS;
    c = submit(&claim, 2000, 1);
    assert_int_equal(tags[c].refused, MST_REFUSE_DEADLINE);

    claim.ttft_ns = now + 205 * MST_MS;
    d = submit(&claim, 1, 1);
    assert_int_equal(tags[d].refused, 0);

    /* now the first of the two would be late: it is refused at its turn,
       without a token computed */

    steps(30);
    assert_int_equal(tags[d].done, MST_FINISH_LENGTH);
    assert_int_equal(tags[b].done, MST_FINISH_LENGTH);

    end();
}


/* a step with a first token that is wanted soon is not made longer by others
   than it can wait; those go on in the next one */

static void
test_hurry(void **state)
{
    uint32_t            a, b;
    mst_claim_t         claim;
    mst_engine_stats_t  s;

    (void) state;

    memset(&claim, 0, sizeof(claim));
    begin(16, 1000, 4000, 0);
    step_ns = 100 * MST_MS;

    /* an eighth of a step is enough to be measured */

    (void) submit(&claim, 100, 1);
    steps(2);
    mst_engine_stats(engine, &s);
    assert_true(s.prompt_rate == 0);

    (void) submit(&claim, 200, 1);
    steps(2);
    mst_engine_stats(engine, &s);
    assert_true(s.prompt_rate > 1990 && s.prompt_rate < 2010);

    /* 100 tokens of 0.05 s, that have 0.12 s: 100 others find room in the step,
       and not 800 */

    b = submit(&claim, 800, 1);
    claim.ttft_ns = now + 120 * MST_MS;
    a = submit(&claim, 100, 1);
    steps(1);

    assert_int_equal(tags[a].done, MST_FINISH_LENGTH);
    assert_int_equal(tags[b].done, 0);
    mst_engine_stats(engine, &s);
    assert_in_range(s.prefilling, 690, 710);

    steps(2);
    assert_int_equal(tags[b].done, MST_FINISH_LENGTH);

    end();
}


/* waiting too long for a place is found out in time, too */

static void
test_deadline_wait(void **state)
{
    uint32_t     a, b;
    uint64_t     wake;
    mst_claim_t  claim;

    (void) state;

    memset(&claim, 0, sizeof(claim));
    begin(1, 100, 4000, 0);
    step_ns = 10 * MST_MS;

    (void) submit(&claim, 1000, 1);
    steps(12);

    a = submit(&claim, 10, 1000);
    steps(2);
    claim.ttft_ns = now + 300 * MST_MS;
    b = submit(&claim, 1000, 1);
    assert_int_equal(tags[b].refused, 0);

    /* it takes 0.1 s itself: it must begin 0.2 s from now */

    steps(20);
    assert_int_equal(tags[b].refused, 0);
    steps(2);
    assert_int_equal(tags[b].refused, MST_REFUSE_DEADLINE);
    assert_true(tags[a].n > 20);

    /* and wakes the engine up when nothing else does */

    mst_engine_pause(engine, a, 1, now);
    claim.ttft_ns = now + 300 * MST_MS;
    b = submit(&claim, 10, 10);
    mst_engine_pause(engine, b, 1, now);
    wake = one_step();
    assert_in_range(wake, now + 200 * MST_MS, now + 300 * MST_MS);

    end();
}


static void
test_rates(void **state)
{
    uint32_t                  i;
    mst_claim_t               c;
    mst_engine_stats_t        s;
    const mst_order_class_t  *classes;

    (void) state;

    memset(&c, 0, sizeof(c));
    begin(4, 256, 4000, 0);
    step_ns = 10 * MST_MS;

    for (i = 0; i < 2000; i++) {
        c.priority = i % 2 ? 2 : 0;
        (void) submit(&c, 1, 10);
    }

    steps(1);
    classes = mst_engine_classes(engine);
    assert_int_equal(classes[mst_claim_rank(0)].n, 1000);
    assert_int_equal(classes[mst_claim_rank(0)].tokens, 1000);
    assert_int_equal(classes[mst_claim_rank(2)].n, 996);
    assert_int_equal(classes[mst_claim_rank(2)].n_dated, 0);

    steps(2000);
    mst_engine_stats(engine, &s);

    /* 4 at once, 10 steps each of 10 ms */

    assert_true(s.token_rate > 399 && s.token_rate < 401);
    assert_true(s.finish_rate > 39 && s.finish_rate < 41);

    /* an hour without work changes nothing */

    steps(4000);
    mst_engine_stats(engine, &s);
    assert_int_equal(s.running + s.waiting, 0);
    now += 3600 * MST_S;
    (void) submit(&c, 1, 10);
    steps(10);
    mst_engine_stats(engine, &s);
    assert_true(s.token_rate > 350 && s.token_rate < 401);

    end();
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_hurry),
        cmocka_unit_test(test_deadline_wait),
        cmocka_unit_test(test_rates)
    };

    return cmocka_run_group_tests_name("mst_engine_time", tests, NULL,
                                       NULL);
}
