
/*
 * cuBLASLt for fake_cuda.c, which alone includes it: an offer is its number,
 * statuses are 0 or "not initialised".
 */

#ifndef FAKE_CUBLAS_H
#define FAKE_CUBLAS_H


static cublasStatus_t
fake_status(int rc)
{
    return rc ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}


cublasStatus_t
cublasLtCreate(cublasLtHandle_t *h)
{
    return fake_status(fake_make(h, 1));
}


cublasStatus_t
cublasLtDestroy(cublasLtHandle_t h)
{
    return fake_status(fake_drop(h));
}


size_t
cublasLtGetVersion(void)
{
    return 130000;
}


cublasStatus_t
cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d,
    cublasComputeType_t type, cudaDataType_t scale)
{
    (void) type;
    (void) scale;

    return fake_status(fake_make(d, 1));
}


cublasStatus_t
cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    return fake_status(fake_drop(d));
}


cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
    cublasLtMatmulDescAttributes_t name, const void *value, size_t size)
{
    (void) d;
    (void) name;
    (void) value;
    (void) size;

    return fake_status(fake_call());
}


cublasStatus_t
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type,
    uint64_t rows, uint64_t cols, int64_t ld)
{
    (void) type;
    (void) rows;
    (void) cols;
    (void) ld;

    return fake_status(fake_make(l, 1));
}


cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
    cublasLtMatrixLayoutAttribute_t name, const void *value, size_t size)
{
    (void) l;
    (void) name;
    (void) value;
    (void) size;

    return fake_status(fake_call());
}


cublasStatus_t
cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    return fake_status(fake_drop(l));
}


cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    return fake_status(fake_make(p, 1));
}


cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    return fake_status(fake_drop(p));
}


cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
    cublasLtMatmulPreferenceAttributes_t name, const void *value, size_t size)
{
    (void) p;
    (void) name;
    (void) value;
    (void) size;

    return fake_status(fake_call());
}


cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
    cublasLtMatmulPreference_t p, int most,
    cublasLtMatmulHeuristicResult_t offers[], int *n)
{
    int  i;

    (void) h;
    (void) d;
    (void) a;
    (void) b;
    (void) c;
    (void) to;
    (void) p;

    *n = most < fake.offers ? most : fake.offers;

    for (i = 0; i < *n; i++) {
        memset(&offers[i], 0, sizeof(offers[i]));
        offers[i].algo.data[0] = (uint64_t) i;
    }

    return fake_status(fake_call());
}


cublasStatus_t
cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha,
    const void *a, cublasLtMatrixLayout_t la, const void *b,
    cublasLtMatrixLayout_t lb, const void *beta, const void *c,
    cublasLtMatrixLayout_t lc, void *to, cublasLtMatrixLayout_t lto,
    const cublasLtMatmulAlgo_t *algo, void *work, size_t size,
    cudaStream_t stream)
{
    (void) h;
    (void) d;
    (void) alpha;
    (void) a;
    (void) la;
    (void) b;
    (void) lb;
    (void) beta;
    (void) c;
    (void) lc;
    (void) to;
    (void) lto;
    (void) work;
    (void) size;
    (void) stream;

    fake.products++;

    if (fake.ms[algo->data[0]] < 0) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }

    fake.clock += (double) fake.ms[algo->data[0]];

    return fake_status(fake_call());
}


#endif /* FAKE_CUBLAS_H */
