
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

#include "backend/mst_vec_c.h"
#include "backend/mst_cpu_kernel.h"
#include "backend/mst_cpu_kernel_attn.h"

#define MST_CPU_C_FOURS  8         /* of inputs in a block */


/* a block's weights: [four inputs][0 and 2, 1 and 3][four rows] */
typedef mst_ivec8_t  mst_cpu_c_weights_t[MST_CPU_C_FOURS][2][4];

/* a block's digits in pairs: [two upper ones or both, low one][four inputs][0
   and 2, 1 and 3] */
typedef int32_t  mst_cpu_c_digits_t[2][MST_CPU_C_FOURS][2];


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


/* pairs of 16 digits into four fours, all times "times" and what is there */

mst_vec_fn void
mst_cpu_c_widen(const int8_t *q, mst_ivec8_t *even, mst_ivec8_t *odd,
    const int times)
{
    mst_ivec8_t  v;

    v = (mst_ivec8_t) mst_cpu_c_words(q);
    *even = *even * (int16_t) times
            + ((mst_ivec8_t) ((mst_uvec8_t) v << 8) >> 8);
    *odd = *odd * (int16_t) times + (v >> 8);
}


mst_vec_fn void
mst_cpu_c_pairs(mst_ivec8_t even, mst_ivec8_t odd, int32_t (*x)[2])
{
    for (int i = 0; i < 4; i++) {
        x[i][0] = ((mst_ivec4_t) even)[i];
        x[i][1] = ((mst_ivec4_t) odd)[i];
    }
}


mst_vec_fn void
mst_cpu_c_digits(const int8_t *q, mst_cpu_c_digits_t x, const int digits)
{
    mst_ivec8_t  even, odd;

    mst_unroll
    for (int h = 0; h < 2; h++) {
        even = (mst_ivec8_t) mst_ivec_set4(0);
        odd = even;
        mst_cpu_c_widen(q + 16 * h, &even, &odd, 0);

        if (digits > 1) {
            mst_cpu_c_widen(q + 32 + 16 * h, &even, &odd,
                            1 << mst_kernel_shift(digits));
        }

        mst_cpu_c_pairs(even, odd, x[0] + 4 * h);

        if (digits == 3) {
            mst_cpu_c_widen(q + 64 + 16 * h, &even, &odd, 0);
            mst_cpu_c_pairs(even, odd, x[1] + 4 * h);
        }
    }
}


/* products with the upper digits or the low ones: n fours from i on */

mst_vec_fn mst_ivec_t
mst_cpu_c_plane(mst_cpu_c_weights_t w, int32_t (*x)[2], int i, const int n)
{
    mst_ivec_t   sum;
    mst_ivec8_t  v;

    sum = mst_ivec_set(0);

    for (int k = i; k < i + n; k++) {
        mst_unroll
        for (int o = 0; o < 2; o++) {
            v = (mst_ivec8_t) mst_ivec_set4(x[k][o]);

            mst_vec_all sum.i[i_] += mst_ivec_pairs(w[k][o][i_], v);
        }
    }

    return sum;
}


/* with all digits, of 22 bits, where weights have 6 at most */

mst_vec_fn mst_vec_t
mst_cpu_c_sum(mst_cpu_c_weights_t w, mst_cpu_c_digits_t x, int i, const int n,
    const int digits)
{
    mst_ivec_t  sum;

    sum = mst_cpu_c_plane(w, x[0], i, n);

    if (digits == 3) {
        sum = mst_ivec_add(mst_ivec_left(sum, 7),
                           mst_cpu_c_plane(w, x[1], i, n));
    }

    return mst_ivec_float(sum);
}


mst_vec_fn void
mst_cpu_c_q45(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const mst_cpu_type_t type, const int digits)
{
    uint32_t                b, c, n;
    mst_vec_t               d, m, o;
    const int8_t           *q;
    mst_kernel_super_t      super;
    mst_cpu_c_digits_t      v;
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
            mst_cpu_c_digits(q, v, digits);
            o = mst_vec_load(y + 16 * c);

            if (!mst_kernel_offset(type)) {
                o = mst_vec_fma(m, mst_vec_set(s->s), o);
            }

            o = mst_vec_fma(mst_cpu_c_sum(w, v, 0, 8, digits),
                            mst_vec_mul(d, mst_vec_set(s->d)), o);
            mst_vec_store(y + 16 * c, o);
        }
    }
}


mst_vec_fn void
mst_cpu_c_q6(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const mst_cpu_type_t type, const int digits)
{
    uint32_t                b, c, n;
    mst_vec_t               d[2], o;
    const int8_t           *q;
    mst_kernel_super_t      super;
    mst_cpu_c_digits_t      v;
    mst_cpu_c_weights_t     w;
    const mst_cpu_scale_t  *s;

    n = x->width / MST_CPU_BLOCK;
    super = mst_kernel_super_none();
    q = x->q;
    s = x->s;
    memset(y, 0, x->cols * 16 * sizeof(float));

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
            o = mst_vec_load(y + 16 * c);
            mst_cpu_c_digits(q, v, digits);

            for (int h = 0; h < 2; h++) {
                o = mst_vec_fma(mst_cpu_c_sum(w, v, 4 * h, 4, digits),
                                mst_vec_mul(d[h], mst_vec_set(s->d)), o);
            }

            mst_vec_store(y + 16 * c, o);
        }
    }
}


mst_vec_fn void
mst_cpu_c_q8(const uint8_t *tile, const mst_cpu_panel_t *x, float *y,
    const mst_cpu_type_t type, const int digits)
{
    uint32_t                b, c, n;
    mst_vec_t               d, f, o;
    const int8_t           *q;
    mst_cpu_c_digits_t      v;
    mst_cpu_c_weights_t     w;
    const mst_cpu_scale_t  *s;

    (void) type;

    n = x->width / MST_CPU_BLOCK;
    q = x->q;
    s = x->s;
    memset(y, 0, x->cols * 16 * sizeof(float));

    for (b = 0; b < n; b++, tile += MST_CPU_Q8_0_SIZE) {
        mst_cpu_c_bytes(tile, w);
        d = mst_vec_load_f16((const uint16_t *) (tile + 512));

        for (c = 0; c < x->cols; c++, q += MST_CPU_BLOCK * digits, s++) {
            mst_cpu_c_digits(q, v, digits);
            f = mst_ivec_float(mst_cpu_c_plane(w, v[0], 0, 8));

            if (digits == 3) {
                f = mst_vec_fma(f, mst_vec_set(128),
                                mst_ivec_float(mst_cpu_c_plane(w, v[1], 0,
                                                               8)));
            }

            o = mst_vec_load(y + 16 * c);
            o = mst_vec_fma(f, mst_vec_mul(d, mst_vec_set(s->d)), o);
            mst_vec_store(y + 16 * c, o);
        }
    }
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
    .attend = mst_kernel_attend,
    .attend_end = mst_kernel_attend_end
};
