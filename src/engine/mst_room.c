
/*
 * The blocks of a sequence: see mst_room.h.
 */

#include "base/mst_err.h"
#include "engine/mst_room.h"


static uint32_t mst_room_blocks(const mst_room_t *r, uint64_t tokens);
static void mst_room_keep(mst_room_t *r, const mst_seq_t *q, uint32_t i);
static uint32_t mst_room_find(const mst_room_t *r, mst_seq_t *q,
    uint32_t *blocks, mst_prefix_at_t *at, uint32_t *n_cached);


uint64_t
mst_room_most(const mst_room_t *r, uint64_t tokens)
{
    uint64_t  n, most;

    n = (tokens - 1) / r->block_tokens + 1;

    if (r->window == 0) {
        return n;
    }

    most = ((uint64_t) r->window + r->chunk) / r->block_tokens + 2;

    return n < most ? n : most;
}


uint32_t
mst_room_needs(const mst_room_t *r, const mst_seq_t *q)
{
    return (uint32_t) mst_room_most(r, q->n_tokens);
}


static uint32_t
mst_room_blocks(const mst_room_t *r, uint64_t tokens)
{
    uint64_t  n;

    n = mst_room_most(r, tokens);

    return n < r->pool->n ? (uint32_t) n : r->pool->n;
}


/* the first block that is seen once n tokens are computed */

static uint32_t
mst_room_first(const mst_room_t *r, uint32_t n)
{
    return r->window && n >= r->window
           ? (n - r->window + 1) / r->block_tokens : 0;
}


/* blocks of the table that the next step may write to or read */

static uint32_t
mst_room_table(const mst_room_t *r, const mst_seq_t *q)
{
    uint32_t  n;

    n = q->n_tokens;

    if (r->window && n - q->n_computed > r->chunk) {
        n = q->n_computed + r->chunk;
    }

    return (n - 1) / r->block_tokens + 1;
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
    uint32_t  i, first, held, hits, n_cached, need, want;

    want = mst_room_wants(r, q, &all);
    need = (q->n_tokens - 1) / r->block_tokens + 1;

    if (mst_seq_reserve_tokens(q, q->n_tokens + 1) != MST_OK
        || mst_seq_reserve_blocks(q, need) != MST_OK)
    {
        return MST_ERROR;
    }

    hits = mst_room_find(r, q, q->blocks, &q->at, &n_cached);
    first = mst_room_first(r, hits * r->block_tokens);

    q->n_computed = hits * r->block_tokens;
    need = mst_room_table(r, q);
    held = need - first;
    want = want > held ? want : held;

    /* of the hits that a window has left none is taken: with it n_cached says
       too much, which is on the safe side */

    if ((uint64_t) want - (hits - first) + n_cached + r->promised
        > mst_block_available(r->pool))
    {
        q->n_computed = 0;
        return MST_BUSY;
    }

    for (i = 0; i < first; i++) {
        q->blocks[i] = MST_BLOCK_NONE;
    }

    for ( /* void */ ; i < hits; i++) {
        mst_block_ref(r->pool, q->blocks[i]);
        mst_room_keep(r, q, i);
    }

    for ( /* void */ ; i < need; i++) {
        q->blocks[i] = mst_block_get(r->pool);
    }

    q->n_blocks = need;
    q->n_gone = first;
    q->n_named = hits;
    q->promise = want - held;

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

    need = mst_room_table(r, q);

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
    while (q->n_blocks > q->n_gone) {
        mst_block_unref(r->pool, q->blocks[--q->n_blocks]);
    }

    q->n_blocks = 0;
    q->n_gone = 0;
    r->promised -= q->promise;
    q->promise = 0;
    q->n_computed = 0;
}


/* what the window has left goes back.  A block that was given under a promise
   is promised again: it comes back as another one */

static void
mst_room_leave(mst_room_t *r, mst_seq_t *q, uint32_t n)
{
    uint32_t  first, id;

    first = mst_room_first(r, n);
    first = first < q->n_blocks ? first : q->n_blocks;

    for ( /* void */ ; q->n_gone < first; q->n_gone++) {
        id = q->blocks[q->n_gone];
        mst_block_unref(r->pool, id);
        q->blocks[q->n_gone] = MST_BLOCK_NONE;

        if (q->pinned && r->pool->blocks[id].ref == 0) {
            q->promise++;
            r->promised++;
        }
    }
}


static void
mst_room_name(mst_room_t *r, mst_seq_t *q, uint32_t n)
{
    uint32_t  i, id;

    n /= r->block_tokens;

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

    q->n_named = n > q->n_named ? n : q->n_named;
}


void
mst_room_known(mst_room_t *r, mst_seq_t *q, uint32_t n)
{
    if (r->prefix) {
        mst_room_name(r, q, n);
    }

    mst_room_leave(r, q, n);
}


void
mst_room_computed(mst_room_t *r, mst_seq_t *q)
{
    q->n_computed += q->n_step;

    mst_room_known(r, q, q->n_computed);
}


void
mst_room_forget(mst_room_t *r, mst_seq_t *q)
{
    uint32_t  i;

    for (i = q->n_gone; r->prefix && i < q->n_blocks; i++) {
        mst_prefix_forget(r->prefix, q->blocks[i]);
    }
}
