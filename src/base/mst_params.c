
/*
 * Sampling parameters: see mst_params.h.
 */

#include <stddef.h>
#include <string.h>

#include "base/mst_params.h"


typedef struct {
    const char  *name;
    size_t       offset;
    double       low;
    double       high;
} mst_params_range_t;


#define mst_params_field(name)  #name, offsetof(mst_params_t, name)


static const mst_params_range_t  mst_params_ranges[] = {
    { mst_params_field(temperature), 0, 2 },
    { mst_params_field(top_p), 1e-9, 1 },
    { mst_params_field(min_p), 0, 1 },
    { mst_params_field(frequency_penalty), -2, 2 },
    { mst_params_field(presence_penalty), -2, 2 },
    { mst_params_field(repetition_penalty), 1e-6, 1e6 }
};


void
mst_params_default(mst_params_t *p)
{
    memset(p, 0, sizeof(mst_params_t));

    p->temperature = 1;
    p->top_p = 1;
    p->repetition_penalty = 1;
    p->max_tokens = 16;
}


int
mst_params_check(const mst_params_t *p, mst_err_t *err)
{
    float                      value;
    size_t                     i;
    const mst_params_range_t  *r;

    for (i = 0; i < sizeof(mst_params_ranges) / sizeof(*r); i++) {
        r = &mst_params_ranges[i];

        memcpy(&value, (const char *) p + r->offset, sizeof(float));

        /* written so that NaN fails */

        if (!(value >= r->low && value <= r->high)) {
            return mst_err_set(err, "%s %g is outside %g .. %g", r->name,
                               (double) value, r->low, r->high);
        }
    }

    if (p->top_k < 0) {
        return mst_err_set(err, "top_k %d is negative", p->top_k);
    }

    if (p->n_top > MST_MAX_TOP_LOGPROBS) {
        return mst_err_set(err, "top_logprobs %u is over %d", p->n_top,
                           MST_MAX_TOP_LOGPROBS);
    }

    if (p->max_tokens > INT32_MAX || p->soft_tokens > INT32_MAX
        || p->min_tokens > INT32_MAX)
    {
        return mst_err_set(err, "a token limit is over %d", INT32_MAX);
    }

    return MST_OK;
}


int
mst_claim_check(const mst_claim_t *c, mst_err_t *err)
{
    if (c->priority < MST_PRIORITY_MIN || c->priority > MST_PRIORITY_MAX) {
        return mst_err_set(err, "priority %d is outside %d .. %d",
                           c->priority, MST_PRIORITY_MIN, MST_PRIORITY_MAX);
    }

    if (c->fair_weight > MST_WEIGHT_MAX) {
        return mst_err_set(err, "weight %u is over %d", c->fair_weight,
                           MST_WEIGHT_MAX);
    }

    if (c->flags & ~(uint32_t) MST_CLAIM_PREEMPT) {
        return mst_err_set(err, "claim with unknown flags %x", c->flags);
    }

    return MST_OK;
}
