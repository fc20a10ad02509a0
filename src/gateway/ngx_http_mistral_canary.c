
/*
 * mistral_canary: a part of a location's requests to another model.
 *
 * Who meets it is base/mst_canary.h's choice, by the key of the line; a
 * canary that cannot answer (its engine is not ready, its breaker is open)
 * leaves its requests to the stable model.  With max_errors the ends of its
 * requests are counted in shared memory, and too many bad ones roll it back
 * for all workers.  The lines are canary_conf.c's.  Workers only.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_canary.h"

#include "base/mst_time.h"


/* of a request that a line chose */
typedef struct {
    ngx_http_mistral_canary_t *canary;
} ngx_http_mistral_canary_ctx_t;


static ngx_uint_t ngx_http_mistral_canary_elsewhere(
    ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_canary_resolved(
    ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_canary_chosen(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_canary_t *c);
static ngx_int_t ngx_http_mistral_canary_part(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_canary_t *c, uint32_t *part);
static ngx_int_t ngx_http_mistral_canary_point(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_canary_t *c, uint32_t *point);
static ngx_uint_t ngx_http_mistral_canary_answers(
    ngx_http_mistral_ctx_t *ctx, ngx_http_mistral_model_t *m);
static void ngx_http_mistral_canary_settle(ngx_http_mistral_ctx_t *ctx);


const ngx_http_mistral_policy_t  ngx_http_mistral_canary_policy = {
    .elsewhere = ngx_http_mistral_canary_elsewhere,
    .resolved = ngx_http_mistral_canary_resolved,
    .settle = ngx_http_mistral_canary_settle
};


/* the choice may depend on the body */

static ngx_uint_t
ngx_http_mistral_canary_elsewhere(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_canary_loc_conf_t  *clcf;

    clcf = ctx->loc_conf[ngx_http_mistral_canary_module.ctx_index];

    return clcf->lines && clcf->lines->nelts;
}


static ngx_int_t
ngx_http_mistral_canary_resolved(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                            rc;
    ngx_uint_t                           i;
    ngx_http_mistral_canary_t          **c;
    ngx_http_mistral_canary_ctx_t       *cctx;
    ngx_http_mistral_canary_loc_conf_t  *clcf;

    clcf = ctx->loc_conf[ngx_http_mistral_canary_module.ctx_index];

    if (clcf->lines == NULL) {
        return NGX_OK;
    }

    c = clcf->lines->elts;

    for (i = 0; i < clcf->lines->nelts; i++) {

        if (c[i]->model == ctx->model) {
            return NGX_OK;                     /* it is chosen already */
        }

        rc = ngx_http_mistral_canary_chosen(ctx, c[i]);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (rc == NGX_OK && ngx_http_mistral_canary_answers(ctx, c[i]->model))
        {
            break;
        }
    }

    if (i == clcf->lines->nelts) {
        return NGX_OK;
    }

    cctx = ngx_palloc(ctx->request->pool,
                      sizeof(ngx_http_mistral_canary_ctx_t));
    if (cctx == NULL) {
        return NGX_ERROR;
    }

    cctx->canary = c[i];
    ngx_http_set_ctx(ctx->request, cctx, ngx_http_mistral_canary_module);

    ctx->model = c[i]->model;

    return NGX_OK;
}


/* NGX_OK, NGX_DECLINED */

static ngx_int_t
ngx_http_mistral_canary_chosen(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_canary_t *c)
{
    uint32_t   part, point;
    ngx_str_t  value;

    if (c->header) {
        if (ngx_http_complex_value(ctx->request, c->header, &value)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (value.len == 6
            && ngx_strncasecmp(value.data, (u_char *) "always", 6) == 0)
        {
            return NGX_OK;
        }

        if (value.len == 5
            && ngx_strncasecmp(value.data, (u_char *) "never", 5) == 0)
        {
            return NGX_DECLINED;
        }
    }

    if (c->counts && atomic_load(&c->counts->rolled_back)) {
        return NGX_DECLINED;
    }

    if (ngx_http_mistral_canary_part(ctx, c, &part) != NGX_OK
        || ngx_http_mistral_canary_point(ctx, c, &point) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return point < part ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_http_mistral_canary_part(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_canary_t *c, uint32_t *part)
{
    ngx_str_t  value;

    *part = c->part;

    if (c->percent == NULL) {
        return NGX_OK;
    }

    if (ngx_http_complex_value(ctx->request, c->percent, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (mst_canary_percent(mst_str((char *) value.data, value.len), part)
        != MST_OK)
    {
        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                      "mistral: the percentage of canary \"%V\" evaluates to "
                      "\"%V\", 0%% is taken", &c->name, &value);
        *part = 0;
    }

    return NGX_OK;
}


/* who has no key is nobody that could be met again: chance decides */

static ngx_int_t
ngx_http_mistral_canary_point(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_canary_t *c, uint32_t *point)
{
    long       chance;
    ngx_str_t  key;

    key = ctx->request->connection->addr_text;

    if (c->key && ngx_http_complex_value(ctx->request, c->key, &key) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (key.len == 0) {
        chance = ngx_random();
        key.data = (u_char *) &chance;
        key.len = sizeof(chance);
    }

    *point = mst_canary_point(mst_str((char *) c->model->name.data,
                                      c->model->name.len),
                              mst_str((char *) key.data, key.len));
    return NGX_OK;
}


/* text to tokens and back needs no engine */

static ngx_uint_t
ngx_http_mistral_canary_answers(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    if (ctx->api == MST_API_TOKENIZE || ctx->api == MST_API_DETOKENIZE) {
        return 1;
    }

    return ngx_http_mistral_link_state(m) == NGX_HTTP_MISTRAL_READY
           && ngx_http_mistral_breaker_allows(ctx, m);
}


/*
 * Bad is what its client sees as the server's fault.  What the client did
 * (4xx, it left) says nothing about the model; a canary that is closed for a
 * while gets no requests but the few that were under way.
 */

static void
ngx_http_mistral_canary_settle(ngx_http_mistral_ctx_t *ctx)
{
    int                             bad;
    uint64_t                        requests, errors;
    ngx_http_mistral_canary_t      *c;
    ngx_http_mistral_canary_ctx_t  *cctx;

    cctx = ngx_http_get_module_ctx(ctx->request,
                                   ngx_http_mistral_canary_module);

    if (cctx == NULL || cctx->canary->model != ctx->model
        || cctx->canary->counts == NULL)
    {
        return;
    }

    c = cctx->canary;
    bad = ctx->error.status >= NGX_HTTP_INTERNAL_SERVER_ERROR;

    if ((ctx->error.status && !bad)
        || (!bad && (ctx->aborted || ctx->n_done < ctx->n_choices))
        || (ctx->shed && (ngx_strcmp(ctx->shed, "breaker") == 0
                          || ngx_strcmp(ctx->shed, "loading") == 0
                          || ngx_strcmp(ctx->shed, "thermal") == 0
                          || ngx_strcmp(ctx->shed, "draining") == 0)))
    {
        return;
    }

    if (mst_canary_count(c->counts, &c->conf, mst_time_ns(), bad, &requests,
                         &errors)
        != MST_DONE)
    {
        return;
    }

    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                  "mistral: canary \"%V\" is rolled back: %uL of its %uL "
                  "requests within %uL ms failed, see \"mistral_canary\" in "
                  "%s:%ui", &c->name, errors, requests,
                  c->conf.window_ns / MST_MS, c->file_name, c->line);
}


ngx_uint_t
ngx_http_mistral_canary_sum(ngx_http_mistral_model_t *m,
    ngx_http_mistral_canary_sum_t *sum)
{
    ngx_uint_t                            i, k;
    ngx_http_mistral_canary_t           **c;
    ngx_http_mistral_canary_main_conf_t  *cmcf;

    cmcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                             ngx_http_mistral_canary_module);

    ngx_memzero(sum, sizeof(ngx_http_mistral_canary_sum_t));
    c = cmcf->lines.elts;

    for (i = 0; i < cmcf->lines.nelts; i++) {

        if (c[i]->model != m || c[i]->counts == NULL) {
            continue;
        }

        for (k = 0; c[k]->counts != c[i]->counts; k++) { /* void */ }

        if (k < i) {
            continue;                          /* the same line elsewhere */
        }

        sum->lines++;
        sum->requests += atomic_load(&c[i]->counts->requests);
        sum->errors += atomic_load(&c[i]->counts->errors);
        sum->rolled_back |= atomic_load(&c[i]->counts->rolled_back);
    }

    return sum->lines;
}


void
ngx_http_mistral_canary_resume(ngx_http_mistral_model_t *m)
{
    ngx_uint_t                            i;
    ngx_http_mistral_canary_t           **c;
    ngx_http_mistral_canary_main_conf_t  *cmcf;

    cmcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                             ngx_http_mistral_canary_module);
    c = cmcf->lines.elts;

    for (i = 0; i < cmcf->lines.nelts; i++) {
        if (c[i]->model == m && c[i]->counts) {
            mst_canary_resume(c[i]->counts);
        }
    }
}
