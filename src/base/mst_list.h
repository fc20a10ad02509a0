
/*
 * Intrusive doubly linked list with a sentinel; removal is O(1).  One
 * thread at a time.
 */

#ifndef MST_LIST_H
#define MST_LIST_H

#include <stddef.h>


typedef struct mst_list_s  mst_list_t;

struct mst_list_s {
    mst_list_t  *prev;
    mst_list_t  *next;
};


/* the struct that holds "field" at address p */
#define mst_list_data(p, type, field)                                         \
    ((type *) ((char *) (p) - offsetof(type, field)))


static inline void
mst_list_init(mst_list_t *head)
{
    head->prev = head;
    head->next = head;
}


static inline int
mst_list_empty(const mst_list_t *head)
{
    return head->next == head;
}


static inline void
mst_list_insert_after(mst_list_t *at, mst_list_t *x)
{
    x->prev = at;
    x->next = at->next;
    x->next->prev = x;
    at->next = x;
}


static inline void
mst_list_insert_tail(mst_list_t *head, mst_list_t *x)
{
    mst_list_insert_after(head->prev, x);
}


/* leaves x pointing at itself: a second removal does no harm */
static inline void
mst_list_remove(mst_list_t *x)
{
    x->prev->next = x->next;
    x->next->prev = x->prev;
    mst_list_init(x);
}


#endif /* MST_LIST_H */
