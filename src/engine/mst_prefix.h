
/*
 * The prefix cache: which block holds the keys and values of which tokens.
 *
 * A block's contents follow from all the tokens before it, so a full block
 * is known by its place in a chain: the block before it, the tenant's salt
 * and its own token ids.  A 64-bit hash, chained from block to block, finds
 * candidates; a hit counts only when parent, salt and ids compare equal, so
 * that a collision, found or made, never shows one tenant another's text.
 * The parent is compared by serial number, given when a block is named and
 * never given again: a block's number comes back with other contents.
 *
 * The ids are a client's bytes, and the hash is no secret: a bucket is
 * searched MST_PREFIX_DEPTH deep and no deeper.  What is not found is
 * computed again, no more.  One thread.
 */

#ifndef MST_PREFIX_H
#define MST_PREFIX_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_outcome.h"
#include "engine/mst_block.h"


#define MST_PREFIX_DEPTH  32


/* mst_hash(); tests make all collide */
typedef uint64_t (*mst_prefix_hash_pt)(uint64_t seed, const void *data,
    size_t len);


typedef struct {               /* a place in a chain */
    uint64_t  serial;          /* of the last block; 0 = before the first */
    uint64_t  hash;            /* of all until here */
} mst_prefix_at_t;


typedef struct {
    uint64_t  serial;          /* 0 = the block is not named */
    uint64_t  parent;          /* serial of the block before; 0 = first */
    uint64_t  hash;
    uint32_t  prev;            /* in the bucket */
    uint32_t  next;
    uint8_t   salt[MST_SALT_SIZE];
} mst_prefix_node_t;


typedef struct {
    mst_block_pool_t    *pool;
    mst_prefix_hash_pt   hash;
    mst_prefix_node_t   *nodes;        /* [pool->n] by block */
    uint32_t            *ids;          /* [pool->n][block_tokens] */
    uint32_t            *buckets;      /* [mask + 1] first block */
    uint32_t             mask;
    uint32_t             block_tokens;
    uint64_t             serial;       /* given last */
} mst_prefix_t;


/* MST_ERROR: memory.  Makes itself the pool's evict handler */
int mst_prefix_init(mst_prefix_t *c, mst_block_pool_t *pool,
    uint32_t block_tokens, mst_prefix_hash_pt hash);
void mst_prefix_fini(mst_prefix_t *c);         /* zeroed or inited */

/* the place before the first block */
void mst_prefix_root(const mst_prefix_t *c, const uint8_t *salt,
    mst_prefix_at_t *at);

/* the block that holds ids[block_tokens] after *at, which then moves behind
   it; or MST_BLOCK_NONE.  Takes no reference */
uint32_t mst_prefix_find(const mst_prefix_t *c, const uint8_t *salt,
    const uint32_t *ids, mst_prefix_at_t *at);

/* "block" now holds ids after *at.  Returns the block that is known for
   this: "block", or the one that was known before.  *at moves behind it */
uint32_t mst_prefix_name(mst_prefix_t *c, const uint8_t *salt,
    const uint32_t *ids, uint32_t block, mst_prefix_at_t *at);

/* no hit on "block" any more, nor on what follows it */
void mst_prefix_forget(mst_prefix_t *c, uint32_t block);


#endif /* MST_PREFIX_H */
