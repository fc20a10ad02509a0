
/*
 * Decoding at load: see mst_k_load.h.  A thread takes 8 elements that lie
 * side by side in the file's order (4 bytes of nibbles or 8 bytes give 8
 * values); bound by the copy from the host that brings the elements.
 */

#include <cuda_fp16.h>

#include "kernels/mst_k_launch.cuh"
#include "kernels/mst_k_load.h"


static __device__ __forceinline__ float
mst_k_load_half(const uint8_t *p)
{
    return __half2float(__ushort_as_half((uint16_t) (p[0] | p[1] << 8)));
}


/* element e of a block of 32 */

static __device__ __forceinline__ float
mst_k_load_block(mst_k_load_type_t type, const uint8_t *p, uint32_t e)
{
    uint32_t  q;

    switch (type) {

    case MST_K_LOAD_Q8_0:
        return mst_k_load_half(p) * (float) (int8_t) p[2 + e];

    case MST_K_LOAD_Q4_0:
        q = e < 16 ? p[2 + e] & 15 : p[2 + e - 16] >> 4;
        return mst_k_load_half(p) * ((float) q - 8);

    default:
        q = e < 16 ? p[4 + e] & 15 : p[4 + e - 16] >> 4;
        return mst_k_load_half(p) * (float) q + mst_k_load_half(p + 2);
    }
}


static __global__ void
mst_k_load_kernel(const __grid_constant__ mst_k_load_t a)
{
    float           f;
    uint32_t        i, size;
    uint64_t        at, step;
    const uint8_t  *p;

    p = (const uint8_t *) a.from;
    step = (uint64_t) gridDim.x * blockDim.x;

    size = a.type == MST_K_LOAD_Q8_0 ? 34 : a.type == MST_K_LOAD_Q4_0 ? 18
                                                                       : 20;

    for (at = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; at * 8 < a.n;
         at += step)
    {
        for (i = 0; i < 8 && at * 8 + i < a.n; i++) {
            switch (a.type) {

            case MST_K_LOAD_F32:
                f = ((const float *) p)[at * 8 + i];
                break;

            case MST_K_LOAD_F16:
                f = mst_k_load_half(p + (at * 8 + i) * 2);
                break;

            default:
                f = mst_k_load_block(a.type, p + at / 4 * size,
                                     (uint32_t) (at % 4 * 8 + i));
            }

            a.to[at * 8 + i] = mst_k_bf16(f);
        }
    }
}


extern "C" int
mst_k_load(const mst_k_load_t *a, cudaStream_t stream)
{
    switch (a->type) {

    case MST_K_LOAD_BF16:
        return (int) cudaMemcpyAsync(a->to, a->from, a->n * 2,
                                     cudaMemcpyDeviceToDevice, stream);

    case MST_K_LOAD_F32:
    case MST_K_LOAD_F16:
    case MST_K_LOAD_Q4_0:
    case MST_K_LOAD_Q4_1:
    case MST_K_LOAD_Q8_0:
        return mst_k_launch(mst_k_load_kernel, 1056, 256, 0, stream, *a);
    }

    return (int) cudaErrorInvalidValue;
}
