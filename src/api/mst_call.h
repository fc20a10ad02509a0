
/*
 * "tool_calls" of an assistant's message: calls that a history has.
 */

#ifndef MST_CALL_H
#define MST_CALL_H

#include "api/mst_field.h"
#include "base/mst_buf.h"
#include "base/mst_message.h"


/* how many calls the message has; also the one of "function_call" */
size_t mst_call_count(const json_t *message);

/*
 * Checks and fills calls[*n], which has room for mst_call_count(), in the
 * form of OpenAI, whose arguments are a string of JSON, or Mistral's, who may
 * send an object.  Strings are copied into "text", or owned by the call.
 */
int mst_call_parse(const mst_field_t *f, mst_buf_t *text, mst_call_t *calls,
    size_t *n);

void mst_call_free(mst_call_t *calls, size_t n);   /* the array, too */

/* a JSON value as compact text, which mst_free() frees; NULL: memory */
char *mst_call_dump(const json_t *value, size_t *len);


#endif /* MST_CALL_H */
