
/*
 * A batch of pieces: see mst_words.h.
 */

#include "text/mst_words.h"


/* as the number of ids in a memo: they are not known yet, "first" is a word of
   the batch; with 1 it is the id itself */
#define MST_WORDS_LATER  0xffffu


void
mst_words_init(mst_words_t *w, const mst_tokenizer_t *t,
    const mst_memo_t *memo, uint32_t *ids, size_t n)
{
    w->tokenizer = t;
    w->memo = memo->slots && n < UINT32_MAX - MST_WORDS_ROOM ? memo : NULL;
    w->ids = ids;
    w->n_ids = n;
    w->room = MST_WORDS_ROOM;
    w->cost = 0;
    w->n = 0;
    w->n_lanes = 0;
}


int64_t
mst_words_token(const mst_tokenizer_t *t, mst_str_t piece)
{
    int64_t           id;
    uint32_t          found;
    const mst_bpe_t  *b;

    b = &t->bpe;

    if (piece.len <= MST_PIECE_MAX) {
        found = mst_piece_find(&b->piece, piece.data, piece.len);

        return found != MST_PIECE_NONE
               && (found & MST_PIECE_WHOLE || t->whole)
               ? (int64_t) (found & MST_PIECE_ID) : -1;
    }

    if (piece.len > b->vocab->max_token
        || !mst_piece_long(&b->piece, piece.data, piece.len))
    {
        return -1;
    }

    id = mst_vocab_find(b->vocab, 0, piece.data, piece.len);

    return id >= 0 && (b->whole[id] || t->whole) ? id : -1;
}


/* what is found out is kept at once, if only that it will be known later */

static inline void
mst_words_keep(const mst_word_t *word, uint32_t first, size_t n)
{
    mst_memo_slot_t  *slot;

    slot = word->slot;

    if (slot) {
        slot->data = word->piece.data;
        slot->len = (uint16_t) word->piece.len;
        slot->first = first;
        slot->n = (uint16_t) n;
    }
}


/* a word that was met before, is a token, or is to be merged */

static inline void
mst_words_look(mst_words_t *w, mst_word_t *word)
{
    int               found;
    int64_t           id;
    mst_memo_slot_t  *slot;

    word->slot = NULL;

    if (w->memo) {
        slot = mst_memo_slot(w->memo, word->piece, &found);

        if (found) {
            word->kind = slot->n == 1 ? MST_WORDS_TOKEN
                         : slot->n == MST_WORDS_LATER ? MST_WORDS_SAME
                         : MST_WORDS_KNOWN;
            word->first = slot->first;
            word->n = slot->n;
            return;
        }

        word->slot = slot;
    }

    id = mst_words_token(w->tokenizer, word->piece);

    if (id < 0) {
        word->kind = MST_WORDS_MERGE;
        return;
    }

    word->kind = MST_WORDS_TOKEN;
    word->first = (uint32_t) id;
    mst_words_keep(word, word->first, 1);
}


static inline void
mst_words_copy(mst_words_t *w, uint32_t first, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        w->ids[w->n_ids + i] = w->ids[first + i];
    }

    w->n_ids += n;
}


/* what is not known without merging */

static void
mst_words_begin(mst_words_t *w, mst_word_t *word)
{
    mst_lane_t       *lane;
    const mst_bpe_t  *b;

    b = &w->tokenizer->bpe;
    lane = &w->lane[w->n];
    mst_words_keep(word, (uint32_t) w->n, MST_WORDS_LATER);

    if (mst_lane_fit(b)
        && mst_lane_start(lane, b, word->piece.data, word->piece.len))
    {
        word->kind = MST_WORDS_LANE;
        w->lanes[w->n_lanes++] = lane;
    }
}


int
mst_words_add(mst_words_t *w, mst_str_t piece)
{
    mst_word_t  *word;

    word = &w->words[w->n];
    word->piece = piece;
    w->room -= piece.len;
    mst_words_look(w, word);

    if (w->n == 0 && word->kind == MST_WORDS_TOKEN) {
        w->ids[w->n_ids++] = word->first;

    } else if (w->n == 0 && word->kind == MST_WORDS_KNOWN) {
        mst_words_copy(w, word->first, word->n);

    } else {

        if (word->kind == MST_WORDS_MERGE) {
            mst_words_begin(w, word);
        }

        w->n++;
    }

    return w->n < MST_WORDS_MAX && w->room >= MST_BPE_SHORT;
}


/* writes what a word became */

static void
mst_words_put(mst_words_t *w, const mst_word_t *word)
{
    size_t             cost, took;
    uint32_t          *ids;
    const mst_bpe_t   *b;
    const mst_lane_t  *lane;
    const mst_word_t  *from;

    b = &w->tokenizer->bpe;
    ids = w->ids + w->n_ids;

    switch (word->kind) {

    case MST_WORDS_LANE:
        lane = &w->lane[word - w->words];
        took = mst_lane_take(lane, b, ids);
        w->cost += word->piece.len + 4 * (lane->n - took);
        w->n_ids += took;
        break;

    case MST_WORDS_MERGE:
        w->n_ids += mst_bpe_short(b, word->piece.data, word->piece.len, ids,
                                  &cost);
        w->cost += cost;
        break;

    default:
        from = word->kind == MST_WORDS_SAME ? &w->words[word->first] : word;
        mst_words_copy(w, from->first, from->n);
    }
}


size_t
mst_words_finish(mst_words_t *w)
{
    size_t       i, n;
    mst_word_t  *word;

    mst_lane_merge(&w->tokenizer->bpe, w->lanes, w->n_lanes);

    for (i = 0; i < w->n; i++) {
        word = &w->words[i];

        if (word->kind == MST_WORDS_TOKEN) {
            w->ids[w->n_ids++] = word->first;
            continue;
        }

        n = w->n_ids;
        mst_words_put(w, word);
        word->first = (uint32_t) n;
        word->n = (uint32_t) (w->n_ids - n);

        if (word->slot && word->slot->data == word->piece.data) {
            mst_words_keep(word, word->n == 1 ? w->ids[n] : word->first,
                           word->n);
        }
    }

    return w->n_ids;
}
