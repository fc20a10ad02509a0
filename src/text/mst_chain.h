
/*
 * Long pieces of byte pair encoding in linear time.
 *
 * The ids of a piece are the one chain of tokens over its bytes in which any
 * two neighbours are what merging their bytes alone gives (mst_bpe_apart):
 * a merge across a border would, at the moment when it came, have come in
 * those two alone as well.  And a piece's beginning has just one chain, too,
 * so that a place from which nothing leads on is dead for good.  Hence:
 * the longest token that goes with the one before it, else the next shorter
 * one, else a step back; no place is left twice.
 *
 * Text that needs this repeats itself: judgements about pairs are kept, and
 * the token that followed the same one last time is tried before others.
 * Belongs to one encoder, for texts of one tokenizer.
 */

#ifndef MST_CHAIN_H
#define MST_CHAIN_H

#include <stddef.h>
#include <stdint.h>

#include "text/mst_bpe.h"

#define MST_CHAIN_PAIRS  4096      /* kept judgements, a power of two */
#define MST_CHAIN_HINTS  256       /* kept followers, a power of two */


typedef struct {
    uint32_t  left;            /* + 1; 0: none */
    uint32_t  right;
    int       apart;
} mst_chain_pair_t;


typedef struct {
    uint32_t  left;            /* + 1; 0: none */
    uint32_t  right;
} mst_chain_hint_t;


typedef struct {
    const mst_bpe_t      *bpe;
    const unsigned char  *data;    /* the piece, or "copy" */
    uint32_t              len;
    const unsigned char  *rest;    /* of the piece, to be copied yet: up to
                                      "end"; NULL: nothing is */
    const unsigned char  *end;
    uint32_t              pos;     /* bytes that the chain covers */
    uint32_t              next;    /* token to try there, or NONE */
    int                   first;   /* it is tried before the longest one */
    uint32_t              n;       /* tokens in the chain */
    uint32_t              taken;   /* of them, handed out */
    uint32_t              size;    /* longest piece there is room for */
    uint32_t             *ids;     /* [size] the chain; the highest bit: the
                                      token was tried first */
    uint64_t             *dead;    /* [size / 64 + 1] bits of places */
    unsigned char        *copy;    /* [size] without dropped bytes */
    mst_chain_pair_t     *pairs;   /* [MST_CHAIN_PAIRS] */
    mst_chain_hint_t      hints[MST_CHAIN_HINTS];
} mst_chain_t;


/*
 * c begins as zeroes, and its memory is kept for the next piece.  data must
 * stay; over code points each of them must have a token.  _start: MST_OK or
 * MST_ERROR (memory).  _run: MST_OK when done, MST_AGAIN when the budget is
 * used up; takes what it used from *budget.  Then _take until it returns 0,
 * then _drop, which keeps no large memory.
 */
int mst_chain_start(mst_chain_t *c, const mst_bpe_t *b, const char *data,
    size_t len);
int mst_chain_run(mst_chain_t *c, size_t *budget);
size_t mst_chain_take(mst_chain_t *c, uint32_t *ids, size_t max);
void mst_chain_drop(mst_chain_t *c);
void mst_chain_fini(mst_chain_t *c);           /* may be called twice */


#endif /* MST_CHAIN_H */
