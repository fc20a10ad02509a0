
/*
 * The table of pieces: see mst_memo.h.
 */

#include "base/mst_mem.h"
#include "text/mst_memo.h"


#define MST_MEMO_LEAST  1024       /* bytes of text: what is shorter repeats
                                      too little */
#define MST_MEMO_SLOTS  4096


void
mst_memo_init(mst_memo_t *m, size_t len)
{
    uint32_t  n;

    m->slots = NULL;

    if (len < MST_MEMO_LEAST) {
        return;
    }

    for (n = 128; n < MST_MEMO_SLOTS && n < len / 8; n *= 2) {
        /* void */
    }

    m->mask = n - 1;
    m->slots = mst_calloc(n, sizeof(mst_memo_slot_t));
}


void
mst_memo_fini(mst_memo_t *m)
{
    mst_free(m->slots);
    m->slots = NULL;
}


void
mst_memo_reset(mst_memo_t *m)
{
    if (m->slots) {
        memset(m->slots, 0, ((size_t) m->mask + 1) * sizeof(mst_memo_slot_t));
    }
}
