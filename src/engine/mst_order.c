
/*
 * The order of sequences: see mst_order.h.
 *
 * Lines are chosen so that what happens at each step costs little: decodes
 * are lists; a flow's waiting sequences are a heap of that flow, since its
 * place among other flows changes with each token and theirs among
 * themselves does not.  Prefills are few, since each takes what is left of a
 * step, and are searched.
 */

#include <string.h>

#include "base/mst_err.h"
#include "engine/mst_order.h"


#define MST_ORDER_LOOK  4096       /* sequences that are counted as ahead */


int
mst_order_init(mst_order_t *o)
{
    uint32_t  i;

    memset(o, 0, sizeof(mst_order_t));

    mst_list_init(&o->prefills);

    for (i = 0; i < MST_CLASSES; i++) {
        mst_list_init(&o->decodes[i]);
    }

    return mst_fair_init(&o->fair);
}


void
mst_order_fini(mst_order_t *o)
{
    mst_fair_fini(&o->fair);
    memset(o, 0, sizeof(mst_order_t));
}


int
mst_order_enter(mst_order_t *o, mst_seq_t *q)
{
    q->flow = mst_fair_enter(&o->fair, &q->claim);
    q->line = MST_SEQ_NO_LINE;
    q->wants = 0;

    return q->flow ? MST_OK : MST_ERROR;
}


void
mst_order_leave(mst_order_t *o, mst_seq_t *q)
{
    mst_fair_leave(&o->fair, q->flow);
    q->flow = NULL;
}


/* when its first token is wanted, none last */

static uint64_t
mst_order_due(const mst_seq_t *q)
{
    return q->claim.ttft_ns ? q->claim.ttft_ns : UINT64_MAX;
}


int
mst_order_before(const mst_seq_t *a, const mst_seq_t *b)
{
    if (a->flow != b->flow) {
        return a->flow->rank < b->flow->rank
               || (a->flow->rank == b->flow->rank
                   && mst_fair_before(a->flow, b->flow));
    }

    return mst_order_due(a) < mst_order_due(b)
           || (mst_order_due(a) == mst_order_due(b)
               && a->arrival < b->arrival);
}


static void
mst_order_count(mst_order_t *o, const mst_seq_t *q, int sign)
{
    mst_order_class_t  *c;

    c = &o->classes[q->flow->rank];

    q->flow->tokens += (uint64_t) ((int64_t) q->uncached * sign);
    c->n += (uint32_t) sign;
    c->tokens += (uint64_t) ((int64_t) q->uncached * sign);

    if (q->claim.ttft_ns == 0 || q->claim.fair_key != 0) {
        return;
    }

    c->n_dated += (uint32_t) sign;
    c->dated_tokens += (uint64_t) ((int64_t) q->uncached * sign);

    if (q->claim.ttft_ns > c->last_ns) {
        c->last_ns = q->claim.ttft_ns;
    }
}


void
mst_order_line_up(mst_order_t *o, mst_seq_t *q)
{
    if (!q->wants) {
        q->wants = 1;
        mst_fair_want(&o->fair, q->flow);
    }

    if (q->state == MST_SEQ_WAITING) {
        q->line = MST_SEQ_IN_WAITING;

        mst_heap_push(&q->flow->waiting, &q->waiting, mst_order_due(q),
                      q->arrival);
        mst_order_count(o, q, 1);

        if (q->flow->waiting.n == 1) {
            mst_fair_line(&o->fair, q->flow, 1);
        }

    } else if (q->n_tokens - q->n_computed == 1) {
        q->line = MST_SEQ_IN_DECODES;
        mst_list_insert_tail(&o->decodes[q->flow->rank], &q->queue);

    } else {
        q->line = MST_SEQ_IN_PREFILLS;
        mst_list_insert_tail(&o->prefills, &q->queue);
    }
}


void
mst_order_step_out(mst_order_t *o, mst_seq_t *q)
{
    if (q->line == MST_SEQ_IN_WAITING) {
        mst_heap_remove(&q->flow->waiting, &q->waiting);
        mst_order_count(o, q, -1);

        if (q->flow->waiting.n == 0) {
            mst_fair_line(&o->fair, q->flow, 0);
        }
    }

    mst_list_remove(&q->queue);
    q->line = MST_SEQ_NO_LINE;
}


void
mst_order_rest(mst_order_t *o, mst_seq_t *q)
{
    if (q->wants) {
        q->wants = 0;
        mst_fair_rest(&o->fair, q->flow);
    }
}


void
mst_order_expose(mst_order_t *o, mst_seq_t *q)
{
    (void) o;

    mst_heap_push(&q->flow->running, &q->running, ~mst_order_due(q),
                  ~q->arrival);
}


void
mst_order_cover(mst_order_t *o, mst_seq_t *q)
{
    (void) o;

    mst_heap_remove(&q->flow->running, &q->running);
}


mst_seq_t *
mst_order_waiting(const mst_order_t *o)
{
    uint32_t     i;
    mst_flow_t  *flow;

    for (i = 0; i < MST_CLASSES; i++) {
        flow = mst_fair_first(&o->fair, i);

        if (flow) {
            return mst_list_data(mst_heap_top(&flow->waiting), mst_seq_t,
                                 waiting);
        }
    }

    return NULL;
}


mst_seq_t *
mst_order_prefill(const mst_order_t *o)
{
    mst_seq_t   *q, *first;
    mst_list_t  *x;

    first = NULL;

    for (x = o->prefills.next; x != &o->prefills; x = x->next) {
        q = mst_list_data(x, mst_seq_t, queue);

        if (first == NULL || mst_order_before(q, first)) {
            first = q;
        }
    }

    return first;
}


mst_seq_t *
mst_order_decode(const mst_order_t *o)
{
    uint32_t  i;

    for (i = 0; i < MST_CLASSES; i++) {
        if (!mst_list_empty(&o->decodes[i])) {
            return mst_list_data(o->decodes[i].next, mst_seq_t, queue);
        }
    }

    return NULL;
}


mst_seq_t *
mst_order_last(const mst_order_t *o, const mst_seq_t *than)
{
    uint32_t          i, end;
    mst_flow_t       *flow, *last;
    mst_list_t       *x;
    const mst_list_t *flows;

    end = than ? than->flow->rank + 1 : 0;
    last = NULL;

    for (i = MST_CLASSES; i-- > end && last == NULL; /* void */ ) {

        flows = &o->fair.classes[i].flows;

        for (x = flows->next; x != flows; x = x->next) {
            flow = mst_list_data(x, mst_flow_t, list);

            if (flow->running.n
                && (last == NULL || mst_fair_before(last, flow)))
            {
                last = flow;
            }
        }
    }

    return last ? mst_list_data(mst_heap_top(&last->running), mst_seq_t,
                                running)
                : NULL;
}


/* what was taken from it and has to be computed again is not its debt */

void
mst_order_charge(mst_order_t *o, mst_seq_t *q)
{
    uint32_t  end;

    end = q->n_computed + q->n_step;

    if (end > q->n_charged) {
        mst_fair_charge(&o->fair, q->flow, q->n_step < end - q->n_charged
                                           ? q->n_step : end - q->n_charged);
        q->n_charged = end;
    }
}


void
mst_order_settle(mst_order_t *o)
{
    mst_fair_settle(&o->fair);
}


/* of a flow that was served less: what it may have until it was not */

static uint64_t
mst_order_gap(const mst_flow_t *flow, const mst_flow_t *than)
{
    uint64_t  gap;

    if (flow->vtime >= than->vtime) {
        return 0;
    }

    gap = ((than->vtime - flow->vtime) >> MST_FAIR_SHIFT) * flow->weight;

    return gap < flow->tokens ? gap : flow->tokens;
}


uint64_t
mst_order_ahead(const mst_order_t *o, const mst_seq_t *q)
{
    uint32_t           i;
    uint64_t           n;
    mst_seq_t         *x;
    mst_flow_t        *flow;
    const mst_heap_t  *h;

    n = 0;

    for (i = 0; i < q->flow->rank; i++) {
        n += o->classes[i].tokens;
    }

    h = &o->fair.classes[q->flow->rank].lined;

    for (i = 0; i < h->n && i < MST_ORDER_LOOK; i++) {
        flow = mst_list_data(h->entries[i].node, mst_flow_t, lined);
        n += mst_order_gap(flow, q->flow);
    }

    h = &q->flow->waiting;

    for (i = 0; i < h->n && i < MST_ORDER_LOOK; i++) {
        x = mst_list_data(h->entries[i].node, mst_seq_t, waiting);
        n += mst_order_before(x, q) ? x->uncached : 0;
    }

    return n;
}
