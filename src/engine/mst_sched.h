
/*
 * What the next step holds.  Pure logic: no clock, no model, no allocation
 * in a step but the growth of a sequence's own arrays.  "Order" is that of
 * mst_order.h: class, the flow that was served least, time for the first
 * token, arrival.
 *
 * mst_sched_plan() fills one step of at most "budget" tokens, or, while
 * prompts wait long, of up to "most" (mst_stretch.h):
 *     1. waiting sequences whose deadline is over leave;
 *     2. running ones that have one token to compute (decodes), each in its
 *        turn; one that lacks a block takes it from others: first from those
 *        that are paused, then from the last in order, maybe itself;
 *     3. running ones with more to compute (prefills) and waiting ones, in
 *        order, as long as there is budget.  A waiting one starts when there
 *        are a place and blocks for all its tokens and for the part of its
 *        answer that it claims (kv_reserve); what it claims stays its own.
 *        Nobody overtakes: if the first of the waiting does not fit, no
 *        other starts, nor does anybody in a step that took blocks in 2.
 * So a long prefill never keeps decodes out of a step; and where decodes
 * alone would fill the step, an eighth of it is kept for 3.
 *
 * The first of the waiting that does not fit gets places and blocks of
 * paused ones; and, if it claims so (MST_CLAIM_PREEMPT), of running ones of
 * a lower class, but not of those whose claim holds their longest answer:
 * these keep what they have until they end.
 *
 * Classes below 0 give way: while one of another class has to wait, those
 * of them that wait for their start are refused.
 *
 * Taking blocks is by recompute: the sequence lets all of them go, which
 * stay in the prefix cache as long as nobody needs them, and waits again with
 * all its tokens.  Of those with a token to compute, the first in order never
 * loses its blocks to others, so there is progress; one that has the pool for
 * itself and still lacks a block ends as if the context were full.
 *
 * A sequence whose ready_ns is to come is in no line but in "timed", a paused
 * one in none at all: a step costs what it computes, not what it lets sleep.
 */

#ifndef MST_SCHED_H
#define MST_SCHED_H

#include <stdint.h>

#include "base/mst_list.h"
#include "engine/mst_heap.h"
#include "engine/mst_order.h"
#include "engine/mst_reckon.h"
#include "engine/mst_room.h"
#include "engine/mst_seq.h"


typedef struct {
    uint32_t           max_batch;  /* sequences running at once */
    uint32_t           budget;     /* tokens of a step */
    uint32_t           most;       /* while prompts wait long; 0 = budget */
    uint32_t           block_tokens;
    uint32_t           context;    /* of a sequence; 0 = any number */
    uint32_t           window;     /* mst_room.h */
    mst_block_pool_t  *pool;
    mst_prefix_t      *prefix;     /* NULL: none */
} mst_sched_conf_t;


typedef struct {
    mst_sched_conf_t   conf;
    mst_order_t        order;
    mst_room_t         room;
    mst_reckon_t       reckon;     /* the engine adds its steps */

    mst_seq_t        **items;      /* [n_items] the planned step */
    uint32_t           n_items;
    uint32_t           n_tokens;   /* of the planned step */
    uint64_t           busy_ns;    /* what was planned before ends about then:
                                      the step starts no earlier; 0 = now */
    mst_list_t         leaving;    /* out of the scheduler, see refuse and
                                      finish; by queue */

    mst_list_t         no_waits;   /* have not started and may not wait */
    mst_list_t         yields;     /* the same, and of a class below 0 */
    mst_list_t         stalled;    /* paused with blocks, longest first */
    mst_heap_t         timed;      /* by ready_ns, waiting and running */
    mst_heap_t         deadlines;  /* have not started */

    uint32_t           left;       /* tokens left of the step's */
    int                preempted;  /* in this step */
    int                moved;      /* this plan preempted, refused or ended
                                      something: plan again before sleeping */

    uint32_t           n_running;
    uint32_t           n_waiting;
    uint32_t           n_paused;   /* of both */
    uint64_t           waiting_tokens;
    uint64_t           preemptions;
} mst_sched_t;


int mst_sched_init(mst_sched_t *s, const mst_sched_conf_t *conf);
void mst_sched_fini(mst_sched_t *s);           /* zeroed or inited */

/* room for n sequences in all, waiting and running; MST_ERROR: memory */
int mst_sched_reserve(mst_sched_t *s, uint32_t n);

/*
 * The sequence waits; there is room, its prompt fits the pool.  MST_OK;
 * MST_DECLINED: by what is known its first token would come too late, and
 * MST_ERROR: memory; with both it has not come.
 */
int mst_sched_add(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);

/* between plan and the end of the step only for members of it; its blocks
   are free at once */
void mst_sched_remove(mst_sched_t *s, mst_seq_t *q);

/* the same, and what it computed is never reused */
void mst_sched_poison(mst_sched_t *s, mst_seq_t *q);

/*
 * Plans one step.  items[] is in no line until mst_sched_computed() and
 * mst_sched_requeue(), or mst_sched_remove(), were called for each of it.
 */
void mst_sched_plan(mst_sched_t *s, uint64_t now_ns);

/* the n_step tokens of a member are in the KV memory */
void mst_sched_computed(mst_sched_t *s, mst_seq_t *q);
void mst_sched_requeue(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);

/*
 * The same in halves, where the next step is planned before this one is
 * over: a member goes on as if its tokens were computed, and the token that
 * they bring, if any, were there (mst_seq_expect()); or it is parked, as it
 * goes on with the very token.  Once that is there, the first n tokens are
 * known, and who was parked and has not ended is lined up.
 */
void mst_sched_ahead(mst_sched_t *s, mst_seq_t *q);
void mst_sched_park(mst_sched_t *s, mst_seq_t *q);
void mst_sched_known(mst_sched_t *s, mst_seq_t *q, uint32_t n);
void mst_sched_unpark(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);

/* its ready_ns has changed; not between plan and the end of the step */
void mst_sched_retime(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);

/* in no line as long as it is paused; not between plan and the end of the
   step */
void mst_sched_pause(mst_sched_t *s, mst_seq_t *q, int on, uint64_t now_ns);

/* when the plan can change by time alone; 0 = never */
uint64_t mst_sched_wake(const mst_sched_t *s);

/* prompt tokens that running sequences have yet to compute */
uint64_t mst_sched_prefilling(const mst_sched_t *s);


#endif /* MST_SCHED_H */
