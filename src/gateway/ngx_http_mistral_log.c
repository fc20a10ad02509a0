
/*
 * Log lines of supervisor and engine: "<severity>text\n" in a pipe that all
 * workers of the engine read, so that level, rotation, syslog and stderr of
 * nginx hold for them too.
 *
 * Writers write whole lines of at most PIPE_BUF bytes, and one read() here
 * takes all that the pipe can hold, under its lock: a line is never torn
 * between workers.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"


#define NGX_HTTP_MISTRAL_PIPE  65536


static void ngx_http_mistral_log_handler(ngx_event_t *ev);
static void ngx_http_mistral_log_line(ngx_http_mistral_engine_t *e,
    ngx_log_t *log, u_char *p, u_char *last);


static u_char  ngx_http_mistral_log_buf[NGX_HTTP_MISTRAL_PIPE];


ngx_connection_t *
ngx_http_mistral_log_watch(ngx_cycle_t *cycle, ngx_http_mistral_engine_t *e)
{
    ngx_uint_t         flags;
    ngx_connection_t  *c;

    c = ngx_get_connection(e->log_r, cycle->log);
    if (c == NULL) {
        return NULL;
    }

    c->data = e;
    c->log = cycle->log;
    c->read->log = cycle->log;
    c->write->log = cycle->log;
    c->read->channel = 1;
    c->read->handler = ngx_http_mistral_log_handler;

    /* level-triggered: one line wakes one worker, or the next one */

    flags = NGX_LEVEL_EVENT;

#if (NGX_HAVE_EPOLLEXCLUSIVE)
    if (ngx_event_flags & NGX_USE_EPOLL_EVENT) {
        flags = NGX_EXCLUSIVE_EVENT;
    }
#endif

    if (ngx_add_event(c->read, NGX_READ_EVENT, flags) != NGX_OK) {
        ngx_free_connection(c);
        c->fd = (ngx_socket_t) -1;
        return NULL;
    }

    return c;
}


static void
ngx_http_mistral_log_handler(ngx_event_t *ev)
{
    u_char            *p, *nl, *last;
    ssize_t            n;
    ngx_connection_t  *c;

    c = ev->data;

    n = read(c->fd, ngx_http_mistral_log_buf, NGX_HTTP_MISTRAL_PIPE);

    if (n <= 0) {
        return;                                /* another worker has it */
    }

    last = ngx_http_mistral_log_buf + n;

    for (p = ngx_http_mistral_log_buf; p < last; p = nl + 1) {

        nl = ngx_strlchr(p, last, '\n');
        if (nl == NULL) {
            nl = last;
        }

        if (nl > p) {
            ngx_http_mistral_log_line(c->data, ngx_cycle->log, p, nl);
        }
    }
}


static void
ngx_http_mistral_log_line(ngx_http_mistral_engine_t *e, ngx_log_t *log,
    u_char *p, u_char *last)
{
    u_char      *c;
    ngx_uint_t   level;

    /* text of a library that knows nothing of levels: worth a look */

    level = NGX_LOG_WARN;

    if (last - p > 3 && p[0] == '<' && p[1] >= '0' && p[1] <= '7'
        && p[2] == '>')
    {
        level = NGX_LOG_EMERG + (p[1] - '0');
        p += 3;
    }

    for (c = p; c < last; c++) {
        if (*c < ' ' || *c == 0x7f) {
            *c = ' ';
        }
    }

    ngx_log_error(level, log, 0, "mistral model \"%V\": %*s",
                  &e->name, (size_t) (last - p), p);
}
