
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
mst_trie_insert(mst_trie_t *t, uint32_t node, unsigned char byte,
    uint32_t child)
{
    uint32_t  i, key;

    if (node == 0) {
        t->first[byte] = child;
        return;
    }

    key = node << 8 | byte;

    for (i = mst_trie_hash(key) & t->mask; t->slots[i].key; /* void */ ) {
        i = (i + 1) & t->mask;
    }

    t->slots[i].key = key;
    t->slots[i].child = child;
}


/* the path of one token; returns its last node, 0: too many nodes */

static uint32_t
mst_trie_add(mst_trie_t *t, mst_str_t s)
{
    size_t    i;
    uint32_t  child, node;

    node = 0;

    for (i = 0; i < s.len; i++) {
        child = mst_trie_child(t, node, (unsigned char) s.data[i]);

        if (child == 0) {

            if (t->n_nodes == MST_TRIE_MAX_NODES) {
                return 0;
            }

            child = t->n_nodes++;
            mst_trie_insert(t, node, (unsigned char) s.data[i], child);
        }

        node = child;
    }

    return node;
}


static uint32_t
mst_trie_prefix(const mst_trie_t *t, mst_str_t s)
{
    size_t    i;
    uint32_t  best, node;

    best = MST_TRIE_NONE;
    node = 0;

    for (i = 0; i + 1 < s.len; i++) {
        node = mst_trie_child(t, node, (unsigned char) s.data[i]);
        best = t->token[node] != MST_TRIE_NONE ? t->token[node] : best;
    }

    return best;
}


int
mst_trie_init(mst_trie_t *t, const mst_vocab_t *v, const unsigned char *wanted)
{
    size_t    n;
    uint32_t  i, node;

    memset(t, 0, sizeof(mst_trie_t));

    for (n = 1, i = 0; i < v->n; i++) {
        n += wanted[i] ? mst_vocab_token(v, i).len : 0;
    }

    n = n < MST_TRIE_MAX_NODES ? n : MST_TRIE_MAX_NODES;
    t->mask = mst_vocab_table_size((uint32_t) n) - 1;

    t->slots = mst_calloc((size_t) t->mask + 1, sizeof(mst_trie_slot_t));
    t->token = mst_alloc(n * sizeof(uint32_t));
    t->shorter = mst_alloc((size_t) v->n * sizeof(uint32_t));

    if (t->slots == NULL || t->token == NULL || t->shorter == NULL) {
        return MST_ERROR;
    }

    memset(t->token, 0xff, n * sizeof(uint32_t));
    memset(t->shorter, 0xff, (size_t) v->n * sizeof(uint32_t));
    t->n_nodes = 1;

    for (i = 0; i < v->n; i++) {
        if (wanted[i]) {
            node = mst_trie_add(t, mst_vocab_token(v, i));

            if (node == 0) {
                return MST_ERROR;
            }

            t->token[node] = i;
        }
    }

    for (i = 0; i < v->n; i++) {
        if (wanted[i]) {
            t->shorter[i] = mst_trie_prefix(t, mst_vocab_token(v, i));
        }
    }

    return MST_OK;
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
