
/*
 * Codes of weights times the bytes of mst_k_quant_x.cuh on the tensor cores:
 * m16n8k32 with 16 rows of weights and 8 columns, of which a token has two,
 * its planes.  Sums of integers are exact; scales are applied to them in
 * float where a group of weights or of x ends.
 *
 * One token leaves 6 columns, which have other groups: x of group i of a
 * block stands in columns 2i and 2i + 1 alone and is zero in the others, so
 * that one chain of 4 multiplications serves a block, and all lanes have
 * sums to scale.
 */

#ifndef MST_K_QUANT_MMA_CUH
#define MST_K_QUANT_MMA_CUH

#include "kernels/mst_k_quant_x.cuh"


#define MST_K_QUANT_ASM(shape, a, b, c)                                       \
    "mma.sync.aligned." shape " {%0, %1, %2, %3}, " a ", " b ", " c ";"


/* c = a b, or c += a b */

template <int UNSIGNED>
static __device__ __forceinline__ void
mst_k_quant_mma(int *c, uint4 a, uint2 b, int first)
{
    int  z[4];

    z[0] = first ? 0 : c[0];
    z[1] = first ? 0 : c[1];
    z[2] = first ? 0 : c[2];
    z[3] = first ? 0 : c[3];

    if (UNSIGNED) {
        asm volatile(MST_K_QUANT_ASM("m16n8k32.row.col.s32.u8.s8.s32",
                                     "{%4, %5, %6, %7}", "{%8, %9}",
                                     "{%10, %11, %12, %13}")
                     : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w),
                       "r"(b.x), "r"(b.y),
                       "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3]));

    } else {
        asm volatile(MST_K_QUANT_ASM("m16n8k32.row.col.s32.s8.s8.s32",
                                     "{%4, %5, %6, %7}", "{%8, %9}",
                                     "{%10, %11, %12, %13}")
                     : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w),
                       "r"(b.x), "r"(b.y),
                       "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3]));
    }
}


/* half the width: a group of 16 */

static __device__ __forceinline__ void
mst_k_quant_mma16(int *c, uint32_t a0, uint32_t a1, uint32_t b, int first)
{
    int  z[4];

    z[0] = first ? 0 : c[0];
    z[1] = first ? 0 : c[1];
    z[2] = first ? 0 : c[2];
    z[3] = first ? 0 : c[3];

    asm volatile(MST_K_QUANT_ASM("m16n8k16.row.col.s32.s8.s8.s32",
                                 "{%4, %5}", "{%6}", "{%7, %8, %9, %10}")
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                 : "r"(a0), "r"(a1), "r"(b),
                   "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3]));
}


/* 16 bytes of codes of this lane: of a ring, or of the matrix itself */

static __device__ __forceinline__ uint4
mst_k_quant_load(const uint8_t *p)
{
#if __CUDA_ARCH__ >= 900
    return *(const uint4 *) p;
#else
    return __ldg((const uint4 *) p);
#endif
}


/* this lane's part of a block's codes */

template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ void
mst_k_quant_codes(const uint8_t *p, uint4 *w)
{
    uint32_t  i;

    #pragma unroll
    for (i = 0; i < mst_k_quant_of<FORM>::CODES / 512; i++) {
        w[i] = mst_k_quant_load(p + i * 512 + threadIdx.x % 32 * 16);
    }
}


/* codes of 32 of the width, from those of a block; IN_PLACE: of 4 bits those
   of groups 1 and 3 come times 16 */

template <mst_k_quant_form_t FORM, int IN_PLACE>
static __device__ __forceinline__ uint4
mst_k_quant_pick(const uint4 *w, int group)
{
    int       shift;
    uint4     v;
    uint32_t  mask;

    if (!mst_k_quant_of<FORM>::W4) {
        return w[group];
    }

    v = w[group / 2];
    shift = IN_PLACE ? 0 : group % 2 * 4;
    mask = IN_PLACE && group % 2 ? 0xf0f0f0f0 : 0x0f0f0f0f;

    v.x = v.x >> shift & mask;
    v.y = v.y >> shift & mask;
    v.z = v.z >> shift & mask;
    v.w = v.w >> shift & mask;

    return v;
}


template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ void
mst_k_quant_chain(int (*c)[4], uint4 a, uint2 b, int first)
{
    if (mst_k_quant_of<FORM>::HALVES == 2) {
        mst_k_quant_mma16(c[0], a.x, a.y, b.x, first);
        mst_k_quant_mma16(c[mst_k_quant_of<FORM>::HALVES - 1], a.z, a.w, b.y,
                          first);

    } else {
        mst_k_quant_mma<mst_k_quant_of<FORM>::W4>(c[0], a, b, first);
    }
}


/* scales, and mins, of rows g and g + 8 of a group of weights */

template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ float4
mst_k_quant_scales(const uint8_t *scales, uint32_t group)
{
    uint2     v;
    float2    a, b;
    uint32_t  g;

    g = threadIdx.x % 32 / 4;

    if (mst_k_quant_of<FORM>::W4) {
        v = *(const uint2 *) (scales + group * 64 + g * 8);
        a = __half22float2(*(const __half2 *) &v.x);
        b = __half22float2(*(const __half2 *) &v.y);

        return make_float4(a.x, b.x, a.y, b.y);
    }

    a = __half22float2(*(const __half2 *) (scales + group * 32 + g * 4));

    return make_float4(a.x, a.y, 0, 0);
}


/* the ends of a lane's chains, two rows of one token: their planes and their
   scales together, onto acc */

template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ void
mst_k_quant_apply(const int *c, float4 s, float2 x, float *acc)
{
    int  h;

    #pragma unroll
    for (h = 0; h < 2; h++) {
        acc[h] = fmaf(h ? s.y : s.x,
                      __fmul_rn((float) (c[2 * h] * 256 + c[2 * h + 1]), x.x),
                      acc[h]);

        if (mst_k_quant_of<FORM>::W4) {
            acc[h] = fmaf(h ? s.w : s.z, x.y, acc[h]);
        }
    }
}


/* one token: chains of N blocks, side by side; group i of x is in columns 2i
   and 2i + 1 */

template <mst_k_quant_form_t FORM, int N>
static __device__ __forceinline__ void
mst_k_quant_one(const uint8_t *codes, const uint8_t *scales, uint32_t at,
    const uint8_t *x, const float2 *xs, float *acc)
{
    typedef mst_k_quant_of<FORM>  f;

    int       c[N][f::HALVES][4], group, h, n;
    uint2     b, v[N];
    uint4     w[N][f::CODES / 512];
    float4    scale[N][f::HALVES];
    float2    xscale[N];
    uint32_t  block, lane, mine;

    lane = threadIdx.x % 32;
    mine = f::PARTS == 1 ? 0 : lane % 4;

    #pragma unroll
    for (n = 0; n < N; n++) {
        block = at + n * MST_K_QUANT_WARPS(1);
        mst_k_quant_codes<FORM>(codes + block * f::CODES, w[n]);
        v[n] = *(const uint2 *) (x + block * 256 + lane * 8);
        xscale[n] = xs[block * f::PARTS + mine];

        #pragma unroll
        for (h = 0; h < (int) f::HALVES; h++) {
            scale[n][h] = mst_k_quant_scales<FORM>(scales,
                              (block * f::PARTS + mine) * f::HALVES + h);
        }
    }

    #pragma unroll
    for (group = 0; group < 4; group++) {

        #pragma unroll
        for (n = 0; n < N; n++) {
            b.x = (int) lane / 8 == group ? v[n].x : 0;
            b.y = (int) lane / 8 == group ? v[n].y : 0;
            mst_k_quant_chain<FORM>(c[n],
                                    mst_k_quant_pick<FORM, 1>(w[n], group), b,
                                    group == 0);
        }
    }

    #pragma unroll
    for (n = 0; n < N; n++) {

        /* groups 1 and 3 are times 16 */

        if (f::W4) {
            xscale[n].x *= lane % 2 ? 0.0625f : 1;
        }

        /* all 4 lanes have the sum of x: one adds it */

        if (f::PARTS == 1 && lane % 4) {
            xscale[n].y = 0;
        }

        #pragma unroll
        for (h = 0; h < (int) f::HALVES; h++) {
            mst_k_quant_apply<FORM>(c[n][h], scale[n][h], xscale[n], acc);
        }
    }
}


/* T tokens, 4 for each 8 columns: a block */

template <mst_k_quant_form_t FORM, int T>
static __device__ __forceinline__ void
mst_k_quant_many(const uint8_t *codes, const uint8_t *scales, uint32_t at,
    const uint8_t *x, const float2 *xs, float (*acc)[2])
{
    typedef mst_k_quant_of<FORM>  f;

    int       c[T / 4][f::HALVES][4], group, h, q;
    uint4     a, w[f::CODES / 512];
    float4    s[f::HALVES];
    uint32_t  lane, part;

    lane = threadIdx.x % 32;
    mst_k_quant_codes<FORM>(codes, w);

    #pragma unroll
    for (group = 0; group < 4; group++) {
        a = mst_k_quant_pick<FORM, 0>(w, group);
        part = at * f::PARTS + (f::PARTS == 1 ? 0 : group);

        #pragma unroll
        for (h = 0; h < (int) f::HALVES; h++) {
            s[h] = mst_k_quant_scales<FORM>(scales, part * f::HALVES + h);
        }

        #pragma unroll
        for (q = 0; q < T / 4; q++) {

            mst_k_quant_chain<FORM>(c[q], a,
                                    *(const uint2 *)
                                    (x + ((at * 4 + group) * T + q * 4) * 64
                                     + lane * 8),
                                    f::PARTS == 4 || group == 0);

            #pragma unroll
            for (h = 0; h < (int) f::HALVES; h++) {
                if (f::PARTS == 4 || group == 3) {
                    mst_k_quant_apply<FORM>(c[q][h], s[h],
                                            xs[part * T + q * 4 + lane % 4],
                                            acc[q]);
                }
            }
        }
    }
}


/* this warp's blocks of a chunk of n blocks, the first of which is "first" of
   its unit; x and xs from the chunk's first block on */

template <mst_k_quant_form_t FORM, int T>
static __device__ __forceinline__ void
mst_k_quant_strip(const uint8_t *chunk, uint32_t first, uint32_t n,
    const uint8_t *x, const float2 *xs, float (*acc)[2])
{
    typedef mst_k_quant_of<FORM>  f;

    const uint32_t  WARPS = MST_K_QUANT_WARPS(T);

    uint32_t        at;
    const uint8_t  *scales;

    scales = chunk + n * f::CODES;
    at = (threadIdx.x / 32 - first) % WARPS;

    if constexpr (T == 1 && f::CHUNK == 2 * WARPS) {
        if (at + WARPS < n) {
            mst_k_quant_one<FORM, 2>(chunk, scales, at, x, xs, acc[0]);
            return;
        }
    }

    for ( /* void */ ; at < n; at += WARPS) {
        if constexpr (T == 1) {
            mst_k_quant_one<FORM, 1>(chunk, scales, at, x, xs, acc[0]);

        } else {
            mst_k_quant_many<FORM, T>(chunk + at * f::CODES, scales, at, x,
                                      xs, acc);
        }
    }
}


#endif /* MST_K_QUANT_MMA_CUH */
