
/*
 * Slots: see mst_slot.h.
 */

#include <unistd.h>

#include "shm/mst_slot.h"


#define mst_slot_owner(state, pid)  ((uint64_t) (state) << 32 | (pid))


int
mst_slot_claim(mst_map_t *m, uint32_t pid)
{
    uint32_t     i;
    uint64_t     owner;
    mst_slot_t  *slot;

    for (i = 0; i < m->n_slots; i++) {
        slot = &m->slots[i];

        owner = mst_slot_owner(MST_SLOT_FREE, 0);

        if (!atomic_compare_exchange_strong(&slot->owner, &owner,
                                       mst_slot_owner(MST_SLOT_USED, pid)))
        {
            continue;
        }

        atomic_store(&slot->master, (uint32_t) getppid());

        return (int) i;
    }

    return MST_BUSY;
}


void
mst_slot_leave(mst_map_t *m, uint32_t i)
{
    uint32_t  pid;

    pid = mst_slot_pid(&m->slots[i]);

    atomic_store(&m->slots[i].owner, mst_slot_owner(MST_SLOT_DEAD, pid));
}


void
mst_slot_free(mst_map_t *m, uint32_t i)
{
    mst_slot_t  *slot;

    slot = &m->slots[i];

    /* nobody but us touches it: the owner is dead, and FREE comes last */

    atomic_store(&slot->intent, 0);
    atomic_store(&slot->held, 0);
    atomic_store(&slot->sleeping, 0);

    atomic_store(&slot->req.head, 0);
    atomic_store(&slot->req.tail, 0);
    atomic_store(&slot->rsp.head, 0);
    atomic_store(&slot->rsp.tail, 0);

    (void) atomic_fetch_add(&slot->epoch, 1);

    atomic_store(&slot->owner, mst_slot_owner(MST_SLOT_FREE, 0));
}


void
mst_slot_rings(mst_map_t *m, uint32_t i, int worker, mst_ring_t *req,
    mst_ring_t *rsp)
{
    unsigned char  *data;

    data = m->rings + (size_t) i * ((size_t) m->req_size + m->rsp_size);

    mst_ring_init(req, &m->slots[i].req, data, m->req_size, worker);
    mst_ring_init(rsp, &m->slots[i].rsp, data + m->req_size, m->rsp_size,
                  !worker);
}
