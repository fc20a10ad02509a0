
/*
 * One model is asked for a request: may it be, and what is undone when it
 * shall be another one.  request.c has chosen the first, a policy the next.
 * Workers only.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_wait.h"

#include "api/mst_fit.h"


static ngx_uint_t ngx_http_mistral_hot(ngx_http_mistral_model_t *m);


/* the model is chosen: from here on for each one that is tried */

void
ngx_http_mistral_begin(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t  rc;

    rc = NGX_OK;

    if (mst_fit_ids(ctx->body,
                    mst_tokenizer_info(ctx->model->tokenizer)->n_vocab,
                    &ctx->error)
        != MST_OK
        || mst_fit_experts(ctx->body, ctx->model->n_experts, &ctx->error)
           != MST_OK)
    {
        rc = NGX_DECLINED;
    }

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_check_state(ctx, ctx->model);
    }

    /* who waits for an engine is encoded meanwhile (NGX_AGAIN) */

    if (rc == NGX_ERROR) {
        ngx_http_mistral_fail_internal(ctx);

    } else if (rc == NGX_DECLINED) {
        ngx_http_mistral_fail(ctx);

    } else if (ctx->api == MST_API_DETOKENIZE) {
        ngx_http_mistral_detokenize(ctx);

    } else {
        ngx_http_mistral_prompt(ctx);
    }
}


void
ngx_http_mistral_redo(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    ngx_http_mistral_release(ctx);
    ngx_http_mistral_choices_fini(ctx);
    ngx_http_mistral_sources_fini(ctx);

    ctx->n_choices = 0;
    ctx->n_sent = 0;
    ctx->n_done = 0;
    ctx->n_sources = 0;
    ctx->n_encoded = 0;
    ctx->n_ids = 0;

    ngx_http_mistral_policy_settle(ctx);

    ctx->counted = 0;
    ctx->settled = 0;
    ctx->admitted = 0;
    ctx->start_by = 0;
    ctx->first_ns = 0;
    ctx->beyond = 0;
    ctx->gathered = 0;
    mst_buf_reset(&ctx->out);
    ngx_memzero(&ctx->reply, sizeof(mst_reply_t));
    ngx_http_mistral_forget_error(ctx);

    ctx->model = m;

    ngx_http_mistral_begin(ctx);
}


void
ngx_http_mistral_forget_error(ngx_http_mistral_ctx_t *ctx)
{
    ngx_memzero(&ctx->error, sizeof(mst_api_error_t));
    ctx->shed = NULL;
    ctx->retry_after = 0;
    ctx->limited = 0;
    ctx->fault = 0;
}


ngx_int_t
ngx_http_mistral_check_state(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    ngx_int_t  rc;

    rc = ngx_http_mistral_look(ctx, m);

    if (rc == NGX_DECLINED) {
        ngx_http_mistral_log_state(ctx);
    }

    return rc;
}


ngx_int_t
ngx_http_mistral_look(ngx_http_mistral_ctx_t *ctx, ngx_http_mistral_model_t *m)
{
    ngx_int_t  rc;

    /* text to tokens and back needs no engine */

    if (ctx->api == MST_API_TOKENIZE || ctx->api == MST_API_DETOKENIZE) {
        return NGX_OK;
    }

    rc = ngx_http_mistral_policy_state(ctx, m);

    if (rc != NGX_OK) {
        ctx->model = m;
        return rc;
    }

    rc = ngx_http_mistral_look_engine(ctx, m);

    if (rc == NGX_OK) {
        return ngx_http_mistral_wait_behind(ctx, m) ? NGX_AGAIN : NGX_OK;
    }

    if (rc == NGX_AGAIN && !ngx_http_mistral_wait_room(ctx)) {
        return NGX_DECLINED;
    }

    if (rc == NGX_AGAIN) {
        ngx_http_mistral_forget_error(ctx);
    }

    return rc;
}


ngx_int_t
ngx_http_mistral_look_engine(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    ngx_http_mistral_state_e  state;

    state = ngx_http_mistral_link_state(m);

    if (state == NGX_HTTP_MISTRAL_READY && ngx_http_mistral_hot(m)) {
        state = NGX_HTTP_MISTRAL_HOT;
    }

    if (state == NGX_HTTP_MISTRAL_READY) {
        return NGX_OK;
    }

    ctx->model = m;
    ctx->shed = ngx_http_mistral_unavailable(state, &ctx->error);

    return state != NGX_HTTP_MISTRAL_HOT && ngx_http_mistral_wait_may(ctx)
           ? NGX_AGAIN : NGX_DECLINED;
}


/* what runs goes on, and gives the device the time to cool */

static ngx_uint_t
ngx_http_mistral_hot(ngx_http_mistral_model_t *m)
{
    const mst_map_t  *map;

    map = m->thermal_limit ? ngx_http_mistral_link_map(m) : NULL;

    return map != NULL
           && mst_stat_get(&map->shm->stat.celsius) > m->thermal_limit;
}


void
ngx_http_mistral_log_state(ngx_http_mistral_ctx_t *ctx)
{
    const char  *shed;

    shed = ctx->shed ? ctx->shed : "refused";

    ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" refused: %s of model \"%V\" is %s",
                  &ctx->id,
                  ngx_strcmp(shed, "breaker") == 0 ? "breaker" : "engine",
                  &ctx->model->name,
                  ngx_strcmp(shed, "breaker") == 0 ? "open"
                  : ngx_strcmp(shed, "engine") == 0 ? "down"
                  : ngx_strcmp(shed, "thermal") == 0
                  ? "above its thermal_limit" : shed);
}
