
/*
 * The only door to malloc() of the engine half, so that tests can make the
 * n-th call fail.  Any thread.
 */

#ifndef MST_MEM_H
#define MST_MEM_H

#include <stddef.h>


void *mst_alloc(size_t size);                  /* NULL: out of memory */
void *mst_calloc(size_t n, size_t size);       /* zeroed; n * size checked */

/* as mst_calloc(), of what is soon written to in no order: its pages are there
   at once, where each would be a fault or, looked at first, two */
void *mst_mem_table(size_t n, size_t size);

void *mst_realloc(void *p, size_t n, size_t size);
void *mst_memalign(size_t align, size_t size);  /* not zeroed */
void mst_free(void *p);                        /* p may be NULL */

/*
 * To get some MiB back takes a system milliseconds.  Where that is too long,
 * one thread may put it off: after _later() what it frees of MST_MEM_LARGE
 * bytes or more waits for its _release(), which gives at most so many bytes
 * back and returns how many wait still; other threads free at once.  "wake" is
 * told of each such block; NULL: all that waits goes, and all else at once from
 * now on.
 *
 * In the whole process blocks of that size are mappings of their own then,
 * which grow without being copied (glibc's dynamic threshold is off).
 */
#define MST_MEM_LARGE  (1024 * 1024)

void mst_mem_later(void (*wake)(void));
size_t mst_mem_release(size_t n);

/* tests: the n-th call from now (1 = the next) and all after it fail */
void mst_mem_fail_after(long n);               /* 0 switches it off */


#endif /* MST_MEM_H */
