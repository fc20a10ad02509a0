
/*
 * A request's life: its tokens, its blocks, its parameters, where it stands.
 *
 * WAITING  has no blocks.  Arrived, or preempted: then the tokens it already
 *          sampled count as a part of what must be computed again, and the
 *          answer goes on where it was.
 * RUNNING  has blocks for all its tokens.  Of n_tokens the first n_computed
 *          are in the KV memory; those behind are what a step may compute,
 *          and the last one's logits give the next token.
 *
 * The engine creates and destroys it, the scheduler moves it.  One thread.
 */

#ifndef MST_SEQ_H
#define MST_SEQ_H

#include <stdint.h>

#include "base/mst_list.h"
#include "base/mst_outcome.h"
#include "base/mst_params.h"
#include "engine/mst_engine.h"
#include "engine/mst_heap.h"
#include "engine/mst_prefix.h"
#include "engine/mst_runner.h"


#define MST_SEQ_NO_ITEM  UINT32_MAX


typedef enum {
    MST_SEQ_WAITING,
    MST_SEQ_RUNNING
} mst_seq_state_t;


typedef enum {                     /* where it stands: mst_order.h */
    MST_SEQ_NO_LINE = 0,
    MST_SEQ_IN_WAITING,
    MST_SEQ_IN_PREFILLS,
    MST_SEQ_IN_DECODES
} mst_seq_line_t;


struct mst_flow_s;

typedef struct mst_seq_s  mst_seq_t;

struct mst_seq_s {
    uint64_t          tag;
    uint64_t          arrival;     /* 1, 2, ... in the order of submits */
    mst_params_t      params;
    mst_bias_t       *bias;        /* [n_bias], in this allocation */
    uint32_t         *stop_ids;    /* [n_stop], in this allocation */
    uint32_t          n_bias;
    uint32_t          n_stop;
    uint8_t           salt[MST_SALT_SIZE];
    mst_claim_t       claim;
    uint64_t          submit_ns;
    uint64_t          deadline_ns;
    int               no_wait;

    uint32_t         *tokens;      /* [size_tokens] prompt and answer */
    uint32_t          n_tokens;
    uint32_t          n_prompt;
    uint32_t          n_computed;
    uint32_t          n_scored;    /* of the prompt's tokens: reported, where
                                      MST_PARAMS_ECHO asks for it */
    uint32_t          size_tokens;

    uint32_t         *blocks;      /* [size_blocks] the table */
    uint32_t          n_blocks;    /* in the table */
    uint32_t          n_gone;      /* the first of them, given back */
    uint32_t          size_blocks;
    uint32_t          n_named;     /* first blocks known to the cache */
    mst_prefix_at_t   at;          /* behind them */
    uint32_t          promise;     /* more blocks that are kept for it */

    struct mst_flow_s *flow;       /* who pays for its tokens */
    uint32_t          uncached;    /* of its tokens, when it began to wait */
    uint32_t          n_charged;   /* of its tokens are paid for */
    int               wants;       /* a token, now */

    mst_seq_state_t   state;
    uint64_t          ready_ns;    /* in no step before: the later of ... */
    uint64_t          sampled_ns;  /* what the runner wants, and ... */
    uint64_t          paced_ns;    /* what its pace does */
    uint64_t          turn_ns;     /* when its last token was due, 0 = none */
    int               paused;      /* in no step at all */
    int               pinned;      /* running, and its promise is enough: its
                                      blocks are not taken for others */
    mst_seq_line_t    line;
    uint32_t          item;        /* place in this step, MST_SEQ_NO_ITEM */
    uint32_t          n_step;      /* tokens to compute in this step */
    uint32_t          ahead[2];    /* place in the engine's steps that are
                                      under way, MST_SEQ_NO_ITEM */
    int               parked;      /* in no line until the step that is under
                                      way has brought its token */

    mst_list_t        all;         /* engine: in order of arrival */
    mst_list_t        queue;       /* decodes, prefills, or leaving */
    mst_list_t        unstarted;   /* no_waits or yields */
    mst_list_t        stalled;     /* paused and running */
    mst_heap_node_t   waiting;     /* in its flow */
    mst_heap_node_t   running;     /* in its flow */
    mst_heap_node_t   timed;       /* ready_ns is to come, any state */
    mst_heap_node_t   deadline;

    int               started;     /* had its blocks once: ADMIT is sent */
    int               admitted;    /* in this step, for the first time */
    mst_refuse_t      refuse;      /* why it leaves, 0 = see finish */
    mst_finish_t      finish;

    uint64_t          started_ns;  /* first scheduled */
    uint64_t          token_ns;    /* end of the step of its first token */
    uint64_t          first_ns;    /* start of that step */
    mst_usage_t       usage;       /* times are filled at the end */

    mst_seq_t        *next;        /* engine: in a bucket of tags */
};


/* copies all of *s, which is checked; NULL: memory */
mst_seq_t *mst_seq_create(const mst_submit_t *s, uint64_t now_ns);
void mst_seq_destroy(mst_seq_t *q);            /* q may be NULL; it holds no
                                                  blocks any more */

/* room for so many; MST_ERROR: memory */
int mst_seq_reserve_tokens(mst_seq_t *q, uint32_t n);
int mst_seq_reserve_blocks(mst_seq_t *q, uint32_t n);

/* when it may be in a step again: after what the runner asks for, after a
   token at a pace, and when the pace changes */
void mst_seq_ready(mst_seq_t *q, uint64_t sampled_ns);
void mst_seq_take_turn(mst_seq_t *q, uint64_t now_ns);
void mst_seq_set_pace(mst_seq_t *q, uint32_t pace);

/* what the sampler may see of it */
void mst_seq_sample(const mst_seq_t *q, mst_sample_t *sample);

/* takes a sampled token, there is room; returns why the answer ends with
   it, 0: it goes on */
mst_finish_t mst_seq_append(mst_seq_t *q, const mst_sampled_t *sampled,
    uint32_t context);

/* its two halves: a place for the token that the index-th sequence of a step
   will get (1: its answer goes on with none behind it), and the token */
int mst_seq_expect(mst_seq_t *q, uint32_t index, uint32_t context);
mst_finish_t mst_seq_take(mst_seq_t *q, uint32_t at,
    const mst_sampled_t *sampled, uint32_t context);

/* fills the times; "now" is the end of the request */
const mst_usage_t *mst_seq_close(mst_seq_t *q, uint64_t now_ns);


/* tokens of the prompt are still to be reported */
static inline int
mst_seq_echoes(const mst_seq_t *q)
{
    return (q->params.flags & MST_PARAMS_ECHO) != 0
           && q->n_scored < q->n_prompt;
}


/* its last token is not known yet */
static inline int
mst_seq_expects(const mst_seq_t *q)
{
    return (q->tokens[q->n_tokens - 1] & MST_SAMPLE_FED) != 0;
}


/* of them the last may be expected */
static inline uint32_t
mst_seq_completion(const mst_seq_t *q)
{
    return q->n_tokens - q->n_prompt;
}


#endif /* MST_SEQ_H */
