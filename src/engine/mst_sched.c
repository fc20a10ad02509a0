
/*
 * The scheduler: see mst_sched.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "engine/mst_sched.h"


static void mst_sched_wait(mst_sched_t *s, mst_seq_t *q);
static void mst_sched_expire(mst_sched_t *s, uint64_t now_ns);
static void mst_sched_wake_up(mst_sched_t *s, uint64_t now_ns);
static void mst_sched_decodes(mst_sched_t *s, uint64_t now_ns);
static int mst_sched_grow(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);
static void mst_sched_prefills(mst_sched_t *s);
static void mst_sched_admit(mst_sched_t *s, uint64_t now_ns);
static int mst_sched_start(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);
static void mst_sched_compact(mst_sched_t *s);


int
mst_sched_init(mst_sched_t *s, const mst_sched_conf_t *conf)
{
    memset(s, 0, sizeof(mst_sched_t));

    s->conf = *conf;

    mst_list_init(&s->leaving);
    mst_list_init(&s->ready);
    mst_list_init(&s->prefill);
    mst_list_init(&s->no_waits);

    s->items = mst_calloc(conf->max_batch, sizeof(mst_seq_t *));

    if (s->items == NULL
        || mst_heap_reserve(&s->victims, conf->max_batch) != MST_OK)
    {
        mst_sched_fini(s);
        return MST_ERROR;
    }

    return MST_OK;
}


void
mst_sched_fini(mst_sched_t *s)
{
    mst_free(s->items);

    mst_heap_fini(&s->waiting);
    mst_heap_fini(&s->victims);
    mst_heap_fini(&s->timed);
    mst_heap_fini(&s->deadlines);

    memset(s, 0, sizeof(mst_sched_t));
}


int
mst_sched_reserve(mst_sched_t *s, uint32_t n)
{
    if (mst_heap_reserve(&s->waiting, n) != MST_OK
        || mst_heap_reserve(&s->timed, n) != MST_OK
        || mst_heap_reserve(&s->deadlines, n) != MST_OK)
    {
        return MST_ERROR;
    }

    return MST_OK;
}


/* the place of a class among unsigned numbers, first first */

static uint64_t
mst_sched_rank(const mst_seq_t *q)
{
    return (uint64_t) (MST_PRIORITY_MAX - q->claim.priority);
}


void
mst_sched_add(mst_sched_t *s, mst_seq_t *q)
{
    if (q->deadline_ns) {
        mst_heap_push(&s->deadlines, &q->deadline, q->deadline_ns,
                      q->arrival);
    }

    if (q->no_wait) {
        mst_list_insert_tail(&s->no_waits, &q->no_waits);
    }

    mst_sched_wait(s, q);
    mst_heap_push(&s->waiting, &q->waiting, mst_sched_rank(q), q->arrival);
}


static void
mst_sched_wait(mst_sched_t *s, mst_seq_t *q)
{
    q->state = MST_SEQ_WAITING;

    s->n_waiting++;
    s->waiting_tokens += q->n_tokens;
}


static void
mst_sched_unwait(mst_sched_t *s, mst_seq_t *q)
{
    mst_heap_remove(&s->waiting, &q->waiting);

    s->n_waiting--;
    s->waiting_tokens -= q->n_tokens;
}


/* what bound it before its first start binds it no more */

static void
mst_sched_unbind(mst_sched_t *s, mst_seq_t *q)
{
    mst_heap_remove(&s->deadlines, &q->deadline);
    mst_list_remove(&q->no_waits);
}


/* from the last to the first: the head of a chain outlives its tail */

static void
mst_sched_release(mst_sched_t *s, mst_seq_t *q)
{
    while (q->n_blocks) {
        mst_block_unref(s->conf.pool, q->blocks[--q->n_blocks]);
    }

    q->n_computed = 0;
}


/* out of the running ones, its blocks are let go */

static void
mst_sched_stop(mst_sched_t *s, mst_seq_t *q)
{
    if (q->item != MST_SEQ_NO_ITEM) {
        s->items[q->item] = NULL;
        s->left += q->n_step;
        q->item = MST_SEQ_NO_ITEM;
    }

    mst_heap_remove(&s->victims, &q->victim);
    mst_list_remove(&q->queue);
    mst_sched_release(s, q);

    s->n_running--;
}


void
mst_sched_remove(mst_sched_t *s, mst_seq_t *q)
{
    mst_sched_unbind(s, q);
    mst_heap_remove(&s->timed, &q->timed);

    if (q->state == MST_SEQ_RUNNING) {
        mst_sched_stop(s, q);

    } else {
        mst_sched_unwait(s, q);
    }
}


void
mst_sched_poison(mst_sched_t *s, mst_seq_t *q)
{
    uint32_t  i;

    if (s->conf.prefix) {
        for (i = 0; i < q->n_blocks; i++) {
            mst_prefix_forget(s->conf.prefix, q->blocks[i]);
        }
    }

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
    s->left = s->conf.budget;
    s->preempted = 0;
    s->moved = 0;

    mst_sched_expire(s, now_ns);
    mst_sched_wake_up(s, now_ns);
    mst_sched_decodes(s, now_ns);
    mst_sched_prefills(s);
    mst_sched_admit(s, now_ns);
    mst_sched_compact(s);

    s->n_tokens = s->conf.budget - s->left;
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


/* puts a running sequence into the queue that it belongs to */

static void
mst_sched_enqueue(mst_sched_t *s, mst_seq_t *q)
{
    mst_seq_t   *before;
    mst_list_t  *at;

    if (q->n_tokens - q->n_computed == 1) {
        mst_list_insert_tail(&s->ready, &q->queue);
        return;
    }

    /* seldom more than one is there: a prefill takes all that is left of a
       step, and nobody starts while one is unfinished */

    for (at = s->prefill.prev; at != &s->prefill; at = at->prev) {
        before = mst_list_data(at, mst_seq_t, queue);

        if (mst_sched_rank(before) < mst_sched_rank(q)
            || (mst_sched_rank(before) == mst_sched_rank(q)
                && before->arrival < q->arrival))
        {
            break;
        }
    }

    mst_list_insert_after(at, &q->queue);
}


/* into the queue where it belongs, of which it is in none */

static void
mst_sched_line_up(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    if (q->paused) {
        return;
    }

    if (q->ready_ns > now_ns) {
        mst_heap_push(&s->timed, &q->timed, q->ready_ns, q->arrival);

    } else if (q->state == MST_SEQ_RUNNING) {
        mst_sched_enqueue(s, q);

    } else {
        mst_heap_push(&s->waiting, &q->waiting, mst_sched_rank(q),
                      q->arrival);
    }
}


static void
mst_sched_step_out(mst_sched_t *s, mst_seq_t *q)
{
    mst_heap_remove(&s->timed, &q->timed);
    mst_heap_remove(&s->waiting, &q->waiting);
    mst_list_remove(&q->queue);
}


static void
mst_sched_wake_up(mst_sched_t *s, uint64_t now_ns)
{
    mst_seq_t        *q;
    mst_heap_node_t  *node;

    while ((node = mst_heap_top(&s->timed)) != NULL
           && s->timed.entries[0].major <= now_ns)
    {
        q = mst_list_data(node, mst_seq_t, timed);

        mst_heap_remove(&s->timed, node);

        mst_sched_line_up(s, q, now_ns);
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
    s->items[s->n_items++] = q;
}


static void
mst_sched_decodes(mst_sched_t *s, uint64_t now_ns)
{
    uint32_t    reserve;
    mst_seq_t  *q;

    reserve = 0;

    if (!mst_list_empty(&s->prefill)
        || (s->waiting.n && s->n_running < s->conf.max_batch))
    {
        reserve = s->conf.budget / 8;
    }

    while (!mst_list_empty(&s->ready) && s->left > reserve
           && s->n_items < s->conf.max_batch)
    {
        q = mst_list_data(s->ready.next, mst_seq_t, queue);

        mst_list_remove(&q->queue);

        if (mst_sched_grow(s, q, now_ns) == MST_OK) {
            mst_sched_take(s, q);
        }
    }
}


static void
mst_sched_preempt(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    mst_heap_remove(&s->timed, &q->timed);
    mst_sched_stop(s, q);
    mst_sched_wait(s, q);

    q->usage.preemptions++;

    s->preemptions++;
    s->preempted = 1;
    s->moved = 1;

    mst_sched_line_up(s, q, now_ns);
}


static uint32_t
mst_sched_needs(const mst_sched_t *s, const mst_seq_t *q)
{
    return (q->n_tokens - 1) / s->conf.block_tokens + 1;
}


/* MST_DECLINED: q is no longer running */

static int
mst_sched_grow(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    uint32_t    id, need;
    mst_seq_t  *victim;

    need = mst_sched_needs(s, q);

    if (mst_seq_reserve_tokens(q, q->n_tokens + 1) != MST_OK
        || mst_seq_reserve_blocks(q, need) != MST_OK)
    {
        mst_sched_fail(s, q);
        return MST_DECLINED;
    }

    while (q->n_blocks < need) {
        id = mst_block_get(s->conf.pool);

        if (id != MST_BLOCK_NONE) {
            q->blocks[q->n_blocks++] = id;
            continue;
        }

        if (s->n_running == 1) {
            mst_sched_leave(s, q, 0, MST_FINISH_LENGTH);
            return MST_DECLINED;
        }

        victim = mst_list_data(mst_heap_top(&s->victims), mst_seq_t, victim);

        mst_sched_preempt(s, victim, now_ns);

        if (victim == q) {
            return MST_DECLINED;
        }
    }

    return MST_OK;
}


static void
mst_sched_prefills(mst_sched_t *s)
{
    mst_seq_t  *q;

    while (!mst_list_empty(&s->prefill) && s->left
           && s->n_items < s->conf.max_batch)
    {
        q = mst_list_data(s->prefill.next, mst_seq_t, queue);

        mst_list_remove(&q->queue);
        mst_sched_take(s, q);
    }
}


static void
mst_sched_admit(mst_sched_t *s, uint64_t now_ns)
{
    int               full;
    mst_seq_t        *q;
    mst_heap_node_t  *node;

    full = 0;

    while (!s->preempted && s->left
           && (node = mst_heap_top(&s->waiting)) != NULL)
    {
        q = mst_list_data(node, mst_seq_t, waiting);

        if (s->n_running == s->conf.max_batch
            || mst_sched_start(s, q, now_ns) == MST_BUSY)
        {
            full = 1;
            break;
        }
    }

    if (!full && !s->preempted) {
        return;
    }

    while (!mst_list_empty(&s->no_waits)) {
        mst_sched_leave(s, mst_list_data(s->no_waits.next, mst_seq_t,
                                         no_waits),
                        MST_REFUSE_KV_FULL, 0);
    }
}


/*
 * The first blocks of q that the cache has, their number; they go into its
 * table, but are not referenced yet.  The last token is always computed,
 * since its logits are wanted.
 */

static uint32_t
mst_sched_hits(const mst_sched_t *s, mst_seq_t *q, uint32_t *n_cached)
{
    uint32_t  id, n, max;

    *n_cached = 0;

    if (s->conf.prefix == NULL) {
        return 0;
    }

    max = (q->n_tokens - 1) / s->conf.block_tokens;

    mst_prefix_root(s->conf.prefix, q->salt, &q->at);

    for (n = 0; n < max; n++) {
        id = mst_prefix_find(s->conf.prefix, q->salt,
                             q->tokens + n * s->conf.block_tokens, &q->at);

        if (id == MST_BLOCK_NONE) {
            break;
        }

        q->blocks[n] = id;
        *n_cached += s->conf.pool->blocks[id].ref == 0;
    }

    return n;
}


/* MST_BUSY: not enough blocks; MST_DECLINED: q left; MST_OK: it runs */

static int
mst_sched_start(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    uint32_t           i, need, hits, n_cached;
    mst_block_pool_t  *pool;

    pool = s->conf.pool;
    need = mst_sched_needs(s, q);

    if (need > pool->n) {
        /* it grew to the whole pool before it was preempted */
        mst_sched_leave(s, q, 0, MST_FINISH_LENGTH);
        return MST_DECLINED;
    }

    if (mst_seq_reserve_tokens(q, q->n_tokens + 1) != MST_OK
        || mst_seq_reserve_blocks(q, need) != MST_OK)
    {
        mst_sched_fail(s, q);
        return MST_DECLINED;
    }

    hits = mst_sched_hits(s, q, &n_cached);

    if (need - hits > mst_block_available(pool) - n_cached) {
        return MST_BUSY;
    }

    mst_sched_unbind(s, q);
    mst_sched_unwait(s, q);

    for (i = 0; i < hits; i++) {
        mst_block_ref(pool, q->blocks[i]);
    }

    for ( /* void */ ; i < need; i++) {
        q->blocks[i] = mst_block_get(pool);
    }

    q->n_blocks = need;
    q->n_named = hits;
    q->n_computed = hits * s->conf.block_tokens;
    q->state = MST_SEQ_RUNNING;

    if (!q->started) {
        q->started = 1;
        q->admitted = 1;
        q->started_ns = now_ns;
        q->usage.cached = q->n_computed;
    }

    s->n_running++;
    mst_heap_push(&s->victims, &q->victim, ~mst_sched_rank(q), ~q->arrival);

    mst_sched_take(s, q);

    return MST_OK;
}


/* closes the gaps of those that were preempted after they were taken */

static void
mst_sched_compact(mst_sched_t *s)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < s->n_items; i++) {

        if (s->items[i] == NULL) {
            continue;
        }

        s->items[n] = s->items[i];
        s->items[n]->item = n;
        n++;
    }

    s->n_items = n;
}


void
mst_sched_computed(mst_sched_t *s, mst_seq_t *q)
{
    uint32_t  i, id, n;

    q->n_computed += q->n_step;
    n = q->n_computed / s->conf.block_tokens;

    if (s->conf.prefix == NULL) {
        return;
    }

    for (i = q->n_named; i < n; i++) {
        id = mst_prefix_name(s->conf.prefix, q->salt,
                             q->tokens + i * s->conf.block_tokens,
                             q->blocks[i], &q->at);

        if (id != q->blocks[i]) {

            /* another computed the same at the same time: the bits are equal
               (mst_forward.h), one copy is enough */

            mst_block_ref(s->conf.pool, id);
            mst_block_unref(s->conf.pool, q->blocks[i]);
            q->blocks[i] = id;
        }
    }

    q->n_named = n;
}


void
mst_sched_requeue(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns)
{
    q->item = MST_SEQ_NO_ITEM;

    mst_sched_line_up(s, q, now_ns);
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
    q->paused = on;

    mst_sched_step_out(s, q);
    mst_sched_line_up(s, q, now_ns);
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
