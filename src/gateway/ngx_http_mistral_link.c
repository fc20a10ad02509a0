
/*
 * A worker's side of its engines: from when it takes a slot to when it gives
 * it back, and what a request may expect of an engine now.
 */

#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_link.h"
#include "gateway/ngx_http_mistral_metrics.h"
#include "gateway/ngx_http_mistral_wait.h"

#include "base/mst_time.h"
#include "shm/mst_slot.h"


static void ngx_http_mistral_link_cloexec(ngx_http_mistral_engine_t *e);
static ngx_int_t ngx_http_mistral_link_attach(ngx_cycle_t *cycle,
    ngx_http_mistral_model_t *m);
static void ngx_http_mistral_link_forget_slots(ngx_http_mistral_engine_t *e,
    ngx_uint_t own);
static void ngx_http_mistral_link_detach(ngx_http_mistral_link_t *link);


/* of this process; a reload without a master replaces them */

static ngx_array_t  *ngx_http_mistral_links;   /* of _link_t * */


ngx_int_t
ngx_http_mistral_init_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                      i;
    ngx_http_mistral_model_t      **models;
    ngx_http_mistral_engine_t      *e;
    ngx_http_mistral_main_conf_t   *mmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mistral_module);

    if (mmcf == NULL || mmcf->models.nelts == 0) {
        return NGX_OK;
    }

    ngx_http_mistral_memory_init(cycle);

    ngx_http_mistral_links = ngx_array_create(cycle->pool,
                                              mmcf->models.nelts,
                                              sizeof(void *));
    if (ngx_http_mistral_links == NULL) {
        return NGX_ERROR;
    }

    models = mmcf->models.elts;

    for (i = 0; i < mmcf->models.nelts; i++) {

        e = models[i]->engine;

        if (e == NULL) {
            continue;
        }

        if (ngx_process != NGX_PROCESS_WORKER
            && ngx_process != NGX_PROCESS_SINGLE)
        {
            /* a cache manager needs no engine */

            if (e->life_w != -1) {
                (void) close(e->life_w);
                e->life_w = -1;
            }

            continue;
        }

        if (ngx_process == NGX_PROCESS_WORKER) {
            ngx_http_mistral_link_cloexec(e);
        }

        if (ngx_http_mistral_link_attach(cycle, models[i]) != NGX_OK) {
            ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                          "mistral model \"%V\": this worker has no link to "
                          "the engine", &models[i]->name);
        }
    }

    return NGX_OK;
}


static void
ngx_http_mistral_link_cloexec(ngx_http_mistral_engine_t *e)
{
    int         fds[7];
    ngx_uint_t  i;

    if (e->packed) {
        ngx_http_mistral_engine_strip(e);
    }

    fds[0] = e->memfd;
    fds[1] = e->life_r;
    fds[2] = e->life_w;
    fds[3] = e->alive_r;
    fds[4] = e->log_r;
    fds[5] = e->log_w;
    fds[6] = e->wake;

    for (i = 0; i < 7; i++) {
        if (fds[i] != -1) {
            (void) fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        }
    }

    for (i = 0; i < e->n_slots; i++) {
        (void) fcntl(e->slots[i], F_SETFD, FD_CLOEXEC);
    }
}


static ngx_int_t
ngx_http_mistral_link_attach(ngx_cycle_t *cycle, ngx_http_mistral_model_t *m)
{
    ngx_http_mistral_link_t    *link, **lp;
    ngx_http_mistral_engine_t  *e;

    e = m->engine;
    e->link = NULL;

    /* in the heap: calls may outlive a cycle that had no master */

    link = ngx_calloc(sizeof(ngx_http_mistral_link_t), cycle->log);
    if (link == NULL) {
        return NGX_ERROR;
    }

    link->ident = (ngx_socket_t) -1;
    link->engine = e;
    link->metrics = m->metrics;
    link->timeout = m->engine_timeout;
    link->index = -1;

    link->timer.data = link;
    link->timer.log = cycle->log;
    link->timer.handler = ngx_http_mistral_watch_timer_handler;
    link->timer.cancelable = 1;

    link->revive.data = link;
    link->revive.log = cycle->log;
    link->revive.handler = ngx_http_mistral_revive_handler;
    link->revive.cancelable = 1;
    link->program = m->setup->program;

    ngx_http_mistral_wait_init(link);

    link->copy_size = e->map.rsp_size / 2;
    link->copy = ngx_alloc(link->copy_size, cycle->log);

    if (link->copy == NULL
        || ngx_http_mistral_call_init(link, cycle->pool) != NGX_OK)
    {
        ngx_http_mistral_link_free(link);
        return NGX_ERROR;
    }

    lp = ngx_array_push(ngx_http_mistral_links);
    if (lp == NULL) {
        ngx_http_mistral_link_free(link);
        return NGX_ERROR;
    }

    *lp = link;
    e->link = link;

    ngx_http_mistral_watch_alive(link);
    link->log = ngx_http_mistral_log_watch(cycle, e);

    ngx_http_mistral_link_claim(link);

    return NGX_OK;
}


/* slots of dead workers are freed by the engine: there may be none now */

void
ngx_http_mistral_link_claim(ngx_http_mistral_link_t *link)
{
    int                         i;
    ngx_http_mistral_engine_t  *e;

    e = link->engine;

    i = mst_slot_claim(&e->map, ngx_pid);

    if (i < 0 || i >= (int) e->n_slots) {

        if (!link->timer.timedout) {
            ngx_log_error(NGX_LOG_ALERT, link->timer.log, 0,
                          "mistral model \"%V\": all %ui slots are taken, "
                          "old workers still finish their streams, see "
                          "\"worker_shutdown_timeout\"",
                          &e->name, e->n_slots);
        }

        ngx_http_mistral_watch_timer(link);
        return;
    }

    link->wake = ngx_http_mistral_watch_add(link, e->slots[i],
                                          ngx_http_mistral_watch_wake_handler);
    if (link->wake == NULL) {
        mst_slot_leave(&e->map, i);
        return;
    }

    ngx_http_mistral_exit_watch(link);

    link->index = i;
    link->slot = &e->map.slots[i];
    link->slot_epoch = atomic_load(&link->slot->epoch);
    link->engine_epoch = atomic_load(&e->map.shm->engine_epoch);

    mst_slot_rings(&e->map, i, 1, &link->req, &link->rsp);
    mst_shm_sleep(&link->slot->sleeping);

    if (ngx_process == NGX_PROCESS_WORKER) {
        ngx_http_mistral_link_forget_slots(e, i);
    }

    /* the engine shall watch our pid */

    ngx_http_mistral_link_wake(link);
}


/* the eventfds of other workers only count against our limit of files */

static void
ngx_http_mistral_link_forget_slots(ngx_http_mistral_engine_t *e,
    ngx_uint_t own)
{
    ngx_uint_t  i;

    for (i = 0; i < e->n_slots; i++) {
        if (i != own && e->slots[i] != -1) {
            (void) close(e->slots[i]);
            e->slots[i] = -1;
        }
    }
}


/* no event is handled after this: calls that are left are nobody's */

void
ngx_http_mistral_exit_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                 i;
    ngx_http_mistral_link_t  **links;

    ngx_http_mistral_memory_exit();

    if (ngx_http_mistral_links == NULL) {
        return;
    }

    links = ngx_http_mistral_links->elts;

    for (i = 0; i < ngx_http_mistral_links->nelts; i++) {
        ngx_http_mistral_link_detach(links[i]);
        ngx_http_mistral_link_free(links[i]);
    }

    ngx_http_mistral_links = NULL;
}


void
ngx_http_mistral_link_free(ngx_http_mistral_link_t *link)
{
    if (link->entries) {
        ngx_free(link->entries);
    }

    if (link->copy) {
        ngx_free(link->copy);
    }

    ngx_free(link);
}


static void
ngx_http_mistral_link_detach(ngx_http_mistral_link_t *link)
{
    ngx_http_mistral_engine_t  *e;

    e = link->engine;

    /* maybe the last that sees this segment */

    ngx_http_mistral_metrics_fold(link->metrics, &e->map);

    if (link->timer.timer_set) {
        ngx_del_timer(&link->timer);
    }

    ngx_http_mistral_revive_end(link);
    ngx_http_mistral_exit_end(link);
    ngx_http_mistral_wait_fini(link);

    ngx_http_mistral_watch_del(link->wake);
    ngx_http_mistral_watch_del(link->alive);
    ngx_http_mistral_watch_del(link->log);

    link->wake = NULL;
    link->alive = NULL;
    link->log = NULL;

    if (link->index != -1) {
        mst_slot_leave(&e->map, link->index);
        ngx_http_mistral_link_wake(link);
        link->index = -1;
        link->slot = NULL;
    }

    link->gone = 1;
    link->engine = NULL;
    e->link = NULL;
}


/*
 * Without a master a reload happens inside of the only process, and nginx
 * does not call init_process again.
 */

void
ngx_http_mistral_link_renew(ngx_cycle_t *cycle)
{
    ngx_uint_t                 i;
    ngx_array_t               *old;
    ngx_http_mistral_link_t  **links;

    old = ngx_http_mistral_links;

    if (old == NULL) {
        return;                                /* the first start */
    }

    links = old->elts;

    for (i = 0; i < old->nelts; i++) {
        ngx_http_mistral_call_lost(links[i], 1);
        ngx_http_mistral_wait_lost(links[i]);
        ngx_http_mistral_link_detach(links[i]);

        if (links[i]->n_refs == 0) {
            ngx_http_mistral_link_free(links[i]);
        }
    }

    ngx_http_mistral_links = NULL;

    (void) ngx_http_mistral_init_process(cycle);
}


/* what a request may expect; the segment's words are only ever compared */

ngx_http_mistral_state_e
ngx_http_mistral_link_look(ngx_http_mistral_link_t *link)
{
    mst_shm_t  *shm;

    if (link == NULL || link->index == -1 || link->gone) {
        return NGX_HTTP_MISTRAL_DOWN;
    }

    if (link->cut) {
        return NGX_HTTP_MISTRAL_DRAINING;
    }

    shm = link->engine->map.shm;

    if (link->broken
        && link->broken_epoch == atomic_load(&shm->engine_epoch))
    {
        return NGX_HTTP_MISTRAL_DOWN;
    }

    switch (atomic_load(&shm->state)) {

    case MST_STATE_INIT:
    case MST_STATE_LOADING:
        return NGX_HTTP_MISTRAL_LOADING;

    case MST_STATE_READY:
        if (mst_stat_beat_age(&shm->stat, mst_time_ns())
            > link->timeout * MST_MS)
        {
            ngx_http_mistral_watch_timer(link); /* somebody must look at it */
            return NGX_HTTP_MISTRAL_DOWN;
        }

        return NGX_HTTP_MISTRAL_READY;

    case MST_STATE_DRAINING:
        return NGX_HTTP_MISTRAL_DRAINING;

    default:
        return NGX_HTTP_MISTRAL_DOWN;
    }
}


ngx_http_mistral_state_e
ngx_http_mistral_link_state(ngx_http_mistral_model_t *m)
{
    ngx_http_mistral_state_e  state;

    state = ngx_http_mistral_link_look(m->engine ? m->engine->link : NULL);

    if (state == NGX_HTTP_MISTRAL_READY && m->metrics != NULL
        && atomic_load(&m->metrics->drained))
    {
        return NGX_HTTP_MISTRAL_DRAINING;
    }

    return state;
}


/*
 * It hangs, loads, died, or waits for the engine before it: without an order
 * it will be another one soon.  Not so bytes that make no sense, and an
 * engine that says itself that it cannot be loaded.
 */

ngx_uint_t
ngx_http_mistral_link_coming(ngx_http_mistral_model_t *m)
{
    mst_shm_t                *shm;
    ngx_http_mistral_link_t  *link;

    link = m->engine ? m->engine->link : NULL;

    if (link == NULL || link->index == -1 || link->cut
        || (m->metrics != NULL && atomic_load(&m->metrics->drained)))
    {
        return 0;
    }

    shm = link->engine->map.shm;

    if (link->broken
        && link->broken_epoch == atomic_load(&shm->engine_epoch))
    {
        return 0;
    }

    return atomic_load(&shm->state) != MST_STATE_DOWN
           || !atomic_load(&shm->refused);
}


void
ngx_http_mistral_link_order(ngx_http_mistral_model_t *m,
    ngx_http_mistral_order_e order)
{
    mst_shm_t  *shm;

    if (m->engine == NULL) {
        return;
    }

    shm = m->engine->map.shm;

    (void) atomic_fetch_add(order == NGX_HTTP_MISTRAL_ORDER_FLUSH
                            ? &shm->flush : &shm->knock, 1);

    if (m->engine->link != NULL) {
        ngx_http_mistral_link_wake(m->engine->link);
    }
}


const mst_map_t *
ngx_http_mistral_link_map(ngx_http_mistral_model_t *m)
{
    return m->engine ? &m->engine->map : NULL;
}


/* what the engine gives to one sequence: a small cache makes it less */

uint32_t
ngx_http_mistral_context(ngx_http_mistral_model_t *m)
{
    uint32_t  context;

    if (m->engine == NULL) {
        return m->context;
    }

    context = atomic_load(&m->engine->map.shm->context);

    return context != 0 && context < m->context ? context : m->context;
}


void
ngx_http_mistral_link_wake(ngx_http_mistral_link_t *link)
{
    uint64_t  one;

    if (!mst_shm_wake(&link->engine->map.shm->sleeping)) {
        return;
    }

    one = 1;

    if (write(link->engine->wake, &one, sizeof(one)) == -1
        && ngx_errno != NGX_EAGAIN)
    {
        ngx_log_error(NGX_LOG_ALERT, link->timer.log, ngx_errno,
                      "write() to an eventfd failed");
    }
}


/* the peer's bytes are nonsense: until it is another process */

void
ngx_http_mistral_link_broken(ngx_http_mistral_link_t *link, const char *why)
{
    if (link->broken) {
        return;
    }

    link->broken = 1;
    link->broken_epoch = link->engine_epoch;

    ngx_log_error(NGX_LOG_ALERT, link->timer.log, 0,
                  "mistral model \"%V\": broken record from the engine: %s",
                  &link->engine->name, why);
}
