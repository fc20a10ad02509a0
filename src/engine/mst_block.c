
/*
 * The pool of KV blocks: see mst_block.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "engine/mst_block.h"


int
mst_block_init(mst_block_pool_t *p, uint32_t n)
{
    uint32_t  i;

    memset(p, 0, sizeof(mst_block_pool_t));

    p->lines[0].oldest = MST_BLOCK_NONE;
    p->lines[0].newest = MST_BLOCK_NONE;
    p->lines[1] = p->lines[0];
    p->free = MST_BLOCK_NONE;

    p->blocks = mst_calloc(n, sizeof(mst_block_t));
    if (p->blocks == NULL) {
        return MST_ERROR;
    }

    /* block 0 goes out first: the start of the memory is touched first */

    for (i = n; i > 0; i--) {
        p->blocks[i - 1].next = p->free;
        p->free = i - 1;
    }

    p->n = n;
    p->n_free = n;

    return MST_OK;
}


void
mst_block_fini(mst_block_pool_t *p)
{
    mst_free(p->blocks);
    memset(p, 0, sizeof(mst_block_pool_t));
}


static void
mst_block_push_free(mst_block_pool_t *p, uint32_t id)
{
    p->blocks[id].next = p->free;
    p->free = id;
    p->n_free++;
}


static void
mst_block_push_cached(mst_block_pool_t *p, uint32_t id)
{
    mst_block_t       *b;
    mst_block_line_t  *line;

    b = &p->blocks[id];
    line = &p->lines[b->kept];

    b->prev = line->newest;
    b->next = MST_BLOCK_NONE;

    if (line->newest == MST_BLOCK_NONE) {
        line->oldest = id;

    } else {
        p->blocks[line->newest].next = id;
    }

    line->newest = id;
    line->n++;
    p->n_cached++;
}


static void
mst_block_drop_cached(mst_block_pool_t *p, uint32_t id)
{
    mst_block_t       *b;
    mst_block_line_t  *line;

    b = &p->blocks[id];
    line = &p->lines[b->kept];

    if (b->prev == MST_BLOCK_NONE) {
        line->oldest = b->next;

    } else {
        p->blocks[b->prev].next = b->next;
    }

    if (b->next == MST_BLOCK_NONE) {
        line->newest = b->prev;

    } else {
        p->blocks[b->next].prev = b->prev;
    }

    line->n--;
    p->n_cached--;
}


uint32_t
mst_block_get(mst_block_pool_t *p)
{
    uint32_t  id;

    if (p->n_free == 0) {

        if (p->n_cached == 0) {
            return MST_BLOCK_NONE;
        }

        /* unnames it, which makes it free */

        p->evict(p->data, p->lines[p->lines[0].n == 0].oldest);
    }

    id = p->free;

    p->free = p->blocks[id].next;
    p->n_free--;

    p->blocks[id].ref = 1;
    p->n_used++;

    return id;
}


void
mst_block_ref(mst_block_pool_t *p, uint32_t id)
{
    if (p->blocks[id].ref++ == 0) {
        mst_block_drop_cached(p, id);
        p->n_used++;
    }
}


void
mst_block_unref(mst_block_pool_t *p, uint32_t id)
{
    if (--p->blocks[id].ref) {
        return;
    }

    p->n_used--;

    if (!p->blocks[id].named) {
        mst_block_push_free(p, id);
        return;
    }

    mst_block_push_cached(p, id);

    if (p->lines[1].n > MST_BLOCK_KEPT(p->n)) {
        id = p->lines[1].oldest;

        mst_block_drop_cached(p, id);
        p->blocks[id].kept = 0;
        mst_block_push_cached(p, id);
    }
}


void
mst_block_name(mst_block_pool_t *p, uint32_t id)
{
    p->blocks[id].named = 1;
}


void
mst_block_unname(mst_block_pool_t *p, uint32_t id)
{
    mst_block_t  *b;

    b = &p->blocks[id];

    if (!b->named) {
        return;
    }

    b->named = 0;

    if (b->ref == 0) {
        mst_block_drop_cached(p, id);
        mst_block_push_free(p, id);
    }

    b->kept = 0;
}


void
mst_block_keep(mst_block_pool_t *p, uint32_t id)
{
    p->blocks[id].kept = 1;
}
