
/*
 * Allocation with a fault switch for tests: see mst_mem.h.
 *
 * What is freed later is a list through the blocks themselves.  Each goes from
 * its end, so that its beginning, which holds the list, goes last.
 */

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mst_mem.h"


#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE  23                /* Linux 5.14 */
#endif


typedef struct mst_mem_late_s  mst_mem_late_t;

struct mst_mem_late_s {
    mst_mem_late_t  *next;
    size_t           left;     /* bytes from here on that we still have */
};


static long  mst_mem_left;     /* 0: never fail; 1: this call fails */

/*
 * Of the thread that asked for it.  No thread-local variables: the module is
 * unloaded before nginx -t ends, and LeakSanitizer looks for them after that.
 */

static mst_mem_late_t  *mst_mem_late;
static size_t           mst_mem_waiting;       /* bytes of it */
static void           (*mst_mem_wake)(void);   /* NULL: free at once */
static pthread_t        mst_mem_owner;         /* where that is set */


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
mst_mem_table(size_t n, size_t size)
{
    void       *p;
    uintptr_t   end, from, page;

    p = mst_calloc(n, size);

    if (p == NULL) {
        return NULL;
    }

    page = (uintptr_t) sysconf(_SC_PAGESIZE);
    from = ((uintptr_t) p + page - 1) / page * page;
    end = ((uintptr_t) p + n * size) / page * page;

    /* an older system brings them one by one */

    if (from < end) {
        (void) madvise((void *) from, end - from, MADV_POPULATE_WRITE);
    }

    return p;
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
    size_t           size;
    mst_mem_late_t  *b;

    size = (mst_mem_wake && p && pthread_equal(mst_mem_owner, pthread_self()))
           ? malloc_usable_size(p) : 0;

    if (size < MST_MEM_LARGE) {
        free(p);
        return;
    }

    b = p;
    b->next = mst_mem_late;
    b->left = size;

    mst_mem_late = b;
    mst_mem_waiting += size;

    mst_mem_wake();
}


void
mst_mem_later(void (*wake)(void))
{
    mst_mem_owner = pthread_self();
    mst_mem_wake = wake;

    if (wake == NULL) {
        (void) mst_mem_release(SIZE_MAX);
        return;
    }

    /* else the C library moves what it frees to its heap, which grows by
       copying and shrinks at once, as far as it can */

    (void) mallopt(M_MMAP_THRESHOLD, MST_MEM_LARGE);
    (void) mallopt(M_TRIM_THRESHOLD, MST_MEM_LARGE);
}


static void
mst_mem_discard(char *p, size_t size)
{
    uintptr_t  page, from, to;

    page = (uintptr_t) sysconf(_SC_PAGESIZE);
    from = ((uintptr_t) p + page - 1) & ~(page - 1);
    to = ((uintptr_t) p + size) & ~(page - 1);

    if (from < to) {
        (void) madvise((void *) from, to - from, MADV_DONTNEED);
    }
}


size_t
mst_mem_release(size_t n)
{
    size_t           size;
    mst_mem_late_t  *b;

    while (n && mst_mem_late) {
        b = mst_mem_late;
        size = b->left < n ? b->left : n;

        b->left -= size;
        mst_mem_waiting -= size;
        n -= size;

        if (b->left) {
            mst_mem_discard((char *) b + b->left, size);

        } else {
            mst_mem_late = b->next;
            free(b);
        }
    }

    return mst_mem_waiting;
}


void
mst_mem_fail_after(long n)
{
    mst_mem_left = n;
}
