
/*
 * Calls: one for each request between SUBMIT and its last record.  The
 * engine's events go into their outboxes, the outboxes into the rings.
 */

#include <unistd.h>

#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_serve_local.h"
#include "shm/mst_place.h"


static void mst_serve_call_grow(mst_serve_t *s);
static void mst_serve_call_time(mst_serve_t *s, mst_serve_call_t *call);
static void mst_serve_call_dirty(mst_serve_t *s, mst_serve_call_t *call);
static uint32_t mst_serve_call_flush_slot(mst_serve_t *s,
    mst_serve_slot_t *slot);
static void mst_serve_call_wake(mst_serve_t *s, uint32_t i);
static void mst_serve_call_next(mst_serve_t *s);
static uint64_t mst_serve_call_unread(const mst_serve_slot_t *slot);


mst_serve_call_t *
mst_serve_call_create(mst_serve_t *s, uint32_t i, const mst_rec_submit_t *r)
{
    mst_serve_call_t  *call, **p;

    call = mst_calloc(1, sizeof(mst_serve_call_t));
    if (call == NULL) {
        return NULL;
    }

    call->slot = i;
    call->place_tokens = r->place_tokens;
    call->n_prompt = r->n_prompt < s->info.context ? r->n_prompt : 0;
    call->last_ns = mst_time_ns();

    mst_outbox_init(&call->out, &r->head,
                    (r->params.flags & MST_PARAMS_LOGPROBS) != 0);

    mst_list_init(&call->dirty);
    mst_list_init(&call->doomed);
    mst_list_insert_tail(&s->slots[i].calls, &call->in_slot);

    mst_serve_call_grow(s);

    p = mst_serve_call_find(s, i, r->head.id);
    *p = call;                                 /* it was the end of a chain */

    s->n_calls++;
    s->slots[i].n_calls++;
    s->slots[i].n_tokens += call->n_prompt;

    return call;
}


void
mst_serve_call_free(mst_serve_t *s, mst_serve_call_t *call)
{
    mst_serve_call_t  **p;

    p = mst_serve_call_find(s, call->slot, call->out.head.id);

    if (*p == call) {
        *p = call->next;
        s->n_calls--;
    }

    s->slots[call->slot].n_calls--;
    s->slots[call->slot].n_tokens -= call->n_prompt;

    mst_list_remove(&call->in_slot);
    mst_list_remove(&call->dirty);
    mst_list_remove(&call->doomed);

    mst_outbox_fini(&call->out);
    mst_free(call);
}


mst_serve_call_t **
mst_serve_call_find(mst_serve_t *s, uint32_t slot, uint64_t id)
{
    mst_serve_call_t  **p;

    /* twice: who chooses ids must not choose chains */

    p = &s->table[mst_hash_mix(mst_hash_mix(id ^ s->key) + slot)
                  & (s->n_table - 1)];

    while (*p != NULL && ((*p)->slot != slot || (*p)->out.head.id != id)) {
        p = &(*p)->next;
    }

    return p;
}


/* longer chains are all that happens without memory */

static void
mst_serve_call_grow(mst_serve_t *s)
{
    size_t              i, n;
    mst_serve_call_t   *call, **old, **table;

    if (s->n_calls < s->n_table) {
        return;
    }

    n = s->n_table;
    old = s->table;

    table = mst_calloc(n * 2, sizeof(mst_serve_call_t *));
    if (table == NULL) {
        return;
    }

    s->table = table;
    s->n_table = n * 2;

    for (i = 0; i < n; i++) {
        while (old[i] != NULL) {
            call = old[i];
            old[i] = call->next;
            call->next = NULL;
            *mst_serve_call_find(s, call->slot, call->out.head.id) = call;
        }
    }

    mst_free(old);
}


void
mst_serve_event(void *data, const mst_event_t *ev)
{
    mst_serve_t       *s;
    mst_serve_call_t  *call;

    s = data;
    call = (mst_serve_call_t *) (uintptr_t) ev->tag;

    if (call->dropped) {
        return;                    /* mst_serve_slot_drop() frees it */
    }

    if (ev->type != MST_EVENT_TOKEN || !call->token) {
        s->slots[call->slot].urgent = 1;
    }

    switch (ev->type) {

    case MST_EVENT_ADMIT:
        mst_serve_begun(s);
        mst_stat_observe(&s->shm->stat.queue, mst_time_ns() - call->last_ns,
                         1);
        mst_outbox_admit(&call->out, ev->cached);
        break;

    case MST_EVENT_PROMPT:
    case MST_EVENT_TOKEN:

        if (call->lost) {
            return;
        }

        if (mst_outbox_token(&call->out, ev->sampled) != MST_OK) {
            call->lost = 1;
            mst_list_insert_tail(&s->doomed, &call->doomed);
            return;
        }

        if (ev->type == MST_EVENT_TOKEN) {
            mst_serve_call_time(s, call);
        }

        break;

    case MST_EVENT_REFUSE:
        mst_place_give(s->shm, &s->conf.map->slots[call->slot],
                       call->place_tokens);
        mst_outbox_refuse(&call->out, ev->refuse, ev->text);
        break;

    case MST_EVENT_DONE:
        mst_place_give(s->shm, &s->conf.map->slots[call->slot],
                       call->place_tokens);
        mst_outbox_done(&call->out, call->lost ? MST_FINISH_ERROR
                                               : ev->finish, ev->usage);

        if (ev->finish == MST_FINISH_CANCELLED) {
            s->cancelled++;
        }

        break;
    }

    mst_serve_call_dirty(s, call);
}


/* the tokens of a step come at one time: the clock is asked once */

static void
mst_serve_call_time(mst_serve_t *s, mst_serve_call_t *call)
{
    if (s->token_ns == 0) {
        s->token_ns = mst_time_ns();
    }

    if (call->token) {
        mst_stat_observe(&s->shm->stat.token, s->token_ns - call->last_ns, 1);
    }

    call->token = 1;
    call->last_ns = s->token_ns;
}


static void
mst_serve_call_dirty(mst_serve_t *s, mst_serve_call_t *call)
{
    if (mst_list_empty(&call->dirty)) {
        mst_list_insert_tail(&s->slots[call->slot].dirty, &call->dirty);
    }
}


void
mst_serve_call_doom(mst_serve_t *s, uint64_t now_ns)
{
    mst_serve_call_t  *call;

    while (!mst_list_empty(&s->doomed)) {
        call = mst_list_data(s->doomed.next, mst_serve_call_t, doomed);

        mst_list_remove(&call->doomed);

        if (!call->out.ended) {
            mst_log(s->conf.log, MST_LOG_ALERT, "no memory for the tokens of "
                    "a request of slot %u", call->slot);
            mst_engine_cancel(s->engine, (uintptr_t) call, now_ns);
        }
    }
}


void
mst_serve_call_flush(mst_serve_t *s, uint64_t now_ns)
{
    int                kept;
    uint32_t           i, published;
    mst_serve_slot_t  *slot;

    s->blocked = 0;
    kept = 0;

    for (i = 0; i < s->conf.map->n_slots; i++) {
        slot = &s->slots[i];

        if (!mst_list_empty(&slot->dirty)) {
            published = mst_serve_call_flush_slot(s, slot);

            slot->blocked = !mst_list_empty(&slot->dirty);
            slot->choked &= slot->blocked;

            if (published != 0) {
                s->retry_ns = MST_SERVE_RETRY;
                slot->kept = 1;
            }
        }

        if (slot->kept && (slot->urgent || slot->blocked || !s->gather
                           || now_ns - slot->rung_ns >= s->gather_ns))
        {
            mst_serve_call_wake(s, i);
        }

        kept |= slot->kept;
    }

    s->kept_ns = !kept ? 0 : s->kept_ns ? s->kept_ns : now_ns;
    mst_serve_call_next(s);
}


static void
mst_serve_call_wake(mst_serve_t *s, uint32_t i)
{
    uint32_t           core;
    mst_serve_slot_t  *slot;

    slot = &s->slots[i];
    slot->kept = 0;
    slot->urgent = 0;
    core = mst_shm_wake(&s->conf.map->slots[i].sleeping);
    slot->ring = core ? core : slot->ring;
}


void
mst_serve_call_late(mst_serve_t *s)
{
    uint32_t  i;

    s->kept_ns = 0;

    for (i = 0; i < s->conf.map->n_slots; i++) {
        if (s->slots[i].kept) {
            mst_serve_call_wake(s, i);
        }
    }

    mst_serve_call_next(s);
}


/* first who takes this thread's own core: it has nothing in hand yet */

static void
mst_serve_call_next(mst_serve_t *s)
{
    uint32_t  core, i;

    s->ring = 0;
    core = mst_shm_core();

    for (i = 0; i < s->conf.map->n_slots; i++) {
        if (s->slots[i].ring && s->ring != core) {
            s->ring = s->slots[i].ring;
            s->next = i;
        }
    }
}


void
mst_serve_call_ring(mst_serve_t *s)
{
    s->slots[s->next].ring = 0;
    s->slots[s->next].rung_ns = mst_time_ns();
    mst_serve_call_notify(s, s->next);
    mst_serve_call_next(s);
}


void
mst_serve_call_choke(mst_serve_t *s, uint64_t now_ns)
{
    uint32_t           i;
    mst_serve_slot_t  *slot;

    for (i = 0; i < s->conf.map->n_slots; i++) {
        slot = &s->slots[i];

        if (slot->blocked && !slot->choked
            && mst_serve_call_unread(slot) > s->max_unread)
        {
            mst_serve_slot_choke(s, i, now_ns);
        }
    }
}


static uint32_t
mst_serve_call_flush_slot(mst_serve_t *s, mst_serve_slot_t *slot)
{
    uint32_t           published;
    mst_serve_call_t  *call;

    published = 0;

    while (!mst_list_empty(&slot->dirty)) {
        call = mst_list_data(slot->dirty.next, mst_serve_call_t, dirty);

        if (mst_outbox_flush(&call->out, &slot->rsp, &published) != MST_OK) {

            /* the ring is full; this one goes on first */

            s->blocked = 1;
            break;
        }

        mst_list_remove(&call->dirty);

        if (call->out.ended) {
            mst_serve_call_free(s, call);
        }
    }

    return published;
}


/* bytes that wait for room in the slot's ring */

static uint64_t
mst_serve_call_unread(const mst_serve_slot_t *slot)
{
    uint64_t           n;
    const mst_list_t  *x;

    n = 0;

    for (x = slot->dirty.next; x != &slot->dirty; x = x->next) {
        n += sizeof(mst_serve_call_t)
             + mst_list_data(x, mst_serve_call_t, dirty)->out.wait.size;
    }

    return n;
}


void
mst_serve_call_notify(mst_serve_t *s, uint32_t i)
{
    uint64_t  one;

    one = 1;

    /* it can fail only where the counter is full: then it wakes anyway */

    (void) !write(s->conf.slot_fd + (int) i, &one, sizeof(one));
}
