
/*
 * What a mistral_model block changes of its model: rope_scaling.  Master,
 * configuration phase.  Whether the model can do it is known when its files
 * are open (load_model.c); here numbers are read.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"


typedef struct {
    ngx_str_t   name;                          /* with the '=' */
    size_t      offset;                        /* of a double in mst_tune_t */
    ngx_uint_t  kinds;                         /* bits of mst_tune_rope_t */
} ngx_http_mistral_tune_t;


static char *ngx_http_mistral_tune_param(ngx_conf_t *cf, ngx_str_t *value,
    mst_tune_t *tune);


static const char  *ngx_http_mistral_tune_kinds[] = {
    "", "linear", "dynamic", "llama3", "yarn"  /* as mst_tune_rope_t */
};

#define NGX_HTTP_MISTRAL_TUNE_ALL     0x1e
#define NGX_HTTP_MISTRAL_TUNE_LLAMA3  (1 << MST_TUNE_LLAMA3)
#define NGX_HTTP_MISTRAL_TUNE_YARN    (1 << MST_TUNE_YARN)


static ngx_http_mistral_tune_t  ngx_http_mistral_tune_params[] = {

    { ngx_string("factor="), offsetof(mst_tune_t, factor),
      NGX_HTTP_MISTRAL_TUNE_ALL },

    { ngx_string("original="), offsetof(mst_tune_t, original),
      NGX_HTTP_MISTRAL_TUNE_ALL },

    { ngx_string("low_freq_factor="), offsetof(mst_tune_t, low_freq),
      NGX_HTTP_MISTRAL_TUNE_LLAMA3 },

    { ngx_string("high_freq_factor="), offsetof(mst_tune_t, high_freq),
      NGX_HTTP_MISTRAL_TUNE_LLAMA3 },

    { ngx_string("beta_fast="), offsetof(mst_tune_t, beta_fast),
      NGX_HTTP_MISTRAL_TUNE_YARN },

    { ngx_string("beta_slow="), offsetof(mst_tune_t, beta_slow),
      NGX_HTTP_MISTRAL_TUNE_YARN },

    { ngx_string("attention_factor="), offsetof(mst_tune_t, attention),
      NGX_HTTP_MISTRAL_TUNE_YARN },

    { ngx_null_string, 0, 0 }
};


/* rope_scaling KIND factor=N [original=M] ... */

char *
ngx_http_mistral_tune_rope(ngx_conf_t *cf, mst_tune_t *tune)
{
    ngx_str_t   *value;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = MST_TUNE_LINEAR; i <= MST_TUNE_YARN; i++) {
        if (ngx_strcmp(value[1].data, ngx_http_mistral_tune_kinds[i]) == 0) {
            tune->rope = i;
        }
    }

    if (tune->rope == MST_TUNE_AS_FILES) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"rope_scaling\" "
                           "directive, it must be \"linear\", \"dynamic\", "
                           "\"llama3\" or \"yarn\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_mistral_tune_param(cf, &value[i], tune)
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    if (tune->factor == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"rope_scaling\" needs a parameter \"factor=\"");
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_tune_param(ngx_conf_t *cf, ngx_str_t *value,
    mst_tune_t *tune)
{
    double                   *to;
    ngx_str_t                 s;
    ngx_http_mistral_tune_t  *p;

    for (p = ngx_http_mistral_tune_params; p->name.len != 0; p++) {

        if (ngx_strncmp(value->data, p->name.data, p->name.len) != 0) {
            continue;
        }

        if (!(p->kinds & (1 << tune->rope))) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "parameter \"%V\" is none of rope_scaling "
                               "\"%s\"", value,
                               ngx_http_mistral_tune_kinds[tune->rope]);
            return NGX_CONF_ERROR;
        }

        to = (double *) ((char *) tune + p->offset);

        if (*to != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\"", value);
            return NGX_CONF_ERROR;
        }

        s.data = value->data + p->name.len;
        s.len = value->len - p->name.len;

        if (ngx_http_mistral_load_rate(&s, to) == NGX_OK && *to != 0) {
            return NGX_CONF_OK;
        }

        break;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"",
                       value);

    return NGX_CONF_ERROR;
}
