
/*
 * What computes a model and how its numbers are kept: the lines device,
 * dtype, kv_cache, weight_layouts, batch_invariant, tuning_cache and
 * thermal_limit of a mistral_model block, and the library that a CUDA device
 * needs.  Master,
 * configuration phase.
 *
 * The master opens libmst_cuda.so for the engine and maps nothing of it: a
 * driver's fault cannot reach a worker.  Whether there is a device is the
 * engine's to find out; a device node that is missing is said here.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"


#define NGX_HTTP_MISTRAL_THREADS_MAX  64
#define NGX_HTTP_MISTRAL_KV_MIN       (1024 * 1024)
#define NGX_HTTP_MISTRAL_LIBRARY      "/libmst_cuda.so"
#define NGX_HTTP_MISTRAL_NODE         "/dev/nvidiactl"

/* what a value must be */
#define NGX_HTTP_MISTRAL_DEVICES      "\"auto\", \"cpu\", \"cuda\" or " \
                                      "\"cuda:N\""
#define NGX_HTTP_MISTRAL_KV_SIZE      "\"size=\" with 1m or more, or with " \
                                      "1% to 100% of what there is"

/* who takes a value */
#define NGX_HTTP_MISTRAL_ON_CPU       1
#define NGX_HTTP_MISTRAL_ON_CUDA      2
#define NGX_HTTP_MISTRAL_ON_ALL       3


typedef struct {
    const char  *name;             /* NULL ends a table */
    ngx_uint_t   on;               /* bits; 0 = nothing of this build */
} ngx_http_mistral_kind_t;


static char *ngx_http_mistral_device_device(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
static char *ngx_http_mistral_device_cpu(ngx_conf_t *cf, ngx_str_t *s,
    mst_setup_t *setup);
static char *ngx_http_mistral_device_dtype(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
static void ngx_http_mistral_device_memory(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
static char *ngx_http_mistral_device_kv_cache(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
static char *ngx_http_mistral_device_size(ngx_conf_t *cf, mst_setup_t *setup);
static char *ngx_http_mistral_device_layouts(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
static char *ngx_http_mistral_device_invariant(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
static char *ngx_http_mistral_device_tuned(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
static char *ngx_http_mistral_device_thermal(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
static char *ngx_http_mistral_device_kind(ngx_conf_t *cf,
    const ngx_http_mistral_kind_t *kinds, ngx_uint_t *i);
static ngx_uint_t ngx_http_mistral_device_cuda(mst_setup_t *setup);
static ngx_int_t ngx_http_mistral_device_open(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, const char *path);


static const struct {
    const char   *name;
    char       *(*set)(ngx_conf_t *cf, ngx_http_mistral_model_t *m);
} ngx_http_mistral_device_lines[] = {
    { "device", ngx_http_mistral_device_device },
    { "dtype", ngx_http_mistral_device_dtype },
    { "kv_cache", ngx_http_mistral_device_kv_cache },
    { "weight_layouts", ngx_http_mistral_device_layouts },
    { "batch_invariant", ngx_http_mistral_device_invariant },
    { "tuning_cache", ngx_http_mistral_device_tuned },
    { "thermal_limit", ngx_http_mistral_device_thermal }
};


static const ngx_http_mistral_kind_t  ngx_http_mistral_dtypes[] = {
    { "auto", NGX_HTTP_MISTRAL_ON_ALL },
    { "bf16", NGX_HTTP_MISTRAL_ON_CUDA },
    { "fp8", NGX_HTTP_MISTRAL_ON_CUDA },
    { "f32", 0 },
    { "f16", 0 },
    { "fp16", 0 },
    { "int8", 0 },
    { "int4", NGX_HTTP_MISTRAL_ON_CUDA },
    { "fp4", 0 },
    { NULL, 0 }
};


/* in the order of mst_kv_type_t */

static const ngx_http_mistral_kind_t  ngx_http_mistral_kvs[] = {
    { "f32", NGX_HTTP_MISTRAL_ON_CPU },
    { "f16", NGX_HTTP_MISTRAL_ON_CPU },
    { "bf16", NGX_HTTP_MISTRAL_ON_CUDA },
    { "fp8", NGX_HTTP_MISTRAL_ON_CUDA },
    { "q8", NGX_HTTP_MISTRAL_ON_CPU },
    { "int4", 0 },
    { "auto", NGX_HTTP_MISTRAL_ON_ALL },
    { NULL, 0 }
};


char *
ngx_http_mistral_device_line(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    ngx_str_t   *value;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = 0; i < sizeof(ngx_http_mistral_device_lines)
                    / sizeof(ngx_http_mistral_device_lines[0]); i++)
    {
        if (ngx_strcmp(value[0].data, ngx_http_mistral_device_lines[i].name)
            == 0)
        {
            return ngx_http_mistral_device_lines[i].set(cf, m);
        }
    }

    return NGX_CONF_ERROR;
}


/* auto | cpu [threads=N] [activations=16|22] | cuda[:N] */

static char *
ngx_http_mistral_device_device(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    ngx_str_t    *value, s;
    ngx_uint_t    i;
    mst_setup_t  *setup;

    value = cf->args->elts;
    setup = m->setup;
    s = value[1];

    if (ngx_strncmp(s.data, "cuda:", 5) == 0) {

        if (ngx_strlchr(s.data, s.data + s.len, ',') != NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "device \"%V\": one model on several devices "
                               "is not supported by this build", &s);
            return NGX_CONF_ERROR;
        }

        if (s.len < 6 || s.len > 8 || ngx_atoi(s.data + 5, s.len - 5) < 0) {
            return ngx_http_mistral_model_invalid(cf, &s,
                                                  NGX_HTTP_MISTRAL_DEVICES);
        }

    } else if (ngx_strcmp(s.data, "cuda") == 0) {
        ngx_str_set(&s, "cuda:0");

    } else if (ngx_strcmp(s.data, "auto") != 0
               && ngx_strcmp(s.data, "cpu") != 0)
    {
        return ngx_http_mistral_model_invalid(cf, &s,
                                              NGX_HTTP_MISTRAL_DEVICES);
    }

    ngx_memcpy(setup->device, s.data, s.len + 1);

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strcmp(s.data, "cpu") != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        if (ngx_http_mistral_device_cpu(cf, &value[i], setup)
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_device_cpu(ngx_conf_t *cf, ngx_str_t *s, mst_setup_t *setup)
{
    ngx_str_t  v;

    if (ngx_strncmp(s->data, "threads=", 8) == 0 && setup->threads == 0) {
        v.data = s->data + 8;
        v.len = s->len - 8;

        return ngx_http_mistral_model_number(cf, &v,
                                             NGX_HTTP_MISTRAL_THREADS_MAX,
                                             &setup->threads);
    }

    if (ngx_strcmp(s->data, "activations=16") == 0
        && setup->activations == 0)
    {
        setup->activations = 16;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(s->data, "activations=22") == 0
        && setup->activations == 0)
    {
        setup->activations = 22;
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"", s);

    return NGX_CONF_ERROR;
}


static char *
ngx_http_mistral_device_dtype(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    char        *rv;
    ngx_uint_t   i;

    rv = ngx_http_mistral_device_kind(cf, ngx_http_mistral_dtypes, &i);

    if (rv == NGX_CONF_OK) {
        ngx_cpystrn((u_char *) m->setup->dtype,
                    (u_char *) ngx_http_mistral_dtypes[i].name,
                    sizeof(m->setup->dtype));
    }

    return rv;
}


static char *
ngx_http_mistral_device_kv_cache(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    char        *rv;
    ngx_uint_t   i;

    rv = ngx_http_mistral_device_kind(cf, ngx_http_mistral_kvs, &i);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (ngx_strcmp(ngx_http_mistral_kvs[i].name, "auto") != 0) {
        m->setup->kv_type = i;
    }

    return cf->args->nelts == 2 ? NGX_CONF_OK
           : ngx_http_mistral_device_size(cf, m->setup);
}


/* size=BYTES or size=N% */

static char *
ngx_http_mistral_device_size(ngx_conf_t *cf, mst_setup_t *setup)
{
    off_t       size;
    ngx_str_t  *value, s;
    ngx_int_t   percent;

    value = cf->args->elts;

    if (ngx_strncmp(value[2].data, "size=", 5) != 0 || value[2].len == 5) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"",
                           &value[2]);
        return NGX_CONF_ERROR;
    }

    s.data = value[2].data + 5;
    s.len = value[2].len - 5;

    if (s.data[s.len - 1] == '%') {
        percent = ngx_atoi(s.data, s.len - 1);

        if (percent < 1 || percent > 100) {
            return ngx_http_mistral_model_invalid(cf, &value[2],
                                                  NGX_HTTP_MISTRAL_KV_SIZE);
        }

        setup->kv_percent = percent;

        return NGX_CONF_OK;
    }

    size = ngx_parse_offset(&s);

    if (size < NGX_HTTP_MISTRAL_KV_MIN) {
        return ngx_http_mistral_model_invalid(cf, &value[2],
                                              NGX_HTTP_MISTRAL_KV_SIZE);
    }

    setup->kv_size = size;
    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_device_layouts(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "auto") == 0) {
        return NGX_CONF_OK;
    }

    return ngx_http_mistral_model_number(cf, &value[1], 2,
                                         &m->setup->weight_layouts);
}


static char *
ngx_http_mistral_device_invariant(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "on") == 0) {
        m->setup->batch_invariant = 1;

    } else if (ngx_strcmp(value[1].data, "off") != 0) {
        return ngx_http_mistral_model_invalid(cf, &value[1],
                                              "\"on\" or \"off\"");
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_device_tuned(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    ngx_str_t  *value, path;

    value = cf->args->elts;
    path = value[1];

    if (ngx_strcmp(path.data, "off") == 0) {
        return NGX_CONF_OK;
    }

    if (path.len == 0) {
        return ngx_http_mistral_model_invalid(cf, &path,
                                              "a directory or \"off\"");
    }

    if (ngx_conf_full_name(cf->cycle, &path, 0) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (path.len >= MST_SETUP_PATH) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "tuning_cache is longer than %d bytes",
                           MST_SETUP_PATH - 1);
        return NGX_CONF_ERROR;
    }

    ngx_memcpy(m->setup->tuned, path.data, path.len);

    return NGX_CONF_OK;
}


/* a directory that the engine's user cannot write to is no error */

void
ngx_http_mistral_device_tuning(ngx_cycle_t *cycle, ngx_http_mistral_model_t *m)
{
    char        *dir;
    ngx_err_t    err;
    ngx_int_t    rc;
    const char  *user;

    dir = m->setup->tuned;

    if (dir[0] == '\0') {
        return;
    }

    rc = ngx_http_mistral_dir(cycle, dir, &user);

    if (rc == NGX_OK && user == NULL) {
        return;
    }

    err = rc == NGX_ERROR ? ngx_errno : 0;

    /* the parser's log: "nginx -t" shows it at any level of error_log */

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, err,
                  "tuning_cache \"%s\" of mistral_model \"%V\" %s%s%s, so "
                  "that each start measures", dir, &m->name,
                  rc == NGX_ERROR ? "cannot be created"
                  : rc == NGX_DECLINED ? "is no directory"
                  : "is not writable by user \"",
                  user ? user : "", user ? "\"" : "");
}


/* no part of what the engine is started with */

static char *
ngx_http_mistral_device_thermal(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    char       *rv;
    uint32_t    n;
    ngx_str_t  *value;

    value = cf->args->elts;
    n = 0;

    rv = ngx_http_mistral_model_number(cf, &value[1],
                                       NGX_HTTP_MISTRAL_CELSIUS, &n);
    m->thermal_limit = n;

    return rv;
}


static char *
ngx_http_mistral_device_kind(ngx_conf_t *cf,
    const ngx_http_mistral_kind_t *kinds, ngx_uint_t *i)
{
    u_char      *p, must[128];
    ngx_str_t   *value;
    const char  *mark;

    value = cf->args->elts;
    p = must;
    mark = "";

    for (*i = 0; kinds[*i].name != NULL; (*i)++) {

        if (ngx_strcmp(value[1].data, kinds[*i].name) != 0) {
            continue;
        }

        if (kinds[*i].on) {
            return NGX_CONF_OK;
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V %V\" is not supported by this build",
                           &value[0], &value[1]);
        return NGX_CONF_ERROR;
    }

    for (*i = 0; kinds[*i].name != NULL; (*i)++) {
        if (kinds[*i].on) {
            p = ngx_slprintf(p, must + sizeof(must) - 1, "%s%s", mark,
                             kinds[*i].name);
            mark = " | ";
        }
    }

    if (ngx_strncmp(value[1].data, "size=", 5) == 0) {
        p = ngx_slprintf(p, must + sizeof(must) - 1,
                         ", and \"size=\" after it");
    }

    *p = '\0';

    return ngx_http_mistral_model_invalid(cf, &value[1], (char *) must);
}


static ngx_uint_t
ngx_http_mistral_device_cuda(mst_setup_t *setup)
{
    return ngx_strncmp(setup->device, "cuda:", 5) == 0;
}


/* it is touched only when it is used: what is too much shows late */

static void
ngx_http_mistral_device_memory(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    uint64_t  memory;

    memory = (uint64_t) sysconf(_SC_PHYS_PAGES) * ngx_pagesize;

    if (m->setup->kv_size > memory) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "the kv_cache of mistral_model \"%V\" may take %uL "
                           "MiB, this machine has %uL MiB of memory",
                           &m->name, m->setup->kv_size / (1024 * 1024),
                           memory / (1024 * 1024));
    }
}


/* "auto" may end on the CPU: what CUDA alone has needs to be asked for */

ngx_int_t
ngx_http_mistral_device_check(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    ngx_uint_t    i, on;
    const char   *line, *kind;
    mst_setup_t  *setup;

    setup = m->setup;
    line = NULL;
    kind = "";

    on = ngx_http_mistral_device_cuda(setup) ? NGX_HTTP_MISTRAL_ON_CUDA
                                             : NGX_HTTP_MISTRAL_ON_CPU;

    for (i = 0; ngx_http_mistral_dtypes[i].name != NULL; i++) {
        if (ngx_strcmp(setup->dtype, ngx_http_mistral_dtypes[i].name) == 0
            && !(ngx_http_mistral_dtypes[i].on & on))
        {
            line = "dtype";
            kind = ngx_http_mistral_dtypes[i].name;
        }
    }

    if (setup->kv_type != NGX_HTTP_MISTRAL_KV_AUTO
        && !(ngx_http_mistral_kvs[setup->kv_type].on & on))
    {
        line = "kv_cache";
        kind = ngx_http_mistral_kvs[setup->kv_type].name;
    }

    if (setup->weight_layouts && on != NGX_HTTP_MISTRAL_ON_CUDA) {
        line = "weight_layouts";
        kind = (setup->weight_layouts == 1) ? "1" : "2";
    }

    if (setup->tuned[0] && on != NGX_HTTP_MISTRAL_ON_CUDA) {
        line = "tuning_cache";
        kind = setup->tuned;
    }

    if (line == NULL) {
        if (on == NGX_HTTP_MISTRAL_ON_CPU) {
            ngx_http_mistral_device_memory(cf, m);
        }

        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%s %s\" of mistral_model \"%V\" is not for device "
                       "\"%s\"%s", line, kind, &m->name, setup->device,
                       on == NGX_HTTP_MISTRAL_ON_CUDA
                       ? "" : ", it needs \"device cuda:N\"");

    return NGX_ERROR;
}


ngx_int_t
ngx_http_mistral_device_library(ngx_conf_t *cf,
    ngx_http_mistral_main_conf_t *mmcf)
{
    char                       *slash, path[MST_SETUP_PATH
                                            + sizeof(NGX_HTTP_MISTRAL_LIBRARY)];
    ngx_uint_t                  i;
    ngx_http_mistral_model_t  **models;

    models = mmcf->models.elts;

    ngx_cpystrn((u_char *) path, mmcf->program.data, mmcf->program.len + 1);
    slash = strrchr(path, '/');

    if (slash == NULL) {
        return NGX_OK;
    }

    ngx_memcpy(slash, NGX_HTTP_MISTRAL_LIBRARY,
               sizeof(NGX_HTTP_MISTRAL_LIBRARY));

    for (i = 0; i < mmcf->models.nelts; i++) {

        if (models[i]->setup->null
            || ngx_strcmp(models[i]->setup->device, "cpu") == 0)
        {
            continue;
        }

        if (ngx_http_mistral_device_open(cf, models[i], path) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_device_open(ngx_conf_t *cf, ngx_http_mistral_model_t *m,
    const char *path)
{
    int           fd;
    time_t        created;
    ngx_uint_t    cuda;
    mst_setup_t  *setup;

    setup = m->setup;
    cuda = ngx_http_mistral_device_cuda(setup);

    fd = open(path, O_RDONLY|O_CLOEXEC|O_NONBLOCK);

    if (fd == -1 && !cuda) {
        return NGX_OK;
    }

    if (fd == -1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "device \"%s\" of mistral_model \"%V\" needs "
                           "\"%s\", which \"make cuda\" builds",
                           setup->device, &m->name, path);
        return NGX_ERROR;
    }

    if (setup->n_files == MST_SETUP_FILES) {
        (void) close(fd);

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "mistral_model \"%V\" has %d files, and \"%s\" is "
                           "one too many", &m->name, MST_SETUP_FILES, path);
        return NGX_ERROR;
    }

    if (cuda && access(NGX_HTTP_MISTRAL_NODE, F_OK) == -1) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, ngx_errno,
                           "device \"%s\" of mistral_model \"%V\": "
                           "there is no \"" NGX_HTTP_MISTRAL_NODE "\", and "
                           "no answer before there is a driver",
                           setup->device, &m->name);
    }

    /* the model is as old as its files, whoever computes it */

    created = m->created;
    m->files[setup->n_files] = fd;

    if (ngx_http_mistral_load_identity(cf, m, fd, path) != NGX_OK) {
        return NGX_ERROR;
    }

    m->created = created;
    setup->library = 1;

    return NGX_OK;
}
