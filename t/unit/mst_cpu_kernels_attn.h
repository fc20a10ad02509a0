
/*
 * Attention over blocks as the cache keeps them, each type of it: against an
 * obvious softmax in double precision, and bit by bit against portable C.
 */

#ifndef MST_CPU_KERNELS_ATTN_H
#define MST_CPU_KERNELS_ATTN_H

#include "mst_cpu_kernels_rig.h"


/* "blocks" blocks in a row for n queries, the last block partly seen */

typedef struct {
    uint32_t   dim, stride, n, blocks;
    uint32_t   limit[16];
    int        window;         /* 1: of the first block they see only ... */
    uint32_t   first[16];      /* ... from here on */
    float     *k, *v, *q;
    float      small;          /* that keys are less than 1 by, and queries
                                  more */
    float      size;           /* of values */
    int        type;           /* mst_kv_type_t */
    uint8_t   *kept_k, *kept_v;            /* as the cache has them */
    uint16_t  *k_scale, *v_scale;
} kernels_attn_t;


/* 16 numbers, in steps of "step", to how they are kept; the numbers become
   what is kept */

static inline void
kernels_attn_keep(const kernels_attn_t *a, float *y, uint32_t step,
    uint8_t *kept, uint16_t *scale)
{
    float      d, f[16], w[16] = { 0 };
    int8_t     q[16], r[16];
    uint16_t   h[16], s;
    uint32_t   bits, i;

    for (i = 0; i < 16; i++) {
        f[i] = y[i * step];
    }

    if (a->type == MST_KV_F16) {
        kernels->kv_f16(f, h);

        for (i = 0; i < 16; i++) {
            assert_true(h[i] == mst_f32_to_f16(f[i]) || isnan(f[i]));
            ((uint16_t *) kept)[i * step] = h[i];
            mst_quant_decode(MST_TYPE_F16, &h[i], &y[i * step], 1);
        }

        return;
    }

    kernels->kv_q8(f, q, scale);
    mst_cpu_c.kv_q8(f, r, &s);
    assert_int_equal(*scale, s);
    assert_memory_equal(q, r, 16);
    bits = (uint32_t) s << 16;
    memcpy(&d, &bits, 4);

    for (i = 0; i < 16; i++) {
        kept[i * step] = (uint8_t) q[i];
        w[i] = (float) q[i] * d;
        assert_true(isnan(d) || fabsf(w[i] - f[i]) <= d * 0.501f);
        y[i * step] = w[i];
    }
}


/* keys and values as they are kept; a->k and a->v become that as floats */

static inline void
kernels_attn_store(kernels_attn_t *a)
{
    size_t    size;
    uint32_t  b, d, t;

    size = a->type == MST_KV_F16 ? 2 : 1;
    a->kept_k = calloc(a->blocks * 32 * a->dim, 2);
    a->kept_v = calloc(a->blocks * 32 * a->stride, 2);
    a->k_scale = calloc(a->blocks * 32 * a->stride / 16, 2);
    a->v_scale = calloc(a->blocks * 32 * a->stride / 16, 2);

    for (b = 0; b < a->blocks && a->type != MST_KV_F32; b++) {
        for (t = 0; t < 32; t++) {
            for (d = 0; d < a->dim; d += 16) {
                kernels_attn_keep(a, a->k + (b * a->dim + d) * 32 + t, 32,
                                  a->kept_k + ((b * a->dim + d) * 32 + t)
                                              * size,
                                  a->k_scale + b * 2 * a->dim + d * 2 + t);
                kernels_attn_keep(a, a->v + (b * 32 + t) * a->stride + d, 1,
                                  a->kept_v + ((b * 32 + t) * a->stride + d)
                                              * size,
                                  a->v_scale + ((b * 32 + t) * a->stride + d)
                                               / 16);
            }
        }
    }
}


static inline void
kernels_attn_run(const mst_cpu_isa_t *isa, const kernels_attn_t *a, float *y)
{
    float             *state;
    uint32_t           b, full[16], i, per, size;
    mst_cpu_attend_t   x;

    per = 32 + a->stride;
    state = calloc(a->n * per, sizeof(float));

    for (i = 0; i < a->n; i++) {
        state[i * per] = -INFINITY;
        full[i] = 32;
    }

    for (b = 0; b < a->blocks; b++) {
        size = a->type == MST_KV_F32 ? 4 : a->type == MST_KV_F16 ? 2 : 1;
        x.type = (mst_kv_type_t) a->type;
        x.k = (size == 4 ? (uint8_t *) a->k : a->kept_k)
              + b * 32 * a->dim * size;
        x.v = (size == 4 ? (uint8_t *) a->v : a->kept_v)
              + b * 32 * a->stride * size;
        x.k_scale = a->k_scale + b * 2 * a->dim;
        x.v_scale = a->v_scale + b * 2 * a->stride;
        x.q = a->q;
        x.state = state;
        x.limit = b + 1 == a->blocks ? a->limit : full;
        x.first = a->window && b == 0 ? a->first : NULL;
        x.n = a->n;
        x.head_dim = a->dim;
        x.stride = a->stride;
        isa->attend(&x);
    }

    for (i = 0; i < a->n; i++) {
        isa->attend_end(state + i * per, y + i * a->stride, a->dim);
    }

    free(state);
}


static inline void
kernels_attn_want(const kernels_attn_t *a, uint32_t query, double *y)
{
    double    p, sum;
    uint32_t  b, d, t, seen;

    memset(y, 0, a->dim * sizeof(double));
    sum = 0;

    for (b = 0; b < a->blocks; b++) {
        seen = b + 1 == a->blocks ? a->limit[query] : 32;

        t = a->window && b == 0 ? a->first[query] : 0;

        for ( /* void */ ; t < seen; t++) {
            for (p = 0, d = 0; d < a->dim; d++) {
                p += (double) a->q[query * a->dim + d]
                     * (double) a->k[(b * a->dim + d) * 32 + t];
            }

            p = exp(p);
            sum += p;

            for (d = 0; d < a->dim; d++) {
                y[d] += p * (double) a->v[(b * 32 + t) * a->stride + d];
            }
        }
    }

    for (d = 0; d < a->dim; d++) {
        y[d] /= sum;
    }
}


static inline void
kernels_attn_check(kernels_attn_t *a)
{
    float     *y, *z;
    double    *want;
    uint32_t   b, d, i, t;

    a->k = calloc(a->blocks * 32 * a->dim, sizeof(float));
    a->v = calloc(a->blocks * 32 * a->stride, sizeof(float));
    a->q = calloc(a->n * a->dim, sizeof(float));
    y = calloc(a->n * a->stride, sizeof(float));
    z = calloc(a->n * a->stride, sizeof(float));
    want = calloc(a->dim, sizeof(double));

    for (b = 0; b < a->blocks; b++) {
        for (t = 0; t < 32; t++) {
            for (d = 0; d < a->dim; d++) {

                /* behind what the last query sees stands another's NaN */

                i = b + 1 == a->blocks && t >= a->limit[a->n - 1];
                a->k[(b * a->dim + d) * 32 + t] = i ? NAN
                    : kernels_float(a->small);
                a->v[(b * 32 + t) * a->stride + d] = i ? NAN
                    : kernels_float(a->size);
            }
        }
    }

    for (i = 0; i < a->n * a->dim; i++) {
        a->q[i] = kernels_float(4 / sqrtf((float) a->dim)) / a->small;
    }

    kernels_attn_store(a);
    kernels_attn_run(kernels, a, y);
    kernels_attn_run(&mst_cpu_c, a, z);
    assert_memory_equal(y, z, a->n * a->stride * sizeof(float));

    for (i = 0; i < a->n; i++) {
        kernels_attn_want(a, i, want);

        for (d = 0; d < a->dim; d++) {
            assert_true(fabs((double) y[i * a->stride + d] - want[d])
                        <= 2e-6 * (double) a->size);
        }
    }

    free(a->k);
    free(a->v);
    free(a->q);
    free(a->kept_k);
    free(a->kept_v);
    free(a->k_scale);
    free(a->v_scale);
    free(y);
    free(z);
    free(want);
}


static inline void
kernels_attn_test(void **state)
{
    uint32_t         i, k, n;
    kernels_attn_t   a;

    static const uint32_t  dims[] = { 2, 8, 16, 24, 48, 64, 80, 128, 200 };

    (void) state;

    for (i = 0; i < sizeof(dims) / sizeof(*dims); i++) {
        for (n = 1; n <= 16; n++) {
            a.dim = dims[i];
            a.stride = (a.dim + 15) / 16 * 16;
            a.n = n;
            a.blocks = 1 + n % 4;
            a.limit[0] = 1 + kernels_random() % 16;

            for (k = 1; k < n; k++) {
                a.limit[k] = a.limit[k - 1] + kernels_random() % 2;
            }

            a.window = n % 2;

            for (k = 0; k < n; k++) {
                a.first[k] = kernels_random() % (a.blocks == 1 ? a.limit[k]
                                                               : 32);
            }

            a.type = a.dim % 16 || n % 3 == 0 ? MST_KV_F32
                     : n % 3 == 1 ? MST_KV_F16 : MST_KV_Q8;
            a.small = 1;
            a.size = 1;
            kernels_attn_check(&a);

            if (a.type == MST_KV_F32) {
                a.small = 1e-20f;
                kernels_attn_check(&a);
                a.size = n % 2 ? 1e-35f : 1e30f;
                kernels_attn_check(&a);
            }
        }
    }
}


#endif /* MST_CPU_KERNELS_ATTN_H */
