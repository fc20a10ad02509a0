
/*
 * Log-probabilities of an answer's tokens, gathered as JSON pieces while it
 * runs.  For text completions the four arrays of the old API are built side by
 * side.  One per answer, one thread.
 */

#ifndef MST_REPLY_LOGPROBS_H
#define MST_REPLY_LOGPROBS_H

#include <stddef.h>
#include <stdint.h>

#include "api/mst_api.h"
#include "base/mst_buf.h"
#include "base/mst_str.h"


typedef struct {
    mst_str_t  bytes;              /* of the token; control: its spelling */
    float      logprob;            /* natural */
} mst_reply_top_t;

/* one token, sampled or the prompt's */
typedef struct {
    mst_reply_top_t         token;
    const mst_reply_top_t  *top;   /* [n_top] */
    uint32_t                n_top;
    size_t                  text_offset;   /* completions: characters before */
    int                     none;          /* completions: nothing came before
                                              this token, its logprob is null */
} mst_reply_logprob_t;

typedef struct {
    mst_api_t  api;
    mst_buf_t  tokens;             /* chat: all there is of each */
    mst_buf_t  numbers;            /* completions: token_logprobs, */
    mst_buf_t  tops;               /* top_logprobs and */
    mst_buf_t  offsets;            /* text_offset */
    uint32_t   n;                  /* tokens since the last reset */
} mst_reply_logprobs_t;


void mst_reply_logprobs_init(mst_reply_logprobs_t *l, mst_api_t api);
void mst_reply_logprobs_fini(mst_reply_logprobs_t *l);
void mst_reply_logprobs_reset(mst_reply_logprobs_t *l);
int mst_reply_logprobs_add(mst_reply_logprobs_t *l,
    const mst_reply_logprob_t *p);

/* bytes that were gathered */
size_t mst_reply_logprobs_size(const mst_reply_logprobs_t *l);

/* what was gathered as one value; l NULL: null */
void mst_reply_logprobs_write(const mst_reply_logprobs_t *l, mst_buf_t *out);


#endif /* MST_REPLY_LOGPROBS_H */
