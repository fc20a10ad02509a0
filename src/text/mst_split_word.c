
/*
 * Pre-tokenizers of the kinds LLAMA3, QWEN2 and TEKKEN: see mst_split.h.
 *
 * A piece is known by its first two code points, but for how far it goes:
 * letters, punctuation and white space are followed in parts, so that the
 * budget may end anywhere.
 */

#include "text/mst_split.h"


/* the part that is being followed */
enum {
    MST_WORD_LETTERS = 0,      /* L+ */
    MST_WORD_UPPER,            /* U*, tekken */
    MST_WORD_LOWER,            /* W+ behind it */
    MST_WORD_OTHER,            /* [^\s\p{L}\p{N}]+ */
    MST_WORD_BREAKS,           /* line breaks behind it */
    MST_WORD_SPACE
};


static int
mst_split_is_break(unsigned char c)
{
    return c == '\r' || c == '\n';
}


/* does a code point with these bits belong to the part? */

static int
mst_split_belongs(const mst_split_t *s, const unsigned char *p, uint32_t bits)
{
    switch (s->run) {

    case MST_WORD_LETTERS:
        return bits & MST_UNICODE_L;

    case MST_WORD_UPPER:
        return bits & MST_UNICODE_UPPER;

    case MST_WORD_LOWER:
        return bits & MST_UNICODE_LOWER;

    case MST_WORD_OTHER:
        return (bits & (MST_UNICODE_L|MST_UNICODE_N|MST_UNICODE_S)) == 0;

    case MST_WORD_BREAKS:
        return mst_split_is_break(*p)
               || (*p == '/' && s->kind == MST_SPLIT_TEKKEN);

    default:
        return bits & MST_UNICODE_S;
    }
}


/* length of a contraction in any case, or 0; U+017F is an s, too */

static size_t
mst_split_contraction_any(const unsigned char *p, size_t len)
{
    unsigned char  a, b;

    if (len < 2 || p[0] != '\'') {
        return 0;
    }

    a = p[1] | 0x20;
    b = len > 2 ? p[2] | 0x20 : 0;

    if (a == 's' || a == 't' || a == 'm' || a == 'd') {
        return 2;
    }

    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e')
        || (a == 'l' && b == 'l'))
    {
        return 3;
    }

    return len > 2 && p[1] == 0xc5 && p[2] == 0xbf ? 3 : 0;
}


static size_t
mst_split_numbers(const mst_split_t *s, size_t n)
{
    int                   i;
    size_t                k;
    const unsigned char  *p;

    p = s->start + n;

    for (i = 1; s->kind == MST_SPLIT_LLAMA3 && i < 3 && p < s->end; i++) {
        if ((mst_split_bits(s, p, &k) & MST_UNICODE_N) == 0) {
            break;
        }

        p += k;
    }

    return (size_t) (p - s->start);
}


static void
mst_split_go_on(mst_split_t *s, const unsigned char *from, int run)
{
    s->pos = from;
    s->last = from;
    s->run = run;
}


/* letters, maybe behind one other code point: 1 if they can be */

static int
mst_split_letters(mst_split_t *s, uint32_t bits, size_t n)
{
    int                   pre, tekken;
    size_t                k;
    uint32_t              next, wanted;
    const unsigned char  *from;

    tekken = s->kind == MST_SPLIT_TEKKEN;
    wanted = tekken ? MST_UNICODE_UPPER|MST_UNICODE_LOWER : MST_UNICODE_L;

    pre = !mst_split_is_break(*s->start)
          && (bits & (MST_UNICODE_L|MST_UNICODE_N)) == 0;

    from = s->start + (pre ? n : 0);
    next = from < s->end ? mst_split_bits(s, from, &k) : 0;

    /* a mark by itself is what remains if no lower case follows */

    s->mark = pre && (bits & wanted) ? s->start + n : NULL;

    if ((next & wanted) == 0) {
        return 0;
    }

    mst_split_go_on(s, from, tekken ? MST_WORD_UPPER : MST_WORD_LETTERS);

    return 1;
}


/* looks at how the piece begins; returns its length if that is all */

static size_t
mst_split_word_begin(mst_split_t *s)
{
    size_t    k, n;
    uint32_t  bits, next;

    if (s->kind != MST_SPLIT_TEKKEN) {
        n = mst_split_contraction_any(s->start, (size_t) (s->end - s->start));

        if (n) {
            return n;
        }
    }

    bits = mst_split_bits(s, s->start, &n);

    if (mst_split_letters(s, bits, n)) {
        return 0;
    }

    if (s->mark) {
        return n;
    }

    if (bits & MST_UNICODE_N) {
        return mst_split_numbers(s, n);
    }

    if (*s->start == ' ' && s->start + 1 < s->end) {
        next = mst_split_bits(s, s->start + 1, &k);

        if ((next & (MST_UNICODE_L|MST_UNICODE_N|MST_UNICODE_S)) == 0) {
            mst_split_go_on(s, s->start + 1, MST_WORD_OTHER);
            return 0;
        }
    }

    mst_split_go_on(s, s->start, bits & MST_UNICODE_S ? MST_WORD_SPACE
                                                      : MST_WORD_OTHER);

    return 0;
}


/* follows the part to its end: 1, or 0 when the budget is used up */

static int
mst_split_word_follow(mst_split_t *s, size_t *budget)
{
    size_t                n, used;
    uint32_t              bits;
    const unsigned char  *p, *stop;

    p = s->pos;
    stop = (size_t) (s->end - p) > *budget ? p + *budget : s->end;

    while (p < stop) {
        bits = mst_split_bits(s, p, &n);

        if (!mst_split_belongs(s, p, bits)) {
            break;
        }

        s->last = p;

        /* the last place within capitals that could be a lower one, and the
           last line break within white space */

        if ((s->run == MST_WORD_UPPER && (bits & MST_UNICODE_LOWER))
            || (s->run == MST_WORD_SPACE && mst_split_is_break(*p)))
        {
            s->mark = p + n;
        }

        p += n;
    }

    used = (size_t) (p - s->pos);
    *budget -= used < *budget ? used : *budget;
    s->pos = p;

    return p < stop || p == s->end;
}


/* behind a part: NULL if another one follows, or where the piece ends */

static const unsigned char *
mst_split_word_end(mst_split_t *s)
{
    size_t  n;

    switch (s->run) {

    case MST_WORD_UPPER:
        if (s->pos < s->end
            && (mst_split_bits(s, s->pos, &n) & MST_UNICODE_LOWER))
        {
            s->run = MST_WORD_LOWER;
            return NULL;
        }

        return s->mark ? s->mark : s->pos;

    case MST_WORD_OTHER:
        s->run = MST_WORD_BREAKS;
        return NULL;

    case MST_WORD_SPACE:
        if (s->mark) {
            return s->mark;
        }

        return s->pos == s->end || s->last == s->start ? s->pos : s->last;

    default:
        return s->pos;
    }
}


int
mst_split_word(mst_split_t *s, size_t *budget, mst_str_t *piece)
{
    size_t                len;
    const unsigned char  *end;

    if (s->start == s->end) {
        return MST_DONE;
    }

    end = NULL;

    if (s->run < 0) {

        if (*budget == 0) {
            return MST_AGAIN;
        }

        s->mark = NULL;
        len = mst_split_word_begin(s);

        if (len) {
            end = s->start + len;
            --*budget;
        }
    }

    while (end == NULL) {
        if (!mst_split_word_follow(s, budget)) {
            return MST_AGAIN;
        }

        end = mst_split_word_end(s);
    }

    *piece = mst_str((const char *) s->start, (size_t) (end - s->start));
    s->start = end;
    s->run = -1;

    return MST_OK;
}
