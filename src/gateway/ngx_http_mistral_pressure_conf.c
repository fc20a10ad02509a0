
/*
 * The directives of pressure.c, and their values: all of it is checked when
 * the configuration is read, but for what comes out of variables.
 */

#include "gateway/ngx_http_mistral_pressure.h"


#define NGX_HTTP_MISTRAL_PRESSURE_RETRY  86400     /* seconds */


static void *ngx_http_mistral_pressure_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_pressure_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_mistral_pressure_reserve(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_mistral_pressure_deadline(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_mistral_pressure_priority(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_mistral_pressure_fair(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_mistral_pressure_set_retry(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_mistral_pressure_set_status(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_mistral_pressure_value(ngx_conf_t *cf,
    ngx_str_t *value, ngx_http_complex_value_t **cv);


static ngx_command_t  ngx_http_mistral_pressure_commands[] = {

    { ngx_string("mistral_kv_reserve"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_pressure_reserve,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_deadline"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_pressure_deadline,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_priority"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE12,
      ngx_http_mistral_pressure_priority,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_fair"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE12,
      ngx_http_mistral_pressure_fair,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_retry_after"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_pressure_set_retry,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_shed_status"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_pressure_set_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_pressure_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_pressure_create_loc_conf, /* create location
                                                  configuration */
    ngx_http_mistral_pressure_merge_loc_conf /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_pressure_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_pressure_module_ctx, /* module context */
    ngx_http_mistral_pressure_commands,    /* module directives */
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
ngx_http_mistral_pressure_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_pressure_loc_conf_t  *plcf;

    plcf = ngx_palloc(cf->pool, sizeof(ngx_http_mistral_pressure_loc_conf_t));
    if (plcf == NULL) {
        return NULL;
    }

    plcf->reserve = NGX_CONF_UNSET_UINT;
    plcf->ttft = NGX_CONF_UNSET_PTR;
    plcf->priority = NGX_CONF_UNSET_PTR;
    plcf->preempt = 0;
    plcf->fair = NGX_CONF_UNSET_PTR;
    plcf->weight = NULL;
    plcf->retry = NGX_CONF_UNSET_UINT;
    plcf->status = NGX_CONF_UNSET_UINT;

    return plcf;
}


static char *
ngx_http_mistral_pressure_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_pressure_loc_conf_t *prev = parent;
    ngx_http_mistral_pressure_loc_conf_t *conf = child;

    /* a line is inherited as a whole */

    if (conf->priority == NGX_CONF_UNSET_PTR) {
        conf->preempt = prev->preempt;
    }

    if (conf->fair == NGX_CONF_UNSET_PTR) {
        conf->weight = prev->weight;
    }

    ngx_conf_merge_uint_value(conf->reserve, prev->reserve, 0);
    ngx_conf_merge_ptr_value(conf->ttft, prev->ttft, NULL);
    ngx_conf_merge_ptr_value(conf->priority, prev->priority, NULL);
    ngx_conf_merge_ptr_value(conf->fair, prev->fair, NULL);
    ngx_conf_merge_uint_value(conf->retry, prev->retry,
                              NGX_HTTP_MISTRAL_PRESSURE_AUTO);
    ngx_conf_merge_uint_value(conf->status, prev->status,
                              NGX_HTTP_SERVICE_UNAVAILABLE);

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_pressure_reserve(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mistral_pressure_loc_conf_t *plcf = conf;

    int         n;
    ngx_str_t  *value, number;

    if (plcf->reserve != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "prompt") == 0) {
        plcf->reserve = 0;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value[1].data, "full") == 0) {
        plcf->reserve = 100;
        return NGX_CONF_OK;
    }

    number = value[1];

    if (number.len && number.data[number.len - 1] == '%') {
        number.len--;

        if (ngx_http_mistral_pressure_integer(&number, 0, 100, &n) == NGX_OK) {
            plcf->reserve = (ngx_uint_t) n;
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" in \"mistral_kv_reserve\" "
                       "directive, it must be \"prompt\", \"full\" or a part "
                       "of the answer, 0%% to 100%%", &value[1]);
    return NGX_CONF_ERROR;
}


static char *
ngx_http_mistral_pressure_deadline(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mistral_pressure_loc_conf_t *plcf = conf;

    char       *rv;
    ngx_str_t  *value, time;

    if (plcf->ttft != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        plcf->ttft = NULL;
        return NGX_CONF_OK;
    }

    if (ngx_strncmp(value[1].data, "ttft=", 5) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"mistral_deadline\" "
                           "directive, it must be \"ttft=time\", "
                           "\"ttft=$variable\" or \"off\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    time.data = value[1].data + 5;
    time.len = value[1].len - 5;

    rv = ngx_http_mistral_pressure_value(cf, &time, &plcf->ttft);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (plcf->ttft->lengths == NULL
        && (ngx_parse_time(&time, 0) == NGX_ERROR
            || ngx_parse_time(&time, 0) == 0))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid time \"%V\" in \"mistral_deadline\" "
                           "directive", &time);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_pressure_priority(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mistral_pressure_loc_conf_t *plcf = conf;

    int         n;
    char       *rv;
    ngx_str_t  *value;

    if (plcf->priority != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 3) {
        if (ngx_strcmp(value[2].data, "preempt") != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in "
                               "\"mistral_priority\" directive, it must be "
                               "\"preempt\"", &value[2]);
            return NGX_CONF_ERROR;
        }

        plcf->preempt = 1;
    }

    rv = ngx_http_mistral_pressure_value(cf, &value[1], &plcf->priority);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (plcf->priority->lengths == NULL
        && ngx_http_mistral_pressure_integer(&value[1], MST_PRIORITY_MIN,
                                             MST_PRIORITY_MAX, &n)
           != NGX_OK)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid class \"%V\" in \"mistral_priority\" "
                           "directive, it must be from %d to %d or a "
                           "variable", &value[1], MST_PRIORITY_MIN,
                           MST_PRIORITY_MAX);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_pressure_fair(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mistral_pressure_loc_conf_t *plcf = conf;

    int         n;
    char       *rv;
    ngx_str_t  *value, weight;

    if (plcf->fair != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        plcf->fair = NULL;
        return NGX_CONF_OK;
    }

    rv = ngx_http_mistral_pressure_value(cf, &value[1], &plcf->fair);

    if (rv != NGX_CONF_OK || cf->args->nelts == 2) {
        return rv;
    }

    if (ngx_strncmp(value[2].data, "weight=", 7) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"mistral_fair\" "
                           "directive, it must be \"weight=number\"",
                           &value[2]);
        return NGX_CONF_ERROR;
    }

    weight.data = value[2].data + 7;
    weight.len = value[2].len - 7;

    rv = ngx_http_mistral_pressure_value(cf, &weight, &plcf->weight);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (plcf->weight->lengths == NULL
        && ngx_http_mistral_pressure_integer(&weight, 1, MST_WEIGHT_MAX, &n)
           != NGX_OK)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid weight \"%V\" in \"mistral_fair\" "
                           "directive, it must be from 1 to %d or a variable",
                           &weight, MST_WEIGHT_MAX);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_pressure_set_retry(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mistral_pressure_loc_conf_t *plcf = conf;

    ngx_int_t   s;
    ngx_str_t  *value;

    if (plcf->retry != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "auto") == 0) {
        plcf->retry = NGX_HTTP_MISTRAL_PRESSURE_AUTO;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        plcf->retry = 0;
        return NGX_CONF_OK;
    }

    s = ngx_parse_time(&value[1], 1);

    if (s == NGX_ERROR || s == 0 || s > NGX_HTTP_MISTRAL_PRESSURE_RETRY) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"mistral_retry_after\" "
                           "directive, it must be \"auto\", \"off\" or a time "
                           "from a second to a day", &value[1]);
        return NGX_CONF_ERROR;
    }

    plcf->retry = (ngx_uint_t) s;

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_pressure_set_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mistral_pressure_loc_conf_t *plcf = conf;

    int         n;
    ngx_str_t  *value;

    if (plcf->status != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_mistral_pressure_integer(&value[1], 400, 599, &n) != NGX_OK
        || n == 499 || n == 444)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid status \"%V\" in \"mistral_shed_status\" "
                           "directive, it must be from 400 to 599, but not "
                           "444, which sends no answer, nor 499",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    plcf->status = (ngx_uint_t) n;

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_pressure_value(ngx_conf_t *cf, ngx_str_t *value,
    ngx_http_complex_value_t **cv)
{
    ngx_http_compile_complex_value_t  ccv;

    if (value->len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid value \"%V\"",
                           value);
        return NGX_CONF_ERROR;
    }

    *cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (*cv == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = value;
    ccv.complex_value = *cv;

    return ngx_http_compile_complex_value(&ccv) == NGX_OK ? NGX_CONF_OK
                                                          : NGX_CONF_ERROR;
}


ngx_int_t
ngx_http_mistral_pressure_integer(ngx_str_t *value, int low, int high, int *n)
{
    ngx_int_t   x;
    ngx_uint_t  minus;

    minus = value->len && value->data[0] == '-';

    x = ngx_atoi(value->data + minus, value->len - minus);

    if (x == NGX_ERROR || x > 1000000) {
        return NGX_ERROR;
    }

    x = minus ? -x : x;

    if (x < low || x > high) {
        return NGX_ERROR;
    }

    *n = (int) x;

    return NGX_OK;
}
