
/*
 * mistral_tag NAME VALUE: what an operator calls a request by, a team or an
 * experiment; $mistral_tag_NAME in logs and maps, and a label of metrics
 * where mistral_metrics_labels asks for it.
 *
 * The tags are those of the location that mistral_pass answered in, after an
 * internal redirect too.  A value is computed whenever it is asked for, so
 * that one which is not known yet at the first time is right at the last.
 * Workers only, but for the directive.
 */

#include "gateway/ngx_http_mistral_request.h"
#include "gateway/ngx_http_mistral_tag.h"


#define NGX_HTTP_MISTRAL_TAG_NAME  32          /* bytes */


typedef struct {
    ngx_str_t                  name;
    ngx_http_complex_value_t   value;
} ngx_http_mistral_tag_t;


typedef struct {
    ngx_array_t                names;          /* of ngx_str_t; of all
                                                  locations */
} ngx_http_mistral_tag_main_conf_t;


typedef struct {
    ngx_array_t               *tags;           /* of _tag_t; NULL: none */
} ngx_http_mistral_tag_loc_conf_t;


static void *ngx_http_mistral_tag_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_mistral_tag_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_tag_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static char *ngx_http_mistral_tag(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_uint_t ngx_http_mistral_tag_name_ok(ngx_str_t *name);
static ngx_int_t ngx_http_mistral_tag_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_mistral_tag_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_http_mistral_tag_t *ngx_http_mistral_tag_find(
    ngx_http_mistral_tag_loc_conf_t *tlcf, ngx_str_t *name);


static ngx_command_t  ngx_http_mistral_tag_commands[] = {

    { ngx_string("mistral_tag"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE2,
      ngx_http_mistral_tag,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_tag_module_ctx = {
    ngx_http_mistral_tag_add_variables,    /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mistral_tag_create_main_conf, /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_tag_create_loc_conf,  /* create location configuration */
    ngx_http_mistral_tag_merge_loc_conf    /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_tag_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_tag_module_ctx,      /* module context */
    ngx_http_mistral_tag_commands,         /* module directives */
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


static ngx_http_variable_t  ngx_http_mistral_tag_vars[] = {

    { ngx_string("mistral_tag_"), NULL,
      ngx_http_mistral_tag_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE|NGX_HTTP_VAR_PREFIX, 0 },

      ngx_http_null_variable
};


static void *
ngx_http_mistral_tag_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_tag_main_conf_t  *tmcf;

    tmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_tag_main_conf_t));

    if (tmcf == NULL
        || ngx_array_init(&tmcf->names, cf->pool, 4, sizeof(ngx_str_t))
           != NGX_OK)
    {
        return NULL;
    }

    return tmcf;
}


static void *
ngx_http_mistral_tag_create_loc_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_tag_loc_conf_t));
}


/* all or nothing, as add_header */

static char *
ngx_http_mistral_tag_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mistral_tag_loc_conf_t *prev = parent;
    ngx_http_mistral_tag_loc_conf_t *conf = child;

    if (conf->tags == NULL) {
        conf->tags = prev->tags;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_tag(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_tag_loc_conf_t *tlcf = conf;

    ngx_str_t                         *value, *name;
    ngx_http_mistral_tag_t            *tag;
    ngx_http_compile_complex_value_t   ccv;
    ngx_http_mistral_tag_main_conf_t  *tmcf;

    value = cf->args->elts;

    if (!ngx_http_mistral_tag_name_ok(&value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid tag \"%V\", it must be 1 to %d lower-case "
                           "letters, digits and \"_\"",
                           &value[1], NGX_HTTP_MISTRAL_TAG_NAME);
        return NGX_CONF_ERROR;
    }

    if (tlcf->tags == NULL) {
        tlcf->tags = ngx_array_create(cf->pool, 2,
                                      sizeof(ngx_http_mistral_tag_t));
        if (tlcf->tags == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_mistral_tag_find(tlcf, &value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate tag \"%V\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    tag = ngx_array_push(tlcf->tags);
    if (tag == NULL) {
        return NGX_CONF_ERROR;
    }

    tag->name = value[1];

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[2];
    ccv.complex_value = &tag->value;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    tmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mistral_tag_module);

    name = ngx_array_push(&tmcf->names);
    if (name == NULL) {
        return NGX_CONF_ERROR;
    }

    *name = value[1];

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_http_mistral_tag_name_ok(ngx_str_t *name)
{
    u_char  c;
    size_t  i;

    for (i = 0; i < name->len; i++) {
        c = name->data[i];

        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_') {
            return 0;
        }
    }

    return name->len >= 1 && name->len <= NGX_HTTP_MISTRAL_TAG_NAME;
}


static ngx_http_mistral_tag_t *
ngx_http_mistral_tag_find(ngx_http_mistral_tag_loc_conf_t *tlcf,
    ngx_str_t *name)
{
    ngx_uint_t               i;
    ngx_http_mistral_tag_t  *tag;

    if (tlcf->tags == NULL) {
        return NULL;
    }

    tag = tlcf->tags->elts;

    for (i = 0; i < tlcf->tags->nelts; i++) {
        if (tag[i].name.len == name->len
            && ngx_memcmp(tag[i].name.data, name->data, name->len) == 0)
        {
            return &tag[i];
        }
    }

    return NULL;
}


ngx_uint_t
ngx_http_mistral_tag_known(ngx_conf_t *cf, ngx_str_t *name)
{
    ngx_str_t                         *known;
    ngx_uint_t                         i;
    ngx_http_mistral_tag_main_conf_t  *tmcf;

    tmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mistral_tag_module);
    known = tmcf->names.elts;

    for (i = 0; i < tmcf->names.nelts; i++) {
        if (known[i].len == name->len
            && ngx_memcmp(known[i].data, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


ngx_int_t
ngx_http_mistral_tag_value(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value)
{
    ngx_http_mistral_ctx_t           *ctx;
    ngx_http_mistral_tag_t           *tag;
    ngx_http_mistral_tag_loc_conf_t  *tlcf;

    ctx = ngx_http_mistral_outer_ctx(r);
    tag = NULL;

    if (ctx) {
        tlcf = ctx->loc_conf[ngx_http_mistral_tag_module.ctx_index];
        tag = ngx_http_mistral_tag_find(tlcf, name);
    }

    if (tag == NULL) {
        tlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_tag_module);
        tag = ngx_http_mistral_tag_find(tlcf, name);
    }

    if (tag == NULL) {
        ngx_str_null(value);
        return NGX_OK;
    }

    return ngx_http_complex_value(r, &tag->value, value);
}


static ngx_int_t
ngx_http_mistral_tag_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t *variable = (ngx_str_t *) data;

    ngx_str_t  name, value;

    name.len = variable->len - (sizeof("mistral_tag_") - 1);
    name.data = variable->data + (sizeof("mistral_tag_") - 1);

    if (ngx_http_mistral_tag_value(r, &name, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mistral_string(v, &value);
}


static ngx_int_t
ngx_http_mistral_tag_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mistral_add_table(cf, ngx_http_mistral_tag_vars);
}
