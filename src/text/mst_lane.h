
/*
 * Pieces of few symbols, merged side by side.  A merge waits for the one
 * before it, for memory, and for branches that nobody can foresee; several
 * pieces in lock step, each a merge at a time and without a branch but for
 * the end, wait together.  What a step asks of memory the piece's next step
 * answers, when the others had theirs.
 *
 * Only of vocabularies whose ranks all differ, and not over code points.
 * Plain functions over the caller's memory: any thread.
 */

#ifndef MST_LANE_H
#define MST_LANE_H

#include <stddef.h>
#include <stdint.h>

#include "text/mst_bpe.h"


#define MST_LANE_SYMBOLS  16


/* a pair of symbols of which it is not known yet what they make */
typedef struct {
    uint64_t  key;             /* of mst_pair.h */
    uint32_t  slot;
    uint32_t  place;           /* of the left one */
} mst_lane_look_t;


/*
 * A piece; its symbols have the places 1 .. n, where they stay.  All keys are
 * read at once, from one line of memory.
 */

typedef struct {
    _Alignas(64)
    int32_t          key[MST_LANE_SYMBOLS + 2];    /* of a place: the rank of
                                                      the merge with the next
                                                      symbol, and the place */
    mst_lane_look_t  look[2];
    uint32_t         symbol[MST_LANE_SYMBOLS + 2]; /* numbers; NOBODY at 0 and
                                                      n + 1 */
    uint8_t          next[MST_LANE_SYMBOLS + 2];   /* places */
    uint8_t          prev[MST_LANE_SYMBOLS + 2];
    uint32_t         n;        /* symbols at the beginning */
} mst_lane_t;


static inline int
mst_lane_fit(const mst_bpe_t *b)
{
    return b->rank == NULL && !b->chars;
}


/* a piece of at most MST_BPE_SHORT bytes; 0: it has too many symbols */
int mst_lane_start(mst_lane_t *l, const mst_bpe_t *b, const char *data,
    size_t len);

/* all merges of so many pieces; mixes up "lanes" */
void mst_lane_merge(const mst_bpe_t *b, mst_lane_t **lanes, size_t n);

/* then: the ids; room for l->n.  Returns their number */
size_t mst_lane_take(const mst_lane_t *l, const mst_bpe_t *b, uint32_t *ids);


#endif /* MST_LANE_H */
