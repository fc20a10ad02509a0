
/*
 * Sequences by tag: see mst_tag.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_tag.h"


#define MST_TAG_BUCKETS  64            /* at first */
#define MST_TAG_MAX      (1u << 24)


int
mst_tag_init(mst_tag_map_t *m)
{
    m->n = 0;
    m->mask = MST_TAG_BUCKETS - 1;

    m->buckets = mst_calloc(MST_TAG_BUCKETS, sizeof(mst_seq_t *));

    return m->buckets ? MST_OK : MST_ERROR;
}


void
mst_tag_fini(mst_tag_map_t *m)
{
    mst_free(m->buckets);
    memset(m, 0, sizeof(mst_tag_map_t));
}


static mst_seq_t **
mst_tag_bucket(const mst_tag_map_t *m, uint64_t tag)
{
    return &m->buckets[mst_hash_mix(tag) & m->mask];
}


static void
mst_tag_push(mst_tag_map_t *m, mst_seq_t *q)
{
    mst_seq_t  **bucket;

    bucket = mst_tag_bucket(m, q->tag);

    q->next = *bucket;
    *bucket = q;
}


static void
mst_tag_grow(mst_tag_map_t *m)
{
    uint32_t    i, n;
    mst_seq_t  *q, *next, **old, **buckets;

    n = m->mask + 1;

    buckets = mst_calloc(2 * (size_t) n, sizeof(mst_seq_t *));
    if (buckets == NULL) {
        return;
    }

    old = m->buckets;
    m->buckets = buckets;
    m->mask = 2 * n - 1;

    for (i = 0; i < n; i++) {
        for (q = old[i]; q; q = next) {
            next = q->next;
            mst_tag_push(m, q);
        }
    }

    mst_free(old);
}


void
mst_tag_insert(mst_tag_map_t *m, mst_seq_t *q)
{
    if (m->n++ > m->mask && m->mask < MST_TAG_MAX) {
        mst_tag_grow(m);
    }

    mst_tag_push(m, q);
}


void
mst_tag_remove(mst_tag_map_t *m, mst_seq_t *q)
{
    mst_seq_t  **p;

    for (p = mst_tag_bucket(m, q->tag); *p != q; p = &(*p)->next) {
        /* void */
    }

    *p = q->next;
    m->n--;
}


mst_seq_t *
mst_tag_find(const mst_tag_map_t *m, uint64_t tag)
{
    mst_seq_t  *q;

    for (q = *mst_tag_bucket(m, tag); q; q = q->next) {
        if (q->tag == tag) {
            return q;
        }
    }

    return NULL;
}
