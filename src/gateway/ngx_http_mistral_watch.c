
/*
 * A worker's engines in its event loop.
 *
 * Three descriptors are watched: the eventfd of our slot (records, or a new
 * life of the engine), the alive pipe (end of file: neither engine nor
 * supervisor) and the log pipe.  None of them keeps a worker from leaving:
 * read->channel marks them as nobody's connection.
 */

#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_link.h"
#include "gateway/ngx_http_mistral_metrics.h"
#include "gateway/ngx_http_mistral_wait.h"

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_WATCH_PASSES  4       /* before others get a turn */
#define NGX_HTTP_MISTRAL_WATCH_TICK    1000    /* ms */


static void ngx_http_mistral_watch_alive_handler(ngx_event_t *ev);
static void ngx_http_mistral_watch_stale(ngx_http_mistral_link_t *link,
    uint64_t age);


ngx_connection_t *
ngx_http_mistral_watch_add(ngx_http_mistral_link_t *link, int fd,
    ngx_event_handler_pt handler)
{
    ngx_log_t         *log;
    ngx_uint_t         flags;
    ngx_connection_t  *c;

    log = link->timer.log;

    c = ngx_get_connection(fd, log);
    if (c == NULL) {
        return NULL;
    }

    c->data = link;
    c->log = log;
    c->read->log = log;
    c->write->log = log;
    c->read->channel = 1;
    c->read->handler = handler;

    flags = (ngx_event_flags & NGX_USE_CLEAR_EVENT) ? NGX_CLEAR_EVENT
                                                    : NGX_LEVEL_EVENT;

    if (ngx_add_event(c->read, NGX_READ_EVENT, flags) != NGX_OK) {
        ngx_free_connection(c);
        c->fd = (ngx_socket_t) -1;
        return NULL;
    }

    return c;
}


void
ngx_http_mistral_watch_del(ngx_connection_t *c)
{
    if (c == NULL) {
        return;
    }

    if (c->read->active) {
        (void) ngx_del_event(c->read, NGX_READ_EVENT, 0);
    }

    if (c->read->posted) {
        ngx_delete_posted_event(c->read);
    }

    ngx_free_connection(c);
    c->fd = (ngx_socket_t) -1;                 /* it is not ours to close */
}


/*
 * Records, or the engine's life changed.  The eventfd need not be read while
 * it is edge-triggered: every write is an edge.
 */

void
ngx_http_mistral_watch_wake_handler(ngx_event_t *ev)
{
    uint64_t                  count;
    ngx_uint_t                i;
    ngx_connection_t         *c;
    ngx_http_mistral_link_t  *link;

    c = ev->data;
    link = c->data;

    if (!(ngx_event_flags & NGX_USE_CLEAR_EVENT)) {
        if (read(c->fd, &count, sizeof(count)) == -1
            && ngx_errno != NGX_EAGAIN)
        {
            ngx_log_error(NGX_LOG_ALERT, ev->log, ngx_errno,
                          "read() from an eventfd failed");
        }
    }

    if (c->close) {
        c->close = 0;
        ngx_http_mistral_exit_begin(link);
        return;
    }

    ngx_http_mistral_cancel_look();
    (void) ngx_http_mistral_revive_look(link);
    ngx_http_mistral_wait_wake(link);

    for (i = 0; i < NGX_HTTP_MISTRAL_WATCH_PASSES; i++) {
        if (ngx_http_mistral_call_pass(link) == NGX_OK) {
            return;
        }
    }

    /* it does not end: clients and timers first, then on without a wake-up */

    ngx_post_event(ev, &ngx_posted_next_events);
}


void
ngx_http_mistral_watch_alive(ngx_http_mistral_link_t *link)
{
    link->alive = ngx_http_mistral_watch_add(link, link->engine->alive_r,
                                          ngx_http_mistral_watch_alive_handler);
}


/* nobody writes into this pipe: this is its end */

static void
ngx_http_mistral_watch_alive_handler(ngx_event_t *ev)
{
    ngx_connection_t         *c;
    ngx_http_mistral_link_t  *link;

    c = ev->data;
    link = c->data;

    if (link->gone) {
        return;
    }

    link->gone = 1;
    link->alive = NULL;
    ngx_http_mistral_watch_del(c);

    ngx_log_error(NGX_LOG_ERR, ev->log, 0,
                  "mistral model \"%V\": the engine and its supervisor "
                  "are gone", &link->engine->name);

    ngx_http_mistral_call_lost(link, 1);
    ngx_http_mistral_wait_wake(link);
    ngx_http_mistral_revive(link);
}


void
ngx_http_mistral_watch_timer(ngx_http_mistral_link_t *link)
{
    if (!link->timer.timer_set) {
        ngx_add_timer(&link->timer, NGX_HTTP_MISTRAL_WATCH_TICK);
    }
}


/* while calls are in flight, a cancel waits for room, or we have no slot */

void
ngx_http_mistral_watch_timer_handler(ngx_event_t *ev)
{
    uint64_t                  age;
    mst_shm_t                *shm;
    ngx_http_mistral_link_t  *link;

    link = ev->data;

    if (link->index == -1) {
        ngx_http_mistral_link_claim(link);
        return;
    }

    ngx_http_mistral_cancel_look();
    ngx_http_mistral_wish_retry(link);
    ngx_http_mistral_metrics_fold(link->metrics, &link->engine->map);

    shm = link->engine->map.shm;
    age = mst_stat_beat_age(&shm->stat, mst_time_ns());

    if (link->gone || atomic_load(&shm->state) != MST_STATE_READY
        || age <= link->timeout * MST_MS)
    {
        link->hung = 0;
        link->alone = 0;

    } else {
        ngx_http_mistral_watch_stale(link, age / MST_MS);
    }

    if (link->hung || ngx_http_mistral_call_busy(link)) {
        ngx_http_mistral_watch_timer(link);
    }
}


static void
ngx_http_mistral_watch_stale(ngx_http_mistral_link_t *link, uint64_t age)
{
    if (!link->hung) {
        link->hung = 1;
        ngx_log_error(NGX_LOG_ERR, link->timer.log, 0,
                      "mistral model \"%V\": the engine hangs, its last "
                      "heartbeat is %uL ms old",
                      &link->engine->name, age);
    }

    ngx_http_mistral_call_lost(link, 1);
    ngx_http_mistral_revive_stale(link);
}
