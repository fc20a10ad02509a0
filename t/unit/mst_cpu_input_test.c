
/*
 * Rows written into panels are found where kernels look.
 */

#include "mst_cpu_rig.h"

#define TEST_WIDTH  96


static void
panel_check(uint32_t digits)
{
    float                     error, x[64][TEST_WIDTH];
    uint32_t                  block, c, k, n, row;
    mst_err_t                 err = { "" };
    mst_backend_t            *b;
    mst_cpu_mem_t             mem = { NULL };
    mst_cpu_input_t           in;
    mst_cpu_panel_t           p;
    mst_backend_conf_t        conf;
    const int8_t             *q;
    const mst_cpu_scale_t    *s;

    conf = rig_conf(1);
    b = rig_create(&conf);
    error = digits == 2 ? 5e-5f : 1e-6f;
    assert_int_equal(mst_cpu_input_init(&mem, &in, digits, TEST_WIDTH, 64,
                                        &err), MST_OK);

    for (n = 1; n <= 40; n++) {
        in.rows = n;

        for (row = n; row-- > 0; /* void */ ) {
            for (k = 0; k < TEST_WIDTH; k++) {
                x[row][k] = rig_float();
            }

            /* in two pieces, the second first */

            mst_cpu_input_write(b, &in, 3, row, 64, x[row] + 64, 32);
            mst_cpu_input_write(b, &in, 3, row, 0, x[row], 64);
        }

        for (row = 0; row < n; row += 8) {
            mst_cpu_input_panel(&in, row, &p);
            assert_int_equal(p.cols, n - row < 8 ? n - row : 8);
            assert_int_equal(p.width, TEST_WIDTH);
            assert_int_equal(p.digits, digits);

            for (c = 0; c < p.cols; c++) {
                for (k = 0; k < TEST_WIDTH; k++) {
                    block = k / 32;
                    q = p.q + (block * p.cols + c) * 32 * digits + k % 32;
                    s = p.s + block * p.cols + c;
                    assert_true(fabsf((float) (digits == 2
                                               ? 256 * q[0] + q[32]
                                               : 16384 * q[0] + 128 * q[32]
                                                 + q[64]) * s->d
                                      - x[row + c][k]) < error);
                    assert_true(p.f[k * p.cols + c] == x[row + c][k]);
                }
            }
        }
    }

    mst_cpu_mem_fini(&mem);
    mst_cpu_ops.destroy(b);
}


static void
panel_test(void **state)
{
    (void) state;

    panel_check(3);
    panel_check(2);
}


/* floats alone need no round width */

static void
float_test(void **state)
{
    float                x[5] = { 1, 2, 3, 4, 5 };
    mst_err_t            err = { "" };
    mst_backend_t       *b;
    mst_cpu_mem_t        mem = { NULL };
    mst_cpu_input_t      in;
    mst_cpu_panel_t      p;
    mst_backend_conf_t   conf;

    (void) state;

    conf = rig_conf(1);
    b = rig_create(&conf);
    assert_int_equal(mst_cpu_input_init(&mem, &in, 3, 5, 2, &err), MST_OK);
    mst_cpu_input_write(b, &in, MST_CPU_FLOAT_FORM, 1, 0, x, 5);
    mst_cpu_input_panel(&in, 0, &p);
    assert_true(p.f[1] == 1 && p.f[9] == 5 && p.f[0] == 0);
    mst_cpu_mem_fini(&mem);
    mst_cpu_ops.destroy(b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(panel_test),
        cmocka_unit_test(float_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
