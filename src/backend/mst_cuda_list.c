
/*
 * Products by kernels/mst_k_list.h: of batch_invariant, where a row's bits
 * must not depend on how many there are.
 */

#include "backend/mst_cuda.h"


int
mst_cuda_list(mst_backend_t *b, const mst_matrix_t *m, const void *x,
    void *y, uint32_t n, mst_cuda_out_t out)
{
    mst_k_list_t  a = { 0 };

    a.w = m->w;
    a.x = x;
    a.y = y;
    a.out = out == MST_CUDA_BF16 ? MST_K_LIST_BF16
          : out == MST_CUDA_F32 ? MST_K_LIST_F32 : MST_K_LIST_ADD;
    a.outputs = m->rows;
    a.width = m->width;
    a.places = n;
    a.pdl = mst_cuda_pdl(b);

    return mst_k_list(&a, b->stream);
}
