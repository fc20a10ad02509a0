
/*
 * Pre-tokenizers of the kinds LLAMA3, QWEN2 and TEKKEN: see mst_split.h.
 *
 * A piece is known by its first two code points, but for how far it goes:
 * letters, punctuation and white space are followed in parts, so that the
 * budget may end anywhere.
 */

#include <string.h>

#include "text/mst_split.h"


#define MST_SPLIT_SHORT  96                    /* bytes */


/* the part that is being followed */
enum {
    MST_WORD_LETTERS = 0,      /* L+ */
    MST_WORD_UPPER,            /* U*, tekken */
    MST_WORD_LOWER,            /* W+ behind it */
    MST_WORD_OTHER,            /* [^\s\p{L}\p{N}]+ */
    MST_WORD_BREAKS,           /* line breaks behind it */
    MST_WORD_SPACE
};


/* ASCII in front of letters, part of their piece: a bit for each kind */

#define MST_SPLIT_SPACE_ONLY  (1 << MST_SPLIT_SMOLLM | 1 << MST_SPLIT_GPT2)
#define MST_SPLIT_NO_QUOTE    (1 << MST_SPLIT_LLAMA3 | 1 << MST_SPLIT_QWEN2)
#define MST_SPLIT_FRONT       (MST_SPLIT_NO_QUOTE | 1 << MST_SPLIT_TEKKEN)

static const unsigned char  mst_split_fronts[128] = {
    [0 ... '\t']       = MST_SPLIT_FRONT,
    [0xb ... 0xc]      = MST_SPLIT_FRONT,
    [0xe ... 0x1f]     = MST_SPLIT_FRONT,
    [' ']              = MST_SPLIT_FRONT | MST_SPLIT_SPACE_ONLY,
    ['!' ... '&']      = MST_SPLIT_FRONT,
    ['\'']             = 1 << MST_SPLIT_TEKKEN,
    ['(' ... '/']      = MST_SPLIT_FRONT,
    [':' ... '@']      = MST_SPLIT_FRONT,
    ['[' ... '`']      = MST_SPLIT_FRONT,
    ['{' ... 0x7f]     = MST_SPLIT_FRONT
};


static int
mst_split_is_break(unsigned char c)
{
    return c == '\r' || c == '\n';
}


/* a part is of code points with one of these bits; OTHER: with none; BREAKS
   goes by characters */

static const unsigned char  mst_split_parts[] = {
    [MST_WORD_LETTERS] = MST_UNICODE_L,
    [MST_WORD_UPPER]   = MST_UNICODE_UPPER,
    [MST_WORD_LOWER]   = MST_UNICODE_LOWER,
    [MST_WORD_OTHER]   = MST_UNICODE_L|MST_UNICODE_N|MST_UNICODE_S,
    [MST_WORD_BREAKS]  = 0,
    [MST_WORD_SPACE]   = MST_UNICODE_S
};


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


/* line breaks from p on */

static const unsigned char *
mst_split_breaks(const mst_split_t *s, const unsigned char *p,
    const unsigned char *stop)
{
    while (p < stop && (mst_split_is_break(*p)
                        || (*p == '/' && s->kind == MST_SPLIT_TEKKEN)))
    {
        p++;
    }

    return p;
}


/* the part's code points from p on */

static const unsigned char *
mst_split_run(mst_split_t *s, const unsigned char *p,
    const unsigned char *stop)
{
    int                   space;
    size_t                n;
    uint32_t              bits, marks, part, wanted;
    const unsigned char  *last, *mark;

    last = s->last;
    mark = s->mark;
    part = mst_split_parts[s->run];
    wanted = s->run != MST_WORD_OTHER;

    /* the last place within capitals that could be a lower one, and the last
       line break within white space */

    marks = s->run == MST_WORD_UPPER ? MST_UNICODE_LOWER : 0;
    space = s->run == MST_WORD_SPACE;

    while (p < stop) {
        bits = mst_split_bits(s, p, &n);

        if (((bits & part) != 0) != wanted) {
            break;
        }

        last = p;
        p += n;

        if ((bits & marks)
            || (space && mst_split_is_break(*last)))
        {
            mark = p;
        }
    }

    s->last = last;
    s->mark = mark;

    return p;
}


/* follows the part to its end: 1, or 0 when the budget is used up */

static int
mst_split_word_follow(mst_split_t *s, size_t *budget)
{
    size_t                used;
    const unsigned char  *p, *stop;

    stop = (size_t) (s->end - s->pos) > *budget ? s->pos + *budget : s->end;

    p = s->run == MST_WORD_BREAKS ? mst_split_breaks(s, s->pos, stop)
                                  : mst_split_run(s, s->pos, stop);

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


/* how many of the eight bytes at p are small letters, or, with fold 0x20,
   letters; little-endian */

static inline size_t
mst_split_eight(const unsigned char *p, uint64_t fold)
{
    uint64_t  low, no, w;

    memcpy(&w, p, sizeof(uint64_t));

    low = (w & 0x7f7f7f7f7f7f7f7full) | fold * 0x0101010101010101ull;
    no = (~(low + 0x1f1f1f1f1f1f1f1full) | (low + 0x0505050505050505ull) | w)
         & 0x8080808080808080ull;

    return no ? (size_t) __builtin_ctzll(no) / 8 : 8;
}


/* where letters that begin at p end; NULL: there are none, or the text's end
   or "stop" comes first */

static const unsigned char *
mst_split_plain(const mst_split_t *s, const unsigned char *p,
    const unsigned char *stop)
{
    size_t                n;
    uint32_t              bits, lower, upper;
    const unsigned char  *from, *mark;

    from = p;
    mark = NULL;
    n = 0;
    lower = s->kind == MST_SPLIT_TEKKEN ? MST_UNICODE_LOWER : 0;
    upper = lower ? MST_UNICODE_UPPER : MST_UNICODE_L;

    for (bits = 0; ; p += n) {
        mark = bits & lower ? p : mark;

        if (p >= stop) {
            return NULL;
        }

        bits = mst_split_bits(s, p, &n);

        if ((bits & upper) == 0) {
            break;
        }
    }

    if ((bits & lower) == 0) {
        p = mark ? mark : p;
        return p > from ? p : NULL;
    }

    do {
        p += n;

        if (p >= stop) {
            return NULL;
        }
    } while (mst_split_bits(s, p, &n) & lower);

    return p;
}


/* the same of a capital, or some, and small letters in ASCII; *p may be no
   such: what is there is behind them */

static const unsigned char *
mst_split_ascii(const mst_split_t *s, const unsigned char *p,
    const unsigned char *stop)
{
    int     tekken;
    size_t  n;

    tekken = s->kind == MST_SPLIT_TEKKEN;

    while (tekken && p < stop && *p >= 'A' && *p <= 'Z') {
        p++;
    }

    do {
        if (stop - p < 9) {
            return NULL;
        }

        n = mst_split_eight(p, tekken ? 0 : 0x20);
        p += n;
    } while (n == 8);

    return p;
}


/* where the letters of a piece begin, if it has some; NULL: it has none */

static inline const unsigned char *
mst_split_letter(const mst_split_t *s)
{
    size_t    n;
    uint32_t  bits;

    if (*s->start < 0x80) {
        return s->start + (mst_split_fronts[*s->start] >> s->kind & 1);
    }

    bits = mst_split_bits(s, s->start, &n);

    if (bits & MST_UNICODE_L) {
        return s->start;
    }

    return (bits & MST_UNICODE_N)
           || (s->kind != MST_SPLIT_LLAMA3 && s->kind != MST_SPLIT_QWEN2)
           ? NULL : s->start + n;
}


static inline const unsigned char *
mst_split_quick(const mst_split_t *s, size_t budget)
{
    size_t                n;
    const unsigned char  *p, *from, *stop;

    n = (size_t) (s->end - s->start);
    n = n < budget ? n : budget;
    stop = s->start + (n < MST_SPLIT_SHORT ? n : MST_SPLIT_SHORT);
    from = mst_split_letter(s);

    if (from == NULL || from >= stop) {
        return NULL;
    }

    if (*from < 0x80) {

        if ((*from | 0x20u) - 'a' > 'z' - 'a') {
            return NULL;
        }

        p = mst_split_ascii(s, from, stop);

        if (p == NULL || *p < 0x80) {
            return p;
        }
    }

    return mst_split_plain(s, from, stop);
}


const unsigned char *
mst_split_short(const mst_split_t *s, size_t budget)
{
    return mst_split_quick(s, budget);
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

        if (*s->start >= '0' && *s->start <= '9') {
            end = s->start + mst_split_numbers(s, 1);
            --*budget;
            goto found;
        }

        end = mst_split_quick(s, *budget);

        if (end) {
            *budget -= (size_t) (end - s->start);
            goto found;
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

found:

    *piece = mst_str((const char *) s->start, (size_t) (end - s->start));
    s->start = end;
    s->run = -1;

    return MST_OK;
}
