
/*
 * Decode GEMMs: a launch, the first x of a step, and the packing of weights.
 *
 * mst_k_gemm_first: a CTA per token, 6 to 10 bytes per element of h; at the
 * limit of a launch (2 us) for all sizes of decode.
 * mst_k_gemm_pack: a CTA per row, reads and writes once (e4m3: the row's
 * second reading comes from the L1).
 */

#include <string.h>

#include "kernels/mst_k_gemm_launch.h"
#include "kernels/mst_k_gemm_plan.h"
#include "kernels/mst_k_step_map.h"


#define MST_K_FIRST_THREADS  256


static const mst_k_gemm_kind_pt  mst_k_gemm_kinds[2][2] = {
    { mst_k_gemm_bf16_slim, mst_k_gemm_bf16_wide },
    { mst_k_gemm_e4m3_slim, mst_k_gemm_e4m3_wide }
};

mst_k_gemm_run_t  mst_k_gemm_tune;


/* SMs, 0 below sm_90, of the current device; asked once */
static int
mst_k_gemm_sms(uint32_t *n_sms)
{
    int  rc, device, major, n;

    static int  known[64];           /* n + 1; all writers write the same */

    rc = cudaGetDevice(&device);

    if (rc != 0) {
        return rc;
    }

    if (device < 64 && known[device] != 0) {
        *n_sms = known[device] - 1;
        return 0;
    }

    rc = cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);

    if (rc == 0) {
        rc = cudaDeviceGetAttribute(&major,
                                    cudaDevAttrComputeCapabilityMajor,
                                    device);
    }

    if (rc != 0) {
        return rc;
    }

    /* the code of sm_90a runs there only */
    *n_sms = major == 9 ? n : 0;

    if (device < 64) {
        known[device] = *n_sms + 1;
    }

    return 0;
}


static int
mst_k_gemm_refused(const mst_k_gemm_t *a)
{
    return a->n == 0 || a->n > MST_K_GEMM_MAX || a->rows == 0
           || a->width == 0 || a->width % 64 != 0
           || (a->op != MST_K_GEMM_HEAD && a->rows % 16 != 0);
}


extern "C" int
mst_k_gemm(const mst_k_gemm_t *a, cudaStream_t stream)
{
    int                 rc;
    uint32_t            n_sms;
    mst_k_gemm_run_t    r;
    mst_k_gemm_shape_t  shape;

    if (mst_k_gemm_refused(a)) {
        return cudaErrorInvalidValue;
    }

    rc = mst_k_gemm_sms(&n_sms);

    if (rc != 0) {
        return rc;
    }

    memset(&r, 0, sizeof(r));
    r.a = *a;

    if (n_sms < MST_K_GEMM_PARTS || a->way == MST_K_GEMM_MMA) {
        r.units = mst_k_gemm_units(a->rows);
        r.slots = mst_k_gemm_slots(a->width, a->w_scale != NULL ? 1 : 2);

        return mst_k_gemm_mma(&r, stream);
    }

    shape = mst_k_gemm_plan(&r, &mst_k_gemm_tune, n_sms);

    if (r.ring == 0) {
        return cudaErrorInvalidValue;
    }

    return mst_k_gemm_kinds[a->w_scale != NULL][shape == MST_K_WIDE](
               &r, shape, n_sms, stream);
}


/* columns 2i and 2i + 1 of the token's residual */
MST_K_DEV float2
mst_k_first_pair(const mst_k_gemm_first_t &a, uint32_t token, uint32_t i)
{
    uint32_t  id, v;

    if (a.ids != NULL) {
        id = a.ids[token];
        id = id & MST_K_FED ? a.fed[id & ~MST_K_FED] : id;
        v = __ldg((const uint32_t *) a.embd + (size_t) id * (a.dim / 2) + i);

        return make_float2(__uint_as_float(v << 16),
                           __uint_as_float(v & 0xffff0000));
    }

    if (a.pick != NULL) {
        token = a.pick[token];
    }

    return __ldcg((const float2 *) (a.h + (size_t) token * a.dim) + i);
}


/* the squares of a unit are added like in the GEMM: pairs, then pairs of
   pairs, so that h gives the same sum however it came about */
MST_K_DEV void
mst_k_first_squares(const mst_k_gemm_first_t &a, float *squares)
{
    float     s;
    float2    v;
    uint32_t  i;

    for (i = threadIdx.x; i < a.dim / 2; i += MST_K_FIRST_THREADS) {
        v = mst_k_first_pair(a, blockIdx.x, i);
        s = fmaf(v.x, v.x, __fmul_rn(v.y, v.y));
        s += __shfl_xor_sync(~0u, s, 1);
        s += __shfl_xor_sync(~0u, s, 2);
        s += __shfl_xor_sync(~0u, s, 4);

        if (a.ids != NULL) {
            ((float2 *) (a.h + (size_t) blockIdx.x * a.dim))[i] = v;
        }

        if ((threadIdx.x & 7) == 0) {
            squares[i / 8] = s;
        }
    }
}


/* of one warp: the sums of slabs as floats of lanes, and their sum */
MST_K_DEV float
mst_k_first_sums(const mst_k_gemm_first_t &a, const float *squares,
    int by_units)
{
    float          s, total;
    uint32_t       n, i, slab, d;
    mst_k_share_t  share;

    n = mst_k_gemm_pad(a.n);
    total = 0;

    for (slab = threadIdx.x; slab < MST_K_GEMM_SLABS; slab += 32) {
        share = mst_k_share(a.dim / 16, MST_K_GEMM_SLABS, slab);
        s = 0;

        for (i = 0; i < share.n; i++) {
            s += squares[share.first + i];

            if (by_units) {
                a.y_sums[(size_t) (share.first + i) * n + blockIdx.x]
                    = squares[share.first + i];
            }
        }

        if (!by_units) {
            a.y_sums[slab * n + blockIdx.x] = s;
        }

        total += s;
    }

    __syncwarp();

    for (d = 1; d < 32; d *= 2) {
        total += __shfl_xor_sync(~0u, total, d);
    }

    return total;
}


static __global__ void
__launch_bounds__(MST_K_FIRST_THREADS)
mst_k_first(const __grid_constant__ mst_k_gemm_first_t a, int by_units)
{
    __shared__ float  squares[MST_K_GEMM_DIM / 16], mul;

    float     total;
    float2    v, g;
    uint32_t  i, n;

    mst_k_ptx_launch_next();
    mst_k_ptx_wait_previous();

    n = mst_k_gemm_pad(a.n);
    mst_k_first_squares(a, squares);
    __syncthreads();

    if (threadIdx.x < 32) {
        total = mst_k_first_sums(a, squares, by_units);

        if (threadIdx.x == 0) {
            mul = 1;

            if (a.y_e4m3) {
                mul = MST_K_GEMM_MUL * mst_k_per_rms(total, a.dim, a.eps);
                a.y_muls[blockIdx.x] = mul;
            }
        }
    }

    __syncthreads();

    for (i = threadIdx.x; i < a.dim / 2; i += MST_K_FIRST_THREADS) {
        v = mst_k_first_pair(a, blockIdx.x, i);
        g = __ldg((const float2 *) a.gain + i);
        mst_k_put_x(a.y, a.y_e4m3,
                    mst_k_gemm_x_at(blockIdx.x, 2 * i, n, a.y_e4m3 ? 1 : 2),
                    mst_k_mul3(v.x, g.x, mul), mst_k_mul3(v.y, g.y, mul));
    }

    if (blockIdx.x == 0) {
        mst_k_put_pad(a.y, a.y_e4m3, a.dim, n, threadIdx.x,
                      MST_K_FIRST_THREADS);
    }
}


extern "C" int
mst_k_gemm_first(const mst_k_gemm_first_t *a, cudaStream_t stream)
{
    int        rc, by_units;
    void      *args[2];
    uint32_t   n_sms;

    if (a->n == 0 || a->n > MST_K_GEMM_MAX || a->dim % 64 != 0
        || a->dim > MST_K_GEMM_DIM)
    {
        return cudaErrorInvalidValue;
    }

    rc = mst_k_gemm_sms(&n_sms);

    if (rc != 0) {
        return rc;
    }

    by_units = a->n <= MST_K_GEMM_THIN || n_sms < MST_K_GEMM_PARTS
               || a->way == MST_K_GEMM_MMA;
    args[0] = (void *) a;
    args[1] = &by_units;

    return mst_k_launch((const void *) mst_k_first, dim3(a->n),
                        dim3(MST_K_FIRST_THREADS), 0,
                        a->pdl && n_sms, args, stream);
}


MST_K_DEV float
mst_k_pack_largest(const uint4 *src, uint32_t n, float *shared)
{
    float     m;
    uint4     v;
    uint32_t  i, d;

    m = 0;

    for (i = threadIdx.x; i < n; i += blockDim.x) {
        v = src[i];

#pragma unroll
        for (d = 0; d < 4; d++) {
            m = fmaxf(m, fabsf(__uint_as_float((&v.x)[d] << 16)));
            m = fmaxf(m, fabsf(__uint_as_float((&v.x)[d] & 0xffff0000)));
        }
    }

    for (d = 16; d > 0; d /= 2) {
        m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    }

    if ((threadIdx.x & 31) == 0) {
        shared[threadIdx.x >> 5] = m;
    }

    __syncthreads();

    for (d = 0; d < blockDim.x / 32; d++) {
        m = fmaxf(m, shared[d]);
    }

    return m;
}


/* a row that is e4m3 already */
MST_K_DEV void
mst_k_pack_bytes(const mst_k_gemm_pack_t &a, uint32_t t)
{
    uint32_t      i;
    const uint4  *src;

    src = (const uint4 *) ((const uint8_t *) a.src
                           + (size_t) blockIdx.x * a.width);

    for (i = threadIdx.x; i < a.width / 16; i += blockDim.x) {
        *(uint4 *) ((char *) a.w + mst_k_gemm_w_at(t, i * 16, a.of, a.width,
                                                   1)) = src[i];
    }

    if (threadIdx.x == 0) {
        a.w_scale[t] = a.src_scale[blockIdx.x];
    }
}


static __global__ void
__launch_bounds__(128)
mst_k_pack(const __grid_constant__ mst_k_gemm_pack_t a)
{
    __shared__ float  shared[4];

    char         *to;
    float         largest, mul;
    uint4         v;
    uint2         q;
    uint32_t      i, d, t;
    const uint4  *src;

    t = a.gate ? mst_k_gemm_gate_row(a.gate - 1, blockIdx.x)
               : mst_k_gemm_row(a.first + blockIdx.x);

    if (a.src_scale != NULL) {
        mst_k_pack_bytes(a, t);
        return;
    }

    src = (const uint4 *) ((const uint16_t *) a.src
                           + (size_t) blockIdx.x * a.width);

    if (a.w_scale == NULL) {
        for (i = threadIdx.x; i < a.width / 8; i += blockDim.x) {
            to = (char *) a.w + mst_k_gemm_w_at(t, i * 8, a.of, a.width, 2);
            *(uint4 *) to = src[i];
        }

        return;
    }

    largest = mst_k_pack_largest(src, a.width / 8, shared);
    mul = largest > 0 ? 448 / largest : 0;

    if (threadIdx.x == 0) {
        a.w_scale[t] = largest / 448;
    }

    for (i = threadIdx.x; i < a.width / 8; i += blockDim.x) {
        v = src[i];
        q = make_uint2(0, 0);

#pragma unroll
        for (d = 0; d < 4; d++) {
            (&q.x)[d / 2] |= mst_k_e4m3x2(
                __uint_as_float((&v.x)[d] << 16) * mul,
                __uint_as_float((&v.x)[d] & 0xffff0000) * mul)
                << d % 2 * 16;
        }

        to = (char *) a.w + mst_k_gemm_w_at(t, i * 8, a.of, a.width, 1);
        *(uint2 *) to = q;
    }
}


extern "C" int
mst_k_gemm_pack(const mst_k_gemm_pack_t *a, cudaStream_t stream)
{
    void  *args[1];

    if (a->rows == 0 || a->width == 0 || a->width % 64 != 0
        || (a->gate ? a->rows % 8 != 0 || a->of != 2 * a->rows
                    : (uint64_t) a->first + a->rows > a->of)
        || (a->src_scale != NULL && a->w_scale == NULL))
    {
        return cudaErrorInvalidValue;
    }

    args[0] = (void *) a;

    return cudaLaunchKernel((const void *) mst_k_pack, dim3(a->rows),
                            dim3(128), args, 0, stream);
}
