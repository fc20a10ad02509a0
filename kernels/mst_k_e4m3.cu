
/*
 * Rows of e4m3: see mst_k_e4m3.h.  A CTA has a row, and reads it twice (the
 * norm: three times), from the L1 or L2 but for the first: bytes in are
 * 2 width (norm 4 dim, gate 4 ff_dim), out width.  Bound by bytes.
 */

#include <cuda_fp8.h>

#include "kernels/mst_k_launch.cuh"
#include "kernels/mst_k_e4m3.h"

#define MST_K_E4M3_MOST     448.0f
#define MST_K_E4M3_THREADS  512


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


static __global__ void
__launch_bounds__(MST_K_E4M3_THREADS)
mst_k_e4m3_rows_kernel(const __grid_constant__ mst_k_e4m3_rows_t a)
{
    float            f[8], largest, factor;
    uint32_t         i;
    const uint16_t  *from;

    mst_k_pdl_wait();

    from = a.from + (size_t) blockIdx.x * a.width;
    largest = 0;

    for (i = threadIdx.x; i < a.width / 8; i += blockDim.x) {
        mst_k_e4m3_unpack(from + 8 * i, f);
        largest = mst_k_e4m3_largest(f, largest);
    }

    factor = mst_k_e4m3_factor(largest, a.scale + blockIdx.x);

    for (i = threadIdx.x; i < a.width / 8; i += blockDim.x) {
        mst_k_e4m3_unpack(from + 8 * i, f);
        mst_k_e4m3_put(a.to + (size_t) blockIdx.x * a.width + 8 * i, f,
                       factor);
    }
}


extern "C" int
mst_k_e4m3_rows(const mst_k_e4m3_rows_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_e4m3_rows_kernel, a->rows,
                        a->width >= 4096 ? MST_K_E4M3_THREADS : 128, 0,
                        stream, *a);
}


/* 4 columns of h, with the product */

static __device__ __forceinline__ float4
mst_k_e4m3_added(const mst_k_e4m3_norm_t &a, uint32_t i, float scale)
{
    uint2    y;
    float4   f, b, w;
    float4  *h;

    h = (float4 *) (a.h + (size_t) blockIdx.x * a.dim) + i;
    f = *h;

    if (a.y) {
        y = __ldg((const uint2 *) (a.y + (size_t) blockIdx.x * a.dim) + i);
        w = __ldg((const float4 *) a.y_scale + i);
        b = a.bias ? __ldg((const float4 *) a.bias + i)
                   : make_float4(0, 0, 0, 0);

        f.x += __uint_as_float(y.x << 16) * scale * w.x + b.x;
        f.y += __uint_as_float(y.x & 0xffff0000) * scale * w.y + b.y;
        f.z += __uint_as_float(y.y << 16) * scale * w.z + b.z;
        f.w += __uint_as_float(y.y & 0xffff0000) * scale * w.w + b.w;
        *h = f;
    }

    return f;
}


static __global__ void
__launch_bounds__(MST_K_E4M3_THREADS)
mst_k_e4m3_norm_kernel(const __grid_constant__ mst_k_e4m3_norm_t a)
{
    float          r, sum, largest, factor, scale;
    float4         f, g;
    uint32_t       i;
    const float4  *h, *gain;

    mst_k_pdl_wait();

    h = (const float4 *) (a.h + (size_t) blockIdx.x * a.dim);
    gain = (const float4 *) a.gain;
    scale = a.scale[blockIdx.x];
    sum = largest = 0;

    for (i = threadIdx.x; i < a.dim / 4; i += blockDim.x) {
        f = mst_k_e4m3_added(a, i, scale);

        if (a.to) {
            g = __ldg(gain + i);
            sum += f.x * f.x + f.y * f.y + f.z * f.z + f.w * f.w;
            largest = fmaxf(fmaxf(largest,
                                  fmaxf(fabsf(f.x * g.x), fabsf(f.y * g.y))),
                            fmaxf(fabsf(f.z * g.z), fabsf(f.w * g.w)));
        }
    }

    if (a.to == NULL) {
        return;
    }

    /* its barriers are between all readings of scale and its writing */

    r = rsqrtf(mst_k_block_sum(sum) / a.dim + a.eps);
    factor = mst_k_e4m3_factor(largest * r, a.scale + blockIdx.x) * r;

    for (i = threadIdx.x; i < a.dim / 4; i += blockDim.x) {
        f = h[i];
        g = __ldg(gain + i);
        ((uint32_t *) (a.to + (size_t) blockIdx.x * a.dim))[i]
            = mst_k_e4m3x4(f.x * g.x * factor, f.y * g.y * factor,
                           f.z * g.z * factor, f.w * g.w * factor);
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
mst_k_e4m3_gated(const mst_k_e4m3_gate_t &a, uint32_t i, float scale,
    float *g)
{
    float            u[8];
    uint32_t         k;
    const uint16_t  *from;

    from = a.gate_up + (size_t) blockIdx.x * 2 * a.ff_dim + 8 * i;
    mst_k_e4m3_unpack(from, g);
    mst_k_e4m3_unpack(from + a.ff_dim, u);

#pragma unroll
    for (k = 0; k < 8; k++) {
        if (a.gate_scale) {
            g[k] *= scale * __ldg(a.gate_scale + 8 * i + k);
            u[k] *= scale * __ldg(a.gate_scale + a.ff_dim + 8 * i + k);
        }

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
    float     g[8], largest, factor, scale;
    uint32_t  i;

    mst_k_pdl_wait();
    scale = a.scale[blockIdx.x];
    largest = 0;

    for (i = threadIdx.x; i < a.ff_dim / 8; i += blockDim.x) {
        mst_k_e4m3_gated(a, i, scale, g);
        largest = mst_k_e4m3_largest(g, largest);
    }

    factor = mst_k_e4m3_factor(largest, a.scale + blockIdx.x);

    for (i = threadIdx.x; i < a.ff_dim / 8; i += blockDim.x) {
        mst_k_e4m3_gated(a, i, scale, g);
        mst_k_e4m3_put(a.to + (size_t) blockIdx.x * a.ff_dim + 8 * i, g,
                       factor);
    }
}


extern "C" int
mst_k_e4m3_gate(const mst_k_e4m3_gate_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_e4m3_gate_kernel, a->rows,
                        a->ff_dim >= 4096 ? MST_K_E4M3_THREADS : 128, 0,
                        stream, *a);
}
