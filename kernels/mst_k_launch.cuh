
/*
 * Launching with or without programmatic stream serialization, and the two
 * instructions that go with it: see mst_kernels.h.
 */

#ifndef MST_K_LAUNCH_CUH
#define MST_K_LAUNCH_CUH

#include <stdint.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>


static __device__ __forceinline__ void
mst_k_pdl_next()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}


static __device__ __forceinline__ void
mst_k_pdl_wait()
{
    mst_k_pdl_next();
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}


template <class A>
static int
mst_k_launch(void (*kernel)(A), dim3 grid, dim3 block, size_t shared,
    cudaStream_t stream, const A &a)
{
    cudaLaunchConfig_t     config = {};
    cudaLaunchAttribute    attr = {};

    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attr;

    attr.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr.val.programmaticStreamSerializationAllowed = 1;
    config.numAttrs = a.pdl ? 1 : 0;

    return (int) cudaLaunchKernelEx(&config, kernel, a);
}


static __device__ __forceinline__ float
mst_k_f32(uint16_t bf16)
{
    return __uint_as_float((uint32_t) bf16 << 16);
}


static __device__ __forceinline__ uint16_t
mst_k_bf16(float f)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(f));
}


static __device__ __forceinline__ uint32_t
mst_k_bf16x2(float lo, float hi)
{
    __nv_bfloat162  v;

    v = __floats2bfloat162_rn(lo, hi);

    return *(uint32_t *) &v;
}


/* over a block of whole warps, in a fixed order; all threads get it */

static __device__ __forceinline__ float
mst_k_block_sum(float v)
{
    float              sum;
    uint32_t           i;
    __shared__ float   warps[32];

    for (i = 16; i; i >>= 1) {
        v += __shfl_xor_sync(~0u, v, i);
    }

    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = v;
    }

    __syncthreads();

    for (i = 0, sum = 0; i < blockDim.x / 32; i++) {
        sum += warps[i];
    }

    __syncthreads();

    return sum;
}


#endif /* MST_K_LAUNCH_CUH */
