
/*
 * The state file of a quota is written: every second if anything changed (a
 * large one every ten), by whichever worker finds it due, and by each worker
 * at its end.
 *
 * It is written beside and renamed, so that it is always whole.  A lock on
 * its directory makes writers take turns; the kernel gives it back whatever
 * happens.  What somebody else wrote meanwhile is read first (quota_state.c).
 * One that cannot be written is tried for ever and logged once until it can
 * be, and at a worker's end.
 *
 * What is written lies in the system's cache until a worker's end writes it
 * to the disk: fsync() would let the worker's streams wait.  After a power
 * failure the file is an older one or, on some file systems, broken.
 *
 * Workers only.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include <fcntl.h>
#include <sys/file.h>

#include "base/mst_tally.h"
#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_QUOTA_TICK    500     /* ms */
#define NGX_HTTP_MISTRAL_QUOTA_SAVE    MST_S
#define NGX_HTTP_MISTRAL_QUOTA_SHARE   10      /* times what a save took is
                                                  added to that */
#define NGX_HTTP_MISTRAL_QUOTA_MOST    (10 * MST_S)    /* in all */
#define NGX_HTTP_MISTRAL_QUOTA_SLICE   256     /* nodes at a time under the
                                                  lock */
#define NGX_HTTP_MISTRAL_QUOTA_SLICES  8       /* in one turn */


/* a file that is being written, in this worker */
struct ngx_http_mistral_save_s {
    int                        fd;             /* the directory, locked */
    mst_buf_t                  out;
    uint64_t                   total;          /* entries of it */
    uint64_t                   start_ns;
    ngx_str_t                  last;           /* key of the last slice; len 0:
                                                  none yet */
    unsigned                   written:1;
    u_char                     key[NGX_HTTP_MISTRAL_LIMIT_KEY];
};


static void ngx_http_mistral_quota_tick(ngx_event_t *ev);
static ngx_uint_t ngx_http_mistral_quota_due(
    ngx_http_mistral_limit_zone_t *zone);
static void ngx_http_mistral_quota_save(ngx_http_mistral_limit_zone_t *zone,
    ngx_uint_t wait);
static void ngx_http_mistral_quota_go_on(ngx_http_mistral_limit_zone_t *zone,
    ngx_uint_t sync);
static ngx_int_t ngx_http_mistral_quota_slice(
    ngx_http_mistral_limit_zone_t *zone, ngx_http_mistral_save_t *save);
static ngx_int_t ngx_http_mistral_quota_lock(
    ngx_http_mistral_limit_zone_t *zone, ngx_uint_t wait);
static void ngx_http_mistral_quota_look_again(
    ngx_http_mistral_limit_zone_t *zone);
static ngx_int_t ngx_http_mistral_quota_write(
    ngx_http_mistral_limit_zone_t *zone, mst_buf_t *out, ngx_uint_t sync);
static ngx_uint_t ngx_http_mistral_quota_gather(
    ngx_http_mistral_limit_node_t *node, mst_buf_t *out);
static uint64_t ngx_http_mistral_quota_used(mst_budget_t *b);
static ngx_int_t ngx_http_mistral_quota_put(const char *path, mst_buf_t *out,
    ngx_uint_t sync);


void
ngx_http_mistral_quota_start(ngx_http_mistral_limit_zone_t *zone)
{
    if (zone->state.len == 0) {
        return;
    }

    zone->timer.handler = ngx_http_mistral_quota_tick;
    zone->timer.data = zone;
    zone->timer.log = ngx_cycle->log;
    zone->timer.cancelable = 1;

    ngx_add_timer(&zone->timer, NGX_HTTP_MISTRAL_QUOTA_TICK);
}


static void
ngx_http_mistral_quota_tick(ngx_event_t *ev)
{
    struct stat                     st;
    ngx_http_mistral_limit_zone_t  *zone;

    zone = ev->data;

    if (zone->save) {
        ngx_http_mistral_quota_go_on(zone, 0);

    } else if (ngx_http_mistral_quota_due(zone)) {
        ngx_http_mistral_quota_save(zone, 0);

    } else if (ngx_http_mistral_quota_differs(zone, &st)) {
        ngx_http_mistral_quota_look_again(zone);
    }

    ngx_add_timer(ev, zone->save ? 1 : NGX_HTTP_MISTRAL_QUOTA_TICK);
}


/* for the first worker that asks, until the next time */

static ngx_uint_t
ngx_http_mistral_quota_due(ngx_http_mistral_limit_zone_t *zone)
{
    uint64_t                         now, pause;
    ngx_uint_t                       due;
    ngx_http_mistral_limit_table_t  *table;

    table = zone->table;
    now = mst_time_ns();

    ngx_http_mistral_limit_lock(zone);

    pause = NGX_HTTP_MISTRAL_QUOTA_SAVE
            + NGX_HTTP_MISTRAL_QUOTA_SHARE * table->save_ns;

    due = table->dirty
          && now - table->saved_ns > ngx_min(pause,
                                             NGX_HTTP_MISTRAL_QUOTA_MOST);

    if (due) {
        table->saved_ns = now;
        table->dirty = 0;
    }

    ngx_http_mistral_limit_unlock(zone);

    return due;
}


/* what was begun, of all zones before the next is asked: two may have one
   directory, whose lock we would wait for ourselves */

void
ngx_http_mistral_quota_finish(ngx_http_mistral_limit_zone_t *zone)
{
    if (zone->timer.timer_set) {
        ngx_del_timer(&zone->timer);
    }

    while (zone->save) {
        ngx_http_mistral_quota_go_on(zone, 1);
    }
}


/* a worker's end, after it has settled what it held */

void
ngx_http_mistral_quota_stop(ngx_http_mistral_limit_zone_t *zone)
{
    if (zone->state.len && zone->table->dirty) {
        zone->table->dirty = 0;
        ngx_http_mistral_quota_save(zone, 1);
        ngx_http_mistral_quota_finish(zone);
    }
}


static void
ngx_http_mistral_quota_save(ngx_http_mistral_limit_zone_t *zone,
    ngx_uint_t wait)
{
    int                       fd;
    ngx_http_mistral_save_t  *save;

    fd = ngx_http_mistral_quota_lock(zone, wait);
    save = fd == -1 ? NULL : ngx_calloc(sizeof(ngx_http_mistral_save_t),
                                        ngx_cycle->log);
    if (save == NULL) {
        zone->table->dirty = 1;

        if (fd != -1) {
            (void) close(fd);
        }

        return;
    }

    zone->save = save;
    save->fd = fd;
    save->start_ns = mst_time_ns();

    ngx_http_mistral_quota_changed(zone);

    mst_buf_init(&save->out);
    mst_tally_begin(&save->out);
}


/* once over all keys to write them down, and once more when the file has
   them: later changes of it count from there; in slices, in between of which
   the worker's streams and other workers get their turn */

static void
ngx_http_mistral_quota_go_on(ngx_http_mistral_limit_zone_t *zone,
    ngx_uint_t sync)
{
    ngx_int_t                 rc;
    ngx_uint_t                i;
    ngx_http_mistral_save_t  *save;

    save = zone->save;

    for (i = 0; i < NGX_HTTP_MISTRAL_QUOTA_SLICES; i++) {

        if (ngx_http_mistral_quota_slice(zone, save) == NGX_AGAIN) {
            continue;
        }

        rc = NGX_DONE;

        if (!save->written) {
            mst_tally_end(&save->out, save->total);
            rc = ngx_http_mistral_quota_write(zone, &save->out, sync);
        }

        if (rc == NGX_OK) {
            save->written = 1;
            save->last.len = 0;
            return;
        }

        zone->table->save_ns = mst_time_ns() - save->start_ns;

        if (rc == NGX_ERROR) {
            zone->table->dirty = 1;
        }

        zone->save = NULL;
        mst_buf_fini(&save->out);
        (void) close(save->fd);
        ngx_free(save);

        return;
    }
}


/* NGX_OK: it was the last one */

static ngx_int_t
ngx_http_mistral_quota_slice(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_save_t *save)
{
    ngx_uint_t                      i, n;
    ngx_http_mistral_limit_node_t  *node;
    ngx_http_mistral_limit_node_t  *nodes[NGX_HTTP_MISTRAL_QUOTA_SLICE];

    ngx_http_mistral_limit_lock(zone);

    n = ngx_http_mistral_limit_walk(zone, &save->last, nodes,
                                    NGX_HTTP_MISTRAL_QUOTA_SLICE);

    for (i = 0; i < n; i++) {
        node = nodes[i];

        if (save->written) {
            node->u.budget.saved = node->u.budget.writing;

        } else {
            save->total += ngx_http_mistral_quota_gather(node, &save->out);
        }
    }

    if (n) {
        save->last.data = save->key;
        save->last.len = nodes[n - 1]->len;
        ngx_memcpy(save->key, nodes[n - 1]->data, save->last.len);
    }

    ngx_http_mistral_limit_unlock(zone);

    return n == NGX_HTTP_MISTRAL_QUOTA_SLICE ? NGX_AGAIN : NGX_OK;
}


/* the lock goes with the descriptor; -1: somebody writes, or it cannot be */

static ngx_int_t
ngx_http_mistral_quota_lock(ngx_http_mistral_limit_zone_t *zone,
    ngx_uint_t wait)
{
    int  fd, rc;

    fd = open((char *) zone->directory.data,
              O_RDONLY|O_DIRECTORY|O_CLOEXEC);

    if (fd == -1) {
        if (!atomic_exchange(&zone->table->unwritten, 1) || wait) {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                          "cannot open directory \"%V\" of "
                          "mistral_quota_zone \"%V\"",
                          &zone->directory, &zone->name);
        }

        return -1;
    }

    do {
        rc = flock(fd, wait ? LOCK_EX : LOCK_EX|LOCK_NB);
    } while (rc == -1 && ngx_errno == NGX_EINTR);

    if (rc == 0) {
        return fd;
    }

    if (ngx_errno != EWOULDBLOCK) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "flock() \"%V\" failed", &zone->directory);
    }

    (void) close(fd);

    return -1;
}


/* never written for what was read: two nginx would write in turns for ever */

static void
ngx_http_mistral_quota_look_again(ngx_http_mistral_limit_zone_t *zone)
{
    int  fd;

    fd = ngx_http_mistral_quota_lock(zone, 0);

    if (fd != -1) {
        ngx_http_mistral_quota_changed(zone);
        (void) close(fd);
    }
}


/* 1: it is in the file */

static ngx_uint_t
ngx_http_mistral_quota_gather(ngx_http_mistral_limit_node_t *node,
    mst_buf_t *out)
{
    mst_tally_t    t;
    mst_budget_t  *b;

    b = &node->u.budget;
    b->writing = b->span.end > ngx_time() ? ngx_http_mistral_quota_used(b) : 0;

    if (b->writing == 0) {
        return 0;
    }

    t.start = b->span.start;
    t.used = b->writing;
    t.key = mst_str((char *) node->data, node->len);
    mst_tally_add(out, &t);

    return 1;
}


/* without what requests in work have reserved and not used yet: if all of
   nginx were killed now, nobody would give it back */

static uint64_t
ngx_http_mistral_quota_used(mst_budget_t *b)
{
    uint64_t                        used, tokens;
    mst_list_t                     *l;
    ngx_http_mistral_limit_hold_t  *hold;

    used = b->used;

    for (l = b->holds.next; l != &b->holds; l = l->next) {
        hold = mst_list_data(l, ngx_http_mistral_limit_hold_t, hold.link);
        tokens = atomic_load(&hold->used);

        if (hold->hold.mark == (uint64_t) b->span.start
            && hold->hold.tokens > tokens)
        {
            tokens = hold->hold.tokens - tokens;
            used -= ngx_min(tokens, used);
        }
    }

    return used;
}


static ngx_int_t
ngx_http_mistral_quota_write(ngx_http_mistral_limit_zone_t *zone,
    mst_buf_t *out, ngx_uint_t sync)
{
    char  path[NGX_MAX_PATH];

    (void) snprintf(path, sizeof(path), "%s.new", (char *) zone->state.data);

    if (out->failed
        || ngx_http_mistral_quota_put(path, out, sync) != NGX_OK
        || rename(path, (char *) zone->state.data) == -1)
    {
        if (!atomic_exchange(&zone->table->unwritten, 1) || sync) {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                          "cannot write \"%s\" for the state of "
                          "mistral_quota_zone \"%V\"", path, &zone->name);
        }

        return NGX_ERROR;
    }

    if (atomic_exchange(&zone->table->unwritten, 0)) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "the state of mistral_quota_zone \"%V\" is written "
                      "again", &zone->name);
    }

    ngx_http_mistral_quota_remember(zone);

    return NGX_OK;
}


/* what is there was left by somebody who died */

static ngx_int_t
ngx_http_mistral_quota_put(const char *path, mst_buf_t *out, ngx_uint_t sync)
{
    int      fd;
    size_t   sent;
    ssize_t  n;

    (void) unlink(path);

    fd = open(path, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0600);
    if (fd == -1) {
        return NGX_ERROR;
    }

    for (sent = 0; sent < out->len; sent += (size_t) n) {
        n = write(fd, out->data + sent, out->len - sent);

        if (n <= 0) {
            break;
        }
    }

    if (sent < out->len || (sync && fsync(fd) == -1)) {
        (void) close(fd);
        return NGX_ERROR;
    }

    return close(fd) == -1 ? NGX_ERROR : NGX_OK;
}
