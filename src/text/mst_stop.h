
/*
 * Stop strings across token and chunk borders: bytes that may be the
 * beginning of a stop string are held back, no byte longer than needed.  Of
 * several matches the one that ends first wins; of those that end together
 * the one that began first.  The stop string itself is never sent.
 *
 * One per answer; the patterns are copied.
 */

#ifndef MST_STOP_H
#define MST_STOP_H

#include "base/mst_buf.h"
#include "base/mst_str.h"


typedef struct mst_stop_s  mst_stop_t;


/* n strings of >= 1 byte; NULL: memory */
mst_stop_t *mst_stop_create(const mst_str_t *stops, size_t n);
void mst_stop_destroy(mst_stop_t *s);          /* s may be NULL */

/*
 * Appends to "out" what is certain to be sent.  MST_OK: go on; MST_DONE: a
 * stop string is complete, "out" got the text before it and nothing more
 * may be pushed; MST_ERROR: memory.
 */
int mst_stop_push(mst_stop_t *s, const char *data, size_t len,
    mst_buf_t *out);

/* the answer ended by itself: appends what is held */
int mst_stop_finish(mst_stop_t *s, mst_buf_t *out);


#endif /* MST_STOP_H */
