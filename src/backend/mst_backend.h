
/*
 * The table of operations by which numbers are computed: the forward step
 * (model/mst_forward.c) is written once over it, a backend fills it.
 *
 * Weights, the KV pool and all scratch belong to the backend and are opaque:
 * they may lie in a device's memory.  The operations of a step are recorded
 * in the order of the calls between begin() and sync(), and may run only at
 * sync(): a backend can put them on a stream, capture them in a graph, or
 * run them on threads one after the other.  They are as large as they are
 * because each can then be one kernel with its prologue and epilogue.
 *
 * One thread calls; the backend may use more inside.
 */

#ifndef MST_BACKEND_H
#define MST_BACKEND_H

#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_log.h"
#include "base/mst_sample.h"
#include "backend/mst_kv.h"


#define MST_BACKEND_NONE  UINT32_MAX       /* no token */


typedef struct mst_backend_s  mst_backend_t;   /* the backend's state */
typedef struct mst_matrix_s   mst_matrix_t;    /* packed weights */
typedef struct mst_vector_s   mst_vector_t;    /* weights of a norm */


typedef struct {
    uint32_t          n_layers;
    uint32_t          dim;         /* width of the residual stream */
    uint32_t          ff_dim;
    uint32_t          n_heads;
    uint32_t          n_kv_heads;  /* divides n_heads */
    uint32_t          head_dim;    /* even */
    uint32_t          rope_dim;    /* of head_dim that rotate; even */
    uint32_t          n_vocab;
    uint32_t          context;     /* tokens of one sequence at most */
    float             rms_eps;
    const double     *rope_freqs;  /* [rope_dim / 2] radians that a pair turns
                                      per position; copied */
    float             rope_scale;  /* of cosines and sines; 0 = 1 */
    const uint32_t   *windows;     /* [n_layers] tokens that a query sees,
                                      itself included, 0 = all; NULL = all;
                                      copied */
    double            temp_beta;   /* queries grow by 1 + beta * ln(1 +
                                      floor(position / temp_length)) */
    uint32_t          temp_length; /* 0 = they do not grow */
    uint32_t          n_experts;   /* 0 = dense layers */
    uint32_t          n_used;      /* experts of one token, where its sequence
                                      does not say */

    uint32_t          device;      /* its number, where there are several;
                                      from 0 */
    mst_dtype_t       dtype;
    uint32_t          weight_layouts;  /* 0 = auto, 1, 2 */
    int               batch_invariant; /* the same bits at every batch size */
    const char       *tuned;       /* directory where what was measured on a
                                      device is kept for the next start; NULL =
                                      nowhere; copied */
    uint32_t          threads;     /* 0 = as many as cores allowed to us */
    uint32_t          activations; /* bits of what quantised matrices are
                                      multiplied by on the CPU: 16, or 22 and
                                      0, with which nothing is lost */
    uint32_t          max_rows;    /* tokens of one step at most */
    uint32_t          max_seqs;    /* sequences of one step at most */
    mst_kv_type_t     kv_type;
    uint64_t          kv_size;     /* bytes of the pool; 0 = own choice */
    uint32_t          kv_percent;  /* of the device's memory that is free once
                                      all else is there; 0 = kv_size counts */
    const char       *isa;         /* NULL = the best of this machine */
    const mst_log_t  *log;         /* may be NULL */
    int             (*progress)(void *data);   /* while sync() computes, by
                                      its caller's thread, from when the others
                                      have work; not 0: the next call will wake
                                      a process, on this core + 2, or 1: not
                                      known; may be NULL */
    void             *progress_data;
} mst_backend_conf_t;


typedef struct {
    uint32_t          block_tokens;    /* tokens of a KV block */
    uint32_t          n_blocks;        /* ids are 0 .. n_blocks - 1 */
    uint64_t          block_size;      /* bytes, all layers */
    uint64_t          weight_size;     /* bytes of weights so far */
} mst_backend_info_t;


/* a matrix as it lies in a file: [rows][width], rows one after the other */
typedef struct {
    uint32_t          type;        /* mst_type_t that mst_type_info() knows */
    uint32_t          rows;        /* outputs */
    const void       *data;
} mst_matrix_part_t;


typedef enum {
    MST_MATRIX_STACK,              /* outputs of the parts stay apart */
    MST_MATRIX_GATE,               /* two parts of the same rows: the outputs
                                      meet, silu(first) * second */
    MST_MATRIX_HEAD                /* of one part: outputs are logits */
} mst_matrix_kind_t;


typedef struct {
    const mst_matrix_t  *qkv;          /* parts q, k, v; q and k in the order
                                          that rotates adjacent pairs */
    const mst_matrix_t  *out;
    const mst_matrix_t  *gate_up;      /* parts gate, up */
    const mst_matrix_t  *down;
    const mst_vector_t  *attn_norm;
    const mst_vector_t  *ffn_norm;
    const mst_vector_t  *q_bias;       /* biases: NULL = none; q's and k's in
                                          the order of their rows */
    const mst_vector_t  *k_bias;
    const mst_vector_t  *v_bias;
    const mst_vector_t  *out_bias;
    const mst_vector_t  *gate_bias;
    const mst_vector_t  *up_bias;
    const mst_vector_t  *down_bias;
    const mst_vector_t  *router;       /* [n_experts][dim]; then gate_up and
                                          down are NULL, and these arrays
                                          [n_experts] */
    const mst_matrix_t **experts_up;   /* each as gate_up */
    const mst_matrix_t **experts_down;
} mst_backend_layer_t;


typedef struct {
    const uint32_t   *ids;         /* [n]; MST_SAMPLE_FED | name: what the draw
                                      of the step launched before brings */
    uint32_t          n;
    uint32_t          position;    /* of ids[0] */
    const uint32_t   *blocks;      /* table that covers position + n; those
                                      that no window reaches are not read */
    double            rope_base;   /* 0 = rope_freqs; else pair j turns by
                                      base^(-2j / rope_dim) per position */
    uint32_t          n_used;      /* experts of one token, 1 .. n_experts; 0 =
                                      as conf says */
} mst_backend_seq_t;


/* everything is checked by the caller and stays valid until sync() */
typedef struct {
    const mst_backend_seq_t  *seqs;    /* their tokens are the rows, in this
                                          order */
    uint32_t                  n_seqs;
    uint32_t                  n_rows;
    const uint32_t           *wanted;  /* [n_wanted] rows whose logits are
                                          wanted, rising */
    uint32_t                  n_wanted;
} mst_backend_step_t;


/* what comes of a row of logits where the backend samples by itself */
typedef struct {
    uint32_t             row;      /* of the wanted ones */
    uint32_t             name;     /* below max_seqs, for the ids and tokens of
                                      the next step; not of a score */
    const mst_sample_t  *sample;   /* NULL: the token "id" is scored */
    uint32_t             id;
    uint32_t             n_top;    /* of a score */
    mst_sampled_t       *sampled;  /* the result, as mst_sampler_run() and
                                      mst_sampler_score() give it; there at
                                      the end of wait() */
} mst_backend_draw_t;


typedef struct {
    /* piece i; no two threads have the same slot at once */
    void      (*piece)(void *data, uint32_t slot, uint32_t i);
    void       *data;
    uint32_t    n;                 /* pieces */
    uint32_t    slots;             /* threads at most */
} mst_backend_work_t;


typedef struct {
    const char  *name;

    mst_backend_t *(*create)(const mst_backend_conf_t *conf, mst_err_t *err);
    void (*destroy)(mst_backend_t *b);         /* and all its weights */
    void (*info)(const mst_backend_t *b, mst_backend_info_t *info);

    /* NULL with a sentence.  The data is not needed afterwards. */
    mst_matrix_t *(*matrix)(mst_backend_t *b, mst_matrix_kind_t kind,
        const mst_matrix_part_t *parts, uint32_t n_parts, uint32_t width,
        mst_err_t *err);
    mst_vector_t *(*vector)(mst_backend_t *b, const void *f32, uint32_t n,
        mst_err_t *err);

    /* all weights are there: the KV pool from what is left; NULL: nothing to
       do.  info() is complete afterwards. */
    int (*ready)(mst_backend_t *b, mst_err_t *err);

    /* rows of the i-th step, of one for each sequence, that is worth running
       before the first real one; 0 = no more; NULL: none is */
    uint32_t (*warm)(const mst_backend_t *b, uint32_t i);

    void (*begin)(mst_backend_t *b, const mst_backend_step_t *step);

    /* x = rows of a matrix of one part */
    void (*embed)(mst_backend_t *b, const mst_matrix_t *embd);

    /* norm, q, k, v, rotation of q and k, k and v into their blocks */
    void (*qkv)(mst_backend_t *b, uint32_t layer,
        const mst_backend_layer_t *w);

    /* of the rows' q with all keys and values of their sequence so far */
    void (*attend)(mst_backend_t *b, uint32_t layer,
        const mst_backend_layer_t *w);

    void (*out)(mst_backend_t *b, const mst_backend_layer_t *w);   /* x += */
    void (*gate_up)(mst_backend_t *b, const mst_backend_layer_t *w);
                                               /* with its norm */
    void (*down)(mst_backend_t *b, const mst_backend_layer_t *w);  /* x += */

    /* instead of gate_up and down: norm, router, the likeliest experts of
       each row, weighed by the softmax over them, x += */
    void (*experts)(mst_backend_t *b, const mst_backend_layer_t *w);

    /* norm and head of the wanted rows */
    void (*logits)(mst_backend_t *b, const mst_vector_t *norm,
        const mst_matrix_t *head);

    /*
     * Instead of logits(), where of every wanted row the likeliest token is
     * all that is wanted: sync() fills ids[n_wanted] with the first of the
     * largest logits, or leaves all MST_BACKEND_NONE, and then there are
     * logits as ever.  0: not of this head; NULL: of none.
     */
    int (*top)(mst_backend_t *b, const mst_vector_t *norm,
        const mst_matrix_t *head, uint32_t *ids);

    /*
     * Instead of sync(), where the backend samples by itself: the step runs
     * and its rows of logits are drawn from; draws are ordered by row.  What
     * the step and the draws point to is not needed any more when it returns,
     * but for "sampled", which wait() fills.  A second step may be launched
     * before the first is waited for, a third may not; wait() is for the
     * older one.  NULL: the caller samples.
     */
    int (*launch)(mst_backend_t *b, const mst_backend_draw_t *draws,
        uint32_t n, mst_err_t *err);
    int (*wait)(mst_backend_t *b, mst_err_t *err);

    /* waits for all; *logits is [n_wanted][n_vocab] of the host until the
       next begin(); no step is under way */
    int (*sync)(mst_backend_t *b, const float **logits, mst_err_t *err);

    /* pieces 0 .. n - 1 of the caller's own work on the backend's threads;
       returns when all are done.  No step is under way.  NULL: it has none. */
    void (*spread)(mst_backend_t *b, const mst_backend_work_t *work);
} mst_backend_ops_t;


/*
 * "cpu", or "cuda" from a library at a path of the caller's: it stays mapped
 * as long as the process lives.  NULL with a sentence: there is no such
 * backend, no such library, or no device that it could use.
 */
const mst_backend_ops_t *mst_backend_open(const char *name,
    const char *library, mst_err_t *err);


/* what a library exports under this name; NULL with a sentence: no driver or
   no device */
#define MST_BACKEND_SYMBOL  "mst_cuda_open"

typedef const mst_backend_ops_t *(*mst_backend_open_pt)(mst_err_t *err);


#endif /* MST_BACKEND_H */
