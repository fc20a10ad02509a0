
/*
 * Whether a request fits the model that is to answer it: its ids the
 * vocabulary, its experts the layers, its prompts and answers the context.
 * What does not fit is 400, in a sentence with both numbers.
 *
 * Keeps nothing: a worker asks it of each request, before a queue place.
 */

#ifndef MST_FIT_H
#define MST_FIT_H

#include "api/mst_request.h"


/* experts of one token, of n_experts of the model; 0 = it has none */
int mst_fit_experts(const mst_request_t *r, uint32_t n_experts,
    mst_api_error_t *e);

/*
 * The engine's limits for prompt i, of n_prompt tokens, in a context: fills
 * r->params.max_tokens, where the answer ends, and soft_tokens, behind which
 * it goes on greedily to its end.  The strict limits of OpenAI and the soft
 * ones are combined and clamped to the cap and to what the context leaves.
 * 400 context_length_exceeded when the prompt leaves no room; an error names
 * which of several prompts it is.
 */
int mst_fit_length(mst_request_t *r, size_t i, size_t n_prompt,
    uint32_t context, mst_api_error_t *e);

/* the host's default for the answer's length, where the body has no limit at
   all; min_tokens asks for at least as much */
void mst_fit_default_length(mst_request_t *r, uint32_t n);

/* ids of inputs, bias and stop_ids are below n_vocab */
int mst_fit_ids(const mst_request_t *r, uint32_t n_vocab,
    mst_api_error_t *e);


#endif /* MST_FIT_H */
