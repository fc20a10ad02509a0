
/*
 * Who owns a slot.  FREE -> USED by a worker's CAS; USED -> DEAD by the
 * worker that leaves; USED or DEAD -> FREE by the engine alone, after it
 * dropped the slot's requests and places and emptied both rings.
 */

#ifndef MST_SLOT_H
#define MST_SLOT_H

#include "shm/mst_ring.h"
#include "shm/mst_shm.h"


/* worker: the index of a slot that is now ours, or MST_BUSY */
int mst_slot_claim(mst_map_t *m, uint32_t pid);

/* worker, at its end */
void mst_slot_leave(mst_map_t *m, uint32_t i);

/* engine: after the drop; both rings empty, then FREE */
void mst_slot_free(mst_map_t *m, uint32_t i);

/* handles of both rings for one side: the worker produces req */
void mst_slot_rings(mst_map_t *m, uint32_t i, int worker, mst_ring_t *req,
    mst_ring_t *rsp);


#endif /* MST_SLOT_H */
