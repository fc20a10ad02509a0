
/*
 * The arrays of a step and the buckets of graphs: kernels/mst_k_step_map.h.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/mst_k_step_map.h"


static void
mst_k_step_disjoint(void **state)
{
    char            *base, *at[16];
    size_t           i;
    uint64_t         size;
    mst_k_step_t     s;
    mst_k_bucket_t   b = { 24, 7, 9, 100, 1000 };

    static const uint64_t  sizes[] = {
        32, 96, 96, 96, 96, 96, 56, 28, 28, 28, 28, 28, 36, 100, 1000, 0
    };

    (void) state;

    base = (char *) (uintptr_t) 0x10000;
    size = mst_k_step_layout(&b, base, &s);
    memcpy(at, &s, sizeof(at));

    assert_int_equal(sizeof(at), sizeof(s));
    assert_ptr_equal(at[0], base);
    assert_ptr_equal(at[15], base + size);

    for (i = 0; i < 15; i++) {
        assert_int_equal((uintptr_t) at[i] % MST_K_ALIGN, 0);
        assert_true(at[i] + sizes[i] <= at[i + 1]);
        assert_true(at[i + 1] - at[i] < (ptrdiff_t) sizes[i] + MST_K_ALIGN);
    }
}


/* a graph's arrays lie where the next step of its bucket puts them */

static void
mst_k_step_same(void **state)
{
    mst_k_step_t    s, t;
    mst_k_bucket_t  b = { 8, 8, 8, 0, 0 };

    (void) state;

    memset(&s, 0, sizeof(s));
    memset(&t, 0, sizeof(t));

    assert_int_equal(mst_k_step_layout(&b, (void *) 4096, &s),
                     mst_k_step_layout(&b, (void *) 4096, &t));
    assert_memory_equal(&s, &t, sizeof(s));
}


static void
mst_k_bucket_covers(void **state)
{
    uint32_t  n, rows, last;

    (void) state;

    for (n = 1, last = 0; n <= 70000; n++) {
        rows = mst_k_bucket_rows(n);

        assert_true(rows >= n);
        assert_true(rows >= last);
        assert_int_equal(mst_k_bucket_rows(rows), rows);

        /* what is computed for nothing */

        if (n > 64) {
            assert_true((rows - n) * 4 < n);
        }

        last = rows;
    }
}


static void
mst_k_bucket_walk(void **state)
{
    size_t    i;
    uint32_t  rows;

    static const uint32_t  first[] = {
        1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192,
        224, 256, 320
    };

    (void) state;

    for (i = 0, rows = 0; i < sizeof(first) / sizeof(*first); i++) {
        rows = mst_k_bucket_next(rows);
        assert_int_equal(rows, first[i]);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(mst_k_step_disjoint),
        cmocka_unit_test(mst_k_step_same),
        cmocka_unit_test(mst_k_bucket_covers),
        cmocka_unit_test(mst_k_bucket_walk)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
