
/*
 * Within the template engine: by what the filters of lists compare items,
 * and lists in that order.
 */

#ifndef MST_JINJA_ORDER_H
#define MST_JINJA_ORDER_H

#include "text/mst_jinja_run.h"


/* how items are compared: by an attribute, without regard to case */

typedef struct {
    mst_value_t  attribute;    /* ABSENT, NONE: the item itself */
    mst_value_t  fallback;     /* where it is undefined, or ABSENT */
    int          fold;         /* texts are lowered */
    int          many;         /* the attribute may be several: "a,b.c" */
} mst_jinja_key_t;


typedef struct {
    mst_jinja_key_t  key;
    int              reverse;
    int              listed;       /* equal keys need no order */
} mst_jinja_sort_t;


static inline int
mst_jinja_order_given(mst_value_t v)
{
    return v.type != MST_VALUE_ABSENT && v.type != MST_VALUE_NONE;
}


/* by an attribute, a single one and without a fallback, or the item itself */
mst_jinja_key_t mst_jinja_order_by(mst_value_t attribute, int fold);

/* what an item is compared by; k->many is for mst_jinja_order_sorted() */
int mst_jinja_order_key(mst_jinja_run_t *r, const mst_jinja_key_t *k,
    mst_value_t item, mst_value_t *v);

/* *v = a sorted copy of list; equal items keep their order */
int mst_jinja_order_sorted(mst_jinja_run_t *r, const mst_list_t *list,
    const mst_jinja_sort_t *s, mst_value_t *v);


#endif /* MST_JINJA_ORDER_H */
