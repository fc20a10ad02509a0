
/*
 * The block pool against a slow model: an array of references, and a time
 * stamp of when a block was let go.
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
#include "engine/mst_block.h"


#define N  37


static uint64_t  seed = 1;
static uint64_t  draws;

static mst_block_pool_t  pool;

static struct {
    int       ref;
    int       named;
    int       kept;
    uint64_t  freed;
} slow[N];

static uint64_t  stamp;

static uint32_t  evicted;


static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(seed + ++draws * 0x9e3779b9ull) % n);
}


static void
on_evict(void *data, uint32_t id)
{
    assert_ptr_equal(data, &evicted);

    evicted = id;
    mst_block_unname(&pool, id);
}


/* who must be evicted, N: nobody, as there is a free one or none at all */

static uint32_t
slow_victim(void)
{
    uint32_t  i, best;

    best = N;

    for (i = 0; i < N; i++) {
        if (slow[i].ref == 0 && !slow[i].named) {
            return N;
        }

        if (slow[i].ref == 0
            && (best == N || slow[i].kept < slow[best].kept
                || (slow[i].kept == slow[best].kept
                    && slow[i].freed < slow[best].freed)))
        {
            best = i;
        }
    }

    return best;
}


/* too many kept ones that nobody holds: the oldest is one no more */

static void
slow_let_go(uint32_t id)
{
    uint32_t  i, n, oldest;

    slow[id].ref--;
    slow[id].freed = ++stamp;

    n = 0;
    oldest = N;

    for (i = 0; i < N; i++) {

        if (slow[i].ref == 0 && slow[i].kept) {
            n++;
            oldest = oldest == N || slow[i].freed < slow[oldest].freed
                     ? i : oldest;
        }
    }

    if (n > MST_BLOCK_KEPT(N)) {
        slow[oldest].kept = 0;
        slow[oldest].freed = ++stamp;
    }
}


static void
check_counts(void)
{
    uint32_t  i, used, cached, kept;

    used = 0;
    cached = 0;
    kept = 0;

    for (i = 0; i < N; i++) {
        used += slow[i].ref > 0;
        cached += slow[i].ref == 0 && slow[i].named;
        kept += slow[i].ref == 0 && slow[i].kept;
        assert_int_equal(pool.blocks[i].ref, slow[i].ref);
    }

    assert_int_equal(pool.n_used, used);
    assert_int_equal(pool.n_cached, cached);
    assert_int_equal(pool.lines[1].n, kept);
    assert_int_equal(pool.lines[0].n, cached - kept);
    assert_true(kept <= MST_BLOCK_KEPT(N));
    assert_int_equal(pool.n_free, N - used - cached);
    assert_int_equal(mst_block_available(&pool), N - used);
}


static void
get(void)
{
    uint32_t  id, victim;

    victim = slow_victim();
    evicted = N;

    id = mst_block_get(&pool);

    assert_int_equal(evicted, victim);

    if (id == MST_BLOCK_NONE) {
        for (id = 0; id < N; id++) {
            assert_true(slow[id].ref > 0);
        }

        return;
    }

    if (victim != N) {
        assert_int_equal(id, victim);
        slow[victim].named = 0;
        slow[victim].kept = 0;
    }

    assert_int_equal(slow[id].ref, 0);
    assert_int_equal(slow[id].named, 0);
    slow[id].ref = 1;
}


static void
test_random(void **state)
{
    uint32_t  i, k;

    (void) state;

    assert_int_equal(mst_block_init(&pool, N), MST_OK);

    pool.evict = on_evict;
    pool.data = &evicted;

    for (k = 0; k < 200000; k++) {
        i = rnd(N);

        switch (rnd(7)) {

        case 0:
        case 1:
            get();
            break;

        case 2:
            if (slow[i].ref || slow[i].named) {
                mst_block_ref(&pool, i);
                slow[i].ref++;
            }

            break;

        case 3:
            if (slow[i].ref) {
                mst_block_unref(&pool, i);
                slow_let_go(i);
            }

            break;

        case 4:
            if (slow[i].ref) {
                mst_block_name(&pool, i);
                slow[i].named = 1;
            }

            break;

        case 5:
            if (slow[i].ref && slow[i].named) {
                mst_block_keep(&pool, i);
                slow[i].kept = 1;
            }

            break;

        default:
            if (rnd(4) == 0) {
                mst_block_unname(&pool, i);
                slow[i].named = 0;
                slow[i].kept = 0;
            }
        }

        check_counts();
    }

    mst_block_fini(&pool);
}


/* a sequence lets its blocks go from the last to the first: the cached tail
   is evicted before the head */

static void
test_tail_first(void **state)
{
    uint32_t  i, ids[4];

    (void) state;

    assert_int_equal(mst_block_init(&pool, 4), MST_OK);

    pool.evict = on_evict;
    pool.data = &evicted;

    for (i = 0; i < 4; i++) {
        ids[i] = mst_block_get(&pool);
        assert_int_equal(ids[i], i);
        mst_block_name(&pool, ids[i]);
    }

    assert_int_equal(mst_block_get(&pool), MST_BLOCK_NONE);

    for (i = 4; i > 0; i--) {
        mst_block_unref(&pool, ids[i - 1]);
    }

    for (i = 4; i > 0; i--) {
        assert_int_equal(mst_block_get(&pool), ids[i - 1]);
    }

    mst_block_fini(&pool);
}


/* kept ones go when nothing else is left, and only a quarter of all stay */

static void
test_keep(void **state)
{
    uint32_t  i;

    static const uint32_t  order[] = { 0, 3, 4, 5, 6, 7, 1, 2 };

    (void) state;

    assert_int_equal(mst_block_init(&pool, 8), MST_OK);

    pool.evict = on_evict;
    pool.data = &evicted;

    for (i = 0; i < 8; i++) {
        assert_int_equal(mst_block_get(&pool), i);
        mst_block_name(&pool, i);
    }

    for (i = 0; i < 3; i++) {
        mst_block_keep(&pool, i);
    }

    for (i = 0; i < 8; i++) {
        mst_block_unref(&pool, i);
    }

    /* 0 fell back among the others when 2 came, 1 and 2 are kept */

    for (i = 0; i < 8; i++) {
        assert_int_equal(mst_block_get(&pool), order[i]);
    }

    mst_block_fini(&pool);
}


static void
test_memory(void **state)
{
    (void) state;

    mst_mem_fail_after(1);
    assert_int_equal(mst_block_init(&pool, 4), MST_ERROR);
    mst_mem_fail_after(0);
    mst_block_fini(&pool);
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_tail_first),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_memory)
    };

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 10);
    }

    printf("seed %llu\n", (unsigned long long) seed);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
