
/*
 * What the kernels that "mistral diagnose" measures read: random numbers of
 * the device, and the steps of 64 sequences that decode and of one prompt.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_cuda_probe.h"


static void *
mst_probe_take(mst_probe_run_t *r, size_t size)
{
    void  *p;

    p = r->arena + r->at;
    r->at += (size + 255) / 256 * 256;

    return r->at <= MST_PROBE_ARENA ? p : NULL;
}


/* the arrays of a step of n_seqs with as many rows and tokens each */

static int
mst_probe_step(mst_probe_run_t *r, mst_k_attn_t *a, uint32_t n_seqs,
    uint32_t rows, uint32_t tokens)
{
    int             rc;
    void           *host;
    float          *turns;
    size_t          size;
    uint32_t        i, j, n, blocks;
    mst_k_step_t    s;
    mst_k_bucket_t  b;

    mst_k_attn_work_t  work;

    memset(a, 0, sizeof(mst_k_attn_t));
    memset(&b, 0, sizeof(b));

    n = n_seqs * rows;
    blocks = (tokens + MST_K_BLOCK - 1) / MST_K_BLOCK;
    b.rows = n;
    b.seqs = n_seqs;
    b.wanted = n_seqs;
    size = mst_k_step_layout(&b, NULL, &s)
           + (size_t) n_seqs * blocks * sizeof(int32_t);
    host = mst_calloc(1, size);
    turns = mst_calloc((size_t) n * 128, sizeof(float));

    if (host == NULL || turns == NULL) {
        mst_free(host);
        mst_free(turns);
        return cudaErrorMemoryAllocation;
    }

    (void) mst_k_step_layout(&b, host, &s);

    s.counts[MST_K_ROWS] = (int32_t) n;
    s.counts[MST_K_SEQS] = (int32_t) n_seqs;

    for (i = 0; i < n_seqs; i++) {
        s.seq_row[i] = (int32_t) (i * rows);
        s.seq_n[i] = (int32_t) rows;
        s.seq_len[i] = (int32_t) tokens;
        s.seq_table[i] = (int32_t) (i * blocks);

        for (j = 0; j < blocks; j++) {
            s.blocks[i * blocks + j] = (int32_t) (i * blocks + j);
        }

        for (j = i * rows; j < (i + 1) * rows; j++) {
            s.pos[j] = (int32_t) (tokens - rows + j - i * rows);
            s.seq[j] = (int32_t) i;
            s.slot[j] = s.blocks[i * blocks + (uint32_t) s.pos[j]
                                              / MST_K_BLOCK]
                        * MST_K_BLOCK + s.pos[j] % MST_K_BLOCK;
            s.q_scale[j] = 0.0883883f;         /* 1 / sqrt(128) */
        }
    }

    for (i = 0; i < n * 64; i++) {
        turns[2 * i] = 1;
    }

    a->shape.rows = n;
    a->shape.seqs = n_seqs;
    a->shape.n_heads = MST_PROBE_HEADS;
    a->shape.n_kv_heads = MST_PROBE_KV;
    a->shape.head_dim = 128;
    a->shape.ctas = mst_k_attn_ctas(n_seqs, MST_PROBE_KV, (uint32_t)
                                    r->props.multiProcessorCount);
    mst_k_attn_work(&a->shape, &work);

    a->work = mst_probe_take(r, work.size);
    a->turns = mst_probe_take(r, (size_t) n * 128 * sizeof(float));
    (void) mst_k_step_layout(&b, mst_probe_take(r, size), &a->step);
    a->pairs = 64;
    a->qkv = r->x;
    a->kv = r->kv;
    a->block_stride = mst_k_kv_block(MST_PROBE_KV, 128, MST_K_KV_BF16);
    a->out = r->y;
    a->out_rows = n;

    rc = cudaMemcpy(a->step.counts, host, size, cudaMemcpyHostToDevice);
    rc = rc ? rc : (int) cudaMemcpy((void *) a->turns, turns,
                                    (size_t) n * 128 * sizeof(float),
                                    cudaMemcpyHostToDevice);
    mst_free(host);
    mst_free(turns);

    return rc;
}


int
mst_probe_plan(mst_probe_run_t *r, const mst_k_attn_t *a)
{
    mst_k_attn_plan_t  plan;

    memset(&plan, 0, sizeof(plan));
    plan.step = a->step;
    plan.shape = a->shape;
    plan.work = a->work;

    return mst_k_attn_plan(&plan, r->stream);
}


static int
mst_probe_fill(mst_probe_run_t *r, void *to, uint64_t n)
{
    mst_k_fill_t  a;

    memset(&a, 0, sizeof(a));
    a.to = to;
    a.n = n;
    a.seed = 7;

    return mst_k_fill(&a, r->stream);
}


/* greedy orders, one for each row */

static int
mst_probe_orders(mst_probe_run_t *r)
{
    int                   rc;
    uint32_t              i;
    mst_k_sample_order_t  orders[MST_PROBE_SEQS];

    memset(orders, 0, sizeof(orders));

    for (i = 0; i < MST_PROBE_SEQS; i++) {
        orders[i].top_p = 1;
        orders[i].repetition = 1;
        orders[i].row = i;
        orders[i].result = i;
    }

    memset(&r->sample, 0, sizeof(r->sample));
    r->sample.logits = r->logits;
    r->sample.orders = mst_probe_take(r, sizeof(orders));
    r->sample.words = mst_probe_take(r, 256);
    r->sample.results = mst_probe_take(r, MST_PROBE_SEQS
                                          * sizeof(mst_k_sampled_t));
    r->sample.n_vocab = MST_PROBE_VOCAB;
    r->sample.stride = MST_PROBE_VOCAB;
    r->sample.n = MST_PROBE_SEQS;

    rc = cudaMemcpy((void *) r->sample.orders, orders, sizeof(orders),
                    cudaMemcpyHostToDevice);
    return rc;
}


/* floats are bf16 in their upper half, so random ones of both are floats */

int
mst_probe_data(mst_probe_run_t *r)
{
    int       rc;
    uint64_t  w, tiles;

    r->at = 0;
    w = 2ull * MST_PROBE_FF * MST_PROBE_DIM;
    tiles = mst_k_gemm_w_size(2 * MST_PROBE_FF, MST_PROBE_DIM, 2);

    r->w = mst_probe_take(r, w * 2);
    r->tiles = mst_probe_take(r, tiles);
    r->rows8 = mst_probe_take(r, w);
    r->scale8 = mst_probe_take(r, 2 * MST_PROBE_FF * sizeof(float));
    r->tiles8 = mst_probe_take(r, tiles);
    r->tile_scale8 = mst_probe_take(r, mst_k_gemm_units(2 * MST_PROBE_FF)
                                       * 16 * sizeof(float));
    r->h = mst_probe_take(r, (size_t) MST_PROBE_PROMPT * MST_PROBE_DIM * 4);
    r->gain = mst_probe_take(r, MST_PROBE_FF * sizeof(float));
    r->x = mst_probe_take(r, (size_t) MST_PROBE_PROMPT * 2 * MST_PROBE_FF * 2);
    r->y = mst_probe_take(r, (size_t) MST_PROBE_PROMPT * 2 * MST_PROBE_FF * 2);
    r->logits = mst_probe_take(r, (size_t) MST_PROBE_SEQS * MST_PROBE_VOCAB
                                  * 4);
    r->kv = mst_probe_take(r, (size_t) MST_PROBE_SEQS * 9
                              * mst_k_kv_block(MST_PROBE_KV, 128,
                                               MST_K_KV_BF16));

    rc = mst_probe_step(r, &r->decode, MST_PROBE_SEQS, 1, MST_PROBE_TOKENS);
    rc = rc ? rc : mst_probe_step(r, &r->prompt, 1, MST_PROBE_PROMPT,
                                  MST_PROBE_PROMPT);
    rc = rc ? rc : mst_probe_orders(r);

    if (rc == cudaSuccess && r->at > MST_PROBE_ARENA) {
        rc = cudaErrorMemoryAllocation;
    }

    rc = rc ? rc : mst_probe_fill(r, r->w, w);
    rc = rc ? rc : mst_probe_fill(r, r->x, (uint64_t) MST_PROBE_PROMPT * 2
                                           * MST_PROBE_FF);
    rc = rc ? rc : mst_probe_fill(r, r->kv, (uint64_t) MST_PROBE_SEQS * 9
                                  * mst_k_kv_block(MST_PROBE_KV, 128,
                                                   MST_K_KV_BF16) / 2);
    rc = rc ? rc : mst_probe_fill(r, r->h, 2ull * MST_PROBE_PROMPT
                                           * MST_PROBE_DIM);
    rc = rc ? rc : mst_probe_fill(r, r->gain, 2 * MST_PROBE_FF);
    rc = rc ? rc : mst_probe_fill(r, r->logits, 2ull * MST_PROBE_SEQS
                                                * MST_PROBE_VOCAB);
    rc = rc ? rc : (int) cudaMemset(r->tiles, 0, tiles);
    rc = rc ? rc : (int) cudaMemset(r->tiles8, 0, tiles);
    rc = rc ? rc : mst_probe_plan(r, &r->prompt);
    rc = rc ? rc : (int) cudaDeviceSynchronize();

    return rc;
}
