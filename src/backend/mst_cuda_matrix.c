
/*
 * Weights on their way to the device: pieces of a file's elements are copied
 * into a ring of pinned memory, from there to the device, and become bf16.
 * Threads copy the pieces, as one thread reads page cache at a fifth of what
 * the bus takes.
 */

#include <pthread.h>
#include <string.h>

#include "base/mst_mem.h"
#include "file/mst_quant.h"
#include "backend/mst_cuda.h"

#define MST_CUDA_COPIERS  8                /* threads of a copy */
#define MST_CUDA_ALONE    (1u << 20)       /* bytes that one thread copies */


typedef struct {
    pthread_t    thread;
    int          started;
    char        *to;
    const char  *from;
    size_t       size;
} mst_cuda_copier_t;


static void *
mst_cuda_copy_part(void *data)
{
    mst_cuda_copier_t  *c;

    c = data;
    memcpy(c->to, c->from, c->size);

    return NULL;
}


static void
mst_cuda_copy(char *to, const char *from, size_t size)
{
    size_t              share;
    uint32_t            i, n;
    mst_cuda_copier_t   copiers[MST_CUDA_COPIERS];

    n = size > MST_CUDA_ALONE ? MST_CUDA_COPIERS : 1;
    share = (size / n + 4095) / 4096 * 4096;

    for (i = 0; i < n; i++) {
        copiers[i].to = to;
        copiers[i].from = from;
        copiers[i].size = mst_cuda_min(share, size);
        to += copiers[i].size;
        from += copiers[i].size;
        size -= copiers[i].size;
        copiers[i].started = i + 1 < n
                             && pthread_create(&copiers[i].thread, NULL,
                                               mst_cuda_copy_part,
                                               &copiers[i]) == 0;
        if (!copiers[i].started) {
            (void) mst_cuda_copy_part(&copiers[i]);
        }
    }

    for (i = 0; i < n; i++) {
        if (copiers[i].started) {
            (void) pthread_join(copiers[i].thread, NULL);
        }
    }
}


static int
mst_cuda_load_init(mst_backend_t *b, mst_err_t *err)
{
    uint32_t  i;

    for (i = 0; i < MST_CUDA_STAGES; i++) {
        b->load[i].host = mst_cuda_pinned(b, MST_CUDA_PIECE, err);

        if (b->load[i].host == NULL
            || mst_cuda_check(b, cudaEventCreateWithFlags(
                                     &b->load[i].copied,
                                     cudaEventDisableTiming),
                              "an event", err) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    b->raw = mst_cuda_take(b, MST_CUDA_PIECE, "a file's elements", err);

    return b->raw ? MST_OK : MST_ERROR;
}


/* the next piece of pinned memory, once it is free, filled and on its way */

static int
mst_cuda_send_piece(mst_backend_t *b, void *to, const char *from, size_t size,
    mst_err_t *err)
{
    int                rc;
    mst_cuda_stage_t  *s;

    s = &b->load[b->load_at++ % MST_CUDA_STAGES];
    rc = cudaEventSynchronize(s->copied);

    if (rc == cudaSuccess) {
        mst_cuda_copy(s->host, from, size);
        rc = cudaMemcpyAsync(to, s->host, size, cudaMemcpyHostToDevice,
                             b->stream);
    }

    if (rc == cudaSuccess) {
        rc = cudaEventRecord(s->copied, b->stream);
    }

    return mst_cuda_check(b, rc, "copying weights", err);
}


int
mst_cuda_send(mst_backend_t *b, void *to, const char *from, size_t size,
    mst_err_t *err)
{
    size_t  n;

    for ( /* void */ ; size; size -= n) {
        n = mst_cuda_min(size, MST_CUDA_PIECE);

        if (mst_cuda_send_piece(b, to, from, n, err) != MST_OK) {
            return MST_ERROR;
        }

        to = (char *) to + n;
        from += n;
    }

    return MST_OK;
}


int
mst_cuda_load(mst_backend_t *b, uint32_t type, const void *data, uint64_t n,
    uint16_t *to, mst_err_t *err)
{
    size_t                  size;
    uint64_t                count, most;
    mst_k_load_t            load;
    const char             *from;
    const mst_type_info_t  *info;

    info = mst_type_info(type);
    most = MST_CUDA_PIECE / info->size / 4 * 4;
    from = data;
    n /= info->block;

    for ( /* void */ ; n; n -= count) {
        count = mst_cuda_min(n, most);
        size = (size_t) count * info->size;

        if (type == MST_TYPE_BF16) {
            if (mst_cuda_send(b, to, from, size, err) != MST_OK) {
                return MST_ERROR;
            }

        } else {
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

    if (type == NULL
        || (b->raw == NULL && mst_cuda_load_init(b, err) != MST_OK))
    {
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
        || mst_cuda_check(b, cudaStreamSynchronize(b->stream),
                          "loading weights", err) != MST_OK
        || mst_cuda_check(b, cudaMemcpy(v->f, f32, n * sizeof(float),
                                        cudaMemcpyHostToDevice),
                          "copying weights", err) != MST_OK)
    {
        return NULL;
    }

    b->info.weight_size += n * sizeof(float);

    return v;
}


void
mst_cuda_matrix_end(mst_backend_t *b)
{
    uint32_t       i;
    mst_matrix_t  *m;
    mst_vector_t  *v;

    for (i = 0; i < MST_CUDA_STAGES; i++) {
        if (b->load[i].copied) {
            (void) cudaEventDestroy(b->load[i].copied);
        }
    }

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
