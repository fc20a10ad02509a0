
/*
 * What the body of an answer says, as an event stream or as one object:
 * when text comes, usage, errors.
 */

#ifndef MISTRAL_BENCH_ANSWER_H
#define MISTRAL_BENCH_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"


typedef struct {
    int        events;         /* the body is an event stream */
    uint64_t   n_text;         /* events with text so far */
    int        done;           /* "[DONE]" came */
    int        error;          /* the server said so inside a stream */
    int        has_usage;
    uint64_t   prompt;         /* tokens */
    uint64_t   cached;
    uint64_t   completion;
    mst_buf_t  body;           /* the object, or a line begun */
    mst_buf_t  data;           /* of the event that is being read */
    int        has_data;
} mistral_answer_t;


void mistral_answer_init(mistral_answer_t *a);
void mistral_answer_fini(mistral_answer_t *a);
void mistral_answer_reset(mistral_answer_t *a, int events);

/* MST_OK, or MST_ERROR: too large, or no memory */
int mistral_answer_feed(mistral_answer_t *a, const char *p, size_t n);

/* the end of a body that is no stream: MST_OK if it holds an answer */
int mistral_answer_whole(mistral_answer_t *a);


#endif /* MISTRAL_BENCH_ANSWER_H */
