
/*
 * The sampler: see mst_sampler.h.
 */

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mst_draw.h"
#include "base/mst_mem.h"
#include "engine/mst_row.h"
#include "engine/mst_sampler.h"


#define MST_SAMPLER_PROMPT  0x80000000u        /* in counts: in the prompt */
#define MST_SAMPLER_DIGIT   11                 /* bits of a pass */
#define MST_SAMPLER_SUMS    (1u << MST_SAMPLER_DIGIT)
#define MST_SAMPLER_FEW     256                /* tokens that top_p is hoped to
                                                  leave at most */
#define MST_SAMPLER_LOG2E   1.44269504088896340736


static const float *mst_sampler_adjust(mst_sampler_t *s, const float *logits,
    const mst_sample_t *sample);
static uint32_t mst_sampler_draw(mst_sampler_t *s, const float *row,
    const mst_sample_t *sample, float max);
static double mst_sampler_lse(mst_sampler_t *s, const float *row, float max);
static void mst_sampler_top(const mst_sampler_t *s, const float *row,
    uint32_t n, double lse, mst_sampled_t *sampled);


int
mst_sampler_init(mst_sampler_t *s, uint32_t n_vocab, mst_err_t *err)
{
    size_t  sums;

    memset(s, 0, sizeof(mst_sampler_t));

    s->n_vocab = n_vocab;
    sums = mst_row_blocks(n_vocab);
    sums = sums > MST_SAMPLER_SUMS ? sums : MST_SAMPLER_SUMS;

    s->logits = mst_calloc(n_vocab, sizeof(float));
    s->tops = mst_calloc(mst_row_groups(n_vocab), sizeof(float));
    s->counts = mst_calloc(n_vocab, sizeof(uint32_t));
    s->ids = mst_calloc(n_vocab, sizeof(uint32_t));
    s->kept = mst_calloc(n_vocab, sizeof(float));
    s->weights = mst_calloc(n_vocab, sizeof(double));
    s->sums = mst_calloc(sums, sizeof(double));

    if (s->logits == NULL || s->tops == NULL || s->counts == NULL
        || s->ids == NULL || s->kept == NULL || s->weights == NULL
        || s->sums == NULL)
    {
        mst_sampler_fini(s);

        return mst_err_set(err, "no memory to sample from a vocabulary of %u",
                           n_vocab);
    }

    return MST_OK;
}


void
mst_sampler_fini(mst_sampler_t *s)
{
    mst_free(s->logits);
    mst_free(s->tops);
    mst_free(s->counts);
    mst_free(s->ids);
    mst_free(s->kept);
    mst_free(s->weights);
    mst_free(s->sums);

    memset(s, 0, sizeof(mst_sampler_t));
}


double
mst_sampler_uniform(uint64_t seed, uint32_t n)
{
    return (double) mst_draw_bits(seed, n) * 0x1p-53;
}


int
mst_sampler_is_plain(const mst_sample_t *sample)
{
    const mst_params_t  *p;

    p = sample->params;

    return (p->temperature <= 0 || sample->greedy) && sample->n_bias == 0
           && (p->flags & MST_PARAMS_LOGPROBS) == 0
           && p->repetition_penalty == 1 && p->frequency_penalty == 0
           && p->presence_penalty == 0
           && sample->n_tokens - sample->n_prompt >= p->min_tokens;
}


void
mst_sampler_take(uint32_t id, mst_sampled_t *sampled)
{
    sampled->status = MST_OK;
    sampled->ready_ns = 0;
    sampled->id = id;
    sampled->end = 0;
    sampled->logprob = 0;
    sampled->n_top = 0;
}


void
mst_sampler_run(mst_sampler_t *s, const float *logits,
    const mst_sample_t *sample, mst_sampled_t *sampled)
{
    float                max;
    double               lse;
    const float         *row;
    const mst_params_t  *p;

    p = sample->params;

    mst_sampler_take(0, sampled);
    sampled->status = MST_ERROR;

    row = mst_sampler_adjust(s, logits, sample);

    if (row == NULL
        || mst_row_max(row, s->n_vocab, s->tops, &sampled->id) != MST_OK)
    {
        return;
    }

    sampled->status = MST_OK;
    max = row[sampled->id];
    lse = 0;

    if (p->flags & MST_PARAMS_LOGPROBS) {
        lse = mst_sampler_lse(s, row, max);
        mst_sampler_top(s, row, p->n_top, lse, sampled);
    }

    if (p->temperature > 0 && !sample->greedy) {
        sampled->id = mst_sampler_draw(s, row, sample, max);
    }

    if (p->flags & MST_PARAMS_LOGPROBS) {
        sampled->logprob = (float) ((double) row[sampled->id] - lse);
    }
}


void
mst_sampler_score(mst_sampler_t *s, const float *logits, uint32_t id,
    uint32_t n_top, mst_sampled_t *scored)
{
    double    lse;
    uint32_t  best;

    memset(scored, 0, sizeof(mst_sampled_t));

    scored->status = MST_ERROR;
    scored->id = id;

    if (mst_row_max(logits, s->n_vocab, s->tops, &best) != MST_OK) {
        return;
    }

    lse = mst_sampler_lse(s, logits, logits[best]);

    mst_sampler_top(s, logits, n_top, lse, scored);

    scored->status = MST_OK;
    scored->logprob = (float) ((double) logits[id] - lse);
}


/* the first time that a token of the history is met does all of it */

static void
mst_sampler_penalise_token(mst_sampler_t *s, const mst_params_t *p,
    uint32_t id)
{
    float     *x;
    uint32_t   n;

    x = &s->logits[id];
    n = s->counts[id] & ~MST_SAMPLER_PROMPT;

    if (*x > 0) {
        *x /= p->repetition_penalty;

    } else {
        *x *= p->repetition_penalty;
    }

    if (n) {
        *x -= p->frequency_penalty * (float) n;
        *x -= p->presence_penalty;
    }

    s->counts[id] = 0;
}


static void
mst_sampler_penalise(mst_sampler_t *s, const mst_sample_t *sample)
{
    uint32_t             i, first;
    const mst_params_t  *p;

    p = sample->params;

    /* the prompt is repeated or not; only the answer is counted */

    first = p->repetition_penalty == 1 ? sample->n_prompt : 0;

    for (i = first; i < sample->n_prompt; i++) {
        s->counts[sample->tokens[i]] = MST_SAMPLER_PROMPT;
    }

    for ( /* void */ ; i < sample->n_tokens; i++) {
        s->counts[sample->tokens[i]]++;
    }

    for (i = first; i < sample->n_tokens; i++) {
        if (s->counts[sample->tokens[i]]) {
            mst_sampler_penalise_token(s, p, sample->tokens[i]);
        }
    }
}


/* what is banned must not hide a NaN */

static int
mst_sampler_ban(mst_sampler_t *s, const mst_sample_t *sample)
{
    float     *x;
    uint32_t   i;

    for (i = 0; i < sample->n_stop; i++) {
        x = &s->logits[sample->stop_ids[i]];

        if (!(*x <= FLT_MAX)) {
            return MST_ERROR;
        }

        *x = -INFINITY;
    }

    return MST_OK;
}


/* the logits as they are where nothing changes them; NULL: one of those that
   are banned is no number */

static const float *
mst_sampler_adjust(mst_sampler_t *s, const float *logits,
    const mst_sample_t *sample)
{
    int                  ban, penalise;
    uint32_t             i;
    const mst_params_t  *p;

    p = sample->params;

    penalise = p->repetition_penalty != 1 || p->frequency_penalty != 0
               || p->presence_penalty != 0;
    ban = sample->n_stop
          && sample->n_tokens - sample->n_prompt < p->min_tokens;

    if (!penalise && !ban && sample->n_bias == 0) {
        return logits;
    }

    memcpy(s->logits, logits, s->n_vocab * sizeof(float));

    if (penalise) {
        mst_sampler_penalise(s, sample);
    }

    for (i = 0; i < sample->n_bias; i++) {
        s->logits[sample->bias[i].id] += sample->bias[i].value;
    }

    return ban && mst_sampler_ban(s, sample) != MST_OK ? NULL : s->logits;
}


/* logarithm of the sum of the exponentials */

static double
mst_sampler_lse(mst_sampler_t *s, const float *row, float max)
{
    return (double) max
           + log(mst_row_weigh(row, s->n_vocab, max, MST_SAMPLER_LOG2E,
                               s->weights, s->sums));
}


/* a place among the m best so far */

static void
mst_sampler_rank(const float *row, uint32_t id, uint32_t m, uint32_t *ids)
{
    uint32_t  j;

    for (j = m - 1; j && row[ids[j - 1]] < row[id]; j--) {
        ids[j] = ids[j - 1];
    }

    ids[j] = id;
}


/* the n best, falling; fewer where the rest is banned */

static void
mst_sampler_top(const mst_sampler_t *s, const float *row, uint32_t n,
    double lse, mst_sampled_t *sampled)
{
    float     least;
    uint32_t  i, j, m;

    m = 0;
    least = -INFINITY;

    for (i = 0; n && i < s->n_vocab; i++) {

        if (i % MST_ROW_GROUP == 0 && !(s->tops[i / MST_ROW_GROUP] > least)) {
            i += MST_ROW_GROUP - 1;
            continue;
        }

        if (!(row[i] > least)) {
            continue;
        }

        m += m < n;
        mst_sampler_rank(row, i, m, sampled->top_ids);

        if (m == n) {
            least = row[sampled->top_ids[m - 1]];
        }
    }

    for (j = 0; j < m; j++) {
        sampled->top_logprobs[j] = (float) ((double) row[sampled->top_ids[j]]
                                            - lse);
    }

    sampled->n_top = m;
}


/* unsigned numbers in the order of the floats */

static uint32_t
mst_sampler_key(float x)
{
    uint32_t  u;

    x += 0.0f;                 /* -0 becomes 0, which it equals */

    memcpy(&u, &x, sizeof(uint32_t));

    return u & 0x80000000u ? ~u : u | 0x80000000u;
}


/* the sums of the weights of all that share "key", by next digit */

static void
mst_sampler_sum(mst_sampler_t *s, uint32_t n, const double *weights,
    uint32_t key, uint32_t shared, int shift)
{
    uint32_t  i, k;

    memset(s->sums, 0, MST_SAMPLER_SUMS * sizeof(double));

    for (i = 0; i < n; i++) {
        k = mst_sampler_key(s->kept[i]);

        if ((k & shared) == key) {
            k = k >> shift & (MST_SAMPLER_SUMS - 1);
            s->sums[k] += weights ? weights[i] : 1;
        }
    }
}


/*
 * Keeps of the first n the smallest set of the largest logits whose weights
 * reach "need"; a weight is 1 each where weights is NULL.  Digit by digit
 * from the top: the digit at which the sum reaches "need" belongs to the
 * least logit of the set, and the next pass looks at those alone that share
 * it.  Three passes find all 32 bits, whatever the logits are.  Returns how
 * many are left.
 */

static uint32_t
mst_sampler_cut(mst_sampler_t *s, uint32_t n, double *weights, double need)
{
    int                i;
    double             above, before;
    uint32_t           d, digit, j, key, m, shared, k;
    static const int   shifts[] = { 32 - MST_SAMPLER_DIGIT,
                                    32 - 2 * MST_SAMPLER_DIGIT, 0 };

    above = 0;                 /* weight of the keys that are greater */
    key = 0;
    shared = 0;

    for (i = 0; i < 3; i++) {

        /* the last pass sees one bit again that is shared already */

        mst_sampler_sum(s, n, weights, key, shared, shifts[i]);

        before = above;
        digit = 0;

        for (d = MST_SAMPLER_SUMS; d-- > 0 && before < need; /* void */ ) {

            /* the least one that has weight, if rounding or a "need" of
               more than all keep the sum below */

            if (s->sums[d] > 0) {
                digit = d;
                above = before;
                before += s->sums[d];
            }
        }

        key |= digit << shifts[i];
        shared |= (MST_SAMPLER_SUMS - 1) << shifts[i];
    }

    for (m = 0, j = 0; j < n; j++) {
        k = mst_sampler_key(s->kept[j]);

        if (k < key || (k == key && above >= need)) {
            continue;
        }

        if (k == key) {
            above += weights ? weights[j] : 1;
        }

        s->ids[m] = s->ids[j];
        s->kept[m] = s->kept[j];

        if (weights) {
            weights[m] = weights[j];
        }

        m++;
    }

    return m;
}


/* makes a list of those that reach "least" */

static uint32_t
mst_sampler_list(mst_sampler_t *s, const float *row, float least)
{
    uint32_t  i, n;

    n = mst_row_above(row, s->n_vocab, s->tops, least, s->ids);

    for (i = 0; i < n; i++) {
        s->kept[i] = row[s->ids[i]];
    }

    return n;
}


/* a list of the k best: the k-th largest maximum of a group is no greater
   than the k-th largest logit */

static uint32_t
mst_sampler_best(mst_sampler_t *s, const float *row, uint32_t k)
{
    float     least;
    uint32_t  groups, i, n;

    groups = mst_row_groups(s->n_vocab);
    least = -INFINITY;

    if (k < groups) {
        memcpy(s->kept, s->tops, groups * sizeof(float));
        n = mst_sampler_cut(s, groups, NULL, k);
        least = s->kept[0];

        for (i = 1; i < n; i++) {
            least = s->kept[i] < least ? s->kept[i] : least;
        }
    }

    n = mst_sampler_list(s, row, least);

    return mst_sampler_cut(s, n, NULL, k);
}


/* no logit whose weight is at least this, the best having 1, is less */

static float
mst_sampler_least(float max, double temperature, double weight)
{
    return nextafterf((float) ((double) max
                               + temperature * (log(weight) - 1e-9)),
                      -INFINITY);
}


/* a list of all that may be in the set below: of the largest that reach "need"
   together, few are tried first; what weighs less than what "need" leaves of
   the sum in n parts is not in it at any rate */

static uint32_t
mst_sampler_likely(mst_sampler_t *s, const float *row, const mst_params_t *p,
    float max, double sum)
{
    double    least, need, reached;
    uint32_t  i, n;

    least = (1 - (double) p->top_p) * sum;
    need = (double) p->top_p * sum * (1 + 1e-12);

    n = mst_sampler_list(s, row, mst_sampler_least(max, (double) p->temperature,
                                                   least / MST_SAMPLER_FEW));

    for (reached = 0, i = 0; i < n; i++) {
        reached += s->weights[s->ids[i]];
    }

    if (reached < need) {
        least /= 2 * s->n_vocab;
        n = mst_sampler_list(s, row,
                             mst_sampler_least(max, (double) p->temperature,
                                               least));
    }

    for (i = 0; i < n; i++) {
        s->weights[i] = s->weights[s->ids[i]];
    }

    return n;
}


/* the smallest set of the largest whose weights reach top_p of the sum */

static uint32_t
mst_sampler_nucleus(mst_sampler_t *s, const float *row, uint32_t n, int listed,
    const mst_params_t *p, float max, double sum)
{
    if (!listed) {
        n = mst_sampler_likely(s, row, p, max, sum);
    }

    return mst_sampler_cut(s, n, s->weights, (double) p->top_p * sum);
}


/* drops of a list what weighs less than "least"; returns how many are left,
   with their sums */

static uint32_t
mst_sampler_drop(mst_sampler_t *s, uint32_t n, double least, double *sum)
{
    uint32_t  b, i, m;

    for (m = 0, i = 0; i < n; i++) {
        if (s->weights[i] >= least && s->weights[i] > 0) {
            s->ids[m] = s->ids[i];
            s->weights[m++] = s->weights[i];
        }
    }

    *sum = 0;

    for (b = 0, i = 0; i < m; b++) {

        for (s->sums[b] = 0; i < m && i < (b + 1) * MST_ROW_BLOCK; i++) {
            s->sums[b] += s->weights[i];
        }

        *sum += s->sums[b];
    }

    return m;
}


/* the place at which the weights so far exceed "target" */

static uint32_t
mst_sampler_find(const mst_sampler_t *s, uint32_t n, double target)
{
    double    sum;
    uint32_t  b, end, i, last;

    sum = 0;

    for (b = 0; b + 1 < mst_row_blocks(n) && sum + s->sums[b] <= target; b++) {
        sum += s->sums[b];
    }

    /* the last one that has weight, if rounding keeps the sum below */

    i = b * MST_ROW_BLOCK;
    end = n - i < MST_ROW_BLOCK ? n : i + MST_ROW_BLOCK;
    last = end;

    for ( /* void */ ; i < end && sum <= target; i++) {
        if (s->weights[i] > 0) {
            sum += s->weights[i];
            last = i;
        }
    }

    while (last == end || s->weights[last] == 0) {
        last--;
    }

    return last;
}


static uint32_t
mst_sampler_draw(mst_sampler_t *s, const float *row,
    const mst_sample_t *sample, float max)
{
    int                  listed;
    double               sum, temperature;
    uint32_t             at, n;
    const mst_params_t  *p;

    p = sample->params;

    n = s->n_vocab;
    listed = 1;
    temperature = (double) p->temperature;

    if (p->top_k > 0 && (uint32_t) p->top_k < n) {
        n = mst_sampler_best(s, row, (uint32_t) p->top_k);

    } else if (p->top_p >= 1 && p->min_p > 0) {
        n = mst_sampler_list(s, row,
                             mst_sampler_least(max, temperature,
                                               (double) p->min_p));
    } else {
        listed = 0;
    }

    sum = mst_row_weigh(listed ? s->kept : row, n, max,
                        MST_SAMPLER_LOG2E / temperature, s->weights, s->sums);

    if (p->top_p < 1) {
        n = mst_sampler_nucleus(s, row, n, listed, p, max, sum);
        listed = 1;
    }

    if (p->top_p < 1 || p->min_p > 0) {
        n = mst_sampler_drop(s, n, (double) p->min_p, &sum);
    }

    at = mst_sampler_find(s, n,
                          sum * mst_sampler_uniform(p->seed, sample->n_tokens
                                                    - sample->n_prompt));

    return listed ? s->ids[at] : at;
}
