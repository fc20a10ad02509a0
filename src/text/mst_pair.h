
/*
 * Which token a pair of tokens makes: one number a pair, at a place of its own
 * that its bucket's turn of the hash leads to (hash and displace: Belazzougui,
 * Botelho, Dietzfelbinger, "Hash, displace, and compress").  So a look has no
 * branch: which pairs make something cannot be foreseen.  And the table is
 * nearly full, since how much memory a text touches counts as well.
 *
 * Tokens are numbers below 1 << MST_PAIR_BITS here, in the order of their
 * ranks.  Immutable after _finish: any thread.
 */

#ifndef MST_PAIR_H
#define MST_PAIR_H

#include <stddef.h>
#include <stdint.h>


#define MST_PAIR_BITS    20                    /* of a token */
#define MST_PAIR_NONE    0xffffffffu
#define MST_PAIR_NOBODY  (1u << MST_PAIR_BITS) /* a token that there is not */
#define MST_PAIR_USED    (1ull << 63)


typedef struct {
    uint64_t  *slots;          /* [size] USED, left, right, what they make; 0:
                                  free.  Before _finish: the pairs */
    uint16_t  *turns;          /* [1 << (64 - shift)] of a bucket */
    uint64_t   factor;         /* of the hash */
    uint32_t   n;
    uint32_t   size;
    int        shift;          /* of a hash to its bucket */
} mst_pair_t;


/* room for n pairs; MST_ERROR: memory.  Leaves t fit for _fini */
int mst_pair_init(mst_pair_t *t, uint32_t n);
void mst_pair_fini(mst_pair_t *t);             /* may be called twice */

/* no pair twice, and none after _finish */
void mst_pair_put(mst_pair_t *t, uint32_t left, uint32_t right,
    uint32_t made);

/* before any look; MST_ERROR: memory; MST_BUSY: too many collide */
int mst_pair_finish(mst_pair_t *t);


static inline uint64_t
mst_pair_key(uint32_t left, uint32_t right)
{
    return MST_PAIR_USED >> MST_PAIR_BITS
           | (uint64_t) left << (MST_PAIR_BITS + 1) | right;
}


static inline uint32_t
mst_pair_turn(const mst_pair_t *t, uint64_t h, uint32_t turn)
{
    uint32_t  turned;

    turned = (uint32_t) (h >> 16) * (2 * turn + 1);

    return (uint32_t) ((uint64_t) turned * t->size >> 32);
}


/* the slot of a pair, if it has one */

static inline uint32_t
mst_pair_slot(const mst_pair_t *t, uint64_t key)
{
    uint64_t  h;

    h = key * t->factor;

    return mst_pair_turn(t, h, t->turns[h >> t->shift]);
}


/* what the pair of that slot makes, or NONE */

static inline uint32_t
mst_pair_made(const mst_pair_t *t, uint64_t key, uint32_t slot)
{
    uint64_t  s;

    s = t->slots[slot];

    return ((uint32_t) s & ((1u << MST_PAIR_BITS) - 1))
           | -(uint32_t) (s >> MST_PAIR_BITS != key);
}


/* what both make, or NONE; both may be NOBODY, which makes nothing */

static inline uint32_t
mst_pair_find(const mst_pair_t *t, uint32_t left, uint32_t right)
{
    uint64_t  key;

    key = mst_pair_key(left, right);

    return mst_pair_made(t, key, mst_pair_slot(t, key));
}


#endif /* MST_PAIR_H */
