
/*
 * What a KV block holds: sizes, where keys and values go, and what becomes of
 * numbers that f16 and q8 cannot keep.  (The kernels that read them:
 * mst_cpu_kernels.h.)
 */

#include "mst_cpu_rig.h"


static void
size_test(void **state)
{
    size_t                 i;
    mst_err_t              err = { "" };
    mst_backend_t         *b;
    mst_backend_conf_t     c;
    mst_backend_info_t     info;

    static const struct {
        mst_kv_type_t  type;
        uint32_t       size;           /* of a token's 16 keys and values */
    } cases[] = {
        { MST_KV_AUTO, 128 }, { MST_KV_F32, 128 }, { MST_KV_F16, 64 },
        { MST_KV_Q8, 36 }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        c = rig_conf(1);
        c.kv_type = cases[i].type;
        b = rig_create(&c);
        mst_cpu_ops.info(b, &info);
        assert_int_equal(info.block_tokens, 32);
        assert_int_equal(info.block_size, 2 * 32 * cases[i].size);
        assert_int_equal(info.n_blocks, (1 << 20) / info.block_size);
        mst_cpu_ops.destroy(b);
    }

    /* of 24 dimensions a scale would cover parts of two heads */

    c = rig_conf(1);
    c.head_dim = 24;
    c.kv_type = MST_KV_Q8;
    assert_null(mst_cpu_ops.create(&c, &err));
    assert_string_equal(err.text, "kv_cache q8 has a scale for 16 dimensions,"
                        " heads of 24 are no multiple of it");
}


static float
kept(const mst_cpu_attend_t *a, int value, uint32_t slot, uint32_t dim,
    uint32_t stride)
{
    size_t       at;
    float        f;
    uint16_t     s;
    const void  *p;

    at = value ? slot * stride + dim : dim * 32 + slot;
    p = value ? a->v : a->k;

    if (a->type == MST_KV_F32) {
        return ((const float *) p)[at];
    }

    if (a->type == MST_KV_F16) {
        mst_quant_decode(MST_TYPE_F16, (const uint16_t *) p + at, &f, 1);
        return f;
    }

    s = value ? a->v_scale[at / 16] : a->k_scale[dim / 16 * 32 + slot];
    mst_quant_decode(MST_TYPE_BF16, &s, &f, 1);

    return f * (float) ((const int8_t *) p)[at];
}


/* all slots and dimensions, then all are still there */

static void
store_test(void **state)
{
    float                 *y;
    uint32_t               d, i, slot;
    mst_kv_type_t          type;
    unsigned char         *kv;
    mst_backend_t         *b;
    mst_cpu_attend_t       a;
    mst_backend_conf_t     c;

    (void) state;

    y = malloc(2 * 32 * 48 * sizeof(float));

    for (type = MST_KV_F32; type <= MST_KV_Q8; type++) {
        if (type == MST_KV_BF16 || type == MST_KV_FP8) {
            continue;
        }

        c = rig_conf(1);
        c.head_dim = 48;
        c.rope_dim = 16;
        c.kv_type = type;
        b = rig_create(&c);
        kv = calloc(1, b->kv_head_size);
        mst_cpu_kv_view(b, kv, &a);

        for (i = 0; i < 2 * 32 * 48; i++) {
            y[i] = rig_float();
        }

        for (slot = 0; slot < 32; slot++) {
            for (d = 0; d < 48; d += 16) {
                mst_cpu_kv_store(b, kv, 0, slot, d, y + slot * 48 + d);
                mst_cpu_kv_store(b, kv, 1, slot, d,
                                 y + (32 + slot) * 48 + d);
            }
        }

        for (i = 0; i < 2 * 32 * 48; i++) {
            slot = i / 48 % 32;
            assert_true(fabsf(kept(&a, i / 48 / 32, slot, i % 48, 48) - y[i])
                        <= (type == MST_KV_Q8 ? 4e-3f
                            : type == MST_KV_F16 ? 5e-4f : 0));
        }

        /* one by one, as heads that are no whole lanes are stored */

        for (i = 0; type != MST_KV_Q8 && i < 48; i++) {
            mst_cpu_kv_store_one(b, kv, i % 2, 7, i, 0.5f);
            assert_true(kept(&a, i % 2, 7, i, 48) == 0.5f);
            assert_true(kept(&a, i % 2, 8, i, 48) != 0.5f);
        }

        free(kv);
        mst_cpu_ops.destroy(b);
    }

    free(y);
}


static void
extreme_test(void **state)
{
    float      f, y[16] = { 0 };
    int8_t     q[16];
    uint16_t   h[16], scale;
    uint32_t   i;

    (void) state;

    y[0] = 1e6f;
    y[1] = -INFINITY;
    y[2] = NAN;
    y[3] = 1e-9f;
    mst_cpu_c.kv_f16(y, h);
    mst_quant_decode(MST_TYPE_F16, &h[0], &f, 1);
    assert_true(f == 65504);
    mst_quant_decode(MST_TYPE_F16, &h[1], &f, 1);
    assert_true(f == -65504);
    mst_quant_decode(MST_TYPE_F16, &h[2], &f, 1);
    assert_true(isnan(f));
    assert_int_equal(h[3], 0);

    /* one that is none spoils its 16, visibly */

    mst_cpu_c.kv_q8(y, q, &scale);
    mst_quant_decode(MST_TYPE_BF16, &scale, &f, 1);
    assert_true(isnan(f));

    memset(y, 0, sizeof(y));
    y[5] = 1e-38f;
    mst_cpu_c.kv_q8(y, q, &scale);
    assert_int_equal(scale, 0);

    for (i = 0; i < 16; i++) {
        assert_int_equal(q[i], 0);
        y[i] = (float) i * 1e30f;
    }

    mst_cpu_c.kv_q8(y, q, &scale);
    mst_quant_decode(MST_TYPE_BF16, &scale, &f, 1);
    assert_in_range(q[15], 126, 127);
    assert_true(fabsf(f * q[15] - y[15]) < 0.01f * y[15]);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(size_test),
        cmocka_unit_test(store_test),
        cmocka_unit_test(extreme_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
