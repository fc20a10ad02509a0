
/*
 * One step of a Llama-type model, dense or a mixture of experts, over the
 * backend's table: see mst_forward.h.
 */

#include "base/mst_mem.h"
#include "model/mst_model.h"


/* nothing that the backend multiplies or follows is out of range */

static int
mst_forward_check(const mst_model_t *m, const mst_batch_seq_t *s,
    uint32_t rows, mst_err_t *err)
{
    uint32_t  i, n;

    if (s->n < 1 || s->n > m->max_rows - rows) {
        return mst_err_set(err, "%u tokens of a sequence in a step that has "
                           "room for %u", s->n, m->max_rows - rows);
    }

    if (s->n > m->info.context || s->position > m->info.context - s->n) {
        return mst_err_set(err, "%u tokens at position %u, the context is %u",
                           s->n, s->position, m->info.context);
    }

    if (s->experts > m->info.n_experts) {
        return mst_err_set(err, "%u experts for a token, the model has %u",
                           s->experts, m->info.n_experts);
    }

    for (i = 0; i < s->n; i++) {
        if (s->ids[i] >= m->info.n_vocab
            && (s->ids[i] ^ MST_SAMPLE_FED) >= m->n_fed)
        {
            return mst_err_set(err, "token id %u, the vocabulary has %u",
                               s->ids[i], m->info.n_vocab);
        }
    }

    n = (s->position + s->n - 1) / m->info.block_tokens + 1;

    /* blocks that every window has left may have gone */

    i = m->info.window && s->position >= m->info.window
        ? (s->position - m->info.window + 1) / m->info.block_tokens : 0;

    for ( /* void */ ; i < n; i++) {
        if (s->blocks[i] >= m->info.n_blocks) {
            return mst_err_set(err, "KV block %u, there are %u", s->blocks[i],
                               m->info.n_blocks);
        }
    }

    return MST_OK;
}


/* 0: as the backend was told */

static double
mst_forward_base(const mst_model_t *m, uint32_t length)
{
    const mst_rope_t  *r;

    r = &m->config.rope;

    return r->kind == MST_ROPE_DYNAMIC && length > r->original
           ? mst_rope_base(r, m->config.rope_dim, length) : 0;
}


static int
mst_forward_step(mst_model_t *m, const mst_batch_t *batch,
    mst_backend_step_t *step, mst_err_t *err)
{
    uint32_t                i, k;
    const mst_batch_seq_t  *s;

    if (batch->n_seqs < 1 || batch->n_seqs > m->max_seqs) {
        return mst_err_set(err, "%u sequences in a step, limits are 1 and %u",
                           batch->n_seqs, m->max_seqs);
    }

    step->seqs = m->seqs;
    step->n_seqs = batch->n_seqs;
    step->wanted = m->wanted;
    step->n_rows = 0;
    step->n_wanted = 0;

    for (i = 0; i < batch->n_seqs; i++) {
        s = &batch->seqs[i];

        if (mst_forward_check(m, s, step->n_rows, err) != MST_OK) {
            return MST_ERROR;
        }

        m->seqs[i].ids = s->ids;
        m->seqs[i].n = s->n;
        m->seqs[i].position = s->position;
        m->seqs[i].blocks = s->blocks;
        m->seqs[i].rope_base = mst_forward_base(m, s->length);
        m->seqs[i].n_used = s->experts;

        if (s->logits == MST_LOGITS_LAST) {
            m->wanted[step->n_wanted++] = step->n_rows + s->n - 1;
        }

        for (k = 0; s->logits == MST_LOGITS_ALL && k < s->n; k++) {
            m->wanted[step->n_wanted++] = step->n_rows + k;
        }

        step->n_rows += s->n;
    }

    return MST_OK;
}


/* all but the end of it, which takes the rows of logits; top: mst_forward_top()
   */

static int
mst_forward_begin(mst_model_t *m, const mst_batch_t *batch, uint32_t *top,
    mst_err_t *err)
{
    uint32_t                    i;
    mst_backend_t              *b;
    mst_backend_step_t          step;
    const mst_backend_ops_t    *ops;
    const mst_backend_layer_t  *w;

    if (mst_forward_step(m, batch, &step, err) != MST_OK) {
        return MST_ERROR;
    }

    b = m->backend;
    ops = m->ops;

    ops->begin(b, &step);
    ops->embed(b, m->embd);

    for (i = 0; i < m->config.n_layers; i++) {
        w = &m->layers[i];

        ops->qkv(b, i, w);
        ops->attend(b, i, w);
        ops->out(b, w);

        if (w->router) {
            ops->experts(b, w);
            continue;
        }

        ops->gate_up(b, w);
        ops->down(b, w);
    }

    if (top == NULL || ops->top == NULL
        || !ops->top(b, m->norm, m->head, top))
    {
        ops->logits(b, m->norm, m->head);
    }

    return MST_OK;
}


int
mst_forward(mst_model_t *m, const mst_batch_t *batch, const float **logits,
    mst_err_t *err)
{
    if (mst_forward_begin(m, batch, NULL, err) != MST_OK) {
        return MST_ERROR;
    }

    m->n_fed = 0;

    return m->ops->sync(m->backend, logits, err);
}


int
mst_forward_top(mst_model_t *m, const mst_batch_t *batch, uint32_t *ids,
    uint32_t n, const float **logits, mst_err_t *err)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        ids[i] = MST_BACKEND_NONE;
    }

    if (mst_forward_begin(m, batch, ids, err) != MST_OK) {
        return MST_ERROR;
    }

    m->n_fed = 0;

    return m->ops->sync(m->backend, logits, err);
}


void
mst_forward_spread(mst_model_t *m, const mst_backend_work_t *work)
{
    uint32_t  i;

    if (m->ops->spread != NULL && work->n > 1) {
        m->ops->spread(m->backend, work);
        return;
    }

    for (i = 0; i < work->n; i++) {
        work->piece(work->data, 0, i);
    }
}


int
mst_forward_samples(const mst_model_t *m)
{
    return m->ops->launch != NULL;
}


int
mst_forward_launch(mst_model_t *m, const mst_batch_t *batch,
    const mst_backend_draw_t *draws, uint32_t n, mst_err_t *err)
{
    if (mst_forward_begin(m, batch, NULL, err) != MST_OK) {
        return MST_ERROR;
    }

    m->n_fed = batch->n_seqs;

    return m->ops->launch(m->backend, draws, n, err);
}


int
mst_forward_wait(mst_model_t *m, mst_err_t *err)
{
    return m->ops->wait(m->backend, err);
}


/* every sequence is one token in the pool's first block, which is nobody's
   yet; the second token, as a first one may be computed in another way */

int
mst_forward_warm(mst_model_t *m, mst_err_t *err)
{
    int               rc;
    uint32_t          i, k, n;
    const float      *logits;
    mst_batch_t       batch;
    mst_batch_seq_t  *seqs;

    static const uint32_t  zero = 0;

    if (m->ops->warm == NULL) {
        return MST_OK;
    }

    seqs = mst_calloc(m->max_seqs, sizeof(mst_batch_seq_t));

    if (seqs == NULL) {
        return mst_err_set(err, "out of memory for a model");
    }

    rc = MST_OK;

    for (i = 0; rc == MST_OK && (n = m->ops->warm(m->backend, i)) != 0; i++) {

        for (k = 0; k < n; k++) {
            seqs[k].ids = &zero;
            seqs[k].n = 1;
            seqs[k].position = m->info.context > 1;
            seqs[k].blocks = &zero;
            seqs[k].logits = MST_LOGITS_LAST;
            seqs[k].length = seqs[k].position + 1;
        }

        batch.seqs = seqs;
        batch.n_seqs = n;
        batch.n_tokens = n;

        rc = mst_forward(m, &batch, &logits, err);
    }

    mst_free(seqs);

    return rc;
}
