
/*
 * Queue places: how many requests and prompt tokens of a model are between
 * reservation and DONE, exact, without a question to the engine.
 *
 * One 64-bit word of the segment: [version:12 | requests:20 | tokens:32],
 * changed by compare-and-swap.  A worker reserves: intent = 1, CAS, ledger of
 * its slot (taken_*), intent = 0.  The engine alone gives back: its own
 * ledger (given_*), then CAS, before it publishes DONE or REFUSE.
 *
 * A worker killed between its CAS and its ledger leaves a place that no
 * ledger names.  The engine finds it when it reclaims the slot: while no
 * live slot shows an intent, word minus the sum of all ledgers is exactly
 * what the dead left; the version makes its CAS fail if anybody moved
 * meanwhile, and it looks again later.
 */

#ifndef MST_PLACE_H
#define MST_PLACE_H

#include <stdint.h>

#include "shm/mst_shm.h"


/*
 * Worker: takes one request of "tokens" prompt tokens if afterwards at most
 * max_requests and max_tokens (0 = no limit) are held.  MST_OK or MST_BUSY.
 */
int mst_place_take(mst_shm_t *shm, mst_slot_t *slot, uint32_t tokens,
    uint32_t max_requests, uint64_t max_tokens);

/* engine, or the worker itself for a request it never submitted (written
   to its ledger as taken less): one place of "tokens" back */
void mst_place_give(mst_shm_t *shm, mst_slot_t *slot, uint32_t tokens);
void mst_place_untake(mst_shm_t *shm, mst_slot_t *slot, uint32_t tokens);

/* engine: everything that a dead slot still holds; MST_AGAIN: a live worker
   is in the middle of a reservation, call again soon */
int mst_place_reclaim(mst_map_t *m, mst_slot_t *dead);

void mst_place_held(const mst_shm_t *shm, uint32_t *requests,
    uint64_t *tokens);


#endif /* MST_PLACE_H */
