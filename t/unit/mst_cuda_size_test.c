
/*
 * What the CUDA backend reckons with: blocks of the KV pool, whether weights
 * stand twice, the graphs that are recorded at the start, room for experts.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "backend/mst_cuda_size.h"

#define GIB    (1ull << 30)
#define BLOCK  (8ull << 20)        /* bytes, of Mistral-7B's shape in bf16 */


static mst_backend_conf_t
conf(void)
{
    mst_backend_conf_t  c;

    memset(&c, 0, sizeof(c));
    c.context = 32768;
    c.max_seqs = 256;

    return c;
}


static void
test_kv(void **state)
{
    uint64_t            left, n;
    mst_backend_conf_t  c;

    (void) state;

    /* all but the reserve */

    c = conf();
    n = mst_cuda_size_kv(&c, BLOCK, 100 * GIB);
    assert_int_equal(n, (100 * GIB - MST_CUDA_RESERVE) / BLOCK);

    /* never more than is left, nor wrapped around below the reserve */

    for (left = 0; left < 2 * GIB; left += 3 << 20) {
        n = mst_cuda_size_kv(&c, BLOCK, left);
        assert_true(n * BLOCK + MST_CUDA_RESERVE <= left || n == 0);
        assert_true(n > 0 || left < MST_CUDA_RESERVE + BLOCK);
    }

    /* no more than what all sequences can hold, twice, and some prefixes */

    c.context = 100;
    c.max_seqs = 3;
    assert_int_equal(mst_cuda_size_kv(&c, BLOCK, 100 * GIB),
                     2 * 2 * 3 + 1024);

    /* a size or a part that is asked for counts as it is */

    c.kv_percent = 50;
    assert_int_equal(mst_cuda_size_kv(&c, BLOCK, 100 * GIB + MST_CUDA_RESERVE),
                     100 * GIB / 100 * 50 / BLOCK);

    c.kv_percent = 100;
    assert_true(mst_cuda_size_kv(&c, BLOCK, 100 * GIB) * BLOCK
                <= 100 * GIB - MST_CUDA_RESERVE);

    c = conf();
    c.kv_size = 10 * GIB;
    assert_int_equal(mst_cuda_size_kv(&c, BLOCK, 100 * GIB),
                     10 * GIB / BLOCK);
    assert_int_equal(mst_cuda_size_kv(&c, BLOCK, 10 * GIB + MST_CUDA_RESERVE),
                     10 * GIB / BLOCK);

    /* what is not there is refused, not cut; so is less than a block */

    assert_int_equal(mst_cuda_size_kv(&c, BLOCK,
                                      10 * GIB + MST_CUDA_RESERVE - BLOCK), 0);
    c.kv_size = BLOCK - 1;
    assert_int_equal(mst_cuda_size_kv(&c, BLOCK, 100 * GIB), 0);

    /* a place in the pool is an int32_t of the device */

    c = conf();
    c.context = 1 << 20;
    c.max_seqs = 1024;
    n = mst_cuda_size_kv(&c, 64, 1024 * GIB);
    assert_true(n * MST_K_BLOCK <= INT32_MAX);
    assert_true(n * MST_K_BLOCK > INT32_MAX - MST_K_BLOCK);
}


static void
test_twice(void **state)
{
    mst_backend_conf_t  c;

    (void) state;

    /* said is said */

    c = conf();
    c.weight_layouts = 1;
    assert_false(mst_cuda_size_twice(&c, BLOCK, 100 * GIB, GIB));
    c.weight_layouts = 2;
    assert_true(mst_cuda_size_twice(&c, BLOCK, GIB, 2 * GIB));

    /* a pool of no size gives up a quarter at most */

    c.weight_layouts = 0;
    assert_true(mst_cuda_size_twice(&c, BLOCK, 60 * GIB, 15 * GIB));
    assert_false(mst_cuda_size_twice(&c, BLOCK, 60 * GIB, 15 * GIB + 1));
    assert_false(mst_cuda_size_twice(&c, BLOCK, 0, 1));

    c.kv_percent = 90;
    assert_true(mst_cuda_size_twice(&c, BLOCK, 60 * GIB, 15 * GIB));
    assert_false(mst_cuda_size_twice(&c, BLOCK, 60 * GIB, 16 * GIB));

    /* one of a size keeps it */

    c.kv_percent = 0;
    c.kv_size = 20 * GIB;
    assert_true(mst_cuda_size_twice(&c, BLOCK, 35 * GIB + MST_CUDA_RESERVE,
                                    15 * GIB));
    assert_false(mst_cuda_size_twice(&c, BLOCK,
                                     35 * GIB + MST_CUDA_RESERVE - BLOCK,
                                     15 * GIB));
    assert_false(mst_cuda_size_twice(&c, BLOCK, 10 * GIB, 15 * GIB));

    /* what there is no room for anyway does not count as room for weights */

    c.kv_size = BLOCK / 2;
    assert_false(mst_cuda_size_twice(&c, BLOCK, 100 * GIB, GIB));
}


/* every number of sequences finds its graph, and each graph has one step */

static void
test_graphs(void **state)
{
    uint32_t            i, k, n, rows, seen[MST_CUDA_GRAPHS];
    mst_backend_conf_t  c;

    (void) state;

    c = conf();

    for (c.max_seqs = 1; c.max_seqs <= 1024; c.max_seqs++) {

        for (n = 0; (rows = mst_cuda_size_graph(&c, n)) != 0; n++) {
            assert_true(n < MST_CUDA_GRAPHS);
            assert_true(rows <= c.max_seqs);
            seen[n] = mst_k_bucket_rows(rows);
            assert_true(seen[n] <= MST_CUDA_GRAPH_ROWS);
            assert_true(n == 0 || seen[n] > seen[n - 1]);
        }

        for (i = 1; i <= c.max_seqs && i <= MST_CUDA_GRAPH_ROWS; i++) {
            for (k = 0; k < n && seen[k] != mst_k_bucket_rows(i); k++) {
                /* void */
            }

            assert_true(k < n);
        }

        /* none comes again behind the end */

        assert_int_equal(mst_cuda_size_graph(&c, n + 1), 0);
        assert_int_equal(mst_cuda_size_graph(&c, n + 1000), 0);
    }
}


static void
test_pairs(void **state)
{
    uint32_t            rows;
    uint64_t            n;
    mst_backend_conf_t  c;

    (void) state;

    c = conf();
    assert_int_equal(mst_cuda_size_pairs(&c, 1000), 1000);

    c.n_experts = 8;
    c.n_used = 2;
    assert_int_equal(mst_cuda_size_pairs(&c, 1024), 2048);

    /* a slice has a row at least, whatever its sequence uses */

    for (c.n_experts = 1; c.n_experts <= 256; c.n_experts++) {
        for (rows = 1; rows <= 65536; rows *= 4) {
            n = mst_cuda_size_pairs(&c, rows);
            assert_true(n >= c.n_experts);
            assert_true(n <= MST_CUDA_PAIRS || n == c.n_experts);
        }
    }
}


/* pieces that fit a slot, of whole pages, and no thread has much more */

static void
test_piece(void **state)
{
    size_t    piece;
    uint32_t  threads;
    uint64_t  n, size;

    (void) state;

    for (threads = 1; threads <= 8; threads++) {
        for (size = 1; size < 1 << 30; size = size * 3 + 1) {
            piece = mst_cuda_size_piece(size, threads);
            n = (size + piece - 1) / piece;

            assert_true(piece > 0 && piece % 4096 == 0);
            assert_true(piece <= MST_CUDA_RING_PIECE);
            assert_true(n >= 4 * threads || piece == 256u << 10);
        }
    }

    assert_int_equal(mst_cuda_size_piece(0, 8), 256u << 10);
    assert_int_equal(mst_cuda_size_piece(GIB, 8), MST_CUDA_RING_PIECE);
}


/* what steps may hold, down to where graphs begin */

static void
test_tune(void **state)
{
    size_t                 i;
    uint32_t               rows;
    static const uint32_t  want[] = { 4096, 2048, 1792, 1536, 1280, 1024,
                                      512, 256 };

    (void) state;

    rows = 8192;

    for (i = 0; i < sizeof(want) / sizeof(*want); i++) {
        rows = mst_cuda_size_tune(rows);
        assert_int_equal(rows, want[i]);
    }

    assert_int_equal(mst_cuda_size_tune(1500), 1280);
    assert_int_equal(mst_cuda_size_tune(1025), 1024);
    assert_int_equal(mst_cuda_size_tune(1), 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_kv),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_piece),
        cmocka_unit_test(test_tune)
    };

    return cmocka_run_group_tests_name("mst_cuda_size", tests, NULL, NULL);
}
