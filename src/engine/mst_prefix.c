
/*
 * The prefix cache: see mst_prefix.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "engine/mst_prefix.h"


static void mst_prefix_evict(void *data, uint32_t block);


int
mst_prefix_init(mst_prefix_t *c, mst_block_pool_t *pool,
    uint32_t block_tokens, mst_prefix_hash_pt hash)
{
    size_t    n_ids;
    uint32_t  i, n;

    memset(c, 0, sizeof(mst_prefix_t));

    /* half full at most; no more than 2^31 buckets */

    for (n = 64; n / 2 < pool->n && n < (1u << 31); n *= 2) {
        /* void */
    }

    n_ids = (size_t) pool->n * block_tokens;

    c->nodes = mst_calloc(pool->n, sizeof(mst_prefix_node_t));
    c->ids = mst_calloc(n_ids, sizeof(uint32_t));
    c->buckets = mst_calloc(n, sizeof(uint32_t));

    if (c->nodes == NULL || c->ids == NULL || c->buckets == NULL) {
        mst_prefix_fini(c);
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        c->buckets[i] = MST_BLOCK_NONE;
    }

    c->pool = pool;
    c->hash = hash;
    c->mask = n - 1;
    c->block_tokens = block_tokens;

    pool->evict = mst_prefix_evict;
    pool->data = c;

    return MST_OK;
}


void
mst_prefix_fini(mst_prefix_t *c)
{
    mst_free(c->nodes);
    mst_free(c->ids);
    mst_free(c->buckets);

    memset(c, 0, sizeof(mst_prefix_t));
}


void
mst_prefix_root(const mst_prefix_t *c, const uint8_t *salt,
    mst_prefix_at_t *at)
{
    at->serial = 0;
    at->hash = c->hash(0, salt, MST_SALT_SIZE);
}


/* at->hash is already that of the block looked for */

static uint32_t
mst_prefix_search(const mst_prefix_t *c, const uint8_t *salt,
    const uint32_t *ids, const mst_prefix_at_t *at)
{
    size_t                    size;
    uint32_t                  id, depth;
    const mst_prefix_node_t  *node;

    size = c->block_tokens * sizeof(uint32_t);

    id = c->buckets[at->hash & c->mask];

    for (depth = 0; id != MST_BLOCK_NONE && depth < MST_PREFIX_DEPTH; depth++)
    {
        node = &c->nodes[id];

        if (node->hash == at->hash
            && node->parent == at->serial
            && memcmp(node->salt, salt, MST_SALT_SIZE) == 0
            && memcmp(c->ids + (size_t) id * c->block_tokens, ids, size) == 0)
        {
            return id;
        }

        id = node->next;
    }

    return MST_BLOCK_NONE;
}


uint32_t
mst_prefix_find(const mst_prefix_t *c, const uint8_t *salt,
    const uint32_t *ids, mst_prefix_at_t *at)
{
    uint32_t         id;
    mst_prefix_at_t  next;

    next.serial = at->serial;
    next.hash = c->hash(at->hash, ids, c->block_tokens * sizeof(uint32_t));

    id = mst_prefix_search(c, salt, ids, &next);

    if (id != MST_BLOCK_NONE) {
        at->serial = c->nodes[id].serial;
        at->hash = next.hash;
    }

    return id;
}


uint32_t
mst_prefix_name(mst_prefix_t *c, const uint8_t *salt, const uint32_t *ids,
    uint32_t block, mst_prefix_at_t *at)
{
    uint32_t            id, *bucket;
    mst_prefix_node_t  *node;

    id = mst_prefix_find(c, salt, ids, at);

    if (id != MST_BLOCK_NONE) {
        return id;
    }

    at->hash = c->hash(at->hash, ids, c->block_tokens * sizeof(uint32_t));

    node = &c->nodes[block];
    node->parent = at->serial;
    node->serial = ++c->serial;
    node->hash = at->hash;

    memcpy(node->salt, salt, MST_SALT_SIZE);
    memcpy(c->ids + (size_t) block * c->block_tokens, ids,
           c->block_tokens * sizeof(uint32_t));

    bucket = &c->buckets[node->hash & c->mask];

    node->prev = MST_BLOCK_NONE;
    node->next = *bucket;

    if (*bucket != MST_BLOCK_NONE) {
        c->nodes[*bucket].prev = block;
    }

    *bucket = block;

    mst_block_name(c->pool, block);

    at->serial = node->serial;

    return block;
}


void
mst_prefix_forget(mst_prefix_t *c, uint32_t block)
{
    mst_prefix_node_t  *node;

    node = &c->nodes[block];

    if (node->serial == 0) {
        return;
    }

    if (node->prev == MST_BLOCK_NONE) {
        c->buckets[node->hash & c->mask] = node->next;

    } else {
        c->nodes[node->prev].next = node->next;
    }

    if (node->next != MST_BLOCK_NONE) {
        c->nodes[node->next].prev = node->prev;
    }

    node->serial = 0;

    mst_block_unname(c->pool, block);
}


static void
mst_prefix_evict(void *data, uint32_t block)
{
    mst_prefix_forget(data, block);
}
