
/*
 * The boundary: one sealed memfd per engine generation, mapped by the
 * engine and by every nginx worker that uses it.
 *
 *   mst_shm_t | slots[n_slots]: mst_slot_t | rings of slot 0 | ...
 *
 * Offsets and counters only, no pointers.  Every shared word has exactly
 * one writer unless it says "CAS".  Both sides are compiled from these
 * headers; MST_LAYOUT, a hash of them that the build computes, stands at the
 * head of the segment, and either side refuses another value.
 *
 * Nobody trusts what it reads here: a killed or broken peer may leave any
 * bytes.  Whoever reads a length, an id or an index checks it against the
 * size the reader itself mapped (kept in mst_map_t, outside the segment).
 *
 * Processes: the master creates, workers and engine map.  The engine takes
 * no lock of nginx and the workers take none of the engine: there is none.
 */

#ifndef MST_SHM_H
#define MST_SHM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "shm/mst_setup.h"
#include "shm/mst_stat.h"


#define MST_SHM_MAGIC    0x31304d4853545354ull
#define MST_MAX_SLOTS    512
#define MST_CACHE_LINE   64


/* what the program and the module agree on; in the probe's answer too */
uint64_t mst_shm_layout(void);                 /* MST_LAYOUT of this build */


typedef enum {                     /* mst_shm_t.state, written by supervisor
                                      and engine */
    MST_STATE_INIT = 0,            /* nobody has served yet */
    MST_STATE_LOADING,
    MST_STATE_READY,
    MST_STATE_DRAINING,
    MST_STATE_DOWN                 /* died; the supervisor restarts it */
} mst_state_t;


/*
 * Descriptors of the engine program have fixed numbers and nothing above
 * them is open.
 */
enum {
    MST_FD_STATUS = 2,             /* until "ok": pipe to the master; then the
                                      log */
    MST_FD_MEM = 3,                /* the segment */
    MST_FD_LIFE = 4,               /* read end; EOF = no nginx process left */
    MST_FD_ALIVE = 5,              /* write end; EOF at the workers = the
                                      supervisor is gone */
    MST_FD_LOG = 6,                /* log pipe to the workers */
    MST_FD_LOGFILE = 7,            /* error_log for overflow and last words */
    MST_FD_WAKE = 8,               /* eventfd: wakes the engine */
    MST_FD_SLOT0 = 9               /* eventfd of each slot, then model files */
};

#define MST_FD_FILES(n_slots)  (MST_FD_SLOT0 + (int) (n_slots))

#define MST_EXIT_REFUSED  78       /* EX_CONFIG: does not get better by a
                                      retry */


/* one direction of a slot; data lies apart, power of two bytes */
typedef struct {
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t  tail;   /* producer */
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t  head;   /* consumer */
    _Alignas(MST_CACHE_LINE) uint64_t          unused;
} mst_ring_pos_t;


typedef enum {
    MST_SLOT_FREE = 0,             /* CAS to USED by a worker */
    MST_SLOT_USED,
    MST_SLOT_DEAD                  /* left; the engine reclaims it */
} mst_slot_state_t;


/*
 * A worker's slot.  Ledger: what this worker holds of the queue places.
 * taken_* are written by the worker alone, given_* by the engine alone;
 * both only grow; taken - given = held now.
 */
typedef struct {
    _Alignas(MST_CACHE_LINE)
    _Atomic uint32_t  state;       /* mst_slot_state_t; CAS */
    _Atomic uint32_t  pid;         /* of the worker; published last */
    _Atomic uint32_t  epoch;       /* +1 at each claim; in every record */
    _Atomic uint32_t  sleeping;    /* worker: 1 = write the eventfd to wake */
    _Atomic uint32_t  intent;      /* worker: 1 while it reserves a place */
    _Atomic uint64_t  taken_requests;          /* worker */
    _Atomic uint64_t  taken_tokens;            /* worker */
    _Alignas(MST_CACHE_LINE)
    _Atomic uint64_t  given_requests;          /* engine */
    _Atomic uint64_t  given_tokens;            /* engine */
    mst_ring_pos_t    req;         /* worker to engine */
    mst_ring_pos_t    rsp;         /* engine to worker */
} mst_slot_t;


typedef struct {
    uint64_t          magic;
    uint64_t          layout;      /* mst_shm_layout() of the creator */
    uint64_t          size;        /* bytes of the whole segment */
    uint64_t          hash;        /* identity of the engine (D2) */
    uint32_t          n_slots;
    uint32_t          req_size;    /* bytes of a request ring's data */
    uint32_t          rsp_size;    /* bytes of a response ring's data */
    uint32_t          unused;

    mst_setup_t       setup;

    _Alignas(MST_CACHE_LINE)
    _Atomic uint32_t  state;       /* mst_state_t */
    _Atomic uint32_t  engine_epoch;   /* +1 at each engine start: older
                                         records and requests are void */
    _Atomic uint32_t  engine_pid;
    _Atomic uint32_t  supervisor_pid;
    _Atomic uint32_t  restarts;
    _Atomic uint32_t  max_batch;   /* engine, at READY: places = this + N */
    _Atomic uint32_t  context;     /* engine, at READY */

    _Alignas(MST_CACHE_LINE)
    _Atomic uint32_t  sleeping;    /* engine: 1 = write MST_FD_WAKE */

    _Alignas(MST_CACHE_LINE)
    _Atomic uint64_t  places;      /* CAS; mst_place.h */

    mst_stat_t        stat;        /* written by the engine alone */
} mst_shm_t;


/* a process's view: sizes are its own copies, checked once at attach */
typedef struct {
    mst_shm_t      *shm;
    size_t          size;
    uint32_t        n_slots;
    uint32_t        req_size;
    uint32_t        rsp_size;
    mst_slot_t     *slots;         /* [n_slots] */
    unsigned char  *rings;         /* [n_slots][req_size + rsp_size] */
} mst_map_t;


/*
 * Ring sizes for a context: a request ring holds at least two SUBMITs of a
 * full context; powers of two.
 */
void mst_shm_sizes(uint32_t context, uint32_t *req_size, uint32_t *rsp_size);

/* creates, sizes, fills the head and seals (SHRINK|GROW|SEAL); *fd is the
   caller's to close, close-on-exec is set */
int mst_shm_create(mst_map_t *m, int *fd, const mst_setup_t *setup,
    uint64_t hash, uint32_t n_slots, uint32_t req_size, uint32_t rsp_size,
    mst_err_t *err);

/* maps an inherited segment; magic, layout, sizes and seals are checked */
int mst_shm_attach(mst_map_t *m, int fd, mst_err_t *err);

void mst_shm_detach(mst_map_t *m);


#endif /* MST_SHM_H */
