
/*
 * 16 lanes in AVX-512: see mst_vec_c.h, to which this file runs parallel.
 */

#ifndef MST_VEC_H
#define MST_VEC_H

#include <immintrin.h>
#include <stdint.h>

#define MST_VEC_QUERIES  12
#define MST_VEC_VALUES   4
#define MST_VEC_COLS     8


#define mst_vec_fn   static inline __attribute__((always_inline, unused))


typedef __m512   mst_vec_t;
typedef __m512i  mst_ivec_t;


mst_vec_fn mst_vec_t
mst_vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}


mst_vec_fn void
mst_vec_store(float *p, mst_vec_t a)
{
    _mm512_storeu_ps(p, a);
}


mst_vec_fn mst_vec_t
mst_vec_set(float x)
{
    return _mm512_set1_ps(x);
}


mst_vec_fn mst_vec_t
mst_vec_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p));
}


mst_vec_fn mst_vec_t
mst_vec_load_bf16(const uint16_t *p)
{
    __m512i  u;

    u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *) p));

    return _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
}


mst_vec_fn mst_vec_t
mst_vec_load_i8(const int8_t *p)
{
    __m128i  q;

    q = _mm_loadu_si128((const __m128i *) p);

    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q));
}


mst_vec_fn void
mst_vec_store_f16(uint16_t *p, mst_vec_t a)
{
    _mm256_storeu_si256((__m256i *) p, _mm512_cvtps_ph(a, 0));
}


mst_vec_fn mst_vec_t
mst_vec_add(mst_vec_t a, mst_vec_t b)
{
    return _mm512_add_ps(a, b);
}


mst_vec_fn mst_vec_t
mst_vec_sub(mst_vec_t a, mst_vec_t b)
{
    return _mm512_sub_ps(a, b);
}


mst_vec_fn mst_vec_t
mst_vec_mul(mst_vec_t a, mst_vec_t b)
{
    return _mm512_mul_ps(a, b);
}


mst_vec_fn mst_vec_t
mst_vec_div(mst_vec_t a, mst_vec_t b)
{
    return _mm512_div_ps(a, b);
}


mst_vec_fn mst_vec_t
mst_vec_fma(mst_vec_t a, mst_vec_t b, mst_vec_t c)
{
    return _mm512_fmadd_ps(a, b, c);
}


mst_vec_fn mst_vec_t
mst_vec_fnma(mst_vec_t a, mst_vec_t b, mst_vec_t c)
{
    return _mm512_fnmadd_ps(a, b, c);
}


mst_vec_fn mst_vec_t
mst_vec_max(mst_vec_t a, mst_vec_t b)
{
    return _mm512_max_ps(a, b);
}


mst_vec_fn mst_vec_t
mst_vec_min(mst_vec_t a, mst_vec_t b)
{
    return _mm512_min_ps(a, b);
}


mst_vec_fn mst_vec_t
mst_vec_swap(mst_vec_t a)
{
    return _mm512_permute_ps(a, 0xb1);
}


mst_vec_fn mst_vec_t
mst_vec_cut(mst_vec_t a, int n, float fill)
{
    __mmask16  keep;

    keep = (__mmask16) (n <= 0 ? 0 : n >= 16 ? 0xffff : (1u << n) - 1);

    return _mm512_mask_mov_ps(_mm512_set1_ps(fill), keep, a);
}


mst_vec_fn float
mst_vec_sum(mst_vec_t a)
{
    __m128  x;
    __m256  y;

    y = _mm256_add_ps(_mm512_castps512_ps256(a),
                      _mm512_extractf32x8_ps(a, 1));
    x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));

    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}


mst_vec_fn float
mst_vec_top(mst_vec_t a)
{
    __m128  x;
    __m256  y;

    y = _mm256_max_ps(_mm512_castps512_ps256(a),
                      _mm512_extractf32x8_ps(a, 1));
    x = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));

    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}


mst_vec_fn mst_ivec_t
mst_vec_bits(mst_vec_t a)
{
    return _mm512_castps_si512(a);
}


mst_vec_fn mst_vec_t
mst_ivec_bits(mst_ivec_t a)
{
    return _mm512_castsi512_ps(a);
}


mst_vec_fn mst_ivec_t
mst_ivec_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}


mst_vec_fn mst_ivec_t
mst_ivec_add(mst_ivec_t a, mst_ivec_t b)
{
    return _mm512_add_epi32(a, b);
}


mst_vec_fn mst_ivec_t
mst_ivec_sub(mst_ivec_t a, mst_ivec_t b)
{
    return _mm512_sub_epi32(a, b);
}


mst_vec_fn mst_ivec_t
mst_ivec_and(mst_ivec_t a, mst_ivec_t b)
{
    return _mm512_and_si512(a, b);
}


mst_vec_fn mst_ivec_t
mst_ivec_max(mst_ivec_t a, mst_ivec_t b)
{
    return _mm512_max_epi32(a, b);
}


#define mst_ivec_left(a, n)   _mm512_slli_epi32(a, n)
#define mst_ivec_right(a, n)  _mm512_srai_epi32(a, n)


mst_vec_fn int32_t
mst_ivec_sum(mst_ivec_t a)
{
    return _mm512_reduce_add_epi32(a);
}


mst_vec_fn int32_t
mst_ivec_top(mst_ivec_t a)
{
    return _mm512_reduce_max_epi32(a);
}


mst_vec_fn void
mst_ivec_store_bytes(int8_t *p, mst_ivec_t a)
{
    _mm_storeu_si128((__m128i *) p, _mm512_cvtepi32_epi8(a));
}


mst_vec_fn mst_vec_t
mst_ivec_float(mst_ivec_t a)
{
    return _mm512_cvtepi32_ps(a);
}


#endif /* MST_VEC_H */
