
/*
 * Attention kernels against float64 on the device, with random inputs,
 * shuffled pages and poison wherever nothing may be read or written; then,
 * with "time", what they take.  Prints one line a case; exit code 1 when one
 * is wrong.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <string>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "kernels/mst_k_attn.h"

#define CHECK(x)  test_check((int) (x), #x, __LINE__)


typedef struct {
    int  before;                   /* tokens in the cache */
    int  n;                        /* rows of this step */
} test_seq_t;


typedef struct {
    std::string              name;
    uint32_t                 heads;
    uint32_t                 kv_heads;
    uint32_t                 dim;
    mst_k_kv_t               kv;
    uint32_t                 window;
    uint32_t                 pairs;
    mst_k_out_t              out;
    std::vector<test_seq_t>  seqs;
} test_case_t;


typedef struct {
    mst_k_attn_t  a;
    int           decodes;
    int           prefills;
    uint32_t      rows;
    uint32_t      tokens;          /* of all sequences, padded to pages */
    uint32_t      n_blocks;
    float        *k;               /* [tokens][kv_heads][dim] what the cache
                                      should hold */
    float        *v;
    uint32_t     *first;           /* [seqs] of its tokens in k and v */
    float        *ref;             /* [rows][heads * dim] */
    size_t        kv_size;
    size_t        out_size;
    size_t        work_size;
} test_t;


static cudaStream_t  test_stream;
static int           test_bad;
static uint64_t      test_seed = 20261130;


static void
test_check(int rc, const char *what, int line)
{
    if (rc != 0) {
        printf("line %d: %s: %s\n", line, what,
               cudaGetErrorString((cudaError_t) rc));
        fflush(stdout);
        exit(1);
    }
}


static uint32_t
test_random(void)
{
    test_seed = test_seed * 6364136223846793005ull + 1442695040888963407ull;

    return (uint32_t) (test_seed >> 33);
}


template <class T>
static T *
test_alloc(size_t n)
{
    T  *p;

    CHECK(cudaMalloc((void **) &p, n * sizeof(T) + 256));
    CHECK(cudaMemset(p, 0xff, n * sizeof(T) + 256));

    /* the tests' stream does not wait for the one that this is in */

    CHECK(cudaDeviceSynchronize());

    return p;
}


template <class T>
static T *
test_copy(const std::vector<T> &v)
{
    T  *p;

    p = test_alloc<T>(v.size() + 1);
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T),
                     cudaMemcpyHostToDevice));

    return p;
}


__device__ static float
test_normal(uint64_t i)
{
    int       k;
    float     sum;
    uint64_t  x;

    sum = 0;
    x = i * 0x9e3779b97f4a7c15ull + 0x1234567;

    for (k = 0; k < 4; k++) {
        x ^= x >> 33;
        x *= 0xff51afd7ed558ccdull;
        x ^= x >> 29;
        sum += (float) (x & 0xffffff) / 16777216.f - 0.5f;
    }

    return sum * 1.7320508f;
}


__global__ static void
test_fill(uint16_t *p, size_t n, uint64_t seed)
{
    size_t         i;
    __nv_bfloat16  b;

    for (i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < n;
         i += (size_t) gridDim.x * blockDim.x)
    {
        b = __float2bfloat16(test_normal(seed + i));
        p[i] = *(uint16_t *) &b;
    }
}


__device__ static double
test_bf16(uint16_t u)
{
    return (double) __uint_as_float((uint32_t) u << 16);
}


__device__ static double
test_turned(const mst_k_attn_t *a, const uint16_t *x, uint32_t row,
    uint32_t d)
{
    double        c, s;
    const float  *t;

    if (d / 2 >= a->pairs) {
        return test_bf16(x[d]);
    }

    t = a->turns + ((size_t) row * a->pairs + d / 2) * 2;
    c = t[0];
    s = t[1];

    return d % 2 == 0 ? test_bf16(x[d]) * c - test_bf16(x[d + 1]) * s
                      : test_bf16(x[d]) * c + test_bf16(x[d - 1]) * s;
}


/* the largest of a CTA's values */

__device__ static float
test_max(float x, float *shared)
{
    uint32_t  i;
    float     max;

    __syncthreads();
    shared[threadIdx.x] = fabsf(x);
    __syncthreads();
    max = 0;

    for (i = 0; i < blockDim.x; i++) {
        max = fmaxf(max, shared[i]);
    }

    return max;
}


/* a value as the cache keeps it; where "at" is not NULL, it is put there */

__device__ static float
test_keep(const mst_k_attn_t *a, float x, uint8_t *half, uint32_t tok,
    float *shared)
{
    float          max, scale;
    uint32_t       at;
    __nv_bfloat16  b;
    __nv_fp8_e4m3  c;

    at = mst_k_kv_at(tok, threadIdx.x, a->shape.head_dim, a->kv_type);
    max = test_max(x, shared);

    if (a->kv_type == MST_K_KV_BF16) {
        b = __float2bfloat16(x);

        if (half) {
            *(__nv_bfloat16 *) (half + at) = b;
        }

        return __bfloat162float(b);
    }

    scale = max / 448.f;
    c = __nv_fp8_e4m3(x * (448.f / max));

    if (half) {
        half[at] = c.__x;
        *(float *) (half + mst_k_kv_scale_at(tok, a->shape.head_dim)) = scale;
    }

    return (float) c * scale;
}


__device__ static uint8_t *
test_half(const mst_k_attn_t *a, uint32_t seq, uint32_t pos, uint32_t head,
    uint32_t value)
{
    return (uint8_t *) a->kv
           + (size_t) a->step.blocks[a->step.seq_table[seq]
                                     + pos / MST_K_BLOCK] * a->block_stride
           + (head * 2 + value) * mst_k_kv_half(a->shape.head_dim, a->kv_type);
}


__device__ static uint32_t
test_seq_of(const test_t *t, uint32_t tok)
{
    uint32_t  seq;

    for (seq = 0; seq + 1 < t->a.shape.seqs && t->first[seq + 1] <= tok;
         seq++)
    {
        /* void */
    }

    return seq;
}


/* a CTA per token, KV head and k or v, a thread per dim: what the cache
   should hold; tokens of earlier steps go into the pages, too */

__global__ static void
test_truth(const __grid_constant__ test_t t)
{
    float                x, *to;
    uint32_t             head, old, pos, row, seq, value;
    const uint16_t      *q;
    __shared__ float     shared[128];
    const mst_k_attn_t  *a = &t.a;

    head = blockIdx.y;
    value = blockIdx.z;
    seq = test_seq_of(&t, blockIdx.x);
    pos = blockIdx.x - t.first[seq];

    if (pos >= (uint32_t) a->step.seq_len[seq]) {
        return;
    }

    to = (value ? t.v : t.k) + ((size_t) blockIdx.x * a->shape.n_kv_heads
                                + head) * a->shape.head_dim;
    old = a->step.seq_len[seq] - a->step.seq_n[seq];

    if (pos < old) {
        x = test_normal((blockIdx.x * 2ull + value) * 4096 + head * 128
                        + threadIdx.x) * (value ? 0.5f : 1.f);

    } else {
        row = a->step.seq_row[seq] + pos - old;
        q = a->qkv + ((size_t) row * (a->shape.n_heads
                                      + 2 * a->shape.n_kv_heads)
                      + a->shape.n_heads + value * a->shape.n_kv_heads
                      + head) * a->shape.head_dim;
        x = (float) (value ? test_bf16(q[threadIdx.x])
                           : test_turned(a, q, row, threadIdx.x));
    }

    to[threadIdx.x] = test_keep(a, x, pos < old ? test_half(a, seq, pos, head,
                                                            value) : NULL,
                                pos % MST_K_BLOCK, shared);
}


/* the pages after the kernels: err[0] += squared differences, err[1] +=
   squares */

__global__ static void
test_pages(const __grid_constant__ test_t t, double *err)
{
    float                want, x;
    uint32_t             at, pos, seq;
    const uint8_t       *half;
    const mst_k_attn_t  *a = &t.a;

    seq = test_seq_of(&t, blockIdx.x);
    pos = blockIdx.x - t.first[seq];

    if (pos >= (uint32_t) a->step.seq_len[seq]) {
        return;
    }

    half = test_half(a, seq, pos, blockIdx.y, blockIdx.z);
    at = mst_k_kv_at(pos % MST_K_BLOCK, threadIdx.x, a->shape.head_dim,
                     a->kv_type);

    if (a->kv_type == MST_K_KV_BF16) {
        x = __bfloat162float(*(const __nv_bfloat16 *) (half + at));

    } else {
        x = (float) *(const __nv_fp8_e4m3 *) (half + at)
            * *(const float *) (half + mst_k_kv_scale_at(pos % MST_K_BLOCK,
                                                         a->shape.head_dim));
    }

    want = (blockIdx.z ? t.v : t.k)[((size_t) blockIdx.x
                                     * a->shape.n_kv_heads + blockIdx.y)
                                    * a->shape.head_dim + threadIdx.x];

    atomicAdd(err, (double) (x - want) * (x - want));
    atomicAdd(err + 1, (double) want * want);
}


/* a CTA per row and head: float64, two passes */

__global__ static void
test_reference(const __grid_constant__ test_t t)
{
    double               acc, dot, e, max, sum;
    uint32_t             d, from, head, kv_head, pos, row, seq, tok, window;
    const float         *k, *v;
    __shared__ double    q[128], score[128];
    const mst_k_attn_t  *a = &t.a;

    row = blockIdx.x;
    head = blockIdx.y;
    kv_head = head / (a->shape.n_heads / a->shape.n_kv_heads);
    seq = a->step.seq[row];
    pos = a->step.pos[row];
    d = threadIdx.x;
    window = a->window && pos >= a->window ? pos - a->window + 1 : 0;

    q[d] = test_turned(a, a->qkv + ((size_t) row * (a->shape.n_heads
                                    + 2 * a->shape.n_kv_heads) + head)
                                   * a->shape.head_dim, row, d)
           * a->step.q_scale[row];
    max = -1e300;
    sum = acc = 0;

    for (from = window; from <= pos; from += blockDim.x) {
        tok = from + d;
        __syncthreads();
        dot = -1e300;

        if (tok <= pos) {
            k = t.k + ((size_t) (t.first[seq] + tok) * a->shape.n_kv_heads
                       + kv_head) * a->shape.head_dim;
            dot = 0;

            for (uint32_t i = 0; i < a->shape.head_dim; i++) {
                dot += q[i] * (double) k[i];
            }
        }

        score[d] = dot;
        __syncthreads();
        e = max;

        for (uint32_t i = 0; i < blockDim.x; i++) {
            e = fmax(e, score[i]);
        }

        acc *= exp(max - e);
        sum *= exp(max - e);
        max = e;

        for (uint32_t i = 0; i < blockDim.x && from + i <= pos; i++) {
            v = t.v + ((size_t) (t.first[seq] + from + i)
                       * a->shape.n_kv_heads + kv_head) * a->shape.head_dim;
            e = exp(score[i] - max);
            sum += e;
            acc += e * (double) v[d];
        }
    }

    t.ref[((size_t) row * a->shape.n_heads + head) * a->shape.head_dim + d] =
        (float) (acc / sum);
}


/* output as floats, whatever its layout */

__global__ static void
test_floats(const __grid_constant__ mst_k_attn_t a, float *to)
{
    size_t          at;
    uint32_t        col, row, width;
    const uint8_t  *out = (const uint8_t *) a.out;

    row = blockIdx.x;
    width = a.shape.n_heads * a.shape.head_dim;

    for (col = threadIdx.x; col < width; col += blockDim.x) {

        switch (a.out_type) {

        case MST_K_OUT_BF16:
            at = ((size_t) row * width + col) * 2;
            break;

        case MST_K_OUT_FP8:
            at = (size_t) row * width + col;
            break;

        case MST_K_OUT_BF16_LINES:
            at = ((size_t) (col / 64) * a.out_rows + row) * 128
                 + ((col % 64 / 8) ^ (row % 8)) * 16 + col % 8 * 2;
            break;

        default:
            at = ((size_t) (col / 128) * a.out_rows + row) * 128
                 + ((col % 128 / 16) ^ (row % 8)) * 16 + col % 16;
        }

        to[(size_t) row * width + col] =
            a.out_type == MST_K_OUT_BF16 || a.out_type == MST_K_OUT_BF16_LINES
            ? __bfloat162float(*(const __nv_bfloat16 *) (out + at))
            : (float) *(const __nv_fp8_e4m3 *) (out + at) / a.out_scale;
    }
}


/* a step of a case, for layers of KV; grid: CTAs of decode, 0 = default */

static void
test_make(const test_case_t *c, uint32_t layers, uint32_t grid, test_t *t)
{
    int                    sms;
    uint32_t               i, j, n, seqs;
    std::vector<int32_t>   blocks, count, len, num, pos, row, seq, slot, table;
    std::vector<uint32_t>  first;
    std::vector<float>     scale, turns;
    std::vector<int32_t>   all;
    mst_k_attn_work_t      work;

    memset((void *) t, 0, sizeof(*t));
    seqs = c->seqs.size();
    n = 0;

    for (i = 0; i < seqs; i++) {
        n += (c->seqs[i].before + c->seqs[i].n + MST_K_BLOCK - 1)
             / MST_K_BLOCK;
    }

    t->n_blocks = n + 3;

    for (i = 0; i < t->n_blocks; i++) {
        all.push_back(i);
    }

    for (i = t->n_blocks - 1; i > 0; i--) {
        std::swap(all[i], all[test_random() % (i + 1)]);
    }

    n = 0;

    for (i = 0; i < seqs; i++) {
        first.push_back(blocks.size() * MST_K_BLOCK);
        table.push_back(blocks.size());
        row.push_back(t->rows);
        num.push_back(c->seqs[i].n);
        len.push_back(c->seqs[i].before + c->seqs[i].n);

        for (j = 0; j < (uint32_t) (len[i] + MST_K_BLOCK - 1) / MST_K_BLOCK;
             j++)
        {
            blocks.push_back(all[n++]);
        }

        for (j = 0; j < (uint32_t) c->seqs[i].n; j++) {
            pos.push_back(c->seqs[i].before + j);
            seq.push_back(i);
            slot.push_back(blocks[table[i] + pos.back() / MST_K_BLOCK]
                           * MST_K_BLOCK + pos.back() % MST_K_BLOCK);
            scale.push_back((1 + 0.1f * (pos.back() / 512))
                            / sqrtf((float) c->dim));
        }

        t->rows += c->seqs[i].n;
        t->decodes |= c->seqs[i].n == 1;
        t->prefills |= c->seqs[i].n > 1;
    }

    t->tokens = blocks.size() * MST_K_BLOCK;

    /* two rows and a sequence that only fill the bucket */

    for (i = 0; i < 2; i++) {
        pos.push_back(0);
        seq.push_back(seqs);
        slot.push_back(-1);
        scale.push_back(0);
    }

    row.push_back(t->rows);
    num.push_back(0);
    len.push_back(0);
    table.push_back(0);
    first.push_back(t->tokens);
    count.assign(MST_K_COUNTS, 0);
    count[MST_K_ROWS] = t->rows;
    count[MST_K_SEQS] = seqs;

    for (i = 0; i < pos.size(); i++) {
        for (j = 0; j < c->pairs; j++) {
            double  x = pos[i] * pow(1e6, -2.0 * j / (2 * c->pairs));

            turns.push_back((float) cos(x));
            turns.push_back((float) sin(x));
        }
    }

    mst_k_attn_t  *a = &t->a;

    a->step.counts = test_copy(count);
    a->step.pos = test_copy(pos);
    a->step.seq = test_copy(seq);
    a->step.slot = test_copy(slot);
    a->step.q_scale = test_copy(scale);
    a->step.seq_row = test_copy(row);
    a->step.seq_n = test_copy(num);
    a->step.seq_len = test_copy(len);
    a->step.seq_table = test_copy(table);
    a->step.blocks = test_copy(blocks);
    t->first = (uint32_t *) test_copy(first);
    a->turns = test_copy(turns);
    a->pairs = c->pairs;
    a->window = c->window;

    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));

    a->shape.rows = t->rows + 2;
    a->shape.seqs = seqs + 1;
    a->shape.n_heads = c->heads;
    a->shape.n_kv_heads = c->kv_heads;
    a->shape.head_dim = c->dim;
    a->shape.ctas = grid ? grid : mst_k_attn_ctas(seqs, c->kv_heads, sms);
    mst_k_attn_work(&a->shape, &work);
    t->work_size = work.size;
    a->work = test_alloc<uint8_t>(work.size);

    n = (c->heads + 2 * c->kv_heads) * c->dim;
    a->qkv = test_alloc<uint16_t>((size_t) (t->rows + 2) * n);
    test_fill<<<256, 256, 0, test_stream>>>((uint16_t *) a->qkv,
                                            (size_t) (t->rows + 2) * n,
                                            (uint64_t) test_random() << 20);
    CHECK(cudaGetLastError());

    a->kv_type = c->kv;
    a->block_stride = mst_k_kv_block(c->kv_heads, c->dim, c->kv);
    t->kv_size = a->block_stride * t->n_blocks;
    a->kv = test_alloc<uint8_t>(t->kv_size * layers);
    a->out_type = c->out;
    a->out_scale = 16;
    a->out_rows = t->rows + 6;
    t->out_size = (size_t) a->out_rows * c->heads * c->dim * 2;
    a->out = test_alloc<uint8_t>(t->out_size);
}


static void
test_free(test_t *t)
{
    void      *p[] = { t->a.step.counts, t->a.step.pos, t->a.step.seq,
                       t->a.step.slot, t->a.step.q_scale, t->a.step.seq_row,
                       t->a.step.seq_n, t->a.step.seq_len, t->a.step.seq_table,
                       t->a.step.blocks, t->first, (void *) t->a.turns,
                       t->a.work, (void *) t->a.qkv, t->a.kv, t->a.out, t->k,
                       t->v, t->ref };
    uint32_t   i;

    for (i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
        CHECK(cudaFree(p[i]));
    }
}


static void
test_plan(test_t *t)
{
    mst_k_attn_plan_t  p = {};

    p.step = t->a.step;
    p.shape = t->a.shape;
    p.window = t->a.window;
    p.work = t->a.work;
    CHECK(mst_k_attn_plan(&p, test_stream));
}


static void
test_layer(test_t *t, uint32_t layer, int pdl, int what)
{
    mst_k_attn_t  a = t->a;

    a.kv = (uint8_t *) a.kv + layer * t->kv_size;
    a.pdl = pdl;

    if (t->prefills) {
        if (what & 1) {
            CHECK(mst_k_attn_rope(&a, test_stream));
        }

        if (what & 2) {
            CHECK(mst_k_attn_prefill(&a, test_stream));
        }
    }

    if (t->decodes && (what & 4)) {
        CHECK(mst_k_attn_decode(&a, test_stream));
    }
}


static double
test_compare(test_t *t, const std::vector<float> &ref, double *worst)
{
    double              e, err, row_err, row_sum, sum;
    float              *d;
    uint32_t            i, j, width;
    std::vector<float>  got;

    width = t->a.shape.n_heads * t->a.shape.head_dim;
    d = test_alloc<float>((size_t) t->rows * width);
    test_floats<<<t->rows, 256, 0, test_stream>>>(t->a, d);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(test_stream));
    got.resize((size_t) t->rows * width);
    CHECK(cudaMemcpy(got.data(), d, got.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d));

    err = sum = *worst = 0;

    for (i = 0; i < t->rows; i++) {
        row_err = row_sum = 0;

        for (j = 0; j < width; j++) {
            e = (double) got[(size_t) i * width + j]
                - ref[(size_t) i * width + j];
            row_err += e * e;
            row_sum += (double) ref[(size_t) i * width + j]
                       * ref[(size_t) i * width + j];
        }

        e = sqrt(row_err / row_sum);
        *worst = e <= *worst ? *worst : e;
        err += row_err;
        sum += row_sum;
    }

    return sqrt(err / sum);
}


static void
test_case(const test_case_t *c, uint32_t grid)
{
    int                  bits, ok;
    double               e, err[2], *d_err, kv, limit, worst;
    test_t               t;
    uint32_t             i, width;
    std::vector<float>   ref;
    std::vector<uint8_t> one, two;

    test_make(c, 1, grid, &t);
    width = c->heads * c->dim;
    t.k = test_alloc<float>((size_t) t.tokens * c->kv_heads * c->dim);
    t.v = test_alloc<float>((size_t) t.tokens * c->kv_heads * c->dim);
    t.ref = test_alloc<float>((size_t) t.rows * width);

    test_truth<<<dim3(t.tokens, c->kv_heads, 2), c->dim, 0, test_stream>>>(t);
    test_reference<<<dim3(t.rows, c->heads), c->dim, 0, test_stream>>>(t);
    CHECK(cudaGetLastError());

    bits = 1;

    for (i = 0; i < 4; i++) {
        CHECK(cudaMemsetAsync(t.a.out, 0xff, t.out_size, test_stream));
        CHECK(cudaMemsetAsync(t.a.work, 0xff, t.work_size, test_stream));
        test_plan(&t);
        test_layer(&t, 0, i & 1, 7);
        CHECK(cudaStreamSynchronize(test_stream));
        two.resize(t.out_size);
        CHECK(cudaMemcpy(two.data(), t.a.out, t.out_size,
                         cudaMemcpyDeviceToHost));
        bits &= i == 0 || one == two;
        one = two;
    }

    ref.resize((size_t) t.rows * width);
    CHECK(cudaMemcpy(ref.data(), t.ref, ref.size() * 4,
                     cudaMemcpyDeviceToHost));
    e = test_compare(&t, ref, &worst);

    d_err = test_alloc<double>(2);
    CHECK(cudaMemset(d_err, 0, 16));
    test_pages<<<dim3(t.tokens, c->kv_heads, 2), c->dim, 0, test_stream>>>(
        t, d_err);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(test_stream));
    CHECK(cudaMemcpy(err, d_err, 16, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_err));
    kv = sqrt(err[0] / err[1]);

    /* rows that only fill the bucket stay as they were (row-major) */

    ok = 1;

    for (i = 0; c->out == MST_K_OUT_BF16 && i < width * 4; i++) {
        ok &= one[(size_t) t.rows * width * 2 + i] == 0xff;
    }

    limit = c->out == MST_K_OUT_FP8 || c->out == MST_K_OUT_FP8_LINES
            ? 4e-2 : 6e-3;
    ok &= e < limit && worst < 3 * limit && bits && kv < 2e-3;
    test_bad += !ok;
    printf("%-34s %3u/%u x %-3u %s ctas %-3u err %.1e worst row %.1e kv %.1e "
           "%s%s\n", c->name.c_str(), c->heads, c->kv_heads, c->dim,
           c->kv == MST_K_KV_FP8 ? "fp8 " : "bf16", t.a.shape.ctas, e, worst,
           kv, bits ? "bits=" : "BITS DIFFER", ok ? "" : " WRONG");
    fflush(stdout);
    test_free(&t);
}


/* median microseconds of a replay / layers */

static float
test_time(test_t *t, uint32_t layers, int pdl, int what)
{
    int                 i;
    float               ms;
    uint32_t            l;
    cudaEvent_t         a, b;
    cudaGraph_t         graph;
    cudaGraphExec_t     exec;
    std::vector<float>  v;

    CHECK(cudaStreamBeginCapture(test_stream, cudaStreamCaptureModeGlobal));

    for (l = 0; l < layers; l++) {
        test_layer(t, l, pdl && l > 0, what);
    }

    CHECK(cudaStreamEndCapture(test_stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));

    for (i = 0; i < 13; i++) {
        CHECK(cudaEventRecord(a, test_stream));
        CHECK(cudaGraphLaunch(exec, test_stream));
        CHECK(cudaEventRecord(b, test_stream));
        CHECK(cudaStreamSynchronize(test_stream));
        CHECK(cudaEventElapsedTime(&ms, a, b));

        if (i >= 2) {
            v.push_back(ms);
        }
    }

    std::sort(v.begin(), v.end());
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(a));
    CHECK(cudaEventDestroy(b));

    return v[v.size() / 2] * 1000 / layers;
}


static test_case_t
test_uniform(uint32_t seqs, int before, int n, mst_k_kv_t kv)
{
    test_case_t  c = { "", 32, 8, 128, kv, 0, 64, MST_K_OUT_BF16, {} };

    c.seqs.assign(seqs, { before, n });

    return c;
}


static void
test_time_decode(uint32_t seqs, int len, mst_k_kv_t kv, uint32_t grid)
{
    float              plain, pdl;
    double             bytes;
    test_t             t;
    test_case_t        c;
    const uint32_t     layers = seqs * len > 300000 ? 8 : 32;

    c = test_uniform(seqs, len - 1, 1, kv);
    test_make(&c, layers, grid, &t);
    test_fill<<<1024, 256, 0, test_stream>>>((uint16_t *) t.a.kv,
                                             t.kv_size * layers / 2, 1);
    CHECK(cudaGetLastError());
    bytes = (double) (t.n_blocks - 3) * t.a.block_stride;
    test_plan(&t);
    plain = test_time(&t, layers, 0, 4);
    pdl = test_time(&t, layers, 1, 4);
    printf("decode %s batch %3u context %5d ctas %3u: plain %7.2f pdl %7.2f us"
           " a layer, %4.1f %% of 4.56 TB/s\n",
           kv == MST_K_KV_FP8 ? "fp8 " : "bf16", seqs, len, t.a.shape.ctas,
           plain, pdl, bytes / pdl * 1e-6 / 4.56 * 100);
    fflush(stdout);
    test_free(&t);
}


static void
test_time_prefill(uint32_t seqs, int before, int n, mst_k_kv_t kv,
    uint32_t window)
{
    float           us, rope;
    double          flop, see;
    test_t          t;
    test_case_t     c;
    const uint32_t  layers = 8;

    c = test_uniform(seqs, before, n, kv);
    c.window = window;
    test_make(&c, layers, 0, &t);
    test_fill<<<1024, 256, 0, test_stream>>>((uint16_t *) t.a.kv,
                                             t.kv_size * layers / 2, 1);
    CHECK(cudaGetLastError());
    test_plan(&t);
    rope = test_time(&t, layers, 1, 1);
    us = test_time(&t, layers, 1, 2);
    flop = 0;

    for (int i = 0; i < n; i++) {
        see = before + i + 1;
        flop += 4.0 * 128 * 32 * (window && see > window ? window : see);
    }

    printf("prefill %s %u x %d after %d window %u: %.1f us a layer, %.0f "
           "TFLOP/s; rope + kv %.1f us\n",
           kv == MST_K_KV_FP8 ? "fp8 " : "bf16", seqs, n, before, window, us,
           flop * seqs / us * 1e-6, rope);
    fflush(stdout);
    test_free(&t);
}


static float
test_time_plan(uint32_t seqs, int before, int n)
{
    int           i;
    float         ms;
    test_t        t;
    test_case_t   c;
    cudaEvent_t   a, b;

    c = test_uniform(seqs, before, n, MST_K_KV_BF16);
    test_make(&c, 1, 0, &t);
    test_plan(&t);
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaEventRecord(a, test_stream));

    for (i = 0; i < 50; i++) {
        test_plan(&t);
    }

    CHECK(cudaEventRecord(b, test_stream));
    CHECK(cudaStreamSynchronize(test_stream));
    CHECK(cudaEventElapsedTime(&ms, a, b));
    test_free(&t);

    return ms * 1000 / 50;
}


static void
test_cases(int quick)
{
    uint32_t  i, j;

    const struct {
        uint32_t  heads;
        uint32_t  kv_heads;
        uint32_t  dim;
        uint32_t  pairs;
    } heads[] = {
        { 32, 8, 128, 64 },
        { 9, 3, 64, 32 },
        { 8, 8, 64, 32 },
        { 16, 2, 128, 64 },
        { 24, 2, 128, 48 },
        { 16, 16, 128, 64 },
        { 24, 2, 64, 32 }
    };

    const struct {
        const char              *name;
        uint32_t                 window;
        std::vector<test_seq_t>  seqs;
    } steps[] = {
        { "decode ragged", 0,
          { { 0, 1 }, { 62, 1 }, { 63, 1 }, { 64, 1 }, { 574, 1 }, { 575, 1 },
            { 576, 1 }, { 999, 1 } } },
        { "decode 1", 0, { { 575, 1 } } },
        { "decode 1 long", 0, { { 9000, 1 } } },
        { "decode window", 100,
          { { 0, 1 }, { 99, 1 }, { 100, 1 }, { 163, 1 }, { 164, 1 }, { 227, 1 },
            { 700, 1 }, { 4000, 1 } } },
        { "prefill", 0, { { 0, 2 }, { 0, 63 }, { 0, 64 }, { 0, 65 },
                          { 0, 200 } } },
        { "prefill chunks", 0, { { 1, 33 }, { 63, 64 }, { 64, 130 },
                                 { 500, 77 } } },
        { "prefill window", 100, { { 0, 300 }, { 77, 150 }, { 400, 70 } } },
        { "mixed", 0, { { 300, 1 }, { 100, 50 }, { 0, 1 }, { 0, 129 },
                        { 64, 1 } } },
        { "mixed window", 64, { { 300, 1 }, { 100, 90 }, { 63, 1 }, { 0, 129 },
                                { 65, 1 } } }
    };

    for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        for (j = 0; j < sizeof(steps) / sizeof(steps[0]); j++) {
            int          k;
            test_case_t  c = { steps[j].name, heads[i].heads,
                               heads[i].kv_heads, heads[i].dim, MST_K_KV_BF16,
                               steps[j].window, heads[i].pairs,
                               MST_K_OUT_BF16, steps[j].seqs };

            if (quick && j != 7) {
                continue;
            }

            for (k = 0; k < 2; k++) {
                c.kv = k ? MST_K_KV_FP8 : MST_K_KV_BF16;
                test_case(&c, 0);
            }
        }
    }

    test_case_t  c = { "mixed, other outputs", 32, 8, 128, MST_K_KV_BF16, 0,
                       64, MST_K_OUT_FP8, steps[7].seqs };

    test_case(&c, 0);
    c.out = MST_K_OUT_BF16_LINES;
    test_case(&c, 0);
    c.out = MST_K_OUT_FP8_LINES;
    test_case(&c, 0);

    /* few CTAs: items are cut anywhere; 32 sequences: they are not */

    c.out = MST_K_OUT_BF16;
    c.seqs = steps[0].seqs;
    c.name = "decode ragged, 7 CTAs";
    test_case(&c, 7);
    c.name = "decode ragged, 264 CTAs";
    test_case(&c, 264);
    c.name = "decode 32 x 576";
    c.seqs.assign(32, { 575, 1 });
    test_case(&c, 0);
}


/* chunks of many tiles, and graphs of several layers */

static void
test_long(void)
{
    test_case_t  c;

    c = test_uniform(1, 0, 512, MST_K_KV_BF16);
    c.name = "prefill 512";
    test_case(&c, 0);
    c = test_uniform(1, 0, 2048, MST_K_KV_BF16);
    c.name = "prefill 2048";
    test_case(&c, 0);
    c = test_uniform(2, 700, 1000, MST_K_KV_BF16);
    c.name = "prefill 2 x 1000 after 700";
    test_case(&c, 0);
    c.window = 500;
    c.name = "the same, window 500";
    test_case(&c, 0);
    test_time_prefill(1, 0, 512, MST_K_KV_BF16, 0);
    test_time_prefill(1, 0, 2048, MST_K_KV_BF16, 0);
    test_time_prefill(4, 0, 2048, MST_K_KV_FP8, 0);
}


int
main(int argc, char **argv)
{
    uint32_t            i;
    cudaDeviceProp      prop;
    const mst_k_kv_t    kv[] = { MST_K_KV_BF16, MST_K_KV_FP8 };
    const uint32_t      batch[] = { 1, 8, 16, 32, 64, 128, 256 };

    if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess) {
        printf("skipped: no CUDA device\n");
        return 0;
    }

    printf("%s, %d SMs\n", prop.name, prop.multiProcessorCount);
    CHECK(cudaStreamCreateWithFlags(&test_stream, cudaStreamNonBlocking));

    if (argc > 1 && strcmp(argv[1], "time") == 0) {

        for (i = 0; i < 14; i++) {
            test_time_decode(batch[i / 2], 576, kv[i & 1], 0);
        }

        test_time_decode(128, 576, MST_K_KV_BF16, 264);
        test_time_decode(256, 576, MST_K_KV_BF16, 132);
        test_time_decode(1, 8192, MST_K_KV_BF16, 0);
        test_time_decode(1, 32768, MST_K_KV_BF16, 0);
        test_time_decode(32, 4096, MST_K_KV_BF16, 0);

        for (i = 0; i < 2; i++) {
            test_time_prefill(1, 0, 512, kv[i], 0);
            test_time_prefill(1, 0, 2048, kv[i], 0);
            test_time_prefill(4, 0, 2048, kv[i], 0);
            test_time_prefill(1, 6144, 2048, kv[i], 0);
            test_time_prefill(1, 0, 8192, kv[i], 4096);
        }

        printf("plan: 1 seq %.1f, 32 %.1f, 256 %.1f, prefill 8 x 1024 %.1f us"
               "\n", test_time_plan(1, 575, 1), test_time_plan(32, 575, 1),
               test_time_plan(256, 575, 1), test_time_plan(8, 0, 1024));
        return 0;
    }

    if (argc > 1 && strcmp(argv[1], "long") == 0) {
        test_long();
        printf("%d wrong\n", test_bad);
        return test_bad != 0;
    }

    test_cases(argc > 1 && strcmp(argv[1], "quick") == 0);
    printf("%d wrong\n", test_bad);

    return test_bad != 0;
}
