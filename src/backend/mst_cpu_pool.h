
/*
 * The threads of the CPU backend: a job is a row of phases, one after the
 * other, which those threads run that have time for it.
 *
 * The pieces of a phase are for whoever comes, and who comes late, because
 * another process had the core, finds them taken or the phase over: nobody
 * waits for a thread that has nothing in hand.  nginx's workers wake up once a
 * token, on the cores that compute it.
 *
 * A thread without a job spins for about 0.4 ms, which covers the gap between
 * two steps of a busy engine with tokens of a batch to be drawn, then sleeps on
 * a futex: an idle engine costs no CPU.  To be woken takes longer than the
 * gap, and costs the thread that begins the step a system call.  Between
 * phases it is 0.1 ms, and where others use the same cores and waits are long,
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

/* Returns when all pieces of the phase are done or in the hands of others that
   came; with "last" there are no others, and nothing may be left even where
   it leaves the parts of some threads to them.  What was written in a phase
   is seen in the next. */
typedef void (*mst_cpu_pool_pt)(void *data, uint32_t phase, uint32_t thread,
    int last);

typedef struct {
    mst_cpu_pool_pt    run;
    void             (*begun)(void *data);     /* or NULL: once, on thread 0,
                                                  while the others may work
                                                  already */
    void              *data;
    uint32_t           n_phases;
    int                all;        /* each thread runs each phase: for what
                                      must be done by a certain one */
} mst_cpu_pool_job_t;


/* cores that this process may use, by its affinity and by the quota of its
   control group, 1 .. MST_CPU_POOL_MAX */
uint32_t mst_cpu_pool_cores(void);

/* n is 1 .. MST_CPU_POOL_MAX, this thread included */
mst_cpu_pool_t *mst_cpu_pool_create(uint32_t n, mst_err_t *err);
void mst_cpu_pool_destroy(mst_cpu_pool_t *p);  /* p may be NULL */

uint32_t mst_cpu_pool_threads(const mst_cpu_pool_t *p);

/* returns when all phases are over */
void mst_cpu_pool_run(mst_cpu_pool_t *p, const mst_cpu_pool_job_t *job);

/*
 * From thread 0 within a job: the others keep out of this phase, a later one,
 * until phase 0 is said here, or for about 30 us.  For what may take any
 * thread's core: who has nothing in hand then is not waited for.
 */
void mst_cpu_pool_hold(mst_cpu_pool_t *p, uint32_t phase);


#endif /* MST_CPU_POOL_H */
