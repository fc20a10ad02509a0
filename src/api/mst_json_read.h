
/*
 * One JSON object from a text that is whole, in pieces of bounded work: a
 * body of megabytes must not hold a worker's other streams.  What it becomes
 * is a tree of jansson's.
 *
 * Its own parser, since jansson's takes a text at once, and 40 ns for each of
 * its bytes: eight times what all of it takes here.
 */

#ifndef MST_JSON_READ_H
#define MST_JSON_READ_H

#include <stddef.h>

#include <jansson.h>

#include "api/mst_api_error.h"


#define MST_JSON_MAX_DEPTH     64
#define MST_JSON_MAX_OBJECTS   20000       /* objects and arrays */
#define MST_JSON_MAX_VALUES    400000      /* everything behind a comma */
#define MST_JSON_MAX_KEY       65536       /* bytes */
#define MST_JSON_MAX_NUMBER    1024


typedef struct mst_json_read_s  mst_json_read_t;


/* the text stays the caller's, and where it is; NULL: no memory */
mst_json_read_t *mst_json_read_create(const char *data, size_t len);
void mst_json_read_destroy(mst_json_read_t *r);        /* r may be NULL */

/*
 * MST_OK: all of it; MST_AGAIN: "budget" bytes were looked at, where a value
 * counts as what it costs; MST_ERROR with a 400 in e, or a 500: no memory.
 *
 * Refused are invalid UTF-8, raw control characters, trailing bytes, too deep,
 * too many values.  Duplicate keys: the last wins, as in Python and
 * JavaScript.  The escape \u0000 is legal, but in keys.
 */
int mst_json_read_run(mst_json_read_t *r, size_t budget, mst_api_error_t *e);

/* the tree, which is the caller's then; once, after MST_OK */
json_t *mst_json_read_take(mst_json_read_t *r);


#endif /* MST_JSON_READ_H */
