
/*
 * Once per step: the work lists of the attention kernels, from the lengths
 * that lie on the device, so that a recorded graph serves any lengths.  One
 * CTA; the arithmetic is mst_k_attn_map.h's.  Reads and writes some KB: what
 * it takes is latency.  Measured (H200, 30 Nov 2026, mst_k_attn_test time; us
 * a step): 15 for one sequence, 19 for 32, 38 for 256.
 */

#include "kernels/mst_k_attn.cuh"

#define MST_K_PLAN_THREADS  1024
#define MST_K_PLAN_SEQS     1024
#define MST_K_PLAN_CTAS     1024


typedef struct {
    uint32_t  sum[MST_K_PLAN_SEQS + 1];    /* pages before a decoding row */
    uint32_t  seq[MST_K_PLAN_SEQS];        /* sequences that decode */
    uint32_t  tiles[MST_K_PLAN_SEQS + 1];  /* tiles before a sequence */
    uint32_t  cut[MST_K_PLAN_CTAS + 1];
    uint32_t  off[MST_K_PLAN_CTAS + 1];
    uint32_t  warp[32];
    uint32_t  cost[MST_K_ATTN_GRAINS];
    uint32_t  longest;
} mst_k_plan_t;


/* exclusive sums over the threads of a CTA; returns its own, sets *total */

MST_K_DEV uint32_t
mst_k_plan_scan(uint32_t v, uint32_t *warp, uint32_t *total)
{
    uint32_t  i, lane, n, sum, t, w;

    lane = threadIdx.x & 31;
    w = threadIdx.x / 32;
    sum = v;

    for (i = 1; i < 32; i <<= 1) {
        n = __shfl_up_sync(~0u, sum, i);
        sum += lane >= i ? n : 0;
    }

    if (lane == 31) {
        warp[w] = sum;
    }

    __syncthreads();

    t = warp[lane];

    for (i = 1; i < 32; i <<= 1) {
        n = __shfl_up_sync(~0u, t, i);
        t += lane >= i ? n : 0;
    }

    n = __shfl_sync(~0u, t, w ? w - 1 : 0);
    *total = __shfl_sync(~0u, t, 31);

    __syncthreads();

    return sum - v + (w ? n : 0);
}


/* the rows that decode, one after the other, and their pages */

MST_K_DEV void
mst_k_plan_rows(const mst_k_attn_plan_t *a, mst_k_plan_t *s,
    mst_k_attn_line_t *l)
{
    uint32_t  at, decodes, first, n, pages, t, total;

    t = threadIdx.x;
    decodes = t < a->shape.seqs && a->step.seq_n[t] == 1
              && !a->shape.invariant;
    pages = 0;

    if (decodes) {
        n = mst_k_attn_pages(a->step.seq_len[t] - 1, a->window, &first);
        pages = n * a->shape.n_kv_heads;
        atomicMax(&s->longest, n);
    }

    at = mst_k_plan_scan(decodes, s->warp, &l->rows);
    n = mst_k_plan_scan(pages, s->warp, &total);

    if (decodes) {
        s->seq[at] = t;
        s->sum[at] = n;
    }

    if (t == 0) {
        s->sum[l->rows] = total;
    }

    __syncthreads();

    l->sum = s->sum;
    l->heads = a->shape.n_kv_heads;
    l->ctas = mst_k_attn_share(total, s->longest, a->shape.ctas);
}


/* the grain whose most burdened CTA has least to do; the largest of several,
   as it makes fewest pieces */

MST_K_DEV void
mst_k_plan_grain(mst_k_plan_t *s, mst_k_attn_line_t *l)
{
    uint32_t  best, cost, g, i;

    for (i = threadIdx.x; i < MST_K_ATTN_GRAINS * l->ctas; i += blockDim.x) {
        g = i / l->ctas;
        l->grain = mst_k_attn_grain(g);
        mst_k_attn_count(l, mst_k_attn_cut(l, i % l->ctas),
                         mst_k_attn_cut(l, i % l->ctas + 1), &cost);
        atomicMax(&s->cost[g], cost);
    }

    __syncthreads();

    best = 0;

    for (g = 1; g < MST_K_ATTN_GRAINS; g++) {
        best = s->cost[g] <= s->cost[best] ? g : best;
    }

    l->grain = mst_k_attn_grain(best);
}


MST_K_DEV void
mst_k_plan_pieces(const mst_k_attn_plan_t *a, mst_k_plan_t *s,
    const mst_k_attn_line_t *l, const mst_k_attn_work_t *at)
{
    uint32_t             c, first, i, n, t, total;
    mst_k_attn_piece_t   p, *pieces;

    t = threadIdx.x;
    pieces = (mst_k_attn_piece_t *) ((uint8_t *) a->work + at->piece);

    for (c = t; c <= l->ctas; c += blockDim.x) {
        s->cut[c] = mst_k_attn_cut(l, c);
    }

    __syncthreads();

    n = t < l->ctas ? mst_k_attn_count(l, s->cut[t], s->cut[t + 1], &i) : 0;
    n = mst_k_plan_scan(n, s->warp, &total);

    if (t < l->ctas) {
        s->off[t] = n;
    }

    if (t == 0) {
        s->off[l->ctas] = total;
    }

    __syncthreads();

    for (c = t; c <= a->shape.ctas; c += blockDim.x) {
        ((uint32_t *) ((uint8_t *) a->work + at->off))[c] =
            c < l->ctas ? s->off[c] : total;
    }

    for (i = t; i < total; i += blockDim.x) {
        c = mst_k_attn_owner(l, s->off, i);
        n = s->seq[mst_k_attn_piece(l, s->cut, s->off, c, i - s->off[c], &p)];

        p.row = a->step.seq_row[n];
        p.table = a->step.seq_table[n];
        p.len = a->step.seq_len[n];
        mst_k_attn_pages(p.len - 1, a->window, &first);
        p.page += first;

        pieces[i] = p;
        ((uint32_t *) ((uint8_t *) a->work + at->ticket))[i] = 0;
    }
}


/* tiles of the sequences of more rows, those of most pages first */

MST_K_DEV void
mst_k_plan_tiles(const mst_k_attn_plan_t *a, mst_k_plan_t *s,
    const mst_k_attn_work_t *at)
{
    uint32_t            first, hi, i, lo, mid, n, rank, rows, t, total, *key;
    mst_k_attn_tile_t   tile, *tiles;

    t = threadIdx.x;
    key = (uint32_t *) ((uint8_t *) a->work + at->scratch);
    tiles = (mst_k_attn_tile_t *) ((uint8_t *) a->work + at->tile);
    rows = mst_k_attn_tile_rows(a->shape.n_heads / a->shape.n_kv_heads);

    n = t < a->shape.seqs ? a->step.seq_n[t] : 0;
    n = n > 1 || a->shape.invariant ? (n + rows - 1) / rows : 0;
    n = mst_k_plan_scan(n, s->warp, &total);
    s->tiles[t] = n;

    if (t == 0) {
        s->tiles[MST_K_PLAN_SEQS] = total;
        *(uint32_t *) ((uint8_t *) a->work + at->n_tiles) = total;
    }

    __syncthreads();

    for (rank = 0; rank < 2; rank++) {

        for (i = t; i < total; i += blockDim.x) {
            lo = 0;
            hi = MST_K_PLAN_SEQS;

            while (hi - lo > 1) {
                mid = (lo + hi) / 2;

                if (s->tiles[mid] <= i) {
                    lo = mid;

                } else {
                    hi = mid;
                }
            }

            n = a->step.seq_n[lo];
            mid = (i - s->tiles[lo]) * rows;
            tile.row = a->step.seq_row[lo] + mid;
            tile.pos = a->step.seq_len[lo] - n + mid;
            tile.n = n - mid < rows ? n - mid : rows;
            tile.table = a->step.seq_table[lo];

            if (rank == 0) {
                key[i] = mst_k_attn_tile_pages(tile.pos, tile.n, a->window,
                                               &first);
                continue;
            }

            n = 0;
            mid = key[i];

            for (lo = 0; lo < total; lo++) {
                n += key[lo] > mid || (key[lo] == mid && lo < i);
            }

            tiles[n] = tile;
        }

        __syncthreads();
    }
}


__global__ void
__launch_bounds__(MST_K_PLAN_THREADS, 1)
mst_k_plan(const __grid_constant__ mst_k_attn_plan_t a)
{
    __shared__ mst_k_plan_t  s;

    mst_k_attn_work_t  at;
    mst_k_attn_line_t  l;

    mst_k_pdl_wait();

    if (threadIdx.x < MST_K_ATTN_GRAINS) {
        s.cost[threadIdx.x] = 0;
    }

    if (threadIdx.x == 0) {
        s.longest = 0;
    }

    __syncthreads();

    mst_k_attn_work(&a.shape, &at);
    mst_k_plan_rows(&a, &s, &l);
    mst_k_plan_grain(&s, &l);
    mst_k_plan_pieces(&a, &s, &l, &at);
    mst_k_plan_tiles(&a, &s, &at);
}


extern "C" int
mst_k_attn_plan(const mst_k_attn_plan_t *a, cudaStream_t stream)
{
    if (a->shape.seqs > MST_K_PLAN_SEQS || a->shape.ctas > MST_K_PLAN_CTAS
        || !mst_k_attn_fits(a->shape.n_heads, a->shape.n_kv_heads,
                            a->shape.head_dim))
    {
        return cudaErrorInvalidValue;
    }

    return mst_k_attn_launch(mst_k_plan, dim3(1), dim3(MST_K_PLAN_THREADS), 0,
                             a, a->pdl, stream);
}
