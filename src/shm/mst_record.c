
/*
 * Records: see mst_record.h.
 */

#include <stddef.h>
#include <string.h>

#include "shm/mst_record.h"


static int mst_record_check_ids(const uint32_t *ids, uint32_t n,
    uint32_t n_vocab, const char *what, mst_err_t *err);
static int mst_record_check_bias(const mst_bias_t *bias, uint32_t n,
    uint32_t n_vocab, mst_err_t *err);
static int mst_record_check_tokens(const mst_record_t *rec, uint32_t len,
    mst_err_t *err);
static int mst_record_check_refuse(const mst_record_t *rec, mst_err_t *err);


static const struct {
    const char  *name;
    uint32_t     size;             /* of a record of fixed size, 0 = other */
    int          to_engine;
} mst_record_types[MST_REC_TYPES] = {
    { "padding", 0, 0 },
    { "SUBMIT", 0, 1 },
    { "CANCEL", sizeof(mst_record_t), 1 },
    { "ADMIT", sizeof(mst_rec_admit_t), 0 },
    { "REFUSE", sizeof(mst_rec_refuse_t), 0 },
    { "TOKENS", 0, 0 },
    { "DONE", sizeof(mst_rec_done_t), 0 },
    { "PACE", sizeof(mst_rec_pace_t), 1 },
    { "PAUSE", sizeof(mst_record_t), 1 },
    { "RESUME", sizeof(mst_record_t), 1 }
};

_Static_assert(sizeof(mst_rec_admit_t) % 8 == 0, "ADMIT");
_Static_assert(sizeof(mst_rec_refuse_t) % 8 == 0, "REFUSE");
_Static_assert(sizeof(mst_rec_done_t) % 8 == 0, "DONE");
_Static_assert(sizeof(mst_rec_pace_t) % 8 == 0, "PACE");


const char *
mst_record_finish_name(uint32_t finish)
{
    switch (finish) {

    case MST_FINISH_STOP:
        return "stop";

    case MST_FINISH_LENGTH:
        return "length";

    case MST_FINISH_CANCELLED:
        return "cancelled";

    case MST_FINISH_NUMERIC:
        return "numeric";

    case MST_FINISH_ERROR:
        return "error";
    }

    return "unknown";
}


const char *
mst_record_refuse_name(uint32_t reason)
{
    switch (reason) {

    case MST_REFUSE_INVALID:
        return "invalid";

    case MST_REFUSE_TOO_LONG:
        return "too_long";

    case MST_REFUSE_KV_FULL:
        return "kv_full";

    case MST_REFUSE_DEADLINE:
        return "deadline";

    case MST_REFUSE_MEMORY:
        return "memory";

    case MST_REFUSE_DRAINING:
        return "draining";

    case MST_REFUSE_YIELD:
        return "yield";
    }

    return "unknown";
}


uint32_t
mst_record_submit_len(uint32_t n_prompt, uint32_t n_stop, uint32_t n_bias)
{
    uint64_t  len;

    len = sizeof(mst_rec_submit_t) + (uint64_t) n_prompt * sizeof(uint32_t)
          + (uint64_t) n_stop * sizeof(uint32_t)
          + (uint64_t) n_bias * sizeof(mst_bias_t);

    len = (len + 7) & ~(uint64_t) 7;

    return (len > UINT32_MAX) ? 0 : (uint32_t) len;
}


int
mst_record_check_submit(const mst_record_t *rec, uint32_t len,
    uint32_t n_vocab, const uint32_t **prompt, const uint32_t **stop_ids,
    const mst_bias_t **bias, mst_err_t *err)
{
    const mst_rec_submit_t  *s;

    if (rec->type != MST_REC_SUBMIT || len < sizeof(mst_rec_submit_t)
        || rec->len != len)
    {
        return mst_err_set(err, "a record of type %u and %u bytes is no SUBMIT",
                           rec->type, len);
    }

    s = (const mst_rec_submit_t *) rec;

    if (s->n_prompt == 0 || s->n_stop > MST_MAX_STOP_IDS
        || s->n_bias > MST_MAX_BIAS
        || mst_record_submit_len(s->n_prompt, s->n_stop, s->n_bias) != len)
    {
        return mst_err_set(err, "SUBMIT of %u bytes claims %u prompt tokens, "
                           "%u stop ids, %u biases", len, s->n_prompt,
                           s->n_stop, s->n_bias);
    }

    *prompt = (const uint32_t *) (s + 1);
    *stop_ids = *prompt + s->n_prompt;
    *bias = (const mst_bias_t *) (*stop_ids + s->n_stop);

    if (mst_params_check(&s->params, err) != MST_OK
        || mst_claim_check(&s->claim, err) != MST_OK
        || mst_record_check_ids(*prompt, s->n_prompt, n_vocab, "prompt", err)
           != MST_OK
        || mst_record_check_ids(*stop_ids, s->n_stop, n_vocab, "stop", err)
           != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_record_check_bias(*bias, s->n_bias, n_vocab, err);
}


static int
mst_record_check_ids(const uint32_t *ids, uint32_t n, uint32_t n_vocab,
    const char *what, mst_err_t *err)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        if (ids[i] >= n_vocab) {
            return mst_err_set(err, "%s id %u at %u is not below %u", what,
                               ids[i], i, n_vocab);
        }
    }

    return MST_OK;
}


static int
mst_record_check_bias(const mst_bias_t *bias, uint32_t n, uint32_t n_vocab,
    mst_err_t *err)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {

        /* written so that NaN fails */

        if (bias[i].id >= n_vocab
            || !(bias[i].value >= -100 && bias[i].value <= 100))
        {
            return mst_err_set(err, "bias %g of id %u at %u is outside "
                               "-100 .. 100 or the id not below %u",
                               (double) bias[i].value, bias[i].id, i, n_vocab);
        }
    }

    return MST_OK;
}


int
mst_record_check(const mst_record_t *rec, uint32_t len, mst_err_t *err)
{
    uint32_t  finish;

    if (len < sizeof(mst_record_t) || rec->len != len) {
        return mst_err_set(err, "a record of %u bytes is too short or has "
                           "changed", len);
    }

    if (rec->type < MST_REC_CANCEL || rec->type >= MST_REC_TYPES) {
        return mst_err_set(err, "record type %u is unknown here", rec->type);
    }

    if (mst_record_types[rec->type].size != 0
        && mst_record_types[rec->type].size != len)
    {
        return mst_err_set(err, "%s of %u bytes, must be %u",
                           mst_record_types[rec->type].name, len,
                           mst_record_types[rec->type].size);
    }

    switch (rec->type) {

    case MST_REC_TOKENS:
        return mst_record_check_tokens(rec, len, err);

    case MST_REC_REFUSE:
        return mst_record_check_refuse(rec, err);

    case MST_REC_DONE:
        finish = ((const mst_rec_done_t *) rec)->finish;

        if (finish < MST_FINISH_STOP || finish > MST_FINISH_ERROR) {
            return mst_err_set(err, "DONE with unknown reason %u", finish);
        }
    }

    return MST_OK;
}


int
mst_record_to_engine(const mst_record_t *rec)
{
    return mst_record_types[rec->type].to_engine;
}


static int
mst_record_check_refuse(const mst_record_t *rec, mst_err_t *err)
{
    const mst_rec_refuse_t  *r;

    r = (const mst_rec_refuse_t *) rec;

    if (r->reason < MST_REFUSE_INVALID || r->reason > MST_REFUSE_YIELD) {
        return mst_err_set(err, "REFUSE with unknown reason %u", r->reason);
    }

    if (memchr(r->text, '\0', sizeof(r->text)) == NULL) {
        return mst_err_set(err, "REFUSE with a text that does not end");
    }

    return MST_OK;
}


static int
mst_record_check_tokens(const mst_record_t *rec, uint32_t len, mst_err_t *err)
{
    uint32_t                 i, left;
    const unsigned char     *p;
    const mst_rec_token_t   *token;
    const mst_rec_tokens_t  *t;

    if (len < sizeof(mst_rec_tokens_t)) {
        return mst_err_set(err, "TOKENS of %u bytes", len);
    }

    t = (const mst_rec_tokens_t *) rec;
    p = (const unsigned char *) (t + 1);
    left = len - sizeof(mst_rec_tokens_t);

    for (i = 0; i < t->n && left >= sizeof(mst_rec_token_t); i++) {
        token = (const mst_rec_token_t *) p;

        p += sizeof(mst_rec_token_t);
        left -= sizeof(mst_rec_token_t);

        if (token->n_top > MST_MAX_TOP_LOGPROBS
            || token->n_top * sizeof(mst_rec_top_t) > left)
        {
            return mst_err_set(err, "TOKENS: token %u has %u alternatives", i,
                               token->n_top);
        }

        p += token->n_top * sizeof(mst_rec_top_t);
        left -= token->n_top * (uint32_t) sizeof(mst_rec_top_t);
    }

    if (t->n == 0 || i != t->n || left != 0 || t->first > UINT32_MAX - t->n) {
        return mst_err_set(err, "TOKENS of %u bytes claims %u tokens from %u "
                           "on", len, t->n, t->first);
    }

    return MST_OK;
}


const mst_rec_token_t *
mst_record_next_token(const mst_rec_tokens_t *rec, const unsigned char **p,
    const mst_rec_top_t **top)
{
    const mst_rec_token_t  *token;

    if (*p >= (const unsigned char *) rec + rec->head.len) {
        return NULL;
    }

    token = (const mst_rec_token_t *) *p;

    *top = (const mst_rec_top_t *) (token + 1);
    *p += sizeof(mst_rec_token_t) + token->n_top * sizeof(mst_rec_top_t);

    return token;
}
