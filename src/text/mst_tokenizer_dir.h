
/*
 * The tokenizer of a checkpoint's directory: which files there are, and what
 * they say about chats.
 *
 *   tekken.json, or tokenizer.model.vN     Mistral's own, with a version
 *   tokenizer.model                        SentencePiece
 *   tokenizer.json                         Hugging Face's
 *   tokenizer_config.json, chat_template.jinja    a template, bos, eos
 *
 * The first that is there is taken.  Configuration phase, and tools.
 */

#ifndef MST_TOKENIZER_DIR_H
#define MST_TOKENIZER_DIR_H

#include <stdint.h>

#include "base/mst_err.h"
#include "text/mst_tokenizer.h"


typedef struct {
    mst_tokenizer_t  *tokenizer;
    const char       *file;    /* that it came from, a literal or kind */
    uint32_t          version; /* of Mistral's own format of chats; 0 = none */
    int               guessed; /* no name says the version: a template that is
                                  there is worth more */
    char             *chat;    /* text of a template, or NULL; owned */
    char             *bos;     /* spellings, or NULL; owned */
    char             *eos;
} mst_tokenizer_dir_t;


/*
 * dir is an open directory, arch the model's ("mistral", "llama", ...): a
 * SentencePiece model without control tokens is of version 1 where the model
 * is Mistral's.  MST_ERROR, or MST_DECLINED where no such file is there,
 * with a sentence: d is empty.
 */
int mst_tokenizer_dir_open(mst_tokenizer_dir_t *d, int dir, const char *name,
    const char *arch, mst_err_t *err);

/*
 * One file of a directory, known by its name: "tekken.json" with anything
 * around the first word, "....model" and "....model.vN".
 */
int mst_tokenizer_dir_open_file(mst_tokenizer_dir_t *d, int dir,
    const char *name, const char *file, const char *arch, mst_err_t *err);

/* the tokenizer, too, if it still is there; may be called twice */
void mst_tokenizer_dir_close(mst_tokenizer_dir_t *d);


#endif /* MST_TOKENIZER_DIR_H */
