
/*
 * Rows of e4m3: see mst_k_e4m3.h.  A CTA has a row and keeps it in registers
 * until its largest element is known; what of a row is longer than these is
 * computed twice.  Bytes in are 2 width (norm 4 dim, with a product 10 dim,
 * gate 4 ff_dim), out width.  Bound by bytes.
 */

#include <cuda_fp8.h>

#include "kernels/mst_k_launch.cuh"
#include "kernels/mst_k_e4m3.h"

#define MST_K_E4M3_MOST     448.0f
#define MST_K_E4M3_THREADS  512
#define MST_K_E4M3_KEPT     4          /* groups of 8 that a thread keeps */


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
mst_k_e4m3_unpack(const uint16_t *p, float *f)
{
    uint32_t  i;
    uint4     v;

    v = __ldg((const uint4 *) p);

#pragma unroll
    for (i = 0; i < 4; i++) {
        f[2 * i] = __uint_as_float((&v.x)[i] << 16);
        f[2 * i + 1] = __uint_as_float((&v.x)[i] & 0xffff0000);
    }
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


/* a row of "get(i, f)", 8 elements from 8 i on */

template <class G>
static __device__ __forceinline__ void
mst_k_e4m3_row(const G &get, uint32_t width, uint8_t *to, float *scale)
{
    float     kept[MST_K_E4M3_KEPT][8], f[8], largest, factor;
    uint32_t  i, k, n;

    n = width / 8;
    largest = 0;

#pragma unroll
    for (k = 0; k < MST_K_E4M3_KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            get(i, kept[k]);
            largest = mst_k_e4m3_largest(kept[k], largest);
        }
    }

    for (i = threadIdx.x + k * blockDim.x; i < n; i += blockDim.x) {
        get(i, f);
        largest = mst_k_e4m3_largest(f, largest);
    }

    factor = mst_k_e4m3_factor(largest, scale + blockIdx.x);
    to += (size_t) blockIdx.x * width;

#pragma unroll
    for (k = 0; k < MST_K_E4M3_KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            mst_k_e4m3_put(to + 8 * i, kept[k], factor);
        }
    }

    for (i = threadIdx.x + k * blockDim.x; i < n; i += blockDim.x) {
        get(i, f);
        mst_k_e4m3_put(to + 8 * i, f, factor);
    }
}


static __global__ void
__launch_bounds__(MST_K_E4M3_THREADS)
mst_k_e4m3_rows_kernel(const __grid_constant__ mst_k_e4m3_rows_t a)
{
    const uint16_t  *from;

    mst_k_pdl_wait();

    from = a.from + (size_t) blockIdx.x * a.width;

    mst_k_e4m3_row([&](uint32_t i, float *f) {
        mst_k_e4m3_unpack(from + 8 * i, f);
    }, a.width, a.to, a.scale);
}


extern "C" int
mst_k_e4m3_rows(const mst_k_e4m3_rows_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_e4m3_rows_kernel, a->rows,
                        a->width >= 4096 ? MST_K_E4M3_THREADS : 128, 0,
                        stream, *a);
}


/* 8 columns of h, with the product */

static __device__ __forceinline__ void
mst_k_e4m3_added(const mst_k_e4m3_norm_t &a, uint32_t i, float scale,
    float *f)
{
    float      y[8];
    float4    *h;
    uint32_t   k;

    h = (float4 *) (a.h + (size_t) blockIdx.x * a.dim) + 2 * i;
    *(float4 *) f = h[0];
    *(float4 *) (f + 4) = h[1];

    if (a.y == NULL) {
        return;
    }

    mst_k_e4m3_unpack(a.y + (size_t) blockIdx.x * a.dim + 8 * i, y);

#pragma unroll
    for (k = 0; k < 8; k++) {
        f[k] += y[k] * scale * __ldg(a.y_scale + 8 * i + k)
                + (a.bias ? __ldg(a.bias + 8 * i + k) : 0);
    }

    h[0] = *(float4 *) f;
    h[1] = *(float4 *) (f + 4);
}


/* sums of squares and the largest of what is multiplied by the gain */

static __device__ __forceinline__ void
mst_k_e4m3_weigh(const mst_k_e4m3_norm_t &a, uint32_t i, float *f,
    float *sum, float *largest)
{
    uint32_t  k;

#pragma unroll
    for (k = 0; k < 8; k++) {
        *sum += f[k] * f[k];
        f[k] *= __ldg(a.gain + 8 * i + k);
    }

    *largest = mst_k_e4m3_largest(f, *largest);
}


static __global__ void
__launch_bounds__(MST_K_E4M3_THREADS)
mst_k_e4m3_norm_kernel(const __grid_constant__ mst_k_e4m3_norm_t a)
{
    float          kept[MST_K_E4M3_KEPT][8], f[8], r, sum, largest, scale;
    uint32_t       i, k, n;
    uint8_t       *to;
    const float   *h;

    mst_k_pdl_wait();

    n = a.dim / 8;
    scale = a.y_mul != 0 ? a.y_mul : a.scale[blockIdx.x];
    sum = largest = 0;

#pragma unroll
    for (k = 0; k < MST_K_E4M3_KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            mst_k_e4m3_added(a, i, scale, kept[k]);

            if (a.to) {
                mst_k_e4m3_weigh(a, i, kept[k], &sum, &largest);
            }
        }
    }

    for (i = threadIdx.x + k * blockDim.x; i < n; i += blockDim.x) {
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
    for (k = 0; k < MST_K_E4M3_KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            mst_k_e4m3_put(to + 8 * i, kept[k], r);
        }
    }

    h = a.h + (size_t) blockIdx.x * a.dim;

    for (i = threadIdx.x + k * blockDim.x; i < n; i += blockDim.x) {
        *(float4 *) f = ((const float4 *) h)[2 * i];
        *(float4 *) (f + 4) = ((const float4 *) h)[2 * i + 1];
        mst_k_e4m3_weigh(a, i, f, &sum, &largest);
        mst_k_e4m3_put(to + 8 * i, f, r);
    }
}


extern "C" int
mst_k_e4m3_norm(const mst_k_e4m3_norm_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_e4m3_norm_kernel, a->rows,
                        a->dim >= 2048 ? MST_K_E4M3_THREADS : 128, 0, stream,
                        *a);
}


/* 8 gated values from column 8 i on */

static __device__ __forceinline__ void
mst_k_e4m3_gated(const mst_k_e4m3_gate_t &a, uint32_t i, float *g)
{
    float            u[8];
    uint32_t         k;
    const uint16_t  *from;

    from = a.gate_up + (size_t) blockIdx.x * 2 * a.ff_dim + 8 * i;
    mst_k_e4m3_unpack(from, g);
    mst_k_e4m3_unpack(from + a.ff_dim, u);

#pragma unroll
    for (k = 0; k < 8; k++) {
        if (a.gate_bias) {
            g[k] += a.gate_bias[8 * i + k];
        }

        if (a.up_bias) {
            u[k] += a.up_bias[8 * i + k];
        }

        g[k] = __fdividef(g[k], 1 + __expf(-g[k])) * u[k];
    }
}


static __global__ void
__launch_bounds__(MST_K_E4M3_THREADS)
mst_k_e4m3_gate_kernel(const __grid_constant__ mst_k_e4m3_gate_t a)
{
    mst_k_pdl_wait();

    mst_k_e4m3_row([&](uint32_t i, float *g) {
        mst_k_e4m3_gated(a, i, g);
    }, a.ff_dim, a.to, a.scale);
}


extern "C" int
mst_k_e4m3_gate(const mst_k_e4m3_gate_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_e4m3_gate_kernel, a->rows,
                        a->ff_dim >= 4096 ? MST_K_E4M3_THREADS : 128, 0,
                        stream, *a);
}
