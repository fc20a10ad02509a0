
/*
 * Sizes of the CUDA backend that follow from its configuration and from what
 * a device has left: plain C without CUDA, so that it is tested where there is
 * no device (t/unit/mst_cuda_size_test.c).
 */

#ifndef MST_CUDA_SIZE_H
#define MST_CUDA_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "backend/mst_backend.h"
#include "kernels/mst_k_step_map.h"

#define MST_CUDA_RESERVE    (768ull << 20)     /* for graphs and the driver */
#define MST_CUDA_GRAPH_ROWS 512        /* of a step that is a graph */
#define MST_CUDA_GRAPHS     64         /* buckets up to that */
#define MST_CUDA_RING_PIECE (4u << 20)         /* bytes that a thread copies at
                                                  a time, at most */
#define MST_CUDA_PAIRS      16384      /* (row, expert) of a slice at most */

#define mst_cuda_max(a, b)  ((a) > (b) ? (a) : (b))
#define mst_cuda_min(a, b)  ((a) < (b) ? (a) : (b))


/* blocks of a KV pool, of "block" bytes each, if so many bytes are left: all
   but a reserve, or what the configuration says; 0: that does not fit */

static inline uint64_t
mst_cuda_size_kv(const mst_backend_conf_t *c, uint64_t block, uint64_t left)
{
    uint64_t  full, n;

    left -= mst_cuda_min(left, MST_CUDA_RESERVE);
    n = c->kv_size ? c->kv_size
      : c->kv_percent ? left / 100 * c->kv_percent : left;
    n /= block;

    if (n > left / block) {
        return 0;
    }

    /* more than all sequences together can ever hold, and as much again to
       remember prefixes, is of no use */

    if (c->kv_size == 0 && c->kv_percent == 0) {
        full = (c->context + MST_K_BLOCK - 1) / MST_K_BLOCK;
        n = mst_cuda_min(n, 2 * full * c->max_seqs + 1024);
    }

    return mst_cuda_min(n, INT32_MAX / MST_K_BLOCK);
}


/* bytes of a piece of a copy that so many threads share, whole pages: several
   for each, so that all end together, none of them long in the caches */

static inline size_t
mst_cuda_size_piece(uint64_t size, uint32_t threads)
{
    uint64_t  n;

    n = size / (4 * (uint64_t) threads) / 4096 * 4096;
    n = mst_cuda_max(n, 256u << 10);

    return (size_t) mst_cuda_min(n, MST_CUDA_RING_PIECE);
}


/* may weights stand twice, which takes "size" more bytes?  Not at the cost of
   the pool that is asked for, nor of more than a quarter of one that is not */

static inline int
mst_cuda_size_twice(const mst_backend_conf_t *c, uint64_t block,
    uint64_t left, uint64_t size)
{
    if (c->weight_layouts) {
        return c->weight_layouts == 2;
    }

    if (left < size) {
        return 0;
    }

    return c->kv_size ? mst_cuda_size_kv(c, block, left - size) != 0
                      : size <= left / 4;
}


/* rows of the i-th step that is recorded as a graph before there is work;
   0: no more */

static inline uint32_t
mst_cuda_size_graph(const mst_backend_conf_t *c, uint32_t i)
{
    uint32_t  rows;

    rows = 1;

    while (i-- && rows <= MST_CUDA_GRAPH_ROWS) {
        rows = mst_k_bucket_next(rows);
    }

    if (mst_k_bucket_rows(c->max_seqs) < rows || rows > MST_CUDA_GRAPH_ROWS) {
        return 0;
    }

    return mst_cuda_min(rows, c->max_seqs);
}


/* pairs of a row and an expert that there is room for; dense: one a row */

static inline uint64_t
mst_cuda_size_pairs(const mst_backend_conf_t *c, uint32_t rows)
{
    uint64_t  pairs;

    if (c->n_experts == 0) {
        return rows;
    }

    pairs = mst_cuda_min((uint64_t) rows * c->n_used, MST_CUDA_PAIRS);

    return mst_cuda_max(pairs, c->n_experts);
}


/* steps of prompts that GEMMs are chosen for: the largest, those that it is
   made longer by (mst_stretch.h), and halves for short prompts; the next
   smaller one */

static inline uint32_t
mst_cuda_size_tune(uint32_t rows)
{
    return rows > 1024 && rows <= 2048 ? (rows - 1) / 256 * 256 : rows / 2;
}


#endif /* MST_CUDA_SIZE_H */
