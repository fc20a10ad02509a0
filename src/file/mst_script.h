
/*
 * What the null model says where it has a vocabulary: a JSON array of arrays
 * of token ids, the answers to a request with 0, 1, 2, ... answers of the
 * assistant in it.
 */

#ifndef MST_SCRIPT_H
#define MST_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"


typedef struct {
    uint32_t  *ids;            /* [ends[n - 1]], owned */
    uint32_t  *ends;           /* [n] of the entries in ids, owned */
    uint32_t   n;              /* entries, 1 or more */
} mst_script_t;


/* ids below n_vocab, each entry has one at least; MST_ERROR with a sentence:
   s is empty */
int mst_script_parse(mst_script_t *s, const char *text, size_t len,
    uint32_t n_vocab, mst_err_t *err);
void mst_script_fini(mst_script_t *s);         /* may be called twice */


#endif /* MST_SCRIPT_H */
