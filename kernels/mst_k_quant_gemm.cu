
/*
 * y = w x over weights that stay quantised (mst_k_quant.h).
 *
 * Each CTA has whole rows: a share of the units of 16.  16 warps multiply (8
 * for one token), each every 16th block of the width, for which it fetches x
 * by itself; their sums meet in shared memory once for a unit.  Three more
 * finish these sums, and add up the norm's squares before.  One brings chunks
 * into a ring (sm_90; before, the warps read them themselves).  Nobody waits
 * for all, but between operations that are one launch.
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
 * One token: what follows on each other up to the next attention is one launch
 * (mst_k_quant_gemms()).  The ring goes on to the next operation's weights,
 * 5 us of the bus, while the last sums of this one are finished, all CTAs meet
 * (2.4 us) and x is fetched and made integers (1.8 us).
 *
 * A token's sums are the same in any number of tokens over 1; one token alone
 * is summed in another order.
 *
 * Bytes: the weights once (0.53 to 1.13 for each, see mst_k_quant_map.h), a
 * Mistral-7B's 3.8 GB of int4 in 0.83 ms at 4.56 TB/s.
 *
 * Measured on an H200 on 30 November 2026, t/cuda/mst_k_quant_bench.cu, a
 * graph of a Mistral-7B's matrices (no attention), PDL, ms for 1 / 4 / 8 / 16
 * tokens: int4 in groups of 128 1.28 / 1.61 / 2.22 / 3.79, by four 1.22; 4
 * bits in groups of 32 1.37 / 1.77 / 2.39 / 4.22, by four 1.33; Q8_0 1.99 /
 * 2.32 / 2.93 / 5.02, by four 2.01; the floor of bytes is 0.83, 0.98 and 1.66.
 * The engine's whole step for one token at context 512: int4 1.52 ms, Q4_K
 * 1.63, Q8_0 2.24, before all this 1.74, 1.79, 2.35.  Of a layer of int4 (38
 * us, 25 of them bytes) out takes 3.0, gate and up 10.2, down 4.1, what is
 * between two of them 5.
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

    /* with MPS two engines' CTAs, each on half of the device, would wait for
       their others for ever */

    if (rc == cudaSuccess) {
        d->alone = cudaDeviceGetAttribute(&i, cudaDevAttrMpsEnabled, id)
                   == cudaSuccess && i == 0;
    }

    return rc;
}


/* one launch */

static int
mst_k_quant_launch(const mst_k_quant_ops_t *ops, mst_k_quant_form_t form,
    const mst_k_quant_device_t *d, cudaStream_t stream)
{
    return mst_k_quant_bits(form) == 4
           ? mst_k_quant_w4(ops, form, d, stream)
           : mst_k_quant_w8(ops, form, d, stream);
}


extern "C" int
mst_k_quant_gemms(const mst_k_gemm_t *a, uint32_t n, mst_k_quant_form_t form,
    uint32_t *met, cudaStream_t stream)
{
    int                   rc;
    uint32_t              i, most;
    mst_k_quant_ops_t     ops;
    mst_k_quant_device_t  d;

    for (i = 0; i < n; i++) {
        if (a[i].n == 0 || a[i].n > MST_K_GEMM_MAX || a[i].n != a->n
            || a[i].w_scale != NULL || a[i].y_e4m3
            || form >= MST_K_QUANT_FORMS)
        {
            return cudaErrorInvalidValue;
        }
    }

    rc = mst_k_quant_device(&d);

    most = d.major >= 9 && d.alone && a->n <= MST_K_QUANT_FEW && met
           ? MST_K_QUANT_OPS : 1;
    ops.met = met;

    for (i = 0; i < n && rc == cudaSuccess; i += ops.n) {
        ops.a = a + i;
        ops.n = n - i < most ? n - i : most;
        rc = mst_k_quant_launch(&ops, form, &d, stream);
    }

    return rc;
}


extern "C" int
mst_k_quant_gemm(const mst_k_gemm_t *a, mst_k_quant_form_t form,
    cudaStream_t stream)
{
    return mst_k_quant_gemms(a, 1, form, NULL, stream);
}
