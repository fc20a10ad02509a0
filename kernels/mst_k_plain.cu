
/*
 * Attention for heads of any even size: see mst_k_plain.h.
 *
 * rope: a CTA a row; turns q and k, writes k and v to their block.
 * attn: a CTA of 4 warps for a row and a query head; warps take every fourth
 * key, a lane up to 8 dims, each warp its own online softmax; then the four
 * states meet in a fixed order.  Every head reads its keys again, so a GQA
 * group costs its size times the bytes of the fast kernels.
 *
 * Measured on an H200 on 30 November 2026 (t/cuda/mst_k_rest_bench), 32 heads
 * of 96 for 8 of keys and values: decode at a context of 576, 1 / 32 sequences,
 * 148 / 270 us; a prompt of 2,048 13.8 ms; rope 4.3 / 4.5 / 15.5 us.
 */

#include "kernels/mst_k_launch.cuh"
#include "kernels/mst_k_plain.h"

#define MST_K_PLAIN_WARPS  4
#define MST_K_PLAIN_LANE   8       /* dims of a lane: head_dim <= 256 */


static __device__ __forceinline__ uint16_t *
mst_k_plain_at(const mst_k_plain_t &a, uint64_t block, uint32_t token,
    uint32_t v, uint32_t head)
{
    return a.kv + block * a.block_stride
           + (((size_t) v * a.n_kv_heads + head) * MST_K_BLOCK + token)
             * a.head_dim;
}


static __global__ void
mst_k_plain_rope_kernel(const __grid_constant__ mst_k_plain_t a)
{
    float         c, s, x, y;
    int32_t       slot;
    uint16_t     *p, *to;
    uint32_t      d, head, i, n, pair, row, v;
    const float  *turn;

    mst_k_pdl_wait();

    row = blockIdx.x;
    slot = a.step.slot[row];
    n = (a.n_heads + 2 * a.n_kv_heads) * a.head_dim / 2;
    p = a.qkv + (size_t) row * 2 * n;
    turn = a.turns + (size_t) row * a.rope_dim;

    for (i = threadIdx.x; i < n; i += blockDim.x) {
        head = i / (a.head_dim / 2);
        pair = i % (a.head_dim / 2);
        x = mst_k_f32(p[2 * i]);
        y = mst_k_f32(p[2 * i + 1]);
        v = head >= a.n_heads + a.n_kv_heads;

        if (!v && 2 * pair < a.rope_dim) {
            c = turn[2 * pair];
            s = turn[2 * pair + 1];
            d = 2 * i;
            p[d] = mst_k_bf16(x * c - y * s);
            p[d + 1] = mst_k_bf16(x * s + y * c);
        }

        if (head >= a.n_heads && slot >= 0) {
            to = mst_k_plain_at(a, (uint32_t) slot / MST_K_BLOCK,
                                (uint32_t) slot % MST_K_BLOCK, v,
                                head - a.n_heads - v * a.n_kv_heads);
            to[2 * pair] = p[2 * i];
            to[2 * pair + 1] = p[2 * i + 1];
        }
    }
}


extern "C" int
mst_k_plain_rope(const mst_k_plain_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_plain_rope_kernel, a->rows, 256, 0, stream, *a);
}


static __device__ __forceinline__ float
mst_k_plain_dot(const float *q, const uint16_t *k, uint32_t head_dim)
{
    float     sum;
    uint32_t  d, i;

    sum = 0;

#pragma unroll
    for (i = 0; i < MST_K_PLAIN_LANE; i++) {
        d = i * 32 + threadIdx.x % 32;

        if (d < head_dim) {
            sum += q[i] * mst_k_f32(k[d]);
        }
    }

    for (i = 16; i; i >>= 1) {
        sum += __shfl_xor_sync(~0u, sum, i);
    }

    return sum;
}


static __global__ void
mst_k_plain_attn_kernel(const __grid_constant__ mst_k_plain_t a)
{
    float            al, e, m, mn, o[MST_K_PLAIN_LANE], q[MST_K_PLAIN_LANE],
                     s, sum;
    int32_t          pos, t;
    uint16_t        *out;
    uint32_t         d, head, i, kvh, lane, row, seq, w;
    const int32_t   *table;
    const uint16_t  *v;

    __shared__ float  states[MST_K_PLAIN_WARPS][2];
    __shared__ float  outs[MST_K_PLAIN_WARPS][32 * MST_K_PLAIN_LANE];

    mst_k_pdl_wait();

    row = blockIdx.x;
    head = blockIdx.y;
    kvh = head / (a.n_heads / a.n_kv_heads);
    w = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    seq = a.step.seq[row];
    pos = a.step.pos[row];
    table = a.step.blocks + a.step.seq_table[seq];

    if (a.step.slot[row] < 0) {
        return;
    }

    for (i = 0; i < MST_K_PLAIN_LANE; i++) {
        d = i * 32 + lane;
        o[i] = 0;
        q[i] = d < a.head_dim
               ? mst_k_f32(a.qkv[((size_t) row * (a.n_heads
                                                  + 2 * a.n_kv_heads)
                                  + head) * a.head_dim + d])
                 * a.step.q_scale[row] : 0;
    }

    m = -INFINITY;
    sum = 0;
    t = a.window && pos >= (int32_t) a.window ? pos - (int32_t) a.window + 1
                                              : 0;

    for (t += (int32_t) w; t <= pos; t += MST_K_PLAIN_WARPS) {
        s = mst_k_plain_dot(q, mst_k_plain_at(a, table[t / MST_K_BLOCK],
                                              t % MST_K_BLOCK, 0, kvh),
                            a.head_dim);
        v = mst_k_plain_at(a, table[t / MST_K_BLOCK], t % MST_K_BLOCK, 1,
                           kvh);
        mn = fmaxf(m, s);
        al = expf(m - mn);
        e = expf(s - mn);
        m = mn;
        sum = sum * al + e;

#pragma unroll
        for (i = 0; i < MST_K_PLAIN_LANE; i++) {
            d = i * 32 + lane;
            o[i] = o[i] * al + (d < a.head_dim ? e * mst_k_f32(v[d]) : 0);
        }
    }

    states[w][0] = m;
    states[w][1] = sum;

    for (i = 0; i < MST_K_PLAIN_LANE; i++) {
        outs[w][i * 32 + lane] = o[i];
    }

    __syncthreads();

    for (i = 0, m = -INFINITY; i < MST_K_PLAIN_WARPS; i++) {
        m = fmaxf(m, states[i][0]);
    }

    for (i = 0, sum = 0; i < MST_K_PLAIN_WARPS; i++) {
        sum += states[i][1] * expf(states[i][0] - m);
    }

    out = a.out + ((size_t) row * a.n_heads + head) * a.head_dim;

    for (d = threadIdx.x; d < a.head_dim; d += blockDim.x) {
        for (i = 0, s = 0; i < MST_K_PLAIN_WARPS; i++) {
            s += outs[i][d] * expf(states[i][0] - m);
        }

        out[d] = mst_k_bf16(s / sum);
    }
}


extern "C" int
mst_k_plain_attn(const mst_k_plain_t *a, cudaStream_t stream)
{
    return mst_k_launch(mst_k_plain_attn_kernel, dim3(a->rows, a->n_heads),
                        32 * MST_K_PLAIN_WARPS, 0, stream, *a);
}
