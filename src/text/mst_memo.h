
/*
 * What pieces of a text became: a table of the places where they were met
 * last, so that a word which comes again is looked up in memory that is near
 * and not merged again.  A piece that falls on another's place takes it over:
 * what a text does to the table costs time at most, and little.
 *
 * Neither text nor ids are copied: both stay where they are while the table
 * is used.  Belongs to one encoder.
 */

#ifndef MST_MEMO_H
#define MST_MEMO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mst_hash.h"
#include "base/mst_str.h"


#define MST_MEMO_PIECE  64         /* bytes of a piece at most */


typedef struct {
    const char  *data;             /* of the piece; NULL: none */
    uint32_t     tag;              /* of its hash */
    uint32_t     first;            /* of its ids, or as the user likes */
    uint16_t     len;
    uint16_t     n;                /* ids */
} mst_memo_slot_t;


typedef struct {
    mst_memo_slot_t  *slots;       /* [mask + 1], NULL: not in use */
    uint32_t          mask;
} mst_memo_t;


/* for a text of so many bytes; without memory it is not in use */
void mst_memo_init(mst_memo_t *m, size_t len);
void mst_memo_fini(mst_memo_t *m);         /* may be called twice */

/* forget all */
void mst_memo_reset(mst_memo_t *m);


/* of the same length, at least one byte: a call of memcmp() costs more */

static inline int
mst_memo_same(const char *a, const char *b, size_t len)
{
    size_t    i;
    uint64_t  x, y;

    if (len < sizeof(uint64_t)) {
        return mst_hash_tail((const unsigned char *) a, len)
               == mst_hash_tail((const unsigned char *) b, len);
    }

    for (i = 0; i < len; i += sizeof(uint64_t)) {
        i = i < len - sizeof(uint64_t) ? i : len - sizeof(uint64_t);
        memcpy(&x, a + i, sizeof(uint64_t));
        memcpy(&y, b + i, sizeof(uint64_t));

        if (x != y) {
            return 0;
        }
    }

    return 1;
}


/* the slot of a piece of 1 .. MST_MEMO_PIECE bytes, for one use: *found says
   whether it has the piece's ids; else they may be put there */

static inline mst_memo_slot_t *
mst_memo_slot(const mst_memo_t *m, mst_str_t piece, int *found)
{
    uint32_t          tag;
    uint64_t          h;
    mst_memo_slot_t  *slot;

    h = mst_hash_short(0, piece.data, piece.len);
    tag = (uint32_t) (h >> 32);
    slot = &m->slots[(uint32_t) h & m->mask];

    *found = slot->tag == tag && slot->len == piece.len && slot->data
             && mst_memo_same(slot->data, piece.data, piece.len);

    if (!*found) {
        slot->data = NULL;
        slot->tag = tag;
    }

    return slot;
}


#endif /* MST_MEMO_H */
