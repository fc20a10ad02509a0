
/*
 * The findings of mst_probe.h: what the device is, how fast its memory is,
 * whether it can be had as a KV cache, and each kernel once, on shapes of
 * Mistral-7B and random data (mst_cuda_probe_data.c).
 *
 * A kernel's time is that of a graph of MST_PROBE_TIMES launches; its floor
 * what the memory's bus takes for the bytes, or the tensor cores for the
 * operations.  Whether results are right is no matter of this: make
 * test-cuda.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/mst_cuda_probe.h"


#define MST_PROBE_TIMES   16           /* launches of a graph */
#define MST_PROBE_SPARE   (1u << 30)   /* bytes that the cache leaves */
#define MST_PROBE_COPY    (256u << 20)
#define MST_PROBE_BYTE    0xa5


static void
mst_probe_say(mst_probe_run_t *r, int ok, const char *name, double us,
    double floor_us, const char *fmt, ...)
{
    char              text[256];
    va_list           args;
    mst_probe_line_t  line;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    line.name = name;
    line.ok = ok;
    line.text = text;
    line.us = us;
    line.floor_us = floor_us;

    r->bad += !ok;
    r->p->line(r->p->data, &line);
}


/* whether that went well; else it is a finding */

static int
mst_probe_did(mst_probe_run_t *r, int rc, const char *name, const char *what)
{
    if (rc == cudaSuccess) {
        return 1;
    }

    (void) cudaGetLastError();
    mst_probe_say(r, 0, name, 0, 0, "%s: %s", what,
                  cudaGetErrorString((cudaError_t) rc));

    return 0;
}


static int
mst_probe_attribute(mst_probe_run_t *r, enum cudaDeviceAttr name)
{
    int  n;

    n = 0;
    (void) cudaDeviceGetAttribute(&n, name, (int) r->p->device);

    return n;
}


/* multiply-adds of bf16 that a multiprocessor's tensor cores do in a cycle */

static double
mst_probe_cores(const struct cudaDeviceProp *props)
{
    return props->major >= 9 ? 2048
         : props->major == 8 && props->minor == 0 ? 1024 : 512;
}


static int
mst_probe_device(mst_probe_run_t *r)
{
    int     n, rc;
    double  mhz;

    rc = cudaGetDeviceCount(&n);

    if (!mst_probe_did(r, rc, "device", "counting devices")) {
        return MST_ERROR;
    }

    if (r->p->device >= (uint32_t) n) {
        mst_probe_say(r, 0, "device", 0, 0, "there is no cuda:%u, there are "
                      "%d devices", r->p->device, n);
        return MST_ERROR;
    }

    if (!mst_probe_did(r, cudaSetDevice((int) r->p->device), "device",
                       "opening it")
        || !mst_probe_did(r, cudaGetDeviceProperties(&r->props,
                                                    (int) r->p->device),
                          "device", "its properties")
        || !mst_probe_did(r, cudaStreamCreateWithFlags(&r->stream,
                                                     cudaStreamNonBlocking),
                          "device", "a stream"))
    {
        return MST_ERROR;
    }

    mhz = mst_probe_attribute(r, cudaDevAttrClockRate) / 1000.0;

    r->bus = mst_probe_attribute(r, cudaDevAttrMemoryClockRate) / 1000.0 * 2
             * mst_probe_attribute(r, cudaDevAttrGlobalMemoryBusWidth) / 8;
    r->flops = mst_probe_cores(&r->props) * 2 * r->props.multiProcessorCount
               * mhz;

    mst_probe_say(r, r->props.major >= 8, "device", 0, 0, "cuda:%u, %s, "
                  "compute capability %d.%d%s, %d multiprocessors at up to "
                  "%.0f MHz", r->p->device, r->props.name, r->props.major,
                  r->props.minor,
                  r->props.major >= 8 ? "" : " (8.0 is the least)",
                  r->props.multiProcessorCount, mhz);

    return r->props.major >= 8 ? MST_OK : MST_ERROR;
}


/* us of one launch; 0: it is a finding that it failed */

static double
mst_probe_time(mst_probe_run_t *r, const char *name,
    int (*launch)(mst_probe_run_t *))
{
    int              i, rc;
    float            ms;
    cudaEvent_t      begin, end;
    cudaGraph_t      graph;
    cudaGraphExec_t  exec;

    graph = NULL;
    exec = NULL;
    begin = NULL;
    end = NULL;
    ms = 0;

    rc = cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);

    for (i = 0; i < MST_PROBE_TIMES && rc == cudaSuccess; i++) {
        rc = launch(r);
    }

    i = cudaStreamEndCapture(r->stream, &graph);
    rc = rc ? rc : i;
    rc = rc ? rc : (int) cudaGraphInstantiate(&exec, graph, 0);
    rc = rc ? rc : (int) cudaEventCreate(&begin);
    rc = rc ? rc : (int) cudaEventCreate(&end);
    rc = rc ? rc : (int) cudaGraphLaunch(exec, r->stream);
    rc = rc ? rc : (int) cudaEventRecord(begin, r->stream);
    rc = rc ? rc : (int) cudaGraphLaunch(exec, r->stream);
    rc = rc ? rc : (int) cudaEventRecord(end, r->stream);
    rc = rc ? rc : (int) cudaStreamSynchronize(r->stream);
    rc = rc ? rc : (int) cudaEventElapsedTime(&ms, begin, end);

    (void) (exec ? cudaGraphExecDestroy(exec) : cudaSuccess);
    (void) (graph ? cudaGraphDestroy(graph) : cudaSuccess);
    (void) (begin ? cudaEventDestroy(begin) : cudaSuccess);
    (void) (end ? cudaEventDestroy(end) : cudaSuccess);

    return mst_probe_did(r, rc, name, "running it")
           ? (double) ms * 1000 / MST_PROBE_TIMES : 0;
}


static int
mst_probe_copy(mst_probe_run_t *r)
{
    return (int) cudaMemcpyAsync(r->arena + MST_PROBE_COPY, r->arena,
                                 MST_PROBE_COPY, cudaMemcpyDeviceToDevice,
                                 r->stream);
}


/* GB/s between pinned memory and the device; 0: a finding */

static double
mst_probe_link(mst_probe_run_t *r, void *host, int to_device)
{
    int          rc;
    float        ms;
    cudaEvent_t  begin, end;

    begin = NULL;
    end = NULL;
    ms = 0;

    rc = cudaEventCreate(&begin);
    rc = rc ? rc : (int) cudaEventCreate(&end);
    rc = rc ? rc : (int) cudaEventRecord(begin, r->stream);
    rc = rc ? rc : (int) cudaMemcpyAsync(to_device ? r->arena : host,
                                         to_device ? host : r->arena,
                                         MST_PROBE_COPY,
                                         to_device ? cudaMemcpyHostToDevice
                                                   : cudaMemcpyDeviceToHost,
                                         r->stream);
    rc = rc ? rc : (int) cudaEventRecord(end, r->stream);
    rc = rc ? rc : (int) cudaStreamSynchronize(r->stream);
    rc = rc ? rc : (int) cudaEventElapsedTime(&ms, begin, end);

    (void) (begin ? cudaEventDestroy(begin) : cudaSuccess);
    (void) (end ? cudaEventDestroy(end) : cudaSuccess);

    return mst_probe_did(r, rc, "link", "copying") && ms > 0
           ? MST_PROBE_COPY / (double) ms / 1e6 : 0;
}


static int
mst_probe_memory(mst_probe_run_t *r)
{
    int     rc;
    void   *host;
    size_t  left, all;
    double  us, to, from;

    rc = cudaMemGetInfo(&left, &all);
    rc = rc ? rc : (int) cudaMalloc((void **) &r->arena, MST_PROBE_ARENA);

    if (!mst_probe_did(r, rc, "memory", "taking 1400 MiB")) {
        return MST_ERROR;
    }

    us = mst_probe_time(r, "memory", mst_probe_copy);

    mst_probe_say(r, us > 0, "memory", us, 2.0 * MST_PROBE_COPY / r->bus,
                  "%.1f GiB, %.1f of them free, a copy moves %.2f TB/s",
                  (double) all / (1 << 30), (double) left / (1 << 30),
                  us > 0 ? 2.0 * MST_PROBE_COPY / us / 1e6 : 0);

    host = NULL;
    rc = cudaMallocHost(&host, MST_PROBE_COPY);

    if (!mst_probe_did(r, rc, "link", "256 MiB of pinned memory")) {
        return MST_ERROR;
    }

    memset(host, MST_PROBE_BYTE, MST_PROBE_COPY);
    (void) mst_probe_link(r, host, 1);
    to = mst_probe_link(r, host, 1);
    from = mst_probe_link(r, host, 0);
    (void) cudaFreeHost(host);

    mst_probe_say(r, to > 0 && from > 0, "link", 0, 0, "%.1f GB/s to the "
                  "device, %.1f GB/s back, pinned", to, from);

    return us > 0 && to > 0 && from > 0 ? MST_OK : MST_ERROR;
}


/* all that is free, as blocks of a KV cache: written, and read at its ends */

static void
mst_probe_cache(mst_probe_run_t *r)
{
    int             rc;
    char           *p;
    size_t          left, all, block, n;
    unsigned char   ends[2];

    block = (size_t) mst_k_kv_block(MST_PROBE_KV, 128, MST_K_KV_BF16) * 32;
    rc = cudaMemGetInfo(&left, &all);
    n = left > MST_PROBE_SPARE ? (left - MST_PROBE_SPARE) / block : 0;
    p = NULL;
    ends[0] = ends[1] = 0;

    if (rc == cudaSuccess && n == 0) {
        mst_probe_say(r, 0, "KV cache", 0, 0, "%.1f GiB are free, no block",
                      (double) left / (1 << 30));
        return;
    }

    rc = rc ? rc : (int) cudaMalloc((void **) &p, n * block);
    rc = rc ? rc : (int) cudaMemset(p, MST_PROBE_BYTE, n * block);
    rc = rc ? rc : (int) cudaMemcpy(&ends[0], p, 1, cudaMemcpyDeviceToHost);
    rc = rc ? rc : (int) cudaMemcpy(&ends[1], p + n * block - 1, 1,
                                    cudaMemcpyDeviceToHost);

    if (p) {
        left = cudaFree(p);
        rc = rc ? rc : (int) left;
    }

    if (!mst_probe_did(r, rc, "KV cache", "taking, writing and reading it")) {
        return;
    }

    mst_probe_say(r, ends[0] == MST_PROBE_BYTE && ends[1] == MST_PROBE_BYTE,
                  "KV cache", 0, 0, "%zu blocks of 64 tokens, %zu MiB each for "
                  "Mistral-7B, taken, written, read and given back", n,
                  block >> 20);
}


static void
mst_probe_each(mst_probe_run_t *r)
{
    double                     us, floor_us, ops;
    const mst_probe_kernel_t  *k;

    if (!mst_probe_did(r, mst_probe_data(r), "kernels", "their data")) {
        return;
    }

    for (k = mst_probe_kernels; k->name; k++) {
        us = mst_probe_time(r, k->name, k->launch);

        if (us == 0) {
            return;                    /* the device is lost, or may be */
        }

        floor_us = k->bytes / r->bus;
        ops = k->ops / (k->fp8 && (r->props.major > 8 || r->props.minor == 9)
                        ? 2 * r->flops : r->flops);
        floor_us = mst_cuda_max(floor_us, ops);

        mst_probe_say(r, 1, k->name, us, floor_us, "kernel");
    }
}


/* MST_PROBE_SYMBOL */

#pragma GCC visibility push(default)

int mst_cuda_probe(const mst_probe_t *p, mst_err_t *err);

#pragma GCC visibility pop


int
mst_cuda_probe(const mst_probe_t *p, mst_err_t *err)
{
    int              rc;
    mst_probe_run_t  r;

    memset(&r, 0, sizeof(r));
    r.p = p;

    rc = mst_probe_device(&r);

    if (rc == MST_OK) {
        rc = mst_probe_memory(&r);
    }

    if (rc == MST_OK) {
        mst_probe_cache(&r);
        mst_probe_each(&r);
    }

    if (r.arena) {
        (void) cudaFree(r.arena);
    }

    if (r.stream) {
        (void) cudaStreamDestroy(r.stream);
    }

    return r.bad ? mst_err_set(err, "%d findings are not as they should be",
                               r.bad)
                 : MST_OK;
}
