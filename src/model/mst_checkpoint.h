
/*
 * A model's files as the model room sees them: hyper-parameters, and each
 * tensor under its role, whichever container and naming they come from:
 * GGUF, safetensors with Hugging Face's names, or Mistral's consolidated
 * ones.  Every tensor that is needed is there, once, with its shape and a
 * type that we decode; every other tensor of the language model is an error,
 * since one that nobody reads means answers that are silently wrong.
 *
 * No weights are touched.  Any process; immutable once open.
 */

#ifndef MST_CHECKPOINT_H
#define MST_CHECKPOINT_H

#include "base/mst_err.h"
#include "file/mst_gguf.h"
#include "file/mst_tensor.h"
#include "model/mst_config.h"


typedef struct mst_checkpoint_s  mst_checkpoint_t;


typedef enum {
    MST_WEIGHT_EMBD = 0,             /* [n_vocab][dim] */
    MST_WEIGHT_NORM,                 /* before the head */
    MST_WEIGHT_HEAD,                 /* [n_vocab][dim], not where tied */
    MST_WEIGHT_FREQS,                /* GGUF: divisors of the frequencies */
    MST_WEIGHT_GLOBALS,

    MST_WEIGHT_ATTN_NORM = MST_WEIGHT_GLOBALS,     /* of a layer, from here */
    MST_WEIGHT_Q,
    MST_WEIGHT_K,
    MST_WEIGHT_V,
    MST_WEIGHT_OUT,
    MST_WEIGHT_Q_BIAS,
    MST_WEIGHT_K_BIAS,
    MST_WEIGHT_V_BIAS,
    MST_WEIGHT_OUT_BIAS,
    MST_WEIGHT_FFN_NORM,
    MST_WEIGHT_GATE_BIAS,
    MST_WEIGHT_UP_BIAS,
    MST_WEIGHT_DOWN_BIAS,
    MST_WEIGHT_ROUTER,               /* [n_experts][dim] */
    MST_WEIGHT_LAYERS,

    MST_WEIGHT_GATE = MST_WEIGHT_LAYERS,   /* of an expert, or of the one that a
                                          dense layer has, from here */
    MST_WEIGHT_UP,
    MST_WEIGHT_DOWN,
    MST_WEIGHTS
} mst_weight_t;


/*
 * fds[0] is a GGUF file (n = 1), or config.json or params.json, and the
 * shards follow.  name: the path, for sentences.  The descriptors stay the
 * caller's.  NULL with a sentence.
 */
mst_checkpoint_t *mst_checkpoint_open(const int *fds, uint32_t n,
    const char *name, mst_err_t *err);

/* over an open file, which it takes over, but not when it fails */
mst_checkpoint_t *mst_checkpoint_gguf(mst_gguf_t *g, mst_err_t *err);

/* what an operator wants otherwise; of MST_ERROR with a sentence c is fit to
   be closed only */
int mst_checkpoint_tune(mst_checkpoint_t *c, const mst_tune_t *tune,
    mst_err_t *err);

void mst_checkpoint_close(mst_checkpoint_t *c);        /* c may be NULL */

/* closes it but for the open file that mst_checkpoint_gguf() took */
void mst_checkpoint_release(mst_checkpoint_t *c);

const char *mst_checkpoint_name(const mst_checkpoint_t *c);
const mst_config_t *mst_checkpoint_config(const mst_checkpoint_t *c);

/* NULL: no GGUF */
const mst_gguf_t *mst_checkpoint_container(const mst_checkpoint_t *c);

/* layer: of the roles from ATTN_NORM on; expert: from GATE on.  NULL: this
   model has none.  Names are of the file. */
const mst_tensor_t *mst_checkpoint_tensor(const mst_checkpoint_t *c,
    mst_weight_t role, uint32_t layer, uint32_t expert);

uint64_t mst_checkpoint_weights(const mst_checkpoint_t *c);    /* bytes */


#endif /* MST_CHECKPOINT_H */
