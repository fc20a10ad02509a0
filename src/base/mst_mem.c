
/*
 * Allocation with a fault switch for tests: see mst_mem.h.
 */

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mst_mem.h"


static long  mst_mem_left;     /* 0: never fail; 1: this call fails */


static int
mst_mem_fails(void)
{
    if (mst_mem_left == 0) {
        return 0;
    }

    if (mst_mem_left == 1) {
        return 1;
    }

    mst_mem_left--;

    return 0;
}


void *
mst_alloc(size_t size)
{
    return mst_mem_fails() ? NULL : malloc(size ? size : 1);
}


void *
mst_calloc(size_t n, size_t size)
{
    size_t  total;

    /* calloc() checks too, but a sanitizer's ends the process there */

    if (__builtin_mul_overflow(n, size, &total) || mst_mem_fails()) {
        return NULL;
    }

    return calloc(1, total ? total : 1);
}


void *
mst_realloc(void *p, size_t n, size_t size)
{
    size_t  total;

    if (__builtin_mul_overflow(n, size, &total) || mst_mem_fails()) {
        return NULL;
    }

    return realloc(p, total ? total : 1);
}


void *
mst_memalign(size_t align, size_t size)
{
    size_t  rounded;

    if (__builtin_add_overflow(size, align - 1, &rounded)
        || mst_mem_fails())
    {
        return NULL;
    }

    rounded -= rounded % align;

    return aligned_alloc(align, rounded ? rounded : align);
}


void
mst_free(void *p)
{
    free(p);
}


void
mst_mem_discard(void *p, size_t size)
{
    uintptr_t  page, from, to;

    page = (uintptr_t) sysconf(_SC_PAGESIZE);
    from = ((uintptr_t) p + page - 1) & ~(page - 1);
    to = ((uintptr_t) p + size) & ~(page - 1);

    if (from < to) {
        (void) madvise((void *) from, to - from, MADV_DONTNEED);
    }
}


void
mst_mem_fail_after(long n)
{
    mst_mem_left = n;
}
