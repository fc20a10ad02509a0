
/*
 * Hyper-parameters of a model, read from its file's metadata (GGUF), from a
 * config.json (Hugging Face) or a params.json (Mistral), and checked: whoever
 * holds a mst_config_t may multiply its fields without thought.  What would
 * change the numbers and is not computed here is refused, never ignored.
 *
 * Plain struct, any thread.
 */

#ifndef MST_CONFIG_H
#define MST_CONFIG_H

#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_tune.h"
#include "file/mst_gguf.h"
#include "model/mst_fault.h"
#include "model/mst_rope.h"

#define MST_CONFIG_MAX_LAYERS   1024
#define MST_CONFIG_MAX_HEAD     1024
#define MST_CONFIG_MAX_VOCAB    (1 << 22)
#define MST_CONFIG_MAX_EXPERTS  64
#define MST_CONFIG_STOPS        8


typedef struct {
    char        arch[40];      /* "llama", "mistral", ... */
    uint32_t    n_layers;
    uint32_t    dim;           /* width of the residual stream */
    uint32_t    ff_dim;        /* width inside the feed-forward part, or of
                                  one expert */
    uint32_t    n_heads;       /* of queries */
    uint32_t    n_kv_heads;    /* of keys and values; divides n_heads */
    uint32_t    head_dim;      /* of queries, keys and values; even; need not
                                  be dim / n_heads */
    uint32_t    rope_dim;      /* of head_dim that rotate; even */
    uint32_t    n_vocab;       /* rows of the embeddings */
    uint32_t    context;       /* tokens the model was made for */
    uint32_t    n_experts;     /* of a layer; 0 = dense */
    uint32_t    n_used;        /* experts of one token */
    float       rms_eps;
    mst_rope_t  rope;
    double      temp_beta;     /* queries grow by 1 + beta * ln(1 + position
                                  / temp_length); 0 = they do not */
    uint32_t    temp_length;
    int         retuned;       /* the scaling is an operator's: tensors with
                                  one do not count */
    int         tied;          /* the embeddings are the head, too */
    int         half_split;    /* rows of q and k: first halves of the pairs,
                                  then the second ones, in each head */
    int         attn_bias;     /* of q, k and v */
    int         out_bias;
    int         mlp_bias;
    uint32_t    stop_ids[MST_CONFIG_STOPS];
    uint32_t    n_stop;        /* as the file says, may be 0 */
    uint32_t    windows[MST_CONFIG_MAX_LAYERS];
                               /* [n_layers] tokens that a query sees, itself
                                  included; 0 = all */
} mst_config_t;


/* of architecture "llama" or "mistral3"; a sentence with file, key, value and
   limit else.  Looks at no tensor but for its presence and the rows of
   token_embd.  Of these three: MST_ERROR without a sentence where faults were
   told. */
int mst_config_gguf(const mst_gguf_t *g, mst_config_t *c,
    mst_faults_t *faults, mst_err_t *err);

/* "text" is the whole file; name stands before sentences */
int mst_config_hf(const char *text, size_t len, const char *name,
    mst_config_t *c, mst_faults_t *faults, mst_err_t *err);
int mst_config_params(const char *text, size_t len, const char *name,
    mst_config_t *c, mst_faults_t *faults, mst_err_t *err);

/* then what an operator wants otherwise; a sentence without the file's name,
   and c may be half changed */
int mst_config_tune(mst_config_t *c, const mst_tune_t *t, mst_err_t *err);

/* what all formats share, once the fields are set; a sentence without the
   file's name */
int mst_config_check(mst_config_t *c, mst_err_t *err);


#endif /* MST_CONFIG_H */
