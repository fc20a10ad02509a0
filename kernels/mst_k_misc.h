
/*
 * The small kernels between the large ones: see mst_kernels.h for what they
 * have in common, mst_k_misc.cu for what each one costs.
 */

#ifndef MST_K_MISC_H
#define MST_K_MISC_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#include "kernels/mst_k_step_map.h"

#ifdef __cplusplus
extern "C" {
#endif


/* h = rows of the embedding; turns = cosine and sine of each row's pairs.
   With pdl it goes on beside the kernel before it, whose end it does not wait
   for: that one writes nothing which this reads, nor what follows. */
typedef struct {
    mst_k_step_t     step;
    const uint16_t  *embd;         /* bf16 [n_vocab][dim]; NULL: h is there */
    const uint32_t  *fed;          /* what ids name by MST_K_FED; NULL: none
                                      does */
    float           *h;            /* [rows][dim] */
    const double    *freqs;        /* [rope_dim / 2] radians per position */
    float           *turns;        /* [rows][rope_dim / 2][2] cos, sin, times
                                      rope_scale */
    float            rope_scale;
    uint32_t         rope_dim;
    uint32_t         dim;
    uint32_t         rows;         /* of the bucket */
    uint32_t         n_vocab;
    int              pdl;
} mst_k_embed_t;

int mst_k_embed(const mst_k_embed_t *a, cudaStream_t stream);


#define MST_K_NORM_PARTS  2

/* h += the sum of a product's parts; x = bf16(h / rms(h) * gain) */
typedef struct {
    float           *h;            /* [any][dim] */
    const float     *y;            /* [MST_K_NORM_PARTS][rows][dim], without
                                      pick; NULL: h stays */
    const float     *bias;         /* [dim] of the product, or NULL */
    const float     *gain;         /* [dim]; NULL: the sum alone */
    uint16_t        *x;            /* bf16 [rows][dim] */
    const int32_t   *pick;         /* [rows] row i is h's row pick[i]; NULL =
                                      row i */
    const int32_t   *n_pick;       /* how many of them are filled; NULL: all */
    float            eps;
    uint32_t         dim;
    uint32_t         rows;
    int              pdl;
} mst_k_norm_t;

int mst_k_norm(const mst_k_norm_t *a, cudaStream_t stream);


/* y[row][i] += bias[i], y float or bf16 */
typedef struct {
    void            *y;            /* [rows][pitch] */
    uint64_t         pitch;        /* elements from row to row */
    const float     *bias;         /* [width] */
    uint32_t         width;
    uint32_t         rows;
    int              bf16;
    int              pdl;
} mst_k_bias_t;

int mst_k_bias(const mst_k_bias_t *a, cudaStream_t stream);


/* y = bf16(silu(gate) * up) of the two halves of each row */
typedef struct {
    const uint16_t  *gate_up;      /* bf16 [rows][2 * ff_dim] gate, up */
    const float     *gate_bias;    /* [ff_dim] or NULL */
    const float     *up_bias;
    uint16_t        *y;            /* bf16 [rows][ff_dim] */
    uint32_t         ff_dim;
    uint32_t         rows;
    int              pdl;
} mst_k_swiglu_t;

int mst_k_swiglu(const mst_k_swiglu_t *a, cudaStream_t stream);


/* random bf16 of (-1, 1): GEMMs are tuned on it, as zeros cost less power */
typedef struct {
    uint16_t        *to;           /* [n] */
    uint64_t         n;
    uint64_t         seed;
    int              pdl;
} mst_k_fill_t;

int mst_k_fill(const mst_k_fill_t *a, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* MST_K_MISC_H */
