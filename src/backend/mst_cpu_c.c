
/*
 * Kernels of the CPU backend in portable C: see mst_cpu_isa.h.  For machines
 * without AVX2, and the yardstick of the others.
 *
 * Weights are widened to 16 bits once for all columns of a panel.  A word of a
 * tile holds inputs 0 and 1, or 2 and 3, of a lane, and shifts part what is in
 * its bytes: so that 32 bits have inputs 0 and 2 of one row, or 1 and 3, and a
 * sum of two products is that row's.  Digits are parted likewise.  Machines
 * have their lowest byte first.
 */

#include <string.h>

/* else gcc computes many products before it adds the first one, and has no
   registers for them: a quarter slower */

#if !defined(__clang__)
#pragma GCC optimize ("no-tree-ter")
#endif

#include "backend/mst_vec_c.h"
#include "backend/mst_cpu_kernel.h"
#include "backend/mst_cpu_c_attn.h"

#define MST_CPU_C_FOURS  8         /* of inputs in a block */


/* a block's weights: [four inputs][0 and 2, 1 and 3][four rows] */
typedef mst_ivec8_t  mst_cpu_c_weights_t[MST_CPU_C_FOURS][2][4];

/* half a block's digits: [two upper ones or both, low one][0 and 2, 1 and 3 of
   four fours] */
typedef mst_ivec8_t  mst_cpu_c_digits_t[2][2];


static int
mst_cpu_c_supported(void)
{
    return 1;
}


mst_vec_fn mst_uvec8_t
mst_cpu_c_words(const void *p)
{
    mst_uvec8_t  v;

    memcpy(&v, p, sizeof(v));

    return v;
}


/* less what a code of "offset" stands for */

mst_vec_fn void
mst_cpu_c_nibbles(const uint8_t *t, mst_cpu_c_weights_t w, const int offset)
{
    mst_uvec8_t  v;

    for (int i = 0; i < 4; i++) {
        mst_unroll
        for (int r = 0; r < 4; r++) {
            v = mst_cpu_c_words(t + 64 * i + 16 * r);
            w[i][0][r] = (mst_ivec8_t) (v & 15) - (int16_t) offset;
            w[i][1][r] = (mst_ivec8_t) (v >> 8 & 15) - (int16_t) offset;
            w[4 + i][0][r] = (mst_ivec8_t) (v >> 4 & 15) - (int16_t) offset;
            w[4 + i][1][r] = (mst_ivec8_t) (v >> 12) - (int16_t) offset;
        }
    }
}


/* "bits" of each input stand above the nibbles, of n fours from i on */

mst_vec_fn void
mst_cpu_c_above(const uint8_t *t, mst_cpu_c_weights_t w, int i, const int n,
    const int bits)
{
    int          mask;
    mst_uvec8_t  v;

    mask = (1 << bits) - 1;

    for (int k = 0; k < n; k++) {
        mst_unroll
        for (int r = 0; r < 4; r++) {
            v = mst_cpu_c_words(t + 16 * r) >> (uint16_t) (bits * k);
            w[i + k][0][r] += (mst_ivec8_t) ((v & (uint16_t) mask) << 4);
            w[i + k][1][r] += (mst_ivec8_t) ((v >> 8 & (uint16_t) mask) << 4);
        }
    }
}


mst_vec_fn void
mst_cpu_c_bytes(const uint8_t *t, mst_cpu_c_weights_t w)
{
    mst_uvec8_t  v;

    for (int i = 0; i < MST_CPU_C_FOURS; i++) {
        mst_unroll
        for (int r = 0; r < 4; r++) {
            v = mst_cpu_c_words(t + 64 * i + 16 * r);
            w[i][0][r] = (mst_ivec8_t) (v & 255) - 128;
            w[i][1][r] = (mst_ivec8_t) (v >> 8) - 128;
        }
    }
}


/* 16 digits, added to "times" what is there */

mst_vec_fn void
mst_cpu_c_widen(const int8_t *q, mst_ivec8_t *v, const int times)
{
    mst_ivec8_t  w;

    w = (mst_ivec8_t) mst_cpu_c_words(q);
    v[0] = v[0] * (int16_t) times + ((mst_ivec8_t) ((mst_uvec8_t) w << 8) >> 8);
    v[1] = v[1] * (int16_t) times + (w >> 8);
}


mst_vec_fn void
mst_cpu_c_digits(const int8_t *q, mst_cpu_c_digits_t x, const int digits)
{
    memset(x, 0, sizeof(mst_cpu_c_digits_t));
    mst_cpu_c_widen(q, x[0], 0);

    if (digits > 1) {
        mst_cpu_c_widen(q + 32, x[0], 1 << mst_kernel_shift(digits));
    }

    if (digits == 3) {
        mst_cpu_c_widen(q + 64, x[1], 0);
    }
}


/* sum += products of two inputs each of 16 rows */

mst_vec_fn void
mst_cpu_c_pairs(const mst_ivec8_t *w, mst_ivec8_t x, mst_ivec_t *sum)
{
    mst_vec_all sum->i[i_] += mst_ivec_pairs(w[i_], x);
}


/* products of one four, its number in x as a constant */

mst_vec_fn void
mst_cpu_c_four(mst_cpu_c_weights_t w, int i, mst_cpu_c_digits_t x, const int k,
    mst_ivec_t *sum, const int digits)
{
    mst_unroll
    for (int o = 0; o < 2; o++) {
        mst_cpu_c_pairs(w[i + k][o], mst_ivec_pair(x[0][o], k), &sum[0]);

        if (digits == 3) {
            mst_cpu_c_pairs(w[i + k][o], mst_ivec_pair(x[1][o], k), &sum[1]);
        }
    }
}


/* products of half a block with the upper digits and the low ones */

mst_vec_fn void
mst_cpu_c_half(mst_cpu_c_weights_t w, const int8_t *q, int h, mst_ivec_t *sum,
    const int digits)
{
    mst_cpu_c_digits_t  x;

    mst_cpu_c_digits(q + 16 * h, x, digits);
    mst_cpu_c_four(w, 4 * h, x, 0, sum, digits);
    mst_cpu_c_four(w, 4 * h, x, 1, sum, digits);
    mst_cpu_c_four(w, 4 * h, x, 2, sum, digits);
    mst_cpu_c_four(w, 4 * h, x, 3, sum, digits);
}


/* with all digits, of 22 bits, where weights have 6 at most */

mst_vec_fn mst_vec_t
mst_cpu_c_sum(mst_cpu_c_weights_t w, const int8_t *q, int h, const int n,
    const int digits)
{
    mst_ivec_t  sum[2];

    sum[0] = mst_ivec_set(0);
    sum[1] = sum[0];

    for (int i = h; i < h + n; i++) {
        mst_cpu_c_half(w, q, i, sum, digits);
    }

    if (digits == 3) {
        sum[0] = mst_ivec_add(mst_ivec_left(sum[0], 7), sum[1]);
    }

    return mst_ivec_float(sum[0]);
}


mst_vec_fn void
mst_cpu_c_begin(mst_sum_t *o)
{
    for (int c = 0; c < MST_CPU_COLS; c++) {
        o[c] = mst_sum_from(mst_vec_set(0));
    }
}


mst_vec_fn void
mst_cpu_c_end(const mst_sum_t *o, const mst_cpu_panel_t *x, float *y)
{
    for (uint32_t c = 0; c < x->cols; c++) {
        mst_vec_store(y + 16 * c, mst_sum_vec(o[c]));
    }
}


/* what a block adds, with care */

mst_vec_out void
mst_cpu_c_add_exact(mst_sum_t *o, mst_vec_t f, mst_vec_t d,
    const mst_cpu_scale_t *s)
{
    d = mst_vec_mul(d, mst_vec_set(s->d));
    *o = mst_sum_fma_exact(mst_sum_from(f), mst_sum_from(d), *o);
}


/* Codes are integers below 2^34: scales below this bound make sums that are not
   too large, and products that are multiples of the smallest float. */

mst_vec_fn void
mst_cpu_c_add(mst_sum_t *o, mst_vec_t f, mst_vec_t d,
    const mst_cpu_scale_t *s)
{
    mst_sum_t    y;
    mst_vec_t    ds;
    mst_doubt_t  doubt;

    y = *o;
    doubt = mst_doubt_none();
    ds = mst_vec_mul(d, mst_vec_set(s->d));

    y = mst_sum_fma(mst_sum_from(f), mst_sum_from(ds), y, &doubt);

    if (__builtin_expect(mst_doubt_any(doubt) || !(s->d < 0x1p50f), 0))
    {
        mst_cpu_c_add_exact(o, f, d, s);
        return;
    }

    *o = y;
}


mst_vec_fn void
mst_cpu_c_q45(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const mst_cpu_type_t type, const int digits)
{
    uint32_t                b, c, n;
    mst_vec_t               d, f, m, o;
    const int8_t           *q;
    mst_kernel_super_t      super;
    mst_cpu_c_weights_t     w;
    const mst_cpu_scale_t  *s;

    n = x->width / MST_CPU_BLOCK;
    super = mst_kernel_super_none();
    q = x->q;
    s = x->s;
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++, tile += mst_kernel_block(type)) {
        tile = mst_kernel_super(tile, b, type, &super);
        mst_cpu_c_nibbles(tile, w, mst_kernel_offset(type));

        if (mst_kernel_is_five(type)) {
            mst_cpu_c_above(tile + 256, w, 0, 8, 1);
        }

        mst_kernel_scales(tile, &super, type, &d, &m);

        for (c = 0; c < x->cols; c++, q += MST_CPU_BLOCK * digits, s++) {
            f = mst_cpu_c_sum(w, q, 0, 2, digits);

            o = mst_vec_load(y + 16 * c);

            if (!mst_kernel_offset(type)) {
                o = mst_vec_add(o, mst_vec_mul(m, mst_vec_set(s->s)));
            }

            f = mst_vec_mul(f, mst_vec_mul(d, mst_vec_set(s->d)));
            mst_vec_store(y + 16 * c, mst_vec_add(o, f));
        }
    }
}


mst_vec_fn void
mst_cpu_c_q6(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const mst_cpu_type_t type, const int digits)
{
    uint32_t                b, c, n;
    mst_sum_t               o[MST_CPU_COLS];
    mst_vec_t               d[2], f;
    const int8_t           *q;
    mst_kernel_super_t      super;
    mst_cpu_c_weights_t     w;
    const mst_cpu_scale_t  *s;

    n = x->width / MST_CPU_BLOCK;
    super = mst_kernel_super_none();
    q = x->q;
    s = x->s;
    mst_cpu_c_begin(o);

    for (b = 0; b < n; b++, tile += MST_CPU_Q6_K_SIZE) {
        tile = mst_kernel_super(tile, b, type, &super);
        mst_cpu_c_nibbles(tile, w, 32);
        mst_cpu_c_above(tile + 256, w, 0, 4, 2);
        mst_cpu_c_above(tile + 320, w, 4, 4, 2);

        for (int h = 0; h < 2; h++) {
            d[h] = mst_vec_mul(super.d,
                               mst_vec_load_i8((const int8_t *) tile + 384
                                               + 16 * h));
        }

        for (c = 0; c < x->cols; c++, q += MST_CPU_BLOCK * digits, s++) {
            for (int h = 0; h < 2; h++) {
                f = mst_cpu_c_sum(w, q, h, 1, digits);
                mst_cpu_c_add(&o[c], f, d[h], s);
            }
        }
    }

    mst_cpu_c_end(o, x, y);
}


mst_vec_fn void
mst_cpu_c_q8(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const mst_cpu_type_t type, const int digits)
{
    uint32_t                b, c, n;
    mst_sum_t               o[MST_CPU_COLS];
    mst_vec_t               d, f;
    mst_ivec_t              sum[2];
    const int8_t           *q;
    mst_cpu_c_weights_t     w;
    const mst_cpu_scale_t  *s;

    (void) type;

    n = x->width / MST_CPU_BLOCK;
    q = x->q;
    s = x->s;
    mst_cpu_c_begin(o);

    for (b = 0; b < n; b++, tile += MST_CPU_Q8_0_SIZE) {
        mst_cpu_c_bytes(tile, w);
        d = mst_vec_load_f16((const uint16_t *) (tile + 512));

        for (c = 0; c < x->cols; c++, q += MST_CPU_BLOCK * digits, s++) {
            sum[0] = mst_ivec_set(0);
            sum[1] = sum[0];

            for (int h = 0; h < 2; h++) {
                mst_cpu_c_half(w, q, h, sum, digits);
            }

            f = mst_ivec_float(sum[0]);

            /* 128 times a float is exact: as a fused multiply-add would be */

            if (digits == 3) {
                f = mst_vec_add(mst_vec_mul(f, mst_vec_set(128)),
                                mst_ivec_float(sum[1]));
            }

            mst_cpu_c_add(&o[c], f, d, s);
        }
    }

    mst_cpu_c_end(o, x, y);
}


/* fn(tile, x, y, type, digits) with the digits as a constant */

#define mst_cpu_c_tile(fn, type)                                              \
    if (x->digits == 2) {                                                     \
        fn(tile, x, y, type, 2);                                              \
                                                                              \
    } else {                                                                  \
        fn(tile, x, y, type, 3);                                              \
    }


static void
mst_cpu_c_q4_1(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_tile(mst_cpu_c_q45, MST_CPU_Q4_1);
}


static void
mst_cpu_c_q4_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_tile(mst_cpu_c_q45, MST_CPU_Q4_0);
}


static void
mst_cpu_c_q5_1(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_tile(mst_cpu_c_q45, MST_CPU_Q5_1);
}


static void
mst_cpu_c_q5_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_tile(mst_cpu_c_q45, MST_CPU_Q5_0);
}


static void
mst_cpu_c_coarse(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_q45(tile, x, y, MST_CPU_Q5_0, 1);
}


static void
mst_cpu_c_q4_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_tile(mst_cpu_c_q45, MST_CPU_Q4_K);
}


static void
mst_cpu_c_q5_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_tile(mst_cpu_c_q45, MST_CPU_Q5_K);
}


static void
mst_cpu_c_q6_k(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_tile(mst_cpu_c_q6, MST_CPU_Q6_K);
}


static void
mst_cpu_c_q8_0(const uint8_t *tile, const mst_cpu_panel_t *x, float *y)
{
    mst_cpu_c_tile(mst_cpu_c_q8, MST_CPU_Q8_0);
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
    .coarse = mst_cpu_c_coarse,
    .bound = mst_kernel_bound,
    .peak = mst_kernel_peak,
    .norm = mst_kernel_norm,
    .digits = mst_kernel_digits,
    .rope = mst_kernel_rope,
    .silu = mst_kernel_silu,
    .kv_f16 = mst_kernel_kv_f16,
    .kv_q8 = mst_kernel_kv_q8,
    .attend = mst_cpu_c_attend,
    .attend_end = mst_kernel_attend_end
};
