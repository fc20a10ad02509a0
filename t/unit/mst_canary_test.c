
/*
 * A canary: what is a percentage, that the choice is fair, sticky and exact
 * at its ends, and when it is rolled back.
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

#include "base/mst_canary.h"
#include "base/mst_time.h"


#define T0  (1000 * MST_S)


static mst_canary_conf_t  conf = {
    .window_ns = 60 * MST_S, .max_errors = 100000, .min = 1
};


static uint32_t
point(const char *name, const char *key)
{
    return mst_canary_point(mst_str(name, strlen(name)),
                            mst_str(key, strlen(key)));
}


static void
test_percent(void **state)
{
    size_t    i;
    uint32_t  part;

    const struct {
        const char  *text;
        long         part;         /* -1: none */
    } list[] = {
        { "0%", 0 }, { "30%", 300000 }, { "100%", 1000000 },
        { "0.5%", 5000 }, { "0.0001%", 1 }, { "99.9999%", 999999 },
        { "12.34%", 123400 }, { "007%", 70000 }, { "100.0000%", 1000000 },
        { "", -1 }, { "%", -1 }, { "30", -1 }, { "30 %", -1 }, { "-1%", -1 },
        { "101%", -1 }, { "100.0001%", -1 }, { ".5%", -1 }, { "5.%", -1 },
        { "0.00001%", -1 }, { "1.2.3%", -1 }, { "1e1%", -1 }, { "30%%", -1 },
        { "10000000000000000000000%", -1 }, { "1000000%", -1 },
    };

    (void) state;

    for (i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        part = 77;

        if (mst_canary_percent(mst_str(list[i].text, strlen(list[i].text)),
                               &part)
            == MST_OK)
        {
            assert_int_equal(part, list[i].part);

        } else if (list[i].part != -1) {
            fail_msg("\"%s\" is refused", list[i].text);
        }
    }
}


static void
test_choice(void **state)
{
    char      key[64];
    uint32_t  i, k, p, n[6], both;

    static const uint32_t  parts[6] = { 0, 10000, 100000, 300000, 999999,
                                        MST_CANARY_ALL };

    (void) state;

    memset(n, 0, sizeof(n));
    both = 0;

    for (i = 0; i < 100000; i++) {
        snprintf(key, sizeof(key), "10.%u.%u.%u", i / 65536, i / 256 % 256,
                 i % 256);
        p = point("v2", key);

        assert_true(p < MST_CANARY_ALL);
        assert_int_equal(p, point("v2", key));

        for (k = 0; k < 6; k++) {
            n[k] += p < parts[k];
        }

        both += p < 100000 && point("v3", key) < 100000;
    }

    /* a key of a smaller part is in each larger one by its very form; each
       part has its size: five standard deviations of 100,000 throws */

    assert_int_equal(n[0], 0);
    assert_in_range(n[1], 1000 - 158, 1000 + 158);
    assert_in_range(n[2], 10000 - 475, 10000 + 475);
    assert_in_range(n[3], 30000 - 725, 30000 + 725);
    assert_int_equal(n[5], 100000);

    /* who meets one meets the other by chance only */

    assert_in_range(both, 1000 - 158, 1000 + 158);
}


/* hosts of one service, and versions of this program, agree */

static void
test_fixed(void **state)
{
    (void) state;

    assert_int_equal(point("canary", "alice"), 724068);
    assert_int_equal(point("canary", ""), 348760);
}


static void
test_rollback(void **state)
{
    int           i;
    uint64_t      n, bad;
    mst_canary_t  c;

    (void) state;

    memset(&c, 0, sizeof(c));

    /* a tenth is not more than a tenth */

    for (i = 0; i < 90; i++) {
        assert_int_equal(mst_canary_count(&c, &conf, T0, 0, &n, &bad),
                         MST_OK);
    }

    for (i = 0; i < 10; i++) {
        assert_int_equal(mst_canary_count(&c, &conf, T0, 1, &n, &bad),
                         MST_OK);
    }

    assert_int_equal(c.rolled_back, 0);
    assert_int_equal(mst_canary_count(&c, &conf, T0, 1, &n, &bad), MST_DONE);
    assert_int_equal(n, 101);
    assert_int_equal(bad, 11);
    assert_int_equal(c.rolled_back, 1);
    assert_int_equal(c.requests, 101);
    assert_int_equal(c.errors, 11);

    /* said once */

    assert_int_equal(mst_canary_count(&c, &conf, T0, 1, &n, &bad), MST_OK);

    mst_canary_resume(&c);
    assert_int_equal(c.rolled_back, 0);
    assert_int_equal(mst_canary_count(&c, &conf, T0, 0, &n, &bad), MST_OK);
    assert_int_equal(n, 1);
}


static void
test_borders(void **state)
{
    int           i;
    uint64_t      n, bad;
    mst_canary_t  c;

    mst_canary_conf_t  k;

    (void) state;

    /* errors that left the window do not count */

    memset(&c, 0, sizeof(c));
    k = conf;
    k.max_errors = 500000;

    assert_int_equal(mst_canary_count(&c, &k, T0, 0, &n, &bad), MST_OK);
    assert_int_equal(mst_canary_count(&c, &k, T0, 1, &n, &bad), MST_OK);
    assert_int_equal(mst_canary_count(&c, &k, T0 + k.window_ns, 0, &n, &bad),
                     MST_OK);
    assert_int_equal(mst_canary_count(&c, &k, T0 + k.window_ns, 1, &n, &bad),
                     MST_OK);
    assert_int_equal(n, 2);
    assert_int_equal(mst_canary_count(&c, &k, T0 + k.window_ns, 1, &n, &bad),
                     MST_DONE);

    /* 0%: the first one; 100%: never */

    memset(&c, 0, sizeof(c));
    k.max_errors = 0;
    assert_int_equal(mst_canary_count(&c, &k, T0, 0, &n, &bad), MST_OK);
    assert_int_equal(mst_canary_count(&c, &k, T0, 1, &n, &bad), MST_DONE);

    memset(&c, 0, sizeof(c));
    k.max_errors = MST_CANARY_ALL;

    for (i = 0; i < 10; i++) {
        assert_int_equal(mst_canary_count(&c, &k, T0, 1, &n, &bad), MST_OK);
    }

    /* with "min" the request that makes it a rate decides, a good one too */

    memset(&c, 0, sizeof(c));
    k.max_errors = 100000;
    k.min = 5;

    for (i = 0; i < 4; i++) {
        assert_int_equal(mst_canary_count(&c, &k, T0, 1, &n, &bad), MST_OK);
    }

    assert_int_equal(mst_canary_count(&c, &k, T0, 0, &n, &bad), MST_DONE);
}


static void
test_processes(void **state)
{
    int        i, k, status;
    pid_t      pid;
    uint64_t   n, bad;

    struct {
        mst_canary_t      c;
        _Atomic uint32_t  said;
    } *s;

    (void) state;

    s = mmap(NULL, sizeof(*s), PROT_READ|PROT_WRITE,
             MAP_SHARED|MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s, MAP_FAILED);

    for (i = 0; i < 4; i++) {
        pid = fork();
        assert_true(pid >= 0);

        if (pid == 0) {
            for (k = 0; k < 10000; k++) {
                if (mst_canary_count(&s->c, &conf, T0 + (uint64_t) k * MST_MS,
                                     k > 5000, &n, &bad)
                    == MST_DONE)
                {
                    (void) atomic_fetch_add(&s->said, 1);
                }
            }

            _exit(0);
        }
    }

    for (i = 0; i < 4; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }

    assert_int_equal(s->said, 1);
    assert_int_equal(s->c.requests, 40000);
    assert_int_equal(s->c.errors, 4 * 4999);
    (void) munmap(s, sizeof(*s));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_percent),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_processes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
