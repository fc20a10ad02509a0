
/*
 * Variables of an engine's state, for maps that choose where a request goes
 * and for conditions of the log: $mistral_load > 80, and the like.
 *
 * They are of the model that answers, as far as that is known, and are read
 * from its segment whenever they are asked for.  One without an engine that
 * serves is not found, but $mistral_ready, which then is 0.  The segment's
 * words are another process's: none is trusted to fit to another.
 * Workers only.
 */

#include "gateway/ngx_http_mistral_request.h"

#include "base/mst_time.h"
#include "shm/mst_place.h"


typedef enum {
    NGX_HTTP_MISTRAL_STATE_READY = 0,
    NGX_HTTP_MISTRAL_STATE_RUNNING,
    NGX_HTTP_MISTRAL_STATE_WAITING,
    NGX_HTTP_MISTRAL_STATE_WAITING_TOKENS,
    NGX_HTTP_MISTRAL_STATE_KV_FREE,
    NGX_HTTP_MISTRAL_STATE_KV_USAGE,
    NGX_HTTP_MISTRAL_STATE_KV_NEEDED,
    NGX_HTTP_MISTRAL_STATE_LOAD,
    NGX_HTTP_MISTRAL_STATE_TTFT
} ngx_http_mistral_state_variable_e;


static ngx_int_t ngx_http_mistral_state_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_http_mistral_model_t *ngx_http_mistral_state_model(
    ngx_http_request_t *r, ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_state_value(uintptr_t data,
    const mst_shm_t *shm, ngx_http_mistral_ctx_t *ctx, uint64_t *n);
static uint64_t ngx_http_mistral_state_percent(uint64_t part, uint64_t all);
static ngx_int_t ngx_http_mistral_state_needed(const mst_stat_t *st,
    ngx_http_mistral_ctx_t *ctx, uint64_t *n);
static ngx_int_t ngx_http_mistral_state_ttft(const mst_shm_t *shm,
    ngx_http_mistral_ctx_t *ctx, uint64_t *n);


static ngx_http_variable_t  ngx_http_mistral_state_vars[] = {

    { ngx_string("mistral_ready"), NULL,
      ngx_http_mistral_state_variable, NGX_HTTP_MISTRAL_STATE_READY,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_running"), NULL,
      ngx_http_mistral_state_variable, NGX_HTTP_MISTRAL_STATE_RUNNING,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_waiting"), NULL,
      ngx_http_mistral_state_variable, NGX_HTTP_MISTRAL_STATE_WAITING,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_waiting_tokens"), NULL,
      ngx_http_mistral_state_variable, NGX_HTTP_MISTRAL_STATE_WAITING_TOKENS,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_kv_free"), NULL,
      ngx_http_mistral_state_variable, NGX_HTTP_MISTRAL_STATE_KV_FREE,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_kv_usage"), NULL,
      ngx_http_mistral_state_variable, NGX_HTTP_MISTRAL_STATE_KV_USAGE,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_kv_blocks_needed"), NULL,
      ngx_http_mistral_state_variable, NGX_HTTP_MISTRAL_STATE_KV_NEEDED,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_load"), NULL,
      ngx_http_mistral_state_variable, NGX_HTTP_MISTRAL_STATE_LOAD,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_est_ttft"), NULL,
      ngx_http_mistral_state_variable, NGX_HTTP_MISTRAL_STATE_TTFT,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_int_t
ngx_http_mistral_state_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    uint64_t                   n;
    ngx_int_t                  rc;
    const mst_map_t           *map;
    ngx_http_mistral_ctx_t    *ctx;
    ngx_http_mistral_model_t  *m;

    ctx = ngx_http_mistral_outer_ctx(r);
    m = ngx_http_mistral_state_model(r, ctx);

    v->not_found = 1;

    if (m == NULL) {
        return NGX_OK;
    }

    map = ngx_http_mistral_link_map(m);

    if (data == NGX_HTTP_MISTRAL_STATE_READY) {
        n = ngx_http_mistral_link_state(m) == NGX_HTTP_MISTRAL_READY;
        rc = NGX_OK;

    } else if (map == NULL || atomic_load(&map->shm->state)
                              != MST_STATE_READY)
    {
        return NGX_OK;

    } else {
        rc = ngx_http_mistral_state_value(data, map->shm, ctx, &n);
    }

    if (rc != NGX_OK) {
        return NGX_OK;
    }

    if (data == NGX_HTTP_MISTRAL_STATE_KV_USAGE) {
        return ngx_http_mistral_thousandths(r, n, v);
    }

    return ngx_http_mistral_number(r, n, v);
}


/* who answers, or would: the location's, the one asked for, the only one */

static ngx_http_mistral_model_t *
ngx_http_mistral_state_model(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx)
{
    ngx_str_t                       name;
    ngx_http_mistral_model_t       *m, **models;
    ngx_http_mistral_loc_conf_t    *mlcf;
    ngx_http_mistral_main_conf_t   *mmcf;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);
    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);

    m = ctx && ctx->model ? ctx->model : mlcf->model;

    if (m == NULL && ctx && ctx->body && ctx->body->model.len) {
        name.data = (u_char *) ctx->body->model.data;
        name.len = ctx->body->model.len;
        m = ngx_http_mistral_find_model(mmcf, &name);
    }

    if (m == NULL && mmcf->models.nelts == 1) {
        models = mmcf->models.elts;
        m = models[0];
    }

    return m;
}


static ngx_int_t
ngx_http_mistral_state_value(uintptr_t data, const mst_shm_t *shm,
    ngx_http_mistral_ctx_t *ctx, uint64_t *n)
{
    uint32_t           places;
    uint64_t           all, used, tokens;
    const mst_stat_t  *st;

    st = &shm->stat;

    all = mst_stat_get(&st->blocks_total);
    used = ngx_min(mst_stat_get(&st->blocks_used), all);

    switch (data) {

    case NGX_HTTP_MISTRAL_STATE_RUNNING:
        *n = mst_stat_get(&st->running);
        return NGX_OK;

    case NGX_HTTP_MISTRAL_STATE_WAITING:
        *n = mst_stat_get(&st->waiting);
        return NGX_OK;

    case NGX_HTTP_MISTRAL_STATE_WAITING_TOKENS:
        *n = mst_stat_get(&st->waiting_tokens);
        return NGX_OK;

    case NGX_HTTP_MISTRAL_STATE_KV_FREE:
        *n = all - used;
        return NGX_OK;

    case NGX_HTTP_MISTRAL_STATE_KV_USAGE:
        *n = all ? (uint64_t) ((double) used / (double) all * 1000 + 0.5) : 0;
        return NGX_OK;

    case NGX_HTTP_MISTRAL_STATE_KV_NEEDED:
        return ngx_http_mistral_state_needed(st, ctx, n);

    case NGX_HTTP_MISTRAL_STATE_LOAD:

        /* places are counted by the workers: nothing is late about them */

        mst_place_held(shm, &places, &tokens);

        *n = ngx_max(ngx_http_mistral_state_percent(places,
                                               atomic_load(&shm->max_batch)),
                     ngx_http_mistral_state_percent(used, all));
        return NGX_OK;

    default:
        return ngx_http_mistral_state_ttft(shm, ctx, n);
    }
}


static uint64_t
ngx_http_mistral_state_percent(uint64_t part, uint64_t all)
{
    return all ? (uint64_t) ((double) ngx_min(part, all) / (double) all * 100
                             + 0.5)
               : 0;
}


static ngx_int_t
ngx_http_mistral_state_needed(const mst_stat_t *st,
    ngx_http_mistral_ctx_t *ctx, uint64_t *n)
{
    uint32_t  i;
    uint64_t  tokens, block;

    block = mst_stat_get(&st->block_tokens);

    if (ctx == NULL || ctx->n_choices == 0 || block == 0) {
        return NGX_DECLINED;
    }

    *n = 0;

    for (i = 0; i < ctx->n_choices; i++) {
        tokens = ctx->choices[i].source->n_ids
                 + ctx->body->params.max_tokens;
        *n += tokens / block + (tokens % block != 0);
    }

    return NGX_OK;
}


/*
 * Milliseconds until the first token of a request that is submitted now, by
 * the rates that the engine measures: all who wait come first, by tokens and,
 * where no place is free, by places.
 */

static ngx_int_t
ngx_http_mistral_state_ttft(const mst_shm_t *shm, ngx_http_mistral_ctx_t *ctx,
    uint64_t *n)
{
    double             ms, wait, prompt, finish;
    uint64_t           tokens;
    ngx_uint_t         i;
    const mst_stat_t  *st;

    st = &shm->stat;

    prompt = (double) mst_stat_get(&st->prompt_rate) / 1000;
    finish = (double) mst_stat_get(&st->finish_rate) / 1000;

    if (prompt == 0) {
        return NGX_DECLINED;
    }

    tokens = mst_stat_get(&st->prefilling) + (ctx ? ctx->n_ids : 0);

    for (i = 0; i < MST_CLASSES; i++) {
        tokens += mst_stat_get(&st->classes[i].tokens);
    }

    ms = (double) tokens / prompt * 1000;

    if (finish != 0
        && mst_stat_get(&st->running) >= atomic_load(&shm->max_batch))
    {
        wait = (double) (mst_stat_get(&st->waiting) + 1) / finish * 1000;
        ms = ngx_max(ms, wait);
    }

    *n = (uint64_t) ngx_min(ms, 1e15);

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_add_state_variables(ngx_conf_t *cf)
{
    return ngx_http_mistral_add_table(cf, ngx_http_mistral_state_vars);
}
