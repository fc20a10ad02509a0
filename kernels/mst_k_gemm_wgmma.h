
/*
 * wgmma of one tile of weights (64 rows) and n tokens, both in shared memory
 * with the 128-byte swizzle: d[64][n] += a[64][32 bytes] . b[n][32 bytes],
 * fp32 sums in registers.  Of n tokens a thread has d[n / 2]: of each 8 its
 * rows r, r + 8 (r = lane / 4 of its warp's 16) and tokens t, t + 1
 * (t = 2 * (lane % 4)), in the order (r, t), (r, t + 1), (r + 8, t),
 * (r + 8, t + 1).
 */

#ifndef MST_K_GEMM_WGMMA_H
#define MST_K_GEMM_WGMMA_H

#include "kernels/mst_k_gemm_ptx.h"


/* registers of the sums, in the text and as operands */

#define MST_K_R4  "%0,%1,%2,%3"
#define MST_K_R8  MST_K_R4 "," \
    "%4,%5,%6,%7"
#define MST_K_R16  MST_K_R8 "," \
    "%8,%9,%10,%11,%12,%13,%14,%15"
#define MST_K_R32  MST_K_R16 "," \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define MST_K_R64  MST_K_R32 "," \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

#define MST_K_D4(i)   "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), \
    "+f"(d[i + 3])
#define MST_K_D8(i)   MST_K_D4(i), MST_K_D4(i + 4)
#define MST_K_D16(i)  MST_K_D8(i), MST_K_D8(i + 8)
#define MST_K_D32(i)  MST_K_D16(i), MST_K_D16(i + 16)
#define MST_K_D64(i)  MST_K_D32(i), MST_K_D32(i + 32)

/* a, b: operands after the sums */
#define MST_K_WGMMA(shape, types, tail, regs, sums, a, b) \
    asm volatile("wgmma.mma_async.sync.aligned." shape ".f32." types \
                 " {" regs "}, %" #a ", %" #b ", 1, 1, 1" tail ";" \
                 : sums : "l"(da), "l"(db))

#define MST_K_WGMMA_OF(n, half, a, b) \
template<> \
struct mst_k_wgmma<n> { \
    static __device__ __forceinline__ void \
    bf16(float *d, uint64_t da, uint64_t db) \
    { \
        MST_K_WGMMA("m64n" #n "k16", "bf16.bf16", ", 0, 0", \
                    MST_K_R##half, MST_K_D##half(0), a, b); \
    } \
\
    static __device__ __forceinline__ void \
    e4m3(float *d, uint64_t da, uint64_t db) \
    { \
        MST_K_WGMMA("m64n" #n "k32", "e4m3.e4m3", "", \
                    MST_K_R##half, MST_K_D##half(0), a, b); \
    } \
}


template<int N>
struct mst_k_wgmma;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

MST_K_WGMMA_OF(8, 4, 4, 5);
MST_K_WGMMA_OF(16, 8, 8, 9);
MST_K_WGMMA_OF(32, 16, 16, 17);
MST_K_WGMMA_OF(64, 32, 32, 33);
MST_K_WGMMA_OF(128, 64, 64, 65);


/* of a tile whose groups of 8 rows are `stride` bytes apart */
MST_K_DEV uint64_t
mst_k_wgmma_tile(const void *p, uint32_t stride)
{
    return (uint64_t) ((mst_k_ptx_shared(p) & 0x3ffff) >> 4)
           | (uint64_t) 1 << 16 | (uint64_t) (stride >> 4) << 32
           | (uint64_t) 1 << 62;
}


MST_K_DEV void
mst_k_wgmma_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}


MST_K_DEV void
mst_k_wgmma_end(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;\n"
                 "wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#endif


#endif /* MST_K_GEMM_WGMMA_H */
