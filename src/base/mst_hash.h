
/*
 * 64-bit hash of bytes: FNV-1a folded through the finaliser of MurmurHash3
 * (public domain), good enough for tables whose keys are compared.  It is
 * no protection against chosen collisions: whoever hashes a client's bytes
 * bounds its chains or compares and accepts the slow path.
 */

#ifndef MST_HASH_H
#define MST_HASH_H

#include <stddef.h>
#include <stdint.h>

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


#endif /* MST_HASH_H */
