
/*
 * Kernels of the CPU backend for AVX-512 with VNNI: see mst_cpu_isa.h.
 *
 * vpdpbusd multiplies four weights of 16 rows by four broadcast digits and
 * adds to 32 bits.  The three digits of a block chain in one accumulator
 * where that cannot overflow (5-bit weights: 31 * 32 * 2^21 < 2^31); Q8_0
 * keeps the low digits apart, of three: of two, 255 * 32 * 2^15 < 2^31.
 */

#if defined(__x86_64__)

#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push (__attribute__((target("avx512f,avx512bw,"      \
    "avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma," \
                   "f16c")
#endif

#include "backend/mst_vec_avx512.h"
#include "backend/mst_cpu_kernel.h"
#include "backend/mst_cpu_kernel_attend.h"

#define MST_AVX512_AHEAD  512      /* bytes of prefetch: measured best */


static int
mst_cpu_avx512_supported(void)
{
    __builtin_cpu_init();

    return __builtin_cpu_supports("avx512f")
           && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512dq")
           && __builtin_cpu_supports("avx512vl")
           && __builtin_cpu_supports("avx512vnni")
           && __builtin_cpu_supports("avx2")
           && __builtin_cpu_supports("fma");
}


mst_vec_fn __m512i
mst_cpu_avx512_four(const int8_t *q)
{
    int32_t  four;

    memcpy(&four, q, sizeof(four));

    return _mm512_set1_epi32(four);
}


mst_vec_fn void
mst_cpu_avx512_nibbles(const uint8_t *t, __m512i *w)
{
    __m512i  mask, q;

    mask = _mm512_set1_epi8(15);

    mst_unroll
    for (int i = 0; i < 4; i++) {
        q = _mm512_loadu_si512(t + 64 * i);
        w[i] = _mm512_and_si512(q, mask);
        w[4 + i] = _mm512_and_si512(_mm512_srli_epi16(q, 4), mask);
    }
}


/* the bits above the nibbles */

mst_vec_fn void
mst_cpu_avx512_fifth(const uint8_t *t, __m512i *w)
{
    __m512i  bit, h;

    bit = _mm512_set1_epi8(16);
    h = _mm512_loadu_si512(t);

    /* w | (h moved & bit) */

    mst_unroll
    for (int i = 0; i < 8; i++) {
        w[i] = _mm512_ternarylogic_epi32(
            w[i], i < 4 ? _mm512_slli_epi16(h, (i < 4 ? 4 - i : 0))
                        : _mm512_srli_epi16(h, (i < 4 ? 0 : i - 4)),
            bit, 0xf8);
    }
}


/* 32 digits against 32 weights of 16 rows, for n columns */

mst_vec_fn void
mst_cpu_avx512_plane(const __m512i *w, const int8_t *q, __m512i *acc,
    const int digits, const int n)
{
    if (n == 1) {

        /* one column: two chains hide the latency */

        __m512i  b;

        b = _mm512_setzero_si512();

        mst_unroll
        for (int i = 0; i < 4; i++) {
            acc[0] = _mm512_dpbusd_epi32(acc[0], w[i],
                                         mst_cpu_avx512_four(q + 4 * i));
            b = _mm512_dpbusd_epi32(b, w[4 + i],
                                    mst_cpu_avx512_four(q + 16 + 4 * i));
        }

        acc[0] = _mm512_add_epi32(acc[0], b);

        return;
    }

    mst_unroll
    for (int i = 0; i < 8; i++) {
        mst_unroll
        for (int c = 0; c < n; c++) {
            acc[c] = _mm512_dpbusd_epi32(
                acc[c], w[i],
                mst_cpu_avx512_four(q + MST_CPU_BLOCK * digits * c + 4 * i));
        }
    }
}


mst_vec_fn void
mst_cpu_avx512_zero(__m512i *acc, const int n)
{
    mst_unroll
    for (int c = 0; c < n; c++) {
        acc[c] = _mm512_setzero_si512();
    }
}


mst_vec_fn void
mst_cpu_avx512_shift(__m512i *acc, const int digits, const int n)
{
    mst_unroll
    for (int c = 0; c < n; c++) {
        acc[c] = _mm512_slli_epi32(acc[c], mst_kernel_shift(digits));
    }
}


/* the sums of a block's digits in acc */

mst_vec_fn void
mst_cpu_avx512_digits(const __m512i *w, const int8_t *q, __m512i *acc,
    const int digits, const int n)
{
    mst_cpu_avx512_zero(acc, n);

    mst_unroll
    for (int p = 0; p < digits; p++) {

        if (n == 1) {

            /* digits that do not wait for each other */

            __m512i  sum;

            sum = _mm512_setzero_si512();
            mst_cpu_avx512_plane(w, q + 32 * p, &sum, digits, 1);
            mst_cpu_avx512_shift(acc, digits, 1);
            acc[0] = _mm512_add_epi32(acc[0], sum);
            continue;
        }

        if (p) {
            mst_cpu_avx512_shift(acc, digits, n);
        }

        mst_cpu_avx512_plane(w, q + 32 * p, acc, digits, n);
    }
}


mst_vec_fn void
mst_cpu_avx512_q45(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const mst_cpu_type_t type, const int digits, const int n)
{
    int                     offset, size;
    __m512                  d, f, m, o[MST_CPU_COLS];
    __m512i                 acc[MST_CPU_COLS], w[8];
    uint32_t                b, blocks;
    const int8_t           *q;
    mst_kernel_super_t      super;
    const mst_cpu_scale_t  *s;

    mst_unroll
    for (int c = 0; c < n; c++) {
        o[c] = _mm512_setzero_ps();
    }

    q = x->q;
    s = x->s;
    offset = mst_kernel_offset(type);
    size = (int) mst_kernel_block(type);
    blocks = x->width / MST_CPU_BLOCK;
    super = mst_kernel_super_none();

    for (b = 0; b < blocks; b++) {
        tile = mst_kernel_super(tile, b, type, &super);

        mst_unroll
        for (int i = 0; i < size; i += 64) {
            _mm_prefetch((const char *) tile + MST_AVX512_AHEAD + i,
                         _MM_HINT_T0);
        }

        mst_cpu_avx512_nibbles(tile, w);

        if (mst_kernel_is_five(type)) {
            mst_cpu_avx512_fifth(tile + 256, w);
        }

        mst_kernel_scales(tile, &super, type, &d, &m);
        mst_cpu_avx512_digits(w, q, acc, digits, n);

        mst_unroll
        for (int c = 0; c < n; c++) {
            if (offset) {
                acc[c] = _mm512_sub_epi32(
                    acc[c], _mm512_set1_epi32(offset * (128 * s[c].high
                                                        + s[c].low)));
            } else {
                o[c] = _mm512_add_ps(o[c],
                                     _mm512_mul_ps(m,
                                                   _mm512_set1_ps(s[c].s)));
            }

            f = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[c]),
                              _mm512_mul_ps(d, _mm512_set1_ps(s[c].d)));
            o[c] = _mm512_add_ps(o[c], f);
        }

        tile += size;
        q += MST_CPU_BLOCK * digits * n;
        s += n;
    }

    mst_unroll
    for (int c = 0; c < n; c++) {
        _mm512_storeu_ps(y + 16 * c, o[c]);
    }
}


/* 32 times the sums of the inputs 0 .. 15 and 16 .. 31 of a block, in all
   lanes */

mst_vec_fn void
mst_cpu_avx512_halves(const int8_t *q, __m512i *half, const int digits)
{
    __m256i  low, sum;
    __m512i  upper;

    upper = _mm512_dpbusd_epi32(_mm512_setzero_si512(),
                                _mm512_set1_epi8(32),
                                _mm512_loadu_si512(q));
    sum = _mm256_slli_epi32(_mm512_castsi512_si256(upper),
                            mst_kernel_shift(digits));
    sum = _mm256_add_epi32(sum, _mm512_extracti64x4_epi64(upper, 1));

    if (digits == 3) {
        low = _mm256_loadu_si256((const __m256i *) (q + 64));
        low = _mm256_dpbusd_epi32(_mm256_setzero_si256(),
                                  _mm256_set1_epi8(32), low);
        sum = _mm256_add_epi32(_mm256_slli_epi32(sum, 7), low);
    }

    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4e));
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));

    half[0] = _mm512_broadcastd_epi32(_mm256_castsi256_si128(sum));
    half[1] = _mm512_broadcastd_epi32(_mm256_extracti128_si256(sum, 1));
}


/* the sums of 16 inputs' digits: 63 * 16 * 2^21 < 2^31 */

mst_vec_fn void
mst_cpu_avx512_half_digits(const __m512i *w, const int8_t *q, __m512i *acc,
    const int digits, const int n)
{
    mst_cpu_avx512_zero(acc, n);

    mst_unroll
    for (int p = 0; p < digits; p++) {

        if (p) {
            mst_cpu_avx512_shift(acc, digits, n);
        }

        mst_unroll
        for (int i = 0; i < 4; i++) {
            mst_unroll
            for (int c = 0; c < n; c++) {
                acc[c] = _mm512_dpbusd_epi32(
                    acc[c], w[i],
                    mst_cpu_avx512_four(q + MST_CPU_BLOCK * digits * c
                                        + 32 * p + 4 * i));
            }
        }
    }
}


mst_vec_fn void
mst_cpu_avx512_six(const uint8_t *t, __m512i *w)
{
    __m512i  bits, h;

    mst_cpu_avx512_nibbles(t, w);
    bits = _mm512_set1_epi8(48);

    mst_unroll
    for (int i = 0; i < 8; i++) {
        h = _mm512_loadu_si512(t + 256 + 64 * (i / 4));
        w[i] = _mm512_ternarylogic_epi32(
            w[i], i % 4 < 2
                  ? _mm512_slli_epi16(h, (i % 4 < 2 ? 4 - 2 * (i % 4) : 0))
                  : _mm512_srli_epi16(h, (i % 4 < 2 ? 0 : 2 * (i % 4) - 4)),
            bits, 0xf8);
    }
}


mst_vec_fn void
mst_cpu_avx512_q6(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const int unused, const int digits, const int n)
{
    __m512                  d, o[MST_CPU_COLS];
    __m512i                 acc[MST_CPU_COLS], half[MST_CPU_COLS][2], w[8];
    uint32_t                b, blocks;
    const int8_t           *q;
    mst_kernel_super_t      super;
    const mst_cpu_scale_t  *s;

    (void) unused;

    mst_unroll
    for (int c = 0; c < n; c++) {
        o[c] = _mm512_setzero_ps();
    }

    q = x->q;
    s = x->s;
    blocks = x->width / MST_CPU_BLOCK;
    super = mst_kernel_super_none();

    for (b = 0; b < blocks; b++) {
        tile = mst_kernel_super(tile, b, MST_CPU_Q6_K, &super);

        mst_unroll
        for (int i = 0; i < MST_CPU_Q6_K_SIZE; i += 64) {
            _mm_prefetch((const char *) tile + MST_AVX512_AHEAD + i,
                         _MM_HINT_T0);
        }

        mst_cpu_avx512_six(tile, w);

        mst_unroll
        for (int c = 0; c < n; c++) {
            mst_cpu_avx512_halves(q + MST_CPU_BLOCK * digits * c, half[c],
                                  digits);
        }

        mst_unroll
        for (int h = 0; h < 2; h++) {
            d = mst_vec_mul(super.d,
                            mst_vec_load_i8((const int8_t *) tile + 384
                                            + 16 * h));
            mst_cpu_avx512_half_digits(w + 4 * h, q + 16 * h, acc, digits, n);

            mst_unroll
            for (int c = 0; c < n; c++) {
                acc[c] = _mm512_sub_epi32(acc[c], half[c][h]);
                o[c] = _mm512_fmadd_ps(
                    _mm512_cvtepi32_ps(acc[c]),
                    _mm512_mul_ps(d, _mm512_set1_ps(s[c].d)), o[c]);
            }
        }

        tile += MST_CPU_Q6_K_SIZE;
        q += MST_CPU_BLOCK * digits * n;
        s += n;
    }

    mst_unroll
    for (int c = 0; c < n; c++) {
        _mm512_storeu_ps(y + 16 * c, o[c]);
    }
}


/* one block of Q8_0: sums of the two upper of three digits and of the low
   ones, or of both of two in low */

mst_vec_fn void
mst_cpu_avx512_q8_block(const uint8_t *tile, const int8_t *q,
    const mst_cpu_scale_t *s, __m512i *high, __m512i *low, const int digits,
    const int n)
{
    __m512i  w[8];

    mst_unroll
    for (int i = 0; i < 8; i++) {
        _mm_prefetch((const char *) tile + MST_AVX512_AHEAD + 64 * i,
                     _MM_HINT_T0);
        w[i] = _mm512_loadu_si512(tile + 64 * i);
    }

    /* the weights stand 128 too high */

    if (digits == 2) {
        mst_cpu_avx512_digits(w, q, low, 2, n);

        mst_unroll
        for (int c = 0; c < n; c++) {
            low[c] = _mm512_add_epi32(low[c],
                                      _mm512_set1_epi32(-128 * s[c].low));
        }

        return;
    }

    mst_unroll
    for (int c = 0; c < n; c++) {
        high[c] = _mm512_set1_epi32(-s[c].high);
        low[c] = _mm512_set1_epi32(-128 * s[c].low);
    }

    if (n == 1) {
        __m512i  middle;

        middle = _mm512_setzero_si512();
        mst_cpu_avx512_plane(w, q, high, 3, 1);
        mst_cpu_avx512_plane(w, q + 32, &middle, 3, 1);
        mst_cpu_avx512_plane(w, q + 64, low, 3, 1);
        high[0] = _mm512_add_epi32(_mm512_slli_epi32(high[0], 7), middle);

        return;
    }

    mst_cpu_avx512_plane(w, q, high, 3, n);
    mst_cpu_avx512_shift(high, 3, n);
    mst_cpu_avx512_plane(w, q + 32, high, 3, n);
    mst_cpu_avx512_plane(w, q + 64, low, 3, n);
}


mst_vec_fn void
mst_cpu_avx512_q8(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const int unused, const int digits, const int n)
{
    __m512                  d, f, o[MST_CPU_COLS];
    __m512i                 high[MST_CPU_COLS], low[MST_CPU_COLS];
    uint32_t                b, blocks;
    const int8_t           *q;
    const mst_cpu_scale_t  *s;

    (void) unused;

    mst_unroll
    for (int c = 0; c < n; c++) {
        o[c] = _mm512_setzero_ps();
    }

    q = x->q;
    s = x->s;
    blocks = x->width / MST_CPU_BLOCK;

    for (b = 0; b < blocks; b++) {
        mst_cpu_avx512_q8_block(tile, q, s, high, low, digits, n);
        d = mst_vec_load_f16((const uint16_t *) (tile + 512));

        mst_unroll
        for (int c = 0; c < n; c++) {
            f = _mm512_cvtepi32_ps(low[c]);

            if (digits == 3) {
                f = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high[c]),
                                    _mm512_set1_ps(128), f);
            }

            o[c] = _mm512_fmadd_ps(f, _mm512_mul_ps(d, _mm512_set1_ps(s[c].d)),
                                   o[c]);
        }

        tile += MST_CPU_Q8_0_SIZE;
        q += MST_CPU_BLOCK * digits * n;
        s += n;
    }

    mst_unroll
    for (int c = 0; c < n; c++) {
        _mm512_storeu_ps(y + 16 * c, o[c]);
    }
}


static void
mst_cpu_avx512_q4_1(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_digit_cols(mst_cpu_avx512_q45, tile, x, y, MST_CPU_Q4_1);
}


static void
mst_cpu_avx512_q4_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_digit_cols(mst_cpu_avx512_q45, tile, x, y, MST_CPU_Q4_0);
}


static void
mst_cpu_avx512_q5_1(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_digit_cols(mst_cpu_avx512_q45, tile, x, y, MST_CPU_Q5_1);
}


static void
mst_cpu_avx512_q5_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_digit_cols(mst_cpu_avx512_q45, tile, x, y, MST_CPU_Q5_0);
}


static void
mst_cpu_avx512_coarse(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_cols(mst_cpu_avx512_q45, x, tile, x, y, MST_CPU_Q5_0, 1);
}


static void
mst_cpu_avx512_q4_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_digit_cols(mst_cpu_avx512_q45, tile, x, y, MST_CPU_Q4_K);
}


static void
mst_cpu_avx512_q5_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_digit_cols(mst_cpu_avx512_q45, tile, x, y, MST_CPU_Q5_K);
}


static void
mst_cpu_avx512_q6_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_digit_cols(mst_cpu_avx512_q6, tile, x, y, 0);
}


static void
mst_cpu_avx512_q8_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_kernel_digit_cols(mst_cpu_avx512_q8, tile, x, y, 0);
}


static void
mst_cpu_avx512_peak_bytes(uint32_t n, float *y)
{
    __m512i   a, o[8];
    uint32_t  i;

    a = _mm512_loadu_si512(y);

    mst_unroll
    for (int c = 0; c < 8; c++) {
        o[c] = _mm512_set1_epi32(c);
    }

    for (i = 0; i < n * (MST_CPU_PEAK / 8 / 64); i++) {
        mst_unroll
        for (int c = 0; c < 8; c++) {
            o[c] = _mm512_dpbusd_epi32(o[c], o[c], a);
        }
    }

    mst_unroll
    for (int c = 1; c < 8; c++) {
        o[0] = _mm512_add_epi32(o[0], o[c]);
    }

    _mm512_storeu_ps(y, _mm512_cvtepi32_ps(o[0]));
}


const mst_cpu_isa_t  mst_cpu_avx512 = {
    .name = "avx512",
    .supported = mst_cpu_avx512_supported,
    .tile = {
        [MST_CPU_Q4_1] = mst_cpu_avx512_q4_1,
        [MST_CPU_Q4_0] = mst_cpu_avx512_q4_0,
        [MST_CPU_Q8_0] = mst_cpu_avx512_q8_0,
        [MST_CPU_Q5_1] = mst_cpu_avx512_q5_1,
        [MST_CPU_Q5_0] = mst_cpu_avx512_q5_0,
        [MST_CPU_Q4_K] = mst_cpu_avx512_q4_k,
        [MST_CPU_Q5_K] = mst_cpu_avx512_q5_k,
        [MST_CPU_Q6_K] = mst_cpu_avx512_q6_k,
        [MST_CPU_F32] = mst_kernel_f32,
        [MST_CPU_F16] = mst_kernel_f16,
        [MST_CPU_BF16] = mst_kernel_bf16
    },
    .coarse = mst_cpu_avx512_coarse,
    .bound = mst_kernel_bound,
    .peak = mst_kernel_peak,
    .peak_bytes = mst_cpu_avx512_peak_bytes,
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
