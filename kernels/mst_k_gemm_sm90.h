
/*
 * The decode GEMM of sm_90.  Weights are the tensor cores' 64 rows, tokens
 * their n.  384 threads: warps 0 to 7, two warpgroups, multiply; warp 8
 * fetches weights, each warpgroup into a ring of its own, before the
 * predecessor has ended; warp 9 fetches activations, warps 10 and 11 add up
 * the squares of the norm.  The grid is one CTA per SM, always: a successor
 * that starts early has an SM when its predecessor has left it.
 *
 * A slab of units belongs to four CTAs:
 *
 *   WIDE   gate-up, head: a quarter of the units each, whole width, tiles of
 *          up to 4 units, two to a warpgroup;
 *   THIN   qkv, out, down up to 16 tokens: a quarter of the units each; the
 *          four tiles are quarters of the width, added in shared memory;
 *   SPLIT  the same over 16 tokens: all units, a quarter of the width each;
 *          they swap sums through the L2, each then has a quarter of the
 *          tokens.
 *
 * THIN and SPLIT add the same numbers in the same order.
 *
 * Bytes: the weights once (Mistral-7B: 14.0 GB of layers in bf16, 0.27 GB of
 * head), activations from the L2, n / rows of a CTA as many.  Operations:
 * 2 n rows width.  The limit is reading, 4.56 TB/s: 3,120 us in bf16.
 *
 * Measured on an H200, 30 Nov 2026, `mst_k_gemm_bench bf16` and the same with
 * e4m3, us per layer, head, and 32 layers with head but without attention
 * (median of 15 graphs, programmatic launch); last, cuBLASLt's chain in the
 * same run, which does no norm, SwiGLU or residual:
 *
 *                 qkv    out  gate-up  down   head   chain   cuBLASLt
 *     bf16   1   13.4   10.0   52.7   27.7   63.6    3,474      3,739
 *            8   13.5   10.1   52.7   27.7   64.1    3,589      3,744
 *           16   14.0   10.2   53.2   28.2   64.9    3,717      3,792
 *           32   15.9   11.9   53.5   30.2   65.1    3,592      3,831
 *           64   17.5   13.2   55.8   32.4   67.7    3,895      4,055
 *          128   21.2   16.0   62.9   35.8   76.1    5,149      4,304
 *     e4m3   1    8.4    7.5   27.8   15.7   63.8    1,972      2,089
 *            8    8.3    7.1   27.8   15.7   63.9    2,034      2,116
 *           16    9.4    8.2   28.8   16.4   66.0    2,247      2,133
 *           32   10.1    8.3   28.7   17.4   64.9    2,115      2,171
 *           64   11.6    9.7   30.5   18.7   67.6    2,383      2,169
 *          128   15.2   12.3   36.0   21.8   74.3    3,252      2,414
 *
 * Up to 16 tokens the chain took longer than the sum of its operations as long
 * as two CTAs fitted an SM (above, they did: see mst_k_gemm.cu).  At 128 it did
 * (above) since what stands behind the products was code for each sum of a
 * thread, 134 KB of gate-up's kernel, which did not stay in an SM's caches from
 * layer to layer: by the SMs' clocks it took 16 us of 72 in a chain and 9
 * alone.  As loops (mst_k_gemm_end.h), later the same day, 16 layers, alone /
 * in the chain, us:
 *
 *                    qkv          out       gate-up         down
 *     bf16 128  20.5 / 20.2  15.0 / 15.4  63.0 / 66.1  35.3 / 34.9
 *          64   17.8 / 17.2  13.1 / 13.0  55.5 / 57.0  32.9 / 30.9
 *     e4m3 128  14.2 / 14.3  11.4 / 12.2  34.6 / 38.0  21.1 / 20.6
 *
 * (before: 71.5 and 48.2 for gate-up at 128 in the chain, bf16 and e4m3).  Of
 * an operation split by its width 3.4 us pass from the last product until the
 * parts have met, of gate-up 7.5 behind the products.  In the engine cuBLASLt
 * remains the better choice over 64 tokens in bf16 (docs/bench.md).
 */

#ifndef MST_K_GEMM_SM90_H
#define MST_K_GEMM_SM90_H

#include "kernels/mst_k_gemm_end.h"
#include "kernels/mst_k_gemm_ring.h"


#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template<int N, int E4M3, int SHAPE>
MST_K_DEV void
mst_k_compute(const mst_k_gemm_run_t &r, const mst_k_room_t &s)
{
    int            first;
    float          acc[2][N / 2], total;
    float2         h[N / 8][2];
    uint32_t       q, i, w;
    mst_k_pass_t   p;
    mst_k_tile_t   t[2];
    mst_k_unit_t   u[2];
    mst_k_place_t  at, x_at;

    w = threadIdx.x >> 5 & 3;
    mst_k_pass_first(&p);
    at.i = x_at.i = 0;
    at.phase = x_at.phase = 0;
    total = 0;
    first = 1;

    for ( /* void */ ; mst_k_pass_load<SHAPE>(r, &p); mst_k_pass_next(r, &p)) {
#pragma unroll
        for (q = 0; q < 2; q++) {
            t[q] = mst_k_tile<SHAPE>(r, p, 2 * q + (threadIdx.x >> 7));

            if (SHAPE != MST_K_SPLIT && w < t[q].n) {
                u[q] = mst_k_unit_load(r.a, t[q].unit + w);
            }
        }

        if (first) {
            mst_k_ptx_wait_previous();
        }

        if (SHAPE == MST_K_THIN && r.a.op == MST_K_GEMM_RESIDUAL
            && threadIdx.x < 128 && w < t[0].n)
        {
#pragma unroll
            for (i = 0; i < N / 8; i++) {
                mst_k_load_h(r.a, t[0].unit + w, i * 8 + (threadIdx.x & 3) * 2,
                             h[i]);
            }
        }

        mst_k_consume<N, E4M3, SHAPE>(r, s, t, acc, &at, &x_at);

        if (first) {
            /* rs and qs */
            asm volatile("bar.sync 2, 320;" ::: "memory");
            first = 0;
        }

        if constexpr (SHAPE == MST_K_WIDE) {
            mst_k_end_wide<N>(r, s, t, u, acc);
        } else if constexpr (SHAPE == MST_K_THIN) {
            mst_k_end_thin<N>(r, s, t, u, acc, h);
        } else {
            mst_k_end_split<N>(r, s, p, t, acc, &total);
        }
    }
}


MST_K_DEV void
mst_k_bars(const mst_k_gemm_run_t &r, const mst_k_room_t &s)
{
    uint32_t  i;

    for (i = 0; i < 2 * r.ring; i++) {
        mst_k_ptx_bar_init(s.full + i, 1);
        mst_k_ptx_bar_init(s.empty + i, 4);
    }

    for (i = 0; i < r.x_ring; i++) {
        mst_k_ptx_bar_init(s.x_full + i, 1);
        mst_k_ptx_bar_init(s.x_empty + i, 8);
    }

    *s.resolved = 0;
    mst_k_ptx_bar_fence();
}

#endif


template<int N, int E4M3, int SHAPE>
__global__ void
__launch_bounds__(384, N <= MST_K_GEMM_THIN ? 2 : 1)
mst_k_gemm_sm90(const __grid_constant__ mst_k_gemm_run_t r)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t  memory[];

    uint32_t      w, lane;
    mst_k_pass_t  p;
    mst_k_room_t  s;

    w = threadIdx.x >> 5;
    lane = threadIdx.x & 31;
    mst_k_pass_first(&p);

    if (p.slab >= r.step || !mst_k_pass_load<SHAPE>(r, &p)) {
        mst_k_ptx_launch_next();
        mst_k_ptx_wait_previous();
        return;
    }

    s = mst_k_room<N, SHAPE>(r, memory);

    if (threadIdx.x == 0) {
        mst_k_bars(r, s);
    }

    __syncthreads();

    if (w < 8) {
        /* 256 x 208 + 128 x 88 registers */
        if (N > 64) {
            asm volatile("setmaxnreg.inc.sync.aligned.u32 208;");
        }

        mst_k_compute<N, E4M3, SHAPE>(r, s);
        return;
    }

    if (N > 64) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 88;");
    }

    if (w == 8) {
        if (lane == 0) {
            mst_k_ptx_launch_next();
            mst_k_fetch_weights<SHAPE>(r, s);
        }

    } else if (w == 9) {
        mst_k_ptx_wait_previous();

        if (lane == 0) {
            *s.resolved = 1;
            mst_k_fetch_x<N, SHAPE>(r, s);
        }

    } else {
        mst_k_ptx_wait_previous();
        mst_k_token_scales<N <= MST_K_GEMM_THIN ? 8 : 0>(r.a, w - 10, 2, s.rs,
                                                         s.qs);
        asm volatile("bar.arrive 2, 320;" ::: "memory");

        if (blockIdx.x == 0) {
            mst_k_put_zeros(r.a, threadIdx.x - 320, 64);
        }
    }
#endif
}


#endif /* MST_K_GEMM_SM90_H */
