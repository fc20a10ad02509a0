
/*
 * Parts of a command for each thread: see mst_cpu_split.h.
 */

#include "backend/mst_cpu_split.h"

#define MST_CPU_SPLIT_NEAR  4      /* neighbours whose parts are looked at:
                                      each costs a cache line */


uint32_t
mst_cpu_split_first(uint32_t total, uint32_t threads, uint32_t thread)
{
    return (uint32_t) ((uint64_t) total * thread / threads);
}


/* takes from a part of n units; returns how many, *first is the first */

static uint32_t
mst_cpu_split_part(mst_cpu_split_t *s, const mst_cpu_split_job_t *job,
    uint32_t n, uint32_t *first)
{
    uint32_t  left, size;
    uint64_t  word;

    word = __atomic_load_n(&s->word, __ATOMIC_RELAXED);

    do {
        /* another number: nobody has taken of this job's part yet */

        *first = (uint32_t) (word >> 32) == job->number
                 ? (uint32_t) word : 0;

        if (*first >= n) {
            return 0;
        }

        left = n - *first;
        size = job->piece ? job->piece : left / 4 + 1;
        size = size < left ? size : left;

        /* partner: the same of the other threads; the data itself is
           ordered by the phases */

    } while (!__atomic_compare_exchange_n(&s->word, &word,
                                          (uint64_t) job->number << 32
                                          | (*first + size), 0,
                                          __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return size;
}


uint32_t
mst_cpu_split_take(mst_cpu_split_t *splits, uint32_t threads,
    uint32_t thread, const mst_cpu_split_job_t *job, uint32_t *at)
{
    uint32_t  first, i, n;

    for (i = 0; i < threads && (job->all || i <= MST_CPU_SPLIT_NEAR); i++) {
        first = mst_cpu_split_first(job->total, threads, thread);
        n = mst_cpu_split_first(job->total, threads, thread + 1) - first;
        n = mst_cpu_split_part(&splits[thread], job, n, at);

        if (n) {
            *at += first;
            return n;
        }

        thread = thread + 1 == threads ? 0 : thread + 1;
    }

    return 0;
}
