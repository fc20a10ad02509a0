
/*
 * The kernel of the decode GEMM over quantised weights and its launch:
 * mst_k_quant_gemm.cu says what it does.
 */

#ifndef MST_K_QUANT_GEMM_CUH
#define MST_K_QUANT_GEMM_CUH

#include "kernels/mst_k_quant_end.cuh"
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


/* where in the ring */
typedef struct {
    uint32_t  place;
    uint32_t  phase;
} mst_k_quant_turn_t;


static __device__ __forceinline__ void
mst_k_quant_turn(mst_k_quant_turn_t *at, uint32_t ring)
{
    if (++at->place == ring) {
        at->place = 0;
        at->phase ^= 1;
    }
}


#if __CUDA_ARCH__ >= 900

/* chunks that are brought: where the next one goes, where the oldest one is
   that may be under way beside it, how many there were */
typedef struct {
    mst_k_quant_turn_t  next;
    mst_k_quant_turn_t  oldest;
    uint32_t            n;
    uint64_t            policy;
} mst_k_quant_fill_t;


/* a unit's chunks of the blocks from "block" on */

template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ void
mst_k_quant_bring_unit(const mst_k_quant_run_t &r, const mst_k_quant_op_t &op,
    const mst_k_quant_room_t &s, uint32_t unit, uint32_t block,
    mst_k_quant_fill_t *at)
{
    typedef mst_k_quant_of<FORM>  f;

    uint32_t        n, size;
    uint64_t       *full;
    const uint8_t  *w;

    w = (const uint8_t *) op.a.w + (size_t) unit * op.blocks * f::BLOCK;

    for (n = block; n < min(block + op.pass, op.blocks); n += f::CHUNK) {
        mst_k_ptx_bar_wait(s.empty + at->next.place, at->next.phase);

        if (at->n++ >= r.flight) {
            mst_k_ptx_bar_wait(s.full + at->oldest.place, at->oldest.phase);
            mst_k_quant_turn(&at->oldest, r.ring);
        }

        size = min(f::CHUNK, op.blocks - n) * f::BLOCK;
        full = s.full + at->next.place;

        mst_k_ptx_bar_expect(full, size);
        mst_k_ptx_copy(s.ring + at->next.place * f::CHUNK * f::BLOCK,
                       w + (size_t) n * f::BLOCK, size, full, at->policy);
        mst_k_quant_turn(&at->next, r.ring);
    }
}


/* the chunks of this CTA, in the order in which they are read; an operation's
   come while the one before it ends */

template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ void
mst_k_quant_bring(const mst_k_quant_run_t &r, const mst_k_quant_room_t &s,
    uint32_t round)
{
    uint32_t            block, from, k, unit;
    mst_k_share_t       units;
    mst_k_quant_fill_t  at;

    at.n = 0;
    at.next.place = at.oldest.place = at.oldest.phase = 0;
    at.next.phase = 1;
    at.policy = r.tiles == 1 ? mst_k_ptx_once() : mst_k_ptx_often();

    for (k = 0; k < r.n_ops; k++) {
        const mst_k_quant_op_t  &op = r.op[k];

        units = mst_k_quant_units(r, op);

        for (from = 0; from < units.n; from += round) {
            for (block = 0; block < op.blocks; block += op.pass) {
                for (unit = from; unit < min(units.n, from + round); unit++) {
                    mst_k_quant_bring_unit<FORM>(r, op, s, units.first + unit,
                                                 block, &at);
                }
            }
        }
    }
}

#endif


/* a unit's blocks whose x is in shared memory */

template <mst_k_quant_form_t FORM, int T>
static __device__ __forceinline__ void
mst_k_quant_unit(const mst_k_quant_run_t &r, const mst_k_quant_op_t &op,
    const mst_k_quant_room_t &s, uint32_t unit, uint32_t block,
    mst_k_quant_turn_t *at, float (*acc)[2])
{
    typedef mst_k_quant_of<FORM>  f;

    uint32_t        n, pass;
    const uint8_t  *chunk;

    pass = min(op.pass, op.blocks - block);

    for (n = 0; n < pass; n += f::CHUNK) {
#if __CUDA_ARCH__ >= 900
        chunk = s.ring + at->place * f::CHUNK * f::BLOCK;
        mst_k_ptx_bar_wait(s.full + at->place, at->phase);
#else
        chunk = (const uint8_t *) op.a.w
                + ((size_t) unit * op.blocks + block + n) * f::BLOCK;
#endif
        mst_k_quant_strip<FORM, T>(chunk, n,
                                   min(f::CHUNK, op.blocks - block - n),
                                   s.x + n * T * 256,
                                   s.xs + n * f::PARTS * T, acc);
#if __CUDA_ARCH__ >= 900
        __syncwarp();

        if (threadIdx.x % 32 == 0) {
            mst_k_ptx_bar_arrive(s.empty + at->place);
        }

        mst_k_quant_turn(at, r.ring);
#endif
    }
}


/* an operation by a warp that multiplies */

template <mst_k_quant_form_t FORM, int T>
static __device__ __forceinline__ void
mst_k_quant_multiply(const mst_k_quant_run_t &r, const mst_k_quant_op_t &op,
    const mst_k_quant_room_t &s, uint32_t token, mst_k_quant_turn_t *at)
{
    const uint32_t  ROUND = mst_k_quant_round(T);
    const uint32_t  ROOMS = mst_k_quant_rooms(T);

    float          acc[MST_K_QUANT_TILES(T)][2], *meet;
    uint32_t       block, from, i, room, unit;
    mst_k_share_t  units;

    units = mst_k_quant_units(r, op);

    for (from = 0; from < units.n; from += ROUND) {
        room = from / ROUND % ROOMS;
        meet = s.meet + room * mst_k_quant_meet(T)
               + threadIdx.x / 32 * 16 * T;

        if (from >= ROOMS * ROUND) {
            mst_k_quant_wait(MST_K_QUANT_FREE + room, mst_k_quant_both<T>());
        }

        for (block = 0; block < op.blocks; block += op.pass) {

            if (from == 0 || op.pass < op.blocks) {
                __syncwarp();
                mst_k_quant_fetch<FORM, T>(op.a, s, block,
                                           min(op.pass, op.blocks - block),
                                           token);
                __syncwarp();
            }

            for (unit = from; unit < min(units.n, from + ROUND); unit++) {
                i = (unit - from) * MST_K_QUANT_WARPS(T) * 16 * T;

                mst_k_quant_resume<T>(acc, meet + i, block > 0);
                mst_k_quant_unit<FORM, T>(r, op, s, units.first + unit, block,
                                          at, acc);
                mst_k_quant_leave<T>(acc, meet + i);
            }
        }

        mst_k_quant_arrive(MST_K_QUANT_MET + room, mst_k_quant_both<T>());
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

    uint32_t            k, token, warp;
    mst_k_quant_room_t  s;
    mst_k_quant_turn_t  at;

    warp = threadIdx.x / 32;
    token = blockIdx.x % r.tiles * T;
    s = mst_k_quant_room<FORM>(r, T, shared);

    mst_k_ptx_launch_next();

#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
        for (k = 0; k < r.ring; k++) {
            mst_k_ptx_bar_init(s.full + k, 1);
            mst_k_ptx_bar_init(s.empty + k, MST_K_QUANT_WARPS(T));
        }

        mst_k_ptx_bar_fence();
    }

    __syncthreads();

    if (threadIdx.x == 32 * MST_K_QUANT_WARPS(T)) {
        mst_k_quant_bring<FORM>(r, s, mst_k_quant_round(T));
    }
#endif

    mst_k_ptx_wait_previous();

    if (warp < MST_K_QUANT_WARPS(T)) {
        at.place = 0;
        at.phase = 0;

        for (k = 0; k < mst_k_quant_count(r); k++) {
            if (k) {
                mst_k_quant_wait(MST_K_QUANT_NEXT, mst_k_quant_both<T>());
            }

            mst_k_quant_multiply<FORM, T>(r, r.op[k], s, token, &at);
        }

    } else if (warp > MST_K_QUANT_WARPS(T)) {
        mst_k_quant_ends<T>(r, s, token, warp - MST_K_QUANT_WARPS(T) - 1);
    }
}


/* what of x stands in shared memory, and how many chunks; bytes of it all */

template <mst_k_quant_form_t FORM, int T>
static uint32_t
mst_k_quant_arrange(mst_k_quant_run_t *r, const mst_k_quant_device_t *d)
{
    typedef mst_k_quant_of<FORM>  f;

    uint32_t  k, most, room;

    most = 0;

    for (k = 0; k < r->n_ops; k++) {
        r->op[k].blocks = mst_k_quant_blocks(r->op[k].a.width);
        most = r->op[k].blocks > most ? r->op[k].blocks : most;
    }

    r->ring = 0;
    r->pass = (d->major < 9 ? MST_K_QUANT_LITTLE - 24 * 1024 : MST_K_QUANT_X)
              / (T * (256 + 8 * f::PARTS)) / 16 * 16;
    r->pass = r->pass == 0 ? 16 : r->pass;
    r->pass = most < r->pass ? most : r->pass;

    if (d->major >= 9) {
        while (r->pass > 16
               && mst_k_quant_room_size<FORM>(T, r->pass, 2)
                  > (uint32_t) d->shared)
        {
            r->pass = (r->pass - 1) / 16 * 16;
        }

        for (r->ring = MST_K_QUANT_RING; r->ring > 2; r->ring--) {
            if (mst_k_quant_room_size<FORM>(T, r->pass, r->ring)
                <= (uint32_t) d->shared)
            {
                break;
            }
        }
    }

    for (k = 0; k < r->n_ops; k++) {
        r->op[k].pass = r->op[k].blocks < r->pass ? r->op[k].blocks
                                                  : r->pass;
    }

    room = mst_k_quant_room_size<FORM>(T, r->pass, r->ring);

    return d->major >= 9 && room < MST_K_QUANT_SHARED ? MST_K_QUANT_SHARED
                                                      : room;
}


template <mst_k_quant_form_t FORM, int T>
static int
mst_k_quant_start(const mst_k_quant_ops_t *ops, const mst_k_quant_device_t *d,
    cudaStream_t stream)
{
    typedef mst_k_quant_of<FORM>  f;

    int                  rc;
    uint32_t             k;
    mst_k_quant_run_t    r;
    cudaLaunchConfig_t   config = {};
    cudaLaunchAttribute  attr = {};

    for (k = 0; k < ops->n; k++) {
        r.op[k].a = ops->a[k];
    }

    r.n_ops = ops->n;
    r.met = ops->met;
    r.tiles = (ops->a->n + T - 1) / T;

    config.dynamicSmemBytes = mst_k_quant_arrange<FORM, T>(&r, d);
    r.flight = MST_K_QUANT_FLIGHT(f::W4);
    r.flight = r.ring < r.flight ? r.ring : r.flight;

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
    config.stream = stream;
    config.attrs = &attr;
    config.numAttrs = ops->a->pdl ? 1 : 0;

    return cudaLaunchKernelEx(&config, mst_k_quant_kernel<FORM, T>, r);
}


template <mst_k_quant_form_t FORM>
static int
mst_k_quant_tokens(const mst_k_quant_ops_t *ops,
    const mst_k_quant_device_t *d, cudaStream_t stream)
{
    uint32_t  n;

    n = ops->a->n;

    return n == 1 ? mst_k_quant_start<FORM, 1>(ops, d, stream)
           : n <= 4 ? mst_k_quant_start<FORM, 4>(ops, d, stream)
           : n <= 8 || d->major < 9
             ? mst_k_quant_start<FORM, 8>(ops, d, stream)
           : mst_k_quant_start<FORM, 16>(ops, d, stream);
}


#endif /* MST_K_QUANT_GEMM_CUH */
