
/*
 * Large memory: see mst_cpu_mem.h.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "backend/mst_cpu_mem.h"

#define MST_CPU_MEM_HUGE   ((uint64_t) 2 << 20)
#define MST_CPU_MEM_CHUNK  ((uint64_t) 64 << 20)   /* of addresses */
#define MST_CPU_MEM_GROUP  "/sys/fs/cgroup"


struct mst_cpu_chunk_s {
    mst_cpu_chunk_t  *next;
    void             *map;         /* as mmap() gave it */
    uint64_t          map_size;
    unsigned char    *free;        /* next piece */
    uint64_t          left;
};


static mst_cpu_chunk_t *
mst_cpu_mem_map(uint64_t size, mst_err_t *err)
{
    void             *map;
    uint64_t          skip;
    mst_cpu_chunk_t  *c;

    c = mst_alloc(sizeof(mst_cpu_chunk_t));

    if (c == NULL) {
        (void) mst_err_set(err, "out of memory");
        return NULL;
    }

    c->map_size = size + MST_CPU_MEM_HUGE;

    map = mmap(NULL, c->map_size, PROT_READ|PROT_WRITE,
               MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED) {
        (void) mst_err_errno(err, errno, "cannot map %llu bytes",
                             (unsigned long long) c->map_size);
        mst_free(c);
        return NULL;
    }

    skip = -(uintptr_t) map % MST_CPU_MEM_HUGE;
    c->map = map;
    c->free = (unsigned char *) map + skip;
    c->left = size;

    /* a system without huge pages serves as well, a little slower */

    (void) madvise(c->free, size, MADV_HUGEPAGE);

    return c;
}


void *
mst_cpu_mem_take(mst_cpu_mem_t *m, uint64_t size, mst_err_t *err)
{
    void             *p;
    mst_cpu_chunk_t  *c;

    if (size > UINT64_MAX / 4) {
        (void) mst_err_set(err, "cannot map %llu bytes",
                           (unsigned long long) size);
        return NULL;
    }

    size = (size + 63) / 64 * 64;
    c = m->chunks;

    if (c == NULL || c->left < size) {
        c = mst_cpu_mem_map(size > MST_CPU_MEM_CHUNK
                            ? (size + MST_CPU_MEM_HUGE - 1)
                              / MST_CPU_MEM_HUGE * MST_CPU_MEM_HUGE
                            : MST_CPU_MEM_CHUNK, err);
        if (c == NULL) {
            return NULL;
        }

        c->next = m->chunks;
        m->chunks = c;
    }

    p = c->free;
    c->free += size;
    c->left -= size;

    return p;
}


void
mst_cpu_mem_fini(mst_cpu_mem_t *m)
{
    mst_cpu_chunk_t  *c;

    while (m->chunks) {
        c = m->chunks;
        m->chunks = c->next;
        (void) munmap(c->map, c->map_size);
        mst_free(c);
    }
}


/* bytes read, 0: nothing there; always with a zero behind them */

static size_t
mst_cpu_mem_read(const char *path, char *buf, size_t size)
{
    int      fd;
    ssize_t  n;

    n = 0;
    fd = open(path, O_RDONLY|O_CLOEXEC);

    if (fd != -1) {
        n = read(fd, buf, size - 1);
        (void) close(fd);
    }

    buf[n > 0 ? n : 0] = '\0';

    return n > 0 ? (size_t) n : 0;
}


static uint64_t
mst_cpu_mem_number(const char *path, uint64_t limit)
{
    char                buf[32];
    unsigned long long  n;

    if (mst_cpu_mem_read(path, buf, sizeof(buf)) == 0
        || buf[0] < '0' || buf[0] > '9')
    {
        return limit;                          /* "max" */
    }

    n = strtoull(buf, NULL, 10);

    return n < limit ? n : limit;
}


uint64_t
mst_cpu_mem_limit(void)
{
    char      buf[2048], path[2200], *p;
    long      pages, size;
    uint64_t  limit;

    pages = sysconf(_SC_PHYS_PAGES);
    size = sysconf(_SC_PAGESIZE);
    limit = pages > 0 && size > 0 ? (uint64_t) pages * (uint64_t) size
                                  : UINT64_MAX;

    limit = mst_cpu_mem_number(MST_CPU_MEM_GROUP
                               "/memory/memory.limit_in_bytes", limit);

    (void) mst_cpu_mem_read("/proc/self/cgroup", buf, sizeof(buf));
    p = strstr(buf, "0::/");

    if (p == NULL) {
        return limit;
    }

    p += 3;
    p[strcspn(p, "\n")] = '\0';

    /* the group and all above it */

    for ( ;; ) {
        (void) snprintf(path, sizeof(path), MST_CPU_MEM_GROUP "%s/memory.max",
                        p);
        limit = mst_cpu_mem_number(path, limit);

        if (*p == '\0') {
            return limit;
        }

        *strrchr(p, '/') = '\0';
    }
}
