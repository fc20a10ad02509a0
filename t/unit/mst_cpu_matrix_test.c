
/*
 * Tiles of weights: what is packed comes out again.
 */

#include "mst_cpu_rig.h"

static const mst_type_t  types[] = {
    MST_TYPE_Q4_1, MST_TYPE_Q4_0, MST_TYPE_Q8_0, MST_TYPE_F32, MST_TYPE_F16,
    MST_TYPE_BF16, MST_TYPE_Q5_0, MST_TYPE_Q5_1, MST_TYPE_Q4_K, MST_TYPE_Q5_K,
    MST_TYPE_Q6_K
};

#define TYPES  (sizeof(types) / sizeof(*types))


static void
row_test(void **state)
{
    float               *f, *y;
    size_t               i, t;
    void                *data;
    uint32_t             row, width;
    uint64_t             size;
    mst_err_t            err = { "" };
    mst_matrix_t        *m;
    mst_backend_t       *b;
    mst_matrix_part_t    part;
    mst_backend_conf_t   conf;
    mst_backend_info_t   info;

    static const uint32_t  rows[] = { 1, 15, 16, 17, 33, 64, 250 };

    (void) state;

    conf = rig_conf(2);
    b = rig_create(&conf);

    for (t = 0; t < TYPES; t++) {
        for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            width = mst_type_info(types[t])->block;
            width = (width == 1 ? 13 : width) * (1 + i);
            data = rig_tensor(types[t], rows[i], width, &f);
            part = (mst_matrix_part_t) { types[t], rows[i], data };
            m = mst_cpu_matrix(b, MST_MATRIX_STACK, &part, 1, width, &err);
            assert_non_null(m);
            free(data);                        /* not needed afterwards */

            y = malloc(width * sizeof(float));

            for (row = 0; row < rows[i]; row++) {
                mst_cpu_matrix_row(m, row, y);
                assert_memory_equal(y, f + (size_t) row * width,
                                    width * sizeof(float));
            }

            free(y);
            free(f);
        }
    }

    /* no growth, where rows fill tiles */

    mst_cpu_ops.info(b, &info);
    size = info.weight_size;
    data = rig_tensor(MST_TYPE_Q4_1, 64, 128, &f);
    part = (mst_matrix_part_t) { MST_TYPE_Q4_1, 64, data };
    assert_non_null(mst_cpu_matrix(b, MST_MATRIX_STACK, &part, 1, 128, &err));
    mst_cpu_ops.info(b, &info);
    assert_int_equal(info.weight_size - size, 64 * 128 / 32 * 20);
    free(data);
    free(f);

    /* scales of six bits fill bytes */

    size = info.weight_size;
    data = rig_tensor(MST_TYPE_Q5_K, 64, 512, &f);
    part = (mst_matrix_part_t) { MST_TYPE_Q5_K, 64, data };
    assert_non_null(mst_cpu_matrix(b, MST_MATRIX_STACK, &part, 1, 512, &err));
    mst_cpu_ops.info(b, &info);
    assert_int_equal(info.weight_size - size, 64 * 2 * (176 + 4));
    free(data);
    free(f);

    mst_cpu_ops.destroy(b);
}


/* parts do not overlap, whatever their types */

static void
parts_test(void **state)
{
    float               *f[3], y[256];
    size_t               n;
    void                *data[3];
    uint32_t             k, row, try;
    mst_err_t            err = { "" };
    mst_matrix_t        *m, one;
    mst_backend_t       *b;
    mst_matrix_part_t    parts[3];
    mst_backend_conf_t   conf;

    (void) state;

    conf = rig_conf(3);
    b = rig_create(&conf);

    for (try = 0; try < 60; try++) {
        n = try % 2 ? 2 : 3;

        for (k = 0; k < n; k++) {
            parts[k].type = types[rig_random() % TYPES];
            parts[k].rows = try % 2 ? 16 * (1 + try % 5) - try % 3
                                    : 1 + rig_random() % 70;
            data[k] = rig_tensor(parts[k].type, parts[k].rows, 256, &f[k]);
            parts[k].data = data[k];
        }

        m = mst_cpu_matrix(b, n == 2 ? MST_MATRIX_GATE : MST_MATRIX_STACK,
                           parts, n, 256, &err);
        assert_non_null(m);

        for (k = 0; k < n; k++) {
            one = *m;
            one.parts[0] = m->parts[k];

            for (row = 0; row < parts[k].rows; row++) {
                mst_cpu_matrix_row(&one, row, y);
                assert_memory_equal(y, f[k] + row * 256, sizeof(y));
            }

            free(data[k]);
            free(f[k]);
        }
    }

    mst_cpu_ops.destroy(b);
}


static void
error_test(void **state)
{
    mst_err_t            err = { "" };
    mst_backend_t       *b;
    mst_matrix_part_t    part = { MST_TYPE_Q4_1, 16, "" };
    mst_backend_conf_t   conf;

    (void) state;

    conf = rig_conf(1);
    b = rig_create(&conf);

    assert_null(mst_cpu_matrix(b, MST_MATRIX_STACK, &part, 1, 40, &err));
    assert_string_equal(err.text, "rows of 40 are no multiple of the 32 of a "
                        "Q4_1 block");

    err.text[0] = '\0';
    part.type = 10;
    assert_null(mst_cpu_matrix(b, MST_MATRIX_STACK, &part, 1, 256, &err));
    assert_string_equal(err.text, "weights of type Q2_K are not computed on "
                        "the CPU");

    err.text[0] = '\0';
    b->ram = (uint64_t) 1 << 20;
    part.type = MST_TYPE_Q4_1;
    part.rows = 1 << 16;
    assert_null(mst_cpu_matrix(b, MST_MATRIX_STACK, &part, 1, 256, &err));
    assert_string_equal(err.text, "the weights need more than the 1 MiB of "
                        "memory that this process may use");

    err.text[0] = '\0';
    mst_mem_fail_after(1);
    assert_null(mst_cpu_matrix(b, MST_MATRIX_STACK, &part, 1, 256, &err));
    mst_mem_fail_after(0);
    assert_string_equal(err.text, "out of memory for a matrix");

    mst_cpu_ops.destroy(b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(row_test),
        cmocka_unit_test(parts_test),
        cmocka_unit_test(error_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
