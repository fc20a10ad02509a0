
/*
 * What a claim gives to a request: shares, classes, memory, pace, pauses and
 * times, with the whole engine and the null model, exact to the token.
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


static void
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

static uint64_t
fake_clock(void)
{
    static uint64_t  calls;

    return (calls++ & 1) * step_ns;
}


static void
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


static void
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

static uint32_t
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


static uint64_t
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


static void
steps(uint32_t n)
{
    while (n--) {
        (void) one_step();
    }
}


/* (sum x)^2 / (n sum x^2) */

static double
jain(const double *x, uint32_t n)
{
    double    sum, squares;
    uint32_t  i;

    sum = 0;
    squares = 0;

    for (i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }

    return sum * sum / (n * squares);
}


/* eight keys that always want more; what each got, by its weight */

static double
shares(uint32_t max_batch, const uint32_t *prompt, const uint32_t *answer,
    const uint32_t *backlog, const uint32_t *weight, int keys)
{
    double        got[8] = { 0 };
    uint32_t      i, k, live[8];
    mst_claim_t   c;

    memset(&c, 0, sizeof(c));
    begin(max_batch, 256, 4000, 0);

    for (k = 0; k < 6000; k++) {

        memset(live, 0, sizeof(live));

        for (i = n_tags > 2000 ? n_tags - 2000 : 0; i < n_tags; i++) {
            live[tags[i].key - 1] += !tags[i].done;
        }

        for (i = 0; i < 8; i++) {
            c.fair_key = i + 1;
            c.fair_weight = weight[i];

            for ( /* void */ ; live[i] < backlog[i]; live[i]++) {
                if (!keys) {
                    c.fair_key = 0;
                }

                tags[submit(&c, prompt[i], answer[i])].key = i + 1;
            }
        }

        steps(1);
    }

    for (i = 0; i < n_tags; i++) {
        if (tags[i].admitted) {
            got[tags[i].key - 1] += (double) (tags[i].n_prompt + tags[i].n)
                                    / weight[tags[i].key - 1];
        }
    }

    end();

    return jain(got, 8);
}


static void
test_fair(void **state)
{
    double    fair, unfair;
    uint32_t  i;
    static const uint32_t  prompt[8] = { 10, 200, 30, 700, 5, 64, 100, 1 };
    static const uint32_t  answer[8] = { 100, 20, 300, 10, 5, 64, 1, 200 };
    static const uint32_t  backlog[8] = { 2, 9, 3, 30, 8, 4, 20, 2 };
    static const uint32_t  even[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    static const uint32_t  odd[8] = { 1, 2, 1, 4, 1, 2, 3, 1 };
    static const uint32_t  batch[3] = { 2, 4, 6 };

    (void) state;

    for (i = 0; i < 3; i++) {
        fair = shares(batch[i], prompt, answer, backlog, even, 1);
        unfair = shares(batch[i], prompt, answer, backlog, even, 0);

        print_message("batch %u: Jain's index %.4f, without keys %.4f\n",
                      batch[i], fair, unfair);

        assert_true(fair >= 0.95);
        assert_true(unfair < 0.7);             /* the test can fail */

        fair = shares(batch[i], prompt, answer, backlog, odd, 1);
        print_message("by weights %.4f\n", fair);
        assert_true(fair >= 0.95);
    }
}


/* a flood of a lower class does not touch a higher one */

static void
test_classes(void **state)
{
    uint32_t     i, k, high;
    mst_claim_t  c, vip;

    (void) state;

    memset(&c, 0, sizeof(c));
    memset(&vip, 0, sizeof(vip));
    vip.priority = 3;

    begin(4, 256, 4000, 0);

    for (i = 0; i < 400; i++) {
        (void) submit(&c, 50, 40);
    }

    steps(100);

    /* in the queue it is first: it waits for one place and no more */

    high = submit(&vip, 50, 40);
    steps(50);
    assert_true(tags[high].first && tags[high].first - 101 <= 41);

    /* with preemption not even that */

    vip.flags = MST_CLAIM_PREEMPT;

    steps(50);

    for (k = 0; k < 10; k++) {
        steps(11);
        high = submit(&vip, 50, 40);
        i = (uint32_t) step;
        steps(1);
        assert_int_equal(tags[high].first, i);
    }

    steps(10000);

    for (i = 0; i < n_tags; i++) {
        assert_int_equal(tags[i].done, MST_FINISH_LENGTH);
        assert_int_equal(tags[i].n, 40);
    }

    end();
}


/* a claim that holds the whole answer is never preempted */

static void
burst(uint32_t reserve, uint32_t *most, uint64_t *preemptions)
{
    uint32_t            i;
    mst_claim_t         c;
    mst_engine_stats_t  s;

    memset(&c, 0, sizeof(c));
    c.kv_reserve = reserve;

    /* 32 + 97 - 1 tokens: 8 blocks each, 40 of them fill the pool */

    begin(400, 1024, 320, 1);

    for (i = 0; i < 200; i++) {
        (void) submit(&c, 32, 97);
    }

    *most = 0;

    do {
        steps(1);
        mst_engine_stats(engine, &s);
        *most = s.running > *most ? s.running : *most;
    } while (s.running);

    for (i = 0; i < n_tags; i++) {
        assert_int_equal(tags[i].n, 97);
    }

    *preemptions = s.preemptions;
    end();
}


static void
test_reserve(void **state)
{
    uint32_t  most;
    uint64_t  full, part, none;

    (void) state;

    burst(MST_RESERVE_FULL, &most, &full);
    assert_int_equal(full, 0);
    assert_int_equal(most, 40);

    burst(48, &most, &part);                   /* 5 blocks */
    assert_int_equal(most, 64);
    assert_true(part > 0);

    burst(0, &most, &none);
    assert_true(most > 64);
    assert_true(none > part);

    print_message("preemptions: full %u, half %u, prompt %u\n",
                  (unsigned) full, (unsigned) part, (unsigned) none);
}


/* classes below 0 give way to those who would have to wait otherwise */

static void
test_yield(void **state)
{
    uint32_t     i, low[4], high;
    mst_claim_t  c, batch;

    (void) state;

    memset(&c, 0, sizeof(c));
    memset(&batch, 0, sizeof(batch));
    batch.priority = -1;

    begin(2, 256, 400, 0);

    for (i = 0; i < 4; i++) {
        low[i] = submit(&batch, 10, 30);
    }

    steps(5);
    assert_true(tags[low[1]].admitted != 0);
    assert_int_equal(tags[low[2]].refused, 0);

    high = submit(&c, 10, 30);
    steps(1);

    /* what runs goes on */

    assert_int_equal(tags[low[2]].refused, MST_REFUSE_YIELD);
    assert_int_equal(tags[low[3]].refused, MST_REFUSE_YIELD);
    assert_int_equal(tags[high].refused + tags[low[0]].refused, 0);

    steps(100);
    assert_int_equal(tags[low[0]].n, 30);
    assert_int_equal(tags[high].n, 30);

    end();
}


/* a reader who does not read keeps nobody waiting */

static void
test_pause(void **state)
{
    uint32_t            i, a, b, c;
    uint64_t            text;
    mst_claim_t         claim;
    mst_engine_stats_t  s;

    (void) state;

    memset(&claim, 0, sizeof(claim));
    claim.kv_reserve = MST_RESERVE_FULL;

    begin(2, 256, 20, 1);                      /* 320 tokens */

    a = submit(&claim, 20, 100);
    b = submit(&claim, 20, 100);
    steps(10);
    mst_engine_pause(engine, a, 1, now);
    mst_engine_pause(engine, a, 1, now);
    steps(10);

    assert_int_equal(tags[a].n, 10);
    assert_int_equal(tags[b].n, 20);

    mst_engine_stats(engine, &s);
    assert_int_equal(s.running, 2);
    assert_int_equal(s.paused, 1);

    /* it has its place and its blocks as long as nobody wants them */

    mst_engine_pause(engine, a, 0, now);
    steps(1);
    assert_int_equal(tags[a].n, 11);
    mst_engine_pause(engine, a, 1, now);

    c = submit(&claim, 20, 100);
    steps(1);
    assert_int_equal(tags[c].n, 1);

    mst_engine_stats(engine, &s);
    assert_int_equal(s.running, 2);
    assert_int_equal(s.waiting, 1);
    assert_int_equal(s.preemptions, 1);

    /* then it waits as anybody, and its answer goes on where it was */

    mst_engine_pause(engine, a, 0, now);
    steps(5);
    assert_int_equal(tags[a].n, 11);
    steps(300);

    for (i = 0; i < 3; i++) {
        assert_int_equal(tags[i].n, 100);
        assert_int_equal(tags[i].done, MST_FINISH_LENGTH);
    }

    assert_int_equal(tags[a].preemptions, 1);
    text = events;
    end();

    /* the same calls: the same events */

    begin(2, 256, 20, 1);
    (void) submit(&claim, 20, 100);
    (void) submit(&claim, 20, 100);
    steps(10);
    mst_engine_pause(engine, a, 1, now);
    steps(10);
    mst_engine_pause(engine, a, 0, now);
    steps(1);
    mst_engine_pause(engine, a, 1, now);
    (void) submit(&claim, 20, 100);
    steps(1);
    mst_engine_pause(engine, a, 0, now);
    steps(305);
    assert_int_equal(events, text);

    /* paused before its start, ended while it is paused */

    a = submit(&claim, 20, 100);
    mst_engine_pause(engine, a, 1, now);
    steps(3);
    assert_int_equal(tags[a].admitted, 0);
    mst_engine_cancel(engine, a, now);
    assert_int_equal(tags[a].done, MST_FINISH_CANCELLED);

    end();
}


/* a pace is one stream's own: the others go on at each step */

static void
test_pace(void **state)
{
    uint32_t     slow, fast, k;
    mst_claim_t  c;

    (void) state;

    memset(&c, 0, sizeof(c));
    begin(8, 256, 1000, 0);
    step_ns = 7 * MST_MS;

    fast = submit(&c, 10, 4000);
    c.pace = 20000;                            /* 50 ms */
    slow = submit(&c, 10, 4000);

    steps(1 + 10 * 1000 / 7);                  /* 10 s */
    assert_in_range(tags[slow].n, 199, 202);
    assert_int_equal(tags[fast].n, 1 + 10 * 1000 / 7);

    mst_engine_pace(engine, slow, 5000, now);
    k = tags[slow].n;
    steps(10 * 1000 / 7);
    assert_in_range(tags[slow].n - k, 49, 51);
    assert_int_equal(tags[fast].n, 1 + 2 * (10 * 1000 / 7));

    mst_engine_pace(engine, slow, 0, now);
    k = tags[slow].n;
    steps(100);
    assert_int_equal(tags[slow].n - k, 100);

    mst_engine_pace(engine, 12345, 1, now);    /* nobody */
    end();
}


/* what cannot have its first token in time is refused at once, by what was
   measured */

static void
test_deadline(void **state)
{
    uint32_t            a, b, c, d;
    mst_claim_t         claim;
    mst_engine_stats_t  s;

    (void) state;

    memset(&claim, 0, sizeof(claim));
    begin(16, 100, 4000, 0);
    step_ns = 10 * MST_MS;                     /* 100 tokens: 10000 a second */

    /* nothing is known yet: nothing is refused */

    claim.ttft_ns = now + 1;
    a = submit(&claim, 1000, 1);
    assert_int_equal(tags[a].refused, 0);
    steps(1);                                  /* it began in time */
    assert_true(tags[a].admitted != 0);

    steps(20);
    assert_int_equal(tags[a].done, MST_FINISH_LENGTH);

    mst_engine_stats(engine, &s);
    assert_true(s.prompt_rate > 9990 && s.prompt_rate < 10010);

    /* 2000 tokens: 0.2 s */

    claim.ttft_ns = now + 190 * MST_MS;
    b = submit(&claim, 2000, 1);
    assert_int_equal(tags[b].refused, MST_REFUSE_DEADLINE);

    claim.ttft_ns = now + 250 * MST_MS;
    b = submit(&claim, 2000, 1);
    assert_int_equal(tags[b].refused, 0);

    /* behind it there is no time for as much again, unless it is wanted
       first */

    claim.ttft_ns = now + 390 * MST_MS;
    c = submit(&claim, 2000, 1);
    assert_int_equal(tags[c].refused, MST_REFUSE_DEADLINE);

    claim.ttft_ns = now + 205 * MST_MS;
    d = submit(&claim, 1, 1);
    assert_int_equal(tags[d].refused, 0);

    /* now the first of the two would be late: it is refused at its turn,
       without a token computed */

    steps(30);
    assert_int_equal(tags[d].done, MST_FINISH_LENGTH);
    assert_int_equal(tags[b].done, MST_FINISH_LENGTH);

    end();
}


/* a step with a first token that is wanted soon is not made longer by others
   than it can wait; those go on in the next one */

static void
test_hurry(void **state)
{
    uint32_t            a, b;
    mst_claim_t         claim;
    mst_engine_stats_t  s;

    (void) state;

    memset(&claim, 0, sizeof(claim));
    begin(16, 1000, 4000, 0);
    step_ns = 100 * MST_MS;

    /* an eighth of a step is enough to be measured */

    (void) submit(&claim, 100, 1);
    steps(2);
    mst_engine_stats(engine, &s);
    assert_true(s.prompt_rate == 0);

    (void) submit(&claim, 200, 1);
    steps(2);
    mst_engine_stats(engine, &s);
    assert_true(s.prompt_rate > 1990 && s.prompt_rate < 2010);

    /* 100 tokens of 0.05 s, that have 0.12 s: 100 others find room in the step,
       and not 800 */

    b = submit(&claim, 800, 1);
    claim.ttft_ns = now + 120 * MST_MS;
    a = submit(&claim, 100, 1);
    steps(1);

    assert_int_equal(tags[a].done, MST_FINISH_LENGTH);
    assert_int_equal(tags[b].done, 0);
    mst_engine_stats(engine, &s);
    assert_in_range(s.prefilling, 690, 710);

    steps(2);
    assert_int_equal(tags[b].done, MST_FINISH_LENGTH);

    end();
}


/* waiting too long for a place is found out in time, too */

static void
test_deadline_wait(void **state)
{
    uint32_t     a, b;
    uint64_t     wake;
    mst_claim_t  claim;

    (void) state;

    memset(&claim, 0, sizeof(claim));
    begin(1, 100, 4000, 0);
    step_ns = 10 * MST_MS;

    (void) submit(&claim, 1000, 1);
    steps(12);

    a = submit(&claim, 10, 1000);
    steps(2);
    claim.ttft_ns = now + 300 * MST_MS;
    b = submit(&claim, 1000, 1);
    assert_int_equal(tags[b].refused, 0);

    /* it takes 0.1 s itself: it must begin 0.2 s from now */

    steps(20);
    assert_int_equal(tags[b].refused, 0);
    steps(2);
    assert_int_equal(tags[b].refused, MST_REFUSE_DEADLINE);
    assert_true(tags[a].n > 20);

    /* and wakes the engine up when nothing else does */

    mst_engine_pause(engine, a, 1, now);
    claim.ttft_ns = now + 300 * MST_MS;
    b = submit(&claim, 10, 10);
    mst_engine_pause(engine, b, 1, now);
    wake = one_step();
    assert_in_range(wake, now + 200 * MST_MS, now + 300 * MST_MS);

    end();
}


static void
test_rates(void **state)
{
    uint32_t                  i;
    mst_claim_t               c;
    mst_engine_stats_t        s;
    const mst_order_class_t  *classes;

    (void) state;

    memset(&c, 0, sizeof(c));
    begin(4, 256, 4000, 0);
    step_ns = 10 * MST_MS;

    for (i = 0; i < 2000; i++) {
        c.priority = i % 2 ? 2 : 0;
        (void) submit(&c, 1, 10);
    }

    steps(1);
    classes = mst_engine_classes(engine);
    assert_int_equal(classes[mst_claim_rank(0)].n, 1000);
    assert_int_equal(classes[mst_claim_rank(0)].tokens, 1000);
    assert_int_equal(classes[mst_claim_rank(2)].n, 996);
    assert_int_equal(classes[mst_claim_rank(2)].n_dated, 0);

    steps(2000);
    mst_engine_stats(engine, &s);

    /* 4 at once, 10 steps each of 10 ms */

    assert_true(s.token_rate > 399 && s.token_rate < 401);
    assert_true(s.finish_rate > 39 && s.finish_rate < 41);

    /* an hour without work changes nothing */

    steps(4000);
    mst_engine_stats(engine, &s);
    assert_int_equal(s.running + s.waiting, 0);
    now += 3600 * MST_S;
    (void) submit(&c, 1, 10);
    steps(10);
    mst_engine_stats(engine, &s);
    assert_true(s.token_rate > 350 && s.token_rate < 401);

    end();
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_fair),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_yield),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_hurry),
        cmocka_unit_test(test_deadline_wait),
        cmocka_unit_test(test_rates)
    };

    return cmocka_run_group_tests_name("mst_engine_policy", tests, NULL,
                                       NULL);
}
