
/*
 * Kernels of the CPU backend in portable C: see mst_cpu_isa.h.  Slow and
 * plain: for machines without AVX2, and the yardstick of the others.
 */

#include <string.h>

#include "backend/mst_vec_c.h"
#include "backend/mst_cpu_kernel.h"


static int
mst_cpu_c_supported(void)
{
    return 1;
}


/* acc[16] += 16 rows of four inputs each * four digits */

mst_vec_fn void
mst_cpu_c_dot(const uint8_t *w, const int8_t *x, int32_t *acc)
{
    int  i;

    for (i = 0; i < 16; i++) {
        acc[i] += w[4 * i] * x[0] + w[4 * i + 1] * x[1]
                  + w[4 * i + 2] * x[2] + w[4 * i + 3] * x[3];
    }
}


mst_vec_fn void
mst_cpu_c_nibbles(const uint8_t *t, uint8_t *w)
{
    int  i;

    for (i = 0; i < 256; i++) {
        w[i] = t[i] & 15;
        w[256 + i] = t[i] >> 4;
    }
}


static void
mst_cpu_c_q4(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    int offset)
{
    int                     i, p;
    uint8_t                 w[512];
    int32_t                 acc[16];
    uint32_t                b, c, n;
    mst_vec_t               d, m, o;
    const int8_t           *q;
    const uint8_t          *t;
    const mst_cpu_scale_t  *s;

    n = x->width / MST_CPU_BLOCK;
    q = x->q;
    s = x->s;
    m = mst_vec_set(0);
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++) {
        t = tile + (size_t) b * (offset ? 256 : MST_CPU_Q4_1_SIZE);
        mst_cpu_c_nibbles(t, w);

        if (offset) {
            d = mst_vec_load_f16((const uint16_t *) (tile + 256 * (size_t) n)
                                 + 16 * b);
        } else {
            d = mst_vec_load_f16((const uint16_t *) (t + 256));
            m = mst_vec_load_f16((const uint16_t *) (t + 288));
        }

        for (c = 0; c < x->cols; c++, q += MST_CPU_DIGITS, s++) {
            memset(acc, 0, sizeof(acc));

            for (p = 0; p < 3; p++) {
                for (i = 0; i < 16; i++) {
                    acc[i] *= 128;
                }

                for (i = 0; i < 8; i++) {
                    mst_cpu_c_dot(w + 64 * i, q + 32 * p + 4 * i, acc);
                }
            }

            o = mst_vec_load(y + 16 * c);

            if (offset) {
                for (i = 0; i < 16; i++) {
                    acc[i] -= offset * (128 * s->high + s->low);
                }

            } else {
                o = mst_vec_fma(m, mst_vec_set(s->s), o);
            }

            o = mst_vec_fma(mst_ivec_float(*(mst_ivec_t *) acc),
                            mst_vec_mul(d, mst_vec_set(s->d)), o);
            mst_vec_store(y + 16 * c, o);
        }
    }
}


static void
mst_cpu_c_q4_1(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_q4(tile, x, y, 0);
}


static void
mst_cpu_c_q4_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_q4(tile, x, y, 8);
}


static void
mst_cpu_c_q8_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    int                     i;
    int32_t                 high[16], low[16];
    uint32_t                b, c, n;
    mst_vec_t               d, f, o;
    const int8_t           *q;
    const uint8_t          *w;
    const mst_cpu_scale_t  *s;

    n = x->width / MST_CPU_BLOCK;
    q = x->q;
    s = x->s;
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++) {
        w = tile + 512 * (size_t) b;
        d = mst_vec_load_f16((const uint16_t *) (tile + 512 * (size_t) n)
                             + 16 * b);

        for (c = 0; c < x->cols; c++, q += MST_CPU_DIGITS, s++) {
            memset(high, 0, sizeof(high));

            for (i = 0; i < 8; i++) {
                mst_cpu_c_dot(w + 64 * i, q + 4 * i, high);
            }

            for (i = 0; i < 16; i++) {
                high[i] = 128 * (high[i] - s->high);
                low[i] = -128 * s->low;
            }

            for (i = 0; i < 8; i++) {
                mst_cpu_c_dot(w + 64 * i, q + 32 + 4 * i, high);
                mst_cpu_c_dot(w + 64 * i, q + 64 + 4 * i, low);
            }

            f = mst_vec_fma(mst_ivec_float(*(mst_ivec_t *) high),
                            mst_vec_set(128),
                            mst_ivec_float(*(mst_ivec_t *) low));
            o = mst_vec_load(y + 16 * c);
            o = mst_vec_fma(f, mst_vec_mul(d, mst_vec_set(s->d)), o);
            mst_vec_store(y + 16 * c, o);
        }
    }
}


const mst_cpu_isa_t  mst_cpu_c = {
    .name = "c",
    .supported = mst_cpu_c_supported,
    .tile = {
        [MST_CPU_Q4_1] = mst_cpu_c_q4_1,
        [MST_CPU_Q4_0] = mst_cpu_c_q4_0,
        [MST_CPU_Q8_0] = mst_cpu_c_q8_0,
        [MST_CPU_F32] = mst_kernel_f32,
        [MST_CPU_F16] = mst_kernel_f16,
        [MST_CPU_BF16] = mst_kernel_bf16
    },
    .norm = mst_kernel_norm,
    .digits = mst_kernel_digits,
    .rope = mst_kernel_rope,
    .silu = mst_kernel_silu,
    .attend = mst_kernel_attend,
    .attend_end = mst_kernel_attend_end
};
