
/*
 * One step of a model for a batch of mixed prefill chunks and decodes over
 * paged KV.  The engine's scheduler fills a batch, this room turns it into
 * logits.  One thread (the engine's) calls; the backend may use more inside.
 *
 * KV memory is a pool of n_blocks blocks of block_tokens tokens; a sequence
 * names its blocks in a table.  Block contents belong to the backend; who
 * owns which block is the engine's business (engine/mst_block.h).
 */

#ifndef MST_FORWARD_H
#define MST_FORWARD_H

#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_log.h"
#include "backend/mst_backend.h"
#include "backend/mst_cpu_store.h"
#include "backend/mst_kv.h"
#include "model/mst_checkpoint.h"


typedef struct mst_model_s  mst_model_t;


typedef struct {
    const char      *library;      /* path of a backend's library: it computes,
                                      on device; NULL: the CPU */
    mst_cpu_store_t *store;        /* of the weights, where the CPU computes;
                                      NULL: memory of its own */
    uint32_t         device;
    mst_dtype_t      dtype;
    uint32_t         weight_layouts;   /* 0 = auto, 1, 2 */
    int              batch_invariant;
    const char      *tuned;        /* directory for what was measured on a
                                      device; NULL: it is measured each time */
    uint32_t         threads;      /* 0 = as many as cores allowed to us */
    uint32_t         activations;  /* bits, on the CPU: 16, or 22 and 0 */
    mst_kv_type_t    kv_type;      /* what the backend lacks is refused */
    uint64_t         kv_size;      /* bytes for the pool; 0 = the backend's
                                      choice from context and max_seqs */
    uint32_t         kv_percent;   /* of a device's memory that is free once
                                      all else is there; 0 = kv_size counts */
    uint32_t         context;      /* tokens of one sequence at most; 0 = the
                                      model's */
    uint32_t         max_rows;     /* tokens of one step at most */
    uint32_t         max_seqs;     /* sequences of one step at most */
    int              rope_cast;    /* frequencies rounded to the type of the
                                      embeddings, as a model has them that was
                                      cast as a whole */
    const char      *isa;          /* NULL = the best; "avx512" | "avx2" |
                                      "c": tests force one */
    const mst_log_t *log;          /* progress and choices; may be NULL */
    int            (*progress)(void *data);    /* often while a step computes,
                                      which may be long; not 0: the next call
                                      will wake a process, on this core + 2, or
                                      1: not known; may be NULL */
    void           (*loaded)(void *data, uint32_t percent);
                                   /* of the weights, while they are loaded; may
                                      be NULL */
    void            *progress_data;
} mst_model_conf_t;


typedef struct {
    uint32_t  n_vocab;
    uint32_t  context;             /* min(conf, model) */
    uint32_t  block_tokens;        /* tokens of a KV block */
    uint32_t  n_blocks;            /* in the pool; ids 0 .. n_blocks - 1 */
    uint64_t  block_size;          /* bytes of a block, all layers */
    uint64_t  weight_size;         /* bytes of weights in memory */
    uint32_t  rope_length;         /* dynamic rope: sequences that start with
                                      more tokens turn otherwise; 0 = none */
    uint32_t  window;              /* no layer looks further back than so many
                                      tokens, the own one included; 0 = one
                                      does */
    uint32_t  n_experts;           /* 0 = dense */
    uint32_t  n_used;              /* of them for one token */
} mst_model_info_t;


typedef enum {
    MST_LOGITS_NONE,               /* a prefill chunk that is not the last */
    MST_LOGITS_LAST,               /* one row, after the last token */
    MST_LOGITS_ALL                 /* one row per token of this step */
} mst_logits_t;


typedef struct {
    const uint32_t  *ids;          /* [n] tokens to compute now; after a launch
                                      MST_SAMPLE_FED | index, too */
    uint32_t         n;            /* >= 1 */
    uint32_t         position;     /* of ids[0]: tokens already in the KV */
    const uint32_t  *blocks;       /* table of at least
                                      ceil((position + n) / block_tokens) */
    mst_logits_t     logits;
    uint32_t         length;       /* tokens that the sequence started with:
                                      dynamic rope keeps to it */
    uint32_t         experts;      /* of one token; 0 = the model's */
} mst_batch_seq_t;


typedef struct {
    mst_batch_seq_t  *seqs;        /* [n_seqs], any order, any mix */
    uint32_t          n_seqs;
    uint32_t          n_tokens;    /* sum of seqs[].n, <= max_rows */
} mst_batch_t;


/* what a backend is told of a model's shape: all but the context and the
   frequencies; points into c */
void mst_model_shape(const mst_config_t *c, mst_backend_conf_t *bc);

/* loads the weights; cp is kept until mst_model_destroy(), which also closes
   it.  NULL with a sentence: cp stays the caller's. */
mst_model_t *mst_model_create(mst_checkpoint_t *cp,
    const mst_model_conf_t *conf, mst_err_t *err);
void mst_model_destroy(mst_model_t *m);        /* m may be NULL */

const mst_model_info_t *mst_model_info(const mst_model_t *m);

/*
 * Computes the batch: writes its K and V into the blocks, and *logits to the
 * rows asked for, in the order of seqs, [rows][n_vocab] float in the model's
 * memory until the next step.  The bits of a sequence's logits depend on its
 * tokens alone: not on the batch, the chunking, the blocks' numbers or the
 * thread count.  An error ends the engine.
 */
int mst_forward(mst_model_t *m, const mst_batch_t *batch,
    const float **logits, mst_err_t *err);

/*
 * The same where the likeliest token of each of n rows is all that is wanted,
 * the first of equal ones: ids[n], and then *logits is void.  Where the
 * backend cannot say it sooner than by all logits, ids are MST_BACKEND_NONE
 * and *logits is as above.
 */
int mst_forward_top(mst_model_t *m, const mst_batch_t *batch, uint32_t *ids,
    uint32_t n, const float **logits, mst_err_t *err);


/* runs the steps that a backend wants before the first real one */
int mst_forward_warm(mst_model_t *m, mst_err_t *err);

/* the caller's own work on the threads that compute steps, between two; where
   there are none, by this one, which has slot 0 */
void mst_forward_spread(mst_model_t *m, const mst_backend_work_t *work);

/* whether the backend can sample by itself */
int mst_forward_samples(const mst_model_t *m);

/*
 * The same batch, but it only begins to run, and the backend draws from the
 * rows of logits, which are numbered as above: draws are ordered by row, and
 * named by the index of their sequence.  See launch and wait of
 * mst_backend_ops_t.
 */
int mst_forward_launch(mst_model_t *m, const mst_batch_t *batch,
    const mst_backend_draw_t *draws, uint32_t n, mst_err_t *err);
int mst_forward_wait(mst_model_t *m, mst_err_t *err);


#endif /* MST_FORWARD_H */
