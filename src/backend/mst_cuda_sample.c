
/*
 * Sampling on the device: a step's draws (mst_backend_draw_t) become orders
 * of kernels/mst_k_sample.h in the step's staged copy, their lists behind
 * its block tables, and one kernel at the step's end writes the results into
 * pinned memory and the ids where the next step finds them.
 *
 * Rows beyond the buffer of logits, and lists beyond the staged ones, go in
 * rounds behind the step, each with a copy of its own, and are waited for.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_cuda.h"

#define MST_CUDA_WORDS  (1u << 20)             /* of lists, at least */


/* room in the staged copy; before it is made */

void
mst_cuda_sample_plan(mst_backend_t *b)
{
    mst_cuda_sampler_t  *s;

    s = &b->sampler;
    s->n_words = mst_cuda_max(MST_CUDA_WORDS, b->conf.context
                                              + 2 * MST_MAX_BIAS + 4096);
    s->n_orders = b->logits_rows;
}


int
mst_cuda_sample_init(mst_backend_t *b, mst_err_t *err)
{
    uint32_t             i, n;
    uint64_t             size;
    mst_cuda_sampler_t  *s;

    s = &b->sampler;
    n = MST_CUDA_STAGES * s->n_orders;
    size = s->n_orders * sizeof(mst_k_sample_order_t) + s->n_words * 4ull;

    s->host = mst_cuda_pinned(b, size, err);
    s->results = mst_cuda_pinned(b, n * sizeof(mst_k_sampled_t), err);
    s->tops = mst_cuda_pinned(b, n * sizeof(mst_k_sample_top_t), err);
    s->dev = mst_cuda_take(b, size, "sampling", err);
    s->fed = mst_cuda_take(b, n * sizeof(uint32_t), "sampled ids", err);

    if (s->host == NULL || s->results == NULL || s->tops == NULL
        || s->dev == NULL || s->fed == NULL)
    {
        return MST_ERROR;
    }

    for (i = 0; i < MST_CUDA_STAGES; i++) {
        s->to[i] = mst_calloc(s->n_orders, sizeof(mst_sampled_t *));
        s->names[i] = mst_calloc(b->conf.max_seqs, sizeof(uint32_t));

        if (s->to[i] == NULL || s->names[i] == NULL) {
            return mst_err_set(err, "out of memory for the CUDA backend");
        }
    }

    return MST_OK;
}


void
mst_cuda_sample_free(mst_backend_t *b)
{
    uint32_t  i;

    for (i = 0; i < MST_CUDA_STAGES; i++) {
        mst_free(b->sampler.to[i]);
        mst_free(b->sampler.names[i]);
    }
}


int
mst_cuda_sample_fits(const mst_backend_t *b, const mst_backend_draw_t *draws,
    uint32_t n)
{
    uint32_t  i;
    uint64_t  words;

    words = 0;

    for (i = 0; i < n; i++) {
        words += draws[i].sample ? mst_k_sample_words(draws[i].sample) : 0;
    }

    return words <= b->sampler.n_words && b->step.n_wanted <= b->logits_rows;
}


/* a token of the step's sequences: where the device finds it if it is not
   known yet */

uint32_t
mst_cuda_fed(const mst_backend_t *b, uint32_t id)
{
    uint32_t  before;

    before = (b->n_steps + MST_CUDA_STAGES - 1) % MST_CUDA_STAGES;

    return id & MST_SAMPLE_FED ? b->sampler.names[before][id & ~MST_SAMPLE_FED]
                               : id;
}


/* the order of a draw; its lists go to words[at ..]; returns their end */

static uint32_t
mst_cuda_sample_order(const mst_backend_t *b, const mst_backend_draw_t *d,
    mst_k_sample_order_t *o, uint32_t *words, uint32_t at)
{
    uint32_t  last;

    if (d->sample == NULL) {
        mst_k_sample_score(o, d->row, d->id, d->n_top);
        return at;
    }

    at = mst_k_sample_draw(o, d->sample, d->row, words, at);

    if (o->n_history) {
        last = o->words + o->n_history - 1;
        words[last] = mst_cuda_fed(b, words[last]);
    }

    return at;
}


/* the step's orders; lists go behind "at" entries of its block tables;
   returns their end */

uint32_t
mst_cuda_sample_stage(mst_backend_t *b, const mst_k_step_t *step, uint32_t at)
{
    uint32_t               i, n, now;
    mst_cuda_sampler_t    *s;
    mst_k_sample_order_t  *orders;

    s = &b->sampler;
    now = b->n_steps % MST_CUDA_STAGES;
    orders = step->sample;
    n = b->bucket.sample / sizeof(mst_k_sample_order_t);

    for (i = 0; i < s->n_draws; i++) {
        at = mst_cuda_sample_order(b, &s->draws[i], &orders[i],
                                   (uint32_t *) step->blocks, at);

        orders[i].result = now * s->n_orders + i;
        s->to[now][i] = s->draws[i].sampled;

        if (s->draws[i].sample) {
            s->names[now][s->draws[i].name] = MST_SAMPLE_FED
                                              | orders[i].result;
        }
    }

    s->n_to[now] = i;

    for ( /* void */ ; i < n; i++) {
        memset(&orders[i], 0, sizeof(mst_k_sample_order_t));
        orders[i].flags = MST_K_SAMPLE_NONE;
    }

    return at;
}


/* behind the rows of logits, in the step's graph too */

void
mst_cuda_sample_run(mst_backend_t *b)
{
    mst_k_sample_t  a = { 0 };

    a.logits = b->logits;
    a.orders = b->dev.sample;
    a.words = (const uint32_t *) b->dev.blocks;
    a.results = b->sampler.results;
    a.tops = b->sampler.tops;
    a.fed = b->sampler.fed;
    a.n_vocab = b->conf.n_vocab;
    a.stride = b->conf.n_vocab;
    a.n = b->bucket.sample / sizeof(mst_k_sample_order_t);
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_sample(&a, b->stream));
}


/* the results of a step that is over */

void
mst_cuda_sample_take(mst_backend_t *b, uint32_t stage)
{
    uint32_t             at, i;
    mst_cuda_sampler_t  *s;

    s = &b->sampler;

    for (i = 0; i < s->n_to[stage]; i++) {
        at = stage * s->n_orders + i;
        mst_k_sample_result(&s->results[at], &s->tops[at], s->to[stage][i]);
    }

    s->n_to[stage] = 0;
}


/* orders of up to n draws, as far as there is room; returns how many */

static uint32_t
mst_cuda_sample_pack(mst_backend_t *b, const mst_backend_draw_t *draws,
    uint32_t n, uint32_t first, uint32_t *n_words)
{
    uint32_t               i;
    mst_cuda_sampler_t    *s;
    mst_k_sample_order_t  *orders;

    s = &b->sampler;
    orders = s->host;
    *n_words = 0;

    for (i = 0; i < n; i++) {
        if (draws[i].sample && mst_k_sample_words(draws[i].sample)
                               > s->n_words - *n_words)
        {
            break;
        }

        *n_words = mst_cuda_sample_order(b, &draws[i], &orders[i],
                                         (uint32_t *) (orders + n), *n_words);
        orders[i].row -= first;
        orders[i].result = b->n_steps % MST_CUDA_STAGES * s->n_orders + i;
    }

    return i;
}


/* draws[0 .. n) of the rows of logits from "first" on that are there */

static void
mst_cuda_sample_rows(mst_backend_t *b, const mst_backend_draw_t *draws,
    uint32_t n, uint32_t first)
{
    uint32_t             at, done, i, now, room, words;
    mst_k_sample_t       a = { 0 };
    mst_cuda_sampler_t  *s;

    s = &b->sampler;
    now = b->n_steps % MST_CUDA_STAGES;
    at = now * s->n_orders;

    for (done = 0; done < n && b->rc == cudaSuccess; done += a.n) {
        room = mst_cuda_min(n - done, s->n_orders);

        a.n = mst_cuda_sample_pack(b, draws + done, room, first, &words);

        a.logits = b->logits;
        a.orders = s->dev;
        a.words = (const uint32_t *) (a.orders + room);
        a.results = s->results;
        a.tops = s->tops;
        a.fed = s->fed;
        a.n_vocab = b->conf.n_vocab;
        a.stride = b->conf.n_vocab;
        b->pdl = 0;

        mst_cuda_go(b, cudaMemcpyAsync(s->dev, s->host,
                                       room * sizeof(mst_k_sample_order_t)
                                       + words * 4ull,
                                       cudaMemcpyHostToDevice, b->stream));
        mst_cuda_go(b, mst_k_sample(&a, b->stream));
        mst_cuda_go(b, cudaStreamSynchronize(b->stream));

        for (i = 0; i < a.n && b->rc == cudaSuccess; i++) {
            mst_k_sample_result(&s->results[at + i], &s->tops[at + i],
                                draws[done + i].sampled);

            if (draws[done + i].sample) {
                s->names[now][draws[done + i].name] = s->results[at + i].id;
            }
        }
    }
}


/* all draws of the step in rounds */

void
mst_cuda_sample_rounds(mst_backend_t *b, const mst_backend_draw_t *draws,
    uint32_t n_draws)
{
    uint32_t  at, i, n, rows;

    i = 0;

    for (at = 0; at < b->step.n_wanted; at += rows) {
        rows = mst_cuda_min(b->logits_rows, b->step.n_wanted - at);

        if (b->step.n_wanted > b->logits_rows) {
            mst_cuda_head(b, at, rows);
        }

        for (n = 0; i + n < n_draws && draws[i + n].row < at + rows; n++) {
            /* void */
        }

        mst_cuda_sample_rows(b, draws + i, n, at);
        i += n;
    }
}
