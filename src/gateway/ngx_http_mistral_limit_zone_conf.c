
/*
 * mistral_limit_zone and mistral_quota_zone: what a zone's line says of it, as
 * far as it can be known without a request.  Configuration phase only.
 */

#include "gateway/ngx_http_mistral_limit.h"


static ngx_http_mistral_limit_zone_t *ngx_http_mistral_limit_zone_add(
    ngx_conf_t *cf, const ngx_http_mistral_limit_kind_t *kind,
    ngx_http_mistral_limit_param_t *p);
static ssize_t ngx_http_mistral_limit_zone_size(ngx_conf_t *cf,
    ngx_http_mistral_limit_param_t *p, ngx_str_t *name);
static char *ngx_http_mistral_quota_state(ngx_conf_t *cf, void *conf,
    ngx_http_mistral_limit_zone_t *zone, ngx_http_mistral_limit_param_t *p);
static ngx_int_t ngx_http_mistral_limit_zone_compile(ngx_conf_t *cf,
    ngx_str_t *value, ngx_http_complex_value_t *cv);
static ngx_int_t ngx_http_mistral_limit_zone_number(ngx_conf_t *cf,
    ngx_http_mistral_limit_param_t *p, ngx_http_complex_value_t *cv,
    uint64_t *n);
static ngx_uint_t ngx_http_mistral_limit_zone_shares(
    ngx_http_mistral_limit_main_conf_t *lmcf,
    ngx_http_mistral_limit_zone_t *zone);
static void ngx_http_mistral_limit_zone_close(void *data);


char *
ngx_http_mistral_limit_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_limit_zone_t   *zone;
    ngx_http_mistral_limit_param_t   params[] = {
        { ngx_string("zone="), ngx_null_string },
        { ngx_string("rate="), ngx_null_string },
        { ngx_string("burst="), ngx_null_string },
        { ngx_null_string, ngx_null_string }
    };

    ngx_str_t  *rate, *burst;

    if (ngx_http_mistral_limit_params(cf, 2, params) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    rate = &params[1].value;
    burst = &params[2].value;

    if (rate->data == NULL) {
        return "has no \"rate\" parameter";
    }

    zone = ngx_http_mistral_limit_zone_add(cf, &ngx_http_mistral_limit_bucket,
                                           &params[0]);

    if (zone == NULL
        || ngx_http_mistral_limit_zone_compile(cf, rate, &zone->rate) != NGX_OK
        || (burst->data
            && ngx_http_mistral_limit_zone_compile(cf, burst, &zone->burst)
               != NGX_OK))
    {
        return NGX_CONF_ERROR;
    }

    if (zone->rate.lengths == NULL
        && (mst_bucket_rate((char *) rate->data, rate->len, &zone->fixed)
            != MST_OK
            || zone->fixed.tokens == 0))
    {
        ngx_http_mistral_limit_invalid(cf, &params[1],
                                       "it must be like \"500t/s\", "
                                       "\"20kt/m\" or \"1mt/h\"");
        return NGX_CONF_ERROR;
    }

    if (burst->data
        && ngx_http_mistral_limit_zone_number(cf, &params[2], &zone->burst,
                                              &zone->fixed.burst)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    zone->variable = zone->rate.lengths != NULL || zone->burst.lengths != NULL;

    return NGX_CONF_OK;
}


char *
ngx_http_mistral_quota_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_limit_zone_t   *zone;
    ngx_http_mistral_limit_param_t   params[] = {
        { ngx_string("zone="), ngx_null_string },
        { ngx_string("quota="), ngx_null_string },
        { ngx_string("window="), ngx_null_string },
        { ngx_string("align="), ngx_null_string },
        { ngx_string("state="), ngx_null_string },
        { ngx_null_string, ngx_null_string }
    };

    mst_err_t   err;
    ngx_str_t  *quota, *window, *align;

    if (ngx_http_mistral_limit_params(cf, 2, params) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    quota = &params[1].value;
    window = &params[2].value;
    align = &params[3].value;

    if (quota->data == NULL) {
        return "has no \"quota\" parameter";
    }

    if (window->data == NULL) {
        return "has no \"window\" parameter";
    }

    if (align->data && ngx_strcmp(align->data, "calendar") != 0) {
        ngx_http_mistral_limit_invalid(cf, &params[3],
                                       "it must be \"calendar\"");
        return NGX_CONF_ERROR;
    }

    zone = ngx_http_mistral_limit_zone_add(cf, &ngx_http_mistral_limit_quota,
                                           &params[0]);

    if (zone == NULL
        || ngx_http_mistral_limit_zone_compile(cf, quota, &zone->rate)
           != NGX_OK
        || ngx_http_mistral_limit_zone_number(cf, &params[1], &zone->rate,
                                              &zone->fixed.burst)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    zone->variable = zone->rate.lengths != NULL;

    err.text[0] = '\0';
    zone->window_text = *window;

    if (mst_budget_window((char *) window->data, window->len,
                          align->data != NULL, &zone->window, &err)
        != MST_OK)
    {
        ngx_http_mistral_limit_invalid(cf, &params[2], err.text);
        return NGX_CONF_ERROR;
    }

    return params[4].value.data
           ? ngx_http_mistral_quota_state(cf, conf, zone, &params[4])
           : NGX_CONF_OK;
}


/* the file that keeps the counts over a restart */

static char *
ngx_http_mistral_quota_state(ngx_conf_t *cf, void *conf,
    ngx_http_mistral_limit_zone_t *zone, ngx_http_mistral_limit_param_t *p)
{
    ngx_str_t  *state;

    state = &p->value;
    zone->state = *state;

    if (state->len == 0 || state->data[state->len - 1] == '/'
        || ngx_conf_full_name(cf->cycle, &zone->state, 0) != NGX_OK
        || zone->state.len > NGX_MAX_PATH - sizeof(".broken"))
    {
        ngx_http_mistral_limit_invalid(cf, p, "it must be the name of a file");
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mistral_limit_zone_shares(conf, zone)) {
        ngx_http_mistral_limit_invalid(cf, p,
                                       "it is the state of another zone");
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static ngx_http_mistral_limit_zone_t *
ngx_http_mistral_limit_zone_add(ngx_conf_t *cf,
    const ngx_http_mistral_limit_kind_t *kind,
    ngx_http_mistral_limit_param_t *p)
{
    ssize_t                               size;
    ngx_str_t                            *value, name;
    ngx_pool_cleanup_t                   *cln;
    ngx_http_mistral_limit_zone_t        *zone, **zp;
    ngx_http_mistral_limit_main_conf_t   *lmcf;

    value = cf->args->elts;
    lmcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_mistral_limit_module);

    size = ngx_http_mistral_limit_zone_size(cf, p, &name);

    if (size == NGX_ERROR) {
        return NULL;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    zone = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_limit_zone_t));
    zp = ngx_array_push(&lmcf->zones);

    if (cln == NULL || zone == NULL || zp == NULL) {
        return NULL;
    }

    *zp = zone;

    cln->handler = ngx_http_mistral_limit_zone_close;
    cln->data = zone;

    zone->kind = kind;
    zone->cycle = cf->cycle;
    zone->fd = -1;
    zone->name = name;

    if (ngx_http_mistral_limit_zone_compile(cf, &value[1], &zone->key)
        != NGX_OK)
    {
        return NULL;
    }

    zone->shm_zone = ngx_shared_memory_add(cf, &zone->name, size,
                                           &ngx_http_mistral_limit_module);
    if (zone->shm_zone == NULL) {
        return NULL;
    }

    if (zone->shm_zone->data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "zone \"%V\" is already bound to a key",
                           &zone->name);
        return NULL;
    }

    zone->shm_zone->init = ngx_http_mistral_limit_init_zone;
    zone->shm_zone->data = zone;

    return zone;
}


/* NAME:SIZE; NGX_ERROR was logged */

static ssize_t
ngx_http_mistral_limit_zone_size(ngx_conf_t *cf,
    ngx_http_mistral_limit_param_t *p, ngx_str_t *name)
{
    u_char     *colon;
    ssize_t     size;
    ngx_str_t   s;

    colon = p->value.data ? ngx_strlchr(p->value.data,
                                        p->value.data + p->value.len, ':')
                          : NULL;

    if (colon == NULL || colon == p->value.data) {
        ngx_http_mistral_limit_invalid(cf, p, "it must be NAME:SIZE");
        return NGX_ERROR;
    }

    name->data = p->value.data;
    name->len = colon - p->value.data;

    s.data = colon + 1;
    s.len = p->value.data + p->value.len - s.data;
    size = ngx_parse_size(&s);

    if (size == NGX_ERROR || size < (ssize_t) (8 * ngx_pagesize)) {
        ngx_http_mistral_limit_invalid(cf, p, size == NGX_ERROR
                                       ? "the size is none"
                                       : "the zone is too small");
        return NGX_ERROR;
    }

    return size;
}


static ngx_int_t
ngx_http_mistral_limit_zone_compile(ngx_conf_t *cf, ngx_str_t *value,
    ngx_http_complex_value_t *cv)
{
    ngx_http_compile_complex_value_t  ccv;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = value;
    ccv.complex_value = cv;

    return ngx_http_compile_complex_value(&ccv);
}


/* as it is in the line; what variables have, only a request knows */

static ngx_int_t
ngx_http_mistral_limit_zone_number(ngx_conf_t *cf,
    ngx_http_mistral_limit_param_t *p, ngx_http_complex_value_t *cv,
    uint64_t *n)
{
    if (cv->lengths == NULL
        && (mst_bucket_number((char *) p->value.data, p->value.len, n)
            != MST_OK
            || *n == 0))
    {
        return ngx_http_mistral_limit_invalid(cf, p,
                                              "it must be a number of tokens");
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_mistral_limit_zone_shares(ngx_http_mistral_limit_main_conf_t *lmcf,
    ngx_http_mistral_limit_zone_t *zone)
{
    ngx_uint_t                       i;
    ngx_http_mistral_limit_zone_t  **zones;

    zones = lmcf->zones.elts;

    for (i = 0; i < lmcf->zones.nelts; i++) {
        if (zones[i] != zone && zones[i]->state.len == zone->state.len
            && ngx_memcmp(zones[i]->state.data, zone->state.data,
                          zone->state.len)
               == 0)
        {
            return 1;
        }
    }

    return 0;
}


static void
ngx_http_mistral_limit_zone_close(void *data)
{
    ngx_http_mistral_limit_zone_t *zone = data;

    if (zone->fd != -1) {
        (void) close(zone->fd);
    }
}
