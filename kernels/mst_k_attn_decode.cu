
/*
 * Decode attention: one query row per sequence over its paged KV, with the
 * rotation of q and of the new k, and the writing of k and v, inside.
 *
 * Bytes: every visible K and V once (but for the first of a window whole
 * blocks, of the last one what it holds), 4 * head_dim a token and KV head
 * (bf16); operations 4 * head_dim a token and query head: bound by memory
 * from about 4 sequences on.  Before that by latency, ~4 us.
 *
 * Measured (H200, 30 Nov 2026, mst_k_attn_test time; us a layer in a graph of
 * 32 layers with pdl; 32/8 heads x 128, context 576; % of 4.56 TB/s; two CTAs
 * on a multiprocessor from batch 32 on):
 *     batch        1        8       16       32       64      128      256
 *     bf16       7.1      8.9     11.7     19.2     37.6     75.0    147.2
 *                7 %     47 %     71 %     86 %     88 %     88 %     90 %
 *     fp8        7.7     10.5     11.8        -        -        -     91.1
 * fp8 with one CTA: 18.3, 35.4, 71.9 at 32, 64, 128: bound by latency, not
 * by bytes (75 % with two).  32 sequences of 4,096: 127.5 us, 92 % (fp8 95.3);
 * one of 32,768: 37.4 us, 79 %.  In an engine, without pdl behind the library's
 * GEMMs, 128 of 513 to 640 tokens: 79.8 us (84.1 as long as last blocks were
 * read whole).
 *
 * A CTA walks its pieces (mst_k_attn_map.h): a producer warp brings blocks
 * of keys and of values by bulk copies into a ring, starting before the
 * predecessor has ended, as all pages but the new token's row are old.  Four
 * warps each own 16 tokens of every page and keep their own running maximum,
 * so nothing but the ring synchronises them within a piece.  Tokens are the
 * rows of the products and the heads of a group their eight columns.  The
 * warp that owns the new token puts k and v into its copy of the page and
 * into the page itself.  Below sm_90 there is
 * no producer: each warp copies its own 16 tokens (cp.async).
 */

#include "kernels/mst_k_attn_piece.cuh"


#if MST_K_BULK

/* the first n tokens of a page's keys or values: of the page that is being
   filled the rest is not read, half a page of each sequence on average */

template <int HD, int FP8>
MST_K_DEV void
mst_k_dec_copy(uint32_t to, const uint8_t *src, uint32_t n, uint32_t bar,
    uint64_t policy)
{
    uint32_t   i, lines, parts, scales;
    const int  HALF = mst_k_dec_geo<HD, FP8>::HALF;

    if (n == MST_K_BLOCK) {
        mst_k_bar_expect(bar, HALF);
        mst_k_bulk(to, src, HALF, bar, policy);
        return;
    }

    /* a line of 128 bytes has 64 dims of bf16, or 128 of fp8 */

    parts = FP8 ? 1 : HD / 64;
    lines = (FP8 && HD == 64 ? (n + 1) / 2 : n) * 128;
    scales = FP8 ? (n * 4 + 15) / 16 * 16 : 0;

    mst_k_bar_expect(bar, parts * lines + scales);

    for (i = 0; n && i < parts; i++) {
        mst_k_bulk(to + i * MST_K_BLOCK * 128, src + i * MST_K_BLOCK * 128,
                   lines, bar, policy);
    }

    if (scales) {
        mst_k_bulk(to + MST_K_BLOCK * HD, src + MST_K_BLOCK * HD, scales, bar,
                   policy);
    }
}


/* the warp that fills the ring: lane 0 copies, all look up the blocks */

template <int HD, int FP8>
MST_K_DEV void
mst_k_dec_fill(const mst_k_attn_t *a, const mst_k_attn_piece_t *pieces,
    uint32_t n, uint8_t *ring, uint64_t *full, const volatile uint32_t *free)
{
    uint32_t        bar, block, c, half, i, lane, old, out, phase, slot;
    uint64_t        policy;
    const uint8_t  *src;
    const int       HALF = mst_k_dec_geo<HD, FP8>::HALF;
    const int       SLOTS = mst_k_dec_geo<HD, FP8>::SLOTS;
    const int       EARLY = mst_k_dec_geo<HD, FP8>::EARLY;

    lane = threadIdx.x & 31;
    policy = mst_k_evict_first();
    slot = out = 0;
    phase = 1;
    block = 0;

    for (c = 0; c < n; c++) {
        const mst_k_attn_piece_t  p = pieces[c];

        for (i = 0; i < p.n; i++) {

            if (i % 32 == 0) {
                block = i + lane < p.n
                        ? __ldg(a->step.blocks + p.table + p.page + i + lane)
                        : 0;
            }

            src = (const uint8_t *) a->kv
                  + (size_t) __shfl_sync(~0u, block, i % 32) * a->block_stride
                  + (size_t) p.head * 2 * HALF;

            /* the warp that has the new token puts it there */

            old = p.page + i == (p.len - 1) / MST_K_BLOCK
                  ? (p.len - 1) % MST_K_BLOCK : MST_K_BLOCK;

            for (half = 0; lane == 0 && half < 2; half++, out++) {
                bar = mst_k_smem(full + slot);
                mst_k_bar_wait(bar + SLOTS * 8, phase);

                /* few copies in flight while the predecessor still works */

                if (out >= EARLY && out < SLOTS && !*free) {
                    mst_k_bar_wait(mst_k_smem(full + out - EARLY), 0);
                }

                mst_k_dec_copy<HD, FP8>(mst_k_smem(ring + slot * HALF),
                                        src + half * HALF, old, bar, policy);

                if (++slot == SLOTS) {
                    slot = 0;
                    phase ^= 1;
                }
            }
        }
    }
}

#endif


/* the four warps: all pages of a piece */

template <int HD, int FP8, int HI>
struct mst_k_dec_ring {
    uint8_t   *ring;
    uint64_t  *full;
    uint32_t   slot;
    uint32_t   phase;
    uint32_t   warp;
    uint32_t   lane;

    /* cp.async: the piece that is being copied, and how far */
    const mst_k_attn_t  *a;

    __device__ __forceinline__ mst_k_dec_view
    view(void)
    {
        uint8_t         *at;
        mst_k_dec_view   v;

        using G = mst_k_dec_geo<HD, FP8>;

#if MST_K_BULK
        at = ring + slot * G::HALF;
        v.base = at + warp * G::LINES;
        v.scales = (float *) (at + G::SCALES) + warp * 16;
#else
        at = ring + (warp * G::SLOTS + slot) * (G::HALF / 4);
        v.base = at;
        v.scales = (float *) (at + G::SCALES);
#endif

        return v;
    }

    __device__ __forceinline__ void
    next(void)
    {
        if (++slot == mst_k_dec_geo<HD, FP8>::SLOTS) {
            slot = 0;
            phase ^= 1;
        }
    }

#if MST_K_BULK

    __device__ __forceinline__ void
    wait(void)
    {
        mst_k_bar_wait(mst_k_smem(full + slot), phase);
    }

    __device__ __forceinline__ void
    release(void)
    {
        __syncwarp();

        if (lane == 0) {
            mst_k_bar_arrive(mst_k_smem(full + mst_k_dec_geo<HD, FP8>::SLOTS
                                        + slot));
        }

        next();
    }

#else

    /* half i (keys, values, keys ...) of a piece's pages into a slot */
    __device__ __forceinline__ void
    copy(const mst_k_attn_piece_t *p, uint32_t i, uint32_t to)
    {
        uint8_t        *dst;
        uint32_t        n;
        const uint8_t  *src;

        using G = mst_k_dec_geo<HD, FP8>;

        if (i < p->n * 2) {
            dst = ring + (warp * G::SLOTS + to) * (G::HALF / 4);
            src = (const uint8_t *) a->kv
                  + (size_t) __ldg(a->step.blocks + p->table + p->page + i / 2)
                    * a->block_stride
                  + (size_t) (p->head * 2 + i % 2) * G::HALF;

            for (n = lane * 16; n < 16 * HD * (2 - FP8); n += 512) {
                mst_k_cp16(mst_k_smem(dst + n),
                           src + n / G::LINES * MST_K_BLOCK * 128
                           + warp * G::LINES + n % G::LINES);
            }

            if (FP8 && lane < 4) {
                mst_k_cp16(mst_k_smem(dst + G::SCALES + lane * 16),
                           src + MST_K_BLOCK * HD + warp * 64 + lane * 16);
            }
        }

        mst_k_cp_commit();
    }

    __device__ __forceinline__ void
    begin(const mst_k_attn_piece_t *p)
    {
        uint32_t  i;

        slot = 0;

        for (i = 0; i + 1 < mst_k_dec_geo<HD, FP8>::SLOTS; i++) {
            copy(p, i, i);
        }
    }

    __device__ __forceinline__ void
    wait(const mst_k_attn_piece_t *p, uint32_t i)
    {
        const int  SLOTS = mst_k_dec_geo<HD, FP8>::SLOTS;

        /* the slot before this one is free: all lanes have read it */
        copy(p, i + SLOTS - 1, (slot + SLOTS - 1) % SLOTS);
        mst_k_cp_wait<mst_k_dec_geo<HD, FP8>::SLOTS - 1>();
        __syncwarp();
    }

    __device__ __forceinline__ void
    release(void)
    {
        __syncwarp();
        next();
    }

#endif

    __device__ __forceinline__ void
    walk(const mst_k_attn_piece_t *p, mst_k_dec_warp<HD, HI> *w,
        mst_k_dec_page<HD, FP8, HI> *pg)
    {
        int       here, seen;
        float     s[1 + HI][4];
        uint32_t  i;

        here = pg->here;

#if !MST_K_BULK
        begin(p);
#endif

        for (i = 0; i < p->n; i++) {
            pg->here = here && i + 1 == p->n;
            seen = mst_k_dec_visible<HD, FP8, HI>(a, p, i, warp, pg);

#if MST_K_BULK
            wait();
#else
            wait(p, i * 2);
#endif

            if (seen) {
                pg->keys(w, view(), lane, s);
            }

            release();

            if (seen) {
                mst_k_dec_softmax<HD, HI>(w, lane, pg->lo, pg->hi, s);
            }

#if MST_K_BULK
            wait();
#else
            wait(p, i * 2 + 1);
#endif

            if (seen) {
                pg->values(w, view(), lane, s);
            }

            release();
        }

#if !MST_K_BULK
        mst_k_cp_wait<0>();
        __syncwarp();
#endif
    }
};


template <int HD, int FP8, int HI>
__global__ void
__launch_bounds__((MST_K_DEC_WARPS + 1) * 32, 2 - HI)
mst_k_dec(const __grid_constant__ mst_k_attn_t a)
{
    extern __shared__ __align__(1024) uint8_t  smem[];

    using G = mst_k_dec_geo<HD, FP8>;

    uint32_t    c, from, group, i, to, warp;
    float      *red;
    uint64_t   *full;
    uint32_t   *flag;

    const mst_k_attn_piece_t  *pieces;
    mst_k_attn_work_t          at;

    group = a.shape.n_heads / a.shape.n_kv_heads;
    warp = threadIdx.x / 32;
    red = (float *) (smem + G::SLOTS * G::HALF);
    full = (uint64_t *) ((uint8_t *) red + mst_k_dec_red(HD, group));
    flag = (uint32_t *) (full + 2 * G::SLOTS);

    mst_k_pdl_trigger();

    if (threadIdx.x == 0) {
#if MST_K_BULK
        for (i = 0; i < G::SLOTS; i++) {
            mst_k_bar_init(mst_k_smem(full + i), 1);
            mst_k_bar_init(mst_k_smem(full + G::SLOTS + i), MST_K_DEC_WARPS);
        }

        mst_k_bar_init_done();
#endif
        flag[0] = 0;
    }

    __syncthreads();

    mst_k_attn_work(&a.shape, &at);
    c = blockIdx.x;
    from = __ldg((const uint32_t *) ((uint8_t *) a.work + at.off) + c);
    to = __ldg((const uint32_t *) ((uint8_t *) a.work + at.off) + c + 1);
    pieces = (const mst_k_attn_piece_t *) ((uint8_t *) a.work + at.piece);

#if MST_K_BULK
    if (warp == MST_K_DEC_WARPS) {
        mst_k_dec_fill<HD, FP8>(&a, pieces + from, to - from, smem, full,
                                flag);
        return;
    }
#endif

    mst_k_pdl_wait();

    if (threadIdx.x == 0) {
        *(volatile uint32_t *) flag = 1;
    }

    mst_k_dec_warp<HD, HI>       w;
    mst_k_dec_page<HD, FP8, HI>  pg;
    mst_k_dec_ring<HD, FP8, HI>  ring = { smem, full, 0, 0, warp,
                                          threadIdx.x & 31, &a };
    mst_k_attn_piece_t           next, p;

    if (from == to) {
        return;
    }

    pg.args = &a;
    next = pieces[from];
    mst_k_dec_ahead<HD, FP8, HI>(&a, &next, ring.lane, &pg.q);

    for (i = from; i < to; i++) {
        p = next;
        next = pieces[i + 1 < to ? i + 1 : i];

        mst_k_dec_begin<HD, FP8, HI>(&p, &w, &pg);
        ring.walk(&p, &w, &pg);
        mst_k_dec_leave<HD, FP8, HI>(&w, group, red);

        /* the next item's q comes while this one's sums are added */

        mst_k_dec_ahead<HD, FP8, HI>(&a, &next, ring.lane, &pg.q);
        mst_k_dec_end<HD, FP8>(&a, &at, &p, i, red, flag + 1);
    }
}


template <int HD, int FP8, int HI>
static int
mst_k_dec_launch(const mst_k_attn_t *a, cudaStream_t stream)
{
    uint32_t  group, half, slots, smem, threads;

    group = a->shape.n_heads / a->shape.n_kv_heads;
    half = mst_k_kv_half(HD, FP8 ? MST_K_KV_FP8 : MST_K_KV_BF16);
    slots = MST_K_DEC_PLAIN;
    threads = MST_K_DEC_WARPS * 32;

#ifndef MST_K_ATTN_PLAIN
    if (mst_k_attn_hopper()) {
        slots = MST_K_DEC_RING / half & ~1u;
        threads += 32;
    }
#endif

    smem = slots * half + mst_k_dec_red(HD, group) + slots * 16 + 16;

    return mst_k_attn_launch(mst_k_dec<HD, FP8, HI>, dim3(a->shape.ctas),
                             dim3(threads), smem, a, a->pdl, stream);
}


template <int HD, int FP8>
static int
mst_k_dec_group(const mst_k_attn_t *a, cudaStream_t stream)
{
    return a->shape.n_heads / a->shape.n_kv_heads > 8
           ? mst_k_dec_launch<HD, FP8, 1>(a, stream)
           : mst_k_dec_launch<HD, FP8, 0>(a, stream);
}


extern "C" int
mst_k_attn_decode(const mst_k_attn_t *a, cudaStream_t stream)
{
    if (!mst_k_attn_fits(a->shape.n_heads, a->shape.n_kv_heads,
                         a->shape.head_dim))
    {
        return cudaErrorInvalidValue;
    }

    if (a->shape.head_dim == 128) {
        return a->kv_type == MST_K_KV_FP8
               ? mst_k_dec_group<128, 1>(a, stream)
               : mst_k_dec_group<128, 0>(a, stream);
    }

    return a->kv_type == MST_K_KV_FP8 ? mst_k_dec_group<64, 1>(a, stream)
                                      : mst_k_dec_group<64, 0>(a, stream);
}
