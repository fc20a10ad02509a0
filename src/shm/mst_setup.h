
/*
 * What an engine is started with: written by the nginx master into a file of
 * its own in memory, which is sealed before anybody else has it.  Workers can
 * write into the segment, and the program is also started by a master who is
 * root while workers run: what says whom to become must not stand there.
 *
 * Plain data of fixed size, no pointers.  Together with the files' identities
 * it is what the engine's hash is made of: two cycles with equal bytes here
 * share one engine.
 */

#ifndef MST_SETUP_H
#define MST_SETUP_H

#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_tune.h"


#define MST_SETUP_FILES   64       /* model files opened by the master */
#define MST_SETUP_GROUPS  32
#define MST_SETUP_PATH    1024     /* bytes, with the NUL */
#define MST_SETUP_TEXT    (256 << 20)  /* bytes of the null model's text */
#define MST_SETUP_SCRIPT  (64 << 20)   /* ... where it is a script */


typedef struct {
    uint64_t  dev;
    uint64_t  ino;
    uint64_t  size;                /* bytes */
    uint64_t  mtime_ns;
} mst_setup_file_t;


typedef struct {
    char              name[64];            /* of the mistral_model block */
    char              path[MST_SETUP_PATH];  /* for messages; "null:..." */
    char              device[64];          /* "auto", "cpu", "cuda:0,1" */
    char              dtype[16];
    char              program[MST_SETUP_PATH];
    uint32_t          threads;             /* of "device cpu threads=N"; 0 =
                                              all cores */
    uint32_t          activations;         /* bits, on the CPU; 0 = 22 */
    uint32_t          kv_type;             /* mst_kv_type_t; ~0u = auto */
    uint64_t          kv_size;             /* bytes; 0 = auto */
    uint32_t          kv_percent;          /* of free memory; 0 = not given */
    uint32_t          context;             /* tokens; 0 = the model's */
    uint32_t          max_batch;           /* 0 = auto */
    uint32_t          prefill_chunk;       /* 0 = auto */
    mst_tune_t        tune;                /* of the model */
    uint32_t          uid;                 /* run as; ~0u = do not change */
    uint32_t          gid;
    uint32_t          n_groups;
    uint32_t          groups[MST_SETUP_GROUPS];
    uint32_t          n_files;             /* descriptors from
                                              MST_FD_FILES(n_slots) on */
    mst_setup_file_t  files[MST_SETUP_FILES];

    /* null model: a path "null:..." was parsed into these */
    uint32_t          null;                /* 1 = null model */
    uint32_t          null_len;            /* tokens */
    uint32_t          null_vocab;          /* ids, and the file is a script
                                              of them; 0 = bytes */

    uint32_t          library;             /* 1 = the last of the files is
                                              libmst_cuda.so */
    uint32_t          weight_layouts;      /* 0 = auto, 1, 2 */
    uint32_t          batch_invariant;     /* 1 = the same bits at every batch
                                              size */
    char              tuned[MST_SETUP_PATH];   /* directory for what was
                                              measured on a device; "" = none */
    uint32_t          null_celsius;        /* what it says to have */
    double            null_rate;           /* tokens per second */
    uint64_t          null_delay_ns;
} mst_setup_t;


/* sealed against every change; *fd is the caller's to close, close-on-exec is
   set */
int mst_setup_create(const mst_setup_t *setup, int *fd, mst_err_t *err);

/* size and seals are checked; counts are in range, strings terminated */
int mst_setup_read(mst_setup_t *setup, int fd, mst_err_t *err);


#endif /* MST_SETUP_H */
