
/*
 * Unicode's code points from U+0080 on as runs of equal bits (MST_UNICODE_*),
 * for mst_unicode.c alone, which answers for single ones.
 *
 * Constant: any thread.
 */

#ifndef MST_UNICODE_RUNS_H
#define MST_UNICODE_RUNS_H

#include <stddef.h>
#include <stdint.h>

#include "text/mst_unicode.h"


#define MST_UNICODE_RUNS    3185
#define MST_UNICODE_BLOCK   7          /* bits of a code point in its block */
#define MST_UNICODE_BLOCKS  1024


/* where each begins, in order, and in the highest byte its bits */
extern const uint32_t  mst_unicode_runs[MST_UNICODE_RUNS];

/* of a block: the last run that begins at or before its first code point, and
   of the one behind all of them */
extern const uint16_t  mst_unicode_first[MST_UNICODE_BLOCKS + 1];


#endif /* MST_UNICODE_RUNS_H */
