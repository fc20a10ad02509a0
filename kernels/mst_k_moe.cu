
/*
 * A mixture of experts: see mst_k_moe.h.
 *
 * route  a CTA a row: norm, n_experts dot products in double
 * lists  one CTA; a warp an expert walks all pairs in their order
 * sum    a CTA a row
 *
 * All of it reads and writes rows of dim floats once or twice: little beside
 * the products.
 *
 * Measured on an H200 on 30 November 2026 (t/cuda/mst_k_rest_bench), 8 experts
 * of 4,096 x 14,336 of which a row uses 2, us for 1 / 32 / 1,024 rows: route
 * and lists 25.5 / 26.0 / 68.7, sum 10.1 / 10.1 / 24.7.
 */

#include "kernels/mst_k_launch.cuh"
#include "kernels/mst_k_moe.h"


static __device__ void
mst_k_route_choose(const mst_k_route_t &a, const double *logits, uint32_t row,
    uint32_t used)
{
    float    *weight;
    double    sum;
    int32_t  *expert;
    uint32_t  best, e, k;
    uint64_t  taken;

    expert = a.expert + (size_t) row * a.stride;
    weight = a.weight + (size_t) row * a.stride;
    taken = 0;
    sum = 0;

    for (k = 0; k < used; k++) {
        best = UINT32_MAX;

        /* also of numbers that are none, one is chosen */

        for (e = 0; e < a.n_experts; e++) {
            if (!(taken >> e & 1)
                && (best == UINT32_MAX || logits[e] > logits[best]))
            {
                best = e;
            }
        }

        taken |= 1ull << best;
        expert[k] = (int32_t) best;
        weight[k] = (float) exp(logits[best] - logits[expert[0]]);
        sum += weight[k];
    }

    for (k = 0; k < used; k++) {
        weight[k] = (float) (weight[k] / sum);
    }

    for ( /* void */ ; k < a.stride; k++) {
        expert[k] = -1;
    }
}


static __global__ void
mst_k_route_kernel(const __grid_constant__ mst_k_route_t a)
{
    float         r, sum;
    double        dot;
    uint32_t      e, i, row, used;
    const float  *h, *router;

    __shared__ double  logits[MST_K_MOE_EXPERTS];

    mst_k_pdl_wait();

    row = a.row0 + blockIdx.x;
    h = a.h + (size_t) row * a.dim;
    sum = 0;

    for (i = threadIdx.x; i < a.dim; i += blockDim.x) {
        sum += h[i] * h[i];
    }

    r = rsqrtf(mst_k_block_sum(sum) / a.dim + a.eps);

    for (i = threadIdx.x; i < a.dim; i += blockDim.x) {
        a.x[(size_t) row * a.dim + i] = mst_k_bf16(h[i] * r * a.gain[i]);
    }

    for (e = threadIdx.x / 32; e < a.n_experts; e += blockDim.x / 32) {
        router = a.router + (size_t) e * a.dim;
        dot = 0;

        for (i = threadIdx.x % 32; i < a.dim; i += 32) {
            dot += (double) (h[i] * r * a.gain[i]) * router[i];
        }

        for (i = 16; i; i >>= 1) {
            dot += __shfl_xor_sync(~0u, dot, i);
        }

        if (threadIdx.x % 32 == 0) {
            logits[e] = dot;
        }
    }

    __syncthreads();

    if (threadIdx.x == 0) {
        used = row < (uint32_t) a.step.counts[MST_K_ROWS]
               ? (uint32_t) a.step.seq_used[a.step.seq[row]] : 0;
        mst_k_route_choose(a, logits, blockIdx.x,
                           used < a.stride ? used : a.stride);
    }
}


/* counts, or writes, the pairs of an expert; by one warp */

static __device__ int32_t
mst_k_route_walk(const mst_k_route_t &a, int32_t expert, int32_t at,
    int write)
{
    int       mine;
    int32_t   n, p;
    uint32_t  lane, mask;

    lane = threadIdx.x % 32;
    n = (int32_t) (a.rows * a.stride);

    for (p = (int32_t) lane; p - (int32_t) lane < n; p += 32) {
        mine = p < n && a.expert[p] == expert;
        mask = __ballot_sync(~0u, mine);

        if (mine && write) {
            at += __popc(mask & ((1u << lane) - 1));
            a.pair[at] = p + (int32_t) (a.row0 * a.stride);
            a.place[p] = at;
            at -= __popc(mask & ((1u << lane) - 1));
        }

        at += __popc(mask);
    }

    return at;
}


static __global__ void
mst_k_lists_kernel(const __grid_constant__ mst_k_route_t a)
{
    int32_t   n, sum;
    uint32_t  e;

    __shared__ int32_t  first[MST_K_MOE_EXPERTS + 1];

    mst_k_pdl_wait();

    for (e = threadIdx.x / 32; e < a.n_experts; e += blockDim.x / 32) {
        n = mst_k_route_walk(a, (int32_t) e, 0, 0);

        if (threadIdx.x % 32 == 0) {
            first[e] = n;
        }
    }

    __syncthreads();

    if (threadIdx.x == 0) {
        for (e = 0, sum = 0; e < a.n_experts; e++) {
            n = first[e];
            first[e] = sum;
            sum += n;
        }

        first[e] = sum;
    }

    __syncthreads();

    for (e = threadIdx.x; e <= a.n_experts; e += blockDim.x) {
        a.first[e] = first[e];
    }

    for (e = threadIdx.x / 32; e < a.n_experts; e += blockDim.x / 32) {
        (void) mst_k_route_walk(a, (int32_t) e, first[e], 1);
    }
}


extern "C" int
mst_k_route(const mst_k_route_t *a, cudaStream_t stream)
{
    int  rc;

    if (a->n_experts > MST_K_MOE_EXPERTS || a->rows == 0) {
        return (int) cudaErrorInvalidValue;
    }

    rc = mst_k_launch(mst_k_route_kernel, a->rows, 256, 0, stream, *a);

    return rc ? rc : mst_k_launch(mst_k_lists_kernel, 1, 1024, 0, stream, *a);
}


static __global__ void
mst_k_moe_sum_kernel(const __grid_constant__ mst_k_moe_sum_t a)
{
    float     v;
    size_t    at;
    uint32_t  i, k, pair;

    mst_k_pdl_wait();

    for (i = threadIdx.x; i < a.dim; i += blockDim.x) {
        at = (size_t) (a.row0 + blockIdx.x) * a.dim + i;
        v = a.h[at];

        for (k = 0; k < a.stride; k++) {
            pair = blockIdx.x * a.stride + k;

            if (a.expert[pair] >= 0) {
                v += a.weight[pair] * a.y[(size_t) a.place[pair] * a.dim + i];
            }
        }

        a.h[at] = v;
    }
}


extern "C" int
mst_k_moe_sum(const mst_k_moe_sum_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_moe_sum_kernel, a->rows, 256, 0, stream, *a);
}
