
/*
 * Rotary position: how fast each pair of a head turns.  Formulas: those of
 * transformers' modeling_rope_utils, which YaRN (arXiv 2309.00071) and Llama
 * 3 are published with.
 *
 * Plain structs, any thread.
 */

#ifndef MST_ROPE_H
#define MST_ROPE_H

#include <stdint.h>

#include "base/mst_err.h"

#define MST_ROPE_MAX_PAIRS  512


typedef enum {
    MST_ROPE_PLAIN = 0,
    MST_ROPE_LINEAR,
    MST_ROPE_DYNAMIC,              /* NTK: the base follows the length */
    MST_ROPE_LLAMA3,
    MST_ROPE_YARN
} mst_rope_kind_t;


typedef struct {
    mst_rope_kind_t  kind;
    double           base;         /* theta */
    double           factor;       /* >= 1; 1 where PLAIN */
    double           original;     /* tokens that the model was first made
                                      for: LLAMA3, YARN; DYNAMIC: those
                                      without scaling */
    double           low_freq;     /* LLAMA3 */
    double           high_freq;
    double           beta_fast;    /* YARN: turns within "original" */
    double           beta_slow;
    double           attention;    /* YARN: cosines and sines times this */
    int              smooth;       /* YARN: bounds are not rounded */
} mst_rope_t;


/* a rope that only has a base */
void mst_rope_init(mst_rope_t *r, double base);

/* 0.1 m ln(factor) + 1: what YaRN multiplies by */
double mst_rope_mscale(double factor, double m);

/* every field in its range, else MST_ERROR with a sentence without a file */
int mst_rope_check(const mst_rope_t *r, mst_err_t *err);

/* radians per position of pair i < dim / 2, dim the rotating part of a head;
   freq [dim / 2] */
void mst_rope_frequencies(const mst_rope_t *r, uint32_t dim, double *freq);

/*
 * DYNAMIC: the base for a sequence that starts with so many tokens.  It is
 * kept for all of its positions, so that what the cache holds stays right.
 * Otherwise r->base.
 */
double mst_rope_base(const mst_rope_t *r, uint32_t dim, uint32_t length);


#endif /* MST_ROPE_H */
