
/*
 * Activations as bytes: x of 32 neighbours of a token (of 128, where the
 * weights' groups have so many) becomes integers of 16 bits with a scale, in
 * two planes of 8 bits: x = scale * (256 * high + low), both signed.  The
 * largest of the group becomes 32,512, so what is rounded away is at most
 * 1 / 65,024 of it, a hundredth of what bf16 has rounded away before.
 *
 * In shared memory 32 of a token are 64 bytes, in the order in which a lane
 * of m16n8k32 has them: [plane][k / 4 % 4][k / 16][k % 4].  A scale stands
 * with scale * (sum of the integers), which the weights' minimum multiplies.
 *
 * A NaN makes its group's scale a NaN.
 */

#ifndef MST_K_QUANT_X_CUH
#define MST_K_QUANT_X_CUH

#include "kernels/mst_k_quant_run.cuh"

#define MST_K_QUANT_MOST   32512.f
#define MST_K_QUANT_LOADS  8                   /* of a thread at once */
#define MST_K_QUANT_MAGIC  12582912.f          /* 1.5 * 2^23: the integer is in
                                                  the sum's lower bits */


/* the largest of 8 bf16, as a bf16 in the lower half */

static __device__ __forceinline__ uint32_t
mst_k_quant_most(uint4 v)
{
    uint32_t  m;

    m = __vmaxu2(__vmaxu2(v.x & 0x7fff7fff, v.y & 0x7fff7fff),
                 __vmaxu2(v.z & 0x7fff7fff, v.w & 0x7fff7fff));

    return max(m & 0xffff, m >> 16);
}


/* 4 of x, two words of bf16, times "by": bytes of the two planes */

static __device__ __forceinline__ uint2
mst_k_quant_planes(uint32_t a, uint32_t b, float by)
{
    int       i;
    uint2     v;
    uint32_t  q[4];

    q[0] = a << 16;
    q[1] = a & 0xffff0000u;
    q[2] = b << 16;
    q[3] = b & 0xffff0000u;

    #pragma unroll
    for (i = 0; i < 4; i++) {
        q[i] = __float_as_uint(fmaf(__uint_as_float(q[i]), by,
                                    MST_K_QUANT_MAGIC));
    }

    v.y = __byte_perm(__byte_perm(q[0], q[1], 0x0040),
                      __byte_perm(q[2], q[3], 0x0040), 0x5410);

    #pragma unroll
    for (i = 0; i < 4; i++) {
        q[i] += 128;
    }

    v.x = __byte_perm(__byte_perm(q[0], q[1], 0x0051),
                      __byte_perm(q[2], q[3], 0x0051), 0x5410);

    return v;
}


/* 8 of x, those that lanes have that share a scale: to their place; the
   scale, and it times the sum, in all of these lanes */

template <int LANES>
static __device__ __forceinline__ float2
mst_k_quant_store(uint4 v, uint8_t *to, int active)
{
    int       d, sum;
    float     by, most, scale;
    uint2     p[2];
    uint32_t  m;

    m = mst_k_quant_most(v);

    #pragma unroll
    for (d = 1; d < LANES; d *= 2) {
        m = max(m, __shfl_xor_sync(~0u, m, d));
    }

    most = __uint_as_float(m << 16);
    by = most < 1e-30f ? 0 : __fmul_rn(MST_K_QUANT_MOST, __frcp_rn(most));
    scale = __fmul_rn(most, 1 / MST_K_QUANT_MOST);

    p[0] = mst_k_quant_planes(v.x, v.y, by);
    p[1] = mst_k_quant_planes(v.z, v.w, by);

    if (active) {
        *(uint32_t *) to = p[0].x;
        *(uint32_t *) (to + 8) = p[1].x;
        *(uint32_t *) (to + 32) = p[0].y;
        *(uint32_t *) (to + 40) = p[1].y;
    }

    sum = __dp4a((int) p[0].x, 0x01010101,
                 __dp4a((int) p[1].x, 0x01010101, 0)) * 256;
    sum = __dp4a((int) p[0].y, 0x01010101,
                 __dp4a((int) p[1].y, 0x01010101, sum));

    #pragma unroll
    for (d = 1; d < LANES; d *= 2) {
        sum += __shfl_xor_sync(~0u, sum, d);
    }

    return make_float2(scale, __fmul_rn(scale, (float) sum));
}


/* a piece of 8 of x */
typedef struct {
    uint32_t  block;           /* of those that are fetched */
    uint32_t  token;
    uint32_t  part;            /* of the block's 16 */
} mst_k_quant_piece_t;


/* the i-th of this warp */

template <int T>
static __device__ __forceinline__ mst_k_quant_piece_t
mst_k_quant_piece(uint32_t i)
{
    mst_k_quant_piece_t  p;

    p.part = i % 16;
    p.token = i / 16 % T;
    p.block = i / 16 / T * MST_K_QUANT_WARPS(T) + threadIdx.x / 32;

    return p;
}


/* Of n blocks from "block" on x of T tokens from "token" on: those that this
   warp multiplies, so it has to wait for no other */

template <mst_k_quant_form_t FORM, int T>
static __device__ __forceinline__ void
mst_k_quant_fetch(const mst_k_quant_run_t &r, const mst_k_quant_room_t &s,
    uint32_t block, uint32_t n, uint32_t token)
{
    typedef mst_k_quant_of<FORM>  f;

    const int       LANES = 16 / f::PARTS;
    const uint32_t  LOADS = MST_K_QUANT_LOADS;

    uint4                 v[LOADS];
    float2                scale;
    uint32_t              i, k, n_pad;
    const uint8_t        *x;
    mst_k_quant_piece_t   p;

    n_pad = mst_k_gemm_pad(r.a.n);
    x = (const uint8_t *) r.a.x + (size_t) block * 256 * n_pad;

    for (i = threadIdx.x % 32; mst_k_quant_piece<T>(i & ~31u).block < n;
         i += LOADS * 32)
    {
        #pragma unroll
        for (k = 0; k < LOADS; k++) {
            p = mst_k_quant_piece<T>(i + k * 32);
            v[k] = make_uint4(0, 0, 0, 0);

            if (p.block < n) {
                v[k] = __ldcg((const uint4 *)
                              (x + ((p.block * 2 + p.part / 8) * n_pad + token
                                    + p.token) * 128
                               + ((p.part ^ (token + p.token)) & 7) * 16));
            }
        }

        /* whole warps, since their lanes ask each other */

        #pragma unroll
        for (k = 0; k < LOADS; k++) {
            if (mst_k_quant_piece<T>((i & ~31u) + k * 32).block >= n) {
                break;
            }

            p = mst_k_quant_piece<T>(i + k * 32);
            scale = mst_k_quant_store<LANES>(v[k],
                        s.x + ((p.block * 4 + p.part / 4) * T + p.token) * 64
                        + p.part % 2 * 16 + p.part / 2 % 2 * 4, p.block < n);

            if (p.block < n && p.part % LANES == 0) {
                s.xs[(p.block * f::PARTS + p.part / LANES) * T + p.token]
                    = scale;
            }
        }
    }
}


#endif /* MST_K_QUANT_X_CUH */
