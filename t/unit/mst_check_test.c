
#include "mst_gguf_build.h"
#include "model/mst_check.h"

#include "seed.h"

#define MODEL  "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"


/* what a case changes */

typedef struct {
    const char  *name;         /* of the tensor, NULL = none */
    uint32_t     type;         /* it gets, with shape in, out */
    uint64_t     in;           /* 0 = it is left out */
    uint64_t     out;
    const char  *text;         /* the sentence; NULL: it is good */
} case_t;


static const case_t  cases[] = {
    { NULL, 0, 0, 0, NULL },
    { "blk.1.attn_q.weight", MST_TYPE_Q4_0, 64, 96, NULL },
    { "blk.0.ffn_down.weight", MST_TYPE_Q8_0, 160, 64, NULL },
    { "output.weight", MST_TYPE_F16, 64, 100, NULL },
    { "token_embd.weight", MST_TYPE_BF16, 64, 100, NULL },

    { "output_norm.weight", 0, 0, 0,
      "tensor \"output_norm.weight\" is missing" },
    { "blk.1.attn_v.weight", 0, 0, 0,
      "tensor \"blk.1.attn_v.weight\" is missing" },
    { "blk.0.attn_q.weight", MST_TYPE_F32, 64, 64,
      "tensor \"blk.0.attn_q.weight\" has shape [64, 64, 1, 1], expected "
      "[64, 96, 1, 1]" },
    { "blk.0.attn_k.weight", MST_TYPE_F32, 64, 96,
      "tensor \"blk.0.attn_k.weight\" has shape [64, 96, 1, 1], expected "
      "[64, 48, 1, 1]" },
    { "blk.1.attn_output.weight", MST_TYPE_F32, 64, 96,
      "tensor \"blk.1.attn_output.weight\" has shape [64, 96, 1, 1], "
      "expected [96, 64, 1, 1]" },
    { "blk.1.ffn_norm.weight", MST_TYPE_F32, 63, 0,
      "tensor \"blk.1.ffn_norm.weight\" has shape [63, 1, 1, 1], expected "
      "[64, 1, 1, 1]" },
    { "token_embd.weight", MST_TYPE_F32, 32, 100,
      "tensor \"token_embd.weight\" has shape [32, 100, 1, 1], expected "
      "[64, 100, 1, 1]" },
    { "output.weight", MST_TYPE_F32, 64, 99,
      "tensor \"output.weight\" has shape [64, 99, 1, 1], expected "
      "[64, 100, 1, 1]" },
    { "blk.0.ffn_up.weight", 10, 64, 160,
      "tensor \"blk.0.ffn_up.weight\" has type Q2_K (10), which is not "
      "supported yet; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K "
      "and Q6_K are" },
    { "blk.0.ffn_up.weight", 77, 64, 160,
      "tensor \"blk.0.ffn_up.weight\" has type unknown (77), which is not "
      "supported yet; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K "
      "and Q6_K are" },
    { "blk.0.attn_norm.weight", MST_TYPE_F16, 64, 0,
      "tensor \"blk.0.attn_norm.weight\" has type F16 (1), F32 is needed" },

    { "blk.0.attn_q.bias", MST_TYPE_F32, 96, 0,
      "tensor \"blk.0.attn_k.bias\" is missing" },
    { "blk.1.attn_q.bias", MST_TYPE_F32, 96, 0,
      "tensor \"blk.1.attn_q.bias\" is no part of a llama model of 2 layers "
      "that is supported" },
    { "blk.2.attn_norm.weight", MST_TYPE_F32, 64, 0,
      "tensor \"blk.2.attn_norm.weight\" is no part of a llama model of 2 "
      "layers that is supported" },
    { "blk.01.attn_norm.weight", MST_TYPE_F32, 64, 0,
      "tensor \"blk.01.attn_norm.weight\" is no part of a llama model of 2 "
      "layers that is supported" },
    { "blk.-1.attn_norm.weight", MST_TYPE_F32, 64, 0,
      "tensor \"blk.-1.attn_norm.weight\" is no part of a llama model of 2 "
      "layers that is supported" },
    { "stranger\n", MST_TYPE_F32, 64, 0,
      "tensor \"stranger?\" is no part of a llama model of 2 layers that is "
      "supported" }
};


static void
tensor(build_t *b, const case_t *k, int *done, const char *name, uint64_t in,
    uint64_t out)
{
    if (k->name == NULL || strcmp(k->name, name) != 0) {
        build_tensor(b, name, MST_TYPE_F32, in, out);
        return;
    }

    *done = 1;

    if (k->in) {
        build_tensor(b, name, k->type, k->in, k->out);
    }
}


/* 2 layers of width 64, 6 heads of 16, 3 of keys, 100 tokens */

static void
build(build_t *b, const case_t *k)
{
    int   i, done;
    char  name[64];

    build_init(b);
    build_string(b, "general.architecture", "llama");
    build_string(b, "general.name", "Tiny\none");
    build_u32(b, "llama.block_count", 2);
    build_u32(b, "llama.embedding_length", 64);
    build_u32(b, "llama.feed_forward_length", 160);
    build_u32(b, "llama.attention.head_count", 6);
    build_u32(b, "llama.attention.head_count_kv", 3);
    build_u32(b, "llama.attention.key_length", 16);
    build_u32(b, "llama.attention.value_length", 16);
    build_u32(b, "llama.context_length", 2048);
    build_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
    build_f32(b, "llama.rope.freq_base", 10000);

    done = 0;
    tensor(b, k, &done, "token_embd.weight", 64, 100);
    tensor(b, k, &done, "output_norm.weight", 64, 0);

    for (i = 0; i < 2; i++) {

#define layer(what, in, out)                                                  \
        (void) snprintf(name, sizeof(name), "blk.%d." what ".weight", i);     \
        tensor(b, k, &done, name, in, out)

        layer("attn_norm", 64, 0);
        layer("attn_q", 64, 96);
        layer("attn_k", 64, 48);
        layer("attn_v", 64, 48);
        layer("attn_output", 96, 64);
        layer("ffn_norm", 64, 0);
        layer("ffn_gate", 64, 160);
        layer("ffn_up", 64, 160);
        layer("ffn_down", 160, 64);

#undef layer
    }

    if (!done && k->name) {
        build_tensor(b, k->name, k->type, k->in, k->out);
    }
}


static void
test_cases(void **state)
{
    char          want[512];
    size_t        i;
    build_t       b;
    mst_err_t     err;
    mst_gguf_t   *g;
    mst_check_t   c;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        build(&b, &cases[i]);
        g = build_open(&b);
        err.text[0] = '\0';

        if (mst_check_gguf(g, NULL, &c, &err) == MST_OK) {
            if (cases[i].text) {
                fail_msg("case %zu is good, expected \"%s\"", i,
                         cases[i].text);
            }

            assert_string_equal(c.arch, "llama");
            assert_string_equal(c.name, "Tiny?one");
            assert_int_equal(c.context, 2048);
            assert_int_equal(c.n_vocab, 100);
            assert_int_equal(c.n_layers, 2);

        } else {
            (void) snprintf(want, sizeof(want), "test.gguf: %s",
                            cases[i].text ? cases[i].text : "nothing");
            assert_string_equal(err.text, want);
        }

        mst_gguf_close(g);
        build_fini(&b);
    }
}


static void
test_deep(void **state)
{
    build_t       b;
    uint64_t      dims[] = { 64, 100, 2 };
    mst_err_t     err = { "" };
    mst_gguf_t   *g;
    mst_check_t   c;

    static const case_t  k = { "token_embd.weight", 0, 0, 0, NULL };

    (void) state;

    build(&b, &k);
    build_entry(&b, "token_embd.weight", 3, dims, MST_TYPE_Q4_0, 0);
    g = build_open(&b);

    assert_int_equal(mst_check_gguf(g, NULL, &c, &err), MST_ERROR);
    assert_string_equal(err.text, "test.gguf: tensor \"token_embd.weight\" "
                        "has shape [64, 100, 2, 1], expected [64, 100, 1, 1]");

    mst_gguf_close(g);
    build_fini(&b);
}


/* every tensor at the same place: as much memory as one likes of a small
   file */

static void
test_shared(void **state)
{
    char         *p;
    build_t       b;
    uint32_t      n_dims;
    uint64_t      i, len;
    mst_err_t     err = { "" };
    mst_gguf_t   *g;
    mst_check_t   c;

    (void) state;

    build(&b, &cases[0]);
    p = b.tensors.data;

    for (i = 0; i < b.n_tensors; i++) {
        memcpy(&len, p, sizeof(len));
        p += sizeof(len) + len;
        memcpy(&n_dims, p, sizeof(n_dims));
        p += sizeof(n_dims) + n_dims * sizeof(uint64_t) + sizeof(uint32_t);
        memset(p, 0, sizeof(uint64_t));
        p += sizeof(uint64_t);
    }

    b.data.len = 64 * 160 * sizeof(float);     /* the largest */
    g = build_open(&b);

    assert_int_equal(mst_check_gguf(g, NULL, &c, &err), MST_ERROR);
    assert_non_null(strstr(err.text, "test.gguf: tensors share their bytes: "
                           "they have more than the file's "));

    mst_gguf_close(g);
    build_fini(&b);
}


static uint64_t
next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;

    return *seed;
}


/* a few random bytes or numbers of the head replaced: never a bad access (the
   copy has the file's exact size for the sanitizer), always a sentence */

static void
test_random(void **state)
{
    int           i, k, good;
    char         *copy;
    size_t        head, at;
    build_t       b;
    uint64_t      seed, value;
    mst_err_t     err;
    mst_gguf_t   *g;
    mst_check_t   c;

    static const case_t    none = { NULL, 0, 0, 0, NULL };
    static const uint64_t  values[] = {
        0, 1, 2, 31, 32, 64, 0xff, 0xffff, 1ull << 31, 1ull << 32, 1ull << 61,
        1ull << 63, UINT32_MAX, UINT64_MAX
    };

    (void) state;

    seed = test_seed() | 1;

    build(&b, &none);
    build_file(&b);
    head = b.file.len - b.data.len;
    copy = malloc(b.file.len);
    assert_non_null(copy);
    good = 0;

    for (i = 0; i < 20000; i++) {
        memcpy(copy, b.file.data, b.file.len);

        for (k = (int) (next(&seed) % 4); k >= 0; k--) {
            at = 24 + next(&seed) % (head - 32);

            if (next(&seed) % 2) {
                copy[at] = (char) next(&seed);

            } else {
                value = values[next(&seed) % 14];
                memcpy(copy + at, &value, next(&seed) % 2 ? 8 : 4);
            }
        }

        err.text[0] = '\0';
        g = mst_gguf_open_memory(copy, b.file.len, "f", &err);

        if (g != NULL && mst_check_gguf(g, NULL, &c, &err) == MST_OK) {
            assert_string_equal(err.text, "");
            good++;

        } else {
            assert_int_equal(strncmp(err.text, "f: ", 3), 0);
        }

        mst_gguf_close(g);
    }

    /* only free text and spare bits may change unseen */

    assert_in_range(good, 10, 10000);

    free(copy);
    build_fini(&b);
}


static void
test_model(void **state)
{
    mst_err_t     err = { "" };
    mst_gguf_t   *g;
    mst_check_t   c;

    (void) state;

    g = mst_gguf_open(MODEL, &err);

    if (g == NULL || mst_check_gguf(g, NULL, &c, &err) != MST_OK) {
        fail_msg("%s", err.text);
    }

    assert_string_equal(c.arch, "llama");
    assert_int_equal(strncmp(c.name, "Smollm2 135M", 12), 0);
    assert_int_equal(c.context, 8192);
    assert_int_equal(c.n_vocab, 49152);
    assert_int_equal(c.n_layers, 30);
    assert_int_equal(c.weights, 96576768);

    /* 3,072 tiles of the head: 18 blocks of 352 bytes, 16 bounds each; norms
       and scales; in whole cache lines */

    assert_int_equal(c.coarse, 3072 * 6784);

    mst_gguf_close(g);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_model)
    };

    return cmocka_run_group_tests_name("mst_check", tests, NULL, NULL);
}
