
/*
 * mistral_engine_wait: a request that comes while its engine loads or is
 * started again is held, not refused.
 *
 * It was read, allowed, encoded and counted by the limits; it has no queue
 * place and nothing of it is sent.  When the engine is ready it goes on from
 * the queue place, those of a worker in the order of their arrival; when the
 * time is over, or the engine will not come, it is refused as it would have
 * been at once.
 *
 * A worker's link has a queue of them.  The engine's eventfd says when its
 * state has changed; what no eventfd tells of (mistral_control in another
 * worker, an engine that hung and goes on) a timer finds out, which runs
 * while somebody waits.  How many a worker holds stands in its slot, so that
 * all workers together hold no more than "mistral_queue" lets wait, and a
 * dead worker's are nobody's.  Workers only, but for the directive.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_metrics.h"
#include "gateway/ngx_http_mistral_pressure.h"
#include "gateway/ngx_http_mistral_route.h"
#include "gateway/ngx_http_mistral_wait.h"

#include "shm/mst_slot.h"


#define NGX_HTTP_MISTRAL_WAIT_TICK   100       /* ms */
#define NGX_HTTP_MISTRAL_WAIT_START  64        /* before others get a turn */


typedef struct {
    ngx_msec_t  time;                          /* 0 = off */
} ngx_http_mistral_wait_loc_conf_t;


static void ngx_http_mistral_wait_publish(ngx_http_mistral_link_t *link,
    uint32_t held);
static void ngx_http_mistral_wait_handler(ngx_event_t *ev);
static ngx_uint_t ngx_http_mistral_wait_look(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_wait_end(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_wait_arm(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_wait_timeout(ngx_event_t *ev);
static ngx_msec_t ngx_http_mistral_wait_left(ngx_http_mistral_ctx_t *ctx);
static void *ngx_http_mistral_wait_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_wait_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static ngx_int_t ngx_http_mistral_wait_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_mistral_wait_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


static ngx_command_t  ngx_http_mistral_wait_commands[] = {

    { ngx_string("mistral_engine_wait"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_wait_loc_conf_t, time),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_wait_module_ctx = {
    ngx_http_mistral_wait_add_variables,   /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_wait_create_loc_conf, /* create location configuration */
    ngx_http_mistral_wait_merge_loc_conf   /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_wait_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_wait_module_ctx,     /* module context */
    ngx_http_mistral_wait_commands,        /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_http_variable_t  ngx_http_mistral_wait_vars[] = {

    { ngx_string("mistral_engine_wait_time"), NULL,
      ngx_http_mistral_wait_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


/* another model that takes it at once is better than to wait */

ngx_uint_t
ngx_http_mistral_wait_may(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_wait_loc_conf_t  *wlcf;

    wlcf = ctx->loc_conf[ngx_http_mistral_wait_module.ctx_index];

    return wlcf->time != 0
           && (!ctx->waited || ngx_http_mistral_wait_left(ctx) != 0)
           && ngx_http_mistral_link_coming(ctx->model)
           && !ngx_http_mistral_fallback_takes(ctx);
}


/* before its prompt is known a request counts as one answer */

ngx_uint_t
ngx_http_mistral_wait_room(ngx_http_mistral_ctx_t *ctx)
{
    uint64_t                      n;
    ngx_http_mistral_loc_conf_t  *mlcf;

    mlcf = ctx->loc_conf[ngx_http_mistral_module.ctx_index];
    n = ngx_max(ctx->n_choices, 1);

    return ngx_http_mistral_wait_held(ctx->model) + n <= mlcf->queue;
}


ngx_uint_t
ngx_http_mistral_wait_behind(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    ngx_http_mistral_link_t           *link;
    ngx_http_mistral_wait_loc_conf_t  *wlcf;

    wlcf = ctx->loc_conf[ngx_http_mistral_wait_module.ctx_index];
    link = m->engine ? m->engine->link : NULL;

    if (wlcf->time == 0 || link == NULL || ngx_queue_empty(&link->waits)) {
        return 0;
    }

    ctx->model = m;

    return ngx_http_mistral_wait_room(ctx);
}


ngx_int_t
ngx_http_mistral_wait_hold(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_link_t           *link;
    ngx_http_mistral_loc_conf_t       *mlcf;
    ngx_http_mistral_wait_loc_conf_t  *wlcf;

    mlcf = ctx->loc_conf[ngx_http_mistral_module.ctx_index];
    wlcf = ctx->loc_conf[ngx_http_mistral_wait_module.ctx_index];
    link = ctx->model->engine->link;

    /* ours first: of two workers that take the last room none gets it,
       rather than both */

    ngx_http_mistral_wait_publish(link, link->held + ctx->n_choices);

    if (ngx_http_mistral_wait_held(ctx->model)
        > ngx_http_mistral_pressure_places(ctx, mlcf->queue))
    {
        ngx_http_mistral_wait_publish(link, link->held - ctx->n_choices);

        ctx->shed = ngx_http_mistral_unavailable(
                        ngx_http_mistral_link_state(ctx->model), &ctx->error);
        ngx_http_mistral_log_state(ctx);

        return NGX_DECLINED;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ctx->request->connection->log, 0,
                   "mistral: request \"%V\" waits for the engine of \"%V\"",
                   &ctx->id, &ctx->model->name);

    if (!ctx->waited) {
        ctx->waited = 1;
        ctx->wait_by = ngx_current_msec + wlcf->time;
    }

    ctx->wait_from = ngx_current_msec;
    ctx->wait_link = link;
    ctx->wait_held = ctx->n_choices;

    ngx_queue_insert_tail(&link->waits, &ctx->queue);

    ctx->timer.handler = ngx_http_mistral_wait_timeout;
    ngx_http_mistral_wait_arm(ctx);

    /* behind others: their turn is about to come, and ours */

    if (ngx_http_mistral_link_look(link) == NGX_HTTP_MISTRAL_READY) {
        ngx_http_mistral_wait_wake(link);

    } else if (!link->wait.timer_set) {
        ngx_add_timer(&link->wait, NGX_HTTP_MISTRAL_WAIT_TICK);
    }

    return ngx_http_mistral_watch(ctx);
}


void
ngx_http_mistral_wait_leave(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_link_t  *link;

    link = ctx->wait_link;

    if (link == NULL) {
        return;
    }

    ngx_queue_remove(&ctx->queue);

    ctx->wait_link = NULL;
    ctx->wait_ms += ngx_current_msec - ctx->wait_from;

    ngx_http_mistral_wait_publish(link, link->held - ctx->wait_held);

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }

    ctx->timer.handler = ngx_http_mistral_timeout;
}


/* a detached link has no slot any more */

static void
ngx_http_mistral_wait_publish(ngx_http_mistral_link_t *link, uint32_t held)
{
    link->held = held;

    if (link->slot) {
        atomic_store(&link->slot->held, held);
    }
}


/* the engine frees the slot of a worker that was killed, but may not be there
   yet: who is gone holds nothing */

uint64_t
ngx_http_mistral_wait_held(ngx_http_mistral_model_t *m)
{
    uint32_t          i, held, pid;
    uint64_t          sum;
    mst_slot_t       *slot;
    const mst_map_t  *map;

    map = ngx_http_mistral_link_map(m);
    sum = 0;

    for (i = 0; map != NULL && i < map->n_slots; i++) {
        slot = &map->slots[i];
        held = atomic_load(&slot->held);

        if (held == 0 || mst_slot_state(slot) != MST_SLOT_USED) {
            continue;
        }

        pid = mst_slot_pid(slot);

        if (pid == (uint32_t) ngx_pid
            || kill((pid_t) pid, 0) == 0 || ngx_errno != NGX_ESRCH)
        {
            sum += held;
        }
    }

    return sum;
}


void
ngx_http_mistral_wait_init(ngx_http_mistral_link_t *link)
{
    ngx_queue_init(&link->waits);

    link->wait.data = link;
    link->wait.log = link->timer.log;
    link->wait.handler = ngx_http_mistral_wait_handler;
    link->wait.cancelable = 1;                 /* each has a timer of its own */
}


void
ngx_http_mistral_wait_wake(ngx_http_mistral_link_t *link)
{
    if (!ngx_queue_empty(&link->waits)) {
        ngx_post_event(&link->wait, &ngx_posted_events);
    }
}


void
ngx_http_mistral_wait_fini(ngx_http_mistral_link_t *link)
{
    if (link->wait.timer_set) {
        ngx_del_timer(&link->wait);
    }

    if (link->wait.posted) {
        ngx_delete_posted_event(&link->wait);
    }
}


/*
 * Each is looked at once: what a location says of a state is its own.  Who
 * stays goes to the end of the queue, and so keeps his place among those who
 * stay.
 */

static void
ngx_http_mistral_wait_handler(ngx_event_t *ev)
{
    ngx_uint_t                n, started;
    ngx_queue_t              *q;
    ngx_http_mistral_link_t  *link;

    link = ev->data;
    n = 0;
    started = 0;

    for (q = ngx_queue_head(&link->waits);
         q != ngx_queue_sentinel(&link->waits);
         q = ngx_queue_next(q))
    {
        n++;
    }

    while (n-- && !ngx_queue_empty(&link->waits)) {

        q = ngx_queue_head(&link->waits);

        started += ngx_http_mistral_wait_look(
                       ngx_queue_data(q, ngx_http_mistral_ctx_t, queue));

        if (started == NGX_HTTP_MISTRAL_WAIT_START) {
            ngx_post_event(ev, &ngx_posted_next_events);
            return;
        }
    }

    if (!ngx_queue_empty(&link->waits) && !ev->timer_set) {
        ngx_add_timer(ev, NGX_HTTP_MISTRAL_WAIT_TICK);
    }
}


/* 0: it waits on; the context may be gone otherwise */

static ngx_uint_t
ngx_http_mistral_wait_look(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t          rc;
    ngx_queue_t       *waits;
    ngx_connection_t  *c;

    c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    rc = ngx_http_mistral_look_engine(ctx, ctx->model);

    if (rc == NGX_AGAIN) {
        ngx_http_mistral_forget_error(ctx);

        waits = &((ngx_http_mistral_link_t *) ctx->wait_link)->waits;

        ngx_queue_remove(&ctx->queue);
        ngx_queue_insert_tail(waits, &ctx->queue);

        return 0;
    }

    if (rc == NGX_OK) {
        ngx_http_mistral_wait_leave(ctx);
        ngx_http_mistral_start(ctx);

    } else {
        ngx_http_mistral_wait_end(ctx);
    }

    ngx_http_run_posted_requests(c);

    return 1;
}


/* an operator's order says more than that the engine is not there */

static void
ngx_http_mistral_wait_end(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_metrics_t  *mx;

    mx = ctx->model->metrics;

    if (mx != NULL && atomic_load(&mx->drained)) {
        ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DRAINING,
                                                 &ctx->error);
    }

    ngx_http_mistral_wait_leave(ctx);
    ngx_http_mistral_log_state(ctx);
    ngx_http_mistral_fail(ctx);
}


/* this worker is about to be cut, or goes on with other links */

void
ngx_http_mistral_wait_lost(ngx_http_mistral_link_t *link)
{
    ngx_queue_t             *q;
    ngx_connection_t        *c;
    ngx_http_mistral_ctx_t  *ctx;

    while (!ngx_queue_empty(&link->waits)) {

        q = ngx_queue_head(&link->waits);
        ctx = ngx_queue_data(q, ngx_http_mistral_ctx_t, queue);
        c = ctx->request->connection;

        ngx_http_set_log_request(c->log, ctx->request);

        if (link->cut) {
            ctx->shed = "draining";
            (void) mst_api_error_set(&ctx->error,
                                     NGX_HTTP_SERVICE_UNAVAILABLE,
                                     "shutting_down", "", "The server is "
                                     "shutting down, try again.");
        } else {
            ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN,
                                                     &ctx->error);
        }

        ngx_http_mistral_wait_end(ctx);
        ngx_http_run_posted_requests(c);
    }
}


static ngx_msec_t
ngx_http_mistral_wait_left(ngx_http_mistral_ctx_t *ctx)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (ctx->wait_by - ngx_current_msec);

    return left > 0 ? (ngx_msec_t) left : 0;
}


/* a deadline or mistral_max_duration may come first */

static void
ngx_http_mistral_wait_arm(ngx_http_mistral_ctx_t *ctx)
{
    ngx_msec_t  due, left;

    due = ngx_http_mistral_policy_due(ctx);
    left = ngx_http_mistral_wait_left(ctx);

    ngx_add_timer(&ctx->timer, ngx_min(due, left));
}


static void
ngx_http_mistral_wait_timeout(ngx_event_t *ev)
{
    ngx_int_t                rc;
    ngx_connection_t        *c;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ev->data;
    c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    rc = ngx_http_mistral_policy_tick(ctx);

    if (rc == NGX_ERROR) {
        ngx_http_mistral_fail_internal(ctx);

    } else if (rc != NGX_OK) {
        ngx_http_mistral_wait_leave(ctx);
        ngx_http_mistral_fail(ctx);

    } else if (ngx_http_mistral_wait_left(ctx) == 0) {
        (void) ngx_http_mistral_wait_look(ctx);
        return;

    } else {
        ngx_http_mistral_wait_arm(ctx);
    }

    ngx_http_run_posted_requests(c);
}


static void *
ngx_http_mistral_wait_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_wait_loc_conf_t  *wlcf;

    wlcf = ngx_palloc(cf->pool, sizeof(ngx_http_mistral_wait_loc_conf_t));
    if (wlcf == NULL) {
        return NULL;
    }

    wlcf->time = NGX_CONF_UNSET_MSEC;

    return wlcf;
}


static char *
ngx_http_mistral_wait_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_wait_loc_conf_t *prev = parent;
    ngx_http_mistral_wait_loc_conf_t *conf = child;

    ngx_conf_merge_msec_value(conf->time, prev->time, 0);

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mistral_wait_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mistral_add_table(cf, ngx_http_mistral_wait_vars);
}


static ngx_int_t
ngx_http_mistral_wait_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_msec_t               ms;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_mistral_get_ctx(r);

    if (ctx == NULL || !ctx->waited) {
        v->not_found = 1;
        return NGX_OK;
    }

    ms = ctx->wait_ms;

    if (ctx->wait_link) {
        ms += ngx_current_msec - ctx->wait_from;
    }

    return ngx_http_mistral_thousandths(r, ms, v);
}
