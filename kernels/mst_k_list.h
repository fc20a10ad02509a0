
/*
 * Products over lists: y[place] = w x[row of the place], where one matrix or
 * several share the places, each a range of them.  What a place gets is the
 * same bits whatever the others are and however many: an element is one chain
 * of mma.sync over the width, in its order.  So it serves mixtures of experts
 * (kernels/mst_k_moe.h) and, with one list of all rows, batch_invariant.
 */

#ifndef MST_K_LIST_H
#define MST_K_LIST_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif


typedef enum {
    MST_K_LIST_BF16 = 0,
    MST_K_LIST_F32,
    MST_K_LIST_ADD                 /* float, onto what is there */
} mst_k_list_out_t;


typedef struct {
    const uint16_t         *w;     /* bf16 [outputs][width], of one list */
    const uint16_t *const  *ws;    /* [lists], of the device */
    const uint16_t         *x;     /* bf16 [any][width] */
    const int32_t          *first; /* [lists + 1] places of a list; NULL: one
                                      of all rows */
    const int32_t          *pair;  /* [places] the row of a place is
                                      pair / n_used; NULL: x has a row for
                                      each place */
    void                   *y;     /* [places][outputs] */
    mst_k_list_out_t        out;
    uint32_t                outputs;
    uint32_t                width; /* a multiple of 8 */
    uint32_t                lists;
    uint32_t                n_used;
    uint32_t                places;    /* at most */
    int                     pdl;
} mst_k_list_t;

int mst_k_list(const mst_k_list_t *a, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* MST_K_LIST_H */
