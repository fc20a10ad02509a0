
/*
 * A step by the decode GEMMs (kernels/mst_k_gemm.h): an operation is one
 * kernel, with its norm, its gate and its addition to the residual stream;
 * each starts to fetch its weights while its predecessor ends.
 *
 * Whoever adds to h also writes the x of the next norm, so an operation has
 * to know which one that is.
 */

#include <string.h>

#include "backend/mst_cuda.h"


static int
mst_cuda_fused_e4m3(const mst_matrix_t *m)
{
    return m && m->type->e4m3;
}


void
mst_cuda_fused_end(mst_backend_t *b)
{
    mst_cuda_go(b, mst_cuda_quant_go(b));
}


static void
mst_cuda_fused_go(mst_backend_t *b, const mst_matrix_t *m, mst_k_gemm_t *a)
{
    a->n = a->n ? a->n : b->bucket.rows;
    a->rows = m->rows;
    a->width = m->width;
    a->eps = b->conf.rms_eps;
    a->work = b->fused.work;
    a->tickets = b->fused.tickets;
    a->pdl = mst_cuda_pdl(b);

    if (m->n_runs == 0) {
        mst_cuda_fused_end(b);
    }

    mst_cuda_go(b, m->type->fused(b, m, a));
}


/* the first x of a step, or of the rows that pick names */

static void
mst_cuda_fused_first(mst_backend_t *b, const mst_vector_t *norm,
    const mst_matrix_t *m, const int32_t *pick, uint32_t n)
{
    mst_k_gemm_first_t  a = { 0 };

    mst_cuda_fused_end(b);

    a.n = n;
    a.dim = b->conf.dim;
    a.pick = (const uint32_t *) pick;
    a.h = b->h;
    a.gain = norm->f;
    a.y = b->fused.x;
    a.y_sums = b->fused.sums[0];
    a.y_muls = b->fused.muls[0];
    a.y_e4m3 = mst_cuda_fused_e4m3(m);
    a.eps = b->conf.rms_eps;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_gemm_first(&a, b->stream));
}


static void
mst_cuda_fused_qkv(mst_backend_t *b, const mst_backend_layer_t *w)
{
    mst_k_gemm_t  a = { 0 };

    a.op = MST_K_GEMM_QKV;
    a.x = b->fused.x;
    a.x_sums = b->fused.sums[0];
    a.x_muls = b->fused.muls[0];
    a.y = b->qkv;

    mst_cuda_fused_go(b, w->qkv, &a);
    mst_cuda_fused_end(b);
    mst_cuda_chain_bias(b, w);
}


/* attention leaves what pads the width of its outputs as it was */

static void
mst_cuda_fused_pad(mst_backend_t *b, uint32_t size)
{
    size_t    from, all;
    uint32_t  pad;

    pad = mst_k_gemm_pad(b->bucket.rows);
    from = (size_t) b->q_dim * size / 128 * 128 * pad;
    all = mst_k_gemm_x_size(pad, b->q_dim, size);

    if (b->q_dim * size % MST_K_GEMM_SLOT) {
        mst_cuda_go(b, cudaMemsetAsync((char *) b->fused.mix + from, 0,
                                       all - from, b->stream));
        b->pdl = 0;
    }
}


static void
mst_cuda_fused_attend(mst_backend_t *b, uint32_t i)
{
    int  e4m3;

    /* out comes next */
    e4m3 = i + 1 < b->n_cmds && b->cmds[i + 1].op == MST_CUDA_OUT
           && mst_cuda_fused_e4m3(b->cmds[i + 1].w->out);

    mst_cuda_fused_pad(b, e4m3 ? 1 : 2);
    mst_cuda_chain_attend(b, b->cmds[i].layer, b->fused.mix,
                          e4m3 ? MST_K_OUT_FP8_LINES : MST_K_OUT_BF16_LINES);
}


/* h += m x; sums of the norm before in "from" */

static void
mst_cuda_fused_add(mst_backend_t *b, const mst_matrix_t *m, mst_k_gemm_t *a,
    uint32_t from, mst_cuda_next_t next)
{
    a->op = MST_K_GEMM_RESIDUAL;
    a->x_sums = b->fused.sums[from];
    a->y = b->fused.x;
    a->h = b->h;
    a->gain = next.norm->f;
    a->y_sums = b->fused.sums[!from];
    a->y_muls = b->fused.muls[!from];
    a->y_e4m3 = mst_cuda_fused_e4m3(next.m);

    mst_cuda_fused_go(b, m, a);
}


static void
mst_cuda_fused_out(mst_backend_t *b, uint32_t i)
{
    mst_k_gemm_t                a = { 0 };
    const mst_backend_layer_t  *w;

    w = b->cmds[i].w;
    a.x = b->fused.mix;
    a.x_mul = MST_CUDA_MIX_MUL;
    a.bias = w->out_bias ? w->out_bias->f : NULL;

    mst_cuda_fused_add(b, w->out, &a, 0, mst_cuda_chain_next(b, i));
}


static void
mst_cuda_fused_gate_up(mst_backend_t *b, const mst_backend_layer_t *w)
{
    mst_k_gemm_t  a = { 0 };

    a.op = MST_K_GEMM_GATE_UP;
    a.x = b->fused.x;
    a.x_sums = b->fused.sums[1];
    a.x_muls = b->fused.muls[1];
    a.bias = w->gate_bias ? w->gate_bias->f : NULL;
    a.bias_up = w->up_bias ? w->up_bias->f : NULL;
    a.y = b->fused.act;
    a.y_mul = MST_CUDA_ACT_MUL;
    a.y_e4m3 = mst_cuda_fused_e4m3(w->down);

    mst_cuda_fused_go(b, w->gate_up, &a);
}


static void
mst_cuda_fused_down(mst_backend_t *b, uint32_t i)
{
    mst_k_gemm_t                a = { 0 };
    mst_cuda_next_t             next;
    const mst_backend_layer_t  *w;

    w = b->cmds[i].w;
    a.x = b->fused.act;
    a.x_mul = MST_CUDA_ACT_MUL;
    a.bias = w->down_bias ? w->down_bias->f : NULL;
    next = mst_cuda_chain_next(b, i);

    /* the last one of a step that wants no logits */

    if (next.norm == NULL) {
        next.norm = w->ffn_norm;
    }

    mst_cuda_fused_add(b, w->down, &a, 1, next);
}


void
mst_cuda_fused_head(mst_backend_t *b, const mst_cuda_cmd_t *cmd,
    uint32_t first, uint32_t n)
{
    mst_k_gemm_t  a = { 0 };

    mst_cuda_fused_first(b, cmd->norm, cmd->matrix, b->dev.wanted + first, n);

    a.op = MST_K_GEMM_HEAD;
    a.n = n;
    a.x = b->fused.x;
    a.x_sums = b->fused.sums[0];
    a.x_muls = b->fused.muls[0];
    a.y = b->logits;
    a.pitch = b->conf.n_vocab;

    mst_cuda_fused_go(b, cmd->matrix, &a);
    mst_cuda_fused_end(b);
}


void
mst_cuda_fused_start(mst_backend_t *b, uint32_t i)
{
    mst_cuda_next_t  next;

    next = mst_cuda_chain_next(b, i);
    mst_cuda_fused_first(b, next.norm, next.m, NULL, b->bucket.rows);
}


void
mst_cuda_fused_run(mst_backend_t *b, uint32_t i)
{
    const mst_cuda_cmd_t  *cmd;

    cmd = &b->cmds[i];

    switch (cmd->op) {

    case MST_CUDA_EMBED:
        mst_cuda_chain_embed(b, cmd->matrix);
        mst_cuda_fused_start(b, i);
        break;

    case MST_CUDA_QKV:
        mst_cuda_fused_qkv(b, cmd->w);
        break;

    case MST_CUDA_ATTEND:
        mst_cuda_fused_attend(b, i);
        break;

    case MST_CUDA_OUT:
        mst_cuda_fused_out(b, i);
        break;

    case MST_CUDA_GATE_UP:
        mst_cuda_fused_gate_up(b, cmd->w);
        break;

    case MST_CUDA_DOWN:
        mst_cuda_fused_down(b, i);
        break;

    case MST_CUDA_EXPERTS:
    case MST_CUDA_HEAD:
        break;
    }
}


/* rows of a step that every matrix takes; 0: one is none of theirs */

static uint32_t
mst_cuda_fused_most(const mst_backend_t *b)
{
    uint32_t             most;
    const mst_matrix_t  *m;

    most = MST_K_GEMM_MAX;

    for (m = b->matrices; m; m = m->next) {
        /* batch_invariant has no other way for more rows */

        if (!b->conf.batch_invariant) {
            most = mst_cuda_min(most, m->rows == b->conf.n_vocab
                                      ? m->type->head_rows
                                      : m->type->fused_rows);
        }

        if (m->width % 64 || (m->rows != b->conf.n_vocab && m->rows % 16)) {
            most = 0;
        }
    }

    return b->fast && b->props.major == 9 && b->conf.n_experts == 0
           && b->conf.dim <= MST_K_GEMM_DIM ? most : 0;
}


/* of all tiles that matrices want beside what they have */

static uint64_t
mst_cuda_fused_tiles(const mst_backend_t *b)
{
    uint64_t             size;
    const mst_matrix_t  *m;

    size = 0;

    for (m = b->matrices; m; m = m->next) {
        size += m->type->tiles_size(m);
    }

    return size;
}


int
mst_cuda_fused_room(mst_backend_t *b, uint64_t size)
{
    return mst_cuda_size_twice(&b->conf, b->info.block_size,
                               mst_cuda_left(b), size);
}


static int
mst_cuda_fused_pack(mst_backend_t *b, mst_err_t *err)
{
    uint64_t       size;
    mst_matrix_t  *m;

    for (m = b->matrices; m; m = m->next) {
        size = m->type->tiles_size(m);

        if (size == 0) {
            continue;
        }

        m->tiles = mst_cuda_take(b, size, "a matrix in tiles", err);

        if (m->tiles == NULL
            || (m->scale
                && (m->tile_scale = mst_cuda_take(b,
                        mst_k_gemm_units(m->rows) * MST_K_GEMM_UNIT * 4,
                        "a matrix' scales", err)) == NULL)
            || mst_cuda_check(b, m->type->pack(b, m), "packing weights", err)
               != MST_OK)
        {
            return MST_ERROR;
        }

        b->info.weight_size += size;
    }

    return MST_OK;
}


static int
mst_cuda_fused_buffers(mst_backend_t *b, mst_err_t *err)
{
    void                      *p;
    size_t                     i;
    uint32_t                   most;
    mst_cuda_fused_t          *f;
    const mst_backend_conf_t  *c;

    c = &b->conf;
    f = &b->fused;
    most = mst_cuda_max(b->qkv_dim, c->dim);

    struct {
        void    *to;               /* of a pointer */
        size_t   size;
    } wishes[] = {
        { &f->x, mst_k_gemm_x_size(MST_K_GEMM_MAX, c->dim, 2) },
        { &f->mix, mst_k_gemm_x_size(MST_K_GEMM_MAX, b->q_dim, 2) },
        { &f->act, mst_k_gemm_x_size(MST_K_GEMM_MAX, c->ff_dim, 2) },
        { &f->sums[0], mst_k_gemm_sums_size(c->dim) * 4 },
        { &f->sums[1], mst_k_gemm_sums_size(c->dim) * 4 },
        { &f->muls[0], MST_K_GEMM_MAX * 4 },
        { &f->muls[1], MST_K_GEMM_MAX * 4 },
        { &f->work, mst_k_gemm_work_size(most, MST_K_GEMM_MAX) },
        { &f->tickets, mst_k_gemm_passes(most) * MST_K_GEMM_SLABS * 4 },
        { &f->met, 4 }
    };

    for (i = 0; i < sizeof(wishes) / sizeof(*wishes); i++) {
        p = mst_cuda_take(b, wishes[i].size, "decode's buffers", err);

        if (p == NULL) {
            return MST_ERROR;
        }

        memcpy(wishes[i].to, &p, sizeof(void *));
    }

    return MST_OK;
}


int
mst_cuda_fused_init(mst_backend_t *b, mst_err_t *err)
{
    uint32_t  most;
    uint64_t  size;

    most = mst_cuda_fused_most(b);
    size = mst_cuda_fused_tiles(b);

    if (most == 0 || (size && !mst_cuda_fused_room(b, size))) {
        return MST_OK;
    }

    if (mst_cuda_fused_buffers(b, err) != MST_OK
        || mst_cuda_fused_pack(b, err) != MST_OK)
    {
        return MST_ERROR;
    }

    b->fused_rows = most;

    return MST_OK;
}
