
/*
 * The operations of a step on the stream: library GEMMs with small kernels
 * between them, or the decode GEMMs (mst_cuda_fused.c) where these are the
 * better choice.
 */

#include <string.h>

#include "backend/mst_cuda.h"


int
mst_cuda_pdl(mst_backend_t *b)
{
    int  pdl;

    pdl = b->pdl;
    b->pdl = b->props.major == 9;

    return pdl;
}


mst_cuda_next_t
mst_cuda_chain_next(const mst_backend_t *b, uint32_t i)
{
    mst_cuda_next_t        next = { NULL, NULL };
    const mst_cuda_cmd_t  *cmd;

    if (++i == b->n_cmds) {
        return next;
    }

    cmd = &b->cmds[i];

    if (cmd->op == MST_CUDA_QKV) {
        next.norm = cmd->w->attn_norm;
        next.m = cmd->w->qkv;

    } else if (cmd->op == MST_CUDA_GATE_UP) {
        next.norm = cmd->w->ffn_norm;
        next.m = cmd->w->gate_up;

    } else if (cmd->op == MST_CUDA_HEAD) {
        next.norm = cmd->norm;
    }

    return next;
}


/* y[row][first ..] += bias, which may be NULL */

static void
mst_cuda_bias(mst_backend_t *b, void *y, uint64_t pitch,
    const mst_vector_t *bias, int bf16)
{
    mst_k_bias_t  a = { 0 };

    if (bias == NULL) {
        return;
    }

    a.y = y;
    a.pitch = pitch;
    a.bias = bias->f;
    a.width = bias->n;
    a.rows = b->bucket.rows;
    a.bf16 = bf16;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_bias(&a, b->stream));
}


void
mst_cuda_chain_bias(mst_backend_t *b, const mst_backend_layer_t *w)
{
    uint32_t  kv_dim;

    kv_dim = b->conf.n_kv_heads * b->conf.head_dim;

    mst_cuda_bias(b, b->qkv, b->qkv_dim, w->q_bias, 1);
    mst_cuda_bias(b, b->qkv + b->q_dim, b->qkv_dim, w->k_bias, 1);
    mst_cuda_bias(b, b->qkv + b->q_dim + kv_dim, b->qkv_dim, w->v_bias, 1);
}


void
mst_cuda_chain_embed(mst_backend_t *b, const mst_matrix_t *embd)
{
    mst_k_embed_t  a = { 0 };

    mst_cuda_plan(b);

    a.step = b->dev;
    a.embd = embd->type->embed ? NULL : embd->w;
    a.fed = b->sampler.fed;
    a.h = b->h;
    a.freqs = b->freqs;
    a.turns = b->turns;
    a.rope_scale = b->conf.rope_scale != 0 ? b->conf.rope_scale : 1;
    a.rope_dim = b->conf.rope_dim;
    a.dim = b->conf.dim;
    a.rows = b->bucket.rows;
    a.n_vocab = b->conf.n_vocab;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_embed(&a, b->stream));

    if (embd->type->embed) {
        mst_cuda_go(b, embd->type->embed(b, embd));
    }
}


static void
mst_cuda_plain(mst_backend_t *b, uint32_t layer)
{
    mst_k_plain_t  a = { 0 };

    a.step = b->dev;
    a.qkv = b->qkv;
    a.turns = b->turns;
    a.kv = (uint16_t *) (b->kv + layer * b->kv_layer);
    a.out = b->mix;
    a.block_stride = b->kv_block / 2;
    a.rows = b->bucket.rows;
    a.n_heads = b->conf.n_heads;
    a.n_kv_heads = b->conf.n_kv_heads;
    a.head_dim = b->conf.head_dim;
    a.rope_dim = b->conf.rope_dim;
    a.window = b->windows[b->window[layer]];

    mst_cuda_go(b, mst_k_plain_rope(&a, b->stream));
    mst_cuda_go(b, mst_k_plain_attn(&a, b->stream));
}


/* are there sequences of one row?  A step that is recorded has nothing else */

static int
mst_cuda_single(const mst_backend_t *b)
{
    uint32_t  i;

    for (i = 0; i < b->step.n_seqs; i++) {
        if (b->step.seqs[i].n == 1) {
            return 1;
        }
    }

    return b->decode;
}


void
mst_cuda_chain_attend(mst_backend_t *b, uint32_t layer, void *out,
    mst_k_out_t out_type)
{
    mst_k_attn_t  a = { 0 };

    if (!b->fast) {
        mst_cuda_plain(b, layer);
        return;
    }

    mst_cuda_planned(b);

    a.step = b->dev;
    a.shape = b->shape;
    a.window = b->windows[b->window[layer]];
    a.work = b->work[b->window[layer]];
    a.qkv = b->qkv;
    a.turns = b->turns;
    a.pairs = b->conf.rope_dim / 2;
    a.kv = b->kv + layer * b->kv_layer;
    a.block_stride = b->kv_block;
    a.kv_type = b->kv_type;
    a.out = out;
    a.out_type = out_type;
    a.out_scale = MST_CUDA_MIX_MUL;
    a.out_rows = mst_k_gemm_pad(b->bucket.rows);

    if (!b->decode || a.shape.invariant) {
        a.pdl = mst_cuda_pdl(b);
        mst_cuda_go(b, mst_k_attn_rope(&a, b->stream));
        a.pdl = mst_cuda_pdl(b);
        mst_cuda_go(b, mst_k_attn_prefill(&a, b->stream));
    }

    if (!a.shape.invariant && mst_cuda_single(b)) {
        a.pdl = mst_cuda_pdl(b);
        mst_cuda_go(b, mst_k_attn_decode(&a, b->stream));
    }
}


/* the library's kernels neither start early nor let others */

static void
mst_cuda_product(mst_backend_t *b, const mst_matrix_t *m, const void *x,
    void *y, uint32_t n, mst_cuda_out_t out)
{
    if (b->conf.batch_invariant) {
        mst_cuda_go(b, mst_cuda_list(b, m, x, y, n, out));
        return;
    }

    mst_cuda_go(b, m->type->plain(b, m, x, y, n, out));
    b->pdl = 0;
}


/* x of a matrix of e4m3, from rows of bf16 */

static void
mst_cuda_e4m3_rows(mst_backend_t *b, const uint16_t *from, uint32_t width)
{
    mst_k_e4m3_rows_t  a = { 0 };

    a.from = from;
    a.to = (uint8_t *) b->x;
    a.scale = b->x_scale;
    a.width = width;
    a.rows = b->bucket.rows;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_e4m3_rows(&a, b->stream));
}


/* h += what is in gate_up, of m (NULL: nothing is); x of the next norm */

static void
mst_cuda_e4m3_norm(mst_backend_t *b, const mst_matrix_t *m,
    const mst_vector_t *bias, const mst_vector_t *gain)
{
    mst_k_e4m3_norm_t  a = { 0 };

    a.h = b->h;
    a.y = m ? b->gate_up : NULL;
    a.y_scale = m ? m->scale : NULL;
    a.y_mul = m && b->mixed ? 1 / MST_CUDA_MIX_MUL : 0;
    a.bias = bias ? bias->f : NULL;
    a.gain = gain ? gain->f : NULL;
    a.to = gain ? (uint8_t *) b->x : NULL;
    a.scale = b->x_scale;
    a.eps = b->conf.rms_eps;
    a.dim = b->conf.dim;
    a.rows = b->bucket.rows;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_e4m3_norm(&a, b->stream));
}


/* h += what is in gate_up, in parts; x of next's norm */

static void
mst_cuda_sum(mst_backend_t *b, const mst_vector_t *bias, mst_cuda_next_t next)
{
    mst_k_norm_t  a = { 0 };

    a.h = b->h;
    a.y = (const float *) b->gate_up;
    a.bias = bias ? bias->f : NULL;
    a.gain = next.norm ? next.norm->f : NULL;
    a.x = next.norm ? b->x : NULL;
    a.eps = b->conf.rms_eps;
    a.dim = b->conf.dim;
    a.rows = b->bucket.rows;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_norm(&a, b->stream));
}


static void
mst_cuda_norm(mst_backend_t *b, const mst_vector_t *gain,
    const int32_t *pick, uint32_t n)
{
    mst_k_norm_t  a = { 0 };

    a.h = b->h;
    a.gain = gain->f;
    a.x = b->x;
    a.pick = pick;
    a.eps = b->conf.rms_eps;
    a.dim = b->conf.dim;
    a.rows = n;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_norm(&a, b->stream));
}


/* y = m times the norm of h */

static void
mst_cuda_normed(mst_backend_t *b, const mst_matrix_t *m,
    const mst_vector_t *gain, void *y)
{
    if (b->normed) {
        b->normed = 0;

    } else if (m->type->e4m3) {
        mst_cuda_e4m3_norm(b, NULL, NULL, gain);

    } else {
        mst_cuda_norm(b, gain, NULL, b->bucket.rows);
    }

    mst_cuda_product(b, m, b->x, y, b->bucket.rows, MST_CUDA_BF16);
}


static void
mst_cuda_qkv(mst_backend_t *b, const mst_cuda_cmd_t *cmd)
{
    mst_cuda_normed(b, cmd->w->qkv, cmd->w->attn_norm, b->qkv);
    mst_cuda_chain_bias(b, cmd->w);
}


/* h += m x by cmds[i] */

static void
mst_cuda_add(mst_backend_t *b, uint32_t i, const mst_matrix_t *m,
    const uint16_t *x, const mst_vector_t *bias)
{
    mst_cuda_out_t   out;
    mst_cuda_next_t  next;

    out = m->type->e4m3 ? MST_CUDA_RAW
                        : mst_cuda_gemm_adds(b, m, b->bucket.rows);

    if (out == MST_CUDA_ADD) {
        mst_cuda_product(b, m, x, b->h, b->bucket.rows, out);
        mst_cuda_bias(b, b->h, b->conf.dim, bias, 0);
        return;
    }

    /* what adds the product is the next norm, if x is of the same type there */

    next = mst_cuda_chain_next(b, i);
    b->normed = next.m && next.m->type->e4m3 == m->type->e4m3;

    if (!b->normed) {
        next.norm = NULL;
    }

    mst_cuda_product(b, m, x, b->gate_up, b->bucket.rows, out);

    if (out == MST_CUDA_RAW) {
        mst_cuda_e4m3_norm(b, m, bias, next.norm);

    } else {
        mst_cuda_sum(b, bias, next);
    }
}


/* where all rows decode, attention writes e4m3 of a constant scale itself, as
   it does for the decode GEMMs: a kernel less in each layer */

static void
mst_cuda_attend(mst_backend_t *b, uint32_t i)
{
    b->mixed = b->decode && b->fast && i + 1 < b->n_cmds
               && b->cmds[i + 1].op == MST_CUDA_OUT
               && b->cmds[i + 1].w->out->type->e4m3;

    mst_cuda_chain_attend(b, b->cmds[i].layer, b->mix,
                          b->mixed ? MST_K_OUT_FP8 : MST_K_OUT_BF16);
}


static void
mst_cuda_out(mst_backend_t *b, uint32_t i)
{
    int                         e4m3;
    const mst_backend_layer_t  *w;

    w = b->cmds[i].w;
    e4m3 = w->out->type->e4m3;

    if (e4m3 && !b->mixed) {
        mst_cuda_e4m3_rows(b, b->mix, b->q_dim);
    }

    mst_cuda_add(b, i, w->out, e4m3 && !b->mixed ? b->x : b->mix,
                 w->out_bias);
    b->mixed = 0;
}


static void
mst_cuda_gate_e4m3(mst_backend_t *b, const float *gate_bias,
    const float *up_bias)
{
    mst_k_e4m3_gate_t  a = { 0 };

    a.gate_up = b->gate_up;
    a.gate_bias = gate_bias;
    a.up_bias = up_bias;
    a.to = (uint8_t *) b->act;
    a.scale = b->x_scale;
    a.ff_dim = b->conf.ff_dim;
    a.rows = b->bucket.rows;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_e4m3_gate(&a, b->stream));
}


static void
mst_cuda_gate_up(mst_backend_t *b, const mst_backend_layer_t *w)
{
    const float     *gate_bias, *up_bias;
    mst_k_swiglu_t   a = { 0 };

    gate_bias = w->gate_bias ? w->gate_bias->f : NULL;
    up_bias = w->up_bias ? w->up_bias->f : NULL;

    mst_cuda_normed(b, w->gate_up, w->ffn_norm, b->gate_up);

    if (w->down->type->e4m3) {
        mst_cuda_gate_e4m3(b, gate_bias, up_bias);
        return;
    }

    a.gate_up = b->gate_up;
    a.gate_bias = gate_bias;
    a.up_bias = up_bias;
    a.y = b->act;
    a.ff_dim = b->conf.ff_dim;
    a.rows = b->bucket.rows;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_swiglu(&a, b->stream));
}


void
mst_cuda_head(mst_backend_t *b, uint32_t first, uint32_t n)
{
    const mst_cuda_cmd_t  *cmd;

    cmd = &b->cmds[b->n_cmds - 1];

    if (b->fused_rows && b->conf.batch_invariant) {
        mst_cuda_slice_head(b, cmd, first, n);
        return;
    }

    if (n <= b->fused_rows) {
        mst_cuda_fused_head(b, cmd, first, n);
        return;
    }

    mst_cuda_norm(b, cmd->norm, b->dev.wanted + first, n);
    mst_cuda_product(b, cmd->matrix, b->x, b->logits, n, MST_CUDA_F32);
}


static void
mst_cuda_chain_run(mst_backend_t *b, uint32_t i)
{
    const mst_cuda_cmd_t  *cmd;

    cmd = &b->cmds[i];

    switch (cmd->op) {

    case MST_CUDA_EMBED:
        mst_cuda_chain_embed(b, cmd->matrix);
        break;

    case MST_CUDA_QKV:
        mst_cuda_qkv(b, cmd);
        break;

    case MST_CUDA_ATTEND:
        mst_cuda_attend(b, i);
        break;

    case MST_CUDA_OUT:
        mst_cuda_out(b, i);
        break;

    case MST_CUDA_GATE_UP:
        mst_cuda_gate_up(b, cmd->w);
        break;

    case MST_CUDA_EXPERTS:
        mst_cuda_expert(b, cmd->w);
        break;

    case MST_CUDA_DOWN:
        mst_cuda_add(b, i, cmd->w->down, b->act, cmd->w->down_bias);
        break;

    case MST_CUDA_HEAD:
        break;
    }
}


void
mst_cuda_chain(mst_backend_t *b)
{
    int       fused;
    uint32_t  i;

    b->pdl = 0;
    b->normed = 0;
    b->mixed = 0;

    if (b->fused_rows && b->conf.batch_invariant) {
        mst_cuda_slice_chain(b);
        return;
    }

    /*
     * In e4m3 the decode GEMMs have one scale for all gated values.  Those of
     * a prompt's first token, which others attend to as to nothing, may be
     * hundreds of times as large (3,065 in a layer of SmolLM2, of which 448 was
     * left): prompts take the way with a scale for each row.
     */

    fused = b->bucket.rows <= b->fused_rows
            && (b->decode || b->conf.dtype != MST_DTYPE_FP8);

    for (i = 0; i < b->n_cmds; i++) {
        if (fused) {
            mst_cuda_fused_run(b, i);

        } else {
            mst_cuda_chain_run(b, i);
        }
    }

    mst_cuda_fused_end(b);
}
