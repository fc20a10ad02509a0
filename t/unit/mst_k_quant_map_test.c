
/*
 * How quantised weights come from a file and where they lie
 * (kernels/mst_k_quant_map.h): decoders against the slow ones of
 * file/mst_quant.c, which are the truth, and places that no two elements
 * share.  PRINTS its seed; give another as the first argument.
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mst_hash.h"
#include "file/mst_quant.h"
#include "kernels/mst_k_quant_map.h"


#define N  2048


static uint64_t  seed = 20261130;
static uint64_t  draws;


static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(seed + ++draws * 0x9e3779b9ull) % n);
}


static void
mst_k_quant_halves(void **state)
{
    float     f, g;
    uint8_t   p[2];
    uint32_t  h;

    (void) state;

    for (h = 0; h < 65536; h++) {
        p[0] = (uint8_t) h;
        p[1] = (uint8_t) (h >> 8);

        f = mst_k_quant_f16(p);
        g = mst_f16_to_f32((uint16_t) h);

        assert_true(isnan(g) ? isnan(f) : memcmp(&f, &g, 4) == 0);
    }
}


static void
mst_k_quant_types(void **state)
{
    size_t                  t, n;
    uint32_t                i, k, type;
    const mst_type_info_t  *info;
    static float            want[N];
    static uint8_t          row[N * 2];
    static const uint32_t   types[] = {
        MST_K_QUANT_Q4_0, MST_K_QUANT_Q4_1, MST_K_QUANT_Q8_0,
        MST_K_QUANT_Q4_K, MST_K_QUANT_Q6_K
    };

    (void) state;

    for (t = 0; t < sizeof(types) / sizeof(*types); t++) {
        type = types[t];
        info = mst_type_info(type);

        assert_non_null(info);
        n = mst_k_quant_file_size(type, N);
        assert_int_equal(n, N / info->block * info->size);

        for (i = 0; i < n; i++) {
            row[i] = (uint8_t) rnd(256);
        }

        /* no scale is infinite or a NaN: all have an exponent below 16 */

        for (i = 0; i < N / info->block; i++) {
            row[i * info->size + 1] &= 0xbf;
            row[i * info->size + 3] &= 0xbf;
            row[(i + 1) * info->size - 1] &= 0xbf;
        }

        assert_int_equal(mst_quant_decode((mst_type_t) type, row, want, N),
                         MST_OK);

        for (k = 0; k < N; k++) {
            assert_true((float) mst_k_quant_code(type, row, k)
                        * mst_k_quant_scale(type, row, k)
                        + mst_k_quant_min(type, row, k) == want[k]);
        }
    }

    assert_int_equal(mst_k_quant_form(MST_TYPE_F32), MST_K_QUANT_FORMS);
    assert_int_equal(mst_k_quant_form(MST_TYPE_F16), MST_K_QUANT_FORMS);
    assert_int_equal(mst_k_quant_form(MST_TYPE_BF16), MST_K_QUANT_W4_128);
}


/* each bit of a unit's codes has one element or only pads, and no scale lies
   in them or is shared beyond its group */

static void
mst_k_quant_places(void **state)
{
    int                     f;
    size_t                  size;
    uint8_t                *used;
    uint32_t                b, bits, i, k, r, widths[] = { 32, 576, 4224 };
    mst_k_quant_at_t        at;
    mst_k_quant_form_t      form;

    (void) state;

    for (f = 0; f < 3 * MST_K_QUANT_FORMS; f++) {
        form = (mst_k_quant_form_t) (f / 3);
        size = mst_k_quant_unit_size(form, widths[f % 3]);
        bits = mst_k_quant_bits(form);
        used = calloc(size, 8);

        assert_non_null(used);
        assert_int_equal(size % 16, 0);

        for (r = 0; r < 16; r++) {
            for (k = 0; k < widths[f % 3]; k++) {
                at = mst_k_quant_at(form, widths[f % 3], r, k);

                assert_int_equal(at.byte % 4, 0);
                assert_true(at.byte + 4 <= size);
                assert_true(at.scale + mst_k_quant_scale_size(form) <= size);

                for (i = 0; i < bits; i++) {
                    b = at.byte * 8 + at.shift + i;
                    assert_int_equal(used[b], 0);
                    used[b] = 1;
                }
            }
        }

        for (r = 0; r < 16; r++) {
            for (k = 0; k < widths[f % 3]; k += mst_k_quant_group(form)) {
                at = mst_k_quant_at(form, widths[f % 3], r, k);

                for (i = 0; i < 8 * mst_k_quant_scale_size(form); i++) {
                    assert_int_equal(used[at.scale * 8 + i], 0);
                    used[at.scale * 8 + i] = 2;
                }

                i = k + mst_k_quant_group(form) - 1;
                b = mst_k_quant_at(form, widths[f % 3], r, i).scale;
                assert_int_equal(at.scale, b);
            }
        }

        free(used);
    }
}


/* a chunk is what one copy brings: its bytes are one after the other */

static void
mst_k_quant_chunks(void **state)
{
    int                  f;
    uint32_t             chunk, first, k;
    mst_k_quant_at_t     at;
    mst_k_quant_form_t   form;

    (void) state;

    for (f = 0; f < MST_K_QUANT_FORMS; f++) {
        form = (mst_k_quant_form_t) f;
        chunk = mst_k_quant_chunk(form) * MST_K_QUANT_BLOCK;

        for (k = 0; k < 14336; k++) {
            first = k / chunk * mst_k_quant_chunk(form)
                    * mst_k_quant_block_size(form);
            at = mst_k_quant_at(form, 14336, k % 16, k);

            assert_in_range(at.byte, first, first + MST_K_QUANT_CODES - 4);
            assert_in_range(at.scale, first + MST_K_QUANT_CODES, first
                            + mst_k_quant_chunk(form)
                              * mst_k_quant_block_size(form) - 1);
        }

        assert_int_equal(mst_k_quant_size(form, 33, 14336),
                         3 * mst_k_quant_unit_size(form, 14336));
    }
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(mst_k_quant_halves),
        cmocka_unit_test(mst_k_quant_types),
        cmocka_unit_test(mst_k_quant_places),
        cmocka_unit_test(mst_k_quant_chunks),
    };

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 0);
    }

    printf("seed %llu\n", (unsigned long long) seed);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
