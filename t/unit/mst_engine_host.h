
/*
 * A host for tests of the engine: keeps what it tells, by tag, and checks
 * what holds for any request: ADMIT or REFUSE once, tokens in between, DONE
 * with the exact count, nothing after the end.
 */

#ifndef MST_ENGINE_HOST_H
#define MST_ENGINE_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "engine/mst_engine.h"


#define HOST_IDS  256


typedef struct {
    int           admits;
    int           refuses;
    int           dones;
    mst_refuse_t  refuse;
    mst_finish_t  finish;
    mst_usage_t   usage;
    uint32_t      cached;
    uint32_t      n;                   /* tokens */
    uint32_t      ids[HOST_IDS];       /* the first of them */
    float         logprobs[HOST_IDS];
    uint64_t      times[HOST_IDS];     /* host.now of each */
    uint32_t      n_echo;              /* of the prompt, where it asked */
    uint32_t      echo_ids[HOST_IDS];
    float         echo_logprobs[HOST_IDS];
    uint32_t      echo_n_top;          /* of the last */
    char          text[256];
} answer_t;


typedef struct {
    mst_engine_t  *e;
    answer_t      *answers;            /* [n] */
    uint32_t       n;
    uint64_t       now;
    uint64_t       wake;
    uint64_t       events;
    uint64_t       order[64];          /* tags as they were admitted */
    uint32_t       n_order;
    mst_err_t      err;
} host_t;


static void
host_event(void *data, const mst_event_t *ev)
{
    host_t    *h;
    answer_t  *a;

    h = data;

    assert_true(ev->tag < h->n);

    a = &h->answers[ev->tag];
    h->events++;

    assert_int_equal(a->dones + a->refuses, 0);

    switch (ev->type) {

    case MST_EVENT_ADMIT:
        assert_int_equal(a->admits++, 0);
        a->cached = ev->cached;

        if (h->n_order < 64) {
            h->order[h->n_order++] = ev->tag;
        }

        break;

    case MST_EVENT_REFUSE:
        assert_int_equal(a->admits, 0);
        a->refuses++;
        a->refuse = ev->refuse;
        snprintf(a->text, sizeof(a->text), "%s", ev->text ? ev->text : "");
        break;

    case MST_EVENT_PROMPT:
        assert_int_equal(a->admits, 1);
        assert_int_equal(a->n, 0);

        if (a->n_echo < HOST_IDS) {
            a->echo_ids[a->n_echo] = ev->sampled->id;
            a->echo_logprobs[a->n_echo] = ev->sampled->logprob;
        }

        a->echo_n_top = ev->sampled->n_top;
        a->n_echo++;
        break;

    case MST_EVENT_TOKEN:
        assert_int_equal(a->admits, 1);

        if (a->n < HOST_IDS) {
            a->ids[a->n] = ev->sampled->id;
            a->logprobs[a->n] = ev->sampled->logprob;
            a->times[a->n] = h->now;
        }

        a->n++;
        break;

    case MST_EVENT_DONE:
        a->dones++;
        a->finish = ev->finish;
        a->usage = *ev->usage;
        assert_int_equal(a->usage.completion, a->n);
        assert_int_equal(a->usage.cached, a->cached);
        break;
    }
}


static uint64_t
host_clock(void)
{
    return 0;
}


static inline void
host_conf(host_t *h, mst_engine_conf_t *conf, uint32_t max_batch,
    uint32_t chunk)
{
    memset(conf, 0, sizeof(mst_engine_conf_t));

    conf->max_batch = max_batch;
    conf->prefill_chunk = chunk;
    conf->clock = host_clock;
    conf->handler = host_event;
    conf->data = h;
}


static inline void
host_open_conf(host_t *h, mst_runner_t *r, const mst_engine_conf_t *conf,
    uint32_t n)
{
    memset(h, 0, sizeof(host_t));

    h->answers = calloc(n, sizeof(answer_t));
    h->n = n;
    h->now = 1000;

    h->e = mst_engine_create(conf, r, &h->err);
    assert_string_equal(h->err.text, "");
    assert_non_null(h->e);
}


static inline void
host_open(host_t *h, mst_runner_t *r, uint32_t max_batch, uint32_t chunk,
    uint32_t n)
{
    mst_engine_conf_t  conf;

    host_conf(h, &conf, max_batch, chunk);
    host_open_conf(h, r, &conf, n);
}


static inline void
host_close(host_t *h)
{
    mst_engine_destroy(h->e);
    free(h->answers);
}


static inline int
host_step(host_t *h)
{
    h->err.text[0] = '\0';

    return mst_engine_step(h->e, h->now, &h->wake, &h->err);
}


/* steps until there is nothing to do, without or with sleeping; the number
   of steps that computed something */

static inline uint32_t
host_run(host_t *h, int sleep)
{
    int                 rc;
    uint64_t            before;
    uint32_t            n;
    mst_engine_stats_t  s;

    mst_engine_stats(h->e, &s);
    before = s.steps;

    for (n = 0; n < 1000000; n++) {
        rc = host_step(h);

        if (rc == MST_AGAIN) {
            if (!sleep || h->wake == 0) {
                break;
            }

            assert_true(h->wake > h->now);
            h->now = h->wake;
            continue;
        }

        if (rc != MST_OK) {
            fail_msg("a step: %s", h->err.text);
        }
    }

    assert_true(n < 1000000);
    mst_engine_stats(h->e, &s);

    return (uint32_t) (s.steps - before);
}


/* a submit of text for the null model, or of the ids i * step */

static inline void
host_submit_init(mst_submit_t *s, uint64_t tag, const uint32_t *ids,
    uint32_t n, uint32_t max_tokens)
{
    memset(s, 0, sizeof(mst_submit_t));
    mst_params_default(&s->params);

    s->tag = tag;
    s->prompt = ids;
    s->n_prompt = n;
    s->params.max_tokens = max_tokens;
}


static inline void
host_submit(host_t *h, uint64_t tag, uint32_t n, uint32_t max_tokens)
{
    uint32_t      i, ids[4096];
    mst_submit_t  s;

    for (i = 0; i < n; i++) {
        ids[i] = i * 7 % 251;
    }

    host_submit_init(&s, tag, ids, n, max_tokens);
    mst_engine_submit(h->e, &s, h->now);
}


static inline void
host_check_counts(host_t *h)
{
    mst_engine_stats_t  s;

    mst_engine_stats(h->e, &s);
    assert_true(s.blocks_used + s.blocks_cached <= s.blocks_total);

    if (s.running == 0) {
        assert_int_equal(s.blocks_used, 0);
    }
}


static inline void
host_null(mst_runner_t *r, double rate, uint64_t delay_ns, uint32_t len,
    uint32_t n_blocks)
{
    mst_err_t        err;
    mst_null_conf_t  conf;

    memset(&conf, 0, sizeof(conf));
    err.text[0] = '\0';

    conf.rate = rate;
    conf.delay_ns = delay_ns;
    conf.len = len;
    conf.context = 4096;
    conf.n_blocks = n_blocks;

    assert_int_equal(mst_runner_null(r, &conf, &err), MST_OK);
}


static inline void
host_check_fox(const answer_t *a, uint32_t n)
{
    uint32_t  i;

    assert_int_equal(a->n, n);

    for (i = 0; i < n && i < HOST_IDS; i++) {
        assert_int_equal(a->ids[i],
            "The quick brown fox jumps over the lazy dog. "[i % 45]);
    }
}


/* 16 tokens a block, as in the null model; a fault on demand */

typedef struct {
    uint32_t  nan_id;              /* a prompt with it breaks at once; 0: off */
    int       fail;                /* the step fails */
    uint32_t  sleep_n;             /* who has seed 7 sleeps after so many */
    uint64_t  sleep_ns;            /* until then */
    uint32_t  rows;                /* of the last step */
} fault_t;


static int
fault_step(void *data, mst_step_t *step, mst_err_t *err)
{
    fault_t        *f;
    uint32_t        i, k;
    mst_sample_t   *s;
    mst_sampled_t  *out;

    f = data;
    f->rows = step->batch.n_tokens;

    if (f->fail) {
        return mst_err_set(err, "the device is gone");
    }

    for (i = 0; i < step->batch.n_seqs; i++) {
        if (step->batch.seqs[i].logits != MST_LOGITS_LAST) {
            continue;
        }

        s = &step->samples[i];
        out = &step->sampled[i];

        memset(out, 0, sizeof(mst_sampled_t));
        out->status = MST_OK;
        out->id = 100 + s->n_tokens - s->n_prompt;

        if (s->greedy) {
            out->id = 99;
        }

        if (s->params->seed == 7 && out->id + 1 == 100 + f->sleep_n) {
            out->ready_ns = f->sleep_ns;
        }

        for (k = 0; k < s->n_tokens && f->nan_id; k++) {
            if (s->tokens[k] == f->nan_id) {
                out->status = MST_ERROR;
            }
        }
    }

    return MST_OK;
}


static void
fault_destroy(void *data)
{
    (void) data;
}


static inline void
fault_runner(mst_runner_t *r, fault_t *f, uint32_t context, uint32_t n_blocks)
{
    memset(r, 0, sizeof(mst_runner_t));
    memset(f, 0, sizeof(fault_t));

    r->info.n_vocab = 1000;
    r->info.context = context;
    r->info.block_tokens = 16;
    r->info.n_blocks = n_blocks;
    r->data = f;
    r->step = fault_step;
    r->destroy = fault_destroy;
}


#endif /* MST_ENGINE_HOST_H */
