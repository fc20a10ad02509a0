
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

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


/* what nobody touched is there, where the system can do that; and zeros */

static void
test_table(void **state)
{
    char           *p;
    size_t          i, page, size;
    unsigned char   in[64];

    (void) state;

    page = (size_t) sysconf(_SC_PAGESIZE);
    size = 64 * page;

    for (i = 1; i < 100; i += 7) {
        p = mst_mem_table(i, 11);
        assert_non_null(p);
        memset(p, 0xaa, i * 11);
        mst_free(p);
    }

    p = mst_mem_table(64, page);
    assert_non_null(p);

    if (madvise((void *) ((uintptr_t) p / page * page + page), page,
                23 /* MADV_POPULATE_WRITE */) == 0)
    {
        assert_int_equal(mincore((void *) ((uintptr_t) p / page * page + page),
                                 size - 2 * page, in), 0);

        for (i = 0; i < 62; i++) {
            assert_int_equal(in[i] & 1, 1);
        }
    }

    for (i = 0; i < size; i++) {
        assert_int_equal(p[i], 0);
    }

    mst_free(p);
}


/* products and sums that overflow are refused before malloc() sees them */

static void
test_overflow(void **state)
{
    char             *p;
    volatile size_t   big = SIZE_MAX / 2 + 2;

    (void) state;

    assert_null(mst_calloc(big, 2));
    assert_null(mst_mem_table(big, 2));

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


static int  n_wakes;


static void
wake(void)
{
    n_wakes++;
}


/* bytes of whole pages from p on that are in memory; at most 8 MiB */

static size_t
resident(const char *p, size_t size)
{
    size_t                i, n, page;
    static unsigned char  in[2049];

    page = (size_t) sysconf(_SC_PAGESIZE);
    p += page - (uintptr_t) p % page;
    size = (size - page) / page * page;

    assert_in_range(size / page, 1, sizeof(in));
    assert_int_equal(mincore((void *) (uintptr_t) p, size, in), 0);

    for (n = 0, i = 0; i < size / page; i++) {
        n += in[i] & 1;
    }

    return n * page;
}


static void *
other(void *p)
{
    mst_free(p);

    return NULL;
}


/* what another thread frees is gone at once */

static void
test_other(void **state)
{
    pthread_t  tid;

    (void) state;

    mst_mem_later(wake);
    n_wakes = 0;

    assert_int_equal(pthread_create(&tid, NULL, other,
                                    mst_alloc(2 * MST_MEM_LARGE)), 0);
    assert_int_equal(pthread_join(tid, NULL), 0);
    assert_int_equal(n_wakes, 0);
    assert_int_equal(mst_mem_release(0), 0);

    mst_mem_later(NULL);
}


/* large blocks go from their ends, so many bytes at a time, small ones at
   once, and all of them before the thread frees as others do */

static void
test_later(void **state)
{
    char          *p, *q;
    size_t         left, n;

    static const size_t  mib = 1024 * 1024;

    (void) state;

    mst_mem_later(wake);
    n_wakes = 0;

    mst_free(NULL);
    mst_free(mst_alloc(MST_MEM_LARGE / 2));
    assert_int_equal(n_wakes, 0);
    assert_int_equal(mst_mem_release(mib), 0);

    p = mst_alloc(8 * mib);
    q = mst_alloc(2 * mib);
    assert_non_null(p);
    assert_non_null(q);
    memset(p, 7, 8 * mib);
    memset(q, 7, 2 * mib);

    mst_free(q);
    assert_int_equal(n_wakes, 1);
    mst_free(p);
    assert_int_equal(n_wakes, 2);

    left = mst_mem_release(0);
    assert_in_range(left, 10 * mib, 10 * mib + 65536);
    assert_in_range(resident(p, 8 * mib), 8 * mib - 65536, 8 * mib);

    for (n = left; n > 4 * mib; n -= mib) {
        assert_int_equal(mst_mem_release(mib), n - mib);
        assert_in_range(resident(p, 8 * mib), n - 3 * mib - 65536,
                        n - 3 * mib + 65536);
    }

    /* the rest of p and some of q */

    assert_int_equal(mst_mem_release(n - 2 * mib + mib / 2),
                     2 * mib - mib / 2);
    assert_in_range(resident(q, 2 * mib), mib, 2 * mib - mib / 4);

    p = mst_alloc(3 * mib);
    assert_non_null(p);
    memset(p, 7, 3 * mib);
    mst_free(p);
    assert_in_range(mst_mem_release(0), 4 * mib, 5 * mib);

    mst_mem_later(NULL);
    assert_int_equal(mst_mem_release(mib), 0);

    n_wakes = 0;
    mst_free(mst_alloc(8 * mib));
    assert_int_equal(n_wakes, 0);
    assert_int_equal(mst_mem_release(mib), 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_align),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_other),
        cmocka_unit_test(test_later)
    };

    return cmocka_run_group_tests_name("mst_mem", tests, NULL, NULL);
}
