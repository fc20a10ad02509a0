
/*
 * Hyper-parameters from GGUF metadata, and what all formats share: see
 * mst_config.h.
 */

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/mst_config.h"

#define MST_CONFIG_KEY  96         /* bytes of a key with its architecture */


typedef struct {
    const char  *key;          /* behind "llama." */
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
    { "block_count", mst_config_field(n_layers), 1, MST_CONFIG_MAX_LAYERS,
      1 },
    { "embedding_length", mst_config_field(dim), 2, 65536, 1 },
    { "feed_forward_length", mst_config_field(ff_dim), 1, 1 << 20, 1 },
    { "attention.head_count", mst_config_field(n_heads), 1, 1024, 1 },
    { "attention.head_count_kv", mst_config_field(n_kv_heads), 1, 1024, 0 },
    { "attention.key_length", mst_config_field(head_dim), 2,
      MST_CONFIG_MAX_HEAD, 0 },
    { "rope.dimension_count", mst_config_field(rope_dim), 2,
      MST_CONFIG_MAX_HEAD, 0 },
    { "context_length", mst_config_field(context), 2, 1 << 24, 1 },
    { "expert_count", mst_config_field(n_experts), 0, MST_CONFIG_MAX_EXPERTS,
      0 },
    { "expert_used_count", mst_config_field(n_used), 0,
      MST_CONFIG_MAX_EXPERTS, 0 },
    { "attention.temperature_length", mst_config_field(temp_length), 0,
      1 << 24, 0 }
};


static const mst_config_refused_t  mst_config_refused[] = {
    { "attention.max_alibi_bias", 0, "ALiBi" },
    { "attention.clamp_kqv", 0, "clamping of attention" },
    { "logit_scale", 1, "scaling of logits" },
    { "embedding_scale", 1, "scaling of embeddings" },
    { "residual_scale", 1, "scaling of the residual" },
    { "attention.scale", 0, "another scale of attention" },
    { "expert_weights_scale", 1, "scaling of experts" },
    { "rope.scaling.yarn_ext_factor", 1, "another mix of YaRN" },
    { "rope.scaling.yarn_attn_factor", 1, "another attention factor" }
};


/* key with the architecture before it, in a buffer of MST_CONFIG_KEY */

static const char *
mst_config_name(const mst_config_t *c, const char *key, char *buf)
{
    (void) snprintf(buf, MST_CONFIG_KEY, "%s.%s", c->arch, key);

    return buf;
}


static int
mst_config_arch(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
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

    if (!mst_str_eq(arch, "llama") && !mst_str_eq(arch, "mistral3")) {
        return mst_gguf_error(g, err, "architecture \"%s\" is not supported "
                              "yet, \"llama\" and \"mistral3\" are",
                              mst_gguf_show(show, arch));
    }

    memcpy(c->arch, arch.data, arch.len);

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


/* one that is wrong becomes the highest, which others are not complained of
   for */

static int
mst_config_number(const mst_gguf_t *g, mst_config_t *c,
    const mst_config_key_t *k, mst_err_t *err)
{
    int       rc;
    char      name[MST_CONFIG_KEY];
    uint32_t  value;

    rc = mst_config_uint(g, mst_config_name(c, k->key, name), k->low, k->high,
                         &value, err);

    if (rc == MST_DECLINED) {
        if (!k->needed) {
            return MST_OK;
        }

        rc = mst_gguf_error(g, err, "%s is missing", name);
    }

    if (rc != MST_OK) {
        value = k->high;
    }

    memcpy((char *) c + k->offset, &value, sizeof(value));

    return rc;
}


static int
mst_config_floats(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
{
    char    name[MST_CONFIG_KEY];
    double  base, eps;

    if (mst_config_float(g, mst_config_name(c,
                         "attention.layer_norm_rms_epsilon", name), 1e-12, 0.1,
                         &eps, err)
           != MST_OK
        || mst_config_float(g, mst_config_name(c, "rope.freq_base", name), 1,
                            1e12, &base, err)
           != MST_OK)
    {
        return MST_ERROR;
    }

    c->rms_eps = (float) eps;
    mst_rope_init(&c->rope, base);

    return MST_OK;
}


/* values other than the keys' are another length of heads */

static int
mst_config_values(const mst_gguf_t *g, const mst_config_t *c, mst_err_t *err)
{
    int       rc;
    char      name[MST_CONFIG_KEY];
    uint32_t  value;

    value = c->head_dim;
    rc = mst_config_uint(g, mst_config_name(c, "attention.value_length",
                                            name), 1, UINT32_MAX, &value, err);

    if (rc == MST_ERROR) {
        return rc;
    }

    if (value != c->head_dim) {
        return mst_gguf_error(g, err, "%s %u other than the keys' %u is not "
                              "supported yet", name, value, c->head_dim);
    }

    return MST_OK;
}


static int
mst_config_vocab(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
{
    int                  rc;
    char                 name[MST_CONFIG_KEY];
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
    rc = mst_config_uint(g, mst_config_name(c, "vocab_size", name),
                         c->n_vocab, c->n_vocab, &value, err);

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


static void
mst_config_stops(const mst_gguf_t *g, mst_config_t *c)
{
    size_t    i;
    uint64_t  id;

    static const char *const  keys[] = {
        "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"
    };

    for (i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        if (mst_gguf_uint(g, keys[i], &id, NULL) == MST_OK && id < c->n_vocab)
        {
            c->stop_ids[c->n_stop++] = (uint32_t) id;
        }
    }
}


static int
mst_config_refuse(const mst_gguf_t *g, const mst_config_t *c,
    const mst_config_refused_t *r, mst_err_t *err)
{
    int     rc;
    char    name[MST_CONFIG_KEY];
    double  f;

    rc = mst_gguf_float(g, mst_config_name(c, r->key, name), &f, err);

    if (rc == MST_OK && f != r->usual) {
        return mst_gguf_error(g, err, "%s is %g: %s is not supported yet",
                              name, f, r->what);
    }

    return rc;
}


/* *value stays where the key is absent */

static int
mst_config_maybe(const mst_gguf_t *g, const mst_config_t *c, const char *key,
    double *value, mst_err_t *err)
{
    char  name[MST_CONFIG_KEY];

    return mst_gguf_float(g, mst_config_name(c, key, name), value, err)
           == MST_ERROR ? MST_ERROR : MST_OK;
}


/*
 * YaRN as ggml computes it: cosines and sines grow by 1 + 0.1 ln(factor)
 * times attn_factor, and the programs divide by what the multiplier of the
 * logarithm makes of it (1 where the model has no such growth).
 */

static int
mst_config_yarn(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
{
    char         name[MST_CONFIG_KEY];
    double       attention, mul;
    uint32_t     original;
    mst_rope_t  *r;

    r = &c->rope;
    attention = 1;
    mul = 0;
    original = c->context;

    if (mst_config_maybe(g, c, "rope.scaling.yarn_beta_fast", &r->beta_fast,
                         err) != MST_OK
        || mst_config_maybe(g, c, "rope.scaling.yarn_beta_slow",
                            &r->beta_slow, err) != MST_OK
        || mst_config_maybe(g, c, "rope.scaling.attn_factor", &attention, err)
           != MST_OK
        || mst_config_maybe(g, c, "rope.scaling.yarn_log_multiplier", &mul,
                            err) != MST_OK
        || mst_config_uint(g, mst_config_name(c,
                           "rope.scaling.original_context_length", name), 1,
                           1 << 24, &original, err) == MST_ERROR)
    {
        return MST_ERROR;
    }

    r->original = original;
    r->attention = attention * mst_rope_mscale(r->factor, 1);

    if (mul != 0) {
        r->attention /= mst_rope_mscale(r->factor, mul);
    }

    return MST_OK;
}


static int
mst_config_rope(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
{
    int        rc;
    char       name[MST_CONFIG_KEY], show[MST_GGUF_SHOW];
    mst_str_t  type;

    rc = mst_gguf_string(g, mst_config_name(c, "rope.scaling.type", name),
                         &type, err);

    if (rc == MST_ERROR
        || mst_config_maybe(g, c, "rope.scale_linear", &c->rope.factor, err)
           != MST_OK
        || mst_config_maybe(g, c, "rope.scaling.factor", &c->rope.factor, err)
           != MST_OK)
    {
        return MST_ERROR;
    }

    if (rc == MST_DECLINED || mst_str_eq(type, "linear")) {

        /* a factor without a type is linear, of old files */

        c->rope.kind = c->rope.factor == 1 ? MST_ROPE_PLAIN : MST_ROPE_LINEAR;
        return MST_OK;
    }

    if (mst_str_eq(type, "none")) {
        c->rope.factor = 1;
        return MST_OK;
    }

    if (!mst_str_eq(type, "yarn")) {
        return mst_gguf_error(g, err, "%s is \"%s\": such rope scaling is not "
                              "supported yet, linear and yarn are", name,
                              mst_gguf_show(show, type));
    }

    c->rope.kind = MST_ROPE_YARN;

    return mst_config_yarn(g, c, err);
}


static int
mst_config_attention(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err)
{
    int               rc, causal;
    char              name[MST_CONFIG_KEY];
    uint32_t          i, window;
    mst_gguf_array_t  pattern;

    window = 0;

    if (mst_config_uint(g, mst_config_name(c, "attention.sliding_window",
                                           name), 0, 1 << 24, &window, err)
        == MST_ERROR)
    {
        return MST_ERROR;
    }

    rc = mst_gguf_array(g, mst_config_name(c,
                        "attention.sliding_window_pattern", name), &pattern,
                        err);

    if (rc == MST_OK) {
        return mst_gguf_error(g, err, "%s: windows of some layers only are "
                              "not supported in GGUF yet", name);
    }

    if (rc == MST_ERROR) {
        return rc;
    }

    for (i = 0; i < c->n_layers; i++) {
        c->windows[i] = window;
    }

    if (mst_config_maybe(g, c, "attention.temperature_scale", &c->temp_beta,
                         err) != MST_OK)
    {
        return MST_ERROR;
    }

    if (c->temp_beta != 0 && c->temp_length == 0) {
        c->temp_length = (uint32_t) c->rope.original;
    }

    rc = mst_gguf_bool(g, mst_config_name(c, "attention.causal", name),
                       &causal, err);

    if (rc == MST_ERROR) {
        return rc;
    }

    if (rc == MST_OK && !causal) {
        return mst_gguf_error(g, err, "%s is false: such a model does not "
                              "generate text", name);
    }

    return MST_OK;
}


static void
mst_config_biases(const mst_gguf_t *g, mst_config_t *c)
{
    c->attn_bias = mst_gguf_tensor(g, "blk.0.attn_q.bias") != NULL;
    c->out_bias = mst_gguf_tensor(g, "blk.0.attn_output.bias") != NULL;
    c->mlp_bias = mst_gguf_tensor(g, "blk.0.ffn_gate.bias") != NULL;
}


static int
mst_config_tables(const mst_gguf_t *g, mst_config_t *c, mst_faults_t *faults,
    mst_err_t *err)
{
    size_t  i;

    for (i = 0; i < sizeof(mst_config_refused) / sizeof(mst_config_refused_t);
         i++)
    {
        if (mst_fault_pass(faults, mst_config_refuse(g, c,
                           &mst_config_refused[i], err), err) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    for (i = 0; i < sizeof(mst_config_keys) / sizeof(mst_config_key_t); i++) {
        if (mst_fault_pass(faults, mst_config_number(g, c,
                           &mst_config_keys[i], err), err) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_config_gguf(const mst_gguf_t *g, mst_config_t *c, mst_faults_t *faults,
    mst_err_t *err)
{
    size_t     i;
    uint32_t   told;
    mst_err_t  why;

    static int (*const  steps[])(const mst_gguf_t *, mst_config_t *,
                                 mst_err_t *) = {
        mst_config_floats, mst_config_rope, mst_config_attention,
        mst_config_vocab
    };

    memset(c, 0, sizeof(mst_config_t));
    told = mst_fault_count(faults);

    if (mst_config_arch(g, c, err) != MST_OK
        || mst_config_tables(g, c, faults, err) != MST_OK)
    {
        return MST_ERROR;
    }

    for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        if (mst_fault_pass(faults, steps[i](g, c, err), err) != MST_OK) {
            return MST_ERROR;
        }
    }

    /* what follows needs all of them */

    if (mst_fault_count(faults) != told) {
        return MST_ERROR;
    }

    mst_config_stops(g, c);
    mst_config_biases(g, c);
    why.text[0] = '\0';

    if (mst_config_check(c, &why) != MST_OK) {
        return mst_gguf_error(g, err, "%s", why.text);
    }

    return mst_config_values(g, c, err);
}


/* head_dim and rope_dim where the file leaves them to be computed */

static int
mst_config_heads(mst_config_t *c, mst_err_t *err)
{
    if (c->n_kv_heads == 0) {
        c->n_kv_heads = c->n_heads;
    }

    if (c->n_heads % c->n_kv_heads) {
        return mst_err_set(err, "%u heads of queries are no multiple of %u "
                           "heads of keys", c->n_heads, c->n_kv_heads);
    }

    if (c->head_dim == 0) {
        c->head_dim = c->dim / c->n_heads;

        if (c->dim % c->n_heads || c->head_dim > MST_CONFIG_MAX_HEAD) {
            return mst_err_set(err, "the length of a head is missing and "
                               "width %u does not split into %u heads of at "
                               "most %d", c->dim, c->n_heads,
                               MST_CONFIG_MAX_HEAD);
        }
    }

    if (c->rope_dim == 0) {
        c->rope_dim = c->head_dim;
    }

    if (c->head_dim % 2 || c->rope_dim % 2 || c->rope_dim > c->head_dim) {
        return mst_err_set(err, "rotation of %u and heads of %u must be even, "
                           "the first not the larger", c->rope_dim,
                           c->head_dim);
    }

    if (c->half_split && c->rope_dim != c->head_dim) {
        return mst_err_set(err, "rotation of %u of heads of %u is not "
                           "supported yet", c->rope_dim, c->head_dim);
    }

    return MST_OK;
}


int
mst_config_check(mst_config_t *c, mst_err_t *err)
{
    /* written so that NaN fails */

    if (!(c->rms_eps >= 1e-12f && c->rms_eps <= 0.1f)) {
        return mst_err_set(err, "epsilon of the norms is %g, limits are 1e-12 "
                           "and 0.1", (double) c->rms_eps);
    }

    if (c->n_experts == 1 || (c->n_experts && c->n_used == 0)
        || c->n_used > c->n_experts)
    {
        return mst_err_set(err, "%u of %u experts are no mixture", c->n_used,
                           c->n_experts);
    }

    if (!(c->temp_beta >= 0 && c->temp_beta <= 10)
        || (c->temp_beta != 0 && c->temp_length == 0))
    {
        return mst_err_set(err, "scaling of attention's temperature by %g "
                           "from %u tokens on is not supported", c->temp_beta,
                           c->temp_length);
    }

    if (mst_config_heads(c, err) != MST_OK) {
        return MST_ERROR;
    }

    return mst_rope_check(&c->rope, err);
}
