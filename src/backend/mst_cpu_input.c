
/*
 * Inputs of matrices: rows written as digits, floats or both into panels,
 * see mst_cpu_isa.h for the layout.
 */

#include <string.h>

#include "backend/mst_cpu.h"


int
mst_cpu_input_init(mst_cpu_mem_t *mem, mst_cpu_input_t *in, uint32_t digits,
    uint32_t width, uint32_t rows, mst_err_t *err)
{
    uint64_t  blocks;

    blocks = (uint64_t) rows * (width / MST_CPU_BLOCK);
    in->width = width;
    in->rows = rows;
    in->digits = digits;
    in->q = mst_cpu_mem_take(mem, blocks * MST_CPU_BLOCK * digits, err);
    in->s = mst_cpu_mem_take(mem, blocks * sizeof(mst_cpu_scale_t), err);
    in->f = mst_cpu_mem_take(mem, (uint64_t) rows * width * sizeof(float),
                             err);

    return in->q && in->s && in->f ? MST_OK : MST_ERROR;
}


/* elements at .. at + n - 1 of a row; for digits at is a multiple of 32 */

void
mst_cpu_input_write(mst_backend_t *b, mst_cpu_input_t *in, uint32_t forms,
    uint32_t row, uint32_t at, const float *x, uint32_t n)
{
    float     *f;
    size_t     first;
    uint32_t   cols, col, i;

    col = row % MST_CPU_COLS;
    row -= col;
    cols = mst_cpu_min(MST_CPU_COLS, in->rows - row);

    if (forms & MST_CPU_DIGIT_FORM) {
        first = (size_t) row * (in->width / MST_CPU_BLOCK)
                + (size_t) at / MST_CPU_BLOCK * cols + col;
        b->isa->digits(x, n / MST_CPU_BLOCK, in->digits,
                       in->q + first * MST_CPU_BLOCK * in->digits,
                       in->s + first, cols);
    }

    if (forms & MST_CPU_FLOAT_FORM) {
        f = in->f + (size_t) row * in->width + (size_t) at * cols + col;

        for (i = 0; i < n; i++) {
            f[(size_t) i * cols] = x[i];
        }
    }
}


/* the panel that begins with this row */

void
mst_cpu_input_panel(const mst_cpu_input_t *in, uint32_t row,
    mst_cpu_panel_t *panel)
{
    size_t  first;

    first = (size_t) row * (in->width / MST_CPU_BLOCK);
    panel->q = in->q + first * MST_CPU_BLOCK * in->digits;
    panel->s = in->s + first;
    panel->f = in->f + (size_t) row * in->width;
    panel->cols = mst_cpu_min(MST_CPU_COLS, in->rows - row);
    panel->width = in->width;
    panel->digits = in->digits;
}
