
/*
 * The decode GEMM over codes of 8 bits: mst_k_quant_gemm.cu.
 */

#include "kernels/mst_k_quant_gemm.cuh"


extern "C" int
mst_k_quant_w8(const mst_k_quant_ops_t *ops, mst_k_quant_form_t form,
    const mst_k_quant_device_t *d, cudaStream_t stream)
{
    return form == MST_K_QUANT_W8_32
           ? mst_k_quant_tokens<MST_K_QUANT_W8_32>(ops, d, stream)
           : mst_k_quant_tokens<MST_K_QUANT_W8_16>(ops, d, stream);
}
