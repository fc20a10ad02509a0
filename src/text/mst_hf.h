
/*
 * Hugging Face's tokenizer.json with a BPE model, of both kinds: over bytes
 * in GPT-2's alphabet, or over code points with byte fallback.
 *
 * What its normalizer and pre-tokenizer say is recognised, not executed: any
 * other combination is refused with a sentence.  Added tokens that are
 * special are control tokens and never found in text.
 *
 * Once, while the vocabulary is made ready: the master, or a tool.
 */

#ifndef MST_HF_H
#define MST_HF_H

#include <stddef.h>

#include "base/mst_err.h"
#include "text/mst_bpe.h"
#include "text/mst_split.h"
#include "text/mst_vocab.h"


typedef enum {
    MST_HF_PREFIX = 0,         /* a space is put before each text */
    MST_HF_PREFIX_UNLESS,      /* unless it begins with one */
    MST_HF_PREFIX_NONE
} mst_hf_prefix_t;


typedef struct {
    int               chars;   /* over code points */
    mst_split_kind_t  split;   /* over bytes */
    int               whole;   /* a piece that is a token is taken as it */
    mst_hf_prefix_t   prefix;  /* over code points */
} mst_hf_t;


/* v and b are fit for _fini whatever it returns, and v must stay where it
   is; name stands before sentences */
int mst_hf_init(mst_vocab_t *v, mst_bpe_t *b, const char *text, size_t len,
    const char *name, mst_hf_t *hf, mst_err_t *err);


#endif /* MST_HF_H */
