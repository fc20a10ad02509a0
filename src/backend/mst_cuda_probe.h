
/*
 * What "mistral diagnose" measures with: inside of mst_cuda_probe*.c.
 */

#ifndef MST_CUDA_PROBE_H
#define MST_CUDA_PROBE_H

#include "backend/mst_cuda.h"
#include "backend/mst_probe.h"


#define MST_PROBE_ARENA   (1400u << 20)    /* bytes */
#define MST_PROBE_DIM     4096
#define MST_PROBE_FF      14336
#define MST_PROBE_HEADS   32
#define MST_PROBE_KV      8
#define MST_PROBE_VOCAB   32768
#define MST_PROBE_SEQS    64           /* that decode */
#define MST_PROBE_TOKENS  576          /* of each of them */
#define MST_PROBE_PROMPT  2048


typedef struct {
    const mst_probe_t      *p;
    struct cudaDeviceProp   props;
    double                  bus;       /* bytes per us, as the data sheet has */
    double                  flops;     /* dense bf16 operations per us */
    cudaStream_t            stream;
    int                     bad;       /* findings that are not ok */
    char                   *arena;     /* [MST_PROBE_ARENA] of the device */
    size_t                  at;        /* bytes of it that are taken */

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
    mst_k_attn_t            decode;    /* SEQS sequences, one row each */
    mst_k_attn_t            prompt;    /* one, of PROMPT rows */
    mst_k_sample_t          sample;
} mst_probe_run_t;


typedef struct {
    const char  *name;
    int        (*launch)(mst_probe_run_t *r);
    double       bytes;                /* that the memory moves */
    double       ops;                  /* of tensor cores */
    int          fp8;                  /* they are twice as fast */
} mst_probe_kernel_t;


/* mst_cuda_probe_kernel.c: in an order in which each finds what it reads; the
   last has no name */
extern const mst_probe_kernel_t  mst_probe_kernels[];

/* mst_cuda_probe_data.c: all that the kernels read, and attention's plan of a
   step; a cudaError_t */
int mst_probe_data(mst_probe_run_t *r);
int mst_probe_plan(mst_probe_run_t *r, const mst_k_attn_t *a);


#endif /* MST_CUDA_PROBE_H */
