
/*
 * The master's side of the engines: which ones a new configuration needs,
 * which go on, which are created.
 *
 * An engine's life is a pipe whose write end master and workers hold; the
 * master closes its copy with the last cycle that used the engine, the
 * workers when they end.  Nobody else counts.  Its other end is kept, too,
 * and so is all else that another supervisor will need: one that dies with
 * its engine is followed by one that a worker starts (revive.c), or the
 * master at a reload.
 *
 * init_zone may refuse a configuration, init_module must not: an error there
 * ends the master at a reload.  So the program is asked in init_zone, and
 * what fails later is an alert in the log and 503 for the model.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"

#include <grp.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/mst_hash.h"


#define NGX_HTTP_MISTRAL_MIN_SLOTS  128


static ngx_int_t ngx_http_mistral_identity(ngx_cycle_t *cycle,
    ngx_http_mistral_main_conf_t *mmcf, ngx_http_mistral_model_t *m);
static ngx_int_t ngx_http_mistral_identity_user(ngx_cycle_t *cycle,
    mst_setup_t *setup);
static ngx_http_mistral_engine_t *ngx_http_mistral_find_engine(
    ngx_http_mistral_main_conf_t *mmcf, uint64_t hash);
static ngx_http_mistral_engine_t *ngx_http_mistral_find_previous(
    ngx_http_mistral_main_conf_t *omcf, ngx_http_mistral_model_t *m);
static void ngx_http_mistral_start(ngx_cycle_t *cycle,
    ngx_http_mistral_model_t *m);
static ngx_http_mistral_engine_t *ngx_http_mistral_engine_create(
    ngx_cycle_t *cycle, ngx_http_mistral_model_t *m);
static ngx_int_t ngx_http_mistral_engine_open(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e);
static ngx_int_t ngx_http_mistral_engine_pipes(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e);
static void ngx_http_mistral_engine_equip(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e, ngx_http_mistral_model_t *m);
static void ngx_http_mistral_engine_unref(void *data);
static void ngx_http_mistral_engine_close(int *fd);


/*
 * "old" is the main configuration of the running cycle, or NULL.  Nothing is
 * started or counted here: the configuration may still be rolled back.
 */

ngx_int_t
ngx_http_mistral_init_zone(ngx_shm_zone_t *zone, void *old)
{
    ngx_http_mistral_main_conf_t *omcf = old;

    ngx_uint_t                      i, need;
    ngx_http_mistral_model_t      **models;
    ngx_http_mistral_main_conf_t   *mmcf;

    mmcf = zone->data;
    models = mmcf->models.elts;
    need = 0;

    if (ngx_http_mistral_metrics_init(mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    for (i = 0; i < mmcf->models.nelts; i++) {

        if (ngx_http_mistral_identity(mmcf->cycle, mmcf, models[i])
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (omcf != NULL) {
            models[i]->engine = ngx_http_mistral_find_engine(omcf,
                                                            models[i]->hash);
            models[i]->previous = ngx_http_mistral_find_previous(omcf,
                                                                 models[i]);
        }

        if (models[i]->engine == NULL
            && !ngx_http_mistral_inheritable(models[i]->hash))
        {
            need = 1;
        }
    }

    /* an unchanged engine is never a reason to refuse a reload */

    if (!need) {
        return NGX_OK;
    }

    if (mmcf->no_program) {
        ngx_log_error(NGX_LOG_EMERG, mmcf->cycle->log, 0,
                      "the engine program is neither \"%V\", beside the "
                      "module, nor \"%s\", see \"mistral_program\"",
                      &mmcf->program, NGX_HTTP_MISTRAL_PROGRAM);
        return NGX_ERROR;
    }

    return ngx_http_mistral_probe(mmcf->cycle, &mmcf->program);
}


/* what makes two cycles share one engine: the setup's bytes and the layout */

static ngx_int_t
ngx_http_mistral_identity(ngx_cycle_t *cycle,
    ngx_http_mistral_main_conf_t *mmcf, ngx_http_mistral_model_t *m)
{
    mst_setup_t  *setup;

    setup = m->setup;

    ngx_cpystrn((u_char *) setup->program, mmcf->program.data,
                sizeof(setup->program));

    if (ngx_http_mistral_identity_user(cycle, setup) != NGX_OK) {
        return NGX_ERROR;
    }

    m->hash = mst_hash(mst_shm_layout(), setup, sizeof(mst_setup_t));

    return NGX_OK;
}


/* numbers, since the program asks no name service */

static ngx_int_t
ngx_http_mistral_identity_user(ngx_cycle_t *cycle, mst_setup_t *setup)
{
    int               n, i;
    gid_t             groups[MST_SETUP_GROUPS];
    ngx_core_conf_t  *ccf;

    setup->uid = (uint32_t) -1;
    setup->gid = (uint32_t) -1;
    setup->n_groups = 0;

    if (geteuid() != 0) {
        return NGX_OK;
    }

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    setup->uid = ccf->user;
    setup->gid = ccf->group;

    n = MST_SETUP_GROUPS;

    if (getgrouplist(ccf->username, ccf->group, groups, &n) == -1) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "user \"%s\" is in %d groups, an engine can have %d",
                      ccf->username, n, MST_SETUP_GROUPS);
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        setup->groups[i] = groups[i];
    }

    setup->n_groups = n;

    return NGX_OK;
}


static ngx_http_mistral_engine_t *
ngx_http_mistral_find_engine(ngx_http_mistral_main_conf_t *mmcf,
    uint64_t hash)
{
    ngx_uint_t                  i;
    ngx_http_mistral_model_t  **models;

    models = mmcf->models.elts;

    for (i = 0; i < mmcf->models.nelts; i++) {
        if (models[i]->engine != NULL && models[i]->engine->hash == hash) {
            return models[i]->engine;
        }
    }

    return NULL;
}


/* the engine whose end a changed one is to wait for */

static ngx_http_mistral_engine_t *
ngx_http_mistral_find_previous(ngx_http_mistral_main_conf_t *omcf,
    ngx_http_mistral_model_t *m)
{
    ngx_uint_t                  i;
    ngx_http_mistral_model_t  **models;

    if (m->engine != NULL || m->reload != NGX_HTTP_MISTRAL_DRAIN) {
        return NULL;
    }

    models = omcf->models.elts;

    for (i = 0; i < omcf->models.nelts; i++) {
        if (models[i]->name.len == m->name.len
            && ngx_memcmp(models[i]->name.data, m->name.data, m->name.len)
               == 0)
        {
            return models[i]->engine;
        }
    }

    return NULL;
}


ngx_int_t
ngx_http_mistral_init_module(ngx_cycle_t *cycle)
{
    ngx_uint_t                      i;
    ngx_http_mistral_model_t      **models;
    ngx_http_mistral_main_conf_t   *mmcf;

    if (ngx_test_config) {
        return NGX_OK;
    }

    mmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mistral_module);

    if (mmcf != NULL) {
        models = mmcf->models.elts;

        for (i = 0; i < mmcf->models.nelts; i++) {
            ngx_http_mistral_start(cycle, models[i]);
            ngx_http_mistral_metrics_attach(cycle, mmcf, models[i]);
            ngx_http_mistral_model_close_files(models[i]);
        }
    }

    /* an old binary's engine that nobody wants here must not wait for us */

    ngx_http_mistral_inherit_end(cycle);

    if (mmcf != NULL && mmcf->models.nelts) {
        ngx_http_mistral_export(cycle, mmcf);
    }

    if (ngx_process == NGX_PROCESS_SINGLE) {
        ngx_http_mistral_link_renew(cycle);
    }

    return NGX_OK;
}


static void
ngx_http_mistral_start(ngx_cycle_t *cycle, ngx_http_mistral_model_t *m)
{
    ngx_pool_cleanup_t         *cln;
    ngx_http_mistral_engine_t  *e;

    cln = ngx_pool_cleanup_add(cycle->pool, 0);
    if (cln == NULL) {
        m->engine = NULL;
        return;
    }

    e = m->engine;

    if (e == NULL) {
        e = ngx_http_mistral_inherit(cycle, m);
    }

    if (e == NULL) {
        e = ngx_http_mistral_engine_create(cycle, m);
        if (e == NULL) {
            return;
        }
    }

    if (!e->packed) {
        ngx_http_mistral_engine_equip(cycle, e, m);
    }

    cln->handler = ngx_http_mistral_engine_unref;
    cln->data = e;

    e->refs++;
    m->engine = e;

    /* no reason for another engine: its supervisor looks there each time */

    atomic_store(&e->map.shm->timeout_ms,
                 (uint32_t) ngx_min(m->engine_timeout, NGX_MAX_INT32_VALUE));

    if (!ngx_http_mistral_engine_supervised(e)) {
        (void) ngx_http_mistral_spawn(cycle, m, e);
    }

    m->previous = NULL;                        /* it goes with its cycle */
}


static ngx_http_mistral_engine_t *
ngx_http_mistral_engine_create(ngx_cycle_t *cycle,
    ngx_http_mistral_model_t *m)
{
    uint32_t                    req_size, rsp_size, n_slots;
    mst_err_t                   err;
    ngx_core_conf_t            *ccf;
    ngx_http_mistral_engine_t  *e;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    /* old workers keep their slots while their streams last */

    n_slots = ngx_max(8 * ccf->worker_processes, NGX_HTTP_MISTRAL_MIN_SLOTS);
    n_slots = ngx_min(n_slots, MST_MAX_SLOTS);

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

static void
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

    if (sched_getaffinity(0, sizeof(cpu_set_t), &e->cpus) == -1) {
        CPU_ZERO(&e->cpus);
    }

    (void) ngx_http_mistral_kit_pack(e, cycle->log);
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


static void
ngx_http_mistral_engine_unref(void *data)
{
    ngx_http_mistral_engine_t *e = data;

    if (--e->refs == 0) {
        ngx_http_mistral_engine_free(e);
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
