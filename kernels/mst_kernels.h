
/*
 * All that src/backend/mst_cuda*.c knows of the kernels: launchers for C.
 *
 * A launcher puts its kernels on a stream and returns a cudaError_t as int.
 * It allocates nothing, waits for nothing and reads nothing of the device,
 * so that a stream that is being captured into a graph takes it; what varies
 * from step to step it reads from the step's arrays (mst_k_step_map.h).
 * Equal inputs give equal bits at every replay.
 *
 * pdl in an argument structure: launched with programmatic stream
 * serialization.  Such a kernel lets its successor start at once
 * (griddepcontrol.launch_dependents) and waits (griddepcontrol.wait) before
 * it touches what a predecessor wrote or still reads; weights and older KV
 * blocks need no wait.  Both are no-ops below sm_90 and without the flag.
 *
 * Rows of a step: h is the residual stream, float [rows][dim]; x, q, k, v
 * and what the matrices read is bf16 [rows][width] (uint16_t here).  A
 * matrix lies row-major bf16 [outputs][width] unless its header says
 * otherwise.  q and k come so that pairs (2j, 2j+1) rotate.
 */

#ifndef MST_KERNELS_H
#define MST_KERNELS_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#include "kernels/mst_k_step_map.h"
#include "kernels/mst_k_attn.h"
#include "kernels/mst_k_block.h"
#include "kernels/mst_k_e4m3.h"
#include "kernels/mst_k_gemm.h"
#include "kernels/mst_k_list.h"
#include "kernels/mst_k_load.h"
#include "kernels/mst_k_misc.h"
#include "kernels/mst_k_moe.h"
#include "kernels/mst_k_plain.h"
#include "kernels/mst_k_quant.h"
#include "kernels/mst_k_sample.h"


#endif /* MST_KERNELS_H */
