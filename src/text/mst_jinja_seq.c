
/*
 * Filters of lists: see mst_jinja_run.h.  What jinja2 makes one by one on
 * demand is made at once and is read once all the same.
 */

#include <string.h>

#include "text/mst_jinja_order.h"


static int
mst_jinja_seq_flag(mst_value_t v)
{
    return v.type != MST_VALUE_ABSENT && mst_value_true(v);
}


static int
mst_jinja_seq_join(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t           i;
    mst_list_t      *list;
    mst_text_t      *sum, *glue, *t;
    mst_value_t      item;
    mst_jinja_key_t  k;

    sum = mst_text_of(r->w, "", 0, MST_TEXT_VALUE);
    glue = a->v[0].type == MST_VALUE_ABSENT ? sum
           : mst_python_str(r->w, a->v[0]);

    if (sum == NULL || glue == NULL
        || mst_jinja_iterate(r, subject, &list) != MST_OK)
    {
        return MST_ERROR;
    }

    k = mst_jinja_order_by(a->v[1], 0);

    for (i = 0; i < list->n; i++) {

        if (mst_jinja_order_key(r, &k, list->items[i], &item) != MST_OK
            || mst_work_steps(r->w, 1) != MST_OK)
        {
            return MST_ERROR;
        }

        t = mst_python_str(r->w, item);

        if (i) {
            sum = mst_text_sum(r->w, sum, glue);
        }

        sum = sum && t ? mst_text_sum(r->w, sum, t) : NULL;

        if (sum == NULL) {
            return MST_ERROR;
        }
    }

    sum = mst_text_markup(r->w, sum, 0);
    *v = mst_value_text(sum);

    return sum ? MST_OK : MST_ERROR;
}


static int
mst_jinja_seq_first(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_list_t  *list;

    (void) a;

    /* one is taken, the others stay in an iterator */

    if (subject.type == MST_VALUE_ITERATOR) {
        list = subject.u.list;

        *v = list->taken < list->n ? list->items[list->taken++]
                                   : mst_value(MST_VALUE_UNDEFINED);
        return MST_OK;
    }

    if (mst_jinja_iterate(r, subject, &list) != MST_OK) {
        return MST_ERROR;
    }

    *v = list->n ? list->items[0] : mst_value(MST_VALUE_UNDEFINED);

    return MST_OK;
}


static int
mst_jinja_seq_last(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_list_t  *list;

    (void) a;

    if (subject.type == MST_VALUE_ITERATOR) {
        return mst_jinja_fail(r, "last needs a list, not a generator");
    }

    if (mst_jinja_iterate(r, subject, &list) != MST_OK) {
        return MST_ERROR;
    }

    *v = list->n ? list->items[list->n - 1] : mst_value(MST_VALUE_UNDEFINED);

    return MST_OK;
}


static int
mst_jinja_seq_list(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_list_t  *list;

    (void) a;

    if (mst_jinja_iterate(r, subject, &list) != MST_OK) {
        return MST_ERROR;
    }

    *v = mst_value_list(MST_VALUE_LIST, list);

    return MST_OK;
}


static int
mst_jinja_seq_reverse(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       i;
    mst_list_t  *list, *back;
    mst_value_t  bounds[3];

    (void) a;

    if (subject.type == MST_VALUE_TEXT) {
        bounds[0] = mst_value(MST_VALUE_NONE);
        bounds[1] = bounds[0];
        bounds[2] = mst_value_int(-1);

        return mst_jinja_slice(r, subject, bounds, v);
    }

    back = mst_list_create(r->w, 0);

    if (back == NULL || mst_jinja_iterate(r, subject, &list) != MST_OK) {
        return MST_ERROR;
    }

    for (i = list->n; i > 0; i--) {

        if (mst_work_steps(r->w, 1) != MST_OK
            || mst_list_add(r->w, back, list->items[i - 1]) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_list(MST_VALUE_ITERATOR, back);

    return MST_OK;
}


static int
mst_jinja_seq_sort(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_list_t        *list;
    mst_jinja_sort_t   s;

    if (mst_jinja_iterate(r, subject, &list) != MST_OK) {
        return MST_ERROR;
    }

    s.key = mst_jinja_order_by(a->v[2], !mst_jinja_seq_flag(a->v[1]));
    s.key.many = 1;
    s.reverse = mst_jinja_seq_flag(a->v[0]);
    s.listed = 1;

    return mst_jinja_order_sorted(r, list, &s, v);
}


static int
mst_jinja_seq_dictsort(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int               by_value;
    mst_text_t       *by;
    mst_value_t       pairs;
    mst_jinja_args_t  none;
    mst_jinja_sort_t  s;

    by_value = 0;

    if (subject.type != MST_VALUE_DICT) {
        return mst_jinja_fail(r, "dictsort needs a dictionary");
    }

    if (a->v[1].type != MST_VALUE_ABSENT) {

        if (mst_jinja_text(r, a->v[1], "dictsort", &by) != MST_OK) {
            return MST_ERROR;
        }

        by_value = mst_str_eq(mst_text_str(by), "value");

        if (!by_value && !mst_str_eq(mst_text_str(by), "key")) {
            return mst_jinja_fail(r, "dictsort sorts by key or value");
        }
    }

    memset(&none, 0, sizeof(mst_jinja_args_t));

    if (mst_jinja_builtin(r, mst_jinja_method_find(subject,
                                                   mst_str("items", 5)),
                          subject, &none, &pairs)
        != MST_OK)
    {
        return MST_ERROR;
    }

    s.key = mst_jinja_order_by(mst_value_int(by_value),
                             !mst_jinja_seq_flag(a->v[0]));
    s.reverse = mst_jinja_seq_flag(a->v[2]);
    s.listed = 0;

    return mst_jinja_order_sorted(r, pairs.u.list, &s, v);
}


static int
mst_jinja_seq_items(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_list_t  *list;

    if (subject.type == MST_VALUE_UNDEFINED) {
        list = mst_list_create(r->w, 0);
        *v = mst_value_list(MST_VALUE_ITERATOR, list);

        return list ? MST_OK : MST_ERROR;
    }

    if (subject.type != MST_VALUE_DICT) {
        return mst_jinja_fail(r, "items needs a dictionary, not a value of "
                              "type %s", mst_value_kind(subject));
    }

    if (mst_jinja_builtin(r, mst_jinja_method_find(subject,
                                                   mst_str("items", 5)),
                          subject, a, v)
        != MST_OK)
    {
        return MST_ERROR;
    }

    v->type = MST_VALUE_ITERATOR;

    return MST_OK;
}


static int
mst_jinja_seq_unique(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int               rc;
    size_t            i;
    mst_list_t       *list, *some;
    mst_dict_t       *seen;
    mst_value_t       key;
    mst_jinja_key_t   k;

    some = mst_list_create(r->w, 0);
    seen = mst_dict_create(r->w, 0);

    if (some == NULL || seen == NULL
        || mst_jinja_iterate(r, subject, &list) != MST_OK)
    {
        return MST_ERROR;
    }

    k = mst_jinja_order_by(a->v[1], !mst_jinja_seq_flag(a->v[0]));

    for (i = 0; i < list->n; i++) {

        if (mst_jinja_order_key(r, &k, list->items[i], &key) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_dict_find(r->w, seen, key, &rc)) {
            continue;
        }

        if (rc != MST_OK
            || mst_dict_set(r->w, seen, key, mst_value(MST_VALUE_NONE))
               != MST_OK
            || mst_list_add(r->w, some, list->items[i]) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_list(MST_VALUE_ITERATOR, some);

    return MST_OK;
}


static int
mst_jinja_seq_extreme(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, int sign, mst_value_t *v)
{
    int              order;
    size_t           i;
    mst_list_t      *list;
    mst_value_t      key, best;
    mst_jinja_key_t  k;

    *v = mst_value(MST_VALUE_UNDEFINED);
    best = *v;

    if (mst_jinja_iterate(r, subject, &list) != MST_OK) {
        return MST_ERROR;
    }

    k = mst_jinja_order_by(a->v[1], !mst_jinja_seq_flag(a->v[0]));

    for (i = 0; i < list->n; i++) {

        if (mst_jinja_order_key(r, &k, list->items[i], &key) != MST_OK
            || (i && mst_value_order(r->w, key, best, &order) != MST_OK))
        {
            return MST_ERROR;
        }

        if (i == 0 || (order != 2 && order * sign > 0)) {
            best = key;
            *v = list->items[i];
        }
    }

    return MST_OK;
}


static int
mst_jinja_seq_min(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_seq_extreme(r, subject, a, -1, v);
}


static int
mst_jinja_seq_max(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_seq_extreme(r, subject, a, 1, v);
}


static int
mst_jinja_seq_sum(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t           i;
    mst_list_t      *list;
    mst_value_t      item;
    mst_jinja_key_t  k;

    *v = a->v[1].type == MST_VALUE_ABSENT ? mst_value_int(0) : a->v[1];

    if (v->type == MST_VALUE_TEXT) {
        return mst_jinja_fail(r, "sum adds no strings, join does");
    }

    if (mst_jinja_iterate(r, subject, &list) != MST_OK) {
        return MST_ERROR;
    }

    k = mst_jinja_order_by(a->v[0], 0);

    for (i = 0; i < list->n; i++) {

        if (mst_work_steps(r->w, 1) != MST_OK
            || mst_jinja_order_key(r, &k, list->items[i], &item) != MST_OK
            || mst_jinja_math(r, '+', *v, item, v) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* of what is false there is nothing, whatever it is */

static int
mst_jinja_seq_some(mst_jinja_run_t *r, mst_value_t v, mst_list_t **list)
{
    if (mst_value_true(v)) {
        return mst_jinja_iterate(r, v, list);
    }

    *list = mst_list_create(r->w, 0);

    return *list ? MST_OK : MST_ERROR;
}


/* the filter or test that an argument names */

static int
mst_jinja_seq_named(mst_jinja_run_t *r, mst_value_t name, int test,
    const mst_jinja_builtin_t **b)
{
    mst_text_t  *t;

    if (mst_jinja_text(r, name, test ? "the name of a test"
                       : "the name of a filter", &t) != MST_OK)
    {
        return MST_ERROR;
    }

    *b = test ? mst_jinja_is_find(mst_text_str(t))
              : mst_jinja_filter_find(mst_text_str(t));

    if (*b == NULL) {
        return mst_jinja_fail(r, "the %s \"%.*s\" is not supported",
                              test ? "test" : "filter",
                              (int) (t->len < 40 ? t->len : 40), t->data);
    }

    return MST_OK;
}


/* map(attribute="a", default=b) */

static int
mst_jinja_seq_map_key(mst_jinja_run_t *r, const mst_jinja_args_t *a,
    mst_jinja_key_t *k)
{
    size_t     i;
    mst_str_t  name;

    *k = mst_jinja_order_by(mst_value(MST_VALUE_ABSENT), 0);

    for (i = 0; i < a->n_keywords; i++) {
        name = mst_text_str(a->keywords[i].name.u.text);

        if (mst_str_eq(name, "attribute")) {
            k->attribute = a->keywords[i].value;

        } else if (mst_str_eq(name, "default")) {
            k->fallback = a->keywords[i].value;

        } else {
            return mst_jinja_fail(r, "map takes no argument \"%.*s\"",
                                  (int) (name.len < 40 ? name.len : 40),
                                  name.data);
        }
    }

    return mst_jinja_order_given(k->attribute) ? MST_OK
           : mst_jinja_fail(r, "map needs a filter or an attribute");
}


static int
mst_jinja_seq_map(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t                      i;
    mst_list_t                 *list, *to;
    mst_value_t                 item;
    mst_jinja_key_t             k;
    mst_jinja_args_t            rest;
    const mst_jinja_builtin_t  *b;

    b = NULL;
    rest = *a;
    to = mst_list_create(r->w, 0);

    if (to == NULL || mst_jinja_seq_some(r, subject, &list) != MST_OK
        || (a->n ? mst_jinja_seq_named(r, a->v[0], 0, &b)
                 : mst_jinja_seq_map_key(r, a, &k)) != MST_OK)
    {
        return MST_ERROR;
    }

    if (b) {
        rest.v++;
        rest.n--;
    }

    for (i = 0; i < list->n; i++) {

        if (mst_work_steps(r->w, 1) != MST_OK
            || (b ? mst_jinja_builtin(r, b, list->items[i], &rest, &item)
                  : mst_jinja_order_key(r, &k, list->items[i], &item)) != MST_OK
            || mst_list_add(r->w, to, item) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_list(MST_VALUE_ITERATOR, to);

    return MST_OK;
}


/* items for which a test, of them or of an attribute, is "want" */

static int
mst_jinja_seq_choose(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, int by, int want, mst_value_t *v)
{
    size_t                      i;
    mst_list_t                 *list, *some;
    mst_value_t                 item, is;
    mst_jinja_key_t             k;
    mst_jinja_args_t            rest;
    const mst_jinja_builtin_t  *b;

    b = NULL;
    k = mst_jinja_order_by(by ? a->v[0] : mst_value(MST_VALUE_ABSENT), 0);
    rest = *a;
    rest.v += by;
    rest.n -= (size_t) by;
    some = mst_list_create(r->w, 0);

    if (some == NULL || mst_jinja_seq_some(r, subject, &list) != MST_OK
        || (rest.n && mst_jinja_seq_named(r, rest.v[0], 1, &b) != MST_OK))
    {
        return MST_ERROR;
    }

    if (b) {
        rest.v++;
        rest.n--;
    }

    for (i = 0; i < list->n; i++) {

        if (mst_work_steps(r->w, 1) != MST_OK
            || mst_jinja_order_key(r, &k, list->items[i], &item) != MST_OK)
        {
            return MST_ERROR;
        }

        is = item;

        if (b && mst_jinja_builtin(r, b, item, &rest, &is) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_value_true(is) == want
            && mst_list_add(r->w, some, list->items[i]) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_list(MST_VALUE_ITERATOR, some);

    return MST_OK;
}


static int
mst_jinja_seq_select(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_seq_choose(r, subject, a, 0, 1, v);
}


static int
mst_jinja_seq_reject(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_seq_choose(r, subject, a, 0, 0, v);
}


static int
mst_jinja_seq_selectattr(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_seq_choose(r, subject, a, 1, 1, v);
}


static int
mst_jinja_seq_rejectattr(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_seq_choose(r, subject, a, 1, 0, v);
}


/* lists of so many items */

static int
mst_jinja_seq_batch(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       i;
    int64_t      n;
    mst_list_t  *list, *to, *part;

    part = NULL;
    to = mst_list_create(r->w, 0);

    if (to == NULL || mst_jinja_int(r, a->v[0], "batch", &n) != MST_OK
        || mst_jinja_iterate(r, subject, &list) != MST_OK)
    {
        return MST_ERROR;
    }

    if (n < 1 || n > 10000) {
        return mst_jinja_fail(r, "batch makes lists of 1 to 10000 items");
    }

    for (i = 0; i < list->n || (part && mst_jinja_order_given(a->v[1])
                                && part->n < (size_t) n); i++)
    {
        if (i < list->n && i % (size_t) n == 0) {
            part = mst_list_create(r->w, 0);

            if (part == NULL
                || mst_list_add(r->w, to, mst_value_list(MST_VALUE_LIST,
                                                         part)) != MST_OK)
            {
                return MST_ERROR;
            }
        }

        if (mst_work_steps(r->w, 1) != MST_OK
            || mst_list_add(r->w, part, i < list->n ? list->items[i]
                                                    : a->v[1]) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_list(MST_VALUE_ITERATOR, to);

    return MST_OK;
}


static const mst_jinja_builtin_t  mst_jinja_seq[] = {
    { "join", "d,attribute", 0, mst_jinja_seq_join, 0 },
    { "first", "", 0, mst_jinja_seq_first, 0 },
    { "last", "", 0, mst_jinja_seq_last, 0 },
    { "list", "", 0, mst_jinja_seq_list, 0 },
    { "reverse", "", 0, mst_jinja_seq_reverse, 0 },
    { "sort", "reverse,case_sensitive,attribute", 0, mst_jinja_seq_sort, 0 },
    { "dictsort", "case_sensitive,by,reverse", 0, mst_jinja_seq_dictsort, 0 },
    { "items", "", 0, mst_jinja_seq_items, 0 },
    { "unique", "case_sensitive,attribute", 0, mst_jinja_seq_unique, 0 },
    { "min", "case_sensitive,attribute", 0, mst_jinja_seq_min, 0 },
    { "max", "case_sensitive,attribute", 0, mst_jinja_seq_max, 0 },
    { "sum", "attribute,start", 0, mst_jinja_seq_sum, 0 },
    { "map", "*", 0, mst_jinja_seq_map, 0 },
    { "select", "*", 0, mst_jinja_seq_select, 0 },
    { "reject", "*", 0, mst_jinja_seq_reject, 0 },
    { "selectattr", "*", 1, mst_jinja_seq_selectattr, 0 },
    { "rejectattr", "*", 1, mst_jinja_seq_rejectattr, 0 },
    { "batch", "linecount,fill_with", 1, mst_jinja_seq_batch, 0 }
};


const mst_jinja_builtin_t *
mst_jinja_seq_find(mst_str_t name)
{
    return mst_jinja_builtin_find(mst_jinja_seq, sizeof(mst_jinja_seq)
                                  / sizeof(mst_jinja_builtin_t), name);
}
