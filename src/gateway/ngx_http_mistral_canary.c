
/*
 * mistral_canary: a part of a location's requests to another model.
 *
 * Who meets it is base/mst_canary.h's choice, by the key of the line; a
 * canary that cannot answer (its engine is not ready, its breaker is open)
 * leaves its requests to the stable model.  With max_errors the ends of its
 * requests are counted in shared memory, and too many bad ones roll it back
 * for all workers.  That record belongs to the line's text and the engine's
 * identity: a reload changes nothing, another line or another model begins
 * anew.  Workers only, but for directive and init_module.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_keep.h"
#include "gateway/ngx_http_mistral_route.h"

#include "base/mst_canary.h"
#include "base/mst_hash.h"
#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_CANARY_WINDOW  60000      /* ms */
#define NGX_HTTP_MISTRAL_CANARY_MIN     1
#define NGX_HTTP_MISTRAL_CANARY_MAX_MIN 1000000


/* a line; cycle pool */
typedef struct {
    ngx_str_t                  name;
    ngx_http_mistral_model_t  *model;
    uint32_t                   part;           /* of MST_CANARY_ALL */
    ngx_http_complex_value_t  *percent;        /* NULL: the part it is */
    ngx_http_complex_value_t  *key;            /* NULL: the client's address */
    ngx_http_complex_value_t  *header;         /* NULL: none */
    mst_canary_conf_t          conf;           /* window 0: never rolled
                                                  back */
    uint64_t                   hash;           /* of the line's text */
    mst_canary_t              *counts;         /* shared memory; NULL: none */
    u_char                    *file_name;
    ngx_uint_t                 line;
} ngx_http_mistral_canary_t;


typedef struct {
    ngx_shm_zone_t            *zone;           /* NULL: nothing is counted */
    ngx_array_t                lines;          /* of _canary_t *, all */
} ngx_http_mistral_canary_main_conf_t;


typedef struct {
    ngx_array_t               *lines;          /* of _canary_t *; NULL: as
                                                  the parent; empty: off */
} ngx_http_mistral_canary_loc_conf_t;


/* of a request that a line chose */
typedef struct {
    ngx_http_mistral_canary_t *canary;
} ngx_http_mistral_canary_ctx_t;


static void *ngx_http_mistral_canary_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_canary_init_main_conf(ngx_conf_t *cf,
    void *conf);
static void *ngx_http_mistral_canary_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_canary_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_mistral_canary(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mistral_canary_line(ngx_conf_t *cf,
    ngx_http_mistral_canary_t *c);
static ngx_int_t ngx_http_mistral_canary_param(ngx_conf_t *cf,
    ngx_str_t *value, ngx_http_mistral_canary_t *c);
static ngx_int_t ngx_http_mistral_canary_header(ngx_conf_t *cf,
    ngx_str_t *name, ngx_http_mistral_canary_t *c);
static ngx_int_t ngx_http_mistral_canary_value(ngx_conf_t *cf,
    ngx_str_t *text, ngx_http_complex_value_t **value);
static ngx_int_t ngx_http_mistral_canary_init_module(ngx_cycle_t *cycle);
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


static ngx_command_t  ngx_http_mistral_canary_commands[] = {

    { ngx_string("mistral_canary"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_canary,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_canary_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mistral_canary_create_main_conf, /* create main configuration */
    ngx_http_mistral_canary_init_main_conf, /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_canary_create_loc_conf, /* create location
                                                configuration */
    ngx_http_mistral_canary_merge_loc_conf /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_canary_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_canary_module_ctx,   /* module context */
    ngx_http_mistral_canary_commands,      /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_mistral_canary_init_module,   /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


const ngx_http_mistral_policy_t  ngx_http_mistral_canary_policy = {
    .elsewhere = ngx_http_mistral_canary_elsewhere,
    .resolved = ngx_http_mistral_canary_resolved,
    .settle = ngx_http_mistral_canary_settle
};


static void *
ngx_http_mistral_canary_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_canary_main_conf_t  *cmcf;

    cmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_canary_main_conf_t));

    if (cmcf == NULL
        || ngx_array_init(&cmcf->lines, cf->pool, 4, sizeof(void *))
           != NGX_OK)
    {
        return NULL;
    }

    return cmcf;
}


/*
 * All of http{} was read: every line finds its model.  The zone is there
 * whenever a model is, since what a line counted waits for its return.
 */

static char *
ngx_http_mistral_canary_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_mistral_canary_main_conf_t *cmcf = conf;

    ngx_str_t                      name;
    ngx_uint_t                     i;
    ngx_http_mistral_canary_t    **c;
    ngx_http_mistral_main_conf_t  *mmcf;

    ngx_str_set(&name, "ngx_http_mistral_canary");
    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mistral_module);
    c = cmcf->lines.elts;

    for (i = 0; i < cmcf->lines.nelts; i++) {
        c[i]->model = ngx_http_mistral_find_model(mmcf, &c[i]->name);

        if (c[i]->model == NULL) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "unknown mistral_model \"%V\" in %s:%ui",
                          &c[i]->name, c[i]->file_name, c[i]->line);
            return NGX_CONF_ERROR;
        }
    }

    if (mmcf->models.nelts == 0) {
        return NGX_CONF_OK;
    }

    cmcf->zone = ngx_http_mistral_keep_add(cf, &name,
                                           &ngx_http_mistral_canary_module,
                                           sizeof(mst_canary_t));

    return cmcf->zone ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static void *
ngx_http_mistral_canary_create_loc_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_canary_loc_conf_t));
}


/* all or nothing, as add_header */

static char *
ngx_http_mistral_canary_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_canary_loc_conf_t *prev = parent;
    ngx_http_mistral_canary_loc_conf_t *conf = child;

    ngx_uint_t                    i;
    ngx_http_mistral_canary_t   **c;
    ngx_http_mistral_loc_conf_t  *mlcf;

    if (conf->lines == NULL) {
        conf->lines = prev->lines;
        return NGX_CONF_OK;
    }

    mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mistral_module);
    c = conf->lines->elts;

    for (i = 0; i < conf->lines->nelts; i++) {
        if (c[i]->model == mlcf->model) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "the canary \"%V\" is the location's own model "
                          "in %s:%ui", &c[i]->name, c[i]->file_name,
                          c[i]->line);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_canary(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_canary_loc_conf_t *clcf = conf;

    ngx_str_t                             *value;
    ngx_uint_t                             off;
    ngx_http_mistral_canary_t             *c, **all, **own;
    ngx_http_mistral_canary_main_conf_t   *cmcf;

    value = cf->args->elts;
    off = cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0;

    if (clcf->lines && (off || clcf->lines->nelts == 0)) {
        return "cannot be \"off\" beside other lines";
    }

    if (clcf->lines == NULL) {
        clcf->lines = ngx_array_create(cf->pool, 2, sizeof(void *));
        if (clcf->lines == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (off) {
        return NGX_CONF_OK;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_mistral_canary_module);

    c = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_canary_t));
    all = ngx_array_push(&cmcf->lines);
    own = ngx_array_push(clcf->lines);

    if (c == NULL || all == NULL || own == NULL) {
        return NGX_CONF_ERROR;
    }

    *all = c;
    *own = c;

    return ngx_http_mistral_canary_line(cf, c) == NGX_OK ? NGX_CONF_OK
                                                         : NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_mistral_canary_line(ngx_conf_t *cf, ngx_http_mistral_canary_t *c)
{
    ngx_str_t   *value;
    ngx_uint_t   i;

    value = cf->args->elts;

    if (cf->args->nelts < 3) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"mistral_canary\" needs a model and a "
                           "percentage, or \"off\"");
        return NGX_ERROR;
    }

    c->name = value[1];
    c->file_name = cf->conf_file->file.name.data;
    c->line = cf->conf_file->line;

    if (ngx_http_script_variables_count(&value[2])) {
        if (ngx_http_mistral_canary_value(cf, &value[2], &c->percent)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

    } else if (mst_canary_percent(mst_str((char *) value[2].data,
                                          value[2].len), &c->part)
               != MST_OK)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid percentage \"%V\", it must be from \"0%%\" "
                           "to \"100%%\" with up to 4 decimals, or a variable",
                           &value[2]);
        return NGX_ERROR;
    }

    c->conf.max_errors = NGX_MAX_UINT32_VALUE;

    for (i = 3; i < cf->args->nelts; i++) {
        if (ngx_http_mistral_canary_param(cf, &value[i], c) != NGX_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[i]);
            return NGX_ERROR;
        }
    }

    if (c->conf.max_errors == NGX_MAX_UINT32_VALUE) {

        if (c->conf.window_ns || c->conf.min) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"window=\" and \"min=\" need \"max_errors=\"");
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    if (c->conf.window_ns == 0) {
        c->conf.window_ns = NGX_HTTP_MISTRAL_CANARY_WINDOW * MST_MS;
    }

    if (c->conf.min == 0) {
        c->conf.min = NGX_HTTP_MISTRAL_CANARY_MIN;
    }

    for (i = 1; i < cf->args->nelts; i++) {
        c->hash = mst_hash(c->hash, value[i].data, value[i].len);
    }

    return NGX_OK;
}


/* what is not given yet is NULL, 0 or the largest number */

static ngx_int_t
ngx_http_mistral_canary_param(ngx_conf_t *cf, ngx_str_t *value,
    ngx_http_mistral_canary_t *c)
{
    u_char     *eq;
    ngx_int_t   n;
    ngx_str_t   text;

    eq = ngx_strlchr(value->data, value->data + value->len, '=');
    if (eq == NULL) {
        return NGX_ERROR;
    }

    text.data = eq + 1;
    text.len = value->data + value->len - text.data;

    if (ngx_strncmp(value->data, "key=", 4) == 0) {
        return c->key || ngx_http_script_variables_count(&text) == 0
               ? NGX_ERROR : ngx_http_mistral_canary_value(cf, &text, &c->key);
    }

    if (ngx_strncmp(value->data, "header=", 7) == 0) {
        return c->header ? NGX_ERROR
                         : ngx_http_mistral_canary_header(cf, &text, c);
    }

    if (ngx_strncmp(value->data, "max_errors=", 11) == 0) {
        return c->conf.max_errors == NGX_MAX_UINT32_VALUE
               ? mst_canary_percent(mst_str((char *) text.data, text.len),
                                    &c->conf.max_errors)
               : NGX_ERROR;
    }

    if (ngx_strncmp(value->data, "window=", 7) == 0) {
        n = ngx_parse_time(&text, 0);

        if (c->conf.window_ns || n < 1 || n > NGX_MAX_INT32_VALUE) {
            return NGX_ERROR;
        }

        c->conf.window_ns = (uint64_t) n * MST_MS;

        return NGX_OK;
    }

    if (ngx_strncmp(value->data, "min=", 4) == 0) {
        n = ngx_atoi(text.data, text.len);

        if (c->conf.min || n < 1 || n > NGX_HTTP_MISTRAL_CANARY_MAX_MIN) {
            return NGX_ERROR;
        }

        c->conf.min = (uint32_t) n;

        return NGX_OK;
    }

    return NGX_ERROR;
}


/* nginx's own $http_NAME */

static ngx_int_t
ngx_http_mistral_canary_header(ngx_conf_t *cf, ngx_str_t *name,
    ngx_http_mistral_canary_t *c)
{
    u_char      ch, *p;
    ngx_str_t   text;
    ngx_uint_t  i;

    if (name->len == 0) {
        return NGX_ERROR;
    }

    text.len = sizeof("$http_") - 1 + name->len;
    text.data = ngx_pnalloc(cf->pool, text.len);
    if (text.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(text.data, "$http_", sizeof("$http_") - 1);

    for (i = 0; i < name->len; i++) {
        ch = ngx_tolower(name->data[i]);

        if (!(ch >= 'a' && ch <= 'z') && !(ch >= '0' && ch <= '9')
            && ch != '-' && ch != '_')
        {
            return NGX_ERROR;
        }

        *p++ = ch == '-' ? '_' : ch;
    }

    return ngx_http_mistral_canary_value(cf, &text, &c->header);
}


static ngx_int_t
ngx_http_mistral_canary_value(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t **value)
{
    ngx_http_compile_complex_value_t  ccv;

    *value = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (*value == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = text;
    ccv.complex_value = *value;

    return ngx_http_compile_complex_value(&ccv);
}


/* init_zone of the models has made the engines' identities by now */

static ngx_int_t
ngx_http_mistral_canary_init_module(ngx_cycle_t *cycle)
{
    ngx_uint_t                            i;
    ngx_http_mistral_canary_t           **c;
    ngx_http_mistral_canary_main_conf_t  *cmcf;

    cmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                             ngx_http_mistral_canary_module);

    if (ngx_test_config || cmcf == NULL || cmcf->zone == NULL) {
        return NGX_OK;
    }

    c = cmcf->lines.elts;

    for (i = 0; i < cmcf->lines.nelts; i++) {

        if (c[i]->conf.window_ns == 0) {
            continue;
        }

        c[i]->counts = ngx_http_mistral_keep_get(cmcf->zone,
                                                 mst_hash(c[i]->model->hash,
                                                          &c[i]->hash,
                                                          sizeof(uint64_t)));
        if (c[i]->counts == NULL) {
            ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                          "the canary in %s:%ui is never rolled back, there "
                          "is room for %d lines", c[i]->file_name,
                          c[i]->line, NGX_HTTP_MISTRAL_KEEP);
        }
    }

    return NGX_OK;
}


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
