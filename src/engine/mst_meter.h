
/*
 * How fast an engine is: requests that end while others wait or no place is
 * free, tokens that are sampled while there is work.  Other time is not
 * counted: it says what was asked for, and nothing of what could be done.
 * (Prompts: mst_reckon.h.)  One thread.
 */

#ifndef MST_METER_H
#define MST_METER_H

#include <stdint.h>

#include "engine/mst_rate.h"


typedef struct {
    mst_rate_t  finishes;
    mst_rate_t  tokens;
    uint64_t    busy_ns;           /* counted until then; 0 = there was no
                                      work */
    uint64_t    n_finished;        /* of all, then */
    uint64_t    n_tokens;
} mst_meter_t;


void mst_meter_init(mst_meter_t *m);

/* there may be work from now on */
void mst_meter_begin(mst_meter_t *m, uint64_t now_ns);

/* what ended and was sampled since the beginning of all; full: so that one
   more would have had to wait; more: there is work left */
void mst_meter_add(mst_meter_t *m, uint64_t n_finished, uint64_t n_tokens,
    uint64_t now_ns, int full, int more);


#endif /* MST_METER_H */
