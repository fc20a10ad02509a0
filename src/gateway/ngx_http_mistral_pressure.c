
/*
 * Under pressure: whose turn it is, what memory a request may count on, who
 * is turned away at once, and when he may come again.
 *
 * Most of it is a claim that the engine keeps (base/mst_params.h).  What can
 * be known to be late from the engine's own figures is refused here, so that
 * the answer does not wait for the engine's step.  Those figures may be a
 * step old, and rates are means: they say that there is little hope, and the
 * engine, which knows more, looks again at those who have some.  The
 * directives are in pressure_conf.c.  Workers only.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_pressure.h"

#include <math.h>

#include "base/mst_hash.h"
#include "base/mst_time.h"
#include "shm/mst_place.h"


#define NGX_HTTP_MISTRAL_PRESSURE_MAX   60     /* seconds */
#define NGX_HTTP_MISTRAL_PRESSURE_LOAD  5      /* a first guess */


/* a request's; kv_reserve and pace are not set here */
typedef struct {
    mst_claim_t                 claim;
} ngx_http_mistral_pressure_ctx_t;


static ngx_int_t ngx_http_mistral_pressure_counted(
    ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_pressure_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s);
static ngx_msec_t ngx_http_mistral_pressure_due(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_pressure_tick(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_pressure_claim(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_pressure_loc_conf_t *plcf, mst_claim_t *c);
static ngx_int_t ngx_http_mistral_pressure_number(
    ngx_http_mistral_ctx_t *ctx, ngx_http_complex_value_t *cv,
    const char *directive, int low, int high, int *n);
static ngx_int_t ngx_http_mistral_pressure_ttft(ngx_http_mistral_ctx_t *ctx,
    ngx_http_complex_value_t *cv, mst_claim_t *c);
static ngx_uint_t ngx_http_mistral_pressure_late(ngx_http_mistral_ctx_t *ctx,
    mst_claim_t *c);
static ngx_int_t ngx_http_mistral_pressure_shed(ngx_http_mistral_ctx_t *ctx);

const ngx_http_mistral_policy_t  ngx_http_mistral_pressure_policy = {
    .counted = ngx_http_mistral_pressure_counted,
    .submit = ngx_http_mistral_pressure_submit,
    .due = ngx_http_mistral_pressure_due,
    .tick = ngx_http_mistral_pressure_tick
};


static ngx_int_t
ngx_http_mistral_pressure_counted(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_request_t                    *r;
    ngx_http_mistral_pressure_ctx_t       *pctx;
    ngx_http_mistral_pressure_loc_conf_t  *plcf;

    r = ctx->request;
    plcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_pressure_module);

    if (plcf->ttft == NULL && plcf->priority == NULL && plcf->fair == NULL) {
        return NGX_OK;
    }

    pctx = ngx_pcalloc(r->pool, sizeof(ngx_http_mistral_pressure_ctx_t));
    if (pctx == NULL) {
        return NGX_ERROR;
    }

    ngx_http_set_ctx(r, pctx, ngx_http_mistral_pressure_module);

    if (ngx_http_mistral_pressure_claim(ctx, plcf, &pctx->claim) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_mistral_pressure_late(ctx, &pctx->claim)) {
        return ngx_http_mistral_pressure_shed(ctx);
    }

    return NGX_OK;
}


/* a value that makes no sense is as none; it may come from a client, who is not
   to fill the log of errors */

static ngx_int_t
ngx_http_mistral_pressure_claim(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_pressure_loc_conf_t *plcf, mst_claim_t *c)
{
    int        n;
    ngx_str_t  key;

    n = 0;

    if (ngx_http_mistral_pressure_number(ctx, plcf->priority,
                                         "mistral_priority",
                                         MST_PRIORITY_MIN, MST_PRIORITY_MAX,
                                         &n)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    c->priority = n;
    c->flags = plcf->preempt ? MST_CLAIM_PREEMPT : 0;
    n = 1;

    if (ngx_http_mistral_pressure_number(ctx, plcf->weight, "weight", 1,
                                         MST_WEIGHT_MAX, &n)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    c->fair_weight = (uint32_t) n;

    if (plcf->fair) {
        if (ngx_http_complex_value(ctx->request, plcf->fair, &key) != NGX_OK) {
            return NGX_ERROR;
        }

        /* 0 is the key of those who have none */

        if (key.len) {
            c->fair_key = mst_hash(0, key.data, key.len);
            c->fair_key += c->fair_key == 0;
        }
    }

    return ngx_http_mistral_pressure_ttft(ctx, plcf->ttft, c);
}


static ngx_int_t
ngx_http_mistral_pressure_number(ngx_http_mistral_ctx_t *ctx,
    ngx_http_complex_value_t *cv, const char *directive, int low, int high,
    int *n)
{
    ngx_str_t  value;

    if (cv == NULL) {
        return NGX_OK;
    }

    if (ngx_http_complex_value(ctx->request, cv, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.len
        && ngx_http_mistral_pressure_integer(&value, low, high, n) != NGX_OK)
    {
        ngx_log_error(NGX_LOG_INFO, ctx->request->connection->log, 0,
                      "mistral: \"%s\" evaluates to \"%V\", which is no "
                      "number from %d to %d", directive, &value, low, high);
    }

    return NGX_OK;
}


/*
 * From the head of the request on, which is what a client sees.  The value
 * may come from a client: nonsense is no reason for an error of ours.
 */

static ngx_int_t
ngx_http_mistral_pressure_ttft(ngx_http_mistral_ctx_t *ctx,
    ngx_http_complex_value_t *cv, mst_claim_t *c)
{
    ngx_int_t  ms;
    ngx_str_t  value;

    if (cv == NULL) {
        return NGX_OK;
    }

    if (ngx_http_complex_value(ctx->request, cv, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.len == 0) {
        return NGX_OK;
    }

    ms = ngx_parse_time(&value, 0);

    if (ms == NGX_ERROR) {
        ngx_log_error(NGX_LOG_INFO, ctx->request->connection->log, 0,
                      "mistral: \"mistral_deadline\" evaluates to \"%V\", "
                      "which is no time", &value);
        return NGX_OK;
    }

    if (ms) {
        c->ttft_ns = ctx->start_ns + (uint64_t) ms * MST_MS;
    }

    return NGX_OK;
}


static uint64_t
ngx_http_mistral_pressure_ns(uint64_t n, uint64_t rate)
{
    /* rates are per 1000 seconds */

    return rate ? (uint64_t) ((double) n * 1000 / rate * MST_S) : 0;
}


/*
 * Is there no hope?  Of those who wait only they are counted who are served
 * before this request in any case: higher classes, and those of its own class
 * without a key, as it is itself, if none of them was ever wanted later.
 */

static ngx_uint_t
ngx_http_mistral_pressure_late(ngx_http_mistral_ctx_t *ctx, mst_claim_t *c)
{
    uint32_t                 rank, i;
    uint64_t                 n, tokens, now, ns, wait;
    mst_stat_t              *st;
    const mst_map_t         *map;
    const mst_stat_class_t  *class;

    map = ngx_http_mistral_link_map(ctx->model);

    if (c->ttft_ns == 0 || map == NULL) {
        return 0;
    }

    st = &map->shm->stat;
    rank = mst_claim_rank(c->priority);
    n = 0;
    tokens = 0;

    for (i = 0; i < rank; i++) {
        n += mst_stat_get(&st->classes[i].n);
        tokens += mst_stat_get(&st->classes[i].tokens);
    }

    class = &st->classes[rank];

    if (c->fair_key == 0 && mst_stat_get(&class->last_ns) <= c->ttft_ns) {
        n += mst_stat_get(&class->n_dated);
        tokens += mst_stat_get(&class->dated_tokens);
    }

    /* tokens take their time, and so do places when all are taken */

    ns = ngx_http_mistral_pressure_ns(tokens, mst_stat_get(&st->prompt_rate));

    if (mst_stat_get(&st->running) >= atomic_load(&map->shm->max_batch)
        && !(c->flags & MST_CLAIM_PREEMPT))
    {
        wait = ngx_http_mistral_pressure_ns(n + 1,
                                            mst_stat_get(&st->finish_rate));
        ns = ngx_max(ns, wait);
    }

    now = mst_time_ns();

    /* the figures of an engine that is not there are a dead one's */

    if (ngx_http_mistral_link_state(ctx->model) != NGX_HTTP_MISTRAL_READY) {
        ns = 0;
    }

    return now >= c->ttft_ns || ns > c->ttft_ns - now;
}


static ngx_int_t
ngx_http_mistral_pressure_shed(ngx_http_mistral_ctx_t *ctx)
{
    ctx->shed = "deadline";
    (void) mst_api_error_set(&ctx->error, NGX_HTTP_SERVICE_UNAVAILABLE,
                             "deadline", "",
                             "The first token cannot come in time, try again "
                             "soon.");

    ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" refused: model \"%V\" cannot make "
                  "its \"mistral_deadline\"", &ctx->id, &ctx->model->name);

    return NGX_DECLINED;
}


static void
ngx_http_mistral_pressure_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s)
{
    ngx_http_request_t                    *r;
    ngx_http_mistral_pressure_ctx_t       *pctx;
    ngx_http_mistral_pressure_loc_conf_t  *plcf;

    r = ctx->request;
    plcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_pressure_module);
    pctx = ngx_http_get_module_ctx(r, ngx_http_mistral_pressure_module);

    s->claim.kv_reserve = plcf->reserve == 100
                          ? MST_RESERVE_FULL
                          : (uint32_t) (((uint64_t) s->params.max_tokens
                                         * plcf->reserve + 99) / 100);

    if (pctx) {
        s->claim.priority = pctx->claim.priority;
        s->claim.flags |= pctx->claim.flags;
        s->claim.fair_key = pctx->claim.fair_key;
        s->claim.fair_weight = pctx->claim.fair_weight;
        s->claim.ttft_ns = pctx->claim.ttft_ns;
    }
}


static ngx_http_mistral_pressure_ctx_t *
ngx_http_mistral_pressure_dated(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_pressure_ctx_t  *pctx;

    pctx = ngx_http_get_module_ctx(ctx->request,
                                   ngx_http_mistral_pressure_module);

    return pctx && pctx->claim.ttft_ns && !ctx->admitted ? pctx : NULL;
}


/* an engine in a long step cannot say that it is too late: we can */

static ngx_msec_t
ngx_http_mistral_pressure_due(ngx_http_mistral_ctx_t *ctx)
{
    uint64_t                          now;
    ngx_http_mistral_pressure_ctx_t  *pctx;

    pctx = ngx_http_mistral_pressure_dated(ctx);

    if (pctx == NULL) {
        return NGX_HTTP_MISTRAL_NEVER;
    }

    now = mst_time_ns();

    return now < pctx->claim.ttft_ns
           ? (ngx_msec_t) ((pctx->claim.ttft_ns - now) / MST_MS + 1) : 0;
}


static ngx_int_t
ngx_http_mistral_pressure_tick(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_pressure_ctx_t  *pctx;

    pctx = ngx_http_mistral_pressure_dated(ctx);

    if (pctx && mst_time_ns() >= pctx->claim.ttft_ns) {
        return ngx_http_mistral_pressure_shed(ctx);
    }

    return NGX_OK;
}


/* half of the places stays free for those who do not give way */

ngx_uint_t
ngx_http_mistral_pressure_places(ngx_http_mistral_ctx_t *ctx,
    ngx_uint_t waiting)
{
    ngx_http_mistral_pressure_ctx_t  *pctx;

    pctx = ngx_http_get_module_ctx(ctx->request,
                                   ngx_http_mistral_pressure_module);

    return pctx && pctx->claim.priority < 0 ? waiting / 2 : waiting;
}


/* only of what has another answer than "this server is broken" */

void
ngx_http_mistral_pressure_status(ngx_http_request_t *r, mst_api_error_t *e,
    const char *shed)
{
    ngx_http_mistral_pressure_loc_conf_t  *plcf;

    plcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_pressure_module);

    if (shed == NULL || e->status != NGX_HTTP_SERVICE_UNAVAILABLE
        || plcf->status == NGX_HTTP_SERVICE_UNAVAILABLE)
    {
        return;
    }

    if (ngx_strcmp(shed, "queue_full") == 0
        || ngx_strcmp(shed, "kv_full") == 0
        || ngx_strcmp(shed, "thermal") == 0
        || ngx_strcmp(shed, "deadline") == 0)
    {
        mst_api_error_status(e, (int) plcf->status);
    }
}


/*
 * When the queue before them will be gone: those who wait, by the rate at
 * which requests end.  A little more for some, lest all come at once.
 */

ngx_uint_t
ngx_http_mistral_pressure_retry(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, const char *shed)
{
    double                                 s;
    uint32_t                               held, batch;
    uint64_t                               tokens, rate;
    const mst_map_t                       *map;
    ngx_http_mistral_pressure_loc_conf_t  *plcf;

    plcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_pressure_module);

    if (plcf->retry != NGX_HTTP_MISTRAL_PRESSURE_AUTO) {
        return plcf->retry;
    }

    if (ctx && ctx->retry_after) {
        return ctx->retry_after;
    }

    map = ctx && ctx->model ? ngx_http_mistral_link_map(ctx->model) : NULL;
    s = 0.5;

    if (map && shed && ngx_strcmp(shed, "loading") == 0) {
        s = (double) mst_stat_get(&map->shm->stat.load_ns) / MST_S;
        s = s > 0 ? s : NGX_HTTP_MISTRAL_PRESSURE_LOAD;

    } else if (map) {
        mst_place_held(map->shm, &held, &tokens);
        batch = atomic_load(&map->shm->max_batch);
        rate = mst_stat_get(&map->shm->stat.finish_rate);

        if (held >= batch && rate) {
            s = (double) (held - batch + 1) * 1000 / rate;
        }
    }

    s *= 1 + (double) (ngx_random() % 256) / 1024;

    return s < NGX_HTTP_MISTRAL_PRESSURE_MAX
           ? (ngx_uint_t) ceil(s) : NGX_HTTP_MISTRAL_PRESSURE_MAX;
}
