
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
#include "text/mst_split.h"



struct mst_encode_s {
    const mst_tokenizer_t  *tokenizer;
    const mst_prompt_t     *prompt;
    size_t                  span;      /* that comes next, or is begun */
    size_t                  byte;      /* of it, bytes done (null model) */
    int                     in_text;   /* "split" stands in span */
    int                     in_long;   /* "piece" stands in a piece */
    mst_split_t             split;
    mst_bpe_long_t          piece;
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

    return e;
}


void
mst_encode_destroy(mst_encode_t *e)
{
    if (e == NULL) {
        return;
    }

    mst_bpe_long_fini(&e->piece);
    mst_free(e->ids);
    mst_free(e);
}


const uint32_t *
mst_encode_ids(const mst_encode_t *e, size_t *n)
{
    *n = e->n;

    return e->ids;
}


/* room for n more ids */

static int
mst_encode_reserve(mst_encode_t *e, size_t n)
{
    size_t     size;
    uint32_t  *ids;

    if (n <= e->size - e->n) {
        return MST_OK;
    }

    for (size = e->size ? e->size : 256; size - e->n < n; size *= 2) {
        /* void */
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
    size_t  n, max;

    if (mst_bpe_long_run(&e->piece, budget) != MST_OK) {
        return MST_AGAIN;
    }

    while (*budget) {
        max = *budget < 1024 ? *budget : 1024;

        if (mst_encode_reserve(e, max) != MST_OK) {
            return MST_ERROR;
        }

        n = mst_bpe_long_take(&e->piece, e->ids + e->n, max);

        if (n == 0) {
            if (mst_bpe_long_drop(&e->piece, budget) != MST_OK) {
                return MST_AGAIN;
            }

            e->in_long = 0;
            return MST_OK;
        }

        e->n += n;
        *budget -= n;
    }

    return MST_AGAIN;
}


static int
mst_encode_piece(mst_encode_t *e, mst_str_t piece, size_t *budget)
{
    size_t            cost;
    int64_t           id;
    const mst_bpe_t  *b;

    b = &e->tokenizer->bpe;

    if (piece.len > MST_BPE_SHORT) {

        if (mst_bpe_long_start(&e->piece, b, piece.data, piece.len)
            != MST_OK)
        {
            return MST_ERROR;
        }

        e->in_long = 1;

        return mst_encode_long(e, budget);
    }

    if (mst_encode_reserve(e, piece.len) != MST_OK) {
        return MST_ERROR;
    }

    if (piece.len <= b->vocab->max_token) {
        id = mst_vocab_find(b->vocab, 0, piece.data, piece.len);

        if (id >= 0 && b->whole[id]) {
            e->ids[e->n++] = (uint32_t) id;
            return MST_OK;
        }
    }

    e->n += mst_bpe_short(b, piece.data, piece.len, e->ids + e->n, &cost);
    mst_encode_spend(budget, cost);

    return MST_OK;
}


static int
mst_encode_text(mst_encode_t *e, const mst_span_t *span, size_t *budget)
{
    int        rc;
    mst_str_t  piece;

    if (e->tokenizer->bytes) {
        return mst_encode_bytes(e, span, budget);
    }

    if (!e->in_text) {
        mst_split_init(&e->split, e->prompt->text.data + span->off,
                       span->len);
        e->in_text = 1;
    }

    rc = e->in_long ? mst_encode_long(e, budget) : MST_OK;

    while (rc == MST_OK) {
        rc = mst_split_next(&e->split, budget, &piece);

        if (rc == MST_OK) {
            rc = mst_encode_piece(e, piece, budget);
        }
    }

    if (rc != MST_DONE) {
        return rc;
    }

    e->in_text = 0;

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
