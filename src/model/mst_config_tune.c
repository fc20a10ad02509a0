
/*
 * What an operator changes of a model: see mst_config.h.
 *
 * A scaling replaces that of the files, their context with it: it is the
 * original one times the factor, so that what the operator asks for is what
 * can be used.
 */

#include <string.h>

#include "model/mst_config.h"

#define MST_CONFIG_MAX_CONTEXT  (1 << 24)


_Static_assert((int) MST_TUNE_LINEAR == (int) MST_ROPE_LINEAR
               && (int) MST_TUNE_DYNAMIC == (int) MST_ROPE_DYNAMIC
               && (int) MST_TUNE_LLAMA3 == (int) MST_ROPE_LLAMA3
               && (int) MST_TUNE_YARN == (int) MST_ROPE_YARN,
               "one order of kinds");


static double
mst_config_tune_or(double value, double other)
{
    return value != 0 ? value : other;
}


static int
mst_config_tune_rope(mst_config_t *c, const mst_tune_t *t, mst_err_t *err)
{
    double       original, length;
    mst_rope_t   r;

    if (t->rope > MST_TUNE_YARN) {
        return mst_err_set(err, "rope scaling of kind %u is not known",
                           t->rope);
    }

    /* what a model with a scaling of its own was first made for */

    original = c->rope.kind == MST_ROPE_PLAIN || c->rope.original < 1
               ? c->context : c->rope.original;
    original = mst_config_tune_or(t->original, original);
    length = original * t->factor;

    mst_rope_init(&r, c->rope.base);
    r.kind = (mst_rope_kind_t) t->rope;
    r.factor = t->factor;
    r.original = original;
    r.low_freq = mst_config_tune_or(t->low_freq, r.low_freq);
    r.high_freq = mst_config_tune_or(t->high_freq, r.high_freq);
    r.beta_fast = mst_config_tune_or(t->beta_fast, r.beta_fast);
    r.beta_slow = mst_config_tune_or(t->beta_slow, r.beta_slow);

    if (r.kind == MST_ROPE_YARN) {
        r.attention = mst_config_tune_or(t->attention,
                                         mst_rope_mscale(t->factor, 1));
    }

    if (mst_rope_check(&r, err) != MST_OK) {
        return MST_ERROR;
    }

    if (!(original >= 1 && length >= 1 && length <= MST_CONFIG_MAX_CONTEXT)) {
        return mst_err_set(err, "rope scaling makes a context of %g tokens, "
                           "limits are 1 and %d", length,
                           MST_CONFIG_MAX_CONTEXT);
    }

    c->rope = r;
    c->context = (uint32_t) length;
    c->retuned = 1;

    return MST_OK;
}


int
mst_config_tune(mst_config_t *c, const mst_tune_t *t, mst_err_t *err)
{
    if (t->rope != MST_TUNE_AS_FILES
        && mst_config_tune_rope(c, t, err) != MST_OK)
    {
        return MST_ERROR;
    }

    if (t->experts == 0) {
        return MST_OK;
    }

    if (c->n_experts == 0) {
        return mst_err_set(err, "%u experts for a token: the model has none",
                           t->experts);
    }

    if (t->experts > c->n_experts) {
        return mst_err_set(err, "%u experts for a token: the model has %u",
                           t->experts, c->n_experts);
    }

    c->n_used = t->experts;

    return MST_OK;
}
