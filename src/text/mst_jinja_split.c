
/*
 * split(), rsplit() and splitlines() of strings: see mst_jinja_run.h.
 */

#include <string.h>

#include "text/mst_jinja_run.h"


static int
mst_jinja_split_add(mst_jinja_run_t *r, mst_list_t *list,
    const mst_text_t *t, size_t from, size_t to)
{
    mst_text_t  *part;

    part = mst_text_part(r->w, t, from, to - from);

    if (part == NULL || mst_work_steps(r->w, 1) != MST_OK) {
        return MST_ERROR;
    }

    return mst_list_add(r->w, list, mst_value_text(part));
}


/* the next word at or behind "from" in *from .. *to; 0: none */

static int
mst_jinja_split_word(const mst_text_t *t, size_t *from, size_t *to)
{
    size_t       n, i;
    const char  *end;

    end = t->data + t->len;

    for (i = *from; i < t->len; i += n) {

        if (!mst_text_is_space(mst_text_decode(t->data + i, end, &n))) {
            break;
        }
    }

    *from = i;

    for ( /* void */ ; i < t->len; i += n) {

        if (mst_text_is_space(mst_text_decode(t->data + i, end, &n))) {
            break;
        }
    }

    *to = i;

    return i > *from;
}


static int
mst_jinja_split_words(mst_jinja_run_t *r, mst_text_t *t, int64_t count,
    mst_list_t *list)
{
    size_t       from, to;
    mst_text_t  *rest;

    for (from = 0; mst_jinja_split_word(t, &from, &to); from = to) {

        if (count-- == 0) {
            rest = mst_text_part(r->w, t, from, t->len - from);

            return rest ? mst_list_add(r->w, list, mst_value_text(rest))
                        : MST_ERROR;
        }

        if (mst_jinja_split_add(r, list, t, from, to) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_jinja_split(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       from;
    int64_t      count, at;
    mst_text_t  *t, *sep;
    mst_list_t  *list;

    count = -1;
    list = mst_list_create(r->w, 0);

    if (list == NULL || mst_jinja_text(r, subject, "split()", &t) != MST_OK
        || (a->v[1].type != MST_VALUE_ABSENT
            && mst_jinja_int(r, a->v[1], "split()", &count) != MST_OK)
        || mst_work_steps(r->w, t->len / 64) != MST_OK)
    {
        return MST_ERROR;
    }

    *v = mst_value_list(MST_VALUE_LIST, list);

    if (a->v[0].type == MST_VALUE_ABSENT || a->v[0].type == MST_VALUE_NONE) {
        return mst_jinja_split_words(r, t, count, list);
    }

    if (mst_jinja_text(r, a->v[0], "split()", &sep) != MST_OK) {
        return MST_ERROR;
    }

    if (sep->len == 0) {
        return mst_jinja_fail(r, "split() has an empty separator");
    }

    for (from = 0; count; count--, from = (size_t) at + sep->len) {
        at = mst_text_find(t, mst_text_str(sep), from);

        if (at < 0) {
            break;
        }

        if (mst_jinja_split_add(r, list, t, from, (size_t) at) != MST_OK) {
            return MST_ERROR;
        }
    }

    return mst_jinja_split_add(r, list, t, from, t->len);
}


/* from the right; what is split is turned around at the end */

int
mst_jinja_split_right(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       i, to;
    int64_t      count, at;
    mst_str_t    head;
    mst_text_t  *t, *sep, part;
    mst_list_t  *list;
    mst_value_t  item;

    if (a->v[1].type == MST_VALUE_ABSENT) {
        return mst_jinja_split(r, subject, a, v);
    }

    list = mst_list_create(r->w, 0);

    if (list == NULL || mst_jinja_text(r, subject, "rsplit()", &t) != MST_OK
        || mst_jinja_int(r, a->v[1], "rsplit()", &count) != MST_OK
        || mst_jinja_text(r, a->v[0], "rsplit()", &sep) != MST_OK)
    {
        return MST_ERROR;
    }

    if (sep->len == 0) {
        return mst_jinja_fail(r, "rsplit() has an empty separator");
    }

    for (to = t->len; count; count--, to = (size_t) at) {
        head = mst_str(t->data, to);
        part = *t;
        part.len = head.len;
        at = mst_text_rfind(&part, mst_text_str(sep));

        if (mst_work_steps(r->w, to / 64) != MST_OK) {
            return MST_ERROR;
        }

        if (at < 0) {
            break;
        }

        if (mst_jinja_split_add(r, list, t, (size_t) at + sep->len, to)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    if (mst_jinja_split_add(r, list, t, 0, to) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < list->n / 2; i++) {
        item = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = item;
    }

    *v = mst_value_list(MST_VALUE_LIST, list);

    return MST_OK;
}


/* bytes of the line end at p, 0: none */

static size_t
mst_jinja_split_line_end(const char *p, const char *end)
{
    size_t    n;
    uint32_t  cp;

    cp = mst_text_decode(p, end, &n);

    if (cp == '\r' && end - p > 1 && p[1] == '\n') {
        return 2;
    }

    return (cp >= 0x0a && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1e)
           || cp == 0x85 || cp == 0x2028 || cp == 0x2029 ? n : 0;
}


int
mst_jinja_lines(mst_jinja_run_t *r, mst_text_t *t, int keep,
    mst_list_t **list)
{
    size_t       i, n, from;
    const char  *end;

    *list = mst_list_create(r->w, 0);
    end = t->data + t->len;

    if (*list == NULL || mst_work_steps(r->w, t->len / 64) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0, from = 0; i < t->len; /* void */) {
        n = mst_jinja_split_line_end(t->data + i, end);

        if (n == 0) {
            i += mst_text_char(t, i);
            continue;
        }

        if (mst_jinja_split_add(r, *list, t, from, keep ? i + n : i)
            != MST_OK)
        {
            return MST_ERROR;
        }

        i += n;
        from = i;
    }

    return from < t->len ? mst_jinja_split_add(r, *list, t, from, t->len)
                         : MST_OK;
}


int
mst_jinja_split_lines(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_text_t  *t;
    mst_list_t  *list;

    if (mst_jinja_text(r, subject, "splitlines()", &t) != MST_OK
        || mst_jinja_lines(r, t, a->v[0].type != MST_VALUE_ABSENT
                           && mst_value_true(a->v[0]), &list) != MST_OK)
    {
        return MST_ERROR;
    }

    *v = mst_value_list(MST_VALUE_LIST, list);

    return MST_OK;
}
