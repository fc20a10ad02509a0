
/*
 * Verified tokens: see mst_jwt_cache.h.
 */

#include <string.h>

#include <openssl/crypto.h>

#include "api/mst_jwt_cache.h"
#include "base/mst_hash.h"
#include "base/mst_list.h"
#include "base/mst_mem.h"


#define MST_JWT_CACHE_TAIL  24         /* characters that are hashed */


typedef struct {
    mst_list_t   chain;                /* of its bucket */
    mst_list_t   used;                 /* latest first */
    json_t      *claims;
    uint64_t     hash;
    size_t       len;
    char         token[];              /* [len] */
} mst_jwt_entry_t;


struct mst_jwt_cache_s {
    uint64_t     seed;
    size_t       n;
    size_t       max;                  /* entries */
    size_t       bytes;
    size_t       max_bytes;
    mst_list_t   used;
    size_t       mask;
    mst_list_t   bucket[];             /* [mask + 1] */
};


static uint64_t mst_jwt_cache_hash(const mst_jwt_cache_t *cache,
    mst_str_t token);
static int mst_jwt_cache_same(const char *a, const char *b, size_t n);
static void mst_jwt_cache_drop(mst_jwt_cache_t *cache, mst_jwt_entry_t *e);


mst_jwt_cache_t *
mst_jwt_cache_create(size_t entries, size_t bytes, uint64_t seed)
{
    size_t            i, n;
    mst_jwt_cache_t  *cache;

    for (n = 1; n < entries; n *= 2) { /* void */ }

    cache = mst_calloc(1, sizeof(mst_jwt_cache_t) + n * sizeof(mst_list_t));
    if (cache == NULL) {
        return NULL;
    }

    cache->seed = seed;
    cache->max = entries;
    cache->max_bytes = bytes;
    cache->mask = n - 1;

    mst_list_init(&cache->used);

    for (i = 0; i < n; i++) {
        mst_list_init(&cache->bucket[i]);
    }

    return cache;
}


void
mst_jwt_cache_destroy(mst_jwt_cache_t *cache)
{
    if (cache == NULL) {
        return;
    }

    while (cache->n) {
        mst_jwt_cache_drop(cache, mst_list_data(cache->used.next,
                                                mst_jwt_entry_t, used));
    }

    mst_free(cache);
}


static void
mst_jwt_cache_drop(mst_jwt_cache_t *cache, mst_jwt_entry_t *e)
{
    cache->n--;
    cache->bytes -= e->len;

    mst_list_remove(&e->chain);
    mst_list_remove(&e->used);
    json_decref(e->claims);
    OPENSSL_cleanse(e->token, e->len);
    mst_free(e);
}


json_t *
mst_jwt_cache_find(mst_jwt_cache_t *cache, mst_str_t token)
{
    uint64_t          hash;
    mst_list_t       *p, *bucket;
    mst_jwt_entry_t  *e;

    hash = mst_jwt_cache_hash(cache, token);
    bucket = &cache->bucket[hash & cache->mask];

    for (p = bucket->next; p != bucket; p = p->next) {
        e = mst_list_data(p, mst_jwt_entry_t, chain);

        if (e->hash == hash && e->len == token.len
            && mst_jwt_cache_same(e->token, token.data, token.len))
        {
            mst_list_remove(&e->used);
            mst_list_insert_after(&cache->used, &e->used);

            return e->claims;
        }
    }

    return NULL;
}


/* in a time that tells nothing but n, as CRYPTO_memcmp(), which takes byte by
   byte: a token has about a thousand */

static int
mst_jwt_cache_same(const char *a, const char *b, size_t n)
{
    uint64_t  x, y, differ;

    differ = 0;

    for ( /* void */ ; n >= sizeof(x); n -= sizeof(x)) {
        memcpy(&x, a, sizeof(x));
        memcpy(&y, b, sizeof(y));
        differ |= x ^ y;
        a += sizeof(x);
        b += sizeof(y);
    }

    for ( /* void */ ; n; n--) {
        differ |= (uint64_t) (*a++ ^ *b++) & 0xff;
    }

    return differ == 0;
}


static uint64_t
mst_jwt_cache_hash(const mst_jwt_cache_t *cache, mst_str_t token)
{
    size_t  n;

    n = token.len < MST_JWT_CACHE_TAIL ? token.len : MST_JWT_CACHE_TAIL;

    return mst_hash(cache->seed, token.data + token.len - n, n);
}


void
mst_jwt_cache_add(mst_jwt_cache_t *cache, mst_str_t token, json_t *claims)
{
    mst_jwt_entry_t  *e;

    if (cache->max == 0 || token.len > cache->max_bytes) {
        return;
    }

    e = mst_alloc(sizeof(mst_jwt_entry_t) + token.len);
    if (e == NULL) {
        return;
    }

    while (cache->n == cache->max
           || cache->bytes + token.len > cache->max_bytes)
    {
        mst_jwt_cache_drop(cache, mst_list_data(cache->used.prev,
                                                mst_jwt_entry_t, used));
    }

    e->claims = json_incref(claims);
    e->hash = mst_jwt_cache_hash(cache, token);
    e->len = token.len;
    memcpy(e->token, token.data, token.len);

    mst_list_insert_after(&cache->bucket[e->hash & cache->mask], &e->chain);
    mst_list_insert_after(&cache->used, &e->used);

    cache->n++;
    cache->bytes += token.len;
}


size_t
mst_jwt_cache_count(const mst_jwt_cache_t *cache)
{
    return cache->n;
}
