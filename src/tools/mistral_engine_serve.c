
/*
 * The engine proper: loads, then serves the segment until nginx is gone or it
 * fails.  It outlives its supervisor: see mistral_engine_keep.c.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/mst_time.h"
#include "engine/mst_engine.h"
#include "engine/mst_serve.h"
#include "shm/mst_owner.h"
#include "tools/mistral_engine.h"
#include "tools/mistral_tool.h"


#define MISTRAL_SERVE_LOCK  500                /* tries of 10 ms */
#define MISTRAL_SERVE_NICE  10


static void mistral_serve_yield(const mistral_engine_t *e);
static int mistral_serve_alone(void);
static int mistral_serve_run(mistral_engine_t *e, uint32_t epoch,
    mistral_engine_load_t *l, uint64_t load_ns);
static void mistral_serve_ready(const mistral_engine_t *e,
    const mistral_engine_load_t *l, uint64_t load_ns);


int
mistral_engine_serve(mistral_engine_t *e, uint32_t epoch, pid_t supervisor)
{
    uint64_t               start;
    mst_err_t              err;
    mst_shm_t             *shm;
    mistral_engine_load_t  load;

    mistral_serve_yield(e);

    /* until there is a thread that replaces the supervisor; exec does not keep
       what it needs to be, and the supervisor may have died meanwhile */

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);

    if (getppid() != supervisor) {
        return MISTRAL_FAILED;
    }

    (void) prctl(PR_SET_DUMPABLE, 0);
    (void) prctl(PR_SET_NAME, "mistral-engine");

    mistral_engine_log_init("engine", e->setup.name);

    if (mistral_serve_alone() != MST_OK) {
        return MISTRAL_FAILED;
    }

    /* from then on its death shall only find this thread awake, should we be
       stopped */

    if (mistral_engine_keep(e, supervisor) == MST_OK) {
        (void) prctl(PR_SET_PDEATHSIG, SIGCONT);
    }

    shm = e->map.shm;

    atomic_store(&shm->engine_pid, (uint32_t) getpid());
    mst_stat_set(&shm->stat.loaded, 0);
    atomic_store(&shm->state, MST_STATE_LOADING);

    mst_log(&mistral_engine_log, MST_LOG_INFO, "loading %s", e->setup.path);

    memset(&err, 0, sizeof(err));
    memset(&load, 0, sizeof(load));
    start = mst_time_ns();

    if (mistral_engine_load(e, &load, &err) != MST_OK) {
        mst_log(&mistral_engine_log, MST_LOG_ERR, "%s", err.text);
        return MST_EXIT_REFUSED;
    }

    mst_stat_set(&shm->stat.loaded, 100);

    return mistral_serve_run(e, epoch, &load, mst_time_ns() - start);
}


/*
 * Threads that compute take all of a core.  A worker needs little of it, and
 * clients wait for that: it shall have it at once.  Where the kernel makes a
 * group of each session, ours counts as the engine, too.  Best effort, before
 * a process that nobody may trace loses its files in /proc.
 */

static void
mistral_serve_yield(const mistral_engine_t *e)
{
    int  fd;

    if (e->setup.null
        || (e->setup.library && strcmp(e->setup.device, "cpu") != 0))
    {
        return;
    }

    if (getpriority(PRIO_PROCESS, 0) < MISTRAL_SERVE_NICE) {
        (void) setpriority(PRIO_PROCESS, 0, MISTRAL_SERVE_NICE);
    }

    fd = open("/proc/self/autogroup", O_WRONLY|O_CLOEXEC);

    if (fd != -1) {
        (void) !dprintf(fd, "%d", MISTRAL_SERVE_NICE);
        (void) close(fd);
    }
}


/*
 * Two engines on one segment would both write into the workers' rings: the
 * next one waits should its predecessor die slowly.
 */

static int
mistral_serve_alone(void)
{
    int              i, rc;
    struct timespec  ts;

    ts.tv_sec = 0;
    ts.tv_nsec = 10 * (long) MST_MS;

    for (i = 0; i < MISTRAL_SERVE_LOCK; i++) {

        rc = mst_owner_take(MST_FD_MEM, MST_OWNER_ENGINE);

        if (rc == MST_OK) {
            return MST_OK;
        }

        if (rc == MST_ERROR) {
            mst_log(&mistral_engine_log, MST_LOG_ALERT, "cannot lock the "
                    "shared memory: %s", strerror(errno));
            return MST_ERROR;
        }

        (void) nanosleep(&ts, NULL);
    }

    mst_log(&mistral_engine_log, MST_LOG_ALERT, "another engine serves this "
            "shared memory and does not end");

    return MST_ERROR;
}


static int
mistral_serve_run(mistral_engine_t *e, uint32_t epoch,
    mistral_engine_load_t *l, uint64_t load_ns)
{
    int                rc;
    mst_err_t          err;
    mst_serve_t       *serve;
    mst_engine_t      *engine;
    mst_serve_conf_t   sc;
    mst_serve_info_t   info;
    mst_engine_conf_t  ec;

    memset(&err, 0, sizeof(err));
    memset(&ec, 0, sizeof(ec));

    sc.map = &e->map;
    sc.wake_fd = MST_FD_WAKE;
    sc.slot_fd = MST_FD_SLOT0;
    sc.life_fd = MST_FD_LIFE;
    sc.engine_epoch = epoch;
    sc.log = &mistral_engine_log;
    sc.late = !e->setup.null && l->runner.launch == NULL;

    engine = NULL;
    serve = mst_serve_create(&sc, &err);
    l->serve = serve;

    if (serve != NULL) {
        ec.max_batch = l->max_batch;
        ec.prefill_chunk = l->prefill_chunk;
        ec.prefill_most = l->prefill_most;
        ec.handler = mst_serve_event;
        ec.data = serve;
        ec.log = &mistral_engine_log;

        engine = mst_engine_create(&ec, &l->runner, &err);
    }

    if (engine == NULL) {
        mst_log(&mistral_engine_log, MST_LOG_ERR, "%s", err.text);
        return MST_EXIT_REFUSED;
    }

    info.n_vocab = l->runner.info.n_vocab;
    info.context = l->runner.info.context;
    info.block_tokens = l->runner.info.block_tokens;
    info.weight_size = l->runner.info.weight_size;
    info.max_batch = l->max_batch;
    info.load_ns = load_ns;
    info.backend = l->backend;

    mistral_engine_watch(e, l);
    mistral_serve_ready(e, l, load_ns);

    rc = mst_serve_run(serve, engine, &info, &err);

    if (rc == MST_DONE) {
        mistral_engine_log_last_words();
        mst_log(&mistral_engine_log, MST_LOG_NOTICE, "nginx is gone and the "
                "supervisor does nothing, leaving");
    } else {
        mst_log(&mistral_engine_log, MST_LOG_ALERT, "%s", err.text);
    }

    mst_serve_destroy(serve);
    mst_engine_destroy(engine);

    return rc == MST_DONE ? MISTRAL_OK : MISTRAL_FAILED;
}


static void
mistral_serve_ready(const mistral_engine_t *e,
    const mistral_engine_load_t *l, uint64_t load_ns)
{
    char                     most[16];
    const mst_model_info_t  *info;

    info = &l->runner.info;
    most[0] = '\0';

    if (l->prefill_most > l->prefill_chunk) {
        (void) snprintf(most, sizeof(most), "..%u", l->prefill_most);
    }

    mst_log(&mistral_engine_log, MST_LOG_NOTICE, "ready: %s on %s, %llu MiB "
            "of weights, context %u, max_batch %u, prefill_chunk %u%s, %u "
            "blocks of %u tokens, loaded in %llu ms", e->setup.path,
            l->backend, (unsigned long long) (info->weight_size >> 20),
            info->context, l->max_batch, l->prefill_chunk, most,
            info->n_blocks, info->block_tokens,
            (unsigned long long) (load_ns / MST_MS));
}
