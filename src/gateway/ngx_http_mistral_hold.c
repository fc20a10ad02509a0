
/*
 * The descriptors of an engine, as the master makes and keeps them.
 *
 * An engine's life is a pipe whose write end master and workers hold; the
 * master closes its copy with the last cycle that used the engine, the
 * workers when they end.  Nobody else counts.  Its other end is kept, too,
 * and so is all else that another supervisor will need: one that dies with
 * its engine is followed by one that a worker starts (revive.c), or the
 * master at a reload.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"

#include <dirent.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/mst_hash.h"


#define NGX_HTTP_MISTRAL_MIN_SLOTS  128
#define NGX_HTTP_MISTRAL_OTHER_FDS  32         /* of an engine, but slots and
                                                  files: some to spare */
#define NGX_HTTP_MISTRAL_WATCHED    3          /* of an engine, by a worker */


static ngx_uint_t ngx_http_mistral_engine_slots(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_mistral_engine_open(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e);
static ngx_int_t ngx_http_mistral_engine_pipes(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e);
static void ngx_http_mistral_engine_weights(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e, ngx_http_mistral_model_t *m);
static void ngx_http_mistral_engine_close(int *fd);


static ngx_queue_t  ngx_http_mistral_engine_all;


/* the master holds each engine's descriptors, and for a moment those of one
   program twice */

ngx_int_t
ngx_http_mistral_engine_nofile(ngx_cycle_t *cycle, ngx_uint_t n)
{
    DIR              *dir;
    rlim_t            need;
    ngx_uint_t        each;
    struct rlimit     rl;
    ngx_core_conf_t  *ccf;

    each = ngx_http_mistral_engine_slots(cycle) + MST_SETUP_FILES
           + NGX_HTTP_MISTRAL_OTHER_FDS;
    need = (n + 1) * each;

    dir = opendir("/proc/self/fd");

    if (dir != NULL) {
        while (readdir(dir) != NULL) {
            need++;
        }

        (void) closedir(dir);
    }

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    /* a new worker has all that the master has opened */

    if (ccf->rlimit_nofile != NGX_CONF_UNSET
        && (rlim_t) ccf->rlimit_nofile < need - each)
    {
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "\"worker_rlimit_nofile %i\" may be too few for workers "
                      "to begin with %ui engines: %ui",
                      ccf->rlimit_nofile, n, (ngx_uint_t) (need - each));
    }

    if (getrlimit(RLIMIT_NOFILE, &rl) == -1 || rl.rlim_cur >= need) {
        return NGX_OK;
    }

    if (rl.rlim_max >= need) {
        rl.rlim_cur = need;

        if (setrlimit(RLIMIT_NOFILE, &rl) == 0) {
            return NGX_OK;
        }
    }

    ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                  "%ui engines need a limit of %ui open files, it is %ui: "
                  "raise it, \"ulimit -n\" or LimitNOFILE= of a service",
                  n, (ngx_uint_t) need, (ngx_uint_t) rl.rlim_max);

    return NGX_ERROR;
}


/*
 * nginx counts what listens and a worker's channel; beside them a worker
 * watches each engine, starts a supervisor now and then, and must have room
 * for a client.  Without it, it would answer nobody and say nothing.
 */

ngx_int_t
ngx_http_mistral_engine_connections(ngx_cycle_t *cycle, ngx_uint_t n)
{
    ngx_uint_t        i, need;
    ngx_listening_t  *ls;

    need = n * NGX_HTTP_MISTRAL_WATCHED + 3;
    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {

        /* those of reuseport are another worker's, but for the first */

        if (!ls[i].reuseport || ls[i].worker == 0) {
            need++;
        }
    }

    if (n == 0 || cycle->connection_n >= need) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                  "%ui worker_connections are not enough for %ui models, at "
                  "least %ui are needed", cycle->connection_n, n, need);

    return NGX_ERROR;
}


ngx_http_mistral_engine_t *
ngx_http_mistral_engine_create(ngx_cycle_t *cycle,
    ngx_http_mistral_model_t *m)
{
    uint32_t                    req_size, rsp_size, n_slots;
    mst_err_t                   err;
    ngx_http_mistral_engine_t  *e;

    n_slots = ngx_http_mistral_engine_slots(cycle);

    e = ngx_http_mistral_engine_alloc(&m->name, n_slots, cycle->log);
    if (e == NULL) {
        return NULL;
    }

    e->hash = m->hash;
    err.text[0] = '\0';

    mst_shm_sizes(m->context, &req_size, &rsp_size);

    if (mst_shm_create(&e->map, &e->memfd, m->setup->name, n_slots, req_size,
                       rsp_size, &err)
        != MST_OK)
    {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                      "mistral model \"%V\": %s", &m->name, err.text);
        e->memfd = -1;
        ngx_http_mistral_engine_free(e);
        return NULL;
    }

    e->map.shm->hash = m->hash;

    if (ngx_http_mistral_engine_open(cycle, e) != NGX_OK) {
        ngx_http_mistral_engine_free(e);
        return NULL;
    }

    return e;
}


/* old workers keep theirs while their streams last */

static ngx_uint_t
ngx_http_mistral_engine_slots(ngx_cycle_t *cycle)
{
    ngx_uint_t        n;
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    n = ngx_max(8 * ccf->worker_processes, NGX_HTTP_MISTRAL_MIN_SLOTS);

    return ngx_min(n, MST_MAX_SLOTS);
}


/* no close-on-exec in the master: the binary that USR2 starts takes all */

static ngx_int_t
ngx_http_mistral_engine_open(ngx_cycle_t *cycle, ngx_http_mistral_engine_t *e)
{
    ngx_uint_t  i;

    if (fcntl(e->memfd, F_SETFD, 0) == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      "fcntl(F_SETFD) failed");
        return NGX_ERROR;
    }

    if (ngx_http_mistral_engine_pipes(cycle, e) != NGX_OK) {
        return NGX_ERROR;
    }

    e->wake = eventfd(0, EFD_NONBLOCK);

    if (e->wake == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      "eventfd() failed");
        return NGX_ERROR;
    }

    for (i = 0; i < e->n_slots; i++) {
        e->slots[i] = eventfd(0, EFD_NONBLOCK);

        if (e->slots[i] == -1) {
            ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                          "eventfd() failed");
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_engine_pipes(ngx_cycle_t *cycle, ngx_http_mistral_engine_t *e)
{
    int               life[2], alive[2], log[2];
    ngx_core_conf_t  *ccf;

    if (pipe2(log, O_NONBLOCK) == -1) {
        goto failed;
    }

    e->log_r = log[0];
    e->log_w = log[1];

    if (pipe(life) == -1) {
        goto failed;
    }

    e->life_r = life[0];
    e->life_w = life[1];

    if (pipe(alive) == -1) {
        goto failed;
    }

    e->alive_r = alive[0];
    (void) close(alive[1]);

    /* a worker shall be able to open the other end again */

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    if (geteuid() == 0 && fchown(e->alive_r, ccf->user, -1) == -1) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, ngx_errno,
                      "fchown() of a pipe to user \"%s\" failed",
                      ccf->username);
    }

    return NGX_OK;

failed:

    ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno, "pipe() failed");

    return NGX_ERROR;
}


/*
 * What only supervisors need.  A reload that goes on with an engine opened
 * its files for nothing; a new binary opens them again rather than inherit.
 */

void
ngx_http_mistral_engine_equip(ngx_cycle_t *cycle, ngx_http_mistral_engine_t *e,
    ngx_http_mistral_model_t *m)
{
    mst_err_t   err;
    ngx_uint_t  i;

    err.text[0] = '\0';

    if (e->setup == -1
        && mst_setup_create(m->setup, &e->setup, &err) != MST_OK)
    {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                      "mistral model \"%V\": %s", &m->name, err.text);
        return;
    }

    for (i = e->n_files; i < m->setup->n_files; i++) {
        e->files[i] = m->files[i];
        m->files[i] = -1;
    }

    e->n_files = m->setup->n_files;

    if (e->program == -1) {
        e->program = open(m->setup->program, O_PATH|O_CLOEXEC);
    }

    ngx_http_mistral_engine_weights(cycle, e, m);

    if (sched_getaffinity(0, sizeof(cpu_set_t), &e->cpus) == -1) {
        CPU_ZERO(&e->cpus);
    }

    (void) ngx_http_mistral_kit_pack(e, cycle->log);
}


/*
 * Where engines of the same files share the weights as they compute with
 * them: an empty file in memory, which the first engine fills and seals.  It
 * lasts as long as one of them.  Root's own, so that nobody who has it for
 * reading opens it again to write.  Without it each has memory of its own.
 */

static void
ngx_http_mistral_engine_weights(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e, ngx_http_mistral_model_t *m)
{
    u_char                      path[sizeof("/proc/self/fd/") + NGX_INT32_LEN];
    uint64_t                    id;
    ngx_uint_t                  n;
    ngx_queue_t                *q;
    ngx_http_mistral_engine_t  *other;

    n = m->setup->n_files - m->setup->library;

    if (n == 0 || m->setup->null || e->weights != -1) {
        return;
    }

    id = mst_hash(n, m->setup->files, n * sizeof(mst_setup_file_t));

    for (q = ngx_queue_head(&ngx_http_mistral_engine_all);
         q != ngx_queue_sentinel(&ngx_http_mistral_engine_all);
         q = ngx_queue_next(q))
    {
        other = ngx_queue_data(q, ngx_http_mistral_engine_t, queue);

        if (other->weights != -1 && other->weights_id == id) {
            e->weights = fcntl(other->weights, F_DUPFD_CLOEXEC, 0);
            e->weights_r = fcntl(other->weights_r, F_DUPFD_CLOEXEC, 0);
            break;
        }
    }

    if (e->weights == -1) {
        e->weights = memfd_create("mistral-weights",
                                  MFD_CLOEXEC|MFD_ALLOW_SEALING);

        if (e->weights == -1) {
            ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                          "memfd_create() failed");
            return;
        }

        ngx_sprintf(path, "/proc/self/fd/%d%Z", e->weights);
        e->weights_r = open((char *) path, O_RDONLY|O_CLOEXEC);
        (void) fchmod(e->weights, 0);
    }

    e->weights_id = id;
    e->shared = (e->weights_r != -1);
}


ngx_http_mistral_engine_t *
ngx_http_mistral_engine_alloc(ngx_str_t *name, ngx_uint_t n_slots,
    ngx_log_t *log)
{
    ngx_uint_t                  i;
    ngx_http_mistral_engine_t  *e;

    e = ngx_calloc(sizeof(ngx_http_mistral_engine_t) + n_slots * sizeof(int)
                   + name->len, log);
    if (e == NULL) {
        return NULL;
    }

    e->slots = (int *) &e[1];
    e->n_slots = n_slots;

    e->name.len = name->len;
    e->name.data = (u_char *) &e->slots[n_slots];
    ngx_memcpy(e->name.data, name->data, name->len);

    e->memfd = -1;
    e->setup = -1;
    e->program = -1;
    e->weights = -1;
    e->weights_r = -1;
    e->life_r = -1;
    e->life_w = -1;
    e->alive_r = -1;
    e->log_r = -1;
    e->log_w = -1;
    e->wake = -1;

    for (i = 0; i < n_slots; i++) {
        e->slots[i] = -1;
    }

    for (i = 0; i < NGX_HTTP_MISTRAL_KITS; i++) {
        e->kit[i] = -1;
    }

    if (ngx_http_mistral_engine_all.next == NULL) {
        ngx_queue_init(&ngx_http_mistral_engine_all);
    }

    ngx_queue_insert_tail(&ngx_http_mistral_engine_all, &e->queue);

    return e;
}


void
ngx_http_mistral_engine_free(ngx_http_mistral_engine_t *e)
{
    ngx_uint_t  i;

    if (e->map.shm != NULL) {
        mst_shm_detach(&e->map);
    }

    /* last of all the supervisor is told */

    ngx_http_mistral_engine_close(&e->memfd);
    ngx_http_mistral_engine_close(&e->alive_r);
    ngx_http_mistral_engine_close(&e->log_r);
    ngx_http_mistral_engine_close(&e->wake);

    for (i = 0; i < e->n_slots; i++) {
        ngx_http_mistral_engine_close(&e->slots[i]);
    }

    ngx_http_mistral_engine_strip(e);

    for (i = 0; i < NGX_HTTP_MISTRAL_KITS; i++) {
        ngx_http_mistral_engine_close(&e->kit[i]);
    }

    ngx_http_mistral_engine_close(&e->life_w);

    ngx_queue_remove(&e->queue);
    ngx_free(e);
}


/* a worker has them in the kit */

void
ngx_http_mistral_engine_strip(ngx_http_mistral_engine_t *e)
{
    ngx_uint_t  i;

    ngx_http_mistral_engine_close(&e->life_r);
    ngx_http_mistral_engine_close(&e->log_w);
    ngx_http_mistral_engine_close(&e->setup);
    ngx_http_mistral_engine_close(&e->program);
    ngx_http_mistral_engine_close(&e->weights);
    ngx_http_mistral_engine_close(&e->weights_r);

    for (i = 0; i < e->n_files; i++) {
        ngx_http_mistral_engine_close(&e->files[i]);
    }
}


static void
ngx_http_mistral_engine_close(int *fd)
{
    if (*fd != -1) {
        (void) close(*fd);
        *fd = -1;
    }
}


ngx_uint_t
ngx_http_mistral_engine_supervised(ngx_http_mistral_engine_t *e)
{
    struct pollfd  pf;

    pf.fd = e->alive_r;
    pf.events = POLLIN;
    pf.revents = 0;

    /* nobody writes: readable is the end of file */

    return poll(&pf, 1, 0) == 0;
}


int
ngx_http_mistral_engine_alive(ngx_http_mistral_engine_t *e)
{
    u_char  path[sizeof("/proc/self/fd/") + NGX_INT32_LEN];

    ngx_sprintf(path, "/proc/self/fd/%d%Z", e->alive_r);

    return open((char *) path, O_WRONLY|O_CLOEXEC);
}
