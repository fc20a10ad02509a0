
/*
 * A rolling window: borders, a full part, a process that slept, several
 * processes at once, and random times against a list of events.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mst_hash.h"
#include "base/mst_time.h"
#include "base/mst_window.h"

#include "seed.h"


#define WINDOW  (16 * MST_S)       /* parts of one second */
#define T0      (1600 * MST_S)


static void
expect(const mst_window_t *w, uint64_t now, uint64_t all, uint64_t bad)
{
    uint64_t  a, b;

    mst_window_sum(w, WINDOW, now, &a, &b);
    assert_int_equal(a, all);
    assert_int_equal(b, bad);
}


static void
test_borders(void **state)
{
    mst_window_t  w;

    (void) state;

    memset(&w, 0, sizeof(w));
    expect(&w, T0, 0, 0);
    expect(&w, 0, 0, 0);

    mst_window_add(&w, WINDOW, T0, 0);
    mst_window_add(&w, WINDOW, T0 + MST_S - 1, 1);
    expect(&w, T0, 2, 1);
    expect(&w, T0 + WINDOW - 1, 2, 1);
    expect(&w, T0 + WINDOW, 0, 0);

    mst_window_add(&w, WINDOW, T0 + 15 * MST_S, 1);
    expect(&w, T0 + 15 * MST_S, 3, 2);
    expect(&w, T0 + 16 * MST_S, 1, 1);
    expect(&w, T0 + 31 * MST_S - 1, 1, 1);
    expect(&w, T0 + 31 * MST_S, 0, 0);

    /* the place of an old part is used again */

    mst_window_add(&w, WINDOW, T0 + 16 * MST_S, 0);
    expect(&w, T0 + 16 * MST_S, 2, 1);

    mst_window_reset(&w);
    expect(&w, T0 + 16 * MST_S, 0, 0);
}


static void
test_late(void **state)
{
    mst_window_t  w;

    (void) state;

    memset(&w, 0, sizeof(w));
    mst_window_add(&w, WINDOW, T0 + WINDOW, 1);

    /* its process slept since: it must not wipe out what is newer */

    mst_window_add(&w, WINDOW, T0, 1);
    expect(&w, T0 + WINDOW, 1, 1);

    /* a little late is in time */

    mst_window_add(&w, WINDOW, T0 + WINDOW - 1, 1);
    expect(&w, T0 + WINDOW, 2, 2);
}


static void
test_full(void **state)
{
    uint32_t      i;
    uint64_t      all, bad;
    mst_window_t  w;

    (void) state;

    memset(&w, 0, sizeof(w));

    for (i = 0; i < 300000; i++) {
        mst_window_add(&w, WINDOW, T0, i % 4 == 0);
    }

    /* the counts are not exact any more, the rate is */

    mst_window_sum(&w, WINDOW, T0, &all, &bad);
    assert_in_range(all, 32767, 65535);
    assert_in_range(bad * 1000 / all, 249, 251);
}


static void
test_processes(void **state)
{
    int            i, k, status;
    pid_t          pid;
    mst_window_t  *w;

    (void) state;

    w = mmap(NULL, sizeof(mst_window_t), PROT_READ|PROT_WRITE,
             MAP_SHARED|MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(w, MAP_FAILED);

    for (i = 0; i < 4; i++) {
        pid = fork();
        assert_true(pid >= 0);

        if (pid == 0) {
            for (k = 0; k < 10000; k++) {
                mst_window_add(w, WINDOW, T0 + (uint64_t) k * MST_MS, k % 10
                                                                      == 0);
            }

            _exit(0);
        }
    }

    for (i = 0; i < 4; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }

    expect(w, T0 + 10 * MST_S, 40000, 4000);
    (void) munmap(w, sizeof(mst_window_t));
}


static void
test_random(void **state)
{
    static uint64_t  when[20000];

    uint32_t      i, k, first;
    uint64_t      x, now, all, bad, least, most;
    mst_window_t  w;

    (void) state;

    x = test_seed();

    memset(&w, 0, sizeof(w));
    now = T0;
    first = 0;

    for (i = 0; i < 20000; i++) {
        x = mst_hash_mix(x + i + 1);
        now += (x >> 8) % (x % 100 == 0 ? 20 * MST_S : 100 * MST_MS);
        when[i] = now;
        mst_window_add(&w, WINDOW, now, 1);

        for (k = first, least = 0, most = 0; k <= i; k++) {
            if (now - when[k] > WINDOW) {
                first = k;
            }

            least += now - when[k] < WINDOW / 16 * 15;
            most += now - when[k] < WINDOW;
        }

        mst_window_sum(&w, WINDOW, now, &all, &bad);
        assert_in_range(all, least, most);
        assert_int_equal(all, bad);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
