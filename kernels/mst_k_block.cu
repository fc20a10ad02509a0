
/*
 * Rows into the blocked form: see mst_k_block.h.  A thread moves 16 bytes;
 * what pads the width is zero.  Some MB within L2 at most: what it takes is
 * its launch.
 */

#include "kernels/mst_k_block.h"
#include "kernels/mst_k_gemm_map.h"
#include "kernels/mst_k_launch.cuh"


static __global__ void
mst_k_block_rows_kernel(const __grid_constant__ mst_k_block_rows_t a)
{
    uint4     v;
    uint32_t  token, unit;

    mst_k_pdl_wait();

    token = blockIdx.y;
    unit = blockIdx.x * blockDim.x + threadIdx.x;

    if (unit >= mst_k_gemm_slots(a.width, 2) * (MST_K_GEMM_SLOT / 16)) {
        return;
    }

    v = make_uint4(0, 0, 0, 0);

    if (unit * 8 < a.width) {
        v = *(const uint4 *) (a.from + (size_t) token * a.width + unit * 8);
    }

    *(uint4 *) ((char *) a.to
                + mst_k_gemm_x_at(token, unit * 8, mst_k_gemm_pad(a.n), 2)) =
        v;
}


extern "C" int
mst_k_block_rows(const mst_k_block_rows_t *a, cudaStream_t stream)
{
    uint32_t  units;

    if (a->width % 8 || a->n == 0 || a->n > MST_K_GEMM_MAX) {
        return (int) cudaErrorInvalidValue;
    }

    units = mst_k_gemm_slots(a->width, 2) * (MST_K_GEMM_SLOT / 16);

    return mst_k_launch(mst_k_block_rows_kernel,
                        dim3((units + 127) / 128, a->n), 128, 0, stream, *a);
}
