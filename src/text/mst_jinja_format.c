
/*
 * "%s has %d" % values: see mst_jinja_run.h.  The conversions that templates
 * use: %s %r %d %i %f %x %%, with a width, a precision and the flags "-",
 * "0" and "+".
 */

#include <stdio.h>
#include <string.h>

#include "text/mst_jinja_run.h"


#define MST_JINJA_FORMAT_WIDTH  100


typedef struct {
    mst_jinja_run_t    *r;
    mst_text_out_t     *out;
    const mst_text_t   *format;
    const mst_value_t  *v;         /* [n], the next first */
    size_t              n;
    size_t              at;        /* in format */
    int                 minus;
    int                 zero;
    int                 plus;
    size_t              width;
    int                 precision; /* -1: none */
} mst_jinja_format_t;


static int
mst_jinja_format_copy(mst_jinja_format_t *f, size_t from, size_t to)
{
    mst_text_t  *part;

    part = mst_text_part(f->r->w, f->format, from, to - from);

    return part ? mst_text_out_add(f->out, f->r->w, part) : MST_ERROR;
}


static int
mst_jinja_format_pad(mst_jinja_format_t *f, size_t n, char c)
{
    for ( /* void */ ; n; n--) {

        if (mst_text_out_bytes(f->out, f->r->w, &c, 1, MST_TEXT_TEMPLATE)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static char
mst_jinja_format_peek(const mst_jinja_format_t *f)
{
    return f->at < f->format->len ? f->format->data[f->at] : '\0';
}


static size_t
mst_jinja_format_count(mst_jinja_format_t *f)
{
    char    c;
    size_t  n;

    for (n = 0; ; f->at++) {
        c = mst_jinja_format_peek(f);

        if (c < '0' || c > '9') {
            return n;
        }

        n = n < 1000 ? n * 10 + (size_t) (c - '0') : n;
    }
}


/* "-08.2" behind "%" */

static int
mst_jinja_format_flags(mst_jinja_format_t *f)
{
    char  c;

    f->minus = 0;
    f->zero = 0;
    f->plus = 0;
    f->precision = -1;

    for ( ;; f->at++) {
        c = mst_jinja_format_peek(f);

        if (c != '-' && c != '0' && c != '+') {
            break;
        }

        f->minus |= c == '-';
        f->zero |= c == '0';
        f->plus |= c == '+';
    }

    f->width = mst_jinja_format_count(f);

    if (mst_jinja_format_peek(f) == '.') {
        f->at++;
        f->precision = (int) mst_jinja_format_count(f);
    }

    if (f->width > MST_JINJA_FORMAT_WIDTH
        || f->precision > MST_JINJA_FORMAT_WIDTH)
    {
        return mst_jinja_fail(f->r, "a format is wider than %d",
                              MST_JINJA_FORMAT_WIDTH);
    }

    return MST_OK;
}


static int
mst_jinja_format_text(mst_jinja_format_t *f, mst_text_t *t)
{
    size_t  n;

    if (mst_text_flat(f->r->w, t) != MST_OK) {
        return MST_ERROR;
    }

    if (f->precision >= 0) {
        t = mst_text_part(f->r->w, t, 0,
                          mst_text_offset(t, (size_t) f->precision));
        if (t == NULL) {
            return MST_ERROR;
        }
    }

    n = mst_text_chars(t);
    n = n < f->width ? f->width - n : 0;

    if ((!f->minus && mst_jinja_format_pad(f, n, ' ') != MST_OK)
        || mst_text_out_add(f->out, f->r->w, t) != MST_OK)
    {
        return MST_ERROR;
    }

    return f->minus ? mst_jinja_format_pad(f, n, ' ') : MST_OK;
}


static int
mst_jinja_format_number(mst_jinja_format_t *f, char c, mst_value_t v)
{
    int          sign;
    char         text[512];
    size_t       n;
    const char  *p;

    if (!mst_value_is_number(v)
        || ((c == 'x' || c == 'X') && v.type == MST_VALUE_FLOAT))
    {
        return mst_jinja_fail(f->r, "%%%c needs a number, not a value of "
                              "type %s", c, mst_value_kind(v));
    }

    if (c == 'f') {
        n = (size_t) snprintf(text, sizeof(text), f->plus ? "%+.*f" : "%.*f",
                              f->precision < 0 ? 6 : f->precision,
                              mst_value_double(v));

    } else {

        if (v.type == MST_VALUE_FLOAT && !(v.u.x > -9e18 && v.u.x < 9e18)) {
            return mst_jinja_fail(f->r, "a number is too large for %%%c", c);
        }

        v.u.n = v.type == MST_VALUE_FLOAT ? (int64_t) v.u.x : v.u.n;

        n = (size_t) snprintf(text, sizeof(text), c == 'd' || c == 'i'
                              ? (f->plus ? "%+lld" : "%lld")
                              : c == 'x' ? "%llx" : "%llX",
                              (long long) v.u.n);
    }

    p = text;
    sign = text[0] == '-' || text[0] == '+';

    if (f->zero && !f->minus && n < f->width) {

        if (mst_text_out_bytes(f->out, f->r->w, p, (size_t) sign,
                               MST_TEXT_VALUE)
            != MST_OK
            || mst_jinja_format_pad(f, f->width - n, '0') != MST_OK)
        {
            return MST_ERROR;
        }

        return mst_text_out_bytes(f->out, f->r->w, p + sign,
                                  n - (size_t) sign, MST_TEXT_VALUE);
    }

    if ((!f->minus && n < f->width
         && mst_jinja_format_pad(f, f->width - n, ' ') != MST_OK)
        || mst_text_out_bytes(f->out, f->r->w, p, n, MST_TEXT_VALUE)
           != MST_OK)
    {
        return MST_ERROR;
    }

    return f->minus && n < f->width
           ? mst_jinja_format_pad(f, f->width - n, ' ') : MST_OK;
}


static int
mst_jinja_format_repr(mst_jinja_format_t *f, mst_value_t v)
{
    mst_list_t   list;
    mst_text_t  *t;

    /* the list of one, without its brackets: its item's repr() */

    list.items = &v;
    list.n = 1;
    t = mst_python_str(f->r->w, mst_value_list(MST_VALUE_LIST, &list));

    if (t == NULL) {
        return MST_ERROR;
    }

    t = mst_text_part(f->r->w, t, 1, t->len - 2);

    return t ? mst_jinja_format_text(f, t) : MST_ERROR;
}


static int
mst_jinja_format_one(mst_jinja_format_t *f)
{
    char         c;
    mst_text_t  *t;
    mst_value_t  v;

    if (mst_jinja_format_flags(f) != MST_OK) {
        return MST_ERROR;
    }

    c = mst_jinja_format_peek(f);
    f->at++;

    if (c == '%') {
        return mst_jinja_format_copy(f, f->at - 1, f->at);
    }

    if (c == '\0' || strchr("srdifxX", c) == NULL) {
        return mst_jinja_fail(f->r, "a format has %%%c, which is not "
                              "supported", c > ' ' && c < 127 ? c : '?');
    }

    if (f->n == 0) {
        return mst_jinja_fail(f->r, "a format has more places than values");
    }

    v = *f->v++;
    f->n--;

    if (c == 'r') {
        return mst_jinja_format_repr(f, v);
    }

    if (c != 's') {
        return mst_jinja_format_number(f, c, v);
    }

    t = mst_python_str(f->r->w, v);

    return t ? mst_jinja_format_text(f, t) : MST_ERROR;
}


static int
mst_jinja_format_all(mst_jinja_format_t *f)
{
    int64_t  next;

    while (f->at < f->format->len) {
        next = mst_text_find(f->format, mst_str("%", 1), f->at);

        if (next < 0) {
            next = (int64_t) f->format->len;
        }

        if (mst_jinja_format_copy(f, f->at, (size_t) next) != MST_OK) {
            return MST_ERROR;
        }

        f->at = (size_t) next + 1;

        if (f->at <= f->format->len && mst_jinja_format_one(f) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_jinja_format(mst_jinja_run_t *r, mst_text_t *format,
    const mst_value_t *v, size_t n, int loose, mst_value_t *result)
{
    int                 rc;
    mst_text_t         *t;
    mst_value_t        *escaped;
    mst_text_out_t      out;
    mst_jinja_format_t  f;

    if (mst_text_flat(r->w, format) != MST_OK) {
        return MST_ERROR;
    }

    if (format->markup) {
        if (mst_jinja_escape_args(r, v, n, &escaped) != MST_OK) {
            return MST_ERROR;
        }

        v = escaped;
    }

    memset(&f, 0, sizeof(mst_jinja_format_t));
    mst_text_out_init(&out);

    f.r = r;
    f.out = &out;
    f.format = format;
    f.v = v;
    f.n = n;

    rc = mst_jinja_format_all(&f);

    if (rc == MST_OK && f.n && !loose) {
        rc = mst_jinja_fail(r, "a format has fewer places than values");
    }

    t = rc == MST_OK ? mst_text_out_take(&out, r->w) : NULL;
    t = t ? mst_text_markup(r->w, t, format->markup) : NULL;
    mst_text_out_fini(&out);

    *result = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}
