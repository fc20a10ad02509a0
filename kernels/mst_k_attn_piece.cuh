
/*
 * A piece of decode attention (mst_k_attn_map.h) in the hands of four warps:
 * what each does with its 16 tokens of a page, and how their sums become
 * output, or a part of an item that others add: see mst_k_attn_decode.cu.
 */

#ifndef MST_K_ATTN_PIECE_CUH
#define MST_K_ATTN_PIECE_CUH

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


#endif /* MST_K_ATTN_PIECE_CUH */
