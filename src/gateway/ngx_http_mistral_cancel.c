
/*
 * Requests that an operator ends: see ngx_http_mistral_cancel.h.
 *
 * A worker knows its requests from the time that their tokens are counted
 * until they are settled; before, they cost nothing, after, they are done.
 * A writer that dies with half an entry leaves one that nobody reads until
 * its time is over.  Workers only.
 */

#include "gateway/ngx_http_mistral_cancel.h"
#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_link.h"
#include "gateway/ngx_http_mistral_metrics.h"
#include "gateway/ngx_http_mistral_policy.h"


#define NGX_HTTP_MISTRAL_GONE  410


static ngx_int_t ngx_http_mistral_cancel_counted(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_cancel_settle(ngx_http_mistral_ctx_t *ctx);
static ngx_uint_t ngx_http_mistral_cancel_take(
    ngx_http_mistral_order_t *order);
static void ngx_http_mistral_cancel_knock(ngx_http_mistral_main_conf_t *mmcf);
static ngx_http_mistral_ctx_t *ngx_http_mistral_cancel_find(const char *id);
static void ngx_http_mistral_cancel_end(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_cancelled(ngx_http_mistral_ctx_t *ctx);


const ngx_http_mistral_policy_t  ngx_http_mistral_cancel_policy = {
    .counted = ngx_http_mistral_cancel_counted,
    .settle = ngx_http_mistral_cancel_settle
};


/* of this worker */

static ngx_queue_t  ngx_http_mistral_cancel_live;      /* _ctx_t.live */
static uint64_t     ngx_http_mistral_cancel_published;
static uint64_t     ngx_http_mistral_cancel_seen[NGX_HTTP_MISTRAL_ORDERS];


static ngx_int_t
ngx_http_mistral_cancel_counted(ngx_http_mistral_ctx_t *ctx)
{
    if (ngx_http_mistral_cancel_live.next == NULL) {
        ngx_queue_init(&ngx_http_mistral_cancel_live);
    }

    ngx_queue_insert_tail(&ngx_http_mistral_cancel_live, &ctx->live);

    return NGX_OK;
}


static void
ngx_http_mistral_cancel_settle(ngx_http_mistral_ctx_t *ctx)
{
    ngx_queue_remove(&ctx->live);
}


uint64_t
ngx_http_mistral_cancel_order(ngx_http_mistral_main_conf_t *mmcf,
    const char *id)
{
    uint64_t                   n;
    ngx_uint_t                 tries;
    ngx_http_mistral_board_t  *board;
    ngx_http_mistral_order_t  *order;

    board = &mmcf->table->board;
    tries = 0;

    do {
        if (tries++ == NGX_HTTP_MISTRAL_ORDERS) {
            return 0;
        }

        n = atomic_fetch_add(&board->next, 1) + 1;
        order = &board->orders[n % NGX_HTTP_MISTRAL_ORDERS];

    } while (!ngx_http_mistral_cancel_take(order));

    atomic_store(&order->number, 0);
    ngx_cpystrn((u_char *) order->id, (u_char *) id, sizeof(order->id));
    atomic_store(&order->number, n);

    (void) atomic_fetch_add(&board->published, 1);

    ngx_http_mistral_cancel_knock(mmcf);

    return n;
}


/* one writer at a time, and not while an earlier one waits */

static ngx_uint_t
ngx_http_mistral_cancel_take(ngx_http_mistral_order_t *order)
{
    uint64_t  now, taken;

    now = (uint64_t) ngx_current_msec + 1;
    taken = atomic_load(&order->taken);

    if (taken != 0 && now - taken < NGX_HTTP_MISTRAL_ORDER_LIFE) {
        return 0;
    }

    return atomic_compare_exchange_strong(&order->taken, &taken, now);
}


/* workers of older engines look by themselves, once a second */

static void
ngx_http_mistral_cancel_knock(ngx_http_mistral_main_conf_t *mmcf)
{
    ngx_uint_t                  i;
    ngx_http_mistral_model_t  **models;

    models = mmcf->models.elts;

    for (i = 0; i < mmcf->models.nelts; i++) {
        ngx_http_mistral_link_order(models[i],
                                    NGX_HTTP_MISTRAL_ORDER_KNOCK);
    }
}


ngx_uint_t
ngx_http_mistral_cancel_done(ngx_http_mistral_main_conf_t *mmcf,
    uint64_t number)
{
    ngx_http_mistral_order_t  *order;

    order = &mmcf->table->board.orders[number % NGX_HTTP_MISTRAL_ORDERS];

    return atomic_load(&order->found) == number;
}


void
ngx_http_mistral_cancel_look(void)
{
    char                           id[NGX_HTTP_MISTRAL_ORDER_ID];
    uint64_t                       n;
    ngx_uint_t                     i;
    ngx_http_mistral_ctx_t        *ctx;
    ngx_http_mistral_order_t      *order;
    ngx_http_mistral_main_conf_t  *mmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                               ngx_http_mistral_module);

    if (mmcf == NULL || mmcf->table == NULL) {
        return;
    }

    n = atomic_load(&mmcf->table->board.published);

    if (n == ngx_http_mistral_cancel_published) {
        return;
    }

    ngx_http_mistral_cancel_published = n;

    for (i = 0; i < NGX_HTTP_MISTRAL_ORDERS; i++) {
        order = &mmcf->table->board.orders[i];
        n = atomic_load(&order->number);

        if (n == 0 || n == ngx_http_mistral_cancel_seen[i]) {
            continue;
        }

        ngx_memcpy(id, order->id, sizeof(id));
        id[sizeof(id) - 1] = '\0';

        if (atomic_load(&order->number) != n) {
            continue;                          /* it is another one now */
        }

        ngx_http_mistral_cancel_seen[i] = n;

        ctx = ngx_http_mistral_cancel_find(id);

        if (ctx != NULL) {
            atomic_store(&order->found, n);
            ngx_http_mistral_cancel_end(ctx);
        }
    }
}


static ngx_http_mistral_ctx_t *
ngx_http_mistral_cancel_find(const char *id)
{
    size_t                   len;
    ngx_queue_t             *q;
    ngx_http_mistral_ctx_t  *ctx;

    if (ngx_http_mistral_cancel_live.next == NULL) {
        return NULL;
    }

    len = ngx_strlen(id);

    for (q = ngx_queue_head(&ngx_http_mistral_cancel_live);
         q != ngx_queue_sentinel(&ngx_http_mistral_cancel_live);
         q = ngx_queue_next(q))
    {
        ctx = ngx_queue_data(q, ngx_http_mistral_ctx_t, live);

        if (ctx->id.len == len && ngx_memcmp(ctx->id.data, id, len) == 0) {
            return ctx;
        }
    }

    return NULL;
}


static void
ngx_http_mistral_cancel_end(ngx_http_mistral_ctx_t *ctx)
{
    ngx_connection_t  *c;

    if (ctx->unwinding) {
        return;                                /* its client was faster */
    }

    c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    ngx_log_error(NGX_LOG_NOTICE, c->log, 0,
                  "mistral: request \"%V\" cancelled by mistral_control",
                  &ctx->id);

    if (ngx_http_mistral_unwind(ctx, ngx_http_mistral_cancelled) != NGX_OK) {
        ngx_http_mistral_cancelled(ctx);
        ngx_http_run_posted_requests(c);
    }
}


/* no client shall try it again: neither 409 nor any of 5xx */

static void
ngx_http_mistral_cancelled(ngx_http_mistral_ctx_t *ctx)
{
    ctx->aborted = "error";

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_MISTRAL_GONE, "cancelled",
                             "", "The request was cancelled by the "
                             "operator.");

    ngx_http_mistral_fail(ctx);
}
