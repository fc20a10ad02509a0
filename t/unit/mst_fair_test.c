
/*
 * Shares: flows that want more than there is get tokens by their weights,
 * whatever the size of what they ask for; waiting saves nothing up; the table
 * is bounded.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mst_err.h"
#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_fair.h"


static mst_fair_t  fair;


static mst_flow_t *
enter(uint64_t key, uint32_t weight, int32_t priority)
{
    mst_flow_t   *flow;
    mst_claim_t   c;

    memset(&c, 0, sizeof(c));
    c.fair_key = key;
    c.fair_weight = weight;
    c.priority = priority;

    flow = mst_fair_enter(&fair, &c);
    assert_non_null(flow);

    return flow;
}


/* a flow that always has something in line */

static mst_flow_t *
greedy(uint64_t key, uint32_t weight, int32_t priority)
{
    mst_flow_t  *flow;

    flow = enter(key, weight, priority);

    mst_fair_want(&fair, flow);
    mst_fair_line(&fair, flow, 1);

    return flow;
}


static void
done(mst_flow_t *flow)
{
    mst_fair_line(&fair, flow, 0);
    mst_fair_rest(&fair, flow);
    mst_fair_leave(&fair, flow);
}


/* serves the first of class 0 until "tokens" are gone; got[] by key */

static void
serve(uint64_t tokens, const uint32_t *size, uint64_t *got)
{
    mst_flow_t  *flow;

    while (tokens) {
        flow = mst_fair_first(&fair, mst_claim_rank(0));
        assert_non_null(flow);

        got[flow->key] += size[flow->key];
        mst_fair_charge(&fair, flow, size[flow->key]);
        mst_fair_settle(&fair);

        tokens -= tokens < size[flow->key] ? tokens : size[flow->key];
    }
}


static void
test_equal(void **state)
{
    uint32_t     i;
    uint64_t     got[8] = { 0 };
    mst_flow_t  *flows[8];
    static const uint32_t  size[8] = { 1, 3, 10, 50, 100, 500, 7, 200 };

    (void) state;

    assert_int_equal(mst_fair_init(&fair), MST_OK);

    for (i = 0; i < 8; i++) {
        flows[i] = greedy(i, 0, 0);
    }

    serve(800000, size, got);

    for (i = 0; i < 8; i++) {
        assert_in_range(got[i], 100000 - 500, 100000 + 500);
        done(flows[i]);
    }

    mst_fair_fini(&fair);
}


static void
test_weights(void **state)
{
    uint32_t     i;
    uint64_t     got[4] = { 0 };
    mst_flow_t  *flows[4];
    static const uint32_t  size[4] = { 13, 5, 40, 1 };
    static const uint32_t  weight[4] = { 1, 2, 3, 1000 };

    (void) state;

    assert_int_equal(mst_fair_init(&fair), MST_OK);

    for (i = 0; i < 4; i++) {
        flows[i] = greedy(i, weight[i], 0);
    }

    serve(1006000, size, got);

    for (i = 0; i < 4; i++) {
        assert_in_range(got[i], weight[i] * 1000 - weight[i] - 60,
                        weight[i] * 1000 + weight[i] + 60);
        done(flows[i]);
    }

    mst_fair_fini(&fair);
}


/* who comes back, or comes late, has no claim on what others had before */

static void
test_no_credit(void **state)
{
    uint64_t     got[3] = { 0 };
    mst_flow_t  *a, *b;
    static const uint32_t  size[3] = { 10, 10, 10 };

    (void) state;

    assert_int_equal(mst_fair_init(&fair), MST_OK);

    a = greedy(0, 0, 0);
    serve(10000, size, got);

    b = greedy(1, 0, 0);
    memset(got, 0, sizeof(got));
    serve(1000, size, got);
    assert_in_range(got[0], 480, 520);
    assert_in_range(got[1], 480, 520);

    /* it sleeps, as a stream with a pace does between its tokens */

    mst_fair_line(&fair, b, 0);
    mst_fair_rest(&fair, b);
    serve(10000, size, got);
    mst_fair_want(&fair, b);
    mst_fair_line(&fair, b, 1);

    memset(got, 0, sizeof(got));
    serve(1000, size, got);
    assert_in_range(got[1], 480, 520);

    /* a debt is not forgotten by leaving */

    mst_fair_charge(&fair, b, 400);
    done(b);
    b = greedy(1, 0, 0);

    memset(got, 0, sizeof(got));
    serve(1000, size, got);
    assert_in_range(got[0], 680, 720);
    assert_in_range(got[1], 280, 320);

    /* alone in between: nobody had to wait for it */

    done(a);
    serve(10000, size, got);
    a = greedy(0, 0, 0);

    memset(got, 0, sizeof(got));
    serve(1000, size, got);
    assert_in_range(got[0], 480, 520);

    done(a);
    done(b);
    mst_fair_fini(&fair);
}


static void
test_classes(void **state)
{
    mst_flow_t  *a, *b, *c;

    (void) state;

    assert_int_equal(mst_fair_init(&fair), MST_OK);

    a = greedy(5, 0, 0);
    b = greedy(5, 0, 7);
    c = greedy(5, 0, -8);

    assert_ptr_not_equal(a, b);
    assert_int_equal(b->rank, 0);
    assert_int_equal(c->rank, MST_CLASSES - 1);
    assert_ptr_equal(mst_fair_first(&fair, a->rank), a);
    assert_ptr_equal(mst_fair_first(&fair, b->rank), b);
    assert_ptr_equal(mst_fair_first(&fair, c->rank), c);
    assert_null(mst_fair_first(&fair, 1));

    mst_fair_charge(&fair, a, 100);
    mst_fair_settle(&fair);
    assert_true(a->vtime > b->vtime);

    done(a);
    done(b);
    done(c);
    mst_fair_fini(&fair);
}


static void
test_bounded(void **state)
{
    uint32_t     i;
    mst_flow_t  *a, *stays, *live[3];

    (void) state;

    assert_int_equal(mst_fair_init(&fair), MST_OK);

    stays = greedy(1u << 30, 0, 0);

    for (i = 0; i < 5 * MST_FAIR_IDLE; i++) {
        a = greedy(i, 0, 0);
        mst_fair_charge(&fair, a, i);
        done(a);

        assert_true(fair.n_idle <= MST_FAIR_IDLE);
        assert_int_equal(fair.n_flows, fair.n_idle + 1);
    }

    /* the last ones are known yet, with what they owe; the first are not */

    i = 5 * MST_FAIR_IDLE - 1;
    live[0] = enter(i, 0, 0);
    assert_int_equal(live[0]->vtime, (uint64_t) i << MST_FAIR_SHIFT);
    live[1] = enter(i - MST_FAIR_IDLE + 1, 0, 0);
    assert_int_equal(live[1]->vtime,
                     (uint64_t) (i - MST_FAIR_IDLE + 1) << MST_FAIR_SHIFT);
    live[2] = enter(7, 0, 0);
    assert_int_equal(live[2]->vtime, 0);

    for (i = 0; i < 3; i++) {
        mst_fair_leave(&fair, live[i]);
    }

    done(stays);
    mst_fair_fini(&fair);
}


static void
test_memory(void **state)
{
    int           n, failed;
    mst_flow_t   *flow;
    mst_claim_t   c;

    (void) state;

    memset(&c, 0, sizeof(c));

    mst_mem_fail_after(1);
    assert_int_equal(mst_fair_init(&fair), MST_ERROR);
    mst_mem_fail_after(0);
    mst_fair_fini(&fair);

    failed = 0;

    for (n = 1; n < 12; n++) {
        assert_int_equal(mst_fair_init(&fair), MST_OK);

        mst_mem_fail_after(n);
        flow = mst_fair_enter(&fair, &c);
        mst_mem_fail_after(0);

        if (flow == NULL) {
            failed++;
            assert_true(fair.n_flows == fair.n_idle);
            flow = mst_fair_enter(&fair, &c);
        }

        assert_non_null(flow);
        assert_int_equal(flow->n, 1);
        mst_fair_want(&fair, flow);
        mst_fair_line(&fair, flow, 1);
        done(flow);
        mst_fair_fini(&fair);
    }

    assert_true(failed >= 5);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_no_credit),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests_name("mst_fair", tests, NULL, NULL);
}
