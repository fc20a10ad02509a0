
/*
 * Pairs: all that were put are found, no others, in a table of few and of
 * many; those that cannot be placed are refused.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "text/mst_pair.h"
#include "text/mst_vocab.h"


/* a number of its own for each i, both sides within MST_PAIR_BITS */

static void
sides(uint32_t i, uint32_t *left, uint32_t *right)
{
    *left = i * 2654435761u >> (32 - MST_PAIR_BITS);
    *right = i;
}


static void
test_find(void **state)
{
    size_t      k;
    uint32_t    i, l, n, r;
    mst_pair_t  t;

    static const uint32_t  sizes[] = { 0, 1, 8, 9, 100, 4096, 50000, 131072 };

    (void) state;

    for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        n = sizes[k];
        assert_int_equal(mst_pair_init(&t, n), MST_OK);

        for (i = 0; i < n; i++) {
            sides(i, &l, &r);
            mst_pair_put(&t, l, r, i);
        }

        assert_int_equal(t.n, n);
        assert_int_equal(mst_pair_finish(&t), MST_OK);

        for (i = 0; i < n + 50000; i++) {
            sides(i, &l, &r);
            assert_int_equal(mst_pair_find(&t, l, r),
                             i < n ? i : MST_PAIR_NONE);

            if (l != r) {
                assert_int_equal(mst_pair_find(&t, r, l), MST_PAIR_NONE);
            }

            assert_int_equal(mst_pair_find(&t, MST_PAIR_NOBODY, r),
                             MST_PAIR_NONE);
            assert_int_equal(mst_pair_find(&t, l, MST_PAIR_NOBODY),
                             MST_PAIR_NONE);
        }

        mst_pair_fini(&t);
        mst_pair_fini(&t);
    }
}


/* more pairs of one bucket than can be: another hash parts them */

static void
test_collide(void **state)
{
    uint32_t    i, put;
    uint64_t    factor;
    mst_pair_t  t;

    (void) state;

    assert_int_equal(mst_pair_init(&t, 2048), MST_OK);

    for (put = 0, i = 0; put < 100 && i < (1u << MST_PAIR_BITS); i++) {
        if (mst_pair_key(7, i) * t.factor >> t.shift == 3) {
            mst_pair_put(&t, 7, i, put);
            put++;
        }
    }

    assert_int_equal(put, 100);
    factor = t.factor;
    assert_int_equal(mst_pair_finish(&t), MST_OK);
    assert_true(t.factor != factor);

    for (put = 0, i = 0; put < 100; i++) {
        if (mst_pair_key(7, i) * factor >> t.shift == 3) {
            assert_int_equal(mst_pair_find(&t, 7, i), put);
            put++;
        }
    }

    mst_pair_fini(&t);
}


/* the same pair again, which nothing parts */

static void
test_same(void **state)
{
    uint32_t    i;
    mst_pair_t  t;

    (void) state;

    assert_int_equal(mst_pair_init(&t, 16), MST_OK);

    for (i = 0; i < 8; i++) {
        mst_pair_put(&t, 5, 5, i);
    }

    assert_int_equal(mst_pair_finish(&t), MST_BUSY);
    mst_pair_fini(&t);
}


static void
test_no_memory(void **state)
{
    long        n;
    mst_pair_t  t;

    (void) state;

    for (n = 1; n <= 2; n++) {
        mst_mem_fail_after(n);
        assert_int_equal(mst_pair_init(&t, 10), MST_ERROR);
        mst_mem_fail_after(0);
        mst_pair_fini(&t);
    }

    for (n = 1; n <= 3; n++) {
        assert_int_equal(mst_pair_init(&t, 10), MST_OK);
        mst_mem_fail_after(n);
        assert_int_equal(mst_pair_finish(&t), MST_ERROR);
        mst_mem_fail_after(0);
        mst_pair_fini(&t);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_collide),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
