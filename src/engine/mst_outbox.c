
/*
 * The way of a request's events into its worker's ring: see mst_outbox.h.
 */

#include <string.h>

#include "engine/mst_outbox.h"


#define MST_OUTBOX_KEEP  4096      /* bytes that an empty buffer may keep */


static mst_record_t *mst_outbox_reserve(const mst_outbox_t *o,
    mst_ring_t *ring, uint16_t type, uint32_t len);
static int mst_outbox_flush_admit(mst_outbox_t *o, mst_ring_t *ring);
static int mst_outbox_flush_tokens(mst_outbox_t *o, mst_ring_t *ring);
static uint32_t mst_outbox_fit(const mst_outbox_t *o, uint32_t room,
    uint32_t *n, size_t *bytes);
static void mst_outbox_fill(const mst_outbox_t *o, mst_rec_token_t *token,
    uint32_t n, size_t bytes);
static int mst_outbox_flush_end(mst_outbox_t *o, mst_ring_t *ring);


void
mst_outbox_init(mst_outbox_t *o, const mst_record_t *submit, int logprobs)
{
    memset(o, 0, sizeof(mst_outbox_t));

    o->head = *submit;
    o->logprobs = logprobs;

    mst_buf_init(&o->wait);
}


void
mst_outbox_fini(mst_outbox_t *o)
{
    mst_buf_fini(&o->wait);
}


void
mst_outbox_admit(mst_outbox_t *o, uint32_t cached)
{
    o->admit = 1;
    o->cached = cached;
}


int
mst_outbox_token(mst_outbox_t *o, const mst_sampled_t *sampled)
{
    uint32_t         i, n;
    mst_rec_top_t    top;
    mst_rec_token_t  token;

    if (!o->logprobs) {
        return mst_buf_append(&o->wait, &sampled->id, sizeof(uint32_t));
    }

    n = sampled->n_top;

    if (n > MST_MAX_TOP_LOGPROBS) {
        n = MST_MAX_TOP_LOGPROBS;
    }

    /* whole or not at all */

    if (mst_buf_reserve(&o->wait, sizeof(token) + n * sizeof(top)) != MST_OK) {
        return MST_ERROR;
    }

    token.id = sampled->id;
    token.logprob = sampled->logprob;
    token.n_top = n;
    token.unused = 0;

    (void) mst_buf_append(&o->wait, &token, sizeof(token));

    for (i = 0; i < n; i++) {
        top.id = sampled->top_ids[i];
        top.logprob = sampled->top_logprobs[i];

        (void) mst_buf_append(&o->wait, &top, sizeof(top));
    }

    return MST_OK;
}


void
mst_outbox_refuse(mst_outbox_t *o, mst_refuse_t reason, const char *text)
{
    o->end = MST_REC_REFUSE;
    o->ended = 1;
    o->reason = reason;

    if (text != NULL) {
        (void) mst_buf_text(&o->wait, text);   /* it goes without, too */
    }
}


void
mst_outbox_done(mst_outbox_t *o, mst_finish_t finish,
    const mst_usage_t *usage)
{
    o->end = MST_REC_DONE;
    o->ended = 1;
    o->reason = finish;
    o->usage = *usage;
}


int
mst_outbox_flush(mst_outbox_t *o, mst_ring_t *ring, uint32_t *published)
{
    if (o->admit) {
        if (mst_outbox_flush_admit(o, ring) != MST_OK) {
            return MST_AGAIN;
        }

        (*published)++;
    }

    while (o->end != MST_REC_REFUSE && o->sent < o->wait.len) {
        if (mst_outbox_flush_tokens(o, ring) != MST_OK) {
            return MST_AGAIN;
        }

        (*published)++;
    }

    if (o->end) {
        if (mst_outbox_flush_end(o, ring) != MST_OK) {
            return MST_AGAIN;
        }

        (*published)++;
    }

    return MST_OK;
}


static mst_record_t *
mst_outbox_reserve(const mst_outbox_t *o, mst_ring_t *ring, uint16_t type,
    uint32_t len)
{
    mst_record_t  *rec;

    rec = mst_ring_reserve(ring, len);

    if (rec != NULL) {
        rec->type = type;
        rec->id = o->head.id;
        rec->slot_epoch = o->head.slot_epoch;
        rec->engine_epoch = o->head.engine_epoch;
    }

    return rec;
}


static int
mst_outbox_flush_admit(mst_outbox_t *o, mst_ring_t *ring)
{
    mst_rec_admit_t  *rec;

    rec = (mst_rec_admit_t *) mst_outbox_reserve(o, ring, MST_REC_ADMIT,
                                                 sizeof(mst_rec_admit_t));
    if (rec == NULL) {
        return MST_AGAIN;
    }

    rec->cached = o->cached;
    rec->unused = 0;

    mst_ring_publish(ring, &rec->head);

    o->admit = 0;

    return MST_OK;
}


/* one record of as many tokens as there is room for */

static int
mst_outbox_flush_tokens(mst_outbox_t *o, mst_ring_t *ring)
{
    size_t             bytes;
    uint32_t           n, len;
    mst_rec_tokens_t  *rec;

    len = mst_outbox_fit(o, mst_ring_room(ring), &n, &bytes);

    if (n == 0) {
        return MST_AGAIN;
    }

    rec = (mst_rec_tokens_t *) mst_outbox_reserve(o, ring, MST_REC_TOKENS,
                                                  len);
    if (rec == NULL) {
        return MST_AGAIN;
    }

    rec->first = o->first;
    rec->n = n;

    mst_outbox_fill(o, (mst_rec_token_t *) (rec + 1), n, bytes);
    mst_ring_publish(ring, &rec->head);

    o->first += n;
    o->sent += bytes;

    if (o->sent == o->wait.len) {
        o->sent = 0;

        if (o->wait.size > MST_OUTBOX_KEEP) {
            mst_buf_fini(&o->wait);            /* it was a long wait */
            mst_buf_init(&o->wait);

        } else {
            mst_buf_reset(&o->wait);
        }
    }

    return MST_OK;
}


/* the length of a record of *n tokens, which are *bytes of the buffer */

static uint32_t
mst_outbox_fit(const mst_outbox_t *o, uint32_t room, uint32_t *n,
    size_t *bytes)
{
    size_t           at;
    uint32_t         len, size;
    mst_rec_token_t  token;

    *n = 0;

    len = sizeof(mst_rec_tokens_t);

    for (at = o->sent; at < o->wait.len; /* void */ ) {
        size = sizeof(mst_rec_token_t);

        if (o->logprobs) {
            memcpy(&token, o->wait.data + at, sizeof(token));
            size += token.n_top * (uint32_t) sizeof(mst_rec_top_t);
        }

        if (len + size > room) {
            break;
        }

        len += size;
        at += o->logprobs ? size : sizeof(uint32_t);
        (*n)++;
    }

    *bytes = at - o->sent;

    return len;
}


/* reads nothing back from the record: it is the worker's, too */

static void
mst_outbox_fill(const mst_outbox_t *o, mst_rec_token_t *token, uint32_t n,
    size_t bytes)
{
    uint32_t     i;
    const char  *wait;

    wait = o->wait.data + o->sent;

    if (o->logprobs) {
        memcpy(token, wait, bytes);
        return;
    }

    for (i = 0; i < n; i++) {
        memset(&token[i], 0, sizeof(mst_rec_token_t));
        memcpy(&token[i].id, wait + i * sizeof(uint32_t), sizeof(uint32_t));
    }
}


static int
mst_outbox_flush_end(mst_outbox_t *o, mst_ring_t *ring)
{
    size_t             n;
    mst_rec_done_t    *done;
    mst_rec_refuse_t  *refuse;

    if (o->end == MST_REC_DONE) {
        done = (mst_rec_done_t *) mst_outbox_reserve(o, ring, MST_REC_DONE,
                                                     sizeof(mst_rec_done_t));
        if (done == NULL) {
            return MST_AGAIN;
        }

        done->finish = o->reason;
        done->unused = 0;
        done->usage = o->usage;

        mst_ring_publish(ring, &done->head);

    } else {
        refuse = (mst_rec_refuse_t *) mst_outbox_reserve(o, ring,
                                       MST_REC_REFUSE,
                                       sizeof(mst_rec_refuse_t));
        if (refuse == NULL) {
            return MST_AGAIN;
        }

        n = o->wait.len;
        n = (n < sizeof(refuse->text)) ? n : sizeof(refuse->text) - 1;

        refuse->reason = o->reason;
        memset(refuse->text, 0, sizeof(refuse->text));

        if (n != 0) {
            memcpy(refuse->text, o->wait.data, n);
        }

        mst_ring_publish(ring, &refuse->head);
    }

    o->end = 0;

    return MST_OK;
}
