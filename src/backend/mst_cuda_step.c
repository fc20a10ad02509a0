
/*
 * A step of the CUDA backend: staging, graphs, results.  See mst_cuda.h.
 */

#include <math.h>
#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_cuda.h"


void
mst_cuda_begin(mst_backend_t *b, const mst_backend_step_t *step)
{
    b->step = *step;
    b->n_cmds = 0;
}


mst_cuda_cmd_t *
mst_cuda_note(mst_backend_t *b, mst_cuda_op_t op)
{
    mst_cuda_cmd_t  *cmd;

    cmd = &b->cmds[b->n_cmds++];
    memset(cmd, 0, sizeof(mst_cuda_cmd_t));
    cmd->op = op;

    return cmd;
}


/* queries grow with the position: see mst_backend_conf_t */

static float
mst_cuda_q_scale(const mst_backend_conf_t *c, uint32_t pos)
{
    double  scale;

    scale = 1 / sqrt((double) c->head_dim);

    if (c->temp_length) {
        scale *= 1 + c->temp_beta * log(1 + floor((double) pos
                                                  / c->temp_length));
    }

    return (float) scale;
}


static void
mst_cuda_fill_rows(const mst_backend_t *b, mst_k_step_t *s)
{
    uint32_t                  i, k, pos, row;
    const mst_backend_seq_t  *q;

    row = 0;

    for (i = 0; i < b->step.n_seqs; i++) {
        q = &b->step.seqs[i];

        for (k = 0; k < q->n; k++, row++) {
            pos = q->position + k;
            s->id[row] = (int32_t) mst_cuda_fed(b, q->ids[k]);
            s->pos[row] = (int32_t) pos;
            s->seq[row] = (int32_t) i;
            s->slot[row] = (int32_t) (q->blocks[pos / MST_K_BLOCK]
                                      * MST_K_BLOCK + pos % MST_K_BLOCK);
            s->q_scale[row] = mst_cuda_q_scale(&b->conf, pos);
        }
    }

    for ( /* void */ ; row < b->bucket.rows; row++) {
        s->id[row] = 0;
        s->pos[row] = 0;
        s->seq[row] = (int32_t) mst_cuda_min(row, b->bucket.seqs - 1);
        s->slot[row] = -1;
        s->q_scale[row] = 0;
    }
}


/* returns the entries of all tables */

static uint32_t
mst_cuda_fill_seqs(const mst_backend_t *b, mst_k_step_t *s)
{
    uint32_t                  at, i, n, row;
    const mst_backend_seq_t  *q;

    at = 0;
    row = 0;

    for (i = 0; i < b->step.n_seqs; i++) {
        q = &b->step.seqs[i];
        n = (q->position + q->n + MST_K_BLOCK - 1) / MST_K_BLOCK;

        s->rope_base[i] = q->rope_base;
        s->seq_row[i] = (int32_t) row;
        s->seq_n[i] = (int32_t) q->n;
        s->seq_len[i] = (int32_t) (q->position + q->n);
        s->seq_table[i] = (int32_t) at;
        s->seq_used[i] = (int32_t) (q->n_used ? q->n_used : b->conf.n_used);

        memcpy(s->blocks + at, q->blocks, n * sizeof(uint32_t));
        at += n;
        row += q->n;
    }

    for ( /* void */ ; i < b->bucket.seqs; i++) {
        s->rope_base[i] = 0;
        s->seq_row[i] = 0;
        s->seq_n[i] = 0;
        s->seq_len[i] = 0;
        s->seq_table[i] = 0;
        s->seq_used[i] = 0;
    }

    return at;
}


/* one row of each sequence; of e4m3 none of them the first: see
   mst_cuda_chain() */

static int
mst_cuda_decodes(const mst_backend_t *b)
{
    uint32_t  i;

    if (b->step.n_rows != b->step.n_seqs) {
        return 0;
    }

    for (i = 0; b->conf.dtype == MST_DTYPE_FP8 && i < b->step.n_seqs; i++) {
        if (b->step.seqs[i].position == 0) {
            return 0;
        }
    }

    return 1;
}


static void
mst_cuda_bucket(mst_backend_t *b)
{
    const mst_backend_step_t  *p;

    p = &b->step;
    memset(&b->bucket, 0, sizeof(b->bucket));

    b->decode = mst_cuda_decodes(b);
    b->bucket.rows = mst_k_bucket_rows(p->n_rows);
    b->bucket.seqs = b->decode ? b->bucket.rows
                               : mst_k_bucket_rows(p->n_seqs);
    b->bucket.wanted = b->decode ? b->bucket.rows
                                 : mst_k_bucket_rows(p->n_wanted);
    b->bucket.sample = p->n_wanted > b->logits_rows ? 0
                       : mst_cuda_min(b->bucket.wanted, b->logits_rows)
                         * (uint32_t) sizeof(mst_k_sample_order_t);

    b->shape.rows = b->bucket.rows;
    b->shape.seqs = b->bucket.seqs;
    b->shape.n_heads = b->conf.n_heads;
    b->shape.n_kv_heads = b->conf.n_kv_heads;
    b->shape.head_dim = b->conf.head_dim;
    b->shape.invariant = b->conf.batch_invariant;
    b->shape.ctas = mst_k_attn_ctas(b->bucket.seqs, b->conf.n_kv_heads,
                                    (uint32_t) b->props.multiProcessorCount);
}


void
mst_cuda_plan(mst_backend_t *b)
{
    uint32_t           i;
    mst_k_attn_plan_t  plan = { 0 };

    b->planning = b->fast;

    if (!b->planning) {
        return;
    }

    for (i = 0; i < b->n_windows; i++) {
        plan.step = b->dev;
        plan.shape = b->shape;
        plan.window = b->windows[i];
        plan.work = b->work[i];
        plan.pdl = mst_cuda_pdl(b);
        mst_cuda_go(b, mst_k_attn_plan(&plan, b->stream));
    }

    mst_cuda_go(b, cudaEventRecord(b->planned, b->stream));
}


/* what comes after the plan goes on beside it, which is why it has to be waited
   for; as attention reads its list before it waits for its predecessor, the
   first one is not launched early, and those after it come behind it */

void
mst_cuda_planned(mst_backend_t *b)
{
    if (b->planning) {
        mst_cuda_go(b, cudaStreamWaitEvent(b->stream, b->planned, 0));
        b->planning = 0;
        b->pdl = 0;
    }
}


/* one copy brings all that this step reads */

static void
mst_cuda_stage(mst_backend_t *b)
{
    uint32_t           i, n;
    uint64_t           size;
    mst_k_step_t       s;
    mst_cuda_stage_t  *stage;

    stage = &b->stages[b->n_steps % MST_CUDA_STAGES];
    b->rc = cudaEventSynchronize(stage->copied);

    if (b->rc != cudaSuccess) {
        return;
    }

    size = mst_k_step_layout(&b->bucket, stage->host, &s);
    (void) mst_k_step_layout(&b->bucket, b->staged, &b->dev);

    s.counts[MST_K_ROWS] = (int32_t) b->step.n_rows;
    s.counts[MST_K_SEQS] = (int32_t) b->step.n_seqs;
    s.counts[MST_K_WANTED] = (int32_t) b->step.n_wanted;

    mst_cuda_fill_rows(b, &s);
    n = mst_cuda_fill_seqs(b, &s);
    n = mst_cuda_sample_stage(b, &s, n);

    for (i = 0; i < b->bucket.wanted; i++) {
        s.wanted[i] = i < b->step.n_wanted ? (int32_t) b->step.wanted[i] : 0;
    }

    b->rc = cudaMemcpyAsync(b->staged, stage->host,
                            size + n * sizeof(uint32_t),
                            cudaMemcpyHostToDevice, b->stream);

    if (b->rc == cudaSuccess) {
        b->rc = cudaEventRecord(stage->copied, b->stream);
    }
}


/* the operations and, where they fit into one piece, the logits and what is
   drawn from them */

static void
mst_cuda_put(mst_backend_t *b)
{
    mst_cuda_chain(b);

    if (b->bucket.wanted && b->step.n_wanted <= b->logits_rows) {
        mst_cuda_head(b, 0, mst_cuda_min(b->bucket.wanted, b->logits_rows));
        mst_cuda_sample_run(b);
    }
}


static cudaGraphExec_t
mst_cuda_record(mst_backend_t *b)
{
    int              rc;
    cudaGraph_t      graph;
    cudaGraphExec_t  exec;

    exec = NULL;
    graph = NULL;

    b->rc = cudaStreamBeginCapture(b->stream,
                                   cudaStreamCaptureModeThreadLocal);
    if (b->rc != cudaSuccess) {
        return NULL;
    }

    mst_cuda_put(b);

    rc = cudaStreamEndCapture(b->stream, &graph);
    b->rc = b->rc == cudaSuccess ? rc : b->rc;

    if (b->rc == cudaSuccess) {
        b->rc = cudaGraphInstantiate(&exec, graph, 0);
    }

    if (graph) {
        (void) cudaGraphDestroy(graph);
    }

    if (exec) {
        b->graphs[b->n_graphs].rows = b->bucket.rows;
        b->graphs[b->n_graphs++].exec = exec;
    }

    return exec;
}


static cudaGraphExec_t
mst_cuda_graph(mst_backend_t *b)
{
    uint32_t  i;

    if (!b->decode || b->bucket.rows > MST_CUDA_GRAPH_ROWS
        || b->bucket.wanted > b->logits_rows
        || (b->conf.n_experts && b->experts.stride != b->conf.n_used))
    {
        return NULL;
    }

    for (i = 0; i < b->n_graphs; i++) {
        if (b->graphs[i].rows == b->bucket.rows) {
            return b->graphs[i].exec;
        }
    }

    return b->n_graphs < MST_CUDA_GRAPHS ? mst_cuda_record(b) : NULL;
}


/* rows of logits that one piece holds, or all of them, piece by piece */

static int
mst_cuda_fetch(mst_backend_t *b, const float **logits, mst_err_t *err)
{
    uint32_t  at, n;
    uint64_t  vocab, want;

    vocab = b->conf.n_vocab;
    want = b->step.n_wanted * vocab;
    *logits = b->host_logits;

    if (b->step.n_wanted > b->logits_rows && b->more < want) {
        mst_free(b->more_logits);
        b->more_logits = mst_alloc((size_t) want * sizeof(float));
        b->more = b->more_logits ? want : 0;

        if (b->more == 0) {
            return mst_err_set(err, "out of memory for %u rows of logits",
                               b->step.n_wanted);
        }
    }

    for (at = 0; at < b->step.n_wanted; at += n) {
        n = mst_cuda_min(b->logits_rows, b->step.n_wanted - at);

        if (b->step.n_wanted > b->logits_rows) {
            mst_cuda_head(b, at, n);
        }

        mst_cuda_go(b, cudaMemcpyAsync(b->host_logits, b->logits,
                                       n * vocab * sizeof(float),
                                       cudaMemcpyDeviceToHost, b->stream));
        mst_cuda_go(b, cudaStreamSynchronize(b->stream));

        if (b->rc == cudaSuccess && b->step.n_wanted > b->logits_rows) {
            memcpy(b->more_logits + at * vocab, b->host_logits,
                   n * vocab * sizeof(float));
            *logits = b->more_logits;
        }
    }

    return MST_OK;
}


/* the step that was noted, with draws[n] in it, onto the stream */

static void
mst_cuda_run(mst_backend_t *b, const mst_backend_draw_t *draws, uint32_t n)
{
    cudaGraphExec_t  graph;

    b->sampler.draws = draws;
    b->sampler.n_draws = n;

    mst_cuda_stage(b);
    mst_cuda_expert_meet(b);

    graph = b->rc == cudaSuccess ? mst_cuda_graph(b) : NULL;

    if (b->rc == cudaSuccess) {
        if (graph) {
            b->rc = cudaGraphLaunch(graph, b->stream);

        } else {
            mst_cuda_put(b);
        }
    }
}


int
mst_cuda_launch(mst_backend_t *b, const mst_backend_draw_t *draws, uint32_t n,
    mst_err_t *err)
{
    int  fits;

    if (b->failed) {
        return mst_err_set(err, "cuda:%u failed before", b->conf.device);
    }

    mst_cuda_bucket(b);

    fits = mst_cuda_sample_fits(b, draws, n);
    mst_cuda_run(b, draws, fits ? n : 0);

    if (!fits) {
        mst_cuda_sample_rounds(b, draws, n);
    }

    mst_cuda_go(b, cudaEventRecord(
                       b->stages[b->n_steps % MST_CUDA_STAGES].done,
                       b->stream));
    b->n_steps++;

    return mst_cuda_check(b, b->rc, "a step", err);
}


int
mst_cuda_wait(mst_backend_t *b, mst_err_t *err)
{
    uint32_t  stage;

    stage = b->n_waited++ % MST_CUDA_STAGES;

    if (mst_cuda_check(b, cudaEventSynchronize(b->stages[stage].done),
                       "a step", err) != MST_OK)
    {
        return MST_ERROR;
    }

    mst_cuda_sample_take(b, stage);

    return MST_OK;
}


int
mst_cuda_sync(mst_backend_t *b, const float **logits, mst_err_t *err)
{
    if (b->failed) {
        return mst_err_set(err, "cuda:%u failed before", b->conf.device);
    }

    mst_cuda_bucket(b);
    mst_cuda_run(b, NULL, 0);

    b->n_steps++;
    b->n_waited++;

    if (mst_cuda_fetch(b, logits, err) != MST_OK) {
        return MST_ERROR;
    }

    if (b->rc == cudaSuccess) {
        b->rc = cudaStreamSynchronize(b->stream);
    }

    return mst_cuda_check(b, b->rc, "a step", err);
}


/* buckets of steps that decode, so that their graphs are there at once */

uint32_t
mst_cuda_warm(const mst_backend_t *b, uint32_t i)
{
    return mst_cuda_size_graph(&b->conf, i);
}


void
mst_cuda_step_free(mst_backend_t *b)
{
    uint32_t  i;

    for (i = 0; i < b->n_graphs; i++) {
        (void) cudaGraphExecDestroy(b->graphs[i].exec);
    }

    for (i = 0; i < MST_CUDA_STAGES; i++) {
        if (b->stages[i].copied) {
            (void) cudaEventDestroy(b->stages[i].copied);
        }

        if (b->stages[i].done) {
            (void) cudaEventDestroy(b->stages[i].done);
        }
    }

    mst_cuda_sample_free(b);
    mst_free(b->more_logits);
    mst_free(b->cmds);
    mst_free(b->window);
}
