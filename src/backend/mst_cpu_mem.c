
/*
 * Large memory: see mst_cpu_mem.h.
 */

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "backend/mst_cpu_group.h"
#include "backend/mst_cpu_mem.h"
#include "backend/mst_cpu_store.h"

#define MST_CPU_MEM_HUGE   ((uint64_t) 2 << 20)
#define MST_CPU_MEM_CHUNK  ((uint64_t) 64 << 20)   /* of addresses */


struct mst_cpu_chunk_s {
    mst_cpu_chunk_t  *next;
    void             *map;         /* as mmap() gave it */
    uint64_t          map_size;
    unsigned char    *free;        /* next piece */
    uint64_t          left;
    mst_cpu_store_t  *store;       /* no memory, but the note of a store */
};


static mst_cpu_chunk_t *
mst_cpu_mem_map(uint64_t size, mst_err_t *err)
{
    void             *map;
    uint64_t          skip;
    mst_cpu_chunk_t  *c;

    c = mst_calloc(1, sizeof(mst_cpu_chunk_t));

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

        if (c->map) {
            (void) munmap(c->map, c->map_size);
        }

        mst_free(c);
    }
}


int
mst_cpu_mem_share(mst_cpu_mem_t *m, mst_cpu_store_t *s, mst_err_t *err)
{
    mst_cpu_chunk_t  *c;

    c = mst_calloc(1, sizeof(mst_cpu_chunk_t));

    if (c == NULL) {
        return mst_err_set(err, "out of memory");
    }

    c->store = s;
    c->next = m->chunks;
    m->chunks = c;

    return MST_OK;
}


mst_cpu_store_t *
mst_cpu_mem_store(const mst_cpu_mem_t *m)
{
    const mst_cpu_chunk_t  *c;

    for (c = m->chunks; c && c->store == NULL; c = c->next) { /* void */ }

    return c ? c->store : NULL;
}


uint64_t
mst_cpu_mem_limit(void)
{
    long      pages, size;
    uint64_t  all, limit;

    pages = sysconf(_SC_PHYS_PAGES);
    size = sysconf(_SC_PAGESIZE);
    all = pages > 0 && size > 0 ? (uint64_t) pages * (uint64_t) size
                                : UINT64_MAX;
    limit = mst_cpu_group_memory();

    return limit < all ? limit : all;
}
