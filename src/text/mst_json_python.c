
/*
 * Python's JSON: see mst_json_python.h.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_json_python.h"
#include "text/mst_python.h"


#define MST_JSON_PYTHON_DIGITS  18     /* fit in 64 bits, whatever they are */
#define MST_JSON_PYTHON_NUMBER  400    /* bytes of a float: the rest of a
                                          longer one decides nothing that
                                          strtod() would see differently */


typedef struct {
    mst_work_t  *w;
    const char  *p;
    const char  *end;
    int          depth;
} mst_json_python_in_t;

typedef struct {
    mst_work_t               *w;
    const mst_json_python_t  *f;
    mst_text_out_t           *out;
} mst_json_python_out_t;


static int mst_json_python_value(mst_json_python_in_t *in, mst_value_t *v);
static int mst_json_python_put_value(const mst_json_python_out_t *o,
    mst_value_t v, int depth);


static const mst_json_python_t  mst_json_python_line = {
    NULL, 0, mst_string(", "), mst_string(": "), 0, 0
};


static void
mst_json_python_space(mst_json_python_in_t *in)
{
    while (in->p < in->end
           && (*in->p == ' ' || *in->p == '\t' || *in->p == '\n'
               || *in->p == '\r'))
    {
        in->p++;
    }
}


static int
mst_json_python_char(mst_json_python_in_t *in, char c)
{
    if (in->p == in->end || *in->p != c) {
        return 0;
    }

    in->p++;

    return 1;
}


static int
mst_json_python_word(mst_json_python_in_t *in, const char *word)
{
    size_t  n;

    n = strlen(word);

    if ((size_t) (in->end - in->p) < n || memcmp(in->p, word, n) != 0) {
        return 0;
    }

    in->p += n;

    return 1;
}


static int
mst_json_python_hex(const char *p, const char *end, uint32_t *cp)
{
    int   i;
    char  c;

    if (end - p < 4) {
        return 0;
    }

    for (i = 0, *cp = 0; i < 4; i++) {
        c = p[i];

        *cp = *cp * 16 + (uint32_t) (c >= '0' && c <= '9' ? c - '0'
                                     : (c | 32) - 'a' + 10);

        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f')))
        {
            return 0;
        }
    }

    return 1;
}


/* behind "\u": MST_OK or MST_DECLINED */

static int
mst_json_python_unicode(mst_json_python_in_t *in, char **q)
{
    size_t    n;
    uint32_t  cp, low;

    if (!mst_json_python_hex(in->p, in->end, &cp)) {
        return MST_DECLINED;
    }

    in->p += 4;

    if (cp >= 0xd800 && cp < 0xdc00 && in->end - in->p >= 6
        && in->p[0] == '\\' && in->p[1] == 'u'
        && mst_json_python_hex(in->p + 2, in->end, &low)
        && low >= 0xdc00 && low < 0xe000)
    {
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        in->p += 6;

    } else if (cp >= 0xd800 && cp < 0xe000) {
        cp = 0xfffd;
    }

    mst_text_encode(cp, *q, &n);
    *q += n;

    return MST_OK;
}


static int
mst_json_python_escape(mst_json_python_in_t *in, char **q)
{
    const char  *at;

    static const char  from[] = "\"\\/bfnrt";
    static const char  to[] = "\"\\/\b\f\n\r\t";

    if (in->p == in->end) {
        return MST_DECLINED;
    }

    if (*in->p == 'u') {
        in->p++;
        return mst_json_python_unicode(in, q);
    }

    at = memchr(from, *in->p, sizeof(from) - 1);

    if (at == NULL) {
        return MST_DECLINED;
    }

    *(*q)++ = to[at - from];
    in->p++;

    return MST_OK;
}


/* behind the quotation mark */

static int
mst_json_python_string(mst_json_python_in_t *in, mst_value_t *v)
{
    int          rc;
    char        *copy, *q;
    const char  *start;

    for (start = in->p; in->p < in->end; in->p++) {

        if (*in->p == '"' || *in->p == '\\' || (unsigned char) *in->p < ' ') {
            break;
        }
    }

    if (mst_json_python_char(in, '"')) {
        return mst_value_str(in->w, start, (size_t) (in->p - 1 - start),
                             MST_TEXT_VALUE, v);
    }

    /* nothing gets longer: "\u0080" is two bytes */

    for (q = (char *) in->p; q < in->end && *q != '"'; q++) {
        q += *q == '\\' && q + 1 < in->end;
    }

    copy = mst_work_alloc(in->w, (size_t) (q - start) + 4);
    if (copy == NULL) {
        return MST_ERROR;
    }

    memcpy(copy, start, (size_t) (in->p - start));
    q = copy + (in->p - start);

    while (in->p < in->end && *in->p != '"') {

        if ((unsigned char) *in->p < ' ') {
            return MST_DECLINED;
        }

        if (*in->p != '\\') {
            *q++ = *in->p++;
            continue;
        }

        in->p++;
        rc = mst_json_python_escape(in, &q);

        if (rc != MST_OK) {
            return rc;
        }
    }

    if (!mst_json_python_char(in, '"')) {
        return MST_DECLINED;
    }

    return mst_value_str(in->w, copy, (size_t) (q - copy), MST_TEXT_VALUE, v);
}


static size_t
mst_json_python_run(mst_json_python_in_t *in)
{
    const char  *start;

    for (start = in->p; in->p < in->end && *in->p >= '0' && *in->p <= '9';
         in->p++)
    {
        /* void */
    }

    return (size_t) (in->p - start);
}


static int
mst_json_python_integer(mst_json_python_in_t *in, const char *start,
    mst_value_t *v)
{
    int64_t      n;
    const char  *p;

    if (in->p - start <= MST_JSON_PYTHON_DIGITS) {

        for (n = 0, p = start + (*start == '-'); p < in->p; p++) {
            n = n * 10 + (*p - '0');
        }

        *v = mst_value_int(*start == '-' ? -n : n);

        return MST_OK;
    }

    if (mst_value_str(in->w, start, (size_t) (in->p - start), MST_TEXT_VALUE,
                      v)
        != MST_OK)
    {
        return MST_ERROR;
    }

    v->type = MST_VALUE_BIG;

    return MST_OK;
}


static int
mst_json_python_number(mst_json_python_in_t *in, mst_value_t *v)
{
    int          real;
    char         text[MST_JSON_PYTHON_NUMBER];
    size_t       n;
    const char  *start, *back;

    start = in->p;
    (void) mst_json_python_char(in, '-');

    if (mst_json_python_char(in, '0')) {
        n = 1;

    } else {
        n = mst_json_python_run(in);
    }

    if (n == 0) {
        in->p = start;

        if (!mst_json_python_word(in, "-Infinity")) {
            return MST_DECLINED;
        }

        *v = mst_value_float(-INFINITY);

        return MST_OK;
    }

    real = 0;
    back = in->p;

    if (mst_json_python_char(in, '.')) {

        if (mst_json_python_run(in)) {
            real = 1;
            back = in->p;
        }

        in->p = back;
    }

    if (mst_json_python_char(in, 'e') || mst_json_python_char(in, 'E')) {
        (void) (mst_json_python_char(in, '-') || mst_json_python_char(in, '+'));

        if (mst_json_python_run(in)) {
            real = 1;
            back = in->p;
        }

        in->p = back;
    }

    if (!real) {
        return mst_json_python_integer(in, start, v);
    }

    n = (size_t) (in->p - start);

    if (n >= sizeof(text)) {
        return mst_err_set(in->w->err, "a number of %zu bytes is too long, "
                           "at most %zu", n, sizeof(text) - 1);
    }

    memcpy(text, start, n);
    text[n] = '\0';
    *v = mst_value_float(strtod(text, NULL));

    return MST_OK;
}


static int
mst_json_python_list(mst_json_python_in_t *in, mst_value_t *v)
{
    int          rc;
    mst_list_t  *list;
    mst_value_t  item;

    list = mst_list_create(in->w, 0);
    if (list == NULL) {
        return MST_ERROR;
    }

    *v = mst_value_list(MST_VALUE_LIST, list);
    mst_json_python_space(in);

    if (mst_json_python_char(in, ']')) {
        return MST_OK;
    }

    for ( ;; ) {
        rc = mst_json_python_value(in, &item);

        if (rc != MST_OK) {
            return rc;
        }

        if (mst_list_add(in->w, list, item) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_json_python_char(in, ']')) {
            return MST_OK;
        }

        if (!mst_json_python_char(in, ',')) {
            return MST_DECLINED;
        }
    }
}


static int
mst_json_python_object(mst_json_python_in_t *in, mst_value_t *v)
{
    int          rc;
    mst_dict_t  *d;
    mst_value_t  key, item;

    d = mst_dict_create(in->w, 0);
    if (d == NULL) {
        return MST_ERROR;
    }

    *v = mst_value_dict(MST_VALUE_DICT, d);
    mst_json_python_space(in);

    if (mst_json_python_char(in, '}')) {
        return MST_OK;
    }

    for ( ;; ) {
        mst_json_python_space(in);

        if (!mst_json_python_char(in, '"')) {
            return MST_DECLINED;
        }

        rc = mst_json_python_string(in, &key);

        if (rc != MST_OK) {
            return rc;
        }

        mst_json_python_space(in);

        if (!mst_json_python_char(in, ':')) {
            return MST_DECLINED;
        }

        rc = mst_json_python_value(in, &item);

        if (rc != MST_OK) {
            return rc;
        }

        if (mst_dict_set(in->w, d, key, item) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_json_python_char(in, '}')) {
            return MST_OK;
        }

        if (!mst_json_python_char(in, ',')) {
            return MST_DECLINED;
        }
    }
}


/* with the white space around it */

static int
mst_json_python_value(mst_json_python_in_t *in, mst_value_t *v)
{
    int  rc;

    if (mst_work_steps(in->w, 1) != MST_OK) {
        return MST_ERROR;
    }

    if (in->depth == MST_VALUE_DEPTH) {
        return mst_err_set(in->w->err, "JSON is nested deeper than %d levels",
                           MST_VALUE_DEPTH);
    }

    mst_json_python_space(in);
    in->depth++;

    if (mst_json_python_char(in, '"')) {
        rc = mst_json_python_string(in, v);

    } else if (mst_json_python_char(in, '{')) {
        rc = mst_json_python_object(in, v);

    } else if (mst_json_python_char(in, '[')) {
        rc = mst_json_python_list(in, v);

    } else {
        rc = MST_OK;

        if (mst_json_python_word(in, "null")) {
            *v = mst_value(MST_VALUE_NONE);

        } else if (mst_json_python_word(in, "true")) {
            *v = mst_value_bool(1);

        } else if (mst_json_python_word(in, "false")) {
            *v = mst_value_bool(0);

        } else if (mst_json_python_word(in, "NaN")) {
            *v = mst_value_float(NAN);

        } else if (mst_json_python_word(in, "Infinity")) {
            *v = mst_value_float(INFINITY);

        } else {
            rc = mst_json_python_number(in, v);
        }
    }

    in->depth--;
    mst_json_python_space(in);

    return rc;
}


int
mst_json_python_read(mst_work_t *w, mst_str_t s, mst_value_t *v)
{
    int                   rc;
    mst_json_python_in_t  in;

    in.w = w;
    in.p = s.data;
    in.end = s.data + s.len;
    in.depth = 0;

    if (mst_work_steps(w, s.len / 64) != MST_OK) {
        return MST_ERROR;
    }

    rc = mst_json_python_value(&in, v);

    return rc == MST_OK && in.p < in.end ? MST_DECLINED : rc;
}


static int
mst_json_python_put(const mst_json_python_out_t *o, const char *p, size_t n)
{
    return mst_text_out_bytes(o->out, o->w, p, n, MST_TEXT_VALUE);
}


static int
mst_json_python_put_escape(const mst_json_python_out_t *o, uint32_t cp)
{
    char         text[16];
    const char  *at;

    static const char  from[] = "\"\\\b\f\n\r\t";
    static const char  to[] = "\"\\bfnrt";

    at = cp < 0x80 && cp ? memchr(from, (int) cp, sizeof(from) - 1) : NULL;

    if (at) {
        (void) snprintf(text, sizeof(text), "\\%c", to[at - from]);

    } else if (cp < 0x10000) {
        (void) snprintf(text, sizeof(text), "\\u%04x", cp);

    } else {
        cp -= 0x10000;
        (void) snprintf(text, sizeof(text), "\\u%04x\\u%04x",
                        0xd800 + (cp >> 10), 0xdc00 + (cp & 0x3ff));
    }

    return mst_json_python_put(o, text, strlen(text));
}


static int
mst_json_python_put_string(const mst_json_python_out_t *o, mst_text_t *t)
{
    size_t       i, n, from;
    uint32_t     cp;
    const char  *end;

    if (mst_text_flat(o->w, t) != MST_OK
        || mst_work_steps(o->w, t->len / 64) != MST_OK
        || mst_json_python_put(o, "\"", 1) != MST_OK)
    {
        return MST_ERROR;
    }

    end = t->data + t->len;

    for (i = 0, from = 0; i < t->len; i += n) {
        cp = mst_text_decode(t->data + i, end, &n);

        if (cp >= ' ' && cp != '"' && cp != '\\'
            && !(o->f->ascii && cp > '~'))
        {
            continue;
        }

        if (mst_json_python_put(o, t->data + from, i - from) != MST_OK
            || mst_json_python_put_escape(o, cp) != MST_OK)
        {
            return MST_ERROR;
        }

        from = i + n;
    }

    if (mst_json_python_put(o, t->data + from, t->len - from) != MST_OK) {
        return MST_ERROR;
    }

    return mst_json_python_put(o, "\"", 1);
}


static int
mst_json_python_put_float(const mst_json_python_out_t *o, double x)
{
    char  text[MST_PYTHON_FLOAT];

    if (mst_work_steps(o->w, 64) != MST_OK) {
        return MST_ERROR;
    }

    if (isnan(x)) {
        (void) strcpy(text, "NaN");

    } else if (isinf(x)) {
        (void) strcpy(text, x < 0 ? "-Infinity" : "Infinity");

    } else {
        (void) mst_python_float(x, text);
    }

    return mst_json_python_put(o, text, strlen(text));
}


static int
mst_json_python_put_line(const mst_json_python_out_t *o, int depth)
{
    int  i;

    if (o->f->indent == NULL) {
        return MST_OK;
    }

    if (mst_json_python_put(o, "\n", 1) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < depth; i++) {

        if (mst_json_python_put(o, o->f->indent, o->f->indent_len)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* before item i */

static int
mst_json_python_put_comma(const mst_json_python_out_t *o, size_t i, int depth)
{
    if (i && mst_json_python_put(o, o->f->item.data, o->f->item.len)
        != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_json_python_put_line(o, depth + 1);
}


static int
mst_json_python_put_list(const mst_json_python_out_t *o,
    const mst_list_t *list, int depth)
{
    size_t  i;

    if (list->n == 0) {
        return mst_json_python_put(o, "[]", 2);
    }

    if (mst_json_python_put(o, "[", 1) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < list->n; i++) {

        if (mst_json_python_put_comma(o, i, depth) != MST_OK
            || mst_json_python_put_value(o, list->items[i], depth + 1)
               != MST_OK)
        {
            return MST_ERROR;
        }
    }

    if (mst_json_python_put_line(o, depth) != MST_OK) {
        return MST_ERROR;
    }

    return mst_json_python_put(o, "]", 1);
}


/* what is no string is written as one */

static int
mst_json_python_put_key(const mst_json_python_out_t *o, mst_value_t key)
{
    int  quoted;

    quoted = key.type >= MST_VALUE_NONE && key.type <= MST_VALUE_FLOAT;

    if (!quoted && key.type != MST_VALUE_TEXT) {
        return mst_err_set(o->w->err, "a %s is no key of a JSON object",
                           mst_value_kind(key));
    }

    if ((quoted && mst_json_python_put(o, "\"", 1) != MST_OK)
        || mst_json_python_put_value(o, key, 0) != MST_OK
        || (quoted && mst_json_python_put(o, "\"", 1) != MST_OK))
    {
        return MST_ERROR;
    }

    return mst_json_python_put(o, o->f->key.data, o->f->key.len);
}


/* insertion into place: objects are small, and each look costs a step */

static mst_dict_entry_t *
mst_json_python_sorted(mst_work_t *w, const mst_dict_t *d)
{
    int                order;
    size_t             i, k;
    mst_dict_entry_t  *e, entry;

    e = mst_work_array(w, d->n, sizeof(mst_dict_entry_t));
    if (e == NULL) {
        return NULL;
    }

    for (i = 0; i < d->n; i++) {
        entry = d->entries[i];

        for (k = i; k > 0; k--) {

            if (mst_value_order(w, e[k - 1].key, entry.key, &order)
                != MST_OK)
            {
                return NULL;
            }

            if (order <= 0) {
                break;
            }

            e[k] = e[k - 1];
        }

        e[k] = entry;
    }

    return e;
}


static int
mst_json_python_put_dict(const mst_json_python_out_t *o, const mst_dict_t *d,
    int depth)
{
    size_t                   i;
    const mst_dict_entry_t  *e;

    if (d->n == 0) {
        return mst_json_python_put(o, "{}", 2);
    }

    e = o->f->sort ? mst_json_python_sorted(o->w, d) : d->entries;

    if (e == NULL || mst_json_python_put(o, "{", 1) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < d->n; i++) {

        if (mst_json_python_put_comma(o, i, depth) != MST_OK
            || mst_json_python_put_key(o, e[i].key) != MST_OK
            || mst_json_python_put_value(o, e[i].value, depth + 1) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    if (mst_json_python_put_line(o, depth) != MST_OK) {
        return MST_ERROR;
    }

    return mst_json_python_put(o, "}", 1);
}


static int
mst_json_python_put_value(const mst_json_python_out_t *o, mst_value_t v,
    int depth)
{
    char  text[32];

    if (mst_work_steps(o->w, 1) != MST_OK) {
        return MST_ERROR;
    }

    if (depth > MST_VALUE_DEPTH) {
        return mst_err_set(o->w->err, "a value is nested too deeply to be "
                           "written");
    }

    switch (v.type) {

    case MST_VALUE_NONE:
        return mst_json_python_put(o, "null", 4);

    case MST_VALUE_BOOL:
        return mst_json_python_put(o, v.u.n ? "true" : "false",
                                   v.u.n ? 4 : 5);

    case MST_VALUE_INT:
        (void) snprintf(text, sizeof(text), "%lld", (long long) v.u.n);
        return mst_json_python_put(o, text, strlen(text));

    case MST_VALUE_BIG:
        return mst_text_out_add(o->out, o->w, v.u.text);

    case MST_VALUE_FLOAT:
        return mst_json_python_put_float(o, v.u.x);

    case MST_VALUE_TEXT:
        return mst_json_python_put_string(o, v.u.text);

    case MST_VALUE_LIST:
    case MST_VALUE_TUPLE:
        return mst_json_python_put_list(o, v.u.list, depth);

    case MST_VALUE_DICT:
        return mst_json_python_put_dict(o, v.u.dict, depth);

    default:
        return mst_err_set(o->w->err, "a value of type %s cannot be written "
                           "as JSON", mst_value_kind(v));
    }
}


int
mst_json_python_write(mst_work_t *w, mst_value_t v,
    const mst_json_python_t *f, mst_text_out_t *out)
{
    mst_json_python_out_t  o;

    o.w = w;
    o.f = f ? f : &mst_json_python_line;
    o.out = out;

    return mst_json_python_put_value(&o, v, 0);
}
