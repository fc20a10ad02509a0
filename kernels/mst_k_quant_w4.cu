
/*
 * The decode GEMM over codes of 4 bits: mst_k_quant_gemm.cu.
 */

#include "kernels/mst_k_quant_gemm.cuh"


extern "C" int
mst_k_quant_w4(const mst_k_quant_ops_t *ops, mst_k_quant_form_t form,
    const mst_k_quant_device_t *d, cudaStream_t stream)
{
    return form == MST_K_QUANT_W4_32
           ? mst_k_quant_tokens<MST_K_QUANT_W4_32>(ops, d, stream)
           : mst_k_quant_tokens<MST_K_QUANT_W4_128>(ops, d, stream);
}
