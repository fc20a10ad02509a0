
/*
 * A template's values: see mst_value.h.
 */

#include <math.h>
#include <string.h>

#include "base/mst_hash.h"
#include "text/mst_value.h"


#define MST_DICT_FLAT  8           /* entries that need no table */


static int mst_value_equal_at(mst_work_t *w, mst_value_t a, mst_value_t b,
    int depth);
static int mst_value_order_at(mst_work_t *w, mst_value_t a, mst_value_t b,
    int *order, int depth);


static const char *const  mst_value_kinds[] = {
    "undefined", "None", "bool", "int", "int", "float", "str", "list",
    "tuple", "generator", "dictionary view", "dict", "namespace", "function",
    "loop", "nothing"
};


const char *
mst_value_kind(mst_value_t v)
{
    return mst_value_kinds[v.type];
}


int
mst_value_str(mst_work_t *w, const char *data, size_t len,
    mst_text_from_t from, mst_value_t *v)
{
    mst_text_t  *t;

    t = mst_text_of(w, data, len, from);
    if (t == NULL) {
        return MST_ERROR;
    }

    *v = mst_value_text(t);

    return MST_OK;
}


mst_list_t *
mst_list_create(mst_work_t *w, size_t size)
{
    mst_list_t  *list;

    list = mst_work_alloc(w, sizeof(mst_list_t));
    if (list == NULL) {
        return NULL;
    }

    list->items = NULL;
    list->n = 0;
    list->taken = 0;
    list->size = size;

    if (size) {
        list->items = mst_work_array(w, size, sizeof(mst_value_t));

        if (list->items == NULL) {
            return NULL;
        }
    }

    return list;
}


int
mst_list_add(mst_work_t *w, mst_list_t *list, mst_value_t v)
{
    size_t        size;
    mst_value_t  *items;

    if (list->n == list->size) {
        size = list->size ? list->size * 2 : 8;
        items = mst_work_array(w, size, sizeof(mst_value_t));

        if (items == NULL) {
            return MST_ERROR;
        }

        if (list->n) {
            memcpy(items, list->items, list->n * sizeof(mst_value_t));
        }

        list->items = items;
        list->size = size;
    }

    list->items[list->n++] = v;

    return MST_OK;
}


mst_dict_t *
mst_dict_create(mst_work_t *w, size_t size)
{
    mst_dict_t  *d;

    d = mst_work_alloc(w, sizeof(mst_dict_t));
    if (d == NULL) {
        return NULL;
    }

    memset(d, 0, sizeof(mst_dict_t));

    if (size) {
        d->entries = mst_work_array(w, size, sizeof(mst_dict_entry_t));

        if (d->entries == NULL) {
            return NULL;
        }

        d->size = size;
    }

    return d;
}


/* equal values have equal hashes: 1, 1.0 and true are one key */

static int
mst_dict_hash(mst_work_t *w, mst_value_t key, uint64_t *hash)
{
    double    x;
    size_t    i;
    uint64_t  h;

    switch (key.type) {

    case MST_VALUE_BOOL:
    case MST_VALUE_INT:
    case MST_VALUE_FLOAT:
        x = mst_value_double(key);
        x = x == 0 ? 0 : x;
        *hash = mst_hash(1, &x, sizeof(x));
        return MST_OK;

    case MST_VALUE_TEXT:
    case MST_VALUE_BIG:
        if (mst_text_flat(w, key.u.text) != MST_OK) {
            return MST_ERROR;
        }

        *hash = mst_hash(0, key.u.text->data, key.u.text->len);

        return mst_work_steps(w, key.u.text->len / 64);

    case MST_VALUE_TUPLE:
        *hash = mst_hash_mix(key.u.list->n);

        for (i = 0; i < key.u.list->n; i++) {

            /* a tuple within a tuple hashes its own, no deeper */

            if (key.u.list->items[i].type == MST_VALUE_TUPLE) {
                h = key.u.list->items[i].u.list->n;

            } else if (mst_dict_hash(w, key.u.list->items[i], &h) != MST_OK) {
                return MST_ERROR;
            }

            *hash = mst_hash_mix(*hash ^ h);
        }

        return MST_OK;

    case MST_VALUE_LIST:
    case MST_VALUE_DICT:
        return mst_err_set(w->err, "unhashable type: '%s'",
                           mst_value_kind(key));

    default:
        *hash = key.type;
        return MST_OK;
    }
}


/* a chain of equal hashes costs steps, like everything */

static int
mst_dict_seek(mst_work_t *w, const mst_dict_t *d, mst_value_t key,
    uint64_t hash, size_t *found)
{
    int     equal;
    size_t  i, at;

    *found = d->n;

    for (at = 0; d->table ? d->table[(hash + at) & d->mask] != 0 : at < d->n;
         at++)
    {
        i = d->table ? d->table[(hash + at) & d->mask] - 1 : at;

        if (d->entries[i].hash != hash) {
            continue;
        }

        equal = mst_value_equal(w, d->entries[i].key, key);

        if (equal) {
            *found = i;
            return equal == MST_ERROR ? MST_ERROR : MST_OK;
        }
    }

    return mst_work_steps(w, at / 8);
}


static int
mst_dict_grow(mst_work_t *w, mst_dict_t *d)
{
    size_t             i, at, size;
    mst_dict_entry_t  *entries;

    size = d->size ? d->size * 2 : 4;
    entries = mst_work_array(w, size, sizeof(mst_dict_entry_t));

    if (entries == NULL) {
        return MST_ERROR;
    }

    if (d->n) {
        memcpy(entries, d->entries, d->n * sizeof(mst_dict_entry_t));
    }

    d->entries = entries;
    d->size = size;

    if (size <= MST_DICT_FLAT) {
        return MST_OK;
    }

    for (d->mask = 31; d->mask < 2 * size; d->mask = d->mask * 2 + 1) {
        /* void */
    }

    d->table = mst_work_array(w, d->mask + 1, sizeof(uint32_t));
    if (d->table == NULL) {
        return MST_ERROR;
    }

    memset(d->table, 0, (d->mask + 1) * sizeof(uint32_t));

    for (i = 0; i < d->n; i++) {

        for (at = entries[i].hash; d->table[at & d->mask]; at++) {
            /* void */
        }

        d->table[at & d->mask] = (uint32_t) i + 1;
    }

    return MST_OK;
}


int
mst_dict_set(mst_work_t *w, mst_dict_t *d, mst_value_t key,
    mst_value_t value)
{
    size_t             i, at;
    uint64_t           hash;
    mst_dict_entry_t  *e;

    if (mst_dict_hash(w, key, &hash) != MST_OK
        || mst_dict_seek(w, d, key, hash, &i) != MST_OK)
    {
        return MST_ERROR;
    }

    if (i < d->n) {
        d->entries[i].value = value;
        return MST_OK;
    }

    if (d->n == d->size && mst_dict_grow(w, d) != MST_OK) {
        return MST_ERROR;
    }

    e = &d->entries[d->n++];

    e->key = key;
    e->value = value;
    e->hash = hash;

    if (d->table) {

        for (at = hash; d->table[at & d->mask]; at++) {
            /* void */
        }

        d->table[at & d->mask] = (uint32_t) d->n;
    }

    return MST_OK;
}


int
mst_dict_put(mst_work_t *w, mst_dict_t *d, const char *key,
    mst_value_t value)
{
    mst_value_t  k;

    if (mst_value_str(w, key, strlen(key), MST_TEXT_TEMPLATE, &k) != MST_OK) {
        return MST_ERROR;
    }

    return mst_dict_set(w, d, k, value);
}


mst_dict_entry_t *
mst_dict_find(mst_work_t *w, const mst_dict_t *d, mst_value_t key, int *rc)
{
    size_t    i;
    uint64_t  hash;

    *rc = mst_dict_hash(w, key, &hash);

    if (*rc == MST_OK) {
        *rc = mst_dict_seek(w, d, key, hash, &i);
    }

    return *rc == MST_OK && i < d->n ? &d->entries[i] : NULL;
}


mst_value_t *
mst_dict_get(const mst_dict_t *d, mst_str_t key)
{
    size_t             i, at;
    uint64_t           hash;
    mst_dict_entry_t  *e;

    hash = mst_hash(0, key.data, key.len);

    for (at = 0; d->table ? d->table[(hash + at) & d->mask] != 0 : at < d->n;
         at++)
    {
        i = d->table ? d->table[(hash + at) & d->mask] - 1 : at;
        e = &d->entries[i];

        if (e->hash == hash && e->key.type == MST_VALUE_TEXT
            && e->key.u.text->len == key.len
            && memcmp(e->key.u.text->data, key.data, key.len) == 0)
        {
            return &e->value;
        }
    }

    return NULL;
}


int
mst_value_true(mst_value_t v)
{
    switch (v.type) {

    case MST_VALUE_UNDEFINED:
    case MST_VALUE_NONE:
    case MST_VALUE_ABSENT:
        return 0;

    case MST_VALUE_BOOL:
    case MST_VALUE_INT:
        return v.u.n != 0;

    case MST_VALUE_FLOAT:
        return v.u.x != 0;

    case MST_VALUE_TEXT:
        return v.u.text->len != 0;

    case MST_VALUE_LIST:
    case MST_VALUE_TUPLE:
    case MST_VALUE_VIEW:
        return v.u.list->n != 0;

    case MST_VALUE_DICT:
        return v.u.dict->n != 0;

    default:
        return 1;
    }
}


double
mst_value_double(mst_value_t v)
{
    return v.type == MST_VALUE_FLOAT ? v.u.x : (double) v.u.n;
}


int
mst_value_equal(mst_work_t *w, mst_value_t a, mst_value_t b)
{
    return mst_value_equal_at(w, a, b, 0);
}


static int
mst_value_equal_lists(mst_work_t *w, const mst_list_t *a,
    const mst_list_t *b, int depth)
{
    int     rc;
    size_t  i;

    if (a->n != b->n) {
        return 0;
    }

    for (i = 0; i < a->n && a != b; i++) {
        rc = mst_value_equal_at(w, a->items[i], b->items[i], depth + 1);

        if (rc != 1) {
            return rc;
        }
    }

    return 1;
}


static int
mst_value_equal_dicts(mst_work_t *w, const mst_dict_t *a,
    const mst_dict_t *b, int depth)
{
    int                rc;
    size_t             i;
    mst_dict_entry_t  *e;

    if (a->n != b->n) {
        return 0;
    }

    for (i = 0; i < a->n && a != b; i++) {
        e = mst_dict_find(w, b, a->entries[i].key, &rc);

        if (e == NULL) {
            return rc == MST_OK ? 0 : MST_ERROR;
        }

        rc = mst_value_equal_at(w, a->entries[i].value, e->value, depth + 1);

        if (rc != 1) {
            return rc;
        }
    }

    return 1;
}


static int
mst_value_equal_at(mst_work_t *w, mst_value_t a, mst_value_t b, int depth)
{
    if (mst_work_steps(w, 1) != MST_OK) {
        return MST_ERROR;
    }

    if (depth > MST_VALUE_DEPTH) {
        return mst_err_set(w->err, "values are nested too deeply to be "
                           "compared");
    }

    if (mst_value_is_number(a) && mst_value_is_number(b)) {

        if (a.type != MST_VALUE_FLOAT && b.type != MST_VALUE_FLOAT) {
            return a.u.n == b.u.n;
        }

        return mst_value_double(a) == mst_value_double(b);
    }

    if (a.type != b.type) {
        return 0;
    }

    switch (a.type) {

    case MST_VALUE_UNDEFINED:
    case MST_VALUE_NONE:
        return 1;

    case MST_VALUE_TEXT:
    case MST_VALUE_BIG:
        if (a.u.text->len != b.u.text->len) {
            return 0;
        }

        if (mst_work_steps(w, a.u.text->len / 256) != MST_OK
            || mst_text_flat(w, a.u.text) != MST_OK
            || mst_text_flat(w, b.u.text) != MST_OK)
        {
            return MST_ERROR;
        }

        return memcmp(a.u.text->data, b.u.text->data, a.u.text->len) == 0;

    case MST_VALUE_LIST:
    case MST_VALUE_TUPLE:
        return mst_value_equal_lists(w, a.u.list, b.u.list, depth);

    case MST_VALUE_DICT:
        return mst_value_equal_dicts(w, a.u.dict, b.u.dict, depth);

    default:
        return a.u.p == b.u.p;
    }
}


int
mst_value_order(mst_work_t *w, mst_value_t a, mst_value_t b, int *order)
{
    return mst_value_order_at(w, a, b, order, 0);
}


static int
mst_value_order_texts(mst_work_t *w, mst_text_t *a, mst_text_t *b, int *order)
{
    size_t  n;

    if (mst_text_flat(w, a) != MST_OK || mst_text_flat(w, b) != MST_OK) {
        return MST_ERROR;
    }

    n = a->len < b->len ? a->len : b->len;

    /* the order of UTF-8's bytes is that of code points */

    *order = memcmp(a->data, b->data, n);
    *order = *order ? (*order > 0) - (*order < 0)
                    : (a->len > b->len) - (a->len < b->len);

    return mst_work_steps(w, n / 256);
}


static int
mst_value_order_at(mst_work_t *w, mst_value_t a, mst_value_t b, int *order,
    int depth)
{
    int     equal;
    double  x, y;
    size_t  i;

    if (mst_work_steps(w, 1) != MST_OK) {
        return MST_ERROR;
    }

    if (depth > MST_VALUE_DEPTH) {
        return mst_err_set(w->err, "values are nested too deeply to be "
                           "compared");
    }

    if (mst_value_is_number(a) && mst_value_is_number(b)) {

        if (a.type != MST_VALUE_FLOAT && b.type != MST_VALUE_FLOAT) {
            *order = (a.u.n > b.u.n) - (a.u.n < b.u.n);
            return MST_OK;
        }

        x = mst_value_double(a);
        y = mst_value_double(b);
        *order = isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);

        return MST_OK;
    }

    if (a.type == MST_VALUE_TEXT && b.type == MST_VALUE_TEXT) {
        return mst_value_order_texts(w, a.u.text, b.u.text, order);
    }

    if (a.type != b.type
        || (a.type != MST_VALUE_LIST && a.type != MST_VALUE_TUPLE))
    {
        return mst_err_set(w->err, "'%s' and '%s' have no order",
                           mst_value_kind(a), mst_value_kind(b));
    }

    for (i = 0; i < a.u.list->n && i < b.u.list->n; i++) {
        equal = mst_value_equal_at(w, a.u.list->items[i], b.u.list->items[i],
                                   depth + 1);
        if (equal == MST_ERROR) {
            return MST_ERROR;
        }

        if (!equal) {
            return mst_value_order_at(w, a.u.list->items[i],
                                      b.u.list->items[i], order, depth + 1);
        }
    }

    *order = (a.u.list->n > b.u.list->n) - (a.u.list->n < b.u.list->n);

    return MST_OK;
}
