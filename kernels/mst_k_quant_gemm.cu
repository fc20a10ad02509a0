
/*
 * y = w x over weights that stay quantised (mst_k_quant.h).
 *
 * Each CTA has whole rows: a share of the units of 16.  16 warps multiply (8
 * for one token), each every 16th block of the width, for which it fetches x
 * by itself; their sums meet in shared memory once for a unit.  Three more
 * finish these sums, and add up the norm's squares before.  One brings chunks
 * into a ring (sm_90; before, the warps read them themselves).  Nobody waits
 * for all.
 *
 * Codes are bytes for the tensor cores' integers after one mask (those of 8
 * bits as they are); x is made integers of 16 bits, in two planes:
 * mst_k_quant_x.cuh, mst_k_quant_mma.cuh.  (Codes made bf16, the first
 * version, took 7 operations for 8 weights and chains twice as long: 2.0 ms
 * for one token at the shape below.)
 *
 * 16 tokens are 4 times 8 columns.  Over 16 the CTAs of a share of rows, one
 * for each 16 tokens, run at the same time, so that all but one of them find
 * their weights in the L2.
 *
 * A token's sums are the same in any number of tokens over 1; one token alone
 * is summed in another order.
 *
 * Bytes: the weights once (0.53 to 1.13 for each, see mst_k_quant_map.h), a
 * Mistral-7B's 3.8 GB of int4 in 0.83 ms at 4.56 TB/s.
 *
 * Measured on an H200 on 30 November 2026, t/cuda/mst_k_quant_bench.cu, a
 * graph of a Mistral-7B's matrices (no attention), PDL, ms for 1 / 4 / 8 / 16
 * tokens: int4 in groups of 128 1.35 / 1.74 / 2.21 / 3.76, 4 bits in groups
 * of 32 1.47 / 1.88 / 2.42 / 4.16, Q8_0 2.09 / 2.54 / 2.95 / 4.91; the floor
 * of bytes is 0.83, 0.98 and 1.66.  (One token: while two CTAs still fitted an
 * SM, and nothing but these kernels ran.)  The engine's whole step for one
 * token at context 512: int4 1.77 ms, Q4_K 1.84, Q8_0 2.35.  Of an operation
 * 3 to 5 us are no bytes: the predecessor's end, x, the last chunk, the sums.
 */

#include "kernels/mst_k_quant_run.cuh"


static int
mst_k_quant_device(mst_k_quant_device_t *d)
{
    int  i, id, rc;

    const struct {
        enum cudaDeviceAttr  attr;
        int                 *value;
    } wanted[] = {
        { cudaDevAttrMultiProcessorCount, &d->n_sms },
        { cudaDevAttrComputeCapabilityMajor, &d->major },
        { cudaDevAttrMaxSharedMemoryPerBlockOptin, &d->shared },
    };

    rc = cudaGetDevice(&id);

    for (i = 0; i < 3 && rc == cudaSuccess; i++) {
        rc = cudaDeviceGetAttribute(wanted[i].value, wanted[i].attr, id);
    }

    return rc;
}


extern "C" int
mst_k_quant_gemm(const mst_k_gemm_t *a, mst_k_quant_form_t form,
    cudaStream_t stream)
{
    int                   rc;
    mst_k_quant_device_t  d;

    if (a->n == 0 || a->n > MST_K_GEMM_MAX || a->w_scale != NULL
        || a->y_e4m3 || form >= MST_K_QUANT_FORMS)
    {
        return cudaErrorInvalidValue;
    }

    rc = mst_k_quant_device(&d);

    if (rc != cudaSuccess) {
        return rc;
    }

    return mst_k_quant_bits(form) == 4 ? mst_k_quant_w4(a, form, &d, stream)
                                       : mst_k_quant_w8(a, form, &d, stream);
}
