
/*
 * batch_invariant by the decode GEMMs: a row's result there depends on nothing
 * but its own inputs, up to MST_K_GEMM_MAX rows at a time.  A step of more is
 * run in slices of so many; attention alone sees all rows at once, and treats
 * each alike (kernels/mst_k_attn_map.h).
 */

#include "backend/mst_cuda.h"


/* what an operation sees of a step */
typedef struct {
    uint32_t   rows;
    float     *h;
    uint16_t  *qkv;
    uint16_t  *mix;
    float     *logits;
} mst_cuda_slice_t;


static mst_cuda_slice_t
mst_cuda_slice_cut(mst_backend_t *b, uint32_t first, uint32_t n)
{
    mst_cuda_slice_t  all;

    all.rows = b->bucket.rows;
    all.h = b->h;
    all.qkv = b->qkv;
    all.mix = b->mix;
    all.logits = b->logits;

    b->bucket.rows = n;
    b->h += (size_t) first * b->conf.dim;
    b->qkv += (size_t) first * b->qkv_dim;
    b->mix += (size_t) first * b->q_dim;

    return all;
}


static void
mst_cuda_slice_end(mst_backend_t *b, const mst_cuda_slice_t *all)
{
    b->bucket.rows = all->rows;
    b->h = all->h;
    b->qkv = all->qkv;
    b->mix = all->mix;
    b->logits = all->logits;
}


static void
mst_cuda_slice_mix(mst_backend_t *b)
{
    mst_k_block_rows_t  a = { 0 };

    a.from = b->mix;
    a.to = b->fused.mix;
    a.width = b->q_dim;
    a.n = b->bucket.rows;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_block_rows(&a, b->stream));
}


/* operations from "at" up to the next attention; returns its number */

static uint32_t
mst_cuda_slice_run(mst_backend_t *b, uint32_t at, uint32_t first, uint32_t n)
{
    mst_cuda_slice_t  all;

    all = mst_cuda_slice_cut(b, first, n);

    if (at == 0) {
        mst_cuda_fused_start(b, at++);

    } else {
        mst_cuda_slice_mix(b);
    }

    for ( /* void */ ; at < b->n_cmds && b->cmds[at].op != MST_CUDA_ATTEND;
         at++)
    {
        mst_cuda_fused_run(b, at);
    }

    mst_cuda_fused_end(b);
    mst_cuda_slice_end(b, &all);

    return at;
}


void
mst_cuda_slice_chain(mst_backend_t *b)
{
    uint32_t  at, first, n, next;

    mst_cuda_chain_embed(b, b->cmds[0].matrix);

    for (at = 0; at < b->n_cmds; at = next) {

        if (b->cmds[at].op == MST_CUDA_ATTEND) {
            mst_cuda_chain_attend(b, b->cmds[at].layer, b->mix,
                                  MST_K_OUT_BF16);
            at++;
        }

        next = at;

        for (first = 0; first < b->bucket.rows; first += n) {
            n = mst_cuda_min(b->bucket.rows - first, MST_K_GEMM_MAX);
            next = mst_cuda_slice_run(b, at, first, n);
        }
    }
}


void
mst_cuda_slice_head(mst_backend_t *b, const mst_cuda_cmd_t *cmd,
    uint32_t first, uint32_t n)
{
    uint32_t  at, k;
    float    *logits;

    logits = b->logits;

    for (at = 0; at < n; at += k) {
        k = mst_cuda_min(n - at, MST_K_GEMM_MAX);
        b->logits = logits + (size_t) at * b->conf.n_vocab;
        mst_cuda_fused_head(b, cmd, first + at, k);
    }

    b->logits = logits;
}
