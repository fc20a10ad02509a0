
/*
 * Matrices that stay quantised in the device's memory: the decode GEMM over
 * them, with the operations and epilogues of mst_k_gemm.h, and their rows as
 * bf16 for the prefill's cuBLASLt.  Forms and layout: mst_k_quant_map.h.
 *
 * The chain around it is that of MST_K_GEMM_MMA: x blocked bf16, sums of
 * squares of units.  So what reads a RESIDUAL of here, or gives it its x
 * (mst_k_gemm_first), has way = MST_K_GEMM_MMA; e4m3 is not taken here
 * (w_scale NULL, y_e4m3 0), work and tickets are not used.
 */

#ifndef MST_K_QUANT_H
#define MST_K_QUANT_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#include "kernels/mst_k_gemm.h"
#include "kernels/mst_k_quant_map.h"

#ifdef __cplusplus
extern "C" {
#endif


/* y = w x: a->w are tiles of this form; a->n 1 .. 128; a->width a multiple
   of 32 */
int mst_k_quant_gemm(const mst_k_gemm_t *a, mst_k_quant_form_t form,
    cudaStream_t stream);


/*
 * Several, of the same tokens and form, each of which reads what the one
 * before it writes; pdl is the first one's.  Where the device can they are
 * one launch (one token, sm_90, no MPS), whose CTAs meet between operations
 * while the next one's weights are on their way.  The bits are those of
 * mst_k_quant_gemm().
 *
 * met: zeroed once; launches of one stream can share it.
 */
int mst_k_quant_gemms(const mst_k_gemm_t *a, uint32_t n,
    mst_k_quant_form_t form, uint32_t *met, cudaStream_t stream);


/* Rows as a file has them into tiles: a part of a stack or one of a gate.
   The tiles were set to zero before (what pads them). */
typedef struct {
    const void          *src;      /* [rows] of the type, without gaps */
    uint32_t             type;     /* MST_K_QUANT_*; BF16: is quantised */
    uint32_t             rows;
    uint32_t             width;    /* multiple of 32; Q4_K, Q6_K: of 256;
                                      BF16: of 4 */
    mst_k_quant_form_t   form;     /* of w; BF16: W4_128 or W8_32, else that
                                      of the type */
    uint32_t             first;    /* of the matrix (gate: of its gates or of
                                      its ups) this is src's row 0 */
    int                  gate;     /* 0: stack; 1: gates, 2: ups */
    void                *w;        /* tiles of the whole matrix:
                                      mst_k_quant_size() */
} mst_k_quant_pack_t;

int mst_k_quant_pack(const mst_k_quant_pack_t *a, cudaStream_t stream);


/* The whole matrix as bf16 rows: a stack's as they were put in, a gate's all
   gates, then all ups */
typedef struct {
    const void          *w;
    mst_k_quant_form_t   form;
    uint32_t             rows;
    uint32_t             width;
    int                  gate;     /* it is one */
    uint16_t            *y;        /* bf16 [rows][width] */
    int                  pdl;
} mst_k_quant_rows_t;

int mst_k_quant_rows(const mst_k_quant_rows_t *a, cudaStream_t stream);


/* h = the rows that ids name, of a stack */
typedef struct {
    const int32_t       *id;       /* [n] or MST_K_FED | index of fed[] */
    const uint32_t      *fed;
    const void          *w;
    mst_k_quant_form_t   form;
    uint32_t             width;
    float               *h;        /* [n][width] */
    uint32_t             n;
} mst_k_quant_embed_t;

int mst_k_quant_embed(const mst_k_quant_embed_t *a, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* MST_K_QUANT_H */
