
/*
 * Which token a pair of tokens makes: one number a pair, so that a look is
 * one line of memory.
 *
 * What counts is how much memory a text touches.  Most pairs that are looked
 * for make nothing: two bits of a hash tell nearly all of those.  Of the
 * others most are among the first merges, which are a table of their own,
 * small enough to stay near.
 *
 * Tokens are numbers below 1 << MST_PAIR_BITS here, in the order of their
 * ranks.  Immutable after it was filled: any thread.
 */

#ifndef MST_PAIR_H
#define MST_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "text/mst_sieve.h"


#define MST_PAIR_BITS   20                     /* of a token */
#define MST_PAIR_NONE   0xffffffffu
#define MST_PAIR_USED   (1ull << 63)
#define MST_PAIR_FIRST  4096                   /* merges that are common */


typedef struct {
    uint64_t  *slots;          /* [1 << (64 - shift)], at most half of them
                                  used: USED, left, right, what they make;
                                  0: free */
    uint64_t  *bits;           /* [slots / 16], their sieve */
    uint32_t   mask;
    int        shift;          /* of a hash to its slot */
} mst_pair_half_t;


typedef struct {
    mst_pair_half_t  first;    /* of what makes a number below FIRST */
    mst_pair_half_t  rest;
    uint32_t         n;
} mst_pair_t;


/* room for n pairs; MST_ERROR: memory.  Leaves t fit for _fini */
int mst_pair_init(mst_pair_t *t, uint32_t n);
void mst_pair_fini(mst_pair_t *t);             /* may be called twice */

/* a pair that is not there yet; MST_BUSY: too many collide */
int mst_pair_put(mst_pair_t *t, uint32_t left, uint32_t right, uint32_t made);


static inline uint64_t
mst_pair_key(uint32_t left, uint32_t right)
{
    return MST_PAIR_USED >> MST_PAIR_BITS | (uint64_t) left << MST_PAIR_BITS
           | right;
}


static inline uint64_t
mst_pair_hash(uint64_t key)
{
    return key * 0x9e3779b97f4a7c15ull;
}


static inline uint32_t
mst_pair_half(const mst_pair_half_t *t, uint64_t key, uint64_t h)
{
    uint32_t  i;
    uint64_t  slot;

    if (!mst_sieve_maybe(t->bits, h, t->shift)) {
        return MST_PAIR_NONE;
    }

    for (i = (uint32_t) (h >> t->shift); ; i = (i + 1) & t->mask) {
        slot = t->slots[i];

        if (slot >> MST_PAIR_BITS == key) {
            return (uint32_t) slot & ((1u << MST_PAIR_BITS) - 1);
        }

        if (slot == 0) {
            return MST_PAIR_NONE;
        }
    }
}


/* what both make, or NONE */

static inline uint32_t
mst_pair_find(const mst_pair_t *t, uint32_t left, uint32_t right)
{
    uint32_t  made;
    uint64_t  h, key;

    key = mst_pair_key(left, right);
    h = mst_pair_hash(key);
    made = mst_pair_half(&t->first, key, h);

    return made != MST_PAIR_NONE ? made : mst_pair_half(&t->rest, key, h);
}


#endif /* MST_PAIR_H */
