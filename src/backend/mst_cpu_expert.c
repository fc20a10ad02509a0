
/*
 * A mixture of experts on the CPU: norm and router for each row, then every
 * expert's matrices for the rows that chose it, then the weighed sum.
 *
 * Each sequence may have a number of experts of its own.  There is room for
 * all of them; what no row uses is never touched and takes no memory.
 *
 * Rows are only known once the router has run, so that the commands read
 * their lists when they run.  A row's sum goes over its experts from the
 * likeliest on, and an expert's outputs for a row do not depend on the rows
 * beside it: the bits are a function of the row alone.
 */

#include <math.h>
#include <string.h>

#include "backend/mst_cpu.h"


/* the same slice of a larger input, rows "at" .. at + n - 1 */

static void
mst_cpu_expert_slice(const mst_cpu_input_t *all, uint32_t at, uint32_t n,
    mst_cpu_input_t *in)
{
    size_t  blocks;

    blocks = (size_t) at * (all->width / MST_CPU_BLOCK);

    in->width = all->width;
    in->rows = n;
    in->digits = all->digits;
    in->q = all->q + blocks * MST_CPU_BLOCK * all->digits;
    in->s = all->s + blocks;
    in->f = all->f + (size_t) at * all->width;
}


/* in sums that do not wait for each other: one chain of 8 * 4096 additions is
   40 us of a token, in which one thread works */

static double
mst_cpu_expert_dot(const float *x, const float *r, uint32_t n)
{
    double    sum[4] = { 0 };
    uint32_t  i;

    for (i = 0; i + 4 <= n; i += 4) {
        sum[0] += (double) x[i] * (double) r[i];
        sum[1] += (double) x[i + 1] * (double) r[i + 1];
        sum[2] += (double) x[i + 2] * (double) r[i + 2];
        sum[3] += (double) x[i + 3] * (double) r[i + 3];
    }

    for ( /* void */ ; i < n; i++) {
        sum[0] += (double) x[i] * (double) r[i];
    }

    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}


/* logits of the router and the choice; ties go to the lower number */

static void
mst_cpu_expert_choose(mst_backend_t *b, const mst_backend_layer_t *w,
    uint32_t row)
{
    float              *weight;
    double              logits[64], sum;
    uint32_t            e, i, k, *expert;
    const float        *x;
    mst_cpu_experts_t  *ex;

    ex = &b->experts;
    x = ex->x + (size_t) row * mst_cpu_lanes(b->conf.dim);
    weight = ex->weight + (size_t) row * b->conf.n_experts;
    expert = ex->expert + (size_t) row * b->conf.n_experts;

    for (e = 0; e < b->conf.n_experts; e++) {
        logits[e] = mst_cpu_expert_dot(x, w->router->f
                                          + (size_t) e * b->conf.dim,
                                       b->conf.dim);
    }

    sum = 0;

    for (k = 0; k < ex->used[row]; k++) {
        expert[k] = UINT32_MAX;

        for (e = 0; e < b->conf.n_experts; e++) {

            for (i = 0; i < k && expert[i] != e; i++) { /* void */ }

            /* also of numbers that are none, one is chosen */

            if (i == k && (expert[k] == UINT32_MAX
                           || logits[e] > logits[expert[k]]))
            {
                expert[k] = e;
            }
        }

        weight[k] = (float) exp(logits[expert[k]] - logits[expert[0]]);
        sum += (double) weight[k];
    }

    for (k = 0; k < ex->used[row]; k++) {
        weight[k] = (float) ((double) weight[k] / sum);
    }
}


static void
mst_cpu_expert_row(mst_backend_t *b, const mst_backend_layer_t *w,
    uint32_t row)
{
    size_t  at;

    at = (size_t) row * mst_cpu_lanes(b->conf.dim);

    b->isa->norm(b->x + at, w->ffn_norm->f, b->conf.dim, b->conf.rms_eps,
                 b->experts.x + at);
    mst_cpu_expert_choose(b, w, row);
}


static void
mst_cpu_expert_route(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t  row;

    (void) thread;
    (void) last;

    while (mst_cpu_take(cmd, b->step.n_rows, 1, &row)) {
        mst_cpu_expert_row(b, cmd->weights, row);
    }
}


/* pairs in the order of experts, then of rows */

static void
mst_cpu_expert_order(mst_backend_t *b)
{
    size_t              i;
    uint32_t            at, e, k, row;
    mst_cpu_experts_t  *ex;

    ex = &b->experts;
    at = 0;

    for (e = 0; e < b->conf.n_experts; e++) {
        ex->first[e] = at;

        for (row = 0; row < b->step.n_rows; row++) {
            i = (size_t) row * b->conf.n_experts;

            for (k = 0; k < ex->used[row]; k++, i++) {
                if (ex->expert[i] == e) {
                    ex->pair[i] = at;
                    ex->row[at++] = row;
                }
            }
        }

        mst_cpu_expert_slice(&ex->in, ex->first[e], at - ex->first[e],
                             &ex->up[e]);
        mst_cpu_expert_slice(&ex->in_down, ex->first[e], at - ex->first[e],
                             &ex->down[e]);
    }

    ex->first[e] = at;
}


static void
mst_cpu_expert_plan(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t  at;

    (void) thread;
    (void) last;

    if (mst_cpu_take(cmd, 1, 1, &at)) {
        mst_cpu_expert_order(b);
    }
}


static void
mst_cpu_expert_input(mst_backend_t *b, const mst_backend_layer_t *w,
    uint32_t pair)
{
    uint32_t            e;
    mst_cpu_experts_t  *ex;

    ex = &b->experts;

    for (e = 0; pair >= ex->first[e + 1]; e++) { /* void */ }

    mst_cpu_input_write(b, &ex->up[e], w->experts_up[e]->forms,
                        pair - ex->first[e], 0,
                        ex->x + (size_t) ex->row[pair]
                                * mst_cpu_lanes(b->conf.dim),
                        b->conf.dim);
}


static void
mst_cpu_expert_gather(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t  pair;

    (void) thread;
    (void) last;

    while (mst_cpu_take(cmd, b->experts.n_pairs, 1, &pair)) {
        mst_cpu_expert_input(b, cmd->weights, pair);
    }
}


/* all three for a few rows: less than what is lost between them */

static void
mst_cpu_expert_few(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t  i;

    (void) thread;
    (void) last;

    if (mst_cpu_take(cmd, 1, 1, &i) == 0) {
        return;
    }

    for (i = 0; i < b->step.n_rows; i++) {
        mst_cpu_expert_row(b, cmd->weights, i);
    }

    mst_cpu_expert_order(b);

    for (i = 0; i < b->experts.n_pairs; i++) {
        mst_cpu_expert_input(b, cmd->weights, i);
    }
}


/* y of an expert's pairs */

static void
mst_cpu_expert_store(mst_backend_t *b, const mst_cpu_cmd_t *cmd,
    uint32_t unit, uint32_t row, uint32_t cols, float *y)
{
    float     *to;
    uint32_t   c, n;

    n = mst_cpu_min(MST_CPU_LANES, b->conf.dim - unit * MST_CPU_LANES);

    for (c = 0; c < cols; c++, y += MST_CPU_LANES) {
        to = b->experts.y + (size_t) (b->experts.first[cmd->layer] + row + c)
                            * mst_cpu_lanes(b->conf.dim)
             + unit * MST_CPU_LANES;
        memcpy(to, y, n * sizeof(float));
    }
}


/* units of all experts that have rows, and in which shares they are taken:
   0, in large ones, where each has few */

static uint32_t
mst_cpu_expert_units(const mst_backend_t *b,
    const mst_matrix_t **matrices, uint32_t *share)
{
    uint32_t                  e, n, rows, total;
    const mst_cpu_experts_t  *ex;

    ex = &b->experts;
    rows = 0;
    total = 0;
    *share = UINT32_MAX;

    for (e = 0; e < b->conf.n_experts; e++) {
        if (ex->up[e].rows) {
            total += matrices[e]->n_units;
            n = mst_cpu_gemm_share(b, matrices[e], ex->up[e].rows);
            *share = mst_cpu_min(*share, n);
            rows = ex->up[e].rows > rows ? ex->up[e].rows : rows;
        }
    }

    if (rows <= MST_CPU_GEMM_MANY) {
        *share = 0;
    }

    return total;
}


/*
 * One matrix of each expert that has rows: their units stand one behind the
 * other.  "layer" of the local command is the number of the expert.
 */

static void
mst_cpu_expert_matrices(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last, uint32_t up)
{
    uint32_t               at, e, first, n, units;
    mst_cpu_cmd_t          one;
    mst_cpu_experts_t     *ex;
    mst_cpu_split_job_t    job;
    const mst_matrix_t   **matrices;

    ex = &b->experts;
    matrices = up ? cmd->weights->experts_up : cmd->weights->experts_down;
    job.number = cmd->job;
    job.total = mst_cpu_expert_units(b, matrices, &job.piece);
    job.all = last;
    one = *cmd;
    one.finish = up ? mst_cpu_gate : mst_cpu_expert_store;

    while ((n = mst_cpu_split_take(b->splits, b->threads, thread, &job, &at))
           != 0)
    {
        first = 0;

        for (e = 0; e < b->conf.n_experts && n; e++) {
            if (ex->up[e].rows == 0) {
                continue;
            }

            units = matrices[e]->n_units;

            if (at < first + units) {
                units = mst_cpu_min(n, first + units - at);
                one.matrix = matrices[e];
                one.layer = e;
                one.output = &ex->down[e];
                one.forms = cmd->weights->experts_down[e]->forms;
                mst_cpu_gemm_units(b, &one, up ? &ex->up[e] : &ex->down[e],
                                   at - first, units);
                at += units;
                n -= units;
            }

            first += matrices[e]->n_units;
        }
    }
}


static void
mst_cpu_expert_up(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    mst_cpu_expert_matrices(b, cmd, thread, last, 1);
}


static void
mst_cpu_expert_down(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    mst_cpu_expert_matrices(b, cmd, thread, last, 0);
}


static void
mst_cpu_expert_sum(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    float              *x;
    size_t              pair;
    uint32_t            i, k, row;
    const float        *y;
    mst_cpu_experts_t  *ex;

    (void) thread;
    (void) last;

    ex = &b->experts;

    while (mst_cpu_take(cmd, b->step.n_rows, 1, &row)) {
        x = b->x + (size_t) row * mst_cpu_lanes(b->conf.dim);

        for (k = 0; k < ex->used[row]; k++) {
            pair = (size_t) row * b->conf.n_experts + k;
            y = ex->y + (size_t) ex->pair[pair] * mst_cpu_lanes(b->conf.dim);

            for (i = 0; i < b->conf.dim; i++) {
                x[i] += ex->weight[pair] * y[i];
            }
        }
    }
}


void
mst_cpu_experts(mst_backend_t *b, const mst_backend_layer_t *w)
{
    size_t  i;

    static const mst_cpu_run_pt  runs[] = {
        mst_cpu_expert_few,
        mst_cpu_expert_route, mst_cpu_expert_plan, mst_cpu_expert_gather,
        mst_cpu_expert_up, mst_cpu_expert_down, mst_cpu_expert_sum
    };

    for (i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        if (i > 3 || (b->step.n_rows <= MST_CPU_OWN) == (i == 0)) {
            mst_cpu_cmd(b, runs[i])->weights = w;
        }
    }
}


void
mst_cpu_experts_begin(mst_backend_t *b)
{
    uint32_t            i, k, row, used;
    mst_cpu_experts_t  *ex;

    if (b->conf.n_experts == 0) {
        return;
    }

    ex = &b->experts;
    ex->n_pairs = 0;
    row = 0;

    for (i = 0; i < b->step.n_seqs; i++) {
        used = b->step.seqs[i].n_used;
        used = used ? used : b->conf.n_used;

        for (k = 0; k < b->step.seqs[i].n; k++) {
            ex->used[row++] = used;
            ex->n_pairs += used;
        }
    }
}


int
mst_cpu_experts_init(mst_backend_t *b, mst_err_t *err)
{
    uint64_t                   lanes, pairs, rows;
    mst_cpu_experts_t         *ex;
    const mst_backend_conf_t  *c;

    c = &b->conf;
    ex = &b->experts;

    if (c->n_experts == 0) {
        return MST_OK;
    }

    rows = c->max_rows;
    pairs = rows * c->n_experts;
    lanes = mst_cpu_lanes(c->dim);

    ex->x = mst_cpu_mem_take(&b->scratch, rows * lanes * sizeof(float), err);
    ex->used = mst_cpu_mem_take(&b->scratch, rows * sizeof(uint32_t), err);
    ex->expert = mst_cpu_mem_take(&b->scratch, pairs * sizeof(uint32_t), err);
    ex->weight = mst_cpu_mem_take(&b->scratch, pairs * sizeof(float), err);
    ex->pair = mst_cpu_mem_take(&b->scratch, pairs * sizeof(uint32_t), err);
    ex->row = mst_cpu_mem_take(&b->scratch, pairs * sizeof(uint32_t), err);
    ex->y = mst_cpu_mem_take(&b->scratch, pairs * lanes * sizeof(float), err);
    ex->up = mst_cpu_mem_take(&b->scratch,
                              c->n_experts * sizeof(mst_cpu_input_t), err);
    ex->down = mst_cpu_mem_take(&b->scratch,
                                c->n_experts * sizeof(mst_cpu_input_t), err);
    ex->first = mst_cpu_mem_take(&b->scratch,
                                 (c->n_experts + 1) * sizeof(uint32_t), err);

    if (ex->x == NULL || ex->used == NULL || ex->expert == NULL
        || ex->weight == NULL || ex->pair == NULL || ex->row == NULL
        || ex->y == NULL || ex->up == NULL || ex->down == NULL
        || ex->first == NULL)
    {
        return MST_ERROR;
    }

    if (mst_cpu_input_init(&b->scratch, &ex->in, b->digits, c->dim,
                           (uint32_t) pairs, err) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_cpu_input_init(&b->scratch, &ex->in_down, b->digits, c->ff_dim,
                              (uint32_t) pairs, err);
}
