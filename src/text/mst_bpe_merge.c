
/*
 * Merging the bytes of a piece: see mst_bpe.h.
 *
 * A merge is one number: rank, place and what it makes, in this order of
 * weight, so that the smallest is the next one to do.  Symbols stay where
 * they are; those swallowed by one before them are skipped.  A piece is
 * short, and looking at all its places costs less than a heap would.
 */

#include <string.h>

#include "text/mst_bpe.h"
#include "text/mst_utf8.h"


#define MST_BPE_RANK   32
#define MST_BPE_PLACE  MST_PAIR_BITS
#define MST_BPE_NEVER  UINT64_MAX

#define mst_bpe_place(key)                                                    \
    ((size_t) ((key) >> MST_BPE_PLACE) & ((1u << (MST_BPE_RANK                \
                                                  - MST_BPE_PLACE)) - 1))
#define mst_bpe_makes(key)  ((uint32_t) (key) & ((1u << MST_BPE_PLACE) - 1))


typedef struct {
    uint64_t  *key;            /* of the merge with the next symbol */
    uint32_t  *symbol;         /* its number */
    uint16_t  *next;           /* place of the next symbol */
    uint16_t  *prev;
} mst_bpe_row_t;


static inline uint64_t
mst_bpe_key(const mst_bpe_t *b, uint32_t made, size_t place)
{
    uint32_t  rank;

    if (made == MST_BPE_NONE) {
        return MST_BPE_NEVER;
    }

    rank = b->rank ? b->rank[made] : made;

    return (uint64_t) rank << MST_BPE_RANK | place << MST_BPE_PLACE | made;
}


/* symbols of code points: each has a token */

static size_t
mst_bpe_row_chars(const mst_bpe_t *b, const char *data, size_t len,
    uint32_t *symbol)
{
    size_t    i, n, size;
    int64_t   id;
    uint32_t  cp;

    for (n = 0, i = 0; i < len; i += size) {
        size = mst_utf8_decode(data + i, len - i, &cp);
        id = mst_vocab_find(b->vocab, 0, data + i, size);

        if (id >= 0) {
            symbol[n++] = b->number[id];
        }
    }

    return n;
}


size_t
mst_bpe_symbols(const mst_bpe_t *b, const char *data, size_t len,
    uint32_t *symbol, size_t max)
{
    size_t                i, n, size;
    const unsigned char  *p;

    p = (const unsigned char *) data;

    for (n = 0, i = 0; i < len && n <= max; i += size) {

        size = p[i] < 0x80 ? 0
               : mst_letter_at(&b->letters, p, i, len, &symbol[n]);

        if (size) {
            n++;
            continue;
        }

        size = 1;
        symbol[n] = b->byte_number[p[i]];
        n += symbol[n] != MST_BPE_NONE;
    }

    return n;
}


/* the symbols that a piece begins as, and their merges */

static size_t
mst_bpe_row(const mst_bpe_t *b, const char *data, size_t len,
    const mst_bpe_row_t *r)
{
    size_t    i, n;
    uint32_t  made;

    n = b->chars ? mst_bpe_row_chars(b, data, len, r->symbol)
                 : mst_bpe_symbols(b, data, len, r->symbol, len);

    for (i = 0; i + 1 < n; i++) {
        made = n == len && b->pairs
               ? b->pairs[mst_bpe_two(data + i)]
               : mst_pair_find(&b->pair, r->symbol[i], r->symbol[i + 1]);

        r->key[i] = mst_bpe_key(b, made, i);
    }

    return n;
}


static inline uint64_t
mst_bpe_least(const uint64_t *key, size_t n)
{
    size_t    i;
    uint64_t  a, b;

    a = MST_BPE_NEVER;
    b = MST_BPE_NEVER;

    for (i = 0; i + 1 < n; i += 2) {
        a = key[i] < a ? key[i] : a;
        b = key[i + 1] < b ? key[i + 1] : b;
    }

    if (i < n) {
        a = key[i] < a ? key[i] : a;
    }

    return a < b ? a : b;
}


/* r has room for len symbols; returns how many are left, in their order */

static size_t
mst_bpe_merge(const mst_bpe_t *b, const char *data, size_t len,
    const mst_bpe_row_t *r, size_t *cost)
{
    size_t    i, left, n, right;
    uint64_t  key;

    n = mst_bpe_row(b, data, len, r);
    *cost = len;

    if (n < 2) {
        return n;
    }

    for (i = 0; i < n; i++) {
        r->next[i] = (uint16_t) (i + 1);
        r->prev[i] = (uint16_t) (i - 1);
    }

    for ( ;; ) {
        key = mst_bpe_least(r->key, n - 1);

        if (key == MST_BPE_NEVER) {
            break;
        }

        *cost += 2 + n / 8;

        left = mst_bpe_place(key);
        right = r->next[left];
        i = r->next[right];

        r->symbol[left] = mst_bpe_makes(key);
        r->next[left] = (uint16_t) i;
        r->key[left] = MST_BPE_NEVER;

        if (right < n - 1) {
            r->key[right] = MST_BPE_NEVER;
        }

        if (i < n) {
            r->prev[i] = (uint16_t) left;
            r->key[left] = mst_bpe_key(b, mst_pair_find(&b->pair,
                                                        r->symbol[left],
                                                        r->symbol[i]), left);
        }

        if (left) {
            i = r->prev[left];
            r->key[i] = mst_bpe_key(b, mst_pair_find(&b->pair, r->symbol[i],
                                                     r->symbol[left]), i);
        }
    }

    for (left = 0, i = 0; i < n; i = r->next[i]) {
        r->symbol[left++] = r->symbol[i];
    }

    return left;
}


size_t
mst_bpe_short(const mst_bpe_t *b, const char *data, size_t len,
    uint32_t *ids, size_t *cost)
{
    size_t         i, n;
    uint16_t       next[MST_BPE_SHORT], prev[MST_BPE_SHORT];
    uint32_t       symbol[MST_BPE_SHORT + 1];
    uint64_t       key[MST_BPE_SHORT];
    mst_bpe_row_t  r;

    r.key = key;
    r.symbol = symbol;
    r.next = next;
    r.prev = prev;

    n = mst_bpe_merge(b, data, len, &r, cost);

    for (i = 0; i < n; i++) {
        ids[i] = b->id[symbol[i]];
    }

    return n;
}


int
mst_bpe_apart(const mst_bpe_t *b, uint32_t left, uint32_t right, size_t *cost)
{
    char           bytes[MST_BPE_PAIR];
    size_t         n;
    uint16_t       next[MST_BPE_PAIR], prev[MST_BPE_PAIR];
    uint32_t       symbol[MST_BPE_PAIR + 1];
    uint64_t       key[MST_BPE_PAIR];
    mst_str_t      l, r;
    mst_bpe_row_t  row;

    l = mst_vocab_token(b->vocab, left);
    r = mst_vocab_token(b->vocab, right);

    memcpy(bytes, l.data, l.len);
    memcpy(bytes + l.len, r.data, r.len);

    row.key = key;
    row.symbol = symbol;
    row.next = next;
    row.prev = prev;

    n = mst_bpe_merge(b, bytes, l.len + r.len, &row, cost);

    return n == 2 && b->id[symbol[0]] == left && b->id[symbol[1]] == right;
}
