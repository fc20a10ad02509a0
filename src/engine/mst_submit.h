
/*
 * Is a submit one that an engine can take?  The host copies what a worker
 * wrote: nothing of it is trusted.  Any thread.
 */

#ifndef MST_SUBMIT_H
#define MST_SUBMIT_H

#include <stdint.h>

#include "base/mst_err.h"
#include "engine/mst_engine.h"


/* ids below n_vocab, counts, parameters and claim in their ranges: MST_OK or
   MST_ERROR with a sentence */
int mst_submit_check(const mst_submit_t *s, uint32_t n_vocab,
    mst_err_t *err);


#endif /* MST_SUBMIT_H */
