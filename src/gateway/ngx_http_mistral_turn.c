
/*
 * Long work on requests, in turns: each turn of the event loop takes one
 * request's for about 1.5 ms, however many there are, so that a stream of this
 * worker never waits longer for them.  Workers only.
 */

#include "gateway/ngx_http_mistral_request.h"

#include "base/mst_time.h"


static void ngx_http_mistral_turn_handler(ngx_event_t *ev);


/* of this worker: the requests, each in its turn */
static ngx_queue_t  ngx_http_mistral_turn_queue;
static ngx_event_t  ngx_http_mistral_turn_event;


void
ngx_http_mistral_take_turn(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_turn_pt handler)
{
    ngx_event_t  *ev;

    ev = &ngx_http_mistral_turn_event;

    if (ev->handler == NULL) {
        ngx_queue_init(&ngx_http_mistral_turn_queue);
        ev->handler = ngx_http_mistral_turn_handler;
        ev->log = ngx_cycle->log;
    }

    ngx_queue_insert_tail(&ngx_http_mistral_turn_queue, &ctx->queue);
    ctx->turn = handler;
    ctx->turning = 1;

    ngx_post_event(ev, &ngx_posted_next_events);
}


static void
ngx_http_mistral_turn_handler(ngx_event_t *ev)
{
    ngx_queue_t             *q;
    ngx_connection_t        *c;
    ngx_http_mistral_ctx_t  *ctx;

    if (ngx_queue_empty(&ngx_http_mistral_turn_queue)) {
        return;
    }

    q = ngx_queue_head(&ngx_http_mistral_turn_queue);
    ngx_queue_remove(q);

    if (!ngx_queue_empty(&ngx_http_mistral_turn_queue)) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }

    ctx = ngx_queue_data(q, ngx_http_mistral_ctx_t, queue);
    ctx->turning = 0;
    ctx->turns++;

    c = ctx->request->connection;
    ngx_http_set_log_request(c->log, ctx->request);

    ctx->turn(ctx, mst_time_ns() + NGX_HTTP_MISTRAL_SLICE);

    ngx_http_run_posted_requests(c);
}
