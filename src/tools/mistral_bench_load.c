
/*
 * mistral bench URL: the loop that starts requests and waits for answers.
 *
 * Closed loop: every connection has a request on its way, the next one
 * follows the end of the last.  Open loop (--rate): requests are due at
 * random times of their own, and one that finds no connection free waits,
 * which counts as its time: a slow server does not slow its clients down.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "tools/mistral_bench_conn.h"
#include "tools/mistral_tool.h"

#define MISTRAL_LOAD_EVENTS    512
#define MISTRAL_LOAD_FILES     32              /* besides the connections */
#define MISTRAL_LOAD_TIMEOUT   300             /* seconds of a request */
#define MISTRAL_LOAD_PAUSE     (100 * MST_MS)  /* after a failure that was no
                                                  answer: no busy loop against
                                                  a closed port */
#define MISTRAL_LOAD_LATE      (2 * MST_MS)    /* a request after it was due */
#define MISTRAL_LOAD_PROGRESS  (500 * MST_MS)


typedef struct {
    mistral_conns_t        shared;
    mistral_conn_t        *conns;      /* [n_conns] */
    uint64_t               n_conns;
    mistral_conn_t        *idle;       /* last in, first out: with a rate,
                                          few are used */
    mistral_conn_t        *pause;      /* all pauses are equally long: */
    mistral_conn_t       **pause_end;  /* first in, first out */
    uint64_t               running;
    uint64_t               started;
    uint64_t               limit;      /* requests */
    uint64_t               end_ns;     /* none is started from here on */
    uint64_t               due_ns;     /* of the next one, with a rate */
    uint64_t               timeout_ns;
    uint64_t               shown_ns;   /* the progress */
    uint64_t               swept_ns;   /* the timeouts */
} mistral_load_t;


static int
mistral_load_files(uint64_t n, mst_err_t *err)
{
    struct rlimit  limit;

    n += MISTRAL_LOAD_FILES;

    if (getrlimit(RLIMIT_NOFILE, &limit) == -1) {
        return mst_err_errno(err, errno, "getrlimit() failed");
    }

    if (limit.rlim_cur >= n) {
        return MST_OK;
    }

    limit.rlim_cur = n;

    if (limit.rlim_max < n) {
        limit.rlim_max = n;                    /* root may */
    }

    if (setrlimit(RLIMIT_NOFILE, &limit) == -1) {
        return mst_err_errno(err, errno, "%llu open files are needed, see "
                             "\"ulimit -n\"", (unsigned long long) n);
    }

    return MST_OK;
}


static int
mistral_load_init(mistral_load_t *l, const mistral_bench_conf_t *conf,
    mst_err_t *err)
{
    uint64_t  i;
    double    timeout;

    timeout = conf->timeout > 0 ? conf->timeout : MISTRAL_LOAD_TIMEOUT;
    l->timeout_ns = (uint64_t) (timeout * 1e9);

    if (mistral_load_files(conf->concurrency, err) != MST_OK) {
        return MST_ERROR;
    }

    l->shared.epoll = epoll_create1(EPOLL_CLOEXEC);

    if (l->shared.epoll == -1) {
        return mst_err_errno(err, errno, "epoll_create1() failed");
    }

    l->conns = mst_calloc(conf->concurrency, sizeof(mistral_conn_t));

    if (l->conns == NULL) {
        return mst_err_set(err, "no memory for %llu connections",
                           (unsigned long long) conf->concurrency);
    }

    l->n_conns = conf->concurrency;

    for (i = l->n_conns; i-- > 0; /* void */) {
        mistral_conn_init(&l->conns[i]);
        l->conns[i].next = l->idle;
        l->idle = &l->conns[i];
    }

    l->pause_end = &l->pause;

    return MST_OK;
}


static void
mistral_load_fini(mistral_load_t *l)
{
    uint64_t  i;

    for (i = 0; i < l->n_conns; i++) {
        mistral_conn_fini(&l->conns[i]);
    }

    mst_free(l->conns);

    if (l->shared.epoll != -1) {
        (void) close(l->shared.epoll);
    }
}


/* a connection whose request is over */

static void
mistral_load_free(mistral_load_t *l, mistral_conn_t *c, int rc)
{
    if (rc == MST_OK) {
        c->next = l->idle;
        l->idle = c;
        return;
    }

    c->resume_ns = mst_time_ns() + MISTRAL_LOAD_PAUSE;
    c->next = NULL;
    *l->pause_end = c;
    l->pause_end = &c->next;
}


static int
mistral_load_ended(const mistral_load_t *l, uint64_t now)
{
    return mistral_bench_stop || l->started == l->limit
           || (l->due_ns ? l->due_ns : now) >= l->end_ns;
}


/* all that are due */

static void
mistral_load_start(mistral_load_t *l, uint64_t now)
{
    uint64_t         due;
    mistral_conn_t  *c;

    while (l->pause && l->pause->resume_ns <= now) {
        c = l->pause;
        l->pause = c->next;

        if (l->pause == NULL) {
            l->pause_end = &l->pause;
        }

        mistral_load_free(l, c, MST_OK);
    }

    while (l->idle && !mistral_load_ended(l, now)
           && (l->due_ns == 0 || l->due_ns <= now))
    {
        c = l->idle;
        l->idle = c->next;
        due = now;

        if (l->due_ns) {
            due = l->due_ns;
            l->due_ns += mistral_plan_gap(l->shared.plan);
            l->shared.result->late += (now - due > MISTRAL_LOAD_LATE);
        }

        l->started++;

        if (mistral_conn_start(c, &l->shared, due, now) == MST_OK) {
            l->running++;

        } else {
            mistral_load_free(l, c, MST_ERROR);
        }
    }
}


/* how long nothing needs to be looked at */

static uint64_t
mistral_load_wait(const mistral_load_t *l, uint64_t now)
{
    uint64_t  until;

    until = l->shown_ns + MISTRAL_LOAD_PROGRESS;

    if (!mistral_load_ended(l, now)) {

        if (l->idle && l->due_ns && l->due_ns < until) {
            until = l->due_ns;
        }

        if (l->end_ns < until) {
            until = l->end_ns;
        }
    }

    if (l->pause && l->pause->resume_ns < until) {
        until = l->pause->resume_ns;
    }

    return until > now ? until - now : 0;
}


/* epoll_wait() knows milliseconds only, arrivals need less; one call where the
   kernel can: the cores may be the server's, too */

static int
mistral_load_poll(int epoll, struct epoll_event *events, uint64_t wait)
{
    int              n;
    struct pollfd    poll;
    struct timespec  time;

    time.tv_sec = (time_t) (wait / MST_S);
    time.tv_nsec = (long) (wait % MST_S);

#ifdef SYS_epoll_pwait2
    n = (int) syscall(SYS_epoll_pwait2, epoll, events, MISTRAL_LOAD_EVENTS,
                      &time, NULL, 0);

    if (n != -1 || errno != ENOSYS) {
        return n;
    }
#endif

    n = epoll_wait(epoll, events, MISTRAL_LOAD_EVENTS, 0);

    if (n == 0 && wait) {
        poll.fd = epoll;
        poll.events = POLLIN;

        (void) ppoll(&poll, 1, &time, NULL);
        n = epoll_wait(epoll, events, MISTRAL_LOAD_EVENTS, 0);
    }

    return n;
}


static void
mistral_load_events(mistral_load_t *l, uint64_t wait)
{
    int              i, n, rc, busy;
    mistral_conn_t  *c;

    static struct epoll_event  events[MISTRAL_LOAD_EVENTS];

    n = mistral_load_poll(l->shared.epoll, events, wait);

    for (i = 0; i < n; i++) {
        c = events[i].data.ptr;

        busy = c->busy;
        rc = mistral_conn_event(c, &l->shared, events[i].events);

        if (busy && !c->busy) {
            l->running--;
            mistral_load_free(l, c, rc);
        }
    }
}


static void
mistral_load_sweep(mistral_load_t *l, uint64_t now)
{
    uint64_t         i;
    mistral_conn_t  *c;

    for (i = 0; i < l->n_conns; i++) {
        c = &l->conns[i];

        if (c->busy && now - c->sent_ns >= l->timeout_ns) {
            mistral_conn_timeout(c, &l->shared, now);
            l->running--;
            mistral_load_free(l, c, MST_ERROR);
        }
    }
}


static void
mistral_load_run(mistral_load_t *l, mistral_result_t *result, uint64_t limit,
    double seconds)
{
    uint64_t  now, sweep;

    now = mst_time_ns();
    mistral_result_init(result, now);

    l->shared.result = result;
    l->started = 0;
    l->limit = limit;
    l->end_ns = seconds > 0 ? now + (uint64_t) (seconds * 1e9) : UINT64_MAX;
    l->due_ns = l->shared.conf->rate > 0
                ? now + mistral_plan_gap(l->shared.plan) : 0;
    l->shown_ns = now;
    l->swept_ns = now;

    sweep = l->timeout_ns / 10 < MST_S / 2 ? l->timeout_ns / 10 : MST_S / 2;

    while (l->running || !mistral_load_ended(l, now)) {

        if (mistral_bench_stop) {
            break;
        }

        mistral_load_start(l, now);
        mistral_load_events(l, mistral_load_wait(l, now) < sweep
                               ? mistral_load_wait(l, now) : sweep);

        now = mst_time_ns();

        if (now - l->swept_ns >= sweep) {
            l->swept_ns = now;
            mistral_load_sweep(l, now);
        }

        if (now - l->shown_ns >= MISTRAL_LOAD_PROGRESS) {
            l->shown_ns = now;
            mistral_result_progress(result, l->running, now, 0);
        }
    }

    if (mistral_bench_stop) {
        result->end_ns = mst_time_ns();
    }

    mistral_result_progress(result, 0, now, 1);
}


/* warm-up, then what counts; results are too large for the stack */

static int
mistral_load_both(mistral_load_t *l, const mistral_bench_conf_t *conf,
    const mistral_url_t *url)
{
    int       rc;
    uint64_t  limit;

    static mistral_result_t  warm, result;

    if (conf->warmup) {
        mistral_load_run(l, &warm, conf->warmup, 0);

        if (warm.ok == 0) {
            return mistral_complain(MISTRAL_FAILED, "bench", "no request of "
                                    "the warm-up succeeded: %s", warm.sample);
        }
    }

    limit = conf->requests;

    if (limit == 0) {
        limit = conf->duration > 0 ? UINT64_MAX : MISTRAL_BENCH_REQUESTS;
    }

    mistral_load_run(l, &result, limit, conf->duration);

    rc = mistral_result_report(&result, conf, url);

    if (rc != MISTRAL_OK) {
        return rc;
    }

    if (mistral_bench_stop) {
        return mistral_complain(MISTRAL_FAILED, "bench", "interrupted");
    }

    if (result.ok == 0) {
        return mistral_complain(MISTRAL_FAILED, "bench", "no request "
                                "succeeded");
    }

    return MISTRAL_OK;
}


int
mistral_bench_http(const mistral_bench_conf_t *given)
{
    int                    rc;
    mst_err_t              err;
    mistral_load_t         load;
    mistral_plan_t         plan;
    mistral_url_t    url;
    mistral_bench_conf_t   conf;

    err.text[0] = '\0';
    conf = *given;

    if (conf.concurrency == 0) {
        conf.concurrency = conf.rate > 0 ? MISTRAL_BENCH_OPEN : 1;
    }

    if (mistral_url_parse(&url, conf.url, &err) != MST_OK
        || mistral_url_api(&url, &err) != MST_OK)
    {
        return mistral_complain(MISTRAL_USAGE, "bench", "%s", err.text);
    }

    memset(&load, 0, sizeof(load));
    load.shared.epoll = -1;
    load.shared.conf = &conf;
    load.shared.url = &url;
    load.shared.plan = &plan;

    if (mistral_plan_init(&plan, &conf, &url, &err) != MST_OK) {
        rc = mistral_complain(MISTRAL_USAGE, "bench", "%s", err.text);

    } else if (mistral_url_resolve(&url, &err) != MST_OK
               || mistral_load_init(&load, &conf, &err) != MST_OK)
    {
        rc = mistral_complain(MISTRAL_FAILED, "bench", "%s", err.text);

    } else {
        rc = mistral_load_both(&load, &conf, &url);
    }

    mistral_load_fini(&load);
    mistral_plan_fini(&plan);

    return rc;
}
