
/*
 * Rows of e4m3, each with a scale of its own: its largest element becomes
 * 448.  For weights as they are loaded, and for what library GEMMs of e4m3
 * read.  Rows are multiples of 16 elements.
 */

#ifndef MST_K_E4M3_H
#define MST_K_E4M3_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif


/* from bf16 rows */
typedef struct {
    const uint16_t  *from;         /* bf16 [rows][width] */
    uint8_t         *to;           /* [rows][width] */
    float           *scale;        /* [rows] what an element is times this */
    uint32_t         width;
    uint32_t         rows;
    int              pdl;
} mst_k_e4m3_rows_t;

int mst_k_e4m3_rows(const mst_k_e4m3_rows_t *a, cudaStream_t stream);


/* h += a product, then x = h / rms(h) * gain */
typedef struct {
    float           *h;            /* [rows][dim] */
    const uint16_t  *y;            /* bf16 [rows][dim] of two e4m3, to be
                                      scaled; NULL: h stays */
    const float     *y_scale;      /* [dim] of the matrix; that of the rows is
                                      in scale */
    const float     *bias;         /* [dim] of the product, or NULL */
    const float     *gain;         /* [dim] */
    uint8_t         *to;           /* [rows][dim]; NULL: the sum alone */
    float           *scale;        /* [rows] of y's x; then of x */
    float            y_mul;        /* of y's x, all rows; 0: scale */
    float            eps;
    uint32_t         dim;
    uint32_t         rows;
    int              pdl;
} mst_k_e4m3_norm_t;

int mst_k_e4m3_norm(const mst_k_e4m3_norm_t *a, cudaStream_t stream);


/* silu(gate) * up of the two halves of each row */
typedef struct {
    const uint16_t  *gate_up;      /* bf16 [rows][2 * ff_dim] gate, up */
    const float     *gate_bias;    /* [ff_dim] or NULL */
    const float     *up_bias;
    uint8_t         *to;           /* [rows][ff_dim] */
    float           *scale;        /* [rows] */
    uint32_t         ff_dim;
    uint32_t         rows;
    int              pdl;
} mst_k_e4m3_gate_t;

int mst_k_e4m3_gate(const mst_k_e4m3_gate_t *a, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* MST_K_E4M3_H */
