
/*
 * Durations in bounded memory: counters whose width grows with the value, so
 * that a quantile is off by less than 1/256 of itself however many samples
 * there are.  Sum, minimum and maximum are exact.  One thread.
 */

#ifndef MISTRAL_STATS_H
#define MISTRAL_STATS_H

#include <stddef.h>
#include <stdint.h>

#define MISTRAL_STATS_BITS  7                  /* of a value that count */
#define MISTRAL_STATS_CELLS                                                   \
    ((64 - MISTRAL_STATS_BITS + 1) << MISTRAL_STATS_BITS)


typedef struct {
    uint64_t  cells[MISTRAL_STATS_CELLS];      /* samples */
    uint64_t  n;
    uint64_t  min;
    uint64_t  max;
    double    sum;
} mistral_stats_t;


void mistral_stats_init(mistral_stats_t *s);
void mistral_stats_add(mistral_stats_t *s, uint64_t value);

/* the value at or below which "percent" of the samples lie (the nearest
   rank); 0 when there are none */
uint64_t mistral_stats_percentile(const mistral_stats_t *s, double percent);
double mistral_stats_mean(const mistral_stats_t *s);

/* sorts v; the mean of both middle ones of an even number; 0 when n is 0 */
double mistral_stats_median(double *v, size_t n);


#endif /* MISTRAL_STATS_H */
