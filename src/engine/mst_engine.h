
/*
 * The engine: sequences in, steps, tokens out.  No thread of its own: the
 * host calls mst_engine_step() in a loop (mst_serve.c for nginx,
 * mistral_generate.c for the shell).  Deterministic: the same calls with the
 * same times give the same events.  One thread.
 */

#ifndef MST_ENGINE_H
#define MST_ENGINE_H

#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_log.h"
#include "base/mst_outcome.h"
#include "base/mst_params.h"
#include "engine/mst_runner.h"


typedef struct {
    uint64_t             tag;          /* the host's name for it, unique while
                                          it lives */
    const uint32_t      *prompt;       /* [n_prompt], copied */
    uint32_t             n_prompt;     /* >= 1 */
    mst_params_t         params;
    const uint32_t      *stop_ids;     /* [n_stop], copied; with the model's
                                          own already in it unless ignored */
    uint32_t             n_stop;
    const mst_bias_t    *bias;         /* [n_bias], copied */
    uint32_t             n_bias;
    uint8_t              salt[MST_SALT_SIZE];  /* tenant of the prefix cache;
                                          all zero = the common one */
    uint64_t             deadline_ns;  /* refuse if not started by then; 0 =
                                          none */
    mst_claim_t          claim;        /* its turn, memory and speed */
    int                  no_wait;      /* refuse rather than queue */
} mst_submit_t;


typedef enum {
    MST_EVENT_ADMIT,               /* has its blocks: cached is known */
    MST_EVENT_REFUSE,              /* the only event of a refused request */
    MST_EVENT_PROMPT,              /* one token of an echoed prompt; the first
                                      has no log-probability: 0 */
    MST_EVENT_TOKEN,               /* one sampled token (stop ids too) */
    MST_EVENT_DONE                 /* the last event; blocks are free */
} mst_event_type_t;


typedef struct {
    mst_event_type_t      type;
    uint64_t              tag;
    mst_refuse_t          refuse;      /* REFUSE */
    const char           *text;        /* REFUSE INVALID: a sentence, or NULL */
    uint32_t              cached;      /* ADMIT: tokens */
    const mst_sampled_t  *sampled;     /* PROMPT, TOKEN */
    mst_finish_t          finish;      /* DONE */
    const mst_usage_t    *usage;       /* DONE */
} mst_event_t;


/* called from inside submit, cancel and step; must not call the engine */
typedef void (*mst_event_pt)(void *data, const mst_event_t *ev);


typedef struct {
    uint32_t          max_batch;       /* sequences running at once */
    uint32_t          prefill_chunk;   /* token budget of a step */
    uint32_t          prefill_most;    /* and while prompts wait long; 0, or
                                          less: the same */
    int               no_prefix_cache; /* tests */
    int               keep_logits;     /* for mst_engine_logits() */
    uint64_t        (*clock)(void);    /* measures the steps; NULL =
                                          mst_time_ns(), tests give theirs */
    mst_event_pt      handler;
    void             *data;
    const mst_log_t  *log;             /* may be NULL */
} mst_engine_conf_t;


typedef struct {                   /* a snapshot, for status pages */
    uint32_t  running;
    uint32_t  waiting;
    uint64_t  waiting_tokens;
    uint32_t  blocks_total;
    uint32_t  blocks_used;         /* held by a live sequence */
    uint32_t  blocks_cached;       /* held by the prefix cache alone */
    uint64_t  steps;
    uint64_t  last_step_ns;        /* duration */
    uint64_t  waited_ns;           /* for the runner, all steps */
    uint64_t  prompt_tokens;       /* counters since start */
    uint64_t  cached_tokens;
    uint64_t  completion_tokens;
    uint64_t  preemptions;
    uint64_t  finished;
    uint64_t  refused;
    uint32_t  paused;              /* of running and waiting */
    uint64_t  prefilling;          /* prompt tokens of running ones to come */
    double    prompt_rate;         /* prompt tokens per second of steps that
                                      are full of them; 0 = not known */
    double    finish_rate;         /* requests per second in which one more
                                      had to wait */
    double    token_rate;          /* sampled tokens per second of work */
} mst_engine_stats_t;


typedef struct mst_engine_s  mst_engine_t;

struct mst_order_class_s;


/* copies *runner and takes over what is behind it; NULL with a sentence: the
   runner is still the caller's */
mst_engine_t *mst_engine_create(const mst_engine_conf_t *conf,
    mst_runner_t *runner, mst_err_t *err);
void mst_engine_destroy(mst_engine_t *e);      /* no events; may be NULL */

/* the outcome is an event: ADMIT (maybe in a later step) or REFUSE */
void mst_engine_submit(mst_engine_t *e, const mst_submit_t *s,
    uint64_t now_ns);

/* DONE follows at once; an unknown tag is ignored */
void mst_engine_cancel(mst_engine_t *e, uint64_t tag, uint64_t now_ns);

/* from its next token on; an unknown tag is ignored */
void mst_engine_pace(mst_engine_t *e, uint64_t tag, uint32_t pace,
    uint64_t now_ns);

/* out of all steps until it is let go on, and its blocks are the first to be
   taken where there is need; an unknown tag is ignored */
void mst_engine_pause(mst_engine_t *e, uint64_t tag, int on, uint64_t now_ns);

/*
 * One step; its tokens may come in the next call, if the runner takes steps
 * in halves.  MST_OK: something was computed, call again; MST_AGAIN: nothing
 * to do before *wake_ns (0 = until the next submit); MST_ERROR with a
 * sentence: the engine is dead, every sequence got DONE with FINISH_ERROR.
 */
int mst_engine_step(mst_engine_t *e, uint64_t now_ns, uint64_t *wake_ns,
    mst_err_t *err);

void mst_engine_stats(const mst_engine_t *e, mst_engine_stats_t *s);

/* tokens for which running sequences have blocks and nothing in them yet;
   looks at each of them */
uint64_t mst_engine_slack(const mst_engine_t *e);

/* no prefix of what was computed until now is ever found again; the number
   of blocks that were known */
uint32_t mst_engine_forget(mst_engine_t *e);

/* [MST_CLASSES] who waits in line, by rank (mst_claim_rank()) */
const struct mst_order_class_s *mst_engine_classes(const mst_engine_t *e);

/* rows of the last step's logits; NULL for the null model, and where a
   device samples without keep_logits */
const float *mst_engine_logits(const mst_engine_t *e);


#endif /* MST_ENGINE_H */
