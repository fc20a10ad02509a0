
/*
 * A model as a runner: one forward step, then one draw for each sequence
 * that is through with its tokens (mst_runner.h).
 */

#include <string.h>

#include "base/mst_mem.h"
#include "engine/mst_runner.h"
#include "engine/mst_sampler.h"


typedef struct {
    mst_model_t    *model;
    mst_sampler_t   sampler;
} mst_runner_model_t;


static int mst_runner_model_step(void *data, mst_step_t *step,
    mst_err_t *err);
static void mst_runner_model_score(mst_runner_model_t *rm,
    const mst_batch_seq_t *seq, const mst_sample_t *sample, const float *row,
    mst_sampled_t *scored);
static void mst_runner_model_destroy(void *data);


int
mst_runner_model(mst_runner_t *r, mst_model_t *m, mst_err_t *err)
{
    mst_runner_model_t      *rm;
    const mst_model_info_t  *info;

    info = mst_model_info(m);

    rm = mst_calloc(1, sizeof(mst_runner_model_t));
    if (rm == NULL) {
        return mst_err_set(err, "no memory to run the model");
    }

    if (mst_sampler_init(&rm->sampler, info->n_vocab, err) != MST_OK) {
        mst_free(rm);
        return MST_ERROR;
    }

    rm->model = m;

    memset(r, 0, sizeof(mst_runner_t));

    r->info = *info;
    r->data = rm;
    r->step = mst_runner_model_step;
    r->destroy = mst_runner_model_destroy;

    return MST_OK;
}


static int
mst_runner_model_step(void *data, mst_step_t *step, mst_err_t *err)
{
    uint32_t             i, at;
    const float         *row;
    mst_sample_t        *sample;
    mst_batch_seq_t     *seq;
    mst_runner_model_t  *rm;

    rm = data;
    at = 0;

    if (mst_forward(rm->model, &step->batch, &row, err) != MST_OK) {
        return MST_ERROR;
    }

    step->logits = row;

    for (i = 0; i < step->batch.n_seqs; i++) {
        seq = &step->batch.seqs[i];
        sample = &step->samples[i];

        if (seq->logits == MST_LOGITS_ALL) {
            mst_runner_model_score(rm, seq, sample, row, step->scored + at);
            row += (size_t) (seq->n - 1) * rm->sampler.n_vocab;
        }

        at += seq->n;

        if (seq->logits == MST_LOGITS_NONE) {
            continue;
        }

        if (seq->logits == MST_LOGITS_LAST || !sample->silent) {
            mst_sampler_run(&rm->sampler, row, sample, &step->sampled[i]);
        }

        row += rm->sampler.n_vocab;
    }

    return MST_OK;
}


static void
mst_runner_model_score(mst_runner_model_t *rm, const mst_batch_seq_t *seq,
    const mst_sample_t *sample, const float *row, mst_sampled_t *scored)
{
    uint32_t  k, at;

    for (k = 0; k < seq->n; k++) {
        at = seq->position + k + 1;

        if (at < sample->n_prompt) {
            mst_sampler_score(&rm->sampler, row, sample->tokens[at],
                              sample->params->n_top, &scored[k]);
        }

        row += rm->sampler.n_vocab;
    }
}


static void
mst_runner_model_destroy(void *data)
{
    mst_runner_model_t  *rm;

    rm = data;

    mst_model_destroy(rm->model);
    mst_sampler_fini(&rm->sampler);
    mst_free(rm);
}
