
/*
 * Does this path hold a model that we can run?  Reads headers, metadata and
 * the tensor table, touches no weights: quick enough for "nginx -t".  The
 * gateway may include this header of the model room and no other.
 */

#ifndef MST_CHECK_H
#define MST_CHECK_H

#include <stdint.h>

#include "base/mst_err.h"
#include "file/mst_gguf.h"


typedef struct {
    char      arch[32];        /* "llama" */
    char      name[128];       /* general.name, "" = none */
    uint32_t  context;         /* tokens the model was made for */
    uint32_t  n_vocab;
    uint32_t  n_layers;
    uint64_t  weights;         /* bytes of all tensors */
} mst_check_t;


/* every tensor that the forward step needs is there, with its shape and a
   type that we run; else one sentence with file, tensor, value and limit */
int mst_check_gguf(const mst_gguf_t *g, mst_check_t *c, mst_err_t *err);


#endif /* MST_CHECK_H */
