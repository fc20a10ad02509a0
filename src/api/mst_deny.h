
/*
 * Patterns (PCRE2) that no text may match.
 *
 * A pattern comes from the operator, the text from anybody, and a search may
 * take time that grows with any power of the text's size.  Three bounds hold
 * it: the steps of one try at one place, the time that all of a text may
 * take for one pattern, which grows with the text's size and no faster, and
 * a search that stops and goes on, so that a host that serves others never
 * waits long.  A pattern that runs into a bound could not be decided; it is
 * the host that refuses the text then.
 *
 * Patterns and texts are UTF-8; \w and \d know all of Unicode.  One thread
 * at a time.
 */

#ifndef MST_DENY_H
#define MST_DENY_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_str.h"


typedef struct mst_deny_s  mst_deny_t;


/* where the search in one text stands; zeroed for its start */
typedef struct {
    size_t    pattern;             /* that is searched for, or was found */
    size_t    offset;              /* of the first place not yet tried */
    size_t    window;              /* places to be tried at once; 0: begin */
    uint64_t  spent_ns;            /* the thread's time for this pattern */
} mst_deny_at_t;


mst_deny_t *mst_deny_create(void);             /* NULL: memory */
void mst_deny_destroy(mst_deny_t *d);          /* d may be NULL */

/*
 * "~*" in front of a pattern: letters of either case; "~": nothing more.
 * MST_ERROR with a sentence: it is no pattern, or one that is found in the
 * empty text and thus in any.
 */
int mst_deny_add(mst_deny_t *d, mst_str_t pattern, mst_err_t *err);

/* as it was added */
mst_str_t mst_deny_pattern(const mst_deny_t *d, size_t i);

/*
 * MST_OK: no pattern is in the text, which is valid UTF-8.  MST_DECLINED:
 * at->pattern is.  MST_BUSY: that one could not be decided within its
 * bounds.  MST_AGAIN: the monotonic time end_ns has come; with the same text
 * it goes on.  MST_ERROR: memory.
 */
int mst_deny_run(mst_deny_t *d, mst_deny_at_t *at, mst_str_t text,
    uint64_t end_ns);


#endif /* MST_DENY_H */
