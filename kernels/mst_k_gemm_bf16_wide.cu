
/*
 * Decode GEMMs with weights in bf16, gate-up, head (WIDE): mst_k_gemm_sm90.h.
 */

#include "kernels/mst_k_gemm_launch.h"


extern "C" int
mst_k_gemm_bf16_wide(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape,
    uint32_t grid, cudaStream_t stream)
{
    return mst_k_gemm_launch<0, 1>(r, shape, grid, stream);
}
