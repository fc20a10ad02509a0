
/*
 * The parts of "mistral engine": mistral_engine.c (the command; what is done
 * as root, then never again), mistral_engine_super.c (the supervisor; with
 * mistral_engine_adopt.c and mistral_engine_users.c), mistral_engine_serve.c
 * (the engine proper), mistral_engine_keep.c (its thread that replaces a dead
 * supervisor), mistral_engine_load.c (what it computes with),
 * mistral_engine_log.c, mistral_engine_alone.c (in place of nginx).
 *
 * How the program is started and what its descriptors are: shm/mst_shm.h.
 */

#ifndef MISTRAL_ENGINE_H
#define MISTRAL_ENGINE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/mst_err.h"
#include "base/mst_log.h"
#include "engine/mst_runner.h"
#include "engine/mst_serve.h"
#include "shm/mst_setup.h"
#include "shm/mst_shm.h"


typedef struct {
    mst_map_t    map;
    mst_setup_t  setup;            /* counts in range, strings terminated */
} mistral_engine_t;


typedef struct {                   /* settings with "auto" resolved */
    mst_runner_t  runner;
    uint32_t      max_batch;
    uint32_t      prefill_chunk;
    uint32_t      prefill_most;    /* while prompts wait long */
    uint32_t      device;          /* the CUDA driver's number of it */
    char          backend[64];
    mst_stat_t   *stat;            /* beats while a step computes */
    mst_serve_t  *serve;           /* NULL while it loads */
} mistral_engine_load_t;


/* "<severity>role PID: text" into the log pipe; where that does not go, in
   nginx's form into the log file */
extern const mst_log_t  mistral_engine_log;

void mistral_engine_log_init(const char *role, const char *model);

/* once a second: is the file that has the name still ours? */
void mistral_engine_log_follow(void);

/* from now on into the file only: whoever still reads the pipe is leaving */
void mistral_engine_log_last_words(void);


/* the supervisor's life; returns the exit code.  "engine", our parent, is
   one that lives and whose supervisor "before" died; else both are 0 */
int mistral_engine_supervise(mistral_engine_t *e, pid_t engine,
    pid_t before);

/* the engine's; returns the exit code */
int mistral_engine_serve(mistral_engine_t *e, uint32_t epoch,
    pid_t supervisor);

/* the thread that replaces the supervisor; MST_ERROR: there is none */
int mistral_engine_keep(const mistral_engine_t *e, pid_t supervisor);

/* O_PATH descriptor of the program that runs, or -1 */
int mistral_engine_image(const mistral_engine_t *e);


/* MST_OK; MST_ERROR with a sentence: another attempt would not help */
int mistral_engine_load(const mistral_engine_t *e, mistral_engine_load_t *l,
    mst_err_t *err);


/* the stats page's words about the device, and a thread that keeps them; once,
   when all is loaded */
void mistral_engine_watch(const mistral_engine_t *e,
    const mistral_engine_load_t *l);


/* plays the master until ^C; "setup" is zero but for threads, context,
   max_batch and prefill_chunk; returns the exit code */
int mistral_engine_alone(const char *path, mst_setup_t *setup);


#endif /* MISTRAL_ENGINE_H */
