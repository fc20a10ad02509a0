
/*
 * The threads of the CPU backend: all run the same function, meet at
 * barriers, and sleep while there is nothing to run.
 *
 * A waiting thread spins for about 0.1 ms, which covers the gap between two
 * steps of a busy engine, then sleeps on a futex: an idle engine costs no
 * CPU.  Where others use the same cores and waits are long, barriers spin
 * less and less, which leaves the core to whoever is waited for.
 *
 * The thread that calls mst_cpu_pool_run() is thread 0.
 */

#ifndef MST_CPU_POOL_H
#define MST_CPU_POOL_H

#include <stdint.h>

#include "base/mst_err.h"

#define MST_CPU_POOL_MAX  64


typedef struct mst_cpu_pool_s  mst_cpu_pool_t;

typedef void (*mst_cpu_pool_pt)(void *data, uint32_t thread);


/* cores that this process may use, by its affinity and by the quota of its
   control group, 1 .. MST_CPU_POOL_MAX */
uint32_t mst_cpu_pool_cores(void);

/* n is 1 .. MST_CPU_POOL_MAX, this thread included */
mst_cpu_pool_t *mst_cpu_pool_create(uint32_t n, mst_err_t *err);
void mst_cpu_pool_destroy(mst_cpu_pool_t *p);  /* p may be NULL */

uint32_t mst_cpu_pool_threads(const mst_cpu_pool_t *p);

/* run(data, 0 .. n - 1) at once; returns when all have returned */
void mst_cpu_pool_run(mst_cpu_pool_t *p, mst_cpu_pool_pt run, void *data);

/* inside run: returns when all threads have come here, and what they wrote
   before is seen after */
void mst_cpu_pool_barrier(mst_cpu_pool_t *p);


#endif /* MST_CPU_POOL_H */
