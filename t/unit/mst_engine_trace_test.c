
/*
 * What fixed traces cost: tokens found in the cache, blocks held, steps.
 * Efficiency floors: a change that makes one worse must say so here.
 */

#include "mst_engine_host.h"


/* what a fixed trace finds in the cache */

static void
test_cache(void **state)
{
    host_t              h;
    fault_t             f;
    uint32_t            ids[100], i;
    mst_runner_t        r;
    mst_submit_t        s;
    mst_engine_stats_t  st;

    (void) state;

    for (i = 0; i < 100; i++) {
        ids[i] = i;
    }

    fault_runner(&r, &f, 1000, 20);
    host_open(&h, &r, 8, 200, 20);

    host_submit_init(&s, 1, ids, 64, 1);
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(f.rows, 64);
    mst_engine_stats(h.e, &st);
    assert_int_equal(st.blocks_cached, 4);

    /* the same: three blocks, for one token must be computed */

    s.tag = 2;
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(h.answers[2].cached, 48);
    assert_int_equal(f.rows, 16);

    /* one more: all four */

    s.tag = 3;
    s.n_prompt = 65;
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(h.answers[3].cached, 64);
    assert_int_equal(f.rows, 1);

    /* another tenant: nothing */

    s.tag = 4;
    s.salt[15] = 1;
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(h.answers[4].cached, 0);
    assert_int_equal(f.rows, 65);
    s.salt[15] = 0;

    /* another token in the second block */

    ids[20] = 999;
    s.tag = 5;
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(h.answers[5].cached, 16);
    ids[20] = 20;

    /* a dialogue: prompt and answer are the next prompt.  64 + 33 tokens
       of which 96 are computed */

    s.tag = 6;
    s.n_prompt = 64;
    s.params.max_tokens = 33;
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);

    for (i = 0; i < 33; i++) {
        ids[64 + i] = h.answers[6].ids[i];
    }

    s.tag = 7;
    s.n_prompt = 99;
    s.params.max_tokens = 1;
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);
    assert_int_equal(h.answers[7].cached, 96);
    assert_int_equal(f.rows, 3);

    mst_engine_stats(h.e, &st);
    assert_int_equal(st.cached_tokens, 48 + 64 + 16 + 48 + 96);
    assert_int_equal(st.prompt_tokens, 64 + 64 + 65 * 3 + 64 + 99);
    assert_int_equal(st.completion_tokens, 6 + 33);
    assert_int_equal(st.finished, 7);

    host_close(&h);
}


/* eight that share a prompt and run at once hold its blocks once */

static void
test_sharing(void **state)
{
    host_t              h;
    fault_t             f;
    uint32_t            i;
    mst_runner_t        r;
    mst_engine_stats_t  st;

    (void) state;

    fault_runner(&r, &f, 1000, 100);
    host_open(&h, &r, 8, 1000, 20);

    for (i = 0; i < 8; i++) {
        host_submit(&h, i, 64, 16);
    }

    /* all in one step: each computes it, the copies are let go after */

    assert_int_equal(host_step(&h), MST_OK);
    assert_int_equal(f.rows, 8 * 64);
    mst_engine_stats(h.e, &st);
    assert_int_equal(st.running, 8);
    assert_int_equal(st.blocks_used, 4);

    assert_int_equal(host_step(&h), MST_OK);
    mst_engine_stats(h.e, &st);
    assert_int_equal(st.blocks_used, 4 + 8);

    assert_int_equal(host_run(&h, 0), 14);

    for (i = 0; i < 8; i++) {
        assert_int_equal(h.answers[i].n, 16);
    }

    mst_engine_stats(h.e, &st);
    assert_int_equal(st.blocks_used, 0);
    assert_int_equal(st.blocks_cached, 4);
    assert_int_equal(st.steps, 16);

    host_close(&h);
}


/* the steps of a fixed mix: 6 prompts of 100 and answers of 10 in steps of
   64 tokens */

static void
test_steps(void **state)
{
    host_t              h;
    fault_t             f;
    uint32_t            i, steps;
    mst_runner_t        r;
    mst_engine_conf_t   conf;

    (void) state;

    fault_runner(&r, &f, 1000, 100);
    host_conf(&h, &conf, 8, 64);
    conf.no_prefix_cache = 1;
    host_open_conf(&h, &r, &conf, 10);

    for (i = 0; i < 6; i++) {
        host_submit(&h, i, 100, 10);
    }

    steps = host_run(&h, 0);

    /* 600 prompt tokens and 54 decodes need 11 steps; the last prompt ends
       in the 10th, and its other 9 tokens take 9 more */

    assert_int_equal(steps, 19);

    for (i = 0; i < 6; i++) {
        assert_int_equal(h.order[i], i);
        assert_int_equal(h.answers[i].n, 10);
        assert_int_equal(h.answers[i].cached, 0);
    }

    host_close(&h);
}


static void
test_preemption(void **state)
{
    int                 cache;
    host_t              h;
    uint32_t            i;
    mst_runner_t        r;
    mst_engine_conf_t   conf;
    mst_engine_stats_t  st;

    (void) state;

    for (cache = 0; cache < 2; cache++) {
        host_null(&r, cache ? 1000 : 0, 0, 0, 24);
        host_conf(&h, &conf, 8, 50);
        conf.no_prefix_cache = !cache;
        host_open_conf(&h, &r, &conf, 10);

        for (i = 0; i < 8; i++) {
            host_submit(&h, i, 40 + i, 100);
        }

        host_run(&h, 1);

        for (i = 0; i < 8; i++) {
            host_check_fox(&h.answers[i], 100);
            assert_int_equal(h.order[i], i);
        }

        mst_engine_stats(h.e, &st);
        assert_true(st.preemptions > 0);
        assert_int_equal(h.answers[0].usage.preemptions, 0);
        assert_int_equal(st.blocks_used, 0);
        assert_int_equal(st.completion_tokens, 800);
        assert_int_equal(st.prompt_tokens, 8 * 40 + 28);

        host_close(&h);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_preemption)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
