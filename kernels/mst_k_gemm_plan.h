
/*
 * How the work of a decode GEMM's launch is cut: shape, tiles and rings of
 * mst_k_gemm_sm90.h.  Plain C, compiled by gcc and nvcc alike;
 * t/unit/mst_k_gemm_plan_test.c.
 */

#ifndef MST_K_GEMM_PLAN_H
#define MST_K_GEMM_PLAN_H

#include "kernels/mst_k_gemm_run.h"


/*
 * Shared memory of a CTA, all of an SM's: two of a kernel must never meet on
 * one.  With half of it each, for the successor to start beside its
 * predecessor, CTAs soon stand unevenly and stay so: a step of a 7B took
 * 3.80 / 3.96 / 4.26 ms at 1 / 8 / 16 tokens instead of 3.63 / 3.71 / 3.85.
 */
#define MST_K_GEMM_SHARED  (227u * 1024)

#define MST_K_GEMM_RING    131072      /* bytes of weights in rings at most */
#define MST_K_GEMM_AHEAD   32768       /* on their way until the predecessor
                                          has ended */


/* units of the largest tile of a CTA that has n units in a pass */
MST_K_FN uint32_t
mst_k_gemm_largest(uint32_t n, mst_k_gemm_shape_t shape)
{
    uint32_t  i, tiles, most;

    if (shape == MST_K_THIN) {
        return n;
    }

    /* one warpgroup has more units than the other, maybe in more tiles */

    most = 1;

    for (i = n / 2; i <= (n + 1) / 2; i++) {
        tiles = (i + 3) / 4;

        if (tiles && (i + tiles - 1) / tiles > most) {
            most = (i + tiles - 1) / tiles;
        }
    }

    return most;
}


/* of any pass of any CTA */
MST_K_FN uint32_t
mst_k_gemm_tile(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape)
{
    uint32_t       slab, rank, i, n, passes, most, tile;
    mst_k_share_t  s;

    most = 1;

    for (slab = 0; slab < MST_K_GEMM_SLABS; slab++) {
        for (rank = 0; rank < MST_K_GEMM_PARTS; rank++) {
            s = mst_k_gemm_rows(r->units, shape, slab, rank);
            passes = (s.n + r->most - 1) / r->most;

            for (i = 0; i < passes; i++) {
                n = mst_k_share(s.n, passes, i).n;
                tile = mst_k_gemm_largest(n, shape);
                most = tile > most ? tile : most;
            }
        }
    }

    return most;
}


MST_K_FN void
mst_k_gemm_rings(mst_k_gemm_run_t *r, const mst_k_gemm_run_t *tune,
    mst_k_gemm_shape_t shape)
{
    uint32_t  pad, size;

    pad = mst_k_gemm_pad(r->a.n);
    size = 2 * r->tile * MST_K_GEMM_PIECE;

    r->x_ring = shape == MST_K_THIN ? 2 : pad == 16 || pad == 128 ? 3 : 4;
    r->ring = 0;

    if (tune->x_ring) {
        r->x_ring = tune->x_ring;
    }

    /* of a size that leaves no weights room; mst_k_gemm() refuses it */

    if (mst_k_gemm_room(r, pad, shape) + size + 32 > MST_K_GEMM_SHARED) {
        return;
    }

    r->ring = (MST_K_GEMM_SHARED - mst_k_gemm_room(r, pad, shape))
              / (size + 32);

    if (r->ring > MST_K_GEMM_RING / size) {
        r->ring = MST_K_GEMM_RING / size;
    }

    if (tune->ring && tune->ring < r->ring) {
        r->ring = tune->ring;
    }

    if (r->a.pdl) {
        r->ahead = tune->ahead ? tune->ahead
                               : (MST_K_GEMM_AHEAD + size - 1) / size;

        /* more than the ring would wait for ever */
        if (r->ahead >= r->ring) {
            r->ahead = 0;
        }
    }
}


/* all of r but a; tune: rings instead of the plan's if not 0 */
MST_K_FN mst_k_gemm_shape_t
mst_k_gemm_plan(mst_k_gemm_run_t *r, const mst_k_gemm_run_t *tune,
    uint32_t n_sms)
{
    mst_k_gemm_shape_t  shape;

    shape = r->a.op == MST_K_GEMM_GATE_UP || r->a.op == MST_K_GEMM_HEAD
            ? MST_K_WIDE
            : r->a.n <= MST_K_GEMM_THIN ? MST_K_THIN : MST_K_SPLIT;

    r->units = mst_k_gemm_units(r->a.rows);
    r->slots = mst_k_gemm_slots(r->a.width, r->a.w_scale != NULL ? 1 : 2);
    r->most = mst_k_gemm_most(shape);
    r->passes = mst_k_gemm_passes(r->a.rows);

    /* four CTAs that wait for one another must all find a place */
    r->step = n_sms / MST_K_GEMM_PARTS;

    if (r->step > MST_K_GEMM_SLABS) {
        r->step = MST_K_GEMM_SLABS;
    }

    r->tile = mst_k_gemm_tile(r, shape);
    mst_k_gemm_rings(r, tune, shape);

    return shape;
}


#endif /* MST_K_GEMM_PLAN_H */
