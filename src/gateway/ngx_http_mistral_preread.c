
/*
 * mistral_preread: the body is read and parsed in PREACCESS, before limits
 * and access checks, so that limit_req, limit_conn and maps can look at
 * $mistral_model and its like.  A variable cannot wait for a body; a phase
 * can.
 *
 * The context that the content handler works with is made here, and the
 * handler goes on with it: nothing is read or parsed twice.  What is wrong
 * with the body is said by the content handler, when it is its turn: whoever
 * may not ask learns only that.  Any location may read ahead, one with
 * proxy_pass too; the buffers stay as they are.
 *
 * A dynamic module comes first in its phase.  Workers only, but for the
 * directive.
 */

#include "gateway/ngx_http_mistral_auth.h"
#include "gateway/ngx_http_mistral_preread.h"
#include "gateway/ngx_http_mistral_request.h"


#define NGX_HTTP_MISTRAL_PREREAD_OFF  0
#define NGX_HTTP_MISTRAL_PREREAD_ON   1
#define NGX_HTTP_MISTRAL_PREREAD_AUTH 2


typedef struct {
    ngx_uint_t  mode;
    ngx_uint_t  missed;                        /* was logged by this worker */
} ngx_http_mistral_preread_loc_conf_t;


static ngx_int_t ngx_http_mistral_preread_init(ngx_conf_t *cf);
static void *ngx_http_mistral_preread_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_preread_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_mistral_preread_set(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mistral_preread_handler(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mistral_preread_mode(ngx_http_request_t *r);
static ngx_int_t ngx_http_mistral_preread_credential(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mistral_preread_wanted(ngx_http_request_t *r,
    mst_api_t api);
static ngx_uint_t ngx_http_mistral_preread_api(ngx_http_request_t *r,
    mst_api_t *api);
static void ngx_http_mistral_preread_body(ngx_http_request_t *r);
static void ngx_http_mistral_preread_parsed(ngx_http_mistral_ctx_t *ctx,
    ngx_int_t rc);


static ngx_conf_enum_t  ngx_http_mistral_preread_modes[] = {
    { ngx_string("off"), NGX_HTTP_MISTRAL_PREREAD_OFF },
    { ngx_string("on"), NGX_HTTP_MISTRAL_PREREAD_ON },
    { ngx_string("auth"), NGX_HTTP_MISTRAL_PREREAD_AUTH },
    { ngx_null_string, 0 }
};


static ngx_command_t  ngx_http_mistral_preread_commands[] = {

    { ngx_string("mistral_preread"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_preread_set,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_preread_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_mistral_preread_init,         /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_preread_create_loc_conf,
                                           /* create location configuration */
    ngx_http_mistral_preread_merge_loc_conf
                                           /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_preread_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_preread_module_ctx,  /* module context */
    ngx_http_mistral_preread_commands,     /* module directives */
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


static ngx_int_t
ngx_http_mistral_preread_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PREACCESS_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_mistral_preread_handler;

    return NGX_OK;
}


static void *
ngx_http_mistral_preread_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_preread_loc_conf_t  *plcf;

    plcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_preread_loc_conf_t));
    if (plcf == NULL) {
        return NULL;
    }

    plcf->mode = NGX_CONF_UNSET_UINT;

    return plcf;
}


static char *
ngx_http_mistral_preread_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_preread_loc_conf_t *prev = parent;
    ngx_http_mistral_preread_loc_conf_t *conf = child;

    ngx_conf_merge_uint_value(conf->mode, prev->mode,
                              NGX_HTTP_MISTRAL_PREREAD_OFF);

    return NGX_CONF_OK;
}


/* the enum's own message names neither the directive nor the values */

static char *
ngx_http_mistral_preread_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_preread_loc_conf_t *plcf = conf;

    ngx_str_t        *value;
    ngx_conf_enum_t  *e;

    if (plcf->mode != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    for (e = ngx_http_mistral_preread_modes; e->name.len; e++) {
        if (e->name.len == value[1].len
            && ngx_strcasecmp(e->name.data, value[1].data) == 0)
        {
            plcf->mode = e->value;
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" in \"%V\" directive, it must "
                       "be \"off\", \"on\" or \"auth\"", &value[1],
                       &cmd->name);

    return NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_mistral_preread_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc;
    mst_api_t  api;

    /* with a context the body was read, or somebody of us had it before */

    if (ngx_http_mistral_preread_mode(r) == NGX_HTTP_MISTRAL_PREREAD_OFF
        || !ngx_http_mistral_preread_api(r, &api)
        || ngx_http_mistral_get_ctx(r) != NULL
        || !ngx_http_mistral_preread_wanted(r, api))
    {
        return NGX_DECLINED;
    }

    rc = ngx_http_mistral_preread_credential(r);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_mistral_create_ctx(r, api) == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_mistral_read_body(r, ngx_http_mistral_preread_body);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


/* "auth" without a credential to check must not read for everybody */

static ngx_uint_t
ngx_http_mistral_preread_mode(ngx_http_request_t *r)
{
    ngx_http_mistral_auth_loc_conf_t     *alcf;
    ngx_http_mistral_preread_loc_conf_t  *plcf;

    plcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_preread_module);
    alcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_auth_module);

    if (plcf->mode == NGX_HTTP_MISTRAL_PREREAD_AUTH
        && alcf->keys == NULL && alcf->jwks == NULL)
    {
        return NGX_HTTP_MISTRAL_PREREAD_OFF;
    }

    return plcf->mode;
}


/* a refusal is the ACCESS phase's to say: "satisfy any" may think better */

static ngx_int_t
ngx_http_mistral_preread_credential(ngx_http_request_t *r)
{
    if (ngx_http_mistral_preread_mode(r) != NGX_HTTP_MISTRAL_PREREAD_AUTH) {
        return NGX_OK;
    }

    switch (ngx_http_mistral_auth_check(r)) {

    case NGX_OK:
        return NGX_OK;

    case NGX_ERROR:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;

    default:
        return NGX_DECLINED;
    }
}


static ngx_uint_t
ngx_http_mistral_preread_api(ngx_http_request_t *r, mst_api_t *api)
{
    mst_str_t  id;

    if (r->method != NGX_HTTP_POST) {
        return 0;
    }

    *api = mst_api_find(mst_str((char *) r->uri.data, r->uri.len), &id);

    return *api != MST_API_UNKNOWN && mst_api_allow(*api)[0] == 'P';
}


/* the content handler refuses these without a look at the body */

static ngx_uint_t
ngx_http_mistral_preread_wanted(ngx_http_request_t *r, mst_api_t api)
{
    mst_api_error_t               e;
    ngx_http_mistral_loc_conf_t  *mlcf;

    if (ngx_http_mistral_check_type(r, &e) != NGX_OK) {
        return 0;
    }

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);

    return mlcf->model == NULL
           || api == MST_API_TOKENIZE || api == MST_API_DETOKENIZE
           || ngx_http_mistral_link_state(mlcf->model)
              == NGX_HTTP_MISTRAL_READY;
}


static void
ngx_http_mistral_preread_body(ngx_http_request_t *r)
{
    ngx_http_mistral_parse(ngx_http_mistral_get_ctx(r),
                           ngx_http_mistral_preread_parsed);
}


/* a failure is kept in the context for the content handler */

static void
ngx_http_mistral_preread_parsed(ngx_http_mistral_ctx_t *ctx, ngx_int_t rc)
{
    ngx_http_request_t  *r;

    (void) rc;

    r = ctx->request;
    r->preserve_body = 1;

    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}


void
ngx_http_mistral_preread_missed(ngx_http_request_t *r)
{
    mst_api_t                             api;
    ngx_http_mistral_loc_conf_t          *mlcf;
    ngx_http_mistral_preread_loc_conf_t  *plcf;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);
    plcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_preread_module);

    /* of a refusal the body may never be known: its header and its line in
       the log are no mistake */

    if (plcf->missed
        || ngx_http_mistral_preread_mode(r) != NGX_HTTP_MISTRAL_PREREAD_OFF
        || mlcf->handler != ngx_http_mistral_handler
        || r->headers_out.status || r->err_status
        || !ngx_http_mistral_preread_api(r, &api))
    {
        return;
    }

    plcf->missed = 1;

    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  "mistral: a variable of the body is used before the body "
                  "was read and has no value, see \"mistral_preread\"");
}
