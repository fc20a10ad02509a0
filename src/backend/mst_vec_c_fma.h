
/*
 * For mst_vec_c.h: a fused multiply-add of its vectors, and long sums of
 * products, without an instruction for it.  Both round as one does: through
 * doubles where SSE2 has them, else by fmaf().
 */

#ifndef MST_VEC_C_FMA_H
#define MST_VEC_C_FMA_H


#if defined(__SSE2__) && !defined(__FMA__)

/* a * b is exact, and e what its sum with c lost: a sum that was cut to an odd
   number, and not rounded, may be rounded once more */

mst_vec_fn __m128d
mst_vec_odd2(__m128d a, __m128d b, __m128d c)
{
    __m128d  e, p, s, t;
    __m128i  away, even, lost;

    p = a * b;
    s = p + c;
    t = s - p;
    e = (p - (s - t)) + (c - t);

    lost = (__m128i) _mm_or_pd(_mm_cmplt_pd(e, _mm_setzero_pd()),
                               _mm_cmpgt_pd(e, _mm_setzero_pd()));
    even = _mm_and_si128((__m128i) s, _mm_set1_epi64x(1)) - 1;
    away = (__m128i) _mm_xor_pd(_mm_cmplt_pd(e, _mm_setzero_pd()),
                                _mm_cmplt_pd(s, _mm_setzero_pd()));

    /* one up, or down where e and s differ in sign */

    lost &= even & (away | _mm_set1_epi64x(1));

    return (__m128d) ((__m128i) s + lost);
}


mst_vec_fn __m128d
mst_vec_low2(mst_vec4_t a)
{
    return _mm_cvtps_pd((__m128) a);
}


mst_vec_fn __m128d
mst_vec_high2(mst_vec4_t a)
{
    return _mm_cvtps_pd(_mm_movehl_ps((__m128) a, (__m128) a));
}


/* doubles that rounding to floats may not decide: those in the middle between
   two, of which the lower 29 bits are so */

mst_vec_fn mst_ivec4_t
mst_vec_middle(__m128d a, __m128d b)
{
    mst_ivec4_t  low;

    low = (mst_ivec4_t) _mm_shuffle_ps((__m128) a, (__m128) b, 0x88);

    return low << 3 == mst_ivec_set4(INT32_MIN);
}


mst_vec_out mst_vec4_t
mst_vec_fma_exact(mst_vec4_t a, mst_vec4_t b, mst_vec4_t c)
{
    __m128d  s[2];

    s[0] = mst_vec_odd2(mst_vec_low2(a), mst_vec_low2(b), mst_vec_low2(c));
    s[1] = mst_vec_odd2(mst_vec_high2(a), mst_vec_high2(b), mst_vec_high2(c));

    return (mst_vec4_t) _mm_movelh_ps(_mm_cvtpd_ps(s[0]),
                                      _mm_cvtpd_ps(s[1]));
}


/* Through double, where the product is exact and the sum rounded.  Rounding
   that once more to a float differs from rounding once only where the sum lies
   in the middle between two floats, or the float is below the normal ones.  A
   float of zero is right: so small a sum is exact. */

mst_vec_fn mst_vec4_t
mst_vec_fma4(mst_vec4_t a, mst_vec4_t b, mst_vec4_t c)
{
    __m128       r;
    __m128d      s[2];
    mst_ivec4_t  low, size;

    s[0] = mst_vec_low2(a) * mst_vec_low2(b) + mst_vec_low2(c);
    s[1] = mst_vec_high2(a) * mst_vec_high2(b) + mst_vec_high2(c);
    r = _mm_movelh_ps(_mm_cvtpd_ps(s[0]), _mm_cvtpd_ps(s[1]));

    /* 1 .. the smallest normal float become the smallest integers */

    low = mst_vec_middle(s[0], s[1]);
    size = (mst_ivec4_t) (((mst_uvec4_t) r & 0x7fffffff) + 0x7fffffff);
    low |= size < mst_ivec_set4(INT32_MIN + 0x800000);

    if (__builtin_expect(_mm_movemask_epi8((__m128i) low), 0)) {
        return mst_vec_fma_exact(a, b, c);
    }

    return (mst_vec4_t) r;
}


#else

mst_vec_fn mst_vec4_t
mst_vec_fma4(mst_vec4_t a, mst_vec4_t b, mst_vec4_t c)
{
    for (int i = 0; i < 4; i++) {
        c[i] = fmaf(a[i], b[i], c[i]);
    }

    return c;
}

#endif


/* a * b + c */

mst_vec_fn mst_vec_t
mst_vec_fma(mst_vec_t a, mst_vec_t b, mst_vec_t c)
{
    mst_vec_all c.f[i_] = mst_vec_fma4(a.f[i_], b.f[i_], c.f[i_]);

    return c;
}


/*
 * Long sums of products, of which the caller knows that none is too large for
 * a float and that all products are multiples of the smallest float, so that
 * what is below the normal floats is exact.  They are floats, kept as doubles.
 * A sum in the middle between two floats is in doubt: then all since the last
 * look is void, and mst_sum_fma_exact() has to be asked.
 */

#if defined(__SSE2__) && !defined(__FMA__)

typedef __m128i  mst_doubt_t;

typedef struct {
    __m128d  d[8];
} mst_sum_t;


mst_vec_fn mst_sum_t
mst_sum_from(mst_vec_t a)
{
    mst_sum_t  r;

    mst_vec_all {
        r.d[2 * i_] = mst_vec_low2(a.f[i_]);
        r.d[2 * i_ + 1] = mst_vec_high2(a.f[i_]);
    }

    return r;
}


mst_vec_fn mst_sum_t
mst_sum_set(float x)
{
    mst_sum_t  r;

    mst_vec_all {
        r.d[2 * i_] = _mm_set1_pd((double) x);
        r.d[2 * i_ + 1] = r.d[2 * i_];
    }

    return r;
}


mst_vec_fn mst_vec_t
mst_sum_vec(mst_sum_t a)
{
    mst_vec_t  r;

    mst_vec_all r.f[i_] = (mst_vec4_t) _mm_movelh_ps(
        _mm_cvtpd_ps(a.d[2 * i_]), _mm_cvtpd_ps(a.d[2 * i_ + 1]));

    return r;
}


mst_vec_fn mst_doubt_t
mst_doubt_none(void)
{
    return _mm_setzero_si128();
}


/* upper halves have no meaning */

mst_vec_fn int
mst_doubt_any(mst_doubt_t doubt)
{
    return _mm_movemask_ps((__m128) doubt) & 5;
}


/* a * b + c.  Half of a float's last place, added to the bits of a double,
   rounds it to a float but for the middle between two, where nothing is left
   below */

mst_vec_fn mst_sum_t
mst_sum_fma(mst_sum_t a, mst_sum_t b, mst_sum_t c, mst_doubt_t *doubt)
{
    __m128i  r, s;

    mst_vec_unroll
    for (int i = 0; i < 8; i++) {
        s = (__m128i) (a.d[i] * b.d[i] + c.d[i]);
        s = _mm_add_epi64(s, _mm_set1_epi64x(0x10000000));
        r = _mm_and_si128(s, _mm_set1_epi64x(~0x1fffffffll));
        *doubt = _mm_or_si128(*doubt, _mm_cmpeq_epi32(s, r));
        c.d[i] = (__m128d) r;
    }

    return c;
}


/* a * b + c without doubt */

mst_vec_fn mst_sum_t
mst_sum_fma_exact(mst_sum_t a, mst_sum_t b, mst_sum_t c)
{
    for (int i = 0; i < 8; i++) {
        c.d[i] = mst_vec_odd2(a.d[i], b.d[i], c.d[i]);
        c.d[i] = _mm_cvtps_pd(_mm_cvtpd_ps(c.d[i]));
    }

    return c;
}

#else

typedef int        mst_doubt_t;
typedef mst_vec_t  mst_sum_t;

#define mst_sum_from(a)        (a)
#define mst_sum_set(x)         mst_vec_set(x)
#define mst_sum_vec(a)         (a)
#define mst_doubt_none()       0
#define mst_doubt_any(doubt)   (doubt)
#define mst_sum_fma(a, b, c, doubt)  mst_vec_fma(a, b, c)
#define mst_sum_fma_exact(a, b, c)   mst_vec_fma(a, b, c)

#endif


#endif /* MST_VEC_C_FMA_H */
