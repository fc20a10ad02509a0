
/*
 * Queue places: how many requests and prompt tokens of a model are between
 * reservation and DONE, exact, without a question to the engine.
 *
 * One 64-bit word of the segment: [version:12 | requests:20 | tokens:32],
 * changed by compare-and-swap.  What stands in it is the sum over all slots
 * of taken - given, except for an instant inside the steps below.  "taken"
 * of a slot is written by its worker alone, "given" by the engine alone.
 *
 *   worker, take:    intent = 1, word + x, taken + x, intent = 0
 *   worker, untake:  intent = 1, taken - x, word - x, intent = 0
 *   engine, give:    given + x, word - x, and only then DONE or REFUSE
 *
 * SUBMIT moves a place to the engine: from its publish on the worker never
 * untakes it, also not for a stale epoch or after CANCEL.  A request that
 * was reserved and never published is the worker's to untake.
 *
 * A process killed inside these steps leaves the word too large by x and
 * never too small.  mst_place_audit() finds that: it reads the word, then
 * all ledgers; if no live slot shows an intent, word minus ledgers is what
 * the dead left, and the version makes its swap fail if anybody moved.  The
 * engine calls it after a death and once a second.
 *
 * A worker dies: the engine gives back all that its slot still holds,
 * reserved, in the ring or running (mst_place_reclaim).
 *
 * The engine dies: what it had read and not given back is void.  How much
 * it had read follows from the ring's head alone: before a SUBMIT is
 * consumed, the sum of all SUBMITs of the slot up to and with this one is
 * written beside the head that will stand after it (received, received_at;
 * two entries in turn).  So at any instant the entry with the largest
 * received_at <= head is exact, and the next engine gives back received -
 * given (mst_place_restart).  Places still reserved by the worker are not in
 * it, nor those of SUBMITs still in the ring: the worker untakes or submits
 * the first, the new engine reads the second, finds them stale and gives
 * each back as it would any other.
 */

#ifndef MST_PLACE_H
#define MST_PLACE_H

#include <stdint.h>

#include "shm/mst_ring.h"
#include "shm/mst_shm.h"


#define MST_PLACE_MAX_REQUESTS  0xfffff


/*
 * Worker: takes one request of "tokens" prompt tokens if afterwards at most
 * max_requests requests and max_tokens tokens (0 = no limit) are held.
 * MST_OK or MST_BUSY.
 */
int mst_place_take(mst_shm_t *shm, mst_slot_t *slot, uint32_t tokens,
    uint32_t max_requests, uint64_t max_tokens);

/* worker: back again, for a request whose SUBMIT it never published */
void mst_place_untake(mst_shm_t *shm, mst_slot_t *slot, uint32_t tokens);


/* engine: after peek of a SUBMIT of "len" bytes, before its consume */
void mst_place_receive(mst_slot_t *slot, const mst_ring_t *req, uint32_t len,
    uint32_t tokens);

/* engine: one place of a received SUBMIT back, never more than the slot
   holds */
void mst_place_give(mst_shm_t *shm, mst_slot_t *slot, uint32_t tokens);

/* engine: everything that a dead slot still holds; before mst_slot_free().
   MST_AGAIN: the dead may have left more: audit soon */
int mst_place_reclaim(mst_shm_t *shm, mst_slot_t *dead);

/* engine, at its start: what its predecessor had in work; an audit follows */
void mst_place_restart(mst_map_t *m);

/* engine: word = sum of the ledgers.  MST_AGAIN: a live worker is in the
   middle of a step, call again soon */
int mst_place_audit(mst_map_t *m);


/* anyone */
void mst_place_held(const mst_shm_t *shm, uint32_t *requests,
    uint64_t *tokens);


#endif /* MST_PLACE_H */
