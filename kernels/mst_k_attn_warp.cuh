
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


/* state of a warp within an item */
template <int HD, int HI>
struct mst_k_dec_warp {
    uint32_t  q[HD / 16][2 + 2 * HI];
    float     o[HD / 8][4];
    float     m[1 + HI];
    float     l[1 + HI];
};


/* the new token's k or v: this lane's HD / 32 dims */
template <int HD>
struct mst_k_dec_new {
    float  x[HD / 32];
};


/* q of the heads of a group as the A operand, turned and scaled */

template <int HD, int FP8, int HI>
MST_K_DEV void
mst_k_dec_query(const mst_k_attn_t *a, const mst_k_attn_piece_t *p,
    uint32_t lane, mst_k_dec_warp<HD, HI> *w)
{
    float            scale;
    float2           y;
    uint32_t         dim, g, group, i, head, ks, r;
    const uint16_t  *q;

    group = a->shape.n_heads / a->shape.n_kv_heads;
    scale = __ldg(a->step.q_scale + p->row) * MST_K_LOG2E;

    for (r = 0; r <= HI; r++) {
        g = (lane >> 2) + r * 8;
        head = p->head * group + (g < group ? g : 0);
        q = a->qkv + (size_t) p->row * (a->shape.n_heads
                                        + 2 * a->shape.n_kv_heads) * HD
            + head * HD;

#pragma unroll
        for (ks = 0; ks < HD / 16; ks++) {
#pragma unroll
            for (i = 0; i < 2; i++) {
                dim = FP8 ? ks * 16 + (lane & 3) * 4 + i * 2
                          : ks * 16 + i * 8 + (lane & 3) * 2;
                y = mst_k_turn(g < group ? mst_k_ld(q + dim) : 0,
                               mst_k_turn_of(a, p->row, dim / 2), scale);
                w->q[ks][i * (1 + HI) + r] = mst_k_pack<FP8>(y.x, y.y);
            }
        }
    }
}


/* the A operand's four registers: rows 8..15 are zero unless HI */

template <int HD, int HI>
MST_K_DEV void
mst_k_dec_a(const mst_k_dec_warp<HD, HI> *w, int ks, uint32_t *a)
{
    a[0] = w->q[ks][0];
    a[1] = HI ? w->q[ks][1] : 0;
    a[2] = w->q[ks][1 + HI];
    a[3] = HI ? w->q[ks][2 + HI] : 0;
}


/* s[2][4] = q k of 16 tokens that lie from base on, STEP bytes from one 64
   dims to the next */

template <int HD, int FP8, int HI, int STEP>
MST_K_DEV void
mst_k_dec_scores(const mst_k_dec_warp<HD, HI> *w, uint32_t base,
    uint32_t lane, float s[2][4])
{
    int       i, ks;
    float     odd[2][4];
    uint32_t  a[4], r[4], tok;

#pragma unroll
    for (i = 0; i < 4; i++) {
        s[0][i] = s[1][i] = odd[0][i] = odd[1][i] = 0;
    }

    if (!FP8) {
        tok = ((lane >> 4) << 3) + (lane & 7);

#pragma unroll
        for (ks = 0; ks < HD / 16; ks++) {
            mst_k_ldsm(r, base + (ks >> 2) * STEP
                          + tok * 128
                          + ((((ks & 3) * 2 + ((lane >> 3) & 1))
                              ^ (tok & 7)) << 4));
            mst_k_dec_a<HD, HI>(w, ks, a);
            mst_k_mma<0>(ks & 1 ? odd[0] : s[0], a, r[0], r[1]);
            mst_k_mma<0>(ks & 1 ? odd[1] : s[1], a, r[2], r[3]);
        }

    } else {
        tok = (((lane >> 3) & 1) << 3) + (lane & 7);

#pragma unroll
        for (ks = 0; ks < HD / 16; ks += 2) {
            mst_k_ldsm(r, base + mst_k_kv_at(tok, (ks + (lane >> 4)) * 16, HD,
                                             MST_K_KV_FP8));

#pragma unroll
            for (i = 0; i < 2; i++) {
                mst_k_dec_a<HD, HI>(w, ks + i, a);
                mst_k_mma<1>(i ? odd[0] : s[0], a,
                             mst_k_e4m3_f16(r[i * 2] & 0xffff),
                             mst_k_e4m3_f16(r[i * 2] >> 16));
                mst_k_mma<1>(i ? odd[1] : s[1], a,
                             mst_k_e4m3_f16(r[i * 2 + 1] & 0xffff),
                             mst_k_e4m3_f16(r[i * 2 + 1] >> 16));
            }
        }
    }

#pragma unroll
    for (i = 0; i < 4; i++) {
        s[0][i] += odd[0][i];
        s[1][i] += odd[1][i];
    }
}


/* s becomes exp2(s - max); the running maximum, sum and output follow.
   Tokens lo .. hi - 1 of the 16 count. */

template <int HD, int HI>
MST_K_DEV void
mst_k_dec_softmax(mst_k_dec_warp<HD, HI> *w, uint32_t lane, int lo, int hi,
    float s[2][4])
{
    int    e, i, r, tok;
    float  alpha, max;

#pragma unroll
    for (r = 0; r <= HI; r++) {
        max = w->m[r];

#pragma unroll
        for (i = 0; i < 2; i++) {
#pragma unroll
            for (e = 0; e < 2; e++) {
                tok = i * 8 + (lane & 3) * 2 + e;

                if (tok < lo || tok >= hi) {
                    s[i][r * 2 + e] = -INFINITY;
                }

                max = fmaxf(max, s[i][r * 2 + e]);
            }
        }

        max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
        max = fmaxf(max, __shfl_xor_sync(~0u, max, 2));
        alpha = mst_k_exp2(w->m[r] - max);
        w->m[r] = max;
        w->l[r] *= alpha;

#pragma unroll
        for (i = 0; i < 2; i++) {
#pragma unroll
            for (e = 0; e < 2; e++) {
                s[i][r * 2 + e] = mst_k_exp2(s[i][r * 2 + e] - max);
                w->l[r] += s[i][r * 2 + e];
            }
        }

#pragma unroll
        for (i = 0; i < HD / 8; i++) {
            w->o[i][r * 2] *= alpha;
            w->o[i][r * 2 + 1] *= alpha;
        }
    }
}


/* o += p v; p[] is the A operand: tokens are its k */

template <int HD, int FP8, int HI, int STEP>
MST_K_DEV void
mst_k_dec_values(mst_k_dec_warp<HD, HI> *w, uint32_t base, uint32_t lane,
    const uint32_t *p)
{
    int       i, j;
    uint32_t  r[4], tok, u, v;

    tok = (((lane >> 3) & 1) << 3) + (lane & 7);

#pragma unroll
    for (i = 0; i < HD / 16; i++) {

        if (!FP8) {
            u = (i & 3) * 2 + (lane >> 4);
            mst_k_ldsm_t(r, base + (i >> 2) * STEP
                            + tok * 128 + ((u ^ (tok & 7)) << 4));
            mst_k_mma<0>(w->o[i * 2], p, r[0], r[1]);
            mst_k_mma<0>(w->o[i * 2 + 1], p, r[2], r[3]);
            continue;
        }

        if (i & 1) {
            continue;
        }

        mst_k_ldsm_t(r, base + mst_k_kv_at(tok, (i + (lane >> 4)) * 16, HD,
                                           MST_K_KV_FP8));

#pragma unroll
        for (j = 0; j < 2; j++) {

            /* a register holds dims 2g, 2g + 1 of two tokens: the even dims
               go to one tile, the odd ones to the next */

            u = __byte_perm(r[j * 2], 0, 0x3120);
            v = __byte_perm(r[j * 2 + 1], 0, 0x3120);
            mst_k_mma<1>(w->o[(i + j) * 2], p, mst_k_e4m3_f16(u & 0xffff),
                         mst_k_e4m3_f16(v & 0xffff));
            mst_k_mma<1>(w->o[(i + j) * 2 + 1], p, mst_k_e4m3_f16(u >> 16),
                         mst_k_e4m3_f16(v >> 16));
        }
    }
}


/* the new token's k (turned) or v, this lane's dims */

template <int HD>
MST_K_DEV void
mst_k_dec_fetch(const mst_k_attn_t *a, const mst_k_attn_piece_t *p,
    uint32_t lane, int value, mst_k_dec_new<HD> *n)
{
    int              i;
    float2           y;
    uint32_t         dim;
    const uint16_t  *src;

    src = a->qkv + ((size_t) p->row * (a->shape.n_heads
                                       + 2 * a->shape.n_kv_heads)
                    + a->shape.n_heads + value * a->shape.n_kv_heads
                    + p->head) * HD;

#pragma unroll
    for (i = 0; i < HD / 32; i += 2) {
        dim = lane * (HD / 32) + i;
        y = mst_k_turn(mst_k_ld(src + dim),
                       value ? make_float2(1.f, 0.f)
                             : mst_k_turn_of(a, p->row, dim / 2), 1.f);
        n->x[i] = y.x;
        n->x[i + 1] = y.y;
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
    uint32_t lane, const mst_k_dec_new<HD> *n)
{
    float             scale;
    uint32_t          at, code[2], i, some[2], to;
    const mst_k_kv_t  kv = FP8 ? MST_K_KV_FP8 : MST_K_KV_BF16;

    code[1] = 0;
    scale = mst_k_dec_encode<HD, FP8>(n, code);
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
