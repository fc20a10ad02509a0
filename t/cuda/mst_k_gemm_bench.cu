
/*
 * Times of the decode GEMMs: a Mistral-7B's 32 layers without attention and
 * its head, one CUDA graph a step, median of 15; each operation alone, in a
 * graph over the layers' weights (at least 1 GB); cuBLASLt beside, best of
 * its first 8 algorithms for each matrix, in the same run.
 *
 *     mst_k_gemm_bench [bf16|e4m3] [n..]
 *     mst_k_gemm_bench rings bf16|e4m3 n     other depths of the rings
 */

#include <cublasLt.h>

#include "gemm_rig.h"
#include "kernels/mst_k_gemm_run.h"


#define DIM     4096
#define FF      14336
#define QKV     6144
#define VOCAB   32768
#define LAYERS  32
#define PEAK    4.56e6             /* bytes per us that the H200 reads */


static cudaStream_t  stream;


/* a matrix of cuBLASLt's: y[n][rows] bf16 = x[n][width] . w[rows][width] */
struct lt {
    cublasLtMatmulDesc_t    op;
    cublasLtMatrixLayout_t  lw, lx, ly;
    cublasLtMatmulAlgo_t    algo;
    float                   us;
};


static cublasLtHandle_t  handle;
static void             *lt_work;
static size_t            lt_work_size = 32u << 20;


static int
lt_run(const lt &l, const void *w, const void *x, void *y)
{
    float  one = 1, zero = 0;

    return cublasLtMatmul(handle, l.op, &one, w, l.lw, x, l.lx, &zero, y,
                          l.ly, y, l.ly, &l.algo, lt_work, lt_work_size,
                          stream);
}


static lt
lt_make(uint32_t n, const std::vector<matrix> &m, int fp8, const void *x,
    void *y)
{
    int                              i, found;
    lt                               l, t;
    float                            us;
    int8_t                           fast = 1;
    cudaDataType_t                   type = fp8 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
    cublasOperation_t                trans = CUBLAS_OP_T;
    cublasLtMatmulPreference_t       pref;
    cublasLtMatmulHeuristicResult_t  r[8];

    CHECK(cublasLtMatmulDescCreate(&l.op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK(cublasLtMatmulDescSetAttribute(l.op, CUBLASLT_MATMUL_DESC_TRANSA,
                                         &trans, sizeof(trans)));
    if (fp8) {
        CHECK(cublasLtMatmulDescSetAttribute(
            l.op, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast)));
    }

    CHECK(cublasLtMatrixLayoutCreate(&l.lw, type, m[0].width, m[0].rows,
                                     m[0].width));
    CHECK(cublasLtMatrixLayoutCreate(&l.lx, type, m[0].width, n,
                                     m[0].width));
    CHECK(cublasLtMatrixLayoutCreate(&l.ly, CUDA_R_16BF, m[0].rows, n,
                                     m[0].rows));
    CHECK(cublasLtMatmulPreferenceCreate(&pref));
    CHECK(cublasLtMatmulPreferenceSetAttribute(
        pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &lt_work_size,
        sizeof(lt_work_size)));
    CHECK(cublasLtMatmulAlgoGetHeuristic(handle, l.op, l.lw, l.lx, l.ly, l.ly,
                                         pref, 8, r, &found));
    l.us = 1e9;

    for (i = 0; i < found; i++) {
        t = l;
        t.algo = r[i].algo;

        if (lt_run(t, m[0].w, x, y) != 0) {
            continue;
        }

        us = time_us(stream, 5, [&] {
            for (const matrix &k : m) {
                CHECK(lt_run(t, k.w, x, y));
            }
        }) / m.size();

        if (us < l.us) {
            l.us = us;
            l.algo = t.algo;
        }
    }

    CHECK(cublasLtMatmulPreferenceDestroy(pref));

    return l;
}


/* the same bytes as tiles or row-major: random either way */
static void
bench_lt(model &m, uint32_t n)
{
    lt                   l[5];
    float                chain;
    double               bytes;
    std::vector<matrix>  head(1, m.head);

    l[0] = lt_make(n, m.qkv, m.fp8, m.xa, m.work);
    l[1] = lt_make(n, m.out, m.fp8, m.xa, m.work);
    l[2] = lt_make(n, m.up, m.fp8, m.xa, m.work);
    l[3] = lt_make(n, m.down, m.fp8, m.act, m.work);
    l[4] = lt_make(n, head, 0, m.xa, m.work);

    chain = time_us(stream, 15, [&] {
        for (size_t i = 0; i < m.qkv.size(); i++) {
            CHECK(lt_run(l[0], m.qkv[i].w, m.xa, m.work));
            CHECK(lt_run(l[1], m.out[i].w, m.xa, m.work));
            CHECK(lt_run(l[2], m.up[i].w, m.xa, m.work));
            CHECK(lt_run(l[3], m.down[i].w, m.act, m.work));
        }

        CHECK(lt_run(l[4], m.head.w, m.xa, m.work));
    });

    bytes = m.head.size + (double) LAYERS * (m.qkv[0].size + m.out[0].size
                                             + m.up[0].size + m.down[0].size);
    printf("%s n %-3u cuBLASLt  qkv %5.1f out %5.1f gate-up %5.1f down %5.1f "
           "head %5.1f  chain %7.1f us (%.1f %%)\n", m.fp8 ? "e4m3" : "bf16",
           n, l[0].us, l[1].us, l[2].us, l[3].us, l[4].us, chain,
           bytes / PEAK / chain * 100);
    fflush(stdout);
}


static void
bench_own(model &m, uint32_t n, int pdl, const char *what)
{
    int     i;
    float   t[6];
    double  bytes;

    static const int  kinds[] = { 2, 4, 8, 16, 32, 1 + 2 + 4 + 8 + 16 + 32 };

    for (i = 0; i < 6; i++) {
        t[i] = time_us(stream, i == 5 ? 15 : 7, [&] {
            m.step(n, MST_K_GEMM_AUTO, pdl, kinds[i], stream);
        });
    }

    bytes = m.head.size + (double) LAYERS * (m.qkv[0].size + m.out[0].size
                                             + m.up[0].size + m.down[0].size);
    printf("%s n %-3u %-9s qkv %5.1f out %5.1f gate-up %5.1f down %5.1f "
           "head %5.1f  chain %7.1f us (%.1f %%)\n", m.fp8 ? "e4m3" : "bf16",
           n, what, t[0] / LAYERS, t[1] / LAYERS, t[2] / LAYERS,
           t[3] / LAYERS, t[4], t[5], bytes / PEAK / t[5] * 100);
    fflush(stdout);
}


static void
bench_rings(model &m, uint32_t n)
{
    uint32_t  i;
    char      what[32];

    static const uint32_t  rings[][3] = {
        { 2, 0, 0 }, { 3, 0, 0 }, { 4, 0, 0 }, { 5, 0, 0 }, { 6, 0, 0 },
        { 0, 2, 0 }, { 0, 3, 0 }, { 0, 4, 0 }, { 0, 6, 0 },
        { 0, 0, 1 }, { 0, 0, 2 }, { 0, 0, 3 }
    };

    for (i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
        mst_k_gemm_tune.ring = rings[i][0];
        mst_k_gemm_tune.x_ring = rings[i][1];
        mst_k_gemm_tune.ahead = rings[i][2];
        snprintf(what, sizeof(what), "%u/%u/%u", rings[i][0], rings[i][1],
                 rings[i][2]);
        bench_own(m, n, 1, what);
    }

    memset(&mst_k_gemm_tune, 0, sizeof(mst_k_gemm_tune));
}


int
main(int argc, char **argv)
{
    int                    i, fp8, rings;
    model                  m;
    std::vector<uint32_t>  n;

    if (!device_found(8)) {
        printf("skipped: no device\n");
        return 0;
    }

    rings = argc > 1 && strcmp(argv[1], "rings") == 0;
    argc -= rings;
    argv += rings;
    fp8 = argc > 1 && strcmp(argv[1], "e4m3") == 0;

    for (i = 2; i < argc; i++) {
        n.push_back(atoi(argv[i]));
    }

    if (n.empty()) {
        n = { 1, 8, 16, 32, 64, 128 };
    }

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cublasLtCreate(&handle));
    CHECK(cudaMalloc(&lt_work, lt_work_size));
    m.make(DIM, FF, QKV, VOCAB, LAYERS, fp8);

    for (uint32_t k : n) {
        m.run(k, MST_K_GEMM_AUTO, 0, 0);
        fill_x<<<256, 256>>>(m.xa, DIM, 128, fp8, 1, 99);
        CHECK(cudaDeviceSynchronize());

        if (rings) {
            bench_rings(m, k);
            continue;
        }

        bench_own(m, k, 1, "own");
        bench_own(m, k, 0, "own plain");
        fill_x<<<256, 256>>>(m.act, FF, 128, fp8, 1, 98);
        CHECK(cudaDeviceSynchronize());
        bench_lt(m, k);
    }

    m.done();

    return 0;
}
