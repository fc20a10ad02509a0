
/*
 * A file of choices: see mst_tuned.h.
 *
 *     head { magic, version, entries, key, sum of what follows }, entries
 *
 * in the machine's own order of bytes.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "backend/mst_tuned.h"

#define MST_TUNED_MAGIC    0x4e55547453544d00ull
#define MST_TUNED_VERSION  1       /* another one: measured anew */


typedef struct {
    uint64_t  magic;
    uint32_t  version;
    uint32_t  n;
    uint64_t  key;
    uint64_t  sum;                 /* of the entries */
} mst_tuned_head_t;


static uint64_t
mst_tuned_sum(const mst_tuned_entry_t *e, uint32_t n)
{
    return mst_hash(MST_TUNED_MAGIC, e, n * sizeof(mst_tuned_entry_t));
}


/* all of it or an error */

static int
mst_tuned_get(int fd, void *to, size_t size, off_t at)
{
    size_t   n;
    ssize_t  got;

    for (n = 0; n < size; n += (size_t) got) {
        got = pread(fd, (char *) to + n, size - n, at + (off_t) n);

        if (got <= 0) {
            return got ? errno : EIO;
        }
    }

    return 0;
}


/* NULL, or why the file is not for us */

static const char *
mst_tuned_load(mst_tuned_t *t, int fd)
{
    uint32_t          i;
    struct stat       st;
    mst_tuned_head_t  head;

    if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
        return "it is no regular file";
    }

    if (st.st_uid != geteuid() || (st.st_mode & 022)) {
        return "it is not the engine's user's alone";
    }

    if ((uint64_t) st.st_size < sizeof(head)
        || mst_tuned_get(fd, &head, sizeof(head), 0) != 0
        || head.magic != MST_TUNED_MAGIC || head.version != MST_TUNED_VERSION
        || head.key != t->key || head.n > MST_TUNED_MAX
        || (uint64_t) st.st_size
           != sizeof(head) + head.n * sizeof(mst_tuned_entry_t))
    {
        return "it is none of this version";
    }

    if (mst_tuned_get(fd, t->entries, head.n * sizeof(mst_tuned_entry_t),
                      sizeof(head)) != 0
        || mst_tuned_sum(t->entries, head.n) != head.sum)
    {
        return "it is damaged";
    }

    for (i = 0; i < head.n; i++) {
        if (t->entries[i].choice > INT32_MAX) {
            return "it is damaged";
        }
    }

    t->n = head.n;

    return NULL;
}


void
mst_tuned_init(mst_tuned_t *t, const char *dir, const char *key,
    const mst_log_t *log)
{
    int          fd, len;
    const char  *why;

    memset(t, 0, sizeof(mst_tuned_t));
    t->log = log;
    t->key = mst_hash(MST_TUNED_VERSION, key, strlen(key));

    if (dir == NULL || dir[0] == '\0') {
        return;
    }

    len = snprintf(t->path, sizeof(t->path), "%s/mistral-gemm-%016llx", dir,
                   (unsigned long long) t->key);
    t->entries = mst_calloc(MST_TUNED_MAX, sizeof(mst_tuned_entry_t));

    if (len < 0 || (size_t) len >= sizeof(t->path) || t->entries == NULL) {
        t->path[0] = '\0';
        return;
    }

    /* a pipe in its place must not hold us up */

    fd = open(t->path, O_RDONLY|O_CLOEXEC|O_NOFOLLOW|O_NONBLOCK);

    if (fd == -1) {
        if (errno != ENOENT) {
            mst_log(log, MST_LOG_NOTICE, "what was measured before is not "
                    "read: open() of \"%s\": %s", t->path, strerror(errno));
        }

        return;
    }

    why = mst_tuned_load(t, fd);
    (void) close(fd);

    if (why) {
        mst_log(log, MST_LOG_NOTICE, "what was measured before is not read "
                "from \"%s\": %s", t->path, why);
    }
}


void
mst_tuned_fini(mst_tuned_t *t)
{
    mst_free(t->entries);
    t->entries = NULL;
    t->n = 0;
}


static mst_tuned_entry_t *
mst_tuned_like(const mst_tuned_t *t, const mst_tuned_entry_t *e)
{
    uint32_t            i;
    mst_tuned_entry_t  *o;

    for (i = 0; i < t->n; i++) {
        o = &t->entries[i];

        if (o->rows == e->rows && o->width == e->width && o->n == e->n
            && o->kind == e->kind)
        {
            return o;
        }
    }

    return NULL;
}


int
mst_tuned_find(const mst_tuned_t *t, const mst_tuned_entry_t *e)
{
    const mst_tuned_entry_t  *o;

    o = mst_tuned_like(t, e);

    return o ? (int) o->choice : -1;
}


void
mst_tuned_add(mst_tuned_t *t, const mst_tuned_entry_t *e)
{
    mst_tuned_entry_t  *o;

    if (t->entries == NULL) {
        return;
    }

    o = mst_tuned_like(t, e);

    if (o == NULL && t->n < MST_TUNED_MAX) {
        o = &t->entries[t->n++];
    }

    if (o) {
        *o = *e;
        t->added++;
    }
}


static int
mst_tuned_put(int fd, const void *from, size_t size)
{
    size_t   n;
    ssize_t  got;

    for (n = 0; n < size; n += (size_t) got) {
        got = write(fd, (const char *) from + n, size - n);

        if (got <= 0) {
            return got ? errno : EIO;
        }
    }

    return 0;
}


/* 0 or errno */

static int
mst_tuned_write(const mst_tuned_t *t, const char *path)
{
    int               fd, rc;
    mst_tuned_head_t  head;

    memset(&head, 0, sizeof(head));
    head.magic = MST_TUNED_MAGIC;
    head.version = MST_TUNED_VERSION;
    head.n = t->n;
    head.key = t->key;
    head.sum = mst_tuned_sum(t->entries, t->n);

    fd = open(path, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC|O_NOFOLLOW, 0600);

    if (fd == -1) {
        return errno;
    }

    rc = mst_tuned_put(fd, &head, sizeof(head));
    rc = rc ? rc : mst_tuned_put(fd, t->entries,
                                 t->n * sizeof(mst_tuned_entry_t));
    rc = close(fd) == -1 && rc == 0 ? errno : rc;
    rc = rc == 0 && rename(path, t->path) == -1 ? errno : rc;

    if (rc) {
        (void) unlink(path);
    }

    return rc;
}


void
mst_tuned_save(mst_tuned_t *t)
{
    int   rc;
    char  path[MST_TUNED_PATH + 4];

    if (t->path[0] == '\0' || t->added == 0) {
        return;
    }

    /* what a killed engine left is in nobody's way for long: two that measure
       at the same time are rare, and one of them then keeps nothing */

    (void) snprintf(path, sizeof(path), "%s.new", t->path);
    rc = mst_tuned_write(t, path);

    if (rc == EEXIST) {
        (void) unlink(path);
        rc = mst_tuned_write(t, path);
    }

    if (rc) {
        mst_log(t->log, MST_LOG_NOTICE, "what was measured is not kept: "
                "writing \"%s\": %s", path, strerror(rc));
        return;
    }

    t->added = 0;
}
