
/*
 * The state file of a quota: read when a zone begins, written every
 * second if anything changed (a large one every ten), by whichever worker
 * finds it due, and by each worker at its end.
 *
 * It is written beside and renamed, so that it is always whole.  A lock on
 * its directory makes writers take turns; the kernel gives it back whatever
 * happens.  A file that is not as we left it was written by somebody else,
 * by the nginx before or after a binary upgrade or by an operator: what it
 * changed is added to what we have, before we write.  So two can use one file
 * and no token is lost or counted twice.
 *
 * What is written lies in the system's cache until a worker's end writes it
 * to the disk: fsync() would let the worker's streams wait.  After a power
 * failure the file is an older one or, on some file systems, broken: then it
 * is set aside, and the quotas begin anew.
 *
 * A change is read though nothing is to be written: whom a quota refuses
 * spends nothing, and waits for it.
 *
 * Master: init; workers: all else.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include <fcntl.h>
#include <grp.h>
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
#define NGX_HTTP_MISTRAL_QUOTA_GROUPS  64
#define NGX_HTTP_MISTRAL_QUOTA_FILE    (64 << 20)      /* bytes, and ... */
#define NGX_HTTP_MISTRAL_QUOTA_RATIO   4       /* times the zone: a line is
                                                  less than that of a node */
#define NGX_HTTP_MISTRAL_QUOTA_FUTURE  (366 * 86400)   /* s */


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


static ngx_int_t ngx_http_mistral_quota_directory(
    ngx_http_mistral_limit_zone_t *zone);
static ngx_uint_t ngx_http_mistral_quota_writable(ngx_core_conf_t *ccf,
    struct stat *st);
static ngx_int_t ngx_http_mistral_quota_read(
    ngx_http_mistral_limit_zone_t *zone, struct stat *st, mst_buf_t *in);
static void ngx_http_mistral_quota_load(ngx_http_mistral_limit_zone_t *zone);
static void ngx_http_mistral_quota_aside(ngx_http_mistral_limit_zone_t *zone,
    ngx_log_t *log, const char *why, const char *then);
static void ngx_http_mistral_quota_merge(void *data, const mst_tally_t *t);
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
static ngx_uint_t ngx_http_mistral_quota_differs(
    ngx_http_mistral_limit_zone_t *zone, struct stat *st);
static void ngx_http_mistral_quota_changed(
    ngx_http_mistral_limit_zone_t *zone);
static ngx_int_t ngx_http_mistral_quota_write(
    ngx_http_mistral_limit_zone_t *zone, mst_buf_t *out, ngx_uint_t sync);
static ngx_uint_t ngx_http_mistral_quota_gather(
    ngx_http_mistral_limit_node_t *node, mst_buf_t *out);
static uint64_t ngx_http_mistral_quota_used(mst_budget_t *b);
static ngx_int_t ngx_http_mistral_quota_put(const char *path, mst_buf_t *out,
    ngx_uint_t sync);
static void ngx_http_mistral_quota_remember(
    ngx_http_mistral_limit_zone_t *zone);
static void ngx_http_mistral_quota_known(
    ngx_http_mistral_limit_table_t *table, const struct stat *st);


ngx_int_t
ngx_http_mistral_quota_init(ngx_http_mistral_limit_zone_t *zone,
    ngx_uint_t fresh)
{
    if (zone->state.len == 0) {
        return NGX_OK;
    }

    if (ngx_http_mistral_quota_directory(zone) != NGX_OK) {
        return NGX_ERROR;
    }

    if (fresh) {
        ngx_http_mistral_quota_load(zone);
    }

    return NGX_OK;
}


/* workers write the file, so the directory is theirs, as that of a cache */

static ngx_int_t
ngx_http_mistral_quota_directory(ngx_http_mistral_limit_zone_t *zone)
{
    u_char           *slash;
    ngx_str_t         dir;
    struct stat       st;
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(zone->cycle->conf_ctx,
                                           ngx_core_module);

    slash = (u_char *) strrchr((char *) zone->state.data, '/');
    dir.len = ngx_max(slash - zone->state.data, 1);
    dir.data = ngx_pnalloc(zone->cycle->pool, dir.len + 1);

    if (dir.data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_cpystrn(dir.data, zone->state.data, dir.len + 1);
    zone->directory = dir;

    if (stat((char *) dir.data, &st) == -1) {

        if (ngx_errno != NGX_ENOENT || mkdir((char *) dir.data, 0700) == -1
            || (geteuid() == 0
                && chown((char *) dir.data, ccf->user, (gid_t) -1) == -1))
        {
            ngx_log_error(NGX_LOG_EMERG, zone->cycle->log, ngx_errno,
                          "cannot create directory \"%V\" for the state of "
                          "mistral_quota_zone \"%V\"", &dir, &zone->name);
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    if (!S_ISDIR(st.st_mode)) {
        ngx_log_error(NGX_LOG_EMERG, zone->cycle->log, 0,
                      "\"%V\" of mistral_quota_zone \"%V\" is no directory",
                      &dir, &zone->name);
        return NGX_ERROR;
    }

    /* only a warning: there may be other permissions than these */

    if (geteuid() == 0 && !ngx_http_mistral_quota_writable(ccf, &st)) {
        ngx_log_error(NGX_LOG_WARN, zone->cycle->log, 0,
                      "directory \"%V\" of mistral_quota_zone \"%V\" is not "
                      "writable by user \"%s\": the state cannot be saved",
                      &dir, &zone->name, ccf->username);
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_mistral_quota_writable(ngx_core_conf_t *ccf, struct stat *st)
{
    int    i, n;
    gid_t  groups[NGX_HTTP_MISTRAL_QUOTA_GROUPS];

    if (ccf->user == 0) {
        return 1;
    }

    if (st->st_uid == ccf->user) {
        return (st->st_mode & 0300) == 0300;
    }

    n = NGX_HTTP_MISTRAL_QUOTA_GROUPS;

    if (ccf->username == NULL
        || getgrouplist(ccf->username, ccf->group, groups, &n) == -1)
    {
        groups[0] = ccf->group;
        n = 1;
    }

    for (i = 0; i < n; i++) {
        if (st->st_gid == groups[i]) {
            return (st->st_mode & 0030) == 0030;
        }
    }

    return (st->st_mode & 0003) == 0003;
}


/* NGX_DECLINED: there is none */

static ngx_int_t
ngx_http_mistral_quota_read(ngx_http_mistral_limit_zone_t *zone,
    struct stat *st, mst_buf_t *in)
{
    int      fd;
    ssize_t  n;

    fd = open((char *) zone->state.data, O_RDONLY|O_CLOEXEC|O_NONBLOCK);

    if (fd == -1) {
        return ngx_errno == NGX_ENOENT ? NGX_DECLINED : NGX_ERROR;
    }

    n = -1;

    if (fstat(fd, st) == 0 && !S_ISREG(st->st_mode)) {
        ngx_set_errno(NGX_EINVAL);

    } else if ((uint64_t) st->st_size
               > NGX_HTTP_MISTRAL_QUOTA_FILE
                 + NGX_HTTP_MISTRAL_QUOTA_RATIO
                   * (uint64_t) zone->shm_zone->shm.size)
    {
        ngx_set_errno(EFBIG);

    } else if (mst_buf_reserve(in, (size_t) st->st_size + 1) == MST_OK)
    {
        do {
            n = read(fd, in->data + in->len, in->size - in->len);
            in->len += n > 0 ? (size_t) n : 0;

        } while (n > 0 && in->len < in->size);
    }

    (void) close(fd);

    return n == 0 ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_mistral_quota_load(ngx_http_mistral_limit_zone_t *zone)
{
    mst_buf_t    in;
    mst_err_t    err;
    ngx_int_t    rc;
    ngx_uint_t   broken;
    struct stat  st;

    mst_buf_init(&in);
    err.text[0] = '\0';
    broken = 0;

    rc = ngx_http_mistral_quota_read(zone, &st, &in);

    if (rc == NGX_ERROR) {
        ngx_log_error(NGX_LOG_ERR, zone->cycle->log, ngx_errno,
                      "cannot read \"%V\", the state of mistral_quota_zone "
                      "\"%V\"", &zone->state, &zone->name);

    } else if (rc == NGX_OK) {
        broken = mst_tally_parse(mst_str(in.data, in.len),
                                 ngx_http_mistral_quota_merge, zone, &err)
                 != MST_OK;
    }

    mst_buf_fini(&in);

    if (!broken) {
        ngx_http_mistral_quota_remember(zone);
        return;
    }

    ngx_http_mistral_quota_aside(zone, zone->cycle->log, err.text,
                                 "its quotas begin anew");
}


/* a broken file: not in the way of the next one, and not lost for who can
   repair it */

static void
ngx_http_mistral_quota_aside(ngx_http_mistral_limit_zone_t *zone,
    ngx_log_t *log, const char *why, const char *then)
{
    char  aside[NGX_MAX_PATH];

    (void) snprintf(aside, sizeof(aside), "%s.broken",
                    (char *) zone->state.data);

    ngx_log_error(NGX_LOG_ERR, log, 0,
                  "\"%V\", the state of mistral_quota_zone \"%V\", is broken: "
                  "%s; %s and it is kept as \"%s\"",
                  &zone->state, &zone->name, why, then, aside);

    if (!ngx_test_config && rename((char *) zone->state.data, aside) == -1) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno,
                      "rename() \"%V\" to \"%s\" failed", &zone->state, aside);
    }
}


static void
ngx_http_mistral_quota_merge(void *data, const mst_tally_t *t)
{
    ngx_http_mistral_limit_zone_t *zone = data;

    ngx_str_t                       key;
    mst_budget_span_t               span;
    ngx_http_mistral_limit_node_t  *node;

    mst_budget_span(&zone->window, t->start, &span);

    /* over, or of a future that no clock set back explains */

    if (span.end <= ngx_time()
        || span.start > ngx_time() + NGX_HTTP_MISTRAL_QUOTA_FUTURE)
    {
        return;
    }

    key.data = (u_char *) t->key.data;
    key.len = t->key.len;

    ngx_http_mistral_limit_lock(zone);

    node = ngx_http_mistral_limit_node(zone, &key);

    if (node) {
        mst_budget_merge(&node->u.budget, &span, t->used);
    }

    ngx_http_mistral_limit_unlock(zone);
}


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
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "cannot open directory \"%V\" of mistral_quota_zone "
                      "\"%V\"", &zone->directory, &zone->name);
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


/* another worker may just write what is compared: under the directory's lock
   it is sure */

static ngx_uint_t
ngx_http_mistral_quota_differs(ngx_http_mistral_limit_zone_t *zone,
    struct stat *st)
{
    ngx_http_mistral_limit_table_t  *table;

    table = zone->table;

    return stat((char *) zone->state.data, st) == 0
           && (st->st_ino != table->file_ino
               || st->st_size != table->file_size
               || st->st_mtim.tv_sec != table->file_mtime.tv_sec
               || st->st_mtim.tv_nsec != table->file_mtime.tv_nsec);
}


static void
ngx_http_mistral_quota_changed(ngx_http_mistral_limit_zone_t *zone)
{
    mst_buf_t    in;
    mst_err_t    err;
    ngx_int_t    rc;
    struct stat  st;

    if (!ngx_http_mistral_quota_differs(zone, &st)) {
        return;
    }

    mst_buf_init(&in);
    err.text[0] = '\0';

    rc = ngx_http_mistral_quota_read(zone, &st, &in);

    if (rc == NGX_ERROR) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "cannot read \"%V\", the state of mistral_quota_zone "
                      "\"%V\", which somebody changed: it is overwritten",
                      &zone->state, &zone->name);

    } else if (rc == NGX_OK
               && mst_tally_parse(mst_str(in.data, in.len),
                                  ngx_http_mistral_quota_merge, zone, &err)
                  != MST_OK)
    {
        ngx_http_mistral_quota_aside(zone, ngx_cycle->log, err.text,
                                     "its quotas go on");

        ngx_http_mistral_limit_lock(zone);
        zone->table->dirty = 1;                /* there is no file now */
        ngx_http_mistral_limit_unlock(zone);
    }

    mst_buf_fini(&in);
    ngx_http_mistral_quota_known(zone->table, &st);
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
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "cannot write \"%s\" for the state of "
                      "mistral_quota_zone \"%V\"", path, &zone->name);
        return NGX_ERROR;
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


/* under the directory's lock, or before there are workers */

static void
ngx_http_mistral_quota_remember(ngx_http_mistral_limit_zone_t *zone)
{
    struct stat  st;

    if (stat((char *) zone->state.data, &st) == -1) {
        ngx_memzero(&st, sizeof(struct stat));
    }

    ngx_http_mistral_quota_known(zone->table, &st);
}


static void
ngx_http_mistral_quota_known(ngx_http_mistral_limit_table_t *table,
    const struct stat *st)
{
    table->file_ino = st->st_ino;
    table->file_size = st->st_size;
    table->file_mtime = st->st_mtim;
}
