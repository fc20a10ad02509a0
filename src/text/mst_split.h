
/*
 * Pre-tokenizers: text to the pieces that byte-level BPE works on, as the
 * expressions that tokenizers are published with would cut it, but by hand,
 * in one pass without backtracking, and able to stop inside a piece of any
 * length.
 *
 *   GPT2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+
 *           |\s+(?!\S)|\s+
 *   SMOLLM  every number code point is a piece of its own, GPT2 between them
 *   LLAMA3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
 *           | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *   QWEN2   the same, numbers one by one
 *   TEKKEN  [^\r\n\p{L}\p{N}]?U*W+|[^\r\n\p{L}\p{N}]?U+W*|\p{N}
 *           | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *           with U = Lu Lt Lm Lo M and W = Ll Lm Lo M
 *
 * One per text; any thread.
 */

#ifndef MST_SPLIT_H
#define MST_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_str.h"
#include "text/mst_unicode.h"
#include "text/mst_utf8.h"


typedef enum {
    MST_SPLIT_SMOLLM = 0,
    MST_SPLIT_GPT2,
    MST_SPLIT_LLAMA3,
    MST_SPLIT_QWEN2,
    MST_SPLIT_TEKKEN
} mst_split_kind_t;


typedef struct {
    const unsigned char  *start;   /* of the piece that comes next */
    const unsigned char  *pos;     /* seen so far of it */
    const unsigned char  *last;    /* where its last code point begins */
    const unsigned char  *mark;    /* where it ends if what follows does not
                                      fit; NULL: nowhere yet */
    const unsigned char  *end;     /* of the text */
    const unsigned char  *bits;    /* mst_unicode_fill's table, or NULL */
    mst_split_kind_t      kind;
    int                   run;     /* MST_UNICODE_* or mst_split_word.c's part
                                      that the piece goes on with; -1: not
                                      begun */
} mst_split_t;


/* bits: of mst_unicode_fill(), or NULL */
void mst_split_init(mst_split_t *s, mst_split_kind_t kind,
    const unsigned char *bits, const char *data, size_t len);

/*
 * MST_OK and the next piece; MST_DONE: no more; MST_AGAIN: the budget is
 * used up inside a piece.  Takes the bytes looked at from *budget.
 */
int mst_split_next(mst_split_t *s, size_t *budget, mst_str_t *piece);

/* what the code point at p is, MST_UNICODE_*, and how many bytes it has */

static inline uint32_t
mst_split_bits(const mst_split_t *s, const unsigned char *p, size_t *n)
{
    uint32_t  cp;

    if (*p < 0x80) {
        *n = 1;
        return mst_unicode_ascii[*p];
    }

    if (s->bits) {
        *n = mst_utf8_short(p, (size_t) (s->end - p), &cp);

        if (*n) {
            return s->bits[cp];
        }
    }

    *n = mst_utf8_decode(p, (size_t) (s->end - p), &cp);

    return mst_unicode_bits(cp);
}


/* mst_split_word.c: the kinds from LLAMA3 on */
int mst_split_word(mst_split_t *s, size_t *budget, mst_str_t *piece);

/*
 * Of all kinds.  Most pieces are letters behind a space or nothing, most of
 * those in ASCII, and short: where such a one ends, or NULL: it is another,
 * or the end of text or budget is near.
 */
const unsigned char *mst_split_short(const mst_split_t *s, size_t budget);


/* is an ASCII letter next, or behind a space? */

static inline int
mst_split_ahead(const mst_split_t *s)
{
    const unsigned char  *p;

    p = s->start + (*s->start == ' ');

    return p < s->end && (*p | 0x20u) - 'a' <= 'z' - 'a';
}


#endif /* MST_SPLIT_H */
