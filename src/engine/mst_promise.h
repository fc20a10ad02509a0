
/*
 * Times that first tokens were promised for: who comes too late for his, whose
 * start would break his or another's, and how long a step may be.  Pure
 * logic, asked by the scheduler while it plans.
 *
 * A promise is made by a start: what waits may still be refused.  It binds
 * against those of its own class; a higher one comes first in any case.
 */

#ifndef MST_PROMISE_H
#define MST_PROMISE_H

#include <stdint.h>

#include "engine/mst_sched.h"


/* q, which has come, but does not stand in line: can its first token come in
   time after all that is computed before it? */
int mst_promise_late(const mst_sched_t *s, const mst_seq_t *q,
    uint64_t now_ns);

/* would its start, now, break a promise: that which it would be made, or one
   of a prefill that it overtakes? */
int mst_promise_breaks(const mst_sched_t *s, const mst_seq_t *q,
    uint64_t now_ns);

/* tokens that may follow in the step after q, which was put into it last;
   UINT32_MAX = any number */
uint32_t mst_promise_room(const mst_sched_t *s, const mst_seq_t *q,
    uint64_t now_ns);


#endif /* MST_PROMISE_H */
