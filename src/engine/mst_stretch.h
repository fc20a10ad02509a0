
/*
 * How many tokens a step may hold: more than usual while prompts wait long.
 * A long step delays the next token of all that run, a short one spends a
 * larger part of its time on them; so steps are long as long as somebody
 * waits so much longer for his first token than anybody for his next one that
 * this is what is to be mended.
 *
 * "Wait" is that of the prompts in line: what the first of them has behind
 * it, and what the last has before it.  While many come at once that stays
 * the same, until all are served.  A function of what it is given.
 */

#ifndef MST_STRETCH_H
#define MST_STRETCH_H

#include <stdint.h>

#include "base/mst_time.h"

#define MST_STRETCH_FROM  (1200 * MST_MS)
#define MST_STRETCH_TO    (2400 * MST_MS)      /* the longest step */
#define MST_STRETCH_BY    256                  /* tokens; devices have kernels
                                                  for multiples of it */


/* of "least" .. "most" tokens; none but least if most is not more */

static inline uint32_t
mst_stretch(uint32_t least, uint32_t most, uint64_t wait_ns)
{
    uint64_t  n;

    if (most <= least || wait_ns <= MST_STRETCH_FROM) {
        return least;
    }

    if (wait_ns >= MST_STRETCH_TO) {
        return most;
    }

    n = (most - least) * (wait_ns - MST_STRETCH_FROM)
        / (MST_STRETCH_TO - MST_STRETCH_FROM);

    return least + (uint32_t) (n / MST_STRETCH_BY * MST_STRETCH_BY);
}


#endif /* MST_STRETCH_H */
