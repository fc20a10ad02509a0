
/*
 * The pre-tokenizer "smollm": every number code point is a piece of its own,
 * and the text between them is cut as GPT-2's expression would cut it,
 *
 *     's|'t|'re|'ve|'m|'ll|'d
 *     | ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * by hand, in one pass without backtracking, and able to stop inside a
 * piece of any length.
 */

#ifndef MST_SPLIT_H
#define MST_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_str.h"


typedef struct {
    const unsigned char  *start;   /* of the piece that comes next */
    const unsigned char  *pos;     /* seen so far of it */
    const unsigned char  *last;    /* where its last code point begins */
    const unsigned char  *end;     /* of the text */
    int                   run;     /* MST_UNICODE_* that the piece goes on
                                      with; -1: not begun */
} mst_split_t;


void mst_split_init(mst_split_t *s, const char *data, size_t len);

/*
 * MST_OK and the next piece; MST_DONE: no more; MST_AGAIN: the budget is
 * used up inside a piece.  Takes the bytes looked at from *budget.
 */
int mst_split_next(mst_split_t *s, size_t *budget, mst_str_t *piece);


#endif /* MST_SPLIT_H */
