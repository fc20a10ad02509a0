
/*
 * Opens what a mistral_model block names: the master opens the files, reads
 * vocabulary and template, and keeps the descriptors until the engine has
 * them.  Here: the null model, and what is common; load_model.c has those of
 * files.  Configuration phase; everything belongs to the cycle's pool.
 *
 * The files are opened here and nowhere else, as the master's user: engine
 * and workers need no permission on the path.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"


#define NGX_HTTP_MISTRAL_NULL_CONTEXT  32768
#define NGX_HTTP_MISTRAL_NULL_DELAY    3600000
#define NGX_HTTP_MISTRAL_NULL_RATE     1e9


static void ngx_http_mistral_model_cleanup(void *data);
static ngx_int_t ngx_http_mistral_load_null(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
static ngx_int_t ngx_http_mistral_load_null_param(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, ngx_str_t *param);
static ngx_int_t ngx_http_mistral_load_null_twice(ngx_conf_t *cf,
    u_char *start, ngx_str_t *param);
static ngx_int_t ngx_http_mistral_load_size(ngx_http_mistral_model_t *m,
    mst_err_t *err);
static ngx_int_t ngx_http_mistral_load_null_text(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, ngx_str_t *file);
static ngx_int_t ngx_http_mistral_load_open(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, const char *path);


ngx_http_mistral_model_t *
ngx_http_mistral_model_create(ngx_conf_t *cf, ngx_str_t *name)
{
    ngx_uint_t                 i;
    ngx_pool_cleanup_t        *cln;
    ngx_http_mistral_model_t  *m;

    m = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_model_t));
    if (m == NULL) {
        return NULL;
    }

    /* zeroed to the last byte of padding, since its bytes are hashed */

    m->setup = ngx_pcalloc(cf->pool, sizeof(mst_setup_t));
    m->files = ngx_palloc(cf->pool, MST_SETUP_FILES * sizeof(int));

    if (m->setup == NULL || m->files == NULL
        || ngx_array_init(&m->aliases, cf->pool, 2, sizeof(ngx_str_t))
           != NGX_OK)
    {
        return NULL;
    }

    for (i = 0; i < MST_SETUP_FILES; i++) {
        m->files[i] = -1;
    }

    m->name = *name;
    ngx_memcpy(m->setup->name, name->data, name->len);
    ngx_memcpy(m->setup->device, "auto", sizeof("auto"));
    ngx_memcpy(m->setup->dtype, "auto", sizeof("auto"));
    m->setup->kv_type = NGX_HTTP_MISTRAL_KV_AUTO;

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_http_mistral_model_cleanup;
    cln->data = m;

    return m;
}


static void
ngx_http_mistral_model_cleanup(void *data)
{
    ngx_http_mistral_model_t *m = data;

    ngx_http_mistral_model_close_files(m);
    mst_template_destroy(m->template);
    mst_tokenizer_destroy(m->tokenizer);
}


void
ngx_http_mistral_model_close_files(ngx_http_mistral_model_t *m)
{
    ngx_uint_t  i;

    for (i = 0; i < MST_SETUP_FILES; i++) {
        if (m->files[i] != -1) {
            (void) close(m->files[i]);
            m->files[i] = -1;
        }
    }
}


ngx_int_t
ngx_http_mistral_model_load(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    ngx_int_t  rc;

    if (ngx_strncmp(m->setup->path, "null:", 5) == 0) {

        if (m->setup->tune.rope || m->setup->tune.experts) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%s\" is nothing that the null model has",
                               m->setup->tune.rope ? "rope_scaling"
                               : "experts_per_token");
            return NGX_ERROR;
        }

        rc = ngx_http_mistral_load_null(cf, m);

    } else {
        rc = ngx_http_mistral_load_model(cf, m);
    }

    if (rc == NGX_OK && m->tokenizer) {
        ngx_http_mistral_template_marks(m);
    }

    return rc;
}


/* null:rate=N,delay=MS,len=L,text=FILE,tokenizer=PATH,celsius=N, all
   optional */

static ngx_int_t
ngx_http_mistral_load_null(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    u_char     *p, *end, *last, *start;
    mst_err_t   err;
    ngx_int_t   rc;
    ngx_str_t   param;

    m->setup->null = 1;

    start = (u_char *) m->setup->path + sizeof("null:") - 1;
    p = start;
    last = p + ngx_strlen(p);

    while (p < last) {
        end = ngx_strlchr(p, last, ',');
        if (end == NULL) {
            end = last;
        }

        param.data = p;
        param.len = end - p;

        /* "a,,b" and "a," have an empty parameter */

        if (param.len == 0 || end + 1 == last) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "empty parameter in path \"%s\"",
                               m->setup->path);
            return NGX_ERROR;
        }

        if (ngx_http_mistral_load_null_twice(cf, start, &param) != NGX_OK
            || ngx_http_mistral_load_null_param(cf, m, &param) != NGX_OK)
        {
            return NGX_ERROR;
        }

        p = end + 1;
    }

    if (m->setup->context == 0) {
        m->setup->context = NGX_HTTP_MISTRAL_NULL_CONTEXT;
    }

    m->context = m->setup->context;

    err.text[0] = '\0';

    if (m->tokenizer) {
        rc = ngx_http_mistral_load_script(m, &err);

    } else if (m->chat.data) {
        rc = mst_err_set(&err, "\"chat_template\" needs \"tokenizer=\" in "
                         "the path of the null model");

    } else if (m->setup->n_files && ngx_http_mistral_load_size(m, &err)
                                    != NGX_OK)
    {
        rc = NGX_ERROR;

    } else {
        m->tokenizer = mst_tokenizer_create_bytes(&err);
        m->template = mst_template_create_plain(&err);

        rc = m->tokenizer && m->template ? NGX_OK : NGX_ERROR;
    }

    if (rc != NGX_OK) {
        return ngx_http_mistral_load_failed(cf, m, &err);
    }

    return NGX_OK;
}


/* what the engine would not take: a file of /proc says that it has none */

static ngx_int_t
ngx_http_mistral_load_size(ngx_http_mistral_model_t *m, mst_err_t *err)
{
    uint64_t  size;

    size = m->setup->files[0].size;

    if (size > 0 && size <= MST_SETUP_TEXT) {
        return NGX_OK;
    }

    return mst_err_set(err, "the text of the null model has %llu bytes, must "
                       "be 1 .. %d", (unsigned long long) size,
                       MST_SETUP_TEXT);
}


/* "start": the first parameter; those before "param" were looked at */

static ngx_int_t
ngx_http_mistral_load_null_twice(ngx_conf_t *cf, u_char *start,
    ngx_str_t *param)
{
    size_t   len;
    u_char  *p, *eq;

    eq = ngx_strlchr(param->data, param->data + param->len, '=');
    if (eq == NULL) {
        return NGX_OK;
    }

    len = eq + 1 - param->data;

    for (p = start; p < param->data; p = ngx_strlchr(p, param->data, ',') + 1) {

        if (ngx_strncmp(p, param->data, len) == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\" in path", param);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_load_null_param(ngx_conf_t *cf, ngx_http_mistral_model_t *m,
    ngx_str_t *param)
{
    ngx_int_t  n;
    ngx_str_t  s;

    if (param->len > 5 && ngx_strncmp(param->data, "rate=", 5) == 0) {
        s.data = param->data + 5;
        s.len = param->len - 5;

        if (ngx_http_mistral_load_rate(&s, &m->setup->null_rate) == NGX_OK) {
            return NGX_OK;
        }

    } else if (param->len > 6 && ngx_strncmp(param->data, "delay=", 6) == 0) {
        n = ngx_atoi(param->data + 6, param->len - 6);

        if (n >= 0 && n <= NGX_HTTP_MISTRAL_NULL_DELAY) {
            m->setup->null_delay_ns = (uint64_t) n * 1000000;
            return NGX_OK;
        }

    } else if (param->len > 4 && ngx_strncmp(param->data, "len=", 4) == 0) {
        n = ngx_atoi(param->data + 4, param->len - 4);

        if (n >= 0 && n <= NGX_MAX_INT32_VALUE) {
            m->setup->null_len = n;
            return NGX_OK;
        }

    } else if (param->len > 8 && ngx_strncmp(param->data, "celsius=", 8) == 0) {
        n = ngx_atoi(param->data + 8, param->len - 8);

        if (n >= 0 && n <= NGX_HTTP_MISTRAL_CELSIUS) {
            m->setup->null_celsius = n;
            return NGX_OK;
        }

    } else if (param->len > 5 && ngx_strncmp(param->data, "text=", 5) == 0) {
        s.data = param->data + 5;
        s.len = param->len - 5;

        return ngx_http_mistral_load_null_text(cf, m, &s);

    } else if (param->len > 10
               && ngx_strncmp(param->data, "tokenizer=", 10) == 0)
    {
        s.data = param->data + 10;
        s.len = param->len - 10;

        return ngx_http_mistral_load_script_vocab(cf, m, &s);
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" in path \"%s\"",
                       param, m->setup->path);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_mistral_load_null_text(ngx_conf_t *cf, ngx_http_mistral_model_t *m,
    ngx_str_t *file)
{
    ngx_str_t  name;

    name.len = file->len;
    name.data = ngx_pnalloc(cf->pool, file->len + 1);
    if (name.data == NULL) {
        return NGX_ERROR;
    }

    ngx_cpystrn(name.data, file->data, file->len + 1);

    if (ngx_conf_full_name(cf->cycle, &name, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mistral_load_open(cf, m, (char *) name.data);
}


/* digits with at most one point: strtod() alone would take "inf" and "0x1" */

ngx_int_t
ngx_http_mistral_load_rate(ngx_str_t *s, double *rate)
{
    size_t      i;
    double      value, scale;
    ngx_uint_t  digits, point;

    value = 0;
    scale = 1;
    digits = 0;
    point = 0;

    for (i = 0; i < s->len; i++) {

        if (s->data[i] == '.' && !point) {
            point = 1;
            continue;
        }

        if (s->data[i] < '0' || s->data[i] > '9' || ++digits > 15) {
            return NGX_ERROR;
        }

        value = value * 10 + (s->data[i] - '0');

        if (point) {
            scale *= 10;
        }
    }

    value /= scale;

    if (digits == 0 || value > NGX_HTTP_MISTRAL_NULL_RATE) {
        return NGX_ERROR;
    }

    *rate = value;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_load_open(ngx_conf_t *cf, ngx_http_mistral_model_t *m,
    const char *path)
{
    int              fd;
    ngx_file_info_t  fi;

    if (m->setup->n_files == 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate file \"%s\" in mistral_model \"%V\"",
                           path, &m->name);
        return NGX_ERROR;
    }

    /* O_NONBLOCK: a named pipe must not stop "nginx -t" */

    fd = open(path, O_RDONLY|O_CLOEXEC|O_NONBLOCK);

    if (fd == -1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "cannot open \"%s\" of mistral_model \"%V\"",
                           path, &m->name);
        return NGX_ERROR;
    }

    m->files[0] = fd;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_fd_info_n " \"%s\" failed", path);
        return NGX_ERROR;
    }

    if (!ngx_is_file(&fi)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%s\" of mistral_model \"%V\" is %s",
                           path, &m->name, ngx_is_dir(&fi) ? "a directory"
                           : "not a regular file");
        return NGX_ERROR;
    }

    return ngx_http_mistral_load_identity(cf, m, fd, path);
}


ngx_int_t
ngx_http_mistral_load_identity(ngx_conf_t *cf, ngx_http_mistral_model_t *m,
    int fd, const char *path)
{
    mst_setup_file_t  *file;
    ngx_file_info_t    fi;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_fd_info_n " of \"%s\" failed", path);
        return NGX_ERROR;
    }

    file = &m->setup->files[m->setup->n_files++];

    file->dev = fi.st_dev;
    file->ino = fi.st_ino;
    file->size = fi.st_size;
    file->mtime_ns = (uint64_t) fi.st_mtim.tv_sec * 1000000000
                     + fi.st_mtim.tv_nsec;

    m->created = ngx_max(m->created, fi.st_mtime);

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_load_failed(ngx_conf_t *cf, ngx_http_mistral_model_t *m,
    mst_err_t *err)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "mistral_model \"%V\": %s",
                       &m->name, err->text[0] ? err->text : "no memory");

    return NGX_ERROR;
}
