
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "base/mst_mem.h"


static void
test_alloc(void **state)
{
    char    *p, *q;
    size_t   i;

    (void) state;

    p = mst_alloc(0);
    assert_non_null(p);
    mst_free(p);

    p = mst_calloc(7, 11);
    assert_non_null(p);

    for (i = 0; i < 77; i++) {
        assert_int_equal(p[i], 0);
        p[i] = (char) i;
    }

    q = mst_realloc(p, 77, 100);
    assert_non_null(q);

    for (i = 0; i < 77; i++) {
        assert_int_equal(q[i], (char) i);
    }

    mst_free(q);
    mst_free(NULL);
}


static void
test_align(void **state)
{
    void    *p;
    size_t   align, size;

    static const size_t  sizes[] = { 0, 1, 63, 64, 65, 4097 };

    (void) state;

    for (align = 16; align <= 4096; align *= 2) {
        for (size = 0; size < 6; size++) {
            p = mst_memalign(align, sizes[size]);
            assert_non_null(p);
            assert_int_equal((uintptr_t) p % align, 0);
            memset(p, 0xaa, sizes[size]);
            mst_free(p);
        }
    }
}


/* products and sums that overflow are refused before malloc() sees them */

static void
test_overflow(void **state)
{
    char             *p;
    volatile size_t   big = SIZE_MAX / 2 + 2;

    (void) state;

    assert_null(mst_calloc(big, 2));

    p = mst_alloc(8);
    assert_non_null(p);
    assert_null(mst_realloc(p, big, 2));
    p[7] = 1;                                  /* still there */
    mst_free(p);

    assert_null(mst_memalign(64, SIZE_MAX - 10));
}


static void
test_fail(void **state)
{
    int    i;
    void  *p;

    (void) state;

    mst_mem_fail_after(3);

    for (i = 0; i < 2; i++) {
        p = mst_alloc(1);
        assert_non_null(p);
        mst_free(p);
    }

    assert_null(mst_alloc(1));
    assert_null(mst_calloc(1, 1));
    assert_null(mst_realloc(NULL, 1, 1));
    assert_null(mst_memalign(64, 1));

    mst_mem_fail_after(0);

    p = mst_alloc(1);
    assert_non_null(p);
    mst_free(p);

    mst_mem_fail_after(1);
    assert_null(mst_memalign(64, 1));
    mst_mem_fail_after(0);
}


/* whole pages of it lose what they held, and nothing beside them does */

static void
test_discard(void **state)
{
    size_t          i, page;
    unsigned char  *p, *from;

    (void) state;

    page = (size_t) sysconf(_SC_PAGESIZE);
    p = mst_alloc(6 * page);
    assert_non_null(p);
    memset(p, 7, 6 * page);

    from = p + page - (uintptr_t) p % page;    /* a page's first byte */

    mst_mem_discard(from + 1, 2 * page);       /* one whole page */

    assert_int_equal(from[page - 1], 7);
    assert_int_equal(from[2 * page], 7);

    for (i = page; i < 2 * page; i++) {
        assert_int_equal(from[i], 0);
    }

    from[page] = 8;                            /* ours, as before */
    assert_int_equal(from[page], 8);

    mst_mem_discard(from + 3 * page, page - 1);
    assert_int_equal(from[3 * page], 7);
    mst_mem_discard(from + 3 * page, 0);
    assert_int_equal(from[3 * page], 7);

    mst_free(p);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_align),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_discard)
    };

    return cmocka_run_group_tests_name("mst_mem", tests, NULL, NULL);
}
