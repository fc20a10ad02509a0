
/*
 * Mistral's params.json.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "model/mst_config.h"

#include "mst_faults.h"

#define BASE  "\"dim\":64,\"n_layers\":4,\"head_dim\":32,\"hidden_dim\":96," \
              "\"n_heads\":4,\"n_kv_heads\":2,\"vocab_size\":320,"           \
              "\"norm_eps\":1e-5"


static int
load(const char *extra, mst_config_t *c, mst_err_t *err)
{
    char  text[2048];
    int   len;

    len = snprintf(text, sizeof(text), "{" BASE "%s}", extra);
    err->text[0] = '\0';

    return mst_config_params(text, (size_t) len, "p", c, NULL, err);
}


static void
test_values(void **state)
{
    mst_err_t     err;
    mst_config_t  c;

    (void) state;

    assert_int_equal(load(",\"rope_theta\":1e6", &c, &err), MST_OK);
    assert_int_equal(c.dim, 64);
    assert_int_equal(c.head_dim, 32);
    assert_int_equal(c.half_split, 0);
    assert_int_equal(c.context, 32768);
    assert_true(c.rope.base == 1e6);
    assert_int_equal(c.n_experts, 0);

    assert_int_equal(load(",\"rope_theta\":1e6,\"max_seq_len\":1024,"
                          "\"moe\":{\"num_experts\":8,"
                          "\"num_experts_per_tok\":2},"
                          "\"sliding_window\":[64,null]", &c, &err), MST_OK);
    assert_int_equal(c.context, 1024);
    assert_int_equal(c.n_experts, 8);
    assert_int_equal(c.windows[0], 64);
    assert_int_equal(c.windows[1], 0);
    assert_int_equal(c.windows[2], 64);

    assert_int_equal(load(",\"rope_theta\":1e6,\"sliding_window\":4096", &c,
                          &err), MST_OK);
    assert_int_equal(c.windows[3], 4096);

    assert_int_equal(load(",\"rope_theta\":1e6,\"yarn\":{\"factor\":16,"
                          "\"original_max_position_embeddings\":8192,"
                          "\"beta\":24,\"alpha\":2,\"apply_scale\":false},"
                          "\"llama_4_scaling\":{\"beta\":0.1,"
                          "\"original_max_position_embeddings\":8192}", &c,
                          &err), MST_OK);
    assert_int_equal(c.rope.kind, MST_ROPE_YARN);
    assert_true(c.rope.attention == 1);
    assert_true(c.rope.beta_fast == 24);
    assert_true(c.rope.beta_slow == 2);
    assert_true(c.temp_beta == 0.1);
    assert_int_equal(c.temp_length, 8192);

    assert_int_equal(load(",\"rope_theta\":1e6,\"yarn\":{\"factor\":16,"
                          "\"original_max_position_embeddings\":8192}", &c,
                          &err), MST_OK);
    assert_true(c.rope.attention == mst_rope_mscale(16, 1));
}


static void
test_refused(void **state)
{
    size_t        i;
    mst_err_t     err;
    mst_config_t  c;

    static const struct {
        const char  *extra;
        const char  *text;
    } cases[] = {
        { "", "rope_theta is missing" },
        { ",\"rope_theta\":1e6,\"quantization\":{}", "quantization" },
        { ",\"rope_theta\":1e6,\"yarn\":{\"factor\":2}", "yarn needs" },
        { ",\"rope_theta\":1e6,\"llama_4_scaling\":{\"beta\":1}",
          "llama_4_scaling needs" },
        { ",\"rope_theta\":1e6,\"sliding_window\":[1,2,3]",
          "3 entries, which do not repeat into 4" },
        { ",\"rope_theta\":1e6,\"sliding_window\":\"x\"", "sliding_window" },
        { ",\"rope_theta\":1e6,\"moe\":{\"num_experts\":8}",
          "num_experts_per_tok is missing" },
        { ",\"rope_theta\":1e6,\"n_layers\":5000", "n_layers is 5000" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(load(cases[i].extra, &c, &err), MST_ERROR);

        if (strstr(err.text, cases[i].text) == NULL) {
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text,
                     cases[i].text);
        }
    }
}


static void
test_faults(void **state)
{
    told_t        told;
    mst_err_t     err = { "" };
    mst_config_t  c;

    static const char  bad[] =
        "{\"dim\":64,\"n_layers\":4,\"hidden_dim\":\"a\",\"n_kv_heads\":0,"
        "\"vocab_size\":320,\"head_dim\":32,\"sliding_window\":[1,2,3],"
        "\"quantization\":{},\"moe\":{\"num_experts\":4}}";

    (void) state;

    assert_int_equal(mst_config_params(bad, sizeof(bad) - 1, "p", &c,
                                       told_init(&told), &err), MST_ERROR);
    assert_string_equal(err.text, "");
    assert_string_equal(told.text,
        "p: quantization is not supported: weights are read as BF16, F16 or "
        "F32\n"
        "p: hidden_dim is no integer\n"
        "p: n_heads is missing\n"
        "p: n_kv_heads is 0, limits are 1 and 1024\n"
        "p: norm_eps is missing\n"
        "p: rope_theta is missing, and programs disagree about what it then "
        "is: add it\n"
        "p: num_experts_per_tok is missing\n");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_faults)
    };

    return cmocka_run_group_tests_name("mst_config_params", tests, NULL,
                                       NULL);
}
