
/*
 * A step of the engine between its plan and its tokens: see
 * mst_engine_local.h.
 *
 * Where the runner takes a step in two halves, the engine goes ahead of it:
 * while one runs, its sequences are planned, staged and launched again, each
 * with a token that is expected (MST_SAMPLE_FED | its place in that step),
 * so that the device never waits for the host.  What only the token itself
 * can say is then seen one step late: of a sequence that has ended with it
 * the next step computes a token for nobody.  The device runs steps in
 * order, so that blocks let go meanwhile are free for the step after.  A
 * sequence whose next token is its last in any case is in no further step.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "engine/mst_engine_local.h"


static int
mst_run_alloc(const mst_engine_t *e, mst_run_t *r)
{
    uint32_t  n, most;

    n = e->conf.max_batch;
    most = e->conf.prefill_most > e->conf.prefill_chunk
           ? e->conf.prefill_most : e->conf.prefill_chunk;

    r->step.batch.seqs = mst_calloc(n, sizeof(mst_batch_seq_t));
    r->step.samples = mst_calloc(n, sizeof(mst_sample_t));
    r->step.sampled = mst_calloc(n, sizeof(mst_sampled_t));
    r->step.scored = mst_calloc(most, sizeof(mst_sampled_t));
    r->seqs = mst_calloc(n, sizeof(mst_seq_t *));

    return r->step.batch.seqs && r->step.samples && r->step.sampled
           && r->step.scored && r->seqs ? MST_OK : MST_ERROR;
}


int
mst_run_init(mst_engine_t *e)
{
    uint32_t  i;

    for (i = 0; i < (e->ahead ? MST_ENGINE_RUNS : 1); i++) {
        if (mst_run_alloc(e, &e->runs[i]) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


void
mst_run_fini(mst_engine_t *e)
{
    uint32_t  i;

    for (i = 0; i < MST_ENGINE_RUNS; i++) {
        mst_free(e->runs[i].step.batch.seqs);
        mst_free(e->runs[i].step.samples);
        mst_free(e->runs[i].step.sampled);
        mst_free(e->runs[i].step.scored);
        mst_free(e->runs[i].seqs);
    }
}


void
mst_run_forget(mst_engine_t *e, mst_seq_t *q)
{
    uint32_t  i;

    for (i = 0; i < MST_ENGINE_RUNS; i++) {
        if (q->ahead[i] != MST_SEQ_NO_ITEM) {
            e->runs[i].seqs[q->ahead[i]] = NULL;
        }
    }
}


static void
mst_run_batch(mst_engine_t *e, mst_run_t *r, uint64_t now_ns)
{
    uint32_t          i;
    mst_seq_t        *q;
    mst_sched_t      *s;
    mst_batch_seq_t  *b;

    s = &e->sched;
    r->n_prompt = 0;

    for (i = 0; i < s->n_items; i++) {
        q = s->items[i];
        b = &r->step.batch.seqs[i];

        r->seqs[i] = q;
        r->n_prompt += q->n_tokens - q->n_computed > 1 ? q->n_step : 0;

        b->ids = q->tokens + q->n_computed;
        b->n = q->n_step;
        b->position = q->n_computed;
        b->blocks = q->blocks;
        b->length = q->n_prompt;
        b->experts = q->params.experts;

        mst_seq_sample(q, &r->step.samples[i]);

        b->logits = mst_seq_echoes(q) ? MST_LOGITS_ALL
                    : r->step.samples[i].silent ? MST_LOGITS_NONE
                                                : MST_LOGITS_LAST;
    }

    r->step.batch.n_seqs = s->n_items;
    r->step.batch.n_tokens = s->n_tokens;
    r->step.now_ns = now_ns;
    r->step.logits = NULL;
    r->step.keep_logits = e->conf.keep_logits;
}


/* the i-th sequence of a step that was launched goes on behind it */

static void
mst_run_ahead(mst_engine_t *e, mst_run_t *r, uint32_t i)
{
    int         last;
    mst_seq_t  *q;

    q = r->seqs[i];
    q->ahead[r - e->runs] = i;
    last = 0;

    mst_sched_ahead(&e->sched, q);

    if (!r->step.samples[i].silent) {
        last = 1;

        if (q->params.max_tokens) {
            mst_seq_take_turn(q, r->step.now_ns);
            mst_seq_ready(q, 0);
            last = mst_seq_expect(q, i, e->runner.info.context);
        }
    }

    if (last) {
        mst_sched_park(&e->sched, q);

    } else {
        mst_sched_requeue(&e->sched, q, r->step.now_ns);
    }
}


int
mst_run_begin(mst_engine_t *e, uint64_t now_ns, uint64_t *from)
{
    int         rc;
    uint32_t    i;
    mst_run_t  *r;

    r = &e->runs[e->ahead ? e->n_begun % MST_ENGINE_RUNS : 0];

    mst_run_batch(e, r, now_ns);

    r->start_ns = e->conf.clock();
    *from = r->start_ns;
    e->err.text[0] = '\0';

    if (!e->ahead) {
        rc = e->runner.step(e->runner.data, &r->step, &e->err);

    } else {
        rc = e->runner.launch(e->runner.data, &r->step, &e->err);

        for (i = 0; rc == MST_OK && i < r->step.batch.n_seqs; i++) {
            mst_run_ahead(e, r, i);
        }
    }

    e->n_begun++;

    return rc;
}


/* one token of q is there; returns why the answer ends with it, or 0 */

static mst_finish_t
mst_run_token(mst_engine_t *e, const mst_run_t *r, uint32_t i,
    uint64_t end_ns)
{
    uint32_t                at;
    mst_seq_t              *q;
    mst_event_t             ev;
    mst_finish_t            finish;
    const mst_sampled_t    *sampled;
    const mst_batch_seq_t  *b;

    q = r->seqs[i];
    b = &r->step.batch.seqs[i];
    at = b->position + b->n;
    sampled = &r->step.sampled[i];

    if (q->usage.completion == 0) {
        q->first_ns = r->step.now_ns;
        q->token_ns = end_ns;
    }

    finish = e->ahead
             ? mst_seq_take(q, at, sampled, e->runner.info.context)
             : mst_seq_append(q, sampled, e->runner.info.context);

    e->stats.completion_tokens++;

    memset(&ev, 0, sizeof(mst_event_t));

    ev.type = MST_EVENT_TOKEN;
    ev.tag = q->tag;
    ev.sampled = sampled;

    mst_engine_event(e, &ev);

    return finish;
}


/* the tokens of an echoed prompt that the step computed; MST_ERROR: NaN */

static int
mst_run_echo(mst_engine_t *e, mst_seq_t *q, const mst_batch_seq_t *b,
    const mst_sampled_t *scored)
{
    uint32_t       k;
    mst_event_t    ev;
    mst_sampled_t  first;

    memset(&ev, 0, sizeof(mst_event_t));

    ev.type = MST_EVENT_PROMPT;
    ev.tag = q->tag;

    if (q->n_scored == 0) {
        memset(&first, 0, sizeof(mst_sampled_t));

        first.id = q->tokens[0];
        ev.sampled = &first;
        q->n_scored = 1;

        mst_engine_event(e, &ev);
    }

    for (k = q->n_scored - 1 - b->position;
         k < b->n && q->n_scored < q->n_prompt; k++)
    {
        if (scored[k].status != MST_OK) {
            return MST_ERROR;
        }

        ev.sampled = &scored[k];
        q->n_scored++;

        mst_engine_event(e, &ev);
    }

    return MST_OK;
}


/* one that has gone on ahead: all that is left is its token */

static mst_finish_t
mst_run_take_ahead(mst_engine_t *e, const mst_run_t *r, uint32_t i,
    uint64_t end_ns)
{
    mst_seq_t              *q;
    const mst_batch_seq_t  *b;

    q = r->seqs[i];
    b = &r->step.batch.seqs[i];

    mst_sched_known(&e->sched, q, b->position + b->n);

    return r->step.samples[i].silent ? 0
           : q->params.max_tokens == 0 ? MST_FINISH_LENGTH
           : mst_run_token(e, r, i, end_ns);
}


static mst_finish_t
mst_run_take_now(mst_engine_t *e, const mst_run_t *r, uint32_t i,
    uint64_t end_ns)
{
    mst_seq_t            *q;
    mst_sched_t          *s;
    const mst_sampled_t  *sampled;

    s = &e->sched;
    q = r->seqs[i];
    sampled = &r->step.sampled[i];

    if (r->step.samples[i].silent) {
        mst_sched_computed(s, q);
        return 0;
    }

    if (q->params.max_tokens == 0) {
        mst_sched_computed(s, q);
        return MST_FINISH_LENGTH;
    }

    if (sampled->status == MST_AGAIN) {

        /* its last token is computed again when there is something to
           sample, as each step computes at least one */

        q->n_step--;
        mst_seq_ready(q, sampled->ready_ns);
        mst_sched_computed(s, q);
        return 0;
    }

    mst_seq_take_turn(q, r->step.now_ns);
    mst_seq_ready(q, sampled->ready_ns);
    mst_sched_computed(s, q);

    return mst_run_token(e, r, i, end_ns);
}


/* what the step brought for the i-th sequence of it */

static void
mst_run_take(mst_engine_t *e, const mst_run_t *r, uint32_t i,
    const mst_sampled_t *scored, uint64_t end_ns)
{
    mst_seq_t              *q;
    mst_finish_t            finish;
    const mst_batch_seq_t  *b;

    q = r->seqs[i];
    b = &r->step.batch.seqs[i];

    if ((b->logits == MST_LOGITS_ALL
         && mst_run_echo(e, q, b, scored) != MST_OK)
        || (!r->step.samples[i].silent
            && r->step.sampled[i].status == MST_ERROR))
    {
        mst_log(e->conf.log, MST_LOG_ERR, "engine: the numbers of request "
                "%llu are not finite after %u tokens",
                (unsigned long long) q->tag, b->position + b->n);

        mst_sched_poison(&e->sched, q);
        mst_engine_done(e, q, MST_FINISH_NUMERIC, end_ns);
        return;
    }

    finish = e->ahead ? mst_run_take_ahead(e, r, i, end_ns)
                      : mst_run_take_now(e, r, i, end_ns);

    if (finish) {
        mst_sched_remove(&e->sched, q);
        mst_engine_done(e, q, finish, end_ns);

    } else if (!e->ahead) {
        mst_sched_requeue(&e->sched, q, r->step.now_ns);

    } else if (q->ahead[0] == q->ahead[1]) {

        /* in none that is under way any more */

        mst_sched_unpark(&e->sched, q, r->step.now_ns);
    }
}


int
mst_run_end(mst_engine_t *e, uint64_t now_ns, uint64_t from)
{
    int         rc;
    uint32_t    i, row;
    uint64_t    start, waits;
    mst_run_t  *r;

    r = &e->runs[e->ahead ? e->n_taken % MST_ENGINE_RUNS : 0];
    e->n_taken++;
    rc = MST_OK;
    start = waits = r->start_ns;

    if (e->ahead) {
        start = start > e->end_ns ? start : e->end_ns;
        waits = e->conf.clock();
        rc = e->runner.wait(e->runner.data, &e->err);
    }

    e->end_ns = e->conf.clock();
    e->stats.steps++;
    e->stats.last_step_ns = e->end_ns - start;
    e->stats.waited_ns += e->end_ns - waits;

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    if (r->n_prompt == 0) {
        e->decode_ns = e->stats.last_step_ns;
    }

    mst_reckon_add(&e->sched.reckon, r->step.batch.n_tokens, r->n_prompt,
                   e->stats.last_step_ns, now_ns + e->end_ns - from);

    row = 0;

    for (i = 0; i < r->step.batch.n_seqs; i++) {

        if (r->seqs[i]) {
            r->seqs[i]->ahead[r - e->runs] = MST_SEQ_NO_ITEM;
            mst_run_take(e, r, i, r->step.scored + row,
                         now_ns + e->end_ns - from);
        }

        row += r->step.batch.seqs[i].n;
    }

    return MST_OK;
}


void
mst_run_busy(mst_engine_t *e, uint64_t now_ns)
{
    mst_run_t  *r;

    e->sched.busy_ns = 0;

    if (e->n_begun != e->n_taken) {
        r = &e->runs[e->n_taken % MST_ENGINE_RUNS];

        e->sched.busy_ns = now_ns
                           + (r->n_prompt == 0 ? e->decode_ns
                              : mst_reckon_ns(&e->sched.reckon,
                                              r->step.batch.n_tokens,
                                              now_ns));
    }
}
