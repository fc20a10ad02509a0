
/*
 * A request's life: see mst_seq.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "engine/mst_seq.h"


static int mst_seq_grow(uint32_t **array, uint32_t *size, uint32_t n);
static int mst_seq_stops(const mst_seq_t *q, uint32_t id);


mst_seq_t *
mst_seq_create(const mst_submit_t *s, uint64_t now_ns)
{
    mst_seq_t  *q;

    q = mst_calloc(1, sizeof(mst_seq_t) + s->n_bias * sizeof(mst_bias_t)
                      + s->n_stop * sizeof(uint32_t));
    if (q == NULL) {
        return NULL;
    }

    mst_list_init(&q->all);
    mst_list_init(&q->queue);
    mst_list_init(&q->unstarted);
    mst_list_init(&q->stalled);

    if (mst_seq_reserve_tokens(q, s->n_prompt + 1) != MST_OK) {
        mst_free(q);
        return NULL;
    }

    q->bias = (mst_bias_t *) (q + 1);
    q->stop_ids = (uint32_t *) (q->bias + s->n_bias);
    q->n_bias = s->n_bias;
    q->n_stop = s->n_stop;

    if (s->n_bias) {
        memcpy(q->bias, s->bias, s->n_bias * sizeof(mst_bias_t));
    }

    if (s->n_stop) {
        memcpy(q->stop_ids, s->stop_ids, s->n_stop * sizeof(uint32_t));
    }

    memcpy(q->tokens, s->prompt, s->n_prompt * sizeof(uint32_t));
    memcpy(q->salt, s->salt, MST_SALT_SIZE);

    q->tag = s->tag;
    q->params = s->params;
    q->claim = s->claim;
    q->submit_ns = now_ns;
    q->deadline_ns = s->deadline_ns;
    q->no_wait = s->no_wait;
    q->n_prompt = s->n_prompt;
    q->n_tokens = s->n_prompt;
    q->usage.prompt = s->n_prompt;
    q->state = MST_SEQ_WAITING;
    q->item = MST_SEQ_NO_ITEM;
    q->ahead[0] = q->ahead[1] = MST_SEQ_NO_ITEM;

    return q;
}


void
mst_seq_destroy(mst_seq_t *q)
{
    if (q == NULL) {
        return;
    }

    mst_free(q->tokens);
    mst_free(q->blocks);
    mst_free(q);
}


int
mst_seq_reserve_tokens(mst_seq_t *q, uint32_t n)
{
    return mst_seq_grow(&q->tokens, &q->size_tokens, n);
}


int
mst_seq_reserve_blocks(mst_seq_t *q, uint32_t n)
{
    return mst_seq_grow(&q->blocks, &q->size_blocks, n);
}


static int
mst_seq_grow(uint32_t **array, uint32_t *size, uint32_t n)
{
    uint32_t  *p, want;

    if (n <= *size) {
        return MST_OK;
    }

    /* half as much again: most answers are much shorter than the context */

    want = *size + *size / 2;

    if (want < n) {
        want = n;
    }

    p = mst_realloc(*array, want, sizeof(uint32_t));
    if (p == NULL) {
        return MST_ERROR;
    }

    *array = p;
    *size = want;

    return MST_OK;
}


void
mst_seq_ready(mst_seq_t *q, uint64_t sampled_ns)
{
    q->sampled_ns = sampled_ns;
    q->ready_ns = sampled_ns > q->paced_ns ? sampled_ns : q->paced_ns;
}


static void
mst_seq_pace(mst_seq_t *q)
{
    q->paced_ns = 0;

    if (q->claim.pace != 0 && q->turn_ns != 0) {
        q->paced_ns = q->turn_ns + 1000 * MST_S / q->claim.pace;
    }
}


/*
 * A token went out at "now".  One that came late, since steps are no clock,
 * is made up for by the next, and by no more than that: the mean is the
 * pace, and no wait saves up a burst.
 */

void
mst_seq_take_turn(mst_seq_t *q, uint64_t now_ns)
{
    uint64_t  each, due;

    due = now_ns;

    if (q->claim.pace != 0 && q->turn_ns != 0) {
        each = 1000 * MST_S / q->claim.pace;
        due = q->turn_ns + each;

        if (due + each < now_ns) {
            due = now_ns - each;

        } else if (due > now_ns) {
            due = now_ns;
        }
    }

    q->turn_ns = due;

    mst_seq_pace(q);
}


void
mst_seq_set_pace(mst_seq_t *q, uint32_t pace)
{
    q->claim.pace = pace;

    mst_seq_pace(q);
    mst_seq_ready(q, q->sampled_ns);
}


void
mst_seq_sample(const mst_seq_t *q, mst_sample_t *sample)
{
    sample->params = &q->params;
    sample->bias = q->bias;
    sample->n_bias = q->n_bias;
    sample->tokens = q->tokens;
    sample->n_tokens = q->n_tokens;
    sample->n_prompt = q->n_prompt;
    sample->start_ns = q->submit_ns;
    sample->first_ns = q->first_ns;
    sample->stop_ids = q->stop_ids;
    sample->n_stop = q->n_stop;
    sample->greedy = q->params.soft_tokens != 0
                     && mst_seq_completion(q) >= q->params.soft_tokens;
    sample->silent = q->n_computed + q->n_step < q->n_tokens;
}


mst_finish_t
mst_seq_append(mst_seq_t *q, const mst_sampled_t *sampled, uint32_t context)
{
    q->n_tokens++;

    return mst_seq_take(q, q->n_tokens - 1, sampled, context);
}


int
mst_seq_expect(mst_seq_t *q, uint32_t index, uint32_t context)
{
    q->tokens[q->n_tokens++] = MST_SAMPLE_FED | index;

    return mst_seq_completion(q) >= q->params.max_tokens
           || q->n_tokens >= context;
}


mst_finish_t
mst_seq_take(mst_seq_t *q, uint32_t at, const mst_sampled_t *sampled,
    uint32_t context)
{
    uint32_t  n;

    n = at - q->n_prompt;

    q->tokens[at] = sampled->id;
    q->usage.completion++;

    if (sampled->end
        || (n >= q->params.min_tokens && mst_seq_stops(q, sampled->id)))
    {
        return MST_FINISH_STOP;
    }

    if (n + 1 >= q->params.max_tokens || at + 1 >= context) {
        return MST_FINISH_LENGTH;
    }

    return 0;
}


static int
mst_seq_stops(const mst_seq_t *q, uint32_t id)
{
    uint32_t  i;

    for (i = 0; i < q->n_stop; i++) {
        if (q->stop_ids[i] == id) {
            return 1;
        }
    }

    return 0;
}


/* a host whose times step back must not make durations of centuries */

static uint64_t
mst_seq_since(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}


const mst_usage_t *
mst_seq_close(mst_seq_t *q, uint64_t now_ns)
{
    uint64_t  start, token;

    start = q->started ? q->started_ns : now_ns;
    token = q->usage.completion ? q->token_ns : now_ns;

    q->usage.queue_ns = mst_seq_since(q->submit_ns, start);
    q->usage.prefill_ns = mst_seq_since(start, token);
    q->usage.decode_ns = mst_seq_since(token, now_ns);

    return &q->usage;
}
