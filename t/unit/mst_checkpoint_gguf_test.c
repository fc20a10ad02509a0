
/*
 * The golden checkpoints of t/data/golden/tiny written as GGUF, with GGUF's
 * names, keys and order of rows: the same bits as the safetensors, whose
 * logits mst_checkpoint_test.c compares with the reference implementation.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "mst_gguf_build.h"
#include "file/mst_quant.h"
#include "model/mst_check.h"
#include "model/mst_forward.h"
#include "model/mst_weight.h"

#define TINY    "t/data/golden/tiny/"
#define VOCAB   320
#define TOKENS  100


typedef struct {
    const char  *name;
    const char  *arch;
    int          stacked;          /* all experts of a layer in one tensor */
    int          divisors;         /* rope_freqs.weight in place of keys */
} case_t;


static mst_checkpoint_t *
open_tiny(const char *name)
{
    char               path[128];
    mst_err_t          err = { "" };
    mst_checkpoint_t  *cp;
    mst_check_files_t  files;

    (void) snprintf(path, sizeof(path), TINY "%s", name);
    assert_int_equal(mst_check_open(path, &files, &err), MST_OK);
    cp = mst_checkpoint_open(files.fd, files.n, path, &err);
    assert_non_null(cp);
    mst_check_close(&files);

    return cp;
}


/* keys as doubles, so that no bit is lost */

static void
key(build_t *b, const case_t *k, const char *name, double value)
{
    char      full[96];
    uint64_t  u;

    (void) snprintf(full, sizeof(full), "%s.%s", k->arch, name);
    memcpy(&u, &value, 8);
    build_number(b, full, MST_GGUF_F64, u, 8);
}


static void
count(build_t *b, const case_t *k, const char *name, uint32_t value)
{
    char  full[96];

    (void) snprintf(full, sizeof(full), "%s.%s", k->arch, name);
    build_u32(b, full, value);
}


static void
rope(build_t *b, const case_t *k, const mst_config_t *c)
{
    char  full[96];

    key(b, k, "rope.freq_base", c->rope.base);

    if (c->rope.kind == MST_ROPE_PLAIN || k->divisors) {
        return;
    }

    (void) snprintf(full, sizeof(full), "%s.rope.scaling.type", k->arch);
    build_string(b, full, c->rope.kind == MST_ROPE_YARN ? "yarn" : "linear");
    key(b, k, "rope.scaling.factor", c->rope.factor);

    if (c->rope.kind != MST_ROPE_YARN) {
        return;
    }

    count(b, k, "rope.scaling.original_context_length",
          (uint32_t) c->rope.original);
    key(b, k, "rope.scaling.yarn_beta_fast", c->rope.beta_fast);
    key(b, k, "rope.scaling.yarn_beta_slow", c->rope.beta_slow);

    if (c->rope.attention == 1) {
        key(b, k, "rope.scaling.yarn_log_multiplier", 1);
    }
}


static void
keys(build_t *b, const case_t *k, const mst_config_t *c)
{
    build_string(b, "general.architecture", k->arch);
    count(b, k, "block_count", c->n_layers);
    count(b, k, "embedding_length", c->dim);
    count(b, k, "feed_forward_length", c->ff_dim);
    count(b, k, "attention.head_count", c->n_heads);
    count(b, k, "attention.head_count_kv", c->n_kv_heads);
    count(b, k, "attention.key_length", c->head_dim);
    count(b, k, "attention.value_length", c->head_dim);
    count(b, k, "rope.dimension_count", c->rope_dim);
    count(b, k, "context_length", c->context);
    key(b, k, "attention.layer_norm_rms_epsilon", (double) c->rms_eps);
    rope(b, k, c);

    if (c->windows[0]) {
        count(b, k, "attention.sliding_window", c->windows[0]);
    }

    if (c->temp_beta != 0) {
        key(b, k, "attention.temperature_scale", c->temp_beta);
    }

    if (c->n_experts) {
        count(b, k, "expert_count", c->n_experts);
        count(b, k, "expert_used_count", c->n_used);
    }
}


static void
align(build_t *b)
{
    while (b->data.len % b->align) {
        build_le(&b->data, 0, 1);
    }
}


/* rows of q and k from halves to adjacent pairs; vectors as F32 */

static void
bytes(build_t *b, const mst_config_t *c, mst_weight_t role,
    const mst_tensor_t *t)
{
    float     f;
    size_t    size, width;
    uint64_t  from, i, pos;

    width = mst_type_info(t->type)->size;

    if (t->dims[1] == 1 || role == MST_WEIGHT_ROUTER) {
        for (i = 0; i < t->dims[0] * t->dims[1]; i++) {
            (void) mst_quant_decode(t->type, (const char *) t->data
                                    + i * width, &f, 1);
            (void) mst_buf_append(&b->data, &f, sizeof(f));
        }

        return;
    }

    size = (size_t) (t->size / t->dims[1]);

    for (i = 0; i < t->dims[1]; i++) {
        pos = i % c->head_dim;
        from = i - pos + pos % 2 * (c->head_dim / 2) + pos / 2;
        from = role == MST_WEIGHT_Q || role == MST_WEIGHT_K ? from : i;
        (void) mst_buf_append(&b->data, (const char *) t->data + from * size,
                              size);
    }
}


static void
tensor(build_t *b, const mst_checkpoint_t *cp, mst_weight_t role,
    uint32_t layer, uint32_t expert)
{
    char                 name[128];
    uint64_t             dims[2];
    const mst_config_t  *c;
    const mst_tensor_t  *t;

    c = mst_checkpoint_config(cp);
    t = mst_checkpoint_tensor(cp, role, layer, expert);

    if (t == NULL) {
        return;
    }

    (void) mst_weight_name(MST_NAMES_GGUF, role, layer, expert,
                           c->n_experts != 0, name, sizeof(name));
    align(b);
    dims[0] = t->dims[0];
    dims[1] = t->dims[1];
    build_entry(b, name, t->dims[1] == 1 ? 1 : 2, dims,
                t->dims[1] == 1 || role == MST_WEIGHT_ROUTER
                ? (uint32_t) MST_TYPE_F32 : t->type, b->data.len);
    bytes(b, c, role, t);
}


static void
stack(build_t *b, const mst_checkpoint_t *cp, mst_weight_t role,
    uint32_t layer)
{
    char                 name[64];
    uint32_t             e;
    uint64_t             dims[3];
    const mst_config_t  *c;
    const mst_tensor_t  *t;

    c = mst_checkpoint_config(cp);
    t = mst_checkpoint_tensor(cp, role, layer, 0);
    (void) snprintf(name, sizeof(name), "blk.%u.ffn_%s_exps.weight", layer,
                    role == MST_WEIGHT_GATE ? "gate"
                    : role == MST_WEIGHT_UP ? "up" : "down");
    align(b);
    dims[0] = t->dims[0];
    dims[1] = t->dims[1];
    dims[2] = c->n_experts;
    build_entry(b, name, 3, dims, t->type, b->data.len);

    for (e = 0; e < c->n_experts; e++) {
        t = mst_checkpoint_tensor(cp, role, layer, e);
        (void) mst_buf_append(&b->data, t->data, (size_t) t->size);
    }
}


static void
divisors(build_t *b, const mst_config_t *c)
{
    float       f;
    double      plain[MST_ROPE_MAX_PAIRS], freqs[MST_ROPE_MAX_PAIRS];
    uint32_t    i;
    uint64_t    n;
    mst_rope_t  r;

    mst_rope_init(&r, c->rope.base);
    mst_rope_frequencies(&r, c->rope_dim, plain);
    mst_rope_frequencies(&c->rope, c->rope_dim, freqs);
    align(b);
    n = c->rope_dim / 2;
    build_entry(b, "rope_freqs.weight", 1, &n, MST_TYPE_F32, b->data.len);

    for (i = 0; i < n; i++) {
        f = (float) (plain[i] / freqs[i]);
        (void) mst_buf_append(&b->data, &f, sizeof(f));
    }
}


static void
write_gguf(build_t *b, const case_t *k, const mst_checkpoint_t *cp)
{
    uint32_t             e, layer;
    mst_weight_t         role;
    const mst_config_t  *c;

    c = mst_checkpoint_config(cp);
    build_init(b);
    keys(b, k, c);

    for (role = 0; role < MST_WEIGHT_GLOBALS; role++) {
        tensor(b, cp, role, 0, 0);
    }

    if (k->divisors) {
        divisors(b, c);
    }

    for (layer = 0; layer < c->n_layers; layer++) {
        for (role = MST_WEIGHT_GLOBALS; role < MST_WEIGHT_LAYERS; role++) {
            tensor(b, cp, role, layer, 0);
        }

        for (role = MST_WEIGHT_LAYERS; role < MST_WEIGHTS; role++) {
            if (k->stacked) {
                stack(b, cp, role, layer);
                continue;
            }

            for (e = 0; e < (c->n_experts ? c->n_experts : 1); e++) {
                tensor(b, cp, role, layer, e);
            }
        }
    }
}


/* logits of all rows; takes cp over */

static float *
run(mst_checkpoint_t *cp)
{
    float             *all;
    uint32_t           i, ids[TOKENS], blocks[TOKENS];
    mst_err_t          err = { "" };
    const float       *logits;
    mst_model_t       *m;
    mst_batch_seq_t    s = { ids, TOKENS, 0, blocks, MST_LOGITS_ALL, TOKENS,
                           0 };
    mst_batch_t        batch = { &s, 1, TOKENS };
    mst_model_conf_t   conf = {
        .threads = 1, .max_rows = TOKENS, .max_seqs = 1, .kv_size = 1 << 22,
        .rope_cast = 1
    };

    m = mst_model_create(cp, &conf, &err);

    if (m == NULL) {
        fail_msg("%s", err.text);
    }

    for (i = 0; i < TOKENS; i++) {
        ids[i] = i * 7 % VOCAB;
        blocks[i] = i;
    }

    assert_int_equal(mst_forward(m, &batch, &logits, &err), MST_OK);
    all = malloc(TOKENS * VOCAB * sizeof(float));
    memcpy(all, logits, TOKENS * VOCAB * sizeof(float));
    mst_model_destroy(m);

    return all;
}


static void
test_golden(void **state)
{
    float             *want, *got;
    size_t             i;
    build_t            b;
    mst_err_t          err = { "" };
    mst_gguf_t        *g;
    mst_checkpoint_t  *cp;

    static const case_t  cases[] = {
        { "llama-mha", "llama", 0, 0 },
        { "llama-tied-f32", "llama", 0, 0 },
        { "mistral-plain", "llama", 0, 0 },
        { "mistral-plain", "mistral3", 0, 0 },
        { "mistral-window", "llama", 0, 0 },
        { "mixtral-4x", "llama", 0, 0 },
        { "mixtral-4x", "llama", 1, 0 },
        { "rope-linear", "llama", 0, 0 },
        { "rope-yarn", "llama", 0, 0 },
        { "rope-llama3", "llama", 0, 1 },
        { "ministral3-temp", "mistral3", 0, 0 }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        cp = open_tiny(cases[i].name);
        write_gguf(&b, &cases[i], cp);
        want = run(cp);

        g = build_open(&b);
        cp = mst_checkpoint_gguf(g, &err);

        if (cp == NULL) {
            fail_msg("%s: %s", cases[i].name, err.text);
        }

        assert_string_equal(mst_checkpoint_config(cp)->arch, cases[i].arch);
        got = run(cp);

        if (memcmp(got, want, TOKENS * VOCAB * sizeof(float)) != 0) {
            fail_msg("%s as %s: other bits", cases[i].name, cases[i].arch);
        }

        free(want);
        free(got);
        build_fini(&b);
    }
}


/* each of these keys changes the numbers: the test above would not see one
   that nobody reads */

static void
test_keys(void **state)
{
    char              *at;
    float             *want, *got;
    size_t             i, n;
    double             old;
    build_t            b;
    case_t             k = { "ministral3-temp", "mistral3", 0, 0 };
    mst_err_t          err = { "" };
    mst_config_t       c;
    mst_checkpoint_t  *cp;

    static const struct {
        const char  *key;
        double       value;
    } cases[] = {
        { "mistral3.attention.temperature_scale", 0.2 },
        { "mistral3.rope.scaling.factor", 5 },
        { "mistral3.rope.scaling.yarn_beta_slow", 0.2 },
        { "mistral3.rope.scaling.yarn_log_multiplier", 0.5 }
    };

    (void) state;

    cp = open_tiny(k.name);
    c = *mst_checkpoint_config(cp);
    write_gguf(&b, &k, cp);
    want = run(cp);

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        n = strlen(cases[i].key);
        at = memmem(b.keys.data, b.keys.len, cases[i].key, n);
        assert_non_null(at);
        at += n + 4;

        memcpy(&old, at, 8);
        memcpy(at, &cases[i].value, 8);
        cp = mst_checkpoint_gguf(build_open(&b), &err);
        assert_non_null(cp);
        got = run(cp);
        assert_int_not_equal(memcmp(got, want,
                                    TOKENS * VOCAB * sizeof(float)), 0);
        memcpy(at, &old, 8);
        free(got);
    }

    assert_true(c.temp_length == 32);
    free(want);
    build_fini(&b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_keys)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
