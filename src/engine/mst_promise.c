
/*
 * Promises: see mst_promise.h.
 */

#include "engine/mst_promise.h"


static uint64_t mst_promise_from(const mst_sched_t *s, uint64_t now_ns);
static uint64_t mst_promise_end(const mst_sched_t *s, uint64_t n,
    uint64_t now_ns);
static int mst_promise_made(const mst_seq_t *q, uint64_t now_ns);


int
mst_promise_late(const mst_sched_t *s, const mst_seq_t *q, uint64_t now_ns)
{
    uint64_t           n;
    mst_seq_t         *x;
    const mst_list_t  *at, *prefills;

    if (q->claim.ttft_ns == 0) {
        return 0;
    }

    n = mst_order_ahead(&s->order, q) + q->uncached;
    prefills = &s->order.prefills;

    for (at = prefills->next; at != prefills; at = at->next) {
        x = mst_list_data(at, mst_seq_t, queue);

        if (mst_order_before(x, q)) {
            n += x->n_tokens - x->n_computed;
        }
    }

    return mst_promise_from(s, now_ns) + mst_reckon_ns(&s->reckon, n, now_ns)
           > q->claim.ttft_ns;
}


/* when a step that is planned now can start */

static uint64_t
mst_promise_from(const mst_sched_t *s, uint64_t now_ns)
{
    return now_ns > s->busy_ns ? now_ns : s->busy_ns;
}


int
mst_promise_breaks(const mst_sched_t *s, const mst_seq_t *q, uint64_t now_ns)
{
    uint64_t           n, x_n;
    mst_seq_t         *x;
    const mst_list_t  *at, *prefills;

    if (q->claim.ttft_ns == 0) {
        return 0;
    }

    n = q->n_tokens - q->n_computed;

    if (mst_promise_end(s, n, now_ns) > q->claim.ttft_ns) {
        return 1;
    }

    prefills = &s->order.prefills;

    for (at = prefills->next; at != prefills; at = at->next) {
        x = mst_list_data(at, mst_seq_t, queue);
        x_n = x->n_tokens - x->n_computed;

        /* what is lost is lost */

        if (x->flow->rank == q->flow->rank && mst_order_before(q, x)
            && mst_promise_made(x, now_ns)
            && mst_promise_end(s, n + x_n, now_ns) > x->claim.ttft_ns
            && mst_promise_end(s, x_n, now_ns) <= x->claim.ttft_ns)
        {
            return 1;
        }
    }

    return 0;
}


/* when n more tokens are sure to be computed: this step may end before, but
   not before those who are in it; and what runs is in each step after it */

static uint64_t
mst_promise_end(const mst_sched_t *s, uint64_t n, uint64_t now_ns)
{
    n += s->n_tokens;

    if (n > s->conf.budget) {
        n += (n - 1) / s->conf.budget * s->n_running;
    }

    return mst_promise_from(s, now_ns)
           + mst_reckon_sure_ns(&s->reckon, n, now_ns);
}


static int
mst_promise_made(const mst_seq_t *q, uint64_t now_ns)
{
    return q->claim.ttft_ns > now_ns && mst_seq_completion(q) == 0;
}


uint32_t
mst_promise_room(const mst_sched_t *s, const mst_seq_t *q, uint64_t now_ns)
{
    double    room;
    uint64_t  from;

    from = mst_promise_from(s, now_ns);

    if (!mst_promise_made(q, now_ns)
        || q->n_computed + q->n_step < q->n_tokens)
    {
        return UINT32_MAX;
    }

    /* alone in its step while nobody knows how long that is */

    if (!mst_reckon_known(&s->reckon) || from >= q->claim.ttft_ns) {
        return 0;
    }

    room = mst_reckon_sure(&s->reckon, q->claim.ttft_ns - from, now_ns)
           - s->n_tokens;

    return room < 0 ? 0 : room < UINT32_MAX ? (uint32_t) room : UINT32_MAX;
}
