
/*
 * The blocks of a sequence: see mst_room.h.
 */

#include "base/mst_err.h"
#include "engine/mst_room.h"


static uint32_t mst_room_blocks(const mst_room_t *r, uint64_t tokens);
static void mst_room_keep(mst_room_t *r, const mst_seq_t *q, uint32_t i);
static uint32_t mst_room_find(const mst_room_t *r, mst_seq_t *q,
    uint32_t *blocks, mst_prefix_at_t *at, uint32_t *n_cached);


uint32_t
mst_room_needs(const mst_room_t *r, const mst_seq_t *q)
{
    return (q->n_tokens - 1) / r->block_tokens + 1;
}


static uint32_t
mst_room_blocks(const mst_room_t *r, uint64_t tokens)
{
    uint64_t  n;

    n = (tokens - 1) / r->block_tokens + 1;

    return n < r->pool->n ? (uint32_t) n : r->pool->n;
}


uint32_t
mst_room_wants(const mst_room_t *r, const mst_seq_t *q, int *all)
{
    uint64_t  kept, most;

    /* the last token of an answer is never computed */

    most = (uint64_t) q->n_prompt + q->params.max_tokens;
    most = q->params.max_tokens ? most - 1 : most;

    if (r->context && most >= r->context) {
        most = r->context - 1;
    }

    kept = (uint64_t) q->n_prompt + q->claim.kv_reserve;
    kept = kept < most ? kept : most;
    kept = kept < q->n_tokens ? q->n_tokens : kept;

    *all = q->claim.kv_reserve != 0 && kept >= most;

    return mst_room_blocks(r, kept);
}


/*
 * The first blocks of q that the cache has, their number, and how many of
 * them nobody holds; none of them is referenced yet.  The last token is
 * always computed, since its logits are wanted, and so is what an echo has
 * not reported yet.
 */

static uint32_t
mst_room_find(const mst_room_t *r, mst_seq_t *q, uint32_t *blocks,
    mst_prefix_at_t *at, uint32_t *n_cached)
{
    uint32_t  id, n, max;

    *n_cached = 0;

    if (r->prefix == NULL) {
        return 0;
    }

    max = (q->n_tokens - 1) / r->block_tokens;

    if (mst_seq_echoes(q)) {
        max = q->n_scored ? (q->n_scored - 1) / r->block_tokens : 0;
    }

    mst_prefix_root(r->prefix, q->salt, at);

    for (n = 0; n < max; n++) {
        id = mst_prefix_find(r->prefix, q->salt,
                             q->tokens + n * r->block_tokens, at);

        if (id == MST_BLOCK_NONE) {
            break;
        }

        if (blocks) {
            blocks[n] = id;
        }

        *n_cached += r->pool->blocks[id].ref == 0;
    }

    return n;
}


uint32_t
mst_room_cached(const mst_room_t *r, mst_seq_t *q)
{
    uint32_t         n_cached;
    mst_prefix_at_t  at;

    return mst_room_find(r, q, NULL, &at, &n_cached) * r->block_tokens;
}


int
mst_room_take(mst_room_t *r, mst_seq_t *q)
{
    int       all;
    uint32_t  i, need, want, hits, n_cached;

    need = mst_room_needs(r, q);
    want = mst_room_wants(r, q, &all);

    if (mst_seq_reserve_tokens(q, q->n_tokens + 1) != MST_OK
        || mst_seq_reserve_blocks(q, need) != MST_OK)
    {
        return MST_ERROR;
    }

    hits = mst_room_find(r, q, q->blocks, &q->at, &n_cached);

    if ((uint64_t) want - hits + n_cached + r->promised
        > mst_block_available(r->pool))
    {
        return MST_BUSY;
    }

    for (i = 0; i < hits; i++) {
        mst_block_ref(r->pool, q->blocks[i]);
        mst_room_keep(r, q, i);
    }

    for ( /* void */ ; i < need; i++) {
        q->blocks[i] = mst_block_get(r->pool);
    }

    q->n_blocks = need;
    q->n_named = hits;
    q->n_computed = hits * r->block_tokens;
    q->promise = want > need ? want - need : 0;

    r->promised += q->promise;

    return MST_OK;
}


/* the i-th block is known to the cache: longer than others? */

static void
mst_room_keep(mst_room_t *r, const mst_seq_t *q, uint32_t i)
{
    uint64_t  end;

    end = (uint64_t) (i + 1) * r->block_tokens;

    if (end <= q->claim.keep && end <= q->n_prompt) {
        mst_block_keep(r->pool, q->blocks[i]);
    }
}


int
mst_room_grow(mst_room_t *r, mst_seq_t *q)
{
    uint32_t  need;

    need = mst_room_needs(r, q);

    if (mst_seq_reserve_tokens(q, q->n_tokens + 1) != MST_OK
        || mst_seq_reserve_blocks(q, need) != MST_OK)
    {
        return MST_ERROR;
    }

    while (q->n_blocks < need) {

        if (q->promise) {
            q->promise--;
            r->promised--;

        } else if (mst_block_available(r->pool) == r->promised) {
            return MST_BUSY;
        }

        q->blocks[q->n_blocks++] = mst_block_get(r->pool);
    }

    return MST_OK;
}


void
mst_room_release(mst_room_t *r, mst_seq_t *q)
{
    while (q->n_blocks) {
        mst_block_unref(r->pool, q->blocks[--q->n_blocks]);
    }

    r->promised -= q->promise;
    q->promise = 0;
    q->n_computed = 0;
}


void
mst_room_computed(mst_room_t *r, mst_seq_t *q)
{
    uint32_t  i, id, n;

    q->n_computed += q->n_step;
    n = q->n_computed / r->block_tokens;

    if (r->prefix == NULL) {
        return;
    }

    for (i = q->n_named; i < n; i++) {
        id = mst_prefix_name(r->prefix, q->salt,
                             q->tokens + i * r->block_tokens,
                             q->blocks[i], &q->at);

        if (id != q->blocks[i]) {

            /* another computed the same at the same time: the bits are equal
               (mst_forward.h), one copy is enough */

            mst_block_ref(r->pool, id);
            mst_block_unref(r->pool, q->blocks[i]);
            q->blocks[i] = id;
        }

        mst_room_keep(r, q, i);
    }

    q->n_named = n;
}


void
mst_room_forget(mst_room_t *r, mst_seq_t *q)
{
    uint32_t  i;

    for (i = 0; r->prefix && i < q->n_blocks; i++) {
        mst_prefix_forget(r->prefix, q->blocks[i]);
    }
}
