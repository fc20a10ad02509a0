
/*
 * A model as a runner: one forward step, then one draw for each sequence
 * that is through with its tokens (mst_runner.h).  A step is a list of draws
 * and scores; a backend that samples gets it with the launch, else, and where
 * the logits are wanted, samplers of the CPU go through it afterwards, on the
 * threads that computed the step.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "engine/mst_runner.h"
#include "engine/mst_sampler.h"

#define MST_RUNNER_SAMPLERS  8     /* threads that draw at once */


typedef struct {
    mst_model_t         *model;
    mst_sampler_t        samplers[MST_RUNNER_SAMPLERS];
    const float         *logits;   /* of the step */
    mst_backend_draw_t  *draws;
    uint32_t            *ids;      /* [max_draws] of a step of likeliest
                                      tokens */
    uint32_t             n_draws;
    uint32_t             max_draws;
} mst_runner_model_t;


static int mst_runner_model_step(void *data, mst_step_t *step,
    mst_err_t *err);
static int mst_runner_model_launch(void *data, mst_step_t *step,
    mst_err_t *err);
static int mst_runner_model_wait(void *data, mst_err_t *err);
static int mst_runner_model_list(mst_runner_model_t *rm,
    const mst_step_t *step, mst_err_t *err);
static int mst_runner_model_plain(const mst_runner_model_t *rm,
    const mst_step_t *step);
static void mst_runner_model_sample(mst_runner_model_t *rm,
    const float *logits);
static void mst_runner_model_free(mst_runner_model_t *rm);
static void mst_runner_model_destroy(void *data);


int
mst_runner_model(mst_runner_t *r, mst_model_t *m, mst_err_t *err)
{
    size_t                   i;
    mst_runner_model_t      *rm;
    const mst_model_info_t  *info;

    info = mst_model_info(m);

    rm = mst_calloc(1, sizeof(mst_runner_model_t));
    if (rm == NULL) {
        return mst_err_set(err, "no memory to run the model");
    }

    for (i = 0; i < MST_RUNNER_SAMPLERS; i++) {
        if (mst_sampler_init(&rm->samplers[i], info->n_vocab, err) != MST_OK) {
            mst_runner_model_free(rm);
            return MST_ERROR;
        }
    }

    rm->model = m;

    memset(r, 0, sizeof(mst_runner_t));

    r->info = *info;
    r->data = rm;
    r->step = mst_runner_model_step;

    if (mst_forward_samples(m)) {
        r->launch = mst_runner_model_launch;
        r->wait = mst_runner_model_wait;
    }

    r->destroy = mst_runner_model_destroy;

    return MST_OK;
}


static int
mst_runner_model_step(void *data, mst_step_t *step, mst_err_t *err)
{
    uint32_t             i;
    mst_runner_model_t  *rm;

    rm = data;

    if (mst_runner_model_list(rm, step, err) != MST_OK) {
        return MST_ERROR;
    }

    if (step->keep_logits || !mst_runner_model_plain(rm, step)) {
        if (mst_forward(rm->model, &step->batch, &step->logits, err)
            != MST_OK)
        {
            return MST_ERROR;
        }

        mst_runner_model_sample(rm, step->logits);

        return MST_OK;
    }

    if (mst_forward_top(rm->model, &step->batch, rm->ids, rm->n_draws,
                        &step->logits, err) != MST_OK)
    {
        return MST_ERROR;
    }

    if (rm->n_draws && rm->ids[0] == MST_BACKEND_NONE) {
        mst_runner_model_sample(rm, step->logits);
        return MST_OK;
    }

    for (i = 0; i < rm->n_draws; i++) {
        mst_sampler_take(rm->ids[i], rm->draws[i].sampled);
    }

    return MST_OK;
}


/* each row of logits is drawn from, and its likeliest token is all that this
   takes */

static int
mst_runner_model_plain(const mst_runner_model_t *rm, const mst_step_t *step)
{
    uint32_t  i;

    for (i = 0; i < step->batch.n_seqs; i++) {
        if (step->batch.seqs[i].logits == MST_LOGITS_ALL) {
            return 0;
        }
    }

    for (i = 0; i < rm->n_draws; i++) {
        if (!mst_sampler_is_plain(rm->draws[i].sample)) {
            return 0;
        }
    }

    return 1;
}


static int
mst_runner_model_launch(void *data, mst_step_t *step, mst_err_t *err)
{
    mst_runner_model_t  *rm;

    rm = data;

    if (mst_runner_model_list(rm, step, err) != MST_OK) {
        return MST_ERROR;
    }

    return mst_forward_launch(rm->model, &step->batch, rm->draws, rm->n_draws,
                              err);
}


static int
mst_runner_model_wait(void *data, mst_err_t *err)
{
    mst_runner_model_t  *rm;

    rm = data;

    return mst_forward_wait(rm->model, err);
}


static mst_backend_draw_t *
mst_runner_model_draw(mst_runner_model_t *rm, uint32_t row,
    mst_sampled_t *sampled)
{
    mst_backend_draw_t  *d;

    d = &rm->draws[rm->n_draws++];

    memset(d, 0, sizeof(mst_backend_draw_t));

    d->row = row;
    d->sampled = sampled;

    return d;
}


/* what each row says of the token behind it, where that is the prompt's */

static void
mst_runner_model_score(mst_runner_model_t *rm, const mst_batch_seq_t *seq,
    const mst_sample_t *sample, uint32_t row, mst_sampled_t *scored)
{
    uint32_t             k, at;
    mst_backend_draw_t  *d;

    for (k = 0; k < seq->n; k++) {
        at = seq->position + k + 1;

        if (at < sample->n_prompt) {
            d = mst_runner_model_draw(rm, row + k, &scored[k]);
            d->id = sample->tokens[at];
            d->n_top = sample->params->n_top;
        }
    }
}


static int
mst_runner_model_list(mst_runner_model_t *rm, const mst_step_t *step,
    mst_err_t *err)
{
    uint32_t                i, at, row, need;
    mst_backend_draw_t     *d;
    const mst_sample_t     *sample;
    const mst_batch_seq_t  *seq;

    at = 0;
    row = 0;
    rm->n_draws = 0;
    need = step->batch.n_seqs;

    for (i = 0; i < step->batch.n_seqs; i++) {
        need += step->batch.seqs[i].n;
    }

    if (need > rm->max_draws) {
        mst_free(rm->draws);
        mst_free(rm->ids);

        rm->draws = mst_calloc(need, sizeof(mst_backend_draw_t));
        rm->ids = mst_calloc(need, sizeof(uint32_t));
        rm->max_draws = rm->draws && rm->ids ? need : 0;

        if (rm->max_draws == 0) {
            return mst_err_set(err, "no memory for %u draws", need);
        }
    }

    for (i = 0; i < step->batch.n_seqs; i++) {
        seq = &step->batch.seqs[i];
        sample = &step->samples[i];

        if (seq->logits == MST_LOGITS_ALL) {
            mst_runner_model_score(rm, seq, sample, row, step->scored + at);
            row += seq->n - 1;
        }

        at += seq->n;

        if (seq->logits == MST_LOGITS_NONE) {
            continue;
        }

        if (seq->logits == MST_LOGITS_LAST || !sample->silent) {
            d = mst_runner_model_draw(rm, row, &step->sampled[i]);
            d->sample = sample;
            d->name = i;
        }

        row++;
    }

    return MST_OK;
}


static void
mst_runner_model_one(void *data, uint32_t slot, uint32_t i)
{
    const float               *row;
    mst_sampler_t             *s;
    mst_runner_model_t        *rm;
    const mst_backend_draw_t  *d;

    rm = data;
    s = &rm->samplers[slot];
    d = &rm->draws[i];
    row = rm->logits + (size_t) d->row * s->n_vocab;

    if (d->sample) {
        mst_sampler_run(s, row, d->sample, d->sampled);

    } else {
        mst_sampler_score(s, row, d->id, d->n_top, d->sampled);
    }
}


static void
mst_runner_model_sample(mst_runner_model_t *rm, const float *logits)
{
    mst_backend_work_t  work = { mst_runner_model_one, rm, rm->n_draws,
                                 MST_RUNNER_SAMPLERS };

    rm->logits = logits;

    mst_forward_spread(rm->model, &work);
}


static void
mst_runner_model_free(mst_runner_model_t *rm)
{
    size_t  i;

    for (i = 0; i < MST_RUNNER_SAMPLERS; i++) {
        mst_sampler_fini(&rm->samplers[i]);
    }

    mst_free(rm->draws);
    mst_free(rm->ids);
    mst_free(rm);
}


static void
mst_runner_model_destroy(void *data)
{
    mst_runner_model_t  *rm;

    rm = data;

    mst_model_destroy(rm->model);
    mst_runner_model_free(rm);
}
