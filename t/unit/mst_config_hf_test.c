
/*
 * config.json in both spellings, and what is refused.
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

#define BASE  "\"hidden_size\":64,\"intermediate_size\":96,"                 \
              "\"num_hidden_layers\":2,\"num_attention_heads\":4,"           \
              "\"vocab_size\":320,\"max_position_embeddings\":128,"


static int
load(const char *extra, mst_config_t *c, mst_err_t *err)
{
    char  text[2048];
    int   len;

    len = snprintf(text, sizeof(text), "{" BASE "%s}", extra);
    err->text[0] = '\0';

    return mst_config_hf(text, (size_t) len, "c", c, NULL, err);
}


static void
test_defaults(void **state)
{
    mst_err_t     err;
    mst_config_t  c;

    (void) state;

    assert_int_equal(load("\"model_type\":\"llama\"", &c, &err), MST_OK);
    assert_int_equal(c.n_layers, 2);
    assert_int_equal(c.dim, 64);
    assert_int_equal(c.ff_dim, 96);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.rope_dim, 16);
    assert_int_equal(c.n_vocab, 320);
    assert_int_equal(c.context, 128);
    assert_int_equal(c.half_split, 1);
    assert_int_equal(c.tied, 0);
    assert_true(c.rms_eps == 1e-6f);
    assert_true(c.rope.base == 1e4);

    /* a key that is absent is another thing than null */

    assert_int_equal(load("\"model_type\":\"mistral\",\"rope_theta\":1e6,"
                          "\"max_position_embeddings\":8192,"
                          "\"num_key_value_heads\":2", &c, &err), MST_OK);
    assert_int_equal(c.windows[0], 4096);
    assert_int_equal(c.windows[1], 4096);

    assert_int_equal(load("\"model_type\":\"mistral\",\"rope_theta\":1e6,"
                          "\"sliding_window\":null,\"head_dim\":null,"
                          "\"num_key_value_heads\":2", &c, &err), MST_OK);
    assert_int_equal(c.windows[0], 0);
    assert_int_equal(c.head_dim, 16);
    assert_true(c.rope.base == 1e6);
}


static void
test_rope(void **state)
{
    mst_err_t     err;
    mst_config_t  c;

    (void) state;

    /* version 5, then version 4 of the same */

    assert_int_equal(load("\"model_type\":\"llama\",\"rope_parameters\":{"
                          "\"rope_type\":\"llama3\",\"rope_theta\":500000,"
                          "\"factor\":8,\"low_freq_factor\":1,"
                          "\"high_freq_factor\":4,"
                          "\"original_max_position_embeddings\":32}", &c,
                          &err), MST_OK);
    assert_int_equal(c.rope.kind, MST_ROPE_LLAMA3);
    assert_true(c.rope.base == 500000);
    assert_true(c.rope.factor == 8);
    assert_true(c.rope.original == 32);

    assert_int_equal(load("\"model_type\":\"llama\",\"rope_theta\":500000,"
                          "\"rope_scaling\":{\"type\":\"linear\","
                          "\"factor\":4}", &c, &err), MST_OK);
    assert_int_equal(c.rope.kind, MST_ROPE_LINEAR);
    assert_true(c.rope.factor == 4);
    assert_int_equal(c.context, 128);

    assert_int_equal(load("\"model_type\":\"llama\",\"rope_scaling\":{"
                          "\"type\":\"dynamic\",\"factor\":2}", &c, &err),
                     MST_OK);
    assert_int_equal(c.rope.kind, MST_ROPE_DYNAMIC);
    assert_true(c.rope.original == 128);
    assert_int_equal(c.context, 256);

    assert_int_equal(load("\"model_type\":\"ministral3\",\"head_dim\":16,"
                          "\"num_key_value_heads\":2,\"rope_parameters\":{"
                          "\"rope_type\":\"yarn\",\"rope_theta\":1e6,"
                          "\"factor\":4,\"mscale\":1,\"mscale_all_dim\":1,"
                          "\"llama_4_scaling_beta\":0.1,"
                          "\"original_max_position_embeddings\":32}", &c,
                          &err), MST_OK);
    assert_int_equal(c.rope.kind, MST_ROPE_YARN);
    assert_true(c.rope.attention == 1);
    assert_true(c.rope.beta_fast == 32);
    assert_true(c.temp_beta == 0.1);
    assert_int_equal(c.temp_length, 32);

    assert_int_equal(load("\"model_type\":\"llama\",\"rope_scaling\":{"
                          "\"rope_type\":\"yarn\",\"factor\":4}", &c, &err),
                     MST_OK);
    assert_true(c.rope.attention == mst_rope_mscale(4, 1));
    assert_true(c.rope.original == 128);
}


static void
test_layers(void **state)
{
    mst_err_t     err;
    mst_config_t  c;

    (void) state;

    assert_int_equal(load("\"model_type\":\"ministral\",\"rope_theta\":1e6,"
                          "\"num_key_value_heads\":2,\"sliding_window\":16,"
                          "\"layer_types\":[\"full_attention\","
                          "\"sliding_attention\"],\"eos_token_id\":[2,7]", &c,
                          &err), MST_OK);
    assert_int_equal(c.windows[0], 0);
    assert_int_equal(c.windows[1], 16);
    assert_int_equal(c.n_stop, 2);
    assert_int_equal(c.stop_ids[1], 7);

    assert_int_equal(load("\"model_type\":\"mixtral\",\"num_local_experts\":4,"
                          "\"num_key_value_heads\":2", &c, &err), MST_OK);
    assert_int_equal(c.n_experts, 4);
    assert_int_equal(c.n_used, 2);

    assert_int_equal(load("\"model_type\":\"llama\",\"attention_bias\":true,"
                          "\"mlp_bias\":true,\"tie_word_embeddings\":true", &c,
                          &err), MST_OK);
    assert_int_equal(c.attn_bias, 1);
    assert_int_equal(c.out_bias, 1);
    assert_int_equal(c.mlp_bias, 1);
    assert_int_equal(c.tied, 1);

    /* the text part of a multimodal one */

    static const char  multi[] =
        "{\"architectures\":[\"Mistral3ForConditionalGeneration\"],"
        "\"model_type\":\"mistral3\",\"tie_word_embeddings\":true,"
        "\"vision_config\":{},\"text_config\":{" BASE
        "\"model_type\":\"mistral\",\"rope_theta\":1e9,"
        "\"num_key_value_heads\":2,\"sliding_window\":null}}";

    err.text[0] = '\0';
    assert_int_equal(mst_config_hf(multi, sizeof(multi) - 1, "c", &c, NULL,
                                   &err),
                     MST_OK);
    assert_true(c.rope.base == 1e9);
    assert_int_equal(c.tied, 1);
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
        { "\"x\":1", "model_type \"\" is not supported" },
        { "\"model_type\":\"gpt2\"", "model_type \"gpt2\"" },
        { "\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequence"
          "Classification\"]", "LlamaForSequenceClassification" },
        { "\"model_type\":\"llama\",\"hidden_act\":\"gelu\"", "hidden_act" },
        { "\"model_type\":\"llama\",\"quantization_config\":{"
          "\"quant_method\":\"awq\"}", "quantization_config \"awq\"" },
        { "\"model_type\":\"mistral\"", "rope_theta is missing" },
        { "\"model_type\":\"llama\",\"num_hidden_layers\":0",
          "num_hidden_layers is 0, limits are 1 and 1024" },
        { "\"model_type\":\"llama\",\"num_hidden_layers\":\"2\"",
          "num_hidden_layers is no integer" },
        { "\"model_type\":\"llama\",\"rms_norm_eps\":0", "epsilon" },
        { "\"model_type\":\"llama\",\"num_key_value_heads\":3",
          "no multiple of 3" },
        { "\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"su\","
          "\"factor\":2}", "rope_type \"su\"" },
        { "\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\"}",
          "no factor" },
        { "\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\","
          "\"factor\":\"2\"}", "factor" },
        { "\"model_type\":\"llama\",\"partial_rotary_factor\":0.5",
          "partial_rotary_factor" },
        { "\"model_type\":\"llama\",\"eos_token_id\":320", "eos_token_id" },
        { "\"model_type\":\"ministral\",\"rope_theta\":1e6,"
          "\"num_key_value_heads\":2,\"layer_types\":[\"full_attention\"]",
          "layer_types has 1 entries for 2" },
        { "\"model_type\":\"mixtral\",\"num_key_value_heads\":2,"
          "\"num_local_experts\":4,\"num_experts_per_tok\":5",
          "5 of 4 experts" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(load(cases[i].extra, &c, &err), MST_ERROR);

        if (strncmp(err.text, "c: ", 3) != 0
            || strstr(err.text, cases[i].text) == NULL)
        {
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text,
                     cases[i].text);
        }
    }

    err.text[0] = '\0';
    assert_int_equal(mst_config_hf("[1]", 3, "c", &c, NULL, &err), MST_ERROR);
    assert_non_null(strstr(err.text, "c: no JSON object"));
}


/* who listens hears all of them, and nothing that is only their consequence */

static void
test_faults(void **state)
{
    told_t        told;
    mst_err_t     err = { "" };
    mst_config_t  c;

    static const char  bad[] =
        "{\"model_type\":\"mistral\",\"architectures\":[\"GPT2LMHeadModel\"],"
        "\"hidden_act\":\"gelu\",\"partial_rotary_factor\":0.5,"
        "\"num_hidden_layers\":0,\"intermediate_size\":96,"
        "\"num_attention_heads\":\"4\",\"eos_token_id\":7,"
        "\"max_position_embeddings\":128,\"head_dim\":true,"
        "\"quantization_config\":{\"quant_method\":\"gptq\"},"
        "\"layer_types\":[\"full_attention\"]}";
    static const char  good[] =
        "{\"model_type\":\"llama\"," BASE "\"eos_token_id\":7}";

    (void) state;

    assert_int_equal(mst_config_hf(bad, sizeof(bad) - 1, "c", &c,
                                   told_init(&told), &err), MST_ERROR);
    assert_string_equal(err.text, "");
    assert_string_equal(told.text,
        "c: architecture \"GPT2LMHeadModel\" is not supported for model_type "
        "\"mistral\", MistralForCausalLM is\n"
        "c: quantization_config \"gptq\" is not supported: weights are read as "
        "BF16, F16 or F32\n"
        "c: hidden_act \"gelu\" is not supported, silu is\n"
        "c: partial_rotary_factor 0.5 is not supported\n"
        "c: num_hidden_layers is 0, limits are 1 and 1024\n"
        "c: hidden_size is missing\n"
        "c: num_attention_heads is no integer\n"
        "c: vocab_size is missing\n"
        "c: head_dim is no integer\n"
        "c: rope_theta is missing\n");
    assert_int_equal(told.faults.n, 10);

    assert_int_equal(mst_config_hf(good, sizeof(good) - 1, "c", &c,
                                   told_init(&told), &err), MST_OK);
    assert_int_equal(told.faults.n, 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_faults)
    };

    return cmocka_run_group_tests_name("mst_config_hf", tests, NULL, NULL);
}
