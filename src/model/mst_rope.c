
/*
 * Rotary position: see mst_rope.h.
 */

#include <math.h>
#include <string.h>

#include "model/mst_rope.h"


void
mst_rope_init(mst_rope_t *r, double base)
{
    memset(r, 0, sizeof(mst_rope_t));

    r->kind = MST_ROPE_PLAIN;
    r->base = base;
    r->factor = 1;
    r->low_freq = 1;
    r->high_freq = 4;
    r->beta_fast = 32;
    r->beta_slow = 1;
    r->attention = 1;
}


double
mst_rope_mscale(double factor, double m)
{
    return factor > 1 ? 0.1 * m * log(factor) + 1 : 1;
}


/* comparisons are written so that NaN fails */

int
mst_rope_check(const mst_rope_t *r, mst_err_t *err)
{
    if (!(r->base > 1 && r->base <= 1e12)) {
        return mst_err_set(err, "rope theta is %g, limits are 1 and 1e12",
                           r->base);
    }

    if (!(r->factor >= 1 && r->factor <= 1024)) {
        return mst_err_set(err, "rope factor is %g, limits are 1 and 1024",
                           r->factor);
    }

    if (r->kind != MST_ROPE_PLAIN && r->kind != MST_ROPE_LINEAR
        && !(r->original >= 1 && r->original <= 1 << 24))
    {
        return mst_err_set(err, "rope scaling needs its original "
                           "max_position_embeddings, %g is none", r->original);
    }

    if (r->kind == MST_ROPE_LLAMA3
        && !(r->low_freq > 0 && r->high_freq > r->low_freq
             && r->high_freq <= 1e6))
    {
        return mst_err_set(err, "rope low_freq_factor %g must be above 0 and "
                           "below high_freq_factor %g", r->low_freq,
                           r->high_freq);
    }

    if (r->kind == MST_ROPE_YARN
        && !(r->beta_slow > 0 && r->beta_fast >= r->beta_slow
             && r->beta_fast <= 1e6 && r->attention > 0
             && r->attention <= 100))
    {
        return mst_err_set(err, "rope beta_slow %g must be above 0, beta_fast "
                           "%g not below it, attention_factor %g from 0 to "
                           "100", r->beta_slow, r->beta_fast, r->attention);
    }

    return MST_OK;
}


/* the pair, as a fraction, that turns "turns" times in the original
   context */

static double
mst_rope_pair(const mst_rope_t *r, uint32_t dim, double turns)
{
    return dim * log(r->original / (turns * 2 * M_PI)) / (2 * log(r->base));
}


static void
mst_rope_yarn(const mst_rope_t *r, uint32_t dim, double *freq)
{
    double    high, low, ramp;
    uint32_t  i;

    low = mst_rope_pair(r, dim, r->beta_fast);
    high = mst_rope_pair(r, dim, r->beta_slow);

    if (!r->smooth) {
        low = floor(low);
        high = ceil(high);
    }

    low = fmax(low, 0);
    high = fmin(high, dim - 1.0);

    if (low == high) {
        high += 0.001;
    }

    for (i = 0; i < dim / 2; i++) {
        ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        freq[i] = freq[i] / r->factor * ramp + freq[i] * (1 - ramp);
    }
}


static void
mst_rope_llama3(const mst_rope_t *r, uint32_t dim, double *freq)
{
    double    s, wave;
    uint32_t  i;

    for (i = 0; i < dim / 2; i++) {
        wave = 2 * M_PI / freq[i];

        if (wave < r->original / r->high_freq) {
            continue;
        }

        if (wave > r->original / r->low_freq) {
            freq[i] /= r->factor;
            continue;
        }

        s = (r->original / wave - r->low_freq) / (r->high_freq - r->low_freq);
        freq[i] = (1 - s) * freq[i] / r->factor + s * freq[i];
    }
}


void
mst_rope_frequencies(const mst_rope_t *r, uint32_t dim, double *freq)
{
    uint32_t  i;

    for (i = 0; i < dim / 2; i++) {
        freq[i] = pow(r->base, -2.0 * i / dim);
    }

    switch (r->kind) {

    case MST_ROPE_LINEAR:
        for (i = 0; i < dim / 2; i++) {
            freq[i] /= r->factor;
        }

        break;

    case MST_ROPE_LLAMA3:
        mst_rope_llama3(r, dim, freq);
        break;

    case MST_ROPE_YARN:
        mst_rope_yarn(r, dim, freq);
        break;

    default:                       /* DYNAMIC: within "original" as PLAIN */
        break;
    }
}


double
mst_rope_base(const mst_rope_t *r, uint32_t dim, uint32_t length)
{
    double  stretch;

    if (r->kind != MST_ROPE_DYNAMIC || length <= r->original || dim <= 2) {
        return r->base;
    }

    stretch = r->factor * length / r->original - (r->factor - 1);

    return r->base * pow(stretch, dim / (dim - 2.0));
}
