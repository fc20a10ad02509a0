
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


/*
 * N sums of the i-th of OF runs.  Registers have no index, so what goes
 * through all sums in a loop that is unrolled is code for each of them, and a
 * thread has 128 at 128 tokens: gate-up's kernel was 134 KB, more than an SM
 * keeps, and each layer read it anew (mst_k_gemm_sm90.h).
 */
template<int OF, int N>
MST_K_DEV void
mst_k_pick(const float *from, uint32_t i, float *v)
{
    int  k, e;

#pragma unroll
    for (k = 0; k < OF; k++) {
        if (k == i) {
#pragma unroll
            for (e = 0; e < N; e++) {
                v[e] = from[k * N + e];
            }
        }
    }
}


template<int N>
MST_K_DEV void
mst_k_end_wide(const mst_k_gemm_run_t &r, const mst_k_room_t &s,
    const mst_k_tile_t *t, const mst_k_unit_t *u, float (*acc)[N / 2])
{
    constexpr int  E = N < 32 ? N / 8 : 4, RUNS = N / 8 / E;

    float         v[4 * E];
    uint32_t      i, n, w, unit;
    mst_k_unit_t  of;

    w = threadIdx.x >> 5 & 3;

#pragma unroll 1
    for (i = 0; i < 2 * RUNS; i++) {
        if (w >= (i < RUNS ? t[0].n : t[1].n)) {
            continue;
        }

        unit = (i < RUNS ? t[0].unit : t[1].unit) + w;
        of = i < RUNS ? u[0] : u[1];
        mst_k_pick<2 * RUNS, 4 * E>(acc[0], i, v);

        n = i % RUNS * E * 8 + (threadIdx.x & 3) * 2;

        if (r.a.op == MST_K_GEMM_GATE_UP) {
            mst_k_put_gate<E>(r.a, unit, n, v, of, s.rs + n);
        } else {
            mst_k_put_head<E>(r.a, unit, n, v, of, s.rs + n);
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
                mst_k_put_qkv<1>(r.a, unit, n, v, u[0], s.rs + n);
                continue;
            }

            ss = mst_k_put_residual<1>(r.a, unit, n, v, u[0], s, h + i).of[0];

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


/* own[group]: the sums of all four CTAs, in the order of the parts */
template<int G>
MST_K_DEV void
mst_k_gather(const float4 *work, uint32_t q, float4 *own)
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

            if (d != me) {
                o = __ldcg(work + (((me * 4 + d) * 2 + q) * G + e) * 256
                           + threadIdx.x);
            }

            mst_k_add4(&v, o);
        }

        own[e] = v;
    }
}


/* a tile's results of this CTA's tokens; sums of squares to s.meet */
template<int N, int G>
MST_K_DEV void
mst_k_end_tile(const mst_k_gemm_run_t &r, const mst_k_room_t &s,
    const mst_k_pass_t &p, uint32_t unit, const mst_k_unit_t &u,
    const float4 *own, const float2 (*h)[2])
{
    uint32_t          e, n;
    mst_k_squares<G>  ss;

    n = blockIdx.x % 4 * G * 8 + (threadIdx.x & 3) * 2;

    if (r.a.op == MST_K_GEMM_QKV) {
        mst_k_put_qkv<G>(r.a, unit, n, (float *) own, u, s.rs + n);
        return;
    }

    ss = mst_k_put_residual<G>(r.a, unit, n, (float *) own, u, s, h);

#pragma unroll
    for (e = 0; e < G; e++) {
        if ((threadIdx.x & 31) < 4) {
            *(float2 *) (s.meet + (unit - p.unit) * (N / 4) + e * 8
                         + (threadIdx.x & 3) * 2) = ss.of[e];
        }
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
    constexpr int  G = N / 32;

    float2        h[2][G][2];
    float4        own[2][G], v, *work;
    uint32_t      q, d, e, w, me, at, n[2], unit[2];
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
        n[q] = t[q].n;
        unit[q] = t[q].unit + w;

        if (w < n[q]) {
            u[q] = mst_k_unit_load(r.a, unit[q]);
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

    /* one code for both tiles: see mst_k_pick() */

#pragma unroll 1
    for (q = 0; q < 2; q++) {
        if (w < n[0]) {
            mst_k_gather<G>(work, q, own[0]);
            mst_k_end_tile<N, G>(r, s, p, unit[0], u[0], own[0], h[0]);
        }

        n[0] = n[1];
        unit[0] = unit[1];
        u[0] = u[1];

#pragma unroll
        for (e = 0; e < G; e++) {
            own[0][e] = own[1][e];
            h[0][e][0] = h[1][e][0];
            h[0][e][1] = h[1][e][1];
        }
    }

    if (r.a.op == MST_K_GEMM_RESIDUAL) {
        mst_k_slab_squares<N>(r, s, p, total);
    }
}

#endif


#endif /* MST_K_GEMM_END_H */
