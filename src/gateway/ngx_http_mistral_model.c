
/*
 * The mistral_model block: its lines to a mst_setup_t.  Master, configuration
 * phase.  What the lines name is opened in ngx_http_mistral_load.c, uid, gid
 * and the hash follow in ngx_http_mistral_engine.c, because "user" may stand
 * behind the http block.
 *
 * A value that another build may run is refused with a sentence of its own,
 * so that nobody hunts for a spelling mistake.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"

#include <ctype.h>


#define NGX_HTTP_MISTRAL_NAME_MAX      255
#define NGX_HTTP_MISTRAL_CONTEXT_MAX   1048576
#define NGX_HTTP_MISTRAL_BATCH_MAX     16384
#define NGX_HTTP_MISTRAL_CHUNK_MAX     65536
#define NGX_HTTP_MISTRAL_EXPERTS_MAX   64

#define NGX_HTTP_MISTRAL_TIMEOUT       10000


typedef struct {
    ngx_http_mistral_model_t      *model;
    ngx_http_mistral_main_conf_t  *mmcf;
    uint32_t                       seen;       /* bit per parameter */
} ngx_http_mistral_block_t;


typedef struct {
    ngx_str_t     name;
    ngx_uint_t    min;                         /* values */
    ngx_uint_t    max;
    char       *(*set)(ngx_conf_t *cf, ngx_http_mistral_block_t *b);
} ngx_http_mistral_param_t;


static char *ngx_http_mistral_model_line(ngx_conf_t *cf,
    ngx_command_t *dummy, void *conf);
static char *ngx_http_mistral_model_path(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_device(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_context(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_max_batch(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_prefill_chunk(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_alias(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_reload(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_engine_timeout(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_rope_scaling(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_experts(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_chat_template(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b);
static char *ngx_http_mistral_model_auto(ngx_conf_t *cf, uint32_t max,
    uint32_t *number);
static ngx_int_t ngx_http_mistral_model_name_ok(ngx_conf_t *cf,
    ngx_str_t *name, size_t max, const char *others);


static ngx_http_mistral_param_t  ngx_http_mistral_params[] = {

    { ngx_string("path"), 1, 1,
      ngx_http_mistral_model_path },

    { ngx_string("device"), 1, 3,
      ngx_http_mistral_model_device },

    { ngx_string("dtype"), 1, 1,
      ngx_http_mistral_model_device },

    { ngx_string("kv_cache"), 1, 2,
      ngx_http_mistral_model_device },

    { ngx_string("weight_layouts"), 1, 1,
      ngx_http_mistral_model_device },

    { ngx_string("batch_invariant"), 1, 1,
      ngx_http_mistral_model_device },

    { ngx_string("tuning_cache"), 1, 1,
      ngx_http_mistral_model_device },

    { ngx_string("thermal_limit"), 1, 1,
      ngx_http_mistral_model_device },

    { ngx_string("context"), 1, 1,
      ngx_http_mistral_model_context },

    { ngx_string("max_batch"), 1, 1,
      ngx_http_mistral_model_max_batch },

    { ngx_string("prefill_chunk"), 1, 1,
      ngx_http_mistral_model_prefill_chunk },

    { ngx_string("alias"), 1, 64,
      ngx_http_mistral_model_alias },

    { ngx_string("reload"), 1, 1,
      ngx_http_mistral_model_reload },

    { ngx_string("engine_timeout"), 1, 1,
      ngx_http_mistral_model_engine_timeout },

    { ngx_string("rope_scaling"), 2, 8,
      ngx_http_mistral_model_rope_scaling },

    { ngx_string("experts_per_token"), 1, 1,
      ngx_http_mistral_model_experts },

    { ngx_string("chat_template"), 1, 1,
      ngx_http_mistral_model_chat_template },

    { ngx_null_string, 0, 0, NULL }
};


char *
ngx_http_mistral_model_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_main_conf_t *mmcf = conf;

    char                       *rv;
    ngx_str_t                  *value;
    ngx_conf_t                  save;
    ngx_http_mistral_block_t    b;
    ngx_http_mistral_model_t   *m, **mp;

    value = cf->args->elts;

    if (ngx_http_mistral_model_name_ok(cf, &value[1],
                                       sizeof(m->setup->name) - 1, "._-")
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mistral_find_model(mmcf, &value[1]) != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate mistral_model name \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    m = ngx_http_mistral_model_create(cf, &value[1]);
    if (m == NULL) {
        return NGX_CONF_ERROR;
    }

    m->engine_timeout = NGX_HTTP_MISTRAL_TIMEOUT;

    b.model = m;
    b.mmcf = mmcf;
    b.seen = 0;

    save = *cf;
    cf->handler = ngx_http_mistral_model_line;
    cf->handler_conf = (void *) &b;

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (m->setup->path[0] == '\0') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no \"path\" is given in mistral_model \"%V\"",
                           &m->name);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mistral_device_check(cf, m) != NGX_OK
        || ngx_http_mistral_model_load(cf, m) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    mp = ngx_array_push(&mmcf->models);
    if (mp == NULL) {
        return NGX_CONF_ERROR;
    }

    *mp = m;

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_model_line(ngx_conf_t *cf, ngx_command_t *dummy, void *conf)
{
    ngx_http_mistral_block_t *b = conf;

    ngx_str_t                 *value;
    ngx_uint_t                 i, n;
    ngx_http_mistral_param_t  *param;

    value = cf->args->elts;
    n = cf->args->nelts - 1;

    if (ngx_strcmp(value[0].data, "include") == 0 && n == 1) {
        return ngx_conf_include(cf, dummy, conf);
    }

    param = ngx_http_mistral_params;

    for (i = 0; param[i].name.len != 0; i++) {

        if (ngx_strcmp(value[0].data, param[i].name.data) != 0) {
            continue;
        }

        if (n < param[i].min || n > param[i].max) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid number of arguments in \"%V\" "
                               "directive", &value[0]);
            return NGX_CONF_ERROR;
        }

        if (b->seen & (1u << i)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" directive is duplicate", &value[0]);
            return NGX_CONF_ERROR;
        }

        b->seen |= 1u << i;

        return param[i].set(cf, b);
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "unknown directive \"%V\" in mistral_model \"%V\"",
                       &value[0], &b->model->name);

    return NGX_CONF_ERROR;
}


static char *
ngx_http_mistral_model_path(ngx_conf_t *cf, ngx_http_mistral_block_t *b)
{
    ngx_str_t  *value, path;

    value = cf->args->elts;
    path = value[1];

    if (path.len == 0) {
        return ngx_http_mistral_model_invalid(cf, &path, "a file or a "
                                              "directory");
    }

    if (ngx_strncmp(path.data, "null:", 5) != 0
        && ngx_conf_full_name(cf->cycle, &path, 0) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (path.len >= MST_SETUP_PATH) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "path is longer than %d bytes",
                           MST_SETUP_PATH - 1);
        return NGX_CONF_ERROR;
    }

    ngx_memcpy(b->model->setup->path, path.data, path.len);

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_model_chat_template(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (value[1].len == 0) {
        return ngx_http_mistral_model_invalid(cf, &value[1],
                                              "a file or \"mistral-v...\"");
    }

    return ngx_http_mistral_template_set(cf, b->model, &value[1]) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_mistral_model_device(ngx_conf_t *cf, ngx_http_mistral_block_t *b)
{
    return ngx_http_mistral_device_line(cf, b->model);
}


static char *
ngx_http_mistral_model_context(ngx_conf_t *cf, ngx_http_mistral_block_t *b)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    return ngx_http_mistral_model_number(cf, &value[1],
                                         NGX_HTTP_MISTRAL_CONTEXT_MAX,
                                         &b->model->setup->context);
}


static char *
ngx_http_mistral_model_max_batch(ngx_conf_t *cf, ngx_http_mistral_block_t *b)
{
    return ngx_http_mistral_model_auto(cf, NGX_HTTP_MISTRAL_BATCH_MAX,
                                       &b->model->setup->max_batch);
}


static char *
ngx_http_mistral_model_prefill_chunk(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b)
{
    return ngx_http_mistral_model_auto(cf, NGX_HTTP_MISTRAL_CHUNK_MAX,
                                       &b->model->setup->prefill_chunk);
}


static char *
ngx_http_mistral_model_alias(ngx_conf_t *cf, ngx_http_mistral_block_t *b)
{
    ngx_str_t                 *value, *alias;
    ngx_uint_t                 i;
    ngx_http_mistral_model_t  *other;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_http_mistral_model_name_ok(cf, &value[i],
                                           NGX_HTTP_MISTRAL_NAME_MAX,
                                           "._-/:@+")
            != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }

        other = ngx_http_mistral_find_model(b->mmcf, &value[i]);

        if (other == NULL
            && ngx_http_mistral_model_has_name(b->model, &value[i]))
        {
            other = b->model;
        }

        if (other != NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "alias \"%V\" is already a name of "
                               "mistral_model \"%V\"",
                               &value[i], &other->name);
            return NGX_CONF_ERROR;
        }

        alias = ngx_array_push(&b->model->aliases);
        if (alias == NULL) {
            return NGX_CONF_ERROR;
        }

        *alias = value[i];
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_model_reload(ngx_conf_t *cf, ngx_http_mistral_block_t *b)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "overlap") == 0) {
        b->model->reload = NGX_HTTP_MISTRAL_OVERLAP;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value[1].data, "drain") == 0) {
        b->model->reload = NGX_HTTP_MISTRAL_DRAIN;
        return NGX_CONF_OK;
    }

    return ngx_http_mistral_model_invalid(cf, &value[1],
                                          "\"overlap\" or \"drain\"");
}


static char *
ngx_http_mistral_model_engine_timeout(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b)
{
    ngx_int_t   ms;
    ngx_str_t  *value;

    value = cf->args->elts;

    ms = ngx_parse_time(&value[1], 0);

    /* an idle engine's heart beats once a second */

    if (ms == NGX_ERROR || ms < 2000) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid engine timeout \"%V\", it must be "
                           "a time of 2s or more", &value[1]);
        return NGX_CONF_ERROR;
    }

    b->model->engine_timeout = ms;

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_model_rope_scaling(ngx_conf_t *cf,
    ngx_http_mistral_block_t *b)
{
    return ngx_http_mistral_tune_rope(cf, &b->model->setup->tune);
}


static char *
ngx_http_mistral_model_experts(ngx_conf_t *cf, ngx_http_mistral_block_t *b)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    return ngx_http_mistral_model_number(cf, &value[1],
                                         NGX_HTTP_MISTRAL_EXPERTS_MAX,
                                         &b->model->setup->tune.experts);
}


/* a number, or what stands there already */

static char *
ngx_http_mistral_model_auto(ngx_conf_t *cf, uint32_t max, uint32_t *number)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "auto") == 0) {
        return NGX_CONF_OK;
    }

    return ngx_http_mistral_model_number(cf, &value[1], max, number);
}


char *
ngx_http_mistral_model_number(ngx_conf_t *cf, ngx_str_t *value,
    uint32_t max, uint32_t *number)
{
    ngx_int_t   n;
    ngx_str_t  *name;

    n = ngx_atoi(value->data, value->len);

    if (n < 1 || n > (ngx_int_t) max) {
        name = cf->args->elts;
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive, "
                           "it must be a number from 1 to %uD",
                           value, name, max);
        return NGX_CONF_ERROR;
    }

    *number = n;

    return NGX_CONF_OK;
}


/*
 * Letters, digits and a few others: names appear in JSON, in log lines, in a
 * header and in metrics, and none of these has to escape them.
 */

static ngx_int_t
ngx_http_mistral_model_name_ok(ngx_conf_t *cf, ngx_str_t *name, size_t max,
    const char *others)
{
    size_t  i;
    u_char  c;

    if (name->len > max) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "model name \"%V\" is longer than %uz bytes",
                           name, max);
        return NGX_ERROR;
    }

    for (i = 0; i < name->len; i++) {
        c = name->data[i];

        if (!isascii(c) || (!isalnum(c) && strchr(others, c) == NULL)
            || c == '\0')
        {
            break;
        }
    }

    if (name->len == 0 || i < name->len) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid model name \"%V\", it must be of letters, "
                           "digits and \"%s\"", name, others);
        return NGX_ERROR;
    }

    return NGX_OK;
}


char *
ngx_http_mistral_model_invalid(ngx_conf_t *cf, ngx_str_t *value,
    const char *must)
{
    ngx_str_t  *name;

    name = cf->args->elts;

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" in \"%V\" directive, it must "
                       "be %s", value, name, must);

    return NGX_CONF_ERROR;
}
