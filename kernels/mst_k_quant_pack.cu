
/*
 * Into the tiles of mst_k_quant_map.h and out of them.
 *
 * Packing runs once, at load: a thread makes a scale, or a word of codes, an
 * element after the other.  7 G weights are 0.9 G words.  bf16 becomes the 16
 * steps from the least to the greatest of 128, or -127 to 127 times the 127th
 * part of the largest of 32.
 *
 * mst_k_quant_rows: the bf16 matrix that the prefill's GEMM reads.  Bytes: 2
 * written for each weight, 0.53 to 1.13 read.
 */

#include "kernels/mst_k_quant_mma.cuh"
#include "kernels/mst_k_step_map.h"

#define MST_K_QUANT_PACKERS  256               /* threads of a CTA */


/* row of the tiles */

static __device__ __forceinline__ uint32_t
mst_k_quant_tile_row(const mst_k_quant_pack_t &a, uint32_t row)
{
    return a.gate ? mst_k_gemm_gate_row(a.gate - 1, a.first + row)
                  : mst_k_gemm_row(a.first + row);
}


/* scale and min of the bf16 of a group */

static __device__ void
mst_k_quant_range(const mst_k_quant_pack_t &a, const uint16_t *row,
    uint32_t k, uint32_t group, float *scale, float *min)
{
    float     high, low, x;
    uint32_t  i;

    high = -3e38f;
    low = 3e38f;

    for (i = k; i < k + group && i < a.width; i++) {
        x = __uint_as_float((uint32_t) row[i] << 16);
        high = fmaxf(high, x);
        low = fminf(low, x);
    }

    if (mst_k_quant_bits(a.form) == 4) {
        *scale = (high - low) / 15;
        *min = low;

    } else {
        *scale = fmaxf(high, -low) / 127;
        *min = 0;
    }
}


static __global__ void
mst_k_quant_pack_scales(const mst_k_quant_pack_t a, mst_k_quant_form_t form)
{
    float              min, scale;
    uint8_t           *unit;
    uint32_t           group, k, n, row, t;
    uint64_t           i;
    const uint8_t     *src;
    mst_k_quant_at_t   at;

    group = mst_k_quant_group(form);
    n = (a.width + group - 1) / group;
    i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;

    if (i >= (uint64_t) n * a.rows) {
        return;
    }

    row = (uint32_t) (i / n);
    k = (uint32_t) (i % n) * group;
    t = mst_k_quant_tile_row(a, row);
    src = (const uint8_t *) a.src
          + row * mst_k_quant_file_size(a.type, a.width);

    if (a.type == MST_K_QUANT_BF16) {
        mst_k_quant_range(a, (const uint16_t *) src, k, group, &scale, &min);

    } else {
        scale = mst_k_quant_scale(a.type, src, k);
        min = mst_k_quant_min(a.type, src, k);
    }

    unit = (uint8_t *) a.w + (t >> 4) * mst_k_quant_unit_size(form, a.width);
    at = mst_k_quant_at(form, a.width, t & 15, k);

    *(__half *) (unit + at.scale) = __float2half_rn(scale);

    if (mst_k_quant_scale_size(form) == 4) {
        *(__half *) (unit + at.scale + 2) = __float2half_rn(min);
    }
}


static __device__ uint32_t
mst_k_quant_code_of(const mst_k_quant_pack_t &a, const uint8_t *src,
    uint32_t k, const uint8_t *scales)
{
    float  min, q, scale, x;

    if (a.type != MST_K_QUANT_BF16) {
        return (uint32_t) mst_k_quant_code(a.type, src, k);
    }

    scale = __half2float(*(const __half *) scales);
    min = 0;

    if (mst_k_quant_bits(a.form) == 4) {
        min = __half2float(*(const __half *) (scales + 2));
    }

    x = __uint_as_float((uint32_t) ((const uint16_t *) src)[k] << 16);
    q = scale > 0 ? rintf((x - min) / scale) : 0;

    return mst_k_quant_bits(a.form) == 4
           ? (uint32_t) fminf(fmaxf(q, 0), 15)
           : (uint32_t) (int) fminf(fmaxf(q, -127), 127);
}


/* a thread makes a word: 4 neighbours of the width, of 4 bits also the 4
   that stand in the bytes' upper halves */

static __global__ void
mst_k_quant_pack_codes(const mst_k_quant_pack_t a, mst_k_quant_form_t form)
{
    uint8_t           *unit;
    uint32_t           e, k, mask, part, row, t, word;
    uint64_t           i, n;
    const uint8_t     *src;
    mst_k_quant_at_t   at;

    part = mst_k_quant_bits(form) == 4 ? 64 : 32;
    n = (a.width + part - 1) / part * 8;
    i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;

    if (i >= n * a.rows) {
        return;
    }

    row = (uint32_t) (i / n);
    k = (uint32_t) (i % n) / 8 * part + (uint32_t) (i % n) % 8 * 4;
    t = mst_k_quant_tile_row(a, row);
    src = (const uint8_t *) a.src
          + row * mst_k_quant_file_size(a.type, a.width);
    unit = (uint8_t *) a.w + (t >> 4) * mst_k_quant_unit_size(form, a.width);
    mask = (1u << mst_k_quant_bits(form)) - 1;
    word = 0;

    for (e = 0; e < part / 8; e++) {
        if (k + e / 4 * 32 + e % 4 >= a.width) {
            break;
        }

        at = mst_k_quant_at(form, a.width, t & 15, k + e / 4 * 32 + e % 4);
        word |= (mst_k_quant_code_of(a, src, k + e / 4 * 32 + e % 4,
                                     unit + at.scale) & mask) << at.shift;
    }

    at = mst_k_quant_at(form, a.width, t & 15, k);
    *(uint32_t *) (unit + at.byte) = word;
}


extern "C" int
mst_k_quant_pack(const mst_k_quant_pack_t *a, cudaStream_t stream)
{
    uint64_t            n;
    mst_k_quant_form_t  form;

    form = a->type == MST_K_QUANT_BF16 ? a->form : mst_k_quant_form(a->type);

    if (form >= MST_K_QUANT_FORMS || a->width % 4) {
        return cudaErrorInvalidValue;
    }

    n = (uint64_t) a->rows
        * ((a->width + mst_k_quant_group(form) - 1)
           / mst_k_quant_group(form));
    n = (n + MST_K_QUANT_PACKERS - 1) / MST_K_QUANT_PACKERS;

    mst_k_quant_pack_scales<<<(uint32_t) n, MST_K_QUANT_PACKERS, 0,
                              stream>>>(*a, form);

    n = mst_k_quant_bits(form) == 4 ? 64 : 32;
    n = (a->width + n - 1) / n * 8 * a->rows;
    n = (n + MST_K_QUANT_PACKERS - 1) / MST_K_QUANT_PACKERS;

    mst_k_quant_pack_codes<<<(uint32_t) n, MST_K_QUANT_PACKERS, 0,
                             stream>>>(*a, form);

    return cudaGetLastError();
}


/* 4 neighbours of a row of a unit */

template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ float4
mst_k_quant_four(const uint8_t *unit, uint32_t width, uint32_t t, uint32_t k)
{
    int                e;
    float              min, scale, v[4];
    uint32_t           word;
    mst_k_quant_at_t   at;

    at = mst_k_quant_at(FORM, width, t, k);
    word = *(const uint32_t *) (unit + at.byte) >> at.shift;
    scale = __half2float(*(const __half *) (unit + at.scale));
    min = 0;

    if (mst_k_quant_scale_size(FORM) == 4) {
        min = __half2float(*(const __half *) (unit + at.scale + 2));
    }

    #pragma unroll
    for (e = 0; e < 4; e++) {
        v[e] = fmaf(mst_k_quant_bits(FORM) == 8
                    ? (float) (int8_t) (word >> (8 * e))
                    : (float) (word >> (8 * e) & 15), scale, min);
    }

    return make_float4(v[0], v[1], v[2], v[3]);
}


/* 4 codes of a word as bf16 */

template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ uint2
mst_k_quant_bf16(uint32_t word, float scale, float min)
{
    int    e;
    uint2  y;
    float  v[4];

    #pragma unroll
    for (e = 0; e < 4; e++) {
        v[e] = fmaf(mst_k_quant_of<FORM>::W4
                    ? (float) (word >> (8 * e) & 255)
                    : (float) (int8_t) (word >> (8 * e)), scale, min);
    }

    y.x = mst_k_bf16x2(v[0], v[1]);
    y.y = mst_k_bf16x2(v[2], v[3]);

    return y;
}


/* a warp has a block of a unit, a lane what the decode GEMM's lane has of
   rows g and g + 8: 4 columns of each 16 */

template <mst_k_quant_form_t FORM>
static __global__ void
mst_k_quant_rows_kernel(const mst_k_quant_rows_t a)
{
    typedef mst_k_quant_of<FORM>  f;

    int                group, h, half;
    uint4              c, w[f::CODES / 512];
    float4             s;
    uint32_t           block, k, lane, row[2];
    const uint8_t     *unit;
    mst_k_quant_at_t   at;

    mst_k_ptx_launch_next();
    mst_k_ptx_wait_previous();

    lane = threadIdx.x % 32;
    block = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;

    if (block * MST_K_QUANT_BLOCK >= a.width) {
        return;
    }

    unit = (const uint8_t *) a.w
           + blockIdx.x * mst_k_quant_unit_size(FORM, a.width);
    at = mst_k_quant_at(FORM, a.width, 0, block * MST_K_QUANT_BLOCK);
    mst_k_quant_codes<FORM>(unit + at.byte, w);

    #pragma unroll
    for (h = 0; h < 2; h++) {
        row[h] = a.gate ? blockIdx.x * 8 + lane / 4
                        : blockIdx.x * 16 + lane / 4 * 2 + h;
        row[h] = row[h] >= (a.gate ? a.rows / 2 : a.rows)
                 ? a.rows : row[h] + (a.gate ? h * (a.rows / 2) : 0);
    }

    #pragma unroll
    for (group = 0; group < 4; group++) {
        c = mst_k_quant_pick<FORM, 0>(w, group);

        #pragma unroll
        for (half = 0; half < 2; half++) {
            s = mst_k_quant_scales<FORM>(unit + at.scale,
                                         (group * 32 + half * 16) / f::GROUP);
            k = block * MST_K_QUANT_BLOCK + group * 32 + half * 16
                + lane % 4 * 4;

            #pragma unroll
            for (h = 0; h < 2; h++) {
                if (row[h] < a.rows && k < a.width) {
                    *(uint2 *) (a.y + (size_t) row[h] * a.width + k)
                        = mst_k_quant_bf16<FORM>((&c.x)[half * 2 + h],
                                                 h ? s.y : s.x,
                                                 h ? s.w : s.z);
                }
            }
        }
    }
}


template <mst_k_quant_form_t FORM>
static int
mst_k_quant_rows_launch(const mst_k_quant_rows_t *a, cudaStream_t stream)
{
    uint32_t             blocks;
    cudaLaunchConfig_t   config = {};
    cudaLaunchAttribute  attr = {};

    attr.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr.val.programmaticStreamSerializationAllowed = 1;

    blocks = mst_k_quant_blocks(a->width);

    config.gridDim = dim3(mst_k_gemm_units(a->rows), (blocks + 7) / 8);
    config.blockDim = dim3(MST_K_QUANT_PACKERS);
    config.stream = stream;
    config.attrs = &attr;
    config.numAttrs = a->pdl ? 1 : 0;

    return cudaLaunchKernelEx(&config, mst_k_quant_rows_kernel<FORM>, *a);
}


extern "C" int
mst_k_quant_rows(const mst_k_quant_rows_t *a, cudaStream_t stream)
{
    static int (*const  launches[])(const mst_k_quant_rows_t *,
                                    cudaStream_t) = {
        mst_k_quant_rows_launch<MST_K_QUANT_W4_32>,
        mst_k_quant_rows_launch<MST_K_QUANT_W4_128>,
        mst_k_quant_rows_launch<MST_K_QUANT_W8_32>,
        mst_k_quant_rows_launch<MST_K_QUANT_W8_16>
    };

    return a->form < MST_K_QUANT_FORMS ? launches[a->form](a, stream)
                                       : cudaErrorInvalidValue;
}


template <mst_k_quant_form_t FORM>
static __global__ void
mst_k_quant_embed_kernel(const mst_k_quant_embed_t a)
{
    uint32_t        k, t;
    const uint8_t  *w;

    t = (uint32_t) a.id[blockIdx.x];
    t = mst_k_gemm_row(t & MST_K_FED ? a.fed[t & ~MST_K_FED] : t);
    w = (const uint8_t *) a.w
        + (t >> 4) * mst_k_quant_unit_size(FORM, a.width);

    for (k = threadIdx.x * 4; k < a.width; k += blockDim.x * 4) {
        *(float4 *) (a.h + (size_t) blockIdx.x * a.width + k)
            = mst_k_quant_four<FORM>(w, a.width, t & 15, k);
    }
}


extern "C" int
mst_k_quant_embed(const mst_k_quant_embed_t *a, cudaStream_t stream)
{
    static void (*const  kernels[])(const mst_k_quant_embed_t) = {
        mst_k_quant_embed_kernel<MST_K_QUANT_W4_32>,
        mst_k_quant_embed_kernel<MST_K_QUANT_W4_128>,
        mst_k_quant_embed_kernel<MST_K_QUANT_W8_32>,
        mst_k_quant_embed_kernel<MST_K_QUANT_W8_16>
    };

    if (a->form >= MST_K_QUANT_FORMS || a->width % 4) {
        return cudaErrorInvalidValue;
    }

    kernels[a->form]<<<a->n, MST_K_QUANT_PACKERS, 0, stream>>>(*a);

    return cudaGetLastError();
}
