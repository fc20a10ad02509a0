
/*
 * Tokens that were verified, and their claims: a client sends the same one
 * with each request.  Bounded in number and in bytes; the one that was not
 * asked for longest gives way.  A set of keys has a cache of its own, which
 * ends with it.  Times are not looked at: claims are checked each time.
 *
 * A token is found by a seeded hash of its end, which is random in every
 * signature, and then compared as a whole, in constant time.  One thread.
 */

#ifndef MST_JWT_CACHE_H
#define MST_JWT_CACHE_H

#include <stdint.h>

#include <jansson.h>

#include "base/mst_str.h"


typedef struct mst_jwt_cache_s  mst_jwt_cache_t;


/* bytes: of all tokens; NULL: out of memory */
mst_jwt_cache_t *mst_jwt_cache_create(size_t entries, size_t bytes,
    uint64_t seed);
void mst_jwt_cache_destroy(mst_jwt_cache_t *cache);    /* NULL is fine */

/* borrowed until the next call; NULL: not here */
json_t *mst_jwt_cache_find(mst_jwt_cache_t *cache, mst_str_t token);

/* of a token that is not here; keeps a reference of its own, or, where
   memory is short, does nothing */
void mst_jwt_cache_add(mst_jwt_cache_t *cache, mst_str_t token,
    json_t *claims);

size_t mst_jwt_cache_count(const mst_jwt_cache_t *cache);


#endif /* MST_JWT_CACHE_H */
