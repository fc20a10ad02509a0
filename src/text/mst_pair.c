
/*
 * The table of pairs: see mst_pair.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "text/mst_pair.h"
#include "text/mst_vocab.h"


static int
mst_pair_half_init(mst_pair_half_t *t, uint32_t n)
{
    uint32_t  size;

    size = mst_vocab_table_size(n);

    t->mask = size - 1;
    t->shift = 64 - __builtin_ctz(size);
    t->slots = mst_mem_table(size, sizeof(uint64_t));
    t->bits = mst_calloc(size / MST_SIEVE_SLOTS, sizeof(uint64_t));

    return t->slots && t->bits ? MST_OK : MST_ERROR;
}


int
mst_pair_init(mst_pair_t *t, uint32_t n)
{
    uint32_t  first;

    memset(t, 0, sizeof(mst_pair_t));
    first = n < MST_PAIR_FIRST ? n : MST_PAIR_FIRST;

    return mst_pair_half_init(&t->first, first) == MST_OK
           ? mst_pair_half_init(&t->rest, n - first) : MST_ERROR;
}


void
mst_pair_fini(mst_pair_t *t)
{
    mst_free(t->first.slots);
    mst_free(t->first.bits);
    mst_free(t->rest.slots);
    mst_free(t->rest.bits);
    memset(t, 0, sizeof(mst_pair_t));
}


int
mst_pair_put(mst_pair_t *t, uint32_t left, uint32_t right, uint32_t made)
{
    uint32_t          i, n;
    uint64_t          h, key;
    mst_pair_half_t  *half;

    half = made < MST_PAIR_FIRST ? &t->first : &t->rest;
    key = mst_pair_key(left, right);
    h = mst_pair_hash(key);
    i = (uint32_t) (h >> half->shift);

    mst_sieve_add(half->bits, h, half->shift);

    for (n = 0; half->slots[i]; n++) {

        if (n == MST_VOCAB_MAX_PROBES) {
            return MST_BUSY;
        }

        i = (i + 1) & half->mask;
    }

    half->slots[i] = key << MST_PAIR_BITS | made;
    t->n++;

    return MST_OK;
}
