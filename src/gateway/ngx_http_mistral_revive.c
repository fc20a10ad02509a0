
/*
 * A worker brings an engine back whose supervisor died with it, since the one
 * would have restarted the other: another supervisor on the same segment,
 * with the descriptors of the kit (kit.c).  The worker is the engine's user
 * and has no right that the engine has not; what it runs is the program that
 * the master opened.
 *
 * One worker does it: whose compare-and-swap puts the time into the segment.
 * So the attempts of all of them are 5 s apart, and the first comes at once.
 * Should two start one each, the program itself lets only one stay.  Nothing
 * here waits: the answer is an event.
 *
 * An engine that stands still without a supervisor (SIGSTOP, and the
 * supervisor killed) is killed first: nobody else would.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_exec.h"
#include "gateway/ngx_http_mistral_link.h"

#include <sys/syscall.h>

#include "base/mst_time.h"
#include "shm/mst_owner.h"


#define NGX_HTTP_MISTRAL_REVIVE  5000          /* ms between attempts */


static ngx_msec_t ngx_http_mistral_revive_turn(mst_shm_t *shm);
static ngx_int_t ngx_http_mistral_revive_start(ngx_http_mistral_link_t *link);
static ngx_int_t ngx_http_mistral_revive_exec(ngx_http_mistral_link_t *link,
    ngx_http_mistral_exec_t *x, int *fd);
static void ngx_http_mistral_revive_answer(ngx_event_t *ev);
static void ngx_http_mistral_revive_done(ngx_http_mistral_link_t *link);
static ngx_int_t ngx_http_mistral_revive_kill(ngx_http_mistral_engine_t *e,
    pid_t *pid);


void
ngx_http_mistral_revive(ngx_http_mistral_link_t *link)
{
    if (ngx_exiting || ngx_terminate || ngx_quit || link->revive.timer_set) {
        return;
    }

    ngx_add_timer(&link->revive, 0);
}


void
ngx_http_mistral_revive_end(ngx_http_mistral_link_t *link)
{
    if (link->revive.timer_set) {
        ngx_del_timer(&link->revive);
    }

    if (link->answer != NULL) {
        ngx_http_mistral_revive_done(link);
    }
}


ngx_uint_t
ngx_http_mistral_revive_look(ngx_http_mistral_link_t *link)
{
    if (!link->gone) {
        return 1;
    }

    /* not the pipe: whoever tries to start one holds that for a moment, and
       the state that the dead left says READY */

    if (mst_owner_pid(link->engine->memfd, MST_OWNER_SUPERVISOR) == 0) {
        return 0;
    }

    link->gone = 0;
    ngx_http_mistral_watch_alive(link);

    return 1;
}


void
ngx_http_mistral_revive_handler(ngx_event_t *ev)
{
    ngx_msec_t                turn;
    ngx_http_mistral_link_t  *link;

    link = ev->data;

    if (link->answer != NULL) {
        ngx_http_mistral_exec_late(link->exec, link->pid);
        (void) ngx_http_mistral_exec_answer(link->exec, 0);
        ngx_http_mistral_revive_done(link);

    } else if (ngx_http_mistral_revive_look(link)) {
        return;
    }

    if (ngx_exiting || ngx_terminate || ngx_quit) {
        return;
    }

    if (ngx_http_mistral_engine_supervised(link->engine)) {
        ngx_add_timer(ev, NGX_HTTP_MISTRAL_REVIVE);    /* somebody tries */
        return;
    }

    turn = ngx_http_mistral_revive_turn(link->engine->map.shm);

    if (turn == 0 && ngx_http_mistral_revive_start(link) == NGX_OK) {
        ngx_add_timer(ev, NGX_HTTP_MISTRAL_ANSWER);
        return;
    }

    ngx_add_timer(ev, turn ? turn : NGX_HTTP_MISTRAL_REVIVE);
}


/* ms until it is our turn; 0: it is now.  The word is a hint among workers:
   nonsense there makes nobody wait longer than one pause */

static ngx_msec_t
ngx_http_mistral_revive_turn(mst_shm_t *shm)
{
    uint64_t  now, last, since;

    now = mst_time_ns();
    last = atomic_load(&shm->revive_ns);
    since = (last != 0 && last <= now) ? (now - last) / MST_MS
                                       : NGX_HTTP_MISTRAL_REVIVE;

    if (since < NGX_HTTP_MISTRAL_REVIVE) {
        return NGX_HTTP_MISTRAL_REVIVE - since;
    }

    return atomic_compare_exchange_strong(&shm->revive_ns, &last, now)
           ? 0 : NGX_HTTP_MISTRAL_REVIVE;
}


static ngx_int_t
ngx_http_mistral_revive_start(ngx_http_mistral_link_t *link)
{
    int                       fd;
    ngx_int_t                 rc;
    ngx_log_t                *log;
    ngx_http_mistral_exec_t  *x;

    log = link->revive.log;

    x = ngx_alloc(sizeof(ngx_http_mistral_exec_t), log);
    if (x == NULL) {
        return NGX_ERROR;
    }

    x->log = log;
    x->program = link->program;
    x->level = NGX_LOG_ERR;
    x->probe = 0;

    ngx_log_error(NGX_LOG_NOTICE, log, 0,
                  "mistral model \"%V\": this worker starts another "
                  "supervisor", &link->engine->name);

    rc = ngx_http_mistral_revive_exec(link, x, &fd);

    if (rc == NGX_OK) {
        link->exec = x;
        link->answer = ngx_http_mistral_watch_add(link, fd,
                                          ngx_http_mistral_revive_answer);
        if (link->answer != NULL) {
            return NGX_OK;
        }

        /* it starts all the same, and is found alive */

        link->exec = NULL;
        (void) close(fd);
    }

    ngx_free(x);

    return NGX_ERROR;
}


/* the engine may compute where the master may, whatever this worker is bound
   to */

static ngx_int_t
ngx_http_mistral_revive_exec(ngx_http_mistral_link_t *link,
    ngx_http_mistral_exec_t *x, int *fd)
{
    int                         i, alive;
    cpu_set_t                   own;
    ngx_int_t                   rc;
    ngx_log_t                  *log;
    ngx_uint_t                  bound;
    ngx_http_mistral_engine_t  *e;

    e = link->engine;
    alive = ngx_http_mistral_engine_alive(e);

    if (alive == -1 || ngx_http_mistral_kit_open(e, x) != NGX_OK) {
        ngx_log_error(NGX_LOG_ERR, x->log, ngx_errno,
                      "mistral model \"%V\": this worker cannot start "
                      "another supervisor: no %s", &e->name,
                      alive == -1 ? "pipe" : "descriptors");
        if (alive != -1) {
            (void) close(alive);
        }

        return NGX_ERROR;
    }

    log = ngx_log_get_file_log(x->log);

    x->src[MST_FD_ALIVE] = alive;
    x->src[MST_FD_LOGFILE] = log ? log->file->fd : -1;

    bound = CPU_COUNT(&e->cpus) != 0
            && sched_getaffinity(0, sizeof(cpu_set_t), &own) == 0
            && sched_setaffinity(0, sizeof(cpu_set_t), &e->cpus) == 0;

    rc = ngx_http_mistral_exec_start(x, fd, &link->pid);

    if (bound) {
        (void) sched_setaffinity(0, sizeof(cpu_set_t), &own);
    }

    /* what came out of the kit, and the pipe; the log is nginx's */

    x->src[MST_FD_STATUS] = -1;
    x->src[MST_FD_LOGFILE] = -1;

    for (i = MST_FD_STATUS; i <= x->n; i++) {
        if (x->src[i] != -1) {
            (void) close(x->src[i]);
        }
    }

    return rc;
}


static void
ngx_http_mistral_revive_answer(ngx_event_t *ev)
{
    ngx_connection_t         *c;
    ngx_http_mistral_link_t  *link;

    c = ev->data;
    link = c->data;

    if (ngx_http_mistral_exec_read(link->exec, c->fd) == NGX_AGAIN) {
        return;
    }

    if (ngx_http_mistral_exec_answer(link->exec, 0) == NGX_OK) {
        ngx_log_error(NGX_LOG_NOTICE, ev->log, 0,
                      "start supervisor of mistral model \"%V\": %s",
                      &link->engine->name, link->exec->text);
    }

    ngx_http_mistral_revive_done(link);

    ngx_del_timer(&link->revive);

    if (!ngx_http_mistral_revive_look(link)) {
        ngx_add_timer(&link->revive, NGX_HTTP_MISTRAL_REVIVE);
    }
}


static void
ngx_http_mistral_revive_done(ngx_http_mistral_link_t *link)
{
    int  fd;

    fd = link->answer->fd;

    ngx_http_mistral_watch_del(link->answer);
    (void) close(fd);
    ngx_free(link->exec);

    link->answer = NULL;
    link->exec = NULL;
}


/*
 * Twice in a row, a tick apart: an engine that only hangs brings another
 * supervisor meanwhile, which will kill it.
 */

void
ngx_http_mistral_revive_stale(ngx_http_mistral_link_t *link)
{
    pid_t                       pid;
    ngx_http_mistral_engine_t  *e;

    e = link->engine;

    if (mst_owner_pid(e->memfd, MST_OWNER_SUPERVISOR) != 0) {
        link->alone = 0;
        return;
    }

    if (!link->alone) {
        link->alone = 1;
        return;
    }

    link->alone = 0;

    if (ngx_http_mistral_revive_kill(e, &pid) == NGX_OK) {
        ngx_log_error(NGX_LOG_ALERT, link->timer.log, 0,
                      "mistral model \"%V\": engine process %P stands still "
                      "and has no supervisor: killed", &e->name, pid);
    }
}


/* by a handle: the pid could be another process's by now */

static ngx_int_t
ngx_http_mistral_revive_kill(ngx_http_mistral_engine_t *e, pid_t *pid)
{
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal)

    int  fd, rc;

    *pid = mst_owner_pid(e->memfd, MST_OWNER_ENGINE);

    if (*pid <= 0) {
        return NGX_DECLINED;
    }

    fd = (int) syscall(SYS_pidfd_open, *pid, 0);

    if (fd == -1) {
        return NGX_DECLINED;
    }

    rc = -1;

    if (mst_owner_pid(e->memfd, MST_OWNER_ENGINE) == *pid) {
        rc = (int) syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    }

    (void) close(fd);

    return rc == 0 ? NGX_OK : NGX_DECLINED;

#else

    (void) e;
    (void) pid;

    return NGX_DECLINED;

#endif
}
