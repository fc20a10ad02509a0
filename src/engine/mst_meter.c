
/*
 * The engine's rates: see mst_meter.h.
 */

#include <string.h>

#include "engine/mst_meter.h"


/* what is measured shall follow the load, and not each request */
#define MST_METER_SPAN  10.0               /* seconds */


void
mst_meter_init(mst_meter_t *m)
{
    memset(m, 0, sizeof(mst_meter_t));

    mst_rate_init(&m->finishes, MST_METER_SPAN);
    mst_rate_init(&m->tokens, MST_METER_SPAN);
}


void
mst_meter_begin(mst_meter_t *m, uint64_t now_ns)
{
    if (m->busy_ns == 0) {
        m->busy_ns = now_ns;
    }
}


void
mst_meter_add(mst_meter_t *m, uint64_t n_finished, uint64_t n_tokens,
    uint64_t now_ns, int full, int more)
{
    uint64_t  ns;

    ns = now_ns > m->busy_ns ? now_ns - m->busy_ns : 0;

    if (full) {
        mst_rate_add(&m->finishes, n_finished - m->n_finished, ns);
    }

    mst_rate_add(&m->tokens, n_tokens - m->n_tokens, ns);

    m->n_finished = n_finished;
    m->n_tokens = n_tokens;
    m->busy_ns = more ? now_ns : 0;
}
