
/*
 * Calls of tools as they are written into an answer: elements of
 * "tool_calls" as JSON, gathered while the answer runs.
 *
 * A stream's reader empties the buffer with each chunk, and what follows names
 * its call by index; a whole answer keeps all.  One per answer, one thread.
 */

#ifndef MST_REPLY_CALL_H
#define MST_REPLY_CALL_H

#include <stdint.h>

#include "base/mst_buf.h"
#include "base/mst_str.h"


typedef struct {
    mst_buf_t  json;               /* elements with commas between them; the
                                      last is not closed while "open" */
    uint32_t   n;                  /* calls so far */
    int        stream;             /* elements have an index */
    int        open;
} mst_reply_calls_t;


void mst_reply_call_init(mst_reply_calls_t *c, int stream);
void mst_reply_call_fini(mst_reply_calls_t *c);

/* MST_OK or MST_ERROR: memory */
int mst_reply_call_begin(mst_reply_calls_t *c, mst_str_t name,
    const char *id);
int mst_reply_call_arguments(mst_reply_calls_t *c, mst_str_t piece);

/* elements until now, complete; the next piece begins a new one */
mst_str_t mst_reply_call_take(mst_reply_calls_t *c);

/* what was taken is sent */
void mst_reply_call_reset(mst_reply_calls_t *c);


#endif /* MST_REPLY_CALL_H */
