
/*
 * The decode GEMM of sm_90.  Weights are the tensor cores' 64 rows, tokens
 * their n.  384 threads: warps 0 to 7, two warpgroups, multiply; warp 8
 * fetches weights, each warpgroup into a ring of its own, before the
 * predecessor has ended; warp 9 fetches activations, warps 10 and 11 add up
 * the squares of the norm.  The grid is one CTA per SM, always: so a
 * successor that starts early finds one place on each.
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
 * So cuBLASLt is the better choice from 128 tokens in bf16 and at 16 and
 * from 64 in e4m3.  The chain takes longer than the sum of its operations
 * (n 8: 3,392, n 128: 4,425 in bf16): not explained; and at n 128 the same
 * setting took 5,777 in `mst_k_gemm_bench rings bf16 128` of the same job.
 * There, for n 8 and 32, rings of 2 tiles lose 2 to 4 %, other depths 2 % or
 * less.
 */

#ifndef MST_K_GEMM_SM90_H
#define MST_K_GEMM_SM90_H

#include "kernels/mst_k_gemm_put.h"
#include "kernels/mst_k_gemm_run.h"
#include "kernels/mst_k_gemm_wgmma.h"


#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* a run of units that a CTA does in one go */
typedef struct {
    uint32_t       slab;
    uint32_t       pass;   /* of the CTA over its units of the slab */
    uint32_t       unit;
    uint32_t       n;      /* units, up to run.most */
    int            last;
    mst_k_share_t  all;    /* units of the slab */
} mst_k_pass_t;


/* one of four of a pass: warpgroup i & 1, its accumulator i >> 1 */
typedef struct {
    uint32_t  unit;
    uint32_t  n;           /* units, up to 4 */
    uint32_t  slot;        /* first of its width */
    uint32_t  slots;       /* 0: nothing to do */
} mst_k_tile_t;


typedef struct {
    uint8_t       *w;          /* [2][ring][tile * 4 KB] */
    uint8_t       *x;          /* [x_ring][1 or 4][n][256 bytes] */
    float         *rs;         /* [n] factors of results */
    float         *qs;         /* [n] factors of the next x */
    float         *meet;       /* THIN: sums of the second warpgroup; SPLIT:
                                  sums of squares of units */
    uint64_t      *full;       /* [2][ring] */
    uint64_t      *empty;
    uint64_t      *x_full;     /* [x_ring] */
    uint64_t      *x_empty;
    volatile int  *resolved;   /* the predecessor has ended */
} mst_k_room_t;


/* a place in a ring */
typedef struct {
    uint32_t  i;
    uint32_t  phase;
} mst_k_place_t;


MST_K_DEV void
mst_k_place_next(mst_k_place_t *p, uint32_t n)
{
    if (++p->i == n) {
        p->i = 0;
        p->phase ^= 1;
    }
}


template<int N, int SHAPE>
MST_K_DEV mst_k_room_t
mst_k_room(const mst_k_gemm_run_t &r, uint8_t *p)
{
    mst_k_room_t  s;

    s.w = p;
    s.x = s.w + 2 * r.ring * r.tile * MST_K_GEMM_PIECE;
    s.meet = (float *) (s.x + r.x_ring * mst_k_gemm_x_slot(N, SHAPE));
    s.rs = s.meet + mst_k_gemm_meet(N, SHAPE);
    s.qs = s.rs + N;
    s.full = (uint64_t *) (s.qs + N);
    s.empty = s.full + 2 * r.ring;
    s.x_full = s.empty + 2 * r.ring;
    s.x_empty = s.x_full + r.x_ring;
    s.resolved = (volatile int *) (s.x_empty + r.x_ring);

    return s;
}


/* pass and slab are set; 0: there is none */
template<int SHAPE>
MST_K_DEV int
mst_k_pass_load(const mst_k_gemm_run_t &r, mst_k_pass_t *p)
{
    uint32_t       n;
    mst_k_share_t  s;

    if (p->slab >= MST_K_GEMM_SLABS) {
        return 0;
    }

    p->all = mst_k_share(r.units, MST_K_GEMM_SLABS, p->slab);
    s = mst_k_gemm_rows(r.units, SHAPE, p->slab, blockIdx.x % 4);

    /* no later slab has more */
    if (s.n == 0) {
        return 0;
    }

    n = (s.n + r.most - 1) / r.most;
    p->last = p->pass + 1 == n;
    p->unit = s.first;
    s = mst_k_share(s.n, n, p->pass);
    p->unit += s.first;
    p->n = s.n;

    return 1;
}


MST_K_DEV void
mst_k_pass_first(mst_k_pass_t *p)
{
    p->slab = blockIdx.x / 4;
    p->pass = 0;
}


MST_K_DEV void
mst_k_pass_next(const mst_k_gemm_run_t &r, mst_k_pass_t *p)
{
    p->pass++;

    if (p->last) {
        p->pass = 0;
        p->slab += r.step;
    }
}


template<int SHAPE>
MST_K_DEV mst_k_tile_t
mst_k_tile(const mst_k_gemm_run_t &r, const mst_k_pass_t &p, uint32_t i)
{
    uint32_t       n;
    mst_k_tile_t   t;
    mst_k_share_t  s;

    s.first = 0;
    s.n = r.slots;

    if (SHAPE != MST_K_WIDE) {
        s = mst_k_share(r.slots, MST_K_GEMM_PARTS,
                        SHAPE == MST_K_THIN ? i
                                            : blockIdx.x % MST_K_GEMM_PARTS);
    }

    t.slot = s.first;
    t.slots = s.n;
    t.unit = p.unit;
    t.n = p.n;

    if (SHAPE != MST_K_THIN) {
        s = mst_k_share(p.n, 2, i & 1);
        n = (s.n + 3) / 4;
        t.unit += s.first;
        t.n = 0;

        if (i >> 1 < n) {
            s = mst_k_share(s.n, n, i >> 1);
            t.unit += s.first;
            t.n = s.n;
        }
    }

    if (t.n == 0) {
        t.slots = 0;
    }

    return t;
}


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


/*
 * Token groups of 8 are shared out among the slab's CTAs: G each.  A CTA
 * writes what the others need, [to][from][tile][group][thread] of 4 sums.
 */
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
        mst_k_token_scales<(N <= MST_K_GEMM_THIN)>(r.a, w - 10, 2, s.rs, s.qs);
        asm volatile("bar.arrive 2, 320;" ::: "memory");

        if (blockIdx.x == 0) {
            mst_k_put_zeros(r.a, threadIdx.x - 320, 64);
        }
    }
#endif
}


#endif /* MST_K_GEMM_SM90_H */
