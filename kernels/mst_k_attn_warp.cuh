
/*
 * Decode attention, what one warp computes: 16 tokens of a page against the
 * query heads of a group by mma.sync, with its own running maximum, and the
 * new token's key and value.  mst_k_attn_decode.cu says how the rest fits.
 */

#ifndef MST_K_ATTN_WARP_CUH
#define MST_K_ATTN_WARP_CUH

#include "kernels/mst_k_attn.cuh"

#define MST_K_DEC_WARPS  4
#define MST_K_DEC_RING   98304     /* bytes, bulk copies */
#define MST_K_DEC_PLAIN  4         /* slots, cp.async */
#define MST_K_DEC_EARLY  32768     /* bytes in flight before the predecessor
                                      has ended */


template <int HD, int FP8>
struct mst_k_dec_geo {
    static constexpr int HALF = FP8 ? MST_K_BLOCK * (HD + 4)
                                    : MST_K_BLOCK * HD * 2;
    static constexpr int SLOTS = MST_K_BULK ? MST_K_DEC_RING / HALF & ~1
                                            : MST_K_DEC_PLAIN;
    static constexpr int EARLY = MST_K_DEC_EARLY / HALF;
    static constexpr int KS = HD / 16;         /* k16 steps of q k */
    static constexpr int NT = HD / 8;          /* n8 tiles of the output */

    /* within what a warp reads: bytes from one 64 dims to the next, from its
       tokens to its scales */
    static constexpr int STEP = MST_K_BULK ? MST_K_BLOCK * 128 : 16 * 128;
    static constexpr int LINES = FP8 ? 16 * HD : 16 * 128;  /* of 16 tokens */
    static constexpr int SCALES = MST_K_BULK ? MST_K_BLOCK * HD : 16 * HD;
};


/* state of a warp within an item.  Tokens, then dims, are the 16 rows of the
   products, heads their 8 columns: half the products and registers that
   heads as rows would take.  HI: 9 to 16 heads, two sets of columns. */
template <int HD, int HI>
struct mst_k_dec_warp {
    uint32_t  q[HD / 16][2 + 2 * HI];
    float     o[1 + HI][HD / 16][4];   /* two dims x heads 2j, 2j + 1 */
    float     m[1 + HI][2];
    float     l[1 + HI][2];
};


/* of a warp of 16 rows (position, head): prefill */
template <int HD>
struct mst_k_pre_warp {
    uint32_t  q[HD / 16][4];
    float     o[HD / 8][4];
    float     m[2];
    float     l[2];
};


/* the new token's k or v: this lane's HD / 32 dims */
template <int HD>
struct mst_k_dec_new {
    float  x[HD / 32];
};


/* as it comes from memory */
template <int HD>
struct mst_k_dec_new_raw {
    uint32_t  x[HD / 64];
    float2    turn[HD / 64];
};


/* q of an item as it comes from memory, ahead of its use */
template <int HD, int HI>
struct mst_k_dec_raw {
    uint32_t  q[HD / 16][2 + 2 * HI];
    float     scale;
};


/* dim of register i of k16 step ks: fp8 takes four neighbours */

template <int FP8>
MST_K_DEV uint32_t
mst_k_dec_dim(int ks, int i, uint32_t lane)
{
    return FP8 ? ks * 16 + (lane & 3) * 4 + i * 2
               : ks * 16 + i * 8 + (lane & 3) * 2;
}


template <int HD, int FP8, int HI>
MST_K_DEV void
mst_k_dec_ahead(const mst_k_attn_t *a, const mst_k_attn_piece_t *p,
    uint32_t lane, mst_k_dec_raw<HD, HI> *raw)
{
    int              i, ks, r;
    uint32_t         dim, g, group;
    const uint16_t  *q;

    group = a->shape.n_heads / a->shape.n_kv_heads;
    raw->scale = __ldg(a->step.q_scale + p->row);

#pragma unroll
    for (r = 0; r <= HI; r++) {
        g = (lane >> 2) + r * 8;
        q = a->qkv + ((size_t) p->row * (a->shape.n_heads
                                         + 2 * a->shape.n_kv_heads)
                      + p->head * group + (g < group ? g : 0)) * HD;

#pragma unroll
        for (ks = 0; ks < HD / 16; ks++) {
#pragma unroll
            for (i = 0; i < 2; i++) {
                dim = mst_k_dec_dim<FP8>(ks, i, lane);
                raw->q[ks][i * (1 + HI) + r] = mst_k_ld(q + dim);
            }
        }
    }
}


/* q of the heads of a group as the A operand, turned and scaled */

template <int HD, int FP8, int HI>
MST_K_DEV void
mst_k_dec_query(const mst_k_attn_t *a, uint32_t row,
    const mst_k_dec_raw<HD, HI> *raw, uint32_t lane, mst_k_dec_warp<HD, HI> *w)
{
    int             i, ks, r;
    float           scale;
    float2          turn, y;
    const uint32_t  group = a->shape.n_heads / a->shape.n_kv_heads;

    scale = raw->scale * MST_K_LOG2E;

#pragma unroll
    for (ks = 0; ks < HD / 16; ks++) {
#pragma unroll
        for (i = 0; i < 2; i++) {
            turn = mst_k_turn_of(a, row, mst_k_dec_dim<FP8>(ks, i, lane) / 2);

#pragma unroll
            for (r = 0; r <= HI; r++) {
                y = mst_k_turn(raw->q[ks][i * (1 + HI) + r], turn, scale);
                w->q[ks][i * (1 + HI) + r] =
                    (lane >> 2) + r * 8 < group ? mst_k_pack<FP8>(y.x, y.y)
                                                : 0;
            }
        }
    }
}


/* s[r][]: tokens g and g + 8 of the 16 that lie from base on, heads 2j and
   2j + 1 (of r * 8 ..); STEP bytes from one 64 dims to the next */

template <int HD, int FP8, int HI, int STEP>
MST_K_DEV void
mst_k_dec_scores(const mst_k_dec_warp<HD, HI> *w, uint32_t base,
    uint32_t lane, float s[1 + HI][4])
{
    int       i, ks, n, r;
    float     odd[1 + HI][4];
    uint32_t  k[4], tok, x[4];

#pragma unroll
    for (r = 0; r <= HI; r++) {
#pragma unroll
        for (i = 0; i < 4; i++) {
            s[r][i] = odd[r][i] = 0;
        }
    }

    tok = (((lane >> 3) & 1) << 3) + (lane & 7);

#pragma unroll
    for (ks = 0; ks < HD / 16; ks++) {

        if (!FP8) {
            mst_k_ldsm(x, base + (ks >> 2) * STEP + tok * 128
                          + ((((ks & 3) * 2 + (lane >> 4)) ^ (tok & 7)) << 4));

        } else {
            n = ks & 1;

            if (n == 0) {
                mst_k_ldsm(k, base + mst_k_kv_at(tok, (ks + (lane >> 4)) * 16,
                                                 HD, MST_K_KV_FP8));
            }

            x[0] = mst_k_e4m3_f16(k[n * 2] & 0xffff);
            x[1] = mst_k_e4m3_f16(k[n * 2 + 1] & 0xffff);
            x[2] = mst_k_e4m3_f16(k[n * 2] >> 16);
            x[3] = mst_k_e4m3_f16(k[n * 2 + 1] >> 16);
        }

#pragma unroll
        for (r = 0; r <= HI; r++) {
            mst_k_mma<FP8>(ks & 1 ? odd[r] : s[r], x, w->q[ks][r],
                           w->q[ks][1 + HI + r]);
        }
    }

#pragma unroll
    for (r = 0; r <= HI; r++) {
#pragma unroll
        for (i = 0; i < 4; i++) {
            s[r][i] += odd[r][i];
        }
    }
}


/* s becomes exp2(s - max); the running maximum, sum and output follow.
   Tokens lo .. hi - 1 of the 16 count. */

template <int HD, int HI>
MST_K_DEV void
mst_k_dec_softmax(mst_k_dec_warp<HD, HI> *w, uint32_t lane, int lo, int hi,
    float s[1 + HI][4])
{
    int    e, i, r;
    bool   first, second;
    float  alpha, max;

    i = (int) lane >> 2;
    first = i >= lo && i < hi;
    second = i + 8 >= lo && i + 8 < hi;

#pragma unroll
    for (r = 0; r <= HI; r++) {
#pragma unroll
        for (e = 0; e < 2; e++) {
            s[r][e] = first ? s[r][e] : -INFINITY;
            s[r][2 + e] = second ? s[r][2 + e] : -INFINITY;
            max = fmaxf(w->m[r][e], fmaxf(s[r][e], s[r][2 + e]));
            max = fmaxf(max, __shfl_xor_sync(~0u, max, 4));
            max = fmaxf(max, __shfl_xor_sync(~0u, max, 8));
            max = fmaxf(max, __shfl_xor_sync(~0u, max, 16));
            alpha = mst_k_exp2(w->m[r][e] - max);
            w->m[r][e] = max;
            s[r][e] = mst_k_exp2(s[r][e] - max);
            s[r][2 + e] = mst_k_exp2(s[r][2 + e] - max);
            w->l[r][e] = w->l[r][e] * alpha + s[r][e] + s[r][2 + e];

#pragma unroll
            for (i = 0; i < HD / 16; i++) {
                w->o[r][i][e] *= alpha;
                w->o[r][i][2 + e] *= alpha;
            }
        }
    }
}


/* rows and columns of an 8 x 8 matrix, two elements a lane */

MST_K_DEV uint32_t
mst_k_transpose(uint32_t v)
{
    uint32_t  t;

    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                 : "=r"(t) : "r"(v));

    return t;
}


/* o += v p; p[r][] is the B operand: tokens are its k */

template <int HD, int FP8, int HI, int STEP>
MST_K_DEV void
mst_k_dec_values(mst_k_dec_warp<HD, HI> *w, uint32_t base, uint32_t lane,
    uint32_t p[1 + HI][2])
{
    int       i, n, r;
    uint32_t  tok, u, v[4], x[4];

#pragma unroll
    for (i = 0; i < HD / 16; i++) {

        if (!FP8) {
            tok = ((lane >> 4) << 3) + (lane & 7);
            u = (i & 3) * 2 + ((lane >> 3) & 1);
            mst_k_ldsm_t(x, base + (i >> 2) * STEP + tok * 128
                            + ((u ^ (tok & 7)) << 4));

        } else {
            n = i & 1;

            if (n == 0) {
                tok = (((lane >> 3) & 1) << 3) + (lane & 7);
                mst_k_ldsm_t(v, base + mst_k_kv_at(tok, (i + (lane >> 4)) * 16,
                                                   HD, MST_K_KV_FP8));
            }

            /* a register holds dims 2g, 2g + 1 of two tokens: row g of the
               product is the even dim, row g + 8 the odd one */

            u = __byte_perm(v[n * 2], 0, 0x3120);
            x[0] = mst_k_e4m3_f16(u & 0xffff);
            x[1] = mst_k_e4m3_f16(u >> 16);
            u = __byte_perm(v[n * 2 + 1], 0, 0x3120);
            x[2] = mst_k_e4m3_f16(u & 0xffff);
            x[3] = mst_k_e4m3_f16(u >> 16);
        }

#pragma unroll
        for (r = 0; r <= HI; r++) {
            mst_k_mma<FP8>(w->o[r][i], x, p[r][0], p[r][1]);
        }
    }
}


/* the new token's k or v, this lane's dims */

template <int HD>
MST_K_DEV void
mst_k_dec_fetch(const mst_k_attn_t *a, const mst_k_attn_piece_t *p,
    uint32_t lane, int value, mst_k_dec_new_raw<HD> *n)
{
    int              i;
    uint32_t         dim;
    const uint16_t  *src;

    src = a->qkv + ((size_t) p->row * (a->shape.n_heads
                                       + 2 * a->shape.n_kv_heads)
                    + a->shape.n_heads + value * a->shape.n_kv_heads
                    + p->head) * HD;

#pragma unroll
    for (i = 0; i < HD / 64; i++) {
        dim = lane * (HD / 32) + i * 2;
        n->x[i] = mst_k_ld(src + dim);
        n->turn[i] = value ? make_float2(1.f, 0.f)
                           : mst_k_turn_of(a, p->row, dim / 2);
    }
}


template <int HD>
MST_K_DEV void
mst_k_dec_turn(const mst_k_dec_new_raw<HD> *raw, mst_k_dec_new<HD> *n)
{
    int     i;
    float2  y;

#pragma unroll
    for (i = 0; i < HD / 64; i++) {
        y = mst_k_turn(raw->x[i], raw->turn[i], 1.f);
        n->x[i * 2] = y.x;
        n->x[i * 2 + 1] = y.y;
    }
}


/* its code and, fp8, its scale; returns the scale */

template <int HD, int FP8>
MST_K_DEV float
mst_k_dec_encode(const mst_k_dec_new<HD> *n, uint32_t *code)
{
    int    i;
    float  inv, max;

    if (!FP8) {
#pragma unroll
        for (i = 0; i < HD / 64; i++) {
            code[i] = mst_k_pack<0>(n->x[i * 2], n->x[i * 2 + 1]);
        }

        return 0;
    }

    max = 0;

#pragma unroll
    for (i = 0; i < HD / 32; i++) {
        max = fmaxf(max, fabsf(n->x[i]));
    }

#pragma unroll
    for (i = 16; i; i >>= 1) {
        max = fmaxf(max, __shfl_xor_sync(~0u, max, i));
    }

    inv = max > 0 ? MST_K_FP8_MAX / max : 0;
    code[0] = 0;

#pragma unroll
    for (i = 0; i < HD / 32; i += 2) {
        code[0] |= mst_k_e4m3x2(n->x[i] * inv, n->x[i + 1] * inv) << (i * 8);
    }

    return max / MST_K_FP8_MAX;
}


/* this lane's part of a token's row, in shared memory or in the page */

template <int HD, int FP8>
MST_K_DEV void
mst_k_dec_put(void *at, const uint32_t *code)
{
    if (FP8 && HD == 64) {
        *(uint16_t *) at = (uint16_t) code[0];

    } else if (FP8 || HD == 64) {
        *(uint32_t *) at = code[0];

    } else {
        *(uint2 *) at = make_uint2(code[0], code[1]);
    }
}


/*
 * The new token's row in the copy of the page that this warp reads, and in
 * the page; rows after it are cleared, as they may hold anything, and 0 *
 * NaN is none.
 */

template <int HD, int FP8>
MST_K_DEV void
mst_k_dec_patch(uint8_t *base, float *scales, uint8_t *page, uint32_t tok,
    uint32_t lane, const mst_k_dec_new_raw<HD> *raw)
{
    float              scale;
    uint32_t           at, code[2], i, some[2], to;
    mst_k_dec_new<HD>  n;
    const mst_k_kv_t   kv = FP8 ? MST_K_KV_FP8 : MST_K_KV_BF16;

    mst_k_dec_turn<HD>(raw, &n);
    code[1] = 0;
    scale = mst_k_dec_encode<HD, FP8>(&n, code);
    i = tok & 15;

    for (at = i; at < 16; at++) {
        to = mst_k_kv_at(at, lane * (HD / 32), HD, kv);

        if (!FP8 && to >= MST_K_BLOCK * 128) {
            to -= MST_K_BLOCK * 128 - mst_k_dec_geo<HD, FP8>::STEP;
        }

        some[0] = at == i ? code[0] : 0;
        some[1] = at == i ? code[1] : 0;
        mst_k_dec_put<HD, FP8>(base + to, some);
    }

    mst_k_dec_put<HD, FP8>(page + mst_k_kv_at(tok, lane * (HD / 32), HD, kv),
                           code);

    if (FP8 && lane == 0) {
        scales[i] = scale;
        *(float *) (page + mst_k_kv_scale_at(tok, HD)) = scale;
    }

    mst_k_fence_async();
    __syncwarp();
}


#endif /* MST_K_ATTN_WARP_CUH */
