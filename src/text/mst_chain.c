
/*
 * Long pieces: see mst_chain.h.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_chain.h"

/* what the steps cost, in bytes of ordinary text */
#define MST_CHAIN_STEP   4
#define MST_CHAIN_COPY   8                     /* bytes copied for one */

/* longer ones' memory is not kept, bytes of a piece */
#define MST_CHAIN_KEEP   (256 * 1024)

#define MST_CHAIN_FIRST  0x80000000u           /* in ids */


static int
mst_chain_room(mst_chain_t *c, size_t len)
{
    if (len <= c->size && c->pairs) {
        return MST_OK;
    }

    mst_chain_fini(c);

    c->ids = mst_realloc(NULL, len, sizeof(uint32_t));
    c->dead = mst_realloc(NULL, len / 64 + 1, sizeof(uint64_t));
    c->pairs = mst_calloc(MST_CHAIN_PAIRS, sizeof(mst_chain_pair_t));

    if (c->ids == NULL || c->dead == NULL || c->pairs == NULL) {
        mst_chain_fini(c);
        return MST_ERROR;
    }

    c->size = (uint32_t) len;

    return MST_OK;
}


int
mst_chain_start(mst_chain_t *c, const mst_bpe_t *b, const char *data,
    size_t len)
{
    if (len >= MST_BPE_NONE || mst_chain_room(c, len) != MST_OK) {
        return MST_ERROR;
    }

    if (c->bpe != b) {
        memset(c->pairs, 0, MST_CHAIN_PAIRS * sizeof(mst_chain_pair_t));
        memset(c->hints, 0, sizeof(c->hints));
    }

    c->bpe = b;
    c->data = (const unsigned char *) data;
    c->len = (uint32_t) len;
    c->pos = 0;
    c->n = 0;
    c->taken = 0;

    c->rest = NULL;
    c->first = 0;

    memset(c->dead, 0, (len / 64 + 1) * sizeof(uint64_t));

    if (!b->drops || b->chars) {
        c->next = mst_trie_longest(&b->trie, c->data, c->len);
        return MST_OK;
    }

    mst_free(c->copy);
    c->copy = mst_alloc(len);

    if (c->copy == NULL) {
        return MST_ERROR;
    }

    c->rest = c->data;
    c->end = c->rest + len;
    c->data = c->copy;
    c->len = 0;

    return MST_OK;
}


/* merging takes place across bytes that have no token: 1 if all are out */

static int
mst_chain_copy(mst_chain_t *c, size_t *budget)
{
    size_t                cost;
    const unsigned char  *p, *stop;

    p = c->rest;
    stop = (size_t) (c->end - p) / MST_CHAIN_COPY > *budget
           ? p + *budget * MST_CHAIN_COPY : c->end;

    for ( /* void */ ; p < stop; p++) {
        if (c->bpe->byte_id[*p] != MST_BPE_NONE) {
            c->copy[c->len++] = *p;
        }
    }

    cost = (size_t) (p - c->rest) / MST_CHAIN_COPY;
    *budget -= cost < *budget ? cost : *budget;
    c->rest = p;

    if (p < c->end) {
        return 0;
    }

    c->rest = NULL;
    c->next = mst_trie_longest(&c->bpe->trie, c->data, c->len);

    return 1;
}


static int
mst_chain_apart(mst_chain_t *c, uint32_t left, uint32_t right, size_t *cost)
{
    uint32_t           i;
    mst_chain_pair_t  *p;

    i = (left * 0x9e3779b1u ^ right * 0x85ebca77u) >> 16;
    p = &c->pairs[i & (MST_CHAIN_PAIRS - 1)];

    if (p->left != left + 1 || p->right != right) {
        p->apart = mst_bpe_apart(c->bpe, left, right, cost);
        p->left = left + 1;
        p->right = right;
    }

    return p->apart;
}


static uint32_t
mst_chain_length(const mst_chain_t *c, uint32_t id)
{
    const uint32_t  *off;

    off = c->bpe->vocab->off;

    return off[id + 1] - off[id];
}


/* what followed the last token last time, if it fits here; or NONE */

static uint32_t
mst_chain_guess(const mst_chain_t *c)
{
    uint32_t                 left, len;
    const mst_chain_hint_t  *h;

    left = c->ids[c->n - 1] & ~MST_CHAIN_FIRST;
    h = &c->hints[left & (MST_CHAIN_HINTS - 1)];

    if (h->left != left + 1) {
        return MST_BPE_NONE;
    }

    len = mst_chain_length(c, h->right);

    return len <= c->len - c->pos
           && memcmp(mst_vocab_token(c->bpe->vocab, h->right).data,
                     c->data + c->pos, len) == 0 ? h->right : MST_BPE_NONE;
}


static uint32_t
mst_chain_longest(const mst_chain_t *c)
{
    return mst_trie_longest(&c->bpe->trie, c->data + c->pos,
                            c->len - c->pos);
}


/* "id" does not lead on: the one after it */

static void
mst_chain_other(mst_chain_t *c, int first, uint32_t id)
{
    c->first = 0;
    c->next = first ? mst_chain_longest(c) : c->bpe->trie.shorter[id];
}


/* a dead end: the token before was the wrong one */

static void
mst_chain_back(mst_chain_t *c)
{
    uint32_t  id;

    c->dead[c->pos / 64] |= 1ull << c->pos % 64;
    id = c->ids[--c->n];
    c->pos -= mst_chain_length(c, id & ~MST_CHAIN_FIRST);
    mst_chain_other(c, (id & MST_CHAIN_FIRST) != 0, id & ~MST_CHAIN_FIRST);
}


static void
mst_chain_step(mst_chain_t *c, size_t *cost)
{
    uint32_t           end, id, left;
    mst_chain_hint_t  *h;

    id = c->next;

    if (id == MST_BPE_NONE) {
        mst_chain_back(c);
        return;
    }

    end = c->pos + mst_chain_length(c, id);
    left = c->n ? c->ids[c->n - 1] & ~MST_CHAIN_FIRST : 0;

    if ((c->dead[end / 64] >> end % 64 & 1)
        || (c->n && !mst_chain_apart(c, left, id, cost)))
    {
        mst_chain_other(c, c->first, id);
        return;
    }

    if (c->n && !c->first) {
        h = &c->hints[left & (MST_CHAIN_HINTS - 1)];
        h->left = left + 1;
        h->right = id;
    }

    c->ids[c->n++] = c->first ? id | MST_CHAIN_FIRST : id;
    c->pos = end;

    if (c->pos < c->len) {
        c->next = mst_chain_guess(c);
        c->first = c->next != MST_BPE_NONE;
        c->next = c->first ? c->next : mst_chain_longest(c);
    }
}


int
mst_chain_run(mst_chain_t *c, size_t *budget)
{
    size_t  cost;

    if (c->rest && !mst_chain_copy(c, budget)) {
        return MST_AGAIN;
    }

    while (c->pos < c->len && *budget) {

        /* the single symbols are a chain if nothing else is: this cannot be */

        if (c->next == MST_BPE_NONE && c->n == 0) {
            return MST_ERROR;
        }

        cost = 0;
        mst_chain_step(c, &cost);
        cost += MST_CHAIN_STEP;
        *budget -= cost < *budget ? cost : *budget;
    }

    return c->pos < c->len ? MST_AGAIN : MST_OK;
}


size_t
mst_chain_take(mst_chain_t *c, uint32_t *ids, size_t max)
{
    size_t  i, n;

    n = c->n - c->taken;
    n = n < max ? n : max;

    for (i = 0; i < n; i++) {
        ids[i] = c->ids[c->taken++] & ~MST_CHAIN_FIRST;
    }

    return n;
}


void
mst_chain_drop(mst_chain_t *c)
{
    if (c->size > MST_CHAIN_KEEP) {
        mst_chain_fini(c);
    }
}


void
mst_chain_fini(mst_chain_t *c)
{
    mst_free(c->ids);
    mst_free(c->dead);
    mst_free(c->copy);
    mst_free(c->pairs);
    memset(c, 0, sizeof(mst_chain_t));
}
