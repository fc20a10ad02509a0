
/*
 * From the command line to token ids: texts, chats, files of ids.
 */

#ifndef MISTRAL_PROMPT_H
#define MISTRAL_PROMPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "tools/mistral_words.h"


typedef struct {
    uint32_t  *ids;            /* [n], owned */
    size_t     n;
} mistral_ids_t;


/* the text itself, or stdin when it is "-" */
int mistral_prompt_text(const char *text, mst_buf_t *out, mst_err_t *err);

/* encodes a plain text, or one user's message by the model's template;
   MST_DECLINED: the model has none that is known */
int mistral_prompt_encode(const mistral_words_t *w, const mst_buf_t *text,
    int chat, mistral_ids_t *out, mst_err_t *err);

/* ids below n_vocab from a file, or stdin when it is "-": a JSON array, or
   bare numbers */
int mistral_prompt_ids(const char *path, uint32_t n_vocab, mistral_ids_t *out,
    mst_err_t *err);


#endif /* MISTRAL_PROMPT_H */
