
/*
 * Large memory of requests goes back to the system in parts, one in each turn
 * of the event loop, whoever freed it and why: a request of some MiB ends
 * without a stall of this worker's streams.  Workers only.
 */

#include "gateway/ngx_http_mistral_link.h"

#include "base/mst_mem.h"

#include <jansson.h>


#define NGX_HTTP_MISTRAL_GIVE  (2 * 1024 * 1024)       /* bytes, some tenths
                                                          of a ms */


static void ngx_http_mistral_memory_wake(void);
static void ngx_http_mistral_memory_handler(ngx_event_t *ev);


static ngx_event_t    ngx_http_mistral_memory_event;

static json_malloc_t  ngx_http_mistral_memory_alloc;
static json_free_t    ngx_http_mistral_memory_free;


void
ngx_http_mistral_memory_init(ngx_cycle_t *cycle)
{
    ngx_event_t  *ev;

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return;
    }

    ev = &ngx_http_mistral_memory_event;

    ev->log = cycle->log;

    if (ev->handler) {
        return;                                /* a reload without a master */
    }

    ev->handler = ngx_http_mistral_memory_handler;

    mst_mem_later(ngx_http_mistral_memory_wake);

    /* a body's text is a string of jansson's once; both ways end in malloc()
       and free(), so that others who use it may be in the middle of it */

    json_get_alloc_funcs(&ngx_http_mistral_memory_alloc,
                         &ngx_http_mistral_memory_free);
    json_set_alloc_funcs(mst_alloc, mst_free);
}


void
ngx_http_mistral_memory_exit(void)
{
    if (ngx_http_mistral_memory_event.handler) {
        json_set_alloc_funcs(ngx_http_mistral_memory_alloc,
                             ngx_http_mistral_memory_free);
        mst_mem_later(NULL);
    }
}


static void
ngx_http_mistral_memory_wake(void)
{
    ngx_event_t  *ev;

    ev = &ngx_http_mistral_memory_event;

    ngx_post_event(ev, &ngx_posted_next_events);
}


static void
ngx_http_mistral_memory_handler(ngx_event_t *ev)
{
    if (mst_mem_release(NGX_HTTP_MISTRAL_GIVE)) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }
}
