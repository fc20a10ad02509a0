
/*
 * What a host hands in: see mst_submit.h.
 */

#include "engine/mst_submit.h"


int
mst_submit_check(const mst_submit_t *s, uint32_t n_vocab, mst_err_t *err)
{
    uint32_t  i;

    if (s->n_prompt == 0) {
        return mst_err_set(err, "the prompt is empty");
    }

    if (s->n_stop > MST_MAX_STOP_IDS || s->n_bias > MST_MAX_BIAS) {
        return mst_err_set(err, "%u stop ids and %u biases, at most %d and "
                           "%d are allowed", s->n_stop, s->n_bias,
                           MST_MAX_STOP_IDS, MST_MAX_BIAS);
    }

    if (mst_params_check(&s->params, err) != MST_OK
        || mst_claim_check(&s->claim, err) != MST_OK)
    {
        return MST_ERROR;
    }

    for (i = 0; i < s->n_prompt; i++) {
        if (s->prompt[i] >= n_vocab) {
            return mst_err_set(err, "token %u of the prompt is %u, the "
                               "vocabulary has %u", i, s->prompt[i], n_vocab);
        }
    }

    for (i = 0; i < s->n_stop; i++) {
        if (s->stop_ids[i] >= n_vocab) {
            return mst_err_set(err, "stop id %u, the vocabulary has %u",
                               s->stop_ids[i], n_vocab);
        }
    }

    for (i = 0; i < s->n_bias; i++) {

        /* written so that NaN fails */

        if (s->bias[i].id >= n_vocab
            || !(s->bias[i].value >= -100 && s->bias[i].value <= 100))
        {
            return mst_err_set(err, "bias %g of token %u, allowed are -100 "
                               ".. 100 of %u tokens",
                               (double) s->bias[i].value, s->bias[i].id,
                               n_vocab);
        }
    }

    return MST_OK;
}
