
/*
 * "prompt" of a text completion and of /tokenize: a text, token ids, or a
 * list of either.
 */

#ifndef MST_INPUT_H
#define MST_INPUT_H

#include "api/mst_field.h"
#include "api/mst_request.h"
#include "base/mst_buf.h"


#define MST_INPUT_MAX  2048        /* prompts, and answers to all of them */


/*
 * Fills r->inputs and n_inputs, which mst_input_destroy() frees, also after
 * an error.  "text" as in mst_chat_parse().
 */
int mst_input_parse(const mst_field_t *f, mst_request_t *r, mst_buf_t *text);

/* one list of ids, not empty unless "empty" allows it */
int mst_input_ids(const mst_field_t *f, const char *name, const json_t *list,
    int empty, mst_request_t *r);

void mst_input_destroy(mst_request_t *r);


#endif /* MST_INPUT_H */
