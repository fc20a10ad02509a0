
/*
 * Merging: see mst_bpe.h.
 *
 * A rank names one pair of ids, and the symbol at one place only ever grows;
 * so a heap entry is stale exactly if the symbol's present rank is another,
 * and nothing is ever entered twice.  Every merge takes one entry out and
 * puts at most two in: 2 * len entries are enough.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_bpe.h"


#define MST_BPE_MERGES     "tokenizer.ggml.merges"
#define MST_BPE_MAX        (4 * MST_VOCAB_MAX_TOKENS)

/* what the steps cost, in bytes of ordinary text */
#define MST_BPE_LOAD_COST  2
#define MST_BPE_POP_COST   10

/* more memory than this, in bytes, is given back after a piece, so much at a
   time: 16 MiB take a system a millisecond */
#define MST_BPE_DROP       (1024 * 1024)
#define MST_BPE_DROP_COST  1024


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


static inline uint32_t
mst_bpe_rank(const mst_bpe_t *b, uint32_t left, uint32_t right)
{
    const mst_bpe_merge_t  *m;

    m = mst_bpe_find(b, left, right);

    return m ? m->rank : MST_BPE_NONE;
}


size_t
mst_bpe_short(const mst_bpe_t *b, const char *data, size_t len,
    uint32_t *ids, size_t *cost)
{
    size_t                  i, n, best;
    uint32_t                id, rank, ranks[MST_BPE_SHORT];
    const mst_bpe_merge_t  *m;

    n = 0;

    for (i = 0; i < len; i++) {
        id = b->byte_id[(unsigned char) data[i]];

        if (id != MST_BPE_NONE) {
            ids[n++] = id;
        }
    }

    for (i = 0; i + 1 < n; i++) {
        ranks[i] = mst_bpe_rank(b, ids[i], ids[i + 1]);
    }

    *cost = n;

    while (n > 1) {
        best = 0;
        rank = ranks[0];

        for (i = 1; i + 1 < n; i++) {

            if (ranks[i] < rank) {
                rank = ranks[i];
                best = i;
            }
        }

        if (rank == MST_BPE_NONE) {
            break;
        }

        m = mst_bpe_find(b, ids[best], ids[best + 1]);
        ids[best] = m->id;

        n--;
        memmove(&ids[best + 1], &ids[best + 2],
                (n - best - 1) * sizeof(uint32_t));
        memmove(&ranks[best], &ranks[best + 1],
                (n - best - 1) * sizeof(uint32_t));

        if (best) {
            ranks[best - 1] = mst_bpe_rank(b, ids[best - 1], ids[best]);
        }

        if (best + 1 < n) {
            ranks[best] = mst_bpe_rank(b, ids[best], ids[best + 1]);
        }

        *cost += 2 + n / 8;
    }

    return n;
}


/* four children a node: half the levels of two, each within a cache line */

static void
mst_bpe_push(mst_bpe_long_t *w, uint64_t key)
{
    size_t  i, up;

    for (i = w->n_heap++; i; i = up) {
        up = (i - 1) / 4;

        if (w->heap[up] <= key) {
            break;
        }

        w->heap[i] = w->heap[up];
    }

    w->heap[i] = key;
}


static uint64_t
mst_bpe_pop(mst_bpe_long_t *w)
{
    size_t     i, k, least, end;
    uint64_t   top, key;
    uint64_t  *heap;

    heap = w->heap;
    top = heap[0];
    key = heap[--w->n_heap];

    for (i = 0; (k = 4 * i + 1) < w->n_heap; i = least) {
        end = w->n_heap - k < 4 ? w->n_heap : k + 4;

        for (least = k++; k < end; k++) {
            least = heap[k] < heap[least] ? k : least;
        }

        if (key <= heap[least]) {
            break;
        }

        heap[i] = heap[least];
    }

    heap[i] = key;

    return top;
}


/* sets the rank of symbol i with its neighbour, and enters it */

static void
mst_bpe_enter(mst_bpe_long_t *w, uint32_t i)
{
    mst_bpe_symbol_t  *s;

    s = &w->symbols[i];

    s->rank = s->next == MST_BPE_NONE ? MST_BPE_NONE
              : mst_bpe_rank(w->bpe, s->id, w->symbols[s->next].id);

    if (s->rank != MST_BPE_NONE) {
        mst_bpe_push(w, (uint64_t) s->rank << 32 | i);
    }
}


int
mst_bpe_long_start(mst_bpe_long_t *w, const mst_bpe_t *b, const char *data,
    size_t len)
{
    if (len >= MST_BPE_NONE) {
        return MST_ERROR;
    }

    if (len > w->size) {
        mst_bpe_long_fini(w);

        w->symbols = mst_realloc(NULL, len, sizeof(mst_bpe_symbol_t));
        w->heap = mst_realloc(NULL, len, 2 * sizeof(uint64_t));

        if (w->symbols == NULL || w->heap == NULL) {
            mst_bpe_long_fini(w);
            return MST_ERROR;
        }

        w->size = (uint32_t) len;
    }

    w->bpe = b;
    w->data = (const unsigned char *) data;
    w->len = (uint32_t) len;
    w->pos = 0;
    w->n = 0;
    w->taken = 0;
    w->n_heap = 0;
    w->dropped = 0;

    return MST_OK;
}


/* the next byte of the piece becomes a symbol, paired with the one before */

static void
mst_bpe_load(mst_bpe_long_t *w)
{
    uint32_t           id;
    mst_bpe_symbol_t  *s;

    id = w->bpe->byte_id[w->data[w->pos++]];

    if (id == MST_BPE_NONE) {
        return;
    }

    s = &w->symbols[w->n];
    s->id = id;
    s->next = MST_BPE_NONE;
    s->rank = MST_BPE_NONE;
    s->prev = MST_BPE_NONE;

    if (w->n) {
        s->prev = w->n - 1;
        w->symbols[w->n - 1].next = w->n;
        mst_bpe_enter(w, w->n - 1);
    }

    w->n++;
}


static void
mst_bpe_merge(mst_bpe_long_t *w, uint64_t entry)
{
    uint32_t           i, k;
    mst_bpe_symbol_t  *s, *gone;

    i = (uint32_t) entry;
    s = &w->symbols[i];

    if (s->rank != (uint32_t) (entry >> 32)) {
        return;
    }

    k = s->next;
    gone = &w->symbols[k];

    s->id = mst_bpe_find(w->bpe, s->id, gone->id)->id;
    s->next = gone->next;
    gone->rank = MST_BPE_NONE;

    if (s->next != MST_BPE_NONE) {
        w->symbols[s->next].prev = i;
    }

    mst_bpe_enter(w, i);

    if (s->prev != MST_BPE_NONE) {
        mst_bpe_enter(w, s->prev);
    }
}


static void
mst_bpe_spend(size_t *budget, size_t cost)
{
    *budget -= cost < *budget ? cost : *budget;
}


int
mst_bpe_long_run(mst_bpe_long_t *w, size_t *budget)
{
    while (w->pos < w->len && *budget) {
        mst_bpe_load(w);
        mst_bpe_spend(budget, MST_BPE_LOAD_COST);
    }

    while (w->n_heap && *budget) {
        mst_bpe_merge(w, mst_bpe_pop(w));
        mst_bpe_spend(budget, MST_BPE_POP_COST);
    }

    return w->pos < w->len || w->n_heap ? MST_AGAIN : MST_OK;
}


size_t
mst_bpe_long_take(mst_bpe_long_t *w, uint32_t *ids, size_t max)
{
    size_t    n;
    uint32_t  i;

    i = w->n ? w->taken : MST_BPE_NONE;

    for (n = 0; n < max && i != MST_BPE_NONE; n++) {
        ids[n] = w->symbols[i].id;
        i = w->symbols[i].next;
    }

    w->taken = i;

    return n;
}


int
mst_bpe_long_drop(mst_bpe_long_t *w, size_t *budget)
{
    size_t  size, n;

    /* a symbol, and two entries of the heap */

    size = (size_t) w->size * sizeof(mst_bpe_symbol_t);

    if (size <= MST_BPE_DROP) {
        return MST_OK;
    }

    while (w->dropped < size) {

        if (*budget == 0) {
            return MST_AGAIN;
        }

        n = size - w->dropped < MST_BPE_DROP ? size - w->dropped
                                             : MST_BPE_DROP;

        mst_mem_discard((char *) w->symbols + w->dropped, n);
        mst_mem_discard((char *) w->heap + w->dropped, n);

        w->dropped += n;
        mst_bpe_spend(budget, MST_BPE_DROP_COST);
    }

    mst_bpe_long_fini(w);

    return MST_OK;
}


void
mst_bpe_long_fini(mst_bpe_long_t *w)
{
    mst_free(w->symbols);
    mst_free(w->heap);
    memset(w, 0, sizeof(mst_bpe_long_t));
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


static int
mst_bpe_insert(mst_bpe_t *b, const mst_bpe_merge_t *m, const mst_gguf_t *g,
    mst_err_t *err)
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
            return mst_gguf_error(g, err, MST_BPE_MERGES "[%u] is the same as "
                                  "[%u]", m->rank, s->rank);
        }

        if (n == MST_VOCAB_MAX_PROBES) {
            return mst_gguf_error(g, err, MST_BPE_MERGES "[%u]: more than %d "
                                  "merges collide in the table", m->rank,
                                  MST_VOCAB_MAX_PROBES);
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

    return mst_bpe_insert(b, &m, g, err);
}


static void
mst_bpe_find_whole(mst_bpe_t *b)
{
    size_t              cost;
    uint32_t            i, ids[MST_BPE_SHORT];
    mst_str_t           s;
    const mst_vocab_t  *v;

    v = b->vocab;

    for (i = 0; i < v->n; i++) {
        s = mst_vocab_token(v, i);

        if (v->type[i] == MST_VOCAB_NORMAL && s.len <= MST_BPE_SHORT) {
            b->whole[i] = mst_bpe_short(b, s.data, s.len, ids, &cost) == 1
                          && ids[0] == i;
        }
    }
}


static int
mst_bpe_alloc(mst_bpe_t *b, const mst_gguf_array_t *a, const mst_gguf_t *g,
    mst_err_t *err)
{
    uint32_t  i, size;

    size = mst_vocab_table_size((uint32_t) a->n);
    b->mask = size - 1;

    b->whole = mst_calloc(b->vocab->n, 1);
    b->slots = mst_calloc(size, sizeof(mst_bpe_merge_t));

    if (b->whole == NULL || b->slots == NULL) {
        return mst_gguf_error(g, err, "no memory for %u merges",
                              (uint32_t) a->n);
    }

    for (i = 0; i < size; i++) {
        b->slots[i].left = MST_BPE_NONE;
    }

    return MST_OK;
}


int
mst_bpe_init_gguf(mst_bpe_t *b, const mst_vocab_t *v, const mst_gguf_t *g,
    mst_err_t *err)
{
    char              c;
    int64_t           id;
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

    if (mst_bpe_alloc(b, &a, g, err) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < 256; i++) {
        c = (char) i;
        id = mst_vocab_find(v, 0, &c, 1);
        b->byte_id[i] = id < 0 ? MST_BPE_NONE : (uint32_t) id;
    }

    for (i = 0; mst_gguf_next_string(&a, &text) == MST_OK; i++) {

        if (mst_bpe_add(b, i, text, g, err) != MST_OK) {
            return MST_ERROR;
        }
    }

    mst_bpe_find_whole(b);

    return MST_OK;
}


void
mst_bpe_fini(mst_bpe_t *b)
{
    mst_free(b->slots);
    mst_free(b->whole);
    memset(b, 0, sizeof(mst_bpe_t));
}
