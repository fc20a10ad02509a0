
/*
 * Large memory of the CPU backend.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "backend/mst_cpu_mem.h"


/* resident bytes of this process */

static uint64_t
resident(void)
{
    FILE                *f;
    unsigned long long   all, here;

    f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu %llu", &all, &here), 2);
    fclose(f);

    return here * (uint64_t) sysconf(_SC_PAGESIZE);
}


static void
take_test(void **state)
{
    uint64_t        before, i;
    mst_err_t       err = { "" };
    mst_cpu_mem_t   m = { NULL };
    unsigned char  *last, *p;

    (void) state;

    last = NULL;

    for (i = 0; i < 1000; i++) {
        p = mst_cpu_mem_take(&m, i * 977 % 300000, &err);
        assert_non_null(p);
        assert_int_equal((uintptr_t) p % 64, 0);

        if (i * 977 % 300000 > 0) {
            assert_int_equal(p[0], 0);
            memset(p, 0xff, i * 977 % 300000);
        }

        assert_true(p != last || (i - 1) * 977 % 300000 == 0);
        last = p;
    }

    /* 64 GiB, of which one page is used */

    before = resident();
    p = mst_cpu_mem_take(&m, (uint64_t) 64 << 30, &err);
    assert_non_null(p);
    p[(uint64_t) 50 << 30] = 1;
    assert_true(resident() < before + ((uint64_t) 16 << 20));

    mst_cpu_mem_fini(&m);
    mst_cpu_mem_fini(&m);
}


static void
error_test(void **state)
{
    mst_err_t      err = { "" };
    mst_cpu_mem_t  m = { NULL };

    (void) state;

    assert_null(mst_cpu_mem_take(&m, UINT64_MAX, &err));
    assert_string_equal(err.text, "cannot map 18446744073709551615 bytes");

    err.text[0] = '\0';
    assert_null(mst_cpu_mem_take(&m, UINT64_MAX / 8, &err));
    assert_non_null(strstr(err.text, "cannot map"));

    err.text[0] = '\0';
    mst_mem_fail_after(1);
    assert_null(mst_cpu_mem_take(&m, 1, &err));
    mst_mem_fail_after(0);
    assert_string_equal(err.text, "out of memory");

    mst_cpu_mem_fini(&m);
}


static void
limit_test(void **state)
{
    uint64_t  limit;

    (void) state;

    limit = mst_cpu_mem_limit();
    assert_true(limit >= (uint64_t) 16 << 20);
    assert_true(limit <= (uint64_t) sysconf(_SC_PHYS_PAGES)
                         * (uint64_t) sysconf(_SC_PAGESIZE));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(take_test),
        cmocka_unit_test(error_test),
        cmocka_unit_test(limit_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
