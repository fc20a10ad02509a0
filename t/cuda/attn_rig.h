
/*
 * What the attention tests and their timings share: steps of random
 * sequences in shuffled pages, poison around them, and float64 references.
 */

#ifndef ATTN_RIG_H
#define ATTN_RIG_H

#include <math.h>

#include <string>

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "device_rig.cuh"
#include "kernels/mst_k_attn.h"


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


/* the arrays of a step, on the host */

typedef struct {
    std::vector<int32_t>   blocks;
    std::vector<int32_t>   count;
    std::vector<int32_t>   len;
    std::vector<int32_t>   num;
    std::vector<int32_t>   pos;
    std::vector<int32_t>   row;
    std::vector<int32_t>   seq;
    std::vector<int32_t>   slot;
    std::vector<int32_t>   table;
    std::vector<uint32_t>  first;
    std::vector<float>     scale;
    std::vector<float>     turns;
} test_step_t;


/* numbers of blocks that are enough for the case, and three, shuffled */

static std::vector<int32_t>
test_blocks(const test_case_t *c)
{
    uint32_t              i, n;
    std::vector<int32_t>  all;

    n = 3;

    for (i = 0; i < c->seqs.size(); i++) {
        n += (c->seqs[i].before + c->seqs[i].n + MST_K_BLOCK - 1)
             / MST_K_BLOCK;
    }

    for (i = 0; i < n; i++) {
        all.push_back(i);
    }

    for (i = n - 1; i > 0; i--) {
        std::swap(all[i], all[random32() % (i + 1)]);
    }

    return all;
}


static void
test_rows(const test_case_t *c, test_t *t, test_step_t *h)
{
    uint32_t              i, j, n;
    std::vector<int32_t>  all;

    all = test_blocks(c);
    t->n_blocks = all.size();
    n = 0;

    for (i = 0; i < c->seqs.size(); i++) {
        h->first.push_back(h->blocks.size() * MST_K_BLOCK);
        h->table.push_back(h->blocks.size());
        h->row.push_back(t->rows);
        h->num.push_back(c->seqs[i].n);
        h->len.push_back(c->seqs[i].before + c->seqs[i].n);

        for (j = 0; j < (uint32_t) (h->len[i] + MST_K_BLOCK - 1) / MST_K_BLOCK;
             j++)
        {
            h->blocks.push_back(all[n++]);
        }

        for (j = 0; j < (uint32_t) c->seqs[i].n; j++) {
            h->pos.push_back(c->seqs[i].before + j);
            h->seq.push_back(i);
            h->slot.push_back(h->blocks[h->table[i]
                                        + h->pos.back() / MST_K_BLOCK]
                              * MST_K_BLOCK + h->pos.back() % MST_K_BLOCK);
            h->scale.push_back((1 + 0.1f * (h->pos.back() / 512))
                               / sqrtf((float) c->dim));
        }

        t->rows += c->seqs[i].n;
        t->decodes |= c->seqs[i].n == 1;
        t->prefills |= c->seqs[i].n > 1;
    }

    t->tokens = h->blocks.size() * MST_K_BLOCK;
}


/* two rows and a sequence that only fill the bucket; then what all need */

static void
test_bucket(const test_case_t *c, const test_t *t, test_step_t *h)
{
    double    x;
    uint32_t  i, j;

    for (i = 0; i < 2; i++) {
        h->pos.push_back(0);
        h->seq.push_back(c->seqs.size());
        h->slot.push_back(-1);
        h->scale.push_back(0);
    }

    h->row.push_back(t->rows);
    h->num.push_back(0);
    h->len.push_back(0);
    h->table.push_back(0);
    h->first.push_back(t->tokens);
    h->count.assign(MST_K_COUNTS, 0);
    h->count[MST_K_ROWS] = t->rows;
    h->count[MST_K_SEQS] = c->seqs.size();

    for (i = 0; i < h->pos.size(); i++) {
        for (j = 0; j < c->pairs; j++) {
            x = h->pos[i] * pow(1e6, -2.0 * j / (2 * c->pairs));
            h->turns.push_back((float) cos(x));
            h->turns.push_back((float) sin(x));
        }
    }
}


static void
test_upload(const test_step_t *h, test_t *t)
{
    mst_k_attn_t  *a = &t->a;

    a->step.counts = up(h->count);
    a->step.pos = up(h->pos);
    a->step.seq = up(h->seq);
    a->step.slot = up(h->slot);
    a->step.q_scale = up(h->scale);
    a->step.seq_row = up(h->row);
    a->step.seq_n = up(h->num);
    a->step.seq_len = up(h->len);
    a->step.seq_table = up(h->table);
    a->step.blocks = up(h->blocks);
    t->first = (uint32_t *) up(h->first);
    a->turns = up(h->turns);
}


/* a step of a case, for layers of KV; grid: CTAs of decode, 0 = default */

static void
test_make(const test_case_t *c, uint32_t layers, uint32_t grid, test_t *t)
{
    int                 sms;
    uint32_t            n, seqs;
    test_step_t         h;
    mst_k_attn_t       *a;
    mst_k_attn_work_t   work;

    memset((void *) t, 0, sizeof(*t));
    a = &t->a;
    seqs = c->seqs.size();

    test_rows(c, t, &h);
    test_bucket(c, t, &h);
    test_upload(&h, t);

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
    a->work = poisoned<uint8_t>(work.size);

    n = (c->heads + 2 * c->kv_heads) * c->dim;
    a->qkv = poisoned<uint16_t>((size_t) (t->rows + 2) * n);
    test_fill<<<256, 256, 0, test_stream>>>((uint16_t *) a->qkv,
                                            (size_t) (t->rows + 2) * n,
                                            (uint64_t) random32() << 20);
    CHECK(cudaGetLastError());

    a->kv_type = c->kv;
    a->block_stride = mst_k_kv_block(c->kv_heads, c->dim, c->kv);
    t->kv_size = a->block_stride * t->n_blocks;
    a->kv = poisoned<uint8_t>(t->kv_size * layers);
    a->out_type = c->out;
    a->out_scale = 16;
    a->out_rows = t->rows + 6;
    t->out_size = (size_t) a->out_rows * c->heads * c->dim * 2;
    a->out = poisoned<uint8_t>(t->out_size);
}


static void
test_free(test_t *t)
{
    const mst_k_step_t  *s = &t->a.step;

    release({ s->counts, s->pos, s->seq, s->slot, s->q_scale, s->seq_row,
              s->seq_n, s->seq_len, s->seq_table, s->blocks, t->first,
              t->a.turns, t->a.work, t->a.qkv, t->a.kv, t->a.out, t->k, t->v,
              t->ref });
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

    /* what comes between it and a layer that is launched early */
    test_fill<<<1, 32, 0, test_stream>>>((uint16_t *) t->a.work, 0, 0);
    CHECK(cudaGetLastError());
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


#endif /* ATTN_RIG_H */
