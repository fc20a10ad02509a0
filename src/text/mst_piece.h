
/*
 * Tokens by their bytes.  One of up to MST_PIECE_MAX bytes stands in the table
 * with all of them, so that a look is one line of memory; of longer ones, and
 * of what is no token, only two bits of a hash are kept, which tell nearly all
 * bytes that are none.
 *
 * Immutable after it was filled: any thread.
 */

#ifndef MST_PIECE_H
#define MST_PIECE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mst_hash.h"
#include "text/mst_sieve.h"


#define MST_PIECE_MAX   12
#define MST_PIECE_NONE  0xffffffffu
#define MST_PIECE_WHOLE (1u << 20)             /* merging its bytes gives it */
#define MST_PIECE_ID    (MST_PIECE_WHOLE - 1)


typedef struct {
    uint64_t  first;           /* its bytes, or the first 8 of more */
    uint32_t  last;            /* the last 4 of more than 8; else 0 */
    uint32_t  id;              /* and WHOLE, and its length << 24; 0: free */
} mst_piece_slot_t;


typedef struct {
    mst_piece_slot_t  *slots;  /* [1 << (64 - shift)], at most half of them
                                  used */
    uint64_t          *bits;   /* [slots / 16], their sieve and that of long
                                  tokens */
    uint32_t           mask;
    int                shift;  /* of a hash to its slot */
} mst_piece_t;


/* room for n tokens; MST_ERROR: memory.  Leaves t fit for _fini */
int mst_piece_init(mst_piece_t *t, uint32_t n);
void mst_piece_fini(mst_piece_t *t);           /* may be called twice */

/* a token of at least one byte that is not there yet; MST_BUSY: too many
   collide */
int mst_piece_put(mst_piece_t *t, const char *data, size_t len, uint32_t id);


/* bytes and length as what a slot holds, but for the id */

static inline mst_piece_slot_t
mst_piece_slot(const char *data, size_t len)
{
    mst_piece_slot_t  s;

    s.id = (uint32_t) len << 24;

    if (len <= 8) {
        s.first = mst_hash_tail((const unsigned char *) data, len);
        s.last = 0;
        return s;
    }

    memcpy(&s.first, data, sizeof(uint64_t));
    memcpy(&s.last, data + len - sizeof(uint32_t), sizeof(uint32_t));

    return s;
}


static inline uint64_t
mst_piece_hash(const mst_piece_slot_t *s)
{
    uint64_t  h;

    h = (s->first ^ (uint64_t) s->last << 24 ^ s->id)
        * 0xff51afd7ed558ccdull;

    return (h ^ h >> 32 ^ s->last) * 0x9e3779b97f4a7c15ull;
}


/* the token that has just these 1 .. MST_PIECE_MAX bytes, and whether it is
   WHOLE; or NONE */

static inline uint32_t
mst_piece_find(const mst_piece_t *t, const char *data, size_t len)
{
    uint32_t                 i;
    uint64_t                 h;
    mst_piece_slot_t         s;
    const mst_piece_slot_t  *p;

    s = mst_piece_slot(data, len);
    h = mst_piece_hash(&s);

    if (!mst_sieve_maybe(t->bits, h, t->shift)) {
        return MST_PIECE_NONE;
    }

    for (i = (uint32_t) (h >> t->shift); ; i = (i + 1) & t->mask) {
        p = &t->slots[i];

        if (p->id == 0) {
            return MST_PIECE_NONE;
        }

        if (p->first == s.first && p->last == s.last
            && (p->id ^ s.id) >> 24 == 0)
        {
            return p->id & 0xffffff;
        }
    }
}


/* might a token have just these more than MST_PIECE_MAX bytes? */

static inline int
mst_piece_long(const mst_piece_t *t, const char *data, size_t len)
{
    return mst_sieve_maybe(t->bits, mst_hash_short(0, data, len)
                                    * 0x9e3779b97f4a7c15ull, t->shift);
}


#endif /* MST_PIECE_H */
