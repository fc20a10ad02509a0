
/*
 * A named array inside a mapped file: what every container (GGUF,
 * safetensors) gives to the model room.
 */

#ifndef MST_TENSOR_H
#define MST_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_str.h"
#include "file/mst_quant.h"

#define MST_TENSOR_DIMS  4


typedef struct {
    mst_str_t    name;         /* in the mapping */
    uint32_t     type;         /* mst_type_t; maybe one we cannot decode */
    uint32_t     n_dims;       /* 1 .. MST_TENSOR_DIMS */
    uint64_t     dims[MST_TENSOR_DIMS];
                               /* fastest first: dims[0] = inputs of a matrix,
                                  dims[1] = outputs; unused ones are 1 */
    const void  *data;         /* in the mapping, checked to lie inside;
                                  NULL for a type we cannot size */
    uint64_t     size;         /* bytes */
} mst_tensor_t;


#endif /* MST_TENSOR_H */
