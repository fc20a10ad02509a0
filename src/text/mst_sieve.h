
/*
 * A filter in front of a hash table: two bits of a word for each key, so that
 * nearly all keys that are not in the table cost one look (a Bloom filter in
 * one word: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom
 * Filters").  A word stands for 16 slots; none is ever taken out.
 *
 * Plain functions over the caller's memory: any thread once it is filled.
 */

#ifndef MST_SIEVE_H
#define MST_SIEVE_H

#include <stddef.h>
#include <stdint.h>


#define MST_SIEVE_SLOTS  16                    /* of the table, to a word */


static inline uint64_t
mst_sieve_mask(uint64_t h)
{
    return 1ull << (h >> 32 & 63) | 1ull << (h >> 38 & 63);
}


/* h >> shift is the hash's slot in the table; words: [slots / 16] */

static inline void
mst_sieve_add(uint64_t *words, uint64_t h, int shift)
{
    words[(h >> shift) / MST_SIEVE_SLOTS] |= mst_sieve_mask(h);
}


/* 0: the key was not added */

static inline int
mst_sieve_maybe(const uint64_t *words, uint64_t h, int shift)
{
    uint64_t  mask;

    mask = mst_sieve_mask(h);

    return (words[(h >> shift) / MST_SIEVE_SLOTS] & mask) == mask;
}


#endif /* MST_SIEVE_H */
