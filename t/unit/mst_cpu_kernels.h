
/*
 * The kernels of one instruction set: against double precision where they
 * compute, and bit by bit against portable C.  What works on a row stands
 * here: an activation's digits, norm, SiLU, rotation.
 */

#ifndef MST_CPU_KERNELS_H
#define MST_CPU_KERNELS_H

#include "mst_cpu_kernels_tile.h"
#include "mst_cpu_kernels_attn.h"


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
