
/*
 * Which of the ways that cuBLASLt offers computes a shape: the fastest, which
 * is measured (decode's buckets, the largest step of prompts and its halves)
 * or was by another start on such a device (mst_tuned.h).
 *
 * What is kept is a number among the offers, which the library makes anew
 * each time: its own description of a way never comes from a file.
 */

#include <stdio.h>
#include <string.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "backend/mst_cuda.h"

#define MST_CUDA_ALGOS       8         /* that are measured */
#define MST_CUDA_TUNE_COPY   8         /* matrices of a shape, one after the
                                          other, so that none stays in L2 */
#define MST_CUDA_TUNE_LARGE  256       /* rows over which that matters little,
                                          and two are enough */
#define MST_CUDA_TUNE_SMALL  8         /* rows of a prompt that are too few */
#define MST_CUDA_TUNE_TRIES  3
#define MST_CUDA_TUNE_SLOW   1.3f      /* of the best: not tried again */


void
mst_cuda_tune_init(mst_backend_t *b)
{
    int   driver, runtime;
    char  key[512];

    driver = runtime = 0;
    (void) cudaDriverGetVersion(&driver);
    (void) cudaRuntimeGetVersion(&runtime);

    (void) snprintf(key, sizeof(key), "%s %d.%d, %d SMs, driver %d, runtime "
                    "%d, cuBLASLt %zu, %d offers, workspace %u",
                    b->props.name, b->props.major, b->props.minor,
                    b->props.multiProcessorCount, driver, runtime,
                    cublasLtGetVersion(), MST_CUDA_ALGOS, MST_CUDA_WORKSPACE);

    mst_tuned_init(&b->tuned, b->conf.tuned, key, b->conf.log);
    b->conf.tuned = NULL;                      /* the caller's */
}


/* some matrices of the shape, one after the other, onto the stream; 0: it does
   not run */

static uint32_t
mst_cuda_tune_put(mst_backend_t *b, const mst_cuda_gemm_t *g,
    const cublasLtMatmulAlgo_t *algo)
{
    void                *y;
    uint32_t             copies, n;
    const void          *x;
    const mst_matrix_t  *m;

    n = 0;
    copies = g->n > MST_CUDA_TUNE_LARGE ? 2 : MST_CUDA_TUNE_COPY;
    x = g->width == b->conf.ff_dim ? b->act : b->x;
    y = g->out == MST_CUDA_F32 ? (void *) b->logits
        : g->out == MST_CUDA_ADD ? (void *) b->h : (void *) b->gate_up;

    for (m = b->matrices; m && n < copies; m = m->next) {
        if (m->rows == g->rows && m->width == g->width
            && m->type->e4m3 == g->e4m3 && m->w)
        {
            if (mst_cuda_gemm_run(b, g, algo, m, x, y)) {
                return 0;
            }

            n++;
        }
    }

    return n;
}


/* the same as a graph, as steps that decode are: what a way puts on the stream
   beside its kernel may take longer there (5 us about a memset); NULL: there is
   none */

static cudaGraphExec_t
mst_cuda_tune_record(mst_backend_t *b, const mst_cuda_gemm_t *g,
    const cublasLtMatmulAlgo_t *algo)
{
    uint32_t         n;
    cudaGraph_t      graph;
    cudaGraphExec_t  exec;

    exec = NULL;
    graph = NULL;

    if (g->n > MST_CUDA_GRAPH_ROWS
        || cudaStreamBeginCapture(b->stream,
                                  cudaStreamCaptureModeThreadLocal)
           != cudaSuccess)
    {
        return NULL;
    }

    n = mst_cuda_tune_put(b, g, algo);

    if (cudaStreamEndCapture(b->stream, &graph) == cudaSuccess && n
        && cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess)
    {
        exec = NULL;
    }

    if (graph) {
        (void) cudaGraphDestroy(graph);
    }

    (void) cudaGetLastError();

    return exec;
}


/* ms; < 0: it does not run */

static float
mst_cuda_tune_pass(mst_backend_t *b, const mst_cuda_gemm_t *g,
    const cublasLtMatmulAlgo_t *algo, cudaGraphExec_t graph,
    const cudaEvent_t *events)
{
    int    rc;
    float  ms;

    (void) cudaEventRecord(events[0], b->stream);

    rc = graph ? cudaGraphLaunch(graph, b->stream) != cudaSuccess
               : mst_cuda_tune_put(b, g, algo) == 0;

    (void) cudaEventRecord(events[1], b->stream);

    return rc || cudaEventSynchronize(events[1]) != cudaSuccess
           || cudaEventElapsedTime(&ms, events[0], events[1]) != cudaSuccess
           ? -1 : ms;
}


/* the least of some passes; the first loads the kernel */

static float
mst_cuda_tune_time(mst_backend_t *b, const mst_cuda_gemm_t *g,
    const cublasLtMatmulAlgo_t *algo, const cudaEvent_t *events, float others)
{
    int              try;
    float            best, ms;
    cudaGraphExec_t  graph;

    if (mst_cuda_tune_pass(b, g, algo, NULL, events) < 0) {
        return -1;
    }

    best = -1;
    graph = mst_cuda_tune_record(b, g, algo);

    for (try = 0; try < MST_CUDA_TUNE_TRIES; try++) {
        ms = mst_cuda_tune_pass(b, g, algo, graph, events);

        if (ms < 0) {
            best = -1;
            break;
        }

        best = best < 0 || ms < best ? ms : best;

        if (others > 0 && best > others * MST_CUDA_TUNE_SLOW) {
            break;
        }
    }

    if (graph) {
        (void) cudaGraphExecDestroy(graph);
    }

    return best;
}


/* one pass, so that its kernel is there before a graph is recorded */

static int
mst_cuda_tune_again(mst_backend_t *b, mst_cuda_gemm_t *g,
    const cublasLtMatmulHeuristicResult_t *offers, int n, int choice,
    const cudaEvent_t *events)
{
    if (choice < 0 || choice >= n
        || mst_cuda_tune_pass(b, g, &offers[choice].algo, NULL, events) < 0)
    {
        return 0;
    }

    g->algo = offers[choice].algo;
    b->n_again++;

    return 1;
}


static void
mst_cuda_tune_one(mst_backend_t *b, mst_cuda_gemm_t *g,
    const cudaEvent_t *events)
{
    int                              i, n;
    float                            best, ms;
    mst_tuned_entry_t                e;
    cublasLtMatmulHeuristicResult_t  offers[MST_CUDA_ALGOS];

    n = mst_cuda_gemm_offers(b, g, offers, MST_CUDA_ALGOS);
    best = -1;

    e.rows = g->rows;
    e.width = g->width;
    e.n = g->n;
    e.kind = (uint32_t) g->e4m3 << 8 | (uint32_t) g->out;
    e.choice = 0;

    if (mst_cuda_tune_again(b, g, offers, n, mst_tuned_find(&b->tuned, &e),
                            events))
    {
        return;
    }

    for (i = 0; i < n; i++) {
        ms = mst_cuda_tune_time(b, g, &offers[i].algo, events, best);

        if (ms > 0 && (best < 0 || ms < best)) {
            best = ms;
            g->algo = offers[i].algo;
            e.choice = (uint32_t) i;
        }
    }

    if (best > 0) {
        mst_tuned_add(&b->tuned, &e);
    }
}


/* the matrices of a shape, be it of one type or of several */

static int
mst_cuda_tune_shape(mst_backend_t *b, uint32_t rows, uint32_t width,
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
        how = m->type->e4m3 && raw ? MST_CUDA_RAW
              : out == MST_CUDA_ADD ? mst_cuda_gemm_adds(b, m, n) : out;
        g = mst_cuda_gemm_find(b, m, n, how);

        if (g == NULL) {
            return MST_ERROR;
        }

        mst_cuda_tune_one(b, g, events);
    }

    return MST_OK;
}


static int
mst_cuda_tune_rows(mst_backend_t *b, uint32_t rows,
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
        if (i == 4 && (rows > b->logits_rows || rows <= b->fused_rows)) {
            continue;
        }

        if (mst_cuda_tune_shape(b, shapes[i].rows, shapes[i].width, rows,
                                     shapes[i].out, shapes[i].raw, events)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_cuda_tune_fill(mst_backend_t *b)
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
mst_cuda_tune(mst_backend_t *b, mst_err_t *err)
{
    int          rc;
    uint32_t     i, most, own, rows;
    uint64_t     start;
    cudaEvent_t  events[2] = { NULL, NULL };

    /* prompts in e4m3 are the library's, however short: mst_cuda_chain() */

    own = b->fused_rows;

    if (b->conf.dtype == MST_DTYPE_FP8) {
        own = mst_cuda_min(own, MST_CUDA_TUNE_SMALL);
    }

    most = own;
    start = mst_time_ns();
    rc = cudaEventCreate(&events[0]);
    rc = rc ? rc : (int) cudaEventCreate(&events[1]);
    rc = rc ? rc : mst_cuda_tune_fill(b);

    for (i = 0; rc == 0 && (rows = mst_cuda_warm(b, i)) != 0; i++) {
        if (rows > own
            && mst_cuda_tune_rows(b, mst_k_bucket_rows(rows), events)
               != MST_OK)
        {
            rc = cudaErrorNotSupported;
        }

        most = mst_cuda_max(most, rows);

        if (b->conf.progress) {
            (void) b->conf.progress(b->conf.progress_data);
        }
    }

    for (rows = b->conf.max_rows; rc == 0 && rows > most;
         rows = mst_cuda_size_tune(rows))
    {
        if (mst_cuda_tune_rows(b, mst_k_bucket_rows(rows), events)
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

    if (rc == cudaSuccess) {
        mst_tuned_save(&b->tuned);
    }

    mst_log(b->conf.log, MST_LOG_INFO, "cuda:%u: %u GEMMs chosen in %llu ms, "
            "%u as before", b->conf.device, b->n_gemms,
            (unsigned long long) ((mst_time_ns() - start) / 1000000),
            b->n_again);

    return mst_cuda_check(b, rc, "choosing GEMMs", err);
}
