
/*
 * The stats page: heartbeat age, and a backend name from hostile bytes.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "shm/mst_stat.h"


static void
test_beat(void **state)
{
    mst_stat_t  s;

    (void) state;

    memset(&s, 0, sizeof(s));
    assert_int_equal(mst_stat_beat_age(&s, 1000), 0);

    mst_stat_set(&s.beat_ns, 400);
    assert_int_equal(mst_stat_beat_age(&s, 1000), 600);
    assert_int_equal(mst_stat_beat_age(&s, 400), 0);
    assert_int_equal(mst_stat_beat_age(&s, 399), 0);
}


static void
test_backend(void **state)
{
    char        name[64];
    mst_stat_t  s;

    (void) state;

    memset(&s, 0, sizeof(s));
    mst_stat_set_backend(&s, "cpu avx512, 2 threads");
    mst_stat_backend(&s, name);
    assert_string_equal(name, "cpu avx512, 2 threads");

    mst_stat_set_backend(&s, "x");
    mst_stat_backend(&s, name);
    assert_string_equal(name, "x");

    mst_stat_set_backend(&s, "0123456789012345678901234567890123456789"
                             "0123456789012345678901234567890123456789");
    mst_stat_backend(&s, name);
    assert_int_equal(strlen(name), 63);

    memset(s.backend, 0xff, sizeof(s.backend));
    s.backend[1] = '\n';
    mst_stat_backend(&s, name);
    assert_int_equal(strlen(name), 63);
    assert_int_equal(name[0], '?');
    assert_int_equal(name[1], '?');
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_beat),
        cmocka_unit_test(test_backend)
    };

    return cmocka_run_group_tests_name("mst_stat", tests, NULL, NULL);
}
