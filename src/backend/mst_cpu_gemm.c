
/*
 * A matrix times the rows of a step: which thread computes which tiles, for
 * which columns, and the preparation of the inputs.
 *
 * Few rows: the weights are read once, one after the other.  Many rows: some
 * tiles at a time stay in the L2 cache while all panels pass.
 */

#include <string.h>

#include "backend/mst_cpu.h"

#define MST_CPU_GEMM_TILES  8      /* that stay in the cache */
#define MST_CPU_GEMM_ROWS   4      /* that one thread prepares at a time: in a
                                      full panel their digits and scales fill
                                      whole cache lines, and no line goes to
                                      and fro between threads */


static void
mst_cpu_gemm_prepare_row(mst_backend_t *b, const mst_cpu_cmd_t *cmd,
    mst_cpu_input_t *in, uint32_t row, float *y)
{
    const float  *x;

    x = cmd->source + (cmd->index ? cmd->index[row] : row) * cmd->stride;

    if (cmd->norm) {
        b->isa->norm(x, cmd->norm->f, cmd->norm->n, b->conf.rms_eps, y);
        x = y;
    }

    mst_cpu_input_write(b, in, cmd->matrix->forms, row, 0, x, in->width);
}


static void
mst_cpu_gemm_prepare(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t  n, row;

    (void) last;

    while ((n = mst_cpu_take(cmd, cmd->input->rows, MST_CPU_GEMM_ROWS, &row))
           != 0)
    {
        for ( /* void */ ; n; n--, row++) {
            mst_cpu_gemm_prepare_row(b, cmd, cmd->input, row,
                                     b->prepared[thread]);
        }
    }
}


/* y[tile of the unit][column][lane] */

static void
mst_cpu_gemm_unit(mst_backend_t *b, const mst_matrix_t *m, uint32_t unit,
    const mst_cpu_panel_t *x, float *y)
{
    uint32_t               i, tile;
    const mst_cpu_part_t  *p;

    p = m->parts;

    if (m->kind == MST_MATRIX_GATE) {
        for (i = 0; i < 4; i++) {

            /* the last pair may lack a tile: there are zeros */

            tile = 2 * unit + i % 2;
            b->isa->tile[p[i / 2].type](mst_cpu_matrix_tile(&p[i / 2], tile),
                                        x, y);
            y += MST_CPU_COLS * MST_CPU_LANES;
        }

        return;
    }

    for (tile = unit; tile >= p->n_tiles; p++) {
        tile -= p->n_tiles;
    }

    b->isa->tile[p->type](mst_cpu_matrix_tile(p, tile), x, y);
}


/* a thread's own copy of the inputs */

static mst_cpu_input_t *
mst_cpu_gemm_own(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread)
{
    uint32_t          row;
    mst_cpu_input_t  *in;

    in = &b->own[thread];
    in->rows = cmd->input->rows;
    in->width = cmd->input->width;

    for (row = 0; row < in->rows; row++) {
        mst_cpu_gemm_prepare_row(b, cmd, in, row, b->prepared[thread]);
    }

    return in;
}


static void
mst_cpu_gemm_run(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t              at, n, rows;
    mst_cpu_input_t      *in;
    mst_cpu_split_job_t   job;

    in = cmd->own ? NULL : cmd->input;
    rows = cmd->input->rows;

    job.number = cmd->job;
    job.total = cmd->matrix->n_units;
    job.piece = rows > MST_CPU_GEMM_MANY
                ? mst_cpu_gemm_share(b, cmd->matrix, rows) : 0;
    job.all = last;

    while ((n = mst_cpu_split_take(b->splits, b->threads, thread, &job, &at))
           != 0)
    {
        if (in == NULL) {
            in = mst_cpu_gemm_own(b, cmd, thread);
        }

        mst_cpu_gemm_units(b, cmd, in, at, n);
    }
}


uint32_t
mst_cpu_gemm_share(const mst_backend_t *b, const mst_matrix_t *m,
    uint32_t rows)
{
    uint32_t  n, share;

    share = m->n_units / (b->threads * 8);

    if (rows > MST_CPU_GEMM_MANY) {
        n = m->kind == MST_MATRIX_GATE ? MST_CPU_GEMM_TILES / 4
                                       : MST_CPU_GEMM_TILES;
        share = mst_cpu_min(share, n);
    }

    return share ? share : 1;
}


void
mst_cpu_gemm_units(mst_backend_t *b, const mst_cpu_cmd_t *cmd,
    const mst_cpu_input_t *in, uint32_t at, uint32_t n)
{
    uint32_t              row, u;
    mst_cpu_panel_t       panel;
    _Alignas(64) float    y[4 * MST_CPU_COLS * MST_CPU_LANES];

    for (row = 0; row < in->rows; row += MST_CPU_COLS) {
        mst_cpu_input_panel(in, row, &panel);

        for (u = at; u < at + n; u++) {
            mst_cpu_gemm_unit(b, cmd->matrix, u, &panel, y);
            cmd->finish(b, cmd, u, row, panel.cols, y);
        }
    }
}


/* what is asked for; how it runs stays */

static void
mst_cpu_gemm_fill(mst_cpu_cmd_t *c, const mst_cpu_cmd_t *cmd)
{
    uint32_t        job;
    mst_cpu_run_pt  run;

    job = c->job;
    run = c->run;
    *c = *cmd;
    c->job = job;
    c->run = run;
}


void
mst_cpu_gemm(mst_backend_t *b, const mst_cpu_cmd_t *cmd, uint32_t rows)
{
    mst_cpu_cmd_t  *c;

    cmd->input->rows = rows;

    if (cmd->source && rows > MST_CPU_OWN) {
        c = mst_cpu_cmd(b, mst_cpu_gemm_prepare);
        mst_cpu_gemm_fill(c, cmd);
    }

    c = mst_cpu_cmd(b, mst_cpu_gemm_run);
    mst_cpu_gemm_fill(c, cmd);
    c->own = cmd->source && rows <= MST_CPU_OWN;
}
