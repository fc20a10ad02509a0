
/*
 * The records that cross the boundary, and their checks.  A reader copies a
 * record out of the ring and checks the copy, since the peer may write while
 * it reads.
 *
 * Of a request: SUBMIT, then from the engine either REFUSE alone, or ADMIT
 * (once), TOKENS (any number), DONE.  After CANCEL comes DONE too, or nothing
 * if the request had ended before.  PACE, PAUSE and RESUME change how fast it
 * goes on and have no answer; tokens that were on their way still come.
 * Records of another slot_epoch or engine_epoch than the segment's are
 * skipped (mst_shm.h), and so are those of a request that has ended.
 */

#ifndef MST_RECORD_H
#define MST_RECORD_H

#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_outcome.h"
#include "base/mst_params.h"


typedef enum {
    MST_REC_PAD = 0,               /* skip to the start of the ring */
    MST_REC_SUBMIT,                /* worker to engine */
    MST_REC_CANCEL,                /* worker to engine: head only */
    MST_REC_ADMIT,                 /* engine to worker */
    MST_REC_REFUSE,
    MST_REC_TOKENS,
    MST_REC_DONE,
    MST_REC_PACE,                  /* worker to engine */
    MST_REC_PAUSE,                 /* worker to engine: head only */
    MST_REC_RESUME,                /* worker to engine: head only */
    MST_REC_TYPES
} mst_rec_type_t;


typedef struct {
    uint32_t  len;                 /* bytes with this head, multiple of 8 */
    uint16_t  type;                /* mst_rec_type_t */
    uint16_t  unused;
    uint64_t  id;                  /* the worker's name of the request, unique
                                      in a slot's epoch */
    uint32_t  slot_epoch;
    uint32_t  engine_epoch;
} mst_record_t;                    /* 24 bytes */


typedef struct {
    mst_record_t  head;
    mst_params_t  params;
    mst_claim_t   claim;
    uint8_t       salt[MST_SALT_SIZE];
    uint64_t      deadline_ns;     /* to be started by; 0 = none */
    uint32_t      no_wait;         /* refuse rather than queue */
    uint32_t      unused;          /* 0 */
    uint32_t      n_prompt;        /* >= 1 */
    uint32_t      n_stop;          /* <= MST_MAX_STOP_IDS */
    uint32_t      n_bias;          /* <= MST_MAX_BIAS */
    uint32_t      place_tokens;    /* tokens of the queue place it holds, given
                                      back by the engine */
    /* uint32_t    prompt[n_prompt]; uint32_t stop_ids[n_stop];
       mst_bias_t  bias[n_bias]; */
} mst_rec_submit_t;


typedef struct {
    mst_record_t  head;
    uint32_t      cached;          /* prompt tokens found in the cache */
    uint32_t      unused;
} mst_rec_admit_t;


typedef struct {
    mst_record_t  head;
    uint32_t      reason;          /* mst_refuse_t */
    char          text[132];       /* NUL-terminated, for the log */
} mst_rec_refuse_t;


/* n tokens; each is one of these, followed by its n_top alternatives */
typedef struct {
    uint32_t  id;
    float     logprob;
    uint32_t  n_top;               /* <= MST_MAX_TOP_LOGPROBS */
    uint32_t  unused;              /* 0 */
} mst_rec_token_t;

typedef struct {
    uint32_t  id;
    float     logprob;
} mst_rec_top_t;

typedef struct {
    mst_record_t  head;
    uint32_t      first;           /* index of the first token in the answer,
                                      with MST_PARAMS_ECHO in the prompt and
                                      the answer: a gap or repetition is a
                                      broken peer */
    uint32_t      n;               /* >= 1 */
} mst_rec_tokens_t;


typedef struct {
    mst_record_t  head;
    uint32_t      finish;          /* mst_finish_t */
    uint32_t      unused;
    mst_usage_t   usage;
} mst_rec_done_t;


typedef struct {
    mst_record_t  head;
    uint32_t      pace;            /* as in mst_claim_t */
    uint32_t      unused;          /* 0 */
} mst_rec_pace_t;


/* reasons as names for logs, headers and JSON; never NULL */
const char *mst_record_finish_name(uint32_t finish);
const char *mst_record_refuse_name(uint32_t reason);

/* bytes of a SUBMIT, rounded up to 8; 0 = does not fit into 32 bits */
uint32_t mst_record_submit_len(uint32_t n_prompt, uint32_t n_stop,
    uint32_t n_bias);

/*
 * Checks of a copied record of "len" bytes (len is the ring's, not the
 * record's own claim): counts fit the length, enumerations are known, ids are
 * below n_vocab, parameters and claim pass their checks.  MST_OK or MST_ERROR
 * with a sentence.  Pointers go into the copy.
 */
int mst_record_check_submit(const mst_record_t *rec, uint32_t len,
    uint32_t n_vocab, const uint32_t **prompt, const uint32_t **stop_ids,
    const mst_bias_t **bias, mst_err_t *err);
int mst_record_check(const mst_record_t *rec, uint32_t len, mst_err_t *err);

/* of a checked record: 1 = a worker's, 0 = the engine's */
int mst_record_to_engine(const mst_record_t *rec);

/*
 * Walks the tokens of a checked TOKENS record: *p starts as rec + 1 of type
 * mst_rec_tokens_t; returns the token and its alternatives, NULL at the end.
 */
const mst_rec_token_t *mst_record_next_token(const mst_rec_tokens_t *rec,
    const unsigned char **p, const mst_rec_top_t **top);


#endif /* MST_RECORD_H */
