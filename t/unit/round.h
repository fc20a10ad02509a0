
/*
 * A dense model in double, the slow and obvious way, with the roundings of
 * the CUDA backend or with none: what is stored in bf16 there (weights,
 * inputs of matrices, queries, keys and values, gates) is rounded where it is
 * stored, and nothing else is.  Without roundings it is what the golden
 * checkpoints of t/data/golden/tiny were computed by.
 *
 * What is left between this and a device are sums in float32 in another order:
 * now and then a number that lies between two of bf16 becomes the other one.
 * "noise" is the relative error before each rounding that makes such.
 */

#ifndef ROUND_H
#define ROUND_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "file/mst_quant.h"
#include "model/mst_checkpoint.h"

#define ROUND_NOISE  4e-7          /* of float32: 6 units of the last place */

/* what a device may be away from the model with its roundings, in the largest
   logit and in their mean size (rms): more than twice what the noise does to
   the golden checkpoints, 0.0153 and 0.0080 at most (mst_round_test.c) */

#define ROUND_TOLERANCE  0.04
#define ROUND_RMS        0.02


typedef struct {
    const mst_checkpoint_t  *cp;
    const mst_config_t      *c;
    int                      rounded;
    double                   noise;
    uint64_t                 random;       /* of the noise: a seed */
    uint32_t                 n;            /* tokens at positions 0 .. n - 1 */
    double                  *freqs;        /* [rope_dim / 2] */
} round_t;


static inline double
round_noise(round_t *r)
{
    r->random = r->random * 6364136223846793005ull + 1442695040888963407ull;

    return r->noise * ((double) (r->random >> 33) / (1u << 30) - 1);
}


/* as it is stored */

static inline void
round_store(round_t *r, double *x, size_t n)
{
    size_t  i;

    for (i = 0; r->rounded && i < n; i++) {
        x[i] = (double) mst_bf16_to_f32(mst_f32_to_bf16(
                            (float) (x[i] * (1 + round_noise(r)))));
    }
}


static inline double *
round_new(size_t n)
{
    double  *x;

    x = calloc(n, sizeof(double));
    assert_non_null(x);

    return x;
}


/* vectors stay float32; the caller frees */

static inline double *
round_tensor(round_t *r, mst_weight_t role, uint32_t layer)
{
    float               *f;
    double              *x;
    size_t               i, n;
    const mst_tensor_t  *t;

    t = mst_checkpoint_tensor(r->cp, role, layer, 0);
    assert_non_null(t);

    n = (size_t) (t->dims[0] * t->dims[1]);
    f = calloc(n, sizeof(float));
    x = round_new(n);
    assert_non_null(f);
    assert_int_equal(mst_quant_decode((mst_type_t) t->type, t->data, f, n),
                     MST_OK);

    for (i = 0; i < n; i++) {
        x[i] = r->rounded && t->dims[1] > 1
               ? (double) mst_bf16_to_f32(mst_f32_to_bf16(f[i]))
               : (double) f[i];
    }

    free(f);

    return x;
}


/* y [n][outs] += x [n][ins] times a matrix */

static inline void
round_product(round_t *r, mst_weight_t role, uint32_t layer, const double *x,
    uint32_t ins, uint32_t outs, double *y)
{
    double    *w, sum;
    uint32_t   i, o, t;

    w = round_tensor(r, role, layer);

    for (t = 0; t < r->n; t++) {
        for (o = 0; o < outs; o++) {
            for (i = 0, sum = 0; i < ins; i++) {
                sum += x[(size_t) t * ins + i] * w[(size_t) o * ins + i];
            }

            y[(size_t) t * outs + o] += sum;
        }
    }

    free(w);
}


static inline double *
round_norm(round_t *r, mst_weight_t role, uint32_t layer, const double *h)
{
    double    *gain, *x, sum;
    uint32_t   dim, i, t;

    dim = r->c->dim;
    gain = round_tensor(r, role, layer);
    x = round_new((size_t) r->n * dim);

    for (t = 0; t < r->n; t++, h += dim) {
        for (i = 0, sum = 0; i < dim; i++) {
            sum += h[i] * h[i];
        }

        sum = 1 / sqrt(sum / dim + (double) r->c->rms_eps);

        for (i = 0; i < dim; i++) {
            x[(size_t) t * dim + i] = h[i] * sum * gain[i];
        }
    }

    round_store(r, x, (size_t) r->n * dim);
    free(gain);

    return x;
}


/* heads [n][heads][head_dim] of a matrix; turned: queries and keys */

static inline double *
round_heads(round_t *r, mst_weight_t role, uint32_t layer, const double *x,
    uint32_t heads, int turned)
{
    double     *a, *b, cs, sn, u, *y;
    uint32_t    half, j, pairs, t;
    size_t      at, size;

    size = (size_t) r->n * heads * r->c->head_dim;
    pairs = turned ? r->c->rope_dim / 2 : 0;
    half = r->c->half_split;
    y = round_new(size);
    round_product(r, role, layer, x, r->c->dim, heads * r->c->head_dim, y);
    round_store(r, y, size);

    for (at = 0; at < size; at += r->c->head_dim) {
        t = (uint32_t) (at / r->c->head_dim / heads);

        for (j = 0; j < pairs; j++) {
            a = y + at + (half ? j : 2 * j);
            b = half ? a + pairs : a + 1;
            cs = cos(t * r->freqs[j]) * r->c->rope.attention;
            sn = sin(t * r->freqs[j]) * r->c->rope.attention;
            u = *a;
            *a = u * cs - *b * sn;
            *b = u * sn + *b * cs;
        }
    }

    if (turned) {
        round_store(r, y, size);
    }

    return y;
}


/* one query's mix of the values that it sees */

static inline void
round_mix(round_t *r, uint32_t layer, uint32_t t, const double *q,
    const double *k, const double *v, double *out)
{
    double    most, s[1024], scale, sum;
    size_t    row;
    uint32_t  d, dim, first, i, window;

    dim = r->c->head_dim;
    row = (size_t) r->c->n_kv_heads * dim;
    window = r->c->windows[layer];
    first = window && t >= window ? t - window + 1 : 0;
    scale = 1 / sqrt(dim);
    assert_true(t < 1024);

    if (r->c->temp_beta != 0) {
        scale *= 1 + r->c->temp_beta * log(1 + floor((double) t
                                                     / r->c->temp_length));
    }

    for (i = first, most = -INFINITY; i <= t; i++) {
        for (d = 0, s[i] = 0; d < dim; d++) {
            s[i] += q[d] * k[i * row + d] * scale;
        }

        most = fmax(most, s[i]);
    }

    for (i = first, sum = 0; i <= t; i++) {
        s[i] = exp(s[i] - most);
        sum += s[i];

        for (d = 0; d < dim; d++) {
            out[d] += s[i] * v[i * row + d];
        }
    }

    for (d = 0; d < dim; d++) {
        out[d] /= sum;
    }
}


static inline void
round_attention(round_t *r, uint32_t layer, double *h)
{
    double    *k, *mix, *q, *v, *x;
    size_t     at, kv;
    uint32_t   dim, head, n_heads, n_kv, t;

    dim = r->c->head_dim;
    n_heads = r->c->n_heads;
    n_kv = r->c->n_kv_heads;
    x = round_norm(r, MST_WEIGHT_ATTN_NORM, layer, h);
    q = round_heads(r, MST_WEIGHT_Q, layer, x, n_heads, 1);
    k = round_heads(r, MST_WEIGHT_K, layer, x, n_kv, 1);
    v = round_heads(r, MST_WEIGHT_V, layer, x, n_kv, 0);
    mix = round_new((size_t) r->n * n_heads * dim);

    for (t = 0; t < r->n; t++) {
        for (head = 0; head < n_heads; head++) {
            at = ((size_t) t * n_heads + head) * dim;
            kv = (size_t) (head / (n_heads / n_kv)) * dim;
            round_mix(r, layer, t, q + at, k + kv, v + kv, mix + at);
        }
    }

    round_store(r, mix, (size_t) r->n * n_heads * dim);
    round_product(r, MST_WEIGHT_OUT, layer, mix, n_heads * dim, r->c->dim, h);

    free(x);
    free(q);
    free(k);
    free(v);
    free(mix);
}


static inline void
round_forward_part(round_t *r, uint32_t layer, double *h)
{
    double  *gate, *up, *x;
    size_t   i, size;

    size = (size_t) r->n * r->c->ff_dim;
    gate = round_new(size);
    up = round_new(size);
    x = round_norm(r, MST_WEIGHT_FFN_NORM, layer, h);

    round_product(r, MST_WEIGHT_GATE, layer, x, r->c->dim, r->c->ff_dim, gate);
    round_product(r, MST_WEIGHT_UP, layer, x, r->c->dim, r->c->ff_dim, up);
    round_store(r, gate, size);
    round_store(r, up, size);

    for (i = 0; i < size; i++) {
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    }

    round_store(r, gate, size);
    round_product(r, MST_WEIGHT_DOWN, layer, gate, r->c->ff_dim, r->c->dim, h);

    free(x);
    free(gate);
    free(up);
}


/* rounded as such a model's weights were, where it was cast as a whole */

static inline void
round_frequencies(round_t *r, int cast)
{
    uint32_t            i, type;

    type = mst_checkpoint_tensor(r->cp, MST_WEIGHT_EMBD, 0, 0)->type;
    r->freqs = round_new(r->c->rope_dim / 2);
    mst_rope_frequencies(&r->c->rope, r->c->rope_dim, r->freqs);

    for (i = 0; cast && i < r->c->rope_dim / 2; i++) {
        r->freqs[i] = type == MST_TYPE_BF16
                      ? (double) mst_bf16_to_f32(mst_f32_to_bf16(
                                     (float) r->freqs[i]))
                    : type == MST_TYPE_F16
                      ? (double) mst_f16_to_f32(mst_f32_to_f16(
                                     (float) r->freqs[i]))
                      : (double) (float) r->freqs[i];
    }
}


/* logits [n][n_vocab] of all rows; the caller frees */

static inline double *
round_logits(round_t *r, int cast, const uint32_t *ids, uint32_t n)
{
    double    *embd, *h, *x, *y;
    uint32_t   dim, i;

    r->c = mst_checkpoint_config(r->cp);
    r->n = n;
    dim = r->c->dim;
    assert_int_equal(r->c->n_experts, 0);
    assert_false(r->c->attn_bias || r->c->out_bias || r->c->mlp_bias);
    assert_true(r->c->rope.kind != MST_ROPE_DYNAMIC);

    round_frequencies(r, cast);
    embd = round_tensor(r, MST_WEIGHT_EMBD, 0);
    h = round_new((size_t) n * dim);

    for (i = 0; i < n; i++) {
        memcpy(h + (size_t) i * dim, embd + (size_t) ids[i] * dim,
               dim * sizeof(double));
    }

    for (i = 0; i < r->c->n_layers; i++) {
        round_attention(r, i, h);
        round_forward_part(r, i, h);
    }

    x = round_norm(r, MST_WEIGHT_NORM, 0, h);
    y = round_new((size_t) n * r->c->n_vocab);
    round_product(r, r->c->tied ? MST_WEIGHT_EMBD : MST_WEIGHT_HEAD, 0, x, dim,
                  r->c->n_vocab, y);

    free(embd);
    free(h);
    free(x);
    free(r->freqs);

    return y;
}


/* the largest distance of two sets of logits, in largest ones of "want"; and
   the root of its mean square, in that of "want" */

static inline double
round_distance(const double *got, const double *want, size_t n, double *rms)
{
    double  all, d, sum, top, worst;
    size_t  i;

    all = sum = top = worst = 0;

    for (i = 0; i < n; i++) {
        d = fabs(got[i] - want[i]);
        worst = d <= worst ? worst : d;        /* NaN stays */
        top = fmax(top, fabs(want[i]));
        sum += d * d;
        all += want[i] * want[i];
    }

    *rms = sqrt(sum / all);

    return worst / top;
}


#endif /* ROUND_H */
