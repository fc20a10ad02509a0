
/*
 * Words of a template's tags: see mst_jinja_word.h.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_jinja_word.h"


#define MST_JINJA_WORD_NUMBER  64      /* bytes */


int
mst_jinja_word_error(mst_jinja_word_t *l, const char *what)
{
    return mst_err_set(l->w->err, "line %u: %s", l->line, what);
}


int
mst_jinja_word_add(mst_jinja_word_t *l, mst_jinja_token_type_t type,
    uint32_t op, mst_value_t value)
{
    size_t              size;
    mst_jinja_token_t  *tokens;

    if (l->n == l->size) {
        size = l->size ? l->size * 2 : 256;
        tokens = mst_work_array(l->w, size, sizeof(mst_jinja_token_t));

        if (tokens == NULL) {
            return MST_ERROR;
        }

        if (l->n) {
            memcpy(tokens, l->tokens, l->n * sizeof(mst_jinja_token_t));
        }

        l->tokens = tokens;
        l->size = size;
    }

    l->tokens[l->n].type = type;
    l->tokens[l->n].op = op;
    l->tokens[l->n].line = l->line;
    l->tokens[l->n++].value = value;

    return MST_OK;
}


int
mst_jinja_word_add_str(mst_jinja_word_t *l, mst_jinja_token_type_t type,
    const char *data, size_t len)
{
    mst_value_t  v;

    if (mst_value_str(l->w, data, len, MST_TEXT_TEMPLATE, &v) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_word_add(l, type, 0, v);
}


static int
mst_jinja_word_hex(const char *p, const char *end, size_t n, uint32_t *cp)
{
    size_t  i;
    char    c;

    if ((size_t) (end - p) < n) {
        return 0;
    }

    for (i = 0, *cp = 0; i < n; i++) {
        c = p[i];

        if (c >= '0' && c <= '9') {
            c = (char) (c - '0');

        } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
            c = (char) ((c | 32) - 'a' + 10);

        } else {
            return 0;
        }

        *cp = *cp << 4 | (uint32_t) c;
    }

    return 1;
}


/* behind a backslash: the character that it means, its source in *n bytes;
   0: not one, the backslash stays */

static int
mst_jinja_word_escape(mst_jinja_word_t *l, const char *p, const char *end,
    uint32_t *cp, size_t *n)
{
    size_t       size;
    const char  *at;

    static const char  from[] = "ntr\\'\"abfv";
    static const char  to[] = "\n\t\r\\'\"\a\b\f\v";

    at = memchr(from, *p, sizeof(from) - 1);

    if (at) {
        *cp = (uint32_t) to[at - from];
        *n = 1;
        return 1;
    }

    if (*p >= '0' && *p <= '7') {

        for (*cp = 0, *n = 0; *n < 3 && p + *n < end; ++*n) {

            if (p[*n] < '0' || p[*n] > '7') {
                break;
            }

            *cp = *cp * 8 + (uint32_t) (p[*n] - '0');
        }

        return 1;
    }

    size = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;

    if (size) {

        if (!mst_jinja_word_hex(p + 1, end, size, cp) || *cp > 0x10ffff
            || (*cp >= 0xd800 && *cp < 0xe000))
        {
            return mst_jinja_word_error(l, "a string has an escape that is no "
                                       "character");
        }

        *n = 1 + size;

        return 1;
    }

    if (*p == 'N') {
        return mst_jinja_word_error(l, "\\N{...} in a string is not "
                                   "supported");
    }

    return 0;
}


static int
mst_jinja_word_string(mst_jinja_word_t *l)
{
    int          rc;
    char        *copy, *q;
    size_t       n;
    uint32_t     cp;
    const char  *p, *end, *start;

    cp = 0;

    start = l->p + 1;

    for (end = start; end < l->end && *end != *l->p; end++) {
        end += *end == '\\' && end + 1 < l->end;
    }

    if (end >= l->end) {
        return mst_jinja_word_error(l, "a string is not closed");
    }

    copy = mst_work_alloc(l->w, (size_t) (end - start) + 4);
    if (copy == NULL) {
        return MST_ERROR;
    }

    for (p = start, q = copy; p < end; /* void */) {

        if (*p != '\\') {
            *q++ = *p++;
            continue;
        }

        p++;

        if (*p == '\n') {
            p++;
            continue;
        }

        rc = mst_jinja_word_escape(l, p, end, &cp, &n);

        if (rc == MST_ERROR) {
            return MST_ERROR;
        }

        if (rc == 0) {
            *q++ = '\\';
            continue;
        }

        p += n;
        mst_text_encode(cp, q, &n);
        q += n;
    }

    l->p = end + 1;

    return mst_jinja_word_add_str(l, MST_JINJA_STRING, copy,
                                 (size_t) (q - copy));
}


/* digits that may be parted by single underscores; past them */

static const char *
mst_jinja_word_digits(const char *p, const char *end)
{
    const char  *start;

    for (start = p; p < end; p++) {

        if (*p == '_' && p > start && p + 1 < end && p[1] >= '0'
            && p[1] <= '9')
        {
            continue;
        }

        if (*p < '0' || *p > '9') {
            break;
        }
    }

    return p;
}


static int
mst_jinja_word_float(mst_jinja_word_t *l, const char **stop)
{
    int          real;
    const char  *p, *q;

    p = mst_jinja_word_digits(l->p, l->end);
    real = 0;

    if (p < l->end && *p == '.') {
        q = mst_jinja_word_digits(p + 1, l->end);

        if (q > p + 1) {
            p = q;
            real = 1;
        }
    }

    if (p < l->end && (*p == 'e' || *p == 'E')) {
        q = p + 1;
        q += q < l->end && (*q == '+' || *q == '-');

        if (mst_jinja_word_digits(q, l->end) > q) {
            p = mst_jinja_word_digits(q, l->end);
            real = 1;
        }
    }

    *stop = p;

    return real;
}


static int
mst_jinja_word_number(mst_jinja_word_t *l)
{
    int          real, base;
    char         text[MST_JINJA_WORD_NUMBER];
    char        *q;
    long long    n;
    const char  *p, *stop;

    real = mst_jinja_word_float(l, &stop);
    base = 10;
    p = l->p;

    if (!real && *p == '0' && p + 1 < l->end) {
        base = (p[1] | 32) == 'x' ? 16 : (p[1] | 32) == 'o' ? 8
               : (p[1] | 32) == 'b' ? 2 : 10;

        if (base != 10) {
            p += 2;

            for (stop = p; stop < l->end; stop++) {

                if (*stop != '_' && !(*stop >= '0' && *stop <= '9')
                    && !((*stop | 32) >= 'a' && (*stop | 32) <= 'f'))
                {
                    break;
                }
            }
        }
    }

    for (q = text; p < stop && q < text + sizeof(text) - 1; p++) {

        if (*p != '_') {
            *q++ = *p;
        }
    }

    *q = '\0';
    errno = 0;

    if (real) {
        l->p = stop;
        return mst_jinja_word_add(l, MST_JINJA_NUMBER, 0,
                                 mst_value_float(strtod(text, NULL)));
    }

    n = strtoll(text, &q, base);

    if (p < stop || *q || q == text || errno
        || (base == 10 && text[0] == '0' && n != 0))
    {
        return mst_jinja_word_error(l, "a number is malformed or too large");
    }

    l->p = stop;

    return mst_jinja_word_add(l, MST_JINJA_NUMBER, 0, mst_value_int(n));
}


static int
mst_jinja_word_operator(mst_jinja_word_t *l)
{
    char      c;
    size_t    i;
    uint32_t  op;

    static const char  pairs[][3] = { "//", "**", "==", "!=", "<=", ">=" };

    c = *l->p;
    op = (unsigned char) c;

    for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {

        if (l->end - l->p > 1 && memcmp(l->p, pairs[i], 2) == 0) {
            op = MST_JINJA_OP(pairs[i][0], pairs[i][1]);
        }
    }

    if (c == '\0' || strchr("+-*/%~[](){}<>=.:|,;!", c) == NULL
        || op == '!')
    {
        return mst_jinja_word_error(l, "a character is not expected here");
    }

    if (c == '(' || c == '[' || c == '{') {

        if (l->nest == MST_JINJA_WORD_NEST) {
            return mst_jinja_word_error(l, "brackets are nested too deeply");
        }

        l->close[l->nest++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    }

    if ((c == ')' || c == ']' || c == '}')
        && (l->nest == 0 || l->close[--l->nest] != c))
    {
        return mst_jinja_word_error(l, "a bracket closes nothing");
    }

    l->p += op > 0xff ? 2 : 1;

    return mst_jinja_word_add(l, MST_JINJA_OPERATOR, op,
                             mst_value(MST_VALUE_NONE));
}


static int
mst_jinja_word_is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
           || (c >= '0' && c <= '9') || c == '_';
}


int
mst_jinja_word(mst_jinja_word_t *l)
{
    const char  *start;

    if (*l->p == '\'' || *l->p == '"') {
        return mst_jinja_word_string(l);
    }

    if (*l->p >= '0' && *l->p <= '9') {
        return mst_jinja_word_number(l);
    }

    if (!mst_jinja_word_is_name(*l->p)) {
        return mst_jinja_word_operator(l);
    }

    start = l->p;

    while (l->p < l->end && mst_jinja_word_is_name(*l->p)) {
        l->p++;
    }

    return mst_jinja_word_add_str(l, MST_JINJA_NAME, start,
                                 (size_t) (l->p - start));
}
