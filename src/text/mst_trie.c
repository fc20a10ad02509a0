
/*
 * The longest token at a place: see mst_trie.h.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_trie.h"


static inline uint32_t
mst_trie_hash(uint32_t key)
{
    return (key * 0x9e3779b1u) ^ (key * 0x9e3779b1u) >> 15;
}


static inline uint32_t
mst_trie_child(const mst_trie_t *t, uint32_t node, unsigned char byte)
{
    uint32_t                i, key;
    const mst_trie_slot_t  *s;

    if (node == 0) {
        return t->first[byte];
    }

    key = node << 8 | byte;

    for (i = mst_trie_hash(key) & t->mask; ; i = (i + 1) & t->mask) {
        s = &t->slots[i];

        if (s->key == key) {
            return s->child;
        }

        if (s->key == 0) {
            return 0;
        }
    }
}


static void
mst_trie_insert(mst_trie_t *t, uint32_t key, uint32_t child)
{
    uint32_t  i;

    for (i = mst_trie_hash(key) & t->mask; t->slots[i].key; /* void */ ) {
        i = (i + 1) & t->mask;
    }

    t->slots[i].key = key;
    t->slots[i].child = child;
}


/* room for n nodes in all */

static int
mst_trie_grow(mst_trie_t *t, uint32_t n)
{
    uint32_t          i, mask;
    mst_trie_slot_t  *slots;

    slots = t->slots;
    mask = t->mask;

    t->mask = mst_vocab_table_size(n) - 1;
    t->slots = mst_mem_table((size_t) t->mask + 1, sizeof(mst_trie_slot_t));

    for (i = 0; t->slots && slots && i <= mask; i++) {
        if (slots[i].key) {
            mst_trie_insert(t, slots[i].key, slots[i].child);
        }
    }

    mst_free(slots);

    return t->slots ? MST_OK : MST_ERROR;
}


/* a new child; 0: too many nodes, or no memory */

static uint32_t
mst_trie_node(mst_trie_t *t, uint32_t node, unsigned char byte)
{
    uint32_t  child;

    child = t->n_nodes;

    if (child == MST_TRIE_MAX_NODES
        || (child > t->mask / 2 && mst_trie_grow(t, 2 * child) != MST_OK))
    {
        return 0;
    }

    if (node == 0) {
        t->first[byte] = child;

    } else {
        mst_trie_insert(t, node << 8 | byte, child);
    }

    t->token[child] = MST_TRIE_NONE;
    t->n_nodes++;

    return child;
}


/* the path of one token, of which shorter ones are there; returns its last
   node, 0: see above */

static uint32_t
mst_trie_add(mst_trie_t *t, mst_str_t s, uint32_t *shorter)
{
    size_t    i;
    uint32_t  child, node;

    node = 0;
    *shorter = MST_TRIE_NONE;

    for (i = 0; i < s.len; i++) {

        if (node && t->token[node] != MST_TRIE_NONE) {
            *shorter = t->token[node];
        }

        child = mst_trie_child(t, node, (unsigned char) s.data[i]);

        if (child == 0) {
            child = mst_trie_node(t, node, (unsigned char) s.data[i]);
        }

        if (child == 0) {
            return 0;
        }

        node = child;
    }

    return node;
}


static size_t
mst_trie_length(const mst_vocab_t *v, uint32_t id)
{
    size_t  len;

    len = mst_vocab_token(v, id).len;

    return len < MST_VOCAB_MAX_TOKEN ? len : MST_VOCAB_MAX_TOKEN;
}


/* the wanted tokens, n of them, shorter ones first; *bytes of them all */

static uint32_t *
mst_trie_order(const mst_vocab_t *v, const unsigned char *wanted, uint32_t *n,
    size_t *bytes)
{
    uint32_t  i, *ids, at[MST_VOCAB_MAX_TOKEN + 2];

    memset(at, 0, sizeof(at));
    *bytes = 0;

    for (i = 0; i < v->n; i++) {
        if (wanted[i]) {
            *bytes += mst_vocab_token(v, i).len;
            at[mst_trie_length(v, i) + 1]++;
        }
    }

    for (i = 1; i < MST_VOCAB_MAX_TOKEN + 2; i++) {
        at[i] += at[i - 1];
    }

    *n = at[MST_VOCAB_MAX_TOKEN + 1];
    ids = mst_alloc(((size_t) *n + 1) * sizeof(uint32_t));

    for (i = 0; ids && i < v->n; i++) {
        if (wanted[i]) {
            ids[at[mst_trie_length(v, i)]++] = i;
        }
    }

    return ids;
}


int
mst_trie_init(mst_trie_t *t, const mst_vocab_t *v, const unsigned char *wanted)
{
    int        rc;
    size_t     bytes;
    uint32_t   i, *ids, n, node;

    memset(t, 0, sizeof(mst_trie_t));

    ids = mst_trie_order(v, wanted, &n, &bytes);

    /* each byte may be a node; how many are is not known, and pages that are
       not touched cost nothing */

    bytes = bytes < MST_TRIE_MAX_NODES ? bytes + 1 : MST_TRIE_MAX_NODES;
    t->token = mst_alloc(bytes * sizeof(uint32_t));
    t->shorter = mst_alloc((size_t) v->n * sizeof(uint32_t));
    t->n_nodes = 1;

    rc = ids && t->token && t->shorter ? mst_trie_grow(t, n) : MST_ERROR;

    if (rc == MST_OK) {
        t->token[0] = MST_TRIE_NONE;
        memset(t->shorter, 0xff, (size_t) v->n * sizeof(uint32_t));
    }

    for (i = 0; rc == MST_OK && i < n; i++) {
        node = mst_trie_add(t, mst_vocab_token(v, ids[i]),
                            &t->shorter[ids[i]]);
        t->token[node] = node ? ids[i] : MST_TRIE_NONE;
        rc = node ? MST_OK : MST_ERROR;
    }

    mst_free(ids);

    return rc;
}


void
mst_trie_fini(mst_trie_t *t)
{
    mst_free(t->slots);
    mst_free(t->token);
    mst_free(t->shorter);
    memset(t, 0, sizeof(mst_trie_t));
}


uint32_t
mst_trie_longest(const mst_trie_t *t, const void *data, size_t len)
{
    size_t                i;
    uint32_t              best, node;
    const unsigned char  *p;

    p = data;
    best = MST_TRIE_NONE;
    node = 0;

    for (i = 0; i < len; i++) {
        node = mst_trie_child(t, node, p[i]);

        if (node == 0) {
            break;
        }

        best = t->token[node] != MST_TRIE_NONE ? t->token[node] : best;
    }

    return best;
}
