
/*
 * The likeliest token of a row without all its logits.
 *
 * A coarse copy of the head (mst_cpu_coarse.c's tiles: weights of five bits
 * and bounds of what they leave out) times inputs of one digit, 8 bits, gives
 * sums of a third of the work from two thirds of the bytes, and with them a
 * number that each logit cannot exceed.  The tile with the largest sum is
 * computed in full; then all those are whose bound is not below its best
 * logit, by the kernel that computes all logits.  So the result is that of
 * all logits, bit for bit, and of equal ones the first; how many tiles it
 * takes depends on the threads.
 *
 * The bound.  Of one row of the head let w be the weights, c the coarse ones;
 * x the inputs as their three digits say, h what the high digit says, all as
 * real numbers; |.| is the Euclidean norm, b counts blocks, u = 2^-24.  Then
 *
 *   wx - ch = (w - c)x + c(x - h)
 *          <= sum of |w_b - c_b| |x_b| over b  +  |c| |x - h|
 *
 * of which the tile has |w_b - c_b| and N, the larger of |w| and |c|.  Floats
 * add to that, for n blocks and X, the larger of |x| and |h|:
 *
 *   the logit    integers are exact until they become floats, and of Q8_0 they
 *                become it with an error of at most 4 u times the sum of |w_i
 *                x_i|; a product of two scales is off by u, and each of the n
 *                fused multiply-adds rounds a partial sum.  No partial sum
 *                exceeds that sum of |w_i x_i| <= N X by more than a part of
 *                2^-10, so it all is at most (n + 6) u N X
 *   the sum      likewise, with integers that are exact: (n + 3) u N X
 *   the bound    its sum over blocks loses (n + 2) u of itself, which its
 *                terms are enlarged by; to add it to the sum takes three more
 *                roundings of at most 7 N X each, 21 u N X
 *   underflow    of a product of scales of less than 2^-126, by 2^-150 and
 *                times less than 2^35, in less than 2^13 blocks:
 *                MST_KERNEL_UNDER
 *
 * The first three come to (2 n + 30) u N X; the code adds four times as much,
 * (n + 8) 2^-20 N X, to |c| |x - h| <= N |x - h|: both are N times "slack".
 * Norms are sums in double precision, enlarged by a part of 10^-6 before they
 * are rounded to floats.
 *
 * A row whose numbers no bound holds for (NaN, infinities, products that might
 * overflow) has its logits computed, all of them, and with it the other rows
 * of the step.  Where bounds say too little twice in a row and more, the next
 * steps compute all logits at once: in a text that is a step here and there,
 * in noise one after the other.
 */

#include <math.h>
#include <string.h>

#include "backend/mst_cpu.h"

#define MST_CPU_TOP_ROUND  0x1p-20     /* relative, of a block: see above */
#define MST_CPU_TOP_UP     (1 + 1e-6)  /* more than a float loses */
#define MST_CPU_TOP_LARGE  1e35        /* no sum below it overflows */
#define MST_CPU_TOP_ROWS   4           /* that a thread prepares at a time */
#define MST_CPU_TOP_FEW    4           /* not worth it: more than one tile of so
                                          many in full; after so many times */
#define MST_CPU_TOP_BAD    5           /* 0, 1, 3 .. 2^5 - 1 steps go without */

/* bytes of a block's digits */
#define MST_CPU_TOP_DIGITS (MST_CPU_DIGITS * MST_CPU_BLOCK)


int
mst_cpu_top_init(mst_backend_t *b, mst_err_t *err)
{
    uint64_t        blocks, lines, rows;
    mst_cpu_top_t  *t;

    t = &b->top;
    rows = mst_cpu_min(b->conf.max_seqs, b->conf.max_rows);
    blocks = rows * (b->conf.dim / MST_CPU_BLOCK);

    t->q = mst_cpu_mem_take(&b->scratch, blocks * MST_CPU_TOP_DIGITS, err);
    t->s = mst_cpu_mem_take(&b->scratch, blocks * sizeof(mst_cpu_scale_t),
                            err);
    t->high = mst_cpu_mem_take(&b->scratch, blocks * MST_CPU_BLOCK, err);
    t->high_s = mst_cpu_mem_take(&b->scratch,
                                 blocks * sizeof(mst_cpu_scale_t), err);
    t->size = mst_cpu_mem_take(&b->scratch, blocks * sizeof(float), err);
    t->slack = mst_cpu_mem_take(&b->scratch, rows * sizeof(float), err);

    /* a thread's own cache lines */

    t->stride = mst_cpu_lanes((uint32_t) rows);
    lines = (uint64_t) b->threads * t->stride * sizeof(mst_cpu_top_best_t);
    t->coarse = mst_cpu_mem_take(&b->scratch, lines, err);
    t->seed = mst_cpu_mem_take(&b->scratch, lines, err);
    t->best = mst_cpu_mem_take(&b->scratch, lines, err);

    return t->q && t->s && t->high && t->high_s && t->size && t->slack
           && t->coarse && t->seed && t->best ? MST_OK : MST_ERROR;
}


/* a block of a row: its high digits at "at" of the panels; *lost += |x - h|^2,
   *all += the larger of |x|^2 and |h|^2, all over the block's scale */

static float
mst_cpu_top_block(mst_cpu_top_t *t, size_t at, const int8_t *q, float d,
    double *lost, double *all)
{
    double            h, low, size, x;
    int32_t           sum;
    uint32_t          i;
    mst_cpu_scale_t  *s;

    memcpy(t->high + at * MST_CPU_BLOCK, q, MST_CPU_BLOCK);
    h = 0;
    sum = 0;
    size = 0;
    *lost = 0;

    for (i = 0; i < MST_CPU_BLOCK; i++) {
        low = 128 * q[32 + i] + q[64 + i];
        x = 16384 * q[i] + low;
        sum += q[i];
        *lost += low * low;
        size += x * x;
        h += q[i] * q[i];
    }

    s = &t->high_s[at];
    s->d = d * 16384;
    s->high = 0;
    s->low = sum;
    s->s = s->d * (float) sum;
    *all = fmax(size, h * 0x1p28);

    return (float) sqrt(size);
}


/* the coarse inputs of a row, from its digits, and what they lose */

static void
mst_cpu_top_round(mst_backend_t *b, uint32_t row)
{
    double          all, all_sum, d, lost, lost_sum, up;
    size_t          at;
    uint32_t        blocks, cols, first, k;
    const int8_t   *q;
    mst_cpu_top_t  *t;

    t = &b->top;
    blocks = b->conf.dim / MST_CPU_BLOCK;
    q = t->q + (size_t) row * blocks * MST_CPU_TOP_DIGITS;
    first = row / MST_CPU_COLS * MST_CPU_COLS;
    cols = mst_cpu_min(MST_CPU_COLS, t->rows - first);
    at = (size_t) first * blocks + row % MST_CPU_COLS;
    up = MST_CPU_TOP_UP * (1 + (blocks + 8) * MST_CPU_TOP_ROUND);
    lost_sum = 0;
    all_sum = 0;

    for (k = 0; k < blocks; k++, at += cols, q += MST_CPU_TOP_DIGITS) {
        d = (double) t->s[(size_t) row * blocks + k].d;
        t->size[at] = (float) ((double) mst_cpu_top_block(t, at, q, (float) d,
                                                          &lost, &all)
                               * d * up);
        lost_sum += d * d * lost;
        all_sum += d * d * all;
    }

    t->slack[row] = (float) ((sqrt(lost_sum)
                              + (blocks + 8) * MST_CPU_TOP_ROUND
                                * sqrt(all_sum)) * MST_CPU_TOP_UP);

    if (!(sqrt(all_sum) * (double) t->norm_max < MST_CPU_TOP_LARGE)) {

        /* partner: the phases after this one */
        __atomic_store_n(&t->full, 1, __ATOMIC_RELAXED);
    }
}


static void
mst_cpu_top_prepare(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    float     *y;
    size_t     at;
    uint32_t   blocks, n, row;

    (void) last;

    y = b->prepared[thread];
    blocks = b->conf.dim / MST_CPU_BLOCK;

    while ((n = mst_cpu_take(cmd, b->top.rows, MST_CPU_TOP_ROWS, &row)) != 0) {
        for ( /* void */ ; n; n--, row++) {
            at = (size_t) row * blocks;
            b->isa->norm(b->x + (size_t) b->step.wanted[row]
                                * mst_cpu_lanes(b->conf.dim),
                         cmd->norm->f, cmd->norm->n, b->conf.rms_eps, y);
            b->isa->digits(y, blocks, MST_CPU_DIGITS,
                           b->top.q + at * MST_CPU_TOP_DIGITS, b->top.s + at,
                           1);
            mst_cpu_top_round(b, row);
        }
    }
}


/* logits of a tile for one row; returns how many are tokens */

static uint32_t
mst_cpu_top_exact(const mst_backend_t *b, const mst_matrix_t *m, uint32_t tile,
    uint32_t row, float *y)
{
    size_t                 at;
    mst_cpu_panel_t        x = { 0 };
    const mst_cpu_part_t  *p;

    p = m->parts;
    at = (size_t) row * (m->width / MST_CPU_BLOCK);
    x.q = b->top.q + at * MST_CPU_TOP_DIGITS;
    x.s = b->top.s + at;
    x.cols = 1;
    x.digits = MST_CPU_DIGITS;
    x.width = m->width;
    b->isa->tile[p->type](mst_cpu_matrix_tile(p, tile), &x, y);

    return mst_cpu_min(MST_CPU_LANES, p->rows - tile * MST_CPU_LANES);
}


/* a neighbour's tokens come after the own, whatever their ids are */

static void
mst_cpu_top_better(mst_cpu_top_best_t *best, float y, uint32_t id)
{
    if (y > best->y || (y == best->y && id < best->id)) {
        best->y = y;
        best->id = id;
    }
}


/* all rows against a tile of the copy: what they cannot exceed stands where
   logits would, [tile][row] */

static void
mst_cpu_top_tile(mst_backend_t *b, const mst_matrix_t *m, uint32_t tile,
    mst_cpu_top_best_t *coarse)
{
    size_t                at;
    uint32_t              c, row;
    mst_cpu_top_t        *t;
    const uint8_t        *p;
    mst_cpu_most_t        most[MST_CPU_COLS];
    mst_cpu_bound_t       bound;
    mst_cpu_panel_t       x = { 0 };
    _Alignas(64) float    y[MST_CPU_COLS * MST_CPU_LANES];

    t = &b->top;
    p = mst_cpu_matrix_tile(&m->coarse, tile);
    x.width = m->width;
    x.digits = 1;
    bound.width = m->width;

    for (row = 0; row < t->rows; row += MST_CPU_COLS) {
        at = (size_t) row * (m->width / MST_CPU_BLOCK);
        x.q = t->high + at * MST_CPU_BLOCK;
        x.s = t->high_s + at;
        x.cols = mst_cpu_min(MST_CPU_COLS, t->rows - row);
        bound.size = t->size + at;
        bound.slack = t->slack + row;
        bound.cols = x.cols;

        b->isa->coarse(p, &x, y);
        b->isa->bound(p + (size_t) m->width / MST_CPU_BLOCK
                          * MST_CPU_Q5_0_SIZE, &bound, y, most);

        for (c = 0; c < x.cols; c++) {
            b->logits[(size_t) tile * t->rows + row + c] = most[c].logit;
            mst_cpu_top_better(&coarse[row + c], most[c].sum, tile);
        }
    }
}


/* the best logits of the tiles with the largest sums */

static void
mst_cpu_top_seed(mst_backend_t *b, const mst_matrix_t *m, uint32_t thread)
{
    size_t                at;
    uint32_t              i, n, row;
    mst_cpu_top_t        *t;
    _Alignas(64) float    y[MST_CPU_LANES];

    t = &b->top;

    for (row = 0; row < t->rows; row++) {
        at = (size_t) thread * t->stride + row;

        if (t->coarse[at].id == MST_BACKEND_NONE) {
            continue;
        }

        n = mst_cpu_top_exact(b, m, t->coarse[at].id, row, y);

        for (i = 0; i < n; i++) {
            mst_cpu_top_better(&t->seed[at], y[i], 0);
        }
    }
}


/* as all that follow, maybe twice in a step, and maybe not at all on this
   thread */

static void
mst_cpu_top_coarse(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t              at, n, tiles;
    mst_cpu_split_job_t   job;

    if (b->top.full) {
        return;
    }

    job.number = cmd->job;
    job.total = cmd->matrix->n_units;
    job.piece = 0;
    job.all = last;
    tiles = 0;

    while ((n = mst_cpu_split_take(b->splits, b->threads, thread, &job, &at))
           != 0)
    {
        for (tiles += n; n; n--, at++) {
            mst_cpu_top_tile(b, cmd->matrix, at,
                             b->top.coarse + (size_t) thread * b->top.stride);
        }
    }

    if (tiles) {
        mst_cpu_top_seed(b, cmd->matrix, thread);
    }
}


/* what is certain at least, by the seeds of all threads */

static void
mst_cpu_top_least(const mst_backend_t *b, mst_cpu_top_best_t *best)
{
    float                 y;
    uint32_t              row, thread;
    const mst_cpu_top_t  *t;

    t = &b->top;

    for (thread = 0; thread < b->threads; thread++) {
        for (row = 0; row < t->rows; row++) {
            y = t->seed[(size_t) thread * t->stride + row].y;
            mst_cpu_top_better(&best[row], y, MST_BACKEND_NONE);
        }
    }
}


/* the first of the tiles from "tile" on, before "end", that a row may win in,
   or the end; its weights are asked for: they are far away */

static uint32_t
mst_cpu_top_next(const mst_backend_t *b, const mst_matrix_t *m, uint32_t tile,
    uint32_t end, const mst_cpu_top_best_t *best)
{
    size_t          i;
    uint32_t        row;
    const float    *upper;
    const uint8_t  *p;

    for ( /* void */ ; tile < end && !b->top.full; tile++) {
        upper = b->logits + (size_t) tile * b->top.rows;

        for (row = 0; row < b->top.rows && upper[row] < best[row].y; row++) {
            /* void */
        }

        if (row < b->top.rows) {
            break;
        }
    }

    p = mst_cpu_matrix_tile(m->parts, tile);

    for (i = 0; tile < end && i < m->parts[0].tile_size; i += 64) {
        __builtin_prefetch(p + i, 0, 2);
    }

    return tile;
}


/* returns for how many rows the tile was computed in full */

static uint32_t
mst_cpu_top_rows(mst_backend_t *b, const mst_matrix_t *m, uint32_t tile,
    mst_cpu_top_best_t *best)
{
    uint32_t              exact, i, n, row;
    const float          *upper;
    _Alignas(64) float    y[MST_CPU_LANES];

    exact = 0;
    upper = b->logits + (size_t) tile * b->top.rows;

    for (row = 0; row < b->top.rows; row++) {

        if (!b->top.full && upper[row] < best[row].y) {
            continue;
        }

        exact++;
        n = mst_cpu_top_exact(b, m, tile, row, y);

        if (b->top.full) {
            memcpy(b->logits + (size_t) row * b->conf.n_vocab
                   + (size_t) tile * MST_CPU_LANES, y, n * sizeof(float));
            continue;
        }

        for (i = 0; i < n; i++) {
            mst_cpu_top_better(&best[row], y[i], tile * MST_CPU_LANES + i);
        }
    }

    return exact;
}


static void
mst_cpu_top_run(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t              at, exact, n, next;
    mst_cpu_top_best_t   *best;
    mst_cpu_split_job_t   job;

    exact = 0;
    best = b->top.best + (size_t) thread * b->top.stride;
    mst_cpu_top_least(b, best);

    job.number = cmd->job;
    job.total = cmd->matrix->n_units;
    job.piece = 0;
    job.all = last;

    while ((n = mst_cpu_split_take(b->splits, b->threads, thread, &job, &at))
           != 0)
    {
        n += at;
        at = mst_cpu_top_next(b, cmd->matrix, at, n, best);

        for ( /* void */ ; at < n; at = next) {
            next = mst_cpu_top_next(b, cmd->matrix, at + 1, n, best);
            exact += mst_cpu_top_rows(b, cmd->matrix, at, best);
        }
    }

    /* partner: the same of the other threads */
    (void) __atomic_fetch_add(&b->top.exact, exact, __ATOMIC_RELAXED);
}


int
mst_cpu_top(mst_backend_t *b, const mst_vector_t *norm,
    const mst_matrix_t *head, uint32_t *ids)
{
    uint32_t                   i;
    mst_cpu_top_t             *t;
    const mst_cpu_top_best_t   none = { -INFINITY, MST_BACKEND_NONE };

    t = &b->top;

    if (head->coarse.base == NULL || b->digits != MST_CPU_DIGITS
        || b->step.n_wanted == 0
        || b->step.n_wanted > mst_cpu_min(b->conf.max_seqs, b->conf.max_rows))
    {
        return 0;
    }

    if (t->rest) {
        t->rest--;
        return 0;
    }

    t->rows = b->step.n_wanted;
    t->ids = ids;
    t->norm_max = head->norm_max;
    t->full = 0;
    t->exact = 0;
    t->tiles = head->n_units;

    for (i = 0; i < t->rows; i++) {
        ids[i] = MST_BACKEND_NONE;
    }

    for (i = 0; i < b->threads * t->stride; i++) {
        t->coarse[i] = none;
        t->seed[i] = none;
        t->best[i] = none;
    }

    mst_cpu_cmd(b, mst_cpu_top_prepare)->norm = norm;
    mst_cpu_cmd(b, mst_cpu_top_coarse)->matrix = head;
    mst_cpu_cmd(b, mst_cpu_top_run)->matrix = head;

    return 1;
}


/* the best of all threads */

void
mst_cpu_top_end(mst_backend_t *b)
{
    uint32_t                   row, thread;
    mst_cpu_top_t             *t;
    mst_cpu_top_best_t         best;
    const mst_cpu_top_best_t  *own;

    t = &b->top;

    if (t->rows && t->exact <= (uint64_t) t->rows * t->tiles / MST_CPU_TOP_FEW)
    {
        t->bad = 0;

    } else if (t->rows) {
        t->rest = (1u << t->bad) - 1;
        t->bad = mst_cpu_min(t->bad + 1, MST_CPU_TOP_BAD);
    }

    for (row = 0; row < t->rows && !t->full; row++) {
        best.y = -INFINITY;
        best.id = MST_BACKEND_NONE;

        for (thread = 0; thread < b->threads; thread++) {
            own = &t->best[(size_t) thread * t->stride + row];
            mst_cpu_top_better(&best, own->y, own->id);
        }

        t->ids[row] = best.id;
    }
}
