
/*
 * One safetensors file (format: the safetensors README): a length, a JSON
 * header with a type, a shape and a range of bytes for each tensor, then the
 * bytes.
 *
 * The file is mapped read-only.  Everything that the header says is checked
 * against the file before it is used: a hostile file yields one sentence and
 * never a bad access.  Names and data point into memory that lives until
 * mst_safetensors_close().  As with GGUF, the truncation of a file while it
 * is mapped cannot be checked here.
 *
 * Any process; an open file is immutable and may be read by many threads.
 */

#ifndef MST_SAFETENSORS_H
#define MST_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "file/mst_tensor.h"


typedef struct mst_safetensors_s  mst_safetensors_t;


/* descriptors are duplicated by the mapping: the caller keeps its own */
mst_safetensors_t *mst_safetensors_open_fd(int fd, const char *name,
    mst_err_t *err);

/* the same over memory that outlives the result (tests, fuzzing) */
mst_safetensors_t *mst_safetensors_open_memory(const void *data, size_t size,
    const char *name, mst_err_t *err);

void mst_safetensors_close(mst_safetensors_t *s);      /* s may be NULL */

uint64_t mst_safetensors_size(const mst_safetensors_t *s);  /* bytes */
size_t mst_safetensors_n_tensors(const mst_safetensors_t *s);

/* in the order of their bytes; dims are turned round: fastest first */
const mst_tensor_t *mst_safetensors_tensor_at(const mst_safetensors_t *s,
    size_t i);


#endif /* MST_SAFETENSORS_H */
