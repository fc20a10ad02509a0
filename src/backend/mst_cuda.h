
/*
 * Inside libmst_cuda.so: the state of the CUDA backend.
 *
 * begin() .. sync() only note the operations; sync() stages what the step
 * reads in pinned memory, copies it to the device and runs the operations on
 * one stream: as a CUDA graph where the step decodes alone (one row for each
 * sequence, recorded once per bucket of rows), else one launch after the
 * other.  Rows are padded to buckets (kernels/mst_k_step_map.h), which all
 * buffers have room for.
 *
 * The engine's thread alone calls.
 */

#ifndef MST_CUDA_H
#define MST_CUDA_H

#include <stddef.h>
#include <stdint.h>
#include <cublasLt.h>
#include <cuda_runtime.h>

#include "base/mst_err.h"
#include "base/mst_log.h"
#include "backend/mst_backend.h"
#include "backend/mst_cuda_size.h"
#include "backend/mst_tuned.h"
#include "kernels/mst_kernels.h"

#define MST_CUDA_STAGES     2              /* steps whose staging lives */
#define MST_CUDA_WORKSPACE  (64u << 20)     /* bytes, of the library */
#define MST_CUDA_WINDOWS    8              /* different ones of a model */
#define MST_CUDA_LOGITS     256            /* rows of logits at a time, or
                                              max_seqs if these are more */
#define MST_CUDA_PIECE      (32u << 20)    /* bytes of a file at a time; a
                                              multiple of every block of every
                                              type */
#define MST_CUDA_WIDE       (64u << 20)    /* bytes of bf16 rows that become
                                              another type at a time */
#define MST_CUDA_RUNS       3              /* parts of a stack: q, k, v */
#define MST_CUDA_HELD       4              /* operations that are one launch at
                                              most */

#define MST_CUDA_SPLIT_ROWS 256            /* of a step whose products are
                                              worth being made in parts */

#define MST_CUDA_MIX_MUL    4.0f           /* e4m3 of attention's outputs */
#define MST_CUDA_ACT_MUL    1.0f           /* and of gated values */


typedef struct mst_cuda_type_s  mst_cuda_type_t;   /* of weights: below */


/* rows that stay quantised */
typedef struct {
    mst_k_quant_form_t      form;
    uint32_t                first;         /* row of the matrix */
    uint32_t                rows;
    void                   *w;             /* tiles: mst_k_quant_map.h */
} mst_cuda_run_t;


struct mst_matrix_s {
    mst_matrix_t           *next;
    const mst_cuda_type_t  *type;
    mst_matrix_kind_t       kind;
    uint32_t                rows;
    uint32_t                width;
    void                   *w;             /* [rows][width] of the device;
                                              GATE: gates, then ups */
    float                  *scale;         /* [rows] of w; NULL: none */
    void                   *tiles;         /* what the type's fused() reads;
                                              NULL: there are none */
    float                  *tile_scale;    /* of tiles, in their order */
    mst_cuda_run_t          runs[MST_CUDA_RUNS];   /* in tiles; w: bf16 */
    uint32_t                n_runs;
};


struct mst_vector_s {
    mst_vector_t          *next;
    uint32_t               n;
    float                 *f;              /* [n] of the device */
};


typedef enum {
    MST_CUDA_EMBED = 0,
    MST_CUDA_QKV,
    MST_CUDA_ATTEND,
    MST_CUDA_OUT,
    MST_CUDA_GATE_UP,
    MST_CUDA_DOWN,
    MST_CUDA_EXPERTS,
    MST_CUDA_HEAD
} mst_cuda_op_t;


typedef struct {
    mst_cuda_op_t               op;
    uint32_t                    layer;
    const mst_backend_layer_t  *w;
    const mst_matrix_t         *matrix;    /* EMBED, HEAD */
    const mst_vector_t         *norm;      /* HEAD */
} mst_cuda_cmd_t;


/* what a GEMM writes */
typedef enum {
    MST_CUDA_BF16 = 0,
    MST_CUDA_RAW,                          /* bf16; of e4m3 without scales */
    MST_CUDA_F32,
    MST_CUDA_ADD,                          /* f32, onto what is there */
    MST_CUDA_PARTS                         /* f32 [MST_K_NORM_PARTS][n][rows],
                                              of equal parts of the width */
} mst_cuda_out_t;


/*
 * How the weights of a type are kept and multiplied.  A step runs in one of
 * two ways: plain() takes rows that lie one after the other, with kernels for
 * norms and gates between; fused() is an operation of the decode GEMMs
 * (kernels/mst_k_gemm.h), which do all that themselves.
 */
struct mst_cuda_type_s {
    const char  *name;
    int          e4m3;             /* type of fused()'s x; 0 = bf16 */
    uint32_t     fused_rows;       /* rows of a step up to which fused() is the
                                      better choice; 0 = never */
    uint32_t     head_rows;        /* the same of a head or an embedding, which
                                      go along with what the layers do */

    /* rows "first" .. of m, whose memory this takes with its first part */
    int        (*load)(mst_backend_t *b, mst_matrix_t *m,
                    const mst_matrix_part_t *part, uint32_t first,
                    mst_err_t *err);

    /* bytes of tiles beside w; 0: fused() reads w */
    uint64_t   (*tiles_size)(const mst_matrix_t *m);

    /* from w; tiles (zeroed) are there */
    int        (*pack)(mst_backend_t *b, const mst_matrix_t *m);

    /* cudaError_t; y[row] = m x[row] for n rows, padded ones: what the
       buffers have */
    int        (*plain)(mst_backend_t *b, const mst_matrix_t *m,
                    const void *x, void *y, uint32_t n, mst_cuda_out_t out);

    /* a: all but w and its scales */
    int        (*fused)(mst_backend_t *b, const mst_matrix_t *m,
                    const mst_k_gemm_t *a);

    /* h = the rows that the step's ids name; NULL: w is bf16 */
    int        (*embed)(mst_backend_t *b, const mst_matrix_t *m);
};


/* a library GEMM of a shape, as it was chosen */
typedef struct {
    uint32_t                rows;          /* of the matrix */
    uint32_t                width;
    uint32_t                n;             /* rows of the step, padded */
    int                     e4m3;          /* matrix and x */
    mst_cuda_out_t          out;
    cublasLtMatmulDesc_t    op;
    cublasLtMatrixLayout_t  w, x, y;
    cublasLtMatmulAlgo_t    algo;
} mst_cuda_gemm_t;


/* buffers of the decode GEMMs; blocked: mst_k_gemm_map.h */
typedef struct {
    void                   *x;             /* blocked, [dim] a row */
    void                   *mix;           /* blocked, [q_dim] */
    void                   *act;           /* blocked, [ff_dim] */
    float                  *sums[2];       /* of squares of h, in turns */
    float                  *muls[2];       /* [MST_K_GEMM_MAX] of x, e4m3 */
    void                   *work;
    uint32_t               *tickets;
    uint32_t               *met;           /* mst_k_quant_gemms() */
    mst_k_gemm_t            held[MST_CUDA_HELD];   /* of quantised matrices,
                                              not launched yet */
    uint32_t                n_held;
    mst_k_quant_form_t      form;          /* theirs */
} mst_cuda_fused_t;


/* of a mixture: see kernels/mst_k_moe.h */
typedef struct {
    int32_t                *expert;        /* [pairs] */
    float                  *weight;        /* [pairs] */
    int32_t                *first;         /* [n_experts + 1] */
    int32_t                *pair;          /* [pairs] */
    int32_t                *place;         /* [pairs] */
    float                  *y;             /* [pairs][dim] */
    const uint16_t        **tables;        /* [n_layers][2][n_experts] of the
                                              device: their ups and downs */
    const mst_backend_layer_t **layers;    /* [n_layers] that tables has */
    uint32_t                n_layers;
    uint32_t                stride;        /* experts of a row of this step at
                                              most */
} mst_cuda_experts_t;


/* mst_cuda_ring.c */
typedef struct mst_cuda_ring_s  mst_cuda_ring_t;


/* memory of the device or of the host that is freed with the backend */
typedef struct mst_cuda_block_s  mst_cuda_block_t;


typedef struct {
    void                  *host;           /* pinned */
    cudaEvent_t            copied;         /* to the device */
    cudaEvent_t            done;           /* the step, with its results */
} mst_cuda_stage_t;


/* mst_cuda_sample.c; by stage what steps under way have apart */
typedef struct {
    const mst_backend_draw_t  *draws;      /* [n_draws] of the step that is
                                              staged, in its launches */
    uint32_t                   n_draws;
    mst_k_sampled_t           *results;    /* pinned [stages][n_orders] */
    mst_k_sample_top_t        *tops;       /* the same */
    uint32_t                  *fed;        /* of the device, the same */
    mst_sampled_t            **to[MST_CUDA_STAGES];    /* [n_to] results go */
    uint32_t                   n_to[MST_CUDA_STAGES];
    uint32_t                  *names[MST_CUDA_STAGES]; /* [max_seqs] id, or
                                              MST_SAMPLE_FED | index of fed */
    uint32_t                   n_orders;   /* of a step, or of a round */
    uint32_t                   n_words;    /* the same */
    void                      *host;       /* pinned: a round's orders, then
                                              its words */
    void                      *dev;        /* the same */
} mst_cuda_sampler_t;


struct mst_backend_s {
    mst_backend_conf_t     conf;
    mst_backend_info_t     info;
    struct cudaDeviceProp  props;
    cudaStream_t           stream;
    cudaEvent_t            planned;        /* the end of attention's plan */
    mst_cuda_block_t      *blocks;
    uint64_t               taken;          /* bytes of the device */
    uint64_t               started;        /* ns, of loading */
    int                    failed;         /* a kernel's error: for good */
    double                *own_freqs;      /* of conf */
    uint32_t              *own_windows;

    /* weights */
    mst_matrix_t          *matrices;
    mst_vector_t          *vectors;
    mst_cuda_ring_t       *ring;           /* NULL: nothing was sent yet, or
                                              nothing more will be */
    void                  *raw;            /* a piece of a file's elements */
    uint16_t              *wide;           /* rows in bf16 that become another
                                              type */
    uint16_t              *whole;          /* w of all quantised matrices;
                                              NULL: each has its own */
    uint64_t               whole_size;     /* bytes, of the largest */

    /* sizes */
    uint32_t               q_dim;
    uint32_t               qkv_dim;
    uint32_t               rows;           /* capacity of the buffers */
    uint32_t               seqs;
    uint32_t               logits_rows;
    uint32_t               max_blocks;     /* of a sequence */
    int                    fast;           /* attention by mst_k_attn */
    uint32_t               n_windows;
    uint32_t               windows[MST_CUDA_WINDOWS];
    uint8_t               *window;         /* [n_layers] index of windows[] */
    uint32_t               fused_rows;     /* of a step that is fused; 0: none
                                              is */

    /* buffers of the device */
    float                 *h;              /* [rows][dim] */
    uint16_t              *x;              /* [rows][dim] */
    float                 *x_scale;        /* [rows] where x is e4m3 */
    uint16_t              *qkv;            /* [rows][qkv_dim] */
    uint16_t              *mix;            /* [rows][q_dim] */
    uint16_t              *gate_up;        /* [rows][2 ff_dim]; of pairs (row,
                                              expert) in a mixture */
    uint16_t              *act;            /* [rows][ff_dim] */
    float                 *turns;          /* [rows][rope_dim] */
    float                 *logits;         /* [logits_rows][n_vocab] */
    double                *freqs;          /* [rope_dim / 2] */
    void                  *work[MST_CUDA_WINDOWS];     /* attention's lists */
    void                  *workspace;      /* of the library */
    mst_cuda_fused_t       fused;
    mst_cuda_experts_t     experts;
    char                  *kv;
    mst_k_kv_t             kv_type;
    uint64_t               kv_layer;       /* bytes of a layer's blocks */
    uint64_t               kv_block;       /* bytes of a block of a layer */

    /* of the host */
    float                 *host_logits;    /* pinned [logits_rows][n_vocab] */
    float                 *more_logits;    /* [more] where a step wants more */
    uint64_t               more;

    /* a step */
    mst_backend_step_t     step;
    mst_cuda_cmd_t        *cmds;
    uint32_t               n_cmds;
    uint32_t               max_cmds;
    mst_cuda_stage_t       stages[MST_CUDA_STAGES];
    uint32_t               n_steps;        /* launched; the next one's stage */
    uint32_t               n_waited;
    mst_cuda_sampler_t     sampler;
    void                  *staged;         /* of the device */
    uint64_t               staged_size;
    mst_k_bucket_t         bucket;
    mst_k_step_t           dev;            /* the arrays, of the device */
    mst_k_attn_shape_t     shape;
    int                    planning;       /* and nobody has waited for it */
    int                    decode;         /* one row for each sequence */
    int                    pdl;            /* the next kernel may start while
                                              the last one ends */
    int                    normed;         /* x is the norm of h already */
    int                    mixed;          /* mix is e4m3 already */
    int                    rc;             /* of the launches so far */

    struct {
        uint32_t           rows;
        cudaGraphExec_t    exec;
    } graphs[MST_CUDA_GRAPHS];
    uint32_t               n_graphs;

    /* library GEMMs */
    cublasLtHandle_t       lt;
    mst_cuda_gemm_t       *gemms;
    uint32_t               n_gemms;
    uint32_t               max_gemms;
    mst_tuned_t            tuned;          /* what was chosen before */
    uint32_t               n_again;        /* GEMMs that are as it says */
};


/* mst_cuda_mem.c */

/* MST_OK, or MST_ERROR with a sentence and the backend broken for good */
int mst_cuda_check(mst_backend_t *b, int rc, const char *what,
    mst_err_t *err);

/* zeroed; freed with the backend; NULL with a sentence that has the numbers */
void *mst_cuda_take(mst_backend_t *b, uint64_t size, const char *what,
    mst_err_t *err);
void *mst_cuda_pinned(mst_backend_t *b, uint64_t size, mst_err_t *err);
void mst_cuda_free(mst_backend_t *b);
uint64_t mst_cuda_left(mst_backend_t *b);      /* bytes that are free */


/* mst_cuda_matrix.c */

mst_matrix_t *mst_cuda_matrix(mst_backend_t *b, mst_matrix_kind_t kind,
    const mst_matrix_part_t *parts, uint32_t n_parts, uint32_t width,
    mst_err_t *err);
mst_vector_t *mst_cuda_vector(mst_backend_t *b, const void *f32, uint32_t n,
    mst_err_t *err);
void mst_cuda_matrix_end(mst_backend_t *b);    /* nothing more is loaded */

/* n elements of a type, from the host, to bf16 of the device */
int mst_cuda_load(mst_backend_t *b, uint32_t type, const void *data,
    uint64_t n, uint16_t *to, mst_err_t *err);


/* mst_cuda_ring.c: bytes of the host into the device's memory; behind what is
   on the stream, before what comes */

int mst_cuda_send(mst_backend_t *b, void *to, const char *from, size_t size,
    mst_err_t *err);

/* ends its threads; what was sent in all, and the time of the calls */
void mst_cuda_ring_close(mst_backend_t *b, uint64_t *bytes, uint64_t *ns);


/* mst_cuda_type.c: how a new matrix is kept; NULL with a sentence */

const mst_cuda_type_t *mst_cuda_type(mst_backend_t *b,
    const mst_matrix_part_t *parts, uint32_t n_parts, uint32_t width,
    mst_err_t *err);


/* mst_cuda_quant.c: NULL: these do not stay quantised */

const mst_cuda_type_t *mst_cuda_quant_type(const mst_backend_t *b,
    const mst_matrix_part_t *parts, uint32_t n_parts, uint32_t width);

/* after the weights */
int mst_cuda_quant_ready(mst_backend_t *b, mst_err_t *err);

/* cudaError_t; launches what fused() of these types has held back, so that
   operations that follow one another are one launch */
int mst_cuda_quant_go(mst_backend_t *b);


/* mst_cuda_buffer.c: after the weights */

int mst_cuda_ready(mst_backend_t *b, mst_err_t *err);


/* mst_cuda_step.c */

void mst_cuda_begin(mst_backend_t *b, const mst_backend_step_t *step);
mst_cuda_cmd_t *mst_cuda_note(mst_backend_t *b, mst_cuda_op_t op);
int mst_cuda_launch(mst_backend_t *b, const mst_backend_draw_t *draws,
    uint32_t n, mst_err_t *err);
int mst_cuda_wait(mst_backend_t *b, mst_err_t *err);
int mst_cuda_sync(mst_backend_t *b, const float **logits, mst_err_t *err);
uint32_t mst_cuda_warm(const mst_backend_t *b, uint32_t i);

/* attention's work lists, beside the first operations; the first attention
   waits for them */
void mst_cuda_plan(mst_backend_t *b);
void mst_cuda_planned(mst_backend_t *b);

void mst_cuda_step_free(mst_backend_t *b);


/* the first error stands; nothing is launched behind it */

#define mst_cuda_go(b, call)                                                  \
    ((b)->rc = (b)->rc == cudaSuccess ? (int) (call) : (b)->rc)


/* b->pdl for this kernel; its successor may be launched while it ends */
int mst_cuda_pdl(mst_backend_t *b);


/* mst_cuda_chain.c: the noted operations onto the stream, b->rc says how it
   went; logits of the wanted rows from "first" on */

void mst_cuda_chain(mst_backend_t *b);
void mst_cuda_head(mst_backend_t *b, uint32_t first, uint32_t n);

/* the norm that cmds[i + 1] begins with */
typedef struct {
    const mst_vector_t  *norm;             /* NULL: nobody */
    const mst_matrix_t  *m;                /* NULL: the head */
} mst_cuda_next_t;

mst_cuda_next_t mst_cuda_chain_next(const mst_backend_t *b, uint32_t i);

/* what both ways of a step have in common */
void mst_cuda_chain_embed(mst_backend_t *b, const mst_matrix_t *embd);
void mst_cuda_chain_bias(mst_backend_t *b, const mst_backend_layer_t *w);
void mst_cuda_chain_attend(mst_backend_t *b, uint32_t layer, void *out,
    mst_k_out_t out_type);


/* mst_cuda_fused.c: the same by the decode GEMMs */

/* buffers, and tiles where memory allows them beside a KV pool */
int mst_cuda_fused_init(mst_backend_t *b, mst_err_t *err);

/* may weights stand twice, which takes so many bytes? */
int mst_cuda_fused_room(mst_backend_t *b, uint64_t size);

void mst_cuda_fused_start(mst_backend_t *b, uint32_t i);   /* x after
                                                              cmds[i] */
void mst_cuda_fused_run(mst_backend_t *b, uint32_t i);     /* cmds[i] */
void mst_cuda_fused_end(mst_backend_t *b);     /* before anything else */
void mst_cuda_fused_head(mst_backend_t *b, const mst_cuda_cmd_t *cmd,
    uint32_t first, uint32_t n);


/* mst_cuda_sample.c: draws instead of logits */

void mst_cuda_sample_plan(mst_backend_t *b);
int mst_cuda_sample_init(mst_backend_t *b, mst_err_t *err);
void mst_cuda_sample_free(mst_backend_t *b);
int mst_cuda_sample_fits(const mst_backend_t *b,
    const mst_backend_draw_t *draws, uint32_t n);
uint32_t mst_cuda_fed(const mst_backend_t *b, uint32_t id);
uint32_t mst_cuda_sample_stage(mst_backend_t *b, const mst_k_step_t *step,
    uint32_t at);
void mst_cuda_sample_run(mst_backend_t *b);
void mst_cuda_sample_take(mst_backend_t *b, uint32_t stage);
void mst_cuda_sample_rounds(mst_backend_t *b, const mst_backend_draw_t *draws,
    uint32_t n_draws);


/* mst_cuda_gemm.c */

int mst_cuda_gemm_init(mst_backend_t *b, mst_err_t *err);
void mst_cuda_gemm_free(mst_backend_t *b);

/* of m's shape and type for n rows, with the library's first offer where it is
   a new one; NULL: none */
mst_cuda_gemm_t *mst_cuda_gemm_find(mst_backend_t *b, const mst_matrix_t *m,
    uint32_t n, mst_cuda_out_t out);

/* how many of "most" there are; the best first, as far as the library knows */
int mst_cuda_gemm_offers(mst_backend_t *b, mst_cuda_gemm_t *g,
    cublasLtMatmulHeuristicResult_t *offers, int most);

/* cublasStatus_t */
int mst_cuda_gemm_run(mst_backend_t *b, const mst_cuda_gemm_t *g,
    const cublasLtMatmulAlgo_t *algo, const mst_matrix_t *m, const void *x,
    void *y);

/* y[row] = m x[row] for n rows, padded ones: what the buffers have; m->w is
   row-major bf16, or e4m3 with scales as x (with b->x_scale) */
int mst_cuda_gemm(mst_backend_t *b, const mst_matrix_t *m, const void *x,
    void *y, uint32_t n, mst_cuda_out_t out);


/* ADD, or PARTS that somebody adds */
mst_cuda_out_t mst_cuda_gemm_adds(const mst_backend_t *b,
    const mst_matrix_t *m, uint32_t n);


/* mst_cuda_tune.c: of what the library offers for a shape the fastest, as it
   is measured now or was by another start */

void mst_cuda_tune_init(mst_backend_t *b);
int mst_cuda_tune(mst_backend_t *b, mst_err_t *err);


/* mst_cuda_slice.c: mst_cuda_chain() and mst_cuda_head() of batch_invariant
   where there are tiles */

void mst_cuda_slice_chain(mst_backend_t *b);
void mst_cuda_slice_head(mst_backend_t *b, const mst_cuda_cmd_t *cmd,
    uint32_t first, uint32_t n);


/* mst_cuda_list.c: the same of bf16, the bits of a row whatever n is */

int mst_cuda_list(mst_backend_t *b, const mst_matrix_t *m, const void *x,
    void *y, uint32_t n, mst_cuda_out_t out);


/* mst_cuda_expert.c: of models without experts nothing happens here */

uint64_t mst_cuda_expert_pairs(const mst_backend_t *b);    /* there is room
                                                              for */
int mst_cuda_expert_init(mst_backend_t *b, mst_err_t *err);
void mst_cuda_expert_free(mst_backend_t *b);
void mst_cuda_expert_meet(mst_backend_t *b);   /* before a step is launched or
                                                  captured */
void mst_cuda_expert(mst_backend_t *b, const mst_backend_layer_t *w);


#endif /* MST_CUDA_H */
