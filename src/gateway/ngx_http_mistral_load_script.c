
/*
 * The null model with a real vocabulary: "tokenizer=PATH", and "text=FILE"
 * is then a script of token ids (file/mst_script.h).  PATH is a GGUF file, a
 * tokenizer's file, or the directory of a checkpoint.  Configuration phase.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"

#include "file/mst_gguf.h"
#include "file/mst_script.h"
#include "text/mst_tokenizer_dir.h"


static ngx_int_t ngx_http_mistral_script_gguf(ngx_http_mistral_model_t *m,
    int fd, const char *path, mst_err_t *err);
static ngx_int_t ngx_http_mistral_script_dir(ngx_http_mistral_model_t *m,
    int fd, const char *path, mst_err_t *err);
static ngx_int_t ngx_http_mistral_script_open(ngx_http_mistral_model_t *m,
    char *path, mst_err_t *err);


ngx_int_t
ngx_http_mistral_load_script_vocab(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, ngx_str_t *path)
{
    ngx_str_t  name;
    mst_err_t  err;

    name.len = path->len;
    name.data = ngx_pnalloc(cf->pool, path->len + 1);
    if (name.data == NULL) {
        return NGX_ERROR;
    }

    ngx_cpystrn(name.data, path->data, path->len + 1);

    if (ngx_conf_full_name(cf->cycle, &name, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    err.text[0] = '\0';

    if (ngx_http_mistral_script_open(m, (char *) name.data, &err) == NGX_OK) {
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "mistral_model \"%V\": %s",
                       &m->name, err.text[0] ? err.text : "no memory");

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_mistral_script_open(ngx_http_mistral_model_t *m, char *path,
    mst_err_t *err)
{
    int        fd, n;
    char       magic[4];
    ngx_int_t  rc;

    fd = open(path, O_RDONLY|O_CLOEXEC|O_NONBLOCK);
    if (fd == -1) {
        (void) mst_err_errno(err, ngx_errno, "cannot open \"%s\"", path);
        return NGX_ERROR;
    }

    /* a directory has no bytes */

    n = (int) pread(fd, magic, 4, 0);

    rc = n == 4 && ngx_strncmp(magic, "GGUF", 4) == 0
         ? ngx_http_mistral_script_gguf(m, fd, path, err)
         : ngx_http_mistral_script_dir(m, fd, path, err);

    (void) close(fd);

    return rc;
}


static ngx_int_t
ngx_http_mistral_script_gguf(ngx_http_mistral_model_t *m, int fd,
    const char *path, mst_err_t *err)
{
    mst_gguf_t  *g;

    g = mst_gguf_open_fd(fd, path, err);
    if (g == NULL) {
        return NGX_ERROR;
    }

    m->tokenizer = mst_tokenizer_create_gguf(g, err);

    if (m->tokenizer
        && ngx_http_mistral_template_create(m, m->tokenizer, err)
           == NGX_DECLINED)
    {
        m->template = mst_template_create_gguf(g, m->tokenizer, err);
    }

    mst_gguf_close(g);

    return m->template ? NGX_OK : NGX_ERROR;
}


/* the plain template stands in where there is none that is known: the null
   model reads nothing of a prompt but its length */

static ngx_int_t
ngx_http_mistral_script_dir(ngx_http_mistral_model_t *m, int fd,
    const char *path, mst_err_t *err)
{
    int                   dir, rc;
    char                  name[NGX_MAX_PATH], *file;
    mst_err_t             why;
    struct stat           st;
    mst_tokenizer_dir_t   d;

    if (fstat(fd, &st) == -1 || ngx_strlen(path) >= sizeof(name)) {
        (void) mst_err_set(err, "cannot look at \"%s\"", path);
        return NGX_ERROR;
    }

    if (S_ISDIR(st.st_mode)) {
        rc = mst_tokenizer_dir_open(&d, fd, path, "mistral", err);

    } else {

        /* absolute: ngx_conf_full_name() made it so */

        ngx_cpystrn((u_char *) name, (u_char *) path, sizeof(name));
        file = strrchr(name, '/');
        *file++ = '\0';

        dir = open(name[0] ? name : "/", O_RDONLY|O_DIRECTORY|O_CLOEXEC);
        if (dir == -1) {
            (void) mst_err_errno(err, ngx_errno, "cannot open \"%s\"", name);
            return NGX_ERROR;
        }

        rc = mst_tokenizer_dir_open_file(&d, dir, name, file, "mistral", err);
        (void) close(dir);
    }

    if (rc != MST_OK) {
        return NGX_ERROR;
    }

    why.text[0] = '\0';

    if (ngx_http_mistral_template_create(m, d.tokenizer, err) == NGX_DECLINED
        && mst_template_create_dir(&d, path, &m->template, &why) != MST_OK)
    {
        m->template = mst_template_create_plain(err);
    }

    m->tokenizer = d.tokenizer;
    d.tokenizer = NULL;

    mst_tokenizer_dir_close(&d);

    return m->template ? NGX_OK : NGX_ERROR;
}


/* the engine reads the script again: a bad one is found here */

ngx_int_t
ngx_http_mistral_load_script(ngx_http_mistral_model_t *m, mst_err_t *err)
{
    int            rc;
    char          *text;
    size_t         size;
    mst_script_t   script;

    if (m->setup->n_files == 0) {
        (void) mst_err_set(err, "\"tokenizer=\" of the null model needs "
                           "\"text=\", a script of token ids");
        return NGX_ERROR;
    }

    size = (size_t) m->setup->files[0].size;

    if (size > MST_SETUP_SCRIPT) {
        (void) mst_err_set(err, "a script of %zu bytes, may have at most %d",
                           size, MST_SETUP_SCRIPT);
        return NGX_ERROR;
    }

    text = ngx_alloc(size + 1, ngx_cycle->log);
    if (text == NULL) {
        return NGX_ERROR;
    }

    m->setup->null_vocab = mst_tokenizer_info(m->tokenizer)->n_vocab;

    if (pread(m->files[0], text, size, 0) != (ssize_t) size) {
        rc = mst_err_set(err, "the script cannot be read");

    } else {
        rc = mst_script_parse(&script, text, size, m->setup->null_vocab, err);
    }

    ngx_free(text);

    if (rc != MST_OK) {
        return NGX_ERROR;
    }

    mst_script_fini(&script);

    return NGX_OK;
}
