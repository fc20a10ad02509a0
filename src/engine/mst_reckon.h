
/*
 * How long it will take to compute so many tokens, by what steps took: the
 * mean, and what 99 of 100 steps did not exceed.  A mean alone keeps half of
 * the promises that are made by it; how far steps are off is a matter of the
 * machine and of who else is on it, so that is measured, too.
 *
 * What is old says little: who refuses everybody by it would never learn that
 * the machine is as fast as ever.  So, while nothing is measured, hope grows,
 * until somebody is let in and measured.  A function of what it is given.
 * One thread.
 */

#ifndef MST_RECKON_H
#define MST_RECKON_H

#include <stdint.h>

#include "engine/mst_rate.h"


typedef struct {
    mst_rate_t  prompts;           /* tokens of steps that have enough of
                                      them */
    double      margin;            /* of 100 steps 99 took no more than so
                                      many times what the mean says; >= 1 */
    uint64_t    measured_ns;       /* the end of the last such step */
    uint32_t    enough;            /* prompt tokens */
} mst_reckon_t;


/* budget: tokens of a full step */
void mst_reckon_init(mst_reckon_t *r, uint32_t budget);

/* a step of "tokens" in all took "ns" and has just ended */
void mst_reckon_add(mst_reckon_t *r, uint32_t tokens, uint32_t prompts,
    uint64_t ns, uint64_t now_ns);

int mst_reckon_known(const mst_reckon_t *r);

/* the mean; 0 = not known */
uint64_t mst_reckon_ns(const mst_reckon_t *r, uint64_t tokens,
    uint64_t now_ns);

/* with the margin; 0 = not known */
uint64_t mst_reckon_sure_ns(const mst_reckon_t *r, uint64_t tokens,
    uint64_t now_ns);

/* how many are sure to be computed in "ns"; known */
double mst_reckon_sure(const mst_reckon_t *r, uint64_t ns, uint64_t now_ns);


#endif /* MST_RECKON_H */
