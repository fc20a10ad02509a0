
/*
 * A model of an open GGUF file, for tests.
 */

#ifndef MST_MODEL_GGUF_H
#define MST_MODEL_GGUF_H

#include "model/mst_forward.h"


/* takes g over, but not when it fails */

static inline mst_model_t *
model_of_gguf(mst_gguf_t *g, const mst_model_conf_t *conf, mst_err_t *err)
{
    mst_model_t       *m;
    mst_checkpoint_t  *cp;

    cp = mst_checkpoint_gguf(g, err);

    if (cp == NULL) {
        return NULL;
    }

    m = mst_model_create(cp, conf, err);

    if (m == NULL) {
        mst_checkpoint_release(cp);
    }

    return m;
}


#endif /* MST_MODEL_GGUF_H */
