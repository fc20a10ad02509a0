
/*
 * What the tokenizer and its encoder share: the tokenizer's inside.
 */

#ifndef MST_ENCODE_H
#define MST_ENCODE_H

#include "text/mst_bpe.h"
#include "text/mst_chain.h"
#include "text/mst_hf.h"
#include "text/mst_split.h"
#include "text/mst_spm.h"
#include "text/mst_tokenizer.h"
#include "text/mst_vocab.h"


typedef enum {
    MST_TOKENIZER_BYTES,           /* the null model's: no vocabulary */
    MST_TOKENIZER_BPE,             /* over the bytes of pieces */
    MST_TOKENIZER_SPM              /* over code points of the whole text */
} mst_tokenizer_kind_t;


struct mst_tokenizer_s {
    mst_tokenizer_info_t  info;
    mst_tokenizer_kind_t  kind;
    mst_split_kind_t      split;   /* of BPE */
    mst_hf_prefix_t       prefix;  /* of SPM */
    int                   whole;   /* a piece that is a token is taken as it,
                                      though merging would not make it */
    mst_vocab_t           vocab;
    mst_bpe_t             bpe;
    char                  byte[256];   /* SPM: what byte tokens stand for */
};


#endif /* MST_ENCODE_H */
