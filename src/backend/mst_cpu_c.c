
/*
 * Kernels of the CPU backend in portable C: see mst_cpu_isa.h.  Slow and
 * plain: for machines without AVX2, and the yardstick of the others.
 */

#include <string.h>

#include "backend/mst_vec_c.h"
#include "backend/mst_cpu_kernel.h"
#include "backend/mst_cpu_kernel_attn.h"


static int
mst_cpu_c_supported(void)
{
    return 1;
}


/* The weights of a block as [row][input] of 16 bits, the digits as the two
   upper ones together and the low ones: products of 16 bits, which compilers
   know to add in pairs. */

mst_vec_fn void
mst_cpu_c_spread(const uint8_t *from, int16_t (*w)[MST_CPU_BLOCK], int first,
    int n, int shift, int mask)
{
    int  i, k, r;

    for (i = 0; i < n; i++) {
        for (r = 0; r < 16; r++) {
            for (k = 0; k < 4; k++) {
                w[r][first + 4 * i + k] = (int16_t) ((from[64 * i + 4 * r + k]
                                                      >> shift) & mask);
            }
        }
    }
}


mst_vec_fn int32_t
mst_cpu_c_row(const int16_t *w, const int16_t *x)
{
    int      k;
    int32_t  sum;

    for (sum = 0, k = 0; k < MST_CPU_BLOCK; k++) {
        sum += w[k] * x[k];
    }

    return sum;
}


/* sums of products with the upper digits (128 * high + middle) and with the
   low ones */

static void
mst_cpu_c_block(int16_t (*w)[MST_CPU_BLOCK], const int8_t *q, int32_t *high,
    int32_t *low)
{
    int      k, r;
    int16_t  x[2][MST_CPU_BLOCK];

    for (k = 0; k < MST_CPU_BLOCK; k++) {
        x[0][k] = (int16_t) (q[k] * 128 + q[32 + k]);
        x[1][k] = q[64 + k];
    }

    for (r = 0; r < 16; r++) {
        high[r] = mst_cpu_c_row(w[r], x[0]);
        low[r] = mst_cpu_c_row(w[r], x[1]);
    }
}


static void
mst_cpu_c_q4(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    int offset)
{
    int                     i;
    int16_t                 w[16][MST_CPU_BLOCK];
    uint32_t                b, c, n;
    mst_vec_t               d, m, o;
    mst_ivec_t              high, low;
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
        mst_cpu_c_spread(t, w, 0, 4, 0, 15);
        mst_cpu_c_spread(t, w, 16, 4, 4, 15);

        if (offset) {
            d = mst_vec_load_f16((const uint16_t *) (tile + 256 * (size_t) n)
                                 + 16 * b);
        } else {
            d = mst_vec_load_f16((const uint16_t *) (t + 256));
            m = mst_vec_load_f16((const uint16_t *) (t + 288));
        }

        for (c = 0; c < x->cols; c++, q += MST_CPU_DIGITS, s++) {
            mst_cpu_c_block(w, q, high.i, low.i);
            o = mst_vec_load(y + 16 * c);

            if (!offset) {
                o = mst_vec_fma(m, mst_vec_set(s->s), o);
            }

            for (i = 0; i < 16; i++) {
                high.i[i] = 128 * (high.i[i] - offset * s->high) + low.i[i]
                            - offset * s->low;
            }

            o = mst_vec_fma(mst_ivec_float(high),
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
    int16_t                 w[16][MST_CPU_BLOCK];
    uint32_t                b, c, n;
    mst_vec_t               d, f, o;
    mst_ivec_t              high, low;
    const int8_t           *q;
    const mst_cpu_scale_t  *s;

    n = x->width / MST_CPU_BLOCK;
    q = x->q;
    s = x->s;
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++) {
        mst_cpu_c_spread(tile + 512 * (size_t) b, w, 0, 8, 0, 255);
        d = mst_vec_load_f16((const uint16_t *) (tile + 512 * (size_t) n)
                             + 16 * b);

        for (c = 0; c < x->cols; c++, q += MST_CPU_DIGITS, s++) {
            mst_cpu_c_block(w, q, high.i, low.i);

            for (i = 0; i < 16; i++) {
                high.i[i] -= 128 * s->high;
                low.i[i] -= 128 * s->low;
            }

            f = mst_vec_fma(mst_ivec_float(high), mst_vec_set(128),
                            mst_ivec_float(low));
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
    .kv_f16 = mst_kernel_kv_f16,
    .kv_q8 = mst_kernel_kv_q8,
    .attend = mst_kernel_attend,
    .attend_end = mst_kernel_attend_end
};
