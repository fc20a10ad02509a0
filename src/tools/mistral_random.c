
/*
 * A random model of a given shape: see mistral_random.h.
 *
 * Matrices are uniform with a variance of 1 / inputs, so that activations
 * keep their size through any number of layers; norms are 1.  Each tensor
 * has its own stream of numbers, hence the bytes do not depend on the order
 * of writing.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_buf.h"
#include "base/mst_mem.h"
#include "file/mst_quant.h"
#include "model/mst_checkpoint.h"
#include "model/mst_weight.h"
#include "tools/mistral_random.h"

#define MISTRAL_RANDOM_CHUNK  (4u << 20)       /* elements at a time */
#define MISTRAL_RANDOM_ALIGN  32               /* of GGUF's data */
#define MISTRAL_RANDOM_NAME   160
#define MISTRAL_RANDOM_JSON   (8 << 20)        /* bytes of a configuration */


typedef struct {
    mst_weight_t  role;
    uint32_t      layer;
    uint32_t      expert;
    uint64_t      in;              /* dims[0] */
    uint64_t      out;             /* dims[1]; 0: a vector */
    mst_type_t    type;
} mistral_random_tensor_t;


typedef struct {
    mst_config_t              config;
    mst_names_t               names;
    mst_type_t                type;
    uint64_t                  seed;
    mst_buf_t                 text;        /* of the configuration */
    mst_buf_t                 tensors;     /* mistral_random_tensor_t each */
    mst_buf_t                 head;        /* what stands before the data */
    int                       fd;
    const char               *path;        /* of fd, for sentences */
    unsigned char            *chunk;
    mst_err_t                *err;
} mistral_random_t;


static int
mistral_random_read(mistral_random_t *r, const char *path)
{
    FILE    *f;
    char     part[4096];
    size_t   n;

    f = fopen(path, "re");

    if (f == NULL) {
        return mst_err_errno(r->err, errno, "%s: cannot be opened", path);
    }

    while ((n = fread(part, 1, sizeof(part), f)) != 0
           && r->text.len < MISTRAL_RANDOM_JSON)
    {
        (void) mst_buf_append(&r->text, part, n);
    }

    (void) fclose(f);

    if (r->text.failed || r->text.len == 0) {
        return mst_err_set(r->err, "%s: cannot be read", path);
    }

    if (memmem(r->text.data, r->text.len, "\"dim\"", 5) != NULL) {
        r->names = MST_NAMES_MISTRAL;
        return mst_config_params(r->text.data, r->text.len, path, &r->config,
                                 r->err);
    }

    r->names = MST_NAMES_HF;

    return mst_config_hf(r->text.data, r->text.len, path, &r->config, r->err);
}


static void
mistral_random_add(mistral_random_t *r, mst_weight_t role, uint32_t layer,
    uint32_t expert, uint64_t in, uint64_t out)
{
    mistral_random_tensor_t  t;

    t.role = role;
    t.layer = layer;
    t.expert = expert;
    t.in = in;
    t.out = out;
    t.type = r->type;

    /* vectors are F32 in GGUF; what does not split into blocks stays F16 */

    if (out == 0 && r->names == MST_NAMES_GGUF) {
        t.type = MST_TYPE_F32;

    } else if (in % mst_type_info(r->type)->block) {
        t.type = MST_TYPE_F16;
    }

    (void) mst_buf_append(&r->tensors, &t, sizeof(t));
}


static void
mistral_random_layer(mistral_random_t *r, uint32_t l)
{
    uint32_t             e, kv, q;
    const mst_config_t  *c;

    c = &r->config;
    q = c->n_heads * c->head_dim;
    kv = c->n_kv_heads * c->head_dim;

    mistral_random_add(r, MST_WEIGHT_ATTN_NORM, l, 0, c->dim, 0);
    mistral_random_add(r, MST_WEIGHT_Q, l, 0, c->dim, q);
    mistral_random_add(r, MST_WEIGHT_K, l, 0, c->dim, kv);
    mistral_random_add(r, MST_WEIGHT_V, l, 0, c->dim, kv);
    mistral_random_add(r, MST_WEIGHT_OUT, l, 0, q, c->dim);

    if (c->attn_bias) {
        mistral_random_add(r, MST_WEIGHT_Q_BIAS, l, 0, q, 0);
        mistral_random_add(r, MST_WEIGHT_K_BIAS, l, 0, kv, 0);
        mistral_random_add(r, MST_WEIGHT_V_BIAS, l, 0, kv, 0);
    }

    if (c->out_bias) {
        mistral_random_add(r, MST_WEIGHT_OUT_BIAS, l, 0, c->dim, 0);
    }

    mistral_random_add(r, MST_WEIGHT_FFN_NORM, l, 0, c->dim, 0);

    if (c->n_experts) {
        mistral_random_add(r, MST_WEIGHT_ROUTER, l, 0, c->dim, c->n_experts);
    }

    for (e = 0; e < (c->n_experts ? c->n_experts : 1); e++) {
        mistral_random_add(r, MST_WEIGHT_GATE, l, e, c->dim, c->ff_dim);
        mistral_random_add(r, MST_WEIGHT_UP, l, e, c->dim, c->ff_dim);
        mistral_random_add(r, MST_WEIGHT_DOWN, l, e, c->ff_dim, c->dim);
    }

    if (c->mlp_bias && c->n_experts == 0) {
        mistral_random_add(r, MST_WEIGHT_GATE_BIAS, l, 0, c->ff_dim, 0);
        mistral_random_add(r, MST_WEIGHT_UP_BIAS, l, 0, c->ff_dim, 0);
        mistral_random_add(r, MST_WEIGHT_DOWN_BIAS, l, 0, c->dim, 0);
    }
}


static int
mistral_random_list(mistral_random_t *r)
{
    uint32_t             l;
    const mst_config_t  *c;

    c = &r->config;

    mistral_random_add(r, MST_WEIGHT_EMBD, 0, 0, c->dim, c->n_vocab);
    mistral_random_add(r, MST_WEIGHT_NORM, 0, 0, c->dim, 0);

    if (!c->tied) {
        mistral_random_add(r, MST_WEIGHT_HEAD, 0, 0, c->dim, c->n_vocab);
    }

    for (l = 0; l < c->n_layers; l++) {
        mistral_random_layer(r, l);
    }

    return r->tensors.failed ? mst_err_set(r->err, "no memory") : MST_OK;
}


static uint64_t
mistral_random_elements(const mistral_random_tensor_t *t)
{
    return t->in * (t->out ? t->out : 1);
}


static uint64_t
mistral_random_size(const mistral_random_tensor_t *t)
{
    const mst_type_info_t  *info;

    info = mst_type_info(t->type);

    return mistral_random_elements(t) / info->block * info->size;
}


static const char *
mistral_random_name(const mistral_random_t *r,
    const mistral_random_tensor_t *t, char *name)
{
    return mst_weight_name(r->names, t->role, t->layer, t->expert,
                           r->config.n_experts != 0, name,
                           MISTRAL_RANDOM_NAME);
}


/* splitmix64: 64 bits for each count */

static inline uint64_t
mistral_random_bits(uint64_t *state)
{
    uint64_t  z;

    *state += 0x9e3779b97f4a7c15ull;
    z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;

    return z ^ z >> 31;
}


/* n elements from -a to a; vectors: of 1 */

static void
mistral_random_floats(const mistral_random_tensor_t *t, uint64_t *state,
    float a, uint32_t n, unsigned char *p)
{
    float      f;
    uint16_t   h;
    uint32_t   i;
    uint64_t   bits;

    bits = 0;

    for (i = 0; i < n; i++) {

        if (i % 4 == 0) {
            bits = mistral_random_bits(state);
        }

        f = t->out ? (float) (int16_t) bits * (a / 32768) : 1;
        bits >>= 16;

        if (t->type == MST_TYPE_F32) {
            memcpy(p, &f, 4);
            p += 4;
            continue;
        }

        h = t->type == MST_TYPE_BF16 ? mst_f32_to_bf16(f) : mst_f32_to_f16(f);
        memcpy(p, &h, 2);
        p += 2;
    }
}


/* what makes random bits about -a .. a: f16 at these bytes of a block, of a
   times these factors */

static const struct {
    mst_type_t   type;
    uint32_t     scale;
    float        factor;
    uint32_t     min;              /* 0 = none */
    float        min_factor;
} mistral_random_scales[] = {
    { MST_TYPE_Q4_0, 0, 1 / 8.0f, 0, 0 },
    { MST_TYPE_Q4_1, 0, 1 / 7.5f, 2, -1 },
    { MST_TYPE_Q8_0, 0, 1 / 128.0f, 0, 0 },
    { MST_TYPE_Q4_K, 0, 1 / 360.0f, 2, 1 / 48.0f },
    { MST_TYPE_Q6_K, 208, 1 / 2400.0f, 0, 0 }
};


static void
mistral_random_blocks(const mistral_random_tensor_t *t, uint64_t *state,
    float a, uint32_t n, unsigned char *p)
{
    size_t                  s;
    uint16_t                h;
    uint32_t                i, k;
    uint64_t                bits;
    const mst_type_info_t  *info;

    info = mst_type_info(t->type);

    for (s = 0; mistral_random_scales[s].type != t->type; s++) {
        /* void: all types of blocks are there */
    }

    for (i = 0; i < n; i += info->block, p += info->size) {

        for (k = 0; k < info->size; k += 8) {
            bits = mistral_random_bits(state);
            memcpy(p + k, &bits, info->size - k < 8 ? info->size - k : 8);
        }

        h = mst_f32_to_f16(a * mistral_random_scales[s].factor);
        memcpy(p + mistral_random_scales[s].scale, &h, 2);

        if (mistral_random_scales[s].min) {
            h = mst_f32_to_f16(a * mistral_random_scales[s].min_factor);
            memcpy(p + mistral_random_scales[s].min, &h, 2);
        }
    }
}


static int
mistral_random_write(mistral_random_t *r, const void *data, size_t n)
{
    ssize_t               done;
    const unsigned char  *p;

    for (p = data; n; p += done, n -= (size_t) done) {
        done = write(r->fd, p, n);

        if (done <= 0) {
            return mst_err_errno(r->err, errno, "%s: cannot be written",
                                 r->path);
        }
    }

    return MST_OK;
}


static int
mistral_random_data(mistral_random_t *r, const mistral_random_tensor_t *t,
    uint64_t number)
{
    float                   a;
    uint32_t                n;
    uint64_t                left, state;
    const mst_type_info_t  *info;

    info = mst_type_info(t->type);
    a = sqrtf(3.0f / (float) t->in);
    state = r->seed ^ (number + 1) * 0xd1342543de82ef95ull;

    for (left = mistral_random_elements(t); left; left -= n) {
        n = left < MISTRAL_RANDOM_CHUNK ? (uint32_t) left
                                        : MISTRAL_RANDOM_CHUNK;

        if (info->block == 1) {
            mistral_random_floats(t, &state, a, n, r->chunk);
        } else {
            mistral_random_blocks(t, &state, a, n, r->chunk);
        }

        if (mistral_random_write(r, r->chunk, n / info->block * info->size)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* head, then all tensors, each filled up to a multiple of "align" */

static int
mistral_random_file(mistral_random_t *r, size_t align)
{
    size_t                         i, n, pad;
    const mistral_random_tensor_t *t;

    static const unsigned char  zeros[MISTRAL_RANDOM_ALIGN];

    if (r->head.failed) {
        return mst_err_set(r->err, "no memory");
    }

    r->fd = open(r->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (r->fd == -1) {
        return mst_err_errno(r->err, errno, "%s: cannot be created", r->path);
    }

    if (mistral_random_write(r, r->head.data, r->head.len) != MST_OK) {
        return MST_ERROR;
    }

    t = (const mistral_random_tensor_t *) (void *) r->tensors.data;
    n = r->tensors.len / sizeof(*t);

    for (i = 0; i < n; i++) {
        pad = (align - mistral_random_size(&t[i]) % align) % align;

        if (mistral_random_data(r, &t[i], i) != MST_OK
            || mistral_random_write(r, zeros, pad) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    i = (size_t) close(r->fd);
    r->fd = -1;

    return i == 0 ? MST_OK : mst_err_errno(r->err, errno,
                                           "%s: cannot be written", r->path);
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
mistral_random_able(mistral_random_t *r)
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


static int
mistral_random_gguf(mistral_random_t *r, const char *out)
{
    char                           name[MISTRAL_RANDOM_NAME];
    size_t                         i, n;
    uint64_t                       n_keys, offset, size;
    mst_buf_t                      keys;
    const mistral_random_tensor_t *t;

    r->names = MST_NAMES_GGUF;
    r->path = out;

    if (mistral_random_able(r) != MST_OK || mistral_random_list(r) != MST_OK) {
        return MST_ERROR;
    }

    t = (const mistral_random_tensor_t *) (void *) r->tensors.data;
    n = r->tensors.len / sizeof(*t);

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

    return mistral_random_file(r, MISTRAL_RANDOM_ALIGN);
}


static void
mistral_random_header(mistral_random_t *r)
{
    char                           name[MISTRAL_RANDOM_NAME];
    size_t                         i, n;
    uint64_t                       at, size;
    mst_buf_t                      json;
    const mistral_random_tensor_t *t;

    t = (const mistral_random_tensor_t *) (void *) r->tensors.data;
    n = r->tensors.len / sizeof(*t);
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


static int
mistral_random_safetensors(mistral_random_t *r, const char *out)
{
    int   mistral;
    char  path[PATH_MAX];

    if (mst_type_info(r->type)->block != 1) {
        (void) mst_err_set(r->err, "type %s is not written as safetensors, "
                           "bf16, f16 and f32 are", mst_type_name(r->type));
        return MST_DECLINED;
    }

    if (mistral_random_list(r) != MST_OK) {
        return MST_ERROR;
    }

    if (mkdir(out, 0755) == -1 && errno != EEXIST) {
        return mst_err_errno(r->err, errno, "%s: cannot be made", out);
    }

    mistral = r->names == MST_NAMES_MISTRAL;
    r->path = path;
    (void) snprintf(path, sizeof(path), "%s/%s", out,
                    mistral ? "params.json" : "config.json");
    r->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (r->fd == -1) {
        return mst_err_errno(r->err, errno, "%s: cannot be created", path);
    }

    if (mistral_random_write(r, r->text.data, r->text.len) != MST_OK) {
        return MST_ERROR;
    }

    (void) close(r->fd);
    r->fd = -1;
    (void) snprintf(path, sizeof(path), "%s/%s", out,
                    mistral ? "consolidated.safetensors"
                            : "model.safetensors");
    mistral_random_header(r);

    return mistral_random_file(r, 1);
}


static int
mistral_random_type(mistral_random_t *r, const char *name)
{
    uint32_t  type;

    for (type = 0; type < 64; type++) {
        if (mst_type_info(type)
            && strcasecmp(name, mst_type_name(type)) == 0)
        {
            r->type = (mst_type_t) type;
            return MST_OK;
        }
    }

    (void) mst_err_set(r->err, "type \"%s\" is not known; bf16, f16, f32, "
                       "q8_0, q6_k, q4_k, q4_0 and q4_1 are", name);

    return MST_DECLINED;
}


int
mistral_random(const char *config, const char *format, const char *type,
    const char *out, uint64_t seed, mst_err_t *err)
{
    int               rc;
    mistral_random_t  r;

    memset(&r, 0, sizeof(r));
    mst_buf_init(&r.text);
    mst_buf_init(&r.tensors);
    mst_buf_init(&r.head);

    r.err = err;
    r.seed = seed;
    r.fd = -1;
    r.chunk = mst_alloc(MISTRAL_RANDOM_CHUNK * sizeof(float));

    if (r.chunk == NULL) {
        return mst_err_set(err, "no memory");
    }

    rc = mistral_random_type(&r, type);

    if (rc == MST_OK) {
        rc = mistral_random_read(&r, config);
    }

    if (rc != MST_OK) {
        /* err has the reason */

    } else if (strcmp(format, "gguf") == 0) {
        rc = mistral_random_gguf(&r, out);

    } else if (strcmp(format, "safetensors") == 0) {
        rc = mistral_random_safetensors(&r, out);

    } else {
        (void) mst_err_set(err, "format \"%s\" is neither gguf nor "
                           "safetensors", format);
        rc = MST_DECLINED;
    }

    if (r.fd != -1) {
        (void) close(r.fd);
    }

    mst_free(r.chunk);
    mst_buf_fini(&r.text);
    mst_buf_fini(&r.tensors);
    mst_buf_fini(&r.head);

    return rc;
}
