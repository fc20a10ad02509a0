
/*
 * A model of files: a GGUF file, or a directory with a configuration, shards
 * of safetensors and a tokenizer.  What nginx -t says about it is said here.
 * Master, configuration phase.
 *
 * Descriptors of the weights are kept for the engine.  Vocabulary and
 * template are copied: a file that shrinks later cannot hurt a worker.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"

#include "model/mst_check.h"
#include "text/mst_tokenizer_dir.h"


#define NGX_HTTP_MISTRAL_BATCH_MAX   1024      /* but the null model's */
#define NGX_HTTP_MISTRAL_BATCH_AUTO  16        /* the engine's */


static ngx_int_t ngx_http_mistral_load_files(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, mst_check_files_t *files, mst_err_t *err);
static ngx_int_t ngx_http_mistral_load_gguf(ngx_http_mistral_model_t *m,
    mst_err_t *err);
static ngx_int_t ngx_http_mistral_load_directory(ngx_http_mistral_model_t *m,
    mst_check_files_t *files, mst_err_t *err);
static ngx_int_t ngx_http_mistral_load_words(ngx_http_mistral_model_t *m,
    mst_check_t *check, mst_err_t *err);
static ngx_int_t ngx_http_mistral_load_fits(ngx_http_mistral_model_t *m,
    mst_check_t *check, mst_err_t *err);


ngx_int_t
ngx_http_mistral_load_model(ngx_conf_t *cf, ngx_http_mistral_model_t *m)
{
    mst_err_t          err;
    mst_check_files_t  files;

    err.text[0] = '\0';

    if (mst_check_open(m->setup->path, &files, &err) != MST_OK) {
        return ngx_http_mistral_load_failed(cf, m, &err);
    }

    if (ngx_http_mistral_load_files(cf, m, &files, &err) != NGX_OK) {
        mst_check_close(&files);
        return NGX_ERROR;
    }

    if ((files.n == 1 ? ngx_http_mistral_load_gguf(m, &err)
                      : ngx_http_mistral_load_directory(m, &files, &err))
        != NGX_OK)
    {
        return ngx_http_mistral_load_failed(cf, m, &err);
    }

    return NGX_OK;
}


/* the descriptors become the model's, all of them or none */

static ngx_int_t
ngx_http_mistral_load_files(ngx_conf_t *cf, ngx_http_mistral_model_t *m,
    mst_check_files_t *files, mst_err_t *err)
{
    ngx_uint_t  i;

    for (i = 0; i < files->n; i++) {

        if (ngx_http_mistral_load_identity(cf, m, files->fd[i],
                                           m->setup->path)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    ngx_memcpy(m->files, files->fd, files->n * sizeof(int));

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_load_gguf(ngx_http_mistral_model_t *m, mst_err_t *err)
{
    ngx_int_t     rc;
    mst_gguf_t   *g;
    mst_check_t   check;

    g = mst_gguf_open_fd(m->files[0], m->setup->path, err);
    if (g == NULL) {
        return NGX_ERROR;
    }

    rc = NGX_ERROR;

    if (mst_check_gguf(g, &m->setup->tune, &check, err) == MST_OK
        && ngx_http_mistral_load_fits(m, &check, err) == NGX_OK)
    {
        m->tokenizer = mst_tokenizer_create_gguf(g, err);

        if (m->tokenizer != NULL
            && ngx_http_mistral_template_create(m, m->tokenizer, err)
               == NGX_DECLINED)
        {
            m->template = mst_template_create_gguf(g, m->tokenizer, err);
        }

        rc = (m->template != NULL) ? NGX_OK : NGX_ERROR;
    }

    mst_gguf_close(g);

    return rc;
}


static ngx_int_t
ngx_http_mistral_load_directory(ngx_http_mistral_model_t *m,
    mst_check_files_t *files, mst_err_t *err)
{
    mst_check_t  check;

    if (mst_check_files(files, m->setup->path, &m->setup->tune, &check, err)
           != MST_OK
        || ngx_http_mistral_load_fits(m, &check, err) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mistral_load_words(m, &check, err);
}


/* a model without a template answers completions, but no chats */

static ngx_int_t
ngx_http_mistral_load_words(ngx_http_mistral_model_t *m, mst_check_t *check,
    mst_err_t *err)
{
    int                  dir, rc;
    uint32_t             n;
    mst_tokenizer_dir_t  d;

    dir = open(m->setup->path, O_RDONLY|O_DIRECTORY|O_CLOEXEC);

    if (dir == -1) {
        mst_err_errno(err, ngx_errno, "%s: cannot be opened",
                      m->setup->path);
        return NGX_ERROR;
    }

    rc = mst_tokenizer_dir_open(&d, dir, m->setup->path, check->arch, err);

    (void) close(dir);

    if (rc != MST_OK) {
        return NGX_ERROR;
    }

    n = mst_tokenizer_info(d.tokenizer)->n_vocab;

    if (n > check->n_vocab) {
        rc = mst_err_set(err, "%s: %s has %u tokens, the model only %u",
                         m->setup->path, d.file, (unsigned) n,
                         (unsigned) check->n_vocab);
    } else {
        rc = ngx_http_mistral_template_create(m, d.tokenizer, err);
    }

    if (rc == NGX_DECLINED) {
        rc = mst_template_create_dir(&d, m->setup->path, &m->template, err);
    }

    if (rc == MST_OK || rc == MST_DECLINED) {
        mst_tokenizer_also_stop(d.tokenizer, check->stop_ids, check->n_stop);
        m->tokenizer = d.tokenizer;
        d.tokenizer = NULL;
        rc = MST_OK;
    }

    mst_tokenizer_dir_close(&d);

    return (rc == MST_OK) ? NGX_OK : NGX_ERROR;
}


/* what the block asks for, and what the model can do */

static ngx_int_t
ngx_http_mistral_load_fits(ngx_http_mistral_model_t *m, mst_check_t *check,
    mst_err_t *err)
{
    uint32_t      batch;
    mst_setup_t  *setup;

    setup = m->setup;

    if (setup->max_batch > NGX_HTTP_MISTRAL_BATCH_MAX) {
        mst_err_set(err, "max_batch %u is above %d",
                    (unsigned) setup->max_batch, NGX_HTTP_MISTRAL_BATCH_MAX);
        return NGX_ERROR;
    }

    /* a step has a token for each running answer, or nothing could move */

    batch = setup->max_batch ? setup->max_batch
                             : NGX_HTTP_MISTRAL_BATCH_AUTO;

    if (setup->prefill_chunk != 0 && setup->prefill_chunk < batch) {
        mst_err_set(err, "prefill_chunk %u is below max_batch %u",
                    (unsigned) setup->prefill_chunk, (unsigned) batch);
        return NGX_ERROR;
    }

    if (setup->context > check->context) {
        mst_err_set(err, "context %u is above the model's %u tokens",
                    (unsigned) setup->context, (unsigned) check->context);
        return NGX_ERROR;
    }

    if (setup->context == 0) {
        setup->context = check->context;
    }

    m->context = setup->context;
    m->n_experts = check->n_experts;

    return NGX_OK;
}
