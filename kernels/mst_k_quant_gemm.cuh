
/*
 * The kernel of the decode GEMM over quantised weights and its launch:
 * mst_k_quant_gemm.cu says what it does.
 */

#ifndef MST_K_QUANT_GEMM_CUH
#define MST_K_QUANT_GEMM_CUH

#include "kernels/mst_k_quant_mma.cuh"

#define MST_K_QUANT_TILES(t)  ((t) < 8 ? 1 : (t) / 4)


/* sums of a unit of this warp to where they meet */

template <int T>
static __device__ __forceinline__ void
mst_k_quant_leave(float (*acc)[2], float *meet)
{
    int       h, q;
    float    *to;
    uint32_t  lane;

    lane = threadIdx.x % 32;

    #pragma unroll
    for (q = 0; q < MST_K_QUANT_TILES(T); q++) {

        #pragma unroll
        for (h = 0; h < 2; h++) {
            to = meet + (lane / 4 + 8 * h) * T + q * 4;

            if (T == 1) {
                acc[q][h] += __shfl_xor_sync(~0u, acc[q][h], 1);
                acc[q][h] += __shfl_xor_sync(~0u, acc[q][h], 2);
            }

            if (T > 1 || lane % 4 == 0) {
                to[T == 1 ? 0 : lane % 4] = acc[q][h];
            }
        }
    }
}


/* a sum goes on where the pass before has left it, so that the number of
   passes does not change it; one token: lane 0 of 4 has what all had */

template <int T>
static __device__ __forceinline__ void
mst_k_quant_resume(float (*acc)[2], const float *meet, int more)
{
    int       h, q;
    uint32_t  lane;

    lane = threadIdx.x % 32;

    #pragma unroll
    for (q = 0; q < MST_K_QUANT_TILES(T); q++) {

        #pragma unroll
        for (h = 0; h < 2; h++) {
            acc[q][h] = 0;

            if (more && (T > 1 || lane % 4 == 0)) {
                acc[q][h] = meet[(lane / 4 + 8 * h) * T + q * 4
                                 + (T == 1 ? 0 : lane % 4)];
            }
        }
    }
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

/* the chunks of this CTA, in the order in which they are read */

template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ void
mst_k_quant_bring(const mst_k_quant_run_t &r, const mst_k_quant_room_t &s,
    mst_k_share_t units, uint32_t round)
{
    typedef mst_k_quant_of<FORM>  f;

    uint32_t        block, end, from, i, n, phase, place, size, unit;
    uint64_t        policy;
    const uint8_t  *w;

    policy = r.tiles == 1 ? mst_k_ptx_once() : mst_k_ptx_often();
    i = 0;
    place = 0;
    phase = 1;

    for (from = 0; from < units.n; from += round) {
        end = min(units.n, from + round);

        for (block = 0; block < r.blocks; block += r.pass) {

            for (unit = from; unit < end; unit++) {
                w = (const uint8_t *) r.a.w
                    + (size_t) (units.first + unit) * r.blocks * f::BLOCK;

                for (n = block; n < min(block + r.pass, r.blocks);
                     n += f::CHUNK)
                {
                    mst_k_ptx_bar_wait(s.empty + place, phase);

                    if (i >= MST_K_QUANT_AHEAD && i < r.ring
                        && !*s.resolved)
                    {
                        mst_k_ptx_bar_wait(s.full + i - MST_K_QUANT_AHEAD, 0);
                    }

                    size = min(f::CHUNK, r.blocks - n) * f::BLOCK;

                    mst_k_ptx_bar_expect(s.full + place, size);
                    mst_k_ptx_copy(s.ring + place * f::CHUNK * f::BLOCK,
                                   w + (size_t) n * f::BLOCK, size,
                                   s.full + place, policy);
                    i++;

                    if (++place == r.ring) {
                        place = 0;
                        phase ^= 1;
                    }
                }
            }
        }
    }
}

#endif


/* where in the ring */
typedef struct {
    uint32_t  place;
    uint32_t  phase;
} mst_k_quant_turn_t;


/* a unit's blocks whose x is in shared memory */

template <mst_k_quant_form_t FORM, int T>
static __device__ __forceinline__ void
mst_k_quant_unit(const mst_k_quant_run_t &r, const mst_k_quant_room_t &s,
    uint32_t unit, uint32_t block, mst_k_quant_turn_t *at, float (*acc)[2])
{
    typedef mst_k_quant_of<FORM>  f;

    uint32_t        n, pass;
    const uint8_t  *chunk;

    pass = min(r.pass, r.blocks - block);

    for (n = 0; n < pass; n += f::CHUNK) {
#if __CUDA_ARCH__ >= 900
        chunk = s.ring + at->place * f::CHUNK * f::BLOCK;
        mst_k_ptx_bar_wait(s.full + at->place, at->phase);
#else
        chunk = (const uint8_t *) r.a.w
                + ((size_t) unit * r.blocks + block + n) * f::BLOCK;
#endif
        mst_k_quant_strip<FORM, T>(chunk, n,
                                   min(f::CHUNK, r.blocks - block - n),
                                   s.x + n * T * 256,
                                   s.xs + n * f::PARTS * T, acc);
#if __CUDA_ARCH__ >= 900
        __syncwarp();

        if (threadIdx.x % 32 == 0) {
            mst_k_ptx_bar_arrive(s.empty + at->place);
        }

        if (++at->place == r.ring) {
            at->place = 0;
            at->phase ^= 1;
        }
#endif
    }
}


/* a warp that multiplies */

template <mst_k_quant_form_t FORM, int T>
static __device__ __forceinline__ void
mst_k_quant_multiply(const mst_k_quant_run_t &r, const mst_k_quant_room_t &s,
    mst_k_share_t units, uint32_t token)
{
    const uint32_t  ROUND = mst_k_quant_round(T);
    const uint32_t  ROOMS = mst_k_quant_rooms(T);
    const uint32_t  THREADS = 32 * (MST_K_QUANT_WARPS(T) + MST_K_QUANT_ENDS);

    float               acc[MST_K_QUANT_TILES(T)][2], *meet;
    uint32_t            block, end, from, i, room, unit;
    mst_k_quant_turn_t  at;

    at.place = 0;
    at.phase = 0;

    for (from = 0; from < units.n; from += ROUND) {
        end = min(units.n, from + ROUND);
        room = from / ROUND % ROOMS;
        meet = s.meet + room * mst_k_quant_meet(T)
               + threadIdx.x / 32 * 16 * T;

        if (from >= ROOMS * ROUND) {
            mst_k_quant_wait(MST_K_QUANT_FREE + room, THREADS);
        }

        for (block = 0; block < r.blocks; block += r.pass) {

            if (from == 0 || r.pass < r.blocks) {
                __syncwarp();
                mst_k_quant_fetch<FORM, T>(r, s, block,
                                           min(r.pass, r.blocks - block),
                                           token);
                __syncwarp();
            }

            for (unit = from; unit < end; unit++) {
                i = (unit - from) * MST_K_QUANT_WARPS(T) * 16 * T;

                mst_k_quant_resume<T>(acc, meet + i, block > 0);
                mst_k_quant_unit<FORM, T>(r, s, units.first + unit, block,
                                          &at, acc);
                mst_k_quant_leave<T>(acc, meet + i);
            }
        }

        mst_k_quant_arrive(MST_K_QUANT_MET + room, THREADS);
    }
}


/* a warp that finishes: of each round's units and groups of 8 tokens every
   third */

template <int T>
static __device__ __forceinline__ void
mst_k_quant_end(const mst_k_quant_run_t &r, const mst_k_quant_room_t &s,
    mst_k_share_t units, uint32_t token, uint32_t number)
{
    const uint32_t  PARTS = (T + 7) / 8;       /* of a unit's results */
    const uint32_t  ROUND = mst_k_quant_round(T);
    const uint32_t  ROOMS = mst_k_quant_rooms(T);
    const uint32_t  THREADS = 32 * (MST_K_QUANT_WARPS(T) + MST_K_QUANT_ENDS);

    uint32_t            from, i, room, unit;
    const float        *meet;
    mst_k_quant_end_t   e;

    mst_k_token_scales<4>(r.a, number, MST_K_QUANT_ENDS, s.rs, s.qs);
    mst_k_quant_wait(MST_K_QUANT_SCALES, 32 * MST_K_QUANT_ENDS);

    for (from = 0; from < units.n; from += ROUND) {
        room = from / ROUND % ROOMS;
        meet = s.meet + room * mst_k_quant_meet(T);

        for (i = number; i < ROUND * PARTS; i += MST_K_QUANT_ENDS) {
            unit = from + i / PARTS;

            if (unit < units.n) {
                e = mst_k_quant_foresee<T>(r.a, units.first + unit,
                                           token + i % PARTS * 8);
            }

            if (i == number) {
                mst_k_quant_wait(MST_K_QUANT_MET + room, THREADS);
            }

            if (unit < units.n) {
                mst_k_quant_finish<T>(r.a, e, units.first + unit,
                                      token + i % PARTS * 8,
                                      meet + i / PARTS * MST_K_QUANT_WARPS(T)
                                             * 16 * T + i % PARTS * 8, s);
            }
        }

        if (from + ROOMS * ROUND < units.n) {
            mst_k_quant_arrive(MST_K_QUANT_FREE + room, THREADS);
        }
    }

    if (number == 0 && blockIdx.x == 0) {
        mst_k_put_zeros(r.a, threadIdx.x % 32, 32);
    }
}


template <mst_k_quant_form_t FORM, int T>
__global__ void
__launch_bounds__(MST_K_QUANT_THREADS(T), 1)
mst_k_quant_kernel(const __grid_constant__ mst_k_quant_run_t r)
{
    extern __shared__ __align__(128) uint8_t  shared[];

#if __CUDA_ARCH__ < 900
    if (T > 8) {
        return;                /* is not launched: see mst_k_quant_tokens() */
    }
#endif

    uint32_t            token, warp;
    mst_k_share_t       units;
    mst_k_quant_room_t  s;

    warp = threadIdx.x / 32;
    token = blockIdx.x % r.tiles * T;
    units = mst_k_share(mst_k_gemm_units(r.a.rows), gridDim.x / r.tiles,
                        blockIdx.x / r.tiles);
    s = mst_k_quant_room<FORM>(r, T, shared);

    mst_k_ptx_launch_next();

#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
        uint32_t  i;

        for (i = 0; i < r.ring; i++) {
            mst_k_ptx_bar_init(s.full + i, 1);
            mst_k_ptx_bar_init(s.empty + i, MST_K_QUANT_WARPS(T));
        }

        *s.resolved = 0;
        mst_k_ptx_bar_fence();
    }

    __syncthreads();

    if (threadIdx.x == 32 * MST_K_QUANT_WARPS(T)) {
        mst_k_quant_bring<FORM>(r, s, units, mst_k_quant_round(T));
    }
#endif

    mst_k_ptx_wait_previous();

    if (threadIdx.x == 0) {
        *s.resolved = 1;
    }

    if (warp < MST_K_QUANT_WARPS(T)) {
        mst_k_quant_multiply<FORM, T>(r, s, units, token);

    } else if (warp > MST_K_QUANT_WARPS(T)) {
        mst_k_quant_end<T>(r, s, units, token,
                           warp - MST_K_QUANT_WARPS(T) - 1);
    }
}


template <mst_k_quant_form_t FORM, int T>
static int
mst_k_quant_start(const mst_k_gemm_t *a, const mst_k_quant_device_t *d,
    cudaStream_t stream)
{
    typedef mst_k_quant_of<FORM>  f;

    int                  rc;
    uint32_t             room;
    mst_k_quant_run_t    r;
    cudaLaunchConfig_t   config = {};
    cudaLaunchAttribute  attr = {};

    r.a = *a;
    r.ring = 0;
    r.tiles = (a->n + T - 1) / T;
    r.blocks = mst_k_quant_blocks(a->width);
    r.pass = (d->major < 9 ? MST_K_QUANT_LITTLE - 24 * 1024 : MST_K_QUANT_X)
             / (T * (256 + 8 * f::PARTS)) / 16 * 16;
    r.pass = r.pass == 0 ? 16 : r.pass;
    r.pass = r.blocks < r.pass ? r.blocks : r.pass;

    if (d->major >= 9) {
        while (r.pass > 16
               && mst_k_quant_room_size<FORM>(T, r.pass, 2)
                  > (uint32_t) d->shared)
        {
            r.pass = (r.pass - 1) / 16 * 16;
        }

        for (r.ring = MST_K_QUANT_RING; r.ring > 2; r.ring--) {
            if (mst_k_quant_room_size<FORM>(T, r.pass, r.ring)
                <= (uint32_t) d->shared)
            {
                break;
            }
        }
    }

    room = mst_k_quant_room_size<FORM>(T, r.pass, r.ring);
    room = d->major >= 9 && room < MST_K_QUANT_SHARED ? MST_K_QUANT_SHARED
                                                      : room;

    rc = cudaFuncSetAttribute(mst_k_quant_kernel<FORM, T>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              d->shared);

    if (rc == cudaSuccess) {
        rc = cudaFuncSetAttribute(mst_k_quant_kernel<FORM, T>,
                              cudaFuncAttributePreferredSharedMemoryCarveout,
                              100);
    }

    if (rc != cudaSuccess) {
        return rc;
    }

    attr.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr.val.programmaticStreamSerializationAllowed = 1;

    config.gridDim = dim3(d->n_sms < (int) r.tiles
                          ? r.tiles : d->n_sms / r.tiles * r.tiles);
    config.blockDim = dim3(MST_K_QUANT_THREADS(T));
    config.dynamicSmemBytes = room;
    config.stream = stream;
    config.attrs = &attr;
    config.numAttrs = a->pdl ? 1 : 0;

    return cudaLaunchKernelEx(&config, mst_k_quant_kernel<FORM, T>, r);
}


template <mst_k_quant_form_t FORM>
static int
mst_k_quant_tokens(const mst_k_gemm_t *a, const mst_k_quant_device_t *d,
    cudaStream_t stream)
{
    return a->n == 1 ? mst_k_quant_start<FORM, 1>(a, d, stream)
           : a->n <= 4 ? mst_k_quant_start<FORM, 4>(a, d, stream)
           : a->n <= 8 || d->major < 9
             ? mst_k_quant_start<FORM, 8>(a, d, stream)
           : mst_k_quant_start<FORM, 16>(a, d, stream);
}


#endif /* MST_K_QUANT_GEMM_CUH */
