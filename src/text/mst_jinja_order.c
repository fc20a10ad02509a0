
/*
 * By what templates compare items of lists, and lists in that order: see
 * mst_jinja_order.h.
 */

#include <string.h>

#include "text/mst_case.h"
#include "text/mst_jinja_order.h"


/* "a.b.0" of an item */

static int
mst_jinja_order_path(mst_jinja_run_t *r, mst_value_t item, mst_text_t *path,
    mst_value_t *v)
{
    size_t       from, to, i;
    int64_t      next, n;
    mst_text_t  *part;

    if (mst_text_flat(r->w, path) != MST_OK) {
        return MST_ERROR;
    }

    *v = item;

    for (from = 0; from <= path->len; from = to + 1) {
        next = mst_text_find(path, mst_str(".", 1), from);
        to = next < 0 ? path->len : (size_t) next;

        part = mst_text_part(r->w, path, from, to - from);
        if (part == NULL) {
            return MST_ERROR;
        }

        for (i = 0, n = 0; i < part->len && i < 9; i++) {

            if (part->data[i] < '0' || part->data[i] > '9') {
                break;
            }

            n = n * 10 + (part->data[i] - '0');
        }

        if (mst_jinja_item(r, *v, part->len && i == part->len
                           ? mst_value_int(n) : mst_value_text(part), v)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_jinja_order_key(mst_jinja_run_t *r, const mst_jinja_key_t *k,
    mst_value_t item, mst_value_t *v)
{
    mst_text_t  *t;

    *v = item;

    if (k->attribute.type == MST_VALUE_TEXT) {

        if (mst_jinja_order_path(r, item, k->attribute.u.text, v) != MST_OK) {
            return MST_ERROR;
        }

    } else if (mst_jinja_order_given(k->attribute)) {

        if (mst_jinja_item(r, item, k->attribute, v) != MST_OK) {
            return MST_ERROR;
        }
    }

    if (v->type == MST_VALUE_UNDEFINED && mst_jinja_order_given(k->fallback)) {
        *v = k->fallback;
    }

    if (v->type != MST_VALUE_TEXT || !k->fold) {
        return MST_OK;
    }

    if (mst_text_flat(r->w, v->u.text) != MST_OK) {
        return MST_ERROR;
    }

    t = mst_case(r->w, v->u.text, MST_CASE_LOWER);
    *v = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}


/* a list of what several attributes are */

static int
mst_jinja_order_keys(mst_jinja_run_t *r, const mst_jinja_key_t *k,
    mst_value_t item, mst_value_t *v)
{
    size_t            from, to;
    int64_t           next;
    mst_list_t       *list;
    mst_text_t       *all, *part;
    mst_value_t       value;
    mst_jinja_key_t   one;

    if (!k->many || k->attribute.type != MST_VALUE_TEXT) {
        return mst_jinja_order_key(r, k, item, v);
    }

    all = k->attribute.u.text;
    list = mst_list_create(r->w, 2);
    one = *k;

    if (list == NULL || mst_text_flat(r->w, all) != MST_OK) {
        return MST_ERROR;
    }

    for (from = 0; from <= all->len; from = to + 1) {
        next = mst_text_find(all, mst_str(",", 1), from);
        to = next < 0 ? all->len : (size_t) next;

        part = mst_text_part(r->w, all, from, to - from);
        if (part == NULL) {
            return MST_ERROR;
        }

        one.attribute = mst_value_text(part);

        if (mst_jinja_order_key(r, &one, item, &value) != MST_OK
            || mst_list_add(r->w, list, value) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_list(MST_VALUE_LIST, list);

    return MST_OK;
}


mst_jinja_key_t
mst_jinja_order_by(mst_value_t attribute, int fold)
{
    mst_jinja_key_t  k;

    k.attribute = attribute;
    k.fallback = mst_value(MST_VALUE_ABSENT);
    k.fold = fold;
    k.many = 0;

    return k;
}


/*
 * "sort" compares lists of keys, and a list asks for the order of those
 * items alone that are not equal: two undefined ones are in order there
 */

static int
mst_jinja_order_items(mst_jinja_run_t *r, mst_value_t a, mst_value_t b,
    int listed, int *order)
{
    int  equal;

    *order = 0;
    equal = listed ? mst_value_equal(r->w, a, b) : 0;

    if (equal) {
        return equal == MST_ERROR ? MST_ERROR : MST_OK;
    }

    return mst_value_order(r->w, a, b, order);
}


/* keys[] sorts items[] with it; merging from the bottom is stable */

static int
mst_jinja_order_merge(mst_jinja_run_t *r, const mst_jinja_sort_t *s,
    mst_value_t *keys, mst_value_t *items, size_t n)
{
    int           order;
    size_t        width, i, j, k, left, mid, end;
    mst_value_t  *spare;

    spare = mst_work_array(r->w, 2 * n, sizeof(mst_value_t));
    if (spare == NULL) {
        return MST_ERROR;
    }

    for (width = 1; width < n; width *= 2) {

        for (left = 0; left < n; left = end) {
            mid = left + width < n ? left + width : n;
            end = mid + width < n ? mid + width : n;

            for (i = left, j = mid, k = left; k < end; k++) {
                order = 0;

                if (i < mid && j < end
                    && mst_jinja_order_items(r, keys[j], keys[i], s->listed,
                                           &order)
                       != MST_OK)
                {
                    return MST_ERROR;
                }

                order = order == 2 ? 0 : s->reverse ? -order : order;

                if (i < mid && (j == end || order >= 0)) {
                    spare[k] = keys[i];
                    spare[n + k] = items[i++];

                } else {
                    spare[k] = keys[j];
                    spare[n + k] = items[j++];
                }
            }
        }

        memcpy(keys, spare, n * sizeof(mst_value_t));
        memcpy(items, spare + n, n * sizeof(mst_value_t));
    }

    return MST_OK;
}


int
mst_jinja_order_sorted(mst_jinja_run_t *r, const mst_list_t *list,
    const mst_jinja_sort_t *s, mst_value_t *v)
{
    size_t        i;
    mst_list_t   *sorted;
    mst_value_t  *keys;

    sorted = mst_list_create(r->w, list->n);
    keys = mst_work_array(r->w, list->n, sizeof(mst_value_t));

    if (sorted == NULL || keys == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < list->n; i++) {
        sorted->items[i] = list->items[i];

        if (mst_jinja_order_keys(r, &s->key, list->items[i], &keys[i])
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    sorted->n = list->n;
    *v = mst_value_list(MST_VALUE_LIST, sorted);

    return list->n < 2 ? MST_OK
           : mst_jinja_order_merge(r, s, keys, sorted->items, list->n);
}
