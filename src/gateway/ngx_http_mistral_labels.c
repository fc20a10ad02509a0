
/*
 * mistral_metrics_labels and mistral_metrics_max_series: which labels the
 * usage_* metrics have, and what a request's values of them are.
 *
 * Values may be a client's: as text they are escaped, valid UTF-8 and
 * bounded.  Other labels, or another number of series, are a zone of another
 * name, so that workers of an older cycle never meet rows of another kind.
 * Workers only, but for the directives.
 */

#include "gateway/ngx_http_mistral_series.h"
#include "gateway/ngx_http_mistral_tag.h"

#include "base/mst_hash.h"


#define NGX_HTTP_MISTRAL_SERIES        1000
#define NGX_HTTP_MISTRAL_SERIES_MAX    100000


typedef struct {
    ngx_str_t                      given;      /* "consumer", "tag:NAME" */
    ngx_str_t                      name;       /* "consumer", "tag_NAME" */
    ngx_str_t                      tag;        /* NAME; len 0: the consumer */
} ngx_http_mistral_label_t;


static void *ngx_http_mistral_labels_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_labels_init_main_conf(ngx_conf_t *cf,
    void *conf);
static char *ngx_http_mistral_labels(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_http_mistral_labels_add(ngx_conf_t *cf,
    ngx_http_mistral_series_main_conf_t *smcf, ngx_str_t *value);
static ngx_int_t ngx_http_mistral_labels_add_zone(ngx_conf_t *cf,
    ngx_http_mistral_series_main_conf_t *smcf);
static u_char *ngx_http_mistral_labels_value(u_char *p, ngx_str_t *name,
    ngx_str_t *value);
static void ngx_http_mistral_labels_get(ngx_http_request_t *r,
    ngx_http_mistral_series_main_conf_t *smcf,
    ngx_http_mistral_label_t *label, ngx_str_t *value);


static ngx_command_t  ngx_http_mistral_series_commands[] = {

    { ngx_string("mistral_metrics_labels"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_labels,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_metrics_max_series"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_mistral_series_main_conf_t, max),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_series_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mistral_labels_create_main_conf,
                                           /* create main configuration */
    ngx_http_mistral_labels_init_main_conf,
                                           /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_series_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_series_module_ctx,   /* module context */
    ngx_http_mistral_series_commands,      /* module directives */
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


static void *
ngx_http_mistral_labels_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_series_main_conf_t  *smcf;

    smcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_series_main_conf_t));

    if (smcf == NULL
        || ngx_array_init(&smcf->labels, cf->pool, NGX_HTTP_MISTRAL_LABELS,
                          sizeof(ngx_http_mistral_label_t))
           != NGX_OK)
    {
        return NULL;
    }

    smcf->max = NGX_CONF_UNSET_UINT;
    smcf->consumer = NGX_ERROR;

    return smcf;
}


/* tags may be defined behind the line that names them */

static char *
ngx_http_mistral_labels_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_mistral_series_main_conf_t *smcf = conf;

    ngx_uint_t                 i;
    ngx_http_mistral_label_t  *label;

    ngx_conf_init_uint_value(smcf->max, NGX_HTTP_MISTRAL_SERIES);

    if (smcf->max < 1 || smcf->max > NGX_HTTP_MISTRAL_SERIES_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"mistral_metrics_max_series\" must be from 1 to "
                           "%d", NGX_HTTP_MISTRAL_SERIES_MAX);
        return NGX_CONF_ERROR;
    }

    label = smcf->labels.elts;

    for (i = 0; i < smcf->labels.nelts; i++) {
        if (label[i].tag.len && !ngx_http_mistral_tag_known(cf, &label[i].tag))
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"mistral_metrics_labels\": no \"mistral_tag\" "
                               "has the name \"%V\"", &label[i].tag);
            return NGX_CONF_ERROR;
        }
    }

    if (smcf->labels.nelts == 0) {
        return NGX_CONF_OK;
    }

    return ngx_http_mistral_labels_add_zone(cf, smcf) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_mistral_labels(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_series_main_conf_t *smcf = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    if (smcf->given) {
        return "is duplicate";
    }

    smcf->given = 1;
    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "model") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the first label must be \"model\", not \"%V\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_mistral_labels_add(cf, smcf, &value[i]) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mistral_labels_add(ngx_conf_t *cf,
    ngx_http_mistral_series_main_conf_t *smcf, ngx_str_t *value)
{
    ngx_str_t                  name = ngx_string("mistral_consumer");
    ngx_uint_t                 i;
    ngx_http_mistral_label_t  *label;

    for (i = 0; i < smcf->labels.nelts; i++) {
        label = (ngx_http_mistral_label_t *) smcf->labels.elts + i;

        if (ngx_strcmp(label->given.data, value->data) == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate label \"%V\"",
                               value);
            return NGX_ERROR;
        }
    }

    if (smcf->labels.nelts == NGX_HTTP_MISTRAL_LABELS) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "too many labels, \"model\" and %d more are "
                           "allowed", NGX_HTTP_MISTRAL_LABELS);
        return NGX_ERROR;
    }

    label = ngx_array_push(&smcf->labels);
    if (label == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(label, sizeof(ngx_http_mistral_label_t));
    label->given = *value;

    if (ngx_strcmp(value->data, "consumer") == 0) {
        label->name = *value;
        smcf->consumer = ngx_http_get_variable_index(cf, &name);

        return smcf->consumer == NGX_ERROR ? NGX_ERROR : NGX_OK;
    }

    if (value->len <= 4 || ngx_strncmp(value->data, "tag:", 4) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid label \"%V\", it must be \"consumer\" or "
                           "\"tag:NAME\"", value);
        return NGX_ERROR;
    }

    /* tag:NAME is tag_NAME in the page */

    label->name.len = value->len;
    label->name.data = ngx_pstrdup(cf->pool, value);
    if (label->name.data == NULL) {
        return NGX_ERROR;
    }

    label->name.data[3] = '_';
    label->tag.data = value->data + 4;
    label->tag.len = value->len - 4;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_labels_add_zone(ngx_conf_t *cf,
    ngx_http_mistral_series_main_conf_t *smcf)
{
    uint64_t                   hash;
    ngx_str_t                  name;
    ngx_uint_t                 i;
    ngx_http_mistral_label_t  *label;

    label = smcf->labels.elts;
    hash = smcf->max;

    for (i = 0; i < smcf->labels.nelts; i++) {
        hash = mst_hash(hash, label[i].name.data, label[i].name.len);
    }

    name.data = ngx_pnalloc(cf->pool, sizeof("ngx_http_mistral_") + 16);
    if (name.data == NULL) {
        return NGX_ERROR;
    }

    name.len = ngx_sprintf(name.data, "ngx_http_mistral_%016xL", hash)
               - name.data;

    smcf->zone = ngx_shared_memory_add(cf, &name,
                                       ngx_http_mistral_series_size(smcf->max),
                                       &ngx_http_mistral_series_module);
    if (smcf->zone == NULL) {
        return NGX_ERROR;
    }

    smcf->zone->data = smcf;
    smcf->zone->init = ngx_http_mistral_series_init_zone;

    return NGX_OK;
}


size_t
ngx_http_mistral_labels_text(ngx_http_request_t *r,
    ngx_http_mistral_series_main_conf_t *smcf, ngx_str_t *model, u_char *text)
{
    u_char                    *p;
    ngx_str_t                  value;
    ngx_uint_t                 i;
    ngx_http_mistral_label_t  *label;

    static ngx_str_t  name = ngx_string("model");

    p = ngx_http_mistral_labels_value(text, &name, model);
    label = smcf->labels.elts;

    for (i = 0; i < smcf->labels.nelts; i++) {

        if (r) {
            ngx_http_mistral_labels_get(r, smcf, &label[i], &value);

        } else {
            ngx_str_set(&value, "_overflow");
        }

        *p++ = ',';
        p = ngx_http_mistral_labels_value(p, &label[i].name, &value);
    }

    return p - text;
}


static void
ngx_http_mistral_labels_get(ngx_http_request_t *r,
    ngx_http_mistral_series_main_conf_t *smcf,
    ngx_http_mistral_label_t *label, ngx_str_t *value)
{
    ngx_http_variable_value_t  *vv;

    ngx_str_null(value);

    if (label->tag.len) {
        if (ngx_http_mistral_tag_value(r, &label->tag, value) != NGX_OK) {
            ngx_str_null(value);
        }

        return;
    }

    vv = ngx_http_get_flushed_variable(r, smcf->consumer);

    if (vv != NULL && !vv->not_found) {
        value->data = vv->data;
        value->len = vv->len;
    }
}


/* name="value": whole characters of UTF-8 only, or a scrape fails */

static u_char *
ngx_http_mistral_labels_value(u_char *p, ngx_str_t *name, ngx_str_t *value)
{
    u_char    *src, *next, *end;
    uint32_t   c;

    p = ngx_cpymem(p, name->data, name->len);
    *p++ = '=';
    *p++ = '"';

    src = value->data;
    end = src + ngx_min(value->len, NGX_HTTP_MISTRAL_LABEL_VALUE);

    while (src < end) {
        next = src + 1;
        c = *src;

        if (c >= 0x80) {
            next = src;
            c = ngx_utf8_decode(&next, end - src);
        }

        if (c == 0xfffffffe && value->len > NGX_HTTP_MISTRAL_LABEL_VALUE) {
            break;                             /* cut in two by the bound */
        }

        if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
            *p++ = '?';
            src++;

        } else if (c < 0x20 || c == 0x7f) {
            *p++ = '?';
            src = next;

        } else if (c == '"' || c == '\\') {
            *p++ = '\\';
            *p++ = (u_char) c;
            src = next;

        } else {
            p = ngx_cpymem(p, src, next - src);
            src = next;
        }
    }

    *p++ = '"';

    return p;
}
