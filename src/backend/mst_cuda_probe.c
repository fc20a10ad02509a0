
/*
 * The findings of mst_probe.h: what the device is, how fast its memory is,
 * whether it can be had as a KV cache, and each kernel once, on shapes of
 * Mistral-7B and random data.
 *
 * A kernel's time is that of a graph of MST_PROBE_TIMES launches; its floor
 * what the memory's bus takes for the bytes, or the tensor cores for the
 * operations.  Whether results are right is no matter of this: make
 * test-cuda.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_cuda.h"
#include "backend/mst_probe.h"

#define MST_PROBE_TIMES   16           /* launches of a graph */
#define MST_PROBE_ARENA   (1400u << 20)
#define MST_PROBE_SPARE   (1u << 30)   /* bytes that the cache leaves */
#define MST_PROBE_COPY    (256u << 20)
#define MST_PROBE_DIM     4096
#define MST_PROBE_FF      14336
#define MST_PROBE_HEADS   32
#define MST_PROBE_KV      8
#define MST_PROBE_VOCAB   32768
#define MST_PROBE_SEQS    64           /* that decode */
#define MST_PROBE_TOKENS  576          /* of each of them */
#define MST_PROBE_PROMPT  2048
#define MST_PROBE_BYTE    0xa5


typedef struct {
    const mst_probe_t      *p;
    struct cudaDeviceProp   props;
    double                  bus;       /* bytes per us, as the data sheet has */
    double                  flops;     /* dense bf16 operations per us */
    cudaStream_t            stream;
    int                     bad;       /* findings that are not ok */
    char                   *arena;
    size_t                  at;

    /* random data, of the device */
    uint16_t               *w;         /* bf16 [2 FF][DIM] */
    void                   *tiles;     /* the same, packed */
    uint8_t                *rows8;     /* e4m3 [2 FF][DIM] ... */
    float                  *scale8;    /* ... [2 FF] */
    void                   *tiles8;
    float                  *tile_scale8;
    float                  *h;         /* [PROMPT][DIM] */
    float                  *gain;      /* [FF] */
    uint16_t               *x;         /* bf16 [PROMPT][2 FF] */
    void                   *y;         /* as large */
    float                  *logits;    /* [SEQS][VOCAB] */
    char                   *kv;        /* a layer's blocks */
    mst_k_attn_t            decode;
    mst_k_attn_t            prompt;
    mst_k_sample_t          sample;
} mst_probe_run_t;


typedef struct {
    const char  *name;
    int        (*launch)(mst_probe_run_t *r);
    double       bytes;                /* that the memory moves */
    double       ops;                  /* of tensor cores */
    int          fp8;                  /* they are twice as fast */
} mst_probe_kernel_t;


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


static void *
mst_probe_take(mst_probe_run_t *r, size_t size)
{
    void  *p;

    p = r->arena + r->at;
    r->at += (size + 255) / 256 * 256;

    return r->at <= MST_PROBE_ARENA ? p : NULL;
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


/* the arrays of a step of n_seqs with as many rows and tokens each */

static int
mst_probe_step(mst_probe_run_t *r, mst_k_attn_t *a, uint32_t n_seqs,
    uint32_t rows, uint32_t tokens)
{
    int             rc;
    void           *host;
    float          *turns;
    size_t          size;
    uint32_t        i, j, n, blocks;
    mst_k_step_t    s;
    mst_k_bucket_t  b;

    mst_k_attn_work_t  work;

    memset(a, 0, sizeof(mst_k_attn_t));
    memset(&b, 0, sizeof(b));

    n = n_seqs * rows;
    blocks = (tokens + MST_K_BLOCK - 1) / MST_K_BLOCK;
    b.rows = n;
    b.seqs = n_seqs;
    b.wanted = n_seqs;
    size = mst_k_step_layout(&b, NULL, &s)
           + (size_t) n_seqs * blocks * sizeof(int32_t);
    host = mst_calloc(1, size);
    turns = mst_calloc((size_t) n * 128, sizeof(float));

    if (host == NULL || turns == NULL) {
        mst_free(host);
        mst_free(turns);
        return cudaErrorMemoryAllocation;
    }

    (void) mst_k_step_layout(&b, host, &s);

    s.counts[MST_K_ROWS] = (int32_t) n;
    s.counts[MST_K_SEQS] = (int32_t) n_seqs;

    for (i = 0; i < n_seqs; i++) {
        s.seq_row[i] = (int32_t) (i * rows);
        s.seq_n[i] = (int32_t) rows;
        s.seq_len[i] = (int32_t) tokens;
        s.seq_table[i] = (int32_t) (i * blocks);

        for (j = 0; j < blocks; j++) {
            s.blocks[i * blocks + j] = (int32_t) (i * blocks + j);
        }

        for (j = i * rows; j < (i + 1) * rows; j++) {
            s.pos[j] = (int32_t) (tokens - rows + j - i * rows);
            s.seq[j] = (int32_t) i;
            s.slot[j] = s.blocks[i * blocks + (uint32_t) s.pos[j]
                                              / MST_K_BLOCK]
                        * MST_K_BLOCK + s.pos[j] % MST_K_BLOCK;
            s.q_scale[j] = 0.0883883f;         /* 1 / sqrt(128) */
        }
    }

    for (i = 0; i < n * 64; i++) {
        turns[2 * i] = 1;
    }

    a->shape.rows = n;
    a->shape.seqs = n_seqs;
    a->shape.n_heads = MST_PROBE_HEADS;
    a->shape.n_kv_heads = MST_PROBE_KV;
    a->shape.head_dim = 128;
    a->shape.ctas = mst_k_attn_ctas(n_seqs, MST_PROBE_KV, (uint32_t)
                                    r->props.multiProcessorCount);
    mst_k_attn_work(&a->shape, &work);

    a->work = mst_probe_take(r, work.size);
    a->turns = mst_probe_take(r, (size_t) n * 128 * sizeof(float));
    (void) mst_k_step_layout(&b, mst_probe_take(r, size), &a->step);
    a->pairs = 64;
    a->qkv = r->x;
    a->kv = r->kv;
    a->block_stride = mst_k_kv_block(MST_PROBE_KV, 128, MST_K_KV_BF16);
    a->out = r->y;
    a->out_rows = n;

    rc = cudaMemcpy(a->step.counts, host, size, cudaMemcpyHostToDevice);
    rc = rc ? rc : (int) cudaMemcpy((void *) a->turns, turns,
                                    (size_t) n * 128 * sizeof(float),
                                    cudaMemcpyHostToDevice);
    mst_free(host);
    mst_free(turns);

    return rc;
}


static int
mst_probe_plan(mst_probe_run_t *r, const mst_k_attn_t *a)
{
    mst_k_attn_plan_t  plan;

    memset(&plan, 0, sizeof(plan));
    plan.step = a->step;
    plan.shape = a->shape;
    plan.work = a->work;

    return mst_k_attn_plan(&plan, r->stream);
}


static int
mst_probe_plan_decode(mst_probe_run_t *r)
{
    return mst_probe_plan(r, &r->decode);
}


static int
mst_probe_decode(mst_probe_run_t *r)
{
    return mst_k_attn_decode(&r->decode, r->stream);
}


static int
mst_probe_rope(mst_probe_run_t *r)
{
    return mst_k_attn_rope(&r->prompt, r->stream);
}


static int
mst_probe_prompt(mst_probe_run_t *r)
{
    return mst_k_attn_prefill(&r->prompt, r->stream);
}


static int
mst_probe_norm(mst_probe_run_t *r)
{
    mst_k_norm_t  a;

    memset(&a, 0, sizeof(a));
    a.h = r->h;
    a.gain = r->gain;
    a.x = r->y;
    a.eps = 1e-5f;
    a.dim = MST_PROBE_DIM;
    a.rows = MST_PROBE_PROMPT;

    return mst_k_norm(&a, r->stream);
}


static int
mst_probe_swiglu(mst_probe_run_t *r)
{
    mst_k_swiglu_t  a;

    memset(&a, 0, sizeof(a));
    a.gate_up = r->x;
    a.y = r->y;
    a.ff_dim = MST_PROBE_FF;
    a.rows = MST_PROBE_PROMPT;

    return mst_k_swiglu(&a, r->stream);
}


static int
mst_probe_rows8(mst_probe_run_t *r)
{
    mst_k_e4m3_rows_t  a;

    memset(&a, 0, sizeof(a));
    a.from = r->w;
    a.to = r->rows8;
    a.scale = r->scale8;
    a.width = MST_PROBE_DIM;
    a.rows = 2 * MST_PROBE_FF;

    return mst_k_e4m3_rows(&a, r->stream);
}


static int
mst_probe_pack(mst_probe_run_t *r, int fp8)
{
    int                i, rc;
    size_t             half;
    mst_k_gemm_pack_t  a;

    rc = cudaSuccess;
    half = (size_t) MST_PROBE_FF * MST_PROBE_DIM;

    for (i = 0; i < 2 && rc == cudaSuccess; i++) {
        memset(&a, 0, sizeof(a));
        a.src = fp8 ? (void *) (r->rows8 + i * half)
                    : (void *) (r->w + i * half);
        a.src_scale = fp8 ? r->scale8 + i * MST_PROBE_FF : NULL;
        a.rows = MST_PROBE_FF;
        a.width = MST_PROBE_DIM;
        a.of = 2 * MST_PROBE_FF;
        a.gate = 1 + i;
        a.w = fp8 ? r->tiles8 : r->tiles;
        a.w_scale = fp8 ? r->tile_scale8 : NULL;

        rc = mst_k_gemm_pack(&a, r->stream);
    }

    return rc;
}


static int
mst_probe_pack16(mst_probe_run_t *r)
{
    return mst_probe_pack(r, 0);
}


static int
mst_probe_pack8(mst_probe_run_t *r)
{
    return mst_probe_pack(r, 1);
}


static int
mst_probe_gemm(mst_probe_run_t *r, uint32_t n, int fp8)
{
    mst_k_gemm_t  a;

    memset(&a, 0, sizeof(a));
    a.op = MST_K_GEMM_GATE_UP;
    a.n = n;
    a.rows = 2 * MST_PROBE_FF;
    a.width = MST_PROBE_DIM;
    a.w = fp8 ? r->tiles8 : r->tiles;
    a.w_scale = fp8 ? r->tile_scale8 : NULL;
    a.x = fp8 ? (void *) r->rows8 : (void *) r->x;
    a.x_mul = 1;
    a.eps = 1e-5f;
    a.y = r->y;
    a.y_mul = 1;
    a.y_e4m3 = fp8;

    return mst_k_gemm(&a, r->stream);
}


static int
mst_probe_gemm1(mst_probe_run_t *r)
{
    return mst_probe_gemm(r, 1, 0);
}


static int
mst_probe_gemm64(mst_probe_run_t *r)
{
    return mst_probe_gemm(r, 64, 0);
}


static int
mst_probe_gemm8_1(mst_probe_run_t *r)
{
    return mst_probe_gemm(r, 1, 1);
}


static int
mst_probe_gemm8_64(mst_probe_run_t *r)
{
    return mst_probe_gemm(r, 64, 1);
}


static int
mst_probe_draw(mst_probe_run_t *r)
{
    return mst_k_sample(&r->sample, r->stream);
}


#define MST_PROBE_W    (2.0 * MST_PROBE_FF * MST_PROBE_DIM)
#define MST_PROBE_SEEN ((double) MST_PROBE_SEQS * MST_PROBE_TOKENS           \
                        * MST_PROBE_KV * 128 * 2 * 2)

/* in an order in which each finds what it reads */

static const mst_probe_kernel_t  mst_probe_kernels[] = {
    { "norm, 2048 rows of 4096", mst_probe_norm,
      (double) MST_PROBE_PROMPT * MST_PROBE_DIM * 6, 0, 0 },
    { "SwiGLU, 2048 rows of 14336", mst_probe_swiglu,
      (double) MST_PROBE_PROMPT * MST_PROBE_FF * 6, 0, 0 },
    { "bf16 to e4m3, 28672 rows of 4096", mst_probe_rows8, MST_PROBE_W * 3, 0,
      0 },
    { "packing bf16 tiles", mst_probe_pack16, MST_PROBE_W * 4, 0, 0 },
    { "packing e4m3 tiles", mst_probe_pack8, MST_PROBE_W * 2, 0, 0 },
    { "decode GEMM, bf16, 1 token", mst_probe_gemm1, MST_PROBE_W * 2,
      MST_PROBE_W * 2, 0 },
    { "decode GEMM, bf16, 64 tokens", mst_probe_gemm64, MST_PROBE_W * 2,
      MST_PROBE_W * 2 * 64, 0 },
    { "decode GEMM, e4m3, 1 token", mst_probe_gemm8_1, MST_PROBE_W,
      MST_PROBE_W * 2, 1 },
    { "decode GEMM, e4m3, 64 tokens", mst_probe_gemm8_64, MST_PROBE_W,
      MST_PROBE_W * 2 * 64, 1 },
    { "attention's plan, 64 sequences", mst_probe_plan_decode, 0, 0, 0 },
    { "attention, 64 x 576 tokens", mst_probe_decode, MST_PROBE_SEEN, 0, 0 },
    { "rope and KV, 2048 tokens", mst_probe_rope,
      (double) MST_PROBE_PROMPT * MST_PROBE_KV * 128 * 2 * 2 * 2, 0, 0 },
    { "attention, prompt of 2048", mst_probe_prompt, 0,
      2.0 * MST_PROBE_PROMPT * MST_PROBE_PROMPT * MST_PROBE_HEADS * 128, 0 },
    { "sampling, 64 x 32768", mst_probe_draw,
      (double) MST_PROBE_SEQS * MST_PROBE_VOCAB * 4, 0, 0 }
};


static int
mst_probe_fill(mst_probe_run_t *r, void *to, uint64_t n)
{
    mst_k_fill_t  a;

    memset(&a, 0, sizeof(a));
    a.to = to;
    a.n = n;
    a.seed = 7;

    return mst_k_fill(&a, r->stream);
}


/* greedy orders, one for each row */

static int
mst_probe_orders(mst_probe_run_t *r)
{
    int                   rc;
    uint32_t              i;
    mst_k_sample_order_t  orders[MST_PROBE_SEQS];

    memset(orders, 0, sizeof(orders));

    for (i = 0; i < MST_PROBE_SEQS; i++) {
        orders[i].top_p = 1;
        orders[i].repetition = 1;
        orders[i].row = i;
        orders[i].result = i;
    }

    memset(&r->sample, 0, sizeof(r->sample));
    r->sample.logits = r->logits;
    r->sample.orders = mst_probe_take(r, sizeof(orders));
    r->sample.words = mst_probe_take(r, 256);
    r->sample.results = mst_probe_take(r, MST_PROBE_SEQS
                                          * sizeof(mst_k_sampled_t));
    r->sample.n_vocab = MST_PROBE_VOCAB;
    r->sample.stride = MST_PROBE_VOCAB;
    r->sample.n = MST_PROBE_SEQS;

    rc = cudaMemcpy((void *) r->sample.orders, orders, sizeof(orders),
                    cudaMemcpyHostToDevice);
    return rc;
}


/* floats are bf16 in their upper half, so random ones of both are floats */

static int
mst_probe_data(mst_probe_run_t *r)
{
    int       rc;
    uint64_t  w, tiles;

    r->at = 0;
    w = 2ull * MST_PROBE_FF * MST_PROBE_DIM;
    tiles = mst_k_gemm_w_size(2 * MST_PROBE_FF, MST_PROBE_DIM, 2);

    r->w = mst_probe_take(r, w * 2);
    r->tiles = mst_probe_take(r, tiles);
    r->rows8 = mst_probe_take(r, w);
    r->scale8 = mst_probe_take(r, 2 * MST_PROBE_FF * sizeof(float));
    r->tiles8 = mst_probe_take(r, tiles);
    r->tile_scale8 = mst_probe_take(r, mst_k_gemm_units(2 * MST_PROBE_FF)
                                       * 16 * sizeof(float));
    r->h = mst_probe_take(r, (size_t) MST_PROBE_PROMPT * MST_PROBE_DIM * 4);
    r->gain = mst_probe_take(r, MST_PROBE_FF * sizeof(float));
    r->x = mst_probe_take(r, (size_t) MST_PROBE_PROMPT * 2 * MST_PROBE_FF * 2);
    r->y = mst_probe_take(r, (size_t) MST_PROBE_PROMPT * 2 * MST_PROBE_FF * 2);
    r->logits = mst_probe_take(r, (size_t) MST_PROBE_SEQS * MST_PROBE_VOCAB
                                  * 4);
    r->kv = mst_probe_take(r, (size_t) MST_PROBE_SEQS * 9
                              * mst_k_kv_block(MST_PROBE_KV, 128,
                                               MST_K_KV_BF16));

    rc = mst_probe_step(r, &r->decode, MST_PROBE_SEQS, 1, MST_PROBE_TOKENS);
    rc = rc ? rc : mst_probe_step(r, &r->prompt, 1, MST_PROBE_PROMPT,
                                  MST_PROBE_PROMPT);
    rc = rc ? rc : mst_probe_orders(r);

    if (rc == cudaSuccess && r->at > MST_PROBE_ARENA) {
        rc = cudaErrorMemoryAllocation;
    }

    rc = rc ? rc : mst_probe_fill(r, r->w, w);
    rc = rc ? rc : mst_probe_fill(r, r->x, (uint64_t) MST_PROBE_PROMPT * 2
                                           * MST_PROBE_FF);
    rc = rc ? rc : mst_probe_fill(r, r->kv, (uint64_t) MST_PROBE_SEQS * 9
                                  * mst_k_kv_block(MST_PROBE_KV, 128,
                                                   MST_K_KV_BF16) / 2);
    rc = rc ? rc : mst_probe_fill(r, r->h, 2ull * MST_PROBE_PROMPT
                                           * MST_PROBE_DIM);
    rc = rc ? rc : mst_probe_fill(r, r->gain, 2 * MST_PROBE_FF);
    rc = rc ? rc : mst_probe_fill(r, r->logits, 2ull * MST_PROBE_SEQS
                                                * MST_PROBE_VOCAB);
    rc = rc ? rc : (int) cudaMemset(r->tiles, 0, tiles);
    rc = rc ? rc : (int) cudaMemset(r->tiles8, 0, tiles);
    rc = rc ? rc : mst_probe_plan(r, &r->prompt);
    rc = rc ? rc : (int) cudaDeviceSynchronize();

    return rc;
}


static void
mst_probe_each(mst_probe_run_t *r)
{
    size_t                     i;
    double                     us, floor_us, ops;
    const mst_probe_kernel_t  *k;

    if (!mst_probe_did(r, mst_probe_data(r), "kernels", "their data")) {
        return;
    }

    for (i = 0; i < sizeof(mst_probe_kernels) / sizeof(*mst_probe_kernels);
         i++)
    {
        k = &mst_probe_kernels[i];
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
