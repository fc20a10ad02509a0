
/*
 * What is sampled for a sequence and what comes out: between the engine, its
 * sampler on the CPU (engine/mst_sampler.c) and the one of a device
 * (kernels/mst_k_sample.h).
 */

#ifndef MST_SAMPLE_H
#define MST_SAMPLE_H

#include <stdint.h>

#include "base/mst_params.h"


/* a token that is not known yet: MST_SAMPLE_FED | i is what the step under
   way samples for the i-th sequence of its batch */
#define MST_SAMPLE_FED  0x80000000u


typedef struct {
    int       status;              /* MST_OK: a token; MST_AGAIN: none yet,
                                      ask again at ready_ns; MST_ERROR: this
                                      sequence's numbers are broken (NaN) */
    uint64_t  ready_ns;            /* also with MST_OK: the sequence is not
                                      scheduled before; 0 = at once */
    uint32_t  id;
    int       end;                 /* the answer ends with this token, which
                                      is text and no stop id (null model) */
    float     logprob;             /* natural log, after penalties and bias,
                                      at temperature 1; only with
                                      MST_PARAMS_LOGPROBS */
    uint32_t  n_top;
    uint32_t  top_ids[MST_MAX_TOP_LOGPROBS];
    float     top_logprobs[MST_MAX_TOP_LOGPROBS];   /* falling */
} mst_sampled_t;


/* what the sampler may look at, per sequence of the batch */
typedef struct {
    const mst_params_t  *params;
    const mst_bias_t    *bias;     /* [n_bias] */
    uint32_t             n_bias;
    const uint32_t      *tokens;   /* [n_tokens] prompt and answer so far */
    uint32_t             n_tokens;
    uint32_t             n_prompt;
    uint64_t             start_ns; /* when the sequence was submitted */
    uint64_t             first_ns; /* now_ns of the step that gave its first
                                      token; 0 = none yet */
    const uint32_t      *stop_ids; /* [n_stop] of model and request: banned
                                      while fewer than min_tokens stand */
    uint32_t             n_stop;
    int                  greedy;   /* past the soft limit */
    int                  silent;   /* no token is wanted: with LOGITS_ALL */
} mst_sample_t;


#endif /* MST_SAMPLE_H */
