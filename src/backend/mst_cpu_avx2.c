
/*
 * Kernels of the CPU backend for AVX2 with FMA: see mst_cpu_isa.h.
 *
 * vpmaddubsw adds pairs of products to 16 bits with saturation, which never
 * happens here: digits are -127 .. 127, the weights of 4 bits give at most 15 *
 * 127 * 16 in a whole block (eight sums are added before they are widened),
 * those of 5 bits 31 * 127 * 8 in half of one, of 6 bits 63 * 127 * 4 in a
 * quarter; those of 8 bits
 * are taken as absolute values with the sign moved to the digit, 128 * 127 *
 * 2.
 */

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push (__attribute__((target("avx2,fma,f16c"))),      \
                              apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#include "backend/mst_vec_avx2.h"
#include "backend/mst_cpu_kernel.h"
#include "backend/mst_cpu_kernel_attend.h"

#define MST_AVX2_AHEAD  512        /* bytes of prefetch */


static int
mst_cpu_avx2_supported(void)
{
    unsigned  a, b, c, d;

    __builtin_cpu_init();

    /* clang's __builtin_cpu_supports() does not know f16c */

    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
           && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}


mst_vec_fn __m256i
mst_cpu_avx2_four(const int8_t *q)
{
    int32_t  four;

    memcpy(&four, q, sizeof(four));

    return _mm256_set1_epi32(four);
}


/* eight rows, digits against n vectors of weights: sums of 16 bits, in two
   chains */

mst_vec_fn void
mst_cpu_avx2_pairs(const __m256i *w, const int8_t *q, __m256i *sum,
    const int n)
{
    sum[0] = _mm256_maddubs_epi16(w[0], mst_cpu_avx2_four(q));
    sum[1] = _mm256_maddubs_epi16(w[1], mst_cpu_avx2_four(q + 4));

    mst_unroll
    for (int i = 2; i < n; i++) {
        sum[i % 2] = _mm256_add_epi16(
            sum[i % 2],
            _mm256_maddubs_epi16(w[i], mst_cpu_avx2_four(q + 4 * i)));
    }
}


/* eight rows, 32 digits: i32 sums */

mst_vec_fn __m256i
mst_cpu_avx2_plane(const __m256i *w, const int8_t *q, const int five)
{
    __m256i  one, s[2];

    one = _mm256_set1_epi16(1);
    mst_cpu_avx2_pairs(w, q, s, 8);

    if (five) {
        return _mm256_add_epi32(_mm256_madd_epi16(s[0], one),
                                _mm256_madd_epi16(s[1], one));
    }

    return _mm256_madd_epi16(_mm256_add_epi16(s[0], s[1]), one);
}


/* the sums of a block's digits */

mst_vec_fn __m256i
mst_cpu_avx2_digits(const __m256i *w, const int8_t *q, const int five,
    const int digits)
{
    __m256i  acc;

    acc = mst_cpu_avx2_plane(w, q, five);

    mst_unroll
    for (int p = 1; p < digits; p++) {
        acc = _mm256_slli_epi32(acc, mst_kernel_shift(digits));
        acc = _mm256_add_epi32(acc, mst_cpu_avx2_plane(w, q + 32 * p, five));
    }

    return acc;
}


/* 16 digits against weights of 6 bits */

mst_vec_fn __m256i
mst_cpu_avx2_plane6(const __m256i *w, const int8_t *q)
{
    __m256i  one, s[2];

    one = _mm256_set1_epi16(1);
    mst_cpu_avx2_pairs(w, q, s, 4);

    return _mm256_add_epi32(_mm256_madd_epi16(s[0], one),
                            _mm256_madd_epi16(s[1], one));
}


/* the same with weights of 8 bits with sign: their absolute values in w */

mst_vec_fn __m256i
mst_cpu_avx2_plane8(const __m256i *w, const __m256i *sign, const int8_t *q)
{
    __m256i  p, sum;

    sum = _mm256_setzero_si256();

    mst_unroll
    for (int i = 0; i < 8; i++) {
        p = _mm256_sign_epi8(mst_cpu_avx2_four(q + 4 * i), sign[i]);
        p = _mm256_madd_epi16(_mm256_maddubs_epi16(w[i], p),
                              _mm256_set1_epi16(1));
        sum = _mm256_add_epi32(sum, p);
    }

    return sum;
}


mst_vec_fn void
mst_cpu_avx2_nibbles(const uint8_t *t, __m256i *w)
{
    __m256i  mask, v;

    mask = _mm256_set1_epi8(15);

    mst_unroll
    for (int i = 0; i < 4; i++) {
        v = _mm256_loadu_si256((const __m256i *) (t + 64 * i));
        w[i] = _mm256_and_si256(v, mask);
        w[4 + i] = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
    }
}


/* what stands above the nibbles: of vector i the bits "mask", once h has moved
   from bit "from" to bit 4 */

mst_vec_fn __m256i
mst_cpu_avx2_above(__m256i w, __m256i h, const int from, const int mask)
{
    h = from < 4 ? _mm256_slli_epi16(h, (from < 4 ? 4 - from : 0))
                 : _mm256_srli_epi16(h, (from < 4 ? 0 : from - 4));

    return _mm256_or_si256(w, _mm256_and_si256(
                                  h, _mm256_set1_epi8((char) mask)));
}


/* eight rows of one block for all columns; o[column][16] */

mst_vec_fn void
mst_cpu_avx2_q45_half(const uint8_t *t, const mst_cpu_panel_t *x, float *o,
    __m256 d, __m256 m, const mst_cpu_type_t type, const int digits)
{
    int                     five, offset;
    __m256                  f, y;
    __m256i                 acc, v, w[8];
    uint32_t                c;
    const int8_t           *q;
    const mst_cpu_scale_t  *s;

    q = x->q;
    s = x->s;
    five = mst_kernel_is_five(type);
    offset = mst_kernel_offset(type);
    mst_cpu_avx2_nibbles(t, w);

    if (five) {
        v = _mm256_loadu_si256((const __m256i *) (t + 256));

        mst_unroll
        for (int i = 0; i < 8; i++) {
            w[i] = mst_cpu_avx2_above(w[i], v, i, 16);
        }
    }

    for (c = 0; c < x->cols; c++, q += MST_CPU_BLOCK * digits, s++, o += 16) {
        acc = mst_cpu_avx2_digits(w, q, five, digits);
        y = _mm256_loadu_ps(o);

        if (offset) {
            acc = _mm256_sub_epi32(acc,
                                   _mm256_set1_epi32(offset * (128 * s->high
                                                               + s->low)));
        } else {
            y = _mm256_add_ps(y, _mm256_mul_ps(m, _mm256_set1_ps(s->s)));
        }

        f = _mm256_mul_ps(_mm256_cvtepi32_ps(acc),
                          _mm256_mul_ps(d, _mm256_set1_ps(s->d)));
        _mm256_storeu_ps(o, _mm256_add_ps(y, f));
    }
}


mst_vec_fn void
mst_cpu_avx2_q45(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const mst_cpu_type_t type, const int digits)
{
    int                  size;
    uint32_t             b, n;
    mst_vec_t            d, m;
    mst_cpu_panel_t      block;
    mst_kernel_super_t   super;

    block = *x;
    size = (int) mst_kernel_block(type);
    n = x->width / MST_CPU_BLOCK;
    super = mst_kernel_super_none();
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++) {
        tile = mst_kernel_super(tile, b, type, &super);

        mst_unroll
        for (int i = 0; i < size; i += 64) {
            _mm_prefetch((const char *) tile + MST_AVX2_AHEAD + i,
                         _MM_HINT_T0);
        }

        mst_kernel_scales(tile, &super, type, &d, &m);
        mst_cpu_avx2_q45_half(tile, &block, y, d.a, m.a, type, digits);
        mst_cpu_avx2_q45_half(tile + 32, &block, y + 8, d.b, m.b, type,
                              digits);

        tile += size;
        block.q += (uint32_t) (MST_CPU_BLOCK * digits) * x->cols;
        block.s += x->cols;
    }
}


/* 32 times the sums of the inputs 0 .. 15 and 16 .. 31 of a block, in all
   lanes */

mst_vec_fn void
mst_cpu_avx2_halves(const int8_t *q, __m256i *half, const int digits)
{
    __m256i  all, p, sum;

    all = _mm256_setzero_si256();

    mst_unroll
    for (int i = 0; i < digits; i++) {
        p = _mm256_maddubs_epi16(
            _mm256_set1_epi8(1),
            _mm256_loadu_si256((const __m256i *) (q + 32 * i)));
        sum = _mm256_madd_epi16(p, _mm256_set1_epi16(32));
        all = _mm256_slli_epi32(all, mst_kernel_shift(digits));
        all = _mm256_add_epi32(all, sum);
    }

    all = _mm256_add_epi32(all, _mm256_shuffle_epi32(all, 0x4e));
    all = _mm256_add_epi32(all, _mm256_shuffle_epi32(all, 0xb1));

    half[0] = _mm256_permute2x128_si256(all, all, 0x00);
    half[1] = _mm256_permute2x128_si256(all, all, 0x11);
}


mst_vec_fn void
mst_cpu_avx2_q6_half(const uint8_t *t, const mst_cpu_panel_t *x, float *o,
    const __m256 *d, const int digits)
{
    __m256                  y;
    __m256i                 acc, half[2], v[2], w[8];
    uint32_t                c;
    const int8_t           *p, *q;
    const mst_cpu_scale_t  *s;

    q = x->q;
    s = x->s;
    mst_cpu_avx2_nibbles(t, w);
    v[0] = _mm256_loadu_si256((const __m256i *) (t + 256));
    v[1] = _mm256_loadu_si256((const __m256i *) (t + 320));

    mst_unroll
    for (int i = 0; i < 8; i++) {
        w[i] = mst_cpu_avx2_above(w[i], v[i / 4], 2 * (i % 4), 48);
    }

    for (c = 0; c < x->cols; c++, q += MST_CPU_BLOCK * digits, s++, o += 16) {
        mst_cpu_avx2_halves(q, half, digits);
        y = _mm256_loadu_ps(o);

        mst_unroll
        for (int h = 0; h < 2; h++) {
            p = q + 16 * h;
            acc = mst_cpu_avx2_plane6(w + 4 * h, p);

            mst_unroll
            for (int k = 1; k < digits; k++) {
                acc = _mm256_slli_epi32(acc, mst_kernel_shift(digits));
                acc = _mm256_add_epi32(acc, mst_cpu_avx2_plane6(w + 4 * h,
                                                                p + 32 * k));
            }

            acc = _mm256_sub_epi32(acc, half[h]);
            y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc),
                                _mm256_mul_ps(d[h], _mm256_set1_ps(s->d)), y);
        }

        _mm256_storeu_ps(o, y);
    }
}


mst_vec_fn void
mst_cpu_avx2_q6(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const int unused, const int digits)
{
    __m256               d[2][2];
    uint32_t             b, n;
    mst_vec_t            v;
    mst_cpu_panel_t      block;
    mst_kernel_super_t   super;

    (void) unused;

    block = *x;
    n = x->width / MST_CPU_BLOCK;
    super = mst_kernel_super_none();
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++) {
        tile = mst_kernel_super(tile, b, MST_CPU_Q6_K, &super);

        mst_unroll
        for (int i = 0; i < MST_CPU_Q6_K_SIZE; i += 64) {
            _mm_prefetch((const char *) tile + MST_AVX2_AHEAD + i,
                         _MM_HINT_T0);
        }

        for (int h = 0; h < 2; h++) {
            v = mst_vec_mul(super.d,
                            mst_vec_load_i8((const int8_t *) tile + 384
                                            + 16 * h));
            d[0][h] = v.a;
            d[1][h] = v.b;
        }

        mst_cpu_avx2_q6_half(tile, &block, y, d[0], digits);
        mst_cpu_avx2_q6_half(tile + 32, &block, y + 8, d[1], digits);

        tile += MST_CPU_Q6_K_SIZE;
        block.q += (uint32_t) (MST_CPU_BLOCK * digits) * x->cols;
        block.s += x->cols;
    }
}


mst_vec_fn void
mst_cpu_avx2_q8_half(const uint8_t *t, const mst_cpu_panel_t *x, float *o,
    __m256 d, const int digits)
{
    __m256                  f, y;
    __m256i                 high, low, sign[8], w[8];
    uint32_t                c;
    const int8_t           *q;
    const mst_cpu_scale_t  *s;

    q = x->q;
    s = x->s;

    mst_unroll
    for (int i = 0; i < 8; i++) {
        sign[i] = _mm256_xor_si256(
            _mm256_loadu_si256((const __m256i *) (t + 64 * i)),
            _mm256_set1_epi8((char) 0x80));
        w[i] = _mm256_abs_epi8(sign[i]);
    }

    for (c = 0; c < x->cols; c++, q += MST_CPU_BLOCK * digits, s++, o += 16) {
        high = _mm256_slli_epi32(mst_cpu_avx2_plane8(w, sign, q),
                                 mst_kernel_shift(digits));
        high = _mm256_add_epi32(high, mst_cpu_avx2_plane8(w, sign, q + 32));
        f = _mm256_cvtepi32_ps(high);

        if (digits == 3) {
            low = mst_cpu_avx2_plane8(w, sign, q + 64);
            f = _mm256_fmadd_ps(f, _mm256_set1_ps(128),
                                _mm256_cvtepi32_ps(low));
        }

        y = _mm256_loadu_ps(o);
        y = _mm256_fmadd_ps(f, _mm256_mul_ps(d, _mm256_set1_ps(s->d)), y);
        _mm256_storeu_ps(o, y);
    }
}


mst_vec_fn void
mst_cpu_avx2_q8(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const int unused, const int digits)
{
    uint32_t          b, n;
    mst_vec_t         d;
    mst_cpu_panel_t   block;

    (void) unused;

    block = *x;
    n = x->width / MST_CPU_BLOCK;
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++) {
        mst_unroll
        for (int i = 0; i < 8; i++) {
            _mm_prefetch((const char *) tile + MST_AVX2_AHEAD + 64 * i,
                         _MM_HINT_T0);
        }

        d = mst_vec_load_f16((const uint16_t *) (tile + 512));
        mst_cpu_avx2_q8_half(tile, &block, y, d.a, digits);
        mst_cpu_avx2_q8_half(tile + 32, &block, y + 8, d.b, digits);

        tile += MST_CPU_Q8_0_SIZE;
        block.q += (uint32_t) (MST_CPU_BLOCK * digits) * x->cols;
        block.s += x->cols;
    }
}


/* fn(tile, x, y, type, digits) with the digits as a constant */

#define mst_cpu_avx2_tile(fn, tile, x, y, type)                               \
    if ((x)->digits == 2) {                                                   \
        fn(tile, x, y, type, 2);                                              \
                                                                              \
    } else {                                                                  \
        fn(tile, x, y, type, 3);                                              \
    }


static void
mst_cpu_avx2_q6_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_tile(mst_cpu_avx2_q6, tile, x, y, 0);
}


static void
mst_cpu_avx2_q8_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_tile(mst_cpu_avx2_q8, tile, x, y, 0);
}


static void
mst_cpu_avx2_q4_1(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_tile(mst_cpu_avx2_q45, tile, x, y, MST_CPU_Q4_1);
}


static void
mst_cpu_avx2_q4_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_tile(mst_cpu_avx2_q45, tile, x, y, MST_CPU_Q4_0);
}


static void
mst_cpu_avx2_q5_1(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_tile(mst_cpu_avx2_q45, tile, x, y, MST_CPU_Q5_1);
}


static void
mst_cpu_avx2_q5_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_tile(mst_cpu_avx2_q45, tile, x, y, MST_CPU_Q5_0);
}


static void
mst_cpu_avx2_coarse(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_q45(tile, x, y, MST_CPU_Q5_0, 1);
}


static void
mst_cpu_avx2_q4_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_tile(mst_cpu_avx2_q45, tile, x, y, MST_CPU_Q4_K);
}


static void
mst_cpu_avx2_q5_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_tile(mst_cpu_avx2_q45, tile, x, y, MST_CPU_Q5_K);
}


const mst_cpu_isa_t  mst_cpu_avx2 = {
    .name = "avx2",
    .supported = mst_cpu_avx2_supported,
    .tile = {
        [MST_CPU_Q4_1] = mst_cpu_avx2_q4_1,
        [MST_CPU_Q4_0] = mst_cpu_avx2_q4_0,
        [MST_CPU_Q8_0] = mst_cpu_avx2_q8_0,
        [MST_CPU_Q5_1] = mst_cpu_avx2_q5_1,
        [MST_CPU_Q5_0] = mst_cpu_avx2_q5_0,
        [MST_CPU_Q4_K] = mst_cpu_avx2_q4_k,
        [MST_CPU_Q5_K] = mst_cpu_avx2_q5_k,
        [MST_CPU_Q6_K] = mst_cpu_avx2_q6_k,
        [MST_CPU_F32] = mst_kernel_f32,
        [MST_CPU_F16] = mst_kernel_f16,
        [MST_CPU_BF16] = mst_kernel_bf16
    },
    .coarse = mst_cpu_avx2_coarse,
    .bound = mst_kernel_bound,
    .peak = mst_kernel_peak,
    .norm = mst_kernel_norm,
    .digits = mst_kernel_digits,
    .rope = mst_kernel_rope,
    .silu = mst_kernel_silu,
    .kv_f16 = mst_kernel_kv_f16,
    .kv_q8 = mst_kernel_kv_q8,
    .attend = mst_kernel_attend,
    .attend_end = mst_kernel_attend_end
};

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
