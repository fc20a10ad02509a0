
/*
 * Kernels: see mst_cpu_kernels.h.
 */

#include "mst_cpu_kernels.h"


int
main(void)
{
    return kernels_run(&mst_cpu_c);
}
