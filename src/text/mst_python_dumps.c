
/*
 * json.dumps: see mst_python_dumps.h.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/mst_python.h"
#include "text/mst_python_dumps.h"


typedef struct {
    mst_work_t                *w;
    const mst_python_dumps_t  *f;
    mst_text_out_t            *out;
} mst_python_dumps_out_t;


static int mst_python_dumps_value(const mst_python_dumps_out_t *o,
    mst_value_t v, int depth);


static const mst_python_dumps_t  mst_python_dumps_line = {
    NULL, 0, mst_string(", "), mst_string(": "), 0, 0
};


static int
mst_python_dumps_bytes(const mst_python_dumps_out_t *o, const char *p, size_t n)
{
    return mst_text_out_bytes(o->out, o->w, p, n, MST_TEXT_VALUE);
}


static int
mst_python_dumps_escape(const mst_python_dumps_out_t *o, uint32_t cp)
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

    return mst_python_dumps_bytes(o, text, strlen(text));
}


static int
mst_python_dumps_string(const mst_python_dumps_out_t *o, mst_text_t *t)
{
    size_t       i, n, from;
    uint32_t     cp;
    const char  *end;

    if (mst_text_flat(o->w, t) != MST_OK
        || mst_work_steps(o->w, t->len / 64) != MST_OK
        || mst_python_dumps_bytes(o, "\"", 1) != MST_OK)
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

        if (mst_python_dumps_bytes(o, t->data + from, i - from) != MST_OK
            || mst_python_dumps_escape(o, cp) != MST_OK)
        {
            return MST_ERROR;
        }

        from = i + n;
    }

    if (mst_python_dumps_bytes(o, t->data + from, t->len - from) != MST_OK) {
        return MST_ERROR;
    }

    return mst_python_dumps_bytes(o, "\"", 1);
}


static int
mst_python_dumps_float(const mst_python_dumps_out_t *o, double x)
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

    return mst_python_dumps_bytes(o, text, strlen(text));
}


static int
mst_python_dumps_break(const mst_python_dumps_out_t *o, int depth)
{
    int  i;

    if (o->f->indent == NULL) {
        return MST_OK;
    }

    if (mst_python_dumps_bytes(o, "\n", 1) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < depth; i++) {

        if (mst_python_dumps_bytes(o, o->f->indent, o->f->indent_len)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* before item i */

static int
mst_python_dumps_comma(const mst_python_dumps_out_t *o, size_t i, int depth)
{
    if (i && mst_python_dumps_bytes(o, o->f->item.data, o->f->item.len)
        != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_python_dumps_break(o, depth + 1);
}


static int
mst_python_dumps_list(const mst_python_dumps_out_t *o,
    const mst_list_t *list, int depth)
{
    size_t  i;

    if (list->n == 0) {
        return mst_python_dumps_bytes(o, "[]", 2);
    }

    if (mst_python_dumps_bytes(o, "[", 1) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < list->n; i++) {

        if (mst_python_dumps_comma(o, i, depth) != MST_OK
            || mst_python_dumps_value(o, list->items[i], depth + 1)
               != MST_OK)
        {
            return MST_ERROR;
        }
    }

    if (mst_python_dumps_break(o, depth) != MST_OK) {
        return MST_ERROR;
    }

    return mst_python_dumps_bytes(o, "]", 1);
}


/* what is no string is written as one */

static int
mst_python_dumps_key(const mst_python_dumps_out_t *o, mst_value_t key)
{
    int  quoted;

    quoted = key.type >= MST_VALUE_NONE && key.type <= MST_VALUE_FLOAT;

    if (!quoted && key.type != MST_VALUE_TEXT) {
        return mst_err_set(o->w->err, "a %s is no key of a JSON object",
                           mst_value_kind(key));
    }

    if ((quoted && mst_python_dumps_bytes(o, "\"", 1) != MST_OK)
        || mst_python_dumps_value(o, key, 0) != MST_OK
        || (quoted && mst_python_dumps_bytes(o, "\"", 1) != MST_OK))
    {
        return MST_ERROR;
    }

    return mst_python_dumps_bytes(o, o->f->key.data, o->f->key.len);
}


/* insertion into place: objects are small, and each look costs a step */

static mst_dict_entry_t *
mst_python_dumps_sorted(mst_work_t *w, const mst_dict_t *d)
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
mst_python_dumps_dict(const mst_python_dumps_out_t *o, const mst_dict_t *d,
    int depth)
{
    size_t                   i;
    const mst_dict_entry_t  *e;

    if (d->n == 0) {
        return mst_python_dumps_bytes(o, "{}", 2);
    }

    e = o->f->sort ? mst_python_dumps_sorted(o->w, d) : d->entries;

    if (e == NULL || mst_python_dumps_bytes(o, "{", 1) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < d->n; i++) {

        if (mst_python_dumps_comma(o, i, depth) != MST_OK
            || mst_python_dumps_key(o, e[i].key) != MST_OK
            || mst_python_dumps_value(o, e[i].value, depth + 1) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    if (mst_python_dumps_break(o, depth) != MST_OK) {
        return MST_ERROR;
    }

    return mst_python_dumps_bytes(o, "}", 1);
}


static int
mst_python_dumps_value(const mst_python_dumps_out_t *o, mst_value_t v,
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
        return mst_python_dumps_bytes(o, "null", 4);

    case MST_VALUE_BOOL:
        return mst_python_dumps_bytes(o, v.u.n ? "true" : "false",
                                      v.u.n ? 4 : 5);

    case MST_VALUE_INT:
        (void) snprintf(text, sizeof(text), "%lld", (long long) v.u.n);
        return mst_python_dumps_bytes(o, text, strlen(text));

    case MST_VALUE_BIG:
        return mst_text_out_add(o->out, o->w, v.u.text);

    case MST_VALUE_FLOAT:
        return mst_python_dumps_float(o, v.u.x);

    case MST_VALUE_TEXT:
        return mst_python_dumps_string(o, v.u.text);

    case MST_VALUE_LIST:
    case MST_VALUE_TUPLE:
        return mst_python_dumps_list(o, v.u.list, depth);

    case MST_VALUE_DICT:
        return mst_python_dumps_dict(o, v.u.dict, depth);

    default:
        return mst_err_set(o->w->err, "a value of type %s cannot be written "
                           "as JSON", mst_value_kind(v));
    }
}


int
mst_python_dumps(mst_work_t *w, mst_value_t v,
    const mst_python_dumps_t *f, mst_text_out_t *out)
{
    mst_python_dumps_out_t  o;

    o.w = w;
    o.f = f ? f : &mst_python_dumps_line;
    o.out = out;

    return mst_python_dumps_value(&o, v, 0);
}
