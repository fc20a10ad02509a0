
/*
 * The heap of the scheduler's orders: see mst_heap.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "engine/mst_heap.h"


static void mst_heap_up(mst_heap_t *h, uint32_t i, mst_heap_entry_t x);
static void mst_heap_down(mst_heap_t *h, uint32_t i, mst_heap_entry_t x);


void
mst_heap_init(mst_heap_t *h)
{
    memset(h, 0, sizeof(mst_heap_t));
}


void
mst_heap_fini(mst_heap_t *h)
{
    mst_free(h->entries);
    mst_heap_init(h);
}


int
mst_heap_reserve(mst_heap_t *h, uint32_t n)
{
    uint32_t           size;
    mst_heap_entry_t  *p;

    if (n <= h->size) {
        return MST_OK;
    }

    if (n > UINT32_MAX / 2) {
        return MST_ERROR;
    }

    for (size = h->size ? h->size : 8; size < n; size *= 2) {
        /* void */
    }

    p = mst_realloc(h->entries, size, sizeof(mst_heap_entry_t));
    if (p == NULL) {
        return MST_ERROR;
    }

    h->entries = p;
    h->size = size;

    return MST_OK;
}


static int
mst_heap_less(const mst_heap_entry_t *a, const mst_heap_entry_t *b)
{
    return a->major < b->major
           || (a->major == b->major && a->minor < b->minor);
}


static void
mst_heap_put(mst_heap_t *h, uint32_t i, mst_heap_entry_t x)
{
    h->entries[i] = x;
    x.node->pos = i + 1;
}


void
mst_heap_push(mst_heap_t *h, mst_heap_node_t *node, uint64_t major,
    uint64_t minor)
{
    mst_heap_entry_t  x;

    x.major = major;
    x.minor = minor;
    x.node = node;

    mst_heap_up(h, h->n++, x);
}


void
mst_heap_remove(mst_heap_t *h, mst_heap_node_t *node)
{
    uint32_t          i;
    mst_heap_entry_t  last;

    if (node->pos == 0) {
        return;
    }

    i = node->pos - 1;
    node->pos = 0;

    last = h->entries[--h->n];

    if (i == h->n) {
        return;
    }

    if (i && mst_heap_less(&last, &h->entries[(i - 1) / 2])) {
        mst_heap_up(h, i, last);

    } else {
        mst_heap_down(h, i, last);
    }
}


static void
mst_heap_up(mst_heap_t *h, uint32_t i, mst_heap_entry_t x)
{
    uint32_t  parent;

    while (i) {
        parent = (i - 1) / 2;

        if (!mst_heap_less(&x, &h->entries[parent])) {
            break;
        }

        mst_heap_put(h, i, h->entries[parent]);
        i = parent;
    }

    mst_heap_put(h, i, x);
}


static void
mst_heap_down(mst_heap_t *h, uint32_t i, mst_heap_entry_t x)
{
    uint32_t  child;

    for ( ;; ) {
        child = 2 * i + 1;

        if (child >= h->n) {
            break;
        }

        if (child + 1 < h->n
            && mst_heap_less(&h->entries[child + 1], &h->entries[child]))
        {
            child++;
        }

        if (!mst_heap_less(&h->entries[child], &x)) {
            break;
        }

        mst_heap_put(h, i, h->entries[child]);
        i = child;
    }

    mst_heap_put(h, i, x);
}
