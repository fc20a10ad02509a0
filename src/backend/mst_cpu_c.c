
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
   upper ones together and the low ones of three: products of 16 bits, which
   compilers know to add in pairs. */

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


/* the bits above the nibbles: of the inputs from first on, n of 4 each, "bits"
   for each four in a byte */

static void
mst_cpu_c_above(const uint8_t *from, int16_t (*w)[MST_CPU_BLOCK], int first,
    int n, int bits)
{
    int  i, k, r;

    for (i = 0; i < n; i++) {
        for (r = 0; r < 16; r++) {
            for (k = 0; k < 4; k++) {
                w[r][first + 4 * i + k] |= (int16_t) (
                    (from[4 * r + k] >> (bits * i) & ((1 << bits) - 1)) << 4);
            }
        }
    }
}


/* a half of the inputs, first = 0 or 16 */

mst_vec_fn int32_t
mst_cpu_c_row(const int16_t *w, const int16_t *x, int first)
{
    int      k;
    int32_t  sum;

    for (sum = 0, k = 0; k < MST_CPU_BLOCK / 2; k++) {
        sum += w[first + k] * x[first + k];
    }

    return sum;
}


/* three digits of a block as [two upper ones, low one][input], two in the
   second place */

static void
mst_cpu_c_digits(const int8_t *q, uint32_t digits,
    int16_t (*x)[MST_CPU_BLOCK])
{
    int  k;

    for (k = 0; k < MST_CPU_BLOCK; k++) {

        if (digits == 2) {
            x[1][k] = (int16_t) (q[k] * 256 + q[32 + k]);

        } else {
            x[0][k] = (int16_t) (q[k] * 128 + q[32 + k]);
            x[1][k] = q[64 + k];
        }
    }
}


/* sums of products with the upper digits (128 * high + middle) and with the
   low ones; of two digits with both in low */

static void
mst_cpu_c_block(int16_t (*w)[MST_CPU_BLOCK], const int8_t *q, uint32_t digits,
    int32_t *high, int32_t *low)
{
    int      r;
    int16_t  x[2][MST_CPU_BLOCK];

    mst_cpu_c_digits(q, digits, x);

    for (r = 0; r < 16; r++) {
        high[r] = digits == 2 ? 0 : mst_cpu_c_row(w[r], x[0], 0)
                                    + mst_cpu_c_row(w[r], x[0], 16);
        low[r] = mst_cpu_c_row(w[r], x[1], 0) + mst_cpu_c_row(w[r], x[1], 16);
    }
}


static void
mst_cpu_c_q45(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    mst_cpu_type_t type)
{
    int                     i, offset;
    int16_t                 w[16][MST_CPU_BLOCK];
    uint32_t                b, c, n, step;
    mst_vec_t               d, m, o;
    mst_ivec_t              high, low;
    const int8_t           *q;
    mst_kernel_super_t      super;
    const mst_cpu_scale_t  *s;

    n = x->width / MST_CPU_BLOCK;
    step = MST_CPU_BLOCK * x->digits;
    super = mst_kernel_super_none();
    q = x->q;
    s = x->s;
    offset = mst_kernel_offset(type);
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++, tile += mst_kernel_block(type)) {
        tile = mst_kernel_super(tile, b, type, &super);
        mst_cpu_c_spread(tile, w, 0, 4, 0, 15);
        mst_cpu_c_spread(tile, w, 16, 4, 4, 15);

        if (mst_kernel_is_five(type)) {
            mst_cpu_c_above(tile + 256, w, 0, 8, 1);
        }

        mst_kernel_scales(tile, &super, type, &d, &m);

        for (c = 0; c < x->cols; c++, q += step, s++) {
            mst_cpu_c_block(w, q, x->digits, high.i, low.i);
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
    mst_cpu_c_q45(tile, x, y, MST_CPU_Q4_1);
}


static void
mst_cpu_c_q4_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_q45(tile, x, y, MST_CPU_Q4_0);
}


static void
mst_cpu_c_q5_1(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_q45(tile, x, y, MST_CPU_Q5_1);
}


static void
mst_cpu_c_q5_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_q45(tile, x, y, MST_CPU_Q5_0);
}


static void
mst_cpu_c_q4_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_q45(tile, x, y, MST_CPU_Q4_K);
}


static void
mst_cpu_c_q5_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_q45(tile, x, y, MST_CPU_Q5_K);
}


/* 16 inputs of a block of Q6_K and one column into o */

static mst_vec_t
mst_cpu_c_q6_half(int16_t (*w)[MST_CPU_BLOCK], int16_t (*x)[MST_CPU_BLOCK],
    int first, mst_vec_t scale, mst_vec_t o)
{
    int         i, k;
    int32_t     sum;
    mst_ivec_t  acc;

    for (sum = 0, k = first; k < first + 16; k++) {
        sum += 128 * x[0][k] + x[1][k];
    }

    for (i = 0; i < 16; i++) {
        acc.i[i] = 128 * mst_cpu_c_row(w[i], x[0], first)
                   + mst_cpu_c_row(w[i], x[1], first) - 32 * sum;
    }

    return mst_vec_fma(mst_ivec_float(acc), scale, o);
}


static void
mst_cpu_c_q6_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    int                     h;
    int16_t                 w[16][MST_CPU_BLOCK], v[2][MST_CPU_BLOCK];
    uint32_t                b, c, n, step;
    mst_vec_t               d[2], o;
    const int8_t           *q;
    mst_kernel_super_t      super;
    const mst_cpu_scale_t  *s;

    n = x->width / MST_CPU_BLOCK;
    step = MST_CPU_BLOCK * x->digits;
    super = mst_kernel_super_none();
    q = x->q;
    s = x->s;
    memset(y, 0, x->cols * 16 * sizeof(float));
    memset(v, 0, sizeof(v));

    for (b = 0; b < n; b++, tile += MST_CPU_Q6_K_SIZE) {
        tile = mst_kernel_super(tile, b, MST_CPU_Q6_K, &super);
        mst_cpu_c_spread(tile, w, 0, 4, 0, 15);
        mst_cpu_c_spread(tile, w, 16, 4, 4, 15);
        mst_cpu_c_above(tile + 256, w, 0, 4, 2);
        mst_cpu_c_above(tile + 320, w, 16, 4, 2);

        for (h = 0; h < 2; h++) {
            d[h] = mst_vec_mul(super.d,
                               mst_vec_load_i8((const int8_t *) tile + 384
                                               + 16 * h));
        }

        for (c = 0; c < x->cols; c++, q += step, s++) {
            o = mst_vec_load(y + 16 * c);
            mst_cpu_c_digits(q, x->digits, v);

            for (h = 0; h < 2; h++) {
                o = mst_cpu_c_q6_half(w, v, 16 * h,
                                      mst_vec_mul(d[h], mst_vec_set(s->d)),
                                      o);
            }

            mst_vec_store(y + 16 * c, o);
        }
    }
}


static void
mst_cpu_c_q8_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    int                     i;
    int16_t                 w[16][MST_CPU_BLOCK];
    uint32_t                b, c, n, step;
    mst_vec_t               d, f, o;
    mst_ivec_t              high, low;
    const int8_t           *q;
    const mst_cpu_scale_t  *s;

    n = x->width / MST_CPU_BLOCK;
    step = MST_CPU_BLOCK * x->digits;
    q = x->q;
    s = x->s;
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++) {
        mst_cpu_c_spread(tile, w, 0, 8, 0, 255);
        d = mst_vec_load_f16((const uint16_t *) (tile + 512));
        tile += MST_CPU_Q8_0_SIZE;

        for (c = 0; c < x->cols; c++, q += step, s++) {
            mst_cpu_c_block(w, q, x->digits, high.i, low.i);

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
        [MST_CPU_Q5_1] = mst_cpu_c_q5_1,
        [MST_CPU_Q5_0] = mst_cpu_c_q5_0,
        [MST_CPU_Q4_K] = mst_cpu_c_q4_k,
        [MST_CPU_Q5_K] = mst_cpu_c_q5_k,
        [MST_CPU_Q6_K] = mst_cpu_c_q6_k,
        [MST_CPU_F32] = mst_kernel_f32,
        [MST_CPU_F16] = mst_kernel_f16,
        [MST_CPU_BF16] = mst_kernel_bf16
    },
    .peak = mst_kernel_peak,
    .norm = mst_kernel_norm,
    .digits = mst_kernel_digits,
    .rope = mst_kernel_rope,
    .silu = mst_kernel_silu,
    .kv_f16 = mst_kernel_kv_f16,
    .kv_q8 = mst_kernel_kv_q8,
    .attend = mst_kernel_attend,
    .attend_end = mst_kernel_attend_end
};
