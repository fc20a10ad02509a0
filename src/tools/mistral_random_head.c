
/*
 * What stands before the data of a random model: GGUF's keys of "llama" and
 * its list of tensors, or the JSON of safetensors.
 */

#include <string.h>

#include "file/mst_gguf.h"
#include "tools/mistral_random_local.h"


#define MISTRAL_RANDOM_NAME  160               /* bytes of a tensor's name */


static const char *
mistral_random_name(const mistral_random_t *r,
    const mistral_random_tensor_t *t, char *name)
{
    return mst_weight_name(r->names, t->role, t->layer, t->expert,
                           r->config.n_experts != 0, name,
                           MISTRAL_RANDOM_NAME);
}


static void
mistral_random_le(mst_buf_t *b, uint64_t v, size_t n)
{
    for ( /* void */ ; n; n--, v >>= 8) {
        (void) mst_buf_char(b, (char) (v & 0xff));
    }
}


static void
mistral_random_text(mst_buf_t *b, const char *s)
{
    mistral_random_le(b, strlen(s), 8);
    (void) mst_buf_text(b, s);
}


static void
mistral_random_key(mst_buf_t *b, uint64_t *n, const char *key,
    mst_gguf_type_t type)
{
    mistral_random_text(b, key);
    mistral_random_le(b, type, 4);
    (*n)++;
}


static void
mistral_random_uint(mst_buf_t *b, uint64_t *n, const char *key, uint32_t v)
{
    mistral_random_key(b, n, key, MST_GGUF_U32);
    mistral_random_le(b, v, 4);
}


static void
mistral_random_float(mst_buf_t *b, uint64_t *n, const char *key, double v)
{
    float     f;
    uint32_t  u;

    f = (float) v;
    memcpy(&u, &f, 4);
    mistral_random_key(b, n, key, MST_GGUF_F32);
    mistral_random_le(b, u, 4);
}


static void
mistral_random_string(mst_buf_t *b, uint64_t *n, const char *key,
    const char *v)
{
    mistral_random_key(b, n, key, MST_GGUF_STRING);
    mistral_random_text(b, v);
}


static void
mistral_random_rope(const mst_config_t *c, mst_buf_t *b, uint64_t *n)
{
    mistral_random_float(b, n, "llama.rope.freq_base", c->rope.base);

    if (c->rope.kind == MST_ROPE_PLAIN) {
        return;
    }

    mistral_random_string(b, n, "llama.rope.scaling.type",
                          c->rope.kind == MST_ROPE_YARN ? "yarn" : "linear");
    mistral_random_float(b, n, "llama.rope.scaling.factor", c->rope.factor);

    if (c->rope.kind == MST_ROPE_YARN) {
        mistral_random_uint(b, n, "llama.rope.scaling.original_context_length",
                            (uint32_t) c->rope.original);
    }
}


/* metadata of "llama"; returns the number of keys */

static uint64_t
mistral_random_keys(const mst_config_t *c, mst_buf_t *b)
{
    uint64_t  n;

    n = 0;
    mistral_random_string(b, &n, "general.architecture", "llama");
    mistral_random_string(b, &n, "general.name", "random");
    mistral_random_uint(b, &n, "llama.block_count", c->n_layers);
    mistral_random_uint(b, &n, "llama.embedding_length", c->dim);
    mistral_random_uint(b, &n, "llama.feed_forward_length", c->ff_dim);
    mistral_random_uint(b, &n, "llama.attention.head_count", c->n_heads);
    mistral_random_uint(b, &n, "llama.attention.head_count_kv",
                        c->n_kv_heads);
    mistral_random_uint(b, &n, "llama.attention.key_length", c->head_dim);
    mistral_random_uint(b, &n, "llama.attention.value_length", c->head_dim);
    mistral_random_uint(b, &n, "llama.rope.dimension_count", c->rope_dim);
    mistral_random_uint(b, &n, "llama.context_length", c->context);
    mistral_random_uint(b, &n, "llama.vocab_size", c->n_vocab);
    mistral_random_float(b, &n, "llama.attention.layer_norm_rms_epsilon",
                         (double) c->rms_eps);
    mistral_random_rope(c, b, &n);

    if (c->windows[0]) {
        mistral_random_uint(b, &n, "llama.attention.sliding_window",
                            c->windows[0]);
    }

    if (c->n_experts) {
        mistral_random_uint(b, &n, "llama.expert_count", c->n_experts);
        mistral_random_uint(b, &n, "llama.expert_used_count", c->n_used);
    }

    return n;
}


/* what GGUF's keys of "llama" cannot say */

static int
mistral_random_llama(mistral_random_t *r)
{
    uint32_t             i;
    const mst_config_t  *c;

    c = &r->config;

    for (i = 1; i < c->n_layers; i++) {
        if (c->windows[i] != c->windows[0]) {
            return mst_err_set(r->err, "a window of some layers only is not "
                               "written as GGUF, use --format safetensors");
        }
    }

    if (c->rope.kind == MST_ROPE_LLAMA3 || c->rope.kind == MST_ROPE_DYNAMIC
        || c->temp_beta != 0)
    {
        return mst_err_set(r->err, "such rope scaling is not written as GGUF, "
                           "use --format safetensors");
    }

    return MST_OK;
}


int
mistral_random_head_gguf(mistral_random_t *r)
{
    char                            name[MISTRAL_RANDOM_NAME];
    size_t                          i, n;
    uint64_t                        n_keys, offset, size;
    mst_buf_t                       keys;
    const mistral_random_tensor_t  *t;

    if (mistral_random_llama(r) != MST_OK) {
        return MST_ERROR;
    }

    t = mistral_random_tensors(r, &n);

    mst_buf_init(&keys);
    n_keys = mistral_random_keys(&r->config, &keys);

    (void) mst_buf_text(&r->head, "GGUF");
    mistral_random_le(&r->head, 3, 4);
    mistral_random_le(&r->head, n, 8);
    mistral_random_le(&r->head, n_keys, 8);
    (void) mst_buf_append(&r->head, keys.data, keys.len);
    r->head.failed |= keys.failed;
    mst_buf_fini(&keys);

    offset = 0;

    for (i = 0; i < n; i++) {
        mistral_random_text(&r->head, mistral_random_name(r, &t[i], name));
        mistral_random_le(&r->head, t[i].out ? 2 : 1, 4);
        mistral_random_le(&r->head, t[i].in, 8);

        if (t[i].out) {
            mistral_random_le(&r->head, t[i].out, 8);
        }

        mistral_random_le(&r->head, t[i].type, 4);
        mistral_random_le(&r->head, offset, 8);

        size = mistral_random_size(&t[i]);
        offset += (size + MISTRAL_RANDOM_ALIGN - 1) / MISTRAL_RANDOM_ALIGN
                  * MISTRAL_RANDOM_ALIGN;
    }

    while (r->head.len % MISTRAL_RANDOM_ALIGN && !r->head.failed) {
        (void) mst_buf_char(&r->head, '\0');
    }

    return MST_OK;
}


void
mistral_random_head_safetensors(mistral_random_t *r)
{
    char                           name[MISTRAL_RANDOM_NAME];
    size_t                         i, n;
    uint64_t                       at, size;
    mst_buf_t                      json;
    const mistral_random_tensor_t  *t;

    t = mistral_random_tensors(r, &n);
    at = 0;

    mst_buf_init(&json);

    for (i = 0; i < n; i++) {
        size = mistral_random_size(&t[i]);

        (void) mst_buf_printf(&json, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                              i ? ',' : '{',
                              mistral_random_name(r, &t[i], name),
                              mst_type_name(t[i].type));

        if (t[i].out) {
            (void) mst_buf_printf(&json, "%llu,",
                                  (unsigned long long) t[i].out);
        }

        (void) mst_buf_printf(&json, "%llu],\"data_offsets\":[%llu,%llu]}",
                              (unsigned long long) t[i].in,
                              (unsigned long long) at,
                              (unsigned long long) (at + size));
        at += size;
    }

    (void) mst_buf_char(&json, '}');

    while (json.len % 8 && !json.failed) {
        (void) mst_buf_char(&json, ' ');
    }

    mistral_random_le(&r->head, json.len, 8);
    (void) mst_buf_append(&r->head, json.data, json.len);
    r->head.failed |= json.failed;
    mst_buf_fini(&json);
}
