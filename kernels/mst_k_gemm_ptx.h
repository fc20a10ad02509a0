
/*
 * The instructions of sm_90 that the decode GEMMs need: barriers in shared
 * memory, bulk copies, programmatic launch.
 */

#ifndef MST_K_GEMM_PTX_H
#define MST_K_GEMM_PTX_H

#include <stdint.h>


#define MST_K_DEV  static __device__ __forceinline__


MST_K_DEV uint32_t
mst_k_ptx_shared(const void *p)
{
    return (uint32_t) __cvta_generic_to_shared(p);
}


#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

MST_K_DEV void
mst_k_ptx_bar_init(uint64_t *bar, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(mst_k_ptx_shared(bar)), "r"(count) : "memory");
}


MST_K_DEV void
mst_k_ptx_bar_expect(uint64_t *bar, uint32_t size)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(mst_k_ptx_shared(bar)), "r"(size) : "memory");
}


MST_K_DEV void
mst_k_ptx_bar_arrive(uint64_t *bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :: "r"(mst_k_ptx_shared(bar)) : "memory");
}


/* until the phase of this parity is over */
MST_K_DEV void
mst_k_ptx_bar_wait(uint64_t *bar, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}"
                 :: "r"(mst_k_ptx_shared(bar)), "r"(parity) : "memory");
}


MST_K_DEV void
mst_k_ptx_bar_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}


/* bytes of global memory into shared memory; bar counts them */
MST_K_DEV void
mst_k_ptx_copy(void *to, const void *from, uint32_t size, uint64_t *bar,
    uint64_t policy)
{
    asm volatile("cp.async.bulk.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1], %2, [%3], %4;"
                 :: "r"(mst_k_ptx_shared(to)), "l"(from), "r"(size),
                    "r"(mst_k_ptx_shared(bar)), "l"(policy) : "memory");
}


/* read once: first to leave the L2 */
MST_K_DEV uint64_t
mst_k_ptx_once(void)
{
    uint64_t  policy;

    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;"
        : "=l"(policy));

    return policy;
}


/* read by all: last to leave */
MST_K_DEV uint64_t
mst_k_ptx_often(void)
{
    uint64_t  policy;

    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;"
        : "=l"(policy));

    return policy;
}


MST_K_DEV void
mst_k_ptx_launch_next(void)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}


MST_K_DEV void
mst_k_ptx_wait_previous(void)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

#else

MST_K_DEV void
mst_k_ptx_launch_next(void)
{
}


MST_K_DEV void
mst_k_ptx_wait_previous(void)
{
}

#endif


#endif /* MST_K_GEMM_PTX_H */
