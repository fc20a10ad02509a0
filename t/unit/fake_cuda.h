
/*
 * What t/unit/fake_cuda.c lets its caller see and set: one device, whose
 * memory is the host's and whose kernels do nothing.
 */

#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdint.h>

#define FAKE_OFFERS  8


typedef struct {
    uint64_t  calls;               /* that could have failed; atomic */
    uint64_t  fail_at;             /* the one that does; 0 = none */
    int       sticky;              /* and all behind it, too */
    int       rc;                  /* cudaError_t of such */

    uint64_t  total;               /* bytes of the device */
    uint64_t  used;
    int64_t   pinned;              /* allocations of pinned memory that can be
                                      had; -1 = all */
    int64_t   threads;             /* that can be started; -1 = all */
    int64_t   live;                /* objects that were made and not freed;
                                      atomic */

    int       offers;              /* that cuBLASLt makes for a product */
    float     ms[FAKE_OFFERS];     /* what each of them takes; < 0: it does not
                                      run */
    uint64_t  products;            /* that were asked for */
    double    clock;               /* ms of them so far */

    const char  *find;             /* bytes that device memory is looked
                                      through for when a stream is waited
                                      for */
    uint64_t     find_size;
    uint64_t     found;            /* times */
} fake_t;

typedef fake_t *(*fake_cuda_pt)(void);

#define FAKE_SYMBOL  "fake_cuda"


#endif /* FAKE_CUDA_H */
