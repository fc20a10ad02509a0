
/*
 * mistral_canary: its lines, and their records in shared memory.  A record
 * belongs to the line's text and the engine's identity, so that a reload
 * changes nothing and another line or another model begins anew.  Master
 * only.
 */

#include "gateway/ngx_http_mistral_canary.h"
#include "gateway/ngx_http_mistral_keep.h"

#include "base/mst_hash.h"
#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_CANARY_WINDOW  60000      /* ms */
#define NGX_HTTP_MISTRAL_CANARY_MIN     1
#define NGX_HTTP_MISTRAL_CANARY_MAX_MIN 1000000


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
