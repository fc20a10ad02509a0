
/*
 * Loading a model: what it says about itself, what it refuses, and that a
 * failure at any point leaves nothing behind.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "model/mst_forward.h"
#include "mst_tiny.h"
#include "mst_model_gguf.h"

#define TEST_MODEL  "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"


static const mst_tiny_t  shape = {
    2, 64, 96, 4, 2, 16, 16, 50, 256, 1,
    MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q4_1,
    MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q4_1, MST_TYPE_Q8_0, 1e-5, 10000
};


typedef struct {
    mst_tiny_file_t  file;
    mst_buf_t        bytes;
} tiny_t;


static void
tiny_open(tiny_t *t)
{
    mst_tiny_write(&shape, 77, &t->file, &t->bytes);
}


static void
tiny_close(tiny_t *t)
{
    mst_buf_fini(&t->bytes);
    mst_buf_fini(&t->file.data);
}


/* the model, or NULL with the sentence in err */

static mst_model_t *
load(const mst_buf_t *b, const mst_model_conf_t *conf, mst_err_t *err)
{
    mst_gguf_t   *g;
    mst_model_t  *m;

    err->text[0] = '\0';
    g = mst_gguf_open_memory(b->data, b->len, "tiny", err);
    assert_non_null(g);
    m = model_of_gguf(g, conf, err);

    if (m == NULL) {
        mst_gguf_close(g);                     /* stayed ours */
    }

    return m;
}


static void
info_test(void **state)
{
    tiny_t                    t;
    mst_err_t                 err;
    mst_model_t              *m;
    mst_model_conf_t          conf = { .threads = 1, .max_rows = 32,
                                       .max_seqs = 4, .kv_size = 10 * 16384 };
    const mst_model_info_t   *info;

    (void) state;

    tiny_open(&t);
    m = load(&t.bytes, &conf, &err);
    assert_non_null(m);
    info = mst_model_info(m);
    assert_int_equal(info->n_vocab, 50);
    assert_int_equal(info->context, 256);      /* 0: the model's */
    assert_int_equal(info->block_tokens, 32);
    assert_int_equal(info->block_size, 2 * 2 * 32 * (16 + 16) * 4);
    assert_int_equal(info->n_blocks, 10);

    /* rows fill tiles but for 50 tokens, which fill four: twice 64 rows; and
       the head's copy */

    assert_int_equal(info->weight_size, 2 * 30720 / 32 * 20
                                        + 2 * 64 * 64 / 32 * 34 + 5 * 64 * 4
                                        + 4 * 896);
    mst_model_destroy(m);

    conf.context = 100;
    m = load(&t.bytes, &conf, &err);
    assert_non_null(m);
    assert_int_equal(mst_model_info(m)->context, 100);
    mst_model_destroy(m);

    conf.context = 1000;
    m = load(&t.bytes, &conf, &err);
    assert_non_null(m);
    assert_int_equal(mst_model_info(m)->context, 256);
    mst_model_destroy(m);
    mst_model_destroy(NULL);
    tiny_close(&t);
}


static void
refused_test(void **state)
{
    char              *p;
    size_t             i;
    tiny_t             t;
    mst_err_t          err;

    static const struct {
        mst_model_conf_t  conf;
        const char       *text;
    } cases[] = {
        { { .threads = 1, .max_rows = 0, .max_seqs = 1 },
          "a step of 0 tokens for 1 sequences, limits are 1 to 65536 tokens "
          "and a token for each sequence" },
        { { .threads = 1, .max_rows = 65537, .max_seqs = 1 },
          "a step of 65537 tokens for 1 sequences, limits are 1 to 65536 "
          "tokens and a token for each sequence" },
        { { .threads = 1, .max_rows = 8, .max_seqs = 9 },
          "a step of 8 tokens for 9 sequences, limits are 1 to 65536 tokens "
          "and a token for each sequence" },
        { { .threads = 99, .max_rows = 8, .max_seqs = 8 },
          "99 threads, limits are 1 and 64" },
        { { .threads = 1, .max_rows = 8, .max_seqs = 8,
            .kv_type = MST_KV_FP8 },
          "kv_cache fp8 is not computed on the CPU, f32, f16 and q8 are" },
        { { .threads = 1, .max_rows = 8, .max_seqs = 8, .isa = "neon" },
          "instruction set \"neon\" is not in this build, avx512, avx2 and c "
          "are" }
    };

    (void) state;

    tiny_open(&t);

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_null(load(&t.bytes, &cases[i].conf, &err));
        assert_string_equal(err.text, cases[i].text);
    }

    /* what mst_check.h refuses: one case, that it is asked */

    p = memmem(t.bytes.data, t.bytes.len, "blk.1.ffn_up.weight", 19);
    assert_non_null(p);
    p[4] = '7';
    assert_null(load(&t.bytes, &(mst_model_conf_t) { .threads = 1,
                     .max_rows = 8, .max_seqs = 8 }, &err));
    assert_non_null(strstr(err.text, "blk.7.ffn_up.weight"));
    tiny_close(&t);
}


static void
memory_test(void **state)
{
    long               n;
    tiny_t             t;
    mst_err_t          err = { "" };
    mst_gguf_t        *g;
    mst_model_t       *m;
    mst_model_conf_t   conf = { .threads = 2, .max_rows = 8, .max_seqs = 8,
                                .kv_size = 1 << 20 };

    (void) state;

    tiny_open(&t);
    g = mst_gguf_open_memory(t.bytes.data, t.bytes.len, "tiny", &err);
    assert_non_null(g);

    for (n = 1; /* void */ ; n++) {
        err.text[0] = '\0';
        mst_mem_fail_after(n);
        m = model_of_gguf(g, &conf, &err);
        mst_mem_fail_after(0);

        if (m) {
            break;
        }

        assert_non_null(strstr(err.text, "memory"));
    }

    print_message("%ld allocations\n", n - 1);
    assert_true(n > 10);
    mst_model_destroy(m);
    tiny_close(&t);
}


static void
real_test(void **state)
{
    double                    seconds;
    mst_err_t                 err = { "" };
    mst_gguf_t               *g;
    mst_model_t              *m;
    mst_model_conf_t          conf = { .max_rows = 512, .max_seqs = 16 };
    const mst_model_info_t   *info;

    (void) state;

    g = mst_gguf_open(TEST_MODEL, &err);

    if (g == NULL) {
        fail_msg("%s (\"make model\" fetches it)", err.text);
    }

    seconds = (double) mst_time_ns() * 1e-9;
    m = model_of_gguf(g, &conf, &err);
    seconds = (double) mst_time_ns() * 1e-9 - seconds;
    assert_string_equal(err.text, "");
    assert_non_null(m);

    info = mst_model_info(m);
    print_message("loaded in %.3f s, %llu bytes of weights\n", seconds,
                  (unsigned long long) info->weight_size);
    assert_int_equal(info->n_vocab, 49152);
    assert_int_equal(info->context, 8192);

    /* no growth: what the tensors have in the file; and the head's copy, of
       368 bytes for 16 rows and 32 inputs, 160 beside */

    assert_int_equal(info->weight_size, 106168320 / 32 * 20
                                        + 49152 * 576 / 32 * 34
                                        + 61 * 576 * 4
                                        + 49152 / 16 * (18 * 368 + 160));
    assert_true(info->n_blocks >= 256);
    mst_model_destroy(m);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(info_test),
        cmocka_unit_test(refused_test),
        cmocka_unit_test(memory_test),
        cmocka_unit_test(real_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
