
/*
 * The state file of budgets, as text:
 *
 *     mistral_quota 1
 *     1764460800 1234 alice
 *     1764460800 56 key%20with%20spaces
 *     end 2
 *
 * start of the window, tokens used, key; bytes that are no letters, digits or
 * signs of ASCII, and "%", as %XX.  A file without its end, or with anything
 * else in it, is broken as a whole.
 */

#ifndef MST_TALLY_H
#define MST_TALLY_H

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "base/mst_str.h"


#define MST_TALLY_KEY  255                     /* bytes of a key at most */


typedef struct {
    int64_t     start;         /* >= 0 */
    uint64_t    used;
    mst_str_t   key;           /* decoded */
} mst_tally_t;

typedef void (*mst_tally_pt)(void *data, const mst_tally_t *t);


/* in this order; the buffer remembers a failure */
void mst_tally_begin(mst_buf_t *out);
void mst_tally_add(mst_buf_t *out, const mst_tally_t *t);
void mst_tally_end(mst_buf_t *out, uint64_t n);

/* every entry, or MST_ERROR with a sentence that names the line and none */
int mst_tally_parse(mst_str_t text, mst_tally_pt add, void *data,
    mst_err_t *err);


#endif /* MST_TALLY_H */
