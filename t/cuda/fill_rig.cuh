
/*
 * Memory of the device full of random bits, for programs that measure.
 */

#ifndef FILL_RIG_CUH
#define FILL_RIG_CUH

#include "device_rig.cuh"

#ifndef RIG_MASK
#define RIG_MASK  0xbfffbfff       /* no f16 or bf16 is large or a NaN */
#endif


static __global__ void
fill_kernel(uint32_t *p, size_t n, uint32_t mask)
{
    size_t  i;

    for (i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (size_t) gridDim.x * blockDim.x)
    {
        p[i] = (uint32_t) mst_hash_mix(i + 77) & mask;
    }
}


static void *
filled(size_t size)
{
    void  *p;

    CHECK(cudaMalloc(&p, size));
    fill_kernel<<<1056, 256>>>((uint32_t *) p, size / 4, RIG_MASK);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    return p;
}


#endif
