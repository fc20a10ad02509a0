
/*
 * Hyper-parameters from GGUF metadata: see mst_config.h.
 */

#include <stddef.h>
#include <string.h>

#include "model/mst_config.h"

#define MST_CONFIG_MAX_VOCAB  (1 << 22)
#define MST_CONFIG_MAX_HEAD   1024


typedef struct {
    const char  *key;
    size_t       offset;       /* of the uint32_t in mst_config_t */
    uint32_t     low;
    uint32_t     high;
    int          needed;       /* absent is an error, else left as it was */
} mst_config_key_t;


/* keys whose presence with an unusual value changes what is computed */
typedef struct {
    const char  *key;
    double       usual;        /* the value that changes nothing */
    const char  *what;
} mst_config_refused_t;


#define mst_config_field(name)  offsetof(mst_config_t, name)


static const mst_config_key_t  mst_config_keys[] = {
    { "llama.block_count", mst_config_field(n_layers), 1, 1024, 1 },
    { "llama.embedding_length", mst_config_field(dim), 2, 65536, 1 },
    { "llama.feed_forward_length", mst_config_field(ff_dim), 1, 1 << 20, 1 },
    { "llama.attention.head_count", mst_config_field(n_heads), 1, 1024, 1 },
    { "llama.attention.head_count_kv", mst_config_field(n_kv_heads),
      1, 1024, 0 },
    { "llama.attention.key_length", mst_config_field(head_dim),
      2, MST_CONFIG_MAX_HEAD, 0 },
    { "llama.rope.dimension_count", mst_config_field(rope_dim),
      2, MST_CONFIG_MAX_HEAD, 0 },
    { "llama.context_length", mst_config_field(context), 2, 1 << 24, 1 }
};


static const mst_config_refused_t  mst_config_refused_uints[] = {
    { "llama.expert_count", 0, "mixture of experts" },
    { "llama.attention.temperature_length", 0, "attention temperature" }
};


static const mst_config_refused_t  mst_config_refused_floats[] = {
    { "llama.rope.scale_linear", 1, "rope scaling" },
    { "llama.rope.scaling.factor", 1, "rope scaling" },
    { "llama.rope.scaling.attn_factor", 1, "rope scaling" },
    { "llama.attention.temperature_scale", 0, "attention temperature" },
    { "llama.attention.max_alibi_bias", 0, "ALiBi" },
    { "llama.attention.clamp_kqv", 0, "clamping of attention" },
    { "llama.logit_scale", 1, "scaling of logits" }
};


static int
mst_config_arch(const mst_gguf_t *g, mst_err_t *err)
{
    int        rc;
    char       show[MST_GGUF_SHOW];
    mst_str_t  arch;

    rc = mst_gguf_string(g, "general.architecture", &arch, err);

    if (rc == MST_DECLINED) {
        return mst_gguf_error(g, err, "general.architecture is missing");
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    if (!mst_str_eq(arch, "llama")) {
        return mst_gguf_error(g, err, "architecture \"%s\" is not supported "
                              "yet, \"llama\" is",
                              mst_gguf_show(show, arch));
    }

    return MST_OK;
}


/* MST_DECLINED: not there */

static int
mst_config_uint(const mst_gguf_t *g, const char *key, uint64_t low,
    uint64_t high, uint32_t *value, mst_err_t *err)
{
    int       rc;
    uint64_t  v;

    rc = mst_gguf_uint(g, key, &v, err);

    if (rc != MST_OK) {
        return rc;
    }

    if (v < low || v > high) {
        return mst_gguf_error(g, err, "%s is %llu, limits are %llu and %llu",
                              key, (unsigned long long) v,
                              (unsigned long long) low,
                              (unsigned long long) high);
    }

    *value = (uint32_t) v;

    return MST_OK;
}


static int
mst_config_float(const mst_gguf_t *g, const char *key, double low,
    double high, double *value, mst_err_t *err)
{
    int  rc;

    rc = mst_gguf_float(g, key, value, err);

    if (rc == MST_DECLINED) {

        /* programs disagree about defaults, and a wrong one is noticed by
           nobody but the reader of bad answers */

        return mst_gguf_error(g, err, "%s is missing", key);
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    /* written so that NaN fails */

    if (!(*value >= low && *value <= high)) {
        return mst_gguf_error(g, err, "%s is %g, limits are %g and %g", key,
                              *value, low, high);
    }

    return MST_OK;
}


static int
mst_config_numbers(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
{
    int                      rc;
    double                   eps;
    size_t                   i;
    uint32_t                 value;
    const mst_config_key_t  *k;

    for (i = 0; i < sizeof(mst_config_keys) / sizeof(*k); i++) {
        k = &mst_config_keys[i];

        rc = mst_config_uint(g, k->key, k->low, k->high, &value, err);

        if (rc == MST_DECLINED) {
            if (k->needed) {
                return mst_gguf_error(g, err, "%s is missing", k->key);
            }

            continue;
        }

        if (rc != MST_OK) {
            return MST_ERROR;
        }

        memcpy((char *) c + k->offset, &value, sizeof(value));
    }

    if (mst_config_float(g, "llama.attention.layer_norm_rms_epsilon", 1e-12,
                         0.1, &eps, err)
        != MST_OK)
    {
        return MST_ERROR;
    }

    c->rms_eps = (float) eps;

    return mst_config_float(g, "llama.rope.freq_base", 1, 1e12, &c->rope_base,
                            err);
}


/* head_dim and rope_dim where the file leaves them to be computed */

static int
mst_config_heads(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
{
    int       rc;
    uint32_t  value;

    if (c->n_kv_heads == 0) {
        c->n_kv_heads = c->n_heads;
    }

    if (c->n_heads % c->n_kv_heads) {
        return mst_gguf_error(g, err, "llama.attention.head_count %u is no "
                              "multiple of head_count_kv %u", c->n_heads,
                              c->n_kv_heads);
    }

    if (c->head_dim == 0) {
        c->head_dim = c->dim / c->n_heads;

        if (c->dim % c->n_heads || c->head_dim > MST_CONFIG_MAX_HEAD) {
            return mst_gguf_error(g, err, "llama.attention.key_length is "
                                  "missing and embedding_length %u does not "
                                  "split into %u heads of at most %d", c->dim,
                                  c->n_heads, MST_CONFIG_MAX_HEAD);
        }
    }

    value = c->head_dim;
    rc = mst_config_uint(g, "llama.attention.value_length", 1, UINT32_MAX,
                         &value, err);

    if (rc == MST_ERROR) {
        return rc;
    }

    if (value != c->head_dim) {
        return mst_gguf_error(g, err, "llama.attention.value_length %u other "
                              "than the keys' %u is not supported yet", value,
                              c->head_dim);
    }

    if (c->rope_dim == 0) {
        c->rope_dim = c->head_dim;
    }

    if (c->head_dim % 2 || c->rope_dim % 2 || c->rope_dim > c->head_dim) {
        return mst_gguf_error(g, err, "llama.rope.dimension_count %u and "
                              "heads of %u must be even, the first not the "
                              "larger", c->rope_dim, c->head_dim);
    }

    return MST_OK;
}


static int
mst_config_vocab(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
{
    int                  rc;
    uint32_t             value;
    mst_gguf_array_t     tokens;
    const mst_tensor_t  *t;

    t = mst_gguf_tensor(g, "token_embd.weight");

    if (t == NULL) {
        return mst_gguf_error(g, err, "tensor \"token_embd.weight\" is "
                              "missing");
    }

    if (t->dims[1] < 2 || t->dims[1] > MST_CONFIG_MAX_VOCAB) {
        return mst_gguf_error(g, err, "token_embd.weight has %llu rows, "
                              "limits are 2 and %d",
                              (unsigned long long) t->dims[1],
                              MST_CONFIG_MAX_VOCAB);
    }

    c->n_vocab = (uint32_t) t->dims[1];

    value = c->n_vocab;
    rc = mst_config_uint(g, "llama.vocab_size", c->n_vocab, c->n_vocab,
                         &value, err);

    if (rc == MST_ERROR) {
        return rc;
    }

    rc = mst_gguf_array(g, "tokenizer.ggml.tokens", &tokens, err);

    if (rc == MST_ERROR) {
        return rc;
    }

    /* fewer are legal: embeddings get padded to a round number */

    if (rc == MST_OK && tokens.n > c->n_vocab) {
        return mst_gguf_error(g, err, "tokenizer.ggml.tokens has %llu "
                              "entries, token_embd.weight has %u rows",
                              (unsigned long long) tokens.n, c->n_vocab);
    }

    c->tied = mst_gguf_tensor(g, "output.weight") == NULL;

    return MST_OK;
}


static int
mst_config_refuse(const mst_gguf_t *g, mst_err_t *err)
{
    int                          rc;
    double                       f;
    size_t                       i;
    uint64_t                     u;
    const mst_config_refused_t  *r;

    for (i = 0;
         i < sizeof(mst_config_refused_uints) / sizeof(*r);
         i++)
    {
        r = &mst_config_refused_uints[i];
        rc = mst_gguf_uint(g, r->key, &u, err);

        if (rc == MST_ERROR) {
            return rc;
        }

        if (rc == MST_OK && (double) u != r->usual) {
            return mst_gguf_error(g, err, "%s is %llu: %s is not supported "
                                  "yet", r->key, (unsigned long long) u,
                                  r->what);
        }
    }

    for (i = 0;
         i < sizeof(mst_config_refused_floats) / sizeof(*r);
         i++)
    {
        r = &mst_config_refused_floats[i];
        rc = mst_gguf_float(g, r->key, &f, err);

        if (rc == MST_ERROR) {
            return rc;
        }

        if (rc == MST_OK && f != r->usual) {
            return mst_gguf_error(g, err, "%s is %g: %s is not supported yet",
                                  r->key, f, r->what);
        }
    }

    return MST_OK;
}


static int
mst_config_rope(const mst_gguf_t *g, mst_err_t *err)
{
    int        rc;
    char       show[MST_GGUF_SHOW];
    mst_str_t  type;

    rc = mst_gguf_string(g, "llama.rope.scaling.type", &type, err);

    if (rc == MST_ERROR) {
        return rc;
    }

    /* "linear" with another factor than 1 was refused by its factor */

    if (rc == MST_OK && !mst_str_eq(type, "none")
        && !mst_str_eq(type, "linear"))
    {
        return mst_gguf_error(g, err, "llama.rope.scaling.type is \"%s\": "
                              "rope scaling is not supported yet",
                              mst_gguf_show(show, type));
    }

    if (mst_gguf_tensor(g, "rope_freqs.weight") != NULL) {
        return mst_gguf_error(g, err, "tensor \"rope_freqs.weight\": rope "
                              "scaling of Llama 3 is not supported yet");
    }

    return MST_OK;
}


static int
mst_config_attention(const mst_gguf_t *g, const mst_config_t *c,
    mst_err_t *err)
{
    int       rc, causal;
    uint64_t  window;

    rc = mst_gguf_uint(g, "llama.attention.sliding_window", &window, err);

    if (rc == MST_ERROR) {
        return rc;
    }

    /* a window as wide as the context hides nothing */

    if (rc == MST_OK && window != 0 && window < c->context) {
        return mst_gguf_error(g, err, "llama.attention.sliding_window is "
                              "%llu: a window below the context of %u is not "
                              "supported yet", (unsigned long long) window,
                              c->context);
    }

    rc = mst_gguf_bool(g, "llama.attention.causal", &causal, err);

    if (rc == MST_ERROR) {
        return rc;
    }

    if (rc == MST_OK && !causal) {
        return mst_gguf_error(g, err, "llama.attention.causal is false: such "
                              "a model does not generate text");
    }

    return MST_OK;
}


int
mst_config_gguf(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
{
    memset(c, 0, sizeof(mst_config_t));

    if (mst_config_arch(g, err) != MST_OK
        || mst_config_refuse(g, err) != MST_OK
        || mst_config_rope(g, err) != MST_OK
        || mst_config_numbers(g, c, err) != MST_OK
        || mst_config_heads(g, c, err) != MST_OK
        || mst_config_attention(g, c, err) != MST_OK
        || mst_config_vocab(g, c, err) != MST_OK)
    {
        return MST_ERROR;
    }

    return MST_OK;
}
