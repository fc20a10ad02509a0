
/*
 * The small kernels of a step that runs on library GEMMs.  All are bound by
 * bytes; a decode step's are bound by their launch (1 us each).
 *
 *   embed   a row of the embedding, its cosines and sines (double): a CTA a
 *           row; reads 2 dim, writes 4 dim + 4 rope_dim bytes
 *   norm    a CTA a row; reads 4 dim, writes 2 dim; with parts to add reads
 *           4 dim for each, writes 4 dim more
 *   bias    reads and writes the row
 *   swiglu  sixteen values a thread; reads 4 ff_dim, writes 2 ff_dim
 */

#include "kernels/mst_k_launch.cuh"
#include "kernels/mst_k_misc.h"

#define MST_K_MISC_THREADS  256
#define MST_K_NORM_THREADS  512
#define MST_K_NORM_KEPT     4


/* eight elements of bf16 */

static __device__ __forceinline__ void
mst_k_widen(uint4 v, float4 *to)
{
    to[0] = make_float4(__uint_as_float(v.x << 16),
                        __uint_as_float(v.x & 0xffff0000),
                        __uint_as_float(v.y << 16),
                        __uint_as_float(v.y & 0xffff0000));
    to[1] = make_float4(__uint_as_float(v.z << 16),
                        __uint_as_float(v.z & 0xffff0000),
                        __uint_as_float(v.w << 16),
                        __uint_as_float(v.w & 0xffff0000));
}


static __global__ void
mst_k_embed_kernel(const __grid_constant__ mst_k_embed_t a)
{
    float            *h, *turn;
    double            angle, base, cs, sn;
    int32_t           id, pos;
    uint32_t          i, row;
    const uint16_t   *e;

    mst_k_pdl_next();

    row = blockIdx.x;
    id = a.step.id[row];
    id = id < 0 ? (int32_t) a.fed[id & ~MST_K_FED] : id;
    pos = a.step.pos[row];
    base = a.step.rope_base[a.step.seq[row]];
    h = a.h + (size_t) row * a.dim;
    e = a.embd + (size_t) id * a.dim;
    turn = a.turns + (size_t) row * a.rope_dim;

    if (a.embd && a.dim % 8 == 0) {
        for (i = threadIdx.x; i < a.dim / 8; i += blockDim.x) {
            mst_k_widen(__ldg((const uint4 *) e + i), (float4 *) h + 2 * i);
        }

    } else if (a.embd) {
        for (i = threadIdx.x; i < a.dim; i += blockDim.x) {
            h[i] = mst_k_f32(e[i]);
        }
    }

    for (i = threadIdx.x; i < a.rope_dim / 2; i += blockDim.x) {
        angle = base != 0 ? pos * pow(base, -2.0 * i / a.rope_dim)
                          : pos * a.freqs[i];
        sincos(angle, &sn, &cs);
        turn[2 * i] = (float) (cs * a.rope_scale);
        turn[2 * i + 1] = (float) (sn * a.rope_scale);
    }
}


extern "C" int
mst_k_embed(const mst_k_embed_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_embed_kernel, a->rows, MST_K_MISC_THREADS, 0,
                        stream, *a);
}


/* rows of whole groups of 4: what a thread has of them stays in registers, up
   to MST_K_NORM_KEPT groups */

static __device__ __forceinline__ void
mst_k_norm_add(float4 *f, float4 v)
{
    f->x += v.x;
    f->y += v.y;
    f->z += v.z;
    f->w += v.w;
}


/* group i of a row of h, with what is to be added */

template <int ADDS>
static __device__ __forceinline__ float4
mst_k_norm_load(const mst_k_norm_t &a, float4 *h, uint32_t i)
{
    float4         f, sum;
    uint32_t       p;
    const float4  *y;

    f = h[i];

    if (!ADDS) {
        return f;
    }

    y = (const float4 *) (a.y + (size_t) blockIdx.x * a.dim) + i;
    sum = __ldcg(y);

#pragma unroll
    for (p = 1; p < MST_K_NORM_PARTS; p++) {
        mst_k_norm_add(&sum, __ldcg(y + (size_t) p * a.rows * (a.dim / 4)));
    }

    if (a.bias) {
        mst_k_norm_add(&sum, __ldg((const float4 *) a.bias + i));
    }

    mst_k_norm_add(&f, sum);
    h[i] = f;

    return f;
}


template <int ADDS>
static __device__ __forceinline__ void
mst_k_norm_groups(const mst_k_norm_t &a, float4 *h, uint2 *x)
{
    float          r, sum;
    float4         f, g, kept[MST_K_NORM_KEPT];
    uint32_t       i, k, n;
    const float4  *gain;

    n = a.dim / 4;
    gain = (const float4 *) a.gain;
    sum = 0;

#pragma unroll
    for (k = 0; k < MST_K_NORM_KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            f = kept[k] = mst_k_norm_load<ADDS>(a, h, i);
            sum += f.x * f.x + f.y * f.y + f.z * f.z + f.w * f.w;
        }
    }

    for (i = threadIdx.x + k * blockDim.x; i < n; i += blockDim.x) {
        f = mst_k_norm_load<ADDS>(a, h, i);
        sum += f.x * f.x + f.y * f.y + f.z * f.z + f.w * f.w;
    }

    if (ADDS && gain == NULL) {
        return;
    }

    r = rsqrtf(mst_k_block_sum(sum) / a.dim + a.eps);

#pragma unroll
    for (k = 0; k < MST_K_NORM_KEPT; k++) {
        i = threadIdx.x + k * blockDim.x;

        if (i < n) {
            f = kept[k];
            g = __ldg(gain + i);
            x[i] = make_uint2(mst_k_bf16x2(f.x * r * g.x, f.y * r * g.y),
                              mst_k_bf16x2(f.z * r * g.z, f.w * r * g.w));
        }
    }

    for (i = threadIdx.x + k * blockDim.x; i < n; i += blockDim.x) {
        f = h[i];
        g = __ldg(gain + i);
        x[i] = make_uint2(mst_k_bf16x2(f.x * r * g.x, f.y * r * g.y),
                          mst_k_bf16x2(f.z * r * g.z, f.w * r * g.w));
    }
}


template <int ADDS>
static __global__ void
__launch_bounds__(MST_K_NORM_THREADS)
mst_k_norm_kernel(const __grid_constant__ mst_k_norm_t a)
{
    float     *h, r, sum, v;
    uint16_t  *x;
    uint32_t   i, p, row;

    mst_k_pdl_wait();

    row = blockIdx.x;

    if (a.pick) {
        row = a.n_pick && (int32_t) row >= *a.n_pick ? 0 : a.pick[row];
    }

    h = a.h + (size_t) row * a.dim;
    x = a.x + (size_t) blockIdx.x * a.dim;
    sum = 0;

    if (a.dim % 4 == 0) {
        mst_k_norm_groups<ADDS>(a, (float4 *) h, (uint2 *) x);
        return;
    }

    for (i = threadIdx.x; i < a.dim; i += blockDim.x) {
        v = ADDS && a.bias ? a.bias[i] : 0;

        for (p = 0; ADDS && p < MST_K_NORM_PARTS; p++) {
            v += a.y[((size_t) p * a.rows + row) * a.dim + i];
        }

        v += h[i];
        sum += v * v;

        if (ADDS) {
            h[i] = v;
        }
    }

    if (ADDS && a.gain == NULL) {
        return;
    }

    r = rsqrtf(mst_k_block_sum(sum) / a.dim + a.eps);

    for (i = threadIdx.x; i < a.dim; i += blockDim.x) {
        x[i] = mst_k_bf16(h[i] * r * a.gain[i]);
    }
}


extern "C" int
mst_k_norm(const mst_k_norm_t *a, cudaStream_t stream)
{
    return mst_k_launch(a->y ? mst_k_norm_kernel<1> : mst_k_norm_kernel<0>,
                        a->rows,
                        a->dim >= 2048 ? MST_K_NORM_THREADS
                                        : MST_K_MISC_THREADS, 0, stream,
                        *a);
}


static __global__ void
mst_k_bias_kernel(const __grid_constant__ mst_k_bias_t a)
{
    size_t     at;
    uint32_t   i;
    uint16_t  *y;

    mst_k_pdl_wait();

    i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i >= a.width) {
        return;
    }

    at = blockIdx.y * a.pitch + i;

    if (!a.bf16) {
        ((float *) a.y)[at] += a.bias[i];
        return;
    }

    y = (uint16_t *) a.y + at;
    *y = mst_k_bf16(mst_k_f32(*y) + a.bias[i]);
}


extern "C" int
mst_k_bias(const mst_k_bias_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_bias_kernel,
                        dim3((a->width + MST_K_MISC_THREADS - 1)
                             / MST_K_MISC_THREADS, a->rows),
                        MST_K_MISC_THREADS, 0, stream, *a);
}


static __device__ __forceinline__ float
mst_k_silu(float gate, float up)
{
    return __fdividef(gate, 1.0f + __expf(-gate)) * up;
}


/* two values, of words of two bf16 */

static __device__ __forceinline__ uint32_t
mst_k_silu2(uint32_t gate, uint32_t up)
{
    return mst_k_bf16x2(mst_k_silu(__uint_as_float(gate << 16),
                                   __uint_as_float(up << 16)),
                        mst_k_silu(__uint_as_float(gate & 0xffff0000),
                                   __uint_as_float(up & 0xffff0000)));
}


/* rows of whole groups of 8, no biases: two groups a thread, whose loads are
   under way before the first is computed */

static __global__ void
__launch_bounds__(MST_K_MISC_THREADS)
mst_k_swiglu_groups(const __grid_constant__ mst_k_swiglu_t a)
{
    uint4         g[2], u[2], *y;
    uint32_t      at, i, k, n;
    const uint4  *from;

    mst_k_pdl_wait();

    n = a.ff_dim / 8;
    at = blockIdx.x * 2 * blockDim.x + threadIdx.x;
    from = (const uint4 *) a.gate_up + (size_t) blockIdx.y * 2 * n;
    y = (uint4 *) a.y + (size_t) blockIdx.y * n;

#pragma unroll
    for (k = 0; k < 2; k++) {
        i = at + k * blockDim.x;

        if (i < n) {
            g[k] = __ldcg(from + i);
            u[k] = __ldcg(from + n + i);
        }
    }

#pragma unroll
    for (k = 0; k < 2; k++) {
        i = at + k * blockDim.x;

        if (i < n) {
            y[i] = make_uint4(mst_k_silu2(g[k].x, u[k].x),
                              mst_k_silu2(g[k].y, u[k].y),
                              mst_k_silu2(g[k].z, u[k].z),
                              mst_k_silu2(g[k].w, u[k].w));
        }
    }
}


static __global__ void
mst_k_swiglu_kernel(const __grid_constant__ mst_k_swiglu_t a)
{
    float            g, u;
    size_t           row;
    uint32_t         i;
    const uint16_t  *from;

    mst_k_pdl_wait();

    row = blockIdx.y;
    i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i >= a.ff_dim) {
        return;
    }

    from = a.gate_up + row * 2 * a.ff_dim + i;
    g = mst_k_f32(from[0]) + (a.gate_bias ? a.gate_bias[i] : 0);
    u = mst_k_f32(from[a.ff_dim]) + (a.up_bias ? a.up_bias[i] : 0);
    a.y[row * a.ff_dim + i] = mst_k_bf16(mst_k_silu(g, u));
}


extern "C" int
mst_k_swiglu(const mst_k_swiglu_t *a, cudaStream_t stream)
{
    int       groups;
    uint32_t  n;

    groups = a->ff_dim % 8 == 0 && !a->gate_bias && !a->up_bias;
    n = MST_K_MISC_THREADS * (groups ? 16 : 1);

    return mst_k_launch(groups ? mst_k_swiglu_groups : mst_k_swiglu_kernel,
                        dim3((a->ff_dim + n - 1) / n, a->rows),
                        MST_K_MISC_THREADS, 0, stream, *a);
}


static __global__ void
mst_k_fill_kernel(const __grid_constant__ mst_k_fill_t a)
{
    uint64_t  i, x;

    mst_k_pdl_wait();

    for (i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; i < a.n;
         i += (uint64_t) gridDim.x * blockDim.x)
    {
        x = (i + a.seed) * 0x9e3779b97f4a7c15ull;
        x = (x ^ x >> 32) * 0xbf58476d1ce4e5b9ull;
        a.to[i] = mst_k_bf16((float) (int32_t) (x >> 32) * 0x1p-31f);
    }
}


extern "C" int
mst_k_fill(const mst_k_fill_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_fill_kernel, 1056, MST_K_MISC_THREADS, 0,
                        stream, *a);
}
