
/*
 * The means of one run of a template: memory and steps, both with an end.
 * Everything that a run makes is freed at once.  Passing a limit sets the
 * sentence; a failed malloc() sets none.
 *
 * One thread; belongs to one run, or, as the memory of a compiled template,
 * to that.
 */

#ifndef MST_WORK_H
#define MST_WORK_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"


typedef struct mst_work_chunk_s  mst_work_chunk_t;

typedef struct {
    mst_work_chunk_t  *chunks;     /* the newest first */
    char              *p;          /* free in the newest: p .. end */
    char              *end;
    size_t             used;       /* bytes, those only charged too */
    size_t             max_used;
    uint64_t           steps;
    uint64_t           max_steps;
    mst_err_t         *err;
} mst_work_t;


void mst_work_init(mst_work_t *w, size_t max_used, uint64_t max_steps,
    mst_err_t *err);
void mst_work_fini(mst_work_t *w);

/* not zeroed, fit for any type, of no bytes too; NULL: failed */
void *mst_work_alloc(mst_work_t *w, size_t size);
void *mst_work_array(mst_work_t *w, size_t n, size_t size);

/* counts bytes that live elsewhere */
int mst_work_charge(mst_work_t *w, size_t size);

/* a step is some nanoseconds' work */
int mst_work_steps(mst_work_t *w, uint64_t n);


#endif /* MST_WORK_H */
