
/*
 * The types in which weights are kept on the device: see mst_cuda_type_t.
 */

#include <string.h>

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


static int
mst_cuda_bf16_pack(mst_backend_t *b, const mst_matrix_t *m)
{
    int                i, rc;
    mst_k_gemm_pack_t  a = { 0 };

    a.rows = m->kind == MST_MATRIX_GATE ? m->rows / 2 : m->rows;
    a.width = m->width;
    a.of = m->rows;
    a.w = m->tiles;
    rc = 0;

    for (i = 0; i < 1 + (m->kind == MST_MATRIX_GATE) && rc == 0; i++) {
        a.gate = m->kind == MST_MATRIX_GATE ? i + 1 : 0;
        a.src = (const uint16_t *) m->w + (uint64_t) i * a.rows * m->width;
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


/* fused_rows as measured: mst_k_gemm_sm90.h */

static const mst_cuda_type_t  mst_cuda_bf16 = {
    .name = "bf16",
    .fused_rows = 64,
    .load = mst_cuda_bf16_load,
    .tiles_size = mst_cuda_bf16_tiles,
    .pack = mst_cuda_bf16_pack,
    .plain = mst_cuda_gemm,
    .fused = mst_cuda_tiles_fused
};


const mst_cuda_type_t *
mst_cuda_type(mst_backend_t *b, const mst_matrix_part_t *parts,
    uint32_t n_parts, uint32_t width, mst_err_t *err)
{
    uint32_t                i;
    const mst_type_info_t  *info;

    (void) b;

    for (i = 0; i < n_parts; i++) {
        info = mst_type_info(parts[i].type);

        if (info == NULL || !mst_k_load_fits(parts[i].type)) {
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

    return &mst_cuda_bf16;
}
