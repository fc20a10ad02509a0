
/*
 * What the files that write a random model share.
 */

#ifndef MISTRAL_RANDOM_LOCAL_H
#define MISTRAL_RANDOM_LOCAL_H

#include <stdint.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "file/mst_quant.h"
#include "model/mst_config.h"
#include "model/mst_weight.h"


#define MISTRAL_RANDOM_ALIGN  32               /* of GGUF's data, bytes */


typedef struct {
    mst_weight_t  role;
    uint32_t      layer;
    uint32_t      expert;
    uint64_t      in;              /* elements of a row */
    uint64_t      out;             /* rows; 0: a vector */
    mst_type_t    type;
} mistral_random_tensor_t;


typedef struct {
    mst_config_t    config;
    mst_names_t     names;         /* of the tensors in the file */
    mst_type_t      type;          /* of the matrices */
    uint64_t        seed;
    char           *text;          /* of the configuration; owned */
    size_t          text_len;
    mst_buf_t       tensors;       /* mistral_random_tensor_t each */
    mst_buf_t       head;          /* what stands before the data */
    int             fd;            /* of the file being written, or -1 */
    const char     *path;          /* its name, for sentences */
    unsigned char  *chunk;         /* [MISTRAL_RANDOM_CHUNK * 4] bytes */
    mst_err_t      *err;
} mistral_random_t;


/* the tensors, in the order of the file */

static inline const mistral_random_tensor_t *
mistral_random_tensors(const mistral_random_t *r, size_t *n)
{
    *n = r->tensors.len / sizeof(mistral_random_tensor_t);

    return (const mistral_random_tensor_t *) (const void *) r->tensors.data;
}


static inline uint64_t
mistral_random_elements(const mistral_random_tensor_t *t)
{
    return t->in * (t->out ? t->out : 1);
}


/* bytes */

static inline uint64_t
mistral_random_size(const mistral_random_tensor_t *t)
{
    const mst_type_info_t  *info;

    info = mst_type_info(t->type);

    return mistral_random_elements(t) / info->block * info->size;
}


/* r->head: what stands before the data.  A configuration that GGUF's keys of
   "llama" cannot say is MST_ERROR. */
int mistral_random_head_gguf(mistral_random_t *r);
void mistral_random_head_safetensors(mistral_random_t *r);

/* whether there are values of a type */
int mistral_random_able(mst_type_t type);

/*
 * n elements of a type, a multiple of its block, at p: about -a .. a from a
 * stream of numbers, or 1.
 */
void mistral_random_values(mst_type_t type, uint64_t *state, float a,
    uint32_t n, unsigned char *p);
void mistral_random_ones(mst_type_t type, uint32_t n, unsigned char *p);


#endif /* MISTRAL_RANDOM_LOCAL_H */
