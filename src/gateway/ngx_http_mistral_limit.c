
/*
 * A request and its limits: asked before it takes a place in the queue, when
 * its prompts' tokens are exact; told as its tokens come what they may still
 * take; settled at its end, before the last byte leaves.
 *
 * What counts is what the client is told in "usage": each prompt once however
 * many answers it has, the tokens of each answer that was computed, copies
 * not.  Nothing counts of a prompt that the engine never admitted, nor of a
 * request that failed with 5xx before its first token.  How it is asked:
 * limit_ask.c; what is told of it all: limit_show.c.  Workers only.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include "base/mst_time.h"


static ngx_int_t ngx_http_mistral_limit_counted(ngx_http_mistral_ctx_t *ctx);
static ngx_http_mistral_limit_ctx_t *ngx_http_mistral_limit_create_ctx(
    ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_limit_forget(void *data);
static void ngx_http_mistral_limit_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s);
static uint32_t ngx_http_mistral_limit_tokens(
    ngx_http_mistral_choice_t *choice, uint32_t n);
static ngx_int_t ngx_http_mistral_limit_progress(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_limit_pace(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_ctx_t *lctx);
static uint64_t ngx_http_mistral_limit_share(ngx_http_mistral_debit_t *d,
    uint32_t answers);
static void ngx_http_mistral_limit_used(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_used_t *used);
static void ngx_http_mistral_limit_settle(ngx_http_mistral_ctx_t *ctx);


const ngx_http_mistral_policy_t  ngx_http_mistral_limit_policy = {
    .counted = ngx_http_mistral_limit_counted,
    .submit = ngx_http_mistral_limit_submit,
    .tokens = ngx_http_mistral_limit_tokens,
    .progress = ngx_http_mistral_limit_progress,
    .headers = ngx_http_mistral_limit_headers,
    .settle = ngx_http_mistral_limit_settle
};


static ngx_int_t
ngx_http_mistral_limit_counted(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                           rc;
    ngx_uint_t                          i;
    ngx_http_mistral_debit_t           *d;
    ngx_http_mistral_limit_ctx_t       *lctx;
    ngx_http_mistral_limit_loc_conf_t  *llcf;

    llcf = ctx->loc_conf[ngx_http_mistral_limit_module.ctx_index];

    if (llcf->limits == NULL && llcf->quotas == NULL) {
        return NGX_OK;
    }

    lctx = ngx_http_mistral_limit_create_ctx(ctx);
    if (lctx == NULL) {
        return NGX_ERROR;
    }

    lctx->dry_run = llcf->dry_run;

    rc = ngx_http_mistral_limit_ask(ctx, lctx, llcf->limits);

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_limit_ask(ctx, lctx, llcf->quotas);
    }

    d = lctx->debits.elts;

    for (i = 0; i < lctx->debits.nelts; i++) {

        if (rc != NGX_OK) {
            ngx_http_mistral_debit_settle(&d[i], 0);

        } else if (d[i].hold) {
            atomic_fetch_add(&d[i].limit->zone->table->counts[
                                             NGX_HTTP_MISTRAL_LIMIT_PASSED],
                             1);
        }
    }

    return rc;
}


/* a request that another model takes over is counted again */

static ngx_http_mistral_limit_ctx_t *
ngx_http_mistral_limit_create_ctx(ngx_http_mistral_ctx_t *ctx)
{
    ngx_pool_cleanup_t            *cln;
    ngx_http_mistral_limit_ctx_t  *lctx;

    cln = ngx_pool_cleanup_add(ctx->request->pool,
                               sizeof(ngx_http_mistral_limit_ctx_t));
    if (cln == NULL) {
        return NULL;
    }

    lctx = cln->data;
    ngx_memzero(lctx, sizeof(ngx_http_mistral_limit_ctx_t));

    lctx->request = ctx->request;
    cln->handler = ngx_http_mistral_limit_forget;

    if (ngx_array_init(&lctx->debits, ctx->request->pool, 2,
                       sizeof(ngx_http_mistral_debit_t))
        != NGX_OK)
    {
        return NULL;
    }

    ngx_http_set_ctx(ctx->request, lctx, ngx_http_mistral_limit_module);

    return lctx;
}


/* after an internal redirect, too: see ngx_http_mistral_get_ctx() */

ngx_http_mistral_limit_ctx_t *
ngx_http_mistral_limit_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t            *cln;
    ngx_http_mistral_limit_ctx_t  *lctx;

    lctx = ngx_http_get_module_ctx(r, ngx_http_mistral_limit_module);

    if (lctx || !(r->internal || r->filter_finalize)) {
        return lctx;
    }

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_mistral_limit_forget) {
            lctx = cln->data;

            if (lctx->request == r) {
                return lctx;
            }
        }
    }

    return NULL;
}


static void
ngx_http_mistral_limit_forget(void *data)
{
    /* its debits were settled when the request was closed */
}


/*
 * An answer that may need more than its reserve is paced from its first token
 * on: until we saw what is beyond it, a fast engine would be far ahead.
 */

static void
ngx_http_mistral_limit_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s)
{
    uint64_t                       share;
    ngx_uint_t                     i;
    ngx_http_mistral_debit_t      *d;
    ngx_http_mistral_limit_ctx_t  *lctx;

    lctx = ngx_http_mistral_limit_get_ctx(ctx->request);

    if (lctx == NULL) {
        return;
    }

    d = lctx->debits.elts;

    for (i = 0; i < lctx->debits.nelts; i++) {

        if (d[i].hold == NULL || lctx->dry_run
            || d[i].limit->reserve >= choice->max_tokens
            || d[i].limit->overrun != NGX_HTTP_MISTRAL_LIMIT_PACE)
        {
            continue;
        }

        share = ngx_http_mistral_limit_share(&d[i],
                                             d[i].paced + ctx->n_choices);
        share += (uint64_t) d[i].limit->reserve * 1000;
        share = ngx_min(share, UINT32_MAX);

        if (s->claim.pace == 0 || share < s->claim.pace) {
            s->claim.pace = (uint32_t) share;
        }
    }
}


/* n tokens more of this answer have come: how many are paid for */

static uint32_t
ngx_http_mistral_limit_tokens(ngx_http_mistral_choice_t *choice, uint32_t n)
{
    uint64_t                        real, missing, got;
    uint32_t                        paid;
    ngx_uint_t                      i, overrun, pace;
    ngx_http_mistral_ctx_t         *ctx;
    ngx_http_mistral_debit_t       *d;
    ngx_http_mistral_limit_ctx_t   *lctx;
    ngx_http_mistral_limit_used_t   used;

    ctx = choice->ctx;
    lctx = ngx_http_mistral_limit_get_ctx(ctx->request);

    if (lctx == NULL || !lctx->scarce || ctx->settled) {
        return n;
    }

    ngx_http_mistral_limit_used(ctx, &used);
    used.completion += n;

    d = lctx->debits.elts;
    paid = n;
    pace = 0;

    for (i = 0; i < lctx->debits.nelts; i++) {

        if (d[i].hold == NULL) {
            continue;
        }

        real = ngx_http_mistral_limit_real(d[i].limit, &used);

        if (real > d[i].tokens) {
            missing = real - d[i].tokens;
            overrun = lctx->dry_run ? NGX_HTTP_MISTRAL_LIMIT_FINISH
                                    : d[i].limit->overrun;

            got = ngx_http_mistral_debit_more(&d[i], missing,
                                 overrun != NGX_HTTP_MISTRAL_LIMIT_STOP,
                                 overrun == NGX_HTTP_MISTRAL_LIMIT_PACE
                                 ? ctx->n_choices - ctx->n_done : 0);

            paid = ngx_min(paid, n - (uint32_t) ngx_min(missing - got, n));
            pace |= overrun == NGX_HTTP_MISTRAL_LIMIT_PACE;
        }
    }

    if (pace) {
        ngx_http_mistral_limit_pace(ctx, lctx);
    }

    return paid;
}


/* for whoever settles it if this worker dies */

static ngx_int_t
ngx_http_mistral_limit_progress(ngx_http_mistral_ctx_t *ctx)
{
    ngx_uint_t                      i;
    ngx_http_mistral_debit_t       *d;
    ngx_http_mistral_limit_ctx_t   *lctx;
    ngx_http_mistral_limit_used_t   used;

    lctx = ngx_http_mistral_limit_get_ctx(ctx->request);

    if (lctx == NULL || ctx->settled) {
        return NGX_OK;
    }

    ngx_http_mistral_limit_used(ctx, &used);
    d = lctx->debits.elts;

    for (i = 0; i < lctx->debits.nelts; i++) {
        ngx_http_mistral_debit_note(&d[i],
                                  ngx_http_mistral_limit_real(d[i].limit,
                                                              &used));
    }

    return NGX_OK;
}


/* news for the engine only where they make a difference */

static void
ngx_http_mistral_limit_pace(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_ctx_t *lctx)
{
    uint32_t                   k;
    uint64_t                   pace, share;
    ngx_uint_t                 i;
    ngx_http_mistral_call_t   *call;
    ngx_http_mistral_debit_t  *d;

    d = lctx->debits.elts;
    pace = 0;

    for (i = 0; i < lctx->debits.nelts; i++) {

        if (d[i].hold && d[i].paced
            && d[i].limit->overrun == NGX_HTTP_MISTRAL_LIMIT_PACE)
        {
            share = ngx_http_mistral_limit_share(&d[i], d[i].paced);
            pace = pace ? ngx_min(pace, share) : share;
        }
    }

    for (k = 0; k < ctx->n_choices; k++) {
        call = &ctx->choices[k].call;

        if (pace < call->pace - call->pace / 8
            || pace > (uint64_t) call->pace + call->pace / 8)
        {
            ngx_http_mistral_link_pace(call, (uint32_t) pace);
        }
    }
}


/*
 * Tokens in 1000 s of each of so many answers: what comes into the bucket and
 * what is in it, that in about a second, so that it empties without a jolt.
 * What was taken too much is paid back the same way.
 */

static uint64_t
ngx_http_mistral_limit_share(ngx_http_mistral_debit_t *d, uint32_t answers)
{
    uint64_t  share;

    share = d->rate.tokens * 1000 / (d->rate.period_ns / MST_S);
    share += d->left * 1000;
    share -= ngx_min(d->debt * 1000, share - share / 4);
    share /= ngx_max(answers, 1);

    return ngx_min(ngx_max(share, 1), UINT32_MAX);
}


/* without what a choice had sampled beyond its end */

static void
ngx_http_mistral_limit_used(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_used_t *used)
{
    uint32_t     i;
    mst_usage_t  usage;

    ngx_http_mistral_usage(ctx, &usage);

    used->prompt = 0;
    used->cached = 0;
    used->completion = usage.completion;

    for (i = 0; i < ctx->n_sources; i++) {
        if (ctx->sources[i].admitted) {
            used->prompt += ctx->sources[i].n_ids;
            used->cached += ngx_min(ctx->sources[i].cached,
                                    ctx->sources[i].n_ids);
        }
    }
}


/* of that, what this limit counts */

uint64_t
ngx_http_mistral_limit_real(const ngx_http_mistral_limit_t *limit,
    const ngx_http_mistral_limit_used_t *used)
{
    switch (limit->count) {

    case NGX_HTTP_MISTRAL_LIMIT_PROMPT:
        return used->prompt;

    case NGX_HTTP_MISTRAL_LIMIT_UNCACHED:
        return used->prompt - used->cached + used->completion;

    case NGX_HTTP_MISTRAL_LIMIT_COMPLETION:
        return used->completion;

    default:
        return used->prompt + used->completion;
    }
}


static void
ngx_http_mistral_limit_settle(ngx_http_mistral_ctx_t *ctx)
{
    ngx_uint_t                      i;
    ngx_http_mistral_debit_t       *d;
    ngx_http_mistral_limit_ctx_t   *lctx;
    ngx_http_mistral_limit_used_t   used;

    lctx = ngx_http_mistral_limit_get_ctx(ctx->request);

    if (lctx == NULL || lctx->debits.nelts == 0) {
        return;
    }

    d = lctx->debits.elts;

    if (ctx->error.status >= NGX_HTTP_INTERNAL_SERVER_ERROR
        && ctx->first_ns == 0)
    {
        ngx_memzero(&used, sizeof(ngx_http_mistral_limit_used_t));

    } else {
        ngx_http_mistral_limit_used(ctx, &used);
    }

    for (i = 0; i < lctx->debits.nelts; i++) {
        ngx_http_mistral_debit_settle(&d[i],
                                  ngx_http_mistral_limit_real(d[i].limit,
                                                              &used));
    }
}
