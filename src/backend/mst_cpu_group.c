
/*
 * Limits of control groups: see mst_cpu_group.h.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/mst_cpu_group.h"


#define MST_CPU_GROUP_ROOT  "/sys/fs/cgroup"
#define MST_CPU_GROUP_PATH  1024


typedef uint64_t (*mst_cpu_group_pt)(const char *dir);


typedef struct {
    const char        *controller;
    mst_cpu_group_pt   v1;         /* of one group's folder */
    mst_cpu_group_pt   v2;
} mst_cpu_group_t;


static uint64_t mst_cpu_group_self(const mst_cpu_group_t *what);
static uint64_t mst_cpu_group_limit(const mst_cpu_group_t *what,
    const char *root, const char *self);
static int mst_cpu_group_has(const char *list, size_t len, const char *name);
static uint64_t mst_cpu_group_climb(const char *base, const char *path,
    size_t len, mst_cpu_group_pt read_dir);
static uint64_t mst_cpu_group_memory_v1(const char *dir);
static uint64_t mst_cpu_group_memory_v2(const char *dir);
static uint64_t mst_cpu_group_quota_v1(const char *dir);
static uint64_t mst_cpu_group_quota_v2(const char *dir);
static uint64_t mst_cpu_group_share(const char *quota, const char *period);
static const char *mst_cpu_group_read(const char *dir, const char *file,
    char *buf, size_t size);
static uint64_t mst_cpu_group_number(const char *s);


static const mst_cpu_group_t  mst_cpu_group_of_memory = {
    "memory", mst_cpu_group_memory_v1, mst_cpu_group_memory_v2
};

static const mst_cpu_group_t  mst_cpu_group_of_cpu = {
    "cpu", mst_cpu_group_quota_v1, mst_cpu_group_quota_v2
};


uint64_t
mst_cpu_group_memory(void)
{
    return mst_cpu_group_self(&mst_cpu_group_of_memory);
}


uint64_t
mst_cpu_group_quota(void)
{
    return mst_cpu_group_self(&mst_cpu_group_of_cpu);
}


uint64_t
mst_cpu_group_memory_of(const char *root, const char *self)
{
    return mst_cpu_group_limit(&mst_cpu_group_of_memory, root, self);
}


uint64_t
mst_cpu_group_quota_of(const char *root, const char *self)
{
    return mst_cpu_group_limit(&mst_cpu_group_of_cpu, root, self);
}


static uint64_t
mst_cpu_group_self(const mst_cpu_group_t *what)
{
    char  self[4096];

    return mst_cpu_group_limit(what, MST_CPU_GROUP_ROOT,
                               mst_cpu_group_read("/proc/self", "cgroup",
                                                  self, sizeof(self)));
}


/* lines "ID:LIST:PATH"; v2 has an empty list.  Where both hierarchies are in
   use, v2 stands in a folder "unified" */

static uint64_t
mst_cpu_group_limit(const mst_cpu_group_t *what, const char *root,
    const char *self)
{
    char         base[MST_CPU_GROUP_PATH];
    size_t       len;
    uint64_t     n, limit;
    const char  *list, *path, *end;

    limit = UINT64_MAX;

    for ( /* void */ ; *self; self = end + (*end == '\n')) {

        end = self + strcspn(self, "\n");
        list = memchr(self, ':', (size_t) (end - self));
        path = list ? memchr(list + 1, ':', (size_t) (end - list - 1)) : NULL;

        if (path == NULL) {
            continue;
        }

        list++;
        len = (size_t) (path - list);
        path++;

        if (len == 0) {
            n = mst_cpu_group_climb(root, path, (size_t) (end - path),
                                    what->v2);
            limit = n < limit ? n : limit;

            (void) snprintf(base, sizeof(base), "%s/unified", root);
            n = mst_cpu_group_climb(base, path, (size_t) (end - path),
                                    what->v2);

        } else if (mst_cpu_group_has(list, len, what->controller)) {
            (void) snprintf(base, sizeof(base), "%s/%s", root,
                            what->controller);
            n = mst_cpu_group_climb(base, path, (size_t) (end - path),
                                    what->v1);
        } else {
            continue;
        }

        limit = n < limit ? n : limit;
    }

    return limit;
}


static int
mst_cpu_group_has(const char *list, size_t len, const char *name)
{
    size_t  n;

    while (len != 0) {
        n = strcspn(list, ",:");
        n = n < len ? n : len;

        if (n == strlen(name) && memcmp(list, name, n) == 0) {
            return 1;
        }

        n += n < len;
        list += n;
        len -= n;
    }

    return 0;
}


/* the group and all above it, up to the root of its tree */

static uint64_t
mst_cpu_group_climb(const char *base, const char *path, size_t len,
    mst_cpu_group_pt read_dir)
{
    char      dir[2 * MST_CPU_GROUP_PATH], *top, *slash;
    uint64_t  n, limit;

    limit = UINT64_MAX;

    if (strlen(base) + len >= sizeof(dir)) {
        return limit;
    }

    (void) snprintf(dir, sizeof(dir), "%s%.*s", base, (int) len, path);
    top = dir + strlen(base);

    for ( ;; ) {
        n = read_dir(dir);
        limit = n < limit ? n : limit;

        slash = strrchr(top, '/');

        if (slash == NULL) {
            return limit;
        }

        *slash = '\0';
    }
}


static uint64_t
mst_cpu_group_memory_v1(const char *dir)
{
    char  buf[64];

    return mst_cpu_group_number(mst_cpu_group_read(dir,
                                                   "memory.limit_in_bytes",
                                                   buf, sizeof(buf)));
}


static uint64_t
mst_cpu_group_memory_v2(const char *dir)
{
    char  buf[64];

    return mst_cpu_group_number(mst_cpu_group_read(dir, "memory.max", buf,
                                                   sizeof(buf)));
}


static uint64_t
mst_cpu_group_quota_v1(const char *dir)
{
    char  quota[64], period[64];

    return mst_cpu_group_share(mst_cpu_group_read(dir, "cpu.cfs_quota_us",
                                                  quota, sizeof(quota)),
                               mst_cpu_group_read(dir, "cpu.cfs_period_us",
                                                  period, sizeof(period)));
}


/* "max 100000" or "150000 100000" */

static uint64_t
mst_cpu_group_quota_v2(const char *dir)
{
    char         buf[64];
    const char  *space;

    (void) mst_cpu_group_read(dir, "cpu.max", buf, sizeof(buf));
    space = strchr(buf, ' ');

    return space ? mst_cpu_group_share(buf, space + 1) : UINT64_MAX;
}


static uint64_t
mst_cpu_group_share(const char *quota, const char *period)
{
    uint64_t  q, p;

    q = mst_cpu_group_number(quota);
    p = mst_cpu_group_number(period);

    if (q > UINT64_MAX / 1000 || p == 0 || p == UINT64_MAX) {
        return UINT64_MAX;
    }

    return q * 1000 / p;
}


/* "" when there is no such file */

static const char *
mst_cpu_group_read(const char *dir, const char *file, char *buf, size_t size)
{
    int      fd;
    char     path[2 * MST_CPU_GROUP_PATH + 64];
    ssize_t  n;

    (void) snprintf(path, sizeof(path), "%s/%s", dir, file);

    n = 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd != -1) {
        n = read(fd, buf, size - 1);
        (void) close(fd);
    }

    buf[n > 0 ? n : 0] = '\0';

    return buf;
}


/* "max", "-1" and what is no number are no limit */

static uint64_t
mst_cpu_group_number(const char *s)
{
    return (*s >= '0' && *s <= '9') ? strtoull(s, NULL, 10) : UINT64_MAX;
}
