
/*
 * Prefill attention of sm_90a, called by mst_k_attn_prefill() alone.
 */

#ifndef MST_K_ATTN_WGMMA_H
#define MST_K_ATTN_WGMMA_H

#include "kernels/mst_k_attn.h"


/* bf16 KV */
int mst_k_attn_wgmma(const mst_k_attn_t *a, cudaStream_t stream);


#endif /* MST_K_ATTN_WGMMA_H */
