
/*
 * The map of the decode GEMMs: every element of a matrix, of activations and
 * every unit of work exactly once, for shapes of real models and odd ones.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../kernels/mst_k_gemm_map.h"


static const struct {
    uint32_t  rows;
    uint32_t  width;
} shapes[] = {
    { 960, 576 }, { 576, 576 }, { 3072, 576 }, { 576, 1536 },    /* SmolLM2 */
    { 6144, 4096 }, { 64, 64 }, { 128, 192 }, { 16, 4096 }, { 32003, 64 },
    { 8, 128 }, { 4608, 3584 }
};


static uint8_t *
bytes(size_t n)
{
    uint8_t  *p;

    p = calloc(1, n);
    assert_non_null(p);

    return p;
}


static void
test_weights(void **state)
{
    size_t    i, at, n, taken;
    uint8_t  *seen;
    uint32_t  size, r, k;

    (void) state;

    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size = 1; size <= 2; size++) {
            n = mst_k_gemm_w_size(shapes[i].rows, shapes[i].width, size);
            seen = bytes(n);
            taken = 0;

            for (r = 0; r < shapes[i].rows; r++) {
                for (k = 0; k < shapes[i].width; k++) {
                    at = mst_k_gemm_w_at(mst_k_gemm_row(r), k,
                                         shapes[i].rows, shapes[i].width,
                                         size);
                    assert_true(at % size == 0 && at + size <= n);
                    assert_int_equal(seen[at], 0);
                    seen[at] = 1;
                    taken++;
                }
            }

            assert_true(taken == (size_t) shapes[i].rows * shapes[i].width);
            free(seen);
        }
    }
}


/* what the tensor cores are told: groups of 8 rows are 2,048 bytes apart
   over units of a slab, 128 bytes of width 1,024; and a slot of them is one
   run of bytes */

static void
test_tile(void **state)
{
    size_t         at, from;
    uint32_t       i, t, b, units;
    mst_k_share_t  s;

    (void) state;

    units = 33 * 5 + 2;

    for (i = 0; i < 33; i++) {
        s = mst_k_share(units, 33, i);

        for (t = 0; t < s.n; t++) {
            assert_int_equal(mst_k_gemm_slab(s.first + t, units), i);
        }

        from = mst_k_gemm_piece(s, s.first, 3, 5) * MST_K_GEMM_PIECE;

        for (t = 0; t < s.n * 16; t++) {
            for (b = 0; b < 256; b++) {
                at = mst_k_gemm_w_at(s.first * 16 + t, 3 * 256 + b,
                                     units * 16, 5 * 256, 1);
                assert_true(at == from + t / 8 * 2048 + b / 128 * 1024
                                  + t % 8 * 128
                                  + ((b % 128 / 16) ^ (t % 8)) * 16 + b % 16);
            }
        }
    }
}


static void
test_rows(void **state)
{
    uint32_t  r, part, t;
    uint8_t  *seen;

    (void) state;

    seen = bytes(1536);

    for (r = 0; r < 1536; r++) {
        t = mst_k_gemm_row(r);
        assert_true(t < 1536 && t / 16 == r / 16);
        assert_int_equal(seen[t]++, 0);

        /* rows 2g and 2g + 1 are g and g + 8 of their unit */
        assert_int_equal(t % 16, r % 16 / 2 + r % 2 * 8);
    }

    memset(seen, 0, 1536);

    for (part = 0; part < 2; part++) {
        for (r = 0; r < 768; r++) {
            t = mst_k_gemm_gate_row(part, r);
            assert_true(t < 1536);
            assert_int_equal(seen[t]++, 0);
            assert_int_equal(t, mst_k_gemm_gate_row(0, r) + 8 * part);
        }
    }

    free(seen);
}


static void
test_activations(void **state)
{
    size_t    i, at, n;
    uint8_t  *seen;
    uint32_t  size, t, k, pad;

    (void) state;

    for (i = 0; i < 4; i++) {
        for (pad = 8; pad <= 128; pad *= 2) {
            for (size = 1; size <= 2; size++) {
                n = mst_k_gemm_x_size(pad, shapes[i].width, size);
                seen = bytes(n);

                for (t = 0; t < pad; t++) {
                    for (k = 0; k < shapes[i].width; k++) {
                        at = mst_k_gemm_x_at(t, k, pad, size);
                        assert_true(at % size == 0 && at + size <= n);
                        assert_int_equal(seen[at]++, 0);

                        /* what kernels reach by a step from it */

                        if (t % 2 == 0) {
                            assert_int_equal(
                                mst_k_gemm_x_at(t + 1, k, pad, size),
                                (at ^ 16) + 128);
                        }

                        if (t + 8 < pad) {
                            assert_int_equal(
                                mst_k_gemm_x_at(t + 8, k, pad, size),
                                at + 1024);
                        }
                    }
                }

                free(seen);
            }
        }
    }
}


static void
test_shares(void **state)
{
    uint32_t       n, m, i, next;
    mst_k_share_t  s;

    (void) state;

    for (m = 1; m <= 140; m++) {
        for (n = 0; n <= 2050; n += 1 + n / 9) {
            next = 0;

            for (i = 0; i < m; i++) {
                s = mst_k_share(n, m, i);
                assert_int_equal(s.first, next);
                assert_true(s.n == n / m || s.n == n / m + 1);
                next += s.n;
            }

            assert_int_equal(next, n);
        }
    }
}


static void
test_sizes(void **state)
{
    uint32_t  n;

    (void) state;

    for (n = 1; n <= 128; n++) {
        assert_true(mst_k_gemm_pad(n) >= n && mst_k_gemm_pad(n) < 2 * n + 7);
    }

    assert_int_equal(mst_k_gemm_pad(129), 0);

    /* Mistral-7B in bf16: no byte of padding */
    assert_true(mst_k_gemm_w_size(28672, 4096, 2) == 28672ull * 4096 * 2);
    assert_true(mst_k_gemm_w_size(4096, 14336, 1) == 4096ull * 14336);

    /* a slab of 8,192 rows fits one pass, of 10,240 does not */
    assert_int_equal(mst_k_gemm_passes(8192), 1);
    assert_int_equal(mst_k_gemm_passes(10240), 2);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_tile),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_sizes)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
