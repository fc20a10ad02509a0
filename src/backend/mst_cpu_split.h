
/*
 * A command's pieces shared out so that each thread reads memory in one go.
 *
 * Of a range of units every thread has its own part, always the same, and
 * takes pieces of it from front to back; who is done takes from the parts of
 * a few neighbours, which nginx's workers may have kept from their core.
 * Taking turns in small pieces instead, without parts of one's own, was
 * measured to read weights at little more than half the speed: each piece
 * is a new start for the prefetchers.  And what a thread always reads can
 * lie on its own memory node.
 *
 * Any thread of the pool; a job is over at the end of its phase.
 */

#ifndef MST_CPU_SPLIT_H
#define MST_CPU_SPLIT_H

#include <stdint.h>


/* of one thread, in a cache line of its own; starts as zeros */
typedef struct {
    _Alignas(64) uint64_t  word;   /* number of the job, then 32 bits: units
                                      of its part that are taken; owner and
                                      thieves write */
} mst_cpu_split_t;


typedef struct {
    uint32_t  number;              /* they follow each other, from 1 */
    uint32_t  total;               /* units */
    uint32_t  piece;               /* units at once; 0: a quarter of what is
                                      left of a part, so that the last ones
                                      are small */
    int       all;                 /* looks at the parts of all, not only of
                                      neighbours */
} mst_cpu_split_job_t;


/* first unit of a thread's part of "total"; that of thread "threads" is the
   end */
uint32_t mst_cpu_split_first(uint32_t total, uint32_t threads,
    uint32_t thread);

/* units *at .. *at + n - 1 are the caller's; returns n, 0: none is left,
   where it looked */
uint32_t mst_cpu_split_take(mst_cpu_split_t *splits, uint32_t threads,
    uint32_t thread, const mst_cpu_split_job_t *job, uint32_t *at);


#endif /* MST_CPU_SPLIT_H */
