
/*
 * Who does what in the decode GEMM of sm_90 (mst_k_gemm_sm90.h): passes of a
 * CTA over rows, tiles of its warpgroups, places in its shared memory.
 */

#ifndef MST_K_GEMM_PART_H
#define MST_K_GEMM_PART_H

#include "kernels/mst_k_gemm_put.h"
#include "kernels/mst_k_gemm_run.h"


#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* a run of units that a CTA does in one go */
typedef struct {
    uint32_t       slab;
    uint32_t       pass;   /* of the CTA over its units of the slab */
    uint32_t       unit;
    uint32_t       n;      /* units, up to run.most */
    int            last;
    mst_k_share_t  all;    /* units of the slab */
} mst_k_pass_t;


/* one of four of a pass: warpgroup i & 1, its accumulator i >> 1 */
typedef struct {
    uint32_t  unit;
    uint32_t  n;           /* units, up to 4 */
    uint32_t  slot;        /* first of its width */
    uint32_t  slots;       /* 0: nothing to do */
} mst_k_tile_t;


typedef struct {
    uint8_t       *w;          /* [2][ring][tile * 4 KB] */
    uint8_t       *x;          /* [x_ring][1 or 4][n][256 bytes] */
    float         *rs;         /* [n] factors of results */
    float         *qs;         /* [n] factors of the next x */
    float         *meet;       /* THIN: sums of the second warpgroup; SPLIT:
                                  sums of squares of units */
    uint64_t      *full;       /* [2][ring] */
    uint64_t      *empty;
    uint64_t      *x_full;     /* [x_ring] */
    uint64_t      *x_empty;
    volatile int  *resolved;   /* the predecessor has ended */
} mst_k_room_t;


/* a place in a ring */
typedef struct {
    uint32_t  i;
    uint32_t  phase;
} mst_k_place_t;


MST_K_DEV void
mst_k_place_next(mst_k_place_t *p, uint32_t n)
{
    if (++p->i == n) {
        p->i = 0;
        p->phase ^= 1;
    }
}


template<int N, int SHAPE>
MST_K_DEV mst_k_room_t
mst_k_room(const mst_k_gemm_run_t &r, uint8_t *p)
{
    mst_k_room_t  s;

    s.w = p;
    s.x = s.w + 2 * r.ring * r.tile * MST_K_GEMM_PIECE;
    s.meet = (float *) (s.x + r.x_ring * mst_k_gemm_x_slot(N, SHAPE));
    s.rs = s.meet + mst_k_gemm_meet(N, SHAPE);
    s.qs = s.rs + N;
    s.full = (uint64_t *) (s.qs + N);
    s.empty = s.full + 2 * r.ring;
    s.x_full = s.empty + 2 * r.ring;
    s.x_empty = s.x_full + r.x_ring;
    s.resolved = (volatile int *) (s.x_empty + r.x_ring);

    return s;
}


/* pass and slab are set; 0: there is none */
template<int SHAPE>
MST_K_DEV int
mst_k_pass_load(const mst_k_gemm_run_t &r, mst_k_pass_t *p)
{
    uint32_t       n;
    mst_k_share_t  s;

    if (p->slab >= MST_K_GEMM_SLABS) {
        return 0;
    }

    p->all = mst_k_share(r.units, MST_K_GEMM_SLABS, p->slab);
    s = mst_k_gemm_rows(r.units, SHAPE, p->slab, blockIdx.x % 4);

    /* no later slab has more */
    if (s.n == 0) {
        return 0;
    }

    n = (s.n + mst_k_gemm_most(SHAPE) - 1) / mst_k_gemm_most(SHAPE);
    p->last = p->pass + 1 == n;
    p->unit = s.first;
    s = mst_k_share(s.n, n, p->pass);
    p->unit += s.first;
    p->n = s.n;

    return 1;
}


MST_K_DEV void
mst_k_pass_first(mst_k_pass_t *p)
{
    p->slab = blockIdx.x / 4;
    p->pass = 0;
}


MST_K_DEV void
mst_k_pass_next(const mst_k_gemm_run_t &r, mst_k_pass_t *p)
{
    p->pass++;

    if (p->last) {
        p->pass = 0;
        p->slab += r.step;
    }
}


template<int SHAPE>
MST_K_DEV mst_k_tile_t
mst_k_tile(const mst_k_gemm_run_t &r, const mst_k_pass_t &p, uint32_t i)
{
    mst_k_tile_t   t;
    mst_k_share_t  s;

    s.first = 0;
    s.n = r.slots;

    if (SHAPE != MST_K_WIDE) {
        s = mst_k_share(r.slots, MST_K_GEMM_PARTS,
                        SHAPE == MST_K_THIN ? i
                                            : blockIdx.x % MST_K_GEMM_PARTS);
    }

    t.slot = s.first;
    t.slots = s.n;
    t.unit = p.unit;
    t.n = p.n;

    if (SHAPE != MST_K_THIN) {
        s = mst_k_share(p.n, 2, i & 1);
        t.unit += s.first;
        t.n = i >> 1 ? 0 : s.n;

        if (s.n > 4) {
            s = mst_k_share(s.n, 2, i >> 1);
            t.unit += s.first;
            t.n = s.n;
        }
    }

    if (t.n == 0) {
        t.slots = 0;
    }

    return t;
}

#endif


#endif /* MST_K_GEMM_PART_H */
