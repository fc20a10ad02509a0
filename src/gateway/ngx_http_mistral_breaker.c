
/*
 * mistral_breaker: a model whose engine fails again and again is left alone
 * for a while.
 *
 * The breaker is the model's (base/mst_breaker.h, in shared memory, by the
 * engine's identity: a changed block begins with a closed one); the numbers
 * are those of the location that a request came to.  Only the engine's own
 * faults count, ctx->fault: an answer that it broke off or did not begin.
 * A request through a half-open breaker has gone well with its first token:
 * an answer may take minutes, and that the engine computes is known then.
 * Workers only, but for directive and init_module.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_keep.h"
#include "gateway/ngx_http_mistral_route.h"

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_BREAKER_ERRORS  5
#define NGX_HTTP_MISTRAL_BREAKER_WINDOW  30000     /* ms */
#define NGX_HTTP_MISTRAL_BREAKER_OPEN    10000     /* ms */
#define NGX_HTTP_MISTRAL_BREAKER_PROBES  2


typedef struct {
    ngx_shm_zone_t      *zone;                 /* NULL: there is no model */
} ngx_http_mistral_breaker_main_conf_t;


typedef struct {
    ngx_uint_t           on;                   /* 0 | 1 */
    mst_breaker_conf_t   conf;
} ngx_http_mistral_breaker_loc_conf_t;


/* of a request that is let through a half-open breaker */
typedef struct {
    uint64_t             probe;                /* 0: it was said how it went */
} ngx_http_mistral_breaker_ctx_t;


static void *ngx_http_mistral_breaker_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_breaker_init_main_conf(ngx_conf_t *cf,
    void *conf);
static void *ngx_http_mistral_breaker_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_breaker_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_mistral_breaker(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mistral_breaker_param(ngx_str_t *value,
    mst_breaker_conf_t *conf);
static ngx_int_t ngx_http_mistral_breaker_time(ngx_str_t *text,
    uint64_t *ns);
static ngx_int_t ngx_http_mistral_breaker_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_mistral_breaker_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_mistral_breaker_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static mst_breaker_conf_t *ngx_http_mistral_breaker_conf(
    ngx_http_mistral_ctx_t *ctx, ngx_http_mistral_model_t *m);
static ngx_int_t ngx_http_mistral_breaker_look(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m);
static void ngx_http_mistral_breaker_refuse(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m);
static ngx_int_t ngx_http_mistral_breaker_counted(
    ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_breaker_progress(
    ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_breaker_settle(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_breaker_failed(ngx_http_mistral_ctx_t *ctx,
    mst_breaker_conf_t *conf);


static ngx_command_t  ngx_http_mistral_breaker_commands[] = {

    { ngx_string("mistral_breaker"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_ANY,
      ngx_http_mistral_breaker,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_breaker_module_ctx = {
    ngx_http_mistral_breaker_add_variables, /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mistral_breaker_create_main_conf, /* create main configuration */
    ngx_http_mistral_breaker_init_main_conf, /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_breaker_create_loc_conf, /* create location
                                                 configuration */
    ngx_http_mistral_breaker_merge_loc_conf /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_breaker_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_breaker_module_ctx,  /* module context */
    ngx_http_mistral_breaker_commands,     /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_mistral_breaker_init_module,  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


const ngx_http_mistral_policy_t  ngx_http_mistral_breaker_policy = {
    .state = ngx_http_mistral_breaker_look,
    .counted = ngx_http_mistral_breaker_counted,
    .progress = ngx_http_mistral_breaker_progress,
    .settle = ngx_http_mistral_breaker_settle
};


static ngx_http_variable_t  ngx_http_mistral_breaker_vars[] = {

    { ngx_string("mistral_breaker_state"), NULL,
      ngx_http_mistral_breaker_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static void *
ngx_http_mistral_breaker_create_main_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_breaker_main_conf_t));
}


static char *
ngx_http_mistral_breaker_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_mistral_breaker_main_conf_t *bmcf = conf;

    ngx_str_t                      name;
    ngx_http_mistral_main_conf_t  *mmcf;

    ngx_str_set(&name, "ngx_http_mistral_breaker");
    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mistral_module);

    if (mmcf->models.nelts == 0) {
        return NGX_CONF_OK;
    }

    bmcf->zone = ngx_http_mistral_keep_add(cf, &name,
                                           &ngx_http_mistral_breaker_module,
                                           sizeof(mst_breaker_t));

    return bmcf->zone ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static void *
ngx_http_mistral_breaker_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_breaker_loc_conf_t  *blcf;

    blcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_breaker_loc_conf_t));

    if (blcf) {
        blcf->on = NGX_CONF_UNSET_UINT;
    }

    return blcf;
}


static char *
ngx_http_mistral_breaker_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_breaker_loc_conf_t *prev = parent;
    ngx_http_mistral_breaker_loc_conf_t *conf = child;

    /* a line is inherited as a whole */

    if (conf->on == NGX_CONF_UNSET_UINT) {
        conf->conf = prev->conf;
    }

    ngx_conf_merge_uint_value(conf->on, prev->on, 0);

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_breaker(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_breaker_loc_conf_t *blcf = conf;

    ngx_str_t           *value;
    ngx_uint_t           i;
    mst_breaker_conf_t   given;

    if (blcf->on != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;
    blcf->on = 1;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        blcf->on = 0;
        return NGX_CONF_OK;
    }

    ngx_memzero(&given, sizeof(mst_breaker_conf_t));

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_http_mistral_breaker_param(&value[i], &given) != NGX_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\", it must be one of "
                               "\"errors=1..%d\", \"window=time\", "
                               "\"open=time\", \"probes=1..%d\", each once, "
                               "or \"off\" alone", &value[i],
                               MST_BREAKER_ERRORS, MST_BREAKER_PROBES);
            return NGX_CONF_ERROR;
        }
    }

    blcf->conf.errors = given.errors ? given.errors
                                     : NGX_HTTP_MISTRAL_BREAKER_ERRORS;
    blcf->conf.probes = given.probes ? given.probes
                                     : NGX_HTTP_MISTRAL_BREAKER_PROBES;
    blcf->conf.window_ns = given.window_ns
                           ? given.window_ns
                           : NGX_HTTP_MISTRAL_BREAKER_WINDOW * MST_MS;
    blcf->conf.open_ns = given.open_ns
                         ? given.open_ns
                         : NGX_HTTP_MISTRAL_BREAKER_OPEN * MST_MS;

    return NGX_CONF_OK;
}


/* what is not given yet is 0 */

static ngx_int_t
ngx_http_mistral_breaker_param(ngx_str_t *value, mst_breaker_conf_t *conf)
{
    u_char      *eq;
    uint32_t    *number;
    ngx_int_t    n, max;
    ngx_str_t    text;

    eq = ngx_strlchr(value->data, value->data + value->len, '=');
    if (eq == NULL) {
        return NGX_ERROR;
    }

    text.data = eq + 1;
    text.len = value->data + value->len - text.data;

    if (ngx_strncmp(value->data, "window=", 7) == 0) {
        return ngx_http_mistral_breaker_time(&text, &conf->window_ns);
    }

    if (ngx_strncmp(value->data, "open=", 5) == 0) {
        return ngx_http_mistral_breaker_time(&text, &conf->open_ns);
    }

    if (ngx_strncmp(value->data, "errors=", 7) == 0) {
        number = &conf->errors;
        max = MST_BREAKER_ERRORS;

    } else if (ngx_strncmp(value->data, "probes=", 7) == 0) {
        number = &conf->probes;
        max = MST_BREAKER_PROBES;

    } else {
        return NGX_ERROR;
    }

    n = ngx_atoi(text.data, text.len);

    if (*number || n < 1 || n > max) {
        return NGX_ERROR;
    }

    *number = (uint32_t) n;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_breaker_time(ngx_str_t *text, uint64_t *ns)
{
    ngx_int_t  ms;

    ms = ngx_parse_time(text, 0);

    if (*ns || ms == NGX_ERROR || ms == 0 || ms > NGX_MAX_INT32_VALUE) {
        return NGX_ERROR;
    }

    *ns = (uint64_t) ms * MST_MS;

    return NGX_OK;
}


/* init_zone of the models has made the identities by now */

static ngx_int_t
ngx_http_mistral_breaker_init_module(ngx_cycle_t *cycle)
{
    ngx_uint_t                             i;
    ngx_http_mistral_model_t             **models;
    ngx_http_mistral_main_conf_t          *mmcf;
    ngx_http_mistral_breaker_main_conf_t  *bmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mistral_module);
    bmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                            ngx_http_mistral_breaker_module);

    if (ngx_test_config || bmcf == NULL || bmcf->zone == NULL) {
        return NGX_OK;
    }

    models = mmcf->models.elts;

    for (i = 0; i < mmcf->models.nelts; i++) {
        models[i]->breaker = ngx_http_mistral_keep_get(bmcf->zone,
                                                       models[i]->hash);
        if (models[i]->breaker == NULL) {
            ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                          "mistral model \"%V\": no breaker, there is room "
                          "for %d models", &models[i]->name,
                          NGX_HTTP_MISTRAL_KEEP);
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_breaker_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mistral_add_table(cf, ngx_http_mistral_breaker_vars);
}


/* of the model that answers; before that is known, of the location's own */

static ngx_int_t
ngx_http_mistral_breaker_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    uint64_t                      wait;
    ngx_http_mistral_ctx_t       *ctx;
    ngx_http_mistral_model_t     *m;
    ngx_http_mistral_loc_conf_t  *mlcf;

    ctx = ngx_http_mistral_get_ctx(r);
    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);

    m = ctx && ctx->model ? ctx->model : mlcf->model;

    if (m == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = (u_char *) ngx_http_mistral_breaker_name(
                             ngx_http_mistral_breaker_state(m, &wait));
    v->len = ngx_strlen(v->data);
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


mst_breaker_state_t
ngx_http_mistral_breaker_state(ngx_http_mistral_model_t *m, uint64_t *wait_ns)
{
    *wait_ns = 0;

    return m->breaker ? mst_breaker_state(m->breaker, mst_time_ns(), wait_ns)
                      : MST_BREAKER_CLOSED;
}


const char *
ngx_http_mistral_breaker_name(mst_breaker_state_t state)
{
    return state == MST_BREAKER_OPEN ? "open"
           : state == MST_BREAKER_HALF_OPEN ? "half_open" : "closed";
}


void
ngx_http_mistral_breaker_resume(ngx_http_mistral_model_t *m)
{
    if (m->breaker) {
        mst_breaker_reset(m->breaker);
    }
}


/* the location's numbers; NULL: nobody looks at a breaker there */

static mst_breaker_conf_t *
ngx_http_mistral_breaker_conf(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    ngx_http_mistral_breaker_loc_conf_t  *blcf;

    blcf = ctx->loc_conf[ngx_http_mistral_breaker_module.ctx_index];

    return blcf->on && m->breaker ? &blcf->conf : NULL;
}


ngx_uint_t
ngx_http_mistral_breaker_allows(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    mst_breaker_conf_t  *conf;

    conf = ngx_http_mistral_breaker_conf(ctx, m);

    return conf == NULL
           || mst_breaker_look(m->breaker, conf, mst_time_ns()) == MST_OK;
}


static ngx_int_t
ngx_http_mistral_breaker_look(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    if (ngx_http_mistral_breaker_allows(ctx, m)) {
        return NGX_OK;
    }

    ngx_http_mistral_breaker_refuse(ctx, m);

    return NGX_DECLINED;
}


static void
ngx_http_mistral_breaker_refuse(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    uint64_t  wait;

    (void) ngx_http_mistral_breaker_state(m, &wait);

    ctx->shed = "breaker";
    ctx->retry_after = ngx_max((wait + MST_S - 1) / MST_S, 1);

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_SERVICE_UNAVAILABLE,
                             "breaker", "",
                             "The model has failed repeatedly, try again in "
                             "%u s.", (unsigned) ctx->retry_after);
}


/* the last step before the engine gets it: a probe is no earlier one */

static ngx_int_t
ngx_http_mistral_breaker_counted(ngx_http_mistral_ctx_t *ctx)
{
    uint64_t                         probe;
    mst_breaker_conf_t              *conf;
    ngx_http_mistral_breaker_ctx_t  *bctx;

    conf = ngx_http_mistral_breaker_conf(ctx, ctx->model);

    if (conf == NULL) {
        return NGX_OK;
    }

    if (mst_breaker_enter(ctx->model->breaker, conf, mst_time_ns(), &probe)
        != MST_OK)
    {
        ngx_http_mistral_breaker_refuse(ctx, ctx->model);
        return NGX_DECLINED;
    }

    if (probe == 0) {
        return NGX_OK;
    }

    bctx = ngx_palloc(ctx->request->pool,
                      sizeof(ngx_http_mistral_breaker_ctx_t));
    if (bctx == NULL) {
        mst_breaker_leave(ctx->model->breaker, probe);
        return NGX_ERROR;
    }

    bctx->probe = probe;
    ngx_http_set_ctx(ctx->request, bctx, ngx_http_mistral_breaker_module);

    ngx_log_error(NGX_LOG_INFO, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" tries the half-open breaker of "
                  "model \"%V\"", &ctx->id, &ctx->model->name);

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_breaker_progress(ngx_http_mistral_ctx_t *ctx)
{
    uint64_t                         probe;
    mst_breaker_conf_t              *conf;
    ngx_http_mistral_breaker_ctx_t  *bctx;

    bctx = ngx_http_get_module_ctx(ctx->request,
                                   ngx_http_mistral_breaker_module);

    if (bctx == NULL || bctx->probe == 0
        || (ctx->first_ns == 0 && ctx->n_done < ctx->n_choices))
    {
        return NGX_OK;
    }

    probe = bctx->probe;
    bctx->probe = 0;
    conf = ngx_http_mistral_breaker_conf(ctx, ctx->model);

    if (mst_breaker_pass(ctx->model->breaker, conf, probe) == MST_DONE) {
        ngx_log_error(NGX_LOG_NOTICE, ctx->request->connection->log, 0,
                      "mistral: breaker of model \"%V\" is closed",
                      &ctx->model->name);
    }

    return NGX_OK;
}


static void
ngx_http_mistral_breaker_settle(ngx_http_mistral_ctx_t *ctx)
{
    mst_breaker_conf_t              *conf;
    ngx_http_mistral_breaker_ctx_t  *bctx;

    conf = ngx_http_mistral_breaker_conf(ctx, ctx->model);

    if (conf == NULL) {
        return;
    }

    bctx = ngx_http_get_module_ctx(ctx->request,
                                   ngx_http_mistral_breaker_module);

    if (ctx->fault) {
        ngx_http_mistral_breaker_failed(ctx, conf);

    } else if (bctx && bctx->probe) {
        mst_breaker_leave(ctx->model->breaker, bctx->probe);
    }

    if (bctx) {
        bctx->probe = 0;
    }
}


static void
ngx_http_mistral_breaker_failed(ngx_http_mistral_ctx_t *ctx,
    mst_breaker_conf_t *conf)
{
    if (mst_breaker_fault(ctx->model->breaker, conf, mst_time_ns())
        != MST_DONE)
    {
        return;
    }

    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                  "mistral: breaker of model \"%V\" is open for %uL ms: %uD "
                  "faults within %uL ms, or one while it was half-open",
                  &ctx->model->name, conf->open_ns / MST_MS, conf->errors,
                  conf->window_ns / MST_MS);
}
