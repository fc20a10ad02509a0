
/*
 * Rates: see mst_rate.h.
 */

#include <math.h>

#include "base/mst_time.h"
#include "engine/mst_rate.h"


void
mst_rate_init(mst_rate_t *r, double span)
{
    r->span = span;
    r->events = 0;
    r->seconds = 0;
}


void
mst_rate_add(mst_rate_t *r, uint64_t n, uint64_t ns)
{
    double  seconds, keep;

    seconds = (double) ns / (double) MST_S;
    keep = exp(-seconds / r->span);

    /* both by the same factor: right from the first event on */

    r->events = r->events * keep + (double) n;
    r->seconds = r->seconds * keep + seconds;
}


double
mst_rate_get(const mst_rate_t *r)
{
    return r->seconds > 0 ? r->events / r->seconds : 0;
}
