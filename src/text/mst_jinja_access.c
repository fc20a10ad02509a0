
/*
 * Names, attributes, items, slices and iteration: see mst_jinja_run.h.
 */

#include <string.h>

#include "text/mst_jinja_run.h"


mst_value_t *
mst_jinja_find(mst_jinja_run_t *r, uint32_t id)
{
    size_t              n;
    mst_jinja_bind_t   *b;
    mst_jinja_scope_t  *s;

    n = 0;

    for (s = r->scope; s; s = s->parent) {

        for (b = s->first; b; b = b->next, n++) {

            if (b->id == id) {
                r->w->steps += n / 16;
                return &b->value;
            }
        }
    }

    r->w->steps += n / 16;

    return NULL;
}


/* in the innermost scope */

int
mst_jinja_bind(mst_jinja_run_t *r, uint32_t id, mst_value_t v)
{
    size_t             n;
    mst_jinja_bind_t  *b;

    for (b = r->scope->first, n = 0; b; b = b->next, n++) {

        if (b->id == id) {
            b->value = v;
            return mst_work_steps(r->w, n / 16);
        }
    }

    b = mst_work_alloc(r->w, sizeof(mst_jinja_bind_t));

    if (b == NULL || mst_work_steps(r->w, n / 16) != MST_OK) {
        return MST_ERROR;
    }

    b->id = id;
    b->value = v;
    b->next = r->scope->first;
    r->scope->first = b;

    return MST_OK;
}


static int
mst_jinja_access_undefined(mst_jinja_run_t *r, mst_value_t object)
{
    const mst_text_t  *name;

    name = object.u.text;

    if (name == NULL) {
        return mst_jinja_fail(r, "a value is undefined");
    }

    return mst_jinja_fail(r, "'%.*s' is undefined",
                          (int) (name->len < 100 ? name->len : 100),
                          name->data);
}


static int
mst_jinja_access_method(mst_jinja_run_t *r, mst_value_t object,
    mst_str_t name, mst_value_t *v)
{
    mst_jinja_callable_t       *f;
    const mst_jinja_builtin_t  *builtin;

    builtin = mst_jinja_method_find(object, name);

    if (builtin == NULL) {
        return MST_DECLINED;
    }

    f = mst_work_alloc(r->w, sizeof(mst_jinja_callable_t));
    if (f == NULL) {
        return MST_ERROR;
    }

    f->builtin = builtin;
    f->macro = NULL;
    f->subject = object;
    f->scope = NULL;

    v->type = MST_VALUE_CALL;
    v->u.p = f;

    return MST_OK;
}


static int
mst_jinja_access_missing(mst_text_t *name, mst_value_t *v)
{
    *v = mst_value(MST_VALUE_UNDEFINED);
    v->u.text = name;

    return MST_OK;
}


/* methods come before keys: {"items": 1}.items is the method */

int
mst_jinja_attr(mst_jinja_run_t *r, mst_value_t object, mst_text_t *name,
    mst_value_t *v)
{
    int           rc;
    mst_value_t  *found;

    if (object.type == MST_VALUE_UNDEFINED) {
        return mst_jinja_access_undefined(r, object);
    }

    if (mst_text_flat(r->w, name) != MST_OK) {
        return MST_ERROR;
    }

    if (object.type == MST_VALUE_LOOP) {
        rc = mst_jinja_loop_attr(r, object, mst_text_str(name), v);

    } else {
        rc = mst_jinja_access_method(r, object, mst_text_str(name), v);
    }

    if (rc != MST_DECLINED) {
        return rc;
    }

    if (object.type == MST_VALUE_DICT || object.type == MST_VALUE_NAMESPACE) {
        found = mst_dict_get(object.u.dict, mst_text_str(name));

        if (found) {
            *v = *found;
            return MST_OK;
        }
    }

    return mst_jinja_access_missing(name, v);
}


static int
mst_jinja_access_index(mst_jinja_run_t *r, mst_value_t object, int64_t i,
    mst_value_t *v)
{
    size_t       n, off;
    mst_text_t  *t;

    *v = mst_value(MST_VALUE_UNDEFINED);

    if (mst_jinja_length(r, object, &n) != MST_OK) {
        return MST_ERROR;
    }

    if (i < 0) {
        i += (int64_t) n;
    }

    if (i < 0 || i >= (int64_t) n) {
        return MST_OK;
    }

    if (object.type != MST_VALUE_TEXT) {
        *v = object.u.list->items[i];
        return MST_OK;
    }

    t = object.u.text;
    off = n == t->len ? (size_t) i : mst_text_offset(t, (size_t) i);
    t = mst_text_part(r->w, t, off, mst_text_char(t, off));

    if (t == NULL) {
        return MST_ERROR;
    }

    *v = mst_value_text(t);

    return MST_OK;
}


int
mst_jinja_item(mst_jinja_run_t *r, mst_value_t object, mst_value_t key,
    mst_value_t *v)
{
    int                rc;
    mst_dict_entry_t  *e;

    if (object.type == MST_VALUE_UNDEFINED) {
        return mst_jinja_access_undefined(r, object);
    }

    if (object.type == MST_VALUE_DICT && key.type != MST_VALUE_LIST
        && key.type != MST_VALUE_DICT)
    {
        e = mst_dict_find(r->w, object.u.dict, key, &rc);

        if (e) {
            *v = e->value;
            return MST_OK;
        }

        if (rc != MST_OK) {
            return MST_ERROR;
        }
    }

    if ((key.type == MST_VALUE_INT || key.type == MST_VALUE_BOOL)
        && (object.type == MST_VALUE_LIST || object.type == MST_VALUE_TUPLE
            || object.type == MST_VALUE_TEXT))
    {
        return mst_jinja_access_index(r, object, key.u.n, v);
    }

    if (key.type == MST_VALUE_TEXT) {
        return mst_jinja_attr(r, object, key.u.text, v);
    }

    *v = mst_value(MST_VALUE_UNDEFINED);

    return MST_OK;
}


/* as Python's slice.indices(): start, stop and step within n */

static int
mst_jinja_access_bounds(mst_jinja_run_t *r, const mst_value_t *bounds,
    size_t size, int64_t *start, int64_t *stop, int64_t *step)
{
    size_t   i;
    int64_t  n, low, high, *to;

    n = (int64_t) size;

    for (i = 0; i < 3; i++) {

        if (bounds[i].type != MST_VALUE_NONE
            && bounds[i].type != MST_VALUE_INT
            && bounds[i].type != MST_VALUE_BOOL)
        {
            return mst_jinja_fail(r, "a slice has a bound of type %s",
                                  mst_value_kind(bounds[i]));
        }
    }

    *step = bounds[2].type == MST_VALUE_NONE ? 1 : bounds[2].u.n;

    if (*step == 0) {
        return mst_jinja_fail(r, "slice step cannot be zero");
    }

    /* no longer step has another effect, and none overflows */

    *step = *step > n + 1 ? n + 1 : *step < -n - 1 ? -n - 1 : *step;

    low = *step < 0 ? -1 : 0;
    high = *step < 0 ? n - 1 : n;

    for (i = 0; i < 2; i++) {
        to = i ? stop : start;

        if (bounds[i].type == MST_VALUE_NONE) {
            *to = (i == 0) == (*step < 0) ? high : low;
            continue;
        }

        *to = bounds[i].u.n;

        if (*to < 0) {
            *to = *to < -n ? low : *to + n;
        }

        *to = *to < low ? low : *to > high ? high : *to;
    }

    return MST_OK;
}


static int
mst_jinja_access_slice_text(mst_jinja_run_t *r, mst_text_t *t, int64_t start,
    int64_t stop, int64_t step, mst_value_t *v)
{
    int             rc;
    size_t          from, to;
    int64_t         i;
    mst_text_t     *part;
    mst_text_out_t  out;

    if (step == 1) {
        from = mst_text_offset(t, (size_t) start);
        to = stop > start ? mst_text_offset(t, (size_t) stop) : from;
        part = mst_text_part(r->w, t, from, to - from);

        *v = mst_value_text(part);

        return part ? MST_OK : MST_ERROR;
    }

    mst_text_out_init(&out);
    rc = MST_OK;

    for (i = start; rc == MST_OK && (step < 0 ? i > stop : i < stop);
         i += step)
    {
        from = mst_text_offset(t, (size_t) i);
        part = mst_text_part(r->w, t, from, mst_text_char(t, from));

        rc = part && mst_work_steps(r->w, 1 + from / 16) == MST_OK
             ? mst_text_out_add(&out, r->w, part) : MST_ERROR;
    }

    part = rc == MST_OK ? mst_text_out_take(&out, r->w) : NULL;
    part = part ? mst_text_markup(r->w, part, t->markup) : NULL;
    mst_text_out_fini(&out);

    *v = mst_value_text(part);

    return part ? MST_OK : MST_ERROR;
}


int
mst_jinja_slice(mst_jinja_run_t *r, mst_value_t object,
    const mst_value_t *bounds, mst_value_t *v)
{
    size_t       n;
    int64_t      i, start, stop, step;
    mst_list_t  *list;

    if (object.type == MST_VALUE_UNDEFINED) {
        return mst_jinja_access_undefined(r, object);
    }

    start = 0;
    stop = 0;
    step = 1;

    if (object.type != MST_VALUE_TEXT && object.type != MST_VALUE_LIST
        && object.type != MST_VALUE_TUPLE)
    {
        return mst_jinja_fail(r, "a value of type %s cannot be sliced",
                              mst_value_kind(object));
    }

    if (mst_jinja_length(r, object, &n) != MST_OK
        || mst_jinja_access_bounds(r, bounds, n, &start, &stop, &step)
           != MST_OK)
    {
        return MST_ERROR;
    }

    if (object.type == MST_VALUE_TEXT) {
        return mst_jinja_access_slice_text(r, object.u.text, start, stop,
                                           step, v);
    }

    list = mst_list_create(r->w, 0);
    if (list == NULL) {
        return MST_ERROR;
    }

    /* neighbours are shared, not copied */

    if (step == 1) {

        if (stop > start) {
            list->items = object.u.list->items + start;
            list->n = (size_t) (stop - start);
            list->size = list->n;
        }

    } else {

        for (i = start; step < 0 ? i > stop : i < stop; i += step) {

            if (mst_work_steps(r->w, 1) != MST_OK
                || mst_list_add(r->w, list, object.u.list->items[i])
                   != MST_OK)
            {
                return MST_ERROR;
            }
        }
    }

    *v = mst_value_list(object.type, list);

    return MST_OK;
}


static int
mst_jinja_access_chars(mst_jinja_run_t *r, mst_text_t *t, mst_list_t *list)
{
    size_t       i, n;
    mst_text_t  *part;

    if (mst_text_flat(r->w, t) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < t->len; i += n) {
        n = mst_text_char(t, i);
        part = mst_text_part(r->w, t, i, n);
        part = part ? mst_text_markup(r->w, part, 0) : NULL;

        if (part == NULL || mst_work_steps(r->w, 1) != MST_OK
            || mst_list_add(r->w, list, mst_value_text(part)) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_jinja_access_keys(mst_jinja_run_t *r, const mst_dict_t *d,
    mst_list_t *list)
{
    size_t  i;

    for (i = 0; i < d->n; i++) {

        if (mst_work_steps(r->w, 1) != MST_OK
            || mst_list_add(r->w, list, d->entries[i].key) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_jinja_iterate(mst_jinja_run_t *r, mst_value_t v, mst_list_t **list)
{
    mst_list_t  *l;

    if (v.type == MST_VALUE_LIST || v.type == MST_VALUE_TUPLE
        || v.type == MST_VALUE_VIEW)
    {
        *list = v.u.list;
        return MST_OK;
    }

    l = mst_list_create(r->w, 0);
    *list = l;

    if (l == NULL) {
        return MST_ERROR;
    }

    switch (v.type) {

    case MST_VALUE_ITERATOR:
        if (v.u.list->taken < v.u.list->n) {
            l->items = v.u.list->items + v.u.list->taken;
            l->n = v.u.list->n - v.u.list->taken;
            l->size = l->n;
            v.u.list->taken = v.u.list->n;
        }

        return MST_OK;

    case MST_VALUE_UNDEFINED:
        return MST_OK;

    case MST_VALUE_TEXT:
        return mst_jinja_access_chars(r, v.u.text, l);

    case MST_VALUE_DICT:
        return mst_jinja_access_keys(r, v.u.dict, l);

    default:
        return mst_jinja_fail(r, "a value of type %s cannot be iterated",
                              mst_value_kind(v));
    }
}


int
mst_jinja_contains(mst_jinja_run_t *r, mst_value_t container,
    mst_value_t item)
{
    int          rc;
    size_t       i;
    mst_list_t  *list;

    if (container.type == MST_VALUE_DICT) {
        return mst_dict_find(r->w, container.u.dict, item, &rc) ? 1
               : rc == MST_OK ? 0 : MST_ERROR;
    }

    if (container.type == MST_VALUE_TEXT) {

        if (item.type != MST_VALUE_TEXT) {
            return mst_jinja_fail(r, "a value of type %s cannot be in a "
                                  "string", mst_value_kind(item));
        }

        if (mst_text_flat(r->w, container.u.text) != MST_OK
            || mst_text_flat(r->w, item.u.text) != MST_OK
            || mst_work_steps(r->w, container.u.text->len / 256) != MST_OK)
        {
            return MST_ERROR;
        }

        return mst_text_find(container.u.text, mst_text_str(item.u.text), 0)
               >= 0;
    }

    if (mst_jinja_iterate(r, container, &list) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < list->n; i++) {
        rc = mst_value_equal(r->w, list->items[i], item);

        if (rc) {
            return rc;
        }
    }

    return 0;
}


int
mst_jinja_length(mst_jinja_run_t *r, mst_value_t v, size_t *n)
{
    switch (v.type) {

    case MST_VALUE_UNDEFINED:
        *n = 0;
        return MST_OK;

    case MST_VALUE_TEXT:
        if (mst_text_flat(r->w, v.u.text) != MST_OK
            || mst_work_steps(r->w, v.u.text->len / 64) != MST_OK)
        {
            return MST_ERROR;
        }

        *n = mst_text_chars(v.u.text);
        return MST_OK;

    case MST_VALUE_LIST:
    case MST_VALUE_TUPLE:
    case MST_VALUE_VIEW:
        *n = v.u.list->n;
        return MST_OK;

    case MST_VALUE_DICT:
        *n = v.u.dict->n;
        return MST_OK;

    default:
        return mst_jinja_fail(r, "a value of type %s has no length",
                              mst_value_kind(v));
    }
}


int
mst_jinja_text(mst_jinja_run_t *r, mst_value_t v, const char *what,
    mst_text_t **t)
{
    if (v.type != MST_VALUE_TEXT) {
        return mst_jinja_fail(r, "%s needs a string, not a value of type %s",
                              what, mst_value_kind(v));
    }

    *t = v.u.text;

    return mst_text_flat(r->w, *t);
}


int
mst_jinja_int(mst_jinja_run_t *r, mst_value_t v, const char *what,
    int64_t *n)
{
    if (v.type != MST_VALUE_INT && v.type != MST_VALUE_BOOL) {
        return mst_jinja_fail(r, "%s needs an integer, not a value of type "
                              "%s", what, mst_value_kind(v));
    }

    *n = v.u.n;

    return MST_OK;
}
