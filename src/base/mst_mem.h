
/*
 * The only door to malloc() of the engine half, so that tests can make the
 * n-th call fail.  Any thread.
 */

#ifndef MST_MEM_H
#define MST_MEM_H

#include <stddef.h>


void *mst_alloc(size_t size);                  /* NULL: out of memory */
void *mst_calloc(size_t n, size_t size);       /* zeroed; n * size checked */
void *mst_realloc(void *p, size_t n, size_t size);
void *mst_memalign(size_t align, size_t size);  /* not zeroed */
void mst_free(void *p);                        /* p may be NULL */

/* the whole pages of these bytes, which are ours, go back to the system and
   hold anything from now on: a part of what a later mst_free() costs */
void mst_mem_discard(void *p, size_t size);

/* tests: the n-th call from now (1 = the next) and all after it fail */
void mst_mem_fail_after(long n);               /* 0 switches it off */


#endif /* MST_MEM_H */
