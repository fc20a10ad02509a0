
/*
 * The random number of a draw: a function of the request's seed and of the
 * number of the token in its answer, the same for the sampler of the CPU
 * (engine/mst_sampler.c) and of a device (kernels/mst_k_sample.cu).
 */

#ifndef MST_DRAW_H
#define MST_DRAW_H

#include <stdint.h>

#include "base/mst_hash.h"
#include "base/mst_hd.h"

#define MST_DRAW_BITS  53          /* as many as a double holds */


/* SplitMix64 at its n-th step, its upper MST_DRAW_BITS; the seed is mixed
   first, since clients choose 1, 2, 3 */

static inline MST_HD uint64_t
mst_draw_bits(uint64_t seed, uint32_t n)
{
    uint64_t  x;

    x = mst_hash_mix(seed + 0x9e3779b97f4a7c15ull);
    x = mst_hash_mix(x + ((uint64_t) n + 1) * 0x9e3779b97f4a7c15ull);

    return x >> (64 - MST_DRAW_BITS);
}


#endif /* MST_DRAW_H */
