
/*
 * A vocabulary made ready for merging: see mst_bpe.h.
 *
 * Each token's own bytes are merged here by the definition, once: what the
 * last step of that joins is the only pair that can ever become this token,
 * in whatever text, since merges within a token's bytes know nothing of what
 * stands around them.  mst_bpe_merge.c goes by those pairs alone.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_bpe.h"
#include "text/mst_unicode.h"
#include "text/mst_utf8.h"


#define MST_BPE_MERGES     "tokenizer.ggml.merges"
#define MST_BPE_MAX        (4 * MST_VOCAB_MAX_TOKENS)


/* a token and what its own bytes are merged from */
typedef struct {
    uint32_t  id;
    uint32_t  rank;            /* of the last merge; NONE: there is none */
    uint32_t  left;            /* of it, ids */
    uint32_t  right;
} mst_bpe_made_t;


/* what is needed until all that is known */
typedef struct {
    mst_bpe_t         *bpe;
    mst_bpe_merge_t   *slots;  /* [mask + 1], at most half of them used; NULL:
                                  not by a list of merges */
    uint32_t           mask;
    const uint32_t    *ranks;  /* [vocab->n] of tokens, where slots is NULL */
    mst_bpe_made_t    *made;   /* [vocab->n] */
} mst_bpe_build_t;


static uint32_t
mst_bpe_hash(uint32_t left, uint32_t right)
{
    uint64_t  h;

    h = ((uint64_t) left << 32 | right) * 0x9e3779b97f4a7c15ull;

    return (uint32_t) (h >> 32) ^ (uint32_t) (h >> 47);
}


/* the merge of a pair, or NULL */

static const mst_bpe_merge_t *
mst_bpe_find(const mst_bpe_build_t *k, uint32_t left, uint32_t right)
{
    uint32_t                i;
    const mst_bpe_merge_t  *m;

    for (i = mst_bpe_hash(left, right) & k->mask; ; i = (i + 1) & k->mask) {
        m = &k->slots[i];

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


/* the pair of p[0] and p[1], whose bytes end at "end" */

static void
mst_bpe_pair(const mst_bpe_build_t *k, const char *data, mst_bpe_part_t *p,
    size_t end)
{
    int64_t                 id;
    const mst_bpe_t        *b;
    const mst_bpe_merge_t  *m;

    b = k->bpe;
    p->rank = MST_BPE_NONE;

    if (k->slots) {
        m = mst_bpe_find(k, p[0].id, p[1].id);

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


/* merges the bytes of token m->id by the definition; 1 if they give it */

static int
mst_bpe_try(const mst_bpe_build_t *k, mst_bpe_made_t *m)
{
    size_t           best, i, n, len;
    uint32_t         rank;
    mst_str_t        s;
    mst_bpe_part_t   p[MST_VOCAB_MAX_TOKEN];

    s = mst_vocab_token(k->bpe->vocab, m->id);
    len = s.len;
    n = mst_bpe_symbols(k->bpe, s.data, len, p);

#define mst_bpe_end(k)  ((k) + 2 < n ? p[(k) + 2].off : len)

    for (i = 0; i + 1 < n; i++) {
        mst_bpe_pair(k, s.data, &p[i], mst_bpe_end(i));
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
                (n - best - 1) * sizeof(mst_bpe_part_t));

        if (best) {
            mst_bpe_pair(k, s.data, &p[best - 1], mst_bpe_end(best - 1));
        }

        if (best + 1 < n) {
            mst_bpe_pair(k, s.data, &p[best], mst_bpe_end(best));
        }
    }

#undef mst_bpe_end

    return n == 1 && p[0].id == m->id;
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
mst_bpe_insert(mst_bpe_build_t *k, const mst_bpe_merge_t *m, uint32_t *other)
{
    uint32_t          i, n;
    mst_bpe_merge_t  *s;

    i = mst_bpe_hash(m->left, m->right) & k->mask;

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


/* "left right", as the file spells them */

static int
mst_bpe_add(mst_bpe_build_t *k, uint32_t rank, mst_str_t text,
    const mst_gguf_t *g, mst_err_t *err)
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

    left = mst_bpe_side(k->bpe->vocab, rank, l, bytes, &len, g, err);
    right = left < 0 ? -1
            : mst_bpe_side(k->bpe->vocab, rank, r, bytes, &len, g, err);

    if (right < 0) {
        return MST_ERROR;
    }

    id = mst_vocab_find(k->bpe->vocab, 0, bytes, len);

    if (id < 0) {
        return mst_gguf_error(g, err, MST_BPE_MERGES "[%u]: \"%s\" merges to "
                              "no token", rank, mst_gguf_show(q, text));
    }

    m.left = (uint32_t) left;
    m.right = (uint32_t) right;
    m.rank = rank;
    m.id = (uint32_t) id;

    switch (mst_bpe_insert(k, &m, &other)) {

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


static int
mst_bpe_compare(const void *one, const void *two)
{
    const mst_bpe_made_t  *a, *b;

    a = one;
    b = two;

    return a->rank != b->rank ? (a->rank < b->rank ? -1 : 1)
                              : (a->id > b->id) - (a->id < b->id);
}


/* numbers in the order of ranks; made[] is by number then */

static int
mst_bpe_number(mst_bpe_build_t *k)
{
    int             same;
    uint32_t        i, n;
    mst_bpe_t      *b;

    b = k->bpe;
    n = b->vocab->n;
    same = 0;

    qsort(k->made, n, sizeof(mst_bpe_made_t), mst_bpe_compare);

    for (i = 0; i < n; i++) {
        b->id[i] = k->made[i].id;
        b->number[k->made[i].id] = i;
        same |= i && k->made[i].rank != MST_BPE_NONE
                && k->made[i].rank == k->made[i - 1].rank;
    }

    for (i = 0; i < 256; i++) {
        b->byte_number[i] = b->byte_id[i] == MST_BPE_NONE
                            ? MST_BPE_NONE : b->number[b->byte_id[i]];
    }

    if (!same) {
        return MST_OK;
    }

    b->rank = mst_alloc((size_t) n * sizeof(uint32_t));

    if (b->rank == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        b->rank[i] = i && k->made[i].rank == k->made[i - 1].rank
                     ? b->rank[i - 1] : i;
    }

    return MST_OK;
}


static int
mst_bpe_fill(mst_bpe_build_t *k)
{
    int                    rc;
    uint32_t               i, n;
    mst_bpe_t             *b;
    const mst_bpe_made_t  *m;

    b = k->bpe;

    for (n = 0; n < b->vocab->n && k->made[n].rank != MST_BPE_NONE; n++) {
        /* void */
    }

    rc = mst_pair_init(&b->pair, n);

    for (i = 0; rc == MST_OK && i < n; i++) {
        m = &k->made[i];
        rc = mst_pair_put(&b->pair, b->number[m->left], b->number[m->right],
                          i);
    }

    return rc;
}


/* a token of whose merges, within and with it, each ranks where it should */

static int
mst_bpe_orderly(const mst_bpe_build_t *k, uint32_t number,
    const unsigned char *early)
{
    uint32_t               left, right;
    const mst_bpe_t       *b;
    const mst_bpe_made_t  *m;

    b = k->bpe;
    m = &k->made[number];
    left = b->number[m->left];
    right = b->number[m->right];

    return !early[number]
           && (k->made[left].rank == MST_BPE_NONE || left < number)
           && (k->made[right].rank == MST_BPE_NONE || right < number);
}


static int
mst_bpe_letters(mst_bpe_build_t *k)
{
    uint32_t               i, n, rank;
    mst_bpe_t             *b;
    unsigned char         *early;
    const mst_bpe_made_t  *m;

    b = k->bpe;
    n = b->pair.n;
    early = mst_calloc(b->vocab->n, 1);

    if (early == NULL || mst_letter_init(&b->letters) != MST_OK) {
        mst_free(early);
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        m = &k->made[i];
        rank = b->rank ? b->rank[i] : i;

        mst_letter_merge(&b->letters, mst_vocab_token(b->vocab, m->left),
                         mst_vocab_token(b->vocab, m->right), rank);

        early[b->number[m->left]] |= rank <= b->number[m->left];
        early[b->number[m->right]] |= rank <= b->number[m->right];
    }

    for (i = 0; i < n; i++) {
        if (mst_bpe_orderly(k, i, early)) {
            mst_letter_put(&b->letters, mst_vocab_token(b->vocab, b->id[i]),
                           i);
        }
    }

    for (i = 0; i < 256; i++) {
        if (b->byte_id[i] == MST_BPE_NONE) {
            mst_letter_drop(&b->letters, (unsigned char) i);
        }
    }

    mst_free(early);

    return MST_OK;
}


/* all tokens by their bytes */

static int
mst_bpe_pieces(mst_bpe_t *b)
{
    int        rc;
    uint32_t   i;
    mst_str_t  s;

    rc = mst_piece_init(&b->piece, b->vocab->n);

    for (i = 0; rc == MST_OK && i < b->vocab->n; i++) {
        s = mst_vocab_token(b->vocab, i);

        if (b->vocab->type[i] == MST_VOCAB_NORMAL && s.len) {
            rc = mst_piece_put(&b->piece, s.data, s.len,
                               i | (b->whole[i] ? MST_PIECE_WHOLE : 0));
        }
    }

    return rc;
}


/* every piece begins as pairs of two bytes, most of which are no token */

static int
mst_bpe_pairs(mst_bpe_t *b)
{
    uint32_t   i, l, r;

    if (b->pairs == NULL) {
        b->pairs = mst_alloc(65536 * sizeof(uint32_t));
    }

    b->bits = mst_alloc(65536);

    if (b->pairs == NULL || b->bits == NULL) {
        return MST_ERROR;
    }

    mst_unicode_fill(b->bits);

    for (i = 0; i < 65536; i++) {
        l = b->byte_number[i >> 8];
        r = b->byte_number[i & 255];
        b->pairs[i] = l == MST_BPE_NONE || r == MST_BPE_NONE
                      ? MST_BPE_NONE : mst_pair_find(&b->pair, l, r);
    }

    return MST_OK;
}


/*
 * Once all merges are known: which tokens are what their bytes give, and of
 * what they are made.  MST_BUSY: too many pairs collide.
 */

static int
mst_bpe_finish(mst_bpe_build_t *k)
{
    int                 rc;
    uint32_t            i;
    mst_bpe_t          *b;
    mst_bpe_made_t     *m;
    const mst_vocab_t  *v;

    b = k->bpe;
    v = b->vocab;

    k->made = mst_calloc(v->n, sizeof(mst_bpe_made_t));
    b->whole = mst_calloc(v->n, 1);
    b->id = mst_calloc(v->n, sizeof(uint32_t));
    b->number = mst_calloc(v->n, sizeof(uint32_t));

    rc = k->made && b->whole && b->id && b->number ? MST_OK : MST_ERROR;

    for (i = 0; rc == MST_OK && i < v->n; i++) {
        m = &k->made[i];
        m->id = i;
        m->rank = MST_BPE_NONE;

        b->whole[i] = v->type[i] == MST_VOCAB_NORMAL && mst_bpe_try(k, m);
        m->rank = b->whole[i] ? m->rank : MST_BPE_NONE;
    }

    rc = rc == MST_OK ? mst_bpe_number(k) : rc;
    rc = rc == MST_OK ? mst_bpe_fill(k) : rc;
    rc = rc == MST_OK ? mst_bpe_pieces(b) : rc;
    rc = rc == MST_OK && !b->chars ? mst_bpe_pairs(b) : rc;
    rc = rc == MST_OK && !b->chars ? mst_bpe_letters(k) : rc;

    mst_free(k->made);
    mst_free(k->slots);

    return rc == MST_OK ? mst_trie_init(&b->trie, v, b->whole) : rc;
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
mst_bpe_table(mst_bpe_build_t *k, uint32_t n)
{
    uint32_t  i, size;

    size = mst_vocab_table_size(n);
    k->mask = size - 1;
    k->slots = mst_calloc(size, sizeof(mst_bpe_merge_t));

    if (k->slots == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < size; i++) {
        k->slots[i].left = MST_BPE_NONE;
    }

    return MST_OK;
}


static void
mst_bpe_begin(mst_bpe_build_t *k, mst_bpe_t *b, const mst_vocab_t *v,
    int chars)
{
    memset(b, 0, sizeof(mst_bpe_t));
    memset(k, 0, sizeof(mst_bpe_build_t));

    b->vocab = v;
    b->chars = chars;
    k->bpe = b;

    mst_bpe_bytes(b);
}


int
mst_bpe_init_merges(mst_bpe_t *b, const mst_vocab_t *v,
    const mst_bpe_merge_t *merges, uint32_t n, int chars, uint32_t *bad)
{
    uint32_t         i, other;
    mst_bpe_build_t  k;
    mst_bpe_merge_t  m;

    mst_bpe_begin(&k, b, v, chars);
    *bad = MST_BPE_NONE;

    if (mst_bpe_table(&k, n) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        m = merges[i];
        m.rank = i;

        if (mst_bpe_insert(&k, &m, &other) != MST_OK) {
            mst_free(k.slots);
            *bad = i;
            return MST_ERROR;
        }
    }

    return mst_bpe_finish(&k) == MST_OK ? MST_OK : MST_ERROR;
}


/* tokens of two bytes, to number the vocabulary sooner */

static int
mst_bpe_tokens_of_two(mst_bpe_t *b)
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

        if (s.len == 2 && b->vocab->type[i] == MST_VOCAB_NORMAL) {
            b->pairs[mst_bpe_two(s.data)] = i;
        }
    }

    return MST_OK;
}


int
mst_bpe_init_ranks(mst_bpe_t *b, const mst_vocab_t *v, const uint32_t *ranks,
    int chars)
{
    mst_bpe_build_t  k;

    mst_bpe_begin(&k, b, v, chars);
    k.ranks = ranks;

    if (!chars && mst_bpe_tokens_of_two(b) != MST_OK) {
        return MST_ERROR;
    }

    return mst_bpe_finish(&k) == MST_OK ? MST_OK : MST_ERROR;
}


static int
mst_bpe_read(mst_bpe_build_t *k, mst_gguf_array_t *a, const mst_gguf_t *g,
    mst_err_t *err)
{
    uint32_t   i;
    mst_str_t  text;

    if (mst_bpe_table(k, (uint32_t) a->n) != MST_OK) {
        return mst_gguf_error(g, err, "no memory for %u merges",
                              (uint32_t) a->n);
    }

    for (i = 0; mst_gguf_next_string(a, &text) == MST_OK; i++) {

        if (mst_bpe_add(k, i, text, g, err) != MST_OK) {
            mst_free(k->slots);
            return MST_ERROR;
        }
    }

    switch (mst_bpe_finish(k)) {

    case MST_OK:
        return MST_OK;

    case MST_BUSY:
        return mst_gguf_error(g, err, MST_BPE_MERGES ": more than %d pairs "
                              "collide in the table", MST_VOCAB_MAX_PROBES);

    default:
        return mst_gguf_error(g, err, "no memory for %u merges",
                              (uint32_t) a->n);
    }
}


int
mst_bpe_init_gguf(mst_bpe_t *b, const mst_vocab_t *v, const mst_gguf_t *g,
    mst_err_t *err)
{
    mst_bpe_build_t   k;
    mst_gguf_array_t  a;

    mst_bpe_begin(&k, b, v, 0);

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

    return mst_bpe_read(&k, &a, g, err);
}


void
mst_bpe_fini(mst_bpe_t *b)
{
    mst_trie_fini(&b->trie);
    mst_pair_fini(&b->pair);
    mst_letter_fini(&b->letters);
    mst_piece_fini(&b->piece);
    mst_free(b->id);
    mst_free(b->number);
    mst_free(b->rank);
    mst_free(b->pairs);
    mst_free(b->bits);
    mst_free(b->whole);
    memset(b, 0, sizeof(mst_bpe_t));
}
