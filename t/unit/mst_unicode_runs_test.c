
/*
 * The table of runs: in order, no two of the same bits side by side, bits that
 * there are, and a start for each block that is right.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/mst_unicode_runs.h"


static uint32_t
start(size_t i)
{
    return mst_unicode_runs[i] & 0xffffff;
}


static void
test_runs(void **state)
{
    size_t    i;
    uint32_t  all;

    (void) state;

    all = MST_UNICODE_L|MST_UNICODE_N|MST_UNICODE_UPPER|MST_UNICODE_LOWER
          |MST_UNICODE_S|MST_UNICODE_N17;

    assert_int_equal(start(0), 0x80);
    assert_true(start(MST_UNICODE_RUNS - 1) < 0x110000);

    for (i = 0; i < MST_UNICODE_RUNS; i++) {
        assert_int_equal(mst_unicode_runs[i] >> 24 & ~all, 0);
        assert_true(i == 0 || start(i - 1) < start(i));
        assert_true(i == 0 || mst_unicode_runs[i - 1] >> 24
                              != mst_unicode_runs[i] >> 24);
    }
}


static void
test_blocks(void **state)
{
    size_t    i, run;
    uint32_t  cp;

    (void) state;

    for (i = 1, run = 0; i <= MST_UNICODE_BLOCKS; i++) {
        cp = (uint32_t) i << MST_UNICODE_BLOCK;

        while (run + 1 < MST_UNICODE_RUNS && start(run + 1) <= cp) {
            run++;
        }

        assert_int_equal(mst_unicode_first[i], run);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_blocks)
    };

    return cmocka_run_group_tests_name("mst_unicode_runs", tests, NULL, NULL);
}
