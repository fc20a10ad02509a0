
/*
 * 16 lanes in two registers of AVX2: see mst_vec_c.h, to which this file
 * runs parallel.
 */

#ifndef MST_VEC_H
#define MST_VEC_H

#include <immintrin.h>
#include <stdint.h>

#define MST_VEC_QUERIES  3
#define MST_VEC_VALUES   2
#define MST_VEC_COLS     4


#define mst_vec_fn   static inline __attribute__((always_inline, unused))


typedef struct {
    __m256  a;                     /* lanes 0 .. 7 */
    __m256  b;
} mst_vec_t;


typedef struct {
    __m256i  a;
    __m256i  b;
} mst_ivec_t;


#define mst_vec_two(op)                                                       \
    do {                                                                      \
        a.a = op(a.a, b.a);                                                   \
        a.b = op(a.b, b.b);                                                   \
    } while (0)


mst_vec_fn mst_vec_t
mst_vec_load(const float *p)
{
    mst_vec_t  r;

    r.a = _mm256_loadu_ps(p);
    r.b = _mm256_loadu_ps(p + 8);

    return r;
}


mst_vec_fn void
mst_vec_store(float *p, mst_vec_t a)
{
    _mm256_storeu_ps(p, a.a);
    _mm256_storeu_ps(p + 8, a.b);
}


mst_vec_fn mst_vec_t
mst_vec_set(float x)
{
    mst_vec_t  r;

    r.a = _mm256_set1_ps(x);
    r.b = r.a;

    return r;
}


mst_vec_fn mst_vec_t
mst_vec_load_f16(const uint16_t *p)
{
    mst_vec_t  r;

    r.a = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p));
    r.b = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) (p + 8)));

    return r;
}


mst_vec_fn mst_vec_t
mst_vec_load_bf16(const uint16_t *p)
{
    __m256i    a, b;
    mst_vec_t  r;

    a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) p));
    b = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) (p + 8)));
    r.a = _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
    r.b = _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));

    return r;
}


mst_vec_fn mst_vec_t
mst_vec_load_i8(const int8_t *p)
{
    __m128i    q;
    mst_vec_t  r;

    q = _mm_loadu_si128((const __m128i *) p);
    r.a = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    r.b = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)));

    return r;
}


mst_vec_fn void
mst_vec_store_f16(uint16_t *p, mst_vec_t a)
{
    _mm_storeu_si128((__m128i *) p, _mm256_cvtps_ph(a.a, 0));
    _mm_storeu_si128((__m128i *) (p + 8), _mm256_cvtps_ph(a.b, 0));
}


mst_vec_fn mst_vec_t
mst_vec_add(mst_vec_t a, mst_vec_t b)
{
    mst_vec_two(_mm256_add_ps);

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_sub(mst_vec_t a, mst_vec_t b)
{
    mst_vec_two(_mm256_sub_ps);

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_mul(mst_vec_t a, mst_vec_t b)
{
    mst_vec_two(_mm256_mul_ps);

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_div(mst_vec_t a, mst_vec_t b)
{
    mst_vec_two(_mm256_div_ps);

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_fma(mst_vec_t a, mst_vec_t b, mst_vec_t c)
{
    c.a = _mm256_fmadd_ps(a.a, b.a, c.a);
    c.b = _mm256_fmadd_ps(a.b, b.b, c.b);

    return c;
}


mst_vec_fn mst_vec_t
mst_vec_fnma(mst_vec_t a, mst_vec_t b, mst_vec_t c)
{
    c.a = _mm256_fnmadd_ps(a.a, b.a, c.a);
    c.b = _mm256_fnmadd_ps(a.b, b.b, c.b);

    return c;
}


mst_vec_fn mst_vec_t
mst_vec_max(mst_vec_t a, mst_vec_t b)
{
    mst_vec_two(_mm256_max_ps);

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_min(mst_vec_t a, mst_vec_t b)
{
    mst_vec_two(_mm256_min_ps);

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_swap(mst_vec_t a)
{
    a.a = _mm256_permute_ps(a.a, 0xb1);
    a.b = _mm256_permute_ps(a.b, 0xb1);

    return a;
}


mst_vec_fn mst_vec_t
mst_vec_cut(mst_vec_t a, int n, float fill)
{
    __m256   f;
    __m256i  at, lane;

    f = _mm256_set1_ps(fill);
    at = _mm256_set1_epi32(n);
    lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    a.a = _mm256_blendv_ps(f, a.a,
                           _mm256_castsi256_ps(_mm256_cmpgt_epi32(at, lane)));
    lane = _mm256_add_epi32(lane, _mm256_set1_epi32(8));
    a.b = _mm256_blendv_ps(f, a.b,
                           _mm256_castsi256_ps(_mm256_cmpgt_epi32(at, lane)));

    return a;
}


mst_vec_fn float
mst_vec_sum(mst_vec_t a)
{
    __m128  x;
    __m256  y;

    y = _mm256_add_ps(a.a, a.b);
    x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));

    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}


mst_vec_fn float
mst_vec_top(mst_vec_t a)
{
    __m128  x;
    __m256  y;

    y = _mm256_max_ps(a.a, a.b);
    x = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));

    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}


mst_vec_fn mst_ivec_t
mst_vec_bits(mst_vec_t a)
{
    mst_ivec_t  r;

    r.a = _mm256_castps_si256(a.a);
    r.b = _mm256_castps_si256(a.b);

    return r;
}


mst_vec_fn mst_vec_t
mst_ivec_bits(mst_ivec_t a)
{
    mst_vec_t  r;

    r.a = _mm256_castsi256_ps(a.a);
    r.b = _mm256_castsi256_ps(a.b);

    return r;
}


mst_vec_fn mst_ivec_t
mst_ivec_set(int32_t x)
{
    mst_ivec_t  r;

    r.a = _mm256_set1_epi32(x);
    r.b = r.a;

    return r;
}


mst_vec_fn mst_ivec_t
mst_ivec_add(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_two(_mm256_add_epi32);

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_sub(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_two(_mm256_sub_epi32);

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_and(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_two(_mm256_and_si256);

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_max(mst_ivec_t a, mst_ivec_t b)
{
    mst_vec_two(_mm256_max_epi32);

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_left(mst_ivec_t a, int n)
{
    a.a = _mm256_slli_epi32(a.a, n);
    a.b = _mm256_slli_epi32(a.b, n);

    return a;
}


mst_vec_fn mst_ivec_t
mst_ivec_right(mst_ivec_t a, int n)
{
    a.a = _mm256_srai_epi32(a.a, n);
    a.b = _mm256_srai_epi32(a.b, n);

    return a;
}


mst_vec_fn int32_t
mst_ivec_sum(mst_ivec_t a)
{
    __m128i  x;
    __m256i  y;

    y = _mm256_add_epi32(a.a, a.b);
    x = _mm_add_epi32(_mm256_castsi256_si128(y),
                      _mm256_extracti128_si256(y, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));

    return _mm_cvtsi128_si32(x);
}


mst_vec_fn int32_t
mst_ivec_top(mst_ivec_t a)
{
    __m128i  x;
    __m256i  y;

    y = _mm256_max_epi32(a.a, a.b);
    x = _mm_max_epi32(_mm256_castsi256_si128(y),
                      _mm256_extracti128_si256(y, 1));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1));

    return _mm_cvtsi128_si32(x);
}


mst_vec_fn void
mst_ivec_store_bytes(int8_t *p, mst_ivec_t a)
{
    __m128i  x;
    __m256i  low, y;

    low = _mm256_set1_epi32(255);
    y = _mm256_packs_epi32(_mm256_and_si256(a.a, low),
                           _mm256_and_si256(a.b, low));
    y = _mm256_permute4x64_epi64(y, 0xd8);
    x = _mm_packus_epi16(_mm256_castsi256_si128(y),
                         _mm256_extracti128_si256(y, 1));
    _mm_storeu_si128((__m128i *) p, x);
}


mst_vec_fn mst_vec_t
mst_ivec_float(mst_ivec_t a)
{
    mst_vec_t  r;

    r.a = _mm256_cvtepi32_ps(a.a);
    r.b = _mm256_cvtepi32_ps(a.b);

    return r;
}


#endif /* MST_VEC_H */
