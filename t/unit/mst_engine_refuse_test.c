
/*
 * Whom the engine refuses: prompts and parameters that make no sense, those
 * whose time is over, who may not wait, and what no pool can hold.
 */

#include "mst_engine_host.h"


static void
test_refusals(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       ids[200] = { 1, 2, 3 }, stop[40] = { 0 };
    mst_bias_t     bias[2] = { { 5, 1 }, { 6, -100 } };
    mst_runner_t   r;
    mst_submit_t   s;

    (void) state;

    fault_runner(&r, &f, 100, 5);              /* 80 tokens */
    host_open(&h, &r, 8, 64, 20);

#define refused(tag_, why, what)                                              \
    s.tag = tag_;                                                             \
    mst_engine_submit(h.e, &s, h.now);                                        \
    assert_int_equal(h.answers[tag_].refuses, 1);                             \
    assert_int_equal(h.answers[tag_].refuse, why);                            \
    assert_string_equal(h.answers[tag_].text, what);                          \
    host_submit_init(&s, 0, ids, 3, 20)

    host_submit_init(&s, 0, ids, 100, 20);
    refused(1, MST_REFUSE_TOO_LONG, "");

    s.n_prompt = 81;
    refused(2, MST_REFUSE_KV_FULL, "");

    s.n_prompt = 0;
    refused(3, MST_REFUSE_INVALID, "the prompt is empty");

    ids[2] = 1000;
    refused(4, MST_REFUSE_INVALID,
            "token 2 of the prompt is 1000, the vocabulary has 1000");
    ids[2] = 3;

    s.stop_ids = stop;
    s.n_stop = 33;
    refused(5, MST_REFUSE_INVALID, "33 stop ids and 0 biases, at most 32 and "
            "1024 are allowed");

    stop[1] = 1001;
    s.stop_ids = stop;
    s.n_stop = 2;
    refused(6, MST_REFUSE_INVALID, "stop id 1001, the vocabulary has 1000");

    s.bias = bias;
    s.n_bias = 2;
    bias[1].id = 1000;
    refused(7, MST_REFUSE_INVALID, "bias -100 of token 1000, allowed are "
            "-100 .. 100 of 1000 tokens");

    bias[1].id = 6;
    bias[1].value = 0.0f / 0.0f;
    s.bias = bias;
    s.n_bias = 2;
    s.tag = 8;
    mst_engine_submit(h.e, &s, h.now);
    assert_int_equal(h.answers[8].refuse, MST_REFUSE_INVALID);

    host_submit_init(&s, 0, ids, 3, 20);
    s.params.temperature = 3;
    refused(9, MST_REFUSE_INVALID, "temperature 3 is outside 0 .. 2");

    /* a living tag */

    s.tag = 10;
    mst_engine_submit(h.e, &s, h.now);
    mst_engine_submit(h.e, &s, h.now);
    assert_int_equal(h.answers[10].refuses, 1);
    assert_string_equal(h.answers[10].text, "tag 10 is in use");

    host_close(&h);
#undef refused
}


static void
test_deadline(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       ids[8] = { 1, 2, 3 };
    mst_runner_t   r;
    mst_submit_t   s;

    (void) state;

    host_null(&r, 10, 0, 0, 0);
    host_open(&h, &r, 1, 64, 5);

    host_submit(&h, 1, 4, 50);
    assert_int_equal(host_step(&h), MST_OK);

    /* no place; to be refused before the first one's next token */

    host_submit_init(&s, 2, ids, 3, 5);
    s.deadline_ns = h.now + 50;
    mst_engine_submit(h.e, &s, h.now);

    host_submit_init(&s, 3, ids, 3, 5);
    s.deadline_ns = h.now + 10 * MST_S;
    mst_engine_submit(h.e, &s, h.now);

    assert_int_equal(host_step(&h), MST_AGAIN);
    assert_int_equal(h.wake, h.now + 50);
    assert_int_equal(h.answers[2].refuses, 0);

    h.now += 49;
    assert_int_equal(host_step(&h), MST_AGAIN);
    assert_int_equal(h.answers[2].refuses, 0);

    h.now += 1;
    host_run(&h, 0);
    assert_int_equal(h.answers[2].refuse, MST_REFUSE_DEADLINE);
    assert_int_equal(h.wake, 1000 + 100 * MST_MS);

    /* the other starts when the first is done, and has no deadline then */

    h.now += 2 * MST_S;
    mst_engine_cancel(h.e, 1, h.now);
    assert_int_equal(host_step(&h), MST_OK);
    assert_int_equal(h.answers[3].admits, 1);

    h.now += 20 * MST_S;
    host_run(&h, 1);
    assert_int_equal(h.answers[3].n, 5);

    host_close(&h);

    /* preempted is not "not started" */

    fault_runner(&r, &f, 100, 2);
    host_open(&h, &r, 4, 64, 5);

    host_submit(&h, 1, 10, 20);
    host_submit_init(&s, 2, ids, 3, 20);
    s.deadline_ns = h.now + 5;
    s.no_wait = 1;
    mst_engine_submit(h.e, &s, h.now);

    while (host_step(&h) == MST_OK) {
        h.now++;
    }

    assert_int_equal(h.answers[2].n, 20);
    assert_true(h.answers[2].usage.preemptions > 0);

    host_close(&h);
}


static void
test_no_wait(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       ids[64] = { 1, 2, 3 };
    mst_runner_t   r;
    mst_submit_t   s;

    (void) state;

    fault_runner(&r, &f, 100, 4);
    host_open(&h, &r, 4, 40, 10);

    host_submit(&h, 1, 30, 5);

    host_submit_init(&s, 2, ids, 33, 5);       /* 3 blocks, 2 are there */
    s.no_wait = 1;
    mst_engine_submit(h.e, &s, h.now);

    s.tag = 3;
    s.n_prompt = 3;                            /* would fit, is behind */
    mst_engine_submit(h.e, &s, h.now);

    host_submit(&h, 4, 3, 5);                  /* may wait */

    assert_int_equal(host_step(&h), MST_OK);
    assert_int_equal(h.answers[1].admits, 1);
    assert_int_equal(h.answers[2].refuse, MST_REFUSE_KV_FULL);
    assert_int_equal(h.answers[3].refuse, MST_REFUSE_KV_FULL);
    assert_int_equal(h.answers[4].refuses, 0);

    /* the token budget is no lack of blocks: 10 + 1 of 40 are left */

    s.tag = 5;
    s.n_prompt = 20;
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(h.answers[4].n, 5);
    assert_int_equal(h.answers[5].refuses + h.answers[5].dones, 1);

    s.tag = 6;
    s.n_prompt = 60;
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(h.answers[6].n, 4 * 16 - 60 + 1);

    host_close(&h);
}


/* one that has all blocks and needs one more ends, it does not spin */

static void
test_pool_is_the_end(void **state)
{
    host_t         h;
    fault_t        f;
    uint32_t       steps;
    mst_runner_t   r;

    (void) state;

    fault_runner(&r, &f, 1000, 3);
    host_open(&h, &r, 4, 40, 10);

    host_submit(&h, 1, 10, 500);
    steps = host_run(&h, 0);

    /* 48 places; the last token sampled needs none */

    assert_int_equal(h.answers[1].finish, MST_FINISH_LENGTH);
    assert_int_equal(h.answers[1].n, 39);
    assert_int_equal(steps, 39);

    /* two of them: the second goes on when the first is through */

    host_submit(&h, 2, 10, 500);
    host_submit(&h, 3, 10, 500);
    host_run(&h, 0);

    assert_int_equal(h.answers[2].n, 39);
    assert_int_equal(h.answers[3].n, 39);
    assert_int_equal(h.answers[2].usage.preemptions, 0);
    assert_true(h.answers[3].usage.preemptions > 0);

    host_check_counts(&h);
    host_close(&h);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_no_wait),
        cmocka_unit_test(test_pool_is_the_end)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
