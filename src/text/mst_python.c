
/*
 * Python's spelling of values: see mst_python.h.
 */

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_python.h"


#define MST_PYTHON_DIGITS  17


static int mst_python_repr(mst_work_t *w, mst_value_t v, mst_text_out_t *out,
    int depth);


/*
 * The digits of x > 0 without trailing zeroes, at most seventeen, and the
 * power of ten of the first: the fewest that read back as x.  Of a power of
 * two the nearest sixteen may lie outside of its (lopsided) interval and
 * those above inside.
 */

static int
mst_python_digits(double x, char *digits, int *exp10)
{
    int   i, n, digit;
    char  text[40];

    /* fifteen are always kept, but by numbers too small to have them */

    for (n = x < DBL_MIN ? 1 : 15; n <= MST_PYTHON_DIGITS; n++) {
        (void) snprintf(text, sizeof(text), "%.*e", n - 1, x);

        if (n == MST_PYTHON_DIGITS || strtod(text, NULL) == x) {
            break;
        }

        if (n < 16) {
            continue;
        }

        for (i = n; i > 1 && text[i] == '9'; i--) {
            /* void */
        }

        if (i > 1) {
            text[i]++;
            memset(text + i + 1, '0', (size_t) (n - i));

            if (strtod(text, NULL) == x) {
                break;
            }
        }
    }

    *exp10 = atoi(strchr(text, 'e') + 1);
    digit = 0;

    for (i = 0; text[i] != 'e'; i++) {

        if (text[i] != '.') {
            digits[digit++] = text[i];
        }
    }

    while (digit > 1 && digits[digit - 1] == '0') {
        digit--;
    }

    return digit;
}


size_t
mst_python_float(double x, char *text)
{
    int    i, n, exp10;
    char  *p, digits[MST_PYTHON_DIGITS + 2];

    p = text;

    if (isnan(x)) {
        return (size_t) snprintf(text, MST_PYTHON_FLOAT, "nan");
    }

    if (signbit(x)) {
        *p++ = '-';
        x = -x;
    }

    if (isinf(x)) {
        return (size_t) (p - text) + (size_t) sprintf(p, "inf");
    }

    if (x == 0) {
        return (size_t) (p - text) + (size_t) sprintf(p, "0.0");
    }

    n = mst_python_digits(x, digits, &exp10);

    if (exp10 < -4 || exp10 >= 16) {
        *p++ = digits[0];

        if (n > 1) {
            *p++ = '.';
            memcpy(p, digits + 1, (size_t) n - 1);
            p += n - 1;
        }

        p += sprintf(p, "e%c%02d", exp10 < 0 ? '-' : '+', abs(exp10));

        return (size_t) (p - text);
    }

    if (exp10 < 0) {
        p += sprintf(p, "0.%.*s", -exp10 - 1, "000");
        memcpy(p, digits, (size_t) n);
        p += n;

    } else {

        for (i = 0; i < n || i < exp10 + 2; i++) {

            if (i == exp10 + 1) {
                *p++ = '.';
            }

            *p++ = i < n ? digits[i] : '0';
        }
    }

    *p = '\0';

    return (size_t) (p - text);
}


/* whether repr() shows the character itself: what Unicode has not assigned is
   shown, which Python would escape */

static int
mst_python_printable(uint32_t cp)
{
    size_t  i;

    static const uint32_t  hidden[][2] = {
        { 0x00, 0x1f }, { 0x7f, 0xa0 }, { 0xad, 0xad }, { 0x600, 0x605 },
        { 0x61c, 0x61c }, { 0x6dd, 0x6dd }, { 0x70f, 0x70f },
        { 0x890, 0x891 }, { 0x8e2, 0x8e2 }, { 0x1680, 0x1680 },
        { 0x180e, 0x180e }, { 0x2000, 0x200f }, { 0x2028, 0x202f },
        { 0x205f, 0x206f }, { 0x3000, 0x3000 }, { 0xd800, 0xf8ff },
        { 0xfdd0, 0xfdef }, { 0xfeff, 0xfeff }, { 0xfff0, 0xfffb },
        { 0xfffe, 0xffff }, { 0x110bd, 0x110bd }, { 0x110cd, 0x110cd },
        { 0x13430, 0x13438 }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
        { 0x1fffe, 0x1ffff }, { 0xe0000, 0xe00ff }, { 0xe01f0, 0x10ffff }
    };

    for (i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {

        if (cp >= hidden[i][0] && cp <= hidden[i][1]) {
            return 0;
        }
    }

    return 1;
}


static int
mst_python_put(mst_work_t *w, mst_text_out_t *out, const char *s)
{
    return mst_text_out_bytes(out, w, s, strlen(s), MST_TEXT_VALUE);
}


static int
mst_python_escape(mst_work_t *w, mst_text_out_t *out, uint32_t cp)
{
    size_t  i;
    char    text[16];

    static const char  plain[][2] = {
        { '\n', 'n' }, { '\r', 'r' }, { '\t', 't' }, { '\\', '\\' },
        { '\'', '\'' }
    };

    for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {

        if (cp == (uint32_t) plain[i][0]) {
            (void) snprintf(text, sizeof(text), "\\%c", plain[i][1]);
            return mst_python_put(w, out, text);
        }
    }

    (void) snprintf(text, sizeof(text), cp < 0x100 ? "\\x%02x"
                    : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);

    return mst_python_put(w, out, text);
}


static int
mst_python_quote(mst_work_t *w, const mst_text_t *t, mst_text_out_t *out)
{
    char        quote[2];
    size_t      i, n, from;
    uint32_t    cp;
    const char  *end;

    /* double quotation marks only where they spare an escape */

    quote[0] = mst_text_find(t, mst_str("'", 1), 0) >= 0
               && mst_text_find(t, mst_str("\"", 1), 0) < 0 ? '"' : '\'';
    quote[1] = '\0';

    if (mst_python_put(w, out, quote) != MST_OK) {
        return MST_ERROR;
    }

    end = t->data + t->len;

    for (i = 0, from = 0; i < t->len; i += n) {
        cp = mst_text_decode(t->data + i, end, &n);

        if ((cp >= 0x80 ? mst_python_printable(cp)
                        : cp >= 0x20 && cp < 0x7f && cp != '\\')
            && (cp != '\'' || quote[0] == '"'))
        {
            continue;
        }

        if (mst_text_out_bytes(out, w, t->data + from, i - from,
                               MST_TEXT_VALUE)
            != MST_OK
            || mst_python_escape(w, out, cp) != MST_OK)
        {
            return MST_ERROR;
        }

        from = i + n;
    }

    if (mst_work_steps(w, t->len / 32) != MST_OK
        || mst_text_out_bytes(out, w, t->data + from, t->len - from,
                              MST_TEXT_VALUE)
           != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_python_put(w, out, quote);
}


static int
mst_python_list(mst_work_t *w, mst_value_t v, mst_text_out_t *out, int depth)
{
    size_t      i;
    mst_list_t  *list;

    list = v.u.list;

    if (mst_python_put(w, out, v.type == MST_VALUE_LIST ? "["
                       : v.type == MST_VALUE_TUPLE ? "(" : "dict_items([")
        != MST_OK)
    {
        return MST_ERROR;
    }

    for (i = 0; i < list->n; i++) {

        if ((i && mst_python_put(w, out, ", ") != MST_OK)
            || mst_python_repr(w, list->items[i], out, depth + 1) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return mst_python_put(w, out, v.type == MST_VALUE_LIST ? "]"
                          : v.type == MST_VALUE_VIEW ? "])"
                          : list->n == 1 ? ",)" : ")");
}


static int
mst_python_dict(mst_work_t *w, const mst_dict_t *d, mst_text_out_t *out,
    int depth)
{
    size_t  i;

    for (i = 0; i < d->n; i++) {

        if (mst_python_put(w, out, i ? ", " : "{") != MST_OK
            || mst_python_repr(w, d->entries[i].key, out, depth + 1)
               != MST_OK
            || mst_python_put(w, out, ": ") != MST_OK
            || mst_python_repr(w, d->entries[i].value, out, depth + 1)
               != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return mst_python_put(w, out, d->n ? "}" : "{}");
}


static int
mst_python_repr(mst_work_t *w, mst_value_t v, mst_text_out_t *out, int depth)
{
    char  text[MST_PYTHON_FLOAT];

    if (mst_work_steps(w, 1) != MST_OK) {
        return MST_ERROR;
    }

    if (depth > MST_VALUE_DEPTH) {
        return mst_err_set(w->err, "a value is nested too deeply to be "
                           "written");
    }

    switch (v.type) {

    case MST_VALUE_UNDEFINED:
    case MST_VALUE_ABSENT:
        return mst_python_put(w, out, "Undefined");

    case MST_VALUE_NONE:
        return mst_python_put(w, out, "None");

    case MST_VALUE_BOOL:
        return mst_python_put(w, out, v.u.n ? "True" : "False");

    case MST_VALUE_INT:
        (void) snprintf(text, sizeof(text), "%lld", (long long) v.u.n);
        return mst_python_put(w, out, text);

    case MST_VALUE_FLOAT:
        (void) mst_python_float(v.u.x, text);

        return mst_work_steps(w, 64) == MST_OK ? mst_python_put(w, out, text)
                                               : MST_ERROR;

    case MST_VALUE_BIG:
        return mst_text_out_add(out, w, v.u.text);

    case MST_VALUE_TEXT:
        if (mst_text_flat(w, v.u.text) != MST_OK) {
            return MST_ERROR;
        }

        if (!v.u.text->markup) {
            return mst_python_quote(w, v.u.text, out);
        }

        return mst_python_put(w, out, "Markup(") == MST_OK
               && mst_python_quote(w, v.u.text, out) == MST_OK
               ? mst_python_put(w, out, ")") : MST_ERROR;

    case MST_VALUE_LIST:
    case MST_VALUE_TUPLE:
    case MST_VALUE_VIEW:
        return mst_python_list(w, v, out, depth);

    case MST_VALUE_DICT:
        return mst_python_dict(w, v.u.dict, out, depth);

    case MST_VALUE_NAMESPACE:
        return mst_python_put(w, out, "<Namespace ") == MST_OK
               && mst_python_dict(w, v.u.dict, out, depth) == MST_OK
               ? mst_python_put(w, out, ">") : MST_ERROR;

    default:
        return mst_err_set(w->err, "a %s cannot be written",
                           mst_value_kind(v));
    }
}


int
mst_python_write(mst_work_t *w, mst_value_t v, mst_text_out_t *out)
{
    switch (v.type) {

    case MST_VALUE_TEXT:
        return mst_text_out_add(out, w, v.u.text);

    case MST_VALUE_UNDEFINED:
    case MST_VALUE_ABSENT:
        return MST_OK;

    default:
        return mst_python_repr(w, v, out, 0);
    }
}


mst_text_t *
mst_python_str(mst_work_t *w, mst_value_t v)
{
    int             rc;
    mst_text_t     *t;
    mst_text_out_t  out;

    if (v.type == MST_VALUE_TEXT) {
        return v.u.text;
    }

    mst_text_out_init(&out);

    rc = mst_python_write(w, v, &out);
    t = rc == MST_OK ? mst_text_out_take(&out, w) : NULL;

    mst_text_out_fini(&out);

    return t;
}
