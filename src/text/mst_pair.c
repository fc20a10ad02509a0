
/*
 * The table of pairs: see mst_pair.h.  Buckets of many pairs are placed
 * first, while the table is empty.  Where no turn parts two pairs of a bucket
 * another hash does.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "text/mst_pair.h"
#include "text/mst_vocab.h"


#define MST_PAIR_TURNS   65536
#define MST_PAIR_MOST    64                    /* pairs of a bucket: four are
                                                  usual */
#define MST_PAIR_HASHES  8
#define MST_PAIR_FACTOR  0x9e3779b97f4a7c15ull


/* the pairs, and in the order of their buckets */
typedef struct {
    uint64_t  *pairs;          /* [n] as slots */
    uint64_t  *sorted;         /* [n] */
    uint32_t  *first;          /* [buckets + 1] places in sorted */
    uint32_t   buckets;
} mst_pair_sort_t;


int
mst_pair_init(mst_pair_t *t, uint32_t n)
{
    uint32_t  buckets;

    memset(t, 0, sizeof(mst_pair_t));
    buckets = mst_vocab_table_size(n) / 8;

    t->size = n + n / 6 + 16;
    t->shift = 64 - __builtin_ctz(buckets);
    t->factor = MST_PAIR_FACTOR;
    t->slots = mst_mem_table(t->size, sizeof(uint64_t));
    t->turns = mst_calloc(buckets, sizeof(uint16_t));

    return t->slots && t->turns ? MST_OK : MST_ERROR;
}


void
mst_pair_fini(mst_pair_t *t)
{
    mst_free(t->slots);
    mst_free(t->turns);
    memset(t, 0, sizeof(mst_pair_t));
}


void
mst_pair_put(mst_pair_t *t, uint32_t left, uint32_t right, uint32_t made)
{
    t->slots[t->n++] = mst_pair_key(left, right) << MST_PAIR_BITS | made;
}


static uint64_t
mst_pair_mix(const mst_pair_t *t, uint64_t slot)
{
    return (slot >> MST_PAIR_BITS) * t->factor;
}


/* all of the bucket's pairs with one turn: 1 if they fit, else none is there */

static int
mst_pair_try(mst_pair_t *t, const uint64_t *pairs, uint32_t n, uint32_t turn)
{
    uint32_t  i, k;

    for (i = 0; i < n; i++) {
        k = mst_pair_turn(t, mst_pair_mix(t, pairs[i]), turn);

        if (t->slots[k]) {
            break;
        }

        t->slots[k] = pairs[i];
    }

    if (i == n) {
        return 1;
    }

    while (i--) {
        t->slots[mst_pair_turn(t, mst_pair_mix(t, pairs[i]), turn)] = 0;
    }

    return 0;
}


static int
mst_pair_place(mst_pair_t *t, const uint64_t *pairs, uint32_t n,
    uint16_t *turn)
{
    uint32_t  i;

    for (i = 0; i < MST_PAIR_TURNS; i++) {

        if (mst_pair_try(t, pairs, n, i)) {
            *turn = (uint16_t) i;
            return MST_OK;
        }
    }

    return MST_BUSY;
}


/* returns how many pairs a bucket has at most */

static uint32_t
mst_pair_sort(const mst_pair_t *t, mst_pair_sort_t *s)
{
    uint32_t  b, i, most;

    memset(s->first, 0, ((size_t) s->buckets + 1) * sizeof(uint32_t));

    for (i = 0; i < t->n; i++) {
        s->first[mst_pair_mix(t, s->pairs[i]) >> t->shift]++;
    }

    for (most = 0, b = 0; b <= s->buckets; b++) {
        most = s->first[b] > most ? s->first[b] : most;
        s->first[b] += b ? s->first[b - 1] : 0;
    }

    for (i = t->n; i--; /* void */ ) {
        b = (uint32_t) (mst_pair_mix(t, s->pairs[i]) >> t->shift);
        s->sorted[--s->first[b]] = s->pairs[i];
    }

    return most;
}


/* the buckets with so many pairs */

static int
mst_pair_round(mst_pair_t *t, const mst_pair_sort_t *s, uint32_t n)
{
    uint32_t  b;

    for (b = 0; b < s->buckets; b++) {

        if (s->first[b + 1] - s->first[b] == n
            && mst_pair_place(t, &s->sorted[s->first[b]], n, &t->turns[b])
               != MST_OK)
        {
            return MST_BUSY;
        }
    }

    return MST_OK;
}


/* all with one hash */

static int
mst_pair_fill(mst_pair_t *t, mst_pair_sort_t *s)
{
    int       rc;
    uint32_t  n;

    n = mst_pair_sort(t, s);
    rc = n > MST_PAIR_MOST ? MST_BUSY : MST_OK;
    memset(t->slots, 0, t->size * sizeof(uint64_t));

    for ( /* void */ ; rc == MST_OK && n; n--) {
        rc = mst_pair_round(t, s, n);
    }

    return rc;
}


int
mst_pair_finish(mst_pair_t *t)
{
    int              i, rc;
    mst_pair_sort_t  s;

    s.buckets = 1u << (64 - t->shift);
    s.first = mst_calloc((size_t) s.buckets + 1, sizeof(uint32_t));
    s.pairs = mst_calloc((size_t) t->n + 1, sizeof(uint64_t));
    s.sorted = mst_calloc((size_t) t->n + 1, sizeof(uint64_t));
    rc = s.first && s.pairs && s.sorted ? MST_BUSY : MST_ERROR;

    if (rc == MST_BUSY) {
        memcpy(s.pairs, t->slots, t->n * sizeof(uint64_t));
    }

    for (i = 0; rc == MST_BUSY && i < MST_PAIR_HASHES; i++) {
        rc = mst_pair_fill(t, &s);
        t->factor *= rc == MST_BUSY ? MST_PAIR_FACTOR : 1;
    }

    mst_free(s.first);
    mst_free(s.pairs);
    mst_free(s.sorted);

    return rc;
}
