
/*
 * The values of a template: what Python's are where they show, in strings,
 * comparisons and arithmetic.  Lists and dictionaries are never changed once
 * they are made, namespaces excepted, which only their own statement does.
 *
 * Memory and limits are a mst_work_t's: MST_ERROR comes with its sentence or
 * one of these functions, without text it was malloc().
 */

#ifndef MST_VALUE_H
#define MST_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_str.h"
#include "text/mst_text.h"
#include "text/mst_work.h"


#define MST_VALUE_DEPTH  96        /* lists in lists */


typedef enum {
    MST_VALUE_UNDEFINED,       /* u.text: what it would have been, or NULL */
    MST_VALUE_NONE,
    MST_VALUE_BOOL,            /* u.n */
    MST_VALUE_INT,             /* u.n */
    MST_VALUE_BIG,             /* u.text: decimal digits of an integer that
                                  u.n cannot hold; only passed on */
    MST_VALUE_FLOAT,           /* u.x */
    MST_VALUE_TEXT,            /* u.text */
    MST_VALUE_LIST,            /* u.list */
    MST_VALUE_TUPLE,           /* u.list */
    MST_VALUE_ITERATOR,        /* u.list, read once */
    MST_VALUE_VIEW,            /* u.list, of a dictionary */
    MST_VALUE_DICT,            /* u.dict */
    MST_VALUE_NAMESPACE,       /* u.dict */
    MST_VALUE_CALL,            /* u.p: a function, macro or method, the
                                  interpreter's */
    MST_VALUE_LOOP,            /* u.p: the interpreter's */
    MST_VALUE_ABSENT           /* an argument that was not given */
} mst_value_type_t;


typedef struct mst_value_s  mst_value_t;
typedef struct mst_list_s   mst_list_t;
typedef struct mst_dict_s   mst_dict_t;

struct mst_value_s {
    mst_value_type_t  type;

    union {
        int64_t       n;
        double        x;
        mst_text_t   *text;
        mst_list_t   *list;
        mst_dict_t   *dict;
        void         *p;
    } u;
};

struct mst_list_s {
    mst_value_t  *items;       /* [n] */
    size_t        n;
    size_t        taken;       /* of an iterator: those before are gone */
    size_t        size;        /* allocated */
};

typedef struct {
    mst_value_t  key;
    mst_value_t  value;
    uint64_t     hash;
} mst_dict_entry_t;

struct mst_dict_s {
    mst_dict_entry_t  *entries;    /* [n] in the order of arrival */
    uint32_t          *table;      /* [mask + 1] of index + 1, or NULL */
    size_t             n;
    size_t             size;
    size_t             mask;
};


static inline mst_value_t
mst_value(mst_value_type_t type)
{
    mst_value_t  v;

    v.type = type;
    v.u.p = NULL;

    return v;
}


static inline mst_value_t
mst_value_bool(int is)
{
    mst_value_t  v;

    v.type = MST_VALUE_BOOL;
    v.u.n = is != 0;

    return v;
}


static inline mst_value_t
mst_value_int(int64_t n)
{
    mst_value_t  v;

    v.type = MST_VALUE_INT;
    v.u.n = n;

    return v;
}


static inline mst_value_t
mst_value_float(double x)
{
    mst_value_t  v;

    v.type = MST_VALUE_FLOAT;
    v.u.x = x;

    return v;
}


static inline mst_value_t
mst_value_text(mst_text_t *t)
{
    mst_value_t  v;

    v.type = MST_VALUE_TEXT;
    v.u.text = t;

    return v;
}


static inline mst_value_t
mst_value_list(mst_value_type_t type, mst_list_t *list)
{
    mst_value_t  v;

    v.type = type;
    v.u.list = list;

    return v;
}


static inline mst_value_t
mst_value_dict(mst_value_type_t type, mst_dict_t *dict)
{
    mst_value_t  v;

    v.type = type;
    v.u.dict = dict;

    return v;
}


static inline int
mst_value_is_number(mst_value_t v)
{
    return v.type >= MST_VALUE_BOOL && v.type <= MST_VALUE_FLOAT
           && v.type != MST_VALUE_BIG;
}


/* "str", "dict", as Python's errors name them */
const char *mst_value_kind(mst_value_t v);

/* a text of bytes that outlive w; MST_OK or MST_ERROR */
int mst_value_str(mst_work_t *w, const char *data, size_t len,
    mst_text_from_t from, mst_value_t *v);

mst_list_t *mst_list_create(mst_work_t *w, size_t size);
int mst_list_add(mst_work_t *w, mst_list_t *list, mst_value_t v);

mst_dict_t *mst_dict_create(mst_work_t *w, size_t size);

/* replaces the value of an equal key; MST_ERROR for one without a hash */
int mst_dict_set(mst_work_t *w, mst_dict_t *d, mst_value_t key,
    mst_value_t value);

/* key: a C string of the program's own */
int mst_dict_put(mst_work_t *w, mst_dict_t *d, const char *key,
    mst_value_t value);

/* NULL: not there; *rc is MST_ERROR where the key has no hash */
mst_dict_entry_t *mst_dict_find(mst_work_t *w, const mst_dict_t *d,
    mst_value_t key, int *rc);
mst_value_t *mst_dict_get(const mst_dict_t *d, mst_str_t key);

int mst_value_true(mst_value_t v);

/* 0, 1 or MST_ERROR */
int mst_value_equal(mst_work_t *w, mst_value_t a, mst_value_t b);

/* a < 0, 0 or > 0 in *order, as Python sorts; MST_ERROR with a sentence
   where it would not */
int mst_value_order(mst_work_t *w, mst_value_t a, mst_value_t b, int *order);

/* bool, int and float as a double */
double mst_value_double(mst_value_t v);


#endif /* MST_VALUE_H */
