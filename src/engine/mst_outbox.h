
/*
 * What one request still has to tell its worker: ADMIT, tokens, DONE, or
 * REFUSE alone.  Events go in, records come out as far as the ring has room;
 * tokens that wait are gathered into one record.  So the engine never waits
 * for a worker.  What waits is bounded by the request's max_tokens, and by an
 * echoed prompt, and takes 4 bytes a token, or its record's size where
 * log-probabilities are wanted.
 *
 * One thread, the engine's.
 */

#ifndef MST_OUTBOX_H
#define MST_OUTBOX_H

#include <stdint.h>

#include "base/mst_buf.h"
#include "engine/mst_runner.h"
#include "shm/mst_record.h"
#include "shm/mst_ring.h"


typedef struct {
    mst_record_t  head;            /* id and epochs of its records */
    int           logprobs;        /* tokens stand in "wait" as in TOKENS, else
                                      as bare ids */
    int           admit;           /* ADMIT has to go out */
    uint32_t      cached;
    uint32_t      first;           /* index of the first token that waits */
    mst_buf_t     wait;            /* tokens, or the text of a REFUSE */
    size_t        sent;            /* bytes of it that are out */
    uint16_t      end;             /* MST_REC_DONE or _REFUSE has to go out; 0 =
                                      not yet, or it is out */
    int           ended;           /* nothing more will come in */
    uint32_t      reason;          /* mst_finish_t or mst_refuse_t */
    mst_usage_t   usage;
} mst_outbox_t;


void mst_outbox_init(mst_outbox_t *o, const mst_record_t *submit,
    int logprobs);
void mst_outbox_fini(mst_outbox_t *o);

void mst_outbox_admit(mst_outbox_t *o, uint32_t cached);
int mst_outbox_token(mst_outbox_t *o, const mst_sampled_t *sampled);
                                   /* MST_ERROR: no memory, it is lost */
void mst_outbox_refuse(mst_outbox_t *o, mst_refuse_t reason,
    const char *text);             /* text may be NULL */
void mst_outbox_done(mst_outbox_t *o, mst_finish_t finish,
    const mst_usage_t *usage);

/* MST_OK: all is out; MST_AGAIN: the ring is full.  *published + 1 for each
   record */
int mst_outbox_flush(mst_outbox_t *o, mst_ring_t *ring,
    uint32_t *published);


#endif /* MST_OUTBOX_H */
