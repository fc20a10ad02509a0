
/*
 * Hyper-parameters from Mistral's params.json, as mistral-inference reads it.
 */

#include <stddef.h>
#include <string.h>

#include "model/mst_config_json.h"

#define MST_CONFIG_PARAMS_CONTEXT  32768       /* where nothing is said */


#define mst_config_params_field(name)  offsetof(mst_config_t, name)


static const mst_config_json_key_t  mst_config_params_keys[] = {
    { "n_layers", mst_config_params_field(n_layers), 1,
      MST_CONFIG_MAX_LAYERS, 0 },
    { "dim", mst_config_params_field(dim), 2, 65536, 0 },
    { "hidden_dim", mst_config_params_field(ff_dim), 1, 1 << 20, 0 },
    { "n_heads", mst_config_params_field(n_heads), 1, 1024, 0 },
    { "n_kv_heads", mst_config_params_field(n_kv_heads), 1, 1024, 0 },
    { "head_dim", mst_config_params_field(head_dim), 2, MST_CONFIG_MAX_HEAD,
      0 },
    { "vocab_size", mst_config_params_field(n_vocab), 2,
      MST_CONFIG_MAX_VOCAB, 0 }
};


static int
mst_config_params_refuse(const mst_config_json_t *j, mst_config_t *c)
{
    (void) c;

    if (json_is_object(json_object_get(j->root, "quantization"))) {
        return mst_config_json_error(j, "quantization is not supported: "
                                     "weights are read as BF16, F16 or F32");
    }

    return MST_OK;
}


static int
mst_config_params_numbers(const mst_config_json_t *j, mst_config_t *c)
{
    return mst_config_json_table(j, j->root, mst_config_params_keys,
                                 sizeof(mst_config_params_keys)
                                 / sizeof(*mst_config_params_keys), c);
}


static int
mst_config_params_rest(const mst_config_json_t *j, mst_config_t *c)
{
    double    eps;
    uint32_t  context;

    eps = 0;
    context = MST_CONFIG_PARAMS_CONTEXT;

    if (mst_config_json_double(j, j->root, "norm_eps", &eps) == MST_ERROR
        || mst_config_json_uint(j, j->root, "max_seq_len", 2, 1 << 24,
                                &context) == MST_ERROR
        || mst_config_json_uint(j, j->root, "max_position_embeddings", 2,
                                1 << 24, &context) == MST_ERROR
        || mst_config_json_bool(j, j->root, "tied_embeddings", &c->tied)
           == MST_ERROR)
    {
        return MST_ERROR;
    }

    if (eps == 0) {
        return mst_config_json_error(j, "norm_eps is missing");
    }

    c->rms_eps = (float) eps;
    c->context = context;

    return MST_OK;
}


static int
mst_config_params_yarn(const mst_config_json_t *j, const json_t *o,
    mst_rope_t *r)
{
    int  scale;

    scale = 1;
    r->kind = MST_ROPE_YARN;

    if (mst_config_json_double(j, o, "factor", &r->factor) != MST_OK
        || mst_config_json_double(j, o, "original_max_position_embeddings",
                                  &r->original) != MST_OK)
    {
        return mst_config_json_error(j, "yarn needs factor and "
                                     "original_max_position_embeddings");
    }

    if (mst_config_json_double(j, o, "beta", &r->beta_fast) == MST_ERROR
        || mst_config_json_double(j, o, "alpha", &r->beta_slow) == MST_ERROR
        || mst_config_json_bool(j, o, "apply_scale", &scale) == MST_ERROR)
    {
        return MST_ERROR;
    }

    r->attention = scale ? mst_rope_mscale(r->factor, 1) : 1;

    return MST_OK;
}


static int
mst_config_params_rope(const mst_config_json_t *j, mst_config_t *c)
{
    const json_t  *o;

    mst_rope_init(&c->rope, 0);

    if (mst_config_json_double(j, j->root, "rope_theta", &c->rope.base)
        != MST_OK)
    {
        return mst_config_json_error(j, "rope_theta is missing, and programs "
                                     "disagree about what it then is: add it");
    }

    o = json_object_get(j->root, "yarn");

    if (json_is_object(o)
        && mst_config_params_yarn(j, o, &c->rope) != MST_OK)
    {
        return MST_ERROR;
    }

    o = json_object_get(j->root, "llama_4_scaling");

    if (json_is_object(o)
        && (mst_config_json_double(j, o, "beta", &c->temp_beta) != MST_OK
            || mst_config_json_uint(j, o, "original_max_position_embeddings",
                                    1, 1 << 24, &c->temp_length) != MST_OK))
    {
        return mst_config_json_error(j, "llama_4_scaling needs beta and "
                                     "original_max_position_embeddings");
    }

    return MST_OK;
}


/* a number for all layers, or a list that repeats */

static int
mst_config_params_windows(const mst_config_json_t *j, mst_config_t *c)
{
    size_t         n;
    uint32_t       i;
    const char    *key;
    json_int_t     window;
    const json_t  *v, *w;

    key = mst_config_json_given(j->root, "sliding_window") ? "sliding_window"
                                                           : "_sliding_window";
    v = json_object_get(j->root, key);

    if (v == NULL || json_is_null(v)) {
        return MST_OK;
    }

    n = json_array_size(v);

    if (json_is_array(v) && (n == 0 || c->n_layers % n)) {
        return mst_config_json_error(j, "%s has %zu entries, which do not "
                                     "repeat into %u layers", key, n,
                                     c->n_layers);
    }

    for (i = 0; i < c->n_layers; i++) {
        w = n ? json_array_get(v, i % n) : v;
        window = json_is_integer(w) ? json_integer_value(w) : 0;

        if (!json_is_null(w) && (window < 1 || window > 1 << 24)) {
            return mst_config_json_error(j, "%s is neither null nor a number "
                                         "from 1 to %d", key, 1 << 24);
        }

        c->windows[i] = (uint32_t) window;
    }

    return MST_OK;
}


static int
mst_config_params_experts(const mst_config_json_t *j, mst_config_t *c)
{
    const json_t  *moe;

    static const mst_config_json_key_t  keys[] = {
        { "num_experts", mst_config_params_field(n_experts), 2,
          MST_CONFIG_MAX_EXPERTS, 0 },
        { "num_experts_per_tok", mst_config_params_field(n_used), 1,
          MST_CONFIG_MAX_EXPERTS, 0 }
    };

    moe = json_object_get(j->root, "moe");

    return json_is_object(moe) ? mst_config_json_table(j, moe, keys, 2, c)
                               : MST_OK;
}


static int
mst_config_params_read(const mst_config_json_t *j, mst_config_t *c)
{
    size_t     i;
    uint32_t   told;
    mst_err_t  err;

    static int (*const  steps[])(const mst_config_json_t *, mst_config_t *) = {
        mst_config_params_refuse, mst_config_params_numbers,
        mst_config_params_rest, mst_config_params_rope,
        mst_config_params_experts
    };

    (void) strcpy(c->arch, "mistral");
    told = mst_fault_count(j->faults);

    for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        if (mst_fault_pass(j->faults, steps[i](j, c), j->err) != MST_OK) {
            return MST_ERROR;
        }
    }

    /* what follows needs all of the numbers */

    if (mst_fault_count(j->faults) != told
        || mst_config_params_windows(j, c) != MST_OK)
    {
        return MST_ERROR;
    }

    err.text[0] = '\0';

    return mst_config_check(c, &err) == MST_OK
           ? MST_OK : mst_config_json_error(j, "%s", err.text);
}


int
mst_config_params(const char *text, size_t len, const char *name,
    mst_config_t *c, mst_faults_t *faults, mst_err_t *err)
{
    int                rc;
    mst_config_json_t  j;

    memset(c, 0, sizeof(mst_config_t));

    if (mst_config_json_open(&j, text, len, name, faults, err) != MST_OK) {
        return MST_ERROR;
    }

    rc = mst_config_params_read(&j, c);

    mst_config_json_close(&j);

    return rc;
}
