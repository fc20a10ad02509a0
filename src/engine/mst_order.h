
/*
 * The order of sequences: who is served first, and who loses its blocks
 * first.  One order for the queue and for the batch:
 *     1. class, higher first;
 *     2. the flow (mst_fair.h) that was served least;
 *     3. the earlier time by which the first token is wanted; none is last;
 *     4. arrival.
 * So a tight deadline passes the others of its own key, and nobody else's.
 *
 * A sequence that wants to be in a step stands in one line: waiting ones,
 * running ones with more than one token to compute (prefills), or running
 * ones with one (decodes).  Decodes of a class take turns instead: who was in
 * a step is last in line for the next.  One that sleeps, is paused or is in a
 * step stands in none.  One thread.
 */

#ifndef MST_ORDER_H
#define MST_ORDER_H

#include <stdint.h>

#include "base/mst_list.h"
#include "engine/mst_fair.h"
#include "engine/mst_seq.h"


typedef struct mst_order_class_s {     /* those who wait in line */
    uint32_t           n;
    uint32_t           n_dated;    /* of them: without a key, but with a time
                                      for their first token */
    uint64_t           tokens;     /* uncached ones */
    uint64_t           dated_tokens;
    uint64_t           last_ns;    /* latest of those times, of all who ever
                                      were dated */
} mst_order_class_t;


typedef struct {
    mst_fair_t         fair;
    mst_list_t         decodes[MST_CLASSES];
    mst_list_t         prefills;
    mst_order_class_t  classes[MST_CLASSES];   /* by rank */
} mst_order_t;


int mst_order_init(mst_order_t *o);            /* MST_ERROR: memory */
void mst_order_fini(mst_order_t *o);           /* zeroed or inited */

/* a sequence comes, and goes when it stands nowhere; MST_ERROR: memory */
int mst_order_enter(mst_order_t *o, mst_seq_t *q);
void mst_order_leave(mst_order_t *o, mst_seq_t *q);

/* into the line where it belongs by its state and tokens; it is in none */
void mst_order_line_up(mst_order_t *o, mst_seq_t *q);

/* out of its line, if it stands in one: into a step, or elsewhere */
void mst_order_step_out(mst_order_t *o, mst_seq_t *q);

/* it stands in no line and wants nothing for now */
void mst_order_rest(mst_order_t *o, mst_seq_t *q);

/* its blocks may be taken for others from now on, or no more */
void mst_order_expose(mst_order_t *o, mst_seq_t *q);
void mst_order_cover(mst_order_t *o, mst_seq_t *q);

/* first of a line; NULL: nobody */
mst_seq_t *mst_order_waiting(const mst_order_t *o);
mst_seq_t *mst_order_prefill(const mst_order_t *o);
mst_seq_t *mst_order_decode(const mst_order_t *o);

/* the last in order of the exposed ones, in a class behind that of "than";
   than NULL: in any class; NULL: there is none */
mst_seq_t *mst_order_last(const mst_order_t *o, const mst_seq_t *than);

/* tokens were scheduled for it; they count from the next settle on */
void mst_order_charge(mst_order_t *o, mst_seq_t *q);
void mst_order_settle(mst_order_t *o);

int mst_order_before(const mst_seq_t *a, const mst_seq_t *b);

/* uncached tokens that are computed before those of q, which has come, but
   does not stand in line: never too many, though not all where many wait */
uint64_t mst_order_ahead(const mst_order_t *o, const mst_seq_t *q);


#endif /* MST_ORDER_H */
