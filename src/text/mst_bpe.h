
/*
 * Byte-level BPE by merge rank: of all adjacent pairs that have a merge the
 * one of lowest rank goes first, of equal ones the leftmost.
 *
 * Short pieces are done at once on the stack, long ones by a heap in slices,
 * so that no text takes more than O(n log n) altogether and none keeps a
 * worker longer than it said.  mst_bpe_t is immutable after it was made;
 * mst_bpe_long_t belongs to one encoder.
 */

#ifndef MST_BPE_H
#define MST_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "file/mst_gguf.h"
#include "text/mst_vocab.h"


#define MST_BPE_SHORT  64                     /* bytes; quadratic till here */
#define MST_BPE_NONE   0xffffffffu             /* no rank, symbol or token */


typedef struct {
    uint32_t  left;            /* ids; NONE: the slot is free */
    uint32_t  right;
    uint32_t  rank;            /* place in the file */
    uint32_t  id;              /* of the token that both make */
} mst_bpe_merge_t;


typedef struct {
    const mst_vocab_t  *vocab;
    mst_bpe_merge_t    *slots; /* [mask + 1], at most half of them used */
    uint32_t            mask;
    uint32_t            byte_id[256];  /* NONE: the byte is dropped */
    unsigned char      *whole; /* [vocab->n]: 1 where BPE of the token's own
                                  bytes gives just this token, so that a piece
                                  which equals it needs no merging */
} mst_bpe_t;


typedef struct {
    uint32_t  id;
    uint32_t  prev;            /* neighbours, or NONE */
    uint32_t  next;
    uint32_t  rank;            /* of the merge with next; NONE: there is none,
                                  or this symbol was merged away */
} mst_bpe_symbol_t;


typedef struct {
    const mst_bpe_t      *bpe;
    const unsigned char  *data;    /* the piece */
    uint32_t              len;
    uint32_t              pos;     /* bytes that became symbols */
    uint32_t              n;       /* symbols made */
    uint32_t              taken;   /* next symbol to hand out */
    uint32_t              size;    /* longest piece there is room for */
    mst_bpe_symbol_t     *symbols; /* [size] */
    uint64_t             *heap;    /* [2 * size]: rank << 32 | symbol; stale
                                      where the symbol has another rank */
    size_t                n_heap;
    size_t                dropped; /* bytes of both that are given back */
} mst_bpe_long_t;


/* leaves b fit for _fini whatever it returns; v must outlive b */
int mst_bpe_init_gguf(mst_bpe_t *b, const mst_vocab_t *v,
    const mst_gguf_t *g, mst_err_t *err);
void mst_bpe_fini(mst_bpe_t *b);

/*
 * All of a piece of at most MST_BPE_SHORT bytes.  Room for len ids; returns
 * their number, and in *cost the work in bytes of ordinary text.
 */
size_t mst_bpe_short(const mst_bpe_t *b, const char *data, size_t len,
    uint32_t *ids, size_t *cost);

/*
 * A piece of any length, in slices.  w begins as zeroes, and its memory is
 * kept for the next piece.  _start: MST_OK or MST_ERROR (memory).
 * _run: MST_OK when the merging is done, MST_AGAIN when the budget is used
 * up; takes what it used from *budget.  Then _take until it returns 0, then
 * _drop, which keeps no large memory and has a budget, too: a system takes
 * its time to get pages back.
 */
int mst_bpe_long_start(mst_bpe_long_t *w, const mst_bpe_t *b,
    const char *data, size_t len);
int mst_bpe_long_run(mst_bpe_long_t *w, size_t *budget);
size_t mst_bpe_long_take(mst_bpe_long_t *w, uint32_t *ids, size_t max);
int mst_bpe_long_drop(mst_bpe_long_t *w, size_t *budget);
void mst_bpe_long_fini(mst_bpe_long_t *w);     /* may be called twice */


#endif /* MST_BPE_H */
