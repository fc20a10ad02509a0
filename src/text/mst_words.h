
/*
 * Pieces of byte-level BPE by the batch: each is what it was before, a token
 * as it stands, or merged, those side by side (mst_lane.h).  What is known at
 * once, before anything that is to be merged, needs no batch.
 *
 * On the caller's stack, for one batch; belongs to one encoder.
 */

#ifndef MST_WORDS_H
#define MST_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_str.h"
#include "text/mst_encode.h"
#include "text/mst_lane.h"
#include "text/mst_memo.h"


#define MST_WORDS_MAX   32
#define MST_WORDS_ROOM  (MST_WORDS_MAX * MST_BPE_SHORT)    /* ids */


typedef enum {
    MST_WORDS_TOKEN,           /* "first" is its id */
    MST_WORDS_KNOWN,           /* it has n ids, from "first" on */
    MST_WORDS_SAME,            /* as the word "first" of the batch */
    MST_WORDS_LANE,
    MST_WORDS_MERGE            /* of many symbols: by itself */
} mst_words_kind_t;


typedef struct {
    mst_str_t          piece;
    mst_memo_slot_t   *slot;   /* where it is kept; NULL: nowhere */
    mst_words_kind_t   kind;
    uint32_t           first;
    uint32_t           n;
} mst_word_t;


typedef struct {
    const mst_tokenizer_t  *tokenizer;
    const mst_memo_t       *memo;      /* NULL: none, or too many ids for it */
    uint32_t               *ids;       /* all of the text, so far */
    size_t                  n_ids;
    size_t                  room;      /* behind them */
    size_t                  cost;      /* in bytes of ordinary text, but for
                                          the cutting */
    size_t                  n;
    size_t                  n_lanes;
    mst_word_t              words[MST_WORDS_MAX];
    mst_lane_t             *lanes[MST_WORDS_MAX];  /* those to be merged */
    mst_lane_t              lane[MST_WORDS_MAX];   /* of a word */
} mst_words_t;


/* with room for MST_WORDS_ROOM more than ids[n] */
void mst_words_init(mst_words_t *w, const mst_tokenizer_t *t,
    const mst_memo_t *memo, uint32_t *ids, size_t n);

/* a piece of at most MST_BPE_SHORT bytes of the text; 0: it was the last one
   that there is room for */
int mst_words_add(mst_words_t *w, mst_str_t piece);

/* what all became; returns n of the ids */
size_t mst_words_finish(mst_words_t *w);


/* the token that a piece is as it stands, or -1 */
int64_t mst_words_token(const mst_tokenizer_t *t, mst_str_t piece);


#endif /* MST_WORDS_H */
