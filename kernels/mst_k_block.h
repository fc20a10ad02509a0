
/*
 * Rows of bf16 as the decode GEMMs read them (blocked: mst_k_gemm_map.h).
 */

#ifndef MST_K_BLOCK_ROWS_H
#define MST_K_BLOCK_ROWS_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif


typedef struct {
    const uint16_t  *from;         /* [n][width] */
    void            *to;           /* blocked, of mst_k_gemm_pad(n) tokens */
    uint32_t         width;        /* a multiple of 8 */
    uint32_t         n;
    int              pdl;
} mst_k_block_rows_t;

int mst_k_block_rows(const mst_k_block_rows_t *a, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* MST_K_BLOCK_ROWS_H */
