
/*
 * A slow scheduler that knows no queue and no heap: it looks at everybody
 * each time and picks by the rules of mst_sched.h, mst_order.h and
 * mst_fair.h.  It knows neither the prefix cache nor a prefill rate.
 */

#ifndef MST_SCHED_SLOW_H
#define MST_SCHED_SLOW_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mst_err.h"
#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_sched.h"


#define MAX    64              /* sequences at once */
#define FLOWS  64


typedef struct {
    int         used;
    int32_t     priority;
    uint64_t    key;
    uint64_t    vtime;
    uint64_t    serial;
    uint64_t    owed;
    uint32_t    weight;
    uint32_t    wants;
    uint32_t    n;
} slow_flow_t;


typedef struct {
    mst_seq_t    *q;           /* NULL: the place is free */
    slow_flow_t  *flow;
    int           running;
    int           started;
    int           wants;
    int           pinned;
    uint64_t      paused;      /* when, as a turn; 0 = it is not */
    uint32_t      n_tokens;
    uint32_t      computed;
    uint32_t      charged;
    uint32_t      blocks;
    uint32_t      promise;
    uint64_t      ready_ns;
    uint64_t      turn;        /* when it got in line, 0: sleeps */
    uint32_t      step;        /* tokens in this step */
} slow_t;


static mst_sched_conf_t  conf;
static mst_block_pool_t  pool;

static slow_t       slow[MAX];
static slow_flow_t  slow_flows[FLOWS];
static uint64_t     slow_vtimes[MST_CLASSES];
static uint64_t     turns, arrivals, slow_serials;
static uint32_t     slow_free;
static uint64_t     slow_preemptions;
static uint64_t     slow_taken[3];     /* of paused, last, lower ones */

/* what it planned */
static slow_t    *items[MAX];
static uint32_t   n_items;
static uint32_t   slow_left;
static slow_t    *left_by[MAX];
static int        left_why[MAX];
static uint32_t   n_left;


static slow_flow_t *
slow_flow(const mst_claim_t *c)
{
    slow_flow_t  *f;

    for (f = slow_flows; f->used; f++) {
        assert_true(f < slow_flows + FLOWS - 1);

        if (f->key == c->fair_key && f->priority == c->priority) {
            break;
        }
    }

    f->used = 1;
    f->key = c->fair_key;
    f->priority = c->priority;
    f->weight = c->fair_weight ? c->fair_weight : 1;

    return f;
}


static void
slow_pay(slow_flow_t *f)
{
    f->vtime += (f->owed << MST_FAIR_SHIFT) / f->weight;
    f->owed = 0;
}


static uint64_t *
slow_advance(const slow_flow_t *f)
{
    uint64_t     *v, least;
    slow_flow_t  *x;

    v = &slow_vtimes[MST_PRIORITY_MAX - f->priority];
    least = UINT64_MAX;

    for (x = slow_flows; x->used; x++) {
        if (x->priority == f->priority && x->wants && x->vtime < least) {
            least = x->vtime;
        }
    }

    if (least != UINT64_MAX && least > *v) {
        *v = least;
    }

    return v;
}


static void
slow_want(slow_t *x, int on)
{
    uint64_t     *v;
    slow_flow_t  *f;

    f = x->flow;

    if (x->wants == on) {
        return;
    }

    x->wants = on;

    if (on && f->wants++ == 0) {
        f->wants = 0;
        slow_pay(f);
        v = slow_advance(f);
        f->wants = 1;
        f->vtime = f->vtime < *v ? *v : f->vtime;
        f->serial = ++slow_serials;
    }

    if (!on && f->wants == 1) {
        slow_pay(f);
        (void) slow_advance(f);
    }

    f->wants -= !on;
}


/* in line from now, or asleep */

static void
slow_line_up(slow_t *x, uint64_t now)
{
    x->turn = x->paused || x->ready_ns > now ? 0 : ++turns;
    slow_want(x, x->turn != 0);
}


static uint64_t
due(const slow_t *x)
{
    return x->q->claim.ttft_ns ? x->q->claim.ttft_ns : UINT64_MAX;
}


static int
before(const slow_t *a, const slow_t *b)
{
    const slow_flow_t  *f, *g;

    f = a->flow;
    g = b->flow;

    if (f->priority != g->priority) {
        return f->priority > g->priority;
    }

    if (f != g) {
        return f->vtime < g->vtime
               || (f->vtime == g->vtime && f->serial < g->serial);
    }

    return due(a) < due(b)
           || (due(a) == due(b) && a->q->arrival < b->q->arrival);
}


static uint32_t
blocks_for(uint32_t tokens)
{
    return (tokens + conf.block_tokens - 1) / conf.block_tokens;
}


static uint32_t
needs(const slow_t *x)
{
    return blocks_for(x->n_tokens);
}


static uint32_t
slow_most(const slow_t *x)
{
    return x->q->n_prompt + x->q->params.max_tokens - 1;
}


/* blocks in all that it wants to count on */

static uint32_t
slow_wanted(const slow_t *x)
{
    uint64_t  n;

    n = (uint64_t) x->q->n_prompt + x->q->claim.kv_reserve;
    n = n < slow_most(x) ? n : slow_most(x);
    n = n < x->n_tokens ? x->n_tokens : n;

    return blocks_for((uint32_t) n) < pool.n ? blocks_for((uint32_t) n)
                                             : pool.n;
}


static uint32_t
slow_promised(void)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < MAX; i++) {
        n += slow[i].promise;
    }

    return n;
}


static int
slow_gone(const slow_t *x)
{
    return x->q == NULL || x->turn == UINT64_MAX;
}


static void
slow_quit(slow_t *x)
{
    slow_want(x, 0);

    if (--x->flow->n == 0) {
        slow_pay(x->flow);
    }
}


static void
slow_leave(slow_t *x, int why)
{
    slow_free += x->blocks;
    x->blocks = 0;
    x->promise = 0;
    x->running = 0;
    slow_quit(x);

    left_by[n_left] = x;
    left_why[n_left++] = why;
    x->turn = UINT64_MAX;              /* gone, but still here to compare */
}


enum {
    DECODE,                            /* in line with one token, by turn */
    PREFILL,                           /* in line with more, in order */
    WAITING,                           /* in line, in order */
    LAST,                              /* running, last in order */
    LOWER,                             /* the same, of a lower class */
    STALLED,                           /* paused with blocks, the longest */
    SLEEPER,                           /* due, the earliest */
    EXPIRED,                           /* deadline, the earliest */
    NO_WAIT,                           /* may not, by arrival */
    YIELD                              /* gives way, by arrival */
};


static uint64_t
slow_deadline(const slow_t *x)
{
    uint64_t  a, b;

    a = x->q->deadline_ns;
    b = x->q->claim.ttft_ns;

    return a && (b == 0 || a < b) ? a : b;
}


static int
slow_fits(int mode, const slow_t *x, const slow_t *than, uint64_t now)
{
    int  line;

    line = x->turn && x->step == 0;

    switch (mode) {

    case DECODE:
        return x->running && line && x->n_tokens - x->computed == 1;

    case PREFILL:
        return x->running && line && x->n_tokens - x->computed > 1;

    case WAITING:
        return !x->running && line;

    case LAST:
        return x->running && !x->pinned;

    case LOWER:
        return x->running && !x->pinned
               && x->flow->priority < than->flow->priority;

    case STALLED:
        return x->running && x->paused;

    case SLEEPER:
        return !x->turn && !x->paused && x->ready_ns <= now;

    case EXPIRED:
        return !x->started && slow_deadline(x) && slow_deadline(x) <= now;

    case NO_WAIT:
        return !x->started && x->q->no_wait;

    default:
        return !x->started && !x->q->no_wait && x->flow->priority < 0;
    }
}


static int
slow_better(int mode, const slow_t *a, const slow_t *b)
{
    uint64_t  x, y;

    switch (mode) {

    case DECODE:
        return a->flow->priority > b->flow->priority
               || (a->flow->priority == b->flow->priority
                   && a->turn < b->turn);

    case PREFILL:
    case WAITING:
        return before(a, b);

    case LAST:
    case LOWER:
        return before(b, a);

    case STALLED:
        return a->paused < b->paused;
    }

    x = mode == SLEEPER ? a->ready_ns : mode == EXPIRED ? slow_deadline(a)
                                                        : 0;
    y = mode == SLEEPER ? b->ready_ns : mode == EXPIRED ? slow_deadline(b)
                                                        : 0;

    return x < y || (x == y && a->q->arrival < b->q->arrival);
}


static slow_t *
slow_pick(int mode, const slow_t *than, uint64_t now)
{
    slow_t  *x, *best;

    best = NULL;

    for (x = slow; x < slow + MAX; x++) {
        if (!slow_gone(x) && slow_fits(mode, x, than, now)
            && (best == NULL || slow_better(mode, x, best)))
        {
            best = x;
        }
    }

    return best;
}


static uint32_t
slow_running(void)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < MAX; i++) {
        n += !slow_gone(&slow[i]) && slow[i].running;
    }

    return n;
}


static void
slow_settle(void)
{
    slow_flow_t  *f;

    for (f = slow_flows; f->used; f++) {
        slow_pay(f);
    }
}


static void
slow_take(slow_t *x)
{
    uint32_t  n;

    n = x->n_tokens - x->computed;
    n = n < slow_left ? n : slow_left;

    x->step = n;
    slow_left -= n;
    items[n_items++] = x;

    /* what was paid for once is not paid again */

    while (n && x->computed + x->step > x->charged) {
        x->flow->owed += x->charged >= x->computed;
        x->charged++;
    }
}


static void
slow_preempt(slow_t *v, uint64_t now)
{
    uint32_t  i;

    for (i = 0; i < n_items; i++) {
        if (items[i] == v) {
            slow_left += v->step;
            n_items--;
            memmove(items + i, items + i + 1, (n_items - i) * sizeof(v));
            break;
        }
    }

    slow_free += v->blocks;
    slow_preemptions++;

    v->blocks = 0;
    v->promise = 0;
    v->computed = 0;
    v->running = 0;
    v->pinned = 0;
    v->step = 0;

    slow_line_up(v, now);
}


/* 0: it has all its blocks */

static int
slow_grow(slow_t *x, int *preempted, uint64_t now)
{
    slow_t  *v;

    while (x->blocks < needs(x)) {

        if (x->promise || slow_free > slow_promised()) {
            x->promise -= x->promise != 0;
            slow_free--;
            x->blocks++;
            continue;
        }

        if (slow_running() == 1) {
            slow_leave(x, 100 + MST_FINISH_LENGTH);
            return 1;
        }

        v = slow_pick(STALLED, NULL, now);
        slow_taken[v == NULL]++;
        v = v ? v : slow_pick(LAST, NULL, now);

        slow_preempt(v, now);
        *preempted = 1;

        if (v == x) {
            return 1;
        }
    }

    return 0;
}


/* 0: it does not wait any more */

static int
slow_admit(slow_t *x, int *preempted, uint64_t now)
{
    slow_t  *v;

    for ( ;; ) {
        if (needs(x) > pool.n && slow_running() < conf.max_batch) {
            slow_leave(x, 100 + MST_FINISH_LENGTH);
            return 0;
        }

        if (slow_running() < conf.max_batch
            && slow_wanted(x) + slow_promised() <= slow_free)
        {
            break;
        }

        v = slow_pick(STALLED, NULL, now);
        slow_taken[0] += v != NULL;

        if (v == NULL && (x->q->claim.flags & MST_CLAIM_PREEMPT)) {
            v = slow_pick(LOWER, x, now);
            *preempted |= v != NULL;
            slow_taken[2] += v != NULL;
        }

        if (v == NULL) {
            return 1;
        }

        slow_preempt(v, now);
    }

    x->promise = slow_wanted(x) - needs(x);
    x->pinned = x->q->claim.kv_reserve != 0
                && (x->n_tokens >= slow_most(x)
                    || (uint64_t) x->q->n_prompt + x->q->claim.kv_reserve
                       >= slow_most(x));
    x->blocks = needs(x);
    x->running = 1;
    x->started = 1;
    slow_free -= x->blocks;
    slow_take(x);

    return 0;
}


static void
slow_plan(uint64_t now)
{
    int       preempted, full;
    slow_t   *x, *w;
    uint32_t  reserve;

    n_items = 0;
    n_left = 0;
    preempted = 0;
    slow_left = conf.budget;

    while ((x = slow_pick(EXPIRED, NULL, now)) != NULL) {
        slow_leave(x, MST_REFUSE_DEADLINE);
    }

    while ((x = slow_pick(SLEEPER, NULL, now)) != NULL) {
        slow_line_up(x, now);
    }

    reserve = slow_pick(PREFILL, NULL, now)
              || (slow_pick(WAITING, NULL, now)
                  && slow_running() < conf.max_batch)
              ? conf.budget / 8 : 0;

    while (slow_left > reserve
           && (x = slow_pick(DECODE, NULL, now)) != NULL)
    {
        if (slow_grow(x, &preempted, now) == 0) {
            slow_take(x);
        }
    }

    slow_settle();
    full = preempted;

    while (slow_left) {
        x = slow_pick(PREFILL, NULL, now);
        w = full || preempted ? NULL : slow_pick(WAITING, NULL, now);

        if (w && (x == NULL || before(w, x))) {
            full = slow_admit(w, &preempted, now);

        } else if (x) {
            slow_take(x);

        } else {
            break;
        }

        slow_settle();
    }

    while ((full || preempted)
           && (x = slow_pick(NO_WAIT, NULL, now)) != NULL)
    {
        slow_leave(x, MST_REFUSE_KV_FULL);
    }

    w = slow_pick(WAITING, NULL, now);

    while ((full || preempted) && w && w->flow->priority >= 0
           && (x = slow_pick(YIELD, NULL, now)) != NULL)
    {
        slow_leave(x, MST_REFUSE_YIELD);
    }
}


static uint64_t
slow_wake(void)
{
    uint32_t  i;
    uint64_t  wake, t;

    wake = 0;

    for (i = 0; i < MAX; i++) {
        if (slow[i].q == NULL) {
            continue;
        }

        t = slow[i].turn == 0 && !slow[i].paused ? slow[i].ready_ns : 0;

        if (t && (wake == 0 || t < wake)) {
            wake = t;
        }

        t = slow[i].started ? 0 : slow_deadline(&slow[i]);

        if (t && (wake == 0 || t < wake)) {
            wake = t;
        }
    }

    return wake;
}


#endif /* MST_SCHED_SLOW_H */
