
/*
 * Tags against an array; a table that cannot grow still finds all.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mst_err.h"
#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_tag.h"


#define N  2000


static void
run(int no_memory)
{
    int             in[N] = { 0 };
    uint32_t        i, k, n;
    mst_seq_t      *q;
    mst_tag_map_t   m;

    assert_int_equal(mst_tag_init(&m), MST_OK);

    q = calloc(N, sizeof(mst_seq_t));
    n = 0;

    mst_mem_fail_after(no_memory);

    for (k = 0; k < 40000; k++) {
        i = (uint32_t) (mst_hash_mix(k) % N);

        /* tags a worker might choose: small, and far apart by 2^32 */

        q[i].tag = i % 2 ? i : (uint64_t) i << 32;

        assert_ptr_equal(mst_tag_find(&m, q[i].tag), in[i] ? &q[i] : NULL);

        if (in[i]) {
            mst_tag_remove(&m, &q[i]);
            n--;

        } else {
            mst_tag_insert(&m, &q[i]);
            n++;
        }

        in[i] = !in[i];
        assert_int_equal(m.n, n);
    }

    for (i = 0; i < N; i++) {
        assert_ptr_equal(mst_tag_find(&m, i % 2 ? i : (uint64_t) i << 32),
                         in[i] ? &q[i] : NULL);
    }

    assert_int_equal(m.mask + 1 > n, !no_memory);

    mst_mem_fail_after(0);
    mst_tag_fini(&m);
    free(q);
}


static void
test_random(void **state)
{
    (void) state;

    run(0);
}


static void
test_memory(void **state)
{
    mst_tag_map_t  m;

    (void) state;

    run(1);

    mst_mem_fail_after(1);
    assert_int_equal(mst_tag_init(&m), MST_ERROR);
    mst_mem_fail_after(0);
    mst_tag_fini(&m);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
