
/*
 * Percentiles: see mistral_stats.h.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mistral_stats.h"


#define MISTRAL_STATS_HALF  (1u << MISTRAL_STATS_BITS)


void
mistral_stats_init(mistral_stats_t *s)
{
    memset(s, 0, sizeof(*s));
    s->min = UINT64_MAX;
}


/* values below 2 * HALF have a cell of their own; above, HALF cells share
   each doubling */

static size_t
mistral_stats_cell(uint64_t value)
{
    unsigned  shift;

    if (value < 2 * MISTRAL_STATS_HALF) {
        return (size_t) value;
    }

    shift = 63 - (unsigned) __builtin_clzll(value) - MISTRAL_STATS_BITS;

    return ((size_t) shift << MISTRAL_STATS_BITS) + (size_t) (value >> shift);
}


/* the middle of what a cell holds */

static uint64_t
mistral_stats_value(size_t cell)
{
    unsigned  shift;
    uint64_t  first;

    if (cell < 2 * MISTRAL_STATS_HALF) {
        return cell;
    }

    shift = (unsigned) (cell >> MISTRAL_STATS_BITS) - 1;
    first = (uint64_t) (cell - ((size_t) shift << MISTRAL_STATS_BITS));

    return (first << shift) + (((uint64_t) 1 << shift) - 1) / 2;
}


void
mistral_stats_add(mistral_stats_t *s, uint64_t value)
{
    s->cells[mistral_stats_cell(value)]++;
    s->n++;
    s->sum += (double) value;

    if (value < s->min) {
        s->min = value;
    }

    if (value > s->max) {
        s->max = value;
    }
}


uint64_t
mistral_stats_percentile(const mistral_stats_t *s, double percent)
{
    size_t    i;
    double    exact;
    uint64_t  rank, seen, value;

    if (s->n == 0) {
        return 0;
    }

    /* 99 % of 100 samples is the 99th, whatever the product rounds to */

    exact = percent / 100 * (double) s->n;
    rank = (uint64_t) ceil(exact - exact * 1e-12);
    rank = rank < 1 ? 1 : rank;

    if (rank >= s->n) {
        return s->max;
    }

    seen = 0;

    for (i = 0; i < MISTRAL_STATS_CELLS - 1; i++) {
        seen += s->cells[i];

        if (seen >= rank) {
            break;
        }
    }

    value = mistral_stats_value(i);
    value = value < s->min ? s->min : value;

    return value > s->max ? s->max : value;
}


double
mistral_stats_mean(const mistral_stats_t *s)
{
    return s->n ? s->sum / (double) s->n : 0;
}


static int
mistral_stats_order(const void *a, const void *b)
{
    double  x, y;

    x = *(const double *) a;
    y = *(const double *) b;

    return (x > y) - (x < y);
}


double
mistral_stats_median(double *v, size_t n)
{
    if (n == 0) {
        return 0;
    }

    qsort(v, n, sizeof(*v), mistral_stats_order);

    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
