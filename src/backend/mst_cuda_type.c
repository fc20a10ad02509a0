
/*
 * The types in which weights are kept on the device: see mst_cuda_type_t.
 */

#include "file/mst_quant.h"
#include "backend/mst_cuda.h"


static int
mst_cuda_bf16_load(mst_backend_t *b, mst_matrix_t *m,
    const mst_matrix_part_t *part, uint32_t first, mst_err_t *err)
{
    uint64_t  size;

    if (m->w == NULL) {
        size = (uint64_t) m->rows * m->width * 2;
        m->w = mst_cuda_take(b, size, "a matrix", err);

        if (m->w == NULL) {
            return MST_ERROR;
        }

        b->info.weight_size += size;
    }

    return mst_cuda_load(b, part->type, part->data,
                         (uint64_t) part->rows * m->width,
                         (uint16_t *) m->w + (uint64_t) first * m->width,
                         err);
}


static uint64_t
mst_cuda_bf16_tiles(const mst_matrix_t *m)
{
    return mst_k_gemm_w_size(m->rows, m->width, 2);
}


/* from row-major, bf16 or e4m3 */

static int
mst_cuda_tiles_pack(mst_backend_t *b, const mst_matrix_t *m)
{
    int                rc;
    uint32_t           i, parts;
    mst_k_gemm_pack_t  a = { 0 };

    parts = m->kind == MST_MATRIX_GATE ? 2 : 1;
    a.rows = m->rows / parts;
    a.width = m->width;
    a.of = m->rows;
    a.w = m->tiles;
    a.w_scale = m->tile_scale;
    rc = 0;

    for (i = 0; i < parts && rc == 0; i++) {
        a.gate = parts == 2 ? (int) i + 1 : 0;
        a.src = (const char *) m->w + (uint64_t) i * a.rows * m->width
                                      * (m->type->e4m3 ? 1 : 2);
        a.src_scale = m->scale ? m->scale + i * a.rows : NULL;
        rc = mst_k_gemm_pack(&a, b->stream);
    }

    return rc;
}


static int
mst_cuda_tiles_fused(mst_backend_t *b, const mst_matrix_t *m,
    const mst_k_gemm_t *a)
{
    mst_k_gemm_t  own;

    own = *a;
    own.w = m->tiles;
    own.w_scale = m->tile_scale;

    return mst_k_gemm(&own, b->stream);
}


static int
mst_cuda_fp8_take(mst_backend_t *b, mst_matrix_t *m, mst_err_t *err)
{
    uint64_t  size;

    size = (uint64_t) m->rows * m->width;
    m->w = mst_cuda_take(b, size, "a matrix", err);
    m->scale = mst_cuda_take(b, m->rows * sizeof(float), "scales", err);

    if (b->wide == NULL) {
        b->wide = mst_cuda_take(b, MST_CUDA_WIDE, "rows of a matrix", err);
    }

    b->info.weight_size += size + m->rows * sizeof(float);

    return m->w && m->scale && b->wide ? MST_OK : MST_ERROR;
}


/* by way of bf16, some rows at a time */

static int
mst_cuda_fp8_load(mst_backend_t *b, mst_matrix_t *m,
    const mst_matrix_part_t *part, uint32_t first, mst_err_t *err)
{
    uint32_t                i;
    uint64_t                row;
    mst_k_e4m3_rows_t       a = { 0 };
    const mst_type_info_t  *info;

    if (m->w == NULL && mst_cuda_fp8_take(b, m, err) != MST_OK) {
        return MST_ERROR;
    }

    info = mst_type_info(part->type);
    row = (uint64_t) m->width / info->block * info->size;

    for (i = 0; i < part->rows; i += a.rows) {
        a.from = b->wide;
        a.to = (uint8_t *) m->w + (uint64_t) (first + i) * m->width;
        a.scale = m->scale + first + i;
        a.width = m->width;
        a.rows = mst_cuda_min(part->rows - i,
                              MST_CUDA_WIDE / 2 / m->width);

        if (mst_cuda_load(b, part->type, (const char *) part->data + i * row,
                          (uint64_t) a.rows * m->width, b->wide, err)
            != MST_OK
            || mst_cuda_check(b, mst_k_e4m3_rows(&a, b->stream),
                              "quantising weights", err) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static uint64_t
mst_cuda_fp8_tiles(const mst_matrix_t *m)
{
    return mst_k_gemm_w_size(m->rows, m->width, 1);
}


/* fused_rows as measured: mst_k_gemm_sm90.h, and what the library's way needs
   besides its products */

static const mst_cuda_type_t  mst_cuda_bf16 = {
    .name = "bf16",
    .fused_rows = 64,
    .head_rows = 128,
    .load = mst_cuda_bf16_load,
    .tiles_size = mst_cuda_bf16_tiles,
    .pack = mst_cuda_tiles_pack,
    .plain = mst_cuda_gemm,
    .fused = mst_cuda_tiles_fused
};

static const mst_cuda_type_t  mst_cuda_fp8 = {
    .name = "fp8",
    .e4m3 = 1,
    .fused_rows = 128,
    .head_rows = 128,
    .load = mst_cuda_fp8_load,
    .tiles_size = mst_cuda_fp8_tiles,
    .pack = mst_cuda_tiles_pack,
    .plain = mst_cuda_gemm,
    .fused = mst_cuda_tiles_fused
};


/* the embedding and the head stay as they are */

static int
mst_cuda_is_fp8(const mst_backend_t *b, uint32_t rows, uint32_t width)
{
    return b->conf.dtype == MST_DTYPE_FP8 && rows != b->conf.n_vocab
           && rows % 16 == 0 && width % 16 == 0
           && width <= MST_CUDA_WIDE / 2;
}


const mst_cuda_type_t *
mst_cuda_type(mst_backend_t *b, const mst_matrix_part_t *parts,
    uint32_t n_parts, uint32_t width, mst_err_t *err)
{
    int                     list;
    uint32_t                i, rows;
    const mst_type_info_t  *info;
    const mst_cuda_type_t  *quant;

    rows = 0;

    /* mst_cuda_list() multiplies bf16 */

    list = b->conf.batch_invariant || b->conf.n_experts;
    quant = list ? NULL : mst_cuda_quant_type(b, parts, n_parts, width);

    for (i = 0; i < n_parts; i++) {
        rows += parts[i].rows;
        info = mst_type_info(parts[i].type);

        if (info == NULL || (quant == NULL && !mst_k_load_fits(parts[i].type)))
        {
            (void) mst_err_set(err, "weights of type %s are not computed on "
                               "a CUDA device", mst_type_name(parts[i].type));
            return NULL;
        }

        if (width % info->block) {
            (void) mst_err_set(err, "rows of %u are no multiple of the %u of "
                               "a %s block", width, info->block, info->name);
            return NULL;
        }
    }

    if (list && width % 8) {
        (void) mst_err_set(err, "%s is not computed with rows of %u on a CUDA "
                           "device, multiples of 8 are",
                           b->conf.n_experts ? "a mixture of experts"
                                             : "batch_invariant on", width);
        return NULL;
    }

    return quant ? quant
           : mst_cuda_is_fp8(b, rows, width) ? &mst_cuda_fp8 : &mst_cuda_bf16;
}
