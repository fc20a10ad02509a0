
/*
 * One step, filled: see mst_sched.h.
 */

#include "base/mst_err.h"
#include "engine/mst_promise.h"
#include "engine/mst_sched_local.h"
#include "engine/mst_stretch.h"


static uint32_t mst_sched_budget(const mst_sched_t *s, uint64_t now_ns);
static void mst_sched_expire(mst_sched_t *s, uint64_t now_ns);
static void mst_sched_wake_up(mst_sched_t *s, uint64_t now_ns);
static void mst_sched_decodes(mst_sched_t *s, uint64_t now_ns);
static int mst_sched_grow(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);
static void mst_sched_fill(mst_sched_t *s, uint64_t now_ns);
static int mst_sched_admit(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);
static int mst_sched_start(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);
static void mst_sched_hurry(mst_sched_t *s, const mst_seq_t *q,
    uint64_t now_ns);
static void mst_sched_full(mst_sched_t *s);


void
mst_sched_plan(mst_sched_t *s, uint64_t now_ns)
{
    s->n_items = 0;
    s->n_tokens = 0;
    s->left = mst_sched_budget(s, now_ns);
    s->preempted = 0;
    s->moved = 0;

    mst_sched_expire(s, now_ns);
    mst_sched_wake_up(s, now_ns);
    mst_sched_decodes(s, now_ns);
    mst_order_settle(&s->order);
    mst_sched_fill(s, now_ns);
}


/* who gave way has had his first token; who yields may wait */

static uint32_t
mst_sched_budget(const mst_sched_t *s, uint64_t now_ns)
{
    uint64_t          wait;
    const mst_seq_t  *first;

    first = mst_order_waiting(&s->order);

    if (first == NULL || first->started || first->claim.priority < 0) {
        return s->conf.budget;
    }

    wait = mst_reckon_ns(&s->reckon, s->waiting_tokens, now_ns);
    wait += now_ns > first->submit_ns ? now_ns - first->submit_ns : 0;

    return mst_stretch(s->conf.budget, s->conf.most, wait);
}


static void
mst_sched_expire(mst_sched_t *s, uint64_t now_ns)
{
    mst_heap_node_t  *node;

    while ((node = mst_heap_top(&s->deadlines)) != NULL
           && s->deadlines.entries[0].major <= now_ns)
    {
        mst_sched_leave(s, mst_list_data(node, mst_seq_t, deadline),
                        MST_REFUSE_DEADLINE, 0);
    }
}


static void
mst_sched_wake_up(mst_sched_t *s, uint64_t now_ns)
{
    mst_heap_node_t  *node;

    while ((node = mst_heap_top(&s->timed)) != NULL
           && s->timed.entries[0].major <= now_ns)
    {
        mst_heap_remove(&s->timed, node);
        mst_order_line_up(&s->order, mst_list_data(node, mst_seq_t, timed));
    }
}


static void
mst_sched_take(mst_sched_t *s, mst_seq_t *q)
{
    uint32_t  n;

    n = q->n_tokens - q->n_computed;

    if (n > s->left) {
        n = s->left;
    }

    q->n_step = n;
    q->item = s->n_items;

    s->left -= n;
    s->n_tokens += n;
    s->items[s->n_items++] = q;

    mst_order_charge(&s->order, q);
}


static void
mst_sched_decodes(mst_sched_t *s, uint64_t now_ns)
{
    uint32_t    reserve;
    mst_seq_t  *q;

    reserve = 0;

    if (mst_order_prefill(&s->order)
        || (mst_order_waiting(&s->order)
            && s->n_running < s->conf.max_batch))
    {
        reserve = s->conf.budget / 8;
    }

    while (s->left > reserve
           && (q = mst_order_decode(&s->order)) != NULL)
    {
        mst_order_step_out(&s->order, q);

        if (mst_sched_grow(s, q, now_ns) == MST_OK) {
            mst_sched_take(s, q);
        }
    }
}


/* out of the step that is being planned */

static void
mst_sched_untake(mst_sched_t *s, mst_seq_t *q)
{
    uint32_t  i;

    s->n_items--;
    s->left += q->n_step;
    s->n_tokens -= q->n_step;

    for (i = q->item; i < s->n_items; i++) {
        s->items[i] = s->items[i + 1];
        s->items[i]->item = i;
    }

    q->item = MST_SEQ_NO_ITEM;
}


static void
mst_sched_preempt(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    if (q->item != MST_SEQ_NO_ITEM) {
        mst_sched_untake(s, q);
    }

    mst_sched_step_out(s, q);
    mst_sched_stop(s, q);
    mst_sched_wait(s, q);

    q->usage.preemptions++;

    s->preemptions++;
    s->moved = 1;

    mst_sched_line_up(s, q, now_ns);
}


/* MST_DECLINED: q is no longer running */

static int
mst_sched_grow(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    int         rc;
    mst_seq_t  *victim;

    for ( ;; ) {
        rc = mst_room_grow(&s->room, q);

        if (rc == MST_OK) {
            return MST_OK;
        }

        if (rc == MST_ERROR) {
            mst_sched_fail(s, q);
            return MST_DECLINED;
        }

        if (s->n_running == 1) {

            if (mst_seq_expects(q)) {
                mst_sched_park(s, q);

            } else {
                mst_sched_leave(s, q, 0, MST_FINISH_LENGTH);
            }

            return MST_DECLINED;
        }

        if (!mst_list_empty(&s->stalled)) {
            victim = mst_list_data(s->stalled.next, mst_seq_t, stalled);

        } else {
            victim = mst_order_last(&s->order, NULL);
            victim = victim ? victim : q;
        }

        mst_sched_preempt(s, victim, now_ns);
        s->preempted = 1;

        if (victim == q) {
            return MST_DECLINED;
        }
    }
}


/* prefills and starts, in order */

static void
mst_sched_fill(mst_sched_t *s, uint64_t now_ns)
{
    int         full;
    mst_seq_t  *running, *waiting;

    full = s->preempted;

    while (s->left) {

        running = mst_order_prefill(&s->order);
        waiting = full || s->preempted ? NULL : mst_order_waiting(&s->order);

        if (waiting && (running == NULL
                        || mst_order_before(waiting, running)))
        {
            full = mst_sched_admit(s, waiting, now_ns) == MST_BUSY;

        } else if (running) {
            mst_order_step_out(&s->order, running);

            if (s->room.window == 0
                || mst_sched_grow(s, running, now_ns) == MST_OK)
            {
                mst_sched_take(s, running);
                mst_sched_hurry(s, running, now_ns);
            }

        } else {
            break;
        }

        mst_order_settle(&s->order);
    }

    if (full || s->preempted) {
        mst_sched_full(s);
    }
}


/* the first of the waiting; MST_BUSY: it has to wait on, else it does not
   wait any more */

static int
mst_sched_admit(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    int         rc;
    mst_seq_t  *victim;

    for ( ;; ) {
        rc = MST_BUSY;

        if (s->n_running < s->conf.max_batch) {
            rc = mst_sched_start(s, q, now_ns);
        }

        if (rc != MST_BUSY) {
            return rc;
        }

        if (!mst_list_empty(&s->stalled)) {
            victim = mst_list_data(s->stalled.next, mst_seq_t, stalled);

        } else if (q->claim.flags & MST_CLAIM_PREEMPT) {
            victim = mst_order_last(&s->order, q);
            s->preempted |= victim != NULL;

        } else {
            victim = NULL;
        }

        if (victim == NULL) {
            return MST_BUSY;
        }

        mst_sched_preempt(s, victim, now_ns);
    }
}


/* MST_BUSY: not enough blocks; MST_DECLINED: q left; MST_OK: it runs */

static int
mst_sched_start(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    int  rc;

    if (mst_room_needs(&s->room, q) > s->conf.pool->n) {
        /* it grew to the whole pool before it was preempted */
        mst_sched_leave(s, q, 0, MST_FINISH_LENGTH);
        return MST_DECLINED;
    }

    rc = mst_room_take(&s->room, q);

    if (rc == MST_BUSY) {
        return MST_BUSY;
    }

    if (rc == MST_ERROR) {
        mst_sched_fail(s, q);
        return MST_DECLINED;
    }

    if (!q->started && mst_promise_breaks(s, q, now_ns)) {
        mst_room_release(&s->room, q);
        mst_sched_leave(s, q, MST_REFUSE_DEADLINE, 0);
        return MST_DECLINED;
    }

    mst_sched_unbind(s, q);
    mst_sched_unwait(s, q);
    mst_order_step_out(&s->order, q);

    (void) mst_room_wants(&s->room, q, &q->pinned);

    q->state = MST_SEQ_RUNNING;
    s->n_running++;

    if (!q->pinned) {
        mst_order_expose(&s->order, q);
    }

    if (!q->started) {
        q->started = 1;
        q->admitted = 1;
        q->started_ns = now_ns;
        q->usage.cached = q->n_computed;
    }

    mst_sched_take(s, q);
    mst_sched_hurry(s, q, now_ns);

    return MST_OK;
}


/* not longer than who is in it can wait for its first token */

static void
mst_sched_hurry(mst_sched_t *s, const mst_seq_t *q, uint64_t now_ns)
{
    uint32_t  room;

    room = mst_promise_room(s, q, now_ns);

    if (room < s->left) {
        s->left = room;
    }
}


/* somebody has to wait on for a place or for blocks */

static void
mst_sched_full(mst_sched_t *s)
{
    mst_seq_t  *first;

    while (!mst_list_empty(&s->no_waits)) {
        mst_sched_leave(s, mst_list_data(s->no_waits.next, mst_seq_t,
                                         unstarted),
                        MST_REFUSE_KV_FULL, 0);
    }

    first = mst_order_waiting(&s->order);

    if (first == NULL || first->claim.priority < 0) {
        return;
    }

    while (!mst_list_empty(&s->yields)) {
        mst_sched_leave(s, mst_list_data(s->yields.next, mst_seq_t,
                                         unstarted),
                        MST_REFUSE_YIELD, 0);
    }
}
