
/*
 * GEMMs by cuBLASLt: y [n][rows] = x [n][width] times a matrix [rows][width],
 * all row-major, which the library sees as columns.
 *
 * How a shape is computed is chosen once: mst_cuda_tune.c, or else it is the
 * first of the library's list.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_cuda.h"


static int
mst_cuda_gemm_rc(int status)
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
    mst_tuned_fini(&b->tuned);

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


int
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


/* how m is added to h: in parts where that makes more CTAs, as what comes next
   reads h anyway, and adds them */

mst_cuda_out_t
mst_cuda_gemm_adds(const mst_backend_t *b, const mst_matrix_t *m, uint32_t n)
{
    return m->type->plain == mst_cuda_gemm && !m->type->e4m3
           && !b->conf.batch_invariant && b->conf.n_experts == 0
           && n <= MST_CUDA_SPLIT_ROWS
           && m->width % (MST_K_NORM_PARTS * 64) == 0
           && MST_K_NORM_PARTS * b->conf.dim <= b->conf.ff_dim
           ? MST_CUDA_PARTS : MST_CUDA_ADD;
}


static int
mst_cuda_gemm_layout(cublasLtMatrixLayout_t *to, cudaDataType_t type,
    uint32_t rows, uint32_t columns, uint32_t pitch, uint64_t part)
{
    int32_t  n;
    int64_t  offset;

    n = MST_K_NORM_PARTS;
    offset = (int64_t) part;

    return cublasLtMatrixLayoutCreate(to, type, rows, columns, pitch)
           || (part
               && (cublasLtMatrixLayoutSetAttribute(*to,
                                    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                    &n, sizeof(n))
                   || cublasLtMatrixLayoutSetAttribute(*to,
                                    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                    &offset, sizeof(offset))));
}


static int
mst_cuda_gemm_describe(mst_cuda_gemm_t *g, const float *w, const float *x)
{
    int8_t             fast;
    uint32_t           width;
    uint64_t           part;
    cublasOperation_t  turned;
    cudaDataType_t     type, in;

    fast = 1;
    width = g->out == MST_CUDA_PARTS ? g->width / MST_K_NORM_PARTS : g->width;
    part = g->out == MST_CUDA_PARTS ? 1 : 0;
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
        || mst_cuda_gemm_layout(&g->w, in, width, g->rows, g->width,
                                part * width)
        || mst_cuda_gemm_layout(&g->x, in, width, g->n, g->width,
                                part * width)
        || mst_cuda_gemm_layout(&g->y, type, g->rows, g->n, g->rows,
                                part * g->rows * g->n))
    {
        return MST_ERROR;
    }

    return MST_OK;
}


int
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


mst_cuda_gemm_t *
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
