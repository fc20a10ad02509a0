
/*
 * The engine with runners whose answers are known: the null model, and one
 * whose next token follows from the KV blocks that it was given, so that a
 * wrong table, chunk, position or cache hit changes the answer.
 */

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


#define MAX_TAGS  20000


typedef struct {
    int           admits;
    int           refuses;
    int           dones;
    int           end;                 /* events after the last one */
    mst_refuse_t  refuse;
    mst_finish_t  finish;
    mst_usage_t   usage;
    uint32_t      cached;
    uint32_t      n;
    uint32_t      ids[512];
    char          text[128];
} answer_t;


typedef struct {
    mst_engine_t  *e;
    answer_t      *answers;            /* [MAX_TAGS] */
    uint64_t       order[4096];        /* tags as they were admitted */
    uint32_t       n_order;
    uint64_t       events;
} host_t;


static void
on_event(void *data, const mst_event_t *ev)
{
    host_t    *h;
    answer_t  *a;

    h = data;

    assert_true(ev->tag < MAX_TAGS);

    a = &h->answers[ev->tag];
    h->events++;
    a->end += a->dones || a->refuses;

    switch (ev->type) {

    case MST_EVENT_ADMIT:
        a->admits++;
        a->cached = ev->cached;

        if (h->n_order < 4096) {
            h->order[h->n_order++] = ev->tag;
        }

        break;

    case MST_EVENT_REFUSE:
        a->refuses++;
        a->refuse = ev->refuse;
        snprintf(a->text, sizeof(a->text), "%s", ev->text ? ev->text : "");
        break;

    case MST_EVENT_TOKEN:
        assert_int_equal(a->admits, 1);

        if (a->n < 512) {
            a->ids[a->n] = ev->sampled->id;
        }

        a->n++;
        break;

    case MST_EVENT_DONE:
        a->dones++;
        a->finish = ev->finish;
        a->usage = *ev->usage;
        assert_int_equal(a->usage.completion, a->n);
        break;
    }
}


static uint64_t
no_clock(void)
{
    return 0;
}


static void
host_open(host_t *h, mst_runner_t *r, uint32_t max_batch, uint32_t chunk,
    int no_cache)
{
    mst_err_t          err;
    mst_engine_conf_t  conf;

    memset(h, 0, sizeof(host_t));
    memset(&conf, 0, sizeof(conf));
    err.text[0] = '\0';

    h->answers = calloc(MAX_TAGS, sizeof(answer_t));

    conf.max_batch = max_batch;
    conf.prefill_chunk = chunk;
    conf.no_prefix_cache = no_cache;
    conf.clock = no_clock;
    conf.handler = on_event;
    conf.data = h;

    h->e = mst_engine_create(&conf, r, &err);
    assert_string_equal(err.text, "");
    assert_non_null(h->e);
}


static void
host_close(host_t *h)
{
    mst_engine_destroy(h->e);
    free(h->answers);
}


static void
null_runner(mst_runner_t *r, double rate, uint32_t len, uint32_t n_blocks)
{
    mst_err_t        err;
    mst_null_conf_t  conf;

    memset(&conf, 0, sizeof(conf));
    err.text[0] = '\0';

    conf.rate = rate;
    conf.len = len;
    conf.context = 4096;
    conf.n_blocks = n_blocks;

    assert_int_equal(mst_runner_null(r, &conf, &err), MST_OK);
}


static void
submit_text(host_t *h, uint64_t tag, const char *text, uint32_t max_tokens,
    uint64_t now)
{
    uint32_t      i, ids[1024];
    mst_submit_t  s;

    memset(&s, 0, sizeof(s));
    mst_params_default(&s.params);

    for (i = 0; text[i]; i++) {
        ids[i] = (unsigned char) text[i];
    }

    s.tag = tag;
    s.prompt = ids;
    s.n_prompt = i;
    s.params.max_tokens = max_tokens;

    mst_engine_submit(h->e, &s, now);
}


static void
test_null_fox(void **state)
{
    int           rc, steps;
    host_t        h;
    uint32_t      i;
    uint64_t      wake;
    mst_err_t     err;
    mst_runner_t  r;

    (void) state;

    null_runner(&r, 0, 50, 0);
    host_open(&h, &r, 4, 64, 0);

    submit_text(&h, 1, "hello", 100, 1);

    for (steps = 0; steps < 1000; steps++) {
        rc = mst_engine_step(h.e, 1, &wake, &err);

        if (rc == MST_AGAIN) {
            break;
        }

        assert_int_equal(rc, MST_OK);
    }

    assert_int_equal(steps, 50);
    assert_int_equal(wake, 0);
    assert_int_equal(h.answers[1].n, 50);
    assert_int_equal(h.answers[1].finish, MST_FINISH_STOP);

    for (i = 0; i < 50; i++) {
        assert_int_equal(h.answers[1].ids[i],
            "The quick brown fox jumps over the lazy dog. "[i % 45]);
    }

    host_close(&h);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_null_fox)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
