
#include <math.h>

#include "mst_gguf_build.h"
#include "file/mst_quant.h"


static uint32_t
bits(float f)
{
    uint32_t  u;

    memcpy(&u, &f, sizeof(u));

    return u;
}


static float
number(uint32_t u)
{
    float  f;

    memcpy(&f, &u, sizeof(f));

    return f;
}


static void
test_f16_values(void **state)
{
    size_t  i;

    static const struct {
        uint16_t  h;
        double    f;
    } cases[] = {
        { 0x0000, 0 }, { 0x3c00, 1 }, { 0xbc00, -1 }, { 0x4000, 2 },
        { 0x3555, 0.333251953125 }, { 0x7bff, 65504 }, { 0xfbff, -65504 },
        { 0x0400, 0x1p-14 }, { 0x0001, 0x1p-24 }, { 0x0200, 0x1p-15 },
        { 0x03ff, 0x1.ff8p-15 }, { 0x8001, -0x1p-24 }, { 0x3c01, 1.0009765625 }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_true((double) mst_f16_to_f32(cases[i].h) == cases[i].f);
        assert_int_equal(mst_f32_to_f16((float) cases[i].f), cases[i].h);
    }

    assert_int_equal(bits(mst_f16_to_f32(0x8000)), 0x80000000);
    assert_true(isinf(mst_f16_to_f32(0x7c00)));
    assert_true(mst_f16_to_f32(0xfc00) < 0);
    assert_true(isnan(mst_f16_to_f32(0x7e00)));
}


/* every half against the definition in double, and back */

static void
test_f16_all(void **state)
{
    float     f;
    double    want;
    uint32_t  h, exp, frac;

    (void) state;

    for (h = 0; h <= 0xffff; h++) {
        f = mst_f16_to_f32((uint16_t) h);
        exp = (h >> 10) & 31;
        frac = h & 0x3ff;

        if (exp != 31) {
            want = exp ? ldexp(1024 + frac, (int) exp - 25)
                       : ldexp(frac, -24);
            assert_true(fabs((double) f) == want);
            assert_int_equal(signbit(f) != 0, h >> 15);

        } else {
            assert_int_equal(isnan(f) != 0, frac != 0);
        }

        assert_int_equal(mst_f32_to_f16(f), h);
    }
}


/*
 * Rounding: between each pair of neighbours, the middle goes to the even
 * one and the floats beside the middle to the nearer one.
 */

static void
test_f16_rounding(void **state)
{
    float     mid;
    uint32_t  h, u;

    (void) state;

    for (h = 0; h < 0x7bff; h++) {
        mid = (mst_f16_to_f32((uint16_t) h)
               + mst_f16_to_f32((uint16_t) (h + 1))) / 2;
        u = bits(mid);

        assert_int_equal(mst_f32_to_f16(mid), h & 1 ? h + 1 : h);
        assert_int_equal(mst_f32_to_f16(number(u - 1)), h);
        assert_int_equal(mst_f32_to_f16(number(u + 1)), h + 1);
        assert_int_equal(mst_f32_to_f16(-mid),
                         0x8000 | (h & 1 ? h + 1 : h));
    }

    assert_int_equal(mst_f32_to_f16(65519.99f), 0x7bff);
    assert_int_equal(mst_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(mst_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(mst_f32_to_f16(-1e30f), 0xfc00);
    assert_int_equal(mst_f32_to_f16(1e-30f), 0);
    assert_int_equal(mst_f32_to_f16(number(1)), 0);

    /* a NaN whose kept payload would be 0 must not become an infinity */

    assert_true(isnan(mst_f16_to_f32(mst_f32_to_f16(number(0x7f800001)))));
}


static void
test_bf16(void **state)
{
    float     f;
    uint32_t  h;

    (void) state;

    for (h = 0; h <= 0xffff; h++) {
        f = mst_bf16_to_f32((uint16_t) h);

        assert_int_equal(bits(f), h << 16);
        assert_int_equal(mst_f32_to_bf16(f), h);
    }

    assert_int_equal(mst_f32_to_bf16(number(0x3f808000)), 0x3f80);
    assert_int_equal(mst_f32_to_bf16(number(0x3f808001)), 0x3f81);
    assert_int_equal(mst_f32_to_bf16(number(0x3f818000)), 0x3f82);
    assert_int_equal(mst_f32_to_bf16(number(0x7f7fffff)), 0x7f80);
    assert_int_equal(mst_f32_to_bf16(number(0x7f800001)) & 0x7fc0, 0x7fc0);
}


static void
test_plain(void **state)
{
    float                       y[3];
    static const unsigned char  f32[] = { 0, 0, 0x80, 0x3f,
                                          0, 0, 0x20, 0xc1 };
    static const unsigned char  f16[] = { 0x00, 0x3c, 0x00, 0xc0, 0, 0x38 };
    static const unsigned char  bf16[] = { 0x80, 0x3f, 0x20, 0xc1 };

    (void) state;

    assert_int_equal(mst_quant_decode(MST_TYPE_F32, f32, y, 2), MST_OK);
    assert_true(y[0] == 1.0f && y[1] == -10.0f);

    assert_int_equal(mst_quant_decode(MST_TYPE_F16, f16, y, 3), MST_OK);
    assert_true(y[0] == 1.0f && y[1] == -2.0f && y[2] == 0.5f);

    assert_int_equal(mst_quant_decode(MST_TYPE_BF16, bf16, y, 2), MST_OK);
    assert_true(y[0] == 1.0f && y[1] == -10.0f);

    assert_int_equal(mst_quant_decode(MST_TYPE_F32, f32, y, 0), MST_OK);
}


/* two blocks each, so that the step from block to block is seen */

static void
test_q4(void **state)
{
    int            b, i, lo, hi;
    float          y[64];
    unsigned char  q40[36], q41[40];

    (void) state;

    for (b = 0; b < 2; b++) {
        q40[b * 18] = q41[b * 20] = 0;
        q40[b * 18 + 1] = q41[b * 20 + 1] = b ? 0xc0 : 0x38;   /* -2, 0.5 */
        q41[b * 20 + 2] = 0;
        q41[b * 20 + 3] = b ? 0x3c : 0xc4;                     /* 1, -4 */

        for (i = 0; i < 16; i++) {
            q40[b * 18 + 2 + i] = (unsigned char) (i | (15 - i) << 4);
            q41[b * 20 + 4 + i] = q40[b * 18 + 2 + i];
        }
    }

    assert_int_equal(mst_quant_decode(MST_TYPE_Q4_0, q40, y, 64), MST_OK);

    for (i = 0; i < 16; i++) {
        lo = i - 8;
        hi = 15 - i - 8;

        assert_true((double) y[i] == 0.5 * lo);
        assert_true((double) y[16 + i] == 0.5 * hi);
        assert_true((double) y[32 + i] == -2.0 * lo);
        assert_true((double) y[48 + i] == -2.0 * hi);
    }

    assert_int_equal(mst_quant_decode(MST_TYPE_Q4_1, q41, y, 64), MST_OK);

    for (i = 0; i < 16; i++) {
        assert_true((double) y[i] == 0.5 * i - 4);
        assert_true((double) y[16 + i] == 0.5 * (15 - i) - 4);
        assert_true((double) y[32 + i] == -2.0 * i + 1);
        assert_true((double) y[48 + i] == -2.0 * (15 - i) + 1);
    }
}


/* element i is (i * 7 + block) & 31 */

static void
test_q5(void **state)
{
    int            b, i, v;
    float          y[64];
    uint32_t       high;
    unsigned char  q50[44] = { 0 }, q51[48] = { 0 };

    (void) state;

    for (b = 0; b < 2; b++) {
        q50[b * 22 + 1] = q51[b * 24 + 1] = b ? 0xc0 : 0x38;   /* -2, 0.5 */
        q51[b * 24 + 3] = b ? 0x3c : 0xc4;                     /* 1, -4 */
        high = 0;

        for (i = 0; i < 32; i++) {
            v = (i * 7 + b) & 31;
            high |= (uint32_t) (v >> 4) << i;
            q50[b * 22 + 6 + i % 16] |= (unsigned char) ((v & 15)
                                                         << (i / 16 * 4));
        }

        memcpy(q50 + b * 22 + 2, &high, 4);
        memcpy(q51 + b * 24 + 4, &high, 4);
        memcpy(q51 + b * 24 + 8, q50 + b * 22 + 6, 16);
    }

    assert_int_equal(mst_quant_decode(MST_TYPE_Q5_0, q50, y, 64), MST_OK);

    for (i = 0; i < 64; i++) {
        v = (i % 32 * 7 + i / 32) & 31;
        assert_true((double) y[i] == (i < 32 ? 0.5 : -2.0) * (v - 16));
    }

    assert_int_equal(mst_quant_decode(MST_TYPE_Q5_1, q51, y, 64), MST_OK);

    for (i = 0; i < 64; i++) {
        v = (i % 32 * 7 + i / 32) & 31;
        assert_true((double) y[i] == (i < 32 ? 0.5 * v - 4 : -2.0 * v + 1));
    }
}


static void
test_q8(void **state)
{
    int            i;
    float          y[64];
    unsigned char  q[68];

    (void) state;

    q[0] = 0;
    q[1] = 0x34;                                               /* 0.25 */
    q[34] = 0;
    q[35] = 0xbc;                                              /* -1 */

    for (i = 0; i < 32; i++) {
        q[2 + i] = (unsigned char) (i * 8 - 128);
        q[36 + i] = (unsigned char) (i - 16);
    }

    assert_int_equal(mst_quant_decode(MST_TYPE_Q8_0, q, y, 64), MST_OK);

    for (i = 0; i < 32; i++) {
        assert_true((double) y[i] == 0.25 * (i * 8 - 128));
        assert_true((double) y[32 + i] == -1.0 * (i - 16));
    }
}


/* written into their places one by one, as ggml-common.h describes them */

static void
test_q45_k(mst_type_t type, int bits)
{
    int             i, j, v;
    float           y[256];
    unsigned char   q[176], *low;

    static const int  scales[] = { 1, 63, 0, 17, 33, 62, 15, 48 };
    static const int  mins[] = { 63, 2, 31, 0, 16, 47, 32, 5 };

    memset(q, 0, sizeof(q));
    q[1] = 0x34;                                               /* 0.25 */
    q[3] = 0xb8;                                               /* -0.5 */

    for (j = 0; j < 4; j++) {
        q[4 + j] = (unsigned char) (scales[j] | (scales[4 + j] >> 4) << 6);
        q[8 + j] = (unsigned char) (mins[j] | (mins[4 + j] >> 4) << 6);
        q[12 + j] = (unsigned char) ((scales[4 + j] & 15)
                                     | (mins[4 + j] & 15) << 4);
    }

    low = q + (bits == 5 ? 48 : 16);

    for (i = 0; i < 256; i++) {
        v = (i * 7 + i / 32) & ((1 << bits) - 1);
        low[i / 64 * 32 + i % 32] |= (unsigned char) ((v & 15)
                                                      << (i / 32 % 2 * 4));
        if (bits == 5) {
            q[16 + i % 32] |= (unsigned char) (v >> 4 << i / 32);
        }
    }

    assert_int_equal(mst_quant_decode(type, q, y, 256), MST_OK);

    for (i = 0; i < 256; i++) {
        v = (i * 7 + i / 32) & ((1 << bits) - 1);

        assert_true((double) y[i] == 0.25 * scales[i / 32] * v
                                     + 0.5 * mins[i / 32]);
    }
}


static void
test_q4_k(void **state)
{
    (void) state;

    test_q45_k(MST_TYPE_Q4_K, 4);
}


static void
test_q5_k(void **state)
{
    (void) state;

    test_q45_k(MST_TYPE_Q5_K, 5);
}


static void
test_q6_k(void **state)
{
    int            i, v;
    float          y[256];
    unsigned char  q[210];

    (void) state;

    memset(q, 0, sizeof(q));
    q[208] = 0x01;
    q[209] = 0x3c;                                     /* 1.0009765625 */

    for (i = 0; i < 16; i++) {
        q[192 + i] = (unsigned char) (i * 16 - 128);
    }

    for (i = 0; i < 256; i++) {
        v = (i * 11) & 63;
        q[i / 128 * 64 + i % 64] |= (unsigned char) ((v & 15)
                                                     << (i / 64 % 2 * 4));
        q[128 + i / 128 * 32 + i % 32] |=
            (unsigned char) (v >> 4 << (i / 32 % 4 * 2));
    }

    assert_int_equal(mst_quant_decode(MST_TYPE_Q6_K, q, y, 256), MST_OK);

    for (i = 0; i < 256; i++) {
        v = ((i * 11) & 63) - 32;
        assert_true((double) y[i] == 1.0009765625 * (i / 16 * 16 - 128) * v);
    }
}


static void
test_types(void **state)
{
    float     y[32];
    size_t    i;
    uint32_t  type;

    static const struct {
        uint32_t     type, block, size;
        const char  *name;
    } known[] = {
        { MST_TYPE_F32, 1, 4, "F32" }, { MST_TYPE_F16, 1, 2, "F16" },
        { MST_TYPE_BF16, 1, 2, "BF16" }, { MST_TYPE_Q4_0, 32, 18, "Q4_0" },
        { MST_TYPE_Q4_1, 32, 20, "Q4_1" }, { MST_TYPE_Q8_0, 32, 34, "Q8_0" },
        { MST_TYPE_Q5_0, 32, 22, "Q5_0" }, { MST_TYPE_Q5_1, 32, 24, "Q5_1" },
        { MST_TYPE_Q4_K, 256, 144, "Q4_K" },
        { MST_TYPE_Q5_K, 256, 176, "Q5_K" },
        { MST_TYPE_Q6_K, 256, 210, "Q6_K" }
    };

    (void) state;

    for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
        assert_non_null(mst_type_info(known[i].type));
        assert_int_equal(mst_type_info(known[i].type)->block, known[i].block);
        assert_int_equal(mst_type_info(known[i].type)->size, known[i].size);
        assert_string_equal(mst_type_info(known[i].type)->name,
                            known[i].name);
        assert_string_equal(mst_type_name(known[i].type), known[i].name);
    }

    for (type = 0, i = 0; type < 1000; type++) {
        assert_non_null(mst_type_name(type));
        i += mst_type_info(type) != NULL;
    }

    assert_int_equal(i, sizeof(known) / sizeof(*known));

    assert_string_equal(mst_type_name(12), "Q4_K");
    assert_string_equal(mst_type_name(14), "Q6_K");
    assert_string_equal(mst_type_name(20), "IQ4_NL");
    assert_string_equal(mst_type_name(28), "F64");
    assert_string_equal(mst_type_name(39), "MXFP4");
    assert_string_equal(mst_type_name(4), "unknown");
    assert_string_equal(mst_type_name(UINT32_MAX), "unknown");

    assert_int_equal(mst_quant_decode((mst_type_t) 10, y, y, 0),
                     MST_DECLINED);
    assert_int_equal(mst_quant_decode(MST_TYPE_Q4_0, y, y, 31), MST_ERROR);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_f16_values),
        cmocka_unit_test(test_f16_all),
        cmocka_unit_test(test_f16_rounding),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_q4),
        cmocka_unit_test(test_q8),
        cmocka_unit_test(test_q5),
        cmocka_unit_test(test_q4_k),
        cmocka_unit_test(test_q5_k),
        cmocka_unit_test(test_q6_k),
        cmocka_unit_test(test_types)
    };

    return cmocka_run_group_tests_name("mst_quant", tests, NULL, NULL);
}
