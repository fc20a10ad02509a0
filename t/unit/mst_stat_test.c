
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


static void
test_hist(void **state)
{
    uint32_t    i;
    uint64_t    n;
    mst_stat_t  s;

    (void) state;

    memset(&s, 0, sizeof(s));

    assert_int_equal(mst_stat_bucket(0), 0);
    assert_int_equal(mst_stat_bucket(UINT64_MAX), MST_STAT_BUCKETS);

    for (i = 0; i < MST_STAT_BUCKETS; i++) {
        n = mst_stat_bounds[i];

        assert_int_equal(mst_stat_bucket(n), i);
        assert_int_equal(mst_stat_bucket(n + 1), i + 1);

        mst_stat_observe(&s.step, n, i);
    }

    for (i = 0, n = 0; i < MST_STAT_BUCKETS; i++) {
        assert_int_equal(mst_stat_get(&s.step.bucket[i]), i);
        n += mst_stat_bounds[i] * i;
    }

    assert_int_equal(mst_stat_get(&s.step.bucket[i]), 0);
    assert_int_equal(mst_stat_get(&s.step.sum_ns), n);
}


/* the counters are one array: whoever adds them up misses none */

static void
test_words(void **state)
{
    size_t             i, n;
    mst_stat_t         s;
    _Atomic uint64_t  *w;

    (void) state;

    memset(&s, 0, sizeof(s));

    w = (_Atomic uint64_t *) &s;
    n = MST_STAT_FIRST + MST_STAT_WORDS;

    for (i = MST_STAT_FIRST; i < n; i++) {
        mst_stat_set(&w[i], i);
    }

    assert_int_equal(mst_stat_get(&s.weight_size), 0);
    assert_int_equal(mst_stat_get(&s.total_steps), MST_STAT_FIRST);
    assert_int_equal(mst_stat_get(&s.token.sum_ns), n - 1);
    assert_int_equal(s.backend[0], '\0');
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_beat),
        cmocka_unit_test(test_backend),
        cmocka_unit_test(test_hist),
        cmocka_unit_test(test_words)
    };

    return cmocka_run_group_tests_name("mst_stat", tests, NULL, NULL);
}
