
/*
 * Tokenizer and chat template of a model on the command line, whether it is a
 * GGUF file or a directory.
 */

#ifndef MISTRAL_WORDS_H
#define MISTRAL_WORDS_H

#include "base/mst_err.h"
#include "model/mst_checkpoint.h"
#include "text/mst_template.h"
#include "text/mst_tokenizer.h"
#include "text/mst_tokenizer_dir.h"


typedef struct {
    mst_tokenizer_t      *tokenizer;
    const mst_gguf_t     *gguf;    /* NULL: a directory */
    const char           *path;
    mst_tokenizer_dir_t   dir;     /* its tokenizer is ours, too */
} mistral_words_t;


/* w is zeroed.  MST_ERROR, or MST_DECLINED where a directory has no file of
   a tokenizer, with a sentence: there is none */
int mistral_words_gguf(mistral_words_t *w, const mst_gguf_t *g,
    const char *path, mst_err_t *err);
int mistral_words_directory(mistral_words_t *w, const mst_config_t *config,
    const char *path, mst_err_t *err);

/* the caller's to destroy; NULL with a sentence */
mst_template_t *mistral_words_template(const mistral_words_t *w,
    mst_err_t *err);

void mistral_words_close(mistral_words_t *w);  /* may be called twice */


#endif /* MISTRAL_WORDS_H */
