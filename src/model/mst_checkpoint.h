
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
#include "model/mst_fault.h"
#include "model/mst_weight.h"


typedef struct mst_checkpoint_s  mst_checkpoint_t;


/*
 * fds[0] is a GGUF file (n = 1), or config.json or params.json, and the
 * shards follow.  name: the path, for sentences.  The descriptors stay the
 * caller's.  NULL with a sentence.
 */
mst_checkpoint_t *mst_checkpoint_open(const int *fds, uint32_t n,
    const char *name, mst_err_t *err);

/* over an open file, which it takes over, but not when it fails */
mst_checkpoint_t *mst_checkpoint_gguf(mst_gguf_t *g, mst_err_t *err);

/*
 * All that is wrong with these files, of which a directory may have lost some
 * (told already) and n may be 1.  Of a file that cannot be read, or is not
 * there, no tensor is said to be missing.  MST_OK: *config is what they say.
 */
int mst_checkpoint_examine(const int *fds, uint32_t n, const char *name,
    mst_config_t *config, mst_faults_t *faults);
void mst_checkpoint_examine_gguf(mst_gguf_t *g, mst_faults_t *faults);

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
