
/*
 * Characters of two and three bytes that are one symbol from the beginning.
 * Byte pair encoding merges a letter's bytes like any others; but where all
 * merges that could take one of them away, across the letter's border, rank
 * behind those within, the letter comes first whatever else happens.  What
 * borders on it decides: the byte before and the byte behind.
 *
 * Immutable after it was filled: any thread.
 */

#ifndef MST_LETTER_H
#define MST_LETTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_str.h"
#include "text/mst_utf8.h"


#define MST_LETTER_NONE  0xffffffffu


typedef struct {
    uint32_t  *symbol;         /* [65536] of a code point: its token's number,
                                  or NONE */
    uint32_t  *before;         /* [256 * 256] last byte before, first byte of
                                  the letter: the lowest rank across */
    uint32_t  *behind;         /* [256 * 256] its last byte, byte behind */
} mst_letter_t;


/* MST_ERROR: memory.  Leaves l fit for _fini */
int mst_letter_init(mst_letter_t *l);
void mst_letter_fini(mst_letter_t *l);         /* may be called twice */

/* two tokens merge, with this rank: the lowest number that ranks equal */
void mst_letter_merge(mst_letter_t *l, mst_str_t left, mst_str_t right,
    uint32_t rank);

/* a byte that has no token: what is beside it cannot be told */
void mst_letter_drop(mst_letter_t *l, unsigned char byte);

/*
 * A token; nothing happens if it is not one such character.  All merges
 * within it must rank no higher than its number, all those that it is part
 * of higher.
 */
void mst_letter_put(mst_letter_t *l, mst_str_t token, uint32_t number);


/* the letter at p[i] of a piece, if it is a symbol there: its bytes, or 0 */

static inline size_t
mst_letter_at(const mst_letter_t *l, const unsigned char *p, size_t i,
    size_t len, uint32_t *symbol)
{
    size_t    size;
    uint32_t  cp, least, rank, s;

    size = mst_utf8_short(p + i, len - i, &cp);

    if (size == 0) {
        return 0;
    }

    s = l->symbol[cp];
    least = i ? l->before[p[i - 1] << 8 | p[i]] : MST_LETTER_NONE;

    if (i + size < len) {
        rank = l->behind[p[i + size - 1] << 8 | p[i + size]];
        least = rank < least ? rank : least;
    }

    if (s >= least) {
        return 0;
    }

    *symbol = s;

    return size;
}


#endif /* MST_LETTER_H */
