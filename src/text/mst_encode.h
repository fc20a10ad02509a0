
/*
 * What the tokenizer and its encoder share: the tokenizer's inside.
 */

#ifndef MST_ENCODE_H
#define MST_ENCODE_H

#include "text/mst_bpe.h"
#include "text/mst_tokenizer.h"
#include "text/mst_vocab.h"


struct mst_tokenizer_s {
    mst_tokenizer_info_t  info;
    int                   bytes;   /* the null model's: no vocabulary */
    mst_vocab_t           vocab;
    mst_bpe_t             bpe;
};


#endif /* MST_ENCODE_H */
