
/*
 * What attention consists of beside its products, written once over 16 lanes
 * as mst_cpu_kernel.h is, and for each way of keeping keys and values: these
 * become floats, exactly, before they are multiplied.
 */

#ifndef MST_CPU_KERNEL_ATTN_H
#define MST_CPU_KERNEL_ATTN_H

#include "backend/mst_cpu_kernel.h"

#define MST_KERNEL_F16_MAX  65504.0f


/* one query's share in a block */
typedef struct {
    _Alignas(64) float  p[MST_CPU_KV];     /* scores, then weights */
    float               alpha;             /* of what was before */
} mst_kernel_soft_t;


/* beyond the largest number of f16 stands the largest; NaN stays NaN */

static void
mst_kernel_kv_f16(const float *y, uint16_t *h)
{
    mst_vec_t  v;

    v = mst_vec_max(mst_vec_set(-MST_KERNEL_F16_MAX), mst_vec_load(y));
    v = mst_vec_min(mst_vec_set(MST_KERNEL_F16_MAX), v);
    mst_vec_store_f16(h, v);
}


/* the scale is rounded up, so that no quotient exceeds 127 */

static void
mst_kernel_kv_q8(const float *y, int8_t *q, uint16_t *scale)
{
    float       d, max;
    int32_t     top;
    mst_vec_t   v;
    mst_ivec_t  i;

    v = mst_vec_load(y);
    top = mst_ivec_top(mst_ivec_and(mst_vec_bits(v),
                                    mst_ivec_set(0x7fffffff)));

    if (top >= 0x7f800000) {

        /* the row, and it alone, comes out as NaN */

        memset(q, 0, MST_CPU_LANES);
        *scale = 0x7fc0;
        return;
    }

    memcpy(&max, &top, sizeof(max));

    if (max < MST_KERNEL_TINY) {
        memset(q, 0, MST_CPU_LANES);
        *scale = 0;
        return;
    }

    d = max / 127;
    memcpy(&top, &d, sizeof(top));
    *scale = (uint16_t) (((uint32_t) top + 0xffff) >> 16);
    top = (int32_t) ((uint32_t) *scale << 16);
    memcpy(&d, &top, sizeof(d));

    v = mst_vec_mul(v, mst_vec_set(1 / d));
    v = mst_vec_add(v, mst_vec_set(MST_KERNEL_ROUND));
    i = mst_ivec_sub(mst_vec_bits(v), mst_ivec_set(MST_KERNEL_ROUND_BITS));
    mst_ivec_store_bytes(q, i);
}


/* dimension d of tokens 16 * half .. 16 * half + 15 */

mst_vec_fn mst_vec_t
mst_kernel_key(const mst_cpu_attend_t *a, uint32_t d, int half,
    const mst_kv_type_t type)
{
    size_t     at;
    mst_vec_t  k;

    at = (size_t) MST_CPU_KV * d + 16 * half;

    if (type == MST_KV_F16) {
        return mst_vec_load_f16((const uint16_t *) a->k + at);
    }

    if (type == MST_KV_Q8) {
        k = mst_vec_load_i8((const int8_t *) a->k + at);
        return mst_vec_mul(k, mst_vec_load_bf16(a->k_scale
                                                + d / MST_CPU_LANES
                                                  * MST_CPU_KV + 16 * half));
    }

    return mst_vec_load((const float *) a->k + at);
}


/* dimensions d .. d + 15 of token t */

mst_vec_fn mst_vec_t
mst_kernel_value(const mst_cpu_attend_t *a, uint32_t t, uint32_t d,
    const mst_kv_type_t type)
{
    float      scale;
    size_t     at;
    uint32_t   bits;
    mst_vec_t  v;

    at = (size_t) t * a->stride + d;

    if (type == MST_KV_F16) {
        return mst_vec_load_f16((const uint16_t *) a->v + at);
    }

    if (type == MST_KV_Q8) {
        bits = (uint32_t) a->v_scale[at / MST_CPU_LANES] << 16;
        memcpy(&scale, &bits, sizeof(scale));
        v = mst_vec_load_i8((const int8_t *) a->v + at);
        return mst_vec_mul(v, mst_vec_set(scale));
    }

    return mst_vec_load((const float *) a->v + at);
}


/* scores of tokens first .. limit - 1 to weights (0 for the others), the
   running maximum and sum */

static void
mst_kernel_soft(mst_kernel_soft_t *w, float *state, int first, int limit)
{
    float      alpha[MST_CPU_LANES], *p, top;
    mst_vec_t  l, m, s[2];

    p = w->p;

    for (int i = 0; i < first; i++) {
        p[i] = -INFINITY;
    }

    s[0] = mst_vec_load(p);
    s[1] = mst_vec_load(p + 16);

    if (limit < MST_CPU_KV) {
        s[0] = mst_vec_cut(s[0], limit, -INFINITY);
        s[1] = mst_vec_cut(s[1], limit - 16, -INFINITY);
    }

    top = mst_vec_top(mst_vec_max(s[0], s[1]));
    top = top > state[0] ? top : state[0];
    m = mst_vec_set(top);

    mst_unroll
    for (int i = 0; i < 2; i++) {
        s[i] = mst_kernel_exp(mst_vec_sub(s[i], m));

        if (limit < MST_CPU_KV) {
            s[i] = mst_vec_cut(s[i], limit - 16 * i, 0);
        }

        if (first) {
            s[i] = mst_vec_sub(s[i], mst_vec_cut(s[i], first - 16 * i, 0));
        }

        mst_vec_store(p + 16 * i, s[i]);
    }

    s[0] = mst_vec_add(s[0], s[1]);

    w->alpha = 1;                              /* the exponential of 0 */
    l = mst_vec_set(1);

    if (top > state[0]) {
        l = mst_kernel_exp(mst_vec_sub(mst_vec_set(state[0]), m));
        mst_vec_store(alpha, l);
        w->alpha = alpha[0];
        state[0] = top;
    }

    l = mst_vec_fma(mst_vec_load(state + 16), l, s[0]);
    mst_vec_store(state + 16, l);
}


static void
mst_kernel_attend_end(const float *state, float *y, uint32_t head_dim)
{
    uint32_t   i;
    mst_vec_t  r;

    r = mst_vec_set(1.0f / mst_vec_sum(mst_vec_load(state + 16)));

    for (i = 0; i < head_dim; i += 16) {
        mst_vec_store(y + i, mst_vec_mul(mst_vec_load(state + MST_CPU_STATE
                                                      + i), r));
    }
}


#endif /* MST_CPU_KERNEL_ATTN_H */
