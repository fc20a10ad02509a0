
/*
 * The directives of limits and quotas, and their module record; the lines of
 * their zones: limit_zone_conf.c.
 *
 * All of this runs in the configuration phase: "nginx -t" finds every mistake
 * that can be found without a request.
 */

#include "gateway/ngx_http_mistral_limit.h"


static void *ngx_http_mistral_limit_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_mistral_limit_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_limit_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static ngx_int_t ngx_http_mistral_limit_resolve(ngx_conf_t *cf,
    ngx_array_t *limits, const ngx_http_mistral_limit_kind_t *kind);
static ngx_int_t ngx_http_mistral_limit_init_module(ngx_cycle_t *cycle);
static void ngx_http_mistral_limit_each(ngx_cycle_t *cycle,
    void (*handler)(ngx_http_mistral_limit_zone_t *zone));
static ngx_int_t ngx_http_mistral_limit_init_process(ngx_cycle_t *cycle);
static void ngx_http_mistral_limit_exit_process(ngx_cycle_t *cycle);
static char *ngx_http_mistral_limit_add(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static const char *ngx_http_mistral_limit_hint(ngx_str_t *value);
static ngx_int_t ngx_http_mistral_limit_sense(ngx_conf_t *cf,
    const ngx_http_mistral_limit_kind_t *kind,
    ngx_http_mistral_limit_t *limit, ngx_http_mistral_limit_param_t *params);
static ngx_int_t ngx_http_mistral_limit_reserve(ngx_conf_t *cf,
    ngx_http_mistral_limit_param_t *p, uint32_t *reserve);
static ngx_int_t ngx_http_mistral_limit_word(ngx_conf_t *cf,
    ngx_http_mistral_limit_param_t *p, const ngx_conf_enum_t *words,
    ngx_uint_t *value);


static const ngx_conf_enum_t  ngx_http_mistral_limit_counts[] = {
    { ngx_string("total"), NGX_HTTP_MISTRAL_LIMIT_TOTAL },
    { ngx_string("prompt"), NGX_HTTP_MISTRAL_LIMIT_PROMPT },
    { ngx_string("uncached"), NGX_HTTP_MISTRAL_LIMIT_UNCACHED },
    { ngx_string("completion"), NGX_HTTP_MISTRAL_LIMIT_COMPLETION },
    { ngx_null_string, 0 }
};


static const ngx_conf_enum_t  ngx_http_mistral_limit_overruns[] = {
    { ngx_string("finish"), NGX_HTTP_MISTRAL_LIMIT_FINISH },
    { ngx_string("stop"), NGX_HTTP_MISTRAL_LIMIT_STOP },
    { ngx_string("pace"), NGX_HTTP_MISTRAL_LIMIT_PACE },
    { ngx_null_string, 0 }
};


static ngx_conf_num_bounds_t  ngx_http_mistral_limit_codes = {
    ngx_conf_check_num_bounds, 400, 599
};


static ngx_command_t  ngx_http_mistral_limit_commands[] = {

    { ngx_string("mistral_limit_zone"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE3|NGX_CONF_TAKE4,
      ngx_http_mistral_limit_zone,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_limit"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_limit_add,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_limit_loc_conf_t, limits),
      (void *) &ngx_http_mistral_limit_bucket },

    { ngx_string("mistral_quota_zone"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_2MORE,
      ngx_http_mistral_quota_zone,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_quota"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_limit_add,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_limit_loc_conf_t, quotas),
      (void *) &ngx_http_mistral_limit_quota },

    { ngx_string("mistral_limit_status"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_limit_loc_conf_t, status_code),
      &ngx_http_mistral_limit_codes },

    { ngx_string("mistral_limit_dry_run"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_limit_loc_conf_t, dry_run),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_limit_module_ctx = {
    ngx_http_mistral_limit_add_variables,    /* preconfiguration */
    NULL,                                    /* postconfiguration */

    ngx_http_mistral_limit_create_main_conf, /* create main configuration */
    NULL,                                    /* init main configuration */

    NULL,                                    /* create server configuration */
    NULL,                                    /* merge server configuration */

    ngx_http_mistral_limit_create_loc_conf,  /* create location configuration */
    ngx_http_mistral_limit_merge_loc_conf    /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_limit_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_limit_module_ctx,    /* module context */
    ngx_http_mistral_limit_commands,       /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_mistral_limit_init_module,    /* init module */
    ngx_http_mistral_limit_init_process,   /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_mistral_limit_exit_process,   /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static void *
ngx_http_mistral_limit_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_limit_main_conf_t  *lmcf;

    lmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_limit_main_conf_t));

    if (lmcf == NULL
        || ngx_array_init(&lmcf->zones, cf->pool, 4, sizeof(void *)) != NGX_OK)
    {
        return NULL;
    }

    return lmcf;
}


static void *
ngx_http_mistral_limit_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_limit_loc_conf_t  *llcf;

    llcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_limit_loc_conf_t));
    if (llcf == NULL) {
        return NULL;
    }

    llcf->status_code = NGX_CONF_UNSET;
    llcf->dry_run = NGX_CONF_UNSET;

    return llcf;
}


/* all limits or none, as limit_req; quotas by themselves */

static char *
ngx_http_mistral_limit_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_limit_loc_conf_t *prev = parent;
    ngx_http_mistral_limit_loc_conf_t *conf = child;

    if (conf->limits == NULL) {
        conf->limits = prev->limits;
    }

    if (conf->quotas == NULL) {
        conf->quotas = prev->quotas;
    }

    ngx_conf_merge_value(conf->status_code, prev->status_code,
                         NGX_HTTP_TOO_MANY_REQUESTS);
    ngx_conf_merge_value(conf->dry_run, prev->dry_run, 0);

    if (ngx_http_mistral_limit_resolve(cf, conf->limits,
                                       &ngx_http_mistral_limit_bucket)
        != NGX_OK
        || ngx_http_mistral_limit_resolve(cf, conf->quotas,
                                          &ngx_http_mistral_limit_quota)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* a zone may stand behind the location that uses it, so not earlier */

static ngx_int_t
ngx_http_mistral_limit_resolve(ngx_conf_t *cf, ngx_array_t *limits,
    const ngx_http_mistral_limit_kind_t *kind)
{
    ngx_uint_t                           i, k;
    ngx_http_mistral_limit_t            *limit;
    ngx_http_mistral_limit_zone_t      **zones;
    ngx_http_mistral_limit_main_conf_t  *lmcf;

    lmcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_mistral_limit_module);
    zones = lmcf->zones.elts;

    for (i = 0; limits && i < limits->nelts; i++) {

        limit = (ngx_http_mistral_limit_t *) limits->elts + i;

        for (k = 0; k < lmcf->zones.nelts && limit->zone == NULL; k++) {

            if (zones[k]->kind == kind
                && zones[k]->name.len == limit->name.len
                && ngx_memcmp(zones[k]->name.data, limit->name.data,
                              limit->name.len)
                   == 0)
            {
                limit->zone = zones[k];
            }
        }

        if (limit->zone == NULL) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "unknown %s \"%V\" in %s:%ui", kind->zone,
                          &limit->name, limit->file_name, limit->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* without a master a reload happens inside of the only process, which is not
   asked to begin again: the timers of the old cycle would go with it */

static ngx_int_t
ngx_http_mistral_limit_init_module(ngx_cycle_t *cycle)
{
    if (ngx_process == NGX_PROCESS_SINGLE && !ngx_is_init_cycle(ngx_cycle)) {
        ngx_http_mistral_limit_each((ngx_cycle_t *) ngx_cycle,
                                    ngx_http_mistral_quota_finish);
        ngx_http_mistral_limit_each((ngx_cycle_t *) ngx_cycle,
                                    ngx_http_mistral_quota_stop);
        ngx_http_mistral_limit_each(cycle, ngx_http_mistral_quota_start);
    }

    return NGX_OK;
}


static void
ngx_http_mistral_limit_each(ngx_cycle_t *cycle,
    void (*handler)(ngx_http_mistral_limit_zone_t *zone))
{
    ngx_uint_t                            i;
    ngx_http_mistral_limit_zone_t       **zones;
    ngx_http_mistral_limit_main_conf_t   *lmcf;

    lmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mistral_limit_module);

    zones = lmcf ? lmcf->zones.elts : NULL;

    for (i = 0; lmcf && i < lmcf->zones.nelts; i++) {
        handler(zones[i]);
    }
}


static ngx_int_t
ngx_http_mistral_limit_init_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                            i;
    ngx_http_mistral_limit_zone_t       **zones;
    ngx_http_mistral_limit_main_conf_t   *lmcf;

    lmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mistral_limit_module);

    if (lmcf == NULL || (ngx_process != NGX_PROCESS_WORKER
                         && ngx_process != NGX_PROCESS_SINGLE))
    {
        return NGX_OK;
    }

    zones = lmcf->zones.elts;

    for (i = 0; i < lmcf->zones.nelts; i++) {

        if (ngx_http_mistral_limit_enter(zones[i]) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_http_mistral_quota_start(zones[i]);
    }

    return NGX_OK;
}


static void
ngx_http_mistral_limit_exit_process(ngx_cycle_t *cycle)
{
    if (ngx_process == NGX_PROCESS_WORKER || ngx_process == NGX_PROCESS_SINGLE)
    {
        ngx_http_mistral_limit_each(cycle, ngx_http_mistral_limit_leave);
        ngx_http_mistral_limit_each(cycle, ngx_http_mistral_quota_finish);
        ngx_http_mistral_limit_each(cycle, ngx_http_mistral_quota_stop);
    }
}


ngx_int_t
ngx_http_mistral_limit_params(ngx_conf_t *cf, ngx_uint_t first,
    ngx_http_mistral_limit_param_t *params)
{
    ngx_str_t                       *value;
    ngx_uint_t                       i;
    ngx_http_mistral_limit_param_t  *p;

    value = cf->args->elts;

    for (i = first; i < cf->args->nelts; i++) {

        for (p = params; p->name.len; p++) {
            if (value[i].len >= p->name.len
                && ngx_memcmp(value[i].data, p->name.data, p->name.len) == 0)
            {
                break;
            }
        }

        if (p->name.len == 0 || p->value.data) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "%s parameter \"%V\" in \"%V\" directive%s",
                               p->name.len ? "duplicate" : "invalid",
                               &value[i], &value[0],
                               p->name.len || first > 1
                               ? "" : ngx_http_mistral_limit_hint(&value[i]));
            return NGX_ERROR;
        }

        p->value.data = value[i].data + p->name.len;
        p->value.len = value[i].len - p->name.len;
    }

    return NGX_OK;
}


/* what a zone has is easily written to the line that uses it */

static const char *
ngx_http_mistral_limit_hint(ngx_str_t *value)
{
    ngx_uint_t  i;

    static const struct {
        const char  *name;
        const char  *hint;
    } hints[] = {
        { "rate=", ", it belongs to \"mistral_limit_zone\"" },
        { "burst=", ", it belongs to \"mistral_limit_zone\"" },
        { "quota=", ", it belongs to \"mistral_quota_zone\"" },
        { "window=", ", it belongs to \"mistral_quota_zone\"" },
        { "align=", ", it belongs to \"mistral_quota_zone\"" },
        { "state=", ", it belongs to \"mistral_quota_zone\"" }
    };

    for (i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        if (ngx_strncmp(value->data, hints[i].name,
                        ngx_strlen(hints[i].name))
            == 0)
        {
            return hints[i].hint;
        }
    }

    return "";
}


ngx_int_t
ngx_http_mistral_limit_invalid(ngx_conf_t *cf,
    ngx_http_mistral_limit_param_t *p, const char *why)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid value \"%V%V\", %s",
                       &p->name, &p->value, why);

    return NGX_ERROR;
}


/* a location's line: of which kind and to which list, its command says */

static char *
ngx_http_mistral_limit_add(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_uint_t                            i;
    ngx_array_t                         **limits;
    ngx_http_mistral_limit_t             *limit, *other;
    const ngx_http_mistral_limit_kind_t  *kind;
    ngx_http_mistral_limit_param_t        params[] = {
        { ngx_string("zone="), ngx_null_string },
        { ngx_string("count="), ngx_null_string },
        { ngx_string("reserve="), ngx_null_string },
        { ngx_string("overrun="), ngx_null_string },
        { ngx_null_string, ngx_null_string }
    };

    limits = (ngx_array_t **) ((char *) conf + cmd->offset);
    kind = cmd->post;

    if (ngx_http_mistral_limit_params(cf, 1, params) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (params[0].value.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%s\" must have a \"zone\" parameter",
                           kind->limit);
        return NGX_CONF_ERROR;
    }

    if (*limits == NULL) {
        *limits = ngx_array_create(cf->pool, 2,
                                   sizeof(ngx_http_mistral_limit_t));
        if (*limits == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    other = (*limits)->elts;

    for (i = 0; i < (*limits)->nelts; i++) {
        if (other[i].name.len == params[0].value.len
            && ngx_memcmp(other[i].name.data, params[0].value.data,
                          other[i].name.len)
               == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%s\" with \"zone=%V\" is duplicate",
                               kind->limit, &params[0].value);
            return NGX_CONF_ERROR;
        }
    }

    limit = ngx_array_push(*limits);
    if (limit == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(limit, sizeof(ngx_http_mistral_limit_t));

    limit->name = params[0].value;
    limit->file_name = cf->conf_file->file.name.data;
    limit->line = cf->conf_file->line;

    if (ngx_http_mistral_limit_word(cf, &params[1],
                                    ngx_http_mistral_limit_counts,
                                    &limit->count)
        != NGX_OK
        || ngx_http_mistral_limit_word(cf, &params[3],
                                       ngx_http_mistral_limit_overruns,
                                       &limit->overrun)
           != NGX_OK
        || ngx_http_mistral_limit_reserve(cf, &params[2], &limit->reserve)
           != NGX_OK
        || ngx_http_mistral_limit_sense(cf, kind, limit, params) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* what could have no effect is a mistake */

static ngx_int_t
ngx_http_mistral_limit_sense(ngx_conf_t *cf,
    const ngx_http_mistral_limit_kind_t *kind,
    ngx_http_mistral_limit_t *limit, ngx_http_mistral_limit_param_t *params)
{
    if (limit->count == NGX_HTTP_MISTRAL_LIMIT_PROMPT
        && (params[2].value.data || params[3].value.data))
    {
        return ngx_http_mistral_limit_invalid(cf, &params[1],
                                         "of a prompt nothing is reserved or "
                                         "overrun");
    }

    if (limit->overrun != NGX_HTTP_MISTRAL_LIMIT_FINISH
        && limit->reserve == NGX_HTTP_MISTRAL_LIMIT_ALL)
    {
        return ngx_http_mistral_limit_invalid(cf, &params[3],
                                         "an answer overruns a \"reserve\" of "
                                         "\"prompt\" or a number only");
    }

    if (limit->overrun == NGX_HTTP_MISTRAL_LIMIT_PACE
        && kind == &ngx_http_mistral_limit_quota)
    {
        return ngx_http_mistral_limit_invalid(cf, &params[3],
                                              "a quota has no rate");
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_limit_reserve(ngx_conf_t *cf,
    ngx_http_mistral_limit_param_t *p, uint32_t *reserve)
{
    uint64_t   n;
    ngx_str_t  *v;

    v = &p->value;
    *reserve = NGX_HTTP_MISTRAL_LIMIT_ALL;

    if (v->data == NULL || ngx_strcmp(v->data, "max_tokens") == 0) {
        return NGX_OK;
    }

    if (ngx_strcmp(v->data, "prompt") == 0) {
        *reserve = 0;
        return NGX_OK;
    }

    if (mst_bucket_number((char *) v->data, v->len, &n) != MST_OK
        || n >= NGX_HTTP_MISTRAL_LIMIT_ALL)
    {
        return ngx_http_mistral_limit_invalid(cf, p,
                                         "it must be \"max_tokens\", "
                                         "\"prompt\" or a number");
    }

    *reserve = (uint32_t) n;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_limit_word(ngx_conf_t *cf, ngx_http_mistral_limit_param_t *p,
    const ngx_conf_enum_t *words, ngx_uint_t *value)
{
    ngx_uint_t  i;

    for (i = 0; p->value.data && words[i].name.len; i++) {
        if (ngx_strcmp(p->value.data, words[i].name.data) == 0) {
            *value = words[i].value;
            return NGX_OK;
        }
    }

    return p->value.data ? ngx_http_mistral_limit_invalid(cf, p,
                                                          "unknown word")
                         : NGX_OK;
}
