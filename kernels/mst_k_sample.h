
/*
 * Sampling: see mst_kernels.h for what launchers have in common,
 * mst_k_sample_map.h for what an order says and how it is written,
 * mst_k_sample.cu for what it costs.
 *
 * One kernel does all of src/engine/mst_sampler.c, in its order and with its
 * random numbers: penalties, bias, ban, log-probabilities, temperature,
 * top_k, top_p, min_p, draw; and mst_sampler_score().  A result differs from
 * the CPU's only where rounding decides: weights are integers of 2^-46 here
 * (2^-44 beyond 65,536 tokens), doubles there; sums of integers do not depend
 * on the order, so that a result is the same in any batch and at any replay.
 */

#ifndef MST_K_SAMPLE_H
#define MST_K_SAMPLE_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#include "kernels/mst_k_sample_map.h"

#ifdef __cplusplus
extern "C" {
#endif


/*
 * logits are adjusted in place by orders with penalties, bias or bans: such
 * an order must be the only one of its row.  results and tops may be pinned
 * memory of the host.  cudaErrorInvalidValue: a vocabulary beyond
 * MST_K_SAMPLE_VOCAB.
 */
typedef struct {
    float                      *logits;    /* [any][stride] */
    const mst_k_sample_order_t *orders;    /* [n] */
    const uint32_t             *words;     /* what the orders point into */
    mst_k_sampled_t            *results;   /* [any], as the orders say */
    mst_k_sample_top_t         *tops;      /* the same, written for orders with
                                              n_top alone; NULL: none has */
    uint32_t                   *fed;       /* the same, the ids alone, for the
                                              next step; NULL: not wanted */
    uint32_t                    n_vocab;
    uint32_t                    stride;    /* floats from row to row, a
                                              multiple of 4 is faster */
    uint32_t                    n;         /* orders; those with the flag
                                              NONE only fill a bucket */
    int                         pdl;
} mst_k_sample_t;

int mst_k_sample(const mst_k_sample_t *a, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* MST_K_SAMPLE_H */
