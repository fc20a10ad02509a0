
/*
 * Connections: see mistral_bench_conn.h.
 *
 * Sockets are registered once for both directions, edge-triggered: each
 * event sends and reads until the kernel says EAGAIN.
 */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mst_time.h"
#include "tools/mistral_bench_conn.h"

#define MISTRAL_CONN_READ  65536               /* bytes at once */


static int mistral_conn_body(void *data, const char *p, size_t n);
static int mistral_conn_open(mistral_conn_t *c, mistral_conns_t *s);
static int mistral_conn_write(mistral_conn_t *c);
static int mistral_conn_read(mistral_conn_t *c, mistral_conns_t *s, int ended);


void
mistral_conn_init(mistral_conn_t *c)
{
    memset(c, 0, sizeof(*c));

    c->fd = -1;
    mst_buf_init(&c->out);
    mistral_http_init(&c->http, mistral_conn_body, c);
    mistral_answer_init(&c->answer);
}


static void
mistral_conn_close(mistral_conn_t *c)
{
    if (c->fd != -1) {
        (void) close(c->fd);
        c->fd = -1;
    }

    c->kept = 0;
    c->connecting = 0;
}


void
mistral_conn_fini(mistral_conn_t *c)
{
    mistral_conn_close(c);
    mst_buf_fini(&c->out);
    mistral_http_fini(&c->http);
    mistral_answer_fini(&c->answer);
}


/* no more text comes: if all had begun, that was it */

static void
mistral_conn_over(mistral_conn_t *c, mistral_conns_t *s)
{
    if (!c->begun) {
        return;
    }

    c->begun = 0;
    s->n_begun--;

    if (s->latest) {
        s->latest->all_ns = s->latest->last_ns - s->latest->first_ns;
        s->latest->all_text = s->latest->n_text - 1;
        s->latest = NULL;
    }
}


/* the request is over, without an answer that counts */

static int
mistral_conn_fail(mistral_conn_t *c, mistral_conns_t *s,
    mistral_fault_t fault, const char *text)
{
    s->result->faults[fault]++;
    s->result->failed++;
    mistral_result_sample(s->result, text, strlen(text));

    mistral_conn_over(c, s);
    mistral_conn_close(c);
    c->busy = 0;

    return MST_ERROR;
}


static void
mistral_conn_rewind(mistral_conn_t *c)
{
    c->sent = 0;
    c->got = 0;
    c->n_text = 0;
    c->first_ns = 0;
    c->last_ns = 0;
    c->all_ns = 0;
    c->all_text = 0;
    mistral_http_next(&c->http);
    mistral_answer_reset(&c->answer, 0);
}


int
mistral_conn_start(mistral_conn_t *c, mistral_conns_t *s, uint64_t due_ns,
    uint64_t now_ns)
{
    c->busy = 1;
    c->again = 0;
    c->due_ns = due_ns;
    c->sent_ns = now_ns;
    mistral_conn_rewind(c);

    if (mistral_plan_request(s->plan, &c->out) != MST_OK) {
        return mistral_conn_fail(c, s, MISTRAL_FAULT_CONNECT, "no memory");
    }

    if (c->fd == -1 && mistral_conn_open(c, s) != MST_OK) {
        return mistral_conn_fail(c, s, MISTRAL_FAULT_CONNECT,
                                 strerror(errno));
    }

    /* what goes wrong here is found by the next event */

    if (!c->connecting) {
        (void) mistral_conn_write(c);
    }

    return MST_OK;
}


static int
mistral_conn_open(mistral_conn_t *c, mistral_conns_t *s)
{
    int                 one, rc;
    struct epoll_event  ev;

    c->fd = socket(s->url->addr.ss_family,
                   SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (c->fd == -1) {
        return MST_ERROR;
    }

    one = 1;
    (void) setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

    do {
        rc = connect(c->fd, (const struct sockaddr *) &s->url->addr,
                     s->url->addr_len);
    } while (rc == -1 && errno == EINTR);

    c->connecting = (rc == -1);

    if (rc == -1 && errno != EINPROGRESS) {
        return MST_ERROR;
    }

    memset(&ev, 0, sizeof(ev));
    ev.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    ev.data.ptr = c;

    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->fd, &ev) == -1 ? MST_ERROR
                                                                : MST_OK;
}


/* MST_OK: all is sent; MST_AGAIN; MST_ERROR with errno */

static int
mistral_conn_write(mistral_conn_t *c)
{
    ssize_t  n;

    while (c->sent < c->out.len) {
        n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
                 MSG_NOSIGNAL);

        if (n == -1) {
            if (errno == EINTR) {
                continue;
            }

            return errno == EAGAIN ? MST_AGAIN : MST_ERROR;
        }

        c->sent += (size_t) n;
    }

    return MST_OK;
}


static int
mistral_conn_body(void *data, const char *p, size_t n)
{
    mistral_conn_t  *c;

    c = data;

    if (c->http.events && !c->answer.events) {
        mistral_answer_reset(&c->answer, 1);
    }

    return mistral_answer_feed(&c->answer, p, n);
}


/* a kept connection may be closed by the server just as we send: that is no
   failure of its own, the request goes to a new one, once */

static int
mistral_conn_lost(mistral_conn_t *c, mistral_conns_t *s, int error)
{
    if (c->got == 0 && c->kept && !c->again) {
        mistral_conn_close(c);
        mistral_conn_rewind(c);

        c->again = 1;
        s->result->retried++;

        if (mistral_conn_open(c, s) == MST_OK) {
            return MST_OK;
        }

        error = errno;
        c->connecting = 1;
    }

    if (c->connecting) {
        return mistral_conn_fail(c, s, MISTRAL_FAULT_CONNECT,
                                 strerror(error));
    }

    return mistral_conn_fail(c, s, MISTRAL_FAULT_CLOSED, error
                             ? strerror(error)
                             : "the connection was closed within an answer");
}


/* new text since the last look at the clock */

static void
mistral_conn_clock(mistral_conn_t *c, mistral_conns_t *s, uint64_t now)
{
    if (c->answer.n_text == c->n_text) {
        return;
    }

    if (c->first_ns == 0) {
        c->first_ns = now;
        c->n_text++;
        c->begun = 1;

        if (++s->n_begun == s->conf->concurrency) {
            s->latest = c;
        }

    } else {
        mistral_stats_add(&s->result->gap, now - c->last_ns);
        c->n_text++;
    }

    /* events that came together were seen together */

    while (c->n_text < c->answer.n_text) {
        mistral_stats_add(&s->result->gap, 0);
        c->n_text++;
    }

    c->last_ns = now;
}


static void
mistral_conn_count(mistral_conn_t *c, mistral_conns_t *s, uint64_t now)
{
    mistral_answer_t  *a;
    mistral_result_t  *r;

    a = &c->answer;
    r = s->result;

    r->ok++;
    r->prompt += a->prompt;
    r->cached += a->cached;
    r->completion += a->completion;
    r->no_usage += !a->has_usage;

    mistral_stats_add(&r->total, now - c->due_ns);

    if (c->first_ns) {
        mistral_stats_add(&r->first, c->first_ns - c->due_ns);
    }

    if (c->first_ns && a->completion > 1) {
        mistral_stats_add(&r->token, (c->last_ns - c->first_ns)
                                     / (a->completion - 1));
    }

    /* an event may be more or less than a token, in all of the answer alike */

    if (c->all_text && a->completion > 1) {
        r->all_ns += c->all_ns;
        r->all_tokens += (double) c->all_text
                         * (double) (a->completion - 1)
                         / (double) (c->n_text - 1);
    }
}


/* the whole answer is here */

static int
mistral_conn_finish(mistral_conn_t *c, mistral_conns_t *s)
{
    uint64_t           now;
    mistral_answer_t  *a;
    mistral_result_t  *r;

    a = &c->answer;
    r = s->result;
    now = mst_time_ns();

    mistral_conn_over(c, s);
    c->busy = 0;
    c->kept = 1;
    r->end_ns = now;

    if (!c->http.keepalive) {
        mistral_conn_close(c);
    }

    if (c->http.status != 200) {
        r->status[c->http.status]++;
        r->failed++;
        mistral_result_sample(r, a->body.len ? a->body.data : "",
                              a->body.len);

        return MST_OK;
    }

    if (a->error) {
        return mistral_conn_fail(c, s, MISTRAL_FAULT_STREAM,
                                 "an error inside of a stream");
    }

    if (a->events && !a->done) {
        return mistral_conn_fail(c, s, MISTRAL_FAULT_INCOMPLETE,
                                 "a stream without an end");
    }

    if (!a->events && mistral_answer_whole(a) != MST_OK) {
        return mistral_conn_fail(c, s, MISTRAL_FAULT_PROTOCOL,
                                 "status 200 and no answer");
    }

    mistral_conn_count(c, s, now);

    return MST_OK;
}


/* what was read, which may end the answer */

static int
mistral_conn_take(mistral_conn_t *c, mistral_conns_t *s, const char *p,
    size_t n)
{
    int     rc;
    size_t  used;

    if (!c->busy) {
        mistral_conn_close(c);                 /* nobody asked */
        return MST_OK;
    }

    c->got += n;
    rc = mistral_http_feed(&c->http, p, n, &used);

    if (rc == MST_ERROR) {
        return mistral_conn_fail(c, s, MISTRAL_FAULT_PROTOCOL,
                                 "the answer is no HTTP");
    }

    mistral_conn_clock(c, s, mst_time_ns());

    if (rc != MST_DONE) {
        return MST_OK;
    }

    if (used < n) {
        c->http.keepalive = 0;
    }

    return mistral_conn_finish(c, s);
}


/* the end of a connection that came with the last bytes has no event of its
   own, so a short read is the last one only where no end was seen */

static int
mistral_conn_read(mistral_conn_t *c, mistral_conns_t *s, int ended)
{
    int      rc;
    ssize_t  n;

    static char  buf[MISTRAL_CONN_READ];

    for ( ;; ) {
        n = recv(c->fd, buf, sizeof(buf), 0);

        if (n == -1) {
            if (errno == EINTR) {
                continue;
            }

            return errno == EAGAIN ? MST_OK
                                   : mistral_conn_lost(c, s, errno);
        }

        if (n == 0) {
            if (c->got && mistral_http_close(&c->http) == MST_DONE) {
                return mistral_conn_finish(c, s);
            }

            return mistral_conn_lost(c, s, 0);
        }

        rc = mistral_conn_take(c, s, buf, (size_t) n);

        if (rc != MST_OK || c->fd == -1 || !c->busy) {
            return rc;
        }

        if ((size_t) n < sizeof(buf) && !ended) {
            return MST_OK;
        }
    }
}


int
mistral_conn_event(mistral_conn_t *c, mistral_conns_t *s, uint32_t events)
{
    int        rc, error, ended;
    socklen_t  len;

    if (c->fd == -1) {
        return MST_OK;
    }

    if (!c->busy) {

        /* an idle connection has nothing to say but its end */

        if (recv(c->fd, &len, 1, MSG_PEEK | MSG_DONTWAIT) != -1
            || errno != EAGAIN)
        {
            mistral_conn_close(c);
        }

        return MST_OK;
    }

    if (c->connecting) {
        len = sizeof(error);

        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) == -1) {
            error = errno;
        }

        if (error) {
            return mistral_conn_lost(c, s, error);
        }

        c->connecting = 0;
    }

    rc = mistral_conn_write(c);

    if (rc == MST_ERROR && c->got == 0) {

        /* it may have answered before it closed: an error's status */

        rc = errno;

        if (recv(c->fd, &len, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
            return mistral_conn_lost(c, s, rc);
        }
    }

    ended = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    rc = mistral_conn_read(c, s, ended);

    /* an end that came with the end of an answer is not told again, and a
       server that still reads would take the next request and say nothing */

    if (ended && !c->busy) {
        mistral_conn_close(c);
    }

    return rc;
}


void
mistral_conn_timeout(mistral_conn_t *c, mistral_conns_t *s, uint64_t now_ns)
{
    s->result->end_ns = now_ns;
    (void) mistral_conn_fail(c, s, MISTRAL_FAULT_TIMEOUT, "no answer in time");
}
