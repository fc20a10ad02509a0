
/*
 * The order: class, flow, time for the first token, arrival; lines and what
 * is counted of them; who is last.
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
#include "engine/mst_order.h"


#define N  8


static mst_order_t  order;
static mst_seq_t   *seqs[N];
static uint32_t     n_seqs;


static mst_seq_t *
add(int32_t priority, uint64_t key, uint64_t ttft)
{
    mst_seq_t     *q;
    mst_submit_t   s;
    uint32_t       ids[10] = { 0 };

    memset(&s, 0, sizeof(s));
    mst_params_default(&s.params);

    s.prompt = ids;
    s.n_prompt = 10;
    s.claim.priority = priority;
    s.claim.fair_key = key;
    s.claim.ttft_ns = ttft;

    q = mst_seq_create(&s, 0);
    assert_non_null(q);
    assert_int_equal(mst_order_enter(&order, q), MST_OK);

    q->uncached = 10;
    q->arrival = n_seqs + 1;
    seqs[n_seqs++] = q;

    mst_order_line_up(&order, q);

    return q;
}


static void
begin(void)
{
    n_seqs = 0;
    assert_int_equal(mst_order_init(&order), MST_OK);
}


static void
end(void)
{
    uint32_t  i;

    for (i = 0; i < n_seqs; i++) {
        mst_order_step_out(&order, seqs[i]);
        mst_order_cover(&order, seqs[i]);
        mst_order_rest(&order, seqs[i]);
        mst_order_leave(&order, seqs[i]);
        mst_seq_destroy(seqs[i]);
    }

    assert_null(mst_order_waiting(&order));
    assert_int_equal(order.classes[mst_claim_rank(0)].n, 0);
    assert_int_equal(order.classes[mst_claim_rank(0)].tokens, 0);

    mst_order_fini(&order);
}


/* takes the first of the waiting out, n times */

static void
expect(const uint32_t *want, uint32_t n)
{
    uint32_t    i;
    mst_seq_t  *q;

    for (i = 0; i < n; i++) {
        q = mst_order_waiting(&order);
        assert_ptr_equal(q, seqs[want[i]]);
        mst_order_step_out(&order, q);
    }
}


static void
test_waiting(void **state)
{
    static const uint32_t  want[] = { 5, 6, 3, 1, 2, 0, 4 };

    (void) state;

    begin();

    (void) add(0, 0, 0);
    (void) add(0, 0, 500);
    (void) add(0, 0, 500);
    (void) add(0, 0, 400);
    (void) add(-1, 0, 1);
    (void) add(7, 0, 0);
    (void) add(1, 0, 0);

    (void) add(0, 9, 600);
    mst_order_step_out(&order, seqs[7]);
    mst_order_line_up(&order, seqs[7]);
    assert_int_equal(order.classes[mst_claim_rank(0)].n, 5);
    mst_order_step_out(&order, seqs[7]);

    assert_int_equal(order.classes[mst_claim_rank(0)].last_ns, 500);
    assert_int_equal(order.classes[mst_claim_rank(-1)].last_ns, 1);
    assert_int_equal(order.classes[mst_claim_rank(0)].n, 4);
    assert_int_equal(order.classes[mst_claim_rank(0)].n_dated, 3);
    assert_int_equal(order.classes[mst_claim_rank(0)].tokens, 40);
    assert_int_equal(order.classes[mst_claim_rank(0)].dated_tokens, 30);

    expect(want, 7);
    end();
}


/* a tight time passes the others of its own key only */

static void
test_flows(void **state)
{
    static const uint32_t  want[] = { 1, 2, 3, 0 };

    (void) state;

    begin();

    (void) add(0, 1, 0);
    (void) add(0, 2, 0);
    (void) add(0, 2, 0);
    (void) add(0, 1, 5);

    mst_fair_charge(&order.fair, seqs[0]->flow, 1);
    mst_order_settle(&order);

    assert_true(mst_order_before(seqs[2], seqs[3]));
    assert_true(mst_order_before(seqs[3], seqs[0]));
    assert_false(mst_order_before(seqs[0], seqs[0]));

    expect(want, 4);
    end();
}


static void
run(mst_seq_t *q, uint32_t computed)
{
    mst_order_step_out(&order, q);

    q->state = MST_SEQ_RUNNING;
    q->n_computed = computed;

    mst_order_expose(&order, q);
    mst_order_line_up(&order, q);
}


static void
test_running(void **state)
{
    mst_seq_t  *a, *b, *c, *d;

    (void) state;

    begin();

    a = add(0, 0, 0);
    b = add(0, 0, 0);
    c = add(2, 0, 0);
    d = add(0, 0, 7);

    run(a, 9);
    run(b, 9);
    run(c, 9);
    run(d, 3);

    assert_null(mst_order_waiting(&order));
    assert_ptr_equal(mst_order_prefill(&order), d);

    /* in turn, but for the class */

    assert_ptr_equal(mst_order_decode(&order), c);
    mst_order_step_out(&order, c);
    assert_ptr_equal(mst_order_decode(&order), a);
    mst_order_step_out(&order, a);
    mst_order_line_up(&order, a);
    assert_ptr_equal(mst_order_decode(&order), b);

    mst_order_line_up(&order, c);
    assert_ptr_equal(mst_order_decode(&order), c);

    end();
}


static void
test_last(void **state)
{
    mst_seq_t  *a, *b, *c, *d, *e;

    (void) state;

    begin();

    a = add(0, 1, 0);
    b = add(0, 1, 0);
    c = add(0, 2, 0);
    d = add(3, 1, 0);
    e = add(0, 1, 9);

    assert_null(mst_order_last(&order, NULL));

    run(a, 9);
    run(b, 9);
    run(c, 9);
    run(d, 9);
    run(e, 9);

    /* of equal flows the one that began last */

    assert_ptr_equal(mst_order_last(&order, NULL), c);

    mst_fair_charge(&order.fair, a->flow, 1);
    mst_order_settle(&order);
    assert_ptr_equal(mst_order_last(&order, NULL), b);

    mst_order_cover(&order, b);
    assert_ptr_equal(mst_order_last(&order, NULL), a);
    mst_order_cover(&order, a);
    assert_ptr_equal(mst_order_last(&order, NULL), e);
    mst_order_cover(&order, e);
    assert_ptr_equal(mst_order_last(&order, NULL), c);

    assert_ptr_equal(mst_order_last(&order, d), c);
    assert_null(mst_order_last(&order, c));

    mst_order_cover(&order, c);
    assert_ptr_equal(mst_order_last(&order, NULL), d);
    assert_null(mst_order_last(&order, d));

    end();
}


/* what is paid for once is not paid again; what a cache had is free */

static void
test_charge(void **state)
{
    mst_seq_t  *q;
    uint64_t    one = 1ull << MST_FAIR_SHIFT;

    (void) state;

    begin();

    q = add(0, 0, 0);
    q->n_computed = 4;                         /* cached */
    q->n_step = 3;
    mst_order_charge(&order, q);
    mst_order_settle(&order);
    assert_int_equal(q->flow->vtime, 3 * one);

    q->n_computed = 2;                         /* preempted: 2 are cached */
    q->n_step = 8;
    mst_order_charge(&order, q);
    mst_order_settle(&order);
    assert_int_equal(q->flow->vtime, 6 * one);

    q->n_computed = 0;
    q->n_step = 10;
    mst_order_charge(&order, q);
    mst_order_settle(&order);
    assert_int_equal(q->flow->vtime, 6 * one);

    end();
}


static void
test_ahead(void **state)
{
    mst_seq_t  *q, *other;

    (void) state;

    begin();

    (void) add(0, 1, 500);
    (void) add(0, 1, 0);
    (void) add(1, 1, 0);
    (void) add(-1, 1, 0);
    other = add(0, 2, 0);
    q = add(0, 1, 600);
    mst_order_step_out(&order, q);

    /* the class above, and who is wanted before it in its flow */

    assert_int_equal(mst_order_ahead(&order, q), 20);

    /* another flow, as far as it was served less, and not more than waits */

    mst_fair_charge(&order.fair, q->flow, 4);
    mst_order_settle(&order);
    assert_int_equal(mst_order_ahead(&order, q), 24);

    mst_fair_charge(&order.fair, q->flow, 1000);
    mst_order_settle(&order);
    assert_int_equal(mst_order_ahead(&order, q), 30);

    mst_order_step_out(&order, other);
    assert_int_equal(mst_order_ahead(&order, q), 20);

    end();
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_flows),
        cmocka_unit_test(test_running),
        cmocka_unit_test(test_last),
        cmocka_unit_test(test_charge),
        cmocka_unit_test(test_ahead)
    };

    return cmocka_run_group_tests_name("mst_order", tests, NULL, NULL);
}
