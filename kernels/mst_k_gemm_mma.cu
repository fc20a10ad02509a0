
/*
 * The decode GEMMs without wgmma: mma.sync (sm_80 and later) over the same
 * tiles, read straight from global memory.  A CTA has one unit of rows, its
 * four warps a quarter of the width each; sums meet in shared memory and are
 * added in the order of the quarters.
 *
 * A thread reads 16 bytes of width of rows g and g + 8 and of token g, and
 * hands the pairs in them to the instruction as if they were the columns it
 * asks for: the order of k is free as long as both sides have the same.
 * Tokens are taken 32 at a time.
 *
 * e4m3 becomes fp16 by moving bits, which is exact but for a factor of 2^8
 * (only sm_89 has an instruction for it, and its emulation is long).
 *
 * Weights are read once per 32 tokens.  Compared with float64 on an H200
 * (mst_k_gemm_test, 30 Nov 2026), where gate and up of 28,672 x 4,096 take
 * (t/cuda/mst_k_rest_bench; 1 / 8 / 32 / 128 tokens) 62.8 / 62.9 / 103.8 /
 * 359.0 us in bf16 and 40.2 / 40.2 / 71.6 / 257.9 in e4m3, the bytes alone 52
 * and 26.  It has not run on an sm_80, 86 or 89.
 */

#include "kernels/mst_k_gemm_put.h"
#include "kernels/mst_k_gemm_launch.h"


typedef struct {
    float  rs[MST_K_GEMM_MAX];
    float  qs[MST_K_GEMM_MAX];
} mst_k_factors_t;


template<int E4M3>
MST_K_DEV void
mst_k_mma(float *c, const uint32_t *a, const uint32_t *b)
{
    if (E4M3) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
                     " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                       "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
                     " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                       "r"(b[0]), "r"(b[1]));
    }
}


/* pair i of the 16 bytes as bf16, or as fp16 times 2^-8: 4 pairs, of e4m3 8 */
template<int E4M3>
MST_K_DEV uint32_t
mst_k_mma_pair(const uint4 &v, uint32_t i)
{
    uint32_t  w;

    if (!E4M3) {
        return (&v.x)[i];
    }

    /* bytes to the upper halves of two words, exponents one to the right */
    w = __byte_perm((&v.x)[i / 2], 0, i % 2 ? 0x3424 : 0x1404);

    return (w & 0x80008000) | (w & 0x7f007f00) >> 1;
}


/* a warp: slots of its quarter, 8 G tokens from group `from` on */
template<int G, int E4M3>
MST_K_DEV void
mst_k_mma_quarter(const mst_k_gemm_run_t &r, uint32_t from, float (*c)[4])
{
    uint4          w[2], v;
    uint32_t       l, i, j, k, t, pad, slot, a[4], b[2];
    const char    *p, *x;
    mst_k_share_t  s, slab;

    l = threadIdx.x & 31;
    pad = mst_k_gemm_pad(r.a.n);
    s = mst_k_share(r.slots, MST_K_GEMM_PARTS, threadIdx.x >> 5);
    slab = mst_k_share(r.units, MST_K_GEMM_SLABS,
                       mst_k_gemm_slab(blockIdx.x, r.units));

    for (slot = s.first; slot < s.first + s.n; slot++) {
        p = (const char *) r.a.w
            + mst_k_gemm_piece(slab, blockIdx.x, slot, r.slots)
              * MST_K_GEMM_PIECE
            + (l >> 2) * 128;
        x = (const char *) r.a.x + (size_t) slot * MST_K_GEMM_SLOT * pad
            + (from * 8 + (l >> 2)) * 128;

#pragma unroll
        for (i = 0; i < 4; i++) {            /* chunk i / 2, half i % 2 */
            j = (((i & 1) * 4 + (l & 3)) ^ (l >> 2)) * 16;
            w[0] = __ldg((const uint4 *) (p + i / 2 * 1024 + j));
            w[1] = __ldg((const uint4 *) (p + 2048 + i / 2 * 1024 + j));

#pragma unroll
            for (t = 0; t < G; t++) {
                v = __ldcg((const uint4 *) (x + (i / 2 * pad + t * 8) * 128
                                            + j));

#pragma unroll
                for (k = 0; k < (E4M3 ? 4 : 2); k++) {
                    a[0] = mst_k_mma_pair<E4M3>(w[0], 2 * k);
                    a[1] = mst_k_mma_pair<E4M3>(w[1], 2 * k);
                    a[2] = mst_k_mma_pair<E4M3>(w[0], 2 * k + 1);
                    a[3] = mst_k_mma_pair<E4M3>(w[1], 2 * k + 1);
                    b[0] = mst_k_mma_pair<E4M3>(v, 2 * k);
                    b[1] = mst_k_mma_pair<E4M3>(v, 2 * k + 1);
                    mst_k_mma<E4M3>(c[t], a, b);
                }
            }
        }
    }
}


MST_K_DEV void
mst_k_mma_put(const mst_k_gemm_t &a, uint32_t t, const float *v,
    const mst_k_unit_t &u, const mst_k_factors_t &f)
{
    float2    ss, h[2];
    uint32_t  n;

    n = t * 8 + (threadIdx.x & 3) * 2;

    if (a.op == MST_K_GEMM_QKV) {
        mst_k_put_qkv<1>(a, blockIdx.x, n, v, u, f.rs + n);

    } else if (a.op == MST_K_GEMM_HEAD) {
        mst_k_put_head<1>(a, blockIdx.x, n, v, u, f.rs + n);

    } else if (a.op == MST_K_GEMM_GATE_UP) {
        mst_k_put_gate<1>(a, blockIdx.x, n, v, u, f.rs + n);

    } else {
        mst_k_load_h(a, blockIdx.x, n, h);
        ss = mst_k_put_residual<1>(a, blockIdx.x, n, v, u, f, &h).of[0];

        if ((threadIdx.x & 31) < 4) {
            *(float2 *) (a.y_sums + (size_t) blockIdx.x * mst_k_gemm_pad(a.n)
                         + n) = ss;
        }
    }
}


/* the quarters' sums of a group of tokens, in order */
template<int E4M3>
MST_K_DEV void
mst_k_mma_add(const float4 *meet, uint32_t stride, float *v)
{
    float4    s;
    uint32_t  q;

    s = make_float4(0, 0, 0, 0);

    for (q = 0; q < MST_K_GEMM_PARTS; q++) {
        mst_k_add4(&s, meet[q * stride]);
    }

    *(float4 *) v = s;

    if (E4M3) {
        for (q = 0; q < 4; q++) {
            v[q] *= 65536;
        }
    }
}


template<int G, int E4M3>
static __global__ void
__launch_bounds__(128, 1)
mst_k_gemm_mma_kernel(const __grid_constant__ mst_k_gemm_run_t r)
{
    __shared__ float4           meet[4][G][32];
    __shared__ mst_k_factors_t  f;

    float         c[G][4];
    uint32_t      t, from, w, l;
    mst_k_unit_t  u;

    w = threadIdx.x >> 5;
    l = threadIdx.x & 31;

    mst_k_ptx_launch_next();
    u = mst_k_unit_load(r.a, blockIdx.x);
    mst_k_ptx_wait_previous();

    mst_k_token_scales<8>(r.a, w, 4, f.rs, f.qs);

    for (from = 0; from < mst_k_gemm_pad(r.a.n) / 8; from += G) {
#pragma unroll
        for (t = 0; t < G; t++) {
            c[t][0] = c[t][1] = c[t][2] = c[t][3] = 0;
        }

        mst_k_mma_quarter<G, E4M3>(r, from, c);

#pragma unroll
        for (t = 0; t < G; t++) {
            meet[w][t][l] = make_float4(c[t][0], c[t][1], c[t][2], c[t][3]);
        }

        __syncthreads();

        if (w < G) {
            mst_k_mma_add<E4M3>(&meet[0][w][l], G * 32, c[0]);
            mst_k_mma_put(r.a, from + w, c[0], u, f);
        }

        __syncthreads();
    }

    if (blockIdx.x == 0) {
        mst_k_put_zeros(r.a, threadIdx.x, 128);
    }
}


template<int E4M3>
static mst_k_gemm_kernel_t
mst_k_gemm_mma_of(uint32_t pad)
{
    return pad == 8 ? mst_k_gemm_mma_kernel<1, E4M3>
           : pad == 16 ? mst_k_gemm_mma_kernel<2, E4M3>
           : mst_k_gemm_mma_kernel<4, E4M3>;
}


extern "C" int
mst_k_gemm_mma(const mst_k_gemm_run_t *r, cudaStream_t stream)
{
    void                *args[1];
    mst_k_gemm_kernel_t  k;

    k = r->a.w_scale != NULL ? mst_k_gemm_mma_of<1>(mst_k_gemm_pad(r->a.n))
                             : mst_k_gemm_mma_of<0>(mst_k_gemm_pad(r->a.n));
    args[0] = (void *) r;

    return cudaLaunchKernel((const void *) k, dim3(r->units), dim3(128), args,
                            0, stream);
}
