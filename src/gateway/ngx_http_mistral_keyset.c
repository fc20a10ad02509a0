
/*
 * Files of keys.  The master reads them in the configuration phase: a file
 * that only root may read works, and "nginx -t" finds what is wrong with it.
 *
 * A worker looks, at most once a second and only when it is asked for a
 * key, whether the file (where a link leads to, as Kubernetes swaps it) is
 * still the one that was read, and reads it again.  What it may not read or
 * not understand it says once, and goes on with what it has.
 */

#include "gateway/ngx_http_mistral_auth.h"

#include <sys/random.h>


#define NGX_HTTP_MISTRAL_KEYSET_MAX     (64 * 1024 * 1024)

/* each worker, each file: tokens that were verified */
#define NGX_HTTP_MISTRAL_KEYSET_TOKENS  4096
#define NGX_HTTP_MISTRAL_KEYSET_BYTES   (8 * 1024 * 1024)

/* two changes within one tick of a file system's clock look like one */
#define NGX_HTTP_MISTRAL_KEYSET_RECENT  2


typedef struct {
    struct stat   st;
    u_char       *data;
    size_t        len;
} ngx_http_mistral_keyset_file_t;


static ngx_uint_t ngx_http_mistral_keyset_same_algs(const mst_jwa_list_t *a,
    const mst_jwa_list_t *b);
static ngx_int_t ngx_http_mistral_keyset_load(ngx_http_mistral_keyset_t *set,
    mst_err_t *err);
static ngx_int_t ngx_http_mistral_keyset_read(ngx_str_t *path,
    ngx_http_mistral_keyset_file_t *file, mst_err_t *err);
static ngx_uint_t ngx_http_mistral_keyset_unchanged(struct stat *a,
    struct stat *b);
static void ngx_http_mistral_keyset_failed(ngx_http_mistral_keyset_t *set,
    ngx_log_t *log, ngx_err_t err, const char *what);
static uint64_t ngx_http_mistral_keyset_seed(void);
static void ngx_http_mistral_keyset_cleanup(void *data);


ngx_http_mistral_keyset_t *
ngx_http_mistral_keyset_add(ngx_conf_t *cf, ngx_array_t *sets,
    ngx_str_t *path, const mst_jwa_list_t *algs,
    ngx_http_mistral_auth_loc_conf_t *alcf)
{
    mst_err_t                    err;
    ngx_uint_t                   i;
    ngx_pool_cleanup_t          *cln;
    ngx_http_mistral_keyset_t  **s, *set;

    s = sets->elts;

    for (i = 0; i < sets->nelts; i++) {
        if (s[i]->path.len == path->len
            && ngx_memcmp(s[i]->path.data, path->data, path->len) == 0
            && ngx_http_mistral_keyset_same_algs(s[i]->algs, algs))
        {
            return s[i];
        }
    }

    s = ngx_array_push(sets);
    cln = ngx_pool_cleanup_add(cf->pool, sizeof(ngx_http_mistral_keyset_t));

    if (s == NULL || cln == NULL) {
        return NULL;
    }

    set = cln->data;
    ngx_memzero(set, sizeof(ngx_http_mistral_keyset_t));

    cln->handler = ngx_http_mistral_keyset_cleanup;
    set->path = *path;
    set->algs = algs;
    *s = set;

    err.text[0] = '\0';

    if (ngx_http_mistral_keyset_load(set, &err) != NGX_OK) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "\"%V\" %s in %s:%ui", path,
                      err.text, alcf->file_name, alcf->line);
        return NULL;
    }

    return set;
}


static ngx_uint_t
ngx_http_mistral_keyset_same_algs(const mst_jwa_list_t *a,
    const mst_jwa_list_t *b)
{
    size_t  i;

    if (a == b) {
        return 1;
    }

    if (a == NULL || b == NULL || a->n != b->n) {
        return 0;
    }

    for (i = 0; i < a->n; i++) {
        if (a->alg[i] != b->alg[i]) {
            return 0;
        }
    }

    return 1;
}


/* the set stays as it was if this fails, but st is that of the file */

static ngx_int_t
ngx_http_mistral_keyset_load(ngx_http_mistral_keyset_t *set, mst_err_t *err)
{
    time_t                           age;
    mst_jwks_t                      *jwks;
    mst_keyfile_t                   *keyfile;
    ngx_http_mistral_keyset_file_t   file;

    if (ngx_http_mistral_keyset_read(&set->path, &file, err) != NGX_OK) {
        return NGX_ERROR;
    }

    age = time(NULL) - ngx_max(file.st.st_mtime, file.st.st_ctime);

    set->st = file.st;
    set->recent = age <= NGX_HTTP_MISTRAL_KEYSET_RECENT
                  && age >= -NGX_HTTP_MISTRAL_KEYSET_RECENT;

    if (set->algs) {
        keyfile = NULL;
        jwks = mst_jwks_parse((char *) file.data, file.len, set->algs, err);

    } else {
        jwks = NULL;
        keyfile = mst_keyfile_parse((char *) file.data, file.len,
                                    ngx_http_mistral_keyset_seed(), err);
    }

    ngx_explicit_memzero(file.data, file.len);
    ngx_free(file.data);

    if (keyfile == NULL && jwks == NULL) {
        return NGX_ERROR;
    }

    mst_keyfile_destroy(set->keyfile);
    mst_jwks_destroy(set->jwks);
    mst_jwt_cache_destroy(set->cache);

    set->keyfile = keyfile;
    set->jwks = jwks;
    set->cache = NULL;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_keyset_read(ngx_str_t *path,
    ngx_http_mistral_keyset_file_t *file, mst_err_t *err)
{
    int      fd;
    size_t   size;
    ssize_t  n;

    /* a pipe would stop a worker */

    fd = open((char *) path->data, O_RDONLY|O_NONBLOCK|O_CLOEXEC);

    if (fd == -1) {
        (void) mst_err_errno(err, ngx_errno, "cannot be opened");
        return NGX_ERROR;
    }

    file->data = NULL;
    file->len = 0;

    if (fstat(fd, &file->st) == -1) {
        (void) mst_err_errno(err, ngx_errno, "cannot be looked at");
        goto failed;
    }

    if (!S_ISREG(file->st.st_mode)
        || file->st.st_size > NGX_HTTP_MISTRAL_KEYSET_MAX)
    {
        (void) mst_err_set(err, "is no regular file of at most %d bytes",
                           NGX_HTTP_MISTRAL_KEYSET_MAX);
        goto failed;
    }

    size = (size_t) file->st.st_size;
    file->data = malloc(size + 1);

    if (file->data == NULL) {
        (void) mst_err_set(err, "is larger than the memory");
        goto failed;
    }

    while (file->len < size) {
        n = read(fd, file->data + file->len, size - file->len);

        if (n <= 0) {
            break;
        }

        file->len += (size_t) n;
    }

    (void) close(fd);

    return NGX_OK;

failed:

    (void) close(fd);

    return NGX_ERROR;
}


void
ngx_http_mistral_keyset_check(ngx_http_mistral_keyset_t *set, ngx_log_t *log)
{
    mst_err_t    err;
    ngx_uint_t   changed;
    struct stat  st;

    if (set->checked == ngx_time()) {
        return;
    }

    set->checked = ngx_time();

    if (stat((char *) set->path.data, &st) == -1) {
        ngx_http_mistral_keyset_failed(set, log, ngx_errno, "look at");
        return;
    }

    changed = !ngx_http_mistral_keyset_unchanged(&st, &set->st);

    if (!changed && !set->recent) {
        return;
    }

    if (access((char *) set->path.data, R_OK) == -1) {

        if (changed) {
            ngx_http_mistral_keyset_failed(set, log, ngx_errno, "read");
        }

        return;
    }

    err.text[0] = '\0';
    set->err = 0;

    if (ngx_http_mistral_keyset_load(set, &err) != NGX_OK) {

        if (changed) {
            ngx_log_error(NGX_LOG_ERR, log, 0,
                          "mistral: \"%V\" has changed and %s: the keys that "
                          "were read before stay", &set->path, err.text);
        }

        return;
    }

    if (changed) {
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "mistral: \"%V\" has changed and was read again: "
                      "%uz keys", &set->path,
                      set->jwks ? set->jwks->n
                                : mst_keyfile_count(set->keyfile));
    }
}


static ngx_uint_t
ngx_http_mistral_keyset_unchanged(struct stat *a, struct stat *b)
{
    return a->st_dev == b->st_dev
           && a->st_ino == b->st_ino
           && a->st_size == b->st_size
           && a->st_mtim.tv_sec == b->st_mtim.tv_sec
           && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec
           && a->st_ctim.tv_sec == b->st_ctim.tv_sec
           && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}


static void
ngx_http_mistral_keyset_failed(ngx_http_mistral_keyset_t *set, ngx_log_t *log,
    ngx_err_t err, const char *what)
{
    if (set->err == err) {
        return;
    }

    set->err = err;

    ngx_log_error(NGX_LOG_ERR, log, err,
                  "mistral: a worker may not %s \"%V\": nginx must be "
                  "reloaded when it has changed", what, &set->path);
}


json_t *
ngx_http_mistral_keyset_token(ngx_http_mistral_keyset_t *set, mst_str_t token,
    mst_jwt_rc_t *rc)
{
    json_t  *claims;

    if (set->cache == NULL) {
        set->cache = mst_jwt_cache_create(NGX_HTTP_MISTRAL_KEYSET_TOKENS,
                                          NGX_HTTP_MISTRAL_KEYSET_BYTES,
                                          ngx_http_mistral_keyset_seed());
    }

    claims = set->cache ? mst_jwt_cache_find(set->cache, token) : NULL;

    if (claims) {
        *rc = MST_JWT_OK;
        return json_incref(claims);
    }

    claims = mst_jwt_verify(set->jwks, token, rc);

    if (claims && set->cache) {
        mst_jwt_cache_add(set->cache, token, claims);
    }

    return claims;
}


static uint64_t
ngx_http_mistral_keyset_seed(void)
{
    uint64_t  seed;

    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
        seed = (uint64_t) ngx_random() << 32 | (uint64_t) ngx_pid;
    }

    return seed;
}


static void
ngx_http_mistral_keyset_cleanup(void *data)
{
    ngx_http_mistral_keyset_t *set = data;

    mst_keyfile_destroy(set->keyfile);
    mst_jwks_destroy(set->jwks);
    mst_jwt_cache_destroy(set->cache);
}
