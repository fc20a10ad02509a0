
/*
 * The engine process's loop: records in from the workers' rings, a step of
 * the engine, records out.
 *
 * It waits for no worker: what does not fit into a ring waits in the
 * request's outbox.  It trusts no worker: a record is copied, then checked;
 * a ring or record that makes no sense ends that slot until its owner is
 * gone.  A dead worker's sequences end at once, and its places and slot come
 * back (pidfd; where there is none, a look at the pid once a second).
 *
 * One thread.  The order of calls: create, then the engine with
 * mst_serve_event() and the mst_serve_t as its handler, then run.
 */

#ifndef MST_SERVE_H
#define MST_SERVE_H

#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_log.h"
#include "engine/mst_engine.h"
#include "shm/mst_shm.h"


typedef struct {
    mst_map_t        *map;         /* attached; outlives the mst_serve_t */
    int               wake_fd;     /* eventfds, nonblocking or not; the caller's
                                      to close, like all here */
    int               slot_fd;     /* of slot 0, the others follow */
    int               life_fd;     /* -1 = none */
    uint32_t          engine_epoch;
    const mst_log_t  *log;         /* may be NULL */
    int               late;        /* mst_serve_tell() is called from inside
                                      each step */
} mst_serve_conf_t;


typedef struct {                   /* what the segment says from READY on */
    uint32_t          n_vocab;
    uint32_t          context;
    uint32_t          max_batch;
    uint32_t          block_tokens;
    uint64_t          weight_size;
    uint64_t          load_ns;
    const char       *backend;
} mst_serve_info_t;


typedef struct mst_serve_s  mst_serve_t;


mst_serve_t *mst_serve_create(const mst_serve_conf_t *conf, mst_err_t *err);
void mst_serve_destroy(mst_serve_t *s);        /* before the engine's */

/* a mst_event_pt */
void mst_serve_event(void *data, const mst_event_t *ev);

/*
 * Serves until the life pipe ends and a while more, in which the supervisor
 * should have stopped it (MST_DONE), or the engine is dead (MST_ERROR).
 */
int mst_serve_run(mst_serve_t *s, mst_engine_t *e,
    const mst_serve_info_t *info, mst_err_t *err);

/*
 * From inside a step, once other threads compute: what the step before
 * brought, if that is not told yet.  Not 0: somebody has to be woken, which the
 * next call does, on this core + 2, or on one that is not known (1); who takes
 * the caller's own comes first.
 */
int mst_serve_tell(mst_serve_t *s);

/*
 * Its parts, for tests: start, then pass and poll as long as one likes.
 * pass: MST_OK: call again; MST_AGAIN: nothing to do before *wake_ns (0 =
 * until somebody wakes the engine); poll: waits for dead workers, the
 * engine's eventfd and the end of the life pipe.
 */
int mst_serve_start(mst_serve_t *s, mst_engine_t *e,
    const mst_serve_info_t *info, mst_err_t *err);
int mst_serve_pass(mst_serve_t *s, uint64_t *wake_ns, mst_err_t *err);
void mst_serve_poll(mst_serve_t *s, uint64_t timeout_ns);


#endif /* MST_SERVE_H */
