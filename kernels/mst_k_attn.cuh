
/*
 * What the attention kernels share: instructions that C++ has no words for,
 * the rotation of a pair, and where an output goes.  Device code only.
 */

#ifndef MST_K_ATTN_CUH
#define MST_K_ATTN_CUH

#include <stdint.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "kernels/mst_k_attn.h"

#define MST_K_DEV  static __device__ __forceinline__

/* MST_K_ATTN_PLAIN: sm_80's way on every device, for tests */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 \
    && !defined(MST_K_ATTN_PLAIN)
#define MST_K_BULK  1
#else
#define MST_K_BULK  0
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define MST_K_PDL  1
#else
#define MST_K_PDL  0
#endif

#define MST_K_LOG2E     1.4426950408889634f
#define MST_K_FP8_MAX   448.0f

/* fp8: probabilities times the values' scales are f16 operands; this keeps
   them normal for values from 1e-4 to 7,000 */
#define MST_K_FP8_GAIN  4096.0f


MST_K_DEV uint32_t
mst_k_smem(const void *p)
{
    return (uint32_t) __cvta_generic_to_shared(p);
}


/* programmatic dependent launch; no-ops below sm_90 */

MST_K_DEV void
mst_k_pdl_trigger(void)
{
#if MST_K_PDL
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}


MST_K_DEV void
mst_k_pdl_wait(void)
{
#if MST_K_PDL
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}


/* mbarriers and bulk copies: sm_90 */

MST_K_DEV void
mst_k_bar_init(uint32_t bar, uint32_t n)
{
#if MST_K_PDL
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(bar), "r"(n) : "memory");
#endif
}


MST_K_DEV void
mst_k_bar_init_done(void)
{
#if MST_K_PDL
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}


MST_K_DEV void
mst_k_bar_expect(uint32_t bar, uint32_t bytes)
{
#if MST_K_PDL
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(bar), "r"(bytes) : "memory");
#endif
}


MST_K_DEV void
mst_k_bar_arrive(uint32_t bar)
{
#if MST_K_PDL
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :: "r"(bar) : "memory");
#endif
}


MST_K_DEV void
mst_k_bar_wait(uint32_t bar, uint32_t phase)
{
#if MST_K_PDL
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@!p bra again;\n"
        "}" :: "r"(bar), "r"(phase) : "memory");
#endif
}


MST_K_DEV uint64_t
mst_k_evict_first(void)
{
    uint64_t  policy = 0;

#if MST_K_PDL
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;"
        : "=l"(policy));
#endif

    return policy;
}


MST_K_DEV uint64_t
mst_k_evict_last(void)
{
    uint64_t  policy = 0;

#if MST_K_PDL
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;"
        : "=l"(policy));
#endif

    return policy;
}


MST_K_DEV void
mst_k_bulk(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar,
    uint64_t policy)
{
#if MST_K_PDL
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1], %2, [%3], %4;"
        :: "r"(dst), "l"(src), "r"(bytes), "r"(bar), "l"(policy) : "memory");
#endif
}


/* ordinary stores to shared memory before later bulk copies or wgmma */

MST_K_DEV void
mst_k_fence_async(void)
{
#if MST_K_PDL
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}


/* 16 bytes each thread: sm_80 */

MST_K_DEV void
mst_k_cp16(uint32_t dst, const void *src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(dst), "l"(src) : "memory");
}


MST_K_DEV void
mst_k_cp_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}


template <int N>
MST_K_DEV void
mst_k_cp_wait(void)
{
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}


MST_K_DEV void
mst_k_ldsm(uint32_t *r, uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, "
                 "[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at) : "memory");
}


MST_K_DEV void
mst_k_ldsm_t(uint32_t *r, uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at) : "memory");
}


/* c += a b, m16n8k16; F16: operands are half, else bf16 */

template <int F16>
MST_K_DEV void
mst_k_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    if (F16) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));

    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}


MST_K_DEV float
mst_k_exp2(float x)
{
    float  y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));

    return y;
}


/* two floats as one operand register: bf16, or f16 that saturates */

template <int F16>
MST_K_DEV uint32_t
mst_k_pack(float a, float b)
{
    if (F16) {
        __half2  h;

        h = __floats2half2_rn(fminf(fmaxf(a, -65504.f), 65504.f),
                              fminf(fmaxf(b, -65504.f), 65504.f));
        return *(uint32_t *) &h;
    }

    __nv_bfloat162  v;

    v = __floats2bfloat162_rn(a, b);

    return *(uint32_t *) &v;
}


/* what another kernel of this step wrote: not through L1's read-only path */

MST_K_DEV uint32_t
mst_k_ld(const void *p)
{
    uint32_t  v;

    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");

    return v;
}


MST_K_DEV float2
mst_k_ld2(const void *p)
{
    float2  v;

    asm volatile("ld.global.cg.v2.f32 {%0,%1}, [%2];"
                 : "=f"(v.x), "=f"(v.y) : "l"(p) : "memory");

    return v;
}


MST_K_DEV float4
mst_k_ld4(const void *p)
{
    float4  v;

    asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(p) : "memory");

    return v;
}


/* a pair of bf16, turned and scaled */

MST_K_DEV float2
mst_k_turn(uint32_t pair, float2 cs, float scale)
{
    float  x, y;

    x = __uint_as_float(pair << 16);
    y = __uint_as_float(pair & 0xffff0000u);

    return make_float2((x * cs.x - y * cs.y) * scale,
                       (y * cs.x + x * cs.y) * scale);
}


/* cosine and sine of a pair of a row's heads */

MST_K_DEV float2
mst_k_turn_of(const mst_k_attn_t *a, uint32_t row, uint32_t pair)
{
    float2  v;

    if (pair >= a->pairs) {
        return make_float2(1.f, 0.f);
    }

    /* through L1: the heads of a row follow each other */

    asm volatile("ld.global.ca.v2.f32 {%0,%1}, [%2];"
                 : "=f"(v.x), "=f"(v.y)
                 : "l"(a->turns + ((size_t) row * a->pairs + pair) * 2)
                 : "memory");

    return v;
}


/* e4m3 of two floats, the first in the low byte */

MST_K_DEV uint32_t
mst_k_e4m3x2(float a, float b)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE,
                                    __NV_E4M3);
}


/* two e4m3 of the low half of a register as two f16 */

MST_K_DEV uint32_t
mst_k_e4m3_f16(uint32_t v)
{
    __half2_raw  h;

    h = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t) v, __NV_E4M3);

    return *(uint32_t *) &h;
}


/* 2 or 4 neighbouring outputs of a row: N values from column col on */

template <int N>
MST_K_DEV void
mst_k_attn_out(const mst_k_attn_t *a, uint32_t row, uint32_t col,
    const float *v)
{
    size_t     at;
    uint32_t   i, width;
    uint8_t   *out;

    out = (uint8_t *) a->out;
    width = a->shape.n_heads * a->shape.head_dim;

    if (a->out_type == MST_K_OUT_BF16 || a->out_type == MST_K_OUT_BF16_LINES) {

        at = a->out_type == MST_K_OUT_BF16
             ? ((size_t) row * width + col) * 2
             : ((size_t) (col >> 6) * a->out_rows + row) * 128
               + ((((col & 63) >> 3) ^ (row & 7)) << 4) + (col & 7) * 2;

        if (N == 4) {
            *(uint2 *) (out + at) = make_uint2(mst_k_pack<0>(v[0], v[1]),
                                               mst_k_pack<0>(v[2], v[3]));
            return;
        }

        *(uint32_t *) (out + at) = mst_k_pack<0>(v[0], v[1]);
        return;
    }

    at = a->out_type == MST_K_OUT_FP8
         ? (size_t) row * width + col
         : ((size_t) (col >> 7) * a->out_rows + row) * 128
           + ((((col & 127) >> 4) ^ (row & 7)) << 4) + (col & 15);

    for (i = 0; i < N; i += 2) {
        *(uint16_t *) (out + at + i) =
            (uint16_t) mst_k_e4m3x2(v[i] * a->out_scale,
                                    v[i + 1] * a->out_scale);
    }
}


/* does the device run the sm_90a code, with bulk copies and programmatic
   launches; a later one would run what was compiled for an older */

static inline int
mst_k_attn_hopper(void)
{
    static int  known = -1;
    int         device, major;

    if (known < 0) {
        major = 0;

        if (cudaGetDevice(&device) == cudaSuccess) {
            (void) cudaDeviceGetAttribute(&major,
                                          cudaDevAttrComputeCapabilityMajor,
                                          device);
        }

        known = major == 9;
    }

    return known;
}


/* a launch of one argument structure */

template <class A>
static int
mst_k_attn_launch(void (*kernel)(A), dim3 grid, dim3 block, uint32_t smem,
    const A *args, int pdl, cudaStream_t stream)
{
    void                *p[1];
    cudaError_t          rc;
    cudaLaunchConfig_t   conf = {};
    cudaLaunchAttribute  attr[1];

    if (smem > 48 * 1024) {
        rc = cudaFuncSetAttribute((const void *) kernel,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int) smem);
        if (rc != cudaSuccess) {
            return rc;
        }
    }

    /* room for two kernels, or the next one, on a multiprocessor: left to
       itself, the driver may leave the memory to the L1 cache */

    rc = cudaFuncSetAttribute((const void *) kernel,
                              cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
    if (rc != cudaSuccess) {
        return rc;
    }

    conf.gridDim = grid;
    conf.blockDim = block;
    conf.dynamicSmemBytes = smem;
    conf.stream = stream;

    if (pdl && mst_k_attn_hopper()) {
        attr[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attr[0].val.programmaticStreamSerializationAllowed = 1;
        conf.attrs = attr;
        conf.numAttrs = 1;
    }

    p[0] = (void *) args;

    return cudaLaunchKernelExC(&conf, (const void *) kernel, p);
}


#endif /* MST_K_ATTN_CUH */
