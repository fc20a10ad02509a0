
/*
 * The CUDA runtime, cuBLASLt and the kernels, as far as the CUDA backend calls
 * them, on a device that is none: its memory is the host's, copies are done at
 * once, kernels compute nothing, a clock runs by what cuBLASLt's ways are said
 * to take.  Any call can be made to fail, memory can run out, threads need not
 * start.  With src/backend/mst_cuda*.c it makes build/t/libmst_fake.so, so
 * that what the backend does then is tested where there is no device.
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "fake_cuda.h"
#include "kernels/mst_kernels.h"

#define FAKE_BLOCKS  4096


typedef struct {
    char    *p;
    size_t   size;
} fake_block_t;


static fake_t  fake = {
    .total = 1ull << 40, .pinned = -1, .threads = -1, .offers = 1,
    .ms = { 1, 1, 1, 1, 1, 1, 1, 1 }
};

static fake_block_t     blocks[FAKE_BLOCKS];
static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER;


#pragma GCC visibility push(default)

fake_t *fake_cuda(void);

#pragma GCC visibility pop


fake_t *
fake_cuda(void)
{
    return &fake;
}


static int
fake_call(void)
{
    uint64_t  n;

    n = __atomic_add_fetch(&fake.calls, 1, __ATOMIC_RELAXED);

    return fake.fail_at && (n == fake.fail_at
                            || (fake.sticky && n > fake.fail_at))
           ? fake.rc : 0;
}


/* an object that is made, in *to */

static int
fake_make(void *to, size_t size)
{
    int    rc;
    void  *p;

    rc = fake_call();
    p = rc ? NULL : calloc(1, size);

    if (rc) {
        return rc;
    }

    (void) __atomic_add_fetch(&fake.live, 1, __ATOMIC_RELAXED);
    memcpy(to, &p, sizeof(p));

    return 0;
}


static int
fake_drop(void *p)
{
    (void) __atomic_sub_fetch(&fake.live, 1, __ATOMIC_RELAXED);
    free(p);

    return 0;
}


/* memory: pages that cost nothing before they are written */

static int
fake_take(void **to, size_t size)
{
    int     rc;
    size_t  i;

    rc = fake_call();

    if (rc) {
        return rc;
    }

    (void) pthread_mutex_lock(&lock);

    if (fake.used + size > fake.total) {
        (void) pthread_mutex_unlock(&lock);
        return cudaErrorMemoryAllocation;
    }

    for (i = 0; i < FAKE_BLOCKS && blocks[i].p; i++) { /* void */ }

    if (i == FAKE_BLOCKS) {
        abort();
    }

    blocks[i].size = size;
    blocks[i].p = mmap(NULL, size, PROT_READ|PROT_WRITE,
                       MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE, -1, 0);

    if (blocks[i].p == MAP_FAILED) {
        abort();
    }

    *to = blocks[i].p;
    fake.used += size;
    (void) pthread_mutex_unlock(&lock);
    (void) __atomic_add_fetch(&fake.live, 1, __ATOMIC_RELAXED);

    return 0;
}


static int
fake_free(void *p)
{
    size_t  i;

    (void) pthread_mutex_lock(&lock);

    for (i = 0; i < FAKE_BLOCKS && blocks[i].p != p; i++) { /* void */ }

    if (p == NULL || i == FAKE_BLOCKS) {
        abort();                               /* freed twice */
    }

    (void) munmap(p, blocks[i].size);
    fake.used -= blocks[i].size;
    blocks[i].p = NULL;
    (void) pthread_mutex_unlock(&lock);
    (void) __atomic_sub_fetch(&fake.live, 1, __ATOMIC_RELAXED);

    return 0;
}


static int
fake_wait(void)
{
    size_t  i;

    for (i = 0; fake.find && i < FAKE_BLOCKS; i++) {
        if (blocks[i].p && blocks[i].size < 64 << 20
            && memmem(blocks[i].p, blocks[i].size, fake.find,
                      fake.find_size))
        {
            fake.found++;
        }
    }

    return fake_call();
}


/* the runtime */

cudaError_t
cudaGetDeviceCount(int *n)
{
    *n = 1;

    return fake_call();
}


cudaError_t
cudaSetDevice(int device)
{
    (void) device;

    return fake_call();
}


cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    (void) device;

    memset(p, 0, sizeof(*p));
    strcpy(p->name, "Fake");
    p->major = 9;
    p->multiProcessorCount = 4;
    p->totalGlobalMem = fake.total;

    return fake_call();
}


cudaError_t
cudaDeviceGetAttribute(int *n, enum cudaDeviceAttr name, int device)
{
    (void) name;
    (void) device;
    *n = 1;

    return fake_call();
}


cudaError_t
cudaDeviceSynchronize(void)
{
    return fake_call();
}


cudaError_t
cudaDriverGetVersion(int *n)
{
    *n = 13000;

    return 0;
}


cudaError_t
cudaRuntimeGetVersion(int *n)
{
    *n = 13000;

    return 0;
}


cudaError_t
cudaGetLastError(void)
{
    return 0;
}


const char *
cudaGetErrorString(cudaError_t rc)
{
    return rc == cudaErrorMemoryAllocation ? "out of memory"
         : rc == cudaErrorIllegalAddress
           ? "an illegal memory access was encountered" : "another error";
}


cudaError_t
cudaMalloc(void **p, size_t size)
{
    return fake_take(p, size);
}


cudaError_t
cudaFree(void *p)
{
    return p ? fake_free(p) : 0;
}


cudaError_t
cudaHostAlloc(void **p, size_t size, unsigned flags)
{
    (void) flags;

    if (fake.pinned == 0) {
        return cudaErrorMemoryAllocation;
    }

    fake.pinned -= fake.pinned > 0;

    return fake_make(p, size);
}


cudaError_t
cudaMallocHost(void **p, size_t size)
{
    return cudaHostAlloc(p, size, 0);
}


cudaError_t
cudaFreeHost(void *p)
{
    return fake_drop(p);
}


cudaError_t
cudaMemGetInfo(size_t *left, size_t *total)
{
    *left = fake.total - fake.used;
    *total = fake.total;

    return fake_call();
}


cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t n,
    enum cudaMemcpyKind kind, cudaStream_t stream)
{
    int  rc;

    (void) kind;
    (void) stream;
    rc = fake_call();

    if (rc == 0) {
        memcpy(to, from, n);
    }

    return rc;
}


cudaError_t
cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind)
{
    return cudaMemcpyAsync(to, from, n, kind, NULL);
}


cudaError_t
cudaMemsetAsync(void *to, int byte, size_t n, cudaStream_t stream)
{
    int  rc;

    (void) stream;
    rc = fake_call();

    /* fresh memory is zero */

    if (rc == 0 && (byte || n < 4096)) {
        memset(to, byte, n);
    }

    return rc;
}


cudaError_t
cudaMemset(void *to, int byte, size_t n)
{
    return cudaMemsetAsync(to, byte, n, NULL);
}


cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    (void) flags;

    return fake_make(s, 1);
}


cudaError_t
cudaStreamDestroy(cudaStream_t s)
{
    return fake_drop(s);
}


cudaError_t
cudaStreamSynchronize(cudaStream_t s)
{
    (void) s;

    return fake_wait();
}


cudaError_t
cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    (void) s;
    (void) e;
    (void) flags;

    return fake_call();
}


/* a graph is how long it takes */

static double  captured;

cudaError_t
cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    (void) s;
    (void) mode;
    captured = fake.clock;

    return fake_call();
}


cudaError_t
cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
    int     rc;
    double  ms;

    (void) s;
    ms = fake.clock - captured;
    fake.clock = captured;
    rc = fake_make(graph, sizeof(double));

    if (rc == 0) {
        memcpy((void *) *graph, &ms, sizeof(double));
    }

    return rc;
}


cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
    unsigned long long flags)
{
    int  rc;

    (void) flags;
    rc = fake_make(exec, sizeof(double));

    if (rc == 0) {
        memcpy((void *) *exec, (void *) graph, sizeof(double));
    }

    return rc;
}


cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
    return fake_drop(graph);
}


cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return fake_drop(exec);
}


cudaError_t
cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    double  ms;

    (void) s;
    memcpy(&ms, (void *) exec, sizeof(double));
    fake.clock += ms;

    return fake_call();
}


/* an event is a time */

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    (void) flags;

    return fake_make(e, sizeof(double));
}


cudaError_t
cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, 0);
}


cudaError_t
cudaEventDestroy(cudaEvent_t e)
{
    return fake_drop(e);
}


cudaError_t
cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    (void) s;
    memcpy((void *) e, &fake.clock, sizeof(double));

    return fake_call();
}


cudaError_t
cudaEventSynchronize(cudaEvent_t e)
{
    (void) e;

    return fake_call();
}


cudaError_t
cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    double  a, b;

    memcpy(&a, (void *) from, sizeof(double));
    memcpy(&b, (void *) to, sizeof(double));
    *ms = (float) (b - a);

    return fake_call();
}


#include "fake_cublas.h"


/* threads: see --wrap in the Makefile */

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr,
    void *(*start)(void *), void *data);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
    void *(*start)(void *), void *data);


int
__wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
    void *(*start)(void *), void *data)
{
    if (fake.threads == 0) {
        return 11;                             /* EAGAIN */
    }

    fake.threads -= fake.threads > 0;

    return __real_pthread_create(t, attr, start, data);
}


/* the kernels */

#define FAKE_KERNEL(name, args)                                               \
                                                                              \
int                                                                           \
name(const args *a, cudaStream_t stream)                                      \
{                                                                             \
    (void) a;                                                                 \
    (void) stream;                                                            \
                                                                              \
    return fake_call();                                                       \
}

FAKE_KERNEL(mst_k_attn_decode, mst_k_attn_t)
FAKE_KERNEL(mst_k_attn_plan, mst_k_attn_plan_t)
FAKE_KERNEL(mst_k_attn_prefill, mst_k_attn_t)
FAKE_KERNEL(mst_k_attn_rope, mst_k_attn_t)
FAKE_KERNEL(mst_k_bias, mst_k_bias_t)
FAKE_KERNEL(mst_k_block_rows, mst_k_block_rows_t)
FAKE_KERNEL(mst_k_e4m3_gate, mst_k_e4m3_gate_t)
FAKE_KERNEL(mst_k_e4m3_norm, mst_k_e4m3_norm_t)
FAKE_KERNEL(mst_k_e4m3_rows, mst_k_e4m3_rows_t)
FAKE_KERNEL(mst_k_embed, mst_k_embed_t)
FAKE_KERNEL(mst_k_fill, mst_k_fill_t)
FAKE_KERNEL(mst_k_gemm, mst_k_gemm_t)
FAKE_KERNEL(mst_k_gemm_first, mst_k_gemm_first_t)
FAKE_KERNEL(mst_k_gemm_pack, mst_k_gemm_pack_t)
FAKE_KERNEL(mst_k_list, mst_k_list_t)
FAKE_KERNEL(mst_k_load, mst_k_load_t)
FAKE_KERNEL(mst_k_moe_sum, mst_k_moe_sum_t)
FAKE_KERNEL(mst_k_norm, mst_k_norm_t)
FAKE_KERNEL(mst_k_plain_attn, mst_k_plain_t)
FAKE_KERNEL(mst_k_plain_rope, mst_k_plain_t)
FAKE_KERNEL(mst_k_quant_embed, mst_k_quant_embed_t)
FAKE_KERNEL(mst_k_quant_pack, mst_k_quant_pack_t)
FAKE_KERNEL(mst_k_quant_rows, mst_k_quant_rows_t)
FAKE_KERNEL(mst_k_route, mst_k_route_t)
FAKE_KERNEL(mst_k_sample, mst_k_sample_t)
FAKE_KERNEL(mst_k_swiglu, mst_k_swiglu_t)


int
mst_k_quant_gemms(const mst_k_gemm_t *a, uint32_t n, mst_k_quant_form_t form,
    uint32_t *met, cudaStream_t stream)
{
    (void) a;
    (void) n;
    (void) form;
    (void) met;
    (void) stream;

    return fake_call();
}
