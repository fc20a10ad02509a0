
/*
 * mistral_fallback: another model of this host for a request that its own
 * cannot take, before any byte of an answer.
 *
 * Lines are tried in their order, each at most once, never one that stands
 * before the last that was tried and never the first model again: so it ends.
 * The prompt is rendered and encoded anew, what was counted is settled for
 * nothing and counted again.  When no model takes it, the answer is the first
 * model's refusal, unless that was final (the prompt is too long) and a later
 * one is not.  Workers only, but for the directive.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_canary.h"
#include "gateway/ngx_http_mistral_metrics.h"
#include "gateway/ngx_http_mistral_route.h"


/* by their names of X-Mistral-Shed-Reason, and one that is no shedding */

static ngx_conf_bitmask_t  ngx_http_mistral_fallback_reasons[] = {
    { ngx_string("breaker"), 0x0001 },
    { ngx_string("queue_full"), 0x0002 },
    { ngx_string("kv_full"), 0x0004 },
    { ngx_string("deadline"), 0x0008 },
    { ngx_string("loading"), 0x0010 },
    { ngx_string("draining"), 0x0020 },
    { ngx_string("engine"), 0x0040 },
    { ngx_string("context"), 0x0080 },
    { ngx_string("thermal"), 0x0100 },
    { ngx_null_string, 0 }
};

#define NGX_HTTP_MISTRAL_FALLBACK_DEFAULT  0x017f

#define NGX_HTTP_MISTRAL_GONE  410


/* a line; cycle pool */
typedef struct {
    ngx_str_t                  name;
    ngx_http_mistral_model_t  *model;
    ngx_uint_t                 on;             /* of the reasons */
    u_char                    *file_name;
    ngx_uint_t                 line;
} ngx_http_mistral_fallback_t;


typedef struct {
    ngx_array_t                lines;          /* of _fallback_t *, all */
} ngx_http_mistral_fallback_main_conf_t;


typedef struct {
    ngx_array_t               *lines;          /* of _fallback_t *; NULL: as
                                                  the parent; empty: off */
} ngx_http_mistral_fallback_loc_conf_t;


/* of a request that left its first model: that one's refusal */
typedef struct {
    ngx_uint_t                 next;           /* line to be looked at */
    ngx_http_mistral_model_t  *model;
    mst_api_error_t            error;
    const char                *shed;
    ngx_uint_t                 retry_after;
} ngx_http_mistral_fallback_ctx_t;


static void *ngx_http_mistral_fallback_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_fallback_init_main_conf(ngx_conf_t *cf,
    void *conf);
static void *ngx_http_mistral_fallback_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_fallback_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static ngx_uint_t ngx_http_mistral_fallback_canary(ngx_conf_t *cf);
static char *ngx_http_mistral_fallback(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mistral_fallback_line(ngx_conf_t *cf,
    ngx_http_mistral_fallback_t *f);
static ngx_int_t ngx_http_mistral_fallback_on(ngx_str_t *list,
    ngx_uint_t *on);
static ngx_int_t ngx_http_mistral_fallback_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_mistral_fallback_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mistral_fallback_refused(
    ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_fallback_give_up(
    ngx_http_mistral_ctx_t *ctx, ngx_http_mistral_fallback_ctx_t *fctx);
static ngx_uint_t ngx_http_mistral_fallback_find(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_fallback_ctx_t *fctx, ngx_str_t *reason,
    ngx_http_mistral_fallback_t **f);
static ngx_conf_bitmask_t *ngx_http_mistral_fallback_reason(
    ngx_http_mistral_ctx_t *ctx);


static ngx_command_t  ngx_http_mistral_fallback_commands[] = {

    { ngx_string("mistral_fallback"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_fallback,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_fallback_module_ctx = {
    ngx_http_mistral_fallback_add_variables, /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mistral_fallback_create_main_conf, /* create main
                                                   configuration */
    ngx_http_mistral_fallback_init_main_conf, /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_fallback_create_loc_conf, /* create location
                                                  configuration */
    ngx_http_mistral_fallback_merge_loc_conf /* merge location
                                                configuration */
};


ngx_module_t  ngx_http_mistral_fallback_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_fallback_module_ctx, /* module context */
    ngx_http_mistral_fallback_commands,    /* module directives */
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


const ngx_http_mistral_policy_t  ngx_http_mistral_fallback_policy = {
    .elsewhere = ngx_http_mistral_fallback_takes,
    .refused = ngx_http_mistral_fallback_refused
};


static ngx_http_variable_t  ngx_http_mistral_fallback_vars[] = {

    { ngx_string("mistral_fallback_reason"), NULL,
      ngx_http_mistral_fallback_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static void *
ngx_http_mistral_fallback_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_fallback_main_conf_t  *fmcf;

    fmcf = ngx_pcalloc(cf->pool,
                       sizeof(ngx_http_mistral_fallback_main_conf_t));

    if (fmcf == NULL
        || ngx_array_init(&fmcf->lines, cf->pool, 4, sizeof(void *))
           != NGX_OK)
    {
        return NULL;
    }

    return fmcf;
}


/* all of http{} was read: every line finds its model */

static char *
ngx_http_mistral_fallback_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_mistral_fallback_main_conf_t *fmcf = conf;

    ngx_uint_t                      i;
    ngx_http_mistral_main_conf_t   *mmcf;
    ngx_http_mistral_fallback_t   **f;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mistral_module);
    f = fmcf->lines.elts;

    for (i = 0; i < fmcf->lines.nelts; i++) {
        f[i]->model = ngx_http_mistral_find_model(mmcf, &f[i]->name);

        if (f[i]->model == NULL) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "unknown mistral_model \"%V\" in %s:%ui",
                          &f[i]->name, f[i]->file_name, f[i]->line);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static void *
ngx_http_mistral_fallback_create_loc_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_fallback_loc_conf_t));
}


/* all or nothing, as add_header.  The location's own model may be a fallback
   where a canary goes first */

static char *
ngx_http_mistral_fallback_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_fallback_loc_conf_t *prev = parent;
    ngx_http_mistral_fallback_loc_conf_t *conf = child;

    ngx_uint_t                     i, k;
    ngx_http_mistral_fallback_t  **f;
    ngx_http_mistral_loc_conf_t   *mlcf;

    if (conf->lines == NULL) {
        conf->lines = prev->lines;
        return NGX_CONF_OK;
    }

    mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mistral_module);
    f = conf->lines->elts;

    for (i = 0; i < conf->lines->nelts; i++) {

        if (f[i]->model == mlcf->model
            && !ngx_http_mistral_fallback_canary(cf))
        {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "the fallback \"%V\" is the location's own model "
                          "in %s:%ui", &f[i]->name, f[i]->file_name,
                          f[i]->line);
            return NGX_CONF_ERROR;
        }

        for (k = 0; k < i; k++) {

            if (f[k]->model != f[i]->model) {
                continue;
            }

            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "the fallback \"%V\" stands there already "
                          "in %s:%ui", &f[i]->name, f[i]->file_name,
                          f[i]->line);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/* that module stands before ours: it is merged */

static ngx_uint_t
ngx_http_mistral_fallback_canary(ngx_conf_t *cf)
{
    ngx_http_mistral_canary_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf,
                                             ngx_http_mistral_canary_module);

    return clcf->lines && clcf->lines->nelts;
}


static char *
ngx_http_mistral_fallback(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_fallback_loc_conf_t *flcf = conf;

    ngx_str_t                               *value;
    ngx_uint_t                               off;
    ngx_http_mistral_fallback_t             *f, **all, **own;
    ngx_http_mistral_fallback_main_conf_t   *fmcf;

    value = cf->args->elts;
    off = cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0;

    if (flcf->lines && (off || flcf->lines->nelts == 0)) {
        return "cannot be \"off\" beside other lines";
    }

    if (flcf->lines == NULL) {
        flcf->lines = ngx_array_create(cf->pool, 2, sizeof(void *));
        if (flcf->lines == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (off) {
        return NGX_CONF_OK;
    }

    fmcf = ngx_http_conf_get_module_main_conf(cf,
                                           ngx_http_mistral_fallback_module);

    f = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_fallback_t));
    all = ngx_array_push(&fmcf->lines);
    own = ngx_array_push(flcf->lines);

    if (f == NULL || all == NULL || own == NULL) {
        return NGX_CONF_ERROR;
    }

    *all = f;
    *own = f;

    return ngx_http_mistral_fallback_line(cf, f) == NGX_OK ? NGX_CONF_OK
                                                           : NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_mistral_fallback_line(ngx_conf_t *cf, ngx_http_mistral_fallback_t *f)
{
    ngx_str_t   *value, list;
    ngx_uint_t   i;

    value = cf->args->elts;

    f->name = value[1];
    f->file_name = cf->conf_file->file.name.data;
    f->line = cf->conf_file->line;

    for (i = 2; i < cf->args->nelts; i++) {
        list.data = value[i].data + 3;
        list.len = value[i].len - 3;

        if (ngx_strncmp(value[i].data, "on=", 3) != 0 || f->on
            || ngx_http_mistral_fallback_on(&list, &f->on) != NGX_OK)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\", it must be \"on=\" "
                               "with some of breaker, queue_full, kv_full, "
                               "deadline, loading, draining, engine, context, "
                               "thermal and \"|\" between them", &value[i]);
            return NGX_ERROR;
        }
    }

    if (f->on == 0) {
        f->on = NGX_HTTP_MISTRAL_FALLBACK_DEFAULT;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_fallback_on(ngx_str_t *list, ngx_uint_t *on)
{
    u_char              *p, *start, *end;
    ngx_conf_bitmask_t  *m;

    end = list->data + list->len;

    for (p = list->data; /* void */ ; p++) {

        start = p;

        while (p < end && *p != '|') {
            p++;
        }

        for (m = ngx_http_mistral_fallback_reasons; m->name.len; m++) {
            if (m->name.len == (size_t) (p - start)
                && ngx_strncmp(m->name.data, start, m->name.len) == 0)
            {
                break;
            }
        }

        if (m->name.len == 0 || (*on & m->mask)) {
            return NGX_ERROR;
        }

        *on |= m->mask;

        if (p == end) {
            return NGX_OK;
        }
    }
}


static ngx_int_t
ngx_http_mistral_fallback_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mistral_add_table(cf, ngx_http_mistral_fallback_vars);
}


static ngx_int_t
ngx_http_mistral_fallback_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_mistral_get_ctx(r);

    if (ctx == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_http_mistral_string(v, &ctx->fallback);
}


ngx_uint_t
ngx_http_mistral_fallback_takes(ngx_http_mistral_ctx_t *ctx)
{
    ngx_str_t                         reason;
    ngx_http_mistral_fallback_t      *f;
    ngx_http_mistral_fallback_ctx_t  *fctx;

    fctx = ngx_http_get_module_ctx(ctx->request,
                                   ngx_http_mistral_fallback_module);

    return ngx_http_mistral_fallback_find(ctx, fctx, &reason, &f) != 0;
}


static ngx_int_t
ngx_http_mistral_fallback_refused(ngx_http_mistral_ctx_t *ctx)
{
    ngx_str_t                         reason;
    ngx_uint_t                        next;
    ngx_http_mistral_fallback_t      *f;
    ngx_http_mistral_fallback_ctx_t  *fctx;

    fctx = ngx_http_get_module_ctx(ctx->request,
                                   ngx_http_mistral_fallback_module);

    next = ngx_http_mistral_fallback_find(ctx, fctx, &reason, &f);

    if (next == 0) {
        return fctx ? ngx_http_mistral_fallback_give_up(ctx, fctx)
                    : NGX_DECLINED;
    }

    if (fctx == NULL) {
        fctx = ngx_palloc(ctx->request->pool,
                          sizeof(ngx_http_mistral_fallback_ctx_t));
        if (fctx == NULL) {
            return NGX_DECLINED;
        }

        fctx->model = ctx->model;
        fctx->error = ctx->error;
        fctx->shed = ctx->shed;
        fctx->retry_after = ctx->retry_after;

        ngx_http_set_ctx(ctx->request, fctx, ngx_http_mistral_fallback_module);
    }

    fctx->next = next;
    ctx->fallback = reason;

    ngx_log_error(NGX_LOG_NOTICE, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" goes from model \"%V\" to \"%V\": "
                  "%V", &ctx->id, &ctx->model->name, &f->model->name, &reason);

    ngx_http_mistral_metrics_fallback(ctx);
    ngx_http_mistral_redo(ctx, f->model);

    return NGX_OK;
}


/*
 * Each attempt is settled by its own name before another one is put there.
 * What an operator ended (410) is no refusal of a model.
 */

static ngx_int_t
ngx_http_mistral_fallback_give_up(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_fallback_ctx_t *fctx)
{
    ngx_http_mistral_policy_settle(ctx);

    if (ctx->error.status != NGX_HTTP_MISTRAL_GONE
        && (fctx->error.status == NGX_HTTP_SERVICE_UNAVAILABLE
            || ctx->error.status != NGX_HTTP_SERVICE_UNAVAILABLE))
    {
        ctx->model = fctx->model;
        ctx->error = fctx->error;
        ctx->shed = fctx->shed;
        ctx->retry_after = fctx->retry_after;
        ctx->limited = 0;
    }

    return NGX_DECLINED;
}


/* the line to take, as the number of the one behind it; 0: none */

static ngx_uint_t
ngx_http_mistral_fallback_find(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_fallback_ctx_t *fctx, ngx_str_t *reason,
    ngx_http_mistral_fallback_t **f)
{
    ngx_uint_t                             i;
    ngx_http_mistral_model_t              *first;
    ngx_conf_bitmask_t                    *m;
    ngx_http_mistral_fallback_t          **lines;
    ngx_http_mistral_fallback_loc_conf_t  *flcf;

    flcf = ctx->loc_conf[ngx_http_mistral_fallback_module.ctx_index];

    if (flcf->lines == NULL) {
        return 0;
    }

    m = ngx_http_mistral_fallback_reason(ctx);
    first = fctx ? fctx->model : ctx->model;
    lines = flcf->lines->elts;

    for (i = fctx ? fctx->next : 0; i < flcf->lines->nelts; i++) {

        if (lines[i]->model == first || !(lines[i]->on & m->mask)) {
            continue;
        }

        *reason = m->name;
        *f = lines[i];

        return i + 1;
    }

    return 0;
}


static ngx_conf_bitmask_t *
ngx_http_mistral_fallback_reason(ngx_http_mistral_ctx_t *ctx)
{
    const char          *name;
    ngx_conf_bitmask_t  *m;

    name = ctx->fault ? "engine" : ctx->shed;

    if (ctx->error.code
        && ngx_strcmp(ctx->error.code, "context_length_exceeded") == 0)
    {
        name = "context";
    }

    /* this worker ends, whatever the model is */

    if (ctx->error.code
        && ngx_strcmp(ctx->error.code, "shutting_down") == 0)
    {
        name = NULL;
    }

    for (m = ngx_http_mistral_fallback_reasons; m->name.len; m++) {
        if (name && ngx_strcmp(m->name.data, name) == 0) {
            break;
        }
    }

    return m;
}
