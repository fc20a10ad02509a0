
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

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
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
 * The engine program.
 *
 *   mistral engine --probe
 *       Writes "ok layout=<16 hex digits>\n" (mst_shm_layout() of that
 *       build) to standard output, or, when that is /dev/null, to
 *       descriptor 2; exits 0.  Needs no other descriptor.
 *
 *   mistral engine
 *       The start.  Descriptors have the numbers below, all of them are
 *       open, everything above is closed by the program.  What it is to do
 *       stands in MST_FD_SETUP, a mst_setup_t.  Answer on MST_FD_STATUS, then
 *       end of file there: "ok <pid of the supervisor>\n" and exit 0, or one
 *       sentence and another exit status.  The child that the caller spawned
 *       ends at once in either case.
 *
 * Lines on MST_FD_LOG: "<N>text\n", N a severity as syslog has it (0 emerg
 * .. 7 debug: mst_log_level_t - 1), never longer than PIPE_BUF; a line
 * without "<N>" is a library's stderr.
 */
enum {
    MST_FD_STATUS = 2,             /* until "ok": pipe to the master; then the
                                      log; 0 and 1 are /dev/null */
    MST_FD_MEM = 3,                /* the segment */
    MST_FD_LIFE = 4,               /* read end; EOF = no nginx process left */
    MST_FD_ALIVE = 5,              /* write end; EOF at the workers = both
                                      supervisor and engine are gone */
    MST_FD_LOG = 6,                /* log pipe to the workers */
    MST_FD_LOGFILE = 7,            /* error_log for overflow and last words */
    MST_FD_WAKE = 8,               /* eventfd: wakes the engine */
    MST_FD_PREV = 9,               /* a pipe that ends when the engine before
                                      this one and its supervisor are gone:
                                      to be waited for; else /dev/null */
    MST_FD_SETUP = 10,             /* mst_setup.h: what nobody can change */
    MST_FD_WEIGHTS = 11,           /* a memfd for repacked weights, which
                                      engines of the same files share; or
                                      /dev/null */
    MST_FD_SLOT0 = 12              /* eventfd of each slot, then model files */
};

#define MST_FD_FILES(n_slots)  (MST_FD_SLOT0 + (int) (n_slots))

#define MST_EXIT_REFUSED  78       /* EX_CONFIG: does not get better by a
                                      retry */


/* one direction of a slot; data lies apart, power of two bytes */
typedef struct {
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t  tail;   /* producer */
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t  head;   /* consumer */
} mst_ring_pos_t;


typedef enum {
    MST_SLOT_FREE = 0,             /* CAS to USED by a worker */
    MST_SLOT_USED,
    MST_SLOT_DEAD                  /* left; the engine reclaims it */
} mst_slot_state_t;


/*
 * A worker's slot.  State and pid are one word, so that no kill leaves a
 * slot without a known owner.  The ledger of queue places (mst_place.h) is
 * in words of two halves that wrap independently: [requests:32 | tokens:32].
 */
typedef struct {
    _Alignas(MST_CACHE_LINE)
    _Atomic uint64_t  owner;       /* [state:32 | pid:32]; CAS; mst_slot.h */
    _Atomic uint32_t  master;      /* parent of the worker that claimed it
                                      last; stays when the slot is free */
    _Atomic uint32_t  sleeping;    /* not 0: write the eventfd to wake the
                                      worker; mst_shm_sleep() and _wake() */
    _Atomic uint32_t  intent;      /* worker: 1 while it takes or untakes */
    _Atomic uint64_t  taken;       /* worker */
    _Atomic uint32_t  held;        /* worker: answers that it keeps back until
                                      an engine is ready; no places */
    _Alignas(MST_CACHE_LINE)
    _Atomic uint32_t  epoch;       /* engine: +1 when it frees the slot; in
                                      every record */
    _Atomic uint64_t  given;       /* engine */
    _Atomic uint64_t  received[2];     /* engine: sum of all SUBMITs read ... */
    _Atomic uint64_t  received_at[2];  /* ... when req.head stands here */
    mst_ring_pos_t    req;         /* worker to engine */
    mst_ring_pos_t    rsp;         /* engine to worker */
} mst_slot_t;


typedef struct {
    uint64_t          magic;
    uint64_t          layout;      /* mst_shm_layout() of the creator */
    uint64_t          size;        /* bytes of the whole segment */
    uint64_t          hash;        /* the engine's identity: files, settings,
                                      program and user */
    uint32_t          n_slots;
    uint32_t          req_size;    /* bytes of a request ring's data */
    uint32_t          rsp_size;    /* bytes of a response ring's data */
    uint32_t          unused;
    uint64_t          created_ns;  /* no other segment has this one's */

    char              name[64];    /* of the mistral_model block; to show, and
                                      no more than that */

    _Alignas(MST_CACHE_LINE)
    _Atomic uint32_t  state;       /* mst_state_t */
    _Atomic uint32_t  engine_epoch;   /* of the engine that lives or comes
                                         next: see below */
    _Atomic uint32_t  engine_pid;
    _Atomic uint32_t  supervisor_pid;
    _Atomic uint32_t  restarts;
    _Atomic uint32_t  max_batch;   /* engine, at READY: places = this + N */
    _Atomic uint32_t  context;     /* engine, at READY */
    _Atomic uint32_t  timeout_ms;  /* engine_timeout, of the newest
                                      configuration: the master; 0 = none */
    _Atomic uint32_t  refused;     /* supervisor, before DOWN: 1: the engine
                                      ended since it cannot load what it is
                                      given, and not by a crash */
    _Atomic uint64_t  revive_ns;   /* CAS by the worker that starts a
                                      supervisor, when it does */

    _Alignas(MST_CACHE_LINE)
    _Atomic uint32_t  sleeping;    /* not 0: write MST_FD_WAKE to wake the
                                      engine; mst_shm_sleep() and _wake() */

    /* orders of any worker, who adds 1 and wakes the engine; each is done
       before what that worker submits then */
    _Atomic uint32_t  flush;       /* forget the prefix cache */
    _Atomic uint32_t  knock;       /* write every slot's eventfd: workers have
                                      no other way to wake each other */

    _Alignas(MST_CACHE_LINE)
    _Atomic uint64_t  places;      /* CAS; mst_place.h */

    mst_stat_t        stat;        /* written by the engine alone */
} mst_shm_t;


/*
 * Life of an engine as a worker sees it.  The supervisor sets, in this
 * order, when it starts and again whenever an engine has died: state DOWN
 * (the first time it stays INIT), engine_epoch + 1, then it writes every
 * slot's eventfd.  The engine goes to
 * LOADING and, when it serves, to READY, and writes every eventfd again.
 *
 * A worker may submit while state is READY; it puts the engine_epoch that it
 * read *before* it read READY into the request and its records.  Whenever
 * its eventfd fires it fails every request whose epoch is not the segment's:
 * no answer to it will ever come, and its place is given back (or has been)
 * by the new engine, never by the worker.  Records of another epoch than
 * the segment's are skipped by both sides.
 *
 * A supervisor that dies is replaced by its engine; the next one writes its
 * pid and nothing else, and what is in work goes on.  When both die a worker
 * starts another supervisor, and an engine that stands still without one is
 * killed by a worker; who is there the locks tell, mst_owner.h.
 *
 * A supervisor that waits for the end of the engine before (MST_FD_PREV)
 * says DRAINING until then.
 *
 * An engine that is READY and whose heartbeat is older than timeout_ms is
 * hung: workers take it for down, the supervisor kills it.
 */


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
 * Ring sizes for a context: powers of two; an empty request ring takes two
 * SUBMITs of a full context, whatever its index.
 */
void mst_shm_sizes(uint32_t context, uint32_t *req_size, uint32_t *rsp_size);

/* creates, sizes, fills the head and seals (SHRINK|GROW|SEAL); *fd is the
   caller's to close, close-on-exec is set.  The hash is the caller's to
   write. */
int mst_shm_create(mst_map_t *m, int *fd, const char *name,
    uint32_t n_slots, uint32_t req_size, uint32_t rsp_size, mst_err_t *err);

/* maps an inherited segment; magic, layout, sizes and seals are checked.
   The caller compares m->shm->hash with the one it expects */
int mst_shm_attach(mst_map_t *m, int fd, mst_err_t *err);

void mst_shm_detach(mst_map_t *m);             /* may be called twice */


/*
 * Sleep and wake, both directions.  A consumer that is about to wait calls
 * mst_shm_sleep() with its own word and then looks into its rings once more:
 * if something stands there it goes on instead (the word may stay as it is: a
 * needless eventfd is all that follows).  A producer calls mst_shm_wake()
 * after its last publish and writes the eventfd if it does not return 0.
 *
 * Both are exchanges of one word, so one comes first: either the producer
 * sees that it sleeps, or the consumer sees what was published before.
 *
 * The word is also a hint at the core that the consumer will be woken on,
 * where no other one is idle: that which it fell asleep on.
 */
static inline uint32_t
mst_shm_core(void)
{
    return (uint32_t) (sched_getcpu() + 2);        /* 1: not known */
}


static inline void
mst_shm_sleep(_Atomic uint32_t *sleeping)
{
    (void) atomic_exchange(sleeping, mst_shm_core());
}


static inline uint32_t
mst_shm_wake(_Atomic uint32_t *sleeping)
{
    return atomic_exchange(sleeping, 0);
}


#endif /* MST_SHM_H */
