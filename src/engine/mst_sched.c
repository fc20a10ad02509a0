
/*
 * Who waits, runs and leaves: see mst_sched.h.  What the next step holds is
 * mst_sched_plan.c's.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "engine/mst_promise.h"
#include "engine/mst_sched_local.h"


static void mst_sched_bind(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);


int
mst_sched_init(mst_sched_t *s, const mst_sched_conf_t *conf)
{
    memset(s, 0, sizeof(mst_sched_t));

    s->conf = *conf;

    mst_reckon_init(&s->reckon, conf->budget);

    s->room.pool = conf->pool;
    s->room.prefix = conf->prefix;
    s->room.block_tokens = conf->block_tokens;
    s->room.context = conf->context;
    s->room.window = conf->window;
    s->room.chunk = conf->most > conf->budget ? conf->most : conf->budget;

    mst_list_init(&s->leaving);
    mst_list_init(&s->no_waits);
    mst_list_init(&s->yields);
    mst_list_init(&s->stalled);

    s->items = mst_calloc(conf->max_batch, sizeof(mst_seq_t *));

    if (s->items == NULL || mst_order_init(&s->order) != MST_OK) {
        mst_sched_fini(s);
        return MST_ERROR;
    }

    return MST_OK;
}


void
mst_sched_fini(mst_sched_t *s)
{
    mst_free(s->items);

    mst_order_fini(&s->order);
    mst_heap_fini(&s->timed);
    mst_heap_fini(&s->deadlines);

    memset(s, 0, sizeof(mst_sched_t));
}


int
mst_sched_reserve(mst_sched_t *s, uint32_t n)
{
    if (mst_heap_reserve(&s->timed, n) != MST_OK
        || mst_heap_reserve(&s->deadlines, n) != MST_OK)
    {
        return MST_ERROR;
    }

    return MST_OK;
}


void
mst_sched_line_up(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    if (q->parked) {
        return;
    }

    if (q->paused) {
        mst_order_rest(&s->order, q);

        if (q->state == MST_SEQ_RUNNING) {
            mst_list_insert_tail(&s->stalled, &q->stalled);
        }

    } else if (q->ready_ns > now_ns) {
        mst_order_rest(&s->order, q);
        mst_heap_push(&s->timed, &q->timed, q->ready_ns, q->arrival);

    } else {
        mst_order_line_up(&s->order, q);
    }
}


void
mst_sched_step_out(mst_sched_t *s, mst_seq_t *q)
{
    mst_list_remove(&q->stalled);
    mst_heap_remove(&s->timed, &q->timed);
    mst_order_step_out(&s->order, q);
}


void
mst_sched_wait(mst_sched_t *s, mst_seq_t *q)
{
    q->state = MST_SEQ_WAITING;
    q->uncached = q->n_tokens - mst_room_cached(&s->room, q);

    s->n_waiting++;
    s->waiting_tokens += q->n_tokens;
}


void
mst_sched_unwait(mst_sched_t *s, mst_seq_t *q)
{
    s->n_waiting--;
    s->waiting_tokens -= q->n_tokens;
}


int
mst_sched_add(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    if (mst_order_enter(&s->order, q) != MST_OK) {
        return MST_ERROR;
    }

    mst_sched_wait(s, q);

    if (mst_promise_late(s, q, now_ns)) {
        mst_sched_unwait(s, q);
        mst_order_leave(&s->order, q);
        return MST_DECLINED;
    }

    mst_sched_bind(s, q, now_ns);
    mst_sched_line_up(s, q, now_ns);

    return MST_OK;
}


/* what binds it until its first start */

static void
mst_sched_bind(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    uint64_t  last, ns;

    last = q->deadline_ns;

    if (q->claim.ttft_ns) {
        ns = q->claim.ttft_ns - mst_reckon_ns(&s->reckon, q->uncached, now_ns);
        last = last && last < ns ? last : ns;
    }

    if (last) {
        mst_heap_push(&s->deadlines, &q->deadline, last, q->arrival);
    }

    if (q->no_wait) {
        mst_list_insert_tail(&s->no_waits, &q->unstarted);

    } else if (q->claim.priority < 0) {
        mst_list_insert_tail(&s->yields, &q->unstarted);
    }
}


void
mst_sched_unbind(mst_sched_t *s, mst_seq_t *q)
{
    mst_heap_remove(&s->deadlines, &q->deadline);
    mst_list_remove(&q->unstarted);
}


void
mst_sched_stop(mst_sched_t *s, mst_seq_t *q)
{
    mst_order_cover(&s->order, q);
    mst_room_release(&s->room, q);

    q->item = MST_SEQ_NO_ITEM;
    q->pinned = 0;

    s->n_running--;
}


void
mst_sched_remove(mst_sched_t *s, mst_seq_t *q)
{
    mst_sched_unbind(s, q);
    mst_sched_step_out(s, q);

    if (q->state == MST_SEQ_RUNNING) {
        mst_sched_stop(s, q);

    } else {
        mst_sched_unwait(s, q);
    }

    s->n_paused -= (uint32_t) q->paused;

    mst_order_rest(&s->order, q);
    mst_order_leave(&s->order, q);
}


void
mst_sched_poison(mst_sched_t *s, mst_seq_t *q)
{
    mst_room_forget(&s->room, q);
    mst_sched_remove(s, q);
}


void
mst_sched_leave(mst_sched_t *s, mst_seq_t *q, mst_refuse_t refuse,
    mst_finish_t finish)
{
    mst_sched_remove(s, q);

    q->refuse = refuse;
    q->finish = finish;
    s->moved = 1;

    mst_list_insert_tail(&s->leaving, &q->queue);
}


void
mst_sched_fail(mst_sched_t *s, mst_seq_t *q)
{
    if (q->started) {
        mst_sched_leave(s, q, 0, MST_FINISH_ERROR);

    } else {
        mst_sched_leave(s, q, MST_REFUSE_MEMORY, 0);
    }
}


void
mst_sched_computed(mst_sched_t *s, mst_seq_t *q)
{
    mst_room_computed(&s->room, q);
}


void
mst_sched_requeue(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    q->item = MST_SEQ_NO_ITEM;

    mst_sched_line_up(s, q, now_ns);
}


void
mst_sched_ahead(mst_sched_t *s, mst_seq_t *q)
{
    uint32_t  n;

    /* a token that is expected has no name yet */

    n = q->n_tokens - (uint32_t) mst_seq_expects(q);

    q->n_computed += q->n_step;

    mst_room_known(&s->room, q, q->n_computed < n ? q->n_computed : n);
}


void
mst_sched_park(mst_sched_t *s, mst_seq_t *q)
{
    (void) s;

    q->item = MST_SEQ_NO_ITEM;
    q->parked = 1;
}


void
mst_sched_known(mst_sched_t *s, mst_seq_t *q, uint32_t n)
{
    /* its blocks may have been taken meanwhile */

    if (q->state == MST_SEQ_RUNNING) {
        mst_room_known(&s->room, q, n);
    }
}


void
mst_sched_unpark(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    if (q->parked) {
        q->parked = 0;
        mst_sched_line_up(s, q, now_ns);
    }
}


void
mst_sched_retime(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    mst_sched_step_out(s, q);
    mst_sched_line_up(s, q, now_ns);
}


void
mst_sched_pause(mst_sched_t *s, mst_seq_t *q, int on, uint64_t now_ns)
{
    if (q->paused == on) {
        return;
    }

    q->paused = on;
    s->n_paused += on ? 1 : (uint32_t) -1;

    mst_sched_retime(s, q, now_ns);
}


uint64_t
mst_sched_wake(const mst_sched_t *s)
{
    uint64_t  wake;

    wake = 0;

    if (s->timed.n) {
        wake = s->timed.entries[0].major;
    }

    if (s->deadlines.n && (wake == 0 || s->deadlines.entries[0].major < wake))
    {
        wake = s->deadlines.entries[0].major;
    }

    return wake;
}


uint64_t
mst_sched_prefilling(const mst_sched_t *s)
{
    uint64_t           n;
    mst_seq_t         *q;
    const mst_list_t  *at, *prefills;

    n = 0;
    prefills = &s->order.prefills;

    for (at = prefills->next; at != prefills; at = at->next) {
        q = mst_list_data(at, mst_seq_t, queue);
        n += q->n_tokens - q->n_computed;
    }

    return n;
}
