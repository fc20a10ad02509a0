
/*
 * From a row of logits to a token: a pure function of the row, the
 * parameters, the tokens so far and the seed, so that an answer is the same
 * alone, in any batch and after a preemption.
 *
 * In this order: repetition, frequency and presence penalty, bias, ban of
 * the stop ids; from here the log-probabilities are taken; temperature,
 * top_k, top_p (of what top_k left), min_p (relative to the best), and one
 * draw.  Equal logits are ordered by id, the lower first, everywhere.
 *
 * All sums are double.  Nothing is sorted: who may be in a set is found by a
 * threshold, then the set is cut by three passes over the bits of their
 * logits.  What a draw costs are the exponentials of the row, where the sum of
 * all is wanted (mst_row.h); with top_k or min_p alone it is not.  One thread
 * per sampler.
 */

#ifndef MST_SAMPLER_H
#define MST_SAMPLER_H

#include <stdint.h>

#include "base/mst_err.h"
#include "engine/mst_runner.h"


typedef struct {
    uint32_t   n_vocab;
    float     *logits;             /* [n_vocab] adjusted, where they are */
    float     *tops;               /* [groups] maxima of the row (mst_row.h) */
    uint32_t  *counts;             /* [n_vocab] all 0 between calls */

    /* who may be drawn, rising: all, or the first of these */
    uint32_t  *ids;                /* [n_vocab] */
    float     *kept;               /* [n_vocab] their logits */
    double    *weights;            /* [n_vocab] not normalised */
    double    *sums;               /* of weights: by digit, by block */
} mst_sampler_t;


int mst_sampler_init(mst_sampler_t *s, uint32_t n_vocab, mst_err_t *err);
void mst_sampler_fini(mst_sampler_t *s);       /* zeroed or inited */

/* the likeliest token is all that is wanted and nothing changes the logits:
   who knows it passes it to mst_sampler_take() instead of a row to run() */
int mst_sampler_is_plain(const mst_sample_t *sample);
void mst_sampler_take(uint32_t id, mst_sampled_t *sampled);

/* sampled->status is MST_OK, or MST_ERROR: a logit is NaN or +inf, or all
   are -inf */
void mst_sampler_run(mst_sampler_t *s, const float *logits,
    const mst_sample_t *sample, mst_sampled_t *sampled);

/* the log-probability of a token that is known, and the n_top best, by the
   model's own numbers; status as above */
void mst_sampler_score(mst_sampler_t *s, const float *logits, uint32_t id,
    uint32_t n_top, mst_sampled_t *scored);

/* [0, 1): the draw for the n-th token of an answer */
double mst_sampler_uniform(uint64_t seed, uint32_t n);


#endif /* MST_SAMPLER_H */
