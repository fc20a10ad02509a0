
/*
 * Memory of the CUDA backend: everything is taken while the engine starts
 * and freed at its end, so that nothing can run short under load.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_cuda.h"


struct mst_cuda_block_s {
    mst_cuda_block_t  *next;
    void              *p;
    int                host;
};


int
mst_cuda_check(mst_backend_t *b, int rc, const char *what, mst_err_t *err)
{
    if (rc == cudaSuccess) {
        return MST_OK;
    }

    b->failed = 1;
    (void) cudaGetLastError();

    return mst_err_set(err, "cuda:%u: %s: %s", b->conf.device, what,
                       cudaGetErrorString((cudaError_t) rc));
}


uint64_t
mst_cuda_left(mst_backend_t *b)
{
    size_t  left, total;

    (void) b;

    return cudaMemGetInfo(&left, &total) == cudaSuccess ? left : 0;
}


static int
mst_cuda_keep(mst_backend_t *b, void *p, int host)
{
    mst_cuda_block_t  *block;

    block = mst_alloc(sizeof(mst_cuda_block_t));

    if (block == NULL) {
        return MST_ERROR;
    }

    block->p = p;
    block->host = host;
    block->next = b->blocks;
    b->blocks = block;

    return MST_OK;
}


void *
mst_cuda_take(mst_backend_t *b, uint64_t size, const char *what,
    mst_err_t *err)
{
    int    rc;
    void  *p;

    size = mst_cuda_max(size, 256);
    rc = cudaMalloc(&p, size);

    if (rc == cudaErrorMemoryAllocation) {
        (void) cudaGetLastError();
        (void) mst_err_set(err, "cuda:%u has no memory for %s of %llu MiB: "
                           "%llu MiB are taken, %llu of %llu MiB free",
                           b->conf.device, what,
                           (unsigned long long) (size >> 20),
                           (unsigned long long) (b->taken >> 20),
                           (unsigned long long) (mst_cuda_left(b) >> 20),
                           (unsigned long long) (b->props.totalGlobalMem
                                                 >> 20));
        return NULL;
    }

    if (mst_cuda_check(b, rc, what, err) != MST_OK) {
        return NULL;
    }

    if (mst_cuda_keep(b, p, 0) != MST_OK) {
        (void) cudaFree(p);
        (void) mst_err_set(err, "out of memory for the CUDA backend");
        return NULL;
    }

    b->taken += size;

    if (mst_cuda_check(b, cudaMemsetAsync(p, 0, size, b->stream), what, err)
        != MST_OK)
    {
        return NULL;
    }

    return p;
}


void *
mst_cuda_pinned(mst_backend_t *b, uint64_t size, mst_err_t *err)
{
    int    rc;
    void  *p;

    rc = cudaHostAlloc(&p, size, cudaHostAllocDefault);

    if (mst_cuda_check(b, rc, "pinned memory", err) != MST_OK) {
        return NULL;
    }

    if (mst_cuda_keep(b, p, 1) != MST_OK) {
        (void) cudaFreeHost(p);
        (void) mst_err_set(err, "out of memory for the CUDA backend");
        return NULL;
    }

    memset(p, 0, size);

    return p;
}


void
mst_cuda_free(mst_backend_t *b)
{
    mst_cuda_block_t  *block;

    while (b->blocks) {
        block = b->blocks;
        b->blocks = block->next;

        if (block->host) {
            (void) cudaFreeHost(block->p);

        } else {
            (void) cudaFree(block->p);
        }

        mst_free(block);
    }
}
