
/*
 * What a location grants to whom it serves: a part of the prefix cache of
 * its own, and the length of an answer.
 *
 * mistral_cache_salt: the engine finds a cached block only for the salt that
 * it was computed for.  The salt is a keyed hash; the key lives in a shared
 * zone, the same for all workers and over reloads, and nobody else sees it.
 * The body's cache_salt enters the hash too, so that it can divide a tenant
 * and never join two.
 *
 * mistral_default_max_tokens counts where the body and its task name no
 * limit, mistral_max_tokens bounds every answer; mistral_allow_experts lets
 * a body choose how many experts compute it.  Workers only, but for the
 * configuration.
 */

#include "gateway/ngx_http_mistral_policy.h"

#include <sys/random.h>

#include "api/mst_fit.h"
#include "api/mst_salt.h"


#define NGX_HTTP_MISTRAL_TENANT_TOKENS  1000000000

typedef struct {
    ngx_shm_zone_t             *zone;          /* its data: the key */
    mst_salt_t                 *salts;         /* this worker's; NULL: none was
                                                  needed yet */
} ngx_http_mistral_tenant_main_conf_t;


typedef struct {
    ngx_http_complex_value_t   *salt;          /* NULL: off */
    ngx_http_complex_value_t   *max;
    ngx_http_complex_value_t   *length;        /* the default's */
    ngx_flag_t                  experts;
} ngx_http_mistral_tenant_loc_conf_t;


typedef struct {
    uint8_t                     salt[MST_SALT_SIZE];
} ngx_http_mistral_tenant_ctx_t;


static ngx_int_t ngx_http_mistral_tenant_resolved(
    ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_tenant_salt(ngx_http_mistral_ctx_t *ctx,
    ngx_http_complex_value_t *cv);
static ngx_int_t ngx_http_mistral_tenant_length(ngx_http_mistral_ctx_t *ctx,
    ngx_http_complex_value_t *cv, const char *directive, uint32_t *n);
static void ngx_http_mistral_tenant_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s);
static ngx_int_t ngx_http_mistral_tenant_add_zone(ngx_conf_t *cf);
static ngx_int_t ngx_http_mistral_tenant_init_zone(ngx_shm_zone_t *zone,
    void *data);
static void *ngx_http_mistral_tenant_create_main_conf(ngx_conf_t *cf);
static void ngx_http_mistral_tenant_cleanup(void *data);
static void *ngx_http_mistral_tenant_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_tenant_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_mistral_tenant_value(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_mistral_tenant_tokens(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);


static ngx_command_t  ngx_http_mistral_tenant_commands[] = {

    { ngx_string("mistral_cache_salt"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_tenant_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_tenant_loc_conf_t, salt),
      NULL },

    { ngx_string("mistral_max_tokens"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_tenant_tokens,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_tenant_loc_conf_t, max),
      NULL },

    { ngx_string("mistral_default_max_tokens"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_tenant_tokens,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_tenant_loc_conf_t, length),
      NULL },

    { ngx_string("mistral_allow_experts"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_tenant_loc_conf_t, experts),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_tenant_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_mistral_tenant_add_zone,      /* postconfiguration */

    ngx_http_mistral_tenant_create_main_conf, /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_tenant_create_loc_conf, /* create location configuration */
    ngx_http_mistral_tenant_merge_loc_conf /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_tenant_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_tenant_module_ctx,   /* module context */
    ngx_http_mistral_tenant_commands,      /* module directives */
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


const ngx_http_mistral_policy_t  ngx_http_mistral_tenant_policy = {
    .resolved = ngx_http_mistral_tenant_resolved,
    .submit = ngx_http_mistral_tenant_submit
};


static ngx_int_t
ngx_http_mistral_tenant_resolved(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t                             length;
    ngx_http_request_t                  *r;
    ngx_http_mistral_tenant_loc_conf_t  *tlcf;

    r = ctx->request;

    if (!mst_api_answers(ctx->api)) {
        return NGX_OK;
    }

    tlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_tenant_module);

    if (ctx->body->params.experts && !tlcf->experts) {
        (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                                 "unsupported", "num_experts_per_tok",
                                 "num_experts_per_tok is %u, and no request "
                                 "may choose that here.",
                                 (unsigned) ctx->body->params.experts);
        return NGX_DECLINED;
    }

    if (ngx_http_mistral_tenant_salt(ctx, tlcf->salt) != NGX_OK
        || ngx_http_mistral_tenant_length(ctx, tlcf->max,
                                          "mistral_max_tokens",
                                          &ctx->body->cap)
           != NGX_OK
        || ngx_http_mistral_tenant_length(ctx, tlcf->length,
                                          "mistral_default_max_tokens",
                                          &length)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (length) {
        mst_fit_default_length(ctx->body, length);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_tenant_salt(ngx_http_mistral_ctx_t *ctx,
    ngx_http_complex_value_t *cv)
{
    ngx_str_t                             value;
    ngx_http_request_t                   *r;
    ngx_http_mistral_tenant_ctx_t        *tctx;
    ngx_http_mistral_tenant_main_conf_t  *tmcf;

    r = ctx->request;
    ngx_str_null(&value);

    if (cv && ngx_http_complex_value(r, cv, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.len == 0 && ctx->body->cache_salt.len == 0) {
        return NGX_OK;
    }

    tctx = ngx_palloc(r->pool, sizeof(ngx_http_mistral_tenant_ctx_t));
    if (tctx == NULL) {
        return NGX_ERROR;
    }

    tmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_tenant_module);

    if (tmcf->salts == NULL) {
        tmcf->salts = mst_salt_create(tmcf->zone->data);
    }

    if (tmcf->salts == NULL
        || mst_salt_make(tmcf->salts, mst_str((char *) value.data, value.len),
                         ctx->body->cache_salt, tctx->salt)
           != MST_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_set_ctx(r, tctx, ngx_http_mistral_tenant_module);

    return NGX_OK;
}


/* *n = 0: no such limit, as an empty value says it */

static ngx_int_t
ngx_http_mistral_tenant_length(ngx_http_mistral_ctx_t *ctx,
    ngx_http_complex_value_t *cv, const char *directive, uint32_t *n)
{
    uint64_t   tokens;
    ngx_str_t  value;

    *n = 0;

    if (cv == NULL) {
        return NGX_OK;
    }

    if (ngx_http_complex_value(ctx->request, cv, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.len == 0) {
        return NGX_OK;
    }

    tokens = ngx_http_mistral_tokens_number(value.data, value.len);

    if (tokens == 0 || tokens > NGX_HTTP_MISTRAL_TENANT_TOKENS) {
        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                      "mistral: \"%s\" evaluates to \"%V\", which is no "
                      "number of tokens", directive, &value);
        return NGX_ERROR;
    }

    *n = (uint32_t) tokens;

    return NGX_OK;
}


/* where there is no context the salt is the common one, all zero */

static void
ngx_http_mistral_tenant_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s)
{
    ngx_http_mistral_tenant_ctx_t  *tctx;

    tctx = ngx_http_get_module_ctx(ctx->request,
                                   ngx_http_mistral_tenant_module);

    if (tctx) {
        ngx_memcpy(s->salt, tctx->salt, MST_SALT_SIZE);
    }
}


/* a body may bring a cache_salt wherever a model is */

static ngx_int_t
ngx_http_mistral_tenant_add_zone(ngx_conf_t *cf)
{
    ngx_str_t                             name;
    ngx_http_mistral_main_conf_t         *mmcf;
    ngx_http_mistral_tenant_main_conf_t  *tmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mistral_module);

    if (mmcf->models.nelts == 0) {
        return NGX_OK;
    }

    tmcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_mistral_tenant_module);
    ngx_str_set(&name, "ngx_http_mistral_tenant");

    tmcf->zone = ngx_shared_memory_add(cf, &name, 8 * ngx_pagesize,
                                       &ngx_http_mistral_tenant_module);
    if (tmcf->zone == NULL) {
        return NGX_ERROR;
    }

    tmcf->zone->init = ngx_http_mistral_tenant_init_zone;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_tenant_init_zone(ngx_shm_zone_t *zone, void *data)
{
    ngx_slab_pool_t  *pool;

    if (data) {
        zone->data = data;
        return NGX_OK;
    }

    pool = (ngx_slab_pool_t *) zone->shm.addr;

    zone->data = ngx_slab_alloc(pool, MST_SALT_KEY_SIZE);
    if (zone->data == NULL) {
        return NGX_ERROR;
    }

    if (getrandom(zone->data, MST_SALT_KEY_SIZE, 0) != MST_SALT_KEY_SIZE) {
        ngx_log_error(NGX_LOG_EMERG, zone->shm.log, ngx_errno,
                      "getrandom() failed");
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void *
ngx_http_mistral_tenant_create_main_conf(ngx_conf_t *cf)
{
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(cf->pool,
                               sizeof(ngx_http_mistral_tenant_main_conf_t));
    if (cln == NULL) {
        return NULL;
    }

    ngx_memzero(cln->data, sizeof(ngx_http_mistral_tenant_main_conf_t));
    cln->handler = ngx_http_mistral_tenant_cleanup;

    return cln->data;
}


static void
ngx_http_mistral_tenant_cleanup(void *data)
{
    ngx_http_mistral_tenant_main_conf_t *tmcf = data;

    mst_salt_destroy(tmcf->salts);
}


static void *
ngx_http_mistral_tenant_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_tenant_loc_conf_t  *tlcf;

    tlcf = ngx_palloc(cf->pool, sizeof(ngx_http_mistral_tenant_loc_conf_t));
    if (tlcf == NULL) {
        return NULL;
    }

    tlcf->salt = NGX_CONF_UNSET_PTR;
    tlcf->max = NGX_CONF_UNSET_PTR;
    tlcf->length = NGX_CONF_UNSET_PTR;
    tlcf->experts = NGX_CONF_UNSET;

    return tlcf;
}


static char *
ngx_http_mistral_tenant_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_tenant_loc_conf_t *prev = parent;
    ngx_http_mistral_tenant_loc_conf_t *conf = child;

    ngx_conf_merge_ptr_value(conf->salt, prev->salt, NULL);
    ngx_conf_merge_ptr_value(conf->max, prev->max, NULL);
    ngx_conf_merge_ptr_value(conf->length, prev->length, NULL);
    ngx_conf_merge_value(conf->experts, prev->experts, 0);

    return NGX_CONF_OK;
}


/* a value with variables, or "off", which cancels an inherited one */

static char *
ngx_http_mistral_tenant_value(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                          *value;
    ngx_http_complex_value_t          **cv;
    ngx_http_compile_complex_value_t    ccv;

    cv = (ngx_http_complex_value_t **) ((char *) conf + cmd->offset);

    if (*cv != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        *cv = NULL;
        return NGX_CONF_OK;
    }

    if (value[1].len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid value \"%V\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    *cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (*cv == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[1];
    ccv.complex_value = *cv;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_tenant_tokens(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                      *rv;
    uint64_t                   tokens;
    ngx_http_complex_value_t  *cv;

    rv = ngx_http_mistral_tenant_value(cf, cmd, conf);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    cv = *(ngx_http_complex_value_t **) ((char *) conf + cmd->offset);

    if (cv == NULL || cv->lengths) {
        return NGX_CONF_OK;
    }

    tokens = ngx_http_mistral_tokens_number(cv->value.data, cv->value.len);

    if (tokens == 0 || tokens > NGX_HTTP_MISTRAL_TENANT_TOKENS) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid number of tokens \"%V\" in \"%V\" "
                           "directive, it must be from 1 to %d, a variable "
                           "or \"off\"", &cv->value, &cmd->name,
                           NGX_HTTP_MISTRAL_TENANT_TOKENS);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}
