
#include "mst_gguf_build.h"
#include "model/mst_config.h"

#include "mst_faults.h"

#define MODEL  "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"


/* what a case changes; "absent" keys are left out */

typedef struct {
    const char   *absent;
    void        (*add)(build_t *b);
    const char   *text;        /* the sentence, or NULL: it is good */
} case_t;


static void
number(build_t *b, const char *absent, const char *key, uint32_t v)
{
    if (absent == NULL || strcmp(absent, key) != 0) {
        build_u32(b, key, v);
    }
}


static void
real(build_t *b, const char *absent, const char *key, float f)
{
    if (absent == NULL || strcmp(absent, key) != 0) {
        build_f32(b, key, f);
    }
}


/* 2 layers of width 96, 6 heads, 2 of keys, 100 tokens */

static void
base(build_t *b, const char *absent)
{
    if (absent == NULL || strcmp(absent, "general.architecture") != 0) {
        build_string(b, "general.architecture", "llama");
    }

    number(b, absent, "llama.block_count", 2);
    number(b, absent, "llama.embedding_length", 96);
    number(b, absent, "llama.feed_forward_length", 160);
    number(b, absent, "llama.attention.head_count", 6);
    number(b, absent, "llama.attention.head_count_kv", 2);
    number(b, absent, "llama.context_length", 4096);
    real(b, absent, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    real(b, absent, "llama.rope.freq_base", 10000);

    if (absent == NULL || strcmp(absent, "token_embd.weight") != 0) {
        build_tensor(b, "token_embd.weight", MST_TYPE_F32, 96, 100);
    }
}


static void
layers_0(build_t *b)
{
    build_u32(b, "llama.block_count", 0);
}


static void
layers_many(build_t *b)
{
    build_number(b, "llama.block_count", MST_GGUF_U64, 1ull << 32, 8);
}


static void
layers_negative(build_t *b)
{
    build_number(b, "llama.block_count", MST_GGUF_I32, UINT32_MAX, 4);
}


static void
layers_text(build_t *b)
{
    build_string(b, "llama.block_count", "2");
}


static void
heads_split(build_t *b)
{
    build_u32(b, "llama.attention.head_count", 7);
}


static void
heads_uneven(build_t *b)
{
    build_u32(b, "llama.attention.head_count_kv", 4);
}


static void
heads_per_layer(build_t *b)
{
    build_array(b, "llama.attention.head_count_kv", MST_GGUF_U32, 1);
    build_le(&b->keys, 2, 4);
}


static void
key_length(build_t *b)
{
    build_u32(b, "llama.attention.key_length", 64);
    build_u32(b, "llama.attention.value_length", 64);
}


static void
key_length_odd(build_t *b)
{
    build_u32(b, "llama.attention.key_length", 15);
    build_u32(b, "llama.attention.value_length", 15);
}


static void
value_length(build_t *b)
{
    build_u32(b, "llama.attention.value_length", 32);
}


static void
rope_half(build_t *b)
{
    build_u32(b, "llama.rope.dimension_count", 8);
}


static void
rope_odd(build_t *b)
{
    build_u32(b, "llama.rope.dimension_count", 7);
}


static void
rope_wide(build_t *b)
{
    build_u32(b, "llama.rope.dimension_count", 32);
}


static void
rope_none(build_t *b)
{
    build_string(b, "llama.rope.scaling.type", "none");
}


static void
rope_linear_1(build_t *b)
{
    build_string(b, "llama.rope.scaling.type", "linear");
    build_f32(b, "llama.rope.scaling.factor", 1);
}


static void
rope_linear_2(build_t *b)
{
    build_string(b, "llama.rope.scaling.type", "linear");
    build_f32(b, "llama.rope.scaling.factor", 2);
}


static void
rope_yarn(build_t *b)
{
    build_string(b, "llama.rope.scaling.type", "yarn");
}


static void
rope_old(build_t *b)
{
    build_f32(b, "llama.rope.scale_linear", 4);
}


static void
rope_freqs(build_t *b)
{
    build_tensor(b, "rope_freqs.weight", MST_TYPE_F32, 8, 0);
}


static void
rope_base_nan(build_t *b)
{
    build_number(b, "llama.rope.freq_base", MST_GGUF_F32, 0x7fc00000, 4);
}


static void
rope_base_int(build_t *b)
{
    build_u32(b, "llama.rope.freq_base", 10000);
}


static void
eps_0(build_t *b)
{
    build_f32(b, "llama.attention.layer_norm_rms_epsilon", 0);
}


static void
experts(build_t *b)
{
    build_u32(b, "llama.expert_count", 8);
}


static void
experts_2(build_t *b)
{
    build_u32(b, "llama.expert_count", 8);
    build_u32(b, "llama.expert_used_count", 2);
}


static void
rope_strange(build_t *b)
{
    build_string(b, "llama.rope.scaling.type", "longrope");
}


static void
rope_small(build_t *b)
{
    build_f32(b, "llama.rope.scale_linear", 0.5f);
}


static void
experts_0(build_t *b)
{
    build_u32(b, "llama.expert_count", 0);
}


static void
window(build_t *b)
{
    build_u32(b, "llama.attention.sliding_window", 1024);
}


static void
window_wide(build_t *b)
{
    build_u32(b, "llama.attention.sliding_window", 4096);
}


static void
window_pattern(build_t *b)
{
    build_array(b, "llama.attention.sliding_window_pattern", MST_GGUF_BOOL, 2);
    build_le(&b->keys, 1, 2);
}


static void
yarn_ext(build_t *b)
{
    build_f32(b, "llama.rope.scaling.yarn_ext_factor", 0.5f);
}


static void
not_causal(build_t *b)
{
    build_number(b, "llama.attention.causal", MST_GGUF_BOOL, 0, 1);
}


static void
temperature(build_t *b)
{
    build_f32(b, "llama.attention.temperature_scale", 0.1f);
}


static void
vocab_other(build_t *b)
{
    build_u32(b, "llama.vocab_size", 99);
}


static void
vocab_same(build_t *b)
{
    build_u32(b, "llama.vocab_size", 100);
}


static void
vocab_tokens(build_t *b)
{
    int  i;

    build_array(b, "tokenizer.ggml.tokens", MST_GGUF_STRING, 101);

    for (i = 0; i < 101; i++) {
        build_text(&b->keys, "");
    }
}


static void
vocab_one(build_t *b)
{
    build_tensor(b, "token_embd.weight", MST_TYPE_F32, 96, 1);
}


static void
mistral3(build_t *b)
{
    build_string(b, "general.architecture", "mistral3");
}


static const case_t  cases[] = {
    { NULL, NULL, NULL },
    { "llama.attention.head_count_kv", NULL, NULL },
    { NULL, key_length, NULL },
    { NULL, rope_half, NULL },
    { NULL, rope_none, NULL },
    { NULL, rope_linear_1, NULL },
    { NULL, experts_0, NULL },
    { NULL, window_wide, NULL },
    { NULL, vocab_same, NULL },

    { "general.architecture", NULL, "general.architecture is missing" },
    { "general.architecture", mistral3, "mistral3.block_count is missing" },
    { "llama.block_count", NULL, "llama.block_count is missing" },
    { "llama.embedding_length", NULL, "llama.embedding_length is missing" },
    { "llama.feed_forward_length", NULL,
      "llama.feed_forward_length is missing" },
    { "llama.attention.head_count", NULL,
      "llama.attention.head_count is missing" },
    { "llama.context_length", NULL, "llama.context_length is missing" },
    { "llama.attention.layer_norm_rms_epsilon", NULL,
      "llama.attention.layer_norm_rms_epsilon is missing" },
    { "llama.rope.freq_base", NULL, "llama.rope.freq_base is missing" },
    { "token_embd.weight", NULL, "tensor \"token_embd.weight\" is missing" },

    { "llama.block_count", layers_0,
      "llama.block_count is 0, limits are 1 and 1024" },
    { "llama.block_count", layers_many,
      "llama.block_count is 4294967296, limits are 1 and 1024" },
    { "llama.block_count", layers_negative,
      "llama.block_count is -1, below 0" },
    { "llama.block_count", layers_text,
      "llama.block_count has type STRING, an integer is needed" },
    { "llama.attention.head_count", heads_split,
      "7 heads of queries are no multiple of 2 heads of keys" },
    { "llama.attention.head_count_kv", heads_uneven,
      "6 heads of queries are no multiple of 4 heads of keys" },
    { "llama.attention.head_count_kv", heads_per_layer,
      "llama.attention.head_count_kv has type ARRAY, an integer is needed" },
    { NULL, key_length_odd, "rotation of 15 and heads of 15 must be even, "
      "the first not the larger" },
    { NULL, value_length, "llama.attention.value_length 32 other than the "
      "keys' 16 is not supported yet" },
    { NULL, rope_odd, "rotation of 7 and heads of 16 must be even, the first "
      "not the larger" },
    { NULL, rope_wide, "rotation of 32 and heads of 16 must be even, the first "
      "not the larger" },
    { NULL, rope_linear_2, NULL },
    { NULL, rope_yarn, NULL },
    { NULL, rope_old, NULL },
    { NULL, rope_freqs, NULL },
    { NULL, rope_strange, "llama.rope.scaling.type is \"longrope\": such rope "
      "scaling is not supported yet, linear and yarn are" },
    { NULL, rope_small, "rope factor is 0.5, limits are 1 and 1024" },
    { "llama.rope.freq_base", rope_base_nan,
      "llama.rope.freq_base is nan, limits are 1 and 1e+12" },
    { "llama.rope.freq_base", rope_base_int,
      "llama.rope.freq_base has type U32, F32 or F64 is needed" },
    { "llama.attention.layer_norm_rms_epsilon", eps_0,
      "llama.attention.layer_norm_rms_epsilon is 0, limits are 1e-12 and "
      "0.1" },
    { NULL, experts, "0 of 8 experts are no mixture" },
    { NULL, experts_2, NULL },
    { NULL, window, NULL },
    { NULL, window_pattern, "llama.attention.sliding_window_pattern: windows "
      "of some layers only are not supported in GGUF yet" },
    { NULL, yarn_ext, "llama.rope.scaling.yarn_ext_factor is 0.5: another mix "
      "of YaRN is not supported yet" },
    { NULL, not_causal, "llama.attention.causal is false: such a model does "
      "not generate text" },
    { NULL, temperature, "scaling of attention's temperature by 0.1 from 0 "
      "tokens on is not supported" },
    { NULL, vocab_other, "llama.vocab_size is 99, limits are 100 and 100" },
    { NULL, vocab_tokens, "tokenizer.ggml.tokens has 101 entries, "
      "token_embd.weight has 100 rows" },
    { "token_embd.weight", vocab_one, "token_embd.weight has 1 rows, limits "
      "are 2 and 4194304" }
};


static void
test_cases(void **state)
{
    char           want[512];
    size_t         i;
    told_t         told;
    build_t        b;
    mst_err_t      err;
    mst_gguf_t    *g;
    mst_config_t   c;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        build_init(&b);
        base(&b, cases[i].absent);

        if (cases[i].add) {
            cases[i].add(&b);
        }

        g = build_open(&b);
        err.text[0] = '\0';

        if (mst_config_gguf(g, &c, NULL, &err) == MST_OK) {
            if (cases[i].text) {
                fail_msg("case %zu is good, expected \"%s\"", i,
                         cases[i].text);
            }

            assert_string_equal(err.text, "");

        } else {
            (void) snprintf(want, sizeof(want), "test.gguf: %s",
                            cases[i].text ? cases[i].text : "nothing");
            assert_string_equal(err.text, want);
            assert_int_equal(mst_config_gguf(g, &c, NULL, NULL), MST_ERROR);

            /* who would hear more hears this first */

            err.text[0] = '\0';
            assert_int_equal(mst_config_gguf(g, &c, told_init(&told), &err),
                             MST_ERROR);
            (void) mst_fault_tell(&told.faults, &err);
            (void) strcat(want, "\n");
            assert_memory_equal(told.text, want, strlen(want));
        }

        mst_gguf_close(g);
        build_fini(&b);
    }
}


static void
test_faults(void **state)
{
    told_t         told;
    build_t        b;
    mst_err_t      err = { "" };
    mst_gguf_t    *g;
    mst_config_t   c;

    (void) state;

    build_init(&b);
    build_string(&b, "general.architecture", "llama");
    build_u32(&b, "llama.block_count", 0);
    build_u32(&b, "llama.embedding_length", 96);
    build_string(&b, "llama.attention.head_count", "six");
    build_f32(&b, "llama.attention.clamp_kqv", 8);
    build_f32(&b, "llama.rope.freq_base", 0);
    build_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    build_string(&b, "llama.rope.scaling.type", "longrope");
    build_f32(&b, "llama.logit_scale", 2);

    g = build_open(&b);

    assert_int_equal(mst_config_gguf(g, &c, told_init(&told), &err),
                     MST_ERROR);
    assert_string_equal(err.text, "");
    assert_string_equal(told.text,
        "test.gguf: llama.attention.clamp_kqv is 8: clamping of attention is "
        "not supported yet\n"
        "test.gguf: llama.logit_scale is 2: scaling of logits is not supported "
        "yet\n"
        "test.gguf: llama.block_count is 0, limits are 1 and 1024\n"
        "test.gguf: llama.feed_forward_length is missing\n"
        "test.gguf: llama.attention.head_count has type STRING, an integer is "
        "needed\n"
        "test.gguf: llama.context_length is missing\n"
        "test.gguf: llama.rope.freq_base is 0, limits are 1 and 1e+12\n"
        "test.gguf: llama.rope.scaling.type is \"longrope\": such rope scaling "
        "is not supported yet, linear and yarn are\n"
        "test.gguf: tensor \"token_embd.weight\" is missing\n");

    mst_gguf_close(g);
    build_fini(&b);
}


static void
load(build_t *b, mst_config_t *c)
{
    mst_err_t    err = { "" };
    mst_gguf_t  *g;

    g = build_open(b);

    if (mst_config_gguf(g, c, NULL, &err) != MST_OK) {
        fail_msg("%s", err.text);
    }

    mst_gguf_close(g);
    build_fini(b);
}


static void
test_values(void **state)
{
    build_t       b;
    mst_config_t  c;

    (void) state;

    build_init(&b);
    base(&b, NULL);
    load(&b, &c);

    assert_int_equal(c.n_layers, 2);
    assert_int_equal(c.dim, 96);
    assert_int_equal(c.ff_dim, 160);
    assert_int_equal(c.n_heads, 6);
    assert_int_equal(c.n_kv_heads, 2);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.rope_dim, 16);
    assert_int_equal(c.n_vocab, 100);
    assert_int_equal(c.context, 4096);
    assert_true(c.rms_eps == 1e-5f);
    assert_true(c.rope.base == 10000);
    assert_int_equal(c.tied, 1);

    /* heads of their own width, an output of its own */

    build_init(&b);
    base(&b, "llama.attention.head_count_kv");
    key_length(&b);
    rope_half(&b);
    build_tensor(&b, "output.weight", MST_TYPE_F32, 96, 100);
    load(&b, &c);

    assert_int_equal(c.n_kv_heads, 6);
    assert_int_equal(c.head_dim, 64);
    assert_int_equal(c.rope_dim, 8);
    assert_int_equal(c.tied, 0);
}


/* what changes the numbers arrives */

static void
test_extras(void **state)
{
    build_t       b;
    mst_config_t  c;

    (void) state;

    build_init(&b);
    base(&b, NULL);
    window(&b);
    experts_2(&b);
    temperature(&b);
    rope_yarn(&b);
    build_f32(&b, "llama.rope.scaling.factor", 4);
    build_u32(&b, "llama.rope.scaling.original_context_length", 1024);
    build_f32(&b, "llama.rope.scaling.yarn_beta_fast", 16);
    load(&b, &c);

    assert_int_equal(c.windows[0], 1024);
    assert_int_equal(c.windows[1], 1024);
    assert_int_equal(c.n_experts, 8);
    assert_int_equal(c.n_used, 2);
    assert_int_equal(c.temp_length, 1024);
    assert_int_equal(c.rope.kind, MST_ROPE_YARN);
    assert_true(c.rope.factor == 4);
    assert_true(c.rope.original == 1024);
    assert_true(c.rope.beta_fast == 16);
    assert_true(c.rope.beta_slow == 1);
    assert_true(c.rope.attention == mst_rope_mscale(4, 1));

    build_init(&b);
    base(&b, NULL);
    rope_old(&b);
    window_wide(&b);
    load(&b, &c);

    assert_int_equal(c.rope.kind, MST_ROPE_LINEAR);
    assert_true(c.rope.factor == 4);
    assert_true(c.windows[0] >= c.context);
}


static void
test_model(void **state)
{
    mst_err_t      err = { "" };
    mst_gguf_t    *g;
    mst_config_t   c;

    (void) state;

    g = mst_gguf_open(MODEL, &err);

    if (g == NULL || mst_config_gguf(g, &c, NULL, &err) != MST_OK) {
        fail_msg("%s", err.text);
    }

    assert_int_equal(c.n_layers, 30);
    assert_int_equal(c.dim, 576);
    assert_int_equal(c.ff_dim, 1536);
    assert_int_equal(c.n_heads, 9);
    assert_int_equal(c.n_kv_heads, 3);
    assert_int_equal(c.head_dim, 64);
    assert_int_equal(c.rope_dim, 64);
    assert_int_equal(c.n_vocab, 49152);
    assert_int_equal(c.context, 8192);
    assert_true(c.rms_eps == 1e-5f);
    assert_true(c.rope.base == 100000);
    assert_int_equal(c.tied, 1);

    mst_gguf_close(g);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_extras),
        cmocka_unit_test(test_model)
    };

    return cmocka_run_group_tests_name("mst_config", tests, NULL, NULL);
}
