
/*
 * Others' work over the pool's threads (mst_backend.h, "spread"): pieces are
 * taken one at a time, and who works on one has a slot that nobody else has
 * meanwhile.  The thread that runs steps calls it, between two of them.
 */

#include "backend/mst_cpu.h"


typedef struct {
    const mst_backend_work_t  *work;
    mst_cpu_cmd_t              cmd;    /* its counter of pieces */
    uint32_t                   slots;  /* that are taken; all threads add */
} mst_cpu_spread_t;


/* who finds no slot finds pieces in the hands of all that have one */

static void
mst_cpu_spread_run(void *data, uint32_t phase, uint32_t thread, int last)
{
    uint32_t           at, slot;
    mst_cpu_spread_t  *s;

    (void) phase;
    (void) thread;
    (void) last;

    s = data;

    /* partner: the same addition of the other threads */
    slot = __atomic_fetch_add(&s->slots, 1, __ATOMIC_RELAXED);

    while (slot < s->work->slots
           && mst_cpu_take(&s->cmd, s->work->n, 1, &at) != 0)
    {
        s->work->piece(s->work->data, slot, at);
    }
}


void
mst_cpu_spread(mst_backend_t *b, const mst_backend_work_t *work)
{
    mst_cpu_spread_t    s = { 0 };
    mst_cpu_pool_job_t  job = { 0 };

    s.work = work;
    job.run = mst_cpu_spread_run;
    job.data = &s;
    job.n_phases = 1;

    mst_cpu_pool_run(b->pool, &job);
}
