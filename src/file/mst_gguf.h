
/*
 * GGUF version 2 and 3 reader (format: ggml's docs/gguf.md).
 *
 * The file is mapped read-only; every length, count and offset is checked
 * against the file before it is used, so that a hostile file yields one
 * sentence and never a bad access.  Keys and strings point into the mapping
 * and live until mst_gguf_close().  The truncation of a file while it is
 * mapped is the one thing that cannot be checked here (SIGBUS): workers
 * copy what they need and close; the engine alone keeps its mapping.
 *
 * Any process; an open file is immutable and may be read by many threads.
 */

#ifndef MST_GGUF_H
#define MST_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_str.h"
#include "file/mst_tensor.h"

#define MST_GGUF_SHOW  72          /* bytes, for mst_gguf_show() */


typedef enum {                 /* the numbers of the format */
    MST_GGUF_U8 = 0,
    MST_GGUF_I8 = 1,
    MST_GGUF_U16 = 2,
    MST_GGUF_I16 = 3,
    MST_GGUF_U32 = 4,
    MST_GGUF_I32 = 5,
    MST_GGUF_F32 = 6,
    MST_GGUF_BOOL = 7,
    MST_GGUF_STRING = 8,
    MST_GGUF_ARRAY = 9,
    MST_GGUF_U64 = 10,
    MST_GGUF_I64 = 11,
    MST_GGUF_F64 = 12
} mst_gguf_type_t;


typedef struct mst_gguf_s  mst_gguf_t;


/* an array value; strings are walked, numbers are indexed */
typedef struct {
    mst_gguf_type_t       type;    /* of the elements; never ARRAY */
    uint64_t              n;
    const unsigned char  *data;    /* first element, maybe unaligned */
    const unsigned char  *end;     /* behind the last one */
} mst_gguf_array_t;


/*
 * Opens by descriptor (duplicated: the caller keeps its own) or by path.
 * "name" is used in messages.  NULL with a sentence on any damage.
 */
mst_gguf_t *mst_gguf_open(const char *path, mst_err_t *err);
mst_gguf_t *mst_gguf_open_fd(int fd, const char *name, mst_err_t *err);

/* the same over memory that outlives the result (tests, fuzzing) */
mst_gguf_t *mst_gguf_open_memory(const void *data, size_t size,
    const char *name, mst_err_t *err);

void mst_gguf_close(mst_gguf_t *g);            /* g may be NULL */

const char *mst_gguf_name(const mst_gguf_t *g);
uint64_t mst_gguf_size(const mst_gguf_t *g);   /* bytes of the file */

/*
 * Metadata.  MST_OK; MST_DECLINED: no such key; MST_ERROR with a sentence:
 * it has another type or does not fit.  _uint takes any integer type with
 * a value >= 0, _float F32 and F64.
 */
int mst_gguf_uint(const mst_gguf_t *g, const char *key, uint64_t *value,
    mst_err_t *err);
int mst_gguf_float(const mst_gguf_t *g, const char *key, double *value,
    mst_err_t *err);
int mst_gguf_bool(const mst_gguf_t *g, const char *key, int *value,
    mst_err_t *err);
int mst_gguf_string(const mst_gguf_t *g, const char *key, mst_str_t *value,
    mst_err_t *err);
int mst_gguf_array(const mst_gguf_t *g, const char *key,
    mst_gguf_array_t *value, mst_err_t *err);

/* next string of an array of strings: MST_OK, or MST_DONE after the last */
int mst_gguf_next_string(mst_gguf_array_t *a, mst_str_t *s);

/* element i of an integer or float array as a number; i < a->n */
double mst_gguf_number(const mst_gguf_array_t *a, uint64_t i);

size_t mst_gguf_n_tensors(const mst_gguf_t *g);
const mst_tensor_t *mst_gguf_tensor_at(const mst_gguf_t *g, size_t i);
const mst_tensor_t *mst_gguf_tensor(const mst_gguf_t *g, const char *name);
                                               /* NULL: not there */

/* a sentence about this file, its name before it; MST_ERROR */
int mst_gguf_error(const mst_gguf_t *g, mst_err_t *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* a name from the file, fit for a message: printable ASCII, cut if long;
   returns buf of MST_GGUF_SHOW bytes */
const char *mst_gguf_show(char *buf, mst_str_t s);


#endif /* MST_GGUF_H */
