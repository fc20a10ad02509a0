
/*
 * Every reason why a model would not run, for who wants to hear them all: a
 * check that has somebody to tell says why it fails and goes on with the
 * next.  Without one (NULL) the first that fails is the end.
 *
 * One check, one thread: mistral inspect listens, nginx and the engine do not.
 */

#ifndef MST_FAULT_H
#define MST_FAULT_H

#include <stdint.h>

#include "base/mst_err.h"


typedef struct {
    void      (*tell)(void *data, const mst_err_t *why);
    void       *data;              /* the listener's */
    uint32_t    n;                 /* told so far */
} mst_faults_t;


/* 1: err was told and is empty again, go on; 0: nobody listens.  An empty one
   was told before. */
static inline int
mst_fault_tell(mst_faults_t *f, mst_err_t *err)
{
    if (f == NULL) {
        return 0;
    }

    if (err->text[0] != '\0') {
        f->n++;
        f->tell(f->data, err);
        err->text[0] = '\0';
    }

    return 1;
}


/* MST_OK: the check passed, or who listens was told why not; go on */
static inline int
mst_fault_pass(mst_faults_t *f, int rc, mst_err_t *err)
{
    return rc != MST_ERROR || mst_fault_tell(f, err) ? MST_OK : MST_ERROR;
}


/* how many were told; 0 where nobody listens */
static inline uint32_t
mst_fault_count(const mst_faults_t *f)
{
    return f ? f->n : 0;
}


#endif /* MST_FAULT_H */
