
/*
 * Promises of a step, one by one; all of them at random are
 * mst_sched_test.c's.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/mst_sched.h"


/* a decode is in every step although a long prefill is at work */

static void
test_prefill_starves_nobody(void **state)
{
    uint32_t           k, ids[1000] = { 0 };
    mst_seq_t         *a, *b;
    mst_sched_t        sched;
    mst_submit_t       s;
    mst_sampled_t      sampled;
    mst_block_pool_t   pool;
    mst_sched_conf_t   conf;

    (void) state;

    memset(&conf, 0, sizeof(conf));
    conf.block_tokens = 16;
    conf.max_batch = 4;
    conf.budget = 64;
    conf.pool = &pool;

    assert_int_equal(mst_block_init(&pool, 100), MST_OK);
    assert_int_equal(mst_sched_init(&sched, &conf), MST_OK);
    assert_int_equal(mst_sched_reserve(&sched, 2), MST_OK);

    memset(&s, 0, sizeof(s));
    memset(&sampled, 0, sizeof(sampled));
    mst_params_default(&s.params);
    s.params.max_tokens = 1000;
    s.prompt = ids;

    s.n_prompt = 3;
    a = mst_seq_create(&s, 0);
    a->arrival = 1;
    assert_int_equal(mst_sched_add(&sched, a, 0), MST_OK);

    mst_sched_plan(&sched, 0);
    mst_sched_computed(&sched, a);
    mst_seq_append(a, &sampled, 10000);
    mst_sched_requeue(&sched, a, 0);

    s.n_prompt = 1000;
    b = mst_seq_create(&s, 0);
    b->arrival = 2;
    assert_int_equal(mst_sched_add(&sched, b, 0), MST_OK);

    for (k = 0; k < 16; k++) {
        mst_sched_plan(&sched, 0);
        assert_int_equal(sched.n_items, 2);
        assert_ptr_equal(sched.items[0], a);
        assert_int_equal(a->n_step, 1);

        /* 63 a step: 1000 = 15 * 63 + 55 */

        assert_int_equal(b->n_step, k < 15 ? 63 : 55);

        mst_sched_computed(&sched, a);
        mst_seq_append(a, &sampled, 10000);
        mst_sched_requeue(&sched, a, 0);
        mst_sched_computed(&sched, b);
        mst_sched_requeue(&sched, b, 0);
    }

    mst_sched_remove(&sched, a);
    mst_sched_remove(&sched, b);
    mst_seq_destroy(a);
    mst_seq_destroy(b);
    mst_sched_fini(&sched);
    mst_block_fini(&pool);
}


/* the first of the waiting has no place: nobody overtakes it */

static void
test_nobody_overtakes(void **state)
{
    uint32_t           ids[100] = { 0 };
    mst_seq_t         *a, *b, *c;
    mst_sched_t        sched;
    mst_submit_t       s;
    mst_block_pool_t   pool;
    mst_sched_conf_t   conf;

    (void) state;

    memset(&conf, 0, sizeof(conf));
    conf.block_tokens = 16;
    conf.max_batch = 4;
    conf.budget = 256;
    conf.pool = &pool;

    assert_int_equal(mst_block_init(&pool, 8), MST_OK);
    assert_int_equal(mst_sched_init(&sched, &conf), MST_OK);
    assert_int_equal(mst_sched_reserve(&sched, 3), MST_OK);

    memset(&s, 0, sizeof(s));
    mst_params_default(&s.params);
    s.params.max_tokens = 10;
    s.prompt = ids;

    s.n_prompt = 80;
    a = mst_seq_create(&s, 0);
    a->arrival = 1;
    b = mst_seq_create(&s, 0);
    b->arrival = 2;
    s.n_prompt = 1;
    c = mst_seq_create(&s, 0);
    c->arrival = 3;

    assert_int_equal(mst_sched_add(&sched, a, 0), MST_OK);
    assert_int_equal(mst_sched_add(&sched, b, 0), MST_OK);
    assert_int_equal(mst_sched_add(&sched, c, 0), MST_OK);

    mst_sched_plan(&sched, 0);
    assert_int_equal(sched.n_items, 1);
    assert_ptr_equal(sched.items[0], a);
    assert_int_equal(sched.n_waiting, 2);

    /* its place is free: both of them run */

    mst_sched_remove(&sched, a);
    mst_sched_plan(&sched, 0);
    assert_int_equal(sched.n_items, 2);
    assert_ptr_equal(sched.items[0], b);
    assert_ptr_equal(sched.items[1], c);

    mst_sched_remove(&sched, b);
    mst_sched_remove(&sched, c);
    mst_seq_destroy(a);
    mst_seq_destroy(b);
    mst_seq_destroy(c);
    mst_sched_fini(&sched);
    mst_block_fini(&pool);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_prefill_starves_nobody),
        cmocka_unit_test(test_nobody_overtakes)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
