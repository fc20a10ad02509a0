
/*
 * The prefix cache against a list of what each block holds, spelled out from
 * the first token on, with a good hash and with one that always collides.
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
#include "engine/mst_prefix.h"


#define BT     2               /* tokens of a block */
#define DEPTH  5               /* blocks of a chain */
#define LIVE   6               /* chains that are held */


static uint64_t  seed = 1;
static uint64_t  draws;


typedef struct {
    uint8_t   salt;
    uint32_t  n;                       /* blocks */
    uint32_t  ids[DEPTH * BT];
} chain_t;

typedef struct {
    chain_t   chain;
    uint32_t  blocks[DEPTH];
    uint32_t  n_named;
    mst_prefix_at_t  at;
} live_t;


static mst_block_pool_t  pool;
static mst_prefix_t      cache;
static chain_t           holds[64];    /* by block; n = 0: unknown */
static live_t            live[LIVE];


static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(seed + ++draws * 0x9e3779b9ull) % n);
}


static uint64_t
bad_hash(uint64_t s, const void *data, size_t len)
{
    (void) s;
    (void) data;
    (void) len;

    return 7;
}


static uint64_t
weak_hash(uint64_t s, const void *data, size_t len)
{
    return mst_hash(s, data, len) & 3;
}


static int
same(const chain_t *a, const chain_t *b, uint32_t n)
{
    return a->n == n && b->n >= n && a->salt == b->salt
           && memcmp(a->ids, b->ids, n * BT * sizeof(uint32_t)) == 0;
}


static uint32_t
slow_find(const chain_t *c, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < pool.n; i++) {
        if (cache.nodes[i].serial && same(&holds[i], c, n)) {
            return i;
        }
    }

    return MST_BLOCK_NONE;
}


static void
let_go(live_t *l)
{
    while (l->chain.n) {
        mst_block_unref(&pool, l->blocks[--l->chain.n]);
    }

    l->n_named = 0;
}


static void
start(live_t *l, int exact)
{
    uint32_t  i, id, hits;
    uint8_t   salt[MST_SALT_SIZE] = { 0 };

    l->chain.salt = (uint8_t) rnd(2);
    l->chain.n = 1 + rnd(DEPTH);

    for (i = 0; i < DEPTH * BT; i++) {
        l->chain.ids[i] = rnd(i < BT ? 2 : 3);
    }

    salt[MST_SALT_SIZE - 1] = l->chain.salt;

    mst_prefix_root(&cache, salt, &l->at);

    for (hits = 0; hits < l->chain.n; hits++) {
        id = mst_prefix_find(&cache, salt, l->chain.ids + hits * BT, &l->at);

        if (id == MST_BLOCK_NONE) {
            if (exact) {
                assert_int_equal(slow_find(&l->chain, hits + 1),
                                 MST_BLOCK_NONE);
            }

            break;
        }

        /* the point of it all: it holds these very tokens of this tenant */

        assert_true(same(&holds[id], &l->chain, hits + 1));

        mst_block_ref(&pool, id);
        l->blocks[hits] = id;
    }

    l->n_named = hits;

    for (i = hits; i < l->chain.n; i++) {
        l->blocks[i] = mst_block_get(&pool);

        if (l->blocks[i] == MST_BLOCK_NONE) {
            l->chain.n = i;
            break;
        }

        holds[l->blocks[i]].n = 0;
    }
}


static void
name_one(live_t *l)
{
    uint32_t  id, i;
    uint8_t   salt[MST_SALT_SIZE] = { 0 };

    i = l->n_named;

    if (i == l->chain.n) {
        return;
    }

    salt[MST_SALT_SIZE - 1] = l->chain.salt;

    id = mst_prefix_name(&cache, salt, l->chain.ids + i * BT, l->blocks[i],
                         &l->at);

    if (id != l->blocks[i]) {
        assert_true(same(&holds[id], &l->chain, i + 1));
        mst_block_ref(&pool, id);
        mst_block_unref(&pool, l->blocks[i]);
        l->blocks[i] = id;

    } else {
        holds[id] = l->chain;
        holds[id].n = i + 1;
    }

    l->n_named++;
}


static void
check_pool(void)
{
    uint32_t  i, cached;

    cached = 0;

    for (i = 0; i < pool.n; i++) {
        assert_int_equal(pool.blocks[i].named, cache.nodes[i].serial != 0);
        cached += pool.blocks[i].ref == 0 && pool.blocks[i].named;
    }

    assert_int_equal(pool.n_cached, cached);
    assert_int_equal(pool.n_used + pool.n_cached + pool.n_free, pool.n);
}


static void
random_run(mst_prefix_hash_pt hash, uint32_t n_blocks, int exact, int forget)
{
    uint32_t  k, i;

    memset(holds, 0, sizeof(holds));
    memset(live, 0, sizeof(live));

    assert_int_equal(mst_block_init(&pool, n_blocks), MST_OK);
    assert_int_equal(mst_prefix_init(&cache, &pool, BT, hash), MST_OK);

    for (k = 0; k < 60000; k++) {
        i = rnd(LIVE);

        if (live[i].chain.n == 0) {
            start(&live[i], exact);

        } else if (rnd(4)) {
            name_one(&live[i]);

        } else {
            let_go(&live[i]);
        }

        if (forget && rnd(50) == 0) {
            mst_prefix_forget(&cache, rnd(n_blocks));
        }

        check_pool();
    }

    for (i = 0; i < LIVE; i++) {
        let_go(&live[i]);
    }

    assert_int_equal(pool.n_used, 0);

    mst_prefix_fini(&cache);
    mst_block_fini(&pool);
}


static void
test_random(void **state)
{
    (void) state;

    random_run(mst_hash, 60, 1, 0);
    random_run(mst_hash, 20, 1, 0);
    random_run(weak_hash, 20, 1, 0);

    /* fewer blocks than a bucket is searched deep: still exact */

    random_run(bad_hash, MST_PREFIX_DEPTH, 1, 0);

    /* more: may miss, must never lie */

    random_run(bad_hash, 64, 0, 0);
}


/* what is forgotten in the middle of a chain takes its followers along, even
   when its number comes back */

static void
test_forget(void **state)
{
    (void) state;

    random_run(mst_hash, 30, 0, 1);
    random_run(bad_hash, 30, 0, 1);
}


static void
test_salts(void **state)
{
    uint32_t         i, a, ids[BT] = { 1, 2 };
    uint8_t          salt[MST_SALT_SIZE] = { 0 };
    mst_prefix_at_t  at;

    (void) state;

    assert_int_equal(mst_block_init(&pool, 8), MST_OK);
    assert_int_equal(mst_prefix_init(&cache, &pool, BT, bad_hash), MST_OK);

    a = mst_block_get(&pool);

    mst_prefix_root(&cache, salt, &at);
    assert_int_equal(mst_prefix_name(&cache, salt, ids, a, &at), a);

    mst_prefix_root(&cache, salt, &at);
    assert_int_equal(mst_prefix_find(&cache, salt, ids, &at), a);

    /* every byte of the salt counts */

    for (i = 0; i < MST_SALT_SIZE; i++) {
        salt[i] = 1;
        mst_prefix_root(&cache, salt, &at);
        assert_int_equal(mst_prefix_find(&cache, salt, ids, &at),
                         MST_BLOCK_NONE);
        salt[i] = 0;
    }

    /* and every token */

    ids[1] = 3;
    mst_prefix_root(&cache, salt, &at);
    assert_int_equal(mst_prefix_find(&cache, salt, ids, &at),
                     MST_BLOCK_NONE);

    mst_prefix_fini(&cache);
    mst_block_fini(&pool);
}


static void
test_memory(void **state)
{
    long  n;

    (void) state;

    assert_int_equal(mst_block_init(&pool, 8), MST_OK);

    for (n = 1; n <= 3; n++) {
        mst_mem_fail_after(n);
        assert_int_equal(mst_prefix_init(&cache, &pool, BT, mst_hash),
                         MST_ERROR);
        mst_mem_fail_after(0);
        mst_prefix_fini(&cache);
    }

    mst_block_fini(&pool);
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_salts),
        cmocka_unit_test(test_memory)
    };

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 10);
    }

    printf("seed %llu\n", (unsigned long long) seed);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
