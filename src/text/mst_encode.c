
/*
 * The encoder: a prompt's spans to token ids, in slices; see
 * mst_tokenizer.h.
 *
 * It is always in one of three places: between spans, between pieces of a
 * text span, or inside a long piece.  Ids of control spans are taken as
 * they are: whoever lets a client name ids checks them.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_encode.h"
#include "text/mst_memo.h"
#include "text/mst_split.h"
#include "text/mst_words.h"


#define MST_ENCODE_MOVES  65536                /* ids */
#define MST_ENCODE_ASK    MST_WORDS_ROOM       /* the same, at once */


struct mst_encode_s {
    const mst_tokenizer_t  *tokenizer;
    const mst_prompt_t     *prompt;
    size_t                  span;      /* that comes next, or is begun */
    size_t                  byte;      /* of it, bytes done (null model) */
    size_t                  first;     /* of its ids */
    int                     in_text;   /* "split" stands in span */
    int                     in_long;   /* "piece" stands in a piece */
    mst_split_t             split;
    mst_spm_split_t         spm;
    mst_chain_t             piece;
    mst_memo_t              memo;      /* of the prompt's pieces */
    uint32_t               *ids;       /* owned */
    size_t                  n;
    size_t                  size;      /* ids allocated */
};


mst_encode_t *
mst_encode_create(const mst_tokenizer_t *t, const mst_prompt_t *prompt)
{
    mst_encode_t  *e;

    e = mst_calloc(1, sizeof(mst_encode_t));
    if (e == NULL) {
        return NULL;
    }

    e->tokenizer = t;
    e->prompt = prompt;

    if (t->kind != MST_TOKENIZER_BYTES) {
        mst_memo_init(&e->memo, prompt->text.len);
    }

    return e;
}


void
mst_encode_destroy(mst_encode_t *e)
{
    if (e == NULL) {
        return;
    }

    mst_chain_fini(&e->piece);
    mst_memo_fini(&e->memo);
    mst_spm_split_fini(&e->spm);
    mst_free(e->ids);
    mst_free(e);
}


const uint32_t *
mst_encode_ids(const mst_encode_t *e, size_t *n)
{
    *n = e->n;

    return e->ids;
}


/*
 * Room for n more ids.  Many of them never move again: to copy some MiB takes
 * longer than a slice may, while memory that is not touched costs nothing.
 */

static int
mst_encode_reserve(mst_encode_t *e, size_t n)
{
    size_t     most, size;
    uint32_t  *ids;

    if (n <= e->size - e->n) {
        return MST_OK;
    }

    for (size = e->size ? e->size : 256; size - e->n < n; size *= 2) {
        /* void */
    }

    if (size > MST_ENCODE_MOVES) {

        /* an id has a byte of the text, is the space before a span, or a
           control token; more are asked for than there will be */

        most = e->prompt->text.len + 2 * e->prompt->n + MST_ENCODE_ASK;
        size = size < most ? most : size;
    }

    ids = mst_realloc(e->ids, size, sizeof(uint32_t));
    if (ids == NULL) {
        return MST_ERROR;
    }

    e->ids = ids;
    e->size = size;

    return MST_OK;
}


static void
mst_encode_spend(size_t *budget, size_t cost)
{
    *budget -= cost < *budget ? cost : *budget;
}


/* the null model: a byte is its id */

static int
mst_encode_bytes(mst_encode_t *e, const mst_span_t *span, size_t *budget)
{
    size_t                i, n;
    const unsigned char  *p;

    n = span->len - e->byte;
    n = n < *budget ? n : *budget;

    if (mst_encode_reserve(e, n) != MST_OK) {
        return MST_ERROR;
    }

    p = (const unsigned char *) e->prompt->text.data + span->off + e->byte;

    for (i = 0; i < n; i++) {
        e->ids[e->n++] = p[i];
    }

    *budget -= n;
    e->byte += n;

    if (e->byte < span->len) {
        return MST_AGAIN;
    }

    e->byte = 0;

    return MST_OK;
}


/* a long piece, from where it stands */

static int
mst_encode_long(mst_encode_t *e, size_t *budget)
{
    int     rc;
    size_t  n, max;

    rc = mst_chain_run(&e->piece, budget);

    if (rc != MST_OK) {
        return rc;
    }

    while (*budget) {
        max = *budget < MST_ENCODE_ASK ? *budget : MST_ENCODE_ASK;

        if (mst_encode_reserve(e, max) != MST_OK) {
            return MST_ERROR;
        }

        n = mst_chain_take(&e->piece, e->ids + e->n, max);

        if (n == 0) {
            mst_chain_drop(&e->piece);
            e->in_long = 0;
            return MST_OK;
        }

        e->n += n;
        *budget -= n;
    }

    return MST_AGAIN;
}


static int
mst_encode_one(mst_encode_t *e, uint32_t id)
{
    if (mst_encode_reserve(e, 1) != MST_OK) {
        return MST_ERROR;
    }

    e->ids[e->n++] = id;

    return MST_OK;
}


static int
mst_encode_merge(mst_encode_t *e, mst_str_t piece, size_t *budget)
{
    size_t            cost;
    int64_t           id;
    const mst_bpe_t  *b;

    b = &e->tokenizer->bpe;
    id = mst_words_token(e->tokenizer, piece);

    if (id >= 0) {
        return mst_encode_one(e, (uint32_t) id);
    }

    if (piece.len > MST_BPE_SHORT) {

        if (mst_chain_start(&e->piece, b, piece.data, piece.len) != MST_OK) {
            return MST_ERROR;
        }

        e->in_long = 1;

        return mst_encode_long(e, budget);
    }

    if (mst_encode_reserve(e, piece.len) != MST_OK) {
        return MST_ERROR;
    }

    e->n += mst_bpe_short(b, piece.data, piece.len, e->ids + e->n, &cost);
    mst_encode_spend(budget, cost);

    return MST_OK;
}


/* of SentencePiece: as it was before, or by merging */

static int
mst_encode_piece(mst_encode_t *e, mst_str_t piece, size_t *budget)
{
    int               found, rc;
    size_t            first, i;
    mst_memo_slot_t  *slot;

    /* what is no part of the text does not stay */

    first = (uintptr_t) piece.data - (uintptr_t) e->prompt->text.data;

    if (e->memo.slots == NULL || piece.len > MST_MEMO_PIECE
        || first >= e->prompt->text.len)
    {
        return mst_encode_merge(e, piece, budget);
    }

    slot = mst_memo_slot(&e->memo, piece, &found);

    if (found) {

        if (mst_encode_reserve(e, slot->n) != MST_OK) {
            return MST_ERROR;
        }

        for (i = 0; i < slot->n; i++) {
            e->ids[e->n + i] = e->ids[slot->first + i];
        }

        e->n += slot->n;

        return MST_OK;
    }

    first = e->n;
    rc = mst_encode_merge(e, piece, budget);

    if (rc == MST_OK && first <= UINT32_MAX) {
        slot->data = piece.data;
        slot->len = (uint16_t) piece.len;
        slot->first = (uint32_t) first;
        slot->n = (uint16_t) (e->n - first);
    }

    return rc;
}


/* is a space put before this text? */

static int
mst_encode_prefix(const mst_tokenizer_t *t, const char *data, size_t len)
{
    if (t->prefix == MST_HF_PREFIX_UNLESS) {
        return data[0] != ' '
               && !(len >= 3 && memcmp(data, "\xe2\x96\x81", 3) == 0);
    }

    return t->prefix == MST_HF_PREFIX;
}


static void
mst_encode_begin(mst_encode_t *e, const mst_span_t *span)
{
    const char             *data;
    const mst_tokenizer_t  *t;

    t = e->tokenizer;
    data = e->prompt->text.data + span->off;

    if (t->kind == MST_TOKENIZER_SPM) {
        mst_spm_split_init(&e->spm, &t->bpe, data, span->len,
                           !span->glued && mst_encode_prefix(t, data,
                                                             span->len));

    } else {
        mst_split_init(&e->split, t->split, t->bpe.bits, data, span->len);
    }
}


/* the next pieces of byte-level BPE; MST_DONE: there are none */

static int
mst_encode_words(mst_encode_t *e, size_t *budget)
{
    int          rc;
    mst_str_t    piece;
    mst_words_t  w;

    if (mst_encode_reserve(e, MST_WORDS_ROOM) != MST_OK) {
        return MST_ERROR;
    }

    mst_words_init(&w, e->tokenizer, &e->memo, e->ids, e->n);

    do {
        rc = mst_split_next(&e->split, budget, &piece);
    } while (rc == MST_OK && piece.len <= MST_BPE_SHORT
             && mst_words_add(&w, piece));

    e->n = mst_words_finish(&w);
    mst_encode_spend(budget, w.cost);

    return rc == MST_OK && piece.len > MST_BPE_SHORT
           ? mst_encode_merge(e, piece, budget) : rc;
}


/* the same of SentencePiece */

static int
mst_encode_part(mst_encode_t *e, size_t *budget)
{
    int             rc;
    size_t          i;
    mst_spm_part_t  part;

    rc = mst_spm_split_next(&e->spm, budget, &part);

    if (rc != MST_OK) {
        return rc;
    }

    if (part.kind == MST_SPM_TOKEN) {
        return mst_encode_one(e, part.id);
    }

    if (part.kind == MST_SPM_TEXT) {
        return mst_encode_piece(e, part.text, budget);
    }

    for (i = 0; i < part.text.len; i++) {
        rc = mst_encode_one(e, e->tokenizer->bpe.byte_id[
                                   (unsigned char) part.text.data[i]]);

        if (rc != MST_OK) {
            return rc;
        }
    }

    return MST_OK;
}


static int
mst_encode_text(mst_encode_t *e, const mst_span_t *span, size_t *budget)
{
    int     rc;
    size_t  n;

    if (e->tokenizer->kind == MST_TOKENIZER_BYTES) {
        return mst_encode_bytes(e, span, budget);
    }

    if (!e->in_text) {
        mst_encode_begin(e, span);
        e->in_text = 1;
        e->first = e->n;
    }

    rc = e->in_long ? mst_encode_long(e, budget) : MST_OK;

    while (rc == MST_OK) {
        rc = e->tokenizer->kind == MST_TOKENIZER_SPM
             ? mst_encode_part(e, budget) : mst_encode_words(e, budget);
    }

    if (rc != MST_DONE) {
        return rc;
    }

    e->in_text = 0;
    n = span->skip < e->n - e->first ? span->skip : e->n - e->first;

    if (n) {
        mst_memo_reset(&e->memo);
        e->n -= n;
        memmove(e->ids + e->first, e->ids + e->first + n,
                (e->n - e->first) * sizeof(uint32_t));
    }

    return MST_OK;
}


static int
mst_encode_control(mst_encode_t *e, const mst_span_t *span, size_t *budget)
{
    if (mst_encode_reserve(e, 1) != MST_OK) {
        return MST_ERROR;
    }

    e->ids[e->n++] = span->id;
    --*budget;

    return MST_OK;
}


int
mst_encode_run(mst_encode_t *e, size_t budget)
{
    int                rc;
    const mst_span_t  *span;

    budget += budget == 0;

    while (e->span < e->prompt->n) {

        if (budget == 0) {
            return MST_AGAIN;
        }

        span = &e->prompt->spans[e->span];

        rc = span->len ? mst_encode_text(e, span, &budget)
                       : mst_encode_control(e, span, &budget);

        if (rc != MST_OK) {
            return rc;
        }

        e->span++;
    }

    return MST_OK;
}
