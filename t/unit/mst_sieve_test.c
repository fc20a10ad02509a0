
/*
 * The filter lets all pass that were added, and nearly nothing else.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text/mst_sieve.h"

#define SHIFT  52                              /* 4096 slots */


static uint64_t
hash(uint64_t i)
{
    return (i + 1) * 0x9e3779b97f4a7c15ull;
}


static void
test_sieve(void **state)
{
    uint64_t  i, n, words[4096 / MST_SIEVE_SLOTS] = { 0 };

    (void) state;

    for (i = 0; i < 2048; i++) {
        mst_sieve_add(words, hash(i), SHIFT);
    }

    for (i = 0; i < 2048; i++) {
        assert_true(mst_sieve_maybe(words, hash(i), SHIFT));
    }

    for (i = 2048, n = 0; i < 2048 + 10000; i++) {
        n += mst_sieve_maybe(words, hash(i), SHIFT);
    }

    assert_in_range(n, 0, 2000);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_sieve)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
