
/*
 * Decode attention: one query row per sequence over its paged KV, with the
 * rotation of q and of the new k, and the writing of k and v, inside.
 *
 * Bytes: every visible K and V once, 4 * head_dim a token and KV head
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
 * one of 32,768: 37.4 us, 79 %.
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

#include "kernels/mst_k_attn_warp.cuh"

static __host__ __device__ constexpr uint32_t
mst_k_dec_red(uint32_t head_dim, uint32_t group)
{
    return MST_K_DEC_WARPS * group * (head_dim + 4) * 4
           + MST_K_DEC_WARPS * group * 8;
}


/* where a slot of the ring has what a warp reads */
struct mst_k_dec_view {
    uint8_t  *base;                /* its 16 tokens */
    float    *scales;              /* theirs, fp8 */
};


/* one page of a warp's 16 tokens; what differs with and without bulk copies
   is who waits for the slots and who may fill them again */
template <int HD, int FP8, int HI>
struct mst_k_dec_page {
    mst_k_dec_new_raw<HD>  k;      /* of the new token, if it is here */
    mst_k_dec_new_raw<HD>  v;
    mst_k_dec_raw<HD, HI>  q;      /* of the item, or of the next one */
    const mst_k_attn_t    *args;
    uint8_t               *kv;     /* of the KV head in block 0 */
    uint32_t               block;  /* of the new token */
    uint32_t               tok;    /* of the page */
    int                    here;   /* is this the warp and page of it */
    int                    lo;     /* tokens that count: lo .. hi - 1 */
    int                    hi;

    __device__ __forceinline__ void
    keys(mst_k_dec_warp<HD, HI> *w, mst_k_dec_view s, uint32_t lane,
        float p[1 + HI][4])
    {
        int    i, r;
        float  x;

        if (here) {
            mst_k_dec_patch<HD, FP8>(s.base, s.scales,
                                     kv + block * args->block_stride, tok,
                                     lane, &k);
        }

        mst_k_dec_scores<HD, FP8, HI, mst_k_dec_geo<HD, FP8>::STEP>(
            w, mst_k_smem(s.base), lane, p);

        for (i = 0; FP8 && i < 2; i++) {
            x = s.scales[i * 8 + (lane >> 2)];

#pragma unroll
            for (r = 0; r <= HI; r++) {
                p[r][i * 2] *= x;
                p[r][i * 2 + 1] *= x;
            }
        }
    }

    __device__ __forceinline__ void
    values(mst_k_dec_warp<HD, HI> *w, mst_k_dec_view s, uint32_t lane,
        float p[1 + HI][4])
    {
        int       e, i, r;
        float     x;
        uint32_t  b[1 + HI][2];

        if (here) {
            mst_k_dec_patch<HD, FP8>(s.base, s.scales,
                                     kv + block * args->block_stride
                                     + mst_k_dec_geo<HD, FP8>::HALF, tok,
                                     lane, &v);
        }

#pragma unroll
        for (i = 0; i < 2; i++) {
            x = FP8 ? s.scales[i * 8 + (lane >> 2)] * MST_K_FP8_GAIN : 1;

#pragma unroll
            for (r = 0; r <= HI; r++) {

                /* scales of tokens that do not count may be anything */

                for (e = i * 2; FP8 && e < i * 2 + 2; e++) {
                    p[r][e] = p[r][e] > 0 ? p[r][e] * x : 0;
                }

                b[r][i] = mst_k_transpose(mst_k_pack<FP8>(p[r][i * 2],
                                                          p[r][i * 2 + 1]));
            }
        }

        mst_k_dec_values<HD, FP8, HI, mst_k_dec_geo<HD, FP8>::STEP>(
            w, mst_k_smem(s.base), lane, b);
    }
};


/* a piece as a warp begins it */

template <int HD, int FP8, int HI>
MST_K_DEV void
mst_k_dec_begin(const mst_k_attn_piece_t *p, mst_k_dec_warp<HD, HI> *w,
    mst_k_dec_page<HD, FP8, HI> *pg)
{
    int                  i, r;
    uint32_t             last;
    const uint32_t       lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const mst_k_attn_t  *a = pg->args;

    last = p->len - 1;
    pg->tok = last % MST_K_BLOCK;
    pg->kv = (uint8_t *) a->kv
             + (size_t) p->head * 2 * mst_k_dec_geo<HD, FP8>::HALF;
    pg->here = p->page + p->n == last / MST_K_BLOCK + 1
               && pg->tok / 16 == warp;

    if (pg->here) {
        pg->block = __ldg(a->step.blocks + p->table + last / MST_K_BLOCK);
        mst_k_dec_fetch<HD>(a, p, lane, 0, &pg->k);
        mst_k_dec_fetch<HD>(a, p, lane, 1, &pg->v);
    }

    mst_k_dec_query<HD, FP8, HI>(a, p->row, &pg->q, lane, w);

#pragma unroll
    for (r = 0; r <= HI; r++) {
        w->m[r][0] = w->m[r][1] = -INFINITY;
        w->l[r][0] = w->l[r][1] = 0;

#pragma unroll
        for (i = 0; i < HD / 16; i++) {
            w->o[r][i][0] = w->o[r][i][1] = 0;
            w->o[r][i][2] = w->o[r][i][3] = 0;
        }
    }
}


/* page i of a piece: which of the warp's tokens count; 0: none */

template <int HD, int FP8, int HI>
MST_K_DEV int
mst_k_dec_visible(const mst_k_attn_t *a, const mst_k_attn_piece_t *p,
    uint32_t i, uint32_t warp, mst_k_dec_page<HD, FP8, HI> *pg)
{
    int  base;

    base = (int) ((p->page + i) * MST_K_BLOCK + warp * 16);
    pg->hi = (int) p->len - base;
    pg->lo = a->window && p->len > a->window
             ? (int) (p->len - a->window) - base : 0;

    return pg->hi > 0 && pg->lo < 16;
}


/* the running sums of a warp into shared memory */

template <int HD, int FP8, int HI>
MST_K_DEV void
mst_k_dec_leave(mst_k_dec_warp<HD, HI> *w, uint32_t group, float *red)
{
    int             e, i, r;
    float           l, *ml, *to;
    uint32_t        head;
    const uint32_t  lane = threadIdx.x & 31, warp = threadIdx.x / 32;

    ml = red + MST_K_DEC_WARPS * group * (HD + 4);

#pragma unroll
    for (r = 0; r <= HI; r++) {
#pragma unroll
        for (e = 0; e < 2; e++) {
            l = w->l[r][e];
            l += __shfl_xor_sync(~0u, l, 4);
            l += __shfl_xor_sync(~0u, l, 8);
            l += __shfl_xor_sync(~0u, l, 16);
            head = r * 8 + (lane & 3) * 2 + e;

            if (head >= group) {
                continue;
            }

            head += warp * group;
            to = red + head * (HD + 4);

#pragma unroll
            for (i = 0; i < HD / 16; i++) {

                if (FP8) {
                    *(float2 *) (to + i * 16 + (lane >> 2) * 2) =
                        make_float2(w->o[r][i][e], w->o[r][i][2 + e]);

                } else {
                    to[i * 16 + (lane >> 2)] = w->o[r][i][e];
                    to[i * 16 + 8 + (lane >> 2)] = w->o[r][i][2 + e];
                }
            }

            if (lane < 4) {
                ml[head * 2] = w->m[r][e];
                ml[head * 2 + 1] = l;
            }
        }
    }
}


/* sums of n sets of (max, sum, 4 dims), stride floats apart, in their order */

template <int GLOBAL>
MST_K_DEV float4
mst_k_dec_add(const float *o, const float *ml, uint32_t n, uint32_t o_stride,
    uint32_t ml_stride, float *max, float *sum)
{
    float     e, l, m;
    float2    x;
    float4    s, v;
    uint32_t  i;

    m = -INFINITY;

#pragma unroll 4
    for (i = 0; i < n; i++) {
        x = GLOBAL ? mst_k_ld2(ml + i * ml_stride)
                   : *(const float2 *) (ml + i * ml_stride);
        m = fmaxf(m, x.x);
    }

    l = 0;
    s = make_float4(0, 0, 0, 0);

#pragma unroll 4
    for (i = 0; i < n; i++) {
        x = GLOBAL ? mst_k_ld2(ml + i * ml_stride)
                   : *(const float2 *) (ml + i * ml_stride);
        v = GLOBAL ? mst_k_ld4(o + i * o_stride)
                   : *(const float4 *) (o + i * o_stride);
        e = mst_k_exp2(x.x - m);
        l += e * x.y;
        s.x += e * v.x;
        s.y += e * v.y;
        s.z += e * v.z;
        s.w += e * v.w;
    }

    *max = m;
    *sum = l;

    return s;
}


MST_K_DEV void
mst_k_dec_bar(void)
{
    asm volatile("bar.sync 1, 128;" ::: "memory");
}


/* number of this piece among those of its item that have arrived */

MST_K_DEV uint32_t
mst_k_dec_ticket(uint32_t *ticket)
{
    uint32_t  old;

    __threadfence();
    old = atomicAdd(ticket, 1);
    __threadfence();

    return old;
}


/* four warps' sums of a piece become output, or a part of an item */

template <int HD, int FP8>
MST_K_DEV void
mst_k_dec_end(const mst_k_attn_t *a, const mst_k_attn_work_t *at,
    const mst_k_attn_piece_t *p, uint32_t index, float *red,
    volatile uint32_t *flag)
{
    int        whole;
    float      l, m, x, *part;
    float4     v;
    uint32_t   d, group, h, t, *ticket;

    group = a->shape.n_heads / a->shape.n_kv_heads;
    ticket = (uint32_t *) ((uint8_t *) a->work + at->ticket) + p->part;
    part = (float *) ((uint8_t *) a->work + at->part);
    whole = p->parts == 1;

    mst_k_dec_bar();

    for (;;) {
        for (t = threadIdx.x; t < group * (HD / 4); t += 128) {
            h = t / (HD / 4);
            d = t % (HD / 4) * 4;

            if (p->parts > 1 && whole) {
                v = mst_k_dec_add<1>(part + (size_t) p->part * group * (HD + 4)
                                     + h * HD + d,
                                     part + (size_t) p->part * group * (HD + 4)
                                     + group * HD + h * 2, p->parts,
                                     group * (HD + 4), group * (HD + 4),
                                     &m, &l);

            } else {
                v = mst_k_dec_add<0>(red + h * (HD + 4) + d,
                                     red + MST_K_DEC_WARPS * group * (HD + 4)
                                     + h * 2, MST_K_DEC_WARPS,
                                     group * (HD + 4), group * 2, &m, &l);
            }

            if (whole) {
                x = FP8 ? 1 / (l * MST_K_FP8_GAIN) : 1 / l;
                v.x *= x;
                v.y *= x;
                v.z *= x;
                v.w *= x;
                mst_k_attn_out<4>(a, p->row, (p->head * group + h) * HD + d,
                                  &v.x);
                continue;
            }

            *(float4 *) (part + (size_t) index * group * (HD + 4) + h * HD
                         + d) = v;

            if (d == 0) {
                *(float2 *) (part + (size_t) index * group * (HD + 4)
                             + group * HD + h * 2) = make_float2(m, l);
            }
        }

        if (whole) {
            break;
        }

        mst_k_dec_bar();

        if (threadIdx.x == 0) {
            *flag = mst_k_dec_ticket(ticket) == p->parts - 1;

            if (*flag) {
                *ticket = 0;
            }
        }

        mst_k_dec_bar();

        if (!*flag) {
            break;
        }

        whole = 1;
    }

    mst_k_dec_bar();
}


#if MST_K_BULK

/* the warp that fills the ring: lane 0 copies, all look up the blocks */

template <int HD, int FP8>
MST_K_DEV void
mst_k_dec_fill(const mst_k_attn_t *a, const mst_k_attn_piece_t *pieces,
    uint32_t n, uint8_t *ring, uint64_t *full, const volatile uint32_t *free)
{
    uint32_t        bar, block, c, half, i, lane, out, phase, slot;
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

            for (half = 0; lane == 0 && half < 2; half++, out++) {
                bar = mst_k_smem(full + slot);
                mst_k_bar_wait(bar + SLOTS * 8, phase);

                /* few copies in flight while the predecessor still works */

                if (out >= EARLY && out < SLOTS && !*free) {
                    mst_k_bar_wait(mst_k_smem(full + out - EARLY), 0);
                }

                mst_k_bar_expect(bar, HALF);
                mst_k_bulk(mst_k_smem(ring + slot * HALF), src + half * HALF,
                           HALF, bar, policy);

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
__launch_bounds__((MST_K_DEC_WARPS + 1) * 32, 2)
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
