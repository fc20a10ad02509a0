
/*
 * What the tests of an instruction set's kernels share: which one it is, and
 * random numbers.
 */

#ifndef MST_CPU_KERNELS_RIG_H
#define MST_CPU_KERNELS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mst_cpu_isa.h"
#include "file/mst_quant.h"


static const mst_cpu_isa_t  *kernels;          /* under test */
static uint32_t              kernels_digits = 3;   /* of an activation */
static uint64_t              kernels_seed = 20240917;


static inline uint32_t
kernels_random(void)
{
    kernels_seed = kernels_seed * 6364136223846793005ull
                   + 1442695040888963407ull;

    return (uint32_t) (kernels_seed >> 33);
}


static inline float
kernels_float(float scale)
{
    return scale * ((float) kernels_random() / 1073741824.0f - 1.0f);
}


#endif /* MST_CPU_KERNELS_RIG_H */
