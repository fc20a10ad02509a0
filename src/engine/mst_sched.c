
/*
 * The scheduler: see mst_sched.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "engine/mst_promise.h"
#include "engine/mst_sched.h"


static void mst_sched_bind(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);
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
    s->room.chunk = conf->budget;

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


/* into the line where it belongs; it stands nowhere */

static void
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


static void
mst_sched_step_out(mst_sched_t *s, mst_seq_t *q)
{
    mst_list_remove(&q->stalled);
    mst_heap_remove(&s->timed, &q->timed);
    mst_order_step_out(&s->order, q);
}


static void
mst_sched_wait(mst_sched_t *s, mst_seq_t *q)
{
    q->state = MST_SEQ_WAITING;
    q->uncached = q->n_tokens - mst_room_cached(&s->room, q);

    s->n_waiting++;
    s->waiting_tokens += q->n_tokens;
}


static void
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


static void
mst_sched_unbind(mst_sched_t *s, mst_seq_t *q)
{
    mst_heap_remove(&s->deadlines, &q->deadline);
    mst_list_remove(&q->unstarted);
}


/* out of the running ones, its blocks are let go */

static void
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


static void
mst_sched_leave(mst_sched_t *s, mst_seq_t *q, mst_refuse_t refuse,
    mst_finish_t finish)
{
    mst_sched_remove(s, q);

    q->refuse = refuse;
    q->finish = finish;
    s->moved = 1;

    mst_list_insert_tail(&s->leaving, &q->queue);
}


/* an answer that has begun ends, a request that has not is refused */

static void
mst_sched_fail(mst_sched_t *s, mst_seq_t *q)
{
    if (q->started) {
        mst_sched_leave(s, q, 0, MST_FINISH_ERROR);

    } else {
        mst_sched_leave(s, q, MST_REFUSE_MEMORY, 0);
    }
}


void
mst_sched_plan(mst_sched_t *s, uint64_t now_ns)
{
    s->n_items = 0;
    s->n_tokens = 0;
    s->left = s->conf.budget;
    s->preempted = 0;
    s->moved = 0;

    mst_sched_expire(s, now_ns);
    mst_sched_wake_up(s, now_ns);
    mst_sched_decodes(s, now_ns);
    mst_order_settle(&s->order);
    mst_sched_fill(s, now_ns);
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
