
/*
 * What sampling on a device shares with the host: the order that says how a
 * row of logits becomes a token, the arithmetic of one logit, and the way
 * from an order's sequence (base/mst_sample.h) and back.
 *
 * A weight exp((x - max) / temperature) becomes an integer of 2^-bits, so
 * that sums are exact and in any order the same; the best one is 2^bits.
 *
 * Logits are ordered by rank: the order of the floats above, below it the
 * complement of the id, so that a greater rank is a better token and equal
 * logits are ordered by id, the lower first.
 *
 * Plain C, compiled by gcc and nvcc alike; t/unit/mst_k_sample_test.c.
 */

#ifndef MST_K_SAMPLE_MAP_H
#define MST_K_SAMPLE_MAP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/mst_draw.h"
#include "base/mst_err.h"
#include "base/mst_hd.h"
#include "base/mst_sample.h"

#define MST_K_SAMPLE_VOCAB     262144          /* ids at most */
#define MST_K_SAMPLE_TOP       MST_MAX_TOP_LOGPROBS
#define MST_K_SAMPLE_PROMPT    0x80000000u     /* in a count of the history:
                                                  in the prompt */
#define MST_K_SAMPLE_LOG2E     1.4426950408889634

/* flags of an order */
#define MST_K_SAMPLE_LOGPROBS  0x0001          /* logprob, and the n_top best */
#define MST_K_SAMPLE_SCORE     0x0002          /* logprob of the token "id";
                                                  none is drawn */
#define MST_K_SAMPLE_NONE      0x0004          /* only fills a bucket */

/* one multiplication, one rounding: nothing is fused into an addition */
#ifdef __CUDA_ARCH__
#define MST_K_SAMPLE_MUL(a, b)  __fmul_rn(a, b)
#define MST_K_SAMPLE_SUB(a, b)  __fsub_rn(a, b)
#define MST_K_SAMPLE_DIV(a, b)  __fdiv_rn(a, b)
#else
#define MST_K_SAMPLE_MUL(a, b)  ((a) * (b))
#define MST_K_SAMPLE_SUB(a, b)  ((a) - (b))
#define MST_K_SAMPLE_DIV(a, b)  ((a) / (b))
#endif


typedef struct {
    uint64_t  seed;
    float     temperature;         /* 0 = greedy */
    float     top_p;               /* 1 = off */
    float     min_p;               /* 0 = off */
    float     repetition;          /* penalties; 1 = off */
    float     frequency;           /* 0 = off */
    float     presence;
    uint32_t  top_k;               /* 0 = off */
    uint32_t  n;                   /* tokens of the answer so far */
    uint32_t  row;                 /* of the logits */
    uint32_t  id;                  /* with SCORE */
    uint32_t  n_top;               /* with LOGPROBS or SCORE */
    uint32_t  flags;
    uint32_t  words;               /* where its lists begin, in this order: */
    uint32_t  n_history;           /* tokens, the prompt's first */
    uint32_t  n_prompt;            /* of n_history */
    uint32_t  n_ban;               /* ids; -inf */
    uint32_t  n_bias;              /* pairs of words: id, float */
    uint32_t  result;              /* index of what comes of it */
} mst_k_sample_order_t;


typedef struct {
    int32_t   status;              /* MST_OK or MST_ERROR, as mst_sampled_t */
    uint32_t  id;
    float     logprob;
    uint32_t  n_top;
} mst_k_sampled_t;


typedef struct {
    uint32_t  ids[MST_K_SAMPLE_TOP];
    float     logprobs[MST_K_SAMPLE_TOP];
} mst_k_sample_top_t;


/* fractional bits of a weight: the sum of all stays below 2^63 */

static inline MST_HD int
mst_k_sample_bits(uint32_t n_vocab)
{
    return n_vocab <= 65536 ? 46 : 44;
}


/* unsigned numbers in the order of the floats; -0 is 0 */

static inline MST_HD uint32_t
mst_k_sample_key(float x)
{
    uint32_t  u;

    x += 0.0f;

    memcpy(&u, &x, sizeof(uint32_t));

    return u & 0x80000000u ? ~u : u | 0x80000000u;
}


static inline MST_HD uint64_t
mst_k_sample_rank(float x, uint32_t id)
{
    return (uint64_t) mst_k_sample_key(x) << 32 | (uint32_t) ~id;
}


static inline MST_HD uint32_t
mst_k_sample_rank_id(uint64_t rank)
{
    return ~(uint32_t) rank;
}


static inline MST_HD float
mst_k_sample_rank_logit(uint64_t rank)
{
    float     x;
    uint32_t  u;

    u = (uint32_t) (rank >> 32);
    u = u & 0x80000000u ? u & 0x7fffffffu : ~u;

    memcpy(&x, &u, sizeof(float));

    return x;
}


/* bins of equal width below the best; the last one holds all the rest.  A
   greater logit is never in a greater bin. */

static inline MST_HD uint32_t
mst_k_sample_bin(float max, float x, float scale, uint32_t n_bins)
{
    return (uint32_t) fminf((max - x) * scale, (float) (n_bins - 1));
}


/* 2^z within 1e-14 of it, exactly 1 at 0; -1000 < z <= 0 */

static inline MST_HD double
mst_k_sample_exp2(double z)
{
    double    f, n, y;
    uint64_t  u, v;

    /* its lowest bits are z, rounded */

    n = z + 0x1.8p52;
    f = z - (n - 0x1.8p52);

    y = 4.4455382718708116e-10;                /* ln(2)^k / k!, k = 11 .. 0 */
    y = fma(y, f, 7.0549116208011233e-09);
    y = fma(y, f, 1.0178086009239699e-07);
    y = fma(y, f, 1.3215486790144309e-06);
    y = fma(y, f, 1.5252733804059840e-05);
    y = fma(y, f, 1.5403530393381610e-04);
    y = fma(y, f, 1.3333558146428443e-03);
    y = fma(y, f, 9.6181291076284772e-03);
    y = fma(y, f, 5.5504108664821580e-02);
    y = fma(y, f, 2.4022650695910071e-01);
    y = fma(y, f, 6.9314718055994531e-01);
    y = fma(y, f, 1.0);

    memcpy(&u, &n, sizeof(double));
    memcpy(&v, &y, sizeof(double));

    v += u << 52;                              /* the exponent's place */

    memcpy(&y, &v, sizeof(double));

    return y;
}


/* factor is log2(e) / temperature; at least 2^-64, for -inf, too */

static inline MST_HD double
mst_k_sample_weight(float x, float max, double factor)
{
    double  z;

    z = ((double) x - (double) max) * factor;

    /* what is less comes to no bit of a fixed one; without a branch */

    return mst_k_sample_exp2(z > -64 ? z : -64);
}


static inline MST_HD uint64_t
mst_k_sample_fixed(double weight, int bits)
{
    double    y;
    uint64_t  u;

    y = fma(weight, (double) (1ull << bits), 0x1p52);

    memcpy(&u, &y, sizeof(double));

    return u & 0xfffffffffffffull;
}


/* "count" of the token in the history: see mst_sampler_penalise() */

static inline MST_HD float
mst_k_sample_penalise(float x, const mst_k_sample_order_t *o, uint32_t count)
{
    uint32_t  n;

    n = count & ~MST_K_SAMPLE_PROMPT;

    x = x > 0 ? MST_K_SAMPLE_DIV(x, o->repetition)
              : MST_K_SAMPLE_MUL(x, o->repetition);

    if (n) {
        x = MST_K_SAMPLE_SUB(x, MST_K_SAMPLE_MUL(o->frequency, (float) n));
        x = MST_K_SAMPLE_SUB(x, o->presence);
    }

    return x;
}


/* words that the lists of a draw take */

static inline uint32_t
mst_k_sample_words(const mst_sample_t *s)
{
    uint32_t             n;
    const mst_params_t  *p;

    p = s->params;
    n = 2 * s->n_bias;

    if (p->repetition_penalty != 1) {
        n += s->n_tokens;

    } else if (p->frequency_penalty != 0 || p->presence_penalty != 0) {
        n += s->n_tokens - s->n_prompt;
    }

    if (s->n_tokens - s->n_prompt < p->min_tokens) {
        n += s->n_stop;
    }

    return n;
}


/* the draw of a sequence; its lists go to words[at ..]; returns their end.
   The caller says where its result goes. */

static inline uint32_t
mst_k_sample_draw(mst_k_sample_order_t *o, const mst_sample_t *s,
    uint32_t row, uint32_t *words, uint32_t at)
{
    uint32_t             first;
    const mst_params_t  *p;

    p = s->params;

    memset(o, 0, sizeof(mst_k_sample_order_t));

    o->seed = p->seed;
    o->temperature = s->greedy ? 0 : p->temperature;
    o->top_p = p->top_p;
    o->min_p = p->min_p;
    o->repetition = p->repetition_penalty;
    o->frequency = p->frequency_penalty;
    o->presence = p->presence_penalty;
    o->top_k = p->top_k > 0 ? (uint32_t) p->top_k : 0;
    o->n = s->n_tokens - s->n_prompt;
    o->row = row;
    o->words = at;

    if (p->flags & MST_PARAMS_LOGPROBS) {
        o->flags = MST_K_SAMPLE_LOGPROBS;
        o->n_top = p->n_top;
    }

    /* the prompt is repeated or not; only the answer is counted */

    if (o->repetition != 1 || o->frequency != 0 || o->presence != 0) {
        first = o->repetition == 1 ? s->n_prompt : 0;

        o->n_history = s->n_tokens - first;
        o->n_prompt = s->n_prompt - first;

        memcpy(words + at, s->tokens + first, o->n_history * 4);
        at += o->n_history;
    }

    if (o->n < p->min_tokens && s->n_stop) {
        o->n_ban = s->n_stop;

        memcpy(words + at, s->stop_ids, o->n_ban * 4);
        at += o->n_ban;
    }

    if (s->n_bias) {
        o->n_bias = s->n_bias;

        memcpy(words + at, s->bias, s->n_bias * sizeof(mst_bias_t));
        at += 2 * s->n_bias;
    }

    return at;
}


/* the log-probability of a token that is known: mst_sampler_score() */

static inline void
mst_k_sample_score(mst_k_sample_order_t *o, uint32_t row, uint32_t id,
    uint32_t n_top)
{
    memset(o, 0, sizeof(mst_k_sample_order_t));

    o->row = row;
    o->id = id;
    o->n_top = n_top;
    o->flags = MST_K_SAMPLE_SCORE;
}


/* top may be NULL where the order has no n_top */

static inline void
mst_k_sample_result(const mst_k_sampled_t *r, const mst_k_sample_top_t *top,
    mst_sampled_t *sampled)
{
    sampled->status = r->status;
    sampled->ready_ns = 0;
    sampled->id = r->id;
    sampled->end = 0;
    sampled->logprob = r->logprob;
    sampled->n_top = r->n_top;

    if (r->n_top) {
        memcpy(sampled->top_ids, top->ids, r->n_top * sizeof(uint32_t));
        memcpy(sampled->top_logprobs, top->logprobs,
               r->n_top * sizeof(float));
    }
}


#endif /* MST_K_SAMPLE_MAP_H */
