
/*
 * The state file of a quota, and what is read of it: when a zone begins, and
 * whenever the file is not as we left it (quota_save.c writes it).
 *
 * Such a file was written by somebody else, by the nginx before or after a
 * binary upgrade or by an operator: what it changed is added to what we have,
 * before we write.  So two can use one file and no token is lost or counted
 * twice.  A change is read though nothing is to be written: whom a quota
 * refuses spends nothing, and waits for it.
 *
 * A file that is broken is set aside, and the quotas begin anew.
 *
 * Master: init; workers: all else.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include <fcntl.h>

#include "base/mst_tally.h"


#define NGX_HTTP_MISTRAL_QUOTA_FILE    (64 << 20)      /* bytes, and ... */
#define NGX_HTTP_MISTRAL_QUOTA_RATIO   4       /* times the zone: a line is
                                                  less than that of a node */
#define NGX_HTTP_MISTRAL_QUOTA_FUTURE  (366 * 86400)   /* s */


static ngx_int_t ngx_http_mistral_quota_directory(
    ngx_http_mistral_limit_zone_t *zone);
static ngx_int_t ngx_http_mistral_quota_regular(
    ngx_http_mistral_limit_zone_t *zone);
static ngx_int_t ngx_http_mistral_quota_read(
    ngx_http_mistral_limit_zone_t *zone, struct stat *st, mst_buf_t *in);
static void ngx_http_mistral_quota_load(ngx_http_mistral_limit_zone_t *zone);
static void ngx_http_mistral_quota_aside(ngx_http_mistral_limit_zone_t *zone,
    ngx_log_t *log, const char *why, const char *then);
static void ngx_http_mistral_quota_merge(void *data, const mst_tally_t *t);
static void ngx_http_mistral_quota_known(
    ngx_http_mistral_limit_table_t *table, const struct stat *st);


ngx_int_t
ngx_http_mistral_quota_init(ngx_http_mistral_limit_zone_t *zone,
    ngx_uint_t fresh)
{
    if (zone->state.len == 0) {
        return NGX_OK;
    }

    if (ngx_http_mistral_quota_directory(zone) != NGX_OK
        || ngx_http_mistral_quota_regular(zone) != NGX_OK)
    {
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
    u_char      *slash;
    ngx_int_t    rc;
    ngx_str_t    dir;
    const char  *user;

    slash = (u_char *) strrchr((char *) zone->state.data, '/');
    dir.len = ngx_max(slash - zone->state.data, 1);
    dir.data = ngx_pnalloc(zone->cycle->pool, dir.len + 1);

    if (dir.data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_cpystrn(dir.data, zone->state.data, dir.len + 1);
    zone->directory = dir;
    rc = ngx_http_mistral_dir(zone->cycle, (char *) dir.data, &user);

    if (rc == NGX_ERROR) {
        ngx_log_error(NGX_LOG_EMERG, zone->cycle->log, ngx_errno,
                      "cannot create directory \"%V\" for the state of "
                      "mistral_quota_zone \"%V\"", &dir, &zone->name);
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED) {
        ngx_log_error(NGX_LOG_EMERG, zone->cycle->log, 0,
                      "\"%V\" of mistral_quota_zone \"%V\" is no directory",
                      &dir, &zone->name);
        return NGX_ERROR;
    }

    if (user) {
        ngx_log_error(NGX_LOG_WARN, zone->cycle->log, 0,
                      "directory \"%V\" of mistral_quota_zone \"%V\" is not "
                      "writable by user \"%s\": the state cannot be saved",
                      &dir, &zone->name, user);
    }

    return NGX_OK;
}


/* what no file could take the place of, or nobody meant to lose */

static ngx_int_t
ngx_http_mistral_quota_regular(ngx_http_mistral_limit_zone_t *zone)
{
    struct stat  st;

    if (stat((char *) zone->state.data, &st) == -1 || S_ISREG(st.st_mode)) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, zone->cycle->log, 0,
                  "\"%V\", the state of mistral_quota_zone \"%V\", is no "
                  "regular file", &zone->state, &zone->name);

    return NGX_ERROR;
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


ngx_uint_t
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


void
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


void
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
