
/*
 * Does this path hold a model that we can run?  Opens its files, reads
 * headers and configuration, touches no weights: quick enough for "nginx
 * -t".  The gateway may include this header of the model room and no other.
 */

#ifndef MST_CHECK_H
#define MST_CHECK_H

#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_tune.h"
#include "file/mst_gguf.h"
#include "model/mst_fault.h"

#define MST_CHECK_FILES  64        /* as MST_SETUP_FILES */


typedef struct {
    int       fd[MST_CHECK_FILES]; /* close-on-exec */
    uint32_t  n;                   /* a GGUF file; or config.json or
                                      params.json, then the shards */
    int       directory;           /* it is the second of them */

    mst_faults_t  *faults;         /* told of shards that are not there */
} mst_check_files_t;


typedef struct {
    char      arch[40];        /* "llama" */
    char      name[128];       /* general.name, "" = none */
    uint32_t  context;         /* tokens the model was made for */
    uint32_t  n_vocab;
    uint32_t  n_layers;
    uint32_t  n_experts;       /* 0 = dense */
    uint64_t  weights;         /* bytes of all tensors */
    uint64_t  coarse;          /* bytes of the head's copy that the CPU makes
                                  beside them */
    uint32_t  stop_ids[8];     /* that end an answer, as its configuration
                                  says */
    uint32_t  n_stop;
} mst_check_t;


/*
 * A GGUF file, or a directory with config.json and model.safetensors (or
 * the shards of model.safetensors.index.json), or with params.json and
 * consolidated.safetensors (or the shards of its index).  Opens regular
 * files only.  MST_ERROR with a sentence: nothing is open.
 */
int mst_check_open(const char *path, mst_check_files_t *f, mst_err_t *err);

/* the same, but goes on without shards that cannot be opened */
int mst_check_open_most(const char *path, mst_check_files_t *f,
    mst_faults_t *faults, mst_err_t *err);

void mst_check_close(mst_check_files_t *f);    /* may be called twice */

/* every tensor that the forward step needs is there, with its shape and a
   type that we run; else one sentence with file, tensor, value and limit.
   tune: what an operator wants otherwise, or NULL. */
int mst_check_files(const mst_check_files_t *f, const char *path,
    const mst_tune_t *tune, mst_check_t *c, mst_err_t *err);
int mst_check_gguf(mst_gguf_t *g, const mst_tune_t *tune, mst_check_t *c,
    mst_err_t *err);


#endif /* MST_CHECK_H */
