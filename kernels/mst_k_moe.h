
/*
 * A mixture of experts but for its products (kernels/mst_k_list.h): norm and
 * router, lists of what each expert has to do, the weighed sum.  A pair is
 * (row, k): the k-th likeliest expert of a row, number row * stride + k;
 * place[] puts the pairs of an expert side by side.  Sequences may use
 * different numbers of experts.  What a row gets depends on that row alone.
 */

#ifndef MST_K_MOE_H
#define MST_K_MOE_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#include "kernels/mst_k_step_map.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MST_K_MOE_EXPERTS  64      /* at most */


/* rows row0 .. row0 + rows - 1 of the step; h and x are of all rows, the
   other arrays of these */
typedef struct {
    mst_k_step_t     step;
    const float     *h;            /* [any][dim] */
    const float     *gain;         /* [dim] */
    const float     *router;       /* [n_experts][dim] */
    uint16_t        *x;            /* bf16 [any][dim] */
    int32_t         *expert;       /* [rows][stride] -1: none */
    float           *weight;       /* [rows][stride] softmax over them */
    int32_t         *first;        /* [n_experts + 1] places of an expert */
    int32_t         *pair;         /* [rows * stride] the pair at a place, row0
                                      * stride and up */
    int32_t         *place;        /* [rows * stride] the place of a pair */
    float            eps;
    uint32_t         dim;
    uint32_t         n_experts;
    uint32_t         stride;       /* experts of a row at most */
    uint32_t         row0;
    uint32_t         rows;
    int              pdl;
} mst_k_route_t;

/* x, expert and weight; then first, pair and place */
int mst_k_route(const mst_k_route_t *a, cudaStream_t stream);


/* h[row] += sum over k of weight * y[place of (row, k)], likeliest first */
typedef struct {
    const float     *y;            /* [places][dim] */
    const int32_t   *expert;
    const float     *weight;
    const int32_t   *place;
    float           *h;
    uint32_t         dim;
    uint32_t         stride;
    uint32_t         row0;
    uint32_t         rows;
    int              pdl;
} mst_k_moe_sum_t;

int mst_k_moe_sum(const mst_k_moe_sum_t *a, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* MST_K_MOE_H */
