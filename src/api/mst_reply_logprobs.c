
/*
 * Log-probabilities in answers: see mst_reply_logprobs.h.
 */

#include <string.h>

#include "api/mst_json.h"
#include "api/mst_reply_logprobs.h"


/* the least log-probability that is shown: JSON knows no infinity */
#define MST_REPLY_LOGPROBS_FLOOR  -9999.0f


static int mst_reply_logprobs_chat(mst_reply_logprobs_t *l,
    const mst_reply_logprob_t *p);
static int mst_reply_logprobs_completion(mst_reply_logprobs_t *l,
    const mst_reply_logprob_t *p);
static int mst_reply_logprobs_failed(const mst_reply_logprobs_t *l);
static void mst_reply_logprobs_map(const mst_reply_logprob_t *p,
    mst_buf_t *out);
static void mst_reply_logprobs_token(const mst_reply_top_t *t,
    mst_buf_t *out);
static void mst_reply_logprobs_number(float x, mst_buf_t *out);
static void mst_reply_logprobs_bytes(mst_str_t s, mst_buf_t *out);
static void mst_reply_logprobs_spell(mst_str_t s, mst_buf_t *out);


void
mst_reply_logprobs_init(mst_reply_logprobs_t *l, mst_api_t api)
{
    l->api = api;
    l->n = 0;

    mst_buf_init(&l->tokens);
    mst_buf_init(&l->numbers);
    mst_buf_init(&l->tops);
    mst_buf_init(&l->offsets);
}


void
mst_reply_logprobs_fini(mst_reply_logprobs_t *l)
{
    mst_buf_fini(&l->tokens);
    mst_buf_fini(&l->numbers);
    mst_buf_fini(&l->tops);
    mst_buf_fini(&l->offsets);
    l->n = 0;
}


void
mst_reply_logprobs_reset(mst_reply_logprobs_t *l)
{
    mst_buf_reset(&l->tokens);
    mst_buf_reset(&l->numbers);
    mst_buf_reset(&l->tops);
    mst_buf_reset(&l->offsets);
    l->n = 0;
}


size_t
mst_reply_logprobs_size(const mst_reply_logprobs_t *l)
{
    return l->tokens.len + l->numbers.len + l->tops.len + l->offsets.len;
}


int
mst_reply_logprobs_add(mst_reply_logprobs_t *l, const mst_reply_logprob_t *p)
{
    int  rc;

    rc = l->api == MST_API_CHAT ? mst_reply_logprobs_chat(l, p)
                                : mst_reply_logprobs_completion(l, p);

    if (rc == MST_OK) {
        l->n++;
    }

    return rc;
}


static int
mst_reply_logprobs_chat(mst_reply_logprobs_t *l, const mst_reply_logprob_t *p)
{
    uint32_t  i;

    if (l->n) {
        (void) mst_buf_char(&l->tokens, ',');
    }

    (void) mst_buf_char(&l->tokens, '{');
    mst_reply_logprobs_token(&p->token, &l->tokens);
    (void) mst_buf_text(&l->tokens, ",\"top_logprobs\":[");

    for (i = 0; i < p->n_top; i++) {
        (void) mst_buf_text(&l->tokens, i ? ",{" : "{");
        mst_reply_logprobs_token(&p->top[i], &l->tokens);
        (void) mst_buf_char(&l->tokens, '}');
    }

    return mst_buf_text(&l->tokens, "]}");
}


static int
mst_reply_logprobs_completion(mst_reply_logprobs_t *l,
    const mst_reply_logprob_t *p)
{
    if (l->n) {
        (void) mst_buf_char(&l->tokens, ',');
        (void) mst_buf_char(&l->numbers, ',');
        (void) mst_buf_char(&l->tops, ',');
        (void) mst_buf_char(&l->offsets, ',');
    }

    mst_reply_logprobs_spell(p->token.bytes, &l->tokens);

    if (p->none) {
        (void) mst_buf_text(&l->numbers, "null");
        (void) mst_buf_text(&l->tops, "null");

    } else {
        mst_reply_logprobs_number(p->token.logprob, &l->numbers);
        mst_reply_logprobs_map(p, &l->tops);
    }

    (void) mst_buf_uint(&l->offsets, p->text_offset);

    return mst_reply_logprobs_failed(l) ? MST_ERROR : MST_OK;
}


static int
mst_reply_logprobs_failed(const mst_reply_logprobs_t *l)
{
    return l->tokens.failed || l->numbers.failed || l->tops.failed
           || l->offsets.failed;
}


/*
 * The alternatives as an object from token to log-probability.  Two tokens
 * may have the same bytes (a letter and its byte fallback): the likelier one
 * stands there, a key never twice.  The sampled token is always there, as
 * OpenAI has it.
 */

static void
mst_reply_logprobs_map(const mst_reply_logprob_t *p, mst_buf_t *out)
{
    uint32_t                i, j;
    const mst_reply_top_t  *t, *s;

    (void) mst_buf_char(out, '{');

    for (i = 0; i <= p->n_top; i++) {
        t = i < p->n_top ? &p->top[i] : &p->token;

        for (j = 0; j < i; j++) {
            s = &p->top[j];

            if (s->bytes.len == t->bytes.len
                && (t->bytes.len == 0
                    || memcmp(s->bytes.data, t->bytes.data, t->bytes.len)
                       == 0))
            {
                break;
            }
        }

        if (j < i) {
            continue;
        }

        if (i) {
            (void) mst_buf_char(out, ',');
        }

        mst_reply_logprobs_spell(t->bytes, out);
        (void) mst_buf_char(out, ':');
        mst_reply_logprobs_number(t->logprob, out);
    }

    (void) mst_buf_char(out, '}');
}


void
mst_reply_logprobs_write(const mst_reply_logprobs_t *l, mst_buf_t *out)
{
    if (l == NULL) {
        (void) mst_buf_text(out, "null");
        return;
    }

    if (mst_reply_logprobs_failed(l)) {
        out->failed = 1;
        return;
    }

    if (l->api == MST_API_CHAT) {
        (void) mst_buf_text(out, "{\"content\":[");
        (void) mst_buf_append(out, l->tokens.data, l->tokens.len);
        (void) mst_buf_text(out, "],\"refusal\":null}");
        return;
    }

    (void) mst_buf_text(out, "{\"tokens\":[");
    (void) mst_buf_append(out, l->tokens.data, l->tokens.len);
    (void) mst_buf_text(out, "],\"token_logprobs\":[");
    (void) mst_buf_append(out, l->numbers.data, l->numbers.len);
    (void) mst_buf_text(out, "],\"top_logprobs\":[");
    (void) mst_buf_append(out, l->tops.data, l->tops.len);
    (void) mst_buf_text(out, "],\"text_offset\":[");
    (void) mst_buf_append(out, l->offsets.data, l->offsets.len);
    (void) mst_buf_text(out, "]}");
}


static void
mst_reply_logprobs_token(const mst_reply_top_t *t, mst_buf_t *out)
{
    (void) mst_buf_text(out, "\"token\":");
    (void) mst_json_string(out, t->bytes);
    (void) mst_buf_text(out, ",\"logprob\":");
    mst_reply_logprobs_number(t->logprob, out);
    (void) mst_buf_text(out, ",\"bytes\":");
    mst_reply_logprobs_bytes(t->bytes, out);
}


/* written so that NaN is the floor too */

static void
mst_reply_logprobs_number(float x, mst_buf_t *out)
{
    (void) mst_json_float(out, x >= MST_REPLY_LOGPROBS_FLOOR
                               ? x : MST_REPLY_LOGPROBS_FLOOR);
}


static void
mst_reply_logprobs_bytes(mst_str_t s, mst_buf_t *out)
{
    size_t  i;

    (void) mst_buf_char(out, '[');

    for (i = 0; i < s.len; i++) {
        if (i) {
            (void) mst_buf_char(out, ',');
        }

        (void) mst_buf_uint(out, (unsigned char) s.data[i]);
    }

    (void) mst_buf_char(out, ']');
}


/*
 * A token of a text completion.  This form has no "bytes", so a token that
 * is no text by itself is spelled "bytes:\xe2\x80", as OpenAI did.
 */

static void
mst_reply_logprobs_spell(mst_str_t s, mst_buf_t *out)
{
    size_t                i, n;
    const unsigned char  *p;

    p = (const unsigned char *) s.data;

    for (i = 0; i < s.len; i += n) {
        n = mst_json_utf8(p + i, p + s.len);

        if (n == 0) {
            break;
        }
    }

    if (i >= s.len) {
        (void) mst_json_string(out, s);
        return;
    }

    (void) mst_buf_text(out, "\"bytes:");

    for (i = 0; i < s.len; i++) {
        (void) mst_buf_printf(out, "\\\\x%02x", p[i]);
    }

    (void) mst_buf_char(out, '"');
}
