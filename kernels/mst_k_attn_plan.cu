
/*
 * Once per step: the work lists of the attention kernels, from the lengths
 * that lie on the device, so that a recorded graph serves any lengths.  The
 * arithmetic is mst_k_attn_map.h's.  Reads and writes some KB: what it takes
 * is latency, of its own code too, which no cache has any more when the next
 * step begins.  So what it does twice is a loop or a call.  A CTA finds the
 * best grain by itself, each of them the same, and writes its part of the
 * pieces.  Measured in an engine's step (H200, 30 Nov 2026, by CUPTI): 10.5 us
 * for one sequence, 18 to 21 for 128 and 256, beside an embedding of 6.6 and
 * 17.
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
    uint32_t  item[MST_K_PLAN_CTAS];       /* that a cut is in */
    uint32_t  off[MST_K_PLAN_CTAS + 1];
    uint32_t  warp[32];
    uint32_t  cost[MST_K_ATTN_GRAINS];
    uint32_t  longest;

    mst_k_attn_mark_t  mark[MST_K_PLAN_CTAS + 1];
} mst_k_plan_t;


/* exclusive sums over the threads of a CTA: .x its own, .y of all */

static __device__ __noinline__ uint2
mst_k_plan_scan(uint32_t v, uint32_t *warp)
{
    uint32_t  i, lane, n, sum, t, w;

    lane = threadIdx.x & 31;
    w = threadIdx.x / 32;
    sum = v;

    MST_K_ROLLED
    for (i = 1; i < 32; i <<= 1) {
        n = __shfl_up_sync(~0u, sum, i);
        sum += lane >= i ? n : 0;
    }

    if (lane == 31) {
        warp[w] = sum;
    }

    __syncthreads();

    t = warp[lane];

    MST_K_ROLLED
    for (i = 1; i < 32; i <<= 1) {
        n = __shfl_up_sync(~0u, t, i);
        t += lane >= i ? n : 0;
    }

    n = __shfl_sync(~0u, t, w ? w - 1 : 0);
    t = __shfl_sync(~0u, t, 31);

    __syncthreads();

    return make_uint2(sum - v + (w ? n : 0), t);
}


/* the rows that decode, one after the other, and their pages */

MST_K_DEV void
mst_k_plan_rows(const mst_k_attn_plan_t *a, mst_k_plan_t *s,
    mst_k_attn_line_t *l)
{
    uint2     at, before;
    uint32_t  decodes, first, len, pages, t;

    t = threadIdx.x;
    decodes = pages = len = 0;

    if (t < a->shape.seqs) {
        len = a->step.seq_len[t];
        decodes = a->step.seq_n[t] == 1 && !a->shape.invariant;
    }

    if (decodes) {
        pages = mst_k_attn_pages(len - 1, a->window, &first);
        atomicMax(&s->longest, pages);
        pages *= a->shape.n_kv_heads;
    }

    at = mst_k_plan_scan(decodes, s->warp);
    before = mst_k_plan_scan(pages, s->warp);

    if (decodes) {
        s->seq[at.x] = t;
        s->sum[at.x] = before.x;
    }

    if (t == 0) {
        s->sum[at.y] = before.y;
    }

    __syncthreads();

    l->sum = s->sum;
    l->rows = at.y;
    l->heads = a->shape.n_kv_heads;
    l->ctas = mst_k_attn_share(before.y, s->longest, a->shape.ctas);
}


/*
 * Of each grain that is worth a try what the most burdened CTA has to do, then
 * the cuts of the best one; off[] becomes the number of each CTA's pieces.  A
 * warp has 31 CTAs and the one behind them at a time.
 */

MST_K_DEV void
mst_k_plan_cuts(mst_k_plan_t *s, mst_k_attn_line_t *l)
{
    uint32_t           best, c, chunks, cost, g, i, lane, last, n, pieces;
    uint32_t           tasks;
    mst_k_attn_mark_t  m, next;

    MST_K_ROLLED
    for (c = threadIdx.x; c <= l->ctas; c += blockDim.x) {
        mst_k_attn_aim(l, c, &s->mark[c]);
    }

    __syncthreads();

    lane = threadIdx.x & 31;
    chunks = (l->ctas + 30) / 31;
    n = mst_k_attn_grains(s->longest);
    tasks = n * chunks;
    best = 0;

    MST_K_ROLLED
    for (last = 0; last < 2; last++) {

        MST_K_ROLLED
        for (i = threadIdx.x / 32; i < tasks; i += blockDim.x / 32) {
            g = i / chunks;
            c = (i - g * chunks) * 31 + lane;
            l->grain = last ? best : mst_k_attn_grain(g);

            m = s->mark[c < l->ctas ? c : l->ctas];
            mst_k_attn_settle(l, &m);
            next.pos = __shfl_down_sync(~0u, m.pos, 1);
            next.item = __shfl_down_sync(~0u, m.item, 1);
            next.page = __shfl_down_sync(~0u, m.page, 1);

            cost = 0;

            if (lane < 31 && c < l->ctas) {
                pieces = mst_k_attn_count(&m, &next, &cost);

                if (last) {
                    s->off[c] = pieces;
                    s->cut[c] = m.pos;
                    s->item[c] = m.item;
                }
            }

            cost = __reduce_max_sync(~0u, cost);

            if (lane == 0 && !last) {
                atomicMax(&s->cost[g], cost);
            }
        }

        __syncthreads();

        if (!last) {
            best = mst_k_attn_best(s->cost, n);
            tasks = chunks;
        }
    }
}


MST_K_DEV void
mst_k_plan_pieces(const mst_k_attn_plan_t *a, mst_k_plan_t *s,
    const mst_k_attn_line_t *l, const mst_k_attn_work_t *at)
{
    uint2                before;
    uint32_t             c, first, i, j, n, t;
    mst_k_attn_piece_t   p, *pieces;

    t = threadIdx.x;
    before = mst_k_plan_scan(t < l->ctas ? s->off[t] : 0, s->warp);

    if (t < l->ctas) {
        s->off[t] = before.x;
    }

    if (t == 0) {
        s->cut[l->ctas] = l->sum[l->rows];
        s->off[l->ctas] = before.y;
    }

    __syncthreads();

    pieces = (mst_k_attn_piece_t *) ((uint8_t *) a->work + at->piece);
    i = blockIdx.x * blockDim.x + t;

    MST_K_ROLLED
    for (c = i; c <= a->shape.ctas; c += gridDim.x * blockDim.x) {
        ((uint32_t *) ((uint8_t *) a->work + at->off))[c] =
            c < l->ctas ? s->off[c] : before.y;
    }

    MST_K_ROLLED
    for ( /* void */ ; i < before.y; i += gridDim.x * blockDim.x) {
        c = mst_k_attn_owner(l, s->off, i);
        j = i - s->off[c];
        n = s->seq[mst_k_attn_piece(l, s->cut, s->off, c, j, s->item[c] + j,
                                    &p)];

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
    uint2               before;
    uint32_t            first, hi, i, lo, mid, n, rank, rows, t, total, *key;
    mst_k_attn_tile_t   tile, *tiles;

    t = threadIdx.x;
    key = (uint32_t *) ((uint8_t *) a->work + at->scratch);
    tiles = (mst_k_attn_tile_t *) ((uint8_t *) a->work + at->tile);
    rows = mst_k_attn_tile_rows(a->shape.n_heads / a->shape.n_kv_heads);

    n = t < a->shape.seqs ? a->step.seq_n[t] : 0;
    n = n > 1 || a->shape.invariant ? (n + rows - 1) / rows : 0;
    before = mst_k_plan_scan(n, s->warp);
    s->tiles[t] = before.x;
    total = before.y;

    if (t == 0) {
        s->tiles[MST_K_PLAN_SEQS] = total;
        *(uint32_t *) ((uint8_t *) a->work + at->n_tiles) = total;
    }

    __syncthreads();

    MST_K_ROLLED
    for (rank = 0; rank < 2; rank++) {

        MST_K_ROLLED
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

    mst_k_pdl_trigger();
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
    mst_k_plan_cuts(&s, &l);
    mst_k_plan_pieces(&a, &s, &l, &at);

    if (blockIdx.x == 0) {
        mst_k_plan_tiles(&a, &s, &at);
    }
}


extern "C" int
mst_k_attn_plan(const mst_k_attn_plan_t *a, cudaStream_t stream)
{
    uint32_t  pieces;

    if (a->shape.seqs > MST_K_PLAN_SEQS || a->shape.ctas > MST_K_PLAN_CTAS
        || !mst_k_attn_fits(a->shape.n_heads, a->shape.n_kv_heads,
                            a->shape.head_dim))
    {
        return cudaErrorInvalidValue;
    }

    pieces = a->shape.seqs * a->shape.n_kv_heads + a->shape.ctas;

    return mst_k_attn_launch(mst_k_plan,
                             dim3(1 + (pieces - 1) / MST_K_PLAN_THREADS),
                             dim3(MST_K_PLAN_THREADS), 0, a, a->pdl,
                             stream);
}
