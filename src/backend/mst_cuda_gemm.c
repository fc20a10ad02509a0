
/*
 * GEMMs by cuBLASLt: y [n][rows] = x [n][width] times a matrix [rows][width],
 * all row-major, which the library sees as columns.
 *
 * How a shape is computed is chosen once: the fastest of what the library
 * offers where it was measured (decode's buckets, the largest step of prompts
 * and its halves), else the first of its list.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "backend/mst_cuda.h"

#define MST_CUDA_ALGOS      8          /* that are measured */
#define MST_CUDA_TUNE_COPY  8          /* matrices of a shape, one after the
                                          other, so that none stays in L2 */
#define MST_CUDA_TUNE_TRIES 3


static int
mst_cuda_gemm_rc(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess
         : status == CUBLAS_STATUS_ALLOC_FAILED ? cudaErrorMemoryAllocation
                                                : cudaErrorUnknown;
}


int
mst_cuda_gemm_init(mst_backend_t *b, mst_err_t *err)
{
    if (cublasLtCreate(&b->lt) != CUBLAS_STATUS_SUCCESS) {
        b->lt = NULL;
        return mst_err_set(err, "cuda:%u: cuBLASLt does not start",
                           b->conf.device);
    }

    return MST_OK;
}


static void
mst_cuda_gemm_drop(mst_cuda_gemm_t *g)
{
    if (g->op) {
        (void) cublasLtMatmulDescDestroy(g->op);
    }

    if (g->w) {
        (void) cublasLtMatrixLayoutDestroy(g->w);
    }

    if (g->x) {
        (void) cublasLtMatrixLayoutDestroy(g->x);
    }

    if (g->y) {
        (void) cublasLtMatrixLayoutDestroy(g->y);
    }
}


void
mst_cuda_gemm_free(mst_backend_t *b)
{
    uint32_t  i;

    for (i = 0; i < b->n_gemms; i++) {
        mst_cuda_gemm_drop(&b->gemms[i]);
    }

    mst_free(b->gemms);

    if (b->lt) {
        (void) cublasLtDestroy(b->lt);
    }
}


static int
mst_cuda_gemm_scaled(const mst_cuda_gemm_t *g)
{
    return g->e4m3 && g->out != MST_CUDA_RAW;
}


/* one for each row of the matrix, one for each x */

static int
mst_cuda_gemm_scales(const mst_cuda_gemm_t *g, const float *w, const float *x)
{
    size_t                      i;
    cublasLtMatmulMatrixScale_t mode;

    mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;

    const struct {
        cublasLtMatmulDescAttributes_t  name;
        const void                     *value;
        size_t                          size;
    } attrs[] = {
        { CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof(mode) },
        { CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof(mode) },
        { CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &w, sizeof(w) },
        { CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &x, sizeof(x) }
    };

    for (i = 0; i < sizeof(attrs) / sizeof(*attrs); i++) {
        if (cublasLtMatmulDescSetAttribute(g->op, attrs[i].name,
                                           attrs[i].value, attrs[i].size))
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static cublasStatus_t
mst_cuda_gemm_run(mst_backend_t *b, const mst_cuda_gemm_t *g,
    const cublasLtMatmulAlgo_t *algo, const mst_matrix_t *m, const void *x,
    void *y)
{
    const float  one = 1, beta = g->out == MST_CUDA_ADD ? 1 : 0;

    if (mst_cuda_gemm_scaled(g)
        && mst_cuda_gemm_scales(g, m->scale, b->x_scale) != MST_OK)
    {
        return CUBLAS_STATUS_INVALID_VALUE;
    }

    return cublasLtMatmul(b->lt, g->op, &one, m->w, g->w, x, g->x, &beta, y,
                          g->y, y, g->y, algo, b->workspace,
                          MST_CUDA_WORKSPACE, b->stream);
}


static int
mst_cuda_gemm_describe(mst_cuda_gemm_t *g, const float *w, const float *x)
{
    int8_t             fast;
    cublasOperation_t  turned;
    cudaDataType_t     type, in;

    fast = 1;
    turned = CUBLAS_OP_T;
    in = g->e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
    type = g->out <= MST_CUDA_RAW ? CUDA_R_16BF : CUDA_R_32F;

    if (cublasLtMatmulDescCreate(&g->op, CUBLAS_COMPUTE_32F, CUDA_R_32F)
        || cublasLtMatmulDescSetAttribute(g->op, CUBLASLT_MATMUL_DESC_TRANSA,
                                          &turned, sizeof(turned))
        || (g->e4m3
            && (cublasLtMatmulDescSetAttribute(g->op,
                                           CUBLASLT_MATMUL_DESC_FAST_ACCUM,
                                           &fast, sizeof(fast))
                || (mst_cuda_gemm_scaled(g)
                    && mst_cuda_gemm_scales(g, w, x) != MST_OK)))
        || cublasLtMatrixLayoutCreate(&g->w, in, g->width, g->rows, g->width)
        || cublasLtMatrixLayoutCreate(&g->x, in, g->width, g->n, g->width)
        || cublasLtMatrixLayoutCreate(&g->y, type, g->rows, g->n, g->rows))
    {
        return MST_ERROR;
    }

    return MST_OK;
}


static int
mst_cuda_gemm_offers(mst_backend_t *b, mst_cuda_gemm_t *g,
    cublasLtMatmulHeuristicResult_t *offers, int most)
{
    int                          n;
    size_t                       size;
    cublasLtMatmulPreference_t   pref;

    n = 0;
    size = MST_CUDA_WORKSPACE;

    if (cublasLtMatmulPreferenceCreate(&pref)) {
        return 0;
    }

    if (cublasLtMatmulPreferenceSetAttribute(pref,
                                    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                    &size, sizeof(size))
        || cublasLtMatmulAlgoGetHeuristic(b->lt, g->op, g->w, g->x, g->y,
                                          g->y, pref, most, offers, &n))
    {
        n = 0;
    }

    (void) cublasLtMatmulPreferenceDestroy(pref);

    return n;
}


/* a new entry, with the library's first offer */

static mst_cuda_gemm_t *
mst_cuda_gemm_add(mst_backend_t *b, const mst_cuda_gemm_t *key,
    const mst_matrix_t *m)
{
    mst_cuda_gemm_t                  *g;
    cublasLtMatmulHeuristicResult_t   offer;

    if (b->n_gemms == b->max_gemms) {
        g = mst_realloc(b->gemms, b->max_gemms + 64, sizeof(mst_cuda_gemm_t));

        if (g == NULL) {
            return NULL;
        }

        b->gemms = g;
        b->max_gemms += 64;
    }

    g = &b->gemms[b->n_gemms];
    *g = *key;

    if (mst_cuda_gemm_describe(g, m->scale, b->x_scale) != MST_OK
        || mst_cuda_gemm_offers(b, g, &offer, 1) < 1)
    {
        mst_cuda_gemm_drop(g);
        return NULL;
    }

    g->algo = offer.algo;
    b->n_gemms++;

    return g;
}


static mst_cuda_gemm_t *
mst_cuda_gemm_find(mst_backend_t *b, const mst_matrix_t *m, uint32_t n,
    mst_cuda_out_t out)
{
    uint32_t          i;
    mst_cuda_gemm_t  *g, key;

    for (i = 0; i < b->n_gemms; i++) {
        g = &b->gemms[i];

        if (g->n == n && g->rows == m->rows && g->width == m->width
            && g->out == out && g->e4m3 == m->type->e4m3)
        {
            return g;
        }
    }

    memset(&key, 0, sizeof(key));
    key.rows = m->rows;
    key.width = m->width;
    key.n = n;
    key.e4m3 = m->type->e4m3;
    key.out = out;

    return mst_cuda_gemm_add(b, &key, m);
}


int
mst_cuda_gemm(mst_backend_t *b, const mst_matrix_t *m, const void *x,
    void *y, uint32_t n, mst_cuda_out_t out)
{
    const mst_cuda_gemm_t  *g;

    g = mst_cuda_gemm_find(b, m, n, out);

    if (g == NULL) {
        return cudaErrorNotSupported;
    }

    return mst_cuda_gemm_rc(mst_cuda_gemm_run(b, g, &g->algo, m, x, y));
}


/* ms of an offer over some matrices of the shape; < 0: it does not run */

static float
mst_cuda_gemm_time(mst_backend_t *b, const mst_cuda_gemm_t *g,
    const cublasLtMatmulAlgo_t *algo, const cudaEvent_t *events)
{
    int                  n, try;
    float                best, ms;
    uint32_t             copies;
    const mst_matrix_t  *m;

    best = -1;
    copies = g->n > 1024 ? 2 : MST_CUDA_TUNE_COPY;

    for (try = 0; try <= MST_CUDA_TUNE_TRIES; try++) {
        n = 0;
        (void) cudaEventRecord(events[0], b->stream);

        for (m = b->matrices; m && n < (int) copies; m = m->next) {
            if (m->rows != g->rows || m->width != g->width
                || m->type->e4m3 != g->e4m3 || m->w == NULL)
            {
                continue;
            }

            if (mst_cuda_gemm_run(b, g, algo, m,
                                  g->width == b->conf.ff_dim ? b->act : b->x,
                                  g->out == MST_CUDA_F32 ? (void *) b->logits
                                  : g->out == MST_CUDA_ADD ? (void *) b->h
                                  : (void *) b->gate_up))
            {
                return -1;
            }

            n++;
        }

        (void) cudaEventRecord(events[1], b->stream);

        if (n == 0 || cudaEventSynchronize(events[1]) != cudaSuccess
            || cudaEventElapsedTime(&ms, events[0], events[1])
               != cudaSuccess)
        {
            return -1;
        }

        /* the first try loads the kernel */

        if (try && (best < 0 || ms < best)) {
            best = ms;
        }
    }

    return best;
}


static void
mst_cuda_gemm_tune_one(mst_backend_t *b, mst_cuda_gemm_t *g,
    const cudaEvent_t *events)
{
    int                              i, n;
    float                            best, ms;
    cublasLtMatmulHeuristicResult_t  offers[MST_CUDA_ALGOS];

    n = mst_cuda_gemm_offers(b, g, offers, MST_CUDA_ALGOS);
    best = -1;

    for (i = 0; i < n; i++) {
        ms = mst_cuda_gemm_time(b, g, &offers[i].algo, events);

        if (ms > 0 && (best < 0 || ms < best)) {
            best = ms;
            g->algo = offers[i].algo;
        }
    }
}


/* the matrices of a shape, be it of one type or of several */

static int
mst_cuda_gemm_tune_shape(mst_backend_t *b, uint32_t rows, uint32_t width,
    uint32_t n, mst_cuda_out_t out, int raw, const cudaEvent_t *events)
{
    uint32_t             seen;
    mst_cuda_out_t       how;
    mst_cuda_gemm_t     *g;
    const mst_matrix_t  *m;

    seen = 0;

    for (m = b->matrices; m; m = m->next) {
        if (m->rows != rows || m->width != width
            || m->w == NULL || seen & 1u << m->type->e4m3)
        {
            continue;
        }

        seen |= 1u << m->type->e4m3;
        how = m->type->e4m3 && raw ? MST_CUDA_RAW : out;
        g = mst_cuda_gemm_find(b, m, n, how);

        if (g == NULL) {
            return MST_ERROR;
        }

        mst_cuda_gemm_tune_one(b, g, events);
    }

    return MST_OK;
}


static int
mst_cuda_gemm_tune_rows(mst_backend_t *b, uint32_t rows,
    const cudaEvent_t *events)
{
    size_t                     i;
    const mst_backend_conf_t  *c;

    c = &b->conf;

    const struct {
        uint32_t        rows;
        uint32_t        width;
        mst_cuda_out_t  out;
        int             raw;       /* where the matrix is e4m3 */
    } shapes[] = {
        { b->qkv_dim, c->dim, MST_CUDA_BF16, 0 },
        { c->dim, b->q_dim, MST_CUDA_ADD, 1 },
        { 2 * c->ff_dim, c->dim, MST_CUDA_BF16, 0 },
        { c->dim, c->ff_dim, MST_CUDA_ADD, 1 },
        { c->n_vocab, c->dim, MST_CUDA_F32, 0 }
    };

    for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        if (i == 4 && rows > b->logits_rows) {
            continue;
        }

        if (mst_cuda_gemm_tune_shape(b, shapes[i].rows, shapes[i].width, rows,
                                     shapes[i].out, shapes[i].raw, events)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_cuda_gemm_fill(mst_backend_t *b)
{
    int           rc;
    mst_k_fill_t  a = { 0 };

    a.to = b->x;
    a.n = (uint64_t) b->rows * mst_cuda_max(b->conf.dim, b->q_dim);
    a.seed = 1;
    rc = mst_k_fill(&a, b->stream);

    a.to = b->act;
    a.n = (uint64_t) b->rows * b->conf.ff_dim;
    rc = rc ? rc : mst_k_fill(&a, b->stream);

    a.to = b->whole;
    a.n = b->whole_size / 2;

    return rc || a.to == NULL ? rc : mst_k_fill(&a, b->stream);
}


int
mst_cuda_gemm_tune(mst_backend_t *b, mst_err_t *err)
{
    int          rc;
    uint32_t     i, most, rows;
    uint64_t     start;
    cudaEvent_t  events[2] = { NULL, NULL };

    most = b->fused_rows;
    start = mst_time_ns();
    rc = cudaEventCreate(&events[0]);
    rc = rc ? rc : (int) cudaEventCreate(&events[1]);
    rc = rc ? rc : mst_cuda_gemm_fill(b);

    for (i = 0; rc == 0 && (rows = mst_cuda_warm(b, i)) != 0; i++) {
        if (rows > b->fused_rows
            && mst_cuda_gemm_tune_rows(b, mst_k_bucket_rows(rows), events)
               != MST_OK)
        {
            rc = cudaErrorNotSupported;
        }

        most = mst_cuda_max(most, rows);

        if (b->conf.progress) {
            b->conf.progress(b->conf.progress_data);
        }
    }

    /* of prompts' steps the largest, and halves: short prompts */

    for (rows = b->conf.max_rows; rc == 0 && rows > most; rows /= 2) {
        if (mst_cuda_gemm_tune_rows(b, mst_k_bucket_rows(rows), events)
            != MST_OK)
        {
            rc = cudaErrorNotSupported;
        }
    }

    for (i = 0; i < 2; i++) {
        if (events[i]) {
            (void) cudaEventDestroy(events[i]);
        }
    }

    rc = rc ? rc : (int) cudaStreamSynchronize(b->stream);

    mst_log(b->conf.log, MST_LOG_INFO, "cuda:%u: %u GEMMs chosen in %llu ms",
            b->conf.device, b->n_gemms,
            (unsigned long long) ((mst_time_ns() - start) / 1000000));

    return mst_cuda_check(b, rc, "choosing GEMMs", err);
}
