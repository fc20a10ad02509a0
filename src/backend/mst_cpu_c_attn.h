
/*
 * Attention in portable C: mst_cpu_kernel_attend.h without registers for
 * several queries, and with a fused multiply-add that costs many times what a
 * load does.  Keys and values are widened once for all queries, and each query
 * has one vector of sums at a time.
 *
 * The sums of mst_vec_c_fma.h ask for products that are multiples of the
 * smallest float, 2^-149, and sums in range.  That is so if what is multiplied
 * is zero or within bounds, of which the lower two multiply to 2^-100.  Else,
 * and where a sum is in doubt, the same chain is computed with care: bits are
 * the same.
 */

#ifndef MST_CPU_C_ATTN_H
#define MST_CPU_C_ATTN_H

#include "backend/mst_cpu_kernel_attn.h"

#define MST_CPU_C_WIDE   64        /* dimensions or tokens widened at a time */
#define MST_CPU_C_QUERIES  48      /* that share what is widened */
#define MST_CPU_C_LARGE  0x1p50f   /* upper bound */
#define MST_CPU_C_KEY    0x1p-50f  /* lower ones: of keys and queries, */
#define MST_CPU_C_VALUE  0x1p-28f  /* of values, */
#define MST_CPU_C_PART   0x1p-72f  /* and of their weights */


/* not zero, and not within bounds: all bits of such lanes are set */

mst_vec_fn mst_ivec_t
mst_cpu_c_outside(mst_vec_t a, const float least)
{
    mst_vec4_t   size;
    mst_ivec_t   r;
    mst_ivec4_t  low;

    low = (mst_ivec4_t) mst_vec_set4(least);

    mst_vec_all {
        size = (mst_vec4_t) ((mst_ivec4_t) a.f[i_] & 0x7fffffff);

        /* zero becomes the largest integer */

        r.i[i_] = ((mst_ivec4_t) ((mst_uvec4_t) size + 0x7fffffff)
                   < (mst_ivec4_t) ((mst_uvec4_t) low + 0x7fffffff))
                  | ~(size < mst_vec_set4(MST_CPU_C_LARGE));
    }

    return r;
}


mst_vec_fn int
mst_cpu_c_any(mst_ivec_t a)
{
    mst_ivec4_t  m;

    m = a.i[0] | a.i[1] | a.i[2] | a.i[3];

    return (m[0] | m[1] | m[2] | m[3]) != 0;
}


/* of n floats, a multiple of 16 or what is read beyond does not matter */

mst_vec_fn int
mst_cpu_c_inside(const float *x, uint32_t n, const float least)
{
    uint32_t    i;
    mst_ivec_t  out;

    out = mst_ivec_set(0);

    for (i = 0; i + 16 <= n; i += 16) {
        out = mst_ivec_or(out, mst_cpu_c_outside(mst_vec_load(x + i), least));
    }

    for ( /* void */ ; i < n; i++) {
        out = mst_ivec_or(out, mst_cpu_c_outside(mst_vec_set(x[i]), least));
    }

    return !mst_cpu_c_any(out);
}


/* y += sum of a[i] * b[i], i < n, in order */

mst_vec_out void
mst_cpu_c_chain(const float *a, const mst_sum_t *b, uint32_t n, float *y,
    int plain)
{
    uint32_t     i;
    mst_sum_t    sum;
    mst_doubt_t  doubt;

    if (plain) {
        sum = mst_sum_from(mst_vec_load(y));
        doubt = mst_doubt_none();

        for (i = 0; i < n; i++) {
            sum = mst_sum_fma(b[i], mst_sum_set(a[i]), sum, &doubt);
        }

        if (!mst_doubt_any(doubt)) {
            mst_vec_store(y, mst_sum_vec(sum));
            return;
        }
    }

    sum = mst_sum_from(mst_vec_load(y));

    for (i = 0; i < n; i++) {
        sum = mst_sum_fma_exact(b[i], mst_sum_set(a[i]), sum);
    }

    mst_vec_store(y, mst_sum_vec(sum));
}


/* n vectors of keys or values: whether they are within bounds */

mst_vec_fn int
mst_cpu_c_widen_keys(const mst_cpu_attend_t *a, uint32_t d, uint32_t n,
    int half, mst_sum_t *w, const mst_kv_type_t type)
{
    int         seen;
    uint32_t    i;
    mst_vec_t   k;
    mst_ivec_t  out;

    out = mst_ivec_set(0);
    seen = (int) a->limit[a->n - 1] - 16 * half;

    for (i = 0; i < n; i++) {

        /* what stands behind may be anything */

        k = mst_vec_cut(mst_kernel_key(a, d + i, half, type), seen, 0);
        w[i] = mst_sum_from(k);
        out = mst_ivec_or(out, mst_cpu_c_outside(k, MST_CPU_C_KEY));
    }

    return !mst_cpu_c_any(out);
}


mst_vec_fn int
mst_cpu_c_widen_values(const mst_cpu_attend_t *a, uint32_t d, uint32_t n,
    mst_sum_t *w, const mst_kv_type_t type)
{
    uint32_t    t;
    mst_vec_t   v;
    mst_ivec_t  out;

    out = mst_ivec_set(0);

    for (t = 0; t < n; t++) {
        v = mst_kernel_value(a, t, d, type);
        w[t] = mst_sum_from(v);
        out = mst_ivec_or(out, mst_cpu_c_outside(v, MST_CPU_C_VALUE));
    }

    return !mst_cpu_c_any(out);
}


mst_vec_fn void
mst_cpu_c_scores(const mst_cpu_attend_t *a, uint32_t at, uint32_t n,
    mst_kernel_soft_t *s, const mst_kv_type_t type)
{
    int           plain;
    uint32_t      d, j, m;
    mst_sum_t     w[MST_CPU_C_WIDE];
    const float  *q;

    for (j = 0; j < n; j++) {
        memset(s[j].p, 0, sizeof(s[j].p));
    }

    for (d = 0; d < a->head_dim; d += MST_CPU_C_WIDE) {
        m = a->head_dim - d < MST_CPU_C_WIDE ? a->head_dim - d
                                             : MST_CPU_C_WIDE;

        for (int half = 0; half < 2; half++) {
            plain = mst_cpu_c_widen_keys(a, d, m, half, w, type);

            for (j = 0; j < n; j++) {
                q = a->q + (size_t) (at + j) * a->head_dim + d;
                mst_cpu_c_chain(q, w, m, s[j].p + 16 * half,
                                plain && mst_cpu_c_inside(q, m,
                                                          MST_CPU_C_KEY));
            }
        }
    }
}


mst_vec_fn void
mst_cpu_c_values(const mst_cpu_attend_t *a, uint32_t at, uint32_t n,
    const mst_kernel_soft_t *s, const mst_kv_type_t type)
{
    int              inside[MST_CPU_C_QUERIES], plain;
    float           *out;
    uint32_t         d, j;
    mst_sum_t        w[MST_CPU_KV];
    mst_vec_t        o;
    const uint32_t  *limit;

    limit = a->limit + at;

    for (j = 0; j < n; j++) {
        inside[j] = mst_cpu_c_inside(s[j].p, limit[j], MST_CPU_C_PART);
    }

    for (d = 0; d < a->stride; d += MST_CPU_LANES) {
        plain = mst_cpu_c_widen_values(a, d, limit[n - 1], w, type);

        for (j = 0; j < n; j++) {
            out = a->state + (size_t) (at + j) * (MST_CPU_STATE + a->stride)
                  + MST_CPU_STATE + d;
            o = mst_vec_mul(mst_vec_load(out), mst_vec_set(s[j].alpha));
            mst_vec_store(out, o);
            mst_cpu_c_chain(s[j].p, w, limit[j], out,
                            plain && inside[j]
                            && mst_cpu_c_inside(out, MST_CPU_LANES,
                                                0x1p-149f));
        }
    }
}


mst_vec_fn void
mst_cpu_c_attend_type(const mst_cpu_attend_t *a, const mst_kv_type_t type)
{
    uint32_t           at, j, n;
    mst_kernel_soft_t  s[MST_CPU_C_QUERIES];

    for (at = 0; at < a->n; at += n) {
        n = a->n - at < MST_CPU_C_QUERIES ? a->n - at : MST_CPU_C_QUERIES;
        mst_cpu_c_scores(a, at, n, s, type);

        for (j = 0; j < n; j++) {
            mst_kernel_soft(&s[j], a->state + (size_t) (at + j)
                                              * (MST_CPU_STATE + a->stride),
                            a->first ? (int) a->first[at + j] : 0,
                            (int) a->limit[at + j]);
        }

        mst_cpu_c_values(a, at, n, s, type);
    }
}


static void
mst_cpu_c_attend(const mst_cpu_attend_t *a)
{
    switch (a->type) {

    case MST_KV_F16:
        mst_cpu_c_attend_type(a, MST_KV_F16);
        break;

    case MST_KV_Q8:
        mst_cpu_c_attend_type(a, MST_KV_Q8);
        break;

    default:
        mst_cpu_c_attend_type(a, MST_KV_F32);
    }
}


#endif /* MST_CPU_C_ATTN_H */
