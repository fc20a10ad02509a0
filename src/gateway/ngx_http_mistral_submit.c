
/*
 * A prompt that is ids to a request in flight: lengths, queue places, SUBMIT,
 * and the time that it may take.  Workers only.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_pressure.h"
#include "gateway/ngx_http_mistral_tools.h"
#include "gateway/ngx_http_mistral_wait.h"

#include "api/mst_fit.h"
#include "base/mst_time.h"


/* an engine that lives and yet sends nothing to a request for so long */
#define NGX_HTTP_MISTRAL_SILENCE  600000       /* ms */

/* between two looks at a ring that was full */
#define NGX_HTTP_MISTRAL_HANDING  2            /* ms */


static ngx_int_t ngx_http_mistral_check_length(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_stop_ids(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_place(ngx_http_mistral_ctx_t *ctx);
static ngx_uint_t ngx_http_mistral_too_many(ngx_http_mistral_ctx_t *ctx,
    ngx_uint_t waiting);
static ngx_int_t ngx_http_mistral_send(ngx_http_mistral_ctx_t *ctx);
static uint32_t ngx_http_mistral_turn(const mst_request_t *body);
static ngx_int_t ngx_http_mistral_send_one(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice);
static void ngx_http_mistral_hand_later(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_hand_over(ngx_event_t *ev);
static ngx_int_t ngx_http_mistral_hand(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_timed_out(ngx_http_mistral_ctx_t *ctx);


/*
 * Requests of this worker that have their place and wait until the engine
 * has read what is in the ring before them; in the order of their arrival.
 */

static ngx_queue_t  ngx_http_mistral_handing;
static ngx_event_t  ngx_http_mistral_handing_timer;


/* the prompt's ids are known: ctx->ids */

void
ngx_http_mistral_submit(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t   rc;
    ngx_uint_t  wait;

    rc = ngx_http_mistral_check_length(ctx);

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_stop_ids(ctx);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_tools_bias(ctx);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_choices_init(ctx);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_check_state(ctx, ctx->model);
    }

    wait = (rc == NGX_AGAIN);

    if (rc == NGX_OK || wait) {
        rc = ngx_http_mistral_policy_counted(ctx);
    }

    if (rc == NGX_OK && !wait) {
        ngx_http_mistral_start(ctx);
        return;
    }

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_wait_hold(ctx);
    }

    if (rc == NGX_DECLINED) {
        ngx_http_mistral_fail(ctx);

    } else if (rc != NGX_OK) {
        ngx_http_mistral_fail_internal(ctx);
    }
}


void
ngx_http_mistral_start(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                     rc;
    ngx_http_mistral_loc_conf_t  *mlcf;

    mlcf = ngx_http_get_module_loc_conf(ctx->request, ngx_http_mistral_module);

    /* an engine says only now that its cache holds less than the context */

    rc = ctx->waited ? ngx_http_mistral_check_length(ctx) : NGX_OK;

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_place(ctx);
    }

    if (rc == NGX_OK) {
        ctx->deadline_ns = mst_time_ns() + mlcf->queue_timeout * MST_MS;
        rc = ngx_http_mistral_send(ctx);
    }

    if (rc == NGX_AGAIN) {
        ngx_http_mistral_hand_later(ctx);
        rc = NGX_OK;
    }

    if (rc == NGX_OK) {
        ctx->start_by = ngx_current_msec + mlcf->queue_timeout + 1000;
        ngx_http_mistral_rearm(ctx);
        rc = ngx_http_mistral_watch(ctx);
    }

    if (rc == NGX_DECLINED) {
        ngx_http_mistral_fail(ctx);

    } else if (rc != NGX_OK) {
        ngx_http_mistral_fail_internal(ctx);
    }

    /* otherwise the records come: the link calls, or the timer does */
}


static ngx_int_t
ngx_http_mistral_check_length(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t  i, context;

    context = ngx_http_mistral_context(ctx->model);

    for (i = 0; i < ctx->n_sources; i++) {

        if (mst_fit_length(ctx->body, i, ctx->sources[i].n_ids, context,
                           &ctx->error)
            != MST_OK)
        {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_stop_ids(ngx_http_mistral_ctx_t *ctx)
{
    size_t                       n;
    mst_request_t               *body;
    const mst_tokenizer_info_t  *info;

    body = ctx->body;
    info = mst_tokenizer_info(ctx->model->tokenizer);
    n = (body->params.flags & MST_PARAMS_IGNORE_EOS) ? 0 : info->n_stop;

    if (n + body->n_stop_ids > MST_MAX_STOP_IDS) {
        (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                                 "invalid_value", "stop_token_ids",
                                 "stop_token_ids may have at most %d entries "
                                 "for this model.",
                                 (int) (MST_MAX_STOP_IDS - n));
        return NGX_DECLINED;
    }

    ngx_memcpy(ctx->stop_ids, info->stop_ids, n * sizeof(uint32_t));

    if (body->n_stop_ids) {
        ngx_memcpy(ctx->stop_ids + n, body->stop_ids,
                   body->n_stop_ids * sizeof(uint32_t));
    }

    ctx->n_stop_ids = (uint32_t) (n + body->n_stop_ids);

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_place(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t                      i;
    uint64_t                      tokens;
    ngx_int_t                     rc;
    ngx_uint_t                    places;
    ngx_http_mistral_loc_conf_t  *mlcf;

    mlcf = ngx_http_get_module_loc_conf(ctx->request, ngx_http_mistral_module);
    places = ngx_http_mistral_pressure_places(ctx, mlcf->queue);
    rc = NGX_OK;
    tokens = 0;

    /* what is above the limit by itself is served when it is alone */

    for (i = 0; mlcf->queue_tokens != 0 && i < ctx->n_choices; i++) {
        tokens += ctx->choices[i].source->n_ids;
    }

    tokens = ngx_max(tokens, mlcf->queue_tokens);

    for (i = 0; i < ctx->n_choices && rc == NGX_OK; i++) {
        rc = ngx_http_mistral_link_place(&ctx->choices[i].call, (uint32_t)
                                         ctx->choices[i].source->n_ids,
                                         places, tokens);
    }

    if (rc == NGX_OK) {
        return NGX_OK;
    }

    if (rc != NGX_BUSY) {
        ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN,
                                                 &ctx->error);
        return NGX_DECLINED;
    }

    if (ngx_http_mistral_too_many(ctx, places)) {
        return NGX_DECLINED;
    }

    ctx->shed = "queue_full";
    (void) mst_api_error_set(&ctx->error, NGX_HTTP_SERVICE_UNAVAILABLE,
                             "queue_full", "",
                             "Too many requests are waiting, try again soon.");

    ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" refused: queue of model \"%V\" is "
                  "full, see \"mistral_queue %ui\" and \"max_batch\"",
                  &ctx->id, &ctx->model->name, mlcf->queue);

    return NGX_DECLINED;
}


/* a request that no free place could ever serve is no matter of waiting */

static ngx_uint_t
ngx_http_mistral_too_many(ngx_http_mistral_ctx_t *ctx, ngx_uint_t waiting)
{
    uint64_t          max;
    const mst_map_t  *map;

    map = ngx_http_mistral_link_map(ctx->model);

    if (map == NULL) {
        return 0;
    }

    max = (uint64_t) atomic_load(&map->shm->max_batch) + waiting;

    if (ctx->n_choices <= max) {
        return 0;
    }

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                             "invalid_value", ctx->n_sources > 1 ? "prompt"
                                                                 : "n",
                             "The request asks for %u answers at once, this "
                             "server takes at most %llu.",
                             ctx->n_choices, (unsigned long long) max);
    return 1;
}


/* NGX_AGAIN: the ring is full, or others wait for that already */

static ngx_int_t
ngx_http_mistral_send(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t  rc;

    if (!ctx->handing && ngx_http_mistral_handing.next != NULL
        && !ngx_queue_empty(&ngx_http_mistral_handing))
    {
        return NGX_AGAIN;
    }

    for ( /* void */ ; ctx->n_sent < ctx->n_choices; ctx->n_sent++) {

        rc = ngx_http_mistral_send_one(ctx, &ctx->choices[ctx->n_sent]);

        if (rc == NGX_BUSY) {
            return NGX_AGAIN;
        }

        if (rc != NGX_OK) {
            ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN,
                                                     &ctx->error);
            return NGX_DECLINED;
        }
    }

    /* the engine has its copy; long prompts should not wait in our memory */

    ngx_http_mistral_sources_fini(ctx);

    return NGX_OK;
}


/* answers that the chat has already; one that goes on is not among them */

static uint32_t
ngx_http_mistral_turn(const mst_request_t *body)
{
    size_t    i;
    uint32_t  n;

    n = 0;

    for (i = 0; i < body->n_messages; i++) {
        n += body->messages[i].role == MST_ROLE_ASSISTANT;
    }

    return n - (body->continue_last != 0);
}


static ngx_int_t
ngx_http_mistral_send_one(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice)
{
    mst_rec_submit_t              s;
    ngx_http_mistral_source_t    *source;
    ngx_http_mistral_loc_conf_t  *mlcf;

    mlcf = ngx_http_get_module_loc_conf(ctx->request, ngx_http_mistral_module);

    ngx_memzero(&s, sizeof(mst_rec_submit_t));

    source = choice->source;

    /* what the context leaves is another number for each prompt */

    (void) mst_fit_length(ctx->body, 0, source->n_ids,
                          ngx_http_mistral_context(ctx->model), &ctx->error);

    choice->max_tokens = ctx->body->params.max_tokens;

    s.params = ctx->body->params;
    s.params.seed = ctx->body->has_seed ? ctx->body->params.seed : ctx->seed;
    s.params.seed += choice->index;
    s.params.turn = ngx_http_mistral_turn(ctx->body);
    s.deadline_ns = ctx->deadline_ns;
    s.no_wait = mlcf->queue == 0;
    s.n_prompt = (uint32_t) source->n_ids;
    s.n_stop = ctx->n_stop_ids;
    s.n_bias = ctx->n_bias;

    ngx_http_mistral_policy_submit(ctx, choice, &s);

    choice->submit_ns = mst_time_ns();

    return ngx_http_mistral_link_submit(&choice->call, &s, source->ids,
                                        ctx->stop_ids, ctx->bias);
}


/*
 * A burst may bring more prompts than the ring holds while the engine is in
 * a step.  They have their places, so that none of them is refused for it.
 */

static void
ngx_http_mistral_hand_later(ngx_http_mistral_ctx_t *ctx)
{
    if (ngx_http_mistral_handing.next == NULL) {
        ngx_queue_init(&ngx_http_mistral_handing);
        ngx_http_mistral_handing_timer.handler = ngx_http_mistral_hand_over;
        ngx_http_mistral_handing_timer.log = ngx_cycle->log;
    }

    ngx_queue_insert_tail(&ngx_http_mistral_handing, &ctx->queue);
    ctx->handing = 1;

    if (!ngx_http_mistral_handing_timer.timer_set) {
        ngx_add_timer(&ngx_http_mistral_handing_timer,
                      NGX_HTTP_MISTRAL_HANDING);
    }
}


static void
ngx_http_mistral_hand_over(ngx_event_t *ev)
{
    ngx_queue_t             *q;
    ngx_http_mistral_ctx_t  *ctx;

    /* those of other models wait behind a full ring, too: order is simple,
       and the time is short */

    while (!ngx_queue_empty(&ngx_http_mistral_handing)) {

        q = ngx_queue_head(&ngx_http_mistral_handing);
        ctx = ngx_queue_data(q, ngx_http_mistral_ctx_t, queue);

        if (ngx_http_mistral_hand(ctx) == NGX_AGAIN) {
            ngx_add_timer(ev, NGX_HTTP_MISTRAL_HANDING);
            return;
        }
    }
}


static ngx_int_t
ngx_http_mistral_hand(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t          rc;
    ngx_connection_t  *c;

    c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    rc = ngx_http_mistral_send(ctx);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    ngx_queue_remove(&ctx->queue);
    ctx->handing = 0;

    if (rc != NGX_OK) {
        ngx_http_mistral_fail(ctx);
        ngx_http_run_posted_requests(c);
    }

    return NGX_OK;
}


/* before its start, and then between two records */

static ngx_msec_t
ngx_http_mistral_silence(ngx_http_mistral_ctx_t *ctx)
{
    ngx_msec_int_t  left;

    if (ctx->paused) {
        return NGX_HTTP_MISTRAL_SILENCE;
    }

    left = ctx->admitted ? ctx->heard_ms + NGX_HTTP_MISTRAL_SILENCE
                           - ngx_current_msec
                         : ctx->start_by - ngx_current_msec;

    return left > 0 ? (ngx_msec_t) left : 0;
}


/*
 * One timer for all that a request waits for.  Most records move what is due
 * to a later time: then the timer stays, and fires too early once in a while.
 */

void
ngx_http_mistral_rearm(ngx_http_mistral_ctx_t *ctx)
{
    ngx_msec_t  due, next;

    if (ctx->n_done == ctx->n_choices) {
        if (ctx->timer.timer_set) {
            ngx_del_timer(&ctx->timer);
        }

        return;
    }

    due = ngx_http_mistral_policy_due(ctx);
    next = ngx_http_mistral_silence(ctx);
    due = ngx_min(due, next);

    if (ctx->timer.timer_set) {
        if ((ngx_msec_int_t) (ctx->timer.timer.key - ngx_current_msec - due)
            <= 0)
        {
            return;
        }

        ngx_del_timer(&ctx->timer);
    }

    ngx_add_timer(&ctx->timer, due);
}


/*
 * Before ADMIT the engine itself refuses at the deadline; this is for an
 * engine that is in a long step just then.
 */

void
ngx_http_mistral_timeout(ngx_event_t *ev)
{
    ngx_connection_t        *c;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ev->data;
    c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    if (ngx_http_mistral_silence(ctx) == 0) {
        ngx_http_mistral_timed_out(ctx);

    } else if (ngx_http_mistral_policy_tick(ctx) == NGX_ERROR) {
        ngx_http_mistral_fail_internal(ctx);
        ngx_http_run_posted_requests(c);
        return;
    }

    if (ctx->error.status) {
        ngx_http_mistral_fail(ctx);

    } else {
        ngx_http_mistral_rearm(ctx);
        ngx_http_mistral_advance(ctx);
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_mistral_timed_out(ngx_http_mistral_ctx_t *ctx)
{
    if (ctx->admitted) {
        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log,
                      NGX_ETIMEDOUT, "mistral: request \"%V\": engine of "
                      "model \"%V\" is silent", &ctx->id, &ctx->model->name);

        ctx->fault = 1;
        ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN,
                                                 &ctx->error);
        return;
    }

    ctx->shed = "deadline";
    (void) mst_api_error_set(&ctx->error, NGX_HTTP_SERVICE_UNAVAILABLE,
                             "deadline", "",
                             "The request waited too long for its start, try "
                             "again soon.");

    ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" refused: waited too long for model "
                  "\"%V\", see \"mistral_queue ... timeout=\"",
                  &ctx->id, &ctx->model->name);
}
