
/*
 * Kernels written once over 16 lanes.  mst_cpu_avx512.c, mst_cpu_avx2.c and
 * mst_cpu_c.c include their mst_vec_*.h, then this file.  The order of the
 * operations is the promise that all three give the same bits, and that a
 * row's bits depend on nothing but the row.
 *
 * They keep nothing and are called by any thread of the pool.
 */

#ifndef MST_CPU_KERNEL_H
#define MST_CPU_KERNEL_H

#include <float.h>
#include <math.h>

#include "backend/mst_cpu_isa.h"

#if defined(__clang__)
#define mst_unroll  _Pragma("clang loop unroll(full)")
#else
#define mst_unroll  _Pragma("GCC unroll 32")
#endif

/* adding it rounds a float of less than 2^22 to an integer, to nearest even,
   and leaves that integer in the low bits */
#define MST_KERNEL_ROUND       0x1.8p23f
#define MST_KERNEL_ROUND_BITS  0x4b400000

#define MST_KERNEL_Q           2088000.0f  /* largest digits: 127 127 63 */
#define MST_KERNEL_Q2          32639.0f    /* of two: 127 127 */
#define MST_KERNEL_TINY        1e-30f      /* blocks below it count as zero:
                                              Q / x would overflow */

#define MST_KERNEL_AHEAD       512         /* bytes of prefetch */
#define MST_KERNEL_UNDER       0x1p-90f    /* more than products of a sum lose
                                              that are too small for a float */


/* to 1 ulp or so within -87 .. 88, the ends beyond; NaN stays NaN */

mst_vec_fn mst_vec_t
mst_kernel_exp(mst_vec_t x)
{
    mst_vec_t   p, r, t;
    mst_ivec_t  n;

    x = mst_vec_max(mst_vec_set(-87.0f), x);
    x = mst_vec_min(mst_vec_set(88.0f), x);

    /* x = n ln 2 + r, ln 2 in two parts */

    t = mst_vec_fma(x, mst_vec_set(0x1.715476p0f),
                    mst_vec_set(MST_KERNEL_ROUND));
    n = mst_ivec_sub(mst_vec_bits(t), mst_ivec_set(MST_KERNEL_ROUND_BITS));
    t = mst_vec_sub(t, mst_vec_set(MST_KERNEL_ROUND));
    r = mst_vec_fnma(t, mst_vec_set(0x1.62e4p-1f), x);
    r = mst_vec_fnma(t, mst_vec_set(0x1.7f7d1cp-20f), r);

    p = mst_vec_set(1.0f / 5040);
    p = mst_vec_fma(p, r, mst_vec_set(1.0f / 720));
    p = mst_vec_fma(p, r, mst_vec_set(1.0f / 120));
    p = mst_vec_fma(p, r, mst_vec_set(1.0f / 24));
    p = mst_vec_fma(p, r, mst_vec_set(1.0f / 6));
    p = mst_vec_fma(p, r, mst_vec_set(0.5f));
    p = mst_vec_fma(mst_vec_mul(r, r), p, r);
    p = mst_vec_add(p, mst_vec_set(1.0f));

    /* times 2^n, which is a normal number in this range */

    n = mst_ivec_left(mst_ivec_add(n, mst_ivec_set(127)), 23);

    return mst_vec_mul(p, mst_ivec_bits(n));
}


/* as many chains as hide the latency and no registers are spilled for */

static void
mst_kernel_peak(uint32_t n, float *y)
{
    uint32_t   i;
    mst_vec_t  a, o[MST_VEC_COLS];

    a = mst_vec_load(y);

    /* chains that were the same would be computed once */

    mst_unroll
    for (int c = 0; c < MST_VEC_COLS; c++) {
        o[c] = mst_vec_add(a, mst_vec_set((float) c));
    }

    for (i = 0; i < n * (MST_CPU_PEAK / 16 / MST_VEC_COLS); i++) {
        mst_unroll
        for (int c = 0; c < MST_VEC_COLS; c++) {
            o[c] = mst_vec_fma(o[c], a, a);
        }
    }

    mst_unroll
    for (int c = 1; c < MST_VEC_COLS; c++) {
        o[0] = mst_vec_add(o[0], o[c]);
    }

    mst_vec_store(y, o[0]);
}


static void
mst_kernel_norm(const float *x, const float *w, uint32_t n, float eps,
    float *y)
{
    uint32_t   i;
    mst_vec_t  a[4], r, v;

    mst_unroll
    for (i = 0; i < 4; i++) {
        a[i] = mst_vec_set(0);
    }

    for (i = 0; i + 48 < n; i += 64) {
        v = mst_vec_load(x + i);
        a[0] = mst_vec_fma(v, v, a[0]);
        v = mst_vec_load(x + i + 16);
        a[1] = mst_vec_fma(v, v, a[1]);
        v = mst_vec_load(x + i + 32);
        a[2] = mst_vec_fma(v, v, a[2]);
        v = mst_vec_load(x + i + 48);
        a[3] = mst_vec_fma(v, v, a[3]);
    }

    for ( /* void */ ; i < n; i += 16) {
        v = mst_vec_load(x + i);
        a[0] = mst_vec_fma(v, v, a[0]);
    }

    a[0] = mst_vec_add(mst_vec_add(a[0], a[1]), mst_vec_add(a[2], a[3]));
    r = mst_vec_set(1.0f / sqrtf(mst_vec_sum(a[0]) / (float) n + eps));

    for (i = 0; i < n; i += 16) {
        v = mst_vec_mul(mst_vec_mul(mst_vec_load(x + i), r),
                        mst_vec_load(w + i));
        mst_vec_store(y + i, v);
    }
}


/* high digit of base 128 and what is left below it, -64 .. 63 */

mst_vec_fn mst_ivec_t
mst_kernel_digit(mst_ivec_t q, mst_ivec_t *low)
{
    mst_ivec_t  high;

    high = mst_ivec_right(mst_ivec_add(q, mst_ivec_set(64)), 7);
    *low = mst_ivec_sub(q, mst_ivec_left(high, 7));

    return high;
}


/* 16 integers of 22 bits */

mst_vec_fn void
mst_kernel_digits_three(mst_ivec_t v, int8_t *q, mst_ivec_t *high_sum,
    mst_ivec_t *low_sum)
{
    mst_ivec_t  high, low;

    high = mst_kernel_digit(v, &low);
    *high_sum = mst_ivec_add(*high_sum, high);
    *low_sum = mst_ivec_add(*low_sum, low);
    mst_ivec_store_bytes(q + 64, low);
    high = mst_kernel_digit(high, &low);
    mst_ivec_store_bytes(q, high);
    mst_ivec_store_bytes(q + 32, low);
}


/* 16 integers of 16 bits */

mst_vec_fn void
mst_kernel_digits_two(mst_ivec_t v, int8_t *q, mst_ivec_t *sum)
{
    mst_ivec_t  high, low;

    high = mst_ivec_right(mst_ivec_add(v, mst_ivec_set(128)), 8);
    low = mst_ivec_max(mst_ivec_sub(v, mst_ivec_left(high, 8)),
                       mst_ivec_set(-127));
    mst_ivec_store_bytes(q, high);
    mst_ivec_store_bytes(q + 32, low);
    *sum = mst_ivec_add(*sum, mst_ivec_add(mst_ivec_left(high, 8), low));
}


mst_vec_fn void
mst_kernel_digits_block(const float *x, int8_t *q, mst_cpu_scale_t *s,
    const int digits)
{
    float       inverse, max, most;
    int32_t     top;
    mst_vec_t   v[2];
    mst_ivec_t  high, i, low, sign;

    v[0] = mst_vec_load(x);
    v[1] = mst_vec_load(x + 16);

    /* as integers, absolute values are ordered with infinity and NaN on
       top */

    sign = mst_ivec_set(0x7fffffff);
    top = mst_ivec_top(mst_ivec_max(mst_ivec_and(mst_vec_bits(v[0]), sign),
                                    mst_ivec_and(mst_vec_bits(v[1]), sign)));
    memcpy(&max, &top, sizeof(max));

    inverse = 0;
    most = digits == 2 ? MST_KERNEL_Q2 : MST_KERNEL_Q;
    s->d = 0;

    if (top >= 0x7f800000) {

        /* the row, and it alone, comes out as NaN */

        v[0] = mst_vec_set(0);
        v[1] = v[0];
        s->d = NAN;

    } else if (max >= MST_KERNEL_TINY) {
        inverse = most / max;
        s->d = max / most;
    }

    high = mst_ivec_set(0);
    low = high;

    mst_unroll
    for (int k = 0; k < 2; k++) {
        v[k] = mst_vec_mul(v[k], mst_vec_set(inverse));
        v[k] = mst_vec_add(v[k], mst_vec_set(MST_KERNEL_ROUND));
        i = mst_ivec_sub(mst_vec_bits(v[k]),
                         mst_ivec_set(MST_KERNEL_ROUND_BITS));

        if (digits == 2) {
            mst_kernel_digits_two(i, q + 16 * k, &low);

        } else {
            mst_kernel_digits_three(i, q + 16 * k, &high, &low);
        }
    }

    s->high = mst_ivec_sum(high);
    s->low = mst_ivec_sum(low);
    s->s = s->d * (float) (128 * s->high + s->low);
}


static void
mst_kernel_digits(const float *x, uint32_t n, uint32_t digits, int8_t *q,
    mst_cpu_scale_t *s, uint32_t step)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {

        if (digits == 2) {
            mst_kernel_digits_block(x, q, s, 2);

        } else {
            mst_kernel_digits_block(x, q, s, 3);
        }

        x += MST_CPU_BLOCK;
        q += (size_t) MST_CPU_BLOCK * digits * step;
        s += step;
    }
}


static void
mst_kernel_rope(float *y, const float *cs, const float *sn, float scale)
{
    mst_vec_t  v;

    v = mst_vec_load(y);
    v = mst_vec_fma(v, mst_vec_load(cs),
                    mst_vec_mul(mst_vec_swap(v), mst_vec_load(sn)));
    mst_vec_store(y, mst_vec_mul(v, mst_vec_set(scale)));
}


static void
mst_kernel_silu(const float *g, const float *u, float *y, uint32_t n)
{
    uint32_t   i;
    mst_vec_t  e, v;

    for (i = 0; i < n; i += 16) {
        v = mst_vec_load(g + i);
        e = mst_kernel_exp(mst_vec_sub(mst_vec_set(0), v));
        v = mst_vec_div(v, mst_vec_add(mst_vec_set(1), e));
        mst_vec_store(y + i, mst_vec_mul(v, mst_vec_load(u + i)));
    }
}


/* float weights: one chain per output, over the inputs in order; n columns of
   a panel that has "step" */

mst_vec_fn void
mst_kernel_float_part(const uint8_t *tile, const float *f, uint32_t width,
    float *y, mst_cpu_type_t type, const int step, const int n)
{
    uint32_t   k;
    mst_vec_t  o[MST_CPU_COLS], w;

    mst_unroll
    for (int c = 0; c < n; c++) {
        o[c] = mst_vec_set(0);
    }

    for (k = 0; k < width; k++, f += step) {

        if (type == MST_CPU_F32) {
            w = mst_vec_load((const float *) tile + 16 * (size_t) k);

        } else if (type == MST_CPU_F16) {
            w = mst_vec_load_f16((const uint16_t *) tile + 16 * (size_t) k);

        } else {
            w = mst_vec_load_bf16((const uint16_t *) tile + 16 * (size_t) k);
        }

        mst_unroll
        for (int c = 0; c < n; c++) {
            o[c] = mst_vec_fma(w, mst_vec_set(f[c]), o[c]);
        }
    }

    mst_unroll
    for (int c = 0; c < n; c++) {
        mst_vec_store(y + 16 * c, o[c]);
    }
}


/* as many columns at once as there are registers for */

mst_vec_fn void
mst_kernel_float_cols(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    mst_cpu_type_t type, const int n)
{
    if (n > MST_VEC_COLS) {
        mst_kernel_float_part(tile, x->f, x->width, y, type, n, MST_VEC_COLS);
        mst_kernel_float_part(tile, x->f + MST_VEC_COLS, x->width,
                              y + 16 * MST_VEC_COLS, type, n,
                              n - MST_VEC_COLS);
        return;
    }

    mst_kernel_float_part(tile, x->f, x->width, y, type, n, n);
}


/* tiles of 4 and 5 bits: bytes of a block, of its codes, and what a code
   stands for beside zero */

#define mst_kernel_is_five(type)                                              \
    ((type) == MST_CPU_Q5_0 || (type) == MST_CPU_Q5_1                         \
     || (type) == MST_CPU_Q5_K)

#define mst_kernel_codes(type)  (mst_kernel_is_five(type) ? 320u : 256u)

#define mst_kernel_is_super(type)                                             \
    ((type) == MST_CPU_Q4_K || (type) == MST_CPU_Q5_K                         \
     || (type) == MST_CPU_Q6_K)

#define mst_kernel_block(type)                                                \
    (mst_kernel_codes(type)                                                   \
     + ((type) == MST_CPU_Q4_1 || (type) == MST_CPU_Q5_1 ? 64u : 32u))

#define mst_kernel_offset(type)                                               \
    ((type) == MST_CPU_Q4_0 ? 8 : (type) == MST_CPU_Q5_0 ? 16 : 0)


/* what the blocks of a super-block share */
typedef struct {
    mst_vec_t  d;
    mst_vec_t  m;
} mst_kernel_super_t;


mst_vec_fn mst_kernel_super_t
mst_kernel_super_none(void)
{
    mst_kernel_super_t  s;

    s.d = mst_vec_set(0);
    s.m = s.d;

    return s;
}


/* before each block: returns where it begins */

mst_vec_fn const uint8_t *
mst_kernel_super(const uint8_t *t, uint32_t block, const mst_cpu_type_t type,
    mst_kernel_super_t *s)
{
    if (!mst_kernel_is_super(type) || block % 8) {
        return t;
    }

    s->d = mst_vec_load_f16((const uint16_t *) t);
    s->m = s->d;

    if (type == MST_CPU_Q6_K) {
        return t + 32;
    }

    s->m = mst_vec_load_f16((const uint16_t *) (t + 32));

    return t + 64;
}


/* scales and minima of a block; products of f16 and few bits are exact */

mst_vec_fn void
mst_kernel_scales(const uint8_t *t, const mst_kernel_super_t *s,
    const mst_cpu_type_t type, mst_vec_t *d, mst_vec_t *m)
{
    t += mst_kernel_codes(type);

    if (mst_kernel_is_super(type)) {

        /* six bits: signed bytes serve as well */

        *d = mst_vec_mul(s->d, mst_vec_load_i8((const int8_t *) t));
        *m = mst_vec_mul(s->m, mst_vec_load_i8((const int8_t *) t + 16));
        *m = mst_vec_mul(*m, mst_vec_set(-1));
        return;
    }

    *d = mst_vec_load_f16((const uint16_t *) t);
    *m = mst_kernel_offset(type) ? *d
                                 : mst_vec_load_f16((const uint16_t *)
                                                    (t + 32));
}


/* calls fn(arguments, columns) with the columns as a constant */

#define mst_kernel_cols(fn, x, ...)                                           \
    switch ((x)->cols) {                                                      \
    case 1: fn(__VA_ARGS__, 1); break;                                        \
    case 2: fn(__VA_ARGS__, 2); break;                                        \
    case 3: fn(__VA_ARGS__, 3); break;                                        \
    case 4: fn(__VA_ARGS__, 4); break;                                        \
    case 5: fn(__VA_ARGS__, 5); break;                                        \
    case 6: fn(__VA_ARGS__, 6); break;                                        \
    case 7: fn(__VA_ARGS__, 7); break;                                        \
    default: fn(__VA_ARGS__, 8); break;                                       \
    }


/* fn(tile, x, y, type, digits, columns) */

#define mst_kernel_digit_cols(fn, tile, x, y, type)                           \
    if ((x)->digits == 2) {                                                   \
        mst_kernel_cols(fn, x, tile, x, y, type, 2);                          \
                                                                              \
    } else {                                                                  \
        mst_kernel_cols(fn, x, tile, x, y, type, 3);                          \
    }


/* bits of a digit, but the highest */

#define mst_kernel_shift(digits)  ((digits) == 2 ? 8 : 7)


static void
mst_kernel_f32(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_cols(mst_kernel_float_cols, x, tile, x, y, MST_CPU_F32);
}


static void
mst_kernel_f16(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_cols(mst_kernel_float_cols, x, tile, x, y, MST_CPU_F16);
}


static void
mst_kernel_bf16(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_cols(mst_kernel_float_cols, x, tile, x, y, MST_CPU_BF16);
}


/* columns at .. at + n - 1 of "step" */

mst_vec_fn void
mst_kernel_bound_part(const uint8_t *t, const mst_cpu_bound_t *x, int at,
    const float *y, mst_cpu_most_t *most, const int step, const int n)
{
    uint32_t      b;
    mst_vec_t     norm, scale, sum[MST_CPU_COLS], v;
    const float  *size;

    norm = mst_vec_load((const float *) (const void *) t);
    scale = mst_vec_load((const float *) (const void *) (t + 64));
    size = x->size + at;
    t += 128;

    mst_unroll
    for (int c = 0; c < n; c++) {
        sum[c] = mst_vec_set(0);
    }

    for (b = 0; b < x->width / MST_CPU_BLOCK; b++) {

        /* the next tile follows */

        __builtin_prefetch(t + MST_KERNEL_AHEAD);
        v = mst_vec_load_i8((const int8_t *) t);

        mst_unroll
        for (int c = 0; c < n; c++) {
            sum[c] = mst_vec_fma(v, mst_vec_set(size[c]), sum[c]);
        }

        size += step;
        t += MST_CPU_LANES;
    }

    mst_unroll
    for (int c = 0; c < n; c++) {
        v = mst_vec_load(y + 16 * (at + c));
        most[at + c].sum = mst_vec_top(v);
        v = mst_vec_fma(norm, mst_vec_set(x->slack[at + c]), v);
        v = mst_vec_fma(sum[c], scale, v);
        v = mst_vec_add(v, mst_vec_set(MST_KERNEL_UNDER));
        most[at + c].logit = mst_vec_top(v);
    }
}


mst_vec_fn void
mst_kernel_bound_cols(const uint8_t *t, const mst_cpu_bound_t *x,
    const float *y, mst_cpu_most_t *most, const int n)
{
    if (n > MST_VEC_COLS) {
        mst_kernel_bound_part(t, x, 0, y, most, n, MST_VEC_COLS);
        mst_kernel_bound_part(t, x, MST_VEC_COLS, y, most, n,
                              n - MST_VEC_COLS);
        return;
    }

    mst_kernel_bound_part(t, x, 0, y, most, n, n);
}


static void
mst_kernel_bound(const uint8_t *t, const mst_cpu_bound_t *x, const float *y,
    mst_cpu_most_t *most)
{
    mst_kernel_cols(mst_kernel_bound_cols, x, t, x, y, most);
}


#endif /* MST_CPU_KERNEL_H */
