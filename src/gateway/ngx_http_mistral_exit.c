
/*
 * The end of a worker whose streams nginx will cut: "worker_shutdown_timeout"
 * closes connections as they stand.  So a little earlier its calls are lost,
 * and each stream ends with an error event, each waiting request with 503.
 *
 * nginx tells nobody that a worker begins to leave, but it asks idle
 * connections to close: that of our eventfd says it is one.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_link.h"
#include "gateway/ngx_http_mistral_wait.h"


#define NGX_HTTP_MISTRAL_EXIT_EARLY  200       /* ms, at most */


static void ngx_http_mistral_exit_handler(ngx_event_t *ev);


void
ngx_http_mistral_exit_watch(ngx_http_mistral_link_t *link)
{
    link->wake->idle = 1;

    link->exit.data = link;
    link->exit.log = link->timer.log;
    link->exit.handler = ngx_http_mistral_exit_handler;
    link->exit.cancelable = 1;
}


void
ngx_http_mistral_exit_begin(ngx_http_mistral_link_t *link)
{
    ngx_msec_t        timeout, early;
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx,
                                           ngx_core_module);
    timeout = ccf->shutdown_timeout;

    if (timeout == 0 || link->exit.timer_set) {
        return;
    }

    early = ngx_min(timeout / 2, NGX_HTTP_MISTRAL_EXIT_EARLY);

    ngx_add_timer(&link->exit, timeout - early);
}


void
ngx_http_mistral_exit_end(ngx_http_mistral_link_t *link)
{
    if (link->exit.timer_set) {
        ngx_del_timer(&link->exit);
    }
}


static void
ngx_http_mistral_exit_handler(ngx_event_t *ev)
{
    ngx_http_mistral_link_t  *link;

    link = ev->data;

    /* who comes now, on a connection that is still open, gets 503 at once */

    link->cut = 1;

    ngx_http_mistral_call_lost(link, 1);
    ngx_http_mistral_wait_lost(link);
}
