
/*
 * What "mistral inspect" found, between the part that looks
 * (mistral_inspect.c) and the part that prints (mistral_inspect_print.c).
 */

#ifndef MISTRAL_INSPECT_H
#define MISTRAL_INSPECT_H

#include <stdint.h>

#include "backend/mst_backend.h"
#include "base/mst_err.h"
#include "file/mst_gguf.h"
#include "model/mst_check.h"
#include "model/mst_checkpoint.h"
#include "tools/mistral_words.h"

#define MISTRAL_INSPECT_REASONS  16
#define MISTRAL_INSPECT_TYPES    64


typedef struct {                   /* the tensors of one type */
    uint32_t  type;
    uint64_t  tensors;
    uint64_t  parameters;
    uint64_t  size;                /* bytes; 0 where we cannot size it */
} mistral_inspect_type_t;


typedef struct {
    const char              *path;
    uint64_t                 context;      /* asked for, or the model's */
    uint64_t                 batch;

    mst_gguf_t              *gguf;         /* NULL: no readable GGUF file */
    uint64_t                 size;         /* bytes of its file or shards; 0:
                                              nothing could be read */
    uint32_t                 n_shards;     /* of a directory */
    char                     arch[64];     /* of the file, printable */
    char                     name[128];
    mistral_inspect_type_t   types[MISTRAL_INSPECT_TYPES];
    size_t                   n_types;
    uint64_t                 tensors;
    uint64_t                 parameters;
    uint64_t                 weights;      /* bytes */
    uint64_t                 coarse;       /* bytes of the head's copy beside
                                              them, of a model that runs */

    int                      has_config;
    mst_config_t             config;
    char                     vocabulary[64];   /* "gpt2, smollm" */
    int                      ids_only;     /* all it lacks is a tokenizer */
    mistral_words_t          words;        /* no tokenizer: not known */
    mst_template_t          *template;     /* NULL: not known */
    mst_toolmark_t           marks;        /* of calls, with a template */

    int                      has_memory;
    mst_backend_info_t       memory;       /* of kv_cache auto */
    uint64_t                 kv_full;      /* bytes when all sequences are
                                              full */
    uint64_t                 ram;          /* bytes that we may use */

    mst_err_t                reasons[MISTRAL_INSPECT_REASONS];
    size_t                   n_reasons;    /* 0: it would run, in nginx
                                              unless ids_only */
    size_t                   n_more;       /* for which there is no room */
} mistral_inspect_t;


/* both MST_OK, or MST_ERROR with errno */
int mistral_inspect_text(const mistral_inspect_t *m);
int mistral_inspect_json(const mistral_inspect_t *m);


#endif /* MISTRAL_INSPECT_H */
