
/*
 * Hyper-parameters from a config.json of Hugging Face's transformers: the
 * keys of its Llama, Mistral, Mixtral, Ministral and Ministral3 classes, in
 * the spelling of version 4 (rope_theta, rope_scaling) and of version 5
 * (rope_parameters).  A key that is absent has the class's default there; an
 * explicit null is another thing where the default is not null.
 */

#include <stddef.h>
#include <string.h>

#include "model/mst_config_json.h"


/* what a class assumes where config.json is silent */
typedef struct {
    const char  *type;             /* model_type */
    const char  *arch;             /* of architectures */
    uint32_t     window;           /* sliding_window */
    double       theta;            /* rope_theta; 0: no default to trust */
    double       eps;
    int          layer_types;      /* are looked at */
} mst_config_hf_class_t;


static const mst_config_hf_class_t  mst_config_hf_classes[] = {
    { "llama", "LlamaForCausalLM", 0, 1e4, 1e-6, 0 },
    { "mistral", "MistralForCausalLM", 4096, 0, 1e-6, 0 },
    { "mixtral", "MixtralForCausalLM", 0, 1e6, 1e-5, 0 },
    { "ministral", "MinistralForCausalLM", 4096, 0, 1e-6, 1 },
    { "ministral3", "Ministral3ForCausalLM", 0, 1e6, 1e-5, 0 }
};


#define mst_config_hf_field(name)  offsetof(mst_config_t, name)


static const mst_config_json_key_t  mst_config_hf_keys[] = {
    { "num_hidden_layers", mst_config_hf_field(n_layers), 1,
      MST_CONFIG_MAX_LAYERS, 0 },
    { "hidden_size", mst_config_hf_field(dim), 2, 65536, 0 },
    { "intermediate_size", mst_config_hf_field(ff_dim), 1, 1 << 20, 0 },
    { "num_attention_heads", mst_config_hf_field(n_heads), 1, 1024, 0 },
    { "vocab_size", mst_config_hf_field(n_vocab), 2, MST_CONFIG_MAX_VOCAB,
      0 },
    { "max_position_embeddings", mst_config_hf_field(context), 2, 1 << 24, 0 }
};


typedef int (*mst_config_hf_step_pt)(const mst_config_json_t *j,
    const json_t *o, const mst_config_hf_class_t *class, mst_config_t *c);


/* root: the file's object; *o: where the language model's keys are */

static int
mst_config_hf_class(const mst_config_json_t *j, const json_t **o,
    const mst_config_hf_class_t **class, mst_config_t *c)
{
    size_t         i;
    const char    *type;
    const json_t  *text;

    *o = j->root;
    text = json_object_get(j->root, "text_config");

    if (json_is_object(text)) {
        *o = text;
    }

    if (mst_config_json_string(j, *o, "model_type", &type) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0;
         i < sizeof(mst_config_hf_classes) / sizeof(*mst_config_hf_classes);
         i++)
    {
        *class = &mst_config_hf_classes[i];

        if (strcmp(type, (*class)->type) == 0) {
            (void) strcpy(c->arch, type);
            return MST_OK;
        }
    }

    return mst_config_json_error(j, "model_type \"%.40s\" is not supported; "
                                 "llama, mistral, mixtral, ministral and "
                                 "ministral3 are", type);
}


/* a class that only looks like ours */

static int
mst_config_hf_arch(const mst_config_json_t *j, const json_t *o,
    const mst_config_hf_class_t *class, mst_config_t *c)
{
    const char    *arch;
    const json_t  *list;

    (void) c;

    list = json_object_get(o, "architectures");

    if (json_array_size(list) == 0) {
        list = json_object_get(j->root, "architectures");
    }

    arch = json_string_value(json_array_get(list, 0));

    if (arch == NULL || strcmp(arch, class->arch) == 0
        || strcmp(arch, "Mistral3ForConditionalGeneration") == 0)
    {
        return MST_OK;
    }

    return mst_config_json_error(j, "architecture \"%.60s\" is not supported "
                                 "for model_type \"%s\", %s is", arch,
                                 class->type, class->arch);
}


/* what would change the numbers, with the one value that does not */

static int
mst_config_hf_quantised(const mst_config_json_t *j, const json_t *o,
    const mst_config_hf_class_t *class, mst_config_t *c)
{
    const char    *method;
    const json_t  *q;

    (void) class;
    (void) c;

    q = json_object_get(o, "quantization_config");
    q = q ? q : json_object_get(j->root, "quantization_config");

    if (json_is_object(q)) {
        method = json_string_value(json_object_get(q, "quant_method"));
        return mst_config_json_error(j, "quantization_config \"%.40s\" is not "
                                     "supported: weights are read as BF16, "
                                     "F16 or F32", method ? method : "");
    }

    return MST_OK;
}


static int
mst_config_hf_act(const mst_config_json_t *j, const json_t *o,
    const mst_config_hf_class_t *class, mst_config_t *c)
{
    const char  *act;

    (void) class;
    (void) c;

    if (mst_config_json_string(j, o, "hidden_act", &act) != MST_OK) {
        return MST_ERROR;
    }

    if (act[0] && strcmp(act, "silu") != 0) {
        return mst_config_json_error(j, "hidden_act \"%.40s\" is not "
                                     "supported, silu is", act);
    }

    return MST_OK;
}


static int
mst_config_hf_partial(const mst_config_json_t *j, const json_t *o,
    const mst_config_hf_class_t *class, mst_config_t *c)
{
    double  rotary;

    (void) class;
    (void) c;

    rotary = 1;

    if (mst_config_json_double(j, o, "partial_rotary_factor", &rotary)
        == MST_ERROR)
    {
        return MST_ERROR;
    }

    if (rotary != 1) {
        return mst_config_json_error(j, "partial_rotary_factor %g is not "
                                     "supported", rotary);
    }

    return MST_OK;
}


static int
mst_config_hf_yarn(const mst_config_json_t *j, const json_t *o, mst_rope_t *r)
{
    int     truncate;
    double  all, scale;

    all = 0;
    scale = 0;
    truncate = 1;

    r->attention = 0;

    if (mst_config_json_double(j, o, "beta_fast", &r->beta_fast) == MST_ERROR
        || mst_config_json_double(j, o, "beta_slow", &r->beta_slow)
           == MST_ERROR
        || mst_config_json_double(j, o, "mscale", &scale) == MST_ERROR
        || mst_config_json_double(j, o, "mscale_all_dim", &all) == MST_ERROR
        || mst_config_json_double(j, o, "attention_factor", &r->attention)
           == MST_ERROR
        || mst_config_json_bool(j, o, "truncate", &truncate) == MST_ERROR)
    {
        return MST_ERROR;
    }

    r->smooth = !truncate;

    if (r->attention == 0) {
        r->attention = (scale != 0 && all != 0)
                       ? mst_rope_mscale(r->factor, scale)
                         / mst_rope_mscale(r->factor, all)
                       : mst_rope_mscale(r->factor, 1);
    }

    return MST_OK;
}


static int
mst_config_hf_kind(const mst_config_json_t *j, const char *kind, mst_rope_t *r)
{
    size_t  i;

    static const struct {
        const char       *name;
        mst_rope_kind_t   kind;
    } kinds[] = {
        { "", MST_ROPE_PLAIN },
        { "default", MST_ROPE_PLAIN },
        { "linear", MST_ROPE_LINEAR },
        { "dynamic", MST_ROPE_DYNAMIC },
        { "llama3", MST_ROPE_LLAMA3 },
        { "yarn", MST_ROPE_YARN }
    };

    for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(kind, kinds[i].name) == 0) {
            r->kind = kinds[i].kind;
            return MST_OK;
        }
    }

    return mst_config_json_error(j, "rope_type \"%.40s\" is not supported; "
                                 "default, linear, dynamic, llama3 and yarn "
                                 "are", kind);
}


/* "scaling": rope_scaling or rope_parameters; may be absent */

static int
mst_config_hf_scaling(const mst_config_json_t *j, const json_t *scaling,
    mst_config_t *c)
{
    double       original;
    const char  *kind;
    mst_rope_t  *r;

    r = &c->rope;
    original = c->context;

    if (mst_config_json_string(j, scaling, "rope_type", &kind) != MST_OK
        || (kind[0] == '\0'
            && mst_config_json_string(j, scaling, "type", &kind) != MST_OK)
        || mst_config_hf_kind(j, kind, r) != MST_OK)
    {
        return MST_ERROR;
    }

    if (r->kind == MST_ROPE_PLAIN) {
        return MST_OK;
    }

    if (mst_config_json_double(j, scaling, "factor", &r->factor) != MST_OK) {
        return mst_config_json_error(j, "rope scaling \"%.40s\" has no factor",
                                     kind);
    }

    if ((r->kind == MST_ROPE_YARN
         && mst_config_hf_yarn(j, scaling, r) != MST_OK)
        || mst_config_json_double(j, scaling, "low_freq_factor", &r->low_freq)
           == MST_ERROR
        || mst_config_json_double(j, scaling, "high_freq_factor",
                                  &r->high_freq) == MST_ERROR
        || (r->kind != MST_ROPE_DYNAMIC
            && mst_config_json_double(j, scaling,
                                      "original_max_position_embeddings",
                                      &original) == MST_ERROR))
    {
        return MST_ERROR;
    }

    r->original = original;

    if (r->kind == MST_ROPE_DYNAMIC && r->factor >= 1
        && r->factor * c->context < 1 << 24)
    {
        c->context = (uint32_t) (r->factor * c->context);
    }

    return MST_OK;
}


static int
mst_config_hf_rope(const mst_config_json_t *j, const json_t *o,
    const mst_config_hf_class_t *class, mst_config_t *c)
{
    double         length;
    const json_t  *scaling;

    scaling = json_object_get(o, "rope_parameters");

    if (!json_is_object(scaling)) {
        scaling = json_object_get(o, "rope_scaling");
    }

    mst_rope_init(&c->rope, class->theta);

    if (mst_config_json_double(j, o, "rope_theta", &c->rope.base) == MST_ERROR
        || mst_config_json_double(j, scaling, "rope_theta", &c->rope.base)
           == MST_ERROR)
    {
        return MST_ERROR;
    }

    if (c->rope.base == 0) {

        /* programs disagree about the default, and a wrong one is noticed by
           nobody but the reader of bad answers */

        return mst_config_json_error(j, "rope_theta is missing");
    }

    if (mst_config_hf_scaling(j, scaling, c) != MST_OK
        || mst_config_json_double(j, scaling, "llama_4_scaling_beta",
                                  &c->temp_beta) == MST_ERROR)
    {
        return MST_ERROR;
    }

    if (c->temp_beta != 0) {
        length = c->rope.original;

        if (mst_config_json_double(j, scaling,
                                   "original_max_position_embeddings", &length)
            == MST_ERROR || !(length >= 1 && length <= 1 << 24))
        {
            return mst_config_json_error(j, "llama_4_scaling_beta needs "
                                         "original_max_position_embeddings");
        }

        c->temp_length = (uint32_t) length;
    }

    return MST_OK;
}


static int
mst_config_hf_windows(const mst_config_json_t *j, const json_t *o,
    const mst_config_hf_class_t *class, mst_config_t *c)
{
    uint32_t       i, window;
    const char    *type;
    const json_t  *types;

    window = mst_config_json_given(o, "sliding_window") ? 0 : class->window;

    if (class->window == 0 && strcmp(class->type, "llama") == 0) {
        return MST_OK;                         /* that class has none */
    }

    if (mst_config_json_uint(j, o, "sliding_window", 1, 1 << 24, &window)
        == MST_ERROR)
    {
        return MST_ERROR;
    }

    types = class->layer_types ? json_object_get(o, "layer_types") : NULL;

    if (json_is_array(types) && json_array_size(types) != c->n_layers) {
        return mst_config_json_error(j, "layer_types has %zu entries for %u "
                                     "layers", json_array_size(types),
                                     c->n_layers);
    }

    for (i = 0; i < c->n_layers; i++) {
        c->windows[i] = window;

        if (!json_is_array(types)) {
            continue;
        }

        type = json_string_value(json_array_get(types, i));

        if (type && strcmp(type, "full_attention") == 0) {
            c->windows[i] = 0;

        } else if (type == NULL || strcmp(type, "sliding_attention") != 0) {
            return mst_config_json_error(j, "layer_types[%u] is neither "
                                         "full_attention nor "
                                         "sliding_attention", i);
        }
    }

    return MST_OK;
}


static int
mst_config_hf_experts(const mst_config_json_t *j, const json_t *o,
    const mst_config_hf_class_t *class, mst_config_t *c)
{
    static const mst_config_json_key_t  keys[] = {
        { "num_local_experts", mst_config_hf_field(n_experts), 2,
          MST_CONFIG_MAX_EXPERTS, 8 },
        { "num_experts_per_tok", mst_config_hf_field(n_used), 1,
          MST_CONFIG_MAX_EXPERTS, 2 }
    };

    if (strcmp(class->type, "mixtral") != 0) {
        return MST_OK;
    }

    return mst_config_json_table(j, o, keys, 2, c);
}


static int
mst_config_hf_rest(const mst_config_json_t *j, const json_t *o,
    const mst_config_hf_class_t *class, mst_config_t *c)
{
    int     rc;
    double  eps;

    eps = class->eps;
    c->n_kv_heads = c->n_heads;

    if (strcmp(class->type, "llama") != 0) {
        c->n_kv_heads = 8;                     /* the classes' default */
    }

    if (mst_config_json_double(j, o, "rms_norm_eps", &eps) == MST_ERROR
        || mst_config_json_uint(j, o, "num_key_value_heads", 1, 1024,
                                &c->n_kv_heads) == MST_ERROR
        || mst_config_json_uint(j, o, "head_dim", 2, MST_CONFIG_MAX_HEAD,
                                &c->head_dim) == MST_ERROR
        || mst_config_json_bool(j, o, "attention_bias", &c->attn_bias)
           == MST_ERROR
        || mst_config_json_bool(j, o, "mlp_bias", &c->mlp_bias) == MST_ERROR)
    {
        return MST_ERROR;
    }

    c->rms_eps = (float) eps;
    c->out_bias = c->attn_bias;
    c->half_split = 1;

    rc = mst_config_json_bool(j, o, "tie_word_embeddings", &c->tied);

    if (rc == MST_DECLINED && o != j->root) {
        rc = mst_config_json_bool(j, j->root, "tie_word_embeddings",
                                  &c->tied);
    }

    if (rc == MST_ERROR
        || mst_config_json_stops(j, o, "eos_token_id", c) != MST_OK)
    {
        return MST_ERROR;
    }

    if (c->n_stop == 0 && o != j->root) {
        return mst_config_json_stops(j, j->root, "eos_token_id", c);
    }

    return MST_OK;
}


static int
mst_config_hf_numbers(const mst_config_json_t *j, const json_t *o,
    const mst_config_hf_class_t *class, mst_config_t *c)
{
    (void) class;

    return mst_config_json_table(j, o, mst_config_hf_keys,
                                 sizeof(mst_config_hf_keys)
                                 / sizeof(*mst_config_hf_keys), c);
}


static const mst_config_hf_step_pt  mst_config_hf_steps[] = {
    mst_config_hf_arch, mst_config_hf_quantised, mst_config_hf_act,
    mst_config_hf_partial, mst_config_hf_numbers, mst_config_hf_rest,
    mst_config_hf_experts, mst_config_hf_rope
};


static int
mst_config_hf_read(const mst_config_json_t *j, mst_config_t *c)
{
    size_t                        i;
    uint32_t                      told;
    mst_err_t                     err;
    const json_t                 *o;
    const mst_config_hf_class_t  *class;

    told = mst_fault_count(j->faults);

    if (mst_config_hf_class(j, &o, &class, c) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < sizeof(mst_config_hf_steps) / sizeof(*mst_config_hf_steps);
         i++)
    {
        if (mst_fault_pass(j->faults, mst_config_hf_steps[i](j, o, class, c),
                           j->err) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    /* what follows needs all of the numbers */

    if (mst_fault_count(j->faults) != told
        || mst_config_hf_windows(j, o, class, c) != MST_OK)
    {
        return MST_ERROR;
    }

    err.text[0] = '\0';

    return mst_config_check(c, &err) == MST_OK
           ? MST_OK : mst_config_json_error(j, "%s", err.text);
}


int
mst_config_hf(const char *text, size_t len, const char *name, mst_config_t *c,
    mst_faults_t *faults, mst_err_t *err)
{
    int                rc;
    mst_config_json_t  j;

    memset(c, 0, sizeof(mst_config_t));

    if (mst_config_json_open(&j, text, len, name, faults, err) != MST_OK) {
        return MST_ERROR;
    }

    rc = mst_config_hf_read(&j, c);

    mst_config_json_close(&j);

    return rc;
}
