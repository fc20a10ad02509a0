
/*
 * Who owns a slot.  FREE -> USED by a worker's CAS; USED -> DEAD by the
 * worker that leaves; USED or DEAD -> FREE by the engine alone, after it
 * dropped the slot's requests and places and emptied both rings.
 *
 * Only the engine frees, so slots of dead workers wait while no engine
 * serves.  A worker that got MST_BUSY answers 503 and tries again later.
 */

#ifndef MST_SLOT_H
#define MST_SLOT_H

#include "shm/mst_ring.h"
#include "shm/mst_shm.h"


/* worker: the index of a slot that is now ours, or MST_BUSY */
int mst_slot_claim(mst_map_t *m, uint32_t pid);

/* worker, at its end: it touches the slot no more */
void mst_slot_leave(mst_map_t *m, uint32_t i);

/* engine: after the drop; both rings empty, epoch + 1, then FREE */
void mst_slot_free(mst_map_t *m, uint32_t i);

/* handles of both rings for one side: the worker produces req */
void mst_slot_rings(mst_map_t *m, uint32_t i, int worker, mst_ring_t *req,
    mst_ring_t *rsp);


static inline mst_slot_state_t
mst_slot_state(const mst_slot_t *slot)
{
    return (mst_slot_state_t) (atomic_load(&slot->owner) >> 32);
}


static inline uint32_t
mst_slot_pid(const mst_slot_t *slot)           /* 0 when free */
{
    return (uint32_t) atomic_load(&slot->owner);
}


#endif /* MST_SLOT_H */
