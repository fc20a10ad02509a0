
/*
 * Requests beside the model that is to answer: see mst_fit.h.
 */

#include <stdio.h>
#include <string.h>

#include "api/mst_fit.h"


/* OpenAI's default for text completions, tokens */
#define MST_FIT_COMPLETION_TOKENS  16

/* hard_max_new_tokens where max_new_tokens came alone, tokens */
#define MST_FIT_HARD_TOKENS        1024


static uint32_t mst_fit_hard(const mst_request_t *r);
static int mst_fit_list(const uint32_t *ids, size_t n, const char *name,
    uint32_t n_vocab, mst_api_error_t *e);


int
mst_fit_experts(const mst_request_t *r, uint32_t n_experts,
    mst_api_error_t *e)
{
    uint32_t  n;

    n = r->params.experts;

    if (n <= n_experts) {
        return MST_OK;
    }

    if (n_experts == 0) {
        return mst_api_error_set(e, 400, MST_FIELD_VALUE,
                                 "num_experts_per_tok", "num_experts_per_tok "
                                 "is %u, which is for mixtures of experts, "
                                 "and the model is none", n);
    }

    return mst_api_error_set(e, 400, MST_FIELD_VALUE, "num_experts_per_tok",
                             "num_experts_per_tok is %u, must be at most the "
                             "model's %u experts", n, n_experts);
}


int
mst_fit_length(mst_request_t *r, size_t i, size_t n_prompt,
    uint32_t context, mst_api_error_t *e)
{
    char         name[32];
    uint32_t     left, hard;
    const char  *param, *what;

    param = r->api == MST_API_CHAT ? "messages" : "prompt";
    what = "the prompt";

    if (r->n_inputs > 1) {
        (void) snprintf(name, sizeof(name), "prompt[%zu]", i);
        param = name;
        what = name;
    }

    if (n_prompt == 0) {
        return mst_api_error_set(e, 400, MST_FIELD_VALUE, param,
                                 "%s is empty, must have at least one token",
                                 what);
    }

    if (n_prompt >= context) {
        return mst_api_error_set(e, 400, "context_length_exceeded", param,
                                 "this model's maximum context length is %u "
                                 "tokens, but %s has %zu and the answer needs "
                                 "room", context, what, n_prompt);
    }

    left = context - (uint32_t) n_prompt;
    hard = mst_fit_hard(r);

    r->params.max_tokens = r->prompt_only ? 0
                           : hard && hard < left ? hard : left;

    /* a soft limit that the hard one cuts off would never be reached */

    r->params.soft_tokens = r->max_new_tokens < r->params.max_tokens
                            ? r->max_new_tokens : 0;

    return MST_OK;
}


/* the least of the limits; 0 = none at all */

static uint32_t
mst_fit_hard(const mst_request_t *r)
{
    uint32_t  hard;

    hard = r->hard_max_new_tokens;

    if (hard == 0 && r->max_new_tokens) {
        hard = r->max_new_tokens > MST_FIT_HARD_TOKENS
               ? r->max_new_tokens : MST_FIT_HARD_TOKENS;
    }

    if (r->max_tokens && (hard == 0 || r->max_tokens < hard)) {
        hard = r->max_tokens;
    }

    if (hard == 0 && r->api == MST_API_COMPLETION) {
        hard = MST_FIT_COMPLETION_TOKENS;
    }

    if (r->cap && (hard == 0 || r->cap < hard)) {
        hard = r->cap;
    }

    return hard;
}


void
mst_fit_default_length(mst_request_t *r, uint32_t n)
{
    if (r->given & MST_GIVEN_LENGTH) {
        return;
    }

    r->given |= MST_GIVEN_LENGTH;
    r->max_tokens = n < r->params.min_tokens ? r->params.min_tokens : n;
}


int
mst_fit_ids(const mst_request_t *r, uint32_t n_vocab, mst_api_error_t *e)
{
    char    name[48];
    size_t  i;

    for (i = 0; i < r->n_inputs; i++) {

        if (r->api == MST_API_DETOKENIZE) {
            (void) strcpy(name, "tokens");

        } else if (r->n_inputs == 1) {
            (void) strcpy(name, "prompt");

        } else {
            (void) snprintf(name, sizeof(name), "prompt[%zu]", i);
        }

        if (mst_fit_list(r->inputs[i].ids, r->inputs[i].n_ids, name, n_vocab,
                         e)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    for (i = 0; i < r->n_bias; i++) {

        if (r->bias[i].id >= n_vocab) {
            return mst_api_error_set(e, 400, MST_FIELD_VALUE, "logit_bias",
                                     "logit_bias has the key %u, must be a "
                                     "token id below %u", r->bias[i].id,
                                     n_vocab);
        }
    }

    return mst_fit_list(r->stop_ids, r->n_stop_ids, "stop_token_ids", n_vocab,
                        e);
}


static int
mst_fit_list(const uint32_t *ids, size_t n, const char *name,
    uint32_t n_vocab, mst_api_error_t *e)
{
    char    path[64];
    size_t  i;

    for (i = 0; i < n; i++) {

        if (ids[i] >= n_vocab) {
            (void) snprintf(path, sizeof(path), "%.30s[%zu]", name, i);

            return mst_api_error_set(e, 400, MST_FIELD_VALUE, path, "%s is "
                                     "%u, must be a token id below %u", path,
                                     ids[i], n_vocab);
        }
    }

    return MST_OK;
}
