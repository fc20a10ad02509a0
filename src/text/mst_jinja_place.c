
/*
 * "{} of {name}".format(...): see mst_jinja_run.h.  A place may say which
 * value; attributes, conversions and widths are a sentence.
 */

#include <string.h>

#include "text/mst_jinja_run.h"

#define MST_JINJA_PLACE_MANY  10000            /* values */


typedef struct {
    mst_jinja_run_t            *r;
    mst_text_out_t             *out;
    const mst_text_t           *format;
    const mst_value_t          *v;             /* [n] */
    size_t                      n;
    const mst_jinja_keyword_t  *keywords;      /* [n_keywords] */
    size_t                      n_keywords;
    size_t                      next;          /* of places without a name */
    int                         numbered;      /* some say which */
} mst_jinja_place_t;


/* a number, or nothing, which is the next one */

static int
mst_jinja_place_index(mst_jinja_place_t *p, mst_str_t name, mst_value_t *v)
{
    size_t  i, n;

    n = 0;

    for (i = 0; i < name.len; i++) {
        n = n * 10 + (size_t) (name.data[i] - '0');
        n = n < MST_JINJA_PLACE_MANY ? n : MST_JINJA_PLACE_MANY;
    }

    if (name.len ? p->next != 0 : p->numbered) {
        return mst_jinja_fail(p->r, "format() has places with a number and "
                              "places without");
    }

    if (name.len) {
        p->numbered = 1;

    } else {
        n = p->next++;
    }

    if (n >= p->n) {
        return mst_jinja_fail(p->r, "format() has more places than values");
    }

    *v = p->v[n];

    return MST_OK;
}


static int
mst_jinja_place_value(mst_jinja_place_t *p, mst_str_t name, mst_value_t *v)
{
    size_t  i;

    for (i = 0; i < name.len; i++) {
        if (name.data[i] < '0' || name.data[i] > '9') {
            break;
        }
    }

    if (i == name.len) {
        return mst_jinja_place_index(p, name, v);
    }

    for (i = 0; i < p->n_keywords; i++) {
        if (p->keywords[i].name.u.text->len == name.len
            && memcmp(p->keywords[i].name.u.text->data, name.data, name.len)
               == 0)
        {
            *v = p->keywords[i].value;
            return MST_OK;
        }
    }

    return mst_jinja_fail(p->r, "format() has no value \"%.*s\"",
                          (int) (name.len < 100 ? name.len : 100), name.data);
}


/* what is between the braces */

static int
mst_jinja_place_write(mst_jinja_place_t *p, mst_str_t place)
{
    size_t       i;
    mst_value_t  v;

    for (i = 0; i < place.len; i++) {
        if (strchr(".[:!", place.data[i]) && place.data[i]) {
            return mst_jinja_fail(p->r, "\"%c\" in a place of format() is not "
                                  "supported", place.data[i]);
        }
    }

    if (mst_work_steps(p->r->w, (place.len + p->n_keywords) / 16) != MST_OK
        || mst_jinja_place_value(p, place, &v) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_python_write(p->r->w, v, p->out);
}


static int
mst_jinja_place_all(mst_jinja_place_t *p)
{
    char         c;
    size_t       at, end, from;
    const char  *data;
    mst_text_t  *part;

    data = p->format->data;

    for (at = 0, from = 0; at <= p->format->len; at++) {
        c = at < p->format->len ? data[at] : '\0';

        if (c != '{' && c != '}' && at < p->format->len) {
            continue;
        }

        /* of two braces the first one stays */

        end = at + 1 < p->format->len && data[at + 1] == c ? at + 1 : at;
        part = mst_text_part(p->r->w, p->format, from, end - from);

        if (part == NULL || mst_text_out_add(p->out, p->r->w, part) != MST_OK
            || mst_work_steps(p->r->w, 1) != MST_OK)
        {
            return MST_ERROR;
        }

        from = end + 1;

        if (at == p->format->len || end != at) {
            at = end;
            continue;
        }

        if (c == '}') {
            return mst_jinja_fail(p->r, "format() has a \"}\" alone");
        }

        for (end = at + 1; end < p->format->len && data[end] != '}'; end++) {
            if (data[end] == '{') {
                break;
            }
        }

        if (end == p->format->len || data[end] == '{') {
            return mst_jinja_fail(p->r, "format() has a \"{\" alone");
        }

        if (mst_jinja_place_write(p, mst_str(data + at + 1, end - at - 1))
            != MST_OK)
        {
            return MST_ERROR;
        }

        at = end;
        from = end + 1;
    }

    return MST_OK;
}


/* the values that go into a text that is safe */

static int
mst_jinja_place_escape(mst_jinja_place_t *p)
{
    size_t                i;
    mst_value_t          *v;
    mst_jinja_keyword_t  *k;

    if (mst_jinja_escape_args(p->r, p->v, p->n, &v) != MST_OK) {
        return MST_ERROR;
    }

    p->v = v;

    k = mst_work_alloc(p->r->w, (p->n_keywords ? p->n_keywords : 1)
                                * sizeof(mst_jinja_keyword_t));
    if (k == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < p->n_keywords; i++) {
        if (mst_jinja_escape_args(p->r, &p->keywords[i].value, 1, &v)
            != MST_OK)
        {
            return MST_ERROR;
        }

        k[i].name = p->keywords[i].name;
        k[i].value = *v;
    }

    p->keywords = k;

    return MST_OK;
}


int
mst_jinja_place(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int                rc;
    mst_text_t        *t;
    mst_text_out_t     out;
    mst_jinja_place_t  p;

    if (mst_jinja_text(r, subject, "format()", &t) != MST_OK) {
        return MST_ERROR;
    }

    memset(&p, 0, sizeof(mst_jinja_place_t));
    p.r = r;
    p.out = &out;
    p.format = t;
    p.v = a->v;
    p.n = a->n;
    p.keywords = a->keywords;
    p.n_keywords = a->n_keywords;

    if (t->markup && mst_jinja_place_escape(&p) != MST_OK) {
        return MST_ERROR;
    }

    mst_text_out_init(&out);

    rc = mst_jinja_place_all(&p);

    t = rc == MST_OK ? mst_text_out_take(&out, r->w) : NULL;
    t = t ? mst_text_markup(r->w, t, p.format->markup) : NULL;
    mst_text_out_fini(&out);

    *v = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}
