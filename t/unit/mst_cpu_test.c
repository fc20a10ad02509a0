
/*
 * The CPU backend as a whole: what it accepts, how large it makes the KV
 * pool, that it is quiet when idle, and that it fails cleanly.
 */

#include "mst_cpu_rig.h"

#include <time.h>
#include <unistd.h>

#include "base/mst_log.h"


static void
refused(mst_backend_conf_t *c, const char *want)
{
    mst_err_t       err = { "" };
    mst_backend_t  *b;

    b = mst_cpu_ops.create(c, &err);
    assert_null(b);
    assert_string_equal(err.text, want);
}


static void
refused_test(void **state)
{
    mst_backend_conf_t  c;

    (void) state;

    c = rig_conf(1);
    c.isa = "sse9";
    refused(&c, "instruction set \"sse9\" is not in this build, avx512, avx2 "
            "and c are");

    c = rig_conf(65);
    refused(&c, "65 threads, limits are 1 and 64");

    c = rig_conf(1);
    c.kv_type = MST_KV_BF16;
    refused(&c, "kv_cache bf16 is not computed on the CPU, f32, f16 and q8 "
            "are");
    c.kv_type = MST_KV_INT4;
    refused(&c, "kv_cache int4 is not computed on the CPU, f32, f16 and q8 "
            "are");

    c = rig_conf(1);
    c.activations = 17;
    refused(&c, "activations of 17 bits, the CPU computes with 16 and 22");

    /* one layer, two heads, 32 tokens of 16 keys and 16 values */

    c = rig_conf(1);
    c.kv_size = 8191;
    refused(&c, "kv_cache size of 8191 bytes is less than one block of 8192");
}


static uint32_t
blocks(mst_backend_conf_t *c)
{
    mst_backend_t       *b;
    mst_backend_info_t   info;

    b = rig_create(c);
    mst_cpu_ops.info(b, &info);
    mst_cpu_ops.destroy(b);
    assert_int_equal(info.block_tokens, 32);
    assert_int_equal(info.block_size, (uint64_t) c->n_layers * c->n_kv_heads
                                      * 32 * 4
                                      * (c->head_dim + (c->head_dim + 15) / 16
                                                       * 16));

    return info.n_blocks;
}


static void
pool_test(void **state)
{
    uint64_t             quarter;
    mst_backend_conf_t   c;

    (void) state;

    c = rig_conf(1);
    c.kv_size = 8192;
    assert_int_equal(blocks(&c), 1);
    c.kv_size = 100 * 8192 + 8191;
    assert_int_equal(blocks(&c), 100);

    /* every sequence of a step, and at least four whole contexts */

    c.kv_size = 0;
    assert_int_equal(blocks(&c), 8 * 1024 / 32);
    c.max_seqs = 2;
    assert_int_equal(blocks(&c), 4 * 1024 / 32);
    c.context = 1025;
    assert_int_equal(blocks(&c), 4 * 33);
    c.context = 8192;
    c.max_seqs = 64;
    assert_int_equal(blocks(&c), 64 * 2048 / 32);

    /* a quarter of the memory, but one context in any case */

    c.n_layers = 1000;
    c.n_kv_heads = 4;
    c.head_dim = 20;
    c.context = 128;
    c.max_seqs = 64;
    c.max_rows = 64;
    quarter = mst_cpu_mem_limit() / 4 / (1000 * 4 * 32 * 4 * 52);

    if (quarter < 64 * 4) {
        assert_int_equal(blocks(&c), quarter > 4 ? quarter : 4);
    }

    c.context = 1 << 20;
    assert_int_equal(blocks(&c), 1 << 15);
}


static void
line(void *data, mst_log_level_t level, const char *text)
{
    (void) level;

    if (strncmp(text, "cpu: ", 5) == 0) {
        strncpy(data, text, 255);
    }
}


static void
isa_test(void **state)
{
    char                 text[256] = { 0 };
    size_t               i;
    mst_log_t            log = { line, text, MST_LOG_DEBUG };
    mst_err_t            err = { "" };
    mst_backend_t       *b;
    mst_backend_conf_t   c;

    static const char *const  isas[] = { "avx512", "avx2", "c" };

    (void) state;

    for (i = 0; i < 3; i++) {
        c = rig_conf(2);
        c.isa = isas[i];
        c.log = &log;
        b = mst_cpu_ops.create(&c, &err);

        if (b == NULL) {
            assert_non_null(strstr(err.text, "lacks the instruction set"));
            err.text[0] = '\0';
            continue;
        }

        assert_non_null(strstr(text, isas[i]));
        assert_non_null(strstr(text, "2 threads, activations of 22 bits,"));
        mst_cpu_ops.destroy(b);
    }

    /* the best one and all cores by themselves */

    c = rig_conf(0);
    c.isa = NULL;
    b = rig_create(&c);
    assert_int_equal(b->threads, mst_cpu_pool_cores());
    assert_ptr_equal(b->isa, mst_cpu_avx512.supported() ? &mst_cpu_avx512
                             : mst_cpu_avx2.supported() ? &mst_cpu_avx2
                                                        : &mst_cpu_c);
    mst_cpu_ops.destroy(b);
}


static void
memory_test(void **state)
{
    long                 n;
    mst_err_t            err;
    mst_backend_t       *b;
    mst_backend_conf_t   c;

    (void) state;

    c = rig_conf(2);

    for (n = 1; /* void */ ; n++) {
        err.text[0] = '\0';
        mst_mem_fail_after(n);
        b = mst_cpu_ops.create(&c, &err);
        mst_mem_fail_after(0);

        if (b) {
            break;
        }

        assert_non_null(strstr(err.text, "out of memory"));
    }

    assert_true(n > 3);
    mst_cpu_ops.destroy(b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(refused_test),
        cmocka_unit_test(pool_test),
        cmocka_unit_test(isa_test),
        cmocka_unit_test(memory_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
