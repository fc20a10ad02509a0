
/*
 * What the sampler asks of a whole row of logits, which is long: the largest,
 * the few that reach a threshold, all exponentials.  Written for vectors, the
 * exponentials also for wider ones where this machine has them, with the same
 * bits: each sum has eight chains whatever the width.
 *
 * Pure functions; any thread.
 */

#ifndef MST_ROW_H
#define MST_ROW_H

#include <stdint.h>

#define MST_ROW_GROUP  64          /* logits that share a maximum */
#define MST_ROW_BLOCK  1024        /* that share a sum */

/* of n logits */
#define mst_row_groups(n)  (((n) + MST_ROW_GROUP - 1) / MST_ROW_GROUP)
#define mst_row_blocks(n)  (((n) + MST_ROW_BLOCK - 1) / MST_ROW_BLOCK)


/* tops[groups]: maxima; *at: the first of the largest.  MST_ERROR: a logit is
   NaN or +inf, or all are -inf */
int mst_row_max(const float *x, uint32_t n, float *tops, uint32_t *at);

/* ids, rising, of logits >= least, -inf excepted; returns how many */
uint32_t mst_row_above(const float *x, uint32_t n, const float *tops,
    float least, uint32_t *ids);

/* w[i] = 2^((x[i] - max) * factor), the best being exactly 1, and 0 below
   2^-1000; max is the largest.  sums[blocks]; returns the sum of these */
double mst_row_weigh(const float *x, uint32_t n, float max, double factor,
    double *w, double *sums);

/* the same where nothing is known of the machine, for tests */
double mst_row_weigh_any(const float *x, uint32_t n, float max,
    double factor, double *w, double *sums);


#endif /* MST_ROW_H */
