
/*
 * The forward step: tiny random models of odd shapes against an obvious
 * reference in double precision, and bits that depend on nothing but the
 * tokens.  The real model: mst_forward_real_test.c.
 */

#include "mst_forward_rig.h"
#include "mst_tiny.h"


#define Q41  MST_TYPE_Q4_1
#define Q40  MST_TYPE_Q4_0
#define Q80  MST_TYPE_Q8_0
#define F32  MST_TYPE_F32
#define F16  MST_TYPE_F16
#define B16  MST_TYPE_BF16
#define Q50  MST_TYPE_Q5_0
#define Q51  MST_TYPE_Q5_1
#define Q4K  MST_TYPE_Q4_K
#define Q5K  MST_TYPE_Q5_K
#define Q6K  MST_TYPE_Q6_K


/* layers dim ff heads kv_heads head_dim rope_dim vocab context untied, types
   of q k v out gate up down embd, eps, base */

static const mst_tiny_t  shapes[] = {
    { 2, 64, 96, 4, 2, 16, 16, 50, 256, 0,
      Q41, Q41, Q41, Q41, Q41, Q41, Q41, Q80, 1e-5, 10000 },
    { 2, 96, 160, 3, 1, 64, 64, 49, 256, 1,
      Q40, Q40, Q40, Q40, Q40, Q40, Q40, Q80, 1e-6, 500000 },
    { 2, 64, 64, 4, 4, 24, 24, 33, 256, 0,      /* heads over tiles */
      Q41, Q80, Q40, Q41, Q80, Q41, Q40, Q41, 1e-5, 10000 },
    { 2, 50, 37, 5, 5, 6, 4, 33, 256, 1,        /* nothing is round */
      F32, F32, F32, F32, F32, F32, F32, F32, 1e-5, 10000 },
    { 2, 64, 72, 6, 2, 40, 40, 17, 256, 0,
      B16, F16, F32, B16, F16, B16, F16, B16, 1e-5, 10000 },
    { 1, 32, 64, 16, 1, 8, 8, 40, 256, 1,       /* one KV head for 16 */
      Q80, F16, Q41, Q80, F32, Q41, Q41, F16, 1e-5, 1000000 },
    { 1, 160, 32, 5, 5, 80, 80, 30, 256, 0,     /* odd number of tiles */
      Q41, Q41, Q41, F16, Q40, Q40, Q80, Q40, 1e-5, 10000 },
    { 1, 64, 32, 8, 1, 128, 64, 20, 256, 1,     /* part of a head turns */
      Q80, Q80, Q80, Q80, Q80, Q80, Q80, F32, 1e-5, 10000 },
    { 1, 32, 32, 64, 1, 2, 2, 20, 256, 0,       /* group beyond a unit */
      Q41, Q41, Q41, Q41, Q41, Q41, Q41, Q80, 1e-5, 10000 },
    { 2, 96, 160, 3, 1, 96, 96, 45, 256, 1,
      Q50, Q51, Q50, Q51, Q50, Q51, Q51, Q50, 1e-5, 10000 },
    { 2, 256, 512, 4, 2, 64, 64, 37, 256, 0,    /* super-blocks */
      Q4K, Q5K, Q6K, Q4K, Q5K, Q4K, Q6K, Q6K, 1e-5, 10000 }
};

#define TEST_SHAPES  (sizeof(shapes) / sizeof(*shapes))


static mst_model_t *
open_bytes(const mst_buf_t *b, const char *isa, uint32_t threads)
{
    mst_err_t         err = { "" };
    mst_gguf_t       *g;
    mst_model_t      *m;
    mst_model_conf_t  conf = {
        .threads = threads, .max_rows = 256, .max_seqs = TEST_SEQS,
        .isa = isa, .activations = activations, .kv_size = 64 << 20
    };

    g = mst_gguf_open_memory(b->data, b->len, "tiny", &err);
    assert_string_equal(err.text, "");
    m = model_of_gguf(g, &conf, &err);

    if (m == NULL) {
        mst_gguf_close(g);

        /* the one good reason: this machine is older */
        assert_non_null(strstr(err.text, "lacks the instruction set"));
    }

    return m;
}


static void
random_ids(uint32_t *ids, uint32_t n, uint32_t vocab, uint64_t seed)
{
    while (n--) {
        ids[n] = mst_tiny_random(&seed) % vocab;
    }
}


static void
reference_test(void **state)
{
    double           *want, diff, worst, top;
    size_t            i, k;
    test_t            t;
    uint32_t          ids[77];
    mst_buf_t         b;
    const float      *logits;
    mst_tiny_file_t   f;
    mst_batch_seq_t   q;

    (void) state;

    for (i = 0; i < TEST_SHAPES; i++) {
        mst_tiny_write(&shapes[i], 1000 + i, &f, &b);
        start(&t, open_bytes(&b, "c", 1));
        random_ids(ids, 77, shapes[i].vocab, i);

        q = seq_of(&t, 3, ids, 77, 0, MST_LOGITS_ALL);
        logits = step(&t, &q, 1);
        want = mst_tiny_reference(&shapes[i], &f, ids, 77);
        worst = 0;
        top = 0;

        for (k = 0; k < 77u * shapes[i].vocab; k++) {
            diff = fabs((double) logits[k] - want[k]);
            assert_true(diff >= 0);            /* no NaN */
            worst = diff > worst ? diff : worst;
            top = fabs(want[k]) > top ? fabs(want[k]) : top;
        }

        print_message("shape %zu: largest logit %.2f, error %.2g\n", i, top,
                      worst);
        assert_true(top > 0.1);
        assert_true(worst < 2e-5 * (top > 1 ? top : 1));

        free(want);
        mst_model_destroy(t.m);
        mst_buf_fini(&b);
        mst_buf_fini(&f.data);
    }
}


static void
bits_run(size_t each)
{
    int               filled;
    float             want[64];
    size_t            i, k;
    test_t            t;
    uint32_t          ids[100], threads;
    mst_buf_t         b;
    mst_model_t      *m;
    mst_tiny_file_t   f;

    for (i = 0; i < TEST_SHAPES; i += each) {
        mst_tiny_write(&shapes[i], 2000 + i, &f, &b);
        random_ids(ids, 100, shapes[i].vocab, 7 * i);
        filled = 0;

        for (k = 0; k < 3; k++) {
            for (threads = 1; threads <= 3; threads++) {

                /* more threads than cores, and portable C, are slow */

                if (threads == 3 ? i % 4 != 2 : k == 2 && threads % 2 == i % 2)
                {
                    continue;
                }

                if (TEST_SLOW && (i % 3 != 0 || (k == 2 && i != 3))) {
                    continue;
                }

                m = open_bytes(&b, isas[k], threads);

                if (m == NULL) {
                    print_message("no %s here\n", isas[k]);
                    continue;
                }

                start(&t, m);
                ways(&t, ids, 100, want, &filled,
                     k == 0 && threads == 2 && !TEST_SLOW ? 1 : 5);
                mst_model_destroy(m);
            }
        }

        mst_buf_fini(&b);
        mst_buf_fini(&f.data);
    }
}


static void
bits_test(void **state)
{
    (void) state;

    bits_run(1);
}


/* nor on threads of which there are as many as may be, or hardly any work for
   each */

static void
threads_test(void **state)
{
    float             want[64];
    size_t            i, k, size;
    test_t            t;
    uint32_t          ids[50];
    mst_buf_t         b;
    const float      *logits;
    mst_tiny_file_t   f;

    static const uint32_t  of[] = { 0, TEST_SHAPES - 1 };
    static const uint32_t  threads[] = { 1, 7, 64 };

    (void) state;

    for (i = 0; i < 2; i++) {
        mst_tiny_write(&shapes[of[i]], 3000 + i, &f, &b);
        random_ids(ids, 50, shapes[of[i]].vocab, 5 * i);

        for (k = 0; k < 3; k++) {
            start(&t, open_bytes(&b, NULL, threads[k]));
            size = t.vocab * sizeof(float);
            logits = prefill(&t, 0, ids, 50, 49);

            if (k == 0) {
                memcpy(want, logits, size);
            }

            assert_memory_equal(logits, want, size);
            assert_memory_equal(prefill(&t, 1, ids, 50, 50), want, size);
            mst_model_destroy(t.m);
        }

        mst_buf_fini(&b);
        mst_buf_fini(&f.data);
    }
}


/* what is inexact is so for everyone alike */

static void
bits_16_test(void **state)
{
    (void) state;

    activations = 16;
    bits_run(2);
    activations = 0;
}


/* an infinite weight in one token's embedding: that sequence is NaN, others
   in the batch and later users of its blocks are not */

static void
nan_test(void **state)
{
    float             bad, *want;
    size_t            k, size;
    test_t            t;
    uint32_t          i, ids[100], shape;
    mst_buf_t         b;
    mst_model_t      *m;
    const float      *logits;
    mst_batch_seq_t   q[2];
    mst_tiny_file_t   f;

    static const uint32_t  untied[] = { 3, 7 };

    (void) state;

    for (shape = 0; shape < 2; shape++) {
        mst_tiny_write(&shapes[untied[shape]], 5, &f, &b);
        bad = INFINITY;
        memcpy(b.data + b.len - f.data.len
               + 7 * shapes[untied[shape]].dim * 4, &bad, 4);
        random_ids(ids, 100, 7, 9);

        for (k = 0; k < 3; k++) {
            m = open_bytes(&b, isas[k], 2);

            if (m == NULL) {
                continue;
            }

            start(&t, m);
            size = t.vocab * sizeof(float);
            want = malloc(100 * size);
            q[0] = seq_of(&t, 0, ids, 100, 0, MST_LOGITS_ALL);
            memcpy(want, step(&t, q, 1), 100 * size);

            ids[40] = 7;
            q[0] = seq_of(&t, 1, ids, 100, 0, MST_LOGITS_ALL);
            logits = step(&t, q, 1);

            for (i = 0; i < 100 * t.vocab; i++) {
                if (i < 40 * t.vocab) {
                    assert_memory_equal(&logits[i], &want[i], 4);
                } else {
                    assert_true(isnan(logits[i]));
                }
            }

            /* the same blocks again, beside a sequence that is broken */

            ids[40] = 0;
            random_ids(ids, 100, 7, 9);
            memcpy(t.blocks[2], t.blocks[1], sizeof(t.blocks[2]));
            q[0] = seq_of(&t, 2, ids, 100, 0, MST_LOGITS_ALL);
            q[1] = seq_of(&t, 3, (uint32_t[]) { 7 }, 1, 0, MST_LOGITS_LAST);
            logits = step(&t, q, 2);
            assert_memory_equal(logits, want, 100 * size);
            assert_true(isnan(logits[100 * t.vocab]));

            free(want);
            mst_model_destroy(m);
        }

        mst_buf_fini(&b);
        mst_buf_fini(&f.data);
    }
}


static void
refused_test(void **state)
{
    test_t            t;
    uint32_t          i, ids[300] = { 0 }, wrong[1] = { 1u << 30 };
    mst_err_t         err;
    mst_buf_t         b;
    const float      *logits;
    mst_batch_t       batch;
    mst_batch_seq_t   q, two[2], many[TEST_SEQS + 1];
    mst_tiny_file_t   f;

    (void) state;

    mst_tiny_write(&shapes[0], 5, &f, &b);
    start(&t, open_bytes(&b, NULL, 1));

    mst_batch_seq_t  bad[] = {
        seq_of(&t, 0, ids, 0, 0, MST_LOGITS_LAST),
        seq_of(&t, 0, ids, 257, 0, MST_LOGITS_LAST),
        seq_of(&t, 0, ids, 1, 256, MST_LOGITS_LAST),
        seq_of(&t, 0, ids, 2, UINT32_MAX, MST_LOGITS_LAST),
        seq_of(&t, 0, (uint32_t[]) { 50 }, 1, 0, MST_LOGITS_LAST),
        { ids, 1, 0, wrong, MST_LOGITS_LAST, 0, 0 },
        { ids, 1, 0, t.blocks[0], MST_LOGITS_LAST, 0, 1 }
    };

    static const char *const  says[] = {
        "0 tokens of a sequence in a step that has room for 256",
        "257 tokens of a sequence in a step that has room for 256",
        "1 tokens at position 256, the context is 256",
        "2 tokens at position 4294967295, the context is 256",
        "token id 50, the vocabulary has 50",
        "KV block 1073741824, there are",
        "1 experts for a token, the model has 0"
    };

    for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        err.text[0] = '\0';
        batch = (mst_batch_t) { &bad[i], 1, bad[i].n };
        assert_int_equal(mst_forward(t.m, &batch, &logits, &err), MST_ERROR);
        assert_non_null(strstr(err.text, says[i]));
    }

    err.text[0] = '\0';
    two[0] = seq_of(&t, 0, ids, 200, 0, MST_LOGITS_NONE);
    two[1] = seq_of(&t, 1, ids, 57, 0, MST_LOGITS_NONE);
    batch = (mst_batch_t) { two, 2, 257 };
    assert_int_equal(mst_forward(t.m, &batch, &logits, &err), MST_ERROR);
    assert_string_equal(err.text, "57 tokens of a sequence in a step that "
                        "has room for 56");

    for (i = 0; i <= TEST_SEQS; i++) {
        many[i] = seq_of(&t, 0, ids, 1, 0, MST_LOGITS_NONE);
    }

    err.text[0] = '\0';
    batch = (mst_batch_t) { many, TEST_SEQS + 1, TEST_SEQS + 1 };
    assert_int_equal(mst_forward(t.m, &batch, &logits, &err), MST_ERROR);
    assert_string_equal(err.text, "17 sequences in a step, limits are 1 and "
                        "16");

    /* and it still computes */

    q = seq_of(&t, 0, ids, 1, 255, MST_LOGITS_LAST);
    logits = step(&t, &q, 1);
    assert_false(isnan(logits[0]));

    mst_model_destroy(t.m);
    mst_buf_fini(&b);
    mst_buf_fini(&f.data);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(reference_test),
        cmocka_unit_test(bits_test),
        cmocka_unit_test(threads_test),
        cmocka_unit_test(bits_16_test),
        cmocka_unit_test(nan_test),
        cmocka_unit_test(refused_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
