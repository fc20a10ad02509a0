
/*
 * Cutting text into pieces: see mst_split.h.
 *
 * A piece is a contraction, a number, or a run of one class that may begin
 * with a space.  Only runs of white space look at what follows them: before
 * a number, which ends the text as far as the expression can see, and at
 * the end they are taken whole; otherwise they leave their last code point
 * to the next piece if they have two.
 */

#include "text/mst_split.h"


static inline uint32_t
mst_split_class(const mst_split_t *s, const unsigned char *p, size_t *n)
{
    return mst_unicode_classes[mst_split_bits(s, p, n)];
}


void
mst_split_init(mst_split_t *s, mst_split_kind_t kind,
    const unsigned char *bits, const char *data, size_t len)
{
    s->bits = bits;
    s->kind = kind;
    s->mark = NULL;
    s->start = (const unsigned char *) data;
    s->pos = s->start;
    s->last = s->start;
    s->end = s->start + len;
    s->run = -1;
}


/* length of the contraction at p, which points to an apostrophe, or 0 */

static size_t
mst_split_contraction(const unsigned char *p, size_t len)
{
    if (len < 2) {
        return 0;
    }

    switch (p[1]) {

    case 's':
    case 't':
    case 'm':
    case 'd':
        return 2;

    case 'r':
    case 'v':
        return len > 2 && p[2] == 'e' ? 3 : 0;

    case 'l':
        return len > 2 && p[2] == 'l' ? 3 : 0;

    default:
        return 0;
    }
}


/* looks at how the piece begins; returns its length if that is all */

static size_t
mst_split_begin(mst_split_t *s)
{
    size_t                n;
    uint32_t              class;
    const unsigned char  *p;

    p = s->start;

    if (*p == '\'') {
        n = mst_split_contraction(p, (size_t) (s->end - p));

        if (n) {
            return n;
        }
    }

    class = mst_split_class(s, p, &n);

    if (class == MST_UNICODE_NUMBER && s->kind == MST_SPLIT_SMOLLM) {
        return n;
    }

    s->last = p;
    s->pos = p + n;
    s->run = (int) class;

    if (*p == ' ' && s->pos < s->end) {
        class = mst_split_class(s, s->pos, &n);

        if (class == MST_UNICODE_LETTER || class == MST_UNICODE_OTHER
            || (class == MST_UNICODE_NUMBER && s->kind == MST_SPLIT_GPT2))
        {
            s->run = (int) class;
        }
    }

    return 0;
}


/* follows the run to its end: 1, or 0 when the budget is used up */

static int
mst_split_follow(mst_split_t *s, size_t *budget)
{
    size_t                n, used;
    uint32_t              run;
    const unsigned char  *p, *last, *stop;

    p = s->pos;
    last = s->last;
    run = (uint32_t) s->run;
    stop = (size_t) (s->end - p) > *budget ? p + *budget : s->end;

    while (p < stop && mst_split_class(s, p, &n) == run) {
        last = p;
        p += n;
    }

    used = (size_t) (p - s->pos);
    *budget -= used < *budget ? used : *budget;
    s->pos = p;
    s->last = last;

    return p < stop || p == s->end;
}


int
mst_split_next(mst_split_t *s, size_t *budget, mst_str_t *piece)
{
    size_t                n, len;
    const unsigned char  *end;

    if (s->kind >= MST_SPLIT_LLAMA3) {
        return mst_split_word(s, budget, piece);
    }

    if (s->start == s->end) {
        return MST_DONE;
    }

    if (s->run < 0) {

        if (*budget == 0) {
            return MST_AGAIN;
        }

        end = mst_split_ahead(s) ? mst_split_short(s, *budget) : NULL;

        if (end) {
            *budget -= (size_t) (end - s->start);
            goto found;
        }

        len = mst_split_begin(s);

        if (len) {
            end = s->start + len;
            --*budget;
            goto found;
        }
    }

    if (!mst_split_follow(s, budget)) {
        return MST_AGAIN;
    }

    end = s->pos;

    if (s->run == MST_UNICODE_SPACE && s->last > s->start && end < s->end
        && (s->kind != MST_SPLIT_SMOLLM
            || mst_split_class(s, end, &n) != MST_UNICODE_NUMBER))
    {
        end = s->last;
    }

found:

    *piece = mst_str((const char *) s->start, (size_t) (end - s->start));
    s->start = end;
    s->run = -1;

    return MST_OK;
}
