
/*
 * Calls over a link: places and submits out, records in; what is wanted of a
 * call in flight goes out in wish.c.
 *
 * A call is in the table from its SUBMIT to its DONE or REFUSE, to its
 * "lost" or to its end by the owner, whatever comes first.  Its handlers may
 * end any call: so nothing of a call is touched after a handler of it ran,
 * and lists are walked from their head only.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_link.h"

#include "base/mst_time.h"
#include "shm/mst_place.h"


#define NGX_HTTP_MISTRAL_ENTRIES  64           /* at first */
#define NGX_HTTP_MISTRAL_RECORDS  4096         /* of one pass */


static ngx_int_t ngx_http_mistral_call_drain(ngx_http_mistral_link_t *link);
static ngx_int_t ngx_http_mistral_call_record(ngx_http_mistral_link_t *link,
    const mst_record_t *shared, uint32_t len);
static void ngx_http_mistral_call_flush(ngx_http_mistral_link_t *link);
static void ngx_http_mistral_call_epoch(ngx_http_mistral_link_t *link,
    uint32_t epoch);
static ngx_int_t ngx_http_mistral_call_insert(ngx_http_mistral_link_t *link,
    ngx_http_mistral_call_t *call);
static ngx_int_t ngx_http_mistral_call_grow(ngx_http_mistral_link_t *link);
static ngx_http_mistral_call_t *ngx_http_mistral_call_find(
    ngx_http_mistral_link_t *link, uint64_t id);
static void ngx_http_mistral_call_remove(ngx_http_mistral_link_t *link,
    ngx_http_mistral_call_t *call);
static void ngx_http_mistral_call_dirty(ngx_http_mistral_link_t *link,
    ngx_http_mistral_call_t *call);


ngx_int_t
ngx_http_mistral_call_init(ngx_http_mistral_link_t *link, ngx_pool_t *pool)
{
    ngx_queue_init(&link->calls);
    ngx_queue_init(&link->dirty);
    ngx_queue_init(&link->controls);

    return ngx_array_init(&link->cancels, pool, 8,
                          sizeof(ngx_http_mistral_cancel_t));
}


ngx_int_t
ngx_http_mistral_link_place(ngx_http_mistral_call_t *call, uint32_t tokens,
    ngx_uint_t waiting, uint64_t max_tokens)
{
    uint64_t                  max;
    mst_shm_t                *shm;
    ngx_http_mistral_link_t  *link;

    if (call->model->engine == NULL || call->place || call->inflight) {
        return NGX_ERROR;
    }

    link = call->model->engine->link;

    if (ngx_http_mistral_link_look(link) != NGX_HTTP_MISTRAL_READY) {
        return NGX_ERROR;
    }

    shm = link->engine->map.shm;

    max = (uint64_t) atomic_load(&shm->max_batch) + waiting;
    max = ngx_min(max, MST_PLACE_MAX_REQUESTS);

    if (mst_place_take(shm, link->slot, tokens, (uint32_t) max, max_tokens)
        != MST_OK)
    {
        return NGX_BUSY;
    }

    ngx_http_mistral_link_end(call);           /* of the link before */

    call->link = link;
    link->n_refs++;

    call->place = 1;
    call->place_tokens = tokens;

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_link_submit(ngx_http_mistral_call_t *call,
    const mst_rec_submit_t *s, const uint32_t *prompt,
    const uint32_t *stop_ids, const mst_bias_t *bias)
{
    u_char                   *p;
    uint32_t                  len, epoch;
    mst_record_t             *rec;
    mst_rec_submit_t         *submit;
    ngx_http_mistral_link_t  *link;

    link = call->link;

    if (link == NULL || !call->place || call->inflight
        || link->index == -1)
    {
        return NGX_ERROR;
    }

    /* in this order: an engine that dies between is another epoch */

    epoch = atomic_load(&link->engine->map.shm->engine_epoch);

    if (ngx_http_mistral_link_look(link) != NGX_HTTP_MISTRAL_READY) {
        return NGX_ERROR;
    }

    len = mst_record_submit_len(s->n_prompt, s->n_stop, s->n_bias);

    if (len == 0 || len > link->req.size / 2) {
        return NGX_ERROR;
    }

    rec = mst_ring_reserve(&link->req, len);
    if (rec == NULL) {
        return NGX_BUSY;
    }

    if (ngx_http_mistral_call_insert(link, call) != NGX_OK) {
        return NGX_ERROR;
    }

    call->engine_epoch = epoch;
    call->pace = s->claim.pace;
    call->paused = 0;
    call->place = 0;                           /* the engine's from here */

    submit = (mst_rec_submit_t *) rec;
    *submit = *s;

    submit->head.len = len;
    submit->head.type = MST_REC_SUBMIT;
    submit->head.unused = 0;
    submit->head.id = call->id;
    submit->head.slot_epoch = link->slot_epoch;
    submit->head.engine_epoch = epoch;
    submit->place_tokens = call->place_tokens;

    p = (u_char *) &submit[1];
    p = ngx_cpymem(p, prompt, s->n_prompt * sizeof(uint32_t));

    if (s->n_stop) {
        p = ngx_cpymem(p, stop_ids, s->n_stop * sizeof(uint32_t));
    }

    if (s->n_bias) {
        ngx_memcpy(p, bias, s->n_bias * sizeof(mst_bias_t));
    }

    mst_ring_publish(&link->req, rec);

    ngx_http_mistral_link_wake(link);
    ngx_http_mistral_watch_timer(link);

    return NGX_OK;
}


void
ngx_http_mistral_link_end(ngx_http_mistral_call_t *call)
{
    ngx_http_mistral_link_t  *link;

    link = call->link;

    if (link == NULL) {
        return;
    }

    if (call->queued) {
        call->queued = 0;
        ngx_queue_remove(&call->dirty);
    }

    if (call->inflight) {
        ngx_http_mistral_call_remove(link, call);
        ngx_http_mistral_wish_cancel(link, call->id, call->engine_epoch);
    }

    if (call->place) {
        call->place = 0;

        /* without a slot the engine has taken it back with the slot */

        if (link->index != -1) {
            mst_place_untake(link->engine->map.shm, link->slot,
                             call->place_tokens);
        }
    }

    call->link = NULL;

    if (--link->n_refs == 0 && link->engine == NULL) {
        ngx_http_mistral_link_free(link);
    }
}


/*
 * The epoch is read first: what an engine published before it died is still
 * delivered, then its calls are lost.
 */

ngx_int_t
ngx_http_mistral_call_pass(ngx_http_mistral_link_t *link)
{
    uint32_t   epoch;
    ngx_int_t  rc;

    if (link->index == -1) {
        return NGX_OK;
    }

    epoch = atomic_load(&link->engine->map.shm->engine_epoch);

    rc = ngx_http_mistral_call_drain(link);

    if (rc == NGX_ERROR) {
        ngx_http_mistral_call_lost(link, 1);
    }

    if (epoch != link->engine_epoch) {
        ngx_http_mistral_call_epoch(link, epoch);
        rc = NGX_AGAIN;                        /* maybe a ring to read again */
    }

    ngx_http_mistral_call_flush(link);
    ngx_http_mistral_wish_retry(link);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    mst_shm_sleep(&link->slot->sleeping);

    if (rc == NGX_ERROR) {
        return NGX_OK;
    }

    return atomic_load(&link->rsp.pos->tail) == link->rsp.own ? NGX_OK
                                                              : NGX_AGAIN;
}


/* NGX_OK: empty, NGX_AGAIN: enough for now, NGX_ERROR: broken */

static ngx_int_t
ngx_http_mistral_call_drain(ngx_http_mistral_link_t *link)
{
    int                  rc;
    uint32_t             len;
    ngx_uint_t           n;
    const mst_record_t  *rec;

    if (link->broken) {
        return NGX_ERROR;
    }

    for (n = 0; n < NGX_HTTP_MISTRAL_RECORDS; n++) {

        rc = mst_ring_peek(&link->rsp, &rec, &len);

        if (rc == MST_AGAIN) {
            return NGX_OK;
        }

        if (rc != MST_OK) {
            ngx_http_mistral_link_broken(link, "the ring is inconsistent");
            return NGX_ERROR;
        }

        if (ngx_http_mistral_call_record(link, rec, len) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_mistral_call_record(ngx_http_mistral_link_t *link,
    const mst_record_t *shared, uint32_t len)
{
    mst_err_t                 err;
    mst_record_t             *rec;
    ngx_http_mistral_call_t  *call;

    if (len > link->copy_size) {
        ngx_http_mistral_link_broken(link, "it is too long");
        return NGX_ERROR;
    }

    /* only the copy is looked at: the engine may write while we read */

    rec = link->copy;
    mst_ring_copy(rec, shared, len);
    mst_ring_consume(&link->rsp, len);

    if (rec->slot_epoch != link->slot_epoch) {
        return NGX_OK;                         /* for our predecessor */
    }

    err.text[0] = '\0';

    if (mst_record_check(rec, len, &err) != MST_OK
        || mst_record_to_engine(rec))
    {
        ngx_http_mistral_link_broken(link, err.text[0] ? err.text
                                                       : "it is a worker's");
        return NGX_ERROR;
    }

    call = ngx_http_mistral_call_find(link, rec->id);

    if (call == NULL || call->engine_epoch != rec->engine_epoch) {
        return NGX_OK;                         /* cancelled meanwhile */
    }

    if (rec->type == MST_REC_DONE || rec->type == MST_REC_REFUSE) {
        ngx_http_mistral_call_remove(link, call);
    }

    ngx_http_mistral_call_dirty(link, call);

    call->record(call, rec);

    return NGX_OK;
}


static void
ngx_http_mistral_call_flush(ngx_http_mistral_link_t *link)
{
    ngx_queue_t              *q;
    ngx_http_mistral_call_t  *call;

    while (!ngx_queue_empty(&link->dirty)) {

        q = ngx_queue_head(&link->dirty);
        ngx_queue_remove(q);

        call = ngx_queue_data(q, ngx_http_mistral_call_t, dirty);
        call->queued = 0;

        call->pass(call);
    }
}


/* another engine serves this segment now, or will soon */

static void
ngx_http_mistral_call_epoch(ngx_http_mistral_link_t *link, uint32_t epoch)
{
    uint64_t  tail;

    link->engine_epoch = epoch;
    link->hung = 0;

    if (link->broken && link->broken_epoch != epoch) {

        /* whatever stands in the ring is the broken one's */

        tail = atomic_load(&link->rsp.pos->tail) & ~(uint64_t) 7;

        link->rsp.own = tail;
        atomic_store(&link->rsp.pos->head, tail);
        link->broken = 0;
    }

    ngx_http_mistral_call_lost(link, 0);
}


void
ngx_http_mistral_call_lost(ngx_http_mistral_link_t *link, ngx_uint_t all)
{
    ngx_queue_t              *q, *next, lost;
    ngx_http_mistral_call_t  *call;

    ngx_queue_init(&lost);

    for (q = ngx_queue_head(&link->calls);
         q != ngx_queue_sentinel(&link->calls);
         q = next)
    {
        next = ngx_queue_next(q);
        call = ngx_queue_data(q, ngx_http_mistral_call_t, queue);

        if (all || call->engine_epoch != link->engine_epoch) {
            ngx_queue_remove(q);
            ngx_queue_insert_tail(&lost, q);
        }
    }

    while (!ngx_queue_empty(&lost)) {

        q = ngx_queue_head(&lost);
        call = ngx_queue_data(q, ngx_http_mistral_call_t, queue);

        ngx_http_mistral_call_remove(link, call);

        /* one that only hangs may come back: it shall not go on for nobody */

        ngx_http_mistral_wish_cancel(link, call->id, call->engine_epoch);

        ngx_http_mistral_call_dirty(link, call);

        call->cut = link->cut;
        call->lost(call);
    }

    ngx_http_mistral_call_flush(link);
}


ngx_uint_t
ngx_http_mistral_call_busy(ngx_http_mistral_link_t *link)
{
    return !ngx_queue_empty(&link->calls) || link->cancels.nelts != 0;
}


static ngx_int_t
ngx_http_mistral_call_insert(ngx_http_mistral_link_t *link,
    ngx_http_mistral_call_t *call)
{
    uint32_t                   i;
    ngx_http_mistral_entry_t  *entry;

    if (link->free == link->n_entries
        && ngx_http_mistral_call_grow(link) != NGX_OK)
    {
        return NGX_ERROR;
    }

    i = link->free;
    entry = &link->entries[i];

    link->free = entry->next;
    entry->call = call;

    call->id = (uint64_t) entry->generation << 32 | i;
    call->inflight = 1;

    ngx_queue_insert_tail(&link->calls, &call->queue);

    return NGX_OK;
}


/* twice as many entries; they are never given back */

static ngx_int_t
ngx_http_mistral_call_grow(ngx_http_mistral_link_t *link)
{
    uint32_t                   i, n;
    ngx_http_mistral_entry_t  *entries;

    n = link->n_entries ? 2 * link->n_entries : NGX_HTTP_MISTRAL_ENTRIES;

    if (n > MST_PLACE_MAX_REQUESTS + 1) {
        return NGX_ERROR;
    }

    entries = ngx_alloc(n * sizeof(ngx_http_mistral_entry_t),
                        link->timer.log);
    if (entries == NULL) {
        return NGX_ERROR;
    }

    if (link->n_entries) {
        ngx_memcpy(entries, link->entries,
                   link->n_entries * sizeof(ngx_http_mistral_entry_t));
        ngx_free(link->entries);
    }

    for (i = link->n_entries; i < n; i++) {
        entries[i].call = NULL;
        entries[i].generation = 1;
        entries[i].next = i + 1;
    }

    link->free = link->n_entries;
    link->n_entries = n;
    link->entries = entries;

    return NGX_OK;
}


static ngx_http_mistral_call_t *
ngx_http_mistral_call_find(ngx_http_mistral_link_t *link, uint64_t id)
{
    uint32_t  i;

    i = (uint32_t) id;

    if (i >= link->n_entries
        || link->entries[i].generation != (uint32_t) (id >> 32))
    {
        return NULL;
    }

    return link->entries[i].call;
}


static void
ngx_http_mistral_call_remove(ngx_http_mistral_link_t *link,
    ngx_http_mistral_call_t *call)
{
    uint32_t  i;

    i = (uint32_t) call->id;

    link->entries[i].call = NULL;
    link->entries[i].generation++;
    link->entries[i].next = link->free;
    link->free = i;

    ngx_queue_remove(&call->queue);
    call->inflight = 0;

    if (call->new_pace || call->new_pause) {
        call->new_pace = 0;
        call->new_pause = 0;
        ngx_queue_remove(&call->control);
    }
}


static void
ngx_http_mistral_call_dirty(ngx_http_mistral_link_t *link,
    ngx_http_mistral_call_t *call)
{
    if (!call->queued) {
        call->queued = 1;
        ngx_queue_insert_tail(&link->dirty, &call->dirty);
    }
}
