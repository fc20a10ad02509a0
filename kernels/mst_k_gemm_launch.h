
/*
 * From the number of tokens and the shape to a kernel of mst_k_gemm_sm90.h;
 * one file per type of weights and shape, for the compiler's sake.
 */

#ifndef MST_K_GEMM_LAUNCH_H
#define MST_K_GEMM_LAUNCH_H

#include <string.h>

#include "kernels/mst_k_gemm_sm90.h"


typedef void (*mst_k_gemm_kernel_t)(const mst_k_gemm_run_t);


static inline int
mst_k_launch(const void *kernel, dim3 grid, dim3 block, uint32_t room,
    int pdl, void **args, cudaStream_t stream)
{
    cudaLaunchConfig_t   conf;
    cudaLaunchAttribute  attr;

    memset(&conf, 0, sizeof(conf));
    conf.gridDim = grid;
    conf.blockDim = block;
    conf.dynamicSmemBytes = room;
    conf.stream = stream;
    conf.attrs = &attr;

    if (pdl) {
        attr.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attr.val.programmaticStreamSerializationAllowed = 1;
        conf.numAttrs = 1;
    }

    return cudaLaunchKernelExC(&conf, kernel, args);
}


template<int N, int E4M3, int WIDE>
static mst_k_gemm_kernel_t
mst_k_gemm_kernel(void)
{
    if constexpr (WIDE) {
        return mst_k_gemm_sm90<N, E4M3, MST_K_WIDE>;

    } else if constexpr (N <= MST_K_GEMM_THIN) {
        return mst_k_gemm_sm90<N, E4M3, MST_K_THIN>;

    } else {
        return mst_k_gemm_sm90<N, E4M3, MST_K_SPLIT>;
    }
}


template<int E4M3, int WIDE>
static int
mst_k_gemm_launch(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape,
    uint32_t grid, cudaStream_t stream)
{
    int                  rc;
    void                *args[1];
    uint32_t             pad;
    mst_k_gemm_kernel_t  k;

    pad = mst_k_gemm_pad(r->a.n);
    k = pad == 8 ? mst_k_gemm_kernel<8, E4M3, WIDE>()
        : pad == 16 ? mst_k_gemm_kernel<16, E4M3, WIDE>()
        : pad == 32 ? mst_k_gemm_kernel<32, E4M3, WIDE>()
        : pad == 64 ? mst_k_gemm_kernel<64, E4M3, WIDE>()
        : mst_k_gemm_kernel<128, E4M3, WIDE>();

    rc = cudaFuncSetAttribute((const void *) k,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              227 * 1024);
    if (rc == 0) {
        rc = cudaFuncSetAttribute(
                 (const void *) k,
                 cudaFuncAttributePreferredSharedMemoryCarveout, 100);
    }

    args[0] = (void *) r;

    return rc != 0 ? rc
           : mst_k_launch((const void *) k, dim3(grid), dim3(384),
                          mst_k_gemm_room(r, pad, shape), r->a.pdl, args,
                          stream);
}


#endif /* MST_K_GEMM_LAUNCH_H */
