
/*
 * 16 lanes in portable C, as four vectors of what GCC and clang call
 * vector_size: any machine has them.  The operations of mst_vec_avx2.h and
 * mst_vec_avx512.h give the same bits: keep the three files parallel.
 *
 * max(a, b) is "a > b ? a : b" and min likewise, so that b wins over NaN.
 *
 * Two operations C has no words for that a compiler understands, and have some
 * of SSE2, which each x86-64 has: a fused multiply-add without an instruction
 * for it, and sums of two products.
 */

#ifndef MST_VEC_H
#define MST_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "file/mst_quant.h"

#define MST_VEC_QUERIES  3         /* that attention takes at once */
#define MST_VEC_VALUES   2         /* vectors of output per query */
#define MST_VEC_COLS     4         /* of float weights */


#define mst_vec_fn   static inline __attribute__((always_inline, unused))

#define mst_vec_out  static __attribute__((noinline))

#define mst_vec_of16  __attribute__((vector_size(16)))

#if defined(__clang__)
#define mst_vec_unroll  _Pragma("clang loop unroll(full)")
#else
#define mst_vec_unroll  _Pragma("GCC unroll 8")
#endif

#define mst_vec_all  mst_vec_unroll for (int i_ = 0; i_ < 4; i_++)


typedef float     mst_vec4_t mst_vec_of16;
typedef int32_t   mst_ivec4_t mst_vec_of16;
typedef uint32_t  mst_uvec4_t mst_vec_of16;
typedef int16_t   mst_ivec8_t mst_vec_of16;
typedef uint16_t  mst_uvec8_t mst_vec_of16;


typedef struct {
    mst_vec4_t  f[4];
} mst_vec_t;


typedef struct {
    mst_ivec4_t  i[4];
} mst_ivec_t;


mst_vec_fn mst_vec4_t
mst_vec_set4(float x)
{
    mst_vec4_t  r = { x, x, x, x };

    return r;
}


mst_vec_fn mst_ivec4_t
mst_ivec_set4(int32_t x)
{
    mst_ivec4_t  r = { x, x, x, x };

    return r;
}


/* a where the mask is set, else b */

mst_vec_fn mst_vec4_t
mst_vec_pick(mst_ivec4_t mask, mst_vec4_t a, mst_vec4_t b)
{
    return (mst_vec4_t) ((mask & (mst_ivec4_t) a) | (~mask & (mst_ivec4_t) b));
}


mst_vec_fn mst_vec_t
mst_vec_load(const float *p)
{
    mst_vec_t  r;

    memcpy(r.f, p, sizeof(r.f));

    return r;
}


mst_vec_fn void
mst_vec_store(float *p, mst_vec_t a)
{
    memcpy(p, a.f, sizeof(a.f));
}


mst_vec_fn mst_vec_t
mst_vec_set(float x)
{
    mst_vec_t  r;

    mst_vec_all r.f[i_] = mst_vec_set4(x);

    return r;
}


/* 16 bits of each lane, as they are */

mst_vec_fn mst_ivec_t
mst_ivec_load_u16(const uint16_t *p)
{
    int32_t     w[16];
    mst_ivec_t  r;

    for (int i = 0; i < 16; i++) {
        w[i] = p[i];
    }

    memcpy(&r, w, sizeof(r));

    return r;
}


/* the exponent is off by 112, which a multiplication puts right, for
   subnormals too */

mst_vec_fn mst_vec4_t
mst_vec_half4(mst_ivec4_t h)
{
    mst_ivec4_t  high, nan, u;

    u = (h & 0x7fff) << 13;
    high = u >= 0x7c00 << 13;                  /* infinite or NaN */
    nan = u > 0x7c00 << 13;
    u = (mst_ivec4_t) ((mst_vec4_t) u * mst_vec_set4(0x1p112f));
    u |= (high & 0x7f800000) | (nan & 0x400000);       /* NaN turns quiet */

    return (mst_vec4_t) (u | (h & 0x8000) << 16);
}


mst_vec_fn mst_vec_t
mst_vec_load_f16(const uint16_t *p)
{
    mst_vec_t   r;
    mst_ivec_t  h;

    h = mst_ivec_load_u16(p);

    mst_vec_all r.f[i_] = mst_vec_half4(h.i[i_]);

    return r;
}


mst_vec_fn mst_vec_t
mst_vec_load_bf16(const uint16_t *p)
{
    mst_vec_t   r;
    mst_ivec_t  h;

    h = mst_ivec_load_u16(p);

    mst_vec_all r.f[i_] = (mst_vec4_t) (h.i[i_] << 16);

    return r;
}


mst_vec_fn mst_vec_t
mst_vec_load_i8(const int8_t *p)
{
    float      w[16];
    mst_vec_t  r;

    for (int i = 0; i < 16; i++) {
        w[i] = p[i];
    }

    memcpy(&r, w, sizeof(r));

    return r;
}


/* to nearest even */

mst_vec_fn void
mst_vec_store_f16(uint16_t *p, mst_vec_t a)
{
    float  w[16];

    memcpy(w, &a, sizeof(w));

    for (int i = 0; i < 16; i++) {
        p[i] = mst_f32_to_f16(w[i]);
    }
}


mst_vec_fn mst_vec_t
mst_vec_add(mst_vec_t a, mst_vec_t b)
{
    mst_vec_all a.f[i_] += b.f[i_];

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_sub(mst_vec_t a, mst_vec_t b)
{
    mst_vec_all a.f[i_] -= b.f[i_];

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_mul(mst_vec_t a, mst_vec_t b)
{
    mst_vec_all a.f[i_] *= b.f[i_];

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_div(mst_vec_t a, mst_vec_t b)
{
    mst_vec_all a.f[i_] /= b.f[i_];

    return a;
}


#include "backend/mst_vec_c_fma.h"


/* c - a * b */

mst_vec_fn mst_vec_t
mst_vec_fnma(mst_vec_t a, mst_vec_t b, mst_vec_t c)
{
    mst_vec_all a.f[i_] = -a.f[i_];

    return mst_vec_fma(a, b, c);
}


mst_vec_fn mst_vec_t
mst_vec_max(mst_vec_t a, mst_vec_t b)
{
    mst_vec_all a.f[i_] = mst_vec_pick(a.f[i_] > b.f[i_], a.f[i_], b.f[i_]);

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_min(mst_vec_t a, mst_vec_t b)
{
    mst_vec_all a.f[i_] = mst_vec_pick(a.f[i_] < b.f[i_], a.f[i_], b.f[i_]);

    return a;
}


/* lanes 0 1 2 3 .. become 1 0 3 2 .. */

mst_vec_fn mst_vec_t
mst_vec_swap(mst_vec_t a)
{
    mst_vec_all {
        mst_vec4_t  r = { a.f[i_][1], a.f[i_][0], a.f[i_][3], a.f[i_][2] };

        a.f[i_] = r;
    }

    return a;
}


/* lanes from n on become fill */

mst_vec_fn mst_vec_t
mst_vec_cut(mst_vec_t a, int n, float fill)
{
    mst_ivec4_t  lane = { 0, 1, 2, 3 };

    mst_vec_all a.f[i_] = mst_vec_pick(lane + 4 * i_ < mst_ivec_set4(n),
                                       a.f[i_], mst_vec_set4(fill));

    return a;
}


/* of lanes i and i + 8, then i + 4, i + 2, i + 1 */

mst_vec_fn float
mst_vec_sum(mst_vec_t a)
{
    mst_vec4_t  s;

    s = (a.f[0] + a.f[2]) + (a.f[1] + a.f[3]);

    return (s[0] + s[2]) + (s[1] + s[3]);
}


mst_vec_fn float
mst_vec_top(mst_vec_t a)
{
    float  f[16];

    memcpy(f, &a, sizeof(f));

    for (int n = 8; n > 0; n /= 2) {
        for (int i = 0; i < n; i++) {
            f[i] = f[i] > f[i + n] ? f[i] : f[i + n];
        }
    }

    return f[0];
}


mst_vec_fn mst_ivec_t
mst_vec_bits(mst_vec_t a)
{
    mst_ivec_t  r;

    mst_vec_all r.i[i_] = (mst_ivec4_t) a.f[i_];

    return r;
}


mst_vec_fn mst_vec_t
mst_ivec_bits(mst_ivec_t a)
{
    mst_vec_t  r;

    mst_vec_all r.f[i_] = (mst_vec4_t) a.i[i_];

    return r;
}


mst_vec_fn mst_ivec_t
mst_ivec_set(int32_t x)
{
    mst_ivec_t  r;

    mst_vec_all r.i[i_] = mst_ivec_set4(x);

    return r;
}


/* sums wrap */

mst_vec_fn mst_ivec_t
mst_ivec_add(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_all a.i[i_] = (mst_ivec4_t) ((mst_uvec4_t) a.i[i_]
                                         + (mst_uvec4_t) b.i[i_]);

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_sub(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_all a.i[i_] = (mst_ivec4_t) ((mst_uvec4_t) a.i[i_]
                                         - (mst_uvec4_t) b.i[i_]);

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_and(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_all a.i[i_] &= b.i[i_];

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_or(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_all a.i[i_] |= b.i[i_];

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_max(mst_ivec_t a, mst_ivec_t b)
{
    mst_ivec4_t  more;

    mst_vec_all {
        more = a.i[i_] > b.i[i_];
        a.i[i_] = (more & a.i[i_]) | (~more & b.i[i_]);
    }

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_left(mst_ivec_t a, int n)
{
    mst_vec_all a.i[i_] = (mst_ivec4_t) ((mst_uvec4_t) a.i[i_] << n);

    return a;
}


/* arithmetic */

mst_vec_fn mst_ivec_t
mst_ivec_right(mst_ivec_t a, int n)
{
    mst_vec_all a.i[i_] >>= n;

    return a;
}


mst_vec_fn int32_t
mst_ivec_sum(mst_ivec_t a)
{
    mst_uvec4_t  s;

    s = ((mst_uvec4_t) a.i[0] + (mst_uvec4_t) a.i[1])
        + ((mst_uvec4_t) a.i[2] + (mst_uvec4_t) a.i[3]);

    return (int32_t) (s[0] + s[1] + s[2] + s[3]);
}


mst_vec_fn int32_t
mst_ivec_top(mst_ivec_t a)
{
    int32_t  i[16], top;

    memcpy(i, &a, sizeof(i));
    top = i[0];

    for (int k = 1; k < 16; k++) {
        top = i[k] > top ? i[k] : top;
    }

    return top;
}


/* low bytes of the lanes */

mst_vec_fn void
mst_ivec_store_bytes(int8_t *p, mst_ivec_t a)
{
    int32_t  i[16];

    memcpy(i, &a, sizeof(i));

    for (int k = 0; k < 16; k++) {
        p[k] = (int8_t) (uint8_t) i[k];
    }
}


/* to float, nearest even */

mst_vec_fn mst_vec_t
mst_ivec_float(mst_ivec_t a)
{
    mst_vec_t  r;

    mst_vec_all r.f[i_] = __builtin_convertvector(a.i[i_], mst_vec4_t);

    return r;
}


/* pair k of four, four times: gcc makes two instructions of what C has words
   for, clang one */

#if defined(__SSE2__) && !defined(__clang__)

#define mst_ivec_pair(a, k)                                                   \
    ((mst_ivec8_t) _mm_shuffle_epi32((__m128i) (a), (k) * 0x55))

#else

#define mst_ivec_pair(a, k)  ((mst_ivec8_t) mst_ivec_set4(((mst_ivec4_t) a)[k]))

#endif


/* sums of two products each: a0 * b0 + a1 * b1, a2 * b2 + a3 * b3, .. */

mst_vec_fn mst_ivec4_t
mst_ivec_pairs(mst_ivec8_t a, mst_ivec8_t b)
{
#if defined(__SSE2__)

    return (mst_ivec4_t) _mm_madd_epi16((__m128i) a, (__m128i) b);

#else

    mst_ivec4_t  r, s;

    r = ((mst_ivec4_t) a << 16) >> 16;
    r *= ((mst_ivec4_t) b << 16) >> 16;
    s = ((mst_ivec4_t) a >> 16) * ((mst_ivec4_t) b >> 16);

    return r + s;

#endif
}


#endif /* MST_VEC_H */
