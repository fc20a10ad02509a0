
/*
 * Pairs: all that were put are found, no others, in a table of few and of
 * many; more than can collide are refused.
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

    static const uint32_t  sizes[] = { 0, 1, 100, MST_PAIR_FIRST, 50000 };

    (void) state;

    for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        n = sizes[k];
        assert_int_equal(mst_pair_init(&t, n), MST_OK);

        for (i = 0; i < n; i++) {
            sides(i, &l, &r);
            assert_int_equal(mst_pair_put(&t, l, r, i), MST_OK);
        }

        assert_int_equal(t.n, n);

        for (i = 0; i < n + 50000; i++) {
            sides(i, &l, &r);
            assert_int_equal(mst_pair_find(&t, l, r),
                             i < n ? i : MST_PAIR_NONE);

            if (l != r) {
                assert_int_equal(mst_pair_find(&t, r, l), MST_PAIR_NONE);
            }
        }

        mst_pair_fini(&t);
        mst_pair_fini(&t);
    }
}


static void
test_collide(void **state)
{
    int         rc;
    uint32_t    i, put;
    mst_pair_t  t;

    (void) state;

    assert_int_equal(mst_pair_init(&t, 2048), MST_OK);
    rc = MST_OK;

    /* those that fall on the first slots of 4096 */

    for (put = 0, i = 0; rc == MST_OK && i < (1u << MST_PAIR_BITS); i++) {
        if (mst_pair_hash(mst_pair_key(7, i)) >> t.first.shift < 4) {
            rc = mst_pair_put(&t, 7, i, put);
            put++;
        }
    }

    assert_int_equal(rc, MST_BUSY);
    assert_in_range(put, MST_VOCAB_MAX_PROBES, MST_VOCAB_MAX_PROBES + 5);
    mst_pair_fini(&t);
}


static void
test_no_memory(void **state)
{
    long        n;
    mst_pair_t  t;

    (void) state;

    for (n = 1; n <= 4; n++) {
        mst_mem_fail_after(n);
        assert_int_equal(mst_pair_init(&t, 10), MST_ERROR);
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
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
