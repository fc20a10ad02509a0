
/*
 * Methods of lists, dictionaries and loops: see mst_jinja_run.h.  Those that
 * would change a value are refused when they are called, as in jinja2's
 * sandbox: a template that can do without them is no worse for naming them.
 */

#include "text/mst_jinja_run.h"

#define MST_JINJA_METHOD_TUPLE  2      /* of a list's: index, count */


static int
mst_jinja_method_pair(mst_jinja_run_t *r, mst_value_t key, mst_value_t value,
    mst_value_t *v)
{
    mst_list_t  *list;

    list = mst_list_create(r->w, 2);
    if (list == NULL) {
        return MST_ERROR;
    }

    list->items[0] = key;
    list->items[1] = value;
    list->n = 2;
    *v = mst_value_list(MST_VALUE_TUPLE, list);

    return MST_OK;
}


/* what: 1 the keys, 2 the values, 3 both */

static int
mst_jinja_method_view(mst_jinja_run_t *r, mst_value_t subject, int what,
    mst_value_t *v)
{
    size_t                   i;
    mst_dict_t              *d;
    mst_list_t              *list;
    mst_value_t              item;
    const mst_dict_entry_t  *e;

    d = subject.u.dict;
    list = mst_list_create(r->w, d->n);

    if (list == NULL || mst_work_steps(r->w, d->n) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < d->n; i++) {
        e = &d->entries[i];
        item = what == 1 ? e->key : e->value;

        if (what == 3
            && mst_jinja_method_pair(r, e->key, e->value, &item) != MST_OK)
        {
            return MST_ERROR;
        }

        list->items[list->n++] = item;
    }

    *v = mst_value_list(MST_VALUE_VIEW, list);

    return MST_OK;
}


static int
mst_jinja_method_keys(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_method_view(r, subject, 1, v);
}


static int
mst_jinja_method_values(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_method_view(r, subject, 2, v);
}


static int
mst_jinja_method_items(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_method_view(r, subject, 3, v);
}


static int
mst_jinja_method_get(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int                rc;
    mst_dict_entry_t  *e;

    e = mst_dict_find(r->w, subject.u.dict, a->v[0], &rc);

    *v = e ? e->value : a->v[1].type == MST_VALUE_ABSENT
                        ? mst_value(MST_VALUE_NONE) : a->v[1];

    return rc;
}


static int
mst_jinja_method_copy(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) r;
    (void) a;

    *v = subject;

    return MST_OK;
}


/* how often an item is in a list */

static int
mst_jinja_method_occurs(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int      equal;
    size_t   i;
    int64_t  n;

    for (i = 0, n = 0; i < subject.u.list->n; i++) {
        equal = mst_value_equal(r->w, subject.u.list->items[i], a->v[0]);

        if (equal == MST_ERROR) {
            return MST_ERROR;
        }

        n += equal;
    }

    *v = mst_value_int(n);

    return MST_OK;
}


static int
mst_jinja_method_index(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int     equal;
    size_t  i;

    for (i = 0; i < subject.u.list->n; i++) {
        equal = mst_value_equal(r->w, subject.u.list->items[i], a->v[0]);

        if (equal) {
            *v = mst_value_int((int64_t) i);
            return equal == MST_ERROR ? MST_ERROR : MST_OK;
        }
    }

    return mst_jinja_fail(r, "index() does not find the item");
}


static int
mst_jinja_method_cycle(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    const mst_jinja_loop_t  *loop;

    (void) r;

    loop = subject.u.p;
    *v = a->v[loop->index % a->n];

    return MST_OK;
}


static int
mst_jinja_method_changed(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int                equal;
    size_t             i;
    mst_list_t        *list;
    mst_value_t        tuple;
    mst_jinja_loop_t  *loop;

    loop = subject.u.p;
    list = mst_list_create(r->w, a->n);

    if (list == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < a->n; i++) {
        list->items[list->n++] = a->v[i];
    }

    tuple = mst_value_list(MST_VALUE_TUPLE, list);
    equal = mst_value_equal(r->w, tuple, loop->last);

    loop->last = tuple;
    *v = mst_value_bool(!equal);

    return equal == MST_ERROR ? MST_ERROR : MST_OK;
}


/* MST_DECLINED: no number of the loop has this name */

static int
mst_jinja_loop_number(const mst_jinja_loop_t *l, mst_str_t name,
    mst_value_t *v)
{
    size_t   i;
    int64_t  at, n, numbers[7];

    static const char *const  names[] = {
        "index", "index0", "revindex", "revindex0", "length", "depth",
        "depth0"
    };

    at = (int64_t) l->index;
    n = (int64_t) l->items->n;

    numbers[0] = at + 1;
    numbers[1] = at;
    numbers[2] = n - at;
    numbers[3] = n - at - 1;
    numbers[4] = n;
    numbers[5] = l->depth + 1;
    numbers[6] = l->depth;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {

        if (mst_str_eq(name, names[i])) {
            *v = mst_value_int(numbers[i]);
            return MST_OK;
        }
    }

    return MST_DECLINED;
}


int
mst_jinja_loop_attr(mst_jinja_run_t *r, mst_value_t loop, mst_str_t name,
    mst_value_t *v)
{
    int64_t                     at, n;
    mst_jinja_callable_t       *f;
    const mst_jinja_loop_t     *l;
    const mst_jinja_builtin_t  *b;

    l = loop.u.p;
    at = (int64_t) l->index;
    n = (int64_t) l->items->n;

    if (mst_jinja_loop_number(l, name, v) == MST_OK) {
        return MST_OK;
    }

    if (mst_str_eq(name, "first") || mst_str_eq(name, "last")) {
        *v = mst_value_bool(name.len == 5 ? at == 0 : at + 1 == n);
        return MST_OK;
    }

    if (mst_str_eq(name, "previtem") || mst_str_eq(name, "nextitem")) {
        at += name.data[0] == 'p' ? -1 : 1;
        *v = at >= 0 && at < n ? l->items->items[at]
                               : mst_value(MST_VALUE_UNDEFINED);
        return MST_OK;
    }

    b = mst_jinja_method_find(loop, name);

    if (b == NULL) {
        return MST_DECLINED;
    }

    f = mst_work_alloc(r->w, sizeof(mst_jinja_callable_t));
    if (f == NULL) {
        return MST_ERROR;
    }

    f->builtin = b;
    f->macro = NULL;
    f->subject = loop;
    f->scope = NULL;

    v->type = MST_VALUE_CALL;
    v->u.p = f;

    return MST_OK;
}


static int
mst_jinja_method_change(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;
    (void) v;

    return mst_jinja_fail(r, "a template must not change a %s",
                          mst_value_kind(subject));
}


static const mst_jinja_builtin_t  mst_jinja_method_dict[] = {
    { "items", "", 0, mst_jinja_method_items, 0 },
    { "keys", "", 0, mst_jinja_method_keys, 0 },
    { "values", "", 0, mst_jinja_method_values, 0 },
    { "get", "key,default", 1, mst_jinja_method_get, 0 },
    { "copy", "", 0, mst_jinja_method_copy, 0 },
    { "clear", "*", 0, mst_jinja_method_change, 0 },
    { "pop", "*", 0, mst_jinja_method_change, 0 },
    { "popitem", "*", 0, mst_jinja_method_change, 0 },
    { "setdefault", "*", 0, mst_jinja_method_change, 0 },
    { "update", "*", 0, mst_jinja_method_change, 0 }
};

static const mst_jinja_builtin_t  mst_jinja_method_list[] = {
    { "index", "value", 1, mst_jinja_method_index, 0 },
    { "count", "value", 1, mst_jinja_method_occurs, 0 },
    { "copy", "", 0, mst_jinja_method_copy, 0 },
    { "append", "*", 0, mst_jinja_method_change, 0 },
    { "clear", "*", 0, mst_jinja_method_change, 0 },
    { "extend", "*", 0, mst_jinja_method_change, 0 },
    { "insert", "*", 0, mst_jinja_method_change, 0 },
    { "pop", "*", 0, mst_jinja_method_change, 0 },
    { "remove", "*", 0, mst_jinja_method_change, 0 },
    { "reverse", "*", 0, mst_jinja_method_change, 0 },
    { "sort", "*", 0, mst_jinja_method_change, 0 }
};

static const mst_jinja_builtin_t  mst_jinja_method_loop[] = {
    { "cycle", "*", 1, mst_jinja_method_cycle, 0 },
    { "changed", "*", 0, mst_jinja_method_changed, 0 }
};

static const struct {
    uint32_t                    types;
    const mst_jinja_builtin_t  *table;
    size_t                      n;
} mst_jinja_methods[] = {
    { 1u << MST_VALUE_DICT, mst_jinja_method_dict,
      sizeof(mst_jinja_method_dict) / sizeof(mst_jinja_builtin_t) },
    { 1u << MST_VALUE_LIST, mst_jinja_method_list,
      sizeof(mst_jinja_method_list) / sizeof(mst_jinja_builtin_t) },
    { 1u << MST_VALUE_TUPLE, mst_jinja_method_list,
      MST_JINJA_METHOD_TUPLE },
    { 1u << MST_VALUE_LOOP, mst_jinja_method_loop,
      sizeof(mst_jinja_method_loop) / sizeof(mst_jinja_builtin_t) }
};


const mst_jinja_builtin_t *
mst_jinja_method_find(mst_value_t object, mst_str_t name)
{
    size_t  i;

    if (object.type == MST_VALUE_TEXT) {
        return mst_jinja_string_find(name);
    }

    for (i = 0; i < sizeof(mst_jinja_methods) / sizeof(mst_jinja_methods[0]);
         i++)
    {
        if (mst_jinja_methods[i].types >> object.type & 1) {
            return mst_jinja_builtin_find(mst_jinja_methods[i].table,
                                          mst_jinja_methods[i].n, name);
        }
    }

    return NULL;
}


int
mst_jinja_method_known(mst_str_t name)
{
    size_t  i;

    for (i = 0; i < sizeof(mst_jinja_methods) / sizeof(mst_jinja_methods[0]);
         i++)
    {
        if (mst_jinja_builtin_find(mst_jinja_methods[i].table,
                                   mst_jinja_methods[i].n, name))
        {
            return 1;
        }
    }

    return mst_jinja_string_find(name) != NULL;
}
