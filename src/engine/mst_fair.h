
/*
 * Shares: whose turn it is among those who share a class.
 *
 * A flow is all that one key has in one class.  Its virtual time counts the
 * tokens that were scheduled for it, divided by its weight; the flow with the
 * least is served first, so that flows which want more than there is get
 * tokens in the ratio of their weights, whatever the lengths of their
 * requests.  A flow that wants nothing saves nothing up: when it wants again,
 * its time is at least that of the one that was served least in the
 * meantime.  Debts stay, also over a pause, as long as the table remembers
 * the flow: of those without a sequence the MST_FAIR_IDLE last ones.
 *
 * Times are integers and ties are broken by numbers, so that the order is a
 * function of the calls.  One thread.
 */

#ifndef MST_FAIR_H
#define MST_FAIR_H

#include <stdint.h>

#include "base/mst_list.h"
#include "base/mst_params.h"
#include "engine/mst_heap.h"


#define MST_FAIR_IDLE   4096       /* flows that are kept for their debts */
#define MST_FAIR_SHIFT  20         /* of a token in virtual time */


typedef struct mst_flow_s  mst_flow_t;

struct mst_flow_s {
    uint64_t           key;
    uint32_t           rank;       /* of the class, 0 = first */
    uint32_t           weight;     /* of the request that came last */
    uint64_t           vtime;      /* tokens << MST_FAIR_SHIFT / weight */
    uint64_t           serial;     /* of its last beginning: breaks ties */
    uint64_t           owed;       /* tokens that vtime lacks yet */
    uint32_t           n;          /* its sequences in the scheduler */
    uint32_t           n_wants;    /* of them want tokens now */

    mst_heap_node_t    wanting;    /* among those of the class that want */
    mst_heap_node_t    lined;      /* among those with waiting sequences */
    mst_list_t         list;       /* of the class; n = 0: of the idle */
    mst_list_t         owing;
    mst_flow_t        *next;       /* in a bucket */

    /* mst_order.c's, with room for n */
    mst_heap_t         waiting;    /* first in order first */
    mst_heap_t         running;    /* last in order first; who may lose its
                                      blocks to others */
    uint64_t           tokens;     /* uncached ones of those who wait */
};


typedef struct {
    mst_heap_t         wanting;    /* flows, least vtime first */
    mst_heap_t         lined;
    mst_list_t         flows;      /* all with sequences, by list */
    uint32_t           n;
    uint64_t           vtime;      /* a flow that begins has at least this */
} mst_fair_class_t;


typedef struct {
    mst_fair_class_t   classes[MST_CLASSES];
    mst_flow_t       **table;      /* [mask + 1] */
    uint32_t           mask;
    uint32_t           n_flows;
    uint32_t           n_idle;
    mst_list_t         idle;       /* longest idle first */
    mst_list_t         owing;
    uint64_t           serials;
} mst_fair_t;


int mst_fair_init(mst_fair_t *f);              /* MST_ERROR: memory */
void mst_fair_fini(mst_fair_t *f);             /* zeroed or inited */

/* a sequence comes: its flow; NULL: memory, and it has not come */
mst_flow_t *mst_fair_enter(mst_fair_t *f, const mst_claim_t *claim);
void mst_fair_leave(mst_fair_t *f, mst_flow_t *flow);

/* one of its sequences begins or ceases to want tokens */
void mst_fair_want(mst_fair_t *f, mst_flow_t *flow);
void mst_fair_rest(mst_fair_t *f, mst_flow_t *flow);

/* has it waiting sequences? */
void mst_fair_line(mst_fair_t *f, mst_flow_t *flow, int lined);

/* of the lined ones of a class; NULL: none */
mst_flow_t *mst_fair_first(const mst_fair_t *f, uint32_t rank);

/* tokens were scheduled; they count from the next settle on */
void mst_fair_charge(mst_fair_t *f, mst_flow_t *flow, uint32_t tokens);
void mst_fair_settle(mst_fair_t *f);

/* of one class: is a before b? */
static inline int
mst_fair_before(const mst_flow_t *a, const mst_flow_t *b)
{
    return a->vtime < b->vtime
           || (a->vtime == b->vtime && a->serial < b->serial);
}


#endif /* MST_FAIR_H */
