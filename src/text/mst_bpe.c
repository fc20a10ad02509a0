
/*
 * Merging: see mst_bpe.h.
 */

#include <stdio.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_bpe.h"
#include "text/mst_utf8.h"


#define MST_BPE_MERGES     "tokenizer.ggml.merges"
#define MST_BPE_MAX        (4 * MST_VOCAB_MAX_TOKENS)


static uint32_t
mst_bpe_hash(uint32_t left, uint32_t right)
{
    uint64_t  h;

    h = ((uint64_t) left << 32 | right) * 0x9e3779b97f4a7c15ull;

    return (uint32_t) (h >> 32) ^ (uint32_t) (h >> 47);
}


/* the merge of a pair, or NULL */

static inline const mst_bpe_merge_t *
mst_bpe_find(const mst_bpe_t *b, uint32_t left, uint32_t right)
{
    uint32_t                i;
    const mst_bpe_merge_t  *m;

    for (i = mst_bpe_hash(left, right) & b->mask; ; i = (i + 1) & b->mask) {
        m = &b->slots[i];

        if (m->left == left && m->right == right) {
            return m;
        }

        if (m->left == MST_BPE_NONE) {
            return NULL;
        }
    }
}


typedef struct {
    uint32_t  id;
    uint32_t  off;             /* of its bytes in the piece */
    uint32_t  rank;            /* of the merge with the next symbol; NONE:
                                  there is none */
    uint32_t  made;            /* by that merge */
} mst_bpe_part_t;


static inline size_t
mst_bpe_two(const char *p)
{
    return (size_t) (unsigned char) p[0] << 8 | (unsigned char) p[1];
}


/* the pair of p[0] and p[1], whose bytes end at "end" */

static inline void
mst_bpe_pair(const mst_bpe_t *b, const char *data, mst_bpe_part_t *p,
    size_t end)
{
    int64_t                 id;
    const mst_bpe_merge_t  *m;

    p->rank = MST_BPE_NONE;

    if (b->slots) {
        m = mst_bpe_find(b, p[0].id, p[1].id);

        if (m) {
            p->rank = m->rank;
            p->made = m->id;
        }

        return;
    }

    if (end - p->off > b->vocab->max_token) {
        return;
    }

    if (end - p->off == 2 && b->pairs) {
        id = b->pairs[mst_bpe_two(data + p->off)];
        id = id == MST_BPE_NONE ? -1 : id;

    } else {
        id = mst_vocab_find(b->vocab, 0, data + p->off, end - p->off);
    }

    if (id >= 0) {
        p->rank = b->ranks[id];
        p->made = (uint32_t) id;
    }
}


/* the symbols that a piece begins as */

static size_t
mst_bpe_symbols(const mst_bpe_t *b, const char *data, size_t len,
    mst_bpe_part_t *p)
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


/* p has room for len symbols; returns how many are left */

static size_t
mst_bpe_merge(const mst_bpe_t *b, const char *data, size_t len,
    mst_bpe_part_t *p, size_t *cost)
{
    size_t    best, i, n;
    uint32_t  rank;

    n = mst_bpe_symbols(b, data, len, p);

#define mst_bpe_end(k)  ((k) + 2 < n ? p[(k) + 2].off : len)

    for (i = 0; i + 1 < n; i++) {
        mst_bpe_pair(b, data, &p[i], mst_bpe_end(i));
    }

    *cost = n;

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
            break;
        }

        p[best].id = p[best].made;

        n--;
        memmove(&p[best + 1], &p[best + 2],
                (n - best - 1) * sizeof(mst_bpe_part_t));

        if (best) {
            mst_bpe_pair(b, data, &p[best - 1], mst_bpe_end(best - 1));
        }

        if (best + 1 < n) {
            mst_bpe_pair(b, data, &p[best], mst_bpe_end(best));
        }

        *cost += 2 + n / 8;
    }

#undef mst_bpe_end

    return n;
}


size_t
mst_bpe_short(const mst_bpe_t *b, const char *data, size_t len,
    uint32_t *ids, size_t *cost)
{
    size_t          i, n;
    mst_bpe_part_t  parts[MST_BPE_SHORT];

    n = mst_bpe_merge(b, data, len, parts, cost);

    for (i = 0; i < n; i++) {
        ids[i] = parts[i].id;
    }

    return n;
}


int
mst_bpe_apart(const mst_bpe_t *b, uint32_t left, uint32_t right, size_t *cost)
{
    char            bytes[MST_BPE_PAIR];
    size_t          n;
    mst_str_t       l, r;
    mst_bpe_part_t  parts[MST_BPE_PAIR];

    l = mst_vocab_token(b->vocab, left);
    r = mst_vocab_token(b->vocab, right);

    memcpy(bytes, l.data, l.len);
    memcpy(bytes + l.len, r.data, r.len);

    n = mst_bpe_merge(b, bytes, l.len + r.len, parts, cost);

    return n == 2 && parts[0].id == left && parts[1].id == right;
}


/* the id of one side of a merge, its bytes appended to "bytes" */

static int64_t
mst_bpe_side(const mst_vocab_t *v, uint32_t rank, mst_str_t side,
    char *bytes, size_t *len, const mst_gguf_t *g, mst_err_t *err)
{
    char      q[MST_GGUF_SHOW];
    int64_t   n, id;
    uint32_t  cp;

    if (side.len > MST_VOCAB_MAX_TOKEN) {
        return mst_gguf_error(g, err, MST_BPE_MERGES "[%u]: a side of %zu "
                              "bytes, the limit is %d", rank, side.len,
                              MST_VOCAB_MAX_TOKEN);
    }

    n = mst_vocab_unspell(side, bytes + *len, &cp);
    id = n < 0 ? -1 : mst_vocab_find(v, 0, bytes + *len, (size_t) n);

    if (id < 0) {
        return mst_gguf_error(g, err, MST_BPE_MERGES "[%u]: \"%s\" is not a "
                              "normal token", rank, mst_gguf_show(q, side));
    }

    *len += (size_t) n;

    return id;
}


/* MST_DECLINED: the pair is there, *other is its rank; MST_BUSY: too many
   collide */

static int
mst_bpe_insert(mst_bpe_t *b, const mst_bpe_merge_t *m, uint32_t *other)
{
    uint32_t          i, n;
    mst_bpe_merge_t  *s;

    i = mst_bpe_hash(m->left, m->right) & b->mask;

    for (n = 0; ; n++) {
        s = &b->slots[i];

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

        i = (i + 1) & b->mask;
    }
}


/* "left right", as the file spells them */

static int
mst_bpe_add(mst_bpe_t *b, uint32_t rank, mst_str_t text, const mst_gguf_t *g,
    mst_err_t *err)
{
    char             bytes[2 * MST_VOCAB_MAX_TOKEN];
    char             q[MST_GGUF_SHOW];
    size_t           len;
    int64_t          left, right, id;
    uint32_t         other;
    mst_str_t        l, r;
    const char      *space;
    mst_bpe_merge_t  m;

    space = text.len ? memchr(text.data, ' ', text.len) : NULL;

    if (space == NULL) {
        return mst_gguf_error(g, err, MST_BPE_MERGES "[%u]: \"%s\" is not two "
                              "tokens", rank, mst_gguf_show(q, text));
    }

    l = mst_str(text.data, (size_t) (space - text.data));
    r = mst_str(space + 1, text.len - l.len - 1);
    len = 0;

    left = mst_bpe_side(b->vocab, rank, l, bytes, &len, g, err);
    right = left < 0 ? -1
            : mst_bpe_side(b->vocab, rank, r, bytes, &len, g, err);

    if (right < 0) {
        return MST_ERROR;
    }

    id = mst_vocab_find(b->vocab, 0, bytes, len);

    if (id < 0) {
        return mst_gguf_error(g, err, MST_BPE_MERGES "[%u]: \"%s\" merges to "
                              "no token", rank, mst_gguf_show(q, text));
    }

    m.left = (uint32_t) left;
    m.right = (uint32_t) right;
    m.rank = rank;
    m.id = (uint32_t) id;

    switch (mst_bpe_insert(b, &m, &other)) {

    case MST_DECLINED:
        return mst_gguf_error(g, err, MST_BPE_MERGES "[%u] is the same as "
                              "[%u]", rank, other);

    case MST_BUSY:
        return mst_gguf_error(g, err, MST_BPE_MERGES "[%u]: more than %d "
                              "merges collide in the table", rank,
                              MST_VOCAB_MAX_PROBES);
    }

    return MST_OK;
}


/* once all merges are known: which tokens are their own, and the trie */

static int
mst_bpe_finish(mst_bpe_t *b)
{
    size_t              cost;
    uint32_t            i;
    mst_str_t           s;
    mst_bpe_part_t      parts[MST_VOCAB_MAX_TOKEN];
    const mst_vocab_t  *v;

    v = b->vocab;
    b->whole = mst_calloc(v->n, 1);

    if (b->whole == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < v->n; i++) {
        s = mst_vocab_token(v, i);

        if (v->type[i] == MST_VOCAB_NORMAL) {
            b->whole[i] = mst_bpe_merge(b, s.data, s.len, parts, &cost) == 1
                          && parts[0].id == i;
        }
    }

    return mst_trie_init(&b->trie, v, b->whole);
}


/* byte tokens "<0x0A>", and which characters need no second look */

static void
mst_bpe_fallback(mst_bpe_t *b)
{
    char      c, name[8];
    int64_t   id;
    uint32_t  i;

    for (i = 0; i < 256; i++) {
        (void) snprintf(name, sizeof(name), "<0x%02X>", i);
        id = mst_vocab_find(b->vocab, 1, name, strlen(name));
        b->byte_id[i] = id < 0 || b->vocab->type[id] != MST_VOCAB_BYTE
                        ? MST_BPE_NONE : (uint32_t) id;
        b->drops |= b->byte_id[i] == MST_BPE_NONE;

        c = (char) i;
        b->plain[i] = i < 128 && i != ' ' && i != '['
                      && mst_vocab_find(b->vocab, 0, &c, 1) >= 0;
    }
}


static void
mst_bpe_bytes(mst_bpe_t *b)
{
    char      c;
    int64_t   id;
    uint32_t  i;

    if (b->chars) {
        mst_bpe_fallback(b);
        return;
    }

    for (i = 0; i < 256; i++) {
        c = (char) i;
        id = mst_vocab_find(b->vocab, 0, &c, 1);
        b->byte_id[i] = id < 0 ? MST_BPE_NONE : (uint32_t) id;
        b->drops |= id < 0;
    }
}


static int
mst_bpe_table(mst_bpe_t *b, uint32_t n)
{
    uint32_t  i, size;

    size = mst_vocab_table_size(n);
    b->mask = size - 1;
    b->slots = mst_calloc(size, sizeof(mst_bpe_merge_t));

    if (b->slots == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < size; i++) {
        b->slots[i].left = MST_BPE_NONE;
    }

    return MST_OK;
}


int
mst_bpe_init_merges(mst_bpe_t *b, const mst_vocab_t *v,
    const mst_bpe_merge_t *merges, uint32_t n, int chars, uint32_t *bad)
{
    uint32_t         i, other;
    mst_bpe_merge_t  m;

    memset(b, 0, sizeof(mst_bpe_t));
    b->vocab = v;
    *bad = MST_BPE_NONE;

    if (mst_bpe_table(b, n) != MST_OK) {
        return MST_ERROR;
    }

    b->chars = chars;
    mst_bpe_bytes(b);

    for (i = 0; i < n; i++) {
        m = merges[i];
        m.rank = i;

        if (mst_bpe_insert(b, &m, &other) != MST_OK) {
            *bad = i;
            return MST_ERROR;
        }
    }

    return mst_bpe_finish(b);
}


/* every piece begins as pairs of two bytes, most of which are no token */

static int
mst_bpe_pairs(mst_bpe_t *b)
{
    uint32_t   i;
    mst_str_t  s;

    b->pairs = mst_alloc(65536 * sizeof(uint32_t));

    if (b->pairs == NULL) {
        return MST_ERROR;
    }

    memset(b->pairs, 0xff, 65536 * sizeof(uint32_t));

    for (i = 0; i < b->vocab->n; i++) {
        s = mst_vocab_token(b->vocab, i);

        if (s.len == 2 && b->vocab->type[i] == MST_VOCAB_NORMAL
            && b->pairs[mst_bpe_two(s.data)] == MST_BPE_NONE)
        {
            b->pairs[mst_bpe_two(s.data)] = i;
        }
    }

    return MST_OK;
}


int
mst_bpe_init_ranks(mst_bpe_t *b, const mst_vocab_t *v, const uint32_t *ranks,
    int chars)
{
    memset(b, 0, sizeof(mst_bpe_t));
    b->vocab = v;
    b->chars = chars;
    b->ranks = mst_alloc((size_t) v->n * sizeof(uint32_t));

    if (b->ranks == NULL) {
        return MST_ERROR;
    }

    memcpy(b->ranks, ranks, (size_t) v->n * sizeof(uint32_t));

    mst_bpe_bytes(b);

    if (!chars && mst_bpe_pairs(b) != MST_OK) {
        return MST_ERROR;
    }

    return mst_bpe_finish(b);
}


int
mst_bpe_init_gguf(mst_bpe_t *b, const mst_vocab_t *v, const mst_gguf_t *g,
    mst_err_t *err)
{
    uint32_t          i;
    mst_str_t         text;
    mst_gguf_array_t  a;

    memset(b, 0, sizeof(mst_bpe_t));
    b->vocab = v;

    if (mst_vocab_array(g, MST_BPE_MERGES, &a, err) != MST_OK) {
        return MST_ERROR;
    }

    if (a.type != MST_GGUF_STRING) {
        return mst_gguf_error(g, err, MST_BPE_MERGES " is an array of type "
                              "%d, not of strings", (int) a.type);
    }

    if (a.n > MST_BPE_MAX) {
        return mst_gguf_error(g, err, MST_BPE_MERGES " has %llu elements, the "
                              "limit is %d", (unsigned long long) a.n,
                              MST_BPE_MAX);
    }

    if (mst_bpe_table(b, (uint32_t) a.n) != MST_OK) {
        return mst_gguf_error(g, err, "no memory for %u merges",
                              (uint32_t) a.n);
    }

    mst_bpe_bytes(b);

    for (i = 0; mst_gguf_next_string(&a, &text) == MST_OK; i++) {

        if (mst_bpe_add(b, i, text, g, err) != MST_OK) {
            return MST_ERROR;
        }
    }

    if (mst_bpe_finish(b) != MST_OK) {
        return mst_gguf_error(g, err, "no memory for %u merges",
                              (uint32_t) a.n);
    }

    return MST_OK;
}


void
mst_bpe_fini(mst_bpe_t *b)
{
    mst_trie_fini(&b->trie);
    mst_free(b->slots);
    mst_free(b->ranks);
    mst_free(b->pairs);
    mst_free(b->whole);
    memset(b, 0, sizeof(mst_bpe_t));
}
