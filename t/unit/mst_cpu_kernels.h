
/*
 * The kernels of one instruction set: against double precision where they
 * compute, and bit by bit against portable C.
 */

#ifndef MST_CPU_KERNELS_H
#define MST_CPU_KERNELS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mst_cpu_isa.h"
#include "file/mst_quant.h"

#define KERNELS_BLOCKS  11     /* more than a super-block */
#define KERNELS_WIDTH   (32 * KERNELS_BLOCKS)


static const mst_cpu_isa_t  *kernels;          /* under test */
static uint32_t              kernels_digits = 3;   /* of an activation */
static uint64_t              kernels_seed = 20240917;


static inline uint32_t
kernels_random(void)
{
    kernels_seed = kernels_seed * 6364136223846793005ull
                   + 1442695040888963407ull;

    return (uint32_t) (kernels_seed >> 33);
}


static inline float
kernels_float(float scale)
{
    return scale * ((float) kernels_random() / 1073741824.0f - 1.0f);
}


/* input i of a block of codes that have bits above the nibbles */

static inline int
kernels_code(const uint8_t *t, uint32_t bits, uint32_t lane, uint32_t i)
{
    uint32_t  w;

    w = t[64 * (i % 16 / 4) + 4 * lane + i % 4];
    w = i < 16 ? w & 15 : w >> 4;
    t += 256 + 4 * lane + i % 4;

    return (int) (bits == 4 ? w
                  : bits == 5 ? w | (t[0] >> (i / 4) & 1u) << 4
                  : w | (t[64 * (i / 16)] >> (i % 16 / 4 * 2) & 3u) << 4);
}


/* what a tile says, by the description in mst_cpu_isa.h */

static inline double
kernels_weight(mst_cpu_type_t type, const uint8_t *t, uint32_t lane,
    uint32_t k)
{
    float     f;
    uint8_t   w;
    uint16_t  d, m;
    uint32_t  b, i, n;

    b = k / 32;
    i = k % 32;

    switch (type) {

    case MST_CPU_Q4_1:
        t += 320 * b;
        w = t[64 * (i % 16 / 4) + 4 * lane + i % 4];
        w = i < 16 ? w & 15 : w >> 4;
        memcpy(&d, t + 256 + 2 * lane, 2);
        memcpy(&m, t + 288 + 2 * lane, 2);
        return w * (double) mst_f16_to_f32(d) + (double) mst_f16_to_f32(m);

    case MST_CPU_Q4_0:
        t += 288 * b;
        w = t[64 * (i % 16 / 4) + 4 * lane + i % 4];
        w = i < 16 ? w & 15 : w >> 4;
        memcpy(&d, t + 256 + 2 * lane, 2);
        return (w - 8) * (double) mst_f16_to_f32(d);

    case MST_CPU_Q5_1:
        t += 384 * b;
        memcpy(&d, t + 320 + 2 * lane, 2);
        memcpy(&m, t + 352 + 2 * lane, 2);
        return kernels_code(t, 5, lane, i) * (double) mst_f16_to_f32(d)
               + (double) mst_f16_to_f32(m);

    case MST_CPU_Q5_0:
        t += 352 * b;
        memcpy(&d, t + 320 + 2 * lane, 2);
        return (kernels_code(t, 5, lane, i) - 16)
               * (double) mst_f16_to_f32(d);

    case MST_CPU_Q4_K:
    case MST_CPU_Q5_K:
        n = type == MST_CPU_Q4_K ? 4 : 5;
        t += (b / 8) * (64 + 8 * (64 * n + 32));
        memcpy(&d, t + 2 * lane, 2);
        memcpy(&m, t + 32 + 2 * lane, 2);
        t += 64 + b % 8 * (64 * n + 32);
        return kernels_code(t, n, lane, i) * (double) mst_f16_to_f32(d)
               * t[64 * n + lane]
               - (double) mst_f16_to_f32(m) * t[64 * n + 16 + lane];

    case MST_CPU_Q6_K:
        t += b / 8 * (32 + 8 * 416);
        memcpy(&d, t + 2 * lane, 2);
        t += 32 + b % 8 * 416;
        return (kernels_code(t, 6, lane, i) - 32)
               * (double) mst_f16_to_f32(d)
               * (int8_t) t[384 + 16 * (i / 16) + lane];

    case MST_CPU_Q8_0:
        t += 544 * b;
        w = t[64 * (i / 4) + 4 * lane + i % 4];
        memcpy(&d, t + 512 + 2 * lane, 2);
        return (w - 128) * (double) mst_f16_to_f32(d);

    case MST_CPU_F32:
        memcpy(&f, t + 64 * k + 4 * lane, 4);
        return (double) f;

    default:
        memcpy(&d, t + 32 * k + 2 * lane, 2);
        return (double) (type == MST_CPU_F16 ? mst_f16_to_f32(d)
                                             : mst_bf16_to_f32(d));
    }
}


/* random scales and minima of f16 in n places of 16 or 32 */

static inline void
kernels_halves(uint8_t *t, uint32_t n)
{
    uint16_t  h;
    uint32_t  i;

    for (i = 0; i < n; i++) {
        h = i == 3 ? 0x8003                    /* a subnormal */
                   : mst_f32_to_f16(kernels_float(0.1f));
        memcpy(t + 2 * i, &h, 2);
    }
}


/* random weights; fill: all bytes of quantised ones, -1 = random */

static inline void
kernels_tile(mst_cpu_type_t type, uint8_t *t, int fill)
{
    float     f;
    uint16_t  h;
    uint32_t  b, i, n;

    /* bytes of a block, of its scales behind the codes, of what stands before
       eight blocks */

    static const uint32_t  sizes[MST_CPU_TYPES][3] = {
        [MST_CPU_Q4_1] = { 320, 64, 0 }, [MST_CPU_Q4_0] = { 288, 32, 0 },
        [MST_CPU_Q8_0] = { 544, 32, 0 }, [MST_CPU_Q5_1] = { 384, 64, 0 },
        [MST_CPU_Q5_0] = { 352, 32, 0 }, [MST_CPU_Q4_K] = { 288, 32, 64 },
        [MST_CPU_Q5_K] = { 352, 32, 64 }, [MST_CPU_Q6_K] = { 416, 32, 32 }
    };

    n = type == MST_CPU_F32 ? 4 : 2;

    if (type >= MST_CPU_F32) {
        for (i = 0; i < 16 * KERNELS_WIDTH; i++) {
            f = kernels_float(2);
            h = type == MST_CPU_F16 ? mst_f32_to_f16(f) : mst_f32_to_bf16(f);
            memcpy(t + n * i, type == MST_CPU_F32 ? (void *) &f : &h, n);
        }

        return;
    }

    for (b = 0; b < KERNELS_BLOCKS; b++, t += sizes[type][0]) {

        if (b % 8 == 0) {
            kernels_halves(t, sizes[type][2] / 2);
            t += sizes[type][2];
        }

        for (i = 0; i < sizes[type][0]; i++) {
            t[i] = fill < 0 ? (uint8_t) (kernels_random() >> 7)
                            : (uint8_t) fill;
        }

        n = sizes[type][0] - sizes[type][1];

        if (sizes[type][2] == 0) {
            kernels_halves(t + n, sizes[type][1] / 2);
            continue;
        }

        for (i = n; i < sizes[type][0]; i++) { /* six bits but Q6_K's */
            t[i] = (uint8_t) (kernels_random() >> 7);
            t[i] &= type == MST_CPU_Q6_K ? 255 : 63;
        }
    }
}


typedef struct {
    float             x[8][KERNELS_WIDTH];
    int8_t            q[KERNELS_BLOCKS * 8 * 96];
    mst_cpu_scale_t   s[KERNELS_BLOCKS * 8];
    float             f[KERNELS_WIDTH * 8];
    mst_cpu_panel_t   panel;
} kernels_input_t;


/* extreme: every digit as large as can be, or very small or large numbers */

static inline void
kernels_input(const mst_cpu_isa_t *isa, kernels_input_t *in, uint32_t cols,
    int extreme)
{
    uint32_t  c, k;

    for (c = 0; c < cols; c++) {
        for (k = 0; k < KERNELS_WIDTH; k++) {
            in->x[c][k] = extreme == 1 ? (c + k / 32) % 2 ? -3.0f : 3.0f
                          : kernels_float(c + 1.0f)
                            * (extreme == 2 ? 1e-28f
                               : extreme == 3 ? 1e25f : 1.0f);
            in->f[k * cols + c] = in->x[c][k];
        }

        isa->digits(in->x[c], KERNELS_BLOCKS, kernels_digits,
                    in->q + 32 * kernels_digits * c, in->s + c, cols);
    }

    in->panel.q = in->q;
    in->panel.s = in->s;
    in->panel.f = in->f;
    in->panel.cols = cols;
    in->panel.width = KERNELS_WIDTH;
    in->panel.digits = kernels_digits;
}


static inline void
kernels_tile_check(mst_cpu_type_t type, uint32_t cols, int fill, int extreme)
{
    float             y[128], z[128];
    double            error, scale, want, w;
    uint8_t          *t;
    uint32_t          c, k, lane;
    kernels_input_t   in;

    t = aligned_alloc(64, 64 * KERNELS_WIDTH);
    kernels_tile(type, t, fill);
    kernels_input(kernels, &in, cols, extreme);
    kernels->tile[type](t, &in.panel, y);
    error = kernels_digits == 2 && type < MST_CPU_F32 ? 8e-5 : 2e-6;

    for (c = 0; c < cols; c++) {
        for (lane = 0; lane < 16; lane++) {
            for (scale = 0, want = 0, k = 0; k < KERNELS_WIDTH; k++) {
                w = kernels_weight(type, t, lane, k);
                want += w * (double) in.x[c][k];
                scale += fabs(w * (double) in.x[c][k]);
            }

            assert_true(fabs((double) y[16 * c + lane] - want)
                        <= error * scale + 1e-6);
        }
    }

    kernels_input(&mst_cpu_c, &in, cols, extreme ? extreme : -1);
    mst_cpu_c.tile[type](t, &in.panel, z);
    kernels->tile[type](t, &in.panel, y);
    assert_memory_equal(y, z, cols * 64);
    free(t);
}


static inline void
kernels_tile_test(void **state)
{
    int       n;
    uint32_t  cols, type;

    (void) state;

    print_message("%s, seed %llu\n", kernels->name,
                  (unsigned long long) kernels_seed);

    for (type = 0; type < MST_CPU_TYPES; type++) {
        for (cols = 1; cols <= 8; cols++) {
            for (n = 0; n < 4; n++) {
                kernels_tile_check(type, cols, -1, 0);
            }

            kernels_tile_check(type, cols, 0, 1);
            kernels_tile_check(type, cols, 255, 1);
            kernels_tile_check(type, cols, 0x80, 1);
            kernels_tile_check(type, cols, -1, 1);
            kernels_tile_check(type, cols, -1, 2);
            kernels_tile_check(type, cols, -1, 3);
        }
    }
}


static inline void
kernels_tile_two_test(void **state)
{
    kernels_digits = 2;
    kernels_tile_test(state);
    kernels_digits = 3;
}


/* digits of one input, in range, together */

static inline int
kernels_digits_value(const int8_t *d)
{
    int  q;

    if (kernels_digits == 2) {
        assert_true(d[0] >= -127 && d[32] >= -127);

        return 256 * d[0] + d[32];
    }

    q = 16384 * d[0] + 128 * d[32] + d[64];
    assert_true(abs(q) <= 2088000);
    assert_true(d[64] >= -64 && d[64] <= 63);
    assert_true(d[32] >= -64 && d[32] <= 63);

    return q;
}


static inline void
kernels_digits_check(const float *x)
{
    int               i, q, sum;
    float             top;
    int8_t            d[96], e[96];
    double            error;
    uint32_t          size;
    mst_cpu_scale_t   s, t;

    memset(d, 1, sizeof(d));
    size = 32 * kernels_digits;
    kernels->digits(x, 1, kernels_digits, d, &s, 1);
    mst_cpu_c.digits(x, 1, kernels_digits, e, &t, 1);
    assert_memory_equal(d, e, size);
    assert_int_equal(s.high, t.high);
    assert_int_equal(s.low, t.low);

    for (top = 0, i = 0; i < 32; i++) {
        if (!isfinite(x[i])) {
            assert_true(isnan(s.d) && isnan(s.s));
            assert_true(isnan(t.d) && isnan(t.s));

            for (i = 0; i < (int) size; i++) {
                assert_int_equal(d[i], 0);
            }

            return;
        }

        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    }

    assert_memory_equal(&s, &t, sizeof(s));

    /* of two, a low digit may be one higher than it should */

    error = kernels_digits == 2 ? (double) top / 32639 * 1.51
                                : (double) top / 2088000 * 0.75;

    for (sum = 0, i = 0; i < 32; i++) {
        q = kernels_digits_value(d + i);
        sum += q;
        assert_true(fabs((double) x[i] - (double) s.d * q) <= error + 1e-30);
    }

    assert_int_equal(sum, 128 * s.high + s.low);

    /* beyond the range of floats the sum may be infinite, and the row's
       outputs then are */

    assert_true(isinf(s.s) ? top > 1e37f
                           : fabsf(s.s - s.d * (float) sum)
                             <= 1e-6f * fabsf(s.s));
}


static inline void
kernels_digits_test(void **state)
{
    int    i, k;
    float  x[32];

    static const float  odd[] = {
        0, -0.0f, 1e-45f, 1e-38f, 9.9e-31f, 1.1e-30f, 3e38f, -3.4e38f,
        INFINITY, -INFINITY, NAN, -NAN, 1
    };

    (void) state;

    for (i = 0; i < 2000; i++) {
        for (k = 0; k < 32; k++) {
            x[k] = kernels_float(ldexpf(1, i % 100 - 50));
        }

        kernels_digits_check(x);
    }

    for (i = 0; i < (int) (sizeof(odd) / sizeof(*odd)); i++) {
        for (k = 0; k < 32; k++) {
            x[k] = odd[i];
        }

        kernels_digits_check(x);
        memset(x, 0, sizeof(x));
        x[i] = odd[i];
        x[31 - i] = 1;
        kernels_digits_check(x);
    }
}


static inline void
kernels_digits_two_test(void **state)
{
    int      k;
    float    x[32];
    int8_t   d[96];

    mst_cpu_scale_t  s;

    kernels_digits = 2;
    kernels_digits_test(state);

    /* a low digit of -128, and what it becomes */

    for (k = 0; k < 32; k++) {
        x[k] = (float) (256 * k - 128);
    }

    x[31] = 32639;
    kernels_digits_check(x);
    kernels->digits(x, 1, 2, d, &s, 1);
    assert_int_equal(d[32 + 1], -127);
    assert_int_equal(d[1], 1);

    kernels_digits = 3;
}


static inline void
kernels_norm_test(void **state)
{
    float     x[320] = { 0 }, w[320] = { 0 }, y[320], z[320];
    double    sum, want;
    uint32_t  i, n;

    (void) state;

    for (n = 1; n <= 300; n++) {
        memset(x, 0, sizeof(x));

        for (sum = 0, i = 0; i < n; i++) {
            x[i] = kernels_float(30);
            w[i] = kernels_float(2);
            sum += (double) x[i] * (double) x[i];
        }

        kernels->norm(x, w, n, 1e-5f, y);
        mst_cpu_c.norm(x, w, n, 1e-5f, z);
        assert_memory_equal(y, z, n * sizeof(float));

        for (i = 0; i < n; i++) {
            want = (double) x[i] / sqrt(sum / n + 1e-5) * (double) w[i];
            assert_true(fabs((double) y[i] - want) <= 1e-6 * fabs(want));
        }
    }
}


static inline void
kernels_silu_test(void **state)
{
    int     i, k;
    float   g[32], u[32], y[32], z[32];
    double  want;

    (void) state;

    for (i = 0; i < 4000; i++) {
        for (k = 0; k < 32; k++) {
            g[k] = kernels_float(i % 2 ? 4 : 120);
            u[k] = kernels_float(3);
        }

        kernels->silu(g, u, y, 32);
        mst_cpu_c.silu(g, u, z, 32);
        assert_memory_equal(y, z, sizeof(y));

        for (k = 0; k < 32; k++) {
            want = (double) g[k] / (1 + exp(-(double) g[k])) * (double) u[k];
            assert_true(fabs((double) y[k] - want)
                        <= 4e-7 * fabs(want) + 1e-35);
        }
    }

    g[0] = NAN;
    g[1] = INFINITY;
    g[2] = -INFINITY;
    kernels->silu(g, u, y, 16);
    assert_true(isnan(y[0]));
    assert_true(isinf(y[1]));
    assert_false(isnan(y[3]));
}


static inline void
kernels_rope_test(void **state)
{
    int    i, k;
    float  y[16], z[16], c[16], s[16], was[16];

    (void) state;

    for (i = 0; i < 100; i++) {
        for (k = 0; k < 16; k += 2) {
            was[k] = kernels_float(9);
            was[k + 1] = kernels_float(9);
            c[k] = c[k + 1] = cosf((float) (i * k));
            s[k + 1] = sinf((float) (i * k));
            s[k] = -s[k + 1];
        }

        memcpy(y, was, sizeof(y));
        memcpy(z, was, sizeof(z));
        kernels->rope(y, c, s, 0.25f);
        mst_cpu_c.rope(z, c, s, 0.25f);
        assert_memory_equal(y, z, sizeof(y));

        for (k = 0; k < 16; k++) {
            assert_true(fabsf(y[k] - 0.25f * (was[k] * c[k]
                                              + was[k ^ 1] * s[k])) < 2e-6f);
        }
    }
}


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


/* 16 numbers to how they are kept, at "at" of an array in steps of "step";
   the numbers become what is kept */

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


static inline int
kernels_run(const mst_cpu_isa_t *isa)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(kernels_tile_test),
        cmocka_unit_test(kernels_tile_two_test),
        cmocka_unit_test(kernels_digits_test),
        cmocka_unit_test(kernels_digits_two_test),
        cmocka_unit_test(kernels_norm_test),
        cmocka_unit_test(kernels_silu_test),
        cmocka_unit_test(kernels_rope_test),
        cmocka_unit_test(kernels_attn_test)
    };

    if (!isa->supported()) {
        print_message("this machine lacks %s\n", isa->name);
        return 0;
    }

    kernels = isa;

    return cmocka_run_group_tests(tests, NULL, NULL);
}


#endif /* MST_CPU_KERNELS_H */
