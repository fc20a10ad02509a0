
/*
 * What the next step holds.  Pure logic: no clock, no model, no allocation
 * in a step but the growth of a sequence's own arrays.
 *
 * mst_sched_plan() fills one step of at most "budget" tokens:
 *     1. waiting sequences whose deadline is over leave;
 *     2. running ones that have one token to compute (decodes), each in its
 *        turn: who was in this step is last in line for the next.  One that
 *        lacks a block preempts the last running sequence: that of the
 *        lowest class, then the latest arrival, maybe itself;
 *     3. running ones with more to compute (prefills), in order;
 *     4. waiting ones in order, while nothing was preempted in this step, as
 *        long as there is budget, a place and blocks for all of the first
 *        one's tokens.  Nobody overtakes: if the first does not fit, nobody
 *        starts.
 * "Order" is class, higher first, then arrival.  So a long prefill never
 * keeps decodes out of a step; and where decodes alone would fill the step,
 * an eighth of it is kept for 3. and 4.
 *
 * Preemption is by recompute: the sequence lets its blocks go, which stay in
 * the prefix cache as long as nobody needs them, and waits again with all
 * its tokens.  The sequence first in order never loses its blocks to others,
 * so there is progress; one that has the pool for itself and still lacks a
 * block ends as if the context were full.
 *
 * A sequence whose ready_ns is to come is in no queue but in "timed": a step
 * costs what it computes, not what it lets sleep.
 */

#ifndef MST_SCHED_H
#define MST_SCHED_H

#include <stdint.h>

#include "base/mst_list.h"
#include "engine/mst_block.h"
#include "engine/mst_heap.h"
#include "engine/mst_prefix.h"
#include "engine/mst_seq.h"


typedef struct {
    uint32_t           max_batch;  /* sequences running at once */
    uint32_t           budget;     /* tokens of a step */
    uint32_t           block_tokens;
    mst_block_pool_t  *pool;
    mst_prefix_t      *prefix;     /* NULL: none */
} mst_sched_conf_t;


typedef struct {
    mst_sched_conf_t   conf;

    mst_seq_t        **items;      /* [n_items] the planned step */
    uint32_t           n_items;
    uint32_t           n_tokens;   /* of the planned step */
    mst_list_t         leaving;    /* out of the scheduler, see refuse and
                                      finish; by queue */

    mst_list_t         ready;      /* decodes, by queue */
    mst_list_t         prefill;    /* in order, by queue */
    mst_list_t         no_waits;   /* have not started and may not wait */
    mst_heap_t         waiting;    /* in order */
    mst_heap_t         victims;    /* all running, reverse order */
    mst_heap_t         timed;      /* by ready_ns, waiting and running */
    mst_heap_t         deadlines;  /* have not started */

    uint32_t           left;       /* tokens left of the budget */
    int                preempted;  /* in this step */
    int                moved;      /* this plan preempted, refused or ended
                                      something: plan again before sleeping */

    uint32_t           n_running;
    uint32_t           n_waiting;
    uint64_t           waiting_tokens;
    uint64_t           preemptions;
} mst_sched_t;


int mst_sched_init(mst_sched_t *s, const mst_sched_conf_t *conf);
void mst_sched_fini(mst_sched_t *s);           /* zeroed or inited */

/* room for n sequences in all, waiting and running; MST_ERROR: memory */
int mst_sched_reserve(mst_sched_t *s, uint32_t n);

/* the sequence waits; there is room, its prompt fits the pool */
void mst_sched_add(mst_sched_t *s, mst_seq_t *q);

/* between plan and the end of the step only for members of it; its blocks
   are free at once */
void mst_sched_remove(mst_sched_t *s, mst_seq_t *q);

/* the same, and what it computed is never reused */
void mst_sched_poison(mst_sched_t *s, mst_seq_t *q);

/*
 * Plans one step.  items[] is in no queue until mst_sched_computed() and
 * mst_sched_requeue(), or mst_sched_remove(), were called for each of it.
 */
void mst_sched_plan(mst_sched_t *s, uint64_t now_ns);

/* the n_step tokens of a member are in the KV memory */
void mst_sched_computed(mst_sched_t *s, mst_seq_t *q);
void mst_sched_requeue(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);

/* its ready_ns has changed */
void mst_sched_retime(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);

/* in no queue as long as it is paused */
void mst_sched_pause(mst_sched_t *s, mst_seq_t *q, int on, uint64_t now_ns);

/* when the plan can change by time alone; 0 = never */
uint64_t mst_sched_wake(const mst_sched_t *s);


#endif /* MST_SCHED_H */
