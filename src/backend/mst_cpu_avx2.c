
/*
 * Kernels of the CPU backend for AVX2 with FMA: see mst_cpu_isa.h.
 *
 * vpmaddubsw adds pairs of products to 16 bits with saturation, which never
 * happens here: the weights of 4 bits give at most 15 * 127 * 16 in a whole
 * block (eight sums are added before they are widened), those of 8 bits are
 * taken as absolute values with the sign moved to the digit, 128 * 127 * 2.
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
#include "backend/mst_cpu_kernel_attn.h"

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


/* eight rows, 32 digits: i32 sums */

mst_vec_fn __m256i
mst_cpu_avx2_plane4(const __m256i *w, const int8_t *q)
{
    __m256i  a, b;

    a = _mm256_maddubs_epi16(w[0], mst_cpu_avx2_four(q));
    b = _mm256_maddubs_epi16(w[1], mst_cpu_avx2_four(q + 4));

    mst_unroll
    for (int i = 2; i < 8; i += 2) {
        a = _mm256_add_epi16(a, _mm256_maddubs_epi16(
                                    w[i], mst_cpu_avx2_four(q + 4 * i)));
        b = _mm256_add_epi16(b, _mm256_maddubs_epi16(
                                    w[i + 1],
                                    mst_cpu_avx2_four(q + 4 * i + 4)));
    }

    return _mm256_madd_epi16(_mm256_add_epi16(a, b), _mm256_set1_epi16(1));
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


/* eight rows of one block for all columns; o[column][16] */

mst_vec_fn void
mst_cpu_avx2_q4_half(const uint8_t *t, const mst_cpu_panel_t *x, float *o,
    __m256 d, __m256 m, const int offset)
{
    __m256                  y;
    __m256i                 acc, mask, v, w[8];
    uint32_t                c;
    const int8_t           *q;
    const mst_cpu_scale_t  *s;

    q = x->q;
    s = x->s;
    mask = _mm256_set1_epi8(15);

    mst_unroll
    for (int i = 0; i < 4; i++) {
        v = _mm256_loadu_si256((const __m256i *) (t + 64 * i));
        w[i] = _mm256_and_si256(v, mask);
        w[4 + i] = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
    }

    for (c = 0; c < x->cols; c++, q += MST_CPU_DIGITS, s++, o += 16) {
        acc = _mm256_slli_epi32(mst_cpu_avx2_plane4(w, q), 7);
        acc = _mm256_add_epi32(acc, mst_cpu_avx2_plane4(w, q + 32));
        acc = _mm256_slli_epi32(acc, 7);
        acc = _mm256_add_epi32(acc, mst_cpu_avx2_plane4(w, q + 64));
        y = _mm256_loadu_ps(o);

        if (offset) {
            acc = _mm256_sub_epi32(acc,
                                   _mm256_set1_epi32(offset * (128 * s->high
                                                               + s->low)));
        } else {
            y = _mm256_fmadd_ps(m, _mm256_set1_ps(s->s), y);
        }

        y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc),
                            _mm256_mul_ps(d, _mm256_set1_ps(s->d)), y);
        _mm256_storeu_ps(o, y);
    }
}


mst_vec_fn void
mst_cpu_avx2_q4(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const int offset)
{
    uint32_t          b, n;
    mst_vec_t         d, m;
    const uint8_t    *ds;
    mst_cpu_panel_t   block;

    block = *x;
    n = x->width / MST_CPU_BLOCK;
    ds = tile + 256 * (size_t) n;
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++) {
        mst_unroll
        for (int i = 0; i < 5; i++) {
            _mm_prefetch((const char *) tile + MST_AVX2_AHEAD + 64 * i,
                         _MM_HINT_T0);
        }

        if (offset) {
            d = mst_vec_load_f16((const uint16_t *) (ds + 32 * (size_t) b));
            m = d;

        } else {
            d = mst_vec_load_f16((const uint16_t *) (tile + 256));
            m = mst_vec_load_f16((const uint16_t *) (tile + 288));
        }

        mst_cpu_avx2_q4_half(tile, &block, y, d.a, m.a, offset);
        mst_cpu_avx2_q4_half(tile + 32, &block, y + 8, d.b, m.b, offset);

        tile += offset ? 256 : MST_CPU_Q4_1_SIZE;
        block.q += MST_CPU_DIGITS * x->cols;
        block.s += x->cols;
    }
}


mst_vec_fn void
mst_cpu_avx2_q8_half(const uint8_t *t, const mst_cpu_panel_t *x, float *o,
    __m256 d)
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

    for (c = 0; c < x->cols; c++, q += MST_CPU_DIGITS, s++, o += 16) {
        high = _mm256_slli_epi32(mst_cpu_avx2_plane8(w, sign, q), 7);
        high = _mm256_add_epi32(high, mst_cpu_avx2_plane8(w, sign, q + 32));
        low = mst_cpu_avx2_plane8(w, sign, q + 64);
        f = _mm256_fmadd_ps(_mm256_cvtepi32_ps(high), _mm256_set1_ps(128),
                            _mm256_cvtepi32_ps(low));
        y = _mm256_loadu_ps(o);
        y = _mm256_fmadd_ps(f, _mm256_mul_ps(d, _mm256_set1_ps(s->d)), y);
        _mm256_storeu_ps(o, y);
    }
}


static void
mst_cpu_avx2_q8_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    uint32_t          b, n;
    mst_vec_t         d;
    const uint8_t    *ds;
    mst_cpu_panel_t   block;

    block = *x;
    n = x->width / MST_CPU_BLOCK;
    ds = tile + 512 * (size_t) n;
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++) {
        mst_unroll
        for (int i = 0; i < 8; i++) {
            _mm_prefetch((const char *) tile + MST_AVX2_AHEAD + 64 * i,
                         _MM_HINT_T0);
        }

        d = mst_vec_load_f16((const uint16_t *) (ds + 32 * (size_t) b));
        mst_cpu_avx2_q8_half(tile, &block, y, d.a);
        mst_cpu_avx2_q8_half(tile + 32, &block, y + 8, d.b);

        tile += 512;
        block.q += MST_CPU_DIGITS * x->cols;
        block.s += x->cols;
    }
}


static void
mst_cpu_avx2_q4_1(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_q4(tile, x, y, 0);
}


static void
mst_cpu_avx2_q4_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_avx2_q4(tile, x, y, 8);
}


const mst_cpu_isa_t  mst_cpu_avx2 = {
    .name = "avx2",
    .supported = mst_cpu_avx2_supported,
    .tile = {
        [MST_CPU_Q4_1] = mst_cpu_avx2_q4_1,
        [MST_CPU_Q4_0] = mst_cpu_avx2_q4_0,
        [MST_CPU_Q8_0] = mst_cpu_avx2_q8_0,
        [MST_CPU_F32] = mst_kernel_f32,
        [MST_CPU_F16] = mst_kernel_f16,
        [MST_CPU_BF16] = mst_kernel_bf16
    },
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
