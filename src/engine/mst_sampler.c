
/*
 * The sampler: see mst_sampler.h.
 */

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mst_draw.h"
#include "base/mst_mem.h"
#include "engine/mst_sampler.h"


#define MST_SAMPLER_PROMPT  0x80000000u        /* in counts: in the prompt */
#define MST_SAMPLER_DIGIT   11                 /* bits of a pass */
#define MST_SAMPLER_SUMS    (1u << MST_SAMPLER_DIGIT)
#define MST_SAMPLER_BLOCK   1024               /* logits, of a maximum */


typedef float    mst_sampler_four_t __attribute__((vector_size(16)));
typedef int32_t  mst_sampler_mask_t __attribute__((vector_size(16)));


static int mst_sampler_plain(const mst_sampler_t *s, const float *logits,
    const mst_sample_t *sample, uint32_t *id);
static void mst_sampler_penalise(mst_sampler_t *s,
    const mst_sample_t *sample);
static int mst_sampler_ban(mst_sampler_t *s, const mst_sample_t *sample);
static int mst_sampler_broken(const mst_sampler_t *s);
static uint32_t mst_sampler_argmax(const mst_sampler_t *s);
static uint32_t mst_sampler_draw(mst_sampler_t *s,
    const mst_sample_t *sample, float max);
static double mst_sampler_lse(const mst_sampler_t *s, float max);
static void mst_sampler_top(const mst_sampler_t *s, uint32_t n, double lse,
    mst_sampled_t *sampled);


int
mst_sampler_init(mst_sampler_t *s, uint32_t n_vocab, mst_err_t *err)
{
    memset(s, 0, sizeof(mst_sampler_t));

    s->n_vocab = n_vocab;
    s->logits = mst_calloc(n_vocab, sizeof(float));
    s->weights = mst_calloc(n_vocab, sizeof(double));
    s->counts = mst_calloc(n_vocab, sizeof(uint32_t));
    s->sums = mst_calloc(MST_SAMPLER_SUMS, sizeof(double));

    if (s->logits == NULL || s->weights == NULL || s->counts == NULL
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
    mst_free(s->weights);
    mst_free(s->counts);
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
    uint32_t             i;
    const mst_params_t  *p;

    p = sample->params;

    if (mst_sampler_plain(s, logits, sample, &sampled->id)) {
        mst_sampler_take(sampled->id, sampled);
        return;
    }

    mst_sampler_take(0, sampled);
    sampled->status = MST_ERROR;

    memcpy(s->logits, logits, s->n_vocab * sizeof(float));

    mst_sampler_penalise(s, sample);

    for (i = 0; i < sample->n_bias; i++) {
        s->logits[sample->bias[i].id] += sample->bias[i].value;
    }

    if (mst_sampler_ban(s, sample) != MST_OK) {
        return;
    }

    sampled->id = mst_sampler_argmax(s);
    max = s->logits[sampled->id];

    if (max == -INFINITY) {
        return;
    }

    sampled->status = MST_OK;
    lse = 0;

    if (p->flags & MST_PARAMS_LOGPROBS) {
        lse = mst_sampler_lse(s, max);
        mst_sampler_top(s, p->n_top, lse, sampled);
    }

    /* a draw takes logits out of the row, but not that of its result */

    if (p->temperature > 0 && !sample->greedy) {
        sampled->id = mst_sampler_draw(s, sample, max);
    }

    if (p->flags & MST_PARAMS_LOGPROBS) {
        sampled->logprob = (float) ((double) s->logits[sampled->id] - lse);
    }
}


void
mst_sampler_score(mst_sampler_t *s, const float *logits, uint32_t id,
    uint32_t n_top, mst_sampled_t *scored)
{
    float   max;
    double  lse;

    memset(scored, 0, sizeof(mst_sampled_t));

    scored->status = MST_ERROR;
    scored->id = id;

    memcpy(s->logits, logits, s->n_vocab * sizeof(float));

    if (mst_sampler_broken(s)) {
        return;
    }

    max = s->logits[mst_sampler_argmax(s)];

    if (max == -INFINITY) {
        return;
    }

    lse = mst_sampler_lse(s, max);

    mst_sampler_top(s, n_top, lse, scored);

    scored->status = MST_OK;
    scored->logprob = (float) ((double) s->logits[id] - lse);
}


/* the largest of n logits, a multiple of 4, or NaN where one of them is no
   finite number */

static float
mst_sampler_max(const float *x, uint32_t n)
{
    float               max;
    uint32_t            i;
    mst_sampler_four_t  four, most, zero;
    mst_sampler_mask_t  more;

    memcpy(&most, x, sizeof(most));
    zero = most * 0;

    for (i = 4; i < n; i += 4) {
        memcpy(&four, x + i, sizeof(four));
        zero += four * 0;
        more = four > most;
        most = (mst_sampler_four_t) (((mst_sampler_mask_t) four & more)
                                     | ((mst_sampler_mask_t) most & ~more));
    }

    max = most[0];

    for (i = 1; i < 4; i++) {
        max = most[i] > max ? most[i] : max;
    }

    return max + (zero[0] + zero[1] + zero[2] + zero[3]);
}


/* the likeliest token where nothing changes the logits and nobody wants
   theirs: one pass; 0: not so simple */

static int
mst_sampler_plain(const mst_sampler_t *s, const float *logits,
    const mst_sample_t *sample, uint32_t *id)
{
    float     max, most;
    uint32_t  at, i, n;

    if (!mst_sampler_is_plain(sample) || s->n_vocab % 4) {
        return 0;
    }

    most = -INFINITY;
    at = 0;

    for (i = 0; i < s->n_vocab; i += n) {
        n = s->n_vocab - i;
        n = n < MST_SAMPLER_BLOCK ? n : MST_SAMPLER_BLOCK;
        max = mst_sampler_max(logits + i, n);

        if (!isfinite(max)) {
            return 0;
        }

        if (max > most) {
            most = max;
            at = i;
        }
    }

    while (logits[at] != most) {
        at++;
    }

    *id = at;

    return 1;
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

    if (p->repetition_penalty == 1 && p->frequency_penalty == 0
        && p->presence_penalty == 0)
    {
        return;
    }

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


/* also the check: what is banned must not hide a NaN */

static int
mst_sampler_ban(mst_sampler_t *s, const mst_sample_t *sample)
{
    uint32_t  i;

    if (mst_sampler_broken(s)) {
        return MST_ERROR;
    }

    if (sample->n_tokens - sample->n_prompt < sample->params->min_tokens) {
        for (i = 0; i < sample->n_stop; i++) {
            s->logits[sample->stop_ids[i]] = -INFINITY;
        }
    }

    return MST_OK;
}


static int
mst_sampler_broken(const mst_sampler_t *s)
{
    int       bad;
    uint32_t  i;

    bad = 0;

    for (i = 0; i < s->n_vocab; i++) {
        bad |= !(s->logits[i] <= FLT_MAX);
    }

    return bad;
}


static uint32_t
mst_sampler_argmax(const mst_sampler_t *s)
{
    float     max;
    uint32_t  i, best;

    best = 0;
    max = s->logits[0];

    for (i = 1; i < s->n_vocab; i++) {
        if (s->logits[i] > max) {
            max = s->logits[i];
            best = i;
        }
    }

    return best;
}


/* logarithm of the sum of the exponentials */

static double
mst_sampler_lse(const mst_sampler_t *s, float max)
{
    double    sum;
    uint32_t  i;

    sum = 0;

    for (i = 0; i < s->n_vocab; i++) {
        sum += exp((double) s->logits[i] - max);
    }

    return max + log(sum);
}


/* the n best, falling; fewer where the rest is banned */

static void
mst_sampler_top(const mst_sampler_t *s, uint32_t n, double lse,
    mst_sampled_t *sampled)
{
    float     x, least;
    uint32_t  i, j, m;

    m = 0;
    least = -INFINITY;

    for (i = 0; n && i < s->n_vocab; i++) {
        x = s->logits[i];

        if (!(x > least)) {
            continue;
        }

        if (m < n) {
            m++;
        }

        for (j = m - 1; j && s->logits[sampled->top_ids[j - 1]] < x; j--) {
            sampled->top_ids[j] = sampled->top_ids[j - 1];
        }

        sampled->top_ids[j] = i;

        if (m == n) {
            least = s->logits[sampled->top_ids[m - 1]];
        }
    }

    for (j = 0; j < m; j++) {
        x = s->logits[sampled->top_ids[j]];
        sampled->top_logprobs[j] = (float) ((double) x - lse);
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


/* the sums of the weights of all logits that share "key", by next digit */

static void
mst_sampler_sum(mst_sampler_t *s, const double *weights, uint32_t key,
    uint32_t shared, int shift)
{
    uint32_t  i, k;

    memset(s->sums, 0, MST_SAMPLER_SUMS * sizeof(double));

    for (i = 0; i < s->n_vocab; i++) {
        k = mst_sampler_key(s->logits[i]);

        if ((k & shared) == key && s->logits[i] > -INFINITY) {
            k = k >> shift & (MST_SAMPLER_SUMS - 1);
            s->sums[k] += weights ? weights[i] : 1;
        }
    }
}


/*
 * Takes all out but the smallest set of the largest logits whose weights
 * reach "need"; a weight is 1 each where weights is NULL.  Digit by digit
 * from the top: the digit at which the sum reaches "need" belongs to the
 * least logit of the set, and the next pass looks at those alone that share
 * it.  Three passes find all 32 bits, whatever the logits are.
 */

static void
mst_sampler_cut(mst_sampler_t *s, double *weights, double need)
{
    int                i;
    double             above, before;
    uint32_t           d, digit, id, key, shared, k;
    static const int   shifts[] = { 32 - MST_SAMPLER_DIGIT,
                                    32 - 2 * MST_SAMPLER_DIGIT, 0 };

    above = 0;                 /* weight of the keys that are greater */
    key = 0;
    shared = 0;

    for (i = 0; i < 3; i++) {

        /* the last pass sees one bit again that is shared already */

        mst_sampler_sum(s, weights, key, shared, shifts[i]);

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

    for (id = 0; id < s->n_vocab; id++) {
        k = mst_sampler_key(s->logits[id]);

        if (k > key) {
            continue;
        }

        if (k == key && above < need) {
            above += weights ? weights[id] : 1;
            continue;
        }

        s->logits[id] = -INFINITY;

        if (weights) {
            weights[id] = 0;
        }
    }
}


/* fills the weights, of which the best one is exactly 1; returns their sum */

static double
mst_sampler_weigh(mst_sampler_t *s, float max, double temperature)
{
    double    sum, x;
    uint32_t  i;

    sum = 0;

    for (i = 0; i < s->n_vocab; i++) {
        x = 0;

        if (s->logits[i] > -INFINITY) {
            x = exp(((double) s->logits[i] - max) / temperature);
        }

        s->weights[i] = x;
        sum += x;
    }

    return sum;
}


/* takes out what weighs less than "least"; returns the sum of the rest */

static double
mst_sampler_drop(mst_sampler_t *s, double least)
{
    double    sum;
    uint32_t  i;

    sum = 0;

    for (i = 0; i < s->n_vocab; i++) {
        if (s->weights[i] < least) {
            s->weights[i] = 0;
        }

        sum += s->weights[i];
    }

    return sum;
}


static uint32_t
mst_sampler_draw(mst_sampler_t *s, const mst_sample_t *sample, float max)
{
    double               sum, target;
    uint32_t             i, id, n;
    const mst_params_t  *p;

    p = sample->params;

    if (p->top_k > 0 && (uint32_t) p->top_k < s->n_vocab) {
        mst_sampler_cut(s, NULL, p->top_k);
    }

    sum = mst_sampler_weigh(s, max, p->temperature);

    if (p->top_p < 1) {
        mst_sampler_cut(s, s->weights, p->top_p * sum);
    }

    if (p->top_p < 1 || p->min_p > 0) {
        sum = mst_sampler_drop(s, p->min_p);
    }

    n = sample->n_tokens - sample->n_prompt;
    target = sum * mst_sampler_uniform(p->seed, n);

    sum = 0;
    id = 0;

    for (i = 0; i < s->n_vocab && sum <= target; i++) {

        /* the last one that has weight, if rounding keeps the sum below */

        if (s->weights[i] > 0) {
            sum += s->weights[i];
            id = i;
        }
    }

    return id;
}
