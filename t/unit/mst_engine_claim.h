
/*
 * The whole engine with the null model and a clock of its own, for tests of
 * what a claim gives to a request: who got what, by tag, and in which step.
 */

#ifndef MST_ENGINE_CLAIM_H
#define MST_ENGINE_CLAIM_H

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
#include "engine/mst_order.h"


#define TAGS  40000


typedef struct {
    uint32_t      key;
    uint32_t      n_prompt;
    uint32_t      n;                   /* tokens */
    uint64_t      admitted;            /* step, 0 = not */
    uint64_t      first;               /* step of its first token */
    uint64_t      token_ns;            /* of its last */
    int           refused;             /* mst_refuse_t */
    int           done;                /* mst_finish_t */
    uint32_t      preemptions;
} tag_t;


static mst_engine_t  *engine;
static tag_t          tags[TAGS];
static uint32_t       n_tags;
static uint64_t       step, now;
static uint64_t       step_ns;         /* what a step takes */
static uint64_t       events;          /* hash of all */


static inline void
event(void *data, const mst_event_t *ev)
{
    tag_t  *t;

    (void) data;

    t = &tags[ev->tag];
    events = mst_hash_mix(events + ev->tag * 8 + ev->type);

    switch (ev->type) {

    case MST_EVENT_PROMPT:
        break;

    case MST_EVENT_ADMIT:
        t->admitted = step;
        break;

    case MST_EVENT_REFUSE:
        t->refused = ev->refuse;
        break;

    case MST_EVENT_TOKEN:
        t->first = t->first ? t->first : step;
        t->token_ns = now;
        t->n++;
        break;

    case MST_EVENT_DONE:
        t->done = ev->finish;
        t->preemptions = ev->usage->preemptions;
        break;
    }
}


/* half of it passes in the step, for the engine to see */

static inline uint64_t
fake_clock(void)
{
    static uint64_t  calls;

    return (calls++ & 1) * step_ns;
}


static inline void
begin(uint32_t max_batch, uint32_t chunk, uint32_t n_blocks, int cache)
{
    mst_err_t          err = { "" };
    mst_runner_t       runner;
    mst_null_conf_t    null;
    mst_engine_conf_t  conf;

    memset(&null, 0, sizeof(null));
    null.context = 8192;
    null.n_blocks = n_blocks;
    assert_int_equal(mst_runner_null(&runner, &null, &err), MST_OK);

    memset(&conf, 0, sizeof(conf));
    conf.max_batch = max_batch;
    conf.prefill_chunk = chunk;
    conf.no_prefix_cache = !cache;
    conf.clock = fake_clock;
    conf.handler = event;

    engine = mst_engine_create(&conf, &runner, &err);
    assert_non_null(engine);

    memset(tags, 0, sizeof(tags));
    n_tags = 0;
    step = 1;
    now = MST_S;
    step_ns = 0;
    events = 0;
}


static inline void
end(void)
{
    uint32_t            i;
    mst_engine_stats_t  s;

    for (i = 0; i < n_tags; i++) {
        mst_engine_cancel(engine, i, now);
        assert_true(tags[i].refused || tags[i].done);
    }

    mst_engine_stats(engine, &s);
    assert_int_equal(s.running + s.waiting + s.paused + s.blocks_used, 0);

    mst_engine_destroy(engine);
}


/* every prompt its own, so that no cache helps */

static inline uint32_t
submit(const mst_claim_t *claim, uint32_t n_prompt, uint32_t max_tokens)
{
    mst_submit_t      s;
    uint32_t          i;
    static uint32_t   ids[8192];

    assert_true(n_tags < TAGS);

    for (i = 0; i < n_prompt; i++) {
        ids[i] = (uint32_t) (mst_hash_mix(n_tags * 8192 + i) % 256);
    }

    memset(&s, 0, sizeof(s));
    mst_params_default(&s.params);

    s.tag = n_tags;
    s.prompt = ids;
    s.n_prompt = n_prompt;
    s.params.max_tokens = max_tokens;
    s.claim = *claim;

    tags[n_tags].key = (uint32_t) claim->fair_key;
    tags[n_tags].n_prompt = n_prompt;

    mst_engine_submit(engine, &s, now);

    return n_tags++;
}


static inline uint64_t
one_step(void)
{
    int        rc;
    uint64_t   wake;
    mst_err_t  err = { "" };

    rc = mst_engine_step(engine, now, &wake, &err);
    assert_int_not_equal(rc, MST_ERROR);

    now += step_ns;
    step++;

    return rc == MST_AGAIN ? wake : now;
}


static inline void
steps(uint32_t n)
{
    while (n--) {
        (void) one_step();
    }
}


#endif /* MST_ENGINE_CLAIM_H */
