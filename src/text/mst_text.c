
/*
 * Strings with origins: see mst_text.h.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_text.h"


#define MST_TEXT_SHORT   128       /* bytes of a sum that is copied at once */
#define MST_TEXT_DEPTH   40        /* of a sum's right side */
#define MST_TEXT_LEAVES  16        /* of a sum that goes out unjoined */


static void mst_text_fill(const mst_text_t *t, char *data,
    unsigned char *mark);


mst_text_t *
mst_text_of(mst_work_t *w, const char *data, size_t len,
    mst_text_from_t from)
{
    mst_text_t  *t;

    t = mst_work_alloc(w, sizeof(mst_text_t));
    if (t == NULL) {
        return NULL;
    }

    t->len = len;
    t->data = len ? data : "";
    t->mark = NULL;
    t->left = NULL;
    t->right = NULL;
    t->from = (unsigned char) from;
    t->depth = 0;
    t->markup = 0;

    return t;
}


mst_text_t *
mst_text_copy(mst_work_t *w, const char *data, size_t len,
    mst_text_from_t from)
{
    char  *copy;

    copy = mst_work_alloc(w, len);
    if (copy == NULL) {
        return NULL;
    }

    if (len) {
        memcpy(copy, data, len);
    }

    return mst_text_of(w, copy, len, from);
}


mst_text_t *
mst_text_sum(mst_work_t *w, mst_text_t *a, mst_text_t *b)
{
    mst_text_t  *t;

    if (a->len == 0) {
        return b;
    }

    if (b->len == 0) {
        return a;
    }

    if (b->depth >= MST_TEXT_DEPTH && mst_text_flat(w, b) != MST_OK) {
        return NULL;
    }

    t = mst_text_of(w, NULL, 0, (mst_text_from_t) a->from);
    if (t == NULL) {
        return NULL;
    }

    t->len = a->len + b->len;
    t->data = NULL;
    t->left = a;
    t->right = b;
    t->depth = a->depth > b->depth ? a->depth : b->depth + 1;

    if (b->from != a->from) {
        t->from = MST_TEXT_MIXED;
    }

    if (t->len <= MST_TEXT_SHORT && mst_text_flat(w, t) != MST_OK) {
        return NULL;
    }

    return t;
}


mst_text_t *
mst_text_markup(mst_work_t *w, mst_text_t *t, int is)
{
    mst_text_t  *same;

    if (t->markup == is) {
        return t;
    }

    same = mst_work_alloc(w, sizeof(mst_text_t));

    if (same) {
        *same = *t;
        same->markup = (unsigned char) is;
    }

    return same;
}


int
mst_text_flat(mst_work_t *w, mst_text_t *t)
{
    char           *data;
    unsigned char  *mark;

    if (t->data) {
        return MST_OK;
    }

    if (mst_work_steps(w, t->len / 256) != MST_OK) {
        return MST_ERROR;
    }

    data = mst_work_alloc(w, t->len);
    mark = NULL;

    if (t->from == MST_TEXT_MIXED) {
        mark = mst_work_alloc(w, t->len);

        if (mark == NULL) {
            return MST_ERROR;
        }
    }

    if (data == NULL) {
        return MST_ERROR;
    }

    mst_text_fill(t, data, mark);

    t->data = data;
    t->mark = mark;
    t->left = NULL;
    t->right = NULL;
    t->depth = 0;

    return MST_OK;
}


/* from the end: what is added at the right again and again is no recursion */

static void
mst_text_fill(const mst_text_t *t, char *data, unsigned char *mark)
{
    while (t->data == NULL) {
        mst_text_fill(t->right, data + t->left->len,
                      mark ? mark + t->left->len : NULL);
        t = t->left;
    }

    if (t->len) {
        memcpy(data, t->data, t->len);
    }

    if (mark == NULL || t->len == 0) {
        return;
    }

    if (t->mark) {
        memcpy(mark, t->mark, t->len);

    } else {
        memset(mark, t->from, t->len);
    }
}


mst_text_t *
mst_text_part(mst_work_t *w, const mst_text_t *t, size_t off, size_t len)
{
    mst_text_t  *part;

    part = mst_text_of(w, t->data + off, len, (mst_text_from_t) t->from);

    if (part) {
        part->mark = t->mark ? t->mark + off : NULL;
        part->markup = t->markup;
    }

    return part;
}


size_t
mst_text_chars(const mst_text_t *t)
{
    size_t  i, n;

    for (i = 0, n = 0; i < t->len; i++) {
        n += ((unsigned char) t->data[i] & 0xc0) != 0x80;
    }

    return n;
}


size_t
mst_text_offset(const mst_text_t *t, size_t n)
{
    size_t  i;

    for (i = 0; i < t->len && n; n--) {
        i += mst_text_char(t, i);
    }

    return i;
}


size_t
mst_text_char(const mst_text_t *t, size_t off)
{
    size_t  i;

    for (i = off + 1; i < t->len; i++) {

        if (((unsigned char) t->data[i] & 0xc0) != 0x80) {
            break;
        }
    }

    return i - off;
}


int64_t
mst_text_find(const mst_text_t *t, mst_str_t s, size_t off)
{
    const char  *p;

    if (off > t->len) {
        return -1;
    }

    if (s.len == 0) {
        return (int64_t) off;
    }

    p = memmem(t->data + off, t->len - off, s.data, s.len);

    return p ? p - t->data : -1;
}


int64_t
mst_text_rfind(const mst_text_t *t, mst_str_t s)
{
    size_t  i;

    if (s.len > t->len) {
        return -1;
    }

    for (i = t->len - s.len + 1; i > 0; i--) {

        if (s.len == 0
            || (t->data[i - 1] == s.data[0]
                && memcmp(t->data + i - 1, s.data, s.len) == 0))
        {
            return (int64_t) i - 1;
        }
    }

    return -1;
}


static int
mst_text_in_set(const char *p, size_t n, const mst_text_t *set)
{
    size_t  size;

    if (set == NULL) {
        return mst_text_is_space(mst_text_decode(p, p + n, &size));
    }

    return mst_text_find(set, mst_str(p, n), 0) >= 0;
}


mst_text_t *
mst_text_strip(mst_work_t *w, mst_text_t *t, const mst_text_t *set, int left,
    int right)
{
    size_t  n, from, to;

    from = 0;
    to = t->len;

    while (left && from < to) {
        n = mst_text_char(t, from);

        if (!mst_text_in_set(t->data + from, n, set)) {
            break;
        }

        from += n;
    }

    while (right && from < to) {

        for (n = 1; n < to - from; n++) {

            if (((unsigned char) t->data[to - n] & 0xc0) != 0x80) {
                break;
            }
        }

        if (!mst_text_in_set(t->data + to - n, n, set)) {
            break;
        }

        to -= n;
    }

    /* each character was compared with all of the set, or decoded */

    n = (t->len - (to - from)) * (set ? set->len : 2) / 16;

    if (mst_work_steps(w, n) != MST_OK)
    {
        return NULL;
    }

    return to - from == t->len ? t : mst_text_part(w, t, from, to - from);
}


int
mst_text_is_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x20)
           || cp == 0x85 || cp == 0xa0 || cp == 0x1680
           || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029
           || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}


/* the bytes were checked at the door; strays are taken one by one */

uint32_t
mst_text_decode(const char *p, const char *end, size_t *n)
{
    size_t                i, len;
    uint32_t              cp;
    const unsigned char  *u;

    u = (const unsigned char *) p;

    len = u[0] < 0xc0 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;

    if (len == 1 || (size_t) (end - p) < len) {
        *n = 1;
        return u[0];
    }

    cp = u[0] & (0x7fu >> len);

    for (i = 1; i < len; i++) {
        cp = cp << 6 | (u[i] & 0x3f);
    }

    *n = len;

    return cp;
}


void
mst_text_encode(uint32_t cp, char *p, size_t *n)
{
    size_t  i, len;

    if (cp < 0x80) {
        p[0] = (char) cp;
        *n = 1;
        return;
    }

    len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;

    for (i = len - 1; i > 0; i--) {
        p[i] = (char) (0x80 | (cp & 0x3f));
        cp >>= 6;
    }

    p[0] = (char) (0xf00u >> len | cp);
    *n = len;
}


void
mst_text_out_init(mst_text_out_t *o)
{
    mst_buf_init(&o->buf);
    o->runs = NULL;
    o->n = 0;
    o->size = 0;
}


void
mst_text_out_fini(mst_text_out_t *o)
{
    mst_buf_fini(&o->buf);
    mst_free(o->runs);
    mst_text_out_init(o);
}


static int
mst_text_out_run(mst_text_out_t *o, size_t len, unsigned char from)
{
    size_t           size;
    mst_text_run_t  *runs;

    if (o->n && o->runs[o->n - 1].from == from) {
        o->runs[o->n - 1].end += len;
        return MST_OK;
    }

    if (o->n == o->size) {
        size = o->size ? o->size * 2 : 32;
        runs = mst_realloc(o->runs, size, sizeof(mst_text_run_t));

        if (runs == NULL) {
            return MST_ERROR;
        }

        o->runs = runs;
        o->size = size;
    }

    o->runs[o->n].end = (o->n ? o->runs[o->n - 1].end : 0) + len;
    o->runs[o->n++].from = from;

    return MST_OK;
}


int
mst_text_out_bytes(mst_text_out_t *o, mst_work_t *w, const char *data,
    size_t len, mst_text_from_t from)
{
    if (len == 0) {
        return MST_OK;
    }

    if (mst_work_charge(w, len + sizeof(mst_text_run_t)) != MST_OK
        || mst_work_steps(w, len / 256) != MST_OK
        || mst_buf_append(&o->buf, data, len) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_text_out_run(o, len, (unsigned char) from);
}


static int
mst_text_out_leaf(mst_text_out_t *o, mst_work_t *w, const mst_text_t *t)
{
    size_t  i, from;

    if (t->mark == NULL) {
        return mst_text_out_bytes(o, w, t->data, t->len,
                                  (mst_text_from_t) t->from);
    }

    for (i = 0; i < t->len; /* void */) {
        from = i;

        while (i < t->len && t->mark[i] == t->mark[from]) {
            i++;
        }

        if (mst_text_out_bytes(o, w, t->data + from, i - from,
                               (mst_text_from_t) t->mark[from])
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_text_out_add(mst_text_out_t *o, mst_work_t *w, mst_text_t *t)
{
    size_t       n;
    mst_text_t  *leaves[MST_TEXT_LEAVES];

    for (n = 0; t->data == NULL && n < MST_TEXT_LEAVES; n++) {

        if (t->right->data == NULL && mst_text_flat(w, t->right) != MST_OK) {
            return MST_ERROR;
        }

        leaves[n] = t->right;
        t = t->left;
    }

    if (mst_text_flat(w, t) != MST_OK
        || mst_text_out_leaf(o, w, t) != MST_OK)
    {
        return MST_ERROR;
    }

    while (n) {

        if (mst_text_out_leaf(o, w, leaves[--n]) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


mst_text_t *
mst_text_out_take(const mst_text_out_t *o, mst_work_t *w)
{
    size_t          i, from;
    mst_text_t     *t;
    unsigned char  *mark;

    t = mst_text_copy(w, o->buf.data, o->buf.len,
                      o->n ? (mst_text_from_t) o->runs[0].from
                           : MST_TEXT_VALUE);

    if (t == NULL || o->n < 2) {
        return t;
    }

    mark = mst_work_alloc(w, t->len);
    if (mark == NULL) {
        return NULL;
    }

    for (i = 0, from = 0; i < o->n; i++) {
        memset(mark + from, o->runs[i].from, o->runs[i].end - from);
        from = o->runs[i].end;
    }

    t->mark = mark;
    t->from = MST_TEXT_MIXED;

    return t;
}
