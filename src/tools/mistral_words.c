
/*
 * Tokenizer and template of a model: see mistral_words.h.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tools/mistral_words.h"


/* what the text room says about a file names the key, maybe not the file */

static void
mistral_words_name(const mistral_words_t *w, mst_err_t *err)
{
    if (err && strncmp(err->text, w->path, strlen(w->path)) != 0) {
        (void) mst_err_prefix(err, w->path);
    }
}


int
mistral_words_gguf(mistral_words_t *w, const mst_gguf_t *g, const char *path,
    mst_err_t *err)
{
    w->path = path;
    w->gguf = g;
    w->tokenizer = mst_tokenizer_create_gguf(g, err);

    if (w->tokenizer == NULL) {
        mistral_words_name(w, err);
        return MST_ERROR;
    }

    return MST_OK;
}


int
mistral_words_directory(mistral_words_t *w, const mst_config_t *config,
    const char *path, mst_err_t *err)
{
    int       dir, rc;
    uint32_t  n;

    w->path = path;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir == -1) {
        return mst_err_errno(err, errno, "%s: cannot be opened", path);
    }

    rc = mst_tokenizer_dir_open(&w->dir, dir, path, config->arch, err);
    (void) close(dir);

    if (rc != MST_OK) {
        return rc;
    }

    n = mst_tokenizer_info(w->dir.tokenizer)->n_vocab;

    if (n > config->n_vocab) {
        rc = mst_err_set(err, "%s: %s has %u tokens, the model only %u", path,
                         w->dir.file, n, config->n_vocab);
        mistral_words_close(w);
        return rc;
    }

    mst_tokenizer_also_stop(w->dir.tokenizer, config->stop_ids,
                            config->n_stop);
    w->tokenizer = w->dir.tokenizer;

    return MST_OK;
}


mst_template_t *
mistral_words_template(const mistral_words_t *w, mst_err_t *err)
{
    mst_template_t  *t;

    if (w->gguf == NULL) {
        if (mst_template_create_dir(&w->dir, w->path, &t, err)
            == MST_DECLINED)
        {
            (void) mst_err_set(err, "%s: the model has no chat template",
                               w->path);
        }

        return t;
    }

    t = mst_template_create_gguf(w->gguf, w->tokenizer, err);

    if (t == NULL) {
        mistral_words_name(w, err);
    }

    return t;
}


void
mistral_words_close(mistral_words_t *w)
{
    if (w->gguf) {
        mst_tokenizer_destroy(w->tokenizer);
    }

    mst_tokenizer_dir_close(&w->dir);
    w->tokenizer = NULL;
}
