
/*
 * How one answer is generated.  A plain struct without pointers: api/ fills
 * it from JSON, the gateway completes it, it crosses the boundary inside
 * SUBMIT, and the sampler reads it.  The engine checks it again with
 * mst_params_check(), since the bytes of a worker are not trusted.
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
} mst_params_t;


typedef struct {
    uint32_t  id;
    float     value;               /* added to the logit, -100 .. 100 */
} mst_bias_t;


/* OpenAI's defaults: temperature 1, top_p 1, everything else off */
void mst_params_default(mst_params_t *p);

/* every field in its range (also NaN-free), else MST_ERROR with a sentence */
int mst_params_check(const mst_params_t *p, mst_err_t *err);


#endif /* MST_PARAMS_H */
