
/*
 * Directives outside of the model block, and where they are inherited.
 *
 * All of this runs in the master, in the configuration phase of a cycle:
 * "nginx -t" finds every mistake that can be found without a request.  The
 * model block is ngx_http_mistral_model.c.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>


#define NGX_HTTP_MISTRAL_QUEUE          128
#define NGX_HTTP_MISTRAL_QUEUE_MAX      1000000
#define NGX_HTTP_MISTRAL_QUEUE_TIMEOUT  60000
#define NGX_HTTP_MISTRAL_TOKENS_MAX     1000000000


static char *ngx_http_mistral_queue_param(ngx_conf_t *cf, ngx_str_t *value,
    ngx_http_mistral_loc_conf_t *mlcf);
static ngx_int_t ngx_http_mistral_resolve(ngx_conf_t *cf,
    ngx_http_mistral_loc_conf_t *mlcf);
static ngx_int_t ngx_http_mistral_default_program(ngx_conf_t *cf,
    ngx_http_mistral_main_conf_t *mmcf);
static ngx_int_t ngx_http_mistral_add_zone(ngx_conf_t *cf,
    ngx_http_mistral_main_conf_t *mmcf);


void *
ngx_http_mistral_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_main_conf_t  *mmcf;

    mmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_main_conf_t));
    if (mmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&mmcf->models, cf->pool, 4,
                       sizeof(ngx_http_mistral_model_t *))
        != NGX_OK)
    {
        return NULL;
    }

    return mmcf;
}


char *
ngx_http_mistral_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_mistral_main_conf_t *mmcf = conf;

    if (mmcf->models.nelts == 0) {
        return NGX_CONF_OK;
    }

    if (mmcf->program.data == NULL
        && ngx_http_mistral_default_program(cf, mmcf) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (mmcf->program.len >= MST_SETUP_PATH) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the engine program's path \"%V\" is longer than "
                           "%d bytes", &mmcf->program, MST_SETUP_PATH - 1);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mistral_device_library(cf, mmcf) != NGX_OK
        || ngx_http_mistral_add_zone(cf, mmcf) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/*
 * The program that was installed with this module lies beside it.  Its path
 * is made absolute, since it is a part of the engine's identity and the
 * supervisor has another working directory.  That it is missing is an error
 * only where it will be run: an engine that goes on needs none.
 */

static ngx_int_t
ngx_http_mistral_default_program(ngx_conf_t *cf,
    ngx_http_mistral_main_conf_t *mmcf)
{
    char     *slash, path[PATH_MAX], real[PATH_MAX];
    Dl_info   info;

    ngx_str_set(&mmcf->program, NGX_HTTP_MISTRAL_PROGRAM);

    if (dladdr(&ngx_http_mistral_module, &info) == 0
        || info.dli_fname == NULL
        || ngx_strlen(info.dli_fname) >= PATH_MAX - sizeof("/mistral"))
    {
        return NGX_OK;
    }

    ngx_cpystrn((u_char *) path, (u_char *) info.dli_fname, PATH_MAX);
    slash = strrchr(path, '/');

    if (slash == NULL) {
        return NGX_OK;
    }

    ngx_memcpy(slash, "/mistral", sizeof("/mistral"));

    if (realpath(path, real) == NULL) {

        if (access(NGX_HTTP_MISTRAL_PROGRAM, F_OK) == 0) {
            return NGX_OK;
        }

        *slash = '\0';

        if (realpath(path, real) == NULL
            || ngx_strlen(real) >= PATH_MAX - sizeof("/mistral"))
        {
            return NGX_OK;
        }

        ngx_memcpy(real + ngx_strlen(real), "/mistral", sizeof("/mistral"));

        mmcf->no_program = 1;
    }

    mmcf->program.len = ngx_strlen(real);
    mmcf->program.data = ngx_pnalloc(cf->pool, mmcf->program.len + 1);
    if (mmcf->program.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(mmcf->program.data, real, mmcf->program.len + 1);

    return NGX_OK;
}


/*
 * Of one size: nginx hands zone->data of the old cycle to init_zone of the
 * new one, and the counters in it.
 */

static ngx_int_t
ngx_http_mistral_add_zone(ngx_conf_t *cf, ngx_http_mistral_main_conf_t *mmcf)
{
    ngx_str_t  name = ngx_string("ngx_http_mistral");

    mmcf->zone = ngx_shared_memory_add(cf, &name,
                                       ngx_http_mistral_metrics_size(),
                                       &ngx_http_mistral_module);
    if (mmcf->zone == NULL) {
        return NGX_ERROR;
    }

    mmcf->cycle = cf->cycle;
    mmcf->zone->data = mmcf;
    mmcf->zone->init = ngx_http_mistral_init_zone;

    return NGX_OK;
}


/* what other files hook into nginx's phases and filters */

ngx_int_t
ngx_http_mistral_post_conf(ngx_conf_t *cf)
{
    if (ngx_http_mistral_metrics_add_handler(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mistral_special_init(cf);
}


void *
ngx_http_mistral_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_loc_conf_t  *mlcf;

    mlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_loc_conf_t));
    if (mlcf == NULL) {
        return NULL;
    }

    mlcf->queue = NGX_CONF_UNSET_UINT;
    mlcf->queue_timeout = NGX_CONF_UNSET_MSEC;

    return mlcf;
}


/*
 * Handlers stay in their location, as proxy_pass does; the nameless
 * locations that "if" and "limit_except" make go on with their parent's.
 */

char *
ngx_http_mistral_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mistral_loc_conf_t *prev = parent;
    ngx_http_mistral_loc_conf_t *conf = child;

    ngx_http_core_loc_conf_t  *clcf;

    /* a line is inherited as a whole */

    if (conf->queue == NGX_CONF_UNSET_UINT) {
        conf->queue_tokens = prev->queue_tokens;
    }

    ngx_conf_merge_uint_value(conf->queue, prev->queue,
                              NGX_HTTP_MISTRAL_QUEUE);
    ngx_conf_merge_msec_value(conf->queue_timeout, prev->queue_timeout,
                              NGX_HTTP_MISTRAL_QUEUE_TIMEOUT);

    if (ngx_http_mistral_resolve(cf, conf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->handler != NULL && clcf->handler != conf->handler) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"%s\" cannot be used in a location that has another "
                      "handler in %s:%ui", conf->directive, conf->file_name,
                      conf->line);
        return NGX_CONF_ERROR;
    }

    if (clcf->noname && conf->handler == NULL) {
        conf->handler = prev->handler;
        conf->model = prev->model;
        conf->pass = prev->pass;
        conf->health = prev->health;
        conf->status = prev->status;
        conf->vllm = prev->vllm;
    }

    if (clcf->lmt_excpt && clcf->handler == NULL) {
        clcf->handler = conf->handler;
    }

    return NGX_CONF_OK;
}


/* a block may stand behind the location that names it, so not earlier */

static ngx_int_t
ngx_http_mistral_resolve(ngx_conf_t *cf, ngx_http_mistral_loc_conf_t *mlcf)
{
    ngx_http_mistral_main_conf_t  *mmcf;

    if (mlcf->pass_name.len == 0 || mlcf->model != NULL) {
        return NGX_OK;
    }

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mistral_module);

    mlcf->model = ngx_http_mistral_find_model(mmcf, &mlcf->pass_name);

    if (mlcf->model == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "unknown mistral_model \"%V\" in %s:%ui",
                      &mlcf->pass_name, mlcf->file_name, mlcf->line);
        return NGX_ERROR;
    }

    return NGX_OK;
}


char *
ngx_http_mistral_program(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_main_conf_t *mmcf = conf;

    ngx_str_t  *value;

    if (mmcf->program.data != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid value \"%V\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    mmcf->program = value[1];
    mmcf->program_file = cf->conf_file->file.name.data;
    mmcf->program_line = cf->conf_file->line;

    if (ngx_conf_full_name(cf->cycle, &mmcf->program, 0) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mistral_pass(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_loc_conf_t *mlcf = conf;

    ngx_str_t                         *value;
    ngx_http_complex_value_t           cv;
    ngx_http_compile_complex_value_t   ccv;

    value = cf->args->elts;

    if (value[1].len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid value \"%V\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[1];
    ccv.complex_value = &cv;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (mlcf->handler == ngx_http_mistral_handler) {
        return "is duplicate";
    }

    if (cv.lengths != NULL) {
        mlcf->pass = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
        if (mlcf->pass == NULL) {
            return NGX_CONF_ERROR;
        }

        *mlcf->pass = cv;

    } else {
        mlcf->pass_name = value[1];
    }

    mlcf->handler = ngx_http_mistral_handler;

    return ngx_http_mistral_set_handler(cf, cmd, mlcf->handler);
}


char *
ngx_http_mistral_health(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_loc_conf_t *mlcf = conf;

    ngx_str_t  *value;

    if (mlcf->health) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "live") == 0) {
        mlcf->health = NGX_HTTP_MISTRAL_HEALTH_LIVE;

    } else if (ngx_strcmp(value[1].data, "ready") == 0) {
        mlcf->health = NGX_HTTP_MISTRAL_HEALTH_READY;

    } else if (ngx_strcmp(value[1].data, "decode") == 0) {
        mlcf->health = NGX_HTTP_MISTRAL_HEALTH_DECODE;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"mistral_health\" "
                           "directive, it must be \"live\", \"ready\" or "
                           "\"decode\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    return ngx_http_mistral_set_handler(cf, cmd,
                                        ngx_http_mistral_health_handler);
}


char *
ngx_http_mistral_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_loc_conf_t *mlcf = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    if (mlcf->status) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "json") == 0) {
        mlcf->status = NGX_HTTP_MISTRAL_STATUS_JSON;

    } else if (ngx_strcmp(value[1].data, "prometheus") == 0) {
        mlcf->status = NGX_HTTP_MISTRAL_STATUS_PROMETHEUS;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"mistral_status\" "
                           "directive, it must be \"json\" or \"prometheus\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {

        if (mlcf->status != NGX_HTTP_MISTRAL_STATUS_PROMETHEUS || mlcf->vllm
            || ngx_strcmp(value[i].data, "vllm") != 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        mlcf->vllm = 1;
    }

    return ngx_http_mistral_set_handler(cf, cmd,
                            mlcf->status == NGX_HTTP_MISTRAL_STATUS_JSON
                            ? ngx_http_mistral_status_handler
                            : ngx_http_mistral_prometheus_handler);
}


/* one location, one answer */

char *
ngx_http_mistral_set_handler(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_handler_pt handler)
{
    ngx_http_core_loc_conf_t     *clcf;
    ngx_http_mistral_loc_conf_t  *mlcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mistral_module);

    if (clcf->handler != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" cannot be used in a location that has "
                           "another handler", &cmd->name);
        return NGX_CONF_ERROR;
    }

    mlcf->handler = handler;
    mlcf->directive = cmd->name.data;
    mlcf->file_name = cf->conf_file->file.name.data;
    mlcf->line = cf->conf_file->line;
    clcf->handler = handler;

    return NGX_CONF_OK;
}


char *
ngx_http_mistral_queue(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_loc_conf_t *mlcf = conf;

    char        *rv;
    ngx_int_t    n;
    ngx_str_t   *value;
    ngx_uint_t   i;

    if (mlcf->queue != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);

    if (n == NGX_ERROR || n > NGX_HTTP_MISTRAL_QUEUE_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid queue size \"%V\", it must be "
                           "a number from 0 to %d",
                           &value[1], NGX_HTTP_MISTRAL_QUEUE_MAX);
        return NGX_CONF_ERROR;
    }

    mlcf->queue = n;

    for (i = 2; i < cf->args->nelts; i++) {
        rv = ngx_http_mistral_queue_param(cf, &value[i], mlcf);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    if (mlcf->queue_timeout == NGX_CONF_UNSET_MSEC) {
        mlcf->queue_timeout = NGX_HTTP_MISTRAL_QUEUE_TIMEOUT;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_queue_param(ngx_conf_t *cf, ngx_str_t *value,
    ngx_http_mistral_loc_conf_t *mlcf)
{
    ngx_int_t  ms;
    ngx_str_t  s;

    if (ngx_strncmp(value->data, "timeout=", 8) == 0) {

        if (mlcf->queue_timeout != NGX_CONF_UNSET_MSEC) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\"", value);
            return NGX_CONF_ERROR;
        }

        s.data = value->data + 8;
        s.len = value->len - 8;

        ms = ngx_parse_time(&s, 0);

        if (ms == NGX_ERROR || ms == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\" in \"mistral_queue\" "
                               "directive, it must be a time", value);
            return NGX_CONF_ERROR;
        }

        mlcf->queue_timeout = ms;

        return NGX_CONF_OK;
    }

    if (ngx_strncmp(value->data, "tokens=", 7) == 0) {

        if (mlcf->queue_tokens != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\"", value);
            return NGX_CONF_ERROR;
        }

        mlcf->queue_tokens = ngx_http_mistral_tokens_number(value->data + 7,
                                                            value->len - 7);

        if (mlcf->queue_tokens == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\" in \"mistral_queue\" "
                               "directive, it must be a number of tokens",
                               value);
            return NGX_CONF_ERROR;
        }

        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" in \"mistral_queue\" "
                       "directive, it must be \"tokens=\" or \"timeout=\"",
                       value);

    return NGX_CONF_ERROR;
}


uint64_t
ngx_http_mistral_tokens_number(u_char *data, size_t len)
{
    uint64_t   unit;
    ngx_int_t  n;

    unit = 1;

    if (len && (data[len - 1] == 'k' || data[len - 1] == 'K')) {
        unit = 1000;
        len--;

    } else if (len && (data[len - 1] == 'm' || data[len - 1] == 'M')) {
        unit = 1000000;
        len--;
    }

    n = ngx_atoi(data, len);

    return (n < 1 || n > NGX_HTTP_MISTRAL_TOKENS_MAX) ? 0 : n * unit;
}


ngx_uint_t
ngx_http_mistral_model_has_name(ngx_http_mistral_model_t *m, ngx_str_t *name)
{
    ngx_str_t   *alias;
    ngx_uint_t   i;

    if (m->name.len == name->len
        && ngx_memcmp(m->name.data, name->data, name->len) == 0)
    {
        return 1;
    }

    alias = m->aliases.elts;

    for (i = 0; i < m->aliases.nelts; i++) {
        if (alias[i].len == name->len
            && ngx_memcmp(alias[i].data, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* the configuration sees to it that a name is one model's only */

ngx_http_mistral_model_t *
ngx_http_mistral_find_model(ngx_http_mistral_main_conf_t *mmcf,
    ngx_str_t *name)
{
    ngx_uint_t                  i;
    ngx_http_mistral_model_t  **models;

    models = mmcf->models.elts;

    for (i = 0; i < mmcf->models.nelts; i++) {
        if (ngx_http_mistral_model_has_name(models[i], name)) {
            return models[i];
        }
    }

    return NULL;
}
