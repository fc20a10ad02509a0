
/*
 * Products over lists: see mst_k_list.h.  A CTA takes 64 places of one list
 * and 64 outputs, by mma.sync over a ring of four stages of 64 elements; CTAs
 * beyond the lists' ends return.  A decode step reads each matrix once, from
 * as many multiprocessors as it has slabs of 64 outputs: bound by the bytes
 * that these keep in flight.  A prefill step is bound by mma.sync.
 *
 * Measured on an H200 on 30 November 2026 (t/cuda/mst_k_rest_bench), bf16 of
 * 28,672 x 4,096 as one list, us for 1 / 64 / 128 / 2,048 rows: 102 / 101 /
 * 166 / 2,490 (52 for the bytes; 193 TFLOP/s).  Of 8 experts, 2 used, up and
 * down of 1 / 32 / 1,024 rows: 187 and 137 / 543 and 386 / 2,815 and 1,250.
 */

#include "kernels/mst_k_launch.cuh"
#include "kernels/mst_k_list.h"

#define MST_K_LIST_TILE    64      /* places and outputs of a CTA */
#define MST_K_LIST_DEPTH   64      /* elements of a stage: lines of 128 bytes */
#define MST_K_LIST_STAGES  4
#define MST_K_LIST_LINES   (MST_K_LIST_TILE * 128)     /* bytes */
#define MST_K_LIST_SIZE    (MST_K_LIST_STAGES * 2 * MST_K_LIST_LINES)


/* what a CTA works on */
typedef struct {
    const uint16_t  *w;            /* of its list */
    int32_t          from;         /* places */
    int32_t          to;
    uint32_t         out;          /* first output */
} mst_k_list_job_t;


/* nvcc 13.0 takes a.w for a list's matrix, too, where it sees both */

static __device__ __forceinline__ const uint16_t *
mst_k_list_own(const uint16_t *w)
{
    asm volatile("" : "+l"(w));

    return w;
}


static __device__ int
mst_k_list_job(const mst_k_list_t &a, mst_k_list_job_t *job)
{
    int32_t   tile, tiles;
    uint32_t  e;

    tile = (int32_t) blockIdx.y;
    job->out = blockIdx.x * MST_K_LIST_TILE;

    if (a.first == NULL) {
        job->w = mst_k_list_own(a.w);
        job->from = tile * MST_K_LIST_TILE;
        job->to = (int32_t) a.places;
        return 1;
    }

    for (e = 0; e < a.lists; e++) {
        job->from = a.first[e];
        job->to = a.first[e + 1];
        tiles = (job->to - job->from + MST_K_LIST_TILE - 1) / MST_K_LIST_TILE;

        if (tile < tiles) {
            job->w = mst_k_list_own(a.ws[e]);
            job->from += tile * MST_K_LIST_TILE;
            return 1;
        }

        tile -= tiles;
    }

    return 0;
}


static __device__ __forceinline__ void
mst_k_list_fetch(uint32_t to, const uint16_t *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(from), "r"(bytes) : "memory");
}


/*
 * 64 lines of x and of w, 64 elements of each, by 128 threads; what lies
 * beyond the width or the outputs is zero.  Unit u of line r is at
 * u ^ (r & 7).
 */

static __device__ __forceinline__ void
mst_k_list_stage(const mst_k_list_t &a, const mst_k_list_job_t &job,
    const uint32_t *rows, uint32_t at, uint32_t to)
{
    int       in;
    uint32_t  c, i, put, r;

#pragma unroll
    for (i = 0; i < MST_K_LIST_TILE * 8 / 128; i++) {
        r = i * 16 + threadIdx.x / 8;
        c = at + threadIdx.x % 8 * 8;
        put = to + r * 128 + ((threadIdx.x % 8) ^ (r & 7)) * 16;

        in = c < a.width && rows[r] != UINT32_MAX;
        mst_k_list_fetch(put, a.x + (in ? (size_t) rows[r] * a.width + c : 0),
                         in ? 16 : 0);

        in = c < a.width && job.out + r < a.outputs;
        mst_k_list_fetch(put + MST_K_LIST_LINES,
                         job.w + (in ? (size_t) (job.out + r) * a.width + c
                                     : 0), in ? 16 : 0);
    }
}


static __device__ __forceinline__ void
mst_k_list_matrix(uint32_t *v, uint32_t lines, uint32_t line, uint32_t unit)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(lines + line * 128 + (unit ^ (line & 7)) * 16)
                 : "memory");
}


static __device__ __forceinline__ void
mst_k_list_mma(float *c, const uint32_t *x, const uint32_t *w)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w[0]),
                   "r"(w[1]));
}


/* a warp's 32 places x 32 outputs */

static __device__ __forceinline__ void
mst_k_list_step(uint32_t lines, uint32_t place, uint32_t out, float c[2][4][4])
{
    uint32_t  i, j, k, lane, w[2][4], x[2][4];

    lane = threadIdx.x % 32;

#pragma unroll
    for (k = 0; k < MST_K_LIST_DEPTH / 16; k++) {

#pragma unroll
        for (i = 0; i < 2; i++) {

            /* x: rows 0..7, 8..15 of the first unit, then of the second; w:
               outputs 0..7 of both units, then 8..15 */

            mst_k_list_matrix(x[i], lines, place + i * 16 + lane % 16,
                              k * 2 + lane / 16);
            mst_k_list_matrix(w[i], lines + MST_K_LIST_LINES,
                              out + i * 16 + lane / 16 * 8 + lane % 8,
                              k * 2 + lane / 8 % 2);
        }

#pragma unroll
        for (i = 0; i < 2; i++) {
#pragma unroll
            for (j = 0; j < 4; j++) {
                mst_k_list_mma(c[i][j], x[i], w[j / 2] + j % 2 * 2);
            }
        }
    }
}


/* two neighbouring outputs of a place */

static __device__ __forceinline__ void
mst_k_list_put(const mst_k_list_t &a, int32_t place, uint32_t out, float x,
    float y)
{
    float   *f;
    size_t   at;

    if (out >= a.outputs) {
        return;
    }

    at = (size_t) place * a.outputs + out;

    /* outputs may be odd: no pairs */

    if (a.out == MST_K_LIST_BF16) {
        ((uint16_t *) a.y)[at] = mst_k_bf16(x);

        if (out + 1 < a.outputs) {
            ((uint16_t *) a.y)[at + 1] = mst_k_bf16(y);
        }

        return;
    }

    f = (float *) a.y + at;
    f[0] = a.out == MST_K_LIST_ADD ? f[0] + x : x;

    if (out + 1 < a.outputs) {
        f[1] = a.out == MST_K_LIST_ADD ? f[1] + y : y;
    }
}


static __device__ __forceinline__ void
mst_k_list_store(const mst_k_list_t &a, const mst_k_list_job_t &job,
    uint32_t place, uint32_t out, float c[2][4][4])
{
    int32_t   p;
    uint32_t  h, i, j, lane;

    lane = threadIdx.x % 32;

#pragma unroll
    for (i = 0; i < 2; i++) {
#pragma unroll
        for (h = 0; h < 2; h++) {
            p = job.from + (int32_t) (place + i * 16 + h * 8 + lane / 4);

            if (p >= job.to) {
                continue;
            }

#pragma unroll
            for (j = 0; j < 4; j++) {
                mst_k_list_put(a, p, job.out + out + j * 8 + lane % 4 * 2,
                               c[i][j][h * 2], c[i][j][h * 2 + 1]);
            }
        }
    }
}


static __global__ void
__launch_bounds__(128)
mst_k_list_kernel(const __grid_constant__ mst_k_list_t a)
{
    extern __shared__ __align__(1024) uint8_t  smem[];

    float             c[2][4][4] = {};
    int32_t           p;
    uint32_t          i, lines, out, place, steps;
    mst_k_list_job_t  job;

    __shared__ uint32_t  rows[MST_K_LIST_TILE];

    mst_k_pdl_wait();

    if (!mst_k_list_job(a, &job)) {
        return;
    }

    if (threadIdx.x < MST_K_LIST_TILE) {
        p = job.from + (int32_t) threadIdx.x;
        rows[threadIdx.x] = p >= job.to ? UINT32_MAX
                          : a.pair ? (uint32_t) a.pair[p] / a.n_used
                                   : (uint32_t) p;
    }

    __syncthreads();

    lines = (uint32_t) __cvta_generic_to_shared(smem);
    place = threadIdx.x / 64 * 32;
    out = threadIdx.x / 32 % 2 * 32;
    steps = (a.width + MST_K_LIST_DEPTH - 1) / MST_K_LIST_DEPTH;

    for (i = 0; i < steps + MST_K_LIST_STAGES - 1; i++) {

        if (i >= MST_K_LIST_STAGES - 1) {
            asm volatile("cp.async.wait_group %0;"
                         :: "n"(MST_K_LIST_STAGES - 2) : "memory");
        }

        /* stage i is there, and all are through with stage i - 1 */

        __syncthreads();

        if (i < steps) {
            mst_k_list_stage(a, job, rows, i * MST_K_LIST_DEPTH,
                             lines + i % MST_K_LIST_STAGES * 2
                                     * MST_K_LIST_LINES);
        }

        /* an empty group counts too */

        asm volatile("cp.async.commit_group;" ::: "memory");

        if (i >= MST_K_LIST_STAGES - 1) {
            mst_k_list_step(lines + (i - MST_K_LIST_STAGES + 1)
                                    % MST_K_LIST_STAGES * 2
                                    * MST_K_LIST_LINES,
                            place, out, c);
        }
    }

    mst_k_list_store(a, job, place, out, c);
}


extern "C" int
mst_k_list(const mst_k_list_t *a, cudaStream_t stream)
{
    int       rc;
    uint32_t  tiles;

    if (a->width % 8 || a->places == 0) {
        return (int) cudaErrorInvalidValue;
    }

    rc = (int) cudaFuncSetAttribute(mst_k_list_kernel,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    MST_K_LIST_SIZE);

    /* each list's last tile may be nearly empty */

    tiles = (a->places + MST_K_LIST_TILE - 1) / MST_K_LIST_TILE;

    if (a->first) {
        tiles = a->places / MST_K_LIST_TILE
                + (a->places < a->lists ? a->places : a->lists);
    }

    return rc ? rc : mst_k_launch(mst_k_list_kernel,
                                  dim3((a->outputs + MST_K_LIST_TILE - 1)
                                       / MST_K_LIST_TILE, tiles),
                                  128, MST_K_LIST_SIZE, stream, *a);
}
