
/*
 * Binary heap, least key first, of nodes that live inside other structs;
 * any node can leave in O(log n).  The keys stand in the heap's own array,
 * so that sifting 16,384 sequences does not visit each of them.  A pair of
 * numbers is the key: equal pairs do not occur where the second is a
 * sequence's arrival number, and so the order is total.  One thread.
 */

#ifndef MST_HEAP_H
#define MST_HEAP_H

#include <stddef.h>
#include <stdint.h>


typedef struct {
    uint32_t          pos;         /* 1 + index in the heap; 0 = in none */
} mst_heap_node_t;


typedef struct {
    uint64_t          major;
    uint64_t          minor;
    mst_heap_node_t  *node;
} mst_heap_entry_t;


typedef struct {
    mst_heap_entry_t  *entries;    /* [size], n of them used */
    uint32_t           n;
    uint32_t           size;
} mst_heap_t;


void mst_heap_init(mst_heap_t *h);
void mst_heap_fini(mst_heap_t *h);

/* room for n nodes in all, so that the next pushes cannot fail */
int mst_heap_reserve(mst_heap_t *h, uint32_t n);

/* there must be room */
void mst_heap_push(mst_heap_t *h, mst_heap_node_t *node, uint64_t major,
    uint64_t minor);

/* a node that is in no heap may be removed too */
void mst_heap_remove(mst_heap_t *h, mst_heap_node_t *node);


static inline mst_heap_node_t *
mst_heap_top(const mst_heap_t *h)
{
    return h->n ? h->entries[0].node : NULL;
}


#endif /* MST_HEAP_H */
