
/*
 * Hyper-parameters of a model, read from the metadata of its file and
 * checked: whoever holds a mst_config_t may multiply its fields without
 * thought.  What would change the numbers and is not computed here (experts,
 * rope scaling, windows) is refused, never ignored.
 *
 * Plain struct, any thread.
 */

#ifndef MST_CONFIG_H
#define MST_CONFIG_H

#include <stdint.h>

#include "base/mst_err.h"
#include "file/mst_gguf.h"


typedef struct {
    uint32_t  n_layers;
    uint32_t  dim;             /* width of the residual stream */
    uint32_t  ff_dim;          /* width inside the feed-forward part */
    uint32_t  n_heads;         /* of queries */
    uint32_t  n_kv_heads;      /* of keys and values; divides n_heads */
    uint32_t  head_dim;        /* of queries, keys and values; even; need not
                                  be dim / n_heads */
    uint32_t  rope_dim;        /* of head_dim that rotate; even */
    uint32_t  n_vocab;         /* rows of token_embd.weight */
    uint32_t  context;         /* tokens the model was made for */
    float     rms_eps;
    double    rope_base;
    int       tied;            /* no output.weight: token_embd serves */
} mst_config_t;


/* of architecture "llama"; a sentence with file, key, value and limit else.
   Looks at no tensor but for its presence and the rows of token_embd. */
int mst_config_gguf(const mst_gguf_t *g, mst_config_t *c, mst_err_t *err);


#endif /* MST_CONFIG_H */
