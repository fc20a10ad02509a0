
/*
 * What the halves of the scheduler share: inside of mst_sched*.c.
 */

#ifndef MST_SCHED_LOCAL_H
#define MST_SCHED_LOCAL_H

#include "engine/mst_sched.h"


/* into the line where it belongs; it stands nowhere */
void mst_sched_line_up(mst_sched_t *s, mst_seq_t *q, uint64_t now_ns);

/* out of whichever line it stands in */
void mst_sched_step_out(mst_sched_t *s, mst_seq_t *q);

/* counted among the waiting, or no longer */
void mst_sched_wait(mst_sched_t *s, mst_seq_t *q);
void mst_sched_unwait(mst_sched_t *s, mst_seq_t *q);

/* it has started, or leaves: nothing binds it any more */
void mst_sched_unbind(mst_sched_t *s, mst_seq_t *q);

/* out of the running ones, its blocks are let go */
void mst_sched_stop(mst_sched_t *s, mst_seq_t *q);

/* out of the scheduler, to "leaving" */
void mst_sched_leave(mst_sched_t *s, mst_seq_t *q, mst_refuse_t refuse,
    mst_finish_t finish);

/* memory is out: an answer that has begun ends, a request that has not is
   refused */
void mst_sched_fail(mst_sched_t *s, mst_seq_t *q);


#endif /* MST_SCHED_LOCAL_H */
