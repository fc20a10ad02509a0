
/*
 * Tensors by their roles: see mst_weight.h.
 *
 * A pattern is a name with # for the number of a layer and @ for that of an
 * expert, both without leading zeros: a strange spelling is a strange name.
 */

#include <stdio.h>
#include <string.h>

#include "model/mst_weight.h"


typedef struct {
    mst_weight_t  role;
    const char   *name[MST_NAMES];     /* NULL: this naming has none */
} mst_weight_pattern_t;


typedef enum {
    MST_SIZE_NONE = 0,             /* outputs of a vector */
    MST_SIZE_DIM,
    MST_SIZE_FF,
    MST_SIZE_Q,                    /* n_heads * head_dim */
    MST_SIZE_KV,                   /* n_kv_heads * head_dim */
    MST_SIZE_VOCAB,
    MST_SIZE_EXPERTS,
    MST_SIZE_PAIRS                 /* rope_dim / 2 */
} mst_weight_size_t;


/* dims[0] and dims[1] of each role */

static const struct {
    mst_weight_size_t  in;
    mst_weight_size_t  out;
} mst_weight_shapes[MST_WEIGHTS] = {
    [MST_WEIGHT_EMBD] = { MST_SIZE_DIM, MST_SIZE_VOCAB },
    [MST_WEIGHT_NORM] = { MST_SIZE_DIM, MST_SIZE_NONE },
    [MST_WEIGHT_HEAD] = { MST_SIZE_DIM, MST_SIZE_VOCAB },
    [MST_WEIGHT_FREQS] = { MST_SIZE_PAIRS, MST_SIZE_NONE },
    [MST_WEIGHT_ATTN_NORM] = { MST_SIZE_DIM, MST_SIZE_NONE },
    [MST_WEIGHT_Q] = { MST_SIZE_DIM, MST_SIZE_Q },
    [MST_WEIGHT_K] = { MST_SIZE_DIM, MST_SIZE_KV },
    [MST_WEIGHT_V] = { MST_SIZE_DIM, MST_SIZE_KV },
    [MST_WEIGHT_OUT] = { MST_SIZE_Q, MST_SIZE_DIM },
    [MST_WEIGHT_Q_BIAS] = { MST_SIZE_Q, MST_SIZE_NONE },
    [MST_WEIGHT_K_BIAS] = { MST_SIZE_KV, MST_SIZE_NONE },
    [MST_WEIGHT_V_BIAS] = { MST_SIZE_KV, MST_SIZE_NONE },
    [MST_WEIGHT_OUT_BIAS] = { MST_SIZE_DIM, MST_SIZE_NONE },
    [MST_WEIGHT_FFN_NORM] = { MST_SIZE_DIM, MST_SIZE_NONE },
    [MST_WEIGHT_GATE_BIAS] = { MST_SIZE_FF, MST_SIZE_NONE },
    [MST_WEIGHT_UP_BIAS] = { MST_SIZE_FF, MST_SIZE_NONE },
    [MST_WEIGHT_DOWN_BIAS] = { MST_SIZE_DIM, MST_SIZE_NONE },
    [MST_WEIGHT_ROUTER] = { MST_SIZE_DIM, MST_SIZE_EXPERTS },
    [MST_WEIGHT_GATE] = { MST_SIZE_DIM, MST_SIZE_FF },
    [MST_WEIGHT_UP] = { MST_SIZE_DIM, MST_SIZE_FF },
    [MST_WEIGHT_DOWN] = { MST_SIZE_FF, MST_SIZE_DIM }
};


static const mst_weight_pattern_t  mst_weight_patterns[] = {
    { MST_WEIGHT_EMBD, { "token_embd.weight", "model.embed_tokens.weight",
                         "tok_embeddings.weight" } },
    { MST_WEIGHT_NORM, { "output_norm.weight", "model.norm.weight",
                         "norm.weight" } },
    { MST_WEIGHT_HEAD, { "output.weight", "lm_head.weight", "output.weight" } },
    { MST_WEIGHT_FREQS, { "rope_freqs.weight", NULL, NULL } },

    { MST_WEIGHT_ATTN_NORM, { "blk.#.attn_norm.weight",
                              "model.layers.#.input_layernorm.weight",
                              "layers.#.attention_norm.weight" } },
    { MST_WEIGHT_Q, { "blk.#.attn_q.weight",
                      "model.layers.#.self_attn.q_proj.weight",
                      "layers.#.attention.wq.weight" } },
    { MST_WEIGHT_K, { "blk.#.attn_k.weight",
                      "model.layers.#.self_attn.k_proj.weight",
                      "layers.#.attention.wk.weight" } },
    { MST_WEIGHT_V, { "blk.#.attn_v.weight",
                      "model.layers.#.self_attn.v_proj.weight",
                      "layers.#.attention.wv.weight" } },
    { MST_WEIGHT_OUT, { "blk.#.attn_output.weight",
                        "model.layers.#.self_attn.o_proj.weight",
                        "layers.#.attention.wo.weight" } },
    { MST_WEIGHT_Q_BIAS, { "blk.#.attn_q.bias",
                           "model.layers.#.self_attn.q_proj.bias", NULL } },
    { MST_WEIGHT_K_BIAS, { "blk.#.attn_k.bias",
                           "model.layers.#.self_attn.k_proj.bias", NULL } },
    { MST_WEIGHT_V_BIAS, { "blk.#.attn_v.bias",
                           "model.layers.#.self_attn.v_proj.bias", NULL } },
    { MST_WEIGHT_OUT_BIAS, { "blk.#.attn_output.bias",
                             "model.layers.#.self_attn.o_proj.bias", NULL } },
    { MST_WEIGHT_FFN_NORM, { "blk.#.ffn_norm.weight",
                             "model.layers.#.post_attention_layernorm.weight",
                             "layers.#.ffn_norm.weight" } },
    { MST_WEIGHT_GATE_BIAS, { "blk.#.ffn_gate.bias",
                              "model.layers.#.mlp.gate_proj.bias", NULL } },
    { MST_WEIGHT_UP_BIAS, { "blk.#.ffn_up.bias",
                            "model.layers.#.mlp.up_proj.bias", NULL } },
    { MST_WEIGHT_DOWN_BIAS, { "blk.#.ffn_down.bias",
                              "model.layers.#.mlp.down_proj.bias", NULL } },
    { MST_WEIGHT_ROUTER, { "blk.#.ffn_gate_inp.weight",
                           "model.layers.#.block_sparse_moe.gate.weight",
                           "layers.#.feed_forward.gate.weight" } },

    /* dense, then one expert, then (GGUF) all experts */

    { MST_WEIGHT_GATE, { "blk.#.ffn_gate.weight",
                         "model.layers.#.mlp.gate_proj.weight",
                         "layers.#.feed_forward.w1.weight" } },
    { MST_WEIGHT_UP, { "blk.#.ffn_up.weight",
                       "model.layers.#.mlp.up_proj.weight",
                       "layers.#.feed_forward.w3.weight" } },
    { MST_WEIGHT_DOWN, { "blk.#.ffn_down.weight",
                         "model.layers.#.mlp.down_proj.weight",
                         "layers.#.feed_forward.w2.weight" } },
    { MST_WEIGHT_GATE, { "blk.#.ffn_gate.@.weight",
                         "model.layers.#.block_sparse_moe.experts.@.w1.weight",
                         "layers.#.feed_forward.experts.@.w1.weight" } },
    { MST_WEIGHT_UP, { "blk.#.ffn_up.@.weight",
                       "model.layers.#.block_sparse_moe.experts.@.w3.weight",
                       "layers.#.feed_forward.experts.@.w3.weight" } },
    { MST_WEIGHT_DOWN, { "blk.#.ffn_down.@.weight",
                         "model.layers.#.block_sparse_moe.experts.@.w2.weight",
                         "layers.#.feed_forward.experts.@.w2.weight" } },
    { MST_WEIGHT_GATE, { "blk.#.ffn_gate_exps.weight", NULL, NULL } },
    { MST_WEIGHT_UP, { "blk.#.ffn_up_exps.weight", NULL, NULL } },
    { MST_WEIGHT_DOWN, { "blk.#.ffn_down_exps.weight", NULL, NULL } }
};

#define MST_WEIGHT_PATTERNS                                                   \
    (sizeof(mst_weight_patterns) / sizeof(*mst_weight_patterns))


/* what multimodal checkpoints put before the names, and their other parts */

static const char *const  mst_weight_prefixes[] = {
    "language_model.", "model.language_model."
};

static const char *const  mst_weight_others[] = {
    "vision_tower.", "multi_modal_projector.", "vision_encoder.",
    "vision_language_adapter.", "patch_merger.", "pre_mm_projector_norm.",
    "model.vision_tower.", "model.multi_modal_projector."
};


int
mst_weight_has(const mst_config_t *config, mst_weight_t role)
{
    switch (role) {

    case MST_WEIGHT_HEAD:
        return !config->tied;

    case MST_WEIGHT_Q_BIAS:
    case MST_WEIGHT_K_BIAS:
    case MST_WEIGHT_V_BIAS:
        return config->attn_bias;

    case MST_WEIGHT_OUT_BIAS:
        return config->out_bias;

    case MST_WEIGHT_GATE_BIAS:
    case MST_WEIGHT_UP_BIAS:
    case MST_WEIGHT_DOWN_BIAS:
        return config->mlp_bias && config->n_experts == 0;

    case MST_WEIGHT_ROUTER:
        return config->n_experts != 0;

    default:
        return 1;
    }
}


void
mst_weight_shape(const mst_config_t *config, mst_weight_t role, uint64_t *in,
    uint64_t *out)
{
    const uint64_t  sizes[] = {
        [MST_SIZE_NONE] = 0,
        [MST_SIZE_DIM] = config->dim,
        [MST_SIZE_FF] = config->ff_dim,
        [MST_SIZE_Q] = (uint64_t) config->n_heads * config->head_dim,
        [MST_SIZE_KV] = (uint64_t) config->n_kv_heads * config->head_dim,
        [MST_SIZE_VOCAB] = config->n_vocab,
        [MST_SIZE_EXPERTS] = config->n_experts,
        [MST_SIZE_PAIRS] = config->rope_dim / 2
    };

    *in = sizes[mst_weight_shapes[role].in];
    *out = sizes[mst_weight_shapes[role].out];
}


/* digits without a leading zero; NULL: there are none */

static const char *
mst_weight_number(const char *p, const char *end, uint32_t *value)
{
    const char  *start;

    start = p;
    *value = 0;

    while (p < end && *p >= '0' && *p <= '9') {
        *value = *value * 10 + (uint32_t) (*p++ - '0');

        if (*value > 1u << 20) {
            return NULL;
        }
    }

    return p == start || (*start == '0' && p - start > 1) ? NULL : p;
}


static int
mst_weight_fits(const char *pattern, const char *p, const char *end,
    mst_weight_match_t *m)
{
    for ( /* void */ ; *pattern; pattern++) {

        if (*pattern == '#' || *pattern == '@') {
            p = mst_weight_number(p, end, *pattern == '#' ? &m->layer
                                                          : &m->expert);
            if (p == NULL) {
                return 0;
            }

            continue;
        }

        if (p == end || *p++ != *pattern) {
            return 0;
        }
    }

    return p == end;
}


/* behind a prefix of a multimodal checkpoint, if it has one */

static mst_str_t
mst_weight_bare(mst_str_t name, char *buf, size_t size)
{
    size_t  i, n;

    for (i = 0; i < sizeof(mst_weight_prefixes) / sizeof(*mst_weight_prefixes);
         i++)
    {
        n = strlen(mst_weight_prefixes[i]);

        if (name.len <= n
            || memcmp(name.data, mst_weight_prefixes[i], n) != 0)
        {
            continue;
        }

        name = mst_str(name.data + n, name.len - n);

        if (i == 1 && name.len + 6 < size) {
            (void) snprintf(buf, size, "model.%.*s", (int) name.len,
                            name.data);
            return mst_str(buf, name.len + 6);
        }

        return name;
    }

    return name;
}


int
mst_weight_match(mst_names_t names, mst_str_t name, mst_weight_match_t *m)
{
    char         buf[160];
    size_t       i, n;
    const char  *pattern;

    for (i = 0; names != MST_NAMES_GGUF
                && i < sizeof(mst_weight_others) / sizeof(*mst_weight_others);
         i++)
    {
        n = strlen(mst_weight_others[i]);

        if (name.len > n && memcmp(name.data, mst_weight_others[i], n) == 0) {
            return MST_DONE;
        }
    }

    if (names == MST_NAMES_HF) {
        name = mst_weight_bare(name, buf, sizeof(buf));
    }

    for (i = 0; i < MST_WEIGHT_PATTERNS; i++) {
        memset(m, 0, sizeof(mst_weight_match_t));
        pattern = mst_weight_patterns[i].name[names];

        if (pattern
            && mst_weight_fits(pattern, name.data, name.data + name.len, m))
        {
            m->role = mst_weight_patterns[i].role;
            m->stacked = strstr(pattern, "_exps.") != NULL;
            return MST_OK;
        }
    }

    return MST_DECLINED;
}


const char *
mst_weight_name(mst_names_t names, mst_weight_t role, uint32_t layer,
    uint32_t expert, int experts, char *buf, size_t size)
{
    size_t       i, len;
    const char  *p;

    p = NULL;
    len = 0;

    for (i = 0; i < MST_WEIGHT_PATTERNS; i++) {
        p = mst_weight_patterns[i].name[names];

        if (p && mst_weight_patterns[i].role == role
            && (strchr(p, '@') != NULL) == (experts && role >= MST_WEIGHT_GATE))
        {
            break;
        }
    }

    buf[0] = '\0';

    for ( /* void */ ; i < MST_WEIGHT_PATTERNS && *p && len + 12 < size; p++) {
        if (*p == '#' || *p == '@') {
            len += (size_t) snprintf(buf + len, size - len, "%u",
                                     *p == '#' ? layer : expert);
        } else {
            buf[len++] = *p;
            buf[len] = '\0';
        }
    }

    return buf;
}
