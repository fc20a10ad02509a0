
/*
 * Attention over many blocks, with rows and heads shared out in all ways:
 * one layer of a tiny model, long sequences, against double precision.
 * (Kernels alone: mst_cpu_kernels.h; all shapes: mst_forward_test.c.)
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "model/mst_forward.h"
#include "mst_tiny.h"
#include "mst_model_gguf.h"

#define TEST_TOKENS  420


static const mst_tiny_t  shapes[] = {
    { 1, 64, 32, 9, 3, 32, 32, 40, 512, 0,      /* 9 heads for 2 threads */
      MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q4_1,
      MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q8_0,
      1e-5, 10000 },
    { 1, 32, 32, 7, 1, 20, 20, 40, 512, 0,
      MST_TYPE_F16, MST_TYPE_F16, MST_TYPE_F16, MST_TYPE_F16,
      MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q8_0,
      1e-5, 10000 }
};


static void
check(mst_model_t *m, const double *want, double limit, const uint32_t *ids,
    const uint32_t *blocks, uint32_t chunk, float *last)
{
    uint32_t          at, k;
    mst_err_t         err = { "" };
    const float      *logits;
    mst_batch_t       batch;
    mst_batch_seq_t   q = { 0 };

    for (at = 0; at < TEST_TOKENS; at += q.n) {
        q.n = TEST_TOKENS - at < chunk ? TEST_TOKENS - at : chunk;
        q.ids = ids + at;
        q.position = at;
        q.blocks = blocks;
        q.logits = MST_LOGITS_ALL;
        batch = (mst_batch_t) { &q, 1, q.n };
        assert_int_equal(mst_forward(m, &batch, &logits, &err), MST_OK);

        for (k = 0; k < q.n * 40; k++) {
            assert_true(fabs((double) logits[k] - want[at * 40 + k])
                        < limit);
        }
    }

    memcpy(last, logits + (q.n - 1) * 40, 40 * sizeof(float));
}


/* all ways of sharing out give the same bits */

static void
ways(const mst_tiny_t *shape, uint64_t seed, mst_kv_type_t kv, double limit)
{
    float             first[40], last[40];
    double           *want;
    uint32_t          blocks[16], chunk, i, ids[TEST_TOKENS], k, threads;
    mst_buf_t         b;
    mst_err_t         err = { "" };
    mst_gguf_t       *g;
    mst_model_t      *m;
    mst_tiny_file_t   f;

    for (k = 0; k < 16; k++) {
        blocks[k] = (k * 7 + 3) % 16;
    }

    mst_tiny_write(shape, seed, &f, &b);

    for (k = 0; k < TEST_TOKENS; k++) {
        ids[k] = mst_tiny_random(&seed) % 40;
    }

    want = mst_tiny_reference(shape, &f, ids, TEST_TOKENS);

    for (threads = 1; threads <= 5; threads += 2) {
        mst_model_conf_t  conf = {
            .threads = threads, .max_rows = TEST_TOKENS, .max_seqs = 1,
            .kv_size = 1 << 24, .kv_type = kv
        };

        g = mst_gguf_open_memory(b.data, b.len, "tiny", &err);
        assert_non_null(g);
        m = model_of_gguf(g, &conf, &err);
        assert_string_equal(err.text, "");
        assert_non_null(m);

        for (i = 0; i < 3; i++) {
            chunk = i == 0 ? TEST_TOKENS : i == 1 ? 37 : threads == 1 ? 1 : 11;
            check(m, want, limit, ids, blocks, chunk, last);

            if (threads == 1 && i == 0) {
                memcpy(first, last, sizeof(first));
            }

            assert_memory_equal(first, last, sizeof(first));
        }

        mst_model_destroy(m);
    }

    free(want);
    mst_buf_fini(&b);
    mst_buf_fini(&f.data);
}


static void
long_test(void **state)
{
    size_t  i;

    (void) state;

    for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        ways(&shapes[i], 99 + i, MST_KV_AUTO, 2e-4);
        ways(&shapes[i], 99 + i, MST_KV_F16, 4e-2);
    }

    ways(&shapes[0], 99, MST_KV_Q8, 5e-1);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = { cmocka_unit_test(long_test) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
