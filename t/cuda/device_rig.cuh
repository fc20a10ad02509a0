
/*
 * What the programs that run kernels share: calls that must succeed, random
 * numbers, buffers of the device and the time of a graph.
 */

#ifndef DEVICE_RIG_CUH
#define DEVICE_RIG_CUH

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include <cuda_runtime.h>

#include "base/mst_hash.h"

#ifndef RIG_SEED
#define RIG_SEED  20261130
#endif

#define RIG_POISON  512            /* bytes behind a buffer */

#define CHECK(x)  check_rc((int) (x), #x, __FILE__, __LINE__)


static uint64_t  seed = RIG_SEED, draws;


static inline void
check_rc(int rc, const char *what, const char *file, int line)
{
    if (rc != 0) {
        printf("FAIL %s:%d: %s: %s\n", file, line, what,
               cudaGetErrorString((cudaError_t) rc));
        fflush(stdout);
        exit(1);
    }
}


/* one of this compute capability or later */

static inline int
device_found(int major)
{
    int  n, has;

    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0
           && cudaDeviceGetAttribute(&has, cudaDevAttrComputeCapabilityMajor,
                                     0)
              == cudaSuccess
           && has >= major;
}


/* 31 bits, by the seed alone */

static inline uint32_t
random32(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;

    return (uint32_t) (seed >> 33);
}


/* below n, by the seed and the number of draws */

static inline uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(seed + ++draws * 0x9e3779b97f4a7c15ull)
                       >> 11) % n;
}


static inline float
rndf(float low, float high)
{
    return low + (high - low) * (float) rnd(1 << 20) / (float) (1 << 20);
}


static inline uint16_t
bf16_of(float f)
{
    uint32_t  u;

    memcpy(&u, &f, 4);

    return (uint16_t) ((u + 0x7fff + (u >> 16 & 1)) >> 16);
}


static inline float
f32_of(uint16_t h)
{
    float     f;
    uint32_t  u;

    u = (uint32_t) h << 16;
    memcpy(&f, &u, 4);

    return f;
}


/* more: bytes behind it */

template <class T>
static T *
upload(const std::vector<T> &v, size_t more = 0)
{
    T  *p;

    CHECK(cudaMalloc((void **) &p, v.size() * sizeof(T) + more));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T),
                     cudaMemcpyHostToDevice));

    return p;
}


/* all of it, and what is behind it */

template <class T>
static T *
poisoned(size_t n)
{
    T  *p;

    CHECK(cudaMalloc((void **) &p, n * sizeof(T) + RIG_POISON));
    CHECK(cudaMemset(p, 0xff, n * sizeof(T) + RIG_POISON));

    /* a stream of a test's own does not wait for the one that this is in */

    CHECK(cudaDeviceSynchronize());

    return p;
}


/* poison behind it */

template <class T>
static T *
up(const std::vector<T> &v)
{
    T  *p;

    p = poisoned<T>(v.size());
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T),
                     cudaMemcpyHostToDevice));

    return p;
}


template <class T>
static std::vector<T>
download(const T *p, size_t n)
{
    std::vector<T>  v(n);

    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));

    return v;
}


static inline void
release(std::initializer_list<const void *> all)
{
    for (const void *p : all) {
        CHECK(cudaFree((void *) p));
    }
}


/* median microseconds of n replays of what the stream is given, after two */

template <class F>
static float
time_us(cudaStream_t stream, int n, F f)
{
    int                 i;
    cudaEvent_t         from, to;
    cudaGraph_t         graph;
    cudaGraphExec_t     exec;
    std::vector<float>  ms(n);

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    f();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));

    for (i = 0; i < 2; i++) {
        CHECK(cudaGraphLaunch(exec, stream));
    }

    for (i = 0; i < n; i++) {
        CHECK(cudaEventRecord(from, stream));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaEventRecord(to, stream));
        CHECK(cudaEventSynchronize(to));
        CHECK(cudaEventElapsedTime(&ms[i], from, to));
    }

    std::sort(ms.begin(), ms.end());
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(from));
    CHECK(cudaEventDestroy(to));

    return ms[n / 2] * 1e3f;
}


#endif /* DEVICE_RIG_CUH */
