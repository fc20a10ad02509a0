
/*
 * Weights that stay quantised on the device (kernels/mst_k_quant.h): those of
 * a file as they are, and bf16 and f16 made int4 by "dtype int4".
 *
 * The decode GEMMs read the tiles, the library bf16 rows: these stand beside
 * the tiles where weights may stand twice, else each product of a longer step
 * makes them anew in a buffer that all share (4 ms a step for 7 G weights).
 *
 * Parts of a stack whose forms differ (a Q6_K v beside Q4_K q and k) are runs
 * of their own.
 */

#include <string.h>

#include "file/mst_quant.h"
#include "backend/mst_cuda.h"


/* MST_K_QUANT_FORMS: none */

static mst_k_quant_form_t
mst_cuda_quant_form(const mst_backend_t *b, const mst_matrix_part_t *part)
{
    mst_dtype_t  dtype;

    dtype = b->conf.dtype;

    if (part->type == MST_TYPE_BF16 || part->type == MST_TYPE_F16
        || part->type == MST_TYPE_F32)
    {
        return dtype != MST_DTYPE_INT4 ? MST_K_QUANT_FORMS
               : part->rows == b->conf.n_vocab ? MST_K_QUANT_W8_32
                                               : MST_K_QUANT_W4_128;
    }

    return dtype == MST_DTYPE_AUTO || dtype == MST_DTYPE_INT4
           ? mst_k_quant_form(part->type) : MST_K_QUANT_FORMS;
}


/* tiles of so many rows */

static mst_cuda_run_t *
mst_cuda_quant_run(mst_backend_t *b, mst_matrix_t *m, uint32_t first,
    uint32_t rows, mst_k_quant_form_t form, mst_err_t *err)
{
    size_t           size;
    mst_cuda_run_t  *run;

    run = &m->runs[m->n_runs];
    size = mst_k_quant_size(form, rows, m->width);

    run->form = form;
    run->first = first;
    run->rows = rows;
    run->w = mst_cuda_take(b, size, "a matrix", err);

    if (b->wide == NULL) {
        b->wide = mst_cuda_take(b, MST_CUDA_WIDE, "rows of a matrix", err);
    }

    if (run->w == NULL || b->wide == NULL) {
        return NULL;
    }

    m->n_runs++;
    b->info.weight_size += size;

    return run;
}


/* some rows of a file to where they are packed from: as they are, or bf16 */

static int
mst_cuda_quant_send(mst_backend_t *b, const mst_matrix_t *m,
    mst_k_quant_pack_t *a, uint32_t type, const char *from, mst_err_t *err)
{
    if (a->type == MST_TYPE_BF16) {
        a->src = b->wide;

        return mst_cuda_load(b, type, from, (uint64_t) a->rows * m->width,
                             b->wide, err);
    }

    a->src = b->raw;

    return mst_cuda_send(b, b->raw, from,
                         a->rows * mst_k_quant_file_size(type, m->width),
                         err);
}


static int
mst_cuda_quant_pack(mst_backend_t *b, const mst_matrix_t *m,
    mst_k_quant_pack_t *a, const mst_matrix_part_t *part, mst_err_t *err)
{
    uint32_t                left, most;
    const char             *from;
    const mst_type_info_t  *info;

    info = mst_type_info(part->type);
    most = a->type == MST_TYPE_BF16
           ? MST_CUDA_WIDE / 2 / m->width
           : (uint32_t) (MST_CUDA_PIECE / mst_k_quant_file_size(part->type,
                                                                m->width));
    from = part->data;

    for (left = part->rows; left; left -= a->rows) {
        a->rows = mst_cuda_min(left, most);

        if (mst_cuda_quant_send(b, m, a, part->type, from, err) != MST_OK
            || mst_cuda_check(b, mst_k_quant_pack(a, b->stream),
                              "packing weights", err) != MST_OK)
        {
            return MST_ERROR;
        }

        from += (uint64_t) a->rows * m->width / info->block * info->size;
        a->first += a->rows;
    }

    return MST_OK;
}


static int
mst_cuda_quant_load_run(mst_backend_t *b, mst_matrix_t *m,
    mst_cuda_run_t *run, const mst_matrix_part_t *part, uint32_t first,
    mst_err_t *err)
{
    mst_k_quant_pack_t  a = { 0 };

    a.type = mst_type_info(part->type)->block == 1 ? MST_TYPE_BF16
                                                   : part->type;
    a.width = m->width;
    a.form = run->form;
    a.w = run->w;

    if (m->kind == MST_MATRIX_GATE) {
        a.gate = first ? 2 : 1;

    } else {
        a.first = first - run->first;
    }

    return mst_cuda_quant_pack(b, m, &a, part, err);
}


/* all parts have one form */

static int
mst_cuda_quant_load(mst_backend_t *b, mst_matrix_t *m,
    const mst_matrix_part_t *part, uint32_t first, mst_err_t *err)
{
    if (m->n_runs == 0
        && mst_cuda_quant_run(b, m, 0, m->rows,
                              mst_cuda_quant_form(b, part), err)
           == NULL)
    {
        return MST_ERROR;
    }

    return mst_cuda_quant_load_run(b, m, &m->runs[0], part, first, err);
}


static int
mst_cuda_quant_load_mixed(mst_backend_t *b, mst_matrix_t *m,
    const mst_matrix_part_t *part, uint32_t first, mst_err_t *err)
{
    mst_cuda_run_t  *run;

    run = mst_cuda_quant_run(b, m, first, part->rows,
                             mst_cuda_quant_form(b, part), err);

    return run ? mst_cuda_quant_load_run(b, m, run, part, first, err)
               : MST_ERROR;
}


static uint64_t
mst_cuda_quant_tiles(const mst_matrix_t *m)
{
    (void) m;

    return 0;
}


/* m->w from the tiles */

static int
mst_cuda_quant_rows(mst_backend_t *b, const mst_matrix_t *m)
{
    int                 rc;
    uint32_t            i;
    mst_k_quant_rows_t  a = { 0 };

    rc = 0;

    for (i = 0; i < m->n_runs && rc == 0; i++) {
        a.w = m->runs[i].w;
        a.form = m->runs[i].form;
        a.rows = m->runs[i].rows;
        a.width = m->width;
        a.gate = m->kind == MST_MATRIX_GATE;
        a.y = (uint16_t *) m->w + (uint64_t) m->runs[i].first * m->width;
        rc = mst_k_quant_rows(&a, b->stream);
    }

    return rc;
}


static int
mst_cuda_quant_plain(mst_backend_t *b, const mst_matrix_t *m, const void *x,
    void *y, uint32_t n, mst_cuda_out_t out)
{
    int  rc;

    rc = m->w == b->whole ? mst_cuda_quant_rows(b, m) : 0;

    return rc ? rc : mst_cuda_gemm(b, m, x, y, n, out);
}


int
mst_cuda_quant_go(mst_backend_t *b)
{
    uint32_t  n;

    n = b->fused.n_held;
    b->fused.n_held = 0;

    return n ? mst_k_quant_gemms(b->fused.held, n, b->fused.form,
                                 b->fused.met, b->stream)
             : 0;
}


static int
mst_cuda_quant_hold(mst_backend_t *b, const mst_k_gemm_t *a,
    mst_k_quant_form_t form)
{
    int                rc;
    mst_cuda_fused_t  *f;

    rc = 0;
    f = &b->fused;

    if (f->n_held == MST_CUDA_HELD || f->form != form) {
        rc = mst_cuda_quant_go(b);
    }

    f->form = form;
    f->held[f->n_held++] = *a;

    return rc;
}


static int
mst_cuda_quant_fused(mst_backend_t *b, const mst_matrix_t *m,
    const mst_k_gemm_t *a)
{
    int                    rc;
    uint32_t               i;
    mst_k_gemm_t           own;
    const mst_cuda_run_t  *run;

    rc = 0;

    for (i = 0; i < m->n_runs && rc == 0; i++) {
        run = &m->runs[i];
        own = *a;
        own.w = run->w;

        /* only q, k and v are several */

        if (m->n_runs > 1) {
            own.rows = run->rows;
            own.pitch = m->rows;
            own.y = (uint16_t *) a->y + run->first;
            own.bias = a->bias ? a->bias + run->first : NULL;
            own.pdl = a->pdl || (i && b->props.major == 9);
        }

        rc = mst_cuda_quant_hold(b, &own, run->form);
    }

    return rc;
}


static int
mst_cuda_quant_embed(mst_backend_t *b, const mst_matrix_t *m)
{
    mst_k_quant_embed_t  a = { 0 };

    a.id = b->dev.id;
    a.fed = b->sampler.fed;
    a.w = m->runs[0].w;
    a.form = m->runs[0].form;
    a.width = m->width;
    a.h = b->h;
    a.n = b->bucket.rows;

    return mst_k_quant_embed(&a, b->stream);
}


/* fused_rows as measured: kernels/mst_k_quant_gemm.cu */

static const mst_cuda_type_t  mst_cuda_quant = {
    .name = "quantised",
    .fused_rows = 16,
    .head_rows = 16,
    .load = mst_cuda_quant_load,
    .tiles_size = mst_cuda_quant_tiles,
    .plain = mst_cuda_quant_plain,
    .fused = mst_cuda_quant_fused,
    .embed = mst_cuda_quant_embed
};


static const mst_cuda_type_t  mst_cuda_quant_mixed = {
    .name = "quantised, of several types",
    .fused_rows = 16,
    .head_rows = 16,
    .load = mst_cuda_quant_load_mixed,
    .tiles_size = mst_cuda_quant_tiles,
    .plain = mst_cuda_quant_plain,
    .fused = mst_cuda_quant_fused
};


const mst_cuda_type_t *
mst_cuda_quant_type(const mst_backend_t *b, const mst_matrix_part_t *parts,
    uint32_t n_parts, uint32_t width)
{
    uint32_t            i, mixed;
    mst_k_quant_form_t  form;

    if (b->conf.n_experts || width % 32 || width > MST_CUDA_WIDE / 2
        || n_parts > MST_CUDA_RUNS)
    {
        return NULL;
    }

    mixed = 0;

    for (i = 0; i < n_parts; i++) {
        form = mst_cuda_quant_form(b, &parts[i]);

        if (form == MST_K_QUANT_FORMS) {
            return NULL;
        }

        mixed |= form != mst_cuda_quant_form(b, &parts[0]);
    }

    return mixed ? &mst_cuda_quant_mixed : &mst_cuda_quant;
}


/* bf16 of each matrix */

static int
mst_cuda_quant_twice(mst_backend_t *b, mst_err_t *err)
{
    uint64_t       size;
    mst_matrix_t  *m;

    for (m = b->matrices; m; m = m->next) {
        if (m->n_runs == 0) {
            continue;
        }

        size = (uint64_t) m->rows * m->width * 2;
        m->w = mst_cuda_take(b, size, "a matrix as bf16", err);

        if (m->w == NULL
            || mst_cuda_check(b, mst_cuda_quant_rows(b, m),
                              "decoding weights", err) != MST_OK)
        {
            return MST_ERROR;
        }

        b->info.weight_size += size;
    }

    return MST_OK;
}


int
mst_cuda_quant_ready(mst_backend_t *b, mst_err_t *err)
{
    uint64_t       all, size;
    mst_matrix_t  *m;

    all = 0;

    for (m = b->matrices; m; m = m->next) {
        size = m->n_runs ? (uint64_t) m->rows * m->width * 2 : 0;
        b->whole_size = mst_cuda_max(b->whole_size, size);
        all += size;
    }

    if (all == 0) {
        return MST_OK;
    }

    if (mst_cuda_fused_room(b, all)) {
        b->whole_size = 0;
        return mst_cuda_quant_twice(b, err);
    }

    b->whole = mst_cuda_take(b, b->whole_size, "a matrix as bf16", err);

    for (m = b->matrices; m; m = m->next) {
        m->w = m->n_runs ? b->whole : m->w;
    }

    return b->whole ? MST_OK : MST_ERROR;
}
