
/*
 * Inside the GGUF reader: what mst_gguf_parse.c fills and mst_gguf.c
 * answers from.  No other file includes this.
 */

#ifndef MST_GGUF_PARSE_H
#define MST_GGUF_PARSE_H

#include "file/mst_gguf.h"


typedef struct {
    mst_str_t             key;     /* first: see by_key */
    mst_gguf_type_t       type;
    const unsigned char  *value;   /* number or bool, maybe unaligned */
    mst_str_t             string;  /* of a STRING */
    mst_gguf_array_t      array;   /* of an ARRAY */
} mst_gguf_key_t;


struct mst_gguf_s {
    char                 *name;    /* owned */
    const unsigned char  *data;    /* [size] the whole file */
    size_t                size;
    int                   mapped;  /* data is ours to unmap */

    mst_gguf_key_t       *keys;    /* [n_keys] in the file's order */
    size_t                n_keys;
    mst_tensor_t         *tensors; /* [n_tensors] in the file's order */
    size_t                n_tensors;

    const mst_str_t     **by_key;  /* [n_keys] sorted, into keys: both structs
                                      begin with their name */
    const mst_str_t     **by_name; /* [n_tensors] sorted, into tensors */
};


/* bytes of a number or bool by mst_gguf_type_t; 0: STRING and ARRAY */
extern const uint8_t  mst_gguf_sizes[MST_GGUF_F64 + 1];

/* fills keys, tensors and tables of a g with name, data and size; what it
   allocated before a failure stays in g */
int mst_gguf_parse(mst_gguf_t *g, mst_err_t *err);

/* n <= 8 bytes, little-endian */
uint64_t mst_gguf_le(const unsigned char *p, size_t n);

/* qsort() and bsearch() over tables of names */
int mst_gguf_compare(const void *one, const void *two);


#endif /* MST_GGUF_PARSE_H */
