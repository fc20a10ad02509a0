
/*
 * One launch of a decode GEMM: its arguments and how its work is cut.  The
 * cutting is arithmetic of the host: mst_k_gemm_plan.h.
 */

#ifndef MST_K_GEMM_RUN_H
#define MST_K_GEMM_RUN_H

#include "kernels/mst_k_gemm.h"


typedef enum {
    MST_K_WIDE,
    MST_K_THIN,
    MST_K_SPLIT
} mst_k_gemm_shape_t;


typedef struct {
    mst_k_gemm_t  a;
    uint32_t      units;       /* of the rows */
    uint32_t      slots;       /* of the width */
    uint32_t      step;        /* slabs at work at a time, 4 CTAs each */
    uint32_t      most;        /* units of a pass */
    uint32_t      passes;      /* of a slab at most */
    uint32_t      tile;        /* units of a tile at most */
    uint32_t      ring;        /* tiles of a warpgroup's ring */
    uint32_t      x_ring;
    uint32_t      ahead;       /* tiles of a warpgroup on their way until the
                                  predecessor has ended; 0 = no limit */
} mst_k_gemm_run_t;


/* units of a pass */
MST_K_FN uint32_t
mst_k_gemm_most(uint32_t shape)
{
    return shape == MST_K_THIN ? 4 : MST_K_GEMM_PASS;
}


/* units of CTA `rank` of a slab: a quarter, or all (and of the width a
   quarter) */
MST_K_FN mst_k_share_t
mst_k_gemm_rows(uint32_t units, uint32_t shape, uint32_t slab, uint32_t rank)
{
    mst_k_share_t  s, q;

    s = mst_k_share(units, MST_K_GEMM_SLABS, slab);

    if (shape != MST_K_SPLIT) {
        q = mst_k_share(s.n, MST_K_GEMM_PARTS, rank);
        s.first += q.first;
        s.n = q.n;
    }

    return s;
}


/* bytes of a slot of activations in shared memory */
MST_K_FN uint32_t
mst_k_gemm_x_slot(uint32_t n_pad, uint32_t shape)
{
    return n_pad * MST_K_GEMM_SLOT
           * (shape == MST_K_THIN ? MST_K_GEMM_PARTS : 1);
}


/* floats in which sums meet in shared memory */
MST_K_FN uint32_t
mst_k_gemm_meet(uint32_t n_pad, uint32_t shape)
{
    return shape == MST_K_THIN ? n_pad * 128
           : shape == MST_K_SPLIT ? MST_K_GEMM_PASS * n_pad / 4 : 0;
}


/* bytes of shared memory; a tile of few units is read as if it had 4, and so
   is the last one of the ring */
MST_K_FN uint32_t
mst_k_gemm_room(const mst_k_gemm_run_t *r, uint32_t n_pad, uint32_t shape)
{
    uint32_t  behind, least;

    behind = r->x_ring * mst_k_gemm_x_slot(n_pad, shape)
             + 4 * (mst_k_gemm_meet(n_pad, shape) + 2 * n_pad)
             + 16 * (2 * r->ring + r->x_ring) + 16;
    least = (4 - r->tile) * MST_K_GEMM_PIECE;

    return 2 * r->ring * r->tile * MST_K_GEMM_PIECE
           + (behind > least ? behind : least);
}


#ifdef __cplusplus
extern "C" {
#endif

typedef int (*mst_k_gemm_kind_pt)(const mst_k_gemm_run_t *r,
    mst_k_gemm_shape_t shape, uint32_t grid, cudaStream_t stream);

/* the kernels of sm_90, by type of weights; grid: CTAs */
int mst_k_gemm_bf16_slim(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape,
    uint32_t grid, cudaStream_t stream);
int mst_k_gemm_bf16_wide(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape,
    uint32_t grid, cudaStream_t stream);
int mst_k_gemm_e4m3_slim(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape,
    uint32_t grid, cudaStream_t stream);
int mst_k_gemm_e4m3_wide(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape,
    uint32_t grid, cudaStream_t stream);

/* mma.sync, all shapes */
int mst_k_gemm_mma(const mst_k_gemm_run_t *r, cudaStream_t stream);

/* for measurements: rings instead of the table's if not 0; not thread-safe */
extern mst_k_gemm_run_t  mst_k_gemm_tune;

#ifdef __cplusplus
}
#endif


#endif /* MST_K_GEMM_RUN_H */
