
/*
 * Products of a tile of weights with up to eight columns, of each type, with
 * three digits of an activation and with two: against what the description in
 * mst_cpu_isa.h says in double precision, and bit by bit against portable C.
 */

#ifndef MST_CPU_KERNELS_TILE_H
#define MST_CPU_KERNELS_TILE_H

#include "mst_cpu_kernels_rig.h"

#define KERNELS_BLOCKS  11     /* more than a super-block */
#define KERNELS_WIDTH   (32 * KERNELS_BLOCKS)


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


#endif /* MST_CPU_KERNELS_TILE_H */
