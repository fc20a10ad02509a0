
/*
 * What a step needs besides the weights: buffers of its rows, staging, and
 * last of all the KV pool from what is left.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "backend/mst_cuda.h"


typedef struct {
    void       *to;                /* of a pointer */
    uint64_t    size;
    const char *what;
} mst_cuda_wish_t;


/* layers with the same window share attention's work list */

static int
mst_cuda_windows(mst_backend_t *b, mst_err_t *err)
{
    uint32_t  i, k, window;

    b->window = mst_calloc(b->conf.n_layers, 1);

    if (b->window == NULL) {
        return mst_err_set(err, "out of memory for the CUDA backend");
    }

    for (i = 0; i < b->conf.n_layers; i++) {
        window = b->conf.windows ? b->conf.windows[i] : 0;

        for (k = 0; k < b->n_windows && b->windows[k] != window; k++) {
            /* void */
        }

        if (k == MST_CUDA_WINDOWS) {
            return mst_err_set(err, "a model of more than %d different "
                               "windows is not computed on a CUDA device",
                               MST_CUDA_WINDOWS);
        }

        b->windows[k] = window;
        b->window[i] = (uint8_t) k;
        b->n_windows = mst_cuda_max(b->n_windows, k + 1);
    }

    return MST_OK;
}


static uint64_t
mst_cuda_work_size(mst_backend_t *b)
{
    mst_k_attn_work_t   work;
    mst_k_attn_shape_t  shape;

    shape.rows = b->rows;
    shape.seqs = b->seqs;
    shape.n_heads = b->conf.n_heads;
    shape.n_kv_heads = b->conf.n_kv_heads;
    shape.head_dim = b->conf.head_dim;
    shape.invariant = b->conf.batch_invariant;
    shape.ctas = 2 * (uint32_t) b->props.multiProcessorCount;

    mst_k_attn_work(&shape, &work);

    return work.size;
}


/* of all arrays of the largest step */

static uint64_t
mst_cuda_staged_size(mst_backend_t *b)
{
    mst_k_step_t    s;
    mst_k_bucket_t  bucket;

    memset(&bucket, 0, sizeof(bucket));
    bucket.rows = b->rows;
    bucket.seqs = b->rows;
    bucket.wanted = b->rows;
    bucket.sample = b->sampler.n_orders * sizeof(mst_k_sample_order_t);

    return mst_k_step_layout(&bucket, NULL, &s) + b->sampler.n_words * 4ull
           + (uint64_t) b->conf.max_seqs * b->max_blocks * 4;
}


static int
mst_cuda_rows(mst_backend_t *b, mst_err_t *err)
{
    void                      *p;
    size_t                     i;
    uint64_t                   pairs, r, wide;
    const mst_backend_conf_t  *c;

    c = &b->conf;
    r = b->rows;
    pairs = mst_cuda_expert_pairs(b);

    /* products of e4m3 lie here before they are added, and those of q, k and
       v while GEMMs are chosen */

    wide = mst_cuda_max(mst_cuda_max(2 * c->ff_dim, c->dim), b->qkv_dim);

    mst_cuda_wish_t  wishes[] = {
        { &b->h, r * c->dim * 4, "the residual stream" },
        { &b->x, r * mst_cuda_max(c->dim, b->q_dim) * 2, "inputs" },
        { &b->x_scale, r * 4, "scales of inputs" },
        { &b->qkv, r * b->qkv_dim * 2, "queries, keys and values" },
        { &b->mix, r * b->q_dim * 2, "attention's outputs" },
        { &b->gate_up, pairs * wide * 2, "gates" },
        { &b->act, pairs * c->ff_dim * 2, "gated values" },
        { &b->turns, r * c->rope_dim * 4, "rotations" },
        { &b->logits, (uint64_t) b->logits_rows * c->n_vocab * 4, "logits" },
        { &b->freqs, c->rope_dim / 2 * 8ull, "frequencies" },
        { &b->workspace, MST_CUDA_WORKSPACE, "the library's workspace" },
        { &b->staged, b->staged_size, "a step" }
    };

    for (i = 0; i < sizeof(wishes) / sizeof(*wishes); i++) {
        p = mst_cuda_take(b, wishes[i].size, wishes[i].what, err);

        if (p == NULL) {
            return MST_ERROR;
        }

        memcpy(wishes[i].to, &p, sizeof(void *));
    }

    for (i = 0; b->fast && i < b->n_windows; i++) {
        b->work[i] = mst_cuda_take(b, mst_cuda_work_size(b),
                                   "attention's work", err);
        if (b->work[i] == NULL) {
            return MST_ERROR;
        }
    }

    return mst_cuda_check(b, cudaMemcpyAsync(b->freqs, c->rope_freqs,
                                             c->rope_dim / 2 * 8ull,
                                             cudaMemcpyHostToDevice,
                                             b->stream),
                          "frequencies", err);
}


static int
mst_cuda_host(mst_backend_t *b, mst_err_t *err)
{
    uint32_t  i;

    b->host_logits = mst_cuda_pinned(b, (uint64_t) b->logits_rows
                                        * b->conf.n_vocab * 4, err);

    if (b->host_logits == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < MST_CUDA_STAGES; i++) {
        b->stages[i].host = mst_cuda_pinned(b, b->staged_size, err);

        if (b->stages[i].host == NULL
            || mst_cuda_check(b, cudaEventCreateWithFlags(
                                     &b->stages[i].copied,
                                     cudaEventDisableTiming),
                              "an event", err) != MST_OK
            || mst_cuda_check(b, cudaEventCreateWithFlags(
                                     &b->stages[i].done,
                                     cudaEventDisableTiming),
                              "an event", err) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_cuda_kv(mst_backend_t *b, mst_err_t *err)
{
    uint64_t                   left;
    const mst_backend_conf_t  *c;

    c = &b->conf;
    left = mst_cuda_left(b);
    b->info.n_blocks = (uint32_t) mst_cuda_size_kv(c, b->info.block_size,
                                                   left);

    if (b->info.n_blocks == 0) {
        return mst_err_set(err, "cuda:%u has no memory for the KV cache: %llu "
                           "MiB are asked for, a block of %u tokens has %llu "
                           "KiB, %llu of %llu MiB are left beside %llu MiB of "
                           "weights and buffers", c->device,
                           (unsigned long long) (c->kv_size >> 20),
                           MST_K_BLOCK,
                           (unsigned long long) (b->info.block_size >> 10),
                           (unsigned long long) (left >> 20),
                           (unsigned long long) (b->props.totalGlobalMem
                                                 >> 20),
                           (unsigned long long) (b->taken >> 20));
    }

    b->kv_layer = b->kv_block * b->info.n_blocks;
    b->kv = mst_cuda_take(b, b->kv_layer * c->n_layers, "the KV cache", err);

    return b->kv ? MST_OK : MST_ERROR;
}


int
mst_cuda_ready(mst_backend_t *b, mst_err_t *err)
{
    uint64_t             bytes, ns, spent;
    mst_backend_conf_t  *c;

    c = &b->conf;
    spent = mst_time_ns() - b->started;
    mst_cuda_ring_close(b, &bytes, &ns);
    b->q_dim = c->n_heads * c->head_dim;
    b->qkv_dim = b->q_dim + 2 * c->n_kv_heads * c->head_dim;
    b->rows = mst_k_bucket_rows(c->max_rows);
    b->seqs = mst_k_bucket_rows(c->max_seqs);
    b->rows = mst_cuda_max(b->rows, b->seqs);
    b->logits_rows = mst_cuda_max(b->seqs, MST_CUDA_LOGITS);
    b->logits_rows = mst_cuda_min(b->logits_rows, b->rows);
    b->max_blocks = (c->context + MST_K_BLOCK - 1) / MST_K_BLOCK;
    mst_cuda_sample_plan(b);
    b->staged_size = mst_cuda_staged_size(b);
    b->kv_block = mst_k_kv_block(c->n_kv_heads, c->head_dim, b->kv_type);
    b->info.block_tokens = MST_K_BLOCK;
    b->info.block_size = b->kv_block * c->n_layers;
    b->max_cmds = 6 * c->n_layers + 4;
    b->cmds = mst_calloc(b->max_cmds, sizeof(mst_cuda_cmd_t));

    if (b->cmds == NULL) {
        return mst_err_set(err, "out of memory for the CUDA backend");
    }

    if (mst_cuda_windows(b, err) != MST_OK
        || mst_cuda_rows(b, err) != MST_OK
        || mst_cuda_host(b, err) != MST_OK
        || mst_cuda_sample_init(b, err) != MST_OK
        || mst_cuda_gemm_init(b, err) != MST_OK
        || mst_cuda_quant_ready(b, err) != MST_OK
        || mst_cuda_fused_init(b, err) != MST_OK
        || mst_cuda_expert_init(b, err) != MST_OK
        || mst_cuda_kv(b, err) != MST_OK
        || mst_cuda_check(b, cudaStreamSynchronize(b->stream),
                          "loading weights", err) != MST_OK)
    {
        return MST_ERROR;
    }

    mst_log(c->log, MST_LOG_INFO, "cuda:%u: loaded %llu bytes in %.2f s, "
            "%.2f s of them copying, buffers in %.2f s", c->device,
            (unsigned long long) bytes, (double) spent / 1e9,
            (double) ns / 1e9,
            (double) (mst_time_ns() - b->started - spent) / 1e9);

    mst_log(c->log, MST_LOG_INFO, "cuda:%u: %s, %llu MiB of weights, decode "
            "kernels up to %u rows, kv_cache %s of %u blocks of %u tokens "
            "(%llu MiB)", c->device, b->props.name,
            (unsigned long long) (b->info.weight_size >> 20), b->fused_rows,
            b->kv_type == MST_K_KV_FP8 ? "fp8" : "bf16", b->info.n_blocks,
            b->info.block_tokens,
            (unsigned long long) (b->kv_layer * c->n_layers >> 20));

    /* batch_invariant does without the library */

    return c->batch_invariant ? MST_OK : mst_cuda_tune(b, err);
}
