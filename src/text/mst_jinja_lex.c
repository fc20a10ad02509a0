
/*
 * Tokens of a template: see mst_jinja_lex.h.
 */

#include <string.h>

#include "text/mst_jinja_lex.h"
#include "text/mst_jinja_word.h"


static void
mst_jinja_lex_count(mst_jinja_word_t *l, const char *upto)
{
    for ( /* void */ ; l->counted < upto; l->counted++) {
        l->line += *l->counted == '\n';
    }
}


/* \r\n and \r are line ends too; one at the end of the text is none */

static mst_str_t
mst_jinja_lex_source(mst_work_t *w, mst_str_t source)
{
    char    *q;
    size_t   i, n;

    if (source.len == 0) {
        return mst_str("", 0);
    }

    q = mst_work_alloc(w, source.len);
    if (q == NULL) {
        return mst_str(NULL, 0);
    }

    for (i = 0, n = 0; i < source.len; i++) {

        if (source.data[i] == '\r') {
            q[n++] = '\n';
            i += i + 1 < source.len && source.data[i + 1] == '\n';

        } else {
            q[n++] = source.data[i];
        }
    }

    if (q[n - 1] == '\n') {
        n--;
    }

    return mst_str(q, n);
}


/* past the white space that begins at p, of other scripts too */

static const char *
mst_jinja_lex_space(const char *p, const char *end)
{
    size_t  n;

    while (p < end && mst_text_is_space(mst_text_decode(p, end, &n))) {
        p += n;
    }

    return p;
}


/* where the white space that ends at "end" begins */

static const char *
mst_jinja_lex_space_back(const char *start, const char *end)
{
    size_t       n;
    const char  *p;

    while (end > start) {

        for (p = end - 1; p > start && ((unsigned char) *p & 0xc0) == 0x80;
             p--)
        {
            /* void */
        }

        if (!mst_text_is_space(mst_text_decode(p, end, &n))) {
            break;
        }

        end = p;
    }

    return end;
}


/* the text before a tag whose sign is one of '-', '+' and 0 */

static int
mst_jinja_lex_data(mst_jinja_word_t *l, const char *start, const char *end,
    char sign, int print)
{
    const char  *p, *nl;

    if (sign == '-') {
        end = mst_jinja_lex_space_back(start, end);

    } else if (sign == 0 && !print) {
        nl = memrchr(start, '\n', (size_t) (end - start));
        p = nl ? nl + 1 : start;

        if ((nl || l->line_start) && mst_jinja_lex_space(p, end) == end) {
            end = p;
        }
    }

    if (end == start) {
        return MST_OK;
    }

    return mst_jinja_word_add_str(l, MST_JINJA_DATA, start,
                                 (size_t) (end - start));
}


static char
mst_jinja_lex_sign(const char *p, const char *end)
{
    return p < end && (*p == '-' || *p == '+') ? *p : 0;
}


/* l->p stands on the end of a tag: past it and what it swallows */

static int
mst_jinja_lex_close(mst_jinja_word_t *l, const char *mark, int trim)
{
    char         sign;
    const char  *p;

    p = l->p;
    sign = mst_jinja_lex_sign(p, l->end);
    p += sign != 0;

    if (l->end - p < 2 || p[0] != mark[0] || p[1] != mark[1]
        || (sign == '+' && !trim))
    {
        return 0;
    }

    p += 2;

    if (sign == '-') {
        p = mst_jinja_lex_space(p, l->end);

    } else if (sign == 0 && trim && p < l->end && *p == '\n') {
        p++;
    }

    l->p = p;
    l->line_start = p[-1] == '\n';

    return 1;
}


static int
mst_jinja_lex_comment(mst_jinja_word_t *l)
{
    for ( /* void */ ; l->p < l->end; l->p++) {

        if (mst_jinja_lex_close(l, "#}", 1)) {
            return MST_OK;
        }
    }

    return mst_jinja_word_error(l, "a comment is not closed");
}


/* "{% raw %}" from "%}" on, or not one: p behind "{%" and its sign */

static const char *
mst_jinja_lex_raw_begin(const char *p, const char *end)
{
    p = mst_jinja_lex_space(p, end);

    if (end - p < 3 || memcmp(p, "raw", 3) != 0) {
        return NULL;
    }

    p = mst_jinja_lex_space(p + 3, end);

    if (end - p >= 3 && memcmp(p, "-%}", 3) == 0) {
        return mst_jinja_lex_space(p + 3, end);
    }

    return end - p >= 2 && memcmp(p, "%}", 2) == 0 ? p + 2 : NULL;
}


static int
mst_jinja_lex_raw(mst_jinja_word_t *l)
{
    char         sign;
    const char  *p, *q, *start;

    start = l->p;
    l->line_start = start[-1] == '\n';

    for (p = start; p < l->end; p++) {
        p = memmem(p, (size_t) (l->end - p), "{%", 2);

        if (p == NULL) {
            break;
        }

        sign = mst_jinja_lex_sign(p + 2, l->end);
        q = mst_jinja_lex_space(p + 2 + (sign != 0), l->end);

        if (l->end - q < 6 || memcmp(q, "endraw", 6) != 0) {
            continue;
        }

        l->p = mst_jinja_lex_space(q + 6, l->end);

        if (mst_jinja_lex_data(l, start, p, sign, 0) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_jinja_lex_close(l, "%}", 1)) {
            return MST_OK;
        }

        break;
    }

    return mst_jinja_word_error(l, "{% raw %} is not closed");
}


/* the words of a tag up to its end */

static int
mst_jinja_word_tag(mst_jinja_word_t *l, int print)
{
    const char              *mark;
    mst_jinja_token_type_t   type;

    mark = print ? "}}" : "%}";
    type = print ? MST_JINJA_PRINT_END : MST_JINJA_TAG_END;

    if (mst_jinja_word_add(l, print ? MST_JINJA_PRINT : MST_JINJA_TAG, 0,
                          mst_value(MST_VALUE_NONE))
        != MST_OK)
    {
        return MST_ERROR;
    }

    for ( ;; ) {
        mst_jinja_lex_count(l, l->p);

        if (l->p == l->end) {
            return mst_jinja_word_error(l, print ? "{{ is not closed"
                                       : "{% is not closed");
        }

        if (l->nest == 0 && mst_jinja_lex_close(l, mark, !print)) {
            return mst_jinja_word_add(l, type, 0, mst_value(MST_VALUE_NONE));
        }

        if (mst_jinja_lex_space(l->p, l->end) > l->p) {
            l->p = mst_jinja_lex_space(l->p, l->end);
            continue;
        }

        if (mst_jinja_word(l) != MST_OK) {
            return MST_ERROR;
        }
    }
}


/* text up to the next tag, and the tag */

static int
mst_jinja_lex_next(mst_jinja_word_t *l)
{
    char         sign, kind;
    const char  *p, *raw, *start;

    start = l->p;

    for (p = start; ; p++) {
        p = memchr(p, '{', (size_t) (l->end - p));

        if (p == NULL || l->end - p < 2) {
            l->p = l->end;
            return mst_jinja_lex_data(l, start, l->end, '+', 0);
        }

        if (p[1] == '{' || p[1] == '%' || p[1] == '#') {
            break;
        }
    }

    kind = p[1];
    sign = mst_jinja_lex_sign(p + 2, l->end);

    if (mst_jinja_lex_data(l, start, p, sign, kind == '{') != MST_OK) {
        return MST_ERROR;
    }

    l->p = p + 2 + (sign != 0);
    mst_jinja_lex_count(l, l->p);

    if (kind == '#') {
        return mst_jinja_lex_comment(l);
    }

    raw = kind == '%' ? mst_jinja_lex_raw_begin(l->p, l->end) : NULL;

    if (raw) {
        l->p = raw;
        return mst_jinja_lex_raw(l);
    }

    return mst_jinja_word_tag(l, kind == '{');
}


mst_jinja_token_t *
mst_jinja_lex(mst_work_t *w, mst_str_t source)
{
    mst_jinja_word_t  l;

    memset(&l, 0, sizeof(mst_jinja_word_t));

    source = mst_jinja_lex_source(w, source);

    if (source.data == NULL) {
        return NULL;
    }

    l.w = w;
    l.p = source.data;
    l.end = source.data + source.len;
    l.counted = l.p;
    l.line = 1;
    l.line_start = 1;

    while (l.p < l.end) {

        if (mst_jinja_lex_next(&l) != MST_OK) {
            return NULL;
        }

        mst_jinja_lex_count(&l, l.p);
    }

    if (mst_jinja_word_add(&l, MST_JINJA_END, 0, mst_value(MST_VALUE_NONE))
        != MST_OK)
    {
        return NULL;
    }

    return l.tokens;
}
