
/*
 * Asking a request's limits: the key and the rate that its variables give,
 * what it would cost at the most, and the refusal.  Workers only.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include <ngx_md5.h>

#include "api/mst_fit.h"
#include "base/mst_time.h"


static ngx_int_t ngx_http_mistral_limit_ask_one(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_ctx_t *lctx, ngx_http_mistral_limit_t *limit);
static ngx_int_t ngx_http_mistral_limit_ask_key(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_zone_t *zone, ngx_str_t *key);
static ngx_int_t ngx_http_mistral_limit_ask_rate(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_zone_t *zone, mst_rate_t *rate);
static ngx_int_t ngx_http_mistral_limit_ask_misused(
    ngx_http_mistral_ctx_t *ctx, ngx_http_mistral_limit_zone_t *zone,
    const char *name, ngx_str_t *value);
static uint64_t ngx_http_mistral_limit_ask_cost(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_t *limit);
static ngx_int_t ngx_http_mistral_limit_ask_refuse(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_ctx_t *lctx, ngx_http_mistral_debit_t *d,
    uint64_t tokens, ngx_int_t rc);
static void ngx_http_mistral_limit_ask_error(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_debit_t *d, uint64_t tokens, ngx_int_t rc);


ngx_int_t
ngx_http_mistral_limit_ask(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_ctx_t *lctx, ngx_array_t *limits)
{
    ngx_int_t                  rc;
    ngx_uint_t                 i;
    ngx_http_mistral_limit_t  *limit;

    if (limits == NULL) {
        return NGX_OK;
    }

    limit = limits->elts;

    for (i = 0; i < limits->nelts; i++) {
        rc = ngx_http_mistral_limit_ask_one(ctx, lctx, &limit[i]);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_limit_ask_one(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_ctx_t *lctx, ngx_http_mistral_limit_t *limit)
{
    uint64_t                   tokens;
    ngx_int_t                  rc;
    ngx_str_t                  key;
    mst_rate_t                 rate;
    ngx_http_mistral_debit_t  *d;

    rc = ngx_http_mistral_limit_ask_key(ctx, limit->zone, &key);

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_limit_ask_rate(ctx, limit->zone, &rate);
    }

    if (rc != NGX_OK) {
        return rc == NGX_DONE ? NGX_OK : rc;
    }

    d = ngx_array_push(&lctx->debits);
    if (d == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(d, sizeof(ngx_http_mistral_debit_t));
    d->limit = limit;
    d->rate = rate;

    lctx->scarce |= limit->reserve != NGX_HTTP_MISTRAL_LIMIT_ALL;

    tokens = ngx_http_mistral_limit_ask_cost(ctx, limit);
    rc = ngx_http_mistral_debit_take(d, &key, tokens);

    if (rc != NGX_OK) {
        return ngx_http_mistral_limit_ask_refuse(ctx, lctx, d, tokens, rc);
    }

    if (!lctx->asked) {
        lctx->asked = 1;
        lctx->status = NGX_HTTP_MISTRAL_LIMIT_PASSED;
    }

    return NGX_OK;
}


/* NGX_DONE: without a key nothing is counted, as with limit_req */

static ngx_int_t
ngx_http_mistral_limit_ask_key(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_zone_t *zone, ngx_str_t *key)
{
    u_char     *p;
    ngx_md5_t   md5;

    if (ngx_http_complex_value(ctx->request, &zone->key, key) != NGX_OK) {
        return NGX_ERROR;
    }

    if (key->len == 0) {
        return NGX_DONE;
    }

    if (key->len <= NGX_HTTP_MISTRAL_LIMIT_KEY) {
        return NGX_OK;
    }

    p = ngx_pnalloc(ctx->request->pool, 16);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_md5_init(&md5);
    ngx_md5_update(&md5, key->data, key->len);
    ngx_md5_final(p, &md5);

    key->data = p;
    key->len = 16;

    return NGX_OK;
}


/* NGX_DONE: an empty one is no limit */

static ngx_int_t
ngx_http_mistral_limit_ask_rate(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_zone_t *zone, mst_rate_t *rate)
{
    int         rc;
    ngx_str_t   value;
    ngx_uint_t  quota;

    *rate = zone->fixed;

    if (!zone->variable) {
        return NGX_OK;
    }

    quota = zone->kind == &ngx_http_mistral_limit_quota;

    if (ngx_http_complex_value(ctx->request, &zone->rate, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.len == 0) {
        return NGX_DONE;
    }

    rc = quota ? mst_bucket_number((char *) value.data, value.len,
                                   &rate->burst)
               : mst_bucket_rate((char *) value.data, value.len, rate);

    if (rc != MST_OK) {
        return ngx_http_mistral_limit_ask_misused(ctx, zone,
                                                  quota ? "quota" : "rate",
                                                  &value);
    }

    if (zone->burst.value.data == NULL) {
        return NGX_OK;
    }

    if (ngx_http_complex_value(ctx->request, &zone->burst, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    /* an empty one is as none */

    if (value.len
        && mst_bucket_number((char *) value.data, value.len, &rate->burst)
           != MST_OK)
    {
        return ngx_http_mistral_limit_ask_misused(ctx, zone, "burst", &value);
    }

    return NGX_OK;
}


/* no limit at all would be the worse mistake */

static ngx_int_t
ngx_http_mistral_limit_ask_misused(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_zone_t *zone, const char *name, ngx_str_t *value)
{
    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                  "mistral: \"%s\" of %s \"%V\" evaluates to \"%V\", which is "
                  "none", name, zone->kind->zone, &zone->name, value);

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_INTERNAL_SERVER_ERROR,
                             "internal_error", "",
                             "The server's limits are not configured "
                             "properly.");
    return NGX_DECLINED;
}


static uint64_t
ngx_http_mistral_limit_ask_cost(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_t *limit)
{
    uint32_t                       i;
    mst_api_error_t                e;
    ngx_http_mistral_limit_used_t  used;

    ngx_memzero(&used, sizeof(ngx_http_mistral_limit_used_t));
    used.prompt = ctx->n_ids;

    for (i = 0; i < ctx->n_choices; i++) {

        /* what the context leaves is another number for each prompt */

        (void) mst_fit_length(ctx->body, 0, ctx->choices[i].source->n_ids,
                              ngx_http_mistral_context(ctx->model), &e);

        used.completion += ngx_min(ctx->body->params.max_tokens,
                                   limit->reserve);
    }

    return ngx_http_mistral_limit_real(limit, &used);
}


static ngx_int_t
ngx_http_mistral_limit_ask_refuse(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_ctx_t *lctx, ngx_http_mistral_debit_t *d,
    uint64_t tokens, ngx_int_t rc)
{
    ngx_http_mistral_limit_zone_t  *zone;

    zone = d->limit->zone;

    lctx->asked = 1;
    lctx->status = lctx->dry_run ? NGX_HTTP_MISTRAL_LIMIT_REJECTED_DRY_RUN
                                 : NGX_HTTP_MISTRAL_LIMIT_REJECTED;

    atomic_fetch_add(&zone->table->counts[lctx->status], 1);

    ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" refused%s: it needs %uL tokens, %s "
                  "\"%V\" has %uL of %uL left", &ctx->id,
                  lctx->dry_run ? ", dry run" : "", tokens, zone->kind->limit,
                  &zone->name, d->left, d->rate.burst);

    if (lctx->dry_run) {
        return NGX_OK;
    }

    ngx_http_mistral_limit_ask_error(ctx, d, tokens, rc);
    lctx->refusal = *d;

    return NGX_DECLINED;
}


static void
ngx_http_mistral_limit_ask_error(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_debit_t *d, uint64_t tokens, ngx_int_t rc)
{
    char                                text[32];
    uint64_t                            seconds;
    ngx_http_mistral_limit_loc_conf_t  *llcf;

    llcf = ctx->loc_conf[ngx_http_mistral_limit_module.ctx_index];

    ctx->limited = 1;

    if (rc == NGX_ERROR) {
        d->wait_ns = MST_S;
        (void) mst_api_error_set(&ctx->error, NGX_HTTP_SERVICE_UNAVAILABLE,
                                 "limit_zone_full", "",
                                 "Too many requests are in work, try again "
                                 "soon.");
        return;
    }

    if (rc == NGX_DECLINED) {
        d->wait_ns = UINT64_MAX;
        (void) mst_api_error_set(&ctx->error, (int) llcf->status_code,
                                 "request_too_large_for_limit", "",
                                 "The request needs %llu tokens, the limit is "
                                 "%llu: shorten the prompt or ask for fewer "
                                 "tokens.", (unsigned long long) tokens,
                                 (unsigned long long) d->rate.burst);
        return;
    }

    seconds = ngx_http_mistral_limit_seconds(d);
    mst_bucket_duration(seconds * MST_S, text);

    if (d->limit->zone->kind == &ngx_http_mistral_limit_quota) {
        (void) mst_api_error_set(&ctx->error, (int) llcf->status_code,
                                 "insufficient_quota", "",
                                 "The request needs %llu tokens, your quota "
                                 "of %llu has %llu left: it begins anew in "
                                 "%s.", (unsigned long long) tokens,
                                 (unsigned long long) d->rate.burst,
                                 (unsigned long long) d->left, text);
        return;
    }

    (void) mst_api_error_set(&ctx->error, (int) llcf->status_code,
                             "rate_limit_exceeded", "",
                             "The request needs %llu tokens, your limit of "
                             "%llu has %llu left: please try again %s%s.",
                             (unsigned long long) tokens,
                             (unsigned long long) d->rate.burst,
                             (unsigned long long) d->left,
                             seconds ? "in " : "later", seconds ? text : "");
}


/* until there is enough; 0: never */

uint64_t
ngx_http_mistral_limit_seconds(ngx_http_mistral_debit_t *d)
{
    if (d->wait_ns == UINT64_MAX) {
        return 0;
    }

    return ngx_max(d->wait_ns / MST_S + (d->wait_ns % MST_S != 0), 1);
}
