
/*
 * Where the sums of the decode GEMM of sm_90 (mst_k_gemm_sm90.h) meet: in
 * registers, in shared memory or through the L2, by the shape of the work.
 */

#ifndef MST_K_GEMM_END_H
#define MST_K_GEMM_END_H

#include "kernels/mst_k_gemm_part.h"


#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* of the 8 multiplying warps */
MST_K_DEV void
mst_k_sync(void)
{
    asm volatile("bar.sync 1, 256;" ::: "memory");
}


template<int N>
MST_K_DEV void
mst_k_end_wide(const mst_k_gemm_run_t &r, const mst_k_room_t &s,
    const mst_k_tile_t *t, const mst_k_unit_t *u, float (*acc)[N / 2])
{
    uint32_t  q, i, n, w;

    w = threadIdx.x >> 5 & 3;

#pragma unroll
    for (q = 0; q < 2; q++) {
        if (w >= t[q].n) {
            continue;
        }

#pragma unroll
        for (i = 0; i < N / 8; i++) {
            n = i * 8 + (threadIdx.x & 3) * 2;

            if (r.a.op == MST_K_GEMM_GATE_UP) {
                mst_k_put_gate(r.a, t[q].unit + w, n, acc[q] + i * 4, u[q],
                               s.rs + n);
            } else {
                mst_k_put_head(r.a, t[q].unit + w, n, acc[q] + i * 4, u[q],
                               s.rs + n);
            }
        }
    }
}


template<int N>
MST_K_DEV void
mst_k_end_thin(const mst_k_gemm_run_t &r, const mst_k_room_t &s,
    const mst_k_tile_t *t, const mst_k_unit_t *u, float (*acc)[N / 2],
    const float2 (*h)[2])
{
    float     v[4], *m;
    float2    ss;
    uint32_t  q, i, e, n, unit;

    m = s.meet + (threadIdx.x & 127);

    if (threadIdx.x >= 128) {
#pragma unroll
        for (q = 0; q < 2; q++) {
#pragma unroll
            for (i = 0; i < N / 2; i++) {
                m[(q * (N / 2) + i) * 128] = acc[q][i];
            }
        }
    }

    mst_k_sync();

    if (threadIdx.x < 128 && threadIdx.x >> 5 < t[0].n) {
        unit = t[0].unit + (threadIdx.x >> 5);

#pragma unroll
        for (i = 0; i < N / 8; i++) {
            n = i * 8 + (threadIdx.x & 3) * 2;

#pragma unroll
            for (e = 0; e < 4; e++) {
                v[e] = acc[0][i * 4 + e] + m[(i * 4 + e) * 128];
                v[e] += acc[1][i * 4 + e];
                v[e] += m[(N / 2 + i * 4 + e) * 128];
            }

            if (r.a.op == MST_K_GEMM_QKV) {
                mst_k_put_qkv(r.a, unit, n, v, u[0], s.rs + n);
                continue;
            }

            ss = mst_k_put_residual(r.a, unit, n, v, u[0], s, h[i]);

            if ((threadIdx.x & 31) < 4) {
                *(float2 *) (r.a.y_sums + (size_t) unit * N + n) = ss;
            }
        }
    }

    mst_k_sync();
}


/* all four CTAs of the slab have written their sums */
MST_K_DEV void
mst_k_meet(uint32_t *ticket)
{
    uint32_t  old, now, all;

    mst_k_sync();

    if (threadIdx.x == 0) {
        asm volatile("fence.acq_rel.gpu;\n"
                     "atom.add.relaxed.gpu.global.u32 %0, [%1], 1;"
                     : "=r"(old) : "l"(ticket) : "memory");
        all = (old / MST_K_GEMM_PARTS + 1) * MST_K_GEMM_PARTS;

        do {
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                         : "=r"(now) : "l"(ticket) : "memory");
        } while ((int) (now - all) < 0);

        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }

    mst_k_sync();
}


/* sums of squares of the slab so far, of the tokens of this CTA */
template<int N>
MST_K_DEV void
mst_k_slab_squares(const mst_k_gemm_run_t &r, const mst_k_room_t &s,
    const mst_k_pass_t &p, float *total)
{
    uint32_t  i;

    mst_k_sync();

    if (threadIdx.x < N / 4) {
        for (i = 0; i < p.n; i++) {
            *total += s.meet[i * (N / 4) + threadIdx.x];
        }

        if (p.last) {
            r.a.y_sums[p.slab * N + blockIdx.x % 4 * (N / 4) + threadIdx.x]
                = *total;
            *total = 0;
        }
    }

    mst_k_sync();
}


/* own[tile][group]: the sums of all four CTAs, in the order of the parts */
template<int G>
MST_K_DEV void
mst_k_gather(const float4 *work, const mst_k_tile_t *t, uint32_t q,
    float4 *own)
{
    float4    v, o;
    uint32_t  e, d, me;

    me = blockIdx.x % 4;

#pragma unroll
    for (e = 0; e < G; e++) {
        v = make_float4(0, 0, 0, 0);

#pragma unroll
        for (d = 0; d < 4; d++) {
            o = own[e];

            if (d != me && (threadIdx.x >> 5 & 3) < t[q].n) {
                o = __ldcg(work + (((me * 4 + d) * 2 + q) * G + e) * 256
                           + threadIdx.x);
            }

            mst_k_add4(&v, o);
        }

        own[e] = v;
    }
}


/*
 * Token groups of 8 are shared out among the slab's CTAs: G each.  A CTA
 * writes what the others need, [to][from][tile][group][thread] of 4 sums.
 */
template<int N>
MST_K_DEV void
mst_k_end_split(const mst_k_gemm_run_t &r, const mst_k_room_t &s,
    const mst_k_pass_t &p, const mst_k_tile_t *t, float (*acc)[N / 2],
    float *total)
{
    constexpr int  G = N / 32, Q = G < 4 ? 2 : 1;

    float2        ss, h[2][G][2];
    float4        own[2][G], v, *work;
    uint32_t      q, d, e, n, w, me, at, from;
    mst_k_unit_t  u[2];

    w = threadIdx.x >> 5 & 3;
    me = blockIdx.x % 4;
    at = p.slab * r.passes + p.pass;
    work = (float4 *) r.a.work + (size_t) at * 16 * 2 * G * 256;

#pragma unroll
    for (q = 0; q < 2; q++) {
#pragma unroll
        for (d = 0; d < 4; d++) {
#pragma unroll
            for (e = 0; e < G; e++) {
                v = *(float4 *) (acc[q] + (d * G + e) * 4);

                if (d == me) {
                    own[q][e] = v;

                } else if (w < t[q].n) {
                    work[(((d * 4 + me) * 2 + q) * G + e) * 256
                         + threadIdx.x] = v;
                }
            }
        }
    }

    /* what the meeting hides the loads of */

#pragma unroll
    for (q = 0; q < 2; q++) {
        if (w < t[q].n) {
            u[q] = mst_k_unit_load(r.a, t[q].unit + w);
        }

#pragma unroll
        for (e = 0; e < G; e++) {
            if (r.a.op == MST_K_GEMM_RESIDUAL && w < t[q].n) {
                mst_k_load_h(r.a, t[q].unit + w, (me * G + e) * 8
                             + (threadIdx.x & 3) * 2, h[q][e]);
            }
        }
    }

    mst_k_meet(r.a.tickets + at);

    /* all loads (of a tile, where registers are few), then the stores: one
       latency */

#pragma unroll
    for (from = 0; from < 2; from += Q) {
#pragma unroll
        for (q = from; q < from + Q; q++) {
            mst_k_gather<G>(work, t, q, own[q]);
        }

#pragma unroll
        for (q = from; q < from + Q; q++) {
#pragma unroll
            for (e = 0; e < G; e++) {
                if (w >= t[q].n) {
                    continue;
                }

                n = (me * G + e) * 8 + (threadIdx.x & 3) * 2;

                if (r.a.op == MST_K_GEMM_QKV) {
                    mst_k_put_qkv(r.a, t[q].unit + w, n, (float *) &own[q][e],
                                  u[q], s.rs + n);
                    continue;
                }

                ss = mst_k_put_residual(r.a, t[q].unit + w, n,
                                        (float *) &own[q][e], u[q], s,
                                        h[q][e]);

                if ((threadIdx.x & 31) < 4) {
                    *(float2 *) (s.meet + (t[q].unit - p.unit + w) * (N / 4)
                                 + e * 8 + (threadIdx.x & 3) * 2) = ss;
                }
            }
        }
    }

    if (r.a.op == MST_K_GEMM_RESIDUAL) {
        mst_k_slab_squares<N>(r, s, p, total);
    }
}

#endif


#endif /* MST_K_GEMM_END_H */
