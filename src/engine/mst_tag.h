
/*
 * From a host's tag to the living sequence.  Chains through the sequences
 * themselves, so an insertion cannot fail; a table that cannot grow for
 * lack of memory stays as it is and gets slower.  One thread.
 */

#ifndef MST_TAG_H
#define MST_TAG_H

#include <stdint.h>

#include "engine/mst_seq.h"


typedef struct {
    mst_seq_t  **buckets;          /* [mask + 1] */
    uint32_t     mask;
    uint32_t     n;                /* sequences in it */
} mst_tag_map_t;


int mst_tag_init(mst_tag_map_t *m);            /* MST_ERROR: memory */
void mst_tag_fini(mst_tag_map_t *m);           /* zeroed or inited */

void mst_tag_insert(mst_tag_map_t *m, mst_seq_t *q);
void mst_tag_remove(mst_tag_map_t *m, mst_seq_t *q);   /* it is in there */
mst_seq_t *mst_tag_find(const mst_tag_map_t *m, uint64_t tag);


#endif /* MST_TAG_H */
