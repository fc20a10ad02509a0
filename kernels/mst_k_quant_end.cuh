
/*
 * The warps of the decode GEMM over quantised weights that finish: they add up
 * what the others have multiplied and write an operation's results; where
 * several operations are one launch they meet all other CTAs' then.
 */

#ifndef MST_K_QUANT_END_CUH
#define MST_K_QUANT_END_CUH

#include "kernels/mst_k_quant_run.cuh"


/* the units of an operation that are this CTA's */

static __device__ __forceinline__ mst_k_share_t
mst_k_quant_units(const mst_k_quant_run_t &r, const mst_k_quant_op_t &op)
{
    return mst_k_share(mst_k_gemm_units(op.a.rows), gridDim.x / r.tiles,
                       blockIdx.x / r.tiles);
}


/* operations of a launch: before sm_90 one */

static __device__ __forceinline__ uint32_t
mst_k_quant_count(const mst_k_quant_run_t &r)
{
#if __CUDA_ARCH__ >= 900
    return r.n_ops;
#else
    return 1;
#endif
}


/* threads that multiply and those that finish */

template <int T>
static __device__ __forceinline__ constexpr uint32_t
mst_k_quant_both(void)
{
    return 32 * (MST_K_QUANT_WARPS(T) + MST_K_QUANT_ENDS);
}


/* what a warp needs to finish a unit's 8 tokens: brought while others
   multiply */
typedef struct {
    float2        before[2];   /* h of this lane's two tokens */
    mst_k_unit_t  u;
} mst_k_quant_end_t;


template <int T>
static __device__ __forceinline__ mst_k_quant_end_t
mst_k_quant_foresee(const mst_k_gemm_t &a, uint32_t unit, uint32_t token)
{
    mst_k_quant_end_t  e;

    e.u = mst_k_unit_load(a, unit);
    e.before[0] = e.before[1] = make_float2(0, 0);

    if (a.op == MST_K_GEMM_RESIDUAL) {
        mst_k_load_h(a, unit, token + threadIdx.x % 4 * 2, e.before);
    }

    if (T == 1) {
        e.before[1] = make_float2(0, 0);
    }

    return e;
}


/* a unit's results: the warps' sums in their order, by one warp */

template <int T>
static __device__ __forceinline__ void
mst_k_quant_finish(const mst_k_gemm_t &a, const mst_k_quant_end_t &e,
    uint32_t unit, uint32_t token, const float *meet,
    const mst_k_quant_room_t &s)
{
    int       c, h, w;
    float     v[4];
    float2    sums;
    uint32_t  lane, n;

    lane = threadIdx.x % 32;
    n = token + lane % 4 * 2;

    #pragma unroll
    for (h = 0; h < 2; h++) {

        #pragma unroll
        for (c = 0; c < 2; c++) {
            v[2 * h + c] = 0;

            if (lane % 4 * 2 + c >= T) {
                continue;
            }

            #pragma unroll
            for (w = 0; w < MST_K_QUANT_WARPS(T); w++) {
                v[2 * h + c] += meet[(w * 16 + lane / 4 + 8 * h) * T
                                     + lane % 4 * 2 + c];
            }
        }
    }

    switch (a.op) {

    case MST_K_GEMM_QKV:
        mst_k_put_qkv<1>(a, unit, n, v, e.u, s.rs + n);
        break;

    case MST_K_GEMM_HEAD:
        mst_k_put_head<1>(a, unit, n, v, e.u, s.rs + n);
        break;

    case MST_K_GEMM_GATE_UP:
        mst_k_put_gate<1>(a, unit, n, v, e.u, s.rs + n);
        break;

    default:
        sums = mst_k_put_residual<1>(a, unit, n, v, e.u, s,
                                     &e.before).of[0];

        if (lane < 4) {
            *(float2 *) (a.y_sums + (size_t) unit * mst_k_gemm_pad(a.n) + n)
                = sums;
        }
    }
}


#if __CUDA_ARCH__ >= 900

/*
 * Until all CTAs of the launch have come here: the upper bit of the counter
 * turns when the last of them adds to it, and the others are 0 again.  Who
 * adds knows the bit, so that nobody waits for an addition.  "bit" is of the
 * time when the predecessor had ended.
 */

static __device__ __forceinline__ void
mst_k_quant_meet_all(uint32_t *met, uint32_t *bit)
{
    uint32_t  n;

    n = blockIdx.x ? 1 : 0x80000000u - (gridDim.x - 1);

    asm volatile("red.release.gpu.global.add.u32 [%0], %1;"
                 :: "l"(met), "r"(n) : "memory");

    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(n) : "l"(met) : "memory");
    } while (((n ^ *bit) & 0x80000000u) == 0);

    *bit = n;
}

#endif


/* mst_k_sum_units() of one token, its order, by a warp: all that a lane adds
   up is on its way at once */

static __device__ __forceinline__ float
mst_k_quant_squares(const float *sums, uint32_t width)
{
    float          s, t[3], v[3][8];
    uint32_t       d, i, k, slab, units;
    mst_k_share_t  share[3];

    units = mst_k_gemm_units(width);

    #pragma unroll
    for (k = 0; k < 3; k++) {
        slab = threadIdx.x % 16 + 16 * k;
        share[k] = mst_k_share(units, MST_K_GEMM_SLABS, slab);
        share[k].n = slab < MST_K_GEMM_SLABS ? share[k].n : 0;
        t[k] = 0;
    }

    for (d = 0; d < share[0].n; d += 8) {

        #pragma unroll
        for (k = 0; k < 3; k++) {

            #pragma unroll
            for (i = 0; i < 8; i++) {
                v[k][i] = d + i < share[k].n
                          ? __ldcg(sums + (size_t) (share[k].first + d + i)
                                          * mst_k_gemm_pad(1))
                          : 0;
            }
        }

        #pragma unroll
        for (k = 0; k < 3; k++) {

            #pragma unroll
            for (i = 0; i < 8; i++) {
                t[k] += v[k][i];
            }
        }
    }

    s = t[0] + t[1] + t[2];

    #pragma unroll
    for (d = 1; d < 16; d *= 2) {
        s += __shfl_xor_sync(~0u, s, d);
    }

    return s;
}


/* what results are multiplied with: by the warps that finish */

template <int T>
static __device__ __forceinline__ void
mst_k_quant_scale_tokens(const mst_k_gemm_t &a, const mst_k_quant_room_t &s,
    uint32_t number)
{
    int    normed;
    float  sum;

    if (T > 1) {
        mst_k_token_scales<4>(a, number, MST_K_QUANT_ENDS, s.rs, s.qs);

    } else if (number == 0) {
        normed = a.x_sums != NULL && a.op != MST_K_GEMM_RESIDUAL;
        sum = normed ? mst_k_quant_squares(a.x_sums, a.width) : 1;

        if (threadIdx.x % 32 < 8) {
            mst_k_token_scale(a, threadIdx.x % 32, sum, normed, s.rs, s.qs);
        }
    }

    mst_k_quant_wait(MST_K_QUANT_SCALES, 32 * MST_K_QUANT_ENDS);
}


/* an operation by a warp that finishes: of each round's units and groups of 8
   tokens every third */

template <int T>
static __device__ __forceinline__ void
mst_k_quant_end(const mst_k_quant_run_t &r, const mst_k_quant_op_t &op,
    const mst_k_quant_room_t &s, uint32_t token, uint32_t number)
{
    const uint32_t  PARTS = (T + 7) / 8;       /* of a unit's results */
    const uint32_t  ROUND = mst_k_quant_round(T);
    const uint32_t  ROOMS = mst_k_quant_rooms(T);

    uint32_t           from, i, room, unit;
    const float       *meet;
    mst_k_share_t      units;
    mst_k_quant_end_t  e;

    units = mst_k_quant_units(r, op);
    mst_k_quant_scale_tokens<T>(op.a, s, number);

    for (from = 0; from < units.n; from += ROUND) {
        room = from / ROUND % ROOMS;
        meet = s.meet + room * mst_k_quant_meet(T);

        for (i = number; i < ROUND * PARTS; i += MST_K_QUANT_ENDS) {
            unit = from + i / PARTS;

            if (unit < units.n) {
                e = mst_k_quant_foresee<T>(op.a, units.first + unit,
                                           token + i % PARTS * 8);
            }

            if (i == number) {
                mst_k_quant_wait(MST_K_QUANT_MET + room,
                                 mst_k_quant_both<T>());
            }

            if (unit < units.n) {
                mst_k_quant_finish<T>(op.a, e, units.first + unit,
                                      token + i % PARTS * 8,
                                      meet + i / PARTS * MST_K_QUANT_WARPS(T)
                                             * 16 * T + i % PARTS * 8, s);
            }
        }

        if (from + ROOMS * ROUND < units.n) {
            mst_k_quant_arrive(MST_K_QUANT_FREE + room,
                               mst_k_quant_both<T>());
        }
    }

    if (number == 0 && blockIdx.x == 0) {
        mst_k_put_zeros(op.a, threadIdx.x % 32, 32);
    }
}


/* all operations by a warp that finishes */

template <int T>
static __device__ __forceinline__ void
mst_k_quant_ends(const mst_k_quant_run_t &r, const mst_k_quant_room_t &s,
    uint32_t token, uint32_t number)
{
    uint32_t  k;

#if __CUDA_ARCH__ >= 900
    uint32_t  bit;

    bit = r.n_ops > 1 ? __ldcg(r.met) : 0;
#endif

    for (k = 0; k < mst_k_quant_count(r); k++) {

#if __CUDA_ARCH__ >= 900
        if (k) {
            mst_k_quant_wait(MST_K_QUANT_SCALES, 32 * MST_K_QUANT_ENDS);

            if (number == 0 && threadIdx.x % 32 == 0) {
                mst_k_quant_meet_all(r.met, &bit);
            }

            mst_k_quant_wait(MST_K_QUANT_NEXT, mst_k_quant_both<T>());
        }
#endif

        mst_k_quant_end<T>(r, r.op[k], s, token, number);
    }
}


#endif /* MST_K_QUANT_END_CUH */
