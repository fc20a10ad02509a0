
/*
 * What a worker wants of a call in flight: that it ends, pauses, goes on, or
 * keeps a pace.  What finds the ring full waits and is sent later: an answer
 * without a reader costs steps.  A call's pace and pause wait as wishes, of
 * which the newest counts.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_link.h"


static void ngx_http_mistral_wish_new(ngx_http_mistral_call_t *call,
    ngx_uint_t pace, ngx_uint_t pause);
static void ngx_http_mistral_wish_retry_all(ngx_http_mistral_link_t *link);
static ngx_int_t ngx_http_mistral_wish_send_call(
    ngx_http_mistral_link_t *link, ngx_http_mistral_call_t *call);
static ngx_int_t ngx_http_mistral_wish_send(ngx_http_mistral_link_t *link,
    uint16_t type, uint64_t id, uint32_t engine_epoch, uint32_t pace);


void
ngx_http_mistral_link_pace(ngx_http_mistral_call_t *call, uint32_t rate)
{
    if (call->inflight && call->pace != rate) {
        call->pace = rate;
        ngx_http_mistral_wish_new(call, 1, 0);
    }
}


void
ngx_http_mistral_link_pause(ngx_http_mistral_call_t *call, ngx_uint_t on)
{
    on = on ? 1 : 0;

    if (call->inflight && call->paused != on) {
        call->paused = on;
        ngx_http_mistral_wish_new(call, 0, 1);
    }
}


void
ngx_http_mistral_link_cancel(ngx_http_mistral_call_t *call)
{
    if (call->inflight) {
        ngx_http_mistral_wish_cancel(call->link, call->id,
                                     call->engine_epoch);
    }
}


/* a CANCEL that finds no room waits: an answer without a reader costs steps */

void
ngx_http_mistral_wish_cancel(ngx_http_mistral_link_t *link, uint64_t id,
    uint32_t engine_epoch)
{
    ngx_http_mistral_cancel_t  *cancel;

    if (link->index == -1 || link->gone) {
        return;
    }

    if (ngx_http_mistral_wish_send(link, MST_REC_CANCEL, id, engine_epoch, 0)
        == NGX_OK)
    {
        return;
    }

    cancel = ngx_array_push(&link->cancels);

    if (cancel != NULL) {
        cancel->id = id;
        cancel->engine_epoch = engine_epoch;
        ngx_http_mistral_watch_timer(link);
    }
}


/* a call with a new wish is in the list until all of it is sent */

static void
ngx_http_mistral_wish_new(ngx_http_mistral_call_t *call, ngx_uint_t pace,
    ngx_uint_t pause)
{
    ngx_http_mistral_link_t  *link;

    link = call->link;

    if (link->index == -1 || link->gone) {
        return;
    }

    if (!call->new_pace && !call->new_pause) {
        ngx_queue_insert_tail(&link->controls, &call->control);
    }

    call->new_pace |= pace;
    call->new_pause |= pause;

    ngx_http_mistral_wish_retry_all(link);
}


static void
ngx_http_mistral_wish_retry_all(ngx_http_mistral_link_t *link)
{
    ngx_queue_t              *q;
    ngx_http_mistral_call_t  *call;

    while (!ngx_queue_empty(&link->controls)) {

        q = ngx_queue_head(&link->controls);
        call = ngx_queue_data(q, ngx_http_mistral_call_t, control);

        if (ngx_http_mistral_wish_send_call(link, call) != NGX_OK) {
            ngx_http_mistral_watch_timer(link);
            return;
        }

        ngx_queue_remove(q);
    }
}


static ngx_int_t
ngx_http_mistral_wish_send_call(ngx_http_mistral_link_t *link,
    ngx_http_mistral_call_t *call)
{
    if (call->new_pace) {
        if (ngx_http_mistral_wish_send(link, MST_REC_PACE, call->id,
                                       call->engine_epoch, call->pace)
            != NGX_OK)
        {
            return NGX_BUSY;
        }

        call->new_pace = 0;
    }

    if (call->new_pause) {
        if (ngx_http_mistral_wish_send(link, call->paused ? MST_REC_PAUSE
                                                          : MST_REC_RESUME,
                                       call->id, call->engine_epoch, 0)
            != NGX_OK)
        {
            return NGX_BUSY;
        }

        call->new_pause = 0;
    }

    return NGX_OK;
}


void
ngx_http_mistral_wish_retry(ngx_http_mistral_link_t *link)
{
    ngx_http_mistral_cancel_t  *cancel;

    ngx_http_mistral_wish_retry_all(link);

    while (link->cancels.nelts) {

        cancel = link->cancels.elts;
        cancel += link->cancels.nelts - 1;

        if (ngx_http_mistral_wish_send(link, MST_REC_CANCEL, cancel->id,
                                       cancel->engine_epoch, 0)
            != NGX_OK)
        {
            return;
        }

        link->cancels.nelts--;
    }
}


static ngx_int_t
ngx_http_mistral_wish_send(ngx_http_mistral_link_t *link, uint16_t type,
    uint64_t id, uint32_t engine_epoch, uint32_t pace)
{
    uint32_t         len;
    mst_record_t    *rec;
    mst_rec_pace_t  *p;

    if (engine_epoch != atomic_load(&link->engine->map.shm->engine_epoch)) {
        return NGX_OK;                         /* ended with its engine */
    }

    len = type == MST_REC_PACE ? sizeof(mst_rec_pace_t)
                               : sizeof(mst_record_t);

    rec = mst_ring_reserve(&link->req, len);
    if (rec == NULL) {
        return NGX_BUSY;
    }

    rec->type = type;
    rec->id = id;
    rec->slot_epoch = link->slot_epoch;
    rec->engine_epoch = engine_epoch;

    if (type == MST_REC_PACE) {
        p = (mst_rec_pace_t *) rec;
        p->pace = pace;
        p->unused = 0;
    }

    mst_ring_publish(&link->req, rec);
    ngx_http_mistral_link_wake(link);

    return NGX_OK;
}
