
/*
 * A mixture of experts on the device: its norm and router, the products over
 * the lists that these make, the weighed sum (kernels/mst_k_moe.h).  Which
 * experts a row needs is known to the device alone.
 *
 * There is room for the pairs of a step that uses as many experts as the
 * model says; where a sequence uses more, its step is done in slices of rows.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_cuda.h"


uint64_t
mst_cuda_expert_pairs(const mst_backend_t *b)
{
    return mst_cuda_size_pairs(&b->conf, b->rows);
}


int
mst_cuda_expert_init(mst_backend_t *b, mst_err_t *err)
{
    void                      *p;
    size_t                     i;
    uint64_t                   pairs;
    mst_cuda_experts_t        *ex;
    const mst_backend_conf_t  *c;

    c = &b->conf;
    ex = &b->experts;

    if (c->n_experts == 0) {
        return MST_OK;
    }

    pairs = mst_cuda_expert_pairs(b);

    const struct {
        void      *to;             /* of a pointer */
        uint64_t   size;
    } wishes[] = {
        { &ex->expert, pairs * 4 },
        { &ex->weight, pairs * 4 },
        { &ex->first, (c->n_experts + 1) * 4ull },
        { &ex->pair, pairs * 4 },
        { &ex->place, pairs * 4 },
        { &ex->y, pairs * c->dim * 4 },
        { &ex->tables, 2ull * c->n_layers * c->n_experts * sizeof(void *) }
    };

    for (i = 0; i < sizeof(wishes) / sizeof(*wishes); i++) {
        p = mst_cuda_take(b, wishes[i].size, "experts", err);

        if (p == NULL) {
            return MST_ERROR;
        }

        memcpy(wishes[i].to, &p, sizeof(void *));
    }

    ex->layers = mst_calloc(c->n_layers, sizeof(mst_backend_layer_t *));

    return ex->layers ? MST_OK
                      : mst_err_set(err, "out of memory for the CUDA backend");
}


void
mst_cuda_expert_free(mst_backend_t *b)
{
    mst_free(b->experts.layers);
}


/* pointers to a layer's matrices: ups, then downs; NULL: there are none */

static const uint16_t **
mst_cuda_expert_table(const mst_backend_t *b, const mst_backend_layer_t *w)
{
    uint32_t  i;

    for (i = 0; i < b->experts.n_layers; i++) {
        if (b->experts.layers[i] == w) {
            return b->experts.tables + 2ull * i * b->conf.n_experts;
        }
    }

    return NULL;
}


static int
mst_cuda_expert_add(mst_backend_t *b, const mst_backend_layer_t *w)
{
    uint32_t     i, n;
    const void  *p[2 * MST_K_MOE_EXPERTS];

    n = b->conf.n_experts;

    for (i = 0; i < n; i++) {
        p[i] = w->experts_up[i]->w;
        p[n + i] = w->experts_down[i]->w;
    }

    b->experts.layers[b->experts.n_layers++] = w;

    return (int) cudaMemcpyAsync((void *) mst_cuda_expert_table(b, w), p,
                                 2ull * n * sizeof(void *),
                                 cudaMemcpyHostToDevice, b->stream);
}


void
mst_cuda_expert_meet(mst_backend_t *b)
{
    uint32_t               i, used;
    const mst_cuda_cmd_t  *cmd;

    if (b->conf.n_experts == 0) {
        return;
    }

    b->experts.stride = b->conf.n_used;

    for (i = 0; i < b->step.n_seqs; i++) {
        used = b->step.seqs[i].n_used;
        b->experts.stride = mst_cuda_max(b->experts.stride, used);
    }

    for (i = 0; i < b->n_cmds; i++) {
        cmd = &b->cmds[i];

        if (cmd->op == MST_CUDA_EXPERTS
            && mst_cuda_expert_table(b, cmd->w) == NULL)
        {
            mst_cuda_go(b, mst_cuda_expert_add(b, cmd->w));
        }
    }
}


static void
mst_cuda_expert_route(mst_backend_t *b, const mst_backend_layer_t *w,
    uint32_t first, uint32_t rows)
{
    mst_k_route_t        a = { 0 };
    mst_cuda_experts_t  *ex;

    ex = &b->experts;
    a.step = b->dev;
    a.h = b->h;
    a.gain = w->ffn_norm->f;
    a.router = w->router->f;
    a.x = b->x;
    a.expert = ex->expert;
    a.weight = ex->weight;
    a.first = ex->first;
    a.pair = ex->pair;
    a.place = ex->place;
    a.eps = b->conf.rms_eps;
    a.dim = b->conf.dim;
    a.n_experts = b->conf.n_experts;
    a.stride = ex->stride;
    a.row0 = first;
    a.rows = rows;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_route(&a, b->stream));
}


static void
mst_cuda_expert_products(mst_backend_t *b, const uint16_t *const *table,
    uint32_t rows)
{
    mst_k_list_t    a = { 0 };
    mst_k_swiglu_t  s = { 0 };

    a.ws = table;
    a.x = b->x;
    a.first = b->experts.first;
    a.pair = b->experts.pair;
    a.y = b->gate_up;
    a.out = MST_K_LIST_BF16;
    a.outputs = 2 * b->conf.ff_dim;
    a.width = b->conf.dim;
    a.lists = b->conf.n_experts;
    a.n_used = b->experts.stride;
    a.places = rows * b->experts.stride;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_list(&a, b->stream));

    s.gate_up = b->gate_up;
    s.y = b->act;
    s.ff_dim = b->conf.ff_dim;
    s.rows = a.places;
    s.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_swiglu(&s, b->stream));

    a.ws = table + b->conf.n_experts;
    a.x = b->act;
    a.pair = NULL;
    a.y = b->experts.y;
    a.out = MST_K_LIST_F32;
    a.outputs = b->conf.dim;
    a.width = b->conf.ff_dim;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_list(&a, b->stream));
}


static void
mst_cuda_expert_sum(mst_backend_t *b, uint32_t first, uint32_t rows)
{
    mst_k_moe_sum_t  a = { 0 };

    a.y = b->experts.y;
    a.expert = b->experts.expert;
    a.weight = b->experts.weight;
    a.place = b->experts.place;
    a.h = b->h;
    a.dim = b->conf.dim;
    a.stride = b->experts.stride;
    a.row0 = first;
    a.rows = rows;
    a.pdl = mst_cuda_pdl(b);

    mst_cuda_go(b, mst_k_moe_sum(&a, b->stream));
}


void
mst_cuda_expert(mst_backend_t *b, const mst_backend_layer_t *w)
{
    uint32_t  at, most, n;

    most = (uint32_t) (mst_cuda_expert_pairs(b) / b->experts.stride);

    for (at = 0; at < b->bucket.rows; at += n) {
        n = mst_cuda_min(most, b->bucket.rows - at);

        mst_cuda_expert_route(b, w, at, n);
        mst_cuda_expert_products(b, mst_cuda_expert_table(b, w), n);
        mst_cuda_expert_sum(b, at, n);
    }
}
