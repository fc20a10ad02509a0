
/*
 * The pool of KV blocks: numbers and reference counts, no bytes.
 *
 * A block is in exactly one of three states, so that
 * n_used + n_cached + n_free = n at any time:
 *     used     a live sequence holds it (ref > 0), maybe several do
 *     cached   nobody holds it, but the prefix cache knows what it contains
 *     free     nobody holds it and nobody knows it
 * Getting a block takes a free one first, then the cached one that was let
 * go longest ago; the prefix cache is told to forget that.  A sequence lets
 * its blocks go from the last to the first, so that a chain loses its tail
 * before its head.
 *
 * A named block may be kept: it is taken when no other cached one is left.
 * Of the kept ones MST_BLOCK_KEPT of the pool stay cached at most, the one
 * that was let go longest ago becomes one like the others.  One thread.
 */

#ifndef MST_BLOCK_H
#define MST_BLOCK_H

#include <stdint.h>


#define MST_BLOCK_NONE  UINT32_MAX

#define MST_BLOCK_KEPT(n)  ((n) / 4)   /* of n blocks */


typedef struct {
    uint32_t  ref;             /* live sequences that hold it */
    uint32_t  named;           /* the prefix cache knows it */
    uint32_t  kept;            /* and longer than others */
    uint32_t  prev;            /* in the list of cached ones */
    uint32_t  next;            /* there, or in the list of free ones */
} mst_block_t;


/* the cached block "id" is taken: forget it */
typedef void (*mst_block_evict_pt)(void *data, uint32_t id);


typedef struct {               /* cached ones, as they were let go */
    uint32_t             oldest;   /* next to be evicted */
    uint32_t             newest;
    uint32_t             n;
} mst_block_line_t;


typedef struct {
    mst_block_t         *blocks;   /* [n] */
    uint32_t             n;
    uint32_t             n_used;
    uint32_t             n_cached;
    uint32_t             n_free;
    uint32_t             free;     /* last freed first */
    mst_block_line_t     lines[2]; /* [kept] */
    mst_block_evict_pt   evict;    /* set by the prefix cache */
    void                *data;     /* its own */
} mst_block_pool_t;


int mst_block_init(mst_block_pool_t *p, uint32_t n);   /* MST_ERROR: memory */
void mst_block_fini(mst_block_pool_t *p);

/* a block with one reference; MST_BLOCK_NONE: all are used */
uint32_t mst_block_get(mst_block_pool_t *p);
void mst_block_ref(mst_block_pool_t *p, uint32_t id);  /* used or cached */
void mst_block_unref(mst_block_pool_t *p, uint32_t id);

/* the prefix cache begins or ceases to know a block */
void mst_block_name(mst_block_pool_t *p, uint32_t id);
void mst_block_unname(mst_block_pool_t *p, uint32_t id);

/* a used and named one, until it is not named any more */
void mst_block_keep(mst_block_pool_t *p, uint32_t id);


static inline uint32_t
mst_block_available(const mst_block_pool_t *p)
{
    return p->n_free + p->n_cached;
}


#endif /* MST_BLOCK_H */
