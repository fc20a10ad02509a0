
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


/* pieces side by side */
#define MST_K_QUANT_SIDE(t)  ((t) == 1 ? 2 : 1)

/* 8 of x each, those that lanes have that share a scale, to their places;
   the scale, and it times the sum, in all of these lanes */

template <int LANES, int SIDE>
static __device__ __forceinline__ void
mst_k_quant_store(const uint4 *v, uint8_t *const *to, const int *active,
    float2 *scales)
{
    int       d, k, sum[SIDE];
    float     by, most;
    uint2     p[2];
    uint32_t  m[SIDE];

    #pragma unroll
    for (k = 0; k < SIDE; k++) {
        m[k] = mst_k_quant_most(v[k]);
    }

    #pragma unroll
    for (d = 1; d < LANES; d *= 2) {

        #pragma unroll
        for (k = 0; k < SIDE; k++) {
            m[k] = max(m[k], __shfl_xor_sync(~0u, m[k], d));
        }
    }

    #pragma unroll
    for (k = 0; k < SIDE; k++) {
        most = __uint_as_float(m[k] << 16);
        by = most < 1e-30f ? 0 : __fmul_rn(MST_K_QUANT_MOST, __frcp_rn(most));
        scales[k].x = __fmul_rn(most, 1 / MST_K_QUANT_MOST);

        p[0] = mst_k_quant_planes(v[k].x, v[k].y, by);
        p[1] = mst_k_quant_planes(v[k].z, v[k].w, by);

        if (active[k]) {
            *(uint32_t *) to[k] = p[0].x;
            *(uint32_t *) (to[k] + 8) = p[1].x;
            *(uint32_t *) (to[k] + 32) = p[0].y;
            *(uint32_t *) (to[k] + 40) = p[1].y;
        }

        sum[k] = __dp4a((int) p[0].x, 0x01010101,
                        __dp4a((int) p[1].x, 0x01010101, 0)) * 256;
        sum[k] = __dp4a((int) p[0].y, 0x01010101,
                        __dp4a((int) p[1].y, 0x01010101, sum[k]));
    }

    #pragma unroll
    for (d = 1; d < LANES; d *= 2) {

        #pragma unroll
        for (k = 0; k < SIDE; k++) {
            sum[k] += __shfl_xor_sync(~0u, sum[k], d);
        }
    }

    #pragma unroll
    for (k = 0; k < SIDE; k++) {
        scales[k].y = __fmul_rn(scales[k].x, (float) sum[k]);
    }
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


/* the i-th piece of this warp and the next one, of n blocks, to their places
   with their scales */

template <mst_k_quant_form_t FORM, int T>
static __device__ __forceinline__ void
mst_k_quant_put(const mst_k_quant_room_t &s, const uint4 *v, uint32_t i,
    uint32_t n)
{
    typedef mst_k_quant_of<FORM>  f;

    const int  LANES = 16 / f::PARTS;
    const int  SIDE = MST_K_QUANT_SIDE(T);

    int                   active[SIDE], k;
    float2                scales[SIDE];
    uint8_t              *to[SIDE];
    mst_k_quant_piece_t   p;

    #pragma unroll
    for (k = 0; k < SIDE; k++) {
        p = mst_k_quant_piece<T>(i + k * 32);
        active[k] = p.block < n;
        to[k] = s.x + ((p.block * 4 + p.part / 4) * T + p.token) * 64
                + p.part % 2 * 16 + p.part / 2 % 2 * 4;
    }

    mst_k_quant_store<LANES, SIDE>(v, to, active, scales);

    #pragma unroll
    for (k = 0; k < SIDE; k++) {
        p = mst_k_quant_piece<T>(i + k * 32);

        if (active[k] && p.part % LANES == 0) {
            s.xs[(p.block * f::PARTS + p.part / LANES) * T + p.token]
                = scales[k];
        }
    }
}


/* Of n blocks from "block" on x of T tokens from "token" on: those that this
   warp multiplies, so it has to wait for no other */

template <mst_k_quant_form_t FORM, int T>
static __device__ __forceinline__ void
mst_k_quant_fetch(const mst_k_gemm_t &a, const mst_k_quant_room_t &s,
    uint32_t block, uint32_t n, uint32_t token)
{
    const uint32_t  LOADS = MST_K_QUANT_LOADS;

    uint4                 v[LOADS];
    uint32_t              i, k, n_pad;
    const uint8_t        *x;
    mst_k_quant_piece_t   p;

    n_pad = mst_k_gemm_pad(a.n);
    x = (const uint8_t *) a.x + (size_t) block * 256 * n_pad;

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
        for (k = 0; k < LOADS; k += MST_K_QUANT_SIDE(T)) {
            if (mst_k_quant_piece<T>((i & ~31u) + k * 32).block >= n) {
                break;
            }

            mst_k_quant_put<FORM, T>(s, v + k, i + k * 32, n);
        }
    }
}


#endif /* MST_K_QUANT_X_CUH */
