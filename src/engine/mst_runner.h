
/*
 * What computes a step for the engine: a model (mst_runner_model.c) or the
 * null model (mst_runner_null.c).  The scheduler, the block pool and the
 * boundary are the same for both.  CUDA samples on the device, so sampling
 * is the runner's part of a step and not the engine's.
 */

#ifndef MST_RUNNER_H
#define MST_RUNNER_H

#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_sample.h"
#include "file/mst_script.h"
#include "model/mst_forward.h"


typedef struct {
    mst_batch_t    batch;
    mst_sample_t  *samples;        /* [batch.n_seqs], for seqs whose logits
                                      are LAST or ALL */
    mst_sampled_t *sampled;        /* [batch.n_seqs] results, same index;
                                      untouched for LOGITS_NONE and where it is
                                      silent */
    mst_sampled_t *scored;         /* [batch.n_tokens] of seqs whose logits are
                                      ALL: what each row says of the token
                                      behind it, where that is the prompt's;
                                      others are untouched */
    uint64_t       now_ns;
    int            keep_logits;    /* wanted, for "generate --logits" */
    const float   *logits;         /* result: all rows; NULL: there are none,
                                      or a device kept them */
} mst_step_t;


typedef struct {
    mst_model_info_t   info;
    void              *data;

    /* MST_OK or MST_ERROR with a sentence: the engine is then dead */
    int              (*step)(void *data, mst_step_t *step, mst_err_t *err);

    /*
     * The two halves of a step, where one may be prepared while another
     * runs: wait() ends the older of at most two that were launched.  Of a
     * step only the results are used after launch().  The next one launched
     * may hold tokens MST_SAMPLE_FED | index of a sequence of the one before
     * it; no result is MST_AGAIN.  NULL: step() alone, and for keep_logits.
     */
    int              (*launch)(void *data, mst_step_t *step, mst_err_t *err);
    int              (*wait)(void *data, mst_err_t *err);

    void             (*destroy)(void *data);
} mst_runner_t;


/* takes the model over; after MST_ERROR it is still the caller's */
int mst_runner_model(mst_runner_t *r, mst_model_t *m, mst_err_t *err);


#define MST_NULL_BLOCK_TOKENS  16

typedef struct {
    double        rate;            /* tokens per second and sequence; 0 = at
                                      once */
    uint64_t      delay_ns;        /* to the first token */
    uint32_t      len;             /* tokens before it ends itself; 0 = only
                                      at max_tokens */
    const char   *text;            /* [text_len] answer instead of the fox */
    size_t        text_len;        /* given: sent once, then it ends */
    const mst_script_t  *script;   /* instead of a text: the entry of the
                                      request's turn, or else the last; NULL:
                                      none */
    uint32_t      n_vocab;         /* with a script; 0 = 256 */
    uint32_t      context;         /* >= 2 */
    uint32_t      n_blocks;        /* of MST_NULL_BLOCK_TOKENS; 0 = enough for
                                      64 sequences that fill the context */
} mst_null_conf_t;


/* text and script are copied.  Without a script: token id = byte value,
   n_vocab 256, no end-of-sequence token.  The len-th token, and a script's
   last, carries "end", so that it counts len tokens */
int mst_runner_null(mst_runner_t *r, const mst_null_conf_t *conf,
    mst_err_t *err);


#endif /* MST_RUNNER_H */
