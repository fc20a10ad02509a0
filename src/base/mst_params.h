
/*
 * How one answer is generated, and what it may claim of the engine.  Plain
 * structs without pointers: api/ fills the parameters from JSON, the
 * gateway's policies fill the claim, both cross the boundary inside SUBMIT;
 * the sampler reads the first, the scheduler the second.  The engine checks
 * them again, since the bytes of a worker are not trusted.
 */

#ifndef MST_PARAMS_H
#define MST_PARAMS_H

#include <stdint.h>

#include "base/mst_err.h"


#define MST_MAX_TOP_LOGPROBS  20
#define MST_MAX_STOP_IDS      32
#define MST_MAX_BIAS          1024

#define MST_PARAMS_IGNORE_EOS  0x0001          /* the model's own stop ids
                                                  do not end the answer */
#define MST_PARAMS_LOGPROBS    0x0002          /* report log-probabilities */
#define MST_PARAMS_ECHO        0x0004          /* the prompt's tokens are
                                                  reported first, as if they
                                                  had been sampled: all of the
                                                  prompt is computed */


typedef struct {
    float     temperature;         /* 0 = greedy; 0 .. 2 */
    float     top_p;               /* (0, 1]; 1 = off */
    float     min_p;               /* [0, 1]; 0 = off */
    float     frequency_penalty;   /* -2 .. 2; 0 = off */
    float     presence_penalty;    /* -2 .. 2; 0 = off */
    float     repetition_penalty;  /* > 0; 1 = off */
    int32_t   top_k;               /* 0 = off */
    uint32_t  flags;               /* MST_PARAMS_* */
    uint64_t  seed;                /* always set: random where the client
                                      gave none, so the engine is a function
                                      of its input */
    uint32_t  max_tokens;          /* hard end: at most so many sampled tokens,
                                      the end-of-sequence token included; >= 1
                                      (0: compute the prompt only) */
    uint32_t  soft_tokens;         /* after so many the answer goes on
                                      greedily to its end; 0 = no such limit */
    uint32_t  min_tokens;          /* no stop id before so many tokens */
    uint32_t  n_top;               /* top_logprobs, 0 .. MST_MAX_TOP_LOGPROBS */
    uint32_t  turn;                /* answers of the assistant that the prompt
                                      holds: for the null model's script */
    uint32_t  experts;             /* of one token, in a mixture of them; 0 =
                                      as the model has it */
} mst_params_t;


typedef struct {
    uint32_t  id;
    float     value;               /* added to the logit, -100 .. 100 */
} mst_bias_t;


#define MST_PRIORITY_MIN      (-8)
#define MST_PRIORITY_MAX      7
#define MST_CLASSES           (MST_PRIORITY_MAX - MST_PRIORITY_MIN + 1)
#define MST_WEIGHT_MAX        1000
#define MST_RESERVE_FULL      UINT32_MAX

#define MST_CLAIM_PREEMPT     0x0001           /* may take the place and the
                                                  blocks of a running answer of
                                                  a lower class */


/* all zero is a request without any policy */
typedef struct {
    uint64_t  fair_key;            /* who shares with the others of the class;
                                      0 = all that have none */
    uint64_t  ttft_ns;             /* CLOCK_MONOTONIC: its first token is
                                      worth nothing later; 0 = any time */
    uint32_t  fair_weight;         /* of the key, 1 .. MST_WEIGHT_MAX; 0 = 1 */
    uint32_t  kv_reserve;          /* tokens of the answer whose blocks must be
                                      free at its start and stay its own;
                                      MST_RESERVE_FULL = max_tokens */
    uint32_t  pace;                /* at most so many tokens in 1000 s; 0 =
                                      without pause */
    int32_t   priority;            /* class, higher first: MST_PRIORITY_MIN ..
                                      _MAX; below 0 it gives way: see
                                      engine/mst_sched.h */
    uint32_t  flags;               /* MST_CLAIM_* */
    uint32_t  keep;                /* first tokens of the prompt that the
                                      prefix cache keeps longer than others;
                                      0 = none */
} mst_claim_t;


/* OpenAI's defaults: temperature 1, top_p 1, everything else off */
void mst_params_default(mst_params_t *p);

/* every field in its range (also NaN-free), else MST_ERROR with a sentence */
int mst_params_check(const mst_params_t *p, mst_err_t *err);
int mst_claim_check(const mst_claim_t *c, mst_err_t *err);


/* the place of a class among all, first first: 0 .. MST_CLASSES - 1 */
static inline uint32_t
mst_claim_rank(int32_t priority)
{
    return (uint32_t) (MST_PRIORITY_MAX - priority);
}


#endif /* MST_PARAMS_H */
