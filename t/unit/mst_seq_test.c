
/*
 * A sequence alone: what it copies, how it grows, why it ends.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "engine/mst_seq.h"


static uint32_t    ids[4] = { 1, 2, 3, 4 };
static uint32_t    stops[2] = { 7, 9 };
static mst_bias_t  biases[3] = { { 1, 0.5f }, { 2, -1 }, { 3, 100 } };


static void
submit(mst_submit_t *s)
{
    memset(s, 0, sizeof(mst_submit_t));
    mst_params_default(&s->params);

    s->tag = 5;
    s->prompt = ids;
    s->n_prompt = 4;
    s->stop_ids = stops;
    s->n_stop = 2;
    s->bias = biases;
    s->n_bias = 3;
    s->salt[0] = 1;
}


static void
test_copies(void **state)
{
    mst_seq_t     *q;
    mst_sample_t   sample;
    mst_submit_t   s;

    (void) state;

    submit(&s);

    q = mst_seq_create(&s, 77);
    assert_non_null(q);

    memset(&s, 0xff, sizeof(s));
    mst_seq_sample(q, &sample);

    assert_ptr_equal(sample.params, &q->params);
    assert_ptr_not_equal(sample.tokens, ids);
    assert_memory_equal(sample.tokens, ids, sizeof(ids));
    assert_memory_equal(sample.bias, biases, sizeof(biases));
    assert_memory_equal(sample.stop_ids, stops, sizeof(stops));
    assert_int_equal(sample.n_tokens, 4);
    assert_int_equal(sample.n_prompt, 4);
    assert_int_equal(sample.n_bias, 3);
    assert_int_equal(sample.n_stop, 2);
    assert_int_equal(sample.start_ns, 77);
    assert_int_equal(sample.greedy, 0);
    assert_int_equal(q->tag, 5);
    assert_int_equal(q->salt[0], 1);
    assert_int_equal(q->usage.prompt, 4);

    mst_seq_destroy(q);
    mst_seq_destroy(NULL);
}


static void
test_ends(void **state)
{
    size_t         i, k;
    mst_seq_t     *q;
    mst_submit_t   s;
    mst_sampled_t  out;
    mst_sample_t   sample;
    mst_finish_t   finish;
    static const struct {
        uint32_t      max, soft, min, context;
        uint32_t      ids[4];
        int           end_at;
        uint32_t      n;
        mst_finish_t  finish;
    } cases[] = {
        { 3, 0, 0, 99, { 1, 1, 1, 1 }, -1, 3, MST_FINISH_LENGTH },
        { 9, 0, 0, 99, { 1, 9, 1, 1 }, -1, 2, MST_FINISH_STOP },
        { 9, 0, 1, 99, { 7, 1, 9, 1 }, -1, 3, MST_FINISH_STOP },
        { 9, 0, 2, 99, { 1, 1, 7, 1 }, -1, 3, MST_FINISH_STOP },
        { 9, 0, 2, 99, { 1, 7, 1, 7 }, -1, 4, MST_FINISH_STOP },
        { 9, 2, 9, 6, { 7, 7, 7, 7 }, -1, 2, MST_FINISH_LENGTH },
        { 3, 1, 9, 99, { 1, 1, 1, 1 }, 1, 2, MST_FINISH_STOP },
        { 3, 1, 0, 7, { 1, 1, 9, 1 }, -1, 3, MST_FINISH_STOP }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        submit(&s);
        s.params.max_tokens = cases[i].max;
        s.params.soft_tokens = cases[i].soft;
        s.params.min_tokens = cases[i].min;

        q = mst_seq_create(&s, 0);
        memset(&out, 0, sizeof(out));

        for (k = 0; k < 4; k++) {
            mst_seq_sample(q, &sample);
            assert_int_equal(sample.greedy,
                             cases[i].soft && k >= cases[i].soft);

            out.id = cases[i].ids[k];
            out.end = (int) k == cases[i].end_at;

            assert_int_equal(mst_seq_reserve_tokens(q, q->n_tokens + 1),
                             MST_OK);
            finish = mst_seq_append(q, &out, cases[i].context);

            assert_int_equal(q->tokens[4 + k], cases[i].ids[k]);
            assert_int_equal(q->usage.completion, k + 1);

            if (finish) {
                break;
            }
        }

        assert_int_equal(k + 1, cases[i].n);
        assert_int_equal(finish, cases[i].finish);

        mst_seq_destroy(q);
    }
}


static void
test_times(void **state)
{
    mst_seq_t          *q;
    mst_submit_t        s;
    const mst_usage_t  *u;

    (void) state;

    submit(&s);
    q = mst_seq_create(&s, 100);

    u = mst_seq_close(q, 130);                 /* never started */
    assert_int_equal(u->queue_ns, 30);
    assert_int_equal(u->prefill_ns, 0);
    assert_int_equal(u->decode_ns, 0);

    q->started = 1;
    q->started_ns = 120;
    u = mst_seq_close(q, 150);                 /* no token */
    assert_int_equal(u->queue_ns, 20);
    assert_int_equal(u->prefill_ns, 30);
    assert_int_equal(u->decode_ns, 0);

    q->usage.completion = 1;
    q->token_ns = 140;
    u = mst_seq_close(q, 190);
    assert_int_equal(u->prefill_ns, 20);
    assert_int_equal(u->decode_ns, 50);

    u = mst_seq_close(q, 50);                  /* time stepped back */
    assert_int_equal(u->decode_ns, 0);

    mst_seq_destroy(q);
}


static void
test_memory(void **state)
{
    long           n;
    uint32_t       size;
    mst_seq_t     *q;
    mst_submit_t   s;

    (void) state;

    submit(&s);

    for (n = 1; n <= 2; n++) {
        mst_mem_fail_after(n);
        assert_null(mst_seq_create(&s, 0));
        mst_mem_fail_after(0);
    }

    q = mst_seq_create(&s, 0);

    /* what fails leaves it as it was */

    size = q->size_tokens;
    mst_mem_fail_after(1);
    assert_int_equal(mst_seq_reserve_tokens(q, size), MST_OK);
    assert_int_equal(mst_seq_reserve_tokens(q, size + 1), MST_ERROR);
    assert_int_equal(mst_seq_reserve_blocks(q, 1), MST_ERROR);
    mst_mem_fail_after(0);

    assert_int_equal(q->size_tokens, size);
    assert_memory_equal(q->tokens, ids, sizeof(ids));
    assert_int_equal(mst_seq_reserve_tokens(q, 1000), MST_OK);
    assert_memory_equal(q->tokens, ids, sizeof(ids));
    assert_int_equal(mst_seq_reserve_blocks(q, 10), MST_OK);

    mst_seq_destroy(q);
}


/* steps come when they come: the mean is the pace, and no more than one
   token is made up for */

static void
test_pace(void **state)
{
    mst_seq_t     *q;
    mst_submit_t   s;

    (void) state;

    submit(&s);
    s.claim.pace = 10000;                      /* 10 tokens/s: 100 ms */

    q = mst_seq_create(&s, 0);
    assert_non_null(q);

    mst_seq_ready(q, 0);
    assert_int_equal(q->ready_ns, 0);          /* the first at once */

    mst_seq_take_turn(q, 1000 * MST_MS);
    mst_seq_ready(q, 0);
    assert_int_equal(q->ready_ns, 1100 * MST_MS);

    mst_seq_take_turn(q, 1130 * MST_MS);       /* late: due at 1100 */
    mst_seq_ready(q, 0);
    assert_int_equal(q->ready_ns, 1200 * MST_MS);

    mst_seq_ready(q, 1250 * MST_MS);           /* the runner wants more */
    assert_int_equal(q->ready_ns, 1250 * MST_MS);

    mst_seq_take_turn(q, 9000 * MST_MS);       /* very late */
    mst_seq_ready(q, 0);
    assert_int_equal(q->ready_ns, 9000 * MST_MS);

    mst_seq_take_turn(q, 9000 * MST_MS);
    mst_seq_ready(q, 0);
    assert_int_equal(q->ready_ns, 9100 * MST_MS);

    mst_seq_set_pace(q, 1000);
    assert_int_equal(q->ready_ns, 10000 * MST_MS);
    mst_seq_set_pace(q, 100000);
    assert_int_equal(q->ready_ns, 9010 * MST_MS);
    mst_seq_set_pace(q, 0);
    assert_int_equal(q->ready_ns, 0);

    mst_seq_take_turn(q, 9500 * MST_MS);
    mst_seq_ready(q, 0);
    assert_int_equal(q->ready_ns, 0);
    mst_seq_set_pace(q, 1);                    /* from the last token on */
    assert_int_equal(q->ready_ns, 1009500 * MST_MS);

    mst_seq_set_pace(q, UINT32_MAX);
    assert_true(q->ready_ns < 9501 * MST_MS);

    mst_seq_destroy(q);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_pace)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
