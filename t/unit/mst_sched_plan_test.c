
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
#include "engine/mst_stretch.h"


/* a scheduler of four sequences with its pool, and what they ask for */

typedef struct {
    mst_sched_t        sched;
    mst_block_pool_t   pool;
    mst_submit_t       submit;
} plan_t;


static void
plan_init_most(plan_t *p, uint32_t budget, uint32_t most, uint32_t blocks,
    uint32_t places, uint32_t max_tokens, uint32_t *ids)
{
    mst_sched_conf_t  conf;

    memset(&conf, 0, sizeof(conf));
    conf.block_tokens = 16;
    conf.max_batch = 4;
    conf.budget = budget;
    conf.most = most;
    conf.pool = &p->pool;

    assert_int_equal(mst_block_init(&p->pool, blocks), MST_OK);
    assert_int_equal(mst_sched_init(&p->sched, &conf), MST_OK);
    assert_int_equal(mst_sched_reserve(&p->sched, places), MST_OK);

    memset(&p->submit, 0, sizeof(p->submit));
    mst_params_default(&p->submit.params);
    p->submit.params.max_tokens = max_tokens;
    p->submit.prompt = ids;
}


static void
plan_init(plan_t *p, uint32_t budget, uint32_t blocks, uint32_t places,
    uint32_t max_tokens, uint32_t *ids)
{
    plan_init_most(p, budget, 0, blocks, places, max_tokens, ids);
}


static mst_seq_t *
plan_add(plan_t *p, uint32_t n_prompt, uint64_t arrival)
{
    mst_seq_t  *seq;

    p->submit.n_prompt = n_prompt;
    seq = mst_seq_create(&p->submit, 0);
    seq->arrival = arrival;
    assert_int_equal(mst_sched_add(&p->sched, seq, 0), MST_OK);

    return seq;
}


static void
plan_fini(plan_t *p)
{
    mst_sched_fini(&p->sched);
    mst_block_fini(&p->pool);
}


/* a decode is in every step although a long prefill is at work */

static void
test_prefill_starves_nobody(void **state)
{
    plan_t         p;
    uint32_t       k, ids[1000] = { 0 };
    mst_seq_t     *a, *b;
    mst_sampled_t  sampled;

    (void) state;

    plan_init(&p, 64, 100, 2, 1000, ids);
    memset(&sampled, 0, sizeof(sampled));

    a = plan_add(&p, 3, 1);
    mst_sched_plan(&p.sched, 0);
    mst_sched_computed(&p.sched, a);
    mst_seq_append(a, &sampled, 10000);
    mst_sched_requeue(&p.sched, a, 0);

    b = plan_add(&p, 1000, 2);

    for (k = 0; k < 16; k++) {
        mst_sched_plan(&p.sched, 0);
        assert_int_equal(p.sched.n_items, 2);
        assert_ptr_equal(p.sched.items[0], a);
        assert_int_equal(a->n_step, 1);

        /* 63 a step: 1000 = 15 * 63 + 55 */

        assert_int_equal(b->n_step, k < 15 ? 63 : 55);

        mst_sched_computed(&p.sched, a);
        mst_seq_append(a, &sampled, 10000);
        mst_sched_requeue(&p.sched, a, 0);
        mst_sched_computed(&p.sched, b);
        mst_sched_requeue(&p.sched, b, 0);
    }

    mst_sched_remove(&p.sched, a);
    mst_sched_remove(&p.sched, b);
    mst_seq_destroy(a);
    mst_seq_destroy(b);
    plan_fini(&p);
}


/* the first of the waiting has no place: nobody overtakes it */

static void
test_nobody_overtakes(void **state)
{
    plan_t      p;
    uint32_t    ids[100] = { 0 };
    mst_seq_t  *a, *b, *c;

    (void) state;

    plan_init(&p, 256, 8, 3, 10, ids);

    a = plan_add(&p, 80, 1);
    b = plan_add(&p, 80, 2);
    c = plan_add(&p, 1, 3);

    mst_sched_plan(&p.sched, 0);
    assert_int_equal(p.sched.n_items, 1);
    assert_ptr_equal(p.sched.items[0], a);
    assert_int_equal(p.sched.n_waiting, 2);

    /* its place is free: both of them run */

    mst_sched_remove(&p.sched, a);
    mst_sched_plan(&p.sched, 0);
    assert_int_equal(p.sched.n_items, 2);
    assert_ptr_equal(p.sched.items[0], b);
    assert_ptr_equal(p.sched.items[1], c);

    mst_sched_remove(&p.sched, b);
    mst_sched_remove(&p.sched, c);
    mst_seq_destroy(a);
    mst_seq_destroy(b);
    mst_seq_destroy(c);
    plan_fini(&p);
}


/* a long step while somebody waits long for his first token: by the time
   behind him, or by what is before the last; not for one who has had his, nor
   for one who yields */

static void
test_long_steps(void **state)
{
    plan_t      p;
    uint32_t    ids[900] = { 0 };
    uint64_t    now;
    mst_seq_t  *q;

    (void) state;

    plan_init_most(&p, 256, 512, 100, 2, 10, ids);
    q = plan_add(&p, 900, 1);

    mst_sched_plan(&p.sched, MST_STRETCH_FROM);
    assert_int_equal(p.sched.n_tokens, 256);
    mst_sched_computed(&p.sched, q);
    mst_sched_requeue(&p.sched, q, MST_STRETCH_FROM);

    /* it runs: nobody waits */

    mst_sched_plan(&p.sched, MST_STRETCH_TO);
    assert_int_equal(p.sched.n_tokens, 256);
    mst_sched_remove(&p.sched, q);
    mst_seq_destroy(q);

    q = plan_add(&p, 900, 2);
    mst_sched_plan(&p.sched, MST_STRETCH_TO);
    assert_int_equal(p.sched.n_tokens, 512);
    mst_sched_remove(&p.sched, q);
    mst_seq_destroy(q);

    /* 256 tokens took a second: 900 take 3.5 */

    now = 10 * MST_S;
    mst_reckon_add(&p.sched.reckon, 256, 256, MST_S, now);
    q = plan_add(&p, 900, 3);
    q->submit_ns = now;
    mst_sched_plan(&p.sched, now);
    assert_int_equal(p.sched.n_tokens, 512);
    mst_sched_remove(&p.sched, q);

    q->submit_ns = 0;
    q->started = 1;
    assert_int_equal(mst_sched_add(&p.sched, q, now), MST_OK);
    mst_sched_plan(&p.sched, now);
    assert_int_equal(p.sched.n_tokens, 256);
    mst_sched_remove(&p.sched, q);
    mst_seq_destroy(q);

    p.submit.claim.priority = -1;
    q = plan_add(&p, 900, 4);
    mst_sched_plan(&p.sched, now);
    assert_int_equal(p.sched.n_tokens, 256);
    mst_sched_remove(&p.sched, q);
    mst_seq_destroy(q);

    plan_fini(&p);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_prefill_starves_nobody),
        cmocka_unit_test(test_nobody_overtakes),
        cmocka_unit_test(test_long_steps)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
