
/*
 * 64-bit hash of bytes: FNV-1a folded through the finaliser of MurmurHash3
 * (public domain), good enough for tables whose keys are compared.  It is
 * no protection against chosen collisions: whoever hashes a client's bytes
 * bounds its chains or compares and accepts the slow path.
 *
 * Keeps nothing: any thread.
 */

#ifndef MST_HASH_H
#define MST_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mst_hd.h"


static inline MST_HD uint64_t
mst_hash_mix(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ull;
    h ^= h >> 33;

    return h;
}


static inline uint64_t
mst_hash(uint64_t seed, const void *data, size_t len)
{
    size_t                i;
    uint64_t              h;
    const unsigned char  *p;

    p = (const unsigned char *) data;
    h = seed ^ 0xcbf29ce484222325ull;

    for (i = 0; i < len; i++) {
        h ^= p[i];
        h *= 0x100000001b3ull;
    }

    return mst_hash_mix(h ^ len);
}


/* one to eight bytes as a number that tells them apart from others of the same
   length: of few the middle ones twice */

static inline uint64_t
mst_hash_tail(const unsigned char *p, size_t len)
{
    uint32_t  low, high;

    if (len < 4) {
        return (uint64_t) p[0] | (uint64_t) p[len / 2] << 8
               | (uint64_t) p[len - 1] << 16;
    }

    memcpy(&low, p, sizeof(uint32_t));
    memcpy(&high, p + len - sizeof(uint32_t), sizeof(uint32_t));

    return (uint64_t) high << 32 | low;
}


/* the same for short strings of at least one byte, several times as fast; the
   bits differ from machine to machine */

static inline uint64_t
mst_hash_short(uint64_t seed, const void *data, size_t len)
{
    size_t                i;
    uint64_t              h, w;
    const unsigned char  *p;

    p = (const unsigned char *) data;
    h = (seed + len) * 0x9e3779b97f4a7c15ull;

    for (i = 0; i + 8 < len; i += 8) {
        memcpy(&w, p + i, sizeof(uint64_t));
        h = (h ^ w) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }

    h = (h ^ mst_hash_tail(p + i, len - i)) * 0xc4ceb9fe1a85ec53ull;

    return h ^ h >> 29;
}


#endif /* MST_HASH_H */
