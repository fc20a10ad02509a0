
/*
 * The stats page: what the engine says of itself.  Every word is written by
 * the engine alone with relaxed stores and read by anyone; words are not
 * consistent with each other to the step, each is right by itself.  It
 * serves /healthz and the metrics without a question to the engine.
 */

#ifndef MST_STAT_H
#define MST_STAT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mst_params.h"


#define MST_STAT_BUCKETS  19       /* with an upper bound; one more has none */


/* durations: how many fell into each bucket, not cumulated */
typedef struct {
    _Atomic uint64_t  bucket[MST_STAT_BUCKETS + 1];
    _Atomic uint64_t  sum_ns;
} mst_stat_hist_t;


/* those of a class who wait; dated: without a key of mst_claim_t.fair_key,
   but with a time for their first token */
typedef struct {
    _Atomic uint64_t  n;
    _Atomic uint64_t  n_dated;
    _Atomic uint64_t  tokens;              /* that no cache has */
    _Atomic uint64_t  dated_tokens;
    _Atomic uint64_t  last_ns;             /* the latest time that one of the
                                              dated ever had */
} mst_stat_class_t;


typedef struct {
    /* heartbeat: the engine's loop stores the time at least once a second
       when idle, at each step and between the layers of one; older than
       engine_timeout = hung */
    _Atomic uint64_t  beat_ns;             /* CLOCK_MONOTONIC */
    _Atomic uint64_t  ready_ns;            /* when it became ready */
    _Atomic uint64_t  load_ns;             /* how long loading took */
    _Atomic uint64_t  loaded;              /* of the weights, percent; from
                                              LOADING on */
    _Atomic uint64_t  steps;               /* since this engine's start */
    _Atomic uint64_t  last_step_ns;        /* duration */
    _Atomic uint64_t  stepped_ns;          /* when the last step had ended, or
                                              one began after none */

    /* gauges */
    _Atomic uint64_t  running;             /* sequences */
    _Atomic uint64_t  waiting;
    _Atomic uint64_t  waiting_tokens;
    _Atomic uint64_t  paused;              /* of running and waiting */
    _Atomic uint64_t  prefilling;          /* prompt tokens of running ones to
                                              come */
    mst_stat_class_t  classes[MST_CLASSES];    /* who waits, by
                                                  mst_claim_rank() */

    /* rates, per 1000 seconds; 0 = not known */
    _Atomic uint64_t  prompt_rate;         /* prompt tokens of steps that
                                              have enough of them */
    _Atomic uint64_t  finish_rate;         /* requests, while one more has to
                                              wait */
    _Atomic uint64_t  token_rate;          /* sampled tokens, while there is
                                              work */

    _Atomic uint64_t  blocks_total;
    _Atomic uint64_t  blocks_used;
    _Atomic uint64_t  blocks_cached;
    _Atomic uint64_t  block_tokens;        /* tokens of a block */
    _Atomic uint64_t  slack_tokens;        /* for which the used blocks have
                                              room and nothing yet; once a
                                              second */
    _Atomic uint64_t  weight_size;         /* bytes */

    /* of the device, once a second; 0 = not known */
    _Atomic uint64_t  celsius;             /* its hottest sensor that is read */
    _Atomic uint64_t  milliwatts;
    _Atomic uint64_t  mhz;                 /* of its multiprocessors, now */
    _Atomic uint64_t  memory_used;         /* bytes */
    _Atomic uint64_t  memory_total;

    /* counters, up to the backend's name: they go on over a restart of the
       engine, since the segment stays */
    _Atomic uint64_t  total_steps;
    _Atomic uint64_t  prompt_tokens;
    _Atomic uint64_t  cached_tokens;
    _Atomic uint64_t  completion_tokens;
    _Atomic uint64_t  preemptions;
    _Atomic uint64_t  finished;
    _Atomic uint64_t  refused;
    _Atomic uint64_t  cancelled;
    _Atomic uint64_t  slots_reclaimed;
    _Atomic uint64_t  bad_records;         /* a worker wrote nonsense */
    mst_stat_hist_t   step;                /* steps */
    mst_stat_hist_t   queue;               /* from SUBMIT to ADMIT */
    mst_stat_hist_t   token;               /* from one token of a sequence to
                                              its next */

    char              backend[64];         /* "cpu avx512, 2 threads", written
                                              before READY */
} mst_stat_t;


/* the counters as an array of words */
#define MST_STAT_FIRST  (offsetof(mst_stat_t, total_steps) / 8)
#define MST_STAT_WORDS  (offsetof(mst_stat_t, backend) / 8 - MST_STAT_FIRST)


/* upper bounds of the buckets, inclusive, in nanoseconds */
extern const uint64_t  mst_stat_bounds[MST_STAT_BUCKETS];


static inline void
mst_stat_set(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}


static inline uint64_t
mst_stat_get(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}


/* the bucket of a duration: 0 .. MST_STAT_BUCKETS */
uint32_t mst_stat_bucket(uint64_t ns);

/* n equal ones, by the only writer of this histogram */
void mst_stat_observe(mst_stat_hist_t *h, uint64_t ns, uint32_t n);

/* since the last heartbeat; 0 when it lies in the future or never was */
uint64_t mst_stat_beat_age(const mst_stat_t *stat, uint64_t now_ns);

/* the backend's name, always terminated, printable ASCII only */
void mst_stat_backend(const mst_stat_t *stat, char name[64]);

/* engine, before READY */
void mst_stat_set_backend(mst_stat_t *stat, const char *name);


#endif /* MST_STAT_H */
