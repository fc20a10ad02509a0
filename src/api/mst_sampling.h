
/*
 * How the answer is drawn and where it ends: the fields that chat and text
 * completions share.
 */

#ifndef MST_SAMPLING_H
#define MST_SAMPLING_H

#include "api/mst_field.h"
#include "api/mst_request.h"
#include "base/mst_buf.h"


/*
 * Fills params, seed, bias, stop, stop_ids, n, logprobs and the limits of r,
 * which was zeroed and whose arrays its owner frees, also after an error.
 * "text" as in mst_chat_parse().
 */
int mst_sampling_parse(const mst_field_t *f, mst_request_t *r,
    mst_buf_t *text);

/* a list of token ids, each below 2^32, into a fresh array */
int mst_sampling_ids(const mst_field_t *f, const char *name,
    const json_t *list, uint32_t **ids, size_t *n);


#endif /* MST_SAMPLING_H */
