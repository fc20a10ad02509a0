
/*
 * Answers as JSON and as server-sent events.  Writers append to a buffer and
 * never look back, so that a stream's chunks and a whole answer come from the
 * same code.  One thread an answer.
 */

#ifndef MST_REPLY_H
#define MST_REPLY_H

#include <stdint.h>

#include "api/mst_reply_logprobs.h"
#include "api/mst_request.h"
#include "base/mst_buf.h"
#include "base/mst_outcome.h"
#include "base/mst_str.h"


/* what stands in every object of one answer */
typedef struct {
    mst_api_t   api;               /* CHAT or COMPLETION */
    mst_str_t   id;                /* "chatcmpl-..." */
    mst_str_t   model;             /* the name that the client sent */
    int64_t     created;           /* Unix seconds */
    int         include_usage;     /* stream: "usage":null in chunks */
    mst_str_t   head;              /* stream: what mst_reply_sse_head() wrote,
                                      or empty: then it is written anew */
} mst_reply_t;


/* what all chunks of a stream begin with, up to their first choice: 150 bytes
   that need not be put together for each token */
int mst_reply_sse_head(const mst_reply_t *r, mst_buf_t *out);


/* what an answer is made of, or a piece of it; the last two: chats alone */
typedef struct {
    mst_str_t  text;
    mst_str_t  thought;            /* "reasoning_content" */
    mst_str_t  calls;              /* JSON: elements of "tool_calls", see
                                      mst_reply_call.h */
} mst_reply_part_t;


/*
 * Stream: "data: {...}\n\n".  first: chat's opening chunk with the role;
 * part: a piece of the answer (logprobs NULL or what was gathered since);
 * finish: finish_reason "stop" | "length" | "tool_calls"; usage: choices []
 * at the end; done: "data: [DONE]\n\n"; error: the error object as an event,
 * after which no [DONE] may follow.
 */
int mst_reply_sse_first(const mst_reply_t *r, uint32_t index, mst_buf_t *out);
int mst_reply_sse_part(const mst_reply_t *r, uint32_t index,
    const mst_reply_part_t *part, const mst_reply_logprobs_t *logprobs,
    mst_buf_t *out);
int mst_reply_sse_finish(const mst_reply_t *r, uint32_t index,
    const char *reason, mst_buf_t *out);
int mst_reply_sse_usage(const mst_reply_t *r, const mst_usage_t *u,
    mst_buf_t *out);
int mst_reply_sse_done(mst_buf_t *out);
int mst_reply_sse_error(const mst_api_error_t *e, mst_buf_t *out);


/* the whole answer; one entry per choice */
typedef struct {
    mst_reply_part_t             part;
    const mst_reply_logprobs_t  *logprobs;     /* or NULL */
    const char                  *reason;
} mst_reply_choice_t;

int mst_reply_json(const mst_reply_t *r, const mst_reply_choice_t *choices,
    uint32_t n, const mst_usage_t *u, mst_buf_t *out);


typedef struct {
    mst_str_t  id;
    int64_t    created;            /* Unix seconds */
    uint32_t   max_model_len;      /* tokens */
    int        chat;               /* it has a chat template */
    int        fim;                /* it fills in the middle */
    int        tools;              /* its answers may call tools */
} mst_reply_model_t;

/* a card for the clients of OpenAI and of Mistral, whose "type" and
   "capabilities" the latter insist on */

int mst_reply_model(const mst_reply_model_t *m, mst_buf_t *out);
int mst_reply_models(const mst_reply_model_t *m, size_t n, mst_buf_t *out);

typedef struct {
    const uint32_t  *ids;              /* [n] */
    size_t           n;
    uint32_t         max_model_len;
    mst_str_t      (*name)(const void *data, uint32_t id);
                                       /* of a token; NULL: not wanted */
    const void      *data;
    size_t           done;             /* 0 at first: ids, then names */
} mst_reply_tokens_t;


/* {"tokens":[..],"count":n,"max_model_len":n[,"token_strs":[..]]}, at least
   one and at most "budget" ids and names of it; MST_AGAIN: there are more */
int mst_reply_tokens(mst_reply_tokens_t *t, size_t budget, mst_buf_t *out);

/* {"prompt":"..."} */
int mst_reply_detokenize(mst_str_t text, mst_buf_t *out);


#endif /* MST_REPLY_H */
