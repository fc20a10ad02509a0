
/*
 * Attention for heads of any even size, without tensor cores: what computes
 * where mst_k_attn_fits() says no, and what the fast kernels are compared
 * with.  KV of a layer lies [block][k, v][kv_head][token of the block]
 * [head_dim] bf16.
 */

#ifndef MST_K_PLAIN_H
#define MST_K_PLAIN_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#include "kernels/mst_k_step_map.h"

#ifdef __cplusplus
extern "C" {
#endif


typedef struct {
    mst_k_step_t     step;
    uint16_t        *qkv;          /* bf16 [rows][q, k, v]; rope turns q and k
                                      in place */
    const float     *turns;        /* [rows][rope_dim / 2][2] */
    uint16_t        *kv;           /* of this layer */
    uint16_t        *out;          /* bf16 [rows][n_heads * head_dim] */
    uint64_t         block_stride; /* elements from block to block */
    uint32_t         rows;
    uint32_t         n_heads;
    uint32_t         n_kv_heads;
    uint32_t         head_dim;     /* even, at most 256 */
    uint32_t         rope_dim;
    uint32_t         window;       /* 0 = all */
    int              pdl;
} mst_k_plain_t;

int mst_k_plain_rope(const mst_k_plain_t *a, cudaStream_t stream);
int mst_k_plain_attn(const mst_k_plain_t *a, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* MST_K_PLAIN_H */
