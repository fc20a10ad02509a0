
/*
 * The rings of the decode GEMM of sm_90 (mst_k_gemm_sm90.h): one warp fills
 * them with weights, one with activations, two warpgroups multiply.
 */

#ifndef MST_K_GEMM_RING_H
#define MST_K_GEMM_RING_H

#include "kernels/mst_k_gemm_part.h"
#include "kernels/mst_k_gemm_wgmma.h"


#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Until the predecessor has ended few tiles are on their way: more would
   take bandwidth from its slowest CTAs. */
template<int SHAPE>
MST_K_DEV void
mst_k_fetch_weights(const mst_k_gemm_run_t &r, const mst_k_room_t &s)
{
    int            ended;
    uint32_t       i, j, n, k, size;
    uint64_t       policy;
    const char    *w;
    mst_k_pass_t   p;
    mst_k_tile_t   t[4];
    mst_k_place_t  at[2];

    mst_k_pass_first(&p);
    at[0].i = at[1].i = 0;
    at[0].phase = at[1].phase = 1;
    ended = r.ahead == 0;
    w = (const char *) r.a.w;
    policy = mst_k_ptx_once();

    for ( /* void */ ; mst_k_pass_load<SHAPE>(r, &p); mst_k_pass_next(r, &p)) {
        n = 0;

#pragma unroll
        for (i = 0; i < 4; i++) {
            t[i] = mst_k_tile<SHAPE>(r, p, i);
            n = max(n, t[i].slots);
        }

        for (j = 0; j < n; j++) {
#pragma unroll
            for (i = 0; i < 4; i++) {
                if (j >= t[i].slots) {
                    continue;
                }

                k = (i & 1) * r.ring + at[i & 1].i;
                mst_k_ptx_bar_wait(s.empty + k, at[i & 1].phase);

                if (!ended && at[i & 1].i >= r.ahead) {
                    ended = *s.resolved;

                    if (!ended) {
                        mst_k_ptx_bar_wait(s.full + k - r.ahead, 0);
                    }
                }

                size = t[i].n * MST_K_GEMM_PIECE;
                mst_k_ptx_bar_expect(s.full + k, size);
                mst_k_ptx_copy(
                    s.w + k * r.tile * MST_K_GEMM_PIECE,
                    w + mst_k_gemm_piece(p.all, t[i].unit, t[i].slot + j,
                                         r.slots) * MST_K_GEMM_PIECE,
                    size, s.full + k, policy);
                mst_k_place_next(&at[i & 1], r.ring);
            }
        }
    }
}


template<int N, int SHAPE>
MST_K_DEV void
mst_k_fetch_x(const mst_k_gemm_run_t &r, const mst_k_room_t &s)
{
    uint8_t        *to;
    uint32_t       i, j, n, size;
    uint64_t       policy, *bar;
    const char     *x;
    mst_k_pass_t   p;
    mst_k_tile_t   t[4];
    mst_k_place_t  at;

    mst_k_pass_first(&p);
    at.i = 0;
    at.phase = 1;
    policy = mst_k_ptx_often();
    x = (const char *) r.a.x;

    for ( /* void */ ; mst_k_pass_load<SHAPE>(r, &p); mst_k_pass_next(r, &p)) {
#pragma unroll
        for (i = 0; i < 4; i++) {
            t[i] = mst_k_tile<SHAPE>(r, p, i);
        }

        for (j = 0; j < t[0].slots; j++) {
            mst_k_ptx_bar_wait(s.x_empty + at.i, at.phase);
            to = s.x + at.i * mst_k_gemm_x_slot(N, SHAPE);
            bar = s.x_full + at.i;
            n = SHAPE == MST_K_THIN ? 4 : 1;
            size = 0;

#pragma unroll
            for (i = 0; i < n; i++) {
                size += j < t[i].slots ? N * MST_K_GEMM_SLOT : 0;
            }

            mst_k_ptx_bar_expect(bar, size);

#pragma unroll
            for (i = 0; i < n; i++) {
                if (j < t[i].slots) {
                    mst_k_ptx_copy(to + i * N * MST_K_GEMM_SLOT,
                                   x + (size_t) (t[i].slot + j)
                                       * (N * MST_K_GEMM_SLOT),
                                   N * MST_K_GEMM_SLOT, bar, policy);
                }
            }

            mst_k_place_next(&at, r.x_ring);
        }
    }
}


/* one slot of a tile: 2 x 128 bytes of width, 4 steps of 32 each */
template<int N, int E4M3>
MST_K_DEV void
mst_k_multiply(float *acc, const void *w, const void *x)
{
    int       k;
    uint64_t  da, db;

    da = mst_k_wgmma_tile(w, 2048);
    db = mst_k_wgmma_tile(x, 1024);

    mst_k_wgmma_begin();

#pragma unroll
    for (k = 0; k < 8; k++) {
        if (E4M3) {
            mst_k_wgmma<N>::e4m3(acc, da + (k >> 2) * 64 + (k & 3) * 2,
                                 db + (k >> 2) * (N * 8) + (k & 3) * 2);
        } else {
            mst_k_wgmma<N>::bf16(acc, da + (k >> 2) * 64 + (k & 3) * 2,
                                 db + (k >> 2) * (N * 8) + (k & 3) * 2);
        }
    }

    mst_k_wgmma_end();
}


/* a pass of one warpgroup */
template<int N, int E4M3, int SHAPE>
MST_K_DEV void
mst_k_consume(const mst_k_gemm_run_t &r, const mst_k_room_t &s,
    const mst_k_tile_t *t, float (*acc)[N / 2], mst_k_place_t *at,
    mst_k_place_t *x_at)
{
    uint32_t  q, i, j, n, k, wg;

    wg = threadIdx.x >> 7;
    n = SHAPE == MST_K_THIN ? mst_k_share(r.slots, MST_K_GEMM_PARTS, 0).n
        : SHAPE == MST_K_WIDE ? r.slots
        : mst_k_share(r.slots, MST_K_GEMM_PARTS,
                      blockIdx.x % MST_K_GEMM_PARTS).n;

#pragma unroll
    for (q = 0; q < 2; q++) {
#pragma unroll
        for (i = 0; i < N / 2; i++) {
            acc[q][i] = 0;
        }
    }

    for (j = 0; j < n; j++) {
        mst_k_ptx_bar_wait(s.x_full + x_at->i, x_at->phase);

#pragma unroll
        for (q = 0; q < 2; q++) {
            if (j < t[q].slots) {
                k = wg * r.ring + at->i;
                mst_k_ptx_bar_wait(s.full + k, at->phase);
                mst_k_multiply<N, E4M3>(
                    acc[q], s.w + k * r.tile * MST_K_GEMM_PIECE,
                    s.x + x_at->i * mst_k_gemm_x_slot(N, SHAPE)
                    + (SHAPE == MST_K_THIN ? 2 * q + wg : 0)
                      * N * MST_K_GEMM_SLOT);

                if ((threadIdx.x & 31) == 0) {
                    mst_k_ptx_bar_arrive(s.empty + k);
                }

                mst_k_place_next(at, r.ring);
            }
        }

        if ((threadIdx.x & 31) == 0) {
            mst_k_ptx_bar_arrive(s.x_empty + x_at->i);
        }

        mst_k_place_next(x_at, r.x_ring);
    }
}

#endif


#endif /* MST_K_GEMM_RING_H */
