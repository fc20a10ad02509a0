
/*
 * Merging side by side: see mst_lane.h.  As in mst_bpe_merge.c the smallest
 * key is the next merge, but a key is half as long: what is made is its rank.
 */

#include <string.h>

#include "text/mst_lane.h"


#define MST_LANE_NEVER  0x7fffffff
#define MST_LANE_PLACE  4                      /* bits */


typedef int32_t  mst_lane_keys_t __attribute__((vector_size(16)));

static const uint8_t  mst_lane_next[MST_LANE_SYMBOLS + 2] = {
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18
};

static const uint8_t  mst_lane_prev[MST_LANE_SYMBOLS + 2] = {
    0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
};


static inline int32_t
mst_lane_key(uint32_t made, size_t place)
{
    uint32_t  none;

    none = -(made >> 31);

    return (int32_t) ((made << MST_LANE_PLACE | (uint32_t) place | none)
                      & MST_LANE_NEVER);
}


/* the merges that a piece begins with */

static void
mst_lane_first(mst_lane_t *l, const mst_bpe_t *b, const char *data, size_t len)
{
    size_t      i;
    mst_pair_t  pair;

    pair = b->pair;

    for (i = 0; i < MST_LANE_SYMBOLS; i++) {
        l->key[i] = MST_LANE_NEVER;
    }

    if (l->n == len) {
        for (i = 1; i < len; i++) {
            l->key[i] = mst_lane_key(b->pairs[mst_bpe_two(data + i - 1)], i);
        }

        return;
    }

    for (i = 1; i < l->n; i++) {
        l->key[i] = mst_lane_key(mst_pair_find(&pair, l->symbol[i],
                                               l->symbol[i + 1]), i);
    }
}


/* a look at nothing */

static const mst_lane_look_t  mst_lane_idle = {
    UINT64_MAX, 0, MST_LANE_SYMBOLS + 1
};


int
mst_lane_start(mst_lane_t *l, const mst_bpe_t *b, const char *data, size_t len)
{
    size_t  n;

    n = mst_bpe_symbols(b, data, len, &l->symbol[1], MST_LANE_SYMBOLS);

    if (n > MST_LANE_SYMBOLS) {
        return 0;
    }

    l->n = (uint32_t) n;
    l->symbol[0] = MST_PAIR_NOBODY;
    l->symbol[n + 1] = MST_PAIR_NOBODY;

    l->look[0] = mst_lane_idle;
    l->look[1] = mst_lane_idle;

    memcpy(l->next, mst_lane_next, sizeof(mst_lane_next));
    memcpy(l->prev, mst_lane_prev, sizeof(mst_lane_prev));

    mst_lane_first(l, b, data, len);

    return 1;
}


static inline mst_lane_keys_t
mst_lane_less(mst_lane_keys_t a, mst_lane_keys_t b)
{
    mst_lane_keys_t  less;

    less = a < b;

    return (a & less) | (b & ~less);
}


/* the smallest of the keys: of the last place none is ever needed */

static inline int32_t
mst_lane_least(const int32_t *key)
{
    int32_t          a, b;
    mst_lane_keys_t  k[4];

    memcpy(k, key, sizeof(k));

    k[0] = mst_lane_less(mst_lane_less(k[0], k[1]),
                         mst_lane_less(k[2], k[3]));
    a = k[0][0] < k[0][1] ? k[0][0] : k[0][1];
    b = k[0][2] < k[0][3] ? k[0][2] : k[0][3];

    return a < b ? a : b;
}


static inline void
mst_lane_ask(mst_lane_look_t *k, const mst_pair_t *pair, uint32_t left,
    uint32_t right, size_t place)
{
    k->key = mst_pair_key(left, right);
    k->slot = mst_pair_slot(pair, k->key);
    k->place = (uint32_t) place;

    __builtin_prefetch(&pair->slots[k->slot]);
}


static inline int32_t
mst_lane_answer(const mst_lane_look_t *k, const mst_pair_t *pair)
{
    return mst_lane_key(mst_pair_made(pair, k->key, k->slot), k->place);
}


/* the next merge of a piece; 0: there is none */

static inline int
mst_lane_step(mst_lane_t *l, const mst_pair_t *pair)
{
    size_t    left, right, after, before;
    int32_t   key, one, other;
    uint32_t  made;

    /* to read all keys right after a part of them is written takes long */

    one = mst_lane_answer(&l->look[0], pair);
    other = mst_lane_answer(&l->look[1], pair);
    key = mst_lane_least(l->key);

    l->key[l->look[0].place] = one;
    l->key[l->look[1].place] = other;
    key = one < key ? one : key;
    key = other < key ? other : key;

    if (key == MST_LANE_NEVER) {
        return 0;
    }

    made = (uint32_t) key >> MST_LANE_PLACE;
    left = (uint32_t) key & ((1u << MST_LANE_PLACE) - 1);
    right = l->next[left];
    after = l->next[right];
    before = l->prev[left];

    l->symbol[left] = made;
    l->next[left] = (uint8_t) after;
    l->prev[after] = (uint8_t) left;

    l->key[before] = MST_LANE_NEVER;
    l->key[left] = MST_LANE_NEVER;
    l->key[right] = MST_LANE_NEVER;

    mst_lane_ask(&l->look[0], pair, made, l->symbol[after], left);
    mst_lane_ask(&l->look[1], pair, l->symbol[before], made, before);

    return 1;
}


void
mst_lane_merge(const mst_bpe_t *b, mst_lane_t **lanes, size_t n)
{
    size_t      i;
    mst_pair_t  pair;

    pair = b->pair;            /* by itself, that it stays in registers */

    while (n) {
        for (i = 0; i < n; /* void */ ) {

            if (mst_lane_step(lanes[i], &pair)) {
                i++;

            } else {
                lanes[i] = lanes[--n];
            }
        }
    }
}


size_t
mst_lane_take(const mst_lane_t *l, const mst_bpe_t *b, uint32_t *ids)
{
    size_t  i, n;

    for (n = 0, i = 1; i <= l->n; i = l->next[i]) {
        ids[n++] = b->id[l->symbol[i]];
    }

    return n;
}
