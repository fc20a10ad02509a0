
/*
 * The heap against an array that is searched.
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
#include "engine/mst_heap.h"


#define N  200


static uint64_t  seed = 1;
static uint64_t  draws;


static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(seed + ++draws * 0x9e3779b9ull) % n);
}


static void
test_random(void **state)
{
    int               in[N] = { 0 };
    uint32_t          i, k, n, best;
    uint64_t          major[N];
    mst_heap_t        h;
    mst_heap_node_t   nodes[N];

    (void) state;

    mst_heap_init(&h);
    memset(nodes, 0, sizeof(nodes));
    memset(major, 0, sizeof(major));
    assert_int_equal(mst_heap_reserve(&h, N), MST_OK);
    n = 0;

    for (k = 0; k < 100000; k++) {
        i = rnd(N);

        if (in[i]) {
            mst_heap_remove(&h, &nodes[i]);
            in[i] = 0;
            n--;

        } else if (rnd(3)) {
            major[i] = rnd(2) ? rnd(20) : UINT64_MAX - rnd(20);
            mst_heap_push(&h, &nodes[i], major[i], i);
            in[i] = 1;
            n++;

        } else {
            mst_heap_remove(&h, &nodes[i]);    /* in none: no harm */
        }

        best = N;

        for (i = 0; i < N; i++) {
            if (in[i] && (best == N || major[i] < major[best])) {
                best = i;
            }

            assert_int_equal(in[i], nodes[i].pos != 0);
        }

        assert_int_equal(h.n, n);
        assert_ptr_equal(mst_heap_top(&h), best == N ? NULL : &nodes[best]);
    }

    mst_heap_fini(&h);
}


static void
test_memory(void **state)
{
    mst_heap_t  h;

    (void) state;

    mst_heap_init(&h);

    mst_mem_fail_after(1);
    assert_int_equal(mst_heap_reserve(&h, 10), MST_ERROR);
    mst_mem_fail_after(0);

    assert_int_equal(mst_heap_reserve(&h, 10), MST_OK);

    mst_mem_fail_after(1);
    assert_int_equal(mst_heap_reserve(&h, 10), MST_OK);
    assert_int_equal(mst_heap_reserve(&h, 10000), MST_ERROR);
    assert_int_equal(mst_heap_reserve(&h, UINT32_MAX), MST_ERROR);
    mst_mem_fail_after(0);

    mst_heap_fini(&h);
    mst_heap_fini(&h);
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_memory)
    };

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 10);
    }

    printf("seed %llu\n", (unsigned long long) seed);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
