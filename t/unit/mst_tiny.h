
/*
 * Tiny random models for tests: GGUF bytes of any shape and mix of types,
 * and a reference in double precision that is written to be obvious.
 */

#ifndef MST_TINY_H
#define MST_TINY_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_buf.h"
#include "file/mst_gguf.h"
#include "file/mst_quant.h"


typedef struct {
    uint32_t    layers, dim, ff, heads, kv_heads, head_dim, rope_dim, vocab;
    uint32_t    context;
    int         untied;
    mst_type_t  q, k, v, out, gate, up, down, embd;
    double      eps, base;
} mst_tiny_t;


typedef struct {
    char        name[64];
    uint64_t    in, out;
    mst_type_t  type;
    size_t      offset, size;
} mst_tiny_tensor_t;


typedef struct {
    uint64_t           seed;
    uint32_t           n;
    mst_tiny_tensor_t  t[64];
    mst_buf_t          data;
} mst_tiny_file_t;


static inline uint32_t
mst_tiny_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;

    return (uint32_t) (*seed >> 33);
}


static inline float
mst_tiny_float(uint64_t *seed, float scale)
{
    return scale * ((float) mst_tiny_random(seed) / 1073741824.0f - 1.0f);
}


static inline void
mst_tiny_half(mst_buf_t *b, float f)
{
    uint16_t  h;

    h = mst_f32_to_f16(f);
    mst_buf_append(b, &h, 2);
}


/* one block of random bits, about -x .. x */

static inline void
mst_tiny_block(mst_tiny_file_t *f, mst_type_t type, float x)
{
    float     d, m;
    uint8_t   byte;
    uint32_t  i, n;

    /* of the scale, of the minimum; sub-blocks of 256 have six bits each of
       both, and Q6_K seven and a sign */

    static const struct {
        mst_type_t  type;
        float       d, m;
    } parts[] = {
        { MST_TYPE_Q4_0, 1 / 8.0f, 0 }, { MST_TYPE_Q4_1, 1 / 7.5f, -1 },
        { MST_TYPE_Q5_0, 1 / 16.0f, 0 }, { MST_TYPE_Q5_1, 1 / 15.5f, -1 },
        { MST_TYPE_Q8_0, 1 / 128.0f, 0 },
        { MST_TYPE_Q4_K, 1 / 480.0f, 1 / 64.0f },
        { MST_TYPE_Q5_K, 1 / 992.0f, 1 / 64.0f },
        { MST_TYPE_Q6_K, 1 / 2048.0f, 0 }
    };

    for (i = 0; parts[i].type != type; i++) { /* void */ }

    d = x * parts[i].d;
    m = x * parts[i].m;
    n = mst_type_info(type)->size - (m == 0 ? 2 : 4);

    if (type != MST_TYPE_Q6_K) {
        mst_tiny_half(&f->data, d);
    }

    if (m != 0) {
        mst_tiny_half(&f->data, m);
    }

    for (i = 0; i < n; i++) {
        byte = (uint8_t) (mst_tiny_random(&f->seed) >> 5);
        mst_buf_append(&f->data, &byte, 1);
    }

    if (type == MST_TYPE_Q6_K) {               /* it stands behind */
        mst_tiny_half(&f->data, d);
    }
}


/* n elements, about -scale .. scale */

static inline void
mst_tiny_data(mst_tiny_file_t *f, mst_type_t type, uint64_t n, float scale)
{
    float     x;
    uint16_t  h;

    if (mst_type_info(type)->block == 1) {
        for ( /* void */ ; n; n--) {
            x = mst_tiny_float(&f->seed, scale);

            if (type == MST_TYPE_F32) {
                mst_buf_append(&f->data, &x, 4);
                continue;
            }

            h = type == MST_TYPE_F16 ? mst_f32_to_f16(x) : mst_f32_to_bf16(x);
            mst_buf_append(&f->data, &h, 2);
        }

        return;
    }

    for ( /* void */ ; n; n -= mst_type_info(type)->block) {
        x = scale * (0.5f + 0.5f * fabsf(mst_tiny_float(&f->seed, 1)));
        mst_tiny_block(f, type, x);
    }
}


static inline void
mst_tiny_tensor(mst_tiny_file_t *f, int layer, const char *name, uint64_t in,
    uint64_t out, mst_type_t type, float scale)
{
    float               one;
    mst_tiny_tensor_t  *t;

    t = &f->t[f->n++];
    t->in = in;
    t->out = out;
    t->type = type;

    if (layer >= 0) {
        snprintf(t->name, sizeof(t->name), "blk.%d.%s.weight", layer, name);
    } else {
        snprintf(t->name, sizeof(t->name), "%s.weight", name);
    }

    while (f->data.len % 32) {
        mst_buf_char(&f->data, 0);
    }

    t->offset = f->data.len;

    if (out == 0) {
        for (uint64_t i = 0; i < in; i++) {
            one = 1 + mst_tiny_float(&f->seed, scale);
            mst_buf_append(&f->data, &one, 4);
        }

    } else {
        mst_tiny_data(f, type, in * out, scale);
    }

    t->size = f->data.len - t->offset;
}


static inline void
mst_tiny_u32(mst_buf_t *b, uint32_t x)
{
    mst_buf_append(b, &x, 4);
}


static inline void
mst_tiny_u64(mst_buf_t *b, uint64_t x)
{
    mst_buf_append(b, &x, 8);
}


static inline void
mst_tiny_string(mst_buf_t *b, const char *z)
{
    mst_tiny_u64(b, strlen(z));
    mst_buf_text(b, z);
}


static inline void
mst_tiny_key(mst_buf_t *b, const char *key, uint32_t value)
{
    mst_tiny_string(b, key);
    mst_tiny_u32(b, MST_GGUF_U32);
    mst_tiny_u32(b, value);
}


static inline void
mst_tiny_key_float(mst_buf_t *b, const char *key, double value)
{
    float  f;

    f = (float) value;
    mst_tiny_string(b, key);
    mst_tiny_u32(b, MST_GGUF_F32);
    mst_buf_append(b, &f, 4);
}


static inline void
mst_tiny_header(const mst_tiny_t *c, const mst_tiny_file_t *f, mst_buf_t *b,
    uint32_t window)
{
    mst_buf_text(b, "GGUF");
    mst_tiny_u32(b, 3);
    mst_tiny_u64(b, f->n);
    mst_tiny_u64(b, window ? 13 : 12);
    mst_tiny_string(b, "general.architecture");
    mst_tiny_u32(b, MST_GGUF_STRING);
    mst_tiny_string(b, "llama");
    mst_tiny_key(b, "llama.block_count", c->layers);
    mst_tiny_key(b, "llama.embedding_length", c->dim);
    mst_tiny_key(b, "llama.feed_forward_length", c->ff);
    mst_tiny_key(b, "llama.attention.head_count", c->heads);
    mst_tiny_key(b, "llama.attention.head_count_kv", c->kv_heads);
    mst_tiny_key(b, "llama.attention.key_length", c->head_dim);
    mst_tiny_key(b, "llama.attention.value_length", c->head_dim);
    mst_tiny_key(b, "llama.rope.dimension_count", c->rope_dim);
    mst_tiny_key(b, "llama.context_length", c->context);
    mst_tiny_key_float(b, "llama.attention.layer_norm_rms_epsilon", c->eps);
    mst_tiny_key_float(b, "llama.rope.freq_base", c->base);

    if (window) {
        mst_tiny_key(b, "llama.attention.sliding_window", window);
    }
}


static inline void
mst_tiny_bias(mst_tiny_file_t *f, int layer, const char *name, uint32_t n)
{
    char               *dot;
    mst_tiny_tensor_t  *t;

    mst_tiny_tensor(f, layer, name, n, 0, MST_TYPE_F32, 0.5f);

    t = &f->t[f->n - 1];
    dot = strrchr(t->name, '.');
    memcpy(dot, ".bias", sizeof(".bias"));
}


/* what the reference below does not know */

typedef struct {
    uint32_t  window;
    int       bias;                /* of all matrices of the layers */
} mst_tiny_more_t;


/* the file's bytes in b, its tensors in f (for the reference) */

static inline void
mst_tiny_write_more(const mst_tiny_t *c, const mst_tiny_more_t *more,
    uint64_t seed, mst_tiny_file_t *f, mst_buf_t *b)
{
    float     s;
    uint32_t  i, kv, q;

    memset(f, 0, sizeof(*f));
    mst_buf_init(&f->data);
    mst_buf_init(b);
    f->seed = seed;
    q = c->heads * c->head_dim;
    kv = c->kv_heads * c->head_dim;
    s = 1.7f / sqrtf((float) c->dim);

    mst_tiny_tensor(f, -1, "token_embd", c->dim, c->vocab, c->embd, 1);

    for (i = 0; i < c->layers; i++) {
        mst_tiny_tensor(f, i, "attn_norm", c->dim, 0, MST_TYPE_F32, 0.3f);
        mst_tiny_tensor(f, i, "attn_q", c->dim, q, c->q, 3 * s);
        mst_tiny_tensor(f, i, "attn_k", c->dim, kv, c->k, 3 * s);
        mst_tiny_tensor(f, i, "attn_v", c->dim, kv, c->v, s);
        mst_tiny_tensor(f, i, "attn_output", q, c->dim, c->out, s);
        mst_tiny_tensor(f, i, "ffn_norm", c->dim, 0, MST_TYPE_F32, 0.3f);
        mst_tiny_tensor(f, i, "ffn_gate", c->dim, c->ff, c->gate, s);
        mst_tiny_tensor(f, i, "ffn_up", c->dim, c->ff, c->up, s);
        mst_tiny_tensor(f, i, "ffn_down", c->ff, c->dim, c->down, s);

        if (more->bias) {
            mst_tiny_bias(f, i, "attn_q", q);
            mst_tiny_bias(f, i, "attn_k", kv);
            mst_tiny_bias(f, i, "attn_v", kv);
            mst_tiny_bias(f, i, "attn_output", c->dim);
            mst_tiny_bias(f, i, "ffn_gate", c->ff);
            mst_tiny_bias(f, i, "ffn_up", c->ff);
            mst_tiny_bias(f, i, "ffn_down", c->dim);
        }
    }

    mst_tiny_tensor(f, -1, "output_norm", c->dim, 0, MST_TYPE_F32, 0.3f);

    if (c->untied) {
        mst_tiny_tensor(f, -1, "output", c->dim, c->vocab, c->embd, s);
    }

    mst_tiny_header(c, f, b, more->window);

    for (i = 0; i < f->n; i++) {
        mst_tiny_string(b, f->t[i].name);
        mst_tiny_u32(b, f->t[i].out ? 2 : 1);
        mst_tiny_u64(b, f->t[i].in);

        if (f->t[i].out) {
            mst_tiny_u64(b, f->t[i].out);
        }

        mst_tiny_u32(b, f->t[i].type);
        mst_tiny_u64(b, f->t[i].offset);
    }

    while (b->len % 32) {
        mst_buf_char(b, 0);
    }

    mst_buf_append(b, f->data.data, f->data.len);
}


static inline void
mst_tiny_write(const mst_tiny_t *c, uint64_t seed, mst_tiny_file_t *f,
    mst_buf_t *b)
{
    mst_tiny_more_t  more = { 0, 0 };

    mst_tiny_write_more(c, &more, seed, f, b);
}


static inline double *
mst_tiny_weights(const mst_tiny_file_t *f, int layer, const char *name,
    uint64_t *in, uint64_t *out)
{
    char      full[64];
    float    *x;
    double   *w;
    uint64_t  i, n;

    if (layer >= 0) {
        snprintf(full, sizeof(full), "blk.%d.%s.weight", layer, name);
    } else {
        snprintf(full, sizeof(full), "%s.weight", name);
    }

    for (i = 0; i < f->n && strcmp(f->t[i].name, full) != 0; i++) {
        /* void */
    }

    if (i == f->n) {
        abort();
    }

    *in = f->t[i].in;
    *out = f->t[i].out ? f->t[i].out : 1;
    n = *in * *out;
    x = malloc(n * sizeof(float));
    w = malloc(n * sizeof(double));
    mst_quant_decode(f->t[i].type, f->data.data + f->t[i].offset, x, n);

    for (i = 0; i < n; i++) {
        w[i] = (double) x[i];
    }

    free(x);

    return w;
}


/* y[rows][out] = x[rows][in] * w */

static inline double *
mst_tiny_times(const mst_tiny_file_t *f, int layer, const char *name,
    const double *x, uint32_t rows)
{
    double    *w, *y;
    uint64_t   in, o, out, i, r;

    w = mst_tiny_weights(f, layer, name, &in, &out);
    y = calloc(rows * out, sizeof(double));

    for (r = 0; r < rows; r++) {
        for (o = 0; o < out; o++) {
            for (i = 0; i < in; i++) {
                y[r * out + o] += w[o * in + i] * x[r * in + i];
            }
        }
    }

    free(w);

    return y;
}


static inline double *
mst_tiny_norm(const mst_tiny_t *c, const mst_tiny_file_t *f, int layer,
    const char *name, const double *x, uint32_t rows)
{
    double    *w, *y, sum;
    uint64_t   in, out, i, r;

    w = mst_tiny_weights(f, layer, name, &in, &out);
    y = malloc(rows * in * sizeof(double));

    for (r = 0; r < rows; r++) {
        for (sum = 0, i = 0; i < in; i++) {
            sum += x[r * in + i] * x[r * in + i];
        }

        for (i = 0; i < in; i++) {
            y[r * in + i] = x[r * in + i]
                            / sqrt(sum / (double) in + (double) (float) c->eps)
                            * w[i];
        }
    }

    free(w);

    return y;
}


static inline void
mst_tiny_rope(const mst_tiny_t *c, double *x, uint32_t heads, uint32_t rows)
{
    double    a, b, angle, *p;
    uint32_t  h, j, r;

    for (r = 0; r < rows; r++) {
        for (h = 0; h < heads; h++) {
            p = x + (r * heads + h) * c->head_dim;

            for (j = 0; j < c->rope_dim / 2; j++) {
                angle = r * pow((double) (float) c->base,
                                -2.0 * j / c->rope_dim);
                a = p[2 * j];
                b = p[2 * j + 1];
                p[2 * j] = a * cos(angle) - b * sin(angle);
                p[2 * j + 1] = a * sin(angle) + b * cos(angle);
            }
        }
    }
}


static inline double *
mst_tiny_attention(const mst_tiny_t *c, const double *q, const double *k,
    const double *v, uint32_t rows)
{
    double    *y, *p, sum, top;
    uint32_t   d, h, kh, r, t;

    y = calloc((size_t) rows * c->heads * c->head_dim, sizeof(double));
    p = malloc(rows * sizeof(double));

    for (r = 0; r < rows; r++) {
        for (h = 0; h < c->heads; h++) {
            kh = h / (c->heads / c->kv_heads);
            top = -1e300;

            for (t = 0; t <= r; t++) {
                for (p[t] = 0, d = 0; d < c->head_dim; d++) {
                    p[t] += q[(r * c->heads + h) * c->head_dim + d]
                            * k[(t * c->kv_heads + kh) * c->head_dim + d];
                }

                p[t] /= sqrt(c->head_dim);
                top = p[t] > top ? p[t] : top;
            }

            for (sum = 0, t = 0; t <= r; t++) {
                p[t] = exp(p[t] - top);
                sum += p[t];
            }

            for (t = 0; t <= r; t++) {
                for (d = 0; d < c->head_dim; d++) {
                    y[(r * c->heads + h) * c->head_dim + d] += p[t] / sum
                        * v[(t * c->kv_heads + kh) * c->head_dim + d];
                }
            }
        }
    }

    free(p);

    return y;
}


static inline void
mst_tiny_add(double *x, double *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] += y[i];
    }

    free(y);
}


static inline void
mst_tiny_layer(const mst_tiny_t *c, const mst_tiny_file_t *f, int layer,
    double *x, uint32_t rows)
{
    double  *g, *k, *n, *q, *u, *v, *y;

    n = mst_tiny_norm(c, f, layer, "attn_norm", x, rows);
    q = mst_tiny_times(f, layer, "attn_q", n, rows);
    k = mst_tiny_times(f, layer, "attn_k", n, rows);
    v = mst_tiny_times(f, layer, "attn_v", n, rows);
    free(n);
    mst_tiny_rope(c, q, c->heads, rows);
    mst_tiny_rope(c, k, c->kv_heads, rows);
    y = mst_tiny_attention(c, q, k, v, rows);
    free(q);
    free(k);
    free(v);
    mst_tiny_add(x, mst_tiny_times(f, layer, "attn_output", y, rows),
                 (size_t) rows * c->dim);
    free(y);

    n = mst_tiny_norm(c, f, layer, "ffn_norm", x, rows);
    g = mst_tiny_times(f, layer, "ffn_gate", n, rows);
    u = mst_tiny_times(f, layer, "ffn_up", n, rows);
    free(n);

    for (size_t i = 0; i < (size_t) rows * c->ff; i++) {
        g[i] = g[i] / (1 + exp(-g[i])) * u[i];
    }

    mst_tiny_add(x, mst_tiny_times(f, layer, "ffn_down", g, rows),
                 (size_t) rows * c->dim);
    free(g);
    free(u);
}


/* logits[n][vocab] of a sequence from its start */

static inline double *
mst_tiny_reference(const mst_tiny_t *c, const mst_tiny_file_t *f,
    const uint32_t *ids, uint32_t n)
{
    double    *e, *x, *y;
    uint64_t   in, out;

    e = mst_tiny_weights(f, -1, "token_embd", &in, &out);
    x = malloc((size_t) n * c->dim * sizeof(double));

    for (uint32_t r = 0; r < n; r++) {
        memcpy(x + (size_t) r * c->dim, e + (size_t) ids[r] * c->dim,
               c->dim * sizeof(double));
    }

    free(e);

    for (uint32_t i = 0; i < c->layers; i++) {
        mst_tiny_layer(c, f, (int) i, x, n);
    }

    y = mst_tiny_norm(c, f, -1, "output_norm", x, n);
    free(x);
    x = mst_tiny_times(f, -1, c->untied ? "output" : "token_embd", y, n);
    free(y);

    return x;
}


#endif /* MST_TINY_H */
