
/*
 * Which symbols merge, and what a token comes from: see mst_bpe_rule.h.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_bpe_rule.h"
#include "text/mst_utf8.h"


/* a symbol of a token that is being merged */
typedef struct {
    uint32_t  id;
    uint32_t  off;             /* of its bytes in the piece */
    uint32_t  rank;            /* of the merge with the next symbol; NONE:
                                  there is none */
    uint32_t  made;            /* by that merge */
} mst_bpe_rule_part_t;


static uint32_t
mst_bpe_rule_hash(uint32_t left, uint32_t right)
{
    uint64_t  h;

    h = ((uint64_t) left << 32 | right) * 0x9e3779b97f4a7c15ull;

    return (uint32_t) (h >> 32) ^ (uint32_t) (h >> 47);
}


/* the merge of a pair, or NULL */

static const mst_bpe_merge_t *
mst_bpe_rule_find(const mst_bpe_rule_t *k, uint32_t left, uint32_t right)
{
    uint32_t                i;
    const mst_bpe_merge_t  *m;

    i = mst_bpe_rule_hash(left, right) & k->mask;

    for ( ;; i = (i + 1) & k->mask) {
        m = &k->slots[i];

        if (m->left == left && m->right == right) {
            return m;
        }

        if (m->left == MST_BPE_NONE) {
            return NULL;
        }
    }
}


/* the pair of p[0] and p[1], whose bytes end at "end" */

static void
mst_bpe_rule_pair(const mst_bpe_rule_t *k, const char *data,
    mst_bpe_rule_part_t *p, size_t end)
{
    int64_t                 id;
    const mst_bpe_t        *b;
    const mst_bpe_merge_t  *m;

    b = k->bpe;
    p->rank = MST_BPE_NONE;

    if (k->slots) {
        m = mst_bpe_rule_find(k, p[0].id, p[1].id);

        if (m) {
            p->rank = m->rank;
            p->made = m->id;
        }

        return;
    }

    if (end - p->off == 2 && b->pairs) {
        id = b->pairs[mst_bpe_two(data + p->off)];
        id = id == MST_BPE_NONE ? -1 : id;

    } else {
        id = mst_vocab_find(b->vocab, 0, data + p->off, end - p->off);
    }

    if (id >= 0) {
        p->rank = k->ranks[id];
        p->made = (uint32_t) id;
    }
}


/* the symbols that a token begins as */

static size_t
mst_bpe_rule_symbols(const mst_bpe_t *b, const char *data, size_t len,
    mst_bpe_rule_part_t *p)
{
    size_t    i, n, size;
    uint32_t  cp;

    for (n = 0, i = 0; i < len; i += size) {

        if (b->chars) {
            size = mst_utf8_decode(data + i, len - i, &cp);
            p[n].id = (uint32_t) mst_vocab_find(b->vocab, 0, data + i, size);

        } else {
            size = 1;
            p[n].id = b->byte_id[(unsigned char) data[i]];
        }

        if (p[n].id != MST_BPE_NONE) {
            p[n++].off = (uint32_t) i;
        }
    }

    return n;
}


int
mst_bpe_rule_make(const mst_bpe_rule_t *k, mst_bpe_made_t *m)
{
    size_t           best, i, n, len;
    uint32_t         rank;
    mst_str_t        s;
    mst_bpe_rule_part_t   p[MST_VOCAB_MAX_TOKEN];

    s = mst_vocab_token(k->bpe->vocab, m->id);
    len = s.len;
    n = mst_bpe_rule_symbols(k->bpe, s.data, len, p);

#define mst_bpe_rule_end(k)  ((k) + 2 < n ? p[(k) + 2].off : len)

    for (i = 0; i + 1 < n; i++) {
        mst_bpe_rule_pair(k, s.data, &p[i], mst_bpe_rule_end(i));
    }

    while (n > 1) {
        best = 0;
        rank = p[0].rank;

        for (i = 1; i + 1 < n; i++) {

            if (p[i].rank < rank) {
                rank = p[i].rank;
                best = i;
            }
        }

        if (rank == MST_BPE_NONE) {
            return 0;
        }

        m->rank = rank;
        m->left = p[best].id;
        m->right = p[best + 1].id;
        p[best].id = p[best].made;

        n--;
        memmove(&p[best + 1], &p[best + 2],
                (n - best - 1) * sizeof(mst_bpe_rule_part_t));

        if (best) {
            mst_bpe_rule_pair(k, s.data, &p[best - 1],
                              mst_bpe_rule_end(best - 1));
        }

        if (best + 1 < n) {
            mst_bpe_rule_pair(k, s.data, &p[best], mst_bpe_rule_end(best));
        }
    }

#undef mst_bpe_rule_end

    return n == 1 && p[0].id == m->id;
}


int
mst_bpe_rule_put(mst_bpe_rule_t *k, const mst_bpe_merge_t *m, uint32_t *other)
{
    uint32_t          i, n;
    mst_bpe_merge_t  *s;

    i = mst_bpe_rule_hash(m->left, m->right) & k->mask;

    for (n = 0; ; n++) {
        s = &k->slots[i];

        if (s->left == MST_BPE_NONE) {
            *s = *m;
            return MST_OK;
        }

        if (s->left == m->left && s->right == m->right) {
            *other = s->rank;
            return MST_DECLINED;
        }

        if (n == MST_VOCAB_MAX_PROBES) {
            return MST_BUSY;
        }

        i = (i + 1) & k->mask;
    }
}


int
mst_bpe_rule_list(mst_bpe_rule_t *k, uint32_t n)
{
    uint32_t  i, size;

    size = mst_vocab_table_size(n);
    k->mask = size - 1;
    k->slots = mst_mem_table(size, sizeof(mst_bpe_merge_t));

    if (k->slots == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < size; i++) {
        k->slots[i].left = MST_BPE_NONE;
    }

    return MST_OK;
}


void
mst_bpe_rule_fini(mst_bpe_rule_t *k)
{
    mst_free(k->slots);
    k->slots = NULL;
}
