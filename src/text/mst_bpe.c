
/*
 * A vocabulary made ready for merging: see mst_bpe.h.
 *
 * Each token's own bytes are merged by the definition, once: what the last
 * step of that joins is the only pair that can ever become this token, in
 * whatever text, since merges within a token's bytes know nothing of what
 * stands around them.  mst_bpe_merge.c goes by those pairs alone.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_bpe.h"
#include "text/mst_bpe_rule.h"
#include "text/mst_unicode.h"


/* what is needed until all that is known */
typedef struct {
    mst_bpe_t         *bpe;
    mst_bpe_rule_t     rule;
    mst_bpe_made_t    *made;   /* [vocab->n] */
} mst_bpe_build_t;


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
        mst_pair_put(&b->pair, b->number[m->left], b->number[m->right], i);
    }

    return rc == MST_OK ? mst_pair_finish(&b->pair) : rc;
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

        b->whole[i] = v->type[i] == MST_VOCAB_NORMAL
                      && mst_bpe_rule_make(&k->rule, m);
        m->rank = b->whole[i] ? m->rank : MST_BPE_NONE;
    }

    rc = rc == MST_OK ? mst_bpe_number(k) : rc;
    rc = rc == MST_OK ? mst_bpe_fill(k) : rc;
    rc = rc == MST_OK ? mst_bpe_pieces(b) : rc;
    rc = rc == MST_OK && !b->chars ? mst_bpe_pairs(b) : rc;
    rc = rc == MST_OK && !b->chars ? mst_bpe_letters(k) : rc;

    mst_free(k->made);
    mst_bpe_rule_fini(&k->rule);

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


static void
mst_bpe_begin(mst_bpe_build_t *k, mst_bpe_t *b, const mst_vocab_t *v,
    int chars)
{
    memset(b, 0, sizeof(mst_bpe_t));
    memset(k, 0, sizeof(mst_bpe_build_t));

    b->vocab = v;
    b->chars = chars;
    k->bpe = b;
    k->rule.bpe = b;

    mst_bpe_bytes(b);
}


int
mst_bpe_init_merges(mst_bpe_t *b, const mst_vocab_t *v,
    const mst_bpe_merge_t *merges, uint32_t n, int chars,
    mst_bpe_twice_t *twice)
{
    int              rc;
    uint32_t         i;
    mst_bpe_build_t  k;
    mst_bpe_merge_t  m;

    mst_bpe_begin(&k, b, v, chars);

    rc = mst_bpe_rule_list(&k.rule, n);

    for (i = 0; rc == MST_OK && i < n; i++) {
        m = merges[i];
        m.rank = i;
        twice->second = i;
        rc = mst_bpe_rule_put(&k.rule, &m, &twice->first);
    }

    if (rc != MST_OK) {
        mst_bpe_rule_fini(&k.rule);
        return rc;
    }

    return mst_bpe_finish(&k);
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
    k.rule.ranks = ranks;

    if (!chars && mst_bpe_tokens_of_two(b) != MST_OK) {
        return MST_ERROR;
    }

    return mst_bpe_finish(&k) == MST_OK ? MST_OK : MST_ERROR;
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
