
/*
 * The products of attention, for instruction sets with a fused multiply-add
 * and registers for several queries at a time.
 */

#ifndef MST_CPU_KERNEL_ATTEND_H
#define MST_CPU_KERNEL_ATTEND_H

#include "backend/mst_cpu_kernel_attn.h"


/* scores of n queries against 32 tokens: sums over the dimensions in order */

mst_vec_fn void
mst_kernel_scores(const mst_cpu_attend_t *a, uint32_t at, const int n,
    mst_kernel_soft_t *s, const mst_kv_type_t type)
{
    uint32_t      d;
    mst_vec_t     k[2], q, o[2 * MST_VEC_QUERIES];
    const float  *from;

    mst_unroll
    for (int j = 0; j < 2 * n; j++) {
        o[j] = mst_vec_set(0);
    }

    from = a->q + (size_t) at * a->head_dim;

    for (d = 0; d < a->head_dim; d++) {
        k[0] = mst_kernel_key(a, d, 0, type);
        k[1] = mst_kernel_key(a, d, 1, type);

        mst_unroll
        for (int j = 0; j < n; j++) {
            q = mst_vec_set(from[j * (size_t) a->head_dim + d]);
            o[2 * j] = mst_vec_fma(q, k[0], o[2 * j]);
            o[2 * j + 1] = mst_vec_fma(q, k[1], o[2 * j + 1]);
        }
    }

    mst_unroll
    for (int j = 0; j < n; j++) {
        mst_vec_store(s[j].p, o[2 * j]);
        mst_vec_store(s[j].p + 16, o[2 * j + 1]);
    }
}


/* n queries, w vectors of output from dimension d on: sums over the tokens in
   order */

mst_vec_fn void
mst_kernel_values(const mst_cpu_attend_t *a, uint32_t at,
    const mst_kernel_soft_t *s, uint32_t d, const int n, const int w,
    const mst_kv_type_t type)
{
    float           *out[MST_VEC_QUERIES];
    uint32_t         t;
    mst_vec_t        b, o[(MST_VEC_QUERIES + 1) / 2 * MST_VEC_VALUES
                          + MST_VEC_VALUES], r[MST_VEC_VALUES];
    const uint32_t  *limit;

    limit = a->limit + at;

    mst_unroll
    for (int j = 0; j < n; j++) {
        out[j] = a->state + (size_t) (at + j) * (MST_CPU_STATE + a->stride)
                 + MST_CPU_STATE + d;

        mst_unroll
        for (int i = 0; i < w; i++) {
            o[w * j + i] = mst_vec_mul(mst_vec_load(out[j] + 16 * i),
                                       mst_vec_set(s[j].alpha));
        }
    }

    for (t = 0; t < limit[0]; t++) {
        mst_unroll
        for (int i = 0; i < w; i++) {
            r[i] = mst_kernel_value(a, t, d + 16 * i, type);
        }

        mst_unroll
        for (int j = 0; j < n; j++) {
            b = mst_vec_set(s[j].p[t]);

            mst_unroll
            for (int i = 0; i < w; i++) {
                o[w * j + i] = mst_vec_fma(b, r[i], o[w * j + i]);
            }
        }
    }

    /* later queries see more tokens; a token that a query must not see is
       not even multiplied by zero: it may be NaN */

    mst_unroll
    for (int j = 0; j < n; j++) {
        for (t = limit[0]; t < limit[j]; t++) {
            b = mst_vec_set(s[j].p[t]);

            mst_unroll
            for (int i = 0; i < w; i++) {
                o[w * j + i] = mst_vec_fma(
                    b, mst_kernel_value(a, t, d + 16 * i, type),
                    o[w * j + i]);
            }
        }

        mst_unroll
        for (int i = 0; i < w; i++) {
            mst_vec_store(out[j] + 16 * i, o[w * j + i]);
        }
    }
}


mst_vec_fn void
mst_kernel_outputs(const mst_cpu_attend_t *a, uint32_t at,
    const mst_kernel_soft_t *s, const int n, const mst_kv_type_t type)
{
    uint32_t  d;

    d = 0;

    if (MST_VEC_VALUES == 4) {
        for ( /* void */ ; d + 64 <= a->stride; d += 64) {
            mst_kernel_values(a, at, s, d, n, MST_VEC_VALUES, type);
        }
    }

    for ( /* void */ ; d + 32 <= a->stride; d += 32) {
        mst_kernel_values(a, at, s, d, n, 2, type);
    }

    if (d < a->stride) {
        mst_kernel_values(a, at, s, d, n, 1, type);
    }
}


mst_vec_fn void
mst_kernel_queries(const mst_cpu_attend_t *a, uint32_t at, const int n,
    const mst_kv_type_t type)
{
    mst_kernel_soft_t  s[MST_VEC_QUERIES];

    mst_kernel_scores(a, at, n, s, type);

    for (int j = 0; j < n; j++) {
        mst_kernel_soft(&s[j], a->state + (size_t) (at + j)
                                          * (MST_CPU_STATE + a->stride),
                        a->first ? (int) a->first[at + j] : 0,
                        (int) a->limit[at + j]);
    }

    /* outputs need more registers than scores */

    if (n > 6) {
        mst_kernel_outputs(a, at, s, n / 2, type);
        mst_kernel_outputs(a, at + n / 2, s + n / 2, n / 2, type);

    } else {
        mst_kernel_outputs(a, at, s, n, type);
    }
}


mst_vec_fn void
mst_kernel_attend_type(const mst_cpu_attend_t *a, const mst_kv_type_t type)
{
    uint32_t  at, left;

    for (at = 0; at < a->n; /* void */ ) {
        left = a->n - at;

#if MST_VEC_QUERIES == 12
        if (left >= 12) {
            mst_kernel_queries(a, at, 12, type);
            at += 12;
            continue;
        }

        if (left >= 6) {
            mst_kernel_queries(a, at, 6, type);
            at += 6;
            continue;
        }

        if (left >= 4) {
            mst_kernel_queries(a, at, 4, type);
            at += 4;
            continue;
        }
#endif

        if (left >= 3) {
            mst_kernel_queries(a, at, 3, type);
            at += 3;

        } else if (left == 2) {
            mst_kernel_queries(a, at, 2, type);
            at += 2;

        } else {
            mst_kernel_queries(a, at, 1, type);
            at++;
        }
    }
}


static void
mst_kernel_attend(const mst_cpu_attend_t *a)
{
    switch (a->type) {

    case MST_KV_F16:
        mst_kernel_attend_type(a, MST_KV_F16);
        break;

    case MST_KV_Q8:
        mst_kernel_attend_type(a, MST_KV_Q8);
        break;

    default:
        mst_kernel_attend_type(a, MST_KV_F32);
    }
}


#endif /* MST_CPU_KERNEL_ATTEND_H */
