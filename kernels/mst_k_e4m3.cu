
/*
 * Rows of e4m3: see mst_k_e4m3.h.  A CTA has a row and keeps it in registers
 * until its largest element is known; what of a row is longer than these is
 * computed twice.  Bytes in are 2 width (norm 4 dim, with a product 10 dim,
 * gate 4 ff_dim), out width.  Bound by bytes.
 *
 * Measured on an H200 on 30 November 2026, in an engine's prompt of 2,048 rows
 * of a Mistral-7B (CUPTI), us: norm with a product 26.5 (3.5 TB/s; 39.2 while
 * a thread read scales and gains one by one, two rows on a multiprocessor),
 * gate 39.4 (3.7 TB/s; 49.4 while it loaded a group at a time), rows of 4,096
 * 24, of which 14 are not beside attention's end.
 */

#include <cuda_fp8.h>

#include "kernels/mst_k_launch.cuh"
#include "kernels/mst_k_e4m3.h"

#define MST_K_E4M3_MOST     448.0f
#define MST_K_E4M3_THREADS  512
#define MST_K_E4M3_KEPT     4          /* groups of 8 that a thread keeps */

/* CTAs of short rows that an SM shall hold, of 2,048 threads or of 1,536 */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900
#define MST_K_E4M3_CTAS     3
#else
#define MST_K_E4M3_CTAS     4
#endif


/* over a block of whole warps; all threads get it */

static __device__ __forceinline__ float
mst_k_block_max(float v)
{
    float              most;
    uint32_t           i;
    __shared__ float   warps[32];

    for (i = 16; i; i >>= 1) {
        v = fmaxf(v, __shfl_xor_sync(~0u, v, i));
    }

    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = v;
    }

    __syncthreads();

    for (i = 0, most = 0; i < blockDim.x / 32; i++) {
        most = fmaxf(most, warps[i]);
    }

    return most;
}


/* the factor of elements; a row of zeros stays one */

static __device__ __forceinline__ float
mst_k_e4m3_factor(float largest, float *scale)
{
    largest = mst_k_block_max(largest);

    if (threadIdx.x == 0) {
        *scale = largest / MST_K_E4M3_MOST;
    }

    return largest > 0 ? MST_K_E4M3_MOST / largest : 0;
}


static __device__ __forceinline__ uint32_t
mst_k_e4m3x4(float a, float b, float c, float d)
{
    return (uint32_t) __nv_cvt_float2_to_fp8x2(make_float2(a, b),
                                               __NV_SATFINITE, __NV_E4M3)
           | (uint32_t) __nv_cvt_float2_to_fp8x2(make_float2(c, d),
                                                 __NV_SATFINITE, __NV_E4M3)
             << 16;
}


static __device__ __forceinline__ void
mst_k_e4m3_widen(const uint4 &v, float *f)
{
    uint32_t  i;

#pragma unroll
    for (i = 0; i < 4; i++) {
        f[2 * i] = __uint_as_float((&v.x)[i] << 16);
        f[2 * i + 1] = __uint_as_float((&v.x)[i] & 0xffff0000);
    }
}


static __device__ __forceinline__ void
mst_k_e4m3_unpack(const uint16_t *p, float *f)
{
    mst_k_e4m3_widen(__ldg((const uint4 *) p), f);
}


/* 8 elements of a vector of floats */

static __device__ __forceinline__ void
mst_k_e4m3_vector(const float *p, float *f)
{
    *(float4 *) f = __ldg((const float4 *) p);
    *(float4 *) (f + 4) = __ldg((const float4 *) p + 1);
}


static __device__ __forceinline__ float
mst_k_e4m3_largest(const float *f, float largest)
{
    uint32_t  i;

#pragma unroll
    for (i = 0; i < 8; i++) {
        largest = fmaxf(largest, fabsf(f[i]));
    }

    return largest;
}


static __device__ __forceinline__ void
mst_k_e4m3_put(uint8_t *to, const float *f, float factor)
{
    *(uint2 *) to = make_uint2(
        mst_k_e4m3x4(f[0] * factor, f[1] * factor, f[2] * factor,
                     f[3] * factor),
        mst_k_e4m3x4(f[4] * factor, f[5] * factor, f[6] * factor,
                     f[7] * factor));
}


static __device__ __forceinline__ float
mst_k_e4m3_per(float f)
{
    float  r;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(f));

    return r;
}


/* a row of 8 elements "f" from 8 i on, which come of what is loaded for them:
   all KEPT groups that a thread keeps are on their way before the first is
   computed; with one there are no others */

template <int KEPT, class G>
static __device__ __forceinline__ void
mst_k_e4m3_row(const G &get, uint32_t width, uint8_t *to, float *scale)
{
    float            kept[KEPT][8], f[8], largest, factor;
    uint32_t         i, k, n;
    typename G::raw  raw[KEPT], more;

    n = width / 8;
    largest = 0;

#pragma unroll
    for (k = 0; k < KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            raw[k] = get.load(i);
        }
    }

#pragma unroll
    for (k = 0; k < KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            get.make(i, raw[k], kept[k]);
            largest = mst_k_e4m3_largest(kept[k], largest);
        }
    }

    for (i = threadIdx.x + k * blockDim.x; KEPT > 1 && i < n;
         i += blockDim.x)
    {
        more = get.load(i);
        get.make(i, more, f);
        largest = mst_k_e4m3_largest(f, largest);
    }

    factor = mst_k_e4m3_factor(largest, scale + blockIdx.x);
    to += (size_t) blockIdx.x * width;

#pragma unroll
    for (k = 0; k < KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            mst_k_e4m3_put(to + 8 * i, kept[k], factor);
        }
    }

    for (i = threadIdx.x + k * blockDim.x; KEPT > 1 && i < n;
         i += blockDim.x)
    {
        more = get.load(i);
        get.make(i, more, f);
        mst_k_e4m3_put(to + 8 * i, f, factor);
    }
}


struct mst_k_e4m3_plain {
    typedef uint4    raw;

    const uint16_t  *from;

    __device__ __forceinline__ raw
    load(uint32_t i) const
    {
        return __ldg((const uint4 *) (from + 8 * i));
    }

    __device__ __forceinline__ void
    make(uint32_t i, const raw &v, float *f) const
    {
        (void) i;
        mst_k_e4m3_widen(v, f);
    }
};


template <int KEPT>
static __global__ void
__launch_bounds__(MST_K_E4M3_THREADS, KEPT == 1 ? MST_K_E4M3_CTAS : 2)
mst_k_e4m3_rows_kernel(const __grid_constant__ mst_k_e4m3_rows_t a)
{
    mst_k_e4m3_plain  get;

    mst_k_pdl_wait();

    get.from = a.from + (size_t) blockIdx.x * a.width;
    mst_k_e4m3_row<KEPT>(get, a.width, a.to, a.scale);
}


extern "C" int
mst_k_e4m3_rows(const mst_k_e4m3_rows_t *a, cudaStream_t stream)
{
    uint32_t  threads;

    threads = a->width >= 4096 ? MST_K_E4M3_THREADS : 128;

    return mst_k_launch(a->width <= 8 * threads
                        ? mst_k_e4m3_rows_kernel<1>
                        : mst_k_e4m3_rows_kernel<MST_K_E4M3_KEPT>, a->rows,
                        threads, 0, stream, *a);
}


/* 8 columns of h, with the product */

static __device__ __forceinline__ void
mst_k_e4m3_added(const mst_k_e4m3_norm_t &a, uint32_t i, float scale,
    float *f)
{
    float      bias[8] = { 0 }, s[8], y[8];
    float4    *h;
    uint32_t   k;

    h = (float4 *) (a.h + (size_t) blockIdx.x * a.dim) + 2 * i;
    *(float4 *) f = h[0];
    *(float4 *) (f + 4) = h[1];

    if (a.y == NULL) {
        return;
    }

    mst_k_e4m3_unpack(a.y + (size_t) blockIdx.x * a.dim + 8 * i, y);
    mst_k_e4m3_vector(a.y_scale + 8 * i, s);

    if (a.bias) {
        mst_k_e4m3_vector(a.bias + 8 * i, bias);
    }

#pragma unroll
    for (k = 0; k < 8; k++) {
        f[k] += y[k] * scale * s[k] + bias[k];
    }

    h[0] = *(float4 *) f;
    h[1] = *(float4 *) (f + 4);
}


/* sums of squares and the largest of what is multiplied by the gain */

static __device__ __forceinline__ void
mst_k_e4m3_weigh(const mst_k_e4m3_norm_t &a, uint32_t i, float *f,
    float *sum, float *largest)
{
    float     gain[8];
    uint32_t  k;

    mst_k_e4m3_vector(a.gain + 8 * i, gain);

#pragma unroll
    for (k = 0; k < 8; k++) {
        *sum += f[k] * f[k];
        f[k] *= gain[k];
    }

    *largest = mst_k_e4m3_largest(f, *largest);
}


/* KEPT: groups of 8 that a thread keeps; with one, up to 4,096 columns, three
   rows are on a multiprocessor */

template <int KEPT>
static __global__ void
__launch_bounds__(MST_K_E4M3_THREADS, KEPT == 1 ? 3 : 1)
mst_k_e4m3_norm_kernel(const __grid_constant__ mst_k_e4m3_norm_t a)
{
    float          kept[KEPT][8], f[8], r, sum, largest, scale;
    uint32_t       i, k, n;
    uint8_t       *to;
    const float   *h;

    mst_k_pdl_wait();

    n = a.dim / 8;
    scale = a.y_mul != 0 ? a.y_mul : a.scale[blockIdx.x];
    sum = largest = 0;

#pragma unroll
    for (k = 0; k < KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            mst_k_e4m3_added(a, i, scale, kept[k]);

            if (a.to) {
                mst_k_e4m3_weigh(a, i, kept[k], &sum, &largest);
            }
        }
    }

    for (i = threadIdx.x + k * blockDim.x; KEPT > 1 && i < n;
         i += blockDim.x)
    {
        mst_k_e4m3_added(a, i, scale, f);

        if (a.to) {
            mst_k_e4m3_weigh(a, i, f, &sum, &largest);
        }
    }

    if (a.to == NULL) {
        return;
    }

    /* its barriers are between all readings of scale and its writing */

    r = rsqrtf(mst_k_block_sum(sum) / a.dim + a.eps);
    r *= mst_k_e4m3_factor(largest * r, a.scale + blockIdx.x);
    to = a.to + (size_t) blockIdx.x * a.dim;

#pragma unroll
    for (k = 0; k < KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            mst_k_e4m3_put(to + 8 * i, kept[k], r);
        }
    }

    h = a.h + (size_t) blockIdx.x * a.dim;

    for (i = threadIdx.x + k * blockDim.x; KEPT > 1 && i < n;
         i += blockDim.x)
    {
        *(float4 *) f = ((const float4 *) h)[2 * i];
        *(float4 *) (f + 4) = ((const float4 *) h)[2 * i + 1];
        mst_k_e4m3_weigh(a, i, f, &sum, &largest);
        mst_k_e4m3_put(to + 8 * i, f, r);
    }
}


extern "C" int
mst_k_e4m3_norm(const mst_k_e4m3_norm_t *a, cudaStream_t stream)
{
    uint32_t  threads;

    threads = a->dim >= 2048 ? MST_K_E4M3_THREADS : 128;

    return mst_k_launch(a->dim <= 8 * threads
                        ? mst_k_e4m3_norm_kernel<1>
                        : mst_k_e4m3_norm_kernel<MST_K_E4M3_KEPT>, a->rows,
                        threads, 0, stream, *a);
}


/* gated values; the division's own care of denominators beyond 2^126 gives
   what a reciprocal of 0 does */

struct mst_k_e4m3_gated {
    struct raw {
        uint4  gate;
        uint4  up;
    };

    const mst_k_e4m3_gate_t  &a;

    __device__ __forceinline__ raw
    load(uint32_t i) const
    {
        raw           v;
        const uint4  *from;

        from = (const uint4 *) (a.gate_up
                                + (size_t) blockIdx.x * 2 * a.ff_dim);
        v.gate = __ldg(from + i);
        v.up = __ldg(from + a.ff_dim / 8 + i);

        return v;
    }

    __device__ __forceinline__ void
    make(uint32_t i, const raw &v, float *g) const
    {
        float     u[8];
        uint32_t  k;

        mst_k_e4m3_widen(v.gate, g);
        mst_k_e4m3_widen(v.up, u);

        if (a.gate_bias || a.up_bias) {
#pragma unroll
            for (k = 0; k < 8; k++) {
                g[k] += a.gate_bias ? a.gate_bias[8 * i + k] : 0;
                u[k] += a.up_bias ? a.up_bias[8 * i + k] : 0;
            }
        }

#pragma unroll
        for (k = 0; k < 8; k++) {
            g[k] = g[k] * mst_k_e4m3_per(1 + __expf(-g[k])) * u[k];
        }
    }
};


static __global__ void
__launch_bounds__(MST_K_E4M3_THREADS, 2)
mst_k_e4m3_gate_kernel(const __grid_constant__ mst_k_e4m3_gate_t a)
{
    mst_k_e4m3_gated  get = { a };

    mst_k_pdl_wait();

    mst_k_e4m3_row<MST_K_E4M3_KEPT>(get, a.ff_dim, a.to, a.scale);
}


extern "C" int
mst_k_e4m3_gate(const mst_k_e4m3_gate_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_e4m3_gate_kernel, a->rows,
                        a->ff_dim >= 4096 ? MST_K_E4M3_THREADS : 128, 0,
                        stream, *a);
}
