
/*
 * How long steps become while prompts wait.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/mst_stretch.h"


/* nobody waits long: what a burst of 64 prompts of 512 takes is no reason */

static void
test_usual(void **state)
{
    (void) state;

    assert_int_equal(mst_stretch(1024, 1536, 0), 1024);
    assert_int_equal(mst_stretch(1024, 1536, 900 * MST_MS), 1024);
    assert_int_equal(mst_stretch(1024, 1536, MST_STRETCH_FROM), 1024);
}


static void
test_long(void **state)
{
    (void) state;

    assert_int_equal(mst_stretch(1024, 1536, MST_STRETCH_TO), 1536);
    assert_int_equal(mst_stretch(1024, 1536, UINT64_MAX), 1536);
}


/* between them never shorter for a longer wait, in multiples */

static void
test_between(void **state)
{
    uint32_t  n, last;
    uint64_t  wait;

    (void) state;

    last = 1024;

    for (wait = 0; wait < 3 * MST_S; wait += 7 * MST_MS) {
        n = mst_stretch(1024, 2048, wait);

        assert_true(n >= last && n <= 2048);
        assert_int_equal((n - 1024) % MST_STRETCH_BY, 0);
        last = n;
    }

    assert_int_equal(last, 2048);
    assert_int_equal(mst_stretch(1024, 1536,
                                 (MST_STRETCH_FROM + MST_STRETCH_TO) / 2),
                     1280);
}


static void
test_fixed(void **state)
{
    (void) state;

    assert_int_equal(mst_stretch(512, 512, MST_STRETCH_TO), 512);
    assert_int_equal(mst_stretch(512, 0, MST_STRETCH_TO), 512);
    assert_int_equal(mst_stretch(512, 600, MST_STRETCH_TO), 600);
    assert_int_equal(mst_stretch(1, UINT32_MAX, MST_STRETCH_TO - 1) > 1, 1);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_usual),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_between),
        cmocka_unit_test(test_fixed)
    };

    return cmocka_run_group_tests_name("stretch", tests, NULL, NULL);
}
