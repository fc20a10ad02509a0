
/*
 * A claim of a token, by its name or a path, and as text: what a variable
 * of the configuration shows.  Any thread.
 */

#ifndef MST_CLAIM_H
#define MST_CLAIM_H

#include <jansson.h>

#include "base/mst_buf.h"
#include "base/mst_str.h"


/* the member of a member of ... ; NULL: there is none */
const json_t *mst_claim_path(const json_t *claims, const mst_str_t *names,
    size_t n);

/* the claim of this name, else "outer__inner" as a path; NULL: none */
const json_t *mst_claim_name(const json_t *claims, mst_str_t name);

/*
 * Appends a string as it is, a number, true or false, the elements of an
 * array with commas between them; what is nested deeper is compact JSON.
 * MST_DECLINED: null, or control characters, which have no place in a
 * header or a log.  MST_ERROR: out of memory.
 */
int mst_claim_text(const json_t *value, mst_buf_t *out);


#endif /* MST_CLAIM_H */
