
/*
 * The salt of a tenant's part of the prefix cache.
 *
 * A keyed hash (HMAC-SHA-256, cut to the salt's size): whoever does not have
 * the key can neither find two tenants with one salt nor make a name that
 * gets the salt of another, however much of the name is his.  One thread at
 * a time.
 */

#ifndef MST_SALT_H
#define MST_SALT_H

#include <stdint.h>

#include "base/mst_outcome.h"
#include "base/mst_str.h"


#define MST_SALT_KEY_SIZE  32      /* bytes */


typedef struct mst_salt_s  mst_salt_t;


/* with the key in its place a salt takes a microsecond less; NULL: memory */
mst_salt_t *mst_salt_create(const uint8_t *key);
void mst_salt_destroy(mst_salt_t *s);          /* s may be NULL */

/*
 * "tenant" is the host's name for who asks, "client" the request's own
 * cache_salt, which can only divide a tenant further.  Both empty: the common
 * salt, all zero.  MST_OK or MST_ERROR (memory).
 */
int mst_salt_make(mst_salt_t *s, mst_str_t tenant, mst_str_t client,
    uint8_t *salt);


#endif /* MST_SALT_H */
