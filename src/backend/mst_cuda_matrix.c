
/*
 * Matrices and vectors of the device, from a file's elements: these are copied
 * (mst_cuda_ring.c), and become bf16 there.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "file/mst_quant.h"
#include "backend/mst_cuda.h"


int
mst_cuda_load(mst_backend_t *b, uint32_t type, const void *data, uint64_t n,
    uint16_t *to, mst_err_t *err)
{
    size_t                  size;
    uint64_t                count, most;
    mst_k_load_t            load;
    const char             *from;
    const mst_type_info_t  *info;

    if (type == MST_TYPE_BF16) {
        return mst_cuda_send(b, to, data, n * 2, err);
    }

    info = mst_type_info(type);
    most = MST_CUDA_PIECE / info->size / 4 * 4;
    from = data;
    n /= info->block;

    for ( /* void */ ; n; n -= count) {
        count = mst_cuda_min(n, most);
        size = (size_t) count * info->size;

        memset(&load, 0, sizeof(load));
        load.type = (mst_k_load_type_t) type;
        load.from = b->raw;
        load.to = to;
        load.n = count * info->block;

        if (mst_cuda_send(b, b->raw, from, size, err) != MST_OK
            || mst_cuda_check(b, mst_k_load(&load, b->stream),
                              "decoding weights", err) != MST_OK)
        {
            return MST_ERROR;
        }

        from += size;
        to += count * info->block;
    }

    return MST_OK;
}


mst_matrix_t *
mst_cuda_matrix(mst_backend_t *b, mst_matrix_kind_t kind,
    const mst_matrix_part_t *parts, uint32_t n_parts, uint32_t width,
    mst_err_t *err)
{
    uint32_t                i, first;
    mst_matrix_t           *m;
    const mst_cuda_type_t  *type;

    type = mst_cuda_type(b, parts, n_parts, width, err);

    if (b->raw == NULL) {
        b->raw = mst_cuda_take(b, MST_CUDA_PIECE, "a file's elements", err);
    }

    if (type == NULL || b->raw == NULL) {
        return NULL;
    }

    m = mst_calloc(1, sizeof(mst_matrix_t));

    if (m == NULL) {
        (void) mst_err_set(err, "out of memory for a matrix");
        return NULL;
    }

    m->next = b->matrices;
    b->matrices = m;
    m->type = type;
    m->kind = kind;
    m->width = width;

    for (i = 0; i < n_parts; i++) {
        m->rows += parts[i].rows;
    }

    for (i = 0, first = 0; i < n_parts; first += parts[i++].rows) {
        if (type->load(b, m, &parts[i], first, err) != MST_OK) {
            return NULL;
        }
    }

    return m;
}


mst_vector_t *
mst_cuda_vector(mst_backend_t *b, const void *f32, uint32_t n, mst_err_t *err)
{
    mst_vector_t  *v;

    v = mst_calloc(1, sizeof(mst_vector_t));

    if (v == NULL) {
        (void) mst_err_set(err, "out of memory for a vector");
        return NULL;
    }

    v->next = b->vectors;
    b->vectors = v;
    v->n = n;
    v->f = mst_cuda_take(b, n * sizeof(float), "a vector", err);

    if (v->f == NULL
        || mst_cuda_send(b, v->f, f32, n * sizeof(float), err) != MST_OK)
    {
        return NULL;
    }

    b->info.weight_size += n * sizeof(float);

    return v;
}


void
mst_cuda_matrix_end(mst_backend_t *b)
{
    uint64_t       bytes, ns;
    mst_matrix_t  *m;
    mst_vector_t  *v;

    mst_cuda_ring_close(b, &bytes, &ns);

    while (b->matrices) {
        m = b->matrices;
        b->matrices = m->next;
        mst_free(m);
    }

    while (b->vectors) {
        v = b->vectors;
        b->vectors = v->next;
        mst_free(v);
    }
}
