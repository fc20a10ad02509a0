
/*
 * A rate that is measured: events per second over the last while, recent
 * ones counting more.  Time without work is not given to it, so that a rate
 * says what can be done and not what was asked for.  A function of what it
 * is given.  One thread.
 */

#ifndef MST_RATE_H
#define MST_RATE_H

#include <stdint.h>


typedef struct {
    double  span;                  /* seconds: after so many an event counts
                                      1/e */
    double  events;                /* both decay */
    double  seconds;
} mst_rate_t;


void mst_rate_init(mst_rate_t *r, double span);

/* "n" events in "ns" of work */
void mst_rate_add(mst_rate_t *r, uint64_t n, uint64_t ns);

/* per second; 0 = not known yet */
double mst_rate_get(const mst_rate_t *r);


#endif /* MST_RATE_H */
