
/*
 * Tiles of codes: each row of a tile by itself, its neighbours untouched.
 */

#include "mst_cpu_rig.h"


static void
lanes_test(void **state)
{
    float     *f, y[512];
    size_t     i, row, size;
    uint8_t   *data, *tile;
    uint32_t   lane, k;

    static const struct {
        mst_type_t      file;
        mst_cpu_type_t  type;
        size_t          size;      /* of a tile of 512 inputs */
    } types[] = {
        { MST_TYPE_Q5_0, MST_CPU_Q5_0, 16 * 16 * 22 },
        { MST_TYPE_Q5_1, MST_CPU_Q5_1, 16 * 16 * 24 },
        { MST_TYPE_Q4_K, MST_CPU_Q4_K, 16 * 2 * 148 },
        { MST_TYPE_Q5_K, MST_CPU_Q5_K, 16 * 2 * 180 },
        { MST_TYPE_Q6_K, MST_CPU_Q6_K, 16 * 2 * 210 }
    };

    (void) state;

    for (i = 0; i < sizeof(types) / sizeof(*types); i++) {
        size = mst_cpu_codes_size(types[i].type, 512);
        assert_int_equal(size, types[i].size);

        row = 512 / mst_type_info(types[i].file)->block
              * mst_type_info(types[i].file)->size;
        data = rig_tensor(types[i].file, 16, 512, &f);
        tile = calloc(1, size);

        /* the last lane first: what stands behind it would show */

        for (lane = 16; lane-- > 0; /* void */) {
            mst_cpu_codes_pack(types[i].type, data + lane * row, tile, lane,
                               512);
        }

        for (lane = 0; lane < 16; lane++) {
            mst_cpu_codes_row(types[i].type, tile, lane, 512, y);

            for (k = 0; k < 512; k++) {
                assert_memory_equal(&y[k], &f[lane * 512 + k], 4);
            }
        }

        free(tile);
        free(data);
        free(f);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = { cmocka_unit_test(lanes_test) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
