
/*
 * What the decode GEMMs do with their sums, for both kinds of tensor core
 * instructions.  A thread brings v[4] of one unit of rows and 8 tokens: rows
 * g and g + 8 of the unit in tile order (g = lane / 4), tokens n and n + 1
 * (n = 8 i + 2 (lane % 4)), as (g, n), (g, n + 1), (g + 8, n),
 * (g + 8, n + 1).  All lanes of a warp bring the same unit.
 *
 * E such groups of 8 tokens, one after the other, are put at once: first all
 * is computed, then all is stored, with no branch between, or a group waits
 * for the one before it (11.4 us for the 32 of gate-up at 128 tokens; by runs
 * of 4, 7.5).
 */

#ifndef MST_K_GEMM_PUT_H
#define MST_K_GEMM_PUT_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "kernels/mst_k_gemm.h"
#include "kernels/mst_k_gemm_ptx.h"


/* of a unit: scales of rows g and g + 8, gains of the outputs 2g, 2g + 1;
   weights, so loaded before the predecessor ends */
typedef struct {
    float  scale[2];
    float  gain[2];
} mst_k_unit_t;


MST_K_DEV uint32_t
mst_k_bf16x2(float a, float b)
{
    __nv_bfloat162  v;

    v = __floats2bfloat162_rn(a, b);

    return *(uint32_t *) &v;
}


MST_K_DEV uint32_t
mst_k_e4m3x2(float a, float b)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE,
                                    __NV_E4M3);
}


/* not contracted with what follows: all kernels give the same bits */
MST_K_DEV float
mst_k_mul3(float a, float b, float c)
{
    return __fmul_rn(__fmul_rn(a, b), c);
}


/* written by a predecessor: past the L1 */
MST_K_DEV float
mst_k_load(const float *p)
{
    return __ldcg(p);
}


MST_K_DEV mst_k_unit_t
mst_k_unit_load(const mst_k_gemm_t &a, uint32_t unit)
{
    uint32_t      g;
    mst_k_unit_t  u;

    g = (threadIdx.x & 31) >> 2;
    u.scale[0] = u.scale[1] = 1;
    u.gain[0] = u.gain[1] = 1;

    if (a.w_scale != NULL) {
        u.scale[0] = __ldg(a.w_scale + unit * 16 + g);
        u.scale[1] = __ldg(a.w_scale + unit * 16 + 8 + g);
    }

    if (a.op == MST_K_GEMM_RESIDUAL) {
        u.gain[0] = __ldg(a.gain + unit * 16 + 2 * g);
        u.gain[1] = __ldg(a.gain + unit * 16 + 2 * g + 1);
    }

    return u;
}


/* bf16 [n][pitch] */
template<int E>
MST_K_DEV void
mst_k_put_qkv(const mst_k_gemm_t &a, uint32_t unit, uint32_t n,
    const float *v, const mst_k_unit_t &u, const float *rs)
{
    float      b0, b1;
    size_t     pitch;
    uint32_t   row, c, e, t[E][2];
    uint16_t  *y;

    row = unit * 16 + ((threadIdx.x & 31) >> 2) * 2;
    pitch = a.pitch ? a.pitch : a.rows;

    if (row >= a.rows) {
        return;
    }

    b0 = a.bias != NULL ? __ldg(a.bias + row) : 0;
    b1 = a.bias != NULL ? __ldg(a.bias + row + 1) : 0;

#pragma unroll
    for (e = 0; e < E; e++, v += 4) {
#pragma unroll
        for (c = 0; c < 2; c++) {
            t[e][c] = mst_k_bf16x2(
                __fadd_rn(mst_k_mul3(v[c], rs[8 * e + c], u.scale[0]), b0),
                __fadd_rn(mst_k_mul3(v[2 + c], rs[8 * e + c], u.scale[1]),
                          b1));
        }
    }

    y = (uint16_t *) a.y + n * pitch + row;

#pragma unroll
    for (e = 0; e < E; e++, y += 8 * pitch) {
        if (n + 8 * e < a.n) {
            *(uint32_t *) y = t[e][0];
        }

        if (n + 8 * e + 1 < a.n) {
            *(uint32_t *) (y + pitch) = t[e][1];
        }
    }
}


/* float [n][pitch]; the last row may be odd */
template<int E>
MST_K_DEV void
mst_k_put_head(const mst_k_gemm_t &a, uint32_t unit, uint32_t n,
    const float *v, const mst_k_unit_t &u, const float *rs)
{
    int       pair;
    float    *y;
    float2    f[E][2];
    uint32_t  row, c, e;

    row = unit * 16 + ((threadIdx.x & 31) >> 2) * 2;

    if (row >= a.rows) {
        return;
    }

#pragma unroll
    for (e = 0; e < E; e++, v += 4) {
#pragma unroll
        for (c = 0; c < 2; c++) {
            f[e][c].x = mst_k_mul3(v[c], rs[8 * e + c], u.scale[0]);
            f[e][c].y = mst_k_mul3(v[2 + c], rs[8 * e + c], u.scale[1]);
        }
    }

    pair = row + 1 < a.rows && !(a.pitch & 1);
    y = (float *) a.y + (size_t) n * a.pitch + row;

#pragma unroll
    for (e = 0; e < E; e++, y += 6 * a.pitch) {
#pragma unroll
        for (c = 0; c < 2; c++, y += a.pitch) {
            if (n + 8 * e + c >= a.n) {
                continue;
            }

            if (pair) {
                *(float2 *) y = f[e][c];

            } else {
                y[0] = f[e][c].x;
                if (row + 1 < a.rows) {
                    y[1] = f[e][c].y;
                }
            }
        }
    }
}


MST_K_DEV float
mst_k_silu(float x)
{
    return __fdividef(x, 1 + __expf(-x));
}


/* rows g: gates, rows g + 8: their ups; a unit gives 8 columns of y, which
   the transposition brings together: 4 lanes have a token's 8 */
template<int E>
MST_K_DEV void
mst_k_put_gate(const mst_k_gemm_t &a, uint32_t unit, uint32_t n,
    const float *v, const mst_k_unit_t &u, const float *rs)
{
    char      *y;
    float      f[E][2], b0, b1;
    __half2    h;
    uint32_t   l, row, c, e, t[E], token;

    l = threadIdx.x & 31;
    row = unit * 8 + (l >> 2);
    b0 = a.bias != NULL ? __ldg(a.bias + row) : 0;
    b1 = a.bias_up != NULL ? __ldg(a.bias_up + row) : 0;

#pragma unroll
    for (e = 0; e < E; e++, v += 4) {
#pragma unroll
        for (c = 0; c < 2; c++) {
            f[e][c] = __fmul_rn(
                mst_k_silu(__fadd_rn(mst_k_mul3(v[c], rs[8 * e + c],
                                                u.scale[0]), b0)),
                __fadd_rn(mst_k_mul3(v[2 + c], rs[8 * e + c], u.scale[1]),
                          b1));
        }
    }

#pragma unroll
    for (e = 0; e < E; e++) {
        if (a.y_e4m3) {
            h = __floats2half2_rn(f[e][0] * a.y_mul, f[e][1] * a.y_mul);
            t[e] = *(uint32_t *) &h;

        } else {
            t[e] = mst_k_bf16x2(f[e][0], f[e][1]);
        }

        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;"
                     : "+r"(t[e]));
    }

    token = (n & ~7u) + (l >> 2);
    row = unit * 8 + (l & 3) * 2;
    y = (char *) a.y + mst_k_gemm_x_at(token, row, mst_k_gemm_pad(a.n),
                                       a.y_e4m3 ? 1 : 2);

    /* 8 tokens on are 8 lines on */

#pragma unroll
    for (e = 0; e < E; e++) {
        if (token + 8 * e >= a.n) {
            continue;
        }

        if (a.y_e4m3) {
            *(uint16_t *) (y + 1024 * e) = (uint16_t)
                __nv_cvt_halfraw2_to_fp8x2(*(__half2_raw *) &t[e],
                                           __NV_SATFINITE, __NV_E4M3);

        } else {
            *(uint32_t *) (y + 1024 * e) = t[e];
        }
    }
}


/* h before the addition, of tokens n and n + 1 */
MST_K_DEV void
mst_k_load_h(const mst_k_gemm_t &a, uint32_t unit, uint32_t n, float2 *h)
{
    uint32_t  row, c;

    row = unit * 16 + ((threadIdx.x & 31) >> 2) * 2;

    for (c = 0; c < 2; c++) {
        h[c] = n + c < a.n ? __ldcg((const float2 *) (a.h + (size_t) (n + c)
                                                      * a.rows + row))
                           : make_float2(0, 0);
    }
}


/* rows a and b of the next operation's x */
MST_K_DEV void
mst_k_put_x(void *y, int e4m3, size_t at, float a, float b)
{
    if (e4m3) {
        *(uint16_t *) ((char *) y + at) = (uint16_t) mst_k_e4m3x2(a, b);

    } else {
        *(uint32_t *) ((char *) y + at) = mst_k_bf16x2(a, b);
    }
}


/* a unit's sums of squares, of two tokens of each of E groups */
template<int E>
struct mst_k_squares {
    float2  of[E];
};


/* over the lanes that have the same tokens, side by side */
template<int E>
MST_K_DEV void
mst_k_put_squares(float2 *s)
{
    uint32_t  d, e;

#pragma unroll
    for (d = 4; d < 32; d *= 2) {
#pragma unroll
        for (e = 0; e < E; e++) {
            s[e].x += __shfl_xor_sync(~0u, s[e].x, d);
            s[e].y += __shfl_xor_sync(~0u, s[e].y, d);
        }
    }
}


/* h += v; x of the next norm; squares: the same in all lanes that share their
   tokens */
template<int E, typename F>
MST_K_DEV mst_k_squares<E>
mst_k_put_residual(const mst_k_gemm_t &a, uint32_t unit, uint32_t n,
    const float *v, const mst_k_unit_t &u, const F &f, const float2 (*h)[2])
{
    float             b0, b1, q, rs;
    float2            o[E][2], *to;
    size_t            at;
    uint32_t          row, c, e;
    mst_k_squares<E>  s;

    row = unit * 16 + ((threadIdx.x & 31) >> 2) * 2;
    b0 = a.bias != NULL ? __ldg(a.bias + row) : 0;
    b1 = a.bias != NULL ? __ldg(a.bias + row + 1) : 0;

#pragma unroll
    for (e = 0; e < E; e++, v += 4) {
#pragma unroll
        for (c = 0; c < 2; c++) {
            rs = f.rs[n + 8 * e + c];
            o[e][c].x = __fadd_rn(__fadd_rn(mst_k_mul3(v[c], rs, u.scale[0]),
                                            b0), h[e][c].x);
            o[e][c].y = __fadd_rn(__fadd_rn(mst_k_mul3(v[2 + c], rs,
                                                       u.scale[1]),
                                            b1), h[e][c].y);

            if (n + 8 * e + c >= a.n) {
                o[e][c] = make_float2(0, 0);
            }

            (&s.of[e].x)[c] = fmaf(o[e][c].x, o[e][c].x,
                                   __fmul_rn(o[e][c].y, o[e][c].y));
        }
    }

    to = (float2 *) (a.h + (size_t) n * a.rows + row);
    at = mst_k_gemm_x_at(n, row, mst_k_gemm_pad(a.n), a.y_e4m3 ? 1 : 2);

    /* token n + 1 for an even n: the line after, the other 16 bytes of two;
       8 tokens on are 8 lines on */

#pragma unroll
    for (e = 0; e < E; e++) {
#pragma unroll
        for (c = 0; c < 2; c++) {
            if (n + 8 * e + c >= a.n) {
                continue;
            }

            q = a.y_e4m3 ? f.qs[n + 8 * e + c] : 1;
            to[(size_t) (8 * e + c) * (a.rows / 2)] = o[e][c];
            mst_k_put_x(a.y, a.y_e4m3, (c ? (at ^ 16) + 128 : at) + 1024 * e,
                        mst_k_mul3(o[e][c].x, u.gain[0], q),
                        mst_k_mul3(o[e][c].y, u.gain[1], q));
        }
    }

    mst_k_put_squares<E>(s.of);

    return s;
}


/* what pads the width of x (y of this operation) to whole slots is zero; by
   thread t of n of one CTA */
MST_K_DEV void
mst_k_put_pad(void *y, int e4m3, uint32_t width, uint32_t n_pad, uint32_t t,
    uint32_t n)
{
    uint32_t  size, pad;

    size = e4m3 ? 1 : 2;
    pad = mst_k_gemm_slots(width, size) * MST_K_GEMM_SLOT / size - width;

    for ( /* void */ ; t < pad * n_pad / 2; t += n) {
        mst_k_put_x(y, e4m3,
                    mst_k_gemm_x_at(t % n_pad, width + t / n_pad * 2, n_pad,
                                    size), 0, 0);
    }
}


MST_K_DEV void
mst_k_put_zeros(const mst_k_gemm_t &a, uint32_t t, uint32_t n)
{
    if (a.op == MST_K_GEMM_RESIDUAL) {
        mst_k_put_pad(a.y, a.y_e4m3, a.rows, mst_k_gemm_pad(a.n), t, n);

    } else if (a.op == MST_K_GEMM_GATE_UP) {
        mst_k_put_pad(a.y, a.y_e4m3, a.rows / 2, mst_k_gemm_pad(a.n), t, n);
    }
}


MST_K_DEV void
mst_k_add4(float4 *s, float4 v)
{
    s->x += v.x;
    s->y += v.y;
    s->z += v.z;
    s->w += v.w;
}


/* Partial sums of units of 4 tokens from n on, added up: 16 groups of slabs,
   one a lane, then the groups; AHEAD loads at once.  Lanes l and l + 16 have
   different tokens. */
template<int AHEAD>
MST_K_DEV float4
mst_k_sum_units(const float *sums, uint32_t width, uint32_t n_pad, uint32_t n)
{
    float4         s, t, v[AHEAD];
    uint32_t       units, slab, i, k, d;
    mst_k_share_t  share;

    units = mst_k_gemm_units(width);
    s = make_float4(0, 0, 0, 0);

    for (slab = threadIdx.x & 15; slab < MST_K_GEMM_SLABS; slab += 16) {
        share = mst_k_share(units, MST_K_GEMM_SLABS, slab);
        t = make_float4(0, 0, 0, 0);

        for (i = 0; i < share.n; i += AHEAD) {
#pragma unroll
            for (k = 0; k < AHEAD; k++) {
                v[k] = make_float4(0, 0, 0, 0);

                if (i + k < share.n) {
                    v[k] = __ldcg((const float4 *) (sums
                                  + (size_t) (share.first + i + k) * n_pad
                                  + n));
                }
            }

#pragma unroll
            for (k = 0; k < AHEAD; k++) {
                mst_k_add4(&t, v[k]);
            }
        }

        mst_k_add4(&s, t);
    }

#pragma unroll
    for (d = 1; d < 16; d *= 2) {
        s.x += __shfl_xor_sync(~0u, s.x, d);
        s.y += __shfl_xor_sync(~0u, s.y, d);
        s.z += __shfl_xor_sync(~0u, s.z, d);
        s.w += __shfl_xor_sync(~0u, s.w, d);
    }

    return s;
}


/* the same sum from those of slabs, in the same order; lane l < 16 has groups
   0 to 7, lane l + 16 the others, 4 at a time */
MST_K_DEV float4
mst_k_sum_slabs(const float *sums, uint32_t width, uint32_t n_pad, uint32_t n)
{
    float4    v[8], s;
    uint32_t  i, k, slab, slabs;

    slabs = n < n_pad ? mst_k_gemm_units(width) : 0;
    s = make_float4(0, 0, 0, 0);

    /* not unrolled: registers */
#pragma unroll 1
    for (i = 0; i < 2; i++) {
#pragma unroll
        for (k = 0; k < 8; k++) {
            slab = (threadIdx.x & 16) / 2 + 4 * i + k % 4 + k / 4 * 16;
            v[k] = make_float4(0, 0, 0, 0);

            if (slab < slabs) {
                v[k] = __ldcg((const float4 *) (sums + slab * n_pad + n));
            }
        }

#pragma unroll
        for (k = 0; k < 4; k++) {
            mst_k_add4(&v[k], v[k + 4]);
        }

        if (i == 0 && (threadIdx.x & 16) == 0 && slabs > 32) {
            mst_k_add4(&v[0], __ldcg((const float4 *) (sums + 32 * n_pad
                                                       + n)));
        }

        mst_k_add4(&v[0], v[1]);
        mst_k_add4(&v[2], v[3]);
        mst_k_add4(&v[0], v[2]);

        /* 0 + v is v */
        mst_k_add4(&s, v[0]);
    }

    s.x += __shfl_xor_sync(~0u, s.x, 16);
    s.y += __shfl_xor_sync(~0u, s.y, 16);
    s.z += __shfl_xor_sync(~0u, s.z, 16);
    s.w += __shfl_xor_sync(~0u, s.w, 16);

    return s;
}


MST_K_DEV float
mst_k_per_rms(float sum, uint32_t width, float eps)
{
    return rsqrtf(__fadd_rn(sum / width, eps));
}


/* of a token whose residual's squares have this sum */
MST_K_DEV void
mst_k_token_scale(const mst_k_gemm_t &a, uint32_t n, float sum, int normed,
    float *rs, float *qs)
{
    float  r, mul;

    mul = 1;

    if (a.w_scale != NULL) {
        mul = a.x_muls != NULL && n < a.n ? mst_k_load(a.x_muls + n)
                                          : a.x_mul;
    }

    r = normed ? mst_k_per_rms(sum, a.op == MST_K_GEMM_RESIDUAL ? a.rows
                                                                : a.width,
                               a.eps) : 1;
    rs[n] = a.op == MST_K_GEMM_RESIDUAL ? 1 / mul : r / mul;
    qs[n] = MST_K_GEMM_MUL * r;

    if (a.op == MST_K_GEMM_RESIDUAL && a.y_e4m3 && blockIdx.x == 0 && n < a.n)
    {
        a.y_muls[n] = qs[n];
    }
}


/*
 * By a warp, of n_warps: what results of each token are multiplied with
 * (rs), and what x of the next operation is (qs).  UNITS: loads at once, 0:
 * x_sums are slabs'.
 */
template<int UNITS>
MST_K_DEV void
mst_k_token_scales(const mst_k_gemm_t &a, uint32_t warp, uint32_t n_warps,
    float *rs, float *qs)
{
    int       normed;
    float4    s;
    uint32_t  l, n, pad, dim;

    l = threadIdx.x & 31;
    pad = mst_k_gemm_pad(a.n);
    dim = a.op == MST_K_GEMM_RESIDUAL ? a.rows : a.width;
    normed = a.x_sums != NULL && (a.op != MST_K_GEMM_RESIDUAL || a.y_e4m3);
    s = make_float4(1, 1, 1, 1);

    for (n = warp * (UNITS ? 8 : 64); n < pad; n += n_warps * (UNITS ? 8 : 64))
    {
        if (normed && UNITS) {
            s = mst_k_sum_units<UNITS ? UNITS : 8>(a.x_sums, dim, pad,
                                                   n + l / 16 * 4);

        } else if (normed) {
            s = mst_k_sum_slabs(a.x_sums, dim, pad, n + l % 16 * 4);
        }

        if (UNITS ? (l & 15) == 0 : l < 16 && n + l * 4 < pad) {
            uint32_t  to = n + (UNITS ? l / 4 : l * 4);

            mst_k_token_scale(a, to, s.x, normed, rs, qs);
            mst_k_token_scale(a, to + 1, s.y, normed, rs, qs);
            mst_k_token_scale(a, to + 2, s.z, normed, rs, qs);
            mst_k_token_scale(a, to + 3, s.w, normed, rs, qs);
        }
    }
}


#endif /* MST_K_GEMM_PUT_H */
