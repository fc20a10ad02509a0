
/*
 * What mst_engine.c and mst_run.c share: the engine's state and its steps.
 */

#ifndef MST_ENGINE_LOCAL_H
#define MST_ENGINE_LOCAL_H

#include <stdint.h>

#include "engine/mst_engine.h"
#include "engine/mst_meter.h"
#include "engine/mst_sched.h"
#include "engine/mst_tag.h"

#define MST_ENGINE_RUNS  2         /* steps under way, the planned one too */


/* a step from its plan until its tokens are there */
typedef struct {
    mst_step_t          step;      /* its arrays: [max_batch] */
    mst_seq_t         **seqs;      /* [batch.n_seqs]; NULL: it has left */
    uint64_t            start_ns;  /* of the engine's clock */
    uint32_t            n_prompt;  /* tokens of it that are no decode's */
} mst_run_t;


struct mst_engine_s {
    mst_engine_conf_t   conf;
    mst_runner_t        runner;

    mst_block_pool_t    pool;
    mst_prefix_t        prefix;
    mst_sched_t         sched;
    mst_tag_map_t       tags;
    mst_list_t          all;       /* mst_seq_t.all, in order of arrival */
    uint64_t            arrivals;

    mst_meter_t         meter;
    int                 full;      /* in this step one more would have to
                                      wait */

    int                 ahead;     /* steps are launched before the one before
                                      is over */
    mst_run_t           runs[MST_ENGINE_RUNS];     /* the first alone unless
                                                      ahead */
    uint32_t            n_begun;   /* mod MST_ENGINE_RUNS the next one's run */
    uint32_t            n_taken;
    uint64_t            end_ns;    /* of the clock: when the last one ended */
    uint64_t            decode_ns; /* what the last one without prompt tokens
                                      took */
    mst_engine_stats_t  stats;     /* counters; the rest is asked for */

    int                 dead;
    mst_err_t           err;       /* why a submit is invalid, or what it
                                      died of */
};


/* mst_engine.c */

void mst_engine_event(mst_engine_t *e, const mst_event_t *ev);

/* the last event of a sequence that is out of the scheduler */
void mst_engine_done(mst_engine_t *e, mst_seq_t *q, mst_finish_t finish,
    uint64_t now_ns);


/* mst_run.c */

int mst_run_init(mst_engine_t *e);
void mst_run_fini(mst_engine_t *e);

/*
 * The planned step: computed at once, or launched.  Then it is under way, and
 * its sequences stand where they will be behind it; *from is the clock's
 * time.  MST_ERROR: e->err.
 */
int mst_run_begin(mst_engine_t *e, uint64_t now_ns, uint64_t *from);

/* the oldest step under way: waits for it and tells what it brought; "from"
   is what the clock said at now_ns.  MST_ERROR: e->err. */
int mst_run_end(mst_engine_t *e, uint64_t now_ns, uint64_t from);

/* tells the scheduler until when a step is under way that began at now_ns */
void mst_run_busy(mst_engine_t *e, uint64_t now_ns);

/* q leaves: what is under way of it is for nobody */
void mst_run_forget(mst_engine_t *e, mst_seq_t *q);


#endif /* MST_ENGINE_LOCAL_H */
