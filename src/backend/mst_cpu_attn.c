
/*
 * Attention: rotation and storing of q, k, v, and the walk of each query
 * over the blocks of its sequence.
 *
 * A query's sums run over the blocks in order with a running maximum, so its
 * bits are a function of the sequence alone.  A unit is a few rows of one
 * sequence with all query heads of one KV head: its keys and values are
 * loaded once for all of them.  With fewer units than threads can share
 * (one stream), the heads themselves are shared out.
 */

#include <math.h>
#include <string.h>

#include "backend/mst_cpu.h"

#define MST_CPU_ATTN_ROWS  16      /* of a unit at most */
#define MST_CPU_ATTN_FEW   4       /* units per thread, below it heads are
                                      shared out */


static unsigned char *
mst_cpu_attn_head(mst_backend_t *b, unsigned char *block, uint32_t layer,
    uint32_t head)
{
    return block + ((size_t) layer * b->conf.n_kv_heads + head)
                   * b->kv_head_size;
}


/* n outputs of part 0, 1, 2 (q, k, v) of one row, from output r on */

static void
mst_cpu_attn_store(mst_backend_t *b, uint32_t layer, uint32_t part,
    uint32_t row, uint32_t r, uint32_t n, const float *y)
{
    float     *q;
    uint32_t   dim, head, i;

    head = r / b->conf.head_dim;
    dim = r % b->conf.head_dim;

    for (i = 0; i < n; i++) {

        if (part == 0) {
            q = b->q + ((size_t) (head / b->group) * b->step.n_rows + row)
                       * b->group * b->conf.head_dim;
            q[(head % b->group) * b->conf.head_dim + dim] = y[i];

        } else {
            mst_cpu_kv_store_one(b, mst_cpu_attn_head(b, b->row_kv[row],
                                                      layer, head),
                                 part == 2, b->pos[row] % MST_CPU_KV, dim,
                                 y[i]);
        }

        if (++dim == b->conf.head_dim) {
            dim = 0;
            head++;
        }
    }
}


/* the same where all lanes belong to one head */

static void
mst_cpu_attn_store_head(mst_backend_t *b, uint32_t layer, uint32_t part,
    uint32_t row, uint32_t r, const float *y)
{
    float     *q;
    uint32_t   dim, head;

    head = r / b->conf.head_dim;
    dim = r % b->conf.head_dim;

    if (part == 0) {
        q = b->q + (((size_t) (head / b->group) * b->step.n_rows + row)
                    * b->group + head % b->group) * b->conf.head_dim + dim;
        memcpy(q, y, MST_CPU_LANES * sizeof(float));
        return;
    }

    mst_cpu_kv_store(b, mst_cpu_attn_head(b, b->row_kv[row], layer, head),
                     part == 2, b->pos[row] % MST_CPU_KV, dim, y);
}


static void
mst_cpu_attn_rope(mst_backend_t *b, uint32_t row, uint32_t r, float scale,
    float *y)
{
    float         cs[MST_CPU_LANES], sn[MST_CPU_LANES];
    uint32_t      dim, i;
    const float  *turns;

    turns = b->turns + (size_t) row * 2 * b->stride;
    dim = r % b->conf.head_dim;

    if (b->conf.head_dim == b->stride) {
        b->isa->rope(y, turns + dim, turns + b->stride + dim, scale);
        return;
    }

    /* lanes of several heads */

    for (i = 0; i < MST_CPU_LANES; i++) {
        cs[i] = turns[dim];
        sn[i] = turns[b->stride + dim];
        dim = dim + 1 == b->conf.head_dim ? 0 : dim + 1;
    }

    b->isa->rope(y, cs, sn, scale);
}


/* outputs of a tile of q, k or v */

void
mst_cpu_attn_qkv(mst_backend_t *b, const mst_cpu_cmd_t *cmd, uint32_t unit,
    uint32_t row, uint32_t cols, float *y)
{
    uint32_t               c, i, n, part;
    const float           *bias;
    const mst_cpu_part_t  *p;

    p = cmd->matrix->parts;

    for (part = 0; unit >= p->n_tiles; part++, p++) {
        unit -= p->n_tiles;
    }

    unit *= MST_CPU_LANES;
    n = mst_cpu_min(MST_CPU_LANES, p->rows - unit);
    bias = cmd->bias[part] ? cmd->bias[part]->f + unit : NULL;

    for (c = 0; c < cols; c++, row++, y += MST_CPU_LANES) {

        for (i = 0; bias && i < MST_CPU_LANES; i++) {
            y[i] += bias[i];
        }

        if (part < 2) {
            mst_cpu_attn_rope(b, row, unit, part == 0 ? b->q_scale[row] : 1,
                              y);
        }

        if (b->conf.head_dim == b->stride) {
            mst_cpu_attn_store_head(b, cmd->layer, part, row, unit, y);

        } else {
            mst_cpu_attn_store(b, cmd->layer, part, row, unit, n, y);
        }
    }
}


/* the first token that a query at this position sees */

static uint32_t
mst_cpu_attn_first(const mst_backend_t *b, uint32_t layer, uint32_t pos)
{
    uint32_t  window;

    window = b->windows[layer];

    return window && pos >= window ? pos - window + 1 : 0;
}


/*
 * All blocks of a sequence against n queries that stand together: heads of
 * one row, or all heads of a unit's rows.  Positions rise, so those that do
 * not see a block's tokens yet stand in front, those whose window has left
 * it at the end.
 */

static void
mst_cpu_attn_walk(mst_backend_t *b, uint32_t layer, uint32_t head,
    const mst_cpu_unit_t *u, uint32_t per_row, mst_cpu_attend_t *a)
{
    size_t                    state_size;
    float                    *state;
    uint32_t                  block, *first, from, i, last, *limits, n, pos,
                              skip, start;
    const float              *q;
    unsigned char            *kv;
    const mst_backend_seq_t  *seq;

    seq = &b->step.seqs[u->seq];
    last = b->pos[u->row + u->n - 1];
    state_size = MST_CPU_STATE + b->stride;
    n = a->n;
    q = a->q;
    state = a->state;
    limits = (uint32_t *) (state + n * state_size);
    first = limits + n;
    start = mst_cpu_attn_first(b, layer, b->pos[u->row]) / MST_CPU_KV;

    for (block = start; block * MST_CPU_KV <= last; block++) {
        kv = mst_cpu_attn_head(b, b->kv + seq->blocks[block]
                                          * b->info.block_size, layer, head);
        skip = 0;

        for (i = 0; i < n; i++) {
            pos = b->pos[u->row + i / per_row];

            if (pos < block * MST_CPU_KV) {
                skip = i + 1;
                continue;
            }

            from = mst_cpu_attn_first(b, layer, pos);

            if (from >= (block + 1) * MST_CPU_KV) {
                break;
            }

            limits[i] = mst_cpu_min(MST_CPU_KV, pos - block * MST_CPU_KV + 1);
            first[i] = from > block * MST_CPU_KV ? from - block * MST_CPU_KV
                                                 : 0;
        }

        mst_cpu_kv_view(b, kv, a);
        a->q = q + (size_t) skip * b->conf.head_dim;
        a->state = state + skip * state_size;
        a->limit = limits + skip;
        a->first = b->windows[layer] ? first + skip : NULL;
        a->n = i - skip;
        b->isa->attend(a);
    }
}


/* query heads first .. first + n - 1 of KV head "head" for a unit's rows;
   n < group only where the unit is one row */

static void
mst_cpu_attn_unit(mst_backend_t *b, const mst_cpu_cmd_t *cmd,
    uint32_t thread, const mst_cpu_unit_t *u, uint32_t head, uint32_t first,
    uint32_t n)
{
    float             *state, *y;
    uint32_t           i, out, row;
    mst_cpu_attend_t   a;

    y = b->prepared[thread];
    state = b->states[thread];
    a.n = u->n * n;
    a.head_dim = b->conf.head_dim;
    a.stride = b->stride;
    a.state = state;
    a.q = b->q + (((size_t) head * b->step.n_rows + u->row) * b->group + first)
                 * a.head_dim;

    for (i = 0; i < a.n; i++) {
        memset(state + i * (MST_CPU_STATE + b->stride), 0,
               (MST_CPU_STATE + b->stride) * sizeof(float));
        state[i * (MST_CPU_STATE + b->stride)] = -INFINITY;
    }

    mst_cpu_attn_walk(b, cmd->layer, head, u, n, &a);

    for (i = 0; i < u->n * n; i++) {
        b->isa->attend_end(state, y, b->conf.head_dim);
        state += MST_CPU_STATE + b->stride;
        row = u->row + i / n;
        out = (head * b->group + first + i % n) * b->conf.head_dim;

        if (cmd->input) {
            mst_cpu_input_write(b, cmd->input, cmd->matrix->forms, row, out,
                                y, b->conf.head_dim);
        } else {
            memcpy(b->mix + (size_t) row * b->q_dim + out, y,
                   b->conf.head_dim * sizeof(float));
        }
    }
}


static uint64_t
mst_cpu_attn_cost(const mst_backend_t *b, uint32_t layer, uint32_t pos)
{
    return pos - mst_cpu_attn_first(b, layer, pos) + MST_CPU_KV;
}


/* one of as many shares as there are threads of the query heads of all units,
   each of one row, by the length of what they walk */

static void
mst_cpu_attn_share(mst_backend_t *b, const mst_cpu_cmd_t *cmd,
    uint32_t thread, uint32_t share)
{
    uint32_t         first, h, head, n, u;
    uint64_t         all, at, cost, from, to;
    mst_cpu_unit_t  *unit;

    all = 0;

    for (u = 0; u < b->n_units; u++) {
        all += mst_cpu_attn_cost(b, cmd->layer, b->pos[b->units[u].row])
               * b->conf.n_heads;
    }

    from = all * share / b->threads;
    to = all * (share + 1) / b->threads;
    at = 0;

    for (u = 0; u < b->n_units; u++) {
        unit = &b->units[u];
        cost = mst_cpu_attn_cost(b, cmd->layer, b->pos[unit->row]);

        for (head = 0; head < b->conf.n_kv_heads; head++) {
            first = 0;
            n = 0;

            for (h = 0; h < b->group; h++) {
                if (at >= from && at < to) {
                    first = n == 0 ? h : first;
                    n++;
                }

                at += cost;
            }

            if (n) {
                mst_cpu_attn_unit(b, cmd, thread, unit, head, first, n);
            }
        }
    }
}


static void
mst_cpu_attn_run(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t  at, total;

    (void) last;

    total = b->n_units * b->conf.n_kv_heads;

    if (total < MST_CPU_ATTN_FEW * b->threads
        && b->n_units == b->step.n_rows)
    {
        while (mst_cpu_take(cmd, b->threads, 1, &at)) {
            mst_cpu_attn_share(b, cmd, thread, at);
        }

        return;
    }

    /* the last rows of a sequence walk the longest way: they go first, the
       short ones fill up at the end */

    while (mst_cpu_take(cmd, total, 1, &at)) {
        at = total - 1 - at;
        mst_cpu_attn_unit(b, cmd, thread, &b->units[at / b->conf.n_kv_heads],
                          at % b->conf.n_kv_heads, 0, b->group);
    }
}


void
mst_cpu_attn(mst_backend_t *b, uint32_t layer, const mst_backend_layer_t *w)
{
    mst_cpu_cmd_t  *cmd;

    cmd = mst_cpu_cmd(b, mst_cpu_attn_run);
    cmd->layer = layer;
    cmd->matrix = w->out;

    /* digits are made of 32 outputs, which must lie in one head */

    if ((w->out->forms & MST_CPU_DIGIT_FORM) == 0
        || b->conf.head_dim % MST_CPU_BLOCK == 0)
    {
        b->in_out.rows = b->step.n_rows;
        cmd->input = &b->in_out;
    }
}


void
mst_cpu_attn_begin(mst_backend_t *b)
{
    uint32_t                  at, i, n, row, rows, s;
    mst_cpu_unit_t           *u;
    const mst_backend_seq_t  *seq;

    rows = b->step.n_rows * b->conf.n_kv_heads / (8 * b->threads);
    rows = mst_cpu_min(rows, mst_cpu_min(MST_CPU_ATTN_ROWS,
                                         MST_CPU_QUERIES / b->group));
    rows = rows ? rows : 1;

    b->n_units = 0;
    row = 0;

    for (s = 0; s < b->step.n_seqs; s++) {
        seq = &b->step.seqs[s];

        for (at = 0; at < seq->n; at += n) {
            n = mst_cpu_min(rows, seq->n - at);
            u = &b->units[b->n_units++];
            u->row = row;
            u->n = n;
            u->seq = s;

            for (i = 0; i < n; i++, row++) {
                b->pos[row] = seq->position + at + i;
                b->row_kv[row] = b->kv + seq->blocks[b->pos[row] / MST_CPU_KV]
                                         * b->info.block_size;
            }
        }
    }
}
