
/*
 * 16 lanes in portable C.  The operations of mst_vec_avx2.h and
 * mst_vec_avx512.h give the same bits: keep the three files parallel.
 *
 * max(a, b) is "a > b ? a : b" and min likewise, so that b wins over NaN.
 */

#ifndef MST_VEC_H
#define MST_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "file/mst_quant.h"

#define MST_VEC_QUERIES  3         /* that attention takes at once */
#define MST_VEC_VALUES   2         /* vectors of output per query */
#define MST_VEC_COLS     4         /* of float weights */


#define mst_vec_fn   static inline __attribute__((always_inline, unused))
#define mst_vec_all  for (int i_ = 0; i_ < 16; i_++)


typedef struct {
    float  f[16];
} mst_vec_t;


typedef struct {
    int32_t  i[16];
} mst_ivec_t;


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

    mst_vec_all r.f[i_] = x;

    return r;
}


mst_vec_fn float
mst_vec_half(uint16_t h)
{
    float     f;
    uint32_t  u;

    /* the exponent is off by 112, which a multiplication puts right, for
       subnormals too */

    u = (uint32_t) (h & 0x7fff) << 13;

    if ((h & 0x7c00) == 0x7c00) {
        u |= 0x7f800000;

        if (h & 0x3ff) {
            u |= 0x400000;                     /* NaN turns quiet */
        }

        memcpy(&f, &u, 4);

    } else {
        memcpy(&f, &u, 4);
        f *= 0x1p112f;
    }

    return h & 0x8000 ? -f : f;
}


mst_vec_fn mst_vec_t
mst_vec_load_f16(const uint16_t *p)
{
    mst_vec_t  r;

    mst_vec_all r.f[i_] = mst_vec_half(p[i_]);

    return r;
}


mst_vec_fn mst_vec_t
mst_vec_load_bf16(const uint16_t *p)
{
    uint32_t   u;
    mst_vec_t  r;

    for (int i = 0; i < 16; i++) {
        u = (uint32_t) p[i] << 16;
        memcpy(&r.f[i], &u, 4);
    }

    return r;
}


mst_vec_fn mst_vec_t
mst_vec_load_i8(const int8_t *p)
{
    mst_vec_t  r;

    mst_vec_all r.f[i_] = p[i_];

    return r;
}


/* to nearest even */

mst_vec_fn void
mst_vec_store_f16(uint16_t *p, mst_vec_t a)
{
    mst_vec_all p[i_] = mst_f32_to_f16(a.f[i_]);
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


/* a * b + c */

mst_vec_fn mst_vec_t
mst_vec_fma(mst_vec_t a, mst_vec_t b, mst_vec_t c)
{
    mst_vec_all c.f[i_] = fmaf(a.f[i_], b.f[i_], c.f[i_]);

    return c;
}


/* c - a * b */

mst_vec_fn mst_vec_t
mst_vec_fnma(mst_vec_t a, mst_vec_t b, mst_vec_t c)
{
    mst_vec_all c.f[i_] = fmaf(-a.f[i_], b.f[i_], c.f[i_]);

    return c;
}


mst_vec_fn mst_vec_t
mst_vec_max(mst_vec_t a, mst_vec_t b)
{
    mst_vec_all a.f[i_] = a.f[i_] > b.f[i_] ? a.f[i_] : b.f[i_];

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_min(mst_vec_t a, mst_vec_t b)
{
    mst_vec_all a.f[i_] = a.f[i_] < b.f[i_] ? a.f[i_] : b.f[i_];

    return a;
}


/* lanes 0 1 2 3 .. become 1 0 3 2 .. */

mst_vec_fn mst_vec_t
mst_vec_swap(mst_vec_t a)
{
    mst_vec_t  r;

    mst_vec_all r.f[i_] = a.f[i_ ^ 1];

    return r;
}


/* lanes from n on become fill */

mst_vec_fn mst_vec_t
mst_vec_cut(mst_vec_t a, int n, float fill)
{
    mst_vec_all a.f[i_] = i_ < n ? a.f[i_] : fill;

    return a;
}


/* of lanes i and i + 8, then i + 4, i + 2, i + 1 */

mst_vec_fn float
mst_vec_sum(mst_vec_t a)
{
    for (int n = 8; n > 0; n /= 2) {
        for (int i = 0; i < n; i++) {
            a.f[i] += a.f[i + n];
        }
    }

    return a.f[0];
}


mst_vec_fn float
mst_vec_top(mst_vec_t a)
{
    for (int n = 8; n > 0; n /= 2) {
        for (int i = 0; i < n; i++) {
            a.f[i] = a.f[i] > a.f[i + n] ? a.f[i] : a.f[i + n];
        }
    }

    return a.f[0];
}


mst_vec_fn mst_ivec_t
mst_vec_bits(mst_vec_t a)
{
    mst_ivec_t  r;

    memcpy(&r, &a, sizeof(r));

    return r;
}


mst_vec_fn mst_vec_t
mst_ivec_bits(mst_ivec_t a)
{
    mst_vec_t  r;

    memcpy(&r, &a, sizeof(r));

    return r;
}


mst_vec_fn mst_ivec_t
mst_ivec_set(int32_t x)
{
    mst_ivec_t  r;

    mst_vec_all r.i[i_] = x;

    return r;
}


/* sums wrap */

mst_vec_fn mst_ivec_t
mst_ivec_add(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_all a.i[i_] = (int32_t) ((uint32_t) a.i[i_]
                                     + (uint32_t) b.i[i_]);
    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_sub(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_all a.i[i_] = (int32_t) ((uint32_t) a.i[i_]
                                     - (uint32_t) b.i[i_]);
    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_and(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_all a.i[i_] &= b.i[i_];

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_max(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_all a.i[i_] = a.i[i_] > b.i[i_] ? a.i[i_] : b.i[i_];

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_left(mst_ivec_t a, int n)
{
    mst_vec_all a.i[i_] = (int32_t) ((uint32_t) a.i[i_] << n);

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
    uint32_t  sum;

    sum = 0;

    mst_vec_all sum += (uint32_t) a.i[i_];

    return (int32_t) sum;
}


mst_vec_fn int32_t
mst_ivec_top(mst_ivec_t a)
{
    int32_t  top;

    top = a.i[0];

    mst_vec_all top = a.i[i_] > top ? a.i[i_] : top;

    return top;
}


/* low bytes of the lanes */

mst_vec_fn void
mst_ivec_store_bytes(int8_t *p, mst_ivec_t a)
{
    mst_vec_all p[i_] = (int8_t) (uint8_t) a.i[i_];
}


/* to float, nearest even */

mst_vec_fn mst_vec_t
mst_ivec_float(mst_ivec_t a)
{
    mst_vec_t  r;

    mst_vec_all r.f[i_] = (float) a.i[i_];

    return r;
}


#endif /* MST_VEC_H */
