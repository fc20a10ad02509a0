
/*
 * Answers: see mst_reply.h.
 *
 * A chunk of a stream is a few short copies: what never changes in it is put
 * together once, and the rest of it is literals.
 */

#include <string.h>

#include "api/mst_json.h"
#include "api/mst_reply.h"


/* the least log-probability that is shown: JSON knows no infinity */
#define MST_REPLY_FLOOR  -9999.0f

#define mst_reply_put(out, text)                                              \
    mst_buf_append(out, text, sizeof(text) - 1)


static void mst_reply_head(const mst_reply_t *r, mst_buf_t *out);
static int mst_reply_start(const mst_reply_t *r, const char *object,
    mst_buf_t *out);
static void mst_reply_delta(const mst_reply_part_t *part, mst_buf_t *out);
static void mst_reply_thought(const mst_reply_part_t *part, mst_buf_t *out);
static void mst_reply_calls(const mst_reply_part_t *part, int comma,
    mst_buf_t *out);
static void mst_reply_index(uint32_t index, mst_buf_t *out);
static int mst_reply_tail(const mst_reply_t *r, const char *reason,
    mst_buf_t *out);
static void mst_reply_reason(const char *reason, mst_buf_t *out);
static void mst_reply_usage(const mst_usage_t *u, mst_buf_t *out);
static void mst_reply_choice(const mst_reply_t *r, uint32_t index,
    const mst_reply_choice_t *c, mst_buf_t *out);
static void mst_reply_logprobs(const mst_reply_logprobs_t *l,
    mst_buf_t *out);
static int mst_reply_logprobs_chat(mst_reply_logprobs_t *l,
    const mst_reply_logprob_t *p);
static int mst_reply_logprobs_completion(mst_reply_logprobs_t *l,
    const mst_reply_logprob_t *p);
static void mst_reply_logprobs_map(const mst_reply_logprob_t *p,
    mst_buf_t *out);
static void mst_reply_top(const mst_reply_top_t *t, mst_buf_t *out);
static void mst_reply_logprob(float x, mst_buf_t *out);
static void mst_reply_bytes(mst_str_t s, mst_buf_t *out);
static void mst_reply_spelling(mst_str_t s, mst_buf_t *out);


int
mst_reply_sse_first(const mst_reply_t *r, uint32_t index, mst_buf_t *out)
{
    if (r->api != MST_API_CHAT) {
        return MST_OK;
    }

    mst_reply_head(r, out);
    mst_reply_index(index, out);
    (void) mst_reply_put(out, ",\"delta\":{\"role\":\"assistant\","
                              "\"content\":\"\"},\"logprobs\":null");

    return mst_reply_tail(r, NULL, out);
}


int
mst_reply_sse_text(const mst_reply_t *r, uint32_t index, mst_str_t text,
    const mst_reply_logprobs_t *logprobs, mst_buf_t *out)
{
    mst_reply_part_t  part;

    memset(&part, 0, sizeof(mst_reply_part_t));
    part.text = text;

    return mst_reply_sse_part(r, index, &part, logprobs, out);
}


int
mst_reply_sse_part(const mst_reply_t *r, uint32_t index,
    const mst_reply_part_t *part, const mst_reply_logprobs_t *logprobs,
    mst_buf_t *out)
{
    mst_reply_head(r, out);
    mst_reply_index(index, out);

    if (r->api == MST_API_CHAT) {
        (void) mst_reply_put(out, ",\"delta\":{");
        mst_reply_delta(part, out);
        (void) mst_reply_put(out, "},\"logprobs\":");

    } else {
        (void) mst_reply_put(out, ",\"text\":");
        (void) mst_json_string(out, part->text);
        (void) mst_reply_put(out, ",\"logprobs\":");
    }

    if (logprobs == NULL && !r->include_usage) {

        /* nearly all chunks there are */

        return mst_reply_put(out, "null,\"finish_reason\":null}]}\n\n");
    }

    mst_reply_logprobs(logprobs, out);

    return mst_reply_tail(r, NULL, out);
}


/* what there is of it; nothing at all is an empty text */

static void
mst_reply_delta(const mst_reply_part_t *part, mst_buf_t *out)
{
    int  text;

    text = part->text.len || (part->thought.len == 0 && part->calls.len == 0);

    if (part->thought.len) {
        mst_reply_thought(part, out);
        (void) mst_buf_text(out, text ? "," : "");
    }

    if (text) {
        (void) mst_reply_put(out, "\"content\":");
        (void) mst_json_string(out, part->text);
    }

    mst_reply_calls(part, text || part->thought.len, out);
}


static void
mst_reply_thought(const mst_reply_part_t *part, mst_buf_t *out)
{
    (void) mst_reply_put(out, "\"reasoning_content\":");
    (void) mst_json_string(out, part->thought);
}


static void
mst_reply_calls(const mst_reply_part_t *part, int comma, mst_buf_t *out)
{
    if (part->calls.len) {
        (void) mst_buf_text(out, comma ? ",\"tool_calls\":["
                                       : "\"tool_calls\":[");
        (void) mst_buf_str(out, part->calls);
        (void) mst_buf_char(out, ']');
    }
}


int
mst_reply_sse_finish(const mst_reply_t *r, uint32_t index,
    const char *reason, mst_buf_t *out)
{
    mst_reply_head(r, out);
    mst_reply_index(index, out);

    if (r->api == MST_API_CHAT) {
        (void) mst_reply_put(out, ",\"delta\":{},\"logprobs\":null");

    } else {
        (void) mst_reply_put(out, ",\"text\":\"\",\"logprobs\":null");
    }

    return mst_reply_tail(r, reason, out);
}


int
mst_reply_sse_usage(const mst_reply_t *r, const mst_usage_t *u,
    mst_buf_t *out)
{
    mst_reply_head(r, out);
    (void) mst_reply_put(out, "],\"usage\":");
    mst_reply_usage(u, out);

    return mst_reply_put(out, "}\n\n");
}


int
mst_reply_sse_done(mst_buf_t *out)
{
    return mst_reply_put(out, "data: [DONE]\n\n");
}


int
mst_reply_sse_error(const mst_api_error_t *e, mst_buf_t *out)
{
    (void) mst_reply_put(out, "data: ");
    (void) mst_api_error_json(e, out);             /* ends in one newline */

    return mst_reply_put(out, "\n");
}


int
mst_reply_sse_head(const mst_reply_t *r, mst_buf_t *out)
{
    (void) mst_reply_put(out, "data: ");

    return mst_reply_start(r, r->api == MST_API_CHAT ? "chat.completion.chunk"
                                                     : "text_completion",
                           out);
}


static void
mst_reply_head(const mst_reply_t *r, mst_buf_t *out)
{
    if (r->head.len) {
        (void) mst_buf_str(out, r->head);

    } else {
        (void) mst_reply_sse_head(r, out);
    }
}


/* all that stands before the first choice */

static int
mst_reply_start(const mst_reply_t *r, const char *object, mst_buf_t *out)
{
    (void) mst_reply_put(out, "{\"id\":");
    (void) mst_json_string(out, r->id);
    (void) mst_reply_put(out, ",\"object\":\"");
    (void) mst_buf_text(out, object);
    (void) mst_reply_put(out, "\",\"created\":");
    (void) mst_buf_uint(out, (uint64_t) r->created);
    (void) mst_reply_put(out, ",\"model\":");
    (void) mst_json_string(out, r->model);

    return mst_reply_put(out, ",\"choices\":[");
}


static void
mst_reply_index(uint32_t index, mst_buf_t *out)
{
    (void) mst_reply_put(out, "{\"index\":");
    (void) mst_buf_uint(out, index);
}


/* from the finish reason to the end of the event */

static int
mst_reply_tail(const mst_reply_t *r, const char *reason, mst_buf_t *out)
{
    mst_reply_reason(reason, out);

    if (r->include_usage) {
        return mst_reply_put(out, "}],\"usage\":null}\n\n");
    }

    return mst_reply_put(out, "}]}\n\n");
}


static void
mst_reply_reason(const char *reason, mst_buf_t *out)
{
    (void) mst_reply_put(out, ",\"finish_reason\":");

    if (reason == NULL) {
        (void) mst_reply_put(out, "null");
        return;
    }

    (void) mst_json_string(out, mst_str(reason, strlen(reason)));
}


static void
mst_reply_usage(const mst_usage_t *u, mst_buf_t *out)
{
    (void) mst_reply_put(out, "{\"prompt_tokens\":");
    (void) mst_buf_uint(out, u->prompt);
    (void) mst_reply_put(out, ",\"completion_tokens\":");
    (void) mst_buf_uint(out, u->completion);
    (void) mst_reply_put(out, ",\"total_tokens\":");
    (void) mst_buf_uint(out, (uint64_t) u->prompt + u->completion);
    (void) mst_reply_put(out, ",\"prompt_tokens_details\":"
                              "{\"cached_tokens\":");
    (void) mst_buf_uint(out, u->cached);
    (void) mst_reply_put(out, "}}");
}


int
mst_reply_json(const mst_reply_t *r, const mst_reply_choice_t *choices,
    uint32_t n, const mst_usage_t *u, mst_buf_t *out)
{
    uint32_t  i;

    (void) mst_reply_start(r, r->api == MST_API_CHAT ? "chat.completion"
                                                     : "text_completion",
                           out);

    for (i = 0; i < n; i++) {
        if (i) {
            (void) mst_buf_char(out, ',');
        }

        mst_reply_choice(r, i, &choices[i], out);
    }

    (void) mst_reply_put(out, "],\"usage\":");
    mst_reply_usage(u, out);

    return mst_reply_put(out, ",\"system_fingerprint\":null}");
}


static void
mst_reply_choice(const mst_reply_t *r, uint32_t index,
    const mst_reply_choice_t *c, mst_buf_t *out)
{
    mst_reply_index(index, out);

    if (r->api == MST_API_CHAT) {
        (void) mst_reply_put(out, ",\"message\":{\"role\":\"assistant\",");

        if (c->part.thought.len) {
            mst_reply_thought(&c->part, out);
            (void) mst_buf_char(out, ',');
        }

        (void) mst_reply_put(out, "\"content\":");

        if (c->part.text.len == 0 && c->part.calls.len) {
            (void) mst_reply_put(out, "null");

        } else {
            (void) mst_json_string(out, c->part.text);
        }

        mst_reply_calls(&c->part, 1, out);
        (void) mst_reply_put(out, ",\"refusal\":null},\"logprobs\":");

    } else {
        (void) mst_reply_put(out, ",\"text\":");
        (void) mst_json_string(out, c->part.text);
        (void) mst_reply_put(out, ",\"logprobs\":");
    }

    mst_reply_logprobs(c->logprobs, out);
    mst_reply_reason(c->reason, out);
    (void) mst_buf_char(out, '}');
}


void
mst_reply_logprobs_init(mst_reply_logprobs_t *l, mst_api_t api)
{
    l->api = api;
    l->n = 0;

    mst_buf_init(&l->a);
    mst_buf_init(&l->b);
    mst_buf_init(&l->c);
    mst_buf_init(&l->d);
}


void
mst_reply_logprobs_fini(mst_reply_logprobs_t *l)
{
    mst_buf_fini(&l->a);
    mst_buf_fini(&l->b);
    mst_buf_fini(&l->c);
    mst_buf_fini(&l->d);
    l->n = 0;
}


void
mst_reply_logprobs_reset(mst_reply_logprobs_t *l)
{
    mst_buf_reset(&l->a);
    mst_buf_reset(&l->b);
    mst_buf_reset(&l->c);
    mst_buf_reset(&l->d);
    l->n = 0;
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
        (void) mst_buf_char(&l->a, ',');
    }

    (void) mst_buf_char(&l->a, '{');
    mst_reply_top(&p->token, &l->a);
    (void) mst_reply_put(&l->a, ",\"top_logprobs\":[");

    for (i = 0; i < p->n_top; i++) {
        (void) mst_buf_text(&l->a, i ? ",{" : "{");
        mst_reply_top(&p->top[i], &l->a);
        (void) mst_buf_char(&l->a, '}');
    }

    return mst_reply_put(&l->a, "]}");
}


static int
mst_reply_logprobs_completion(mst_reply_logprobs_t *l,
    const mst_reply_logprob_t *p)
{
    if (l->n) {
        (void) mst_buf_char(&l->a, ',');
        (void) mst_buf_char(&l->b, ',');
        (void) mst_buf_char(&l->c, ',');
        (void) mst_buf_char(&l->d, ',');
    }

    mst_reply_spelling(p->token.bytes, &l->a);

    if (p->none) {
        (void) mst_reply_put(&l->b, "null");
        (void) mst_reply_put(&l->c, "null");

    } else {
        mst_reply_logprob(p->token.logprob, &l->b);
        mst_reply_logprobs_map(p, &l->c);
    }

    (void) mst_buf_uint(&l->d, p->text_offset);

    return l->a.failed || l->b.failed || l->c.failed || l->d.failed
           ? MST_ERROR : MST_OK;
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

        mst_reply_spelling(t->bytes, out);
        (void) mst_buf_char(out, ':');
        mst_reply_logprob(t->logprob, out);
    }

    (void) mst_buf_char(out, '}');
}


static void
mst_reply_logprobs(const mst_reply_logprobs_t *l, mst_buf_t *out)
{
    if (l == NULL) {
        (void) mst_reply_put(out, "null");
        return;
    }

    if (l->a.failed || l->b.failed || l->c.failed || l->d.failed) {
        out->failed = 1;
        return;
    }

    if (l->api == MST_API_CHAT) {
        (void) mst_reply_put(out, "{\"content\":[");
        (void) mst_buf_append(out, l->a.data, l->a.len);
        (void) mst_reply_put(out, "],\"refusal\":null}");
        return;
    }

    (void) mst_reply_put(out, "{\"tokens\":[");
    (void) mst_buf_append(out, l->a.data, l->a.len);
    (void) mst_reply_put(out, "],\"token_logprobs\":[");
    (void) mst_buf_append(out, l->b.data, l->b.len);
    (void) mst_reply_put(out, "],\"top_logprobs\":[");
    (void) mst_buf_append(out, l->c.data, l->c.len);
    (void) mst_reply_put(out, "],\"text_offset\":[");
    (void) mst_buf_append(out, l->d.data, l->d.len);
    (void) mst_reply_put(out, "]}");
}


static void
mst_reply_top(const mst_reply_top_t *t, mst_buf_t *out)
{
    (void) mst_reply_put(out, "\"token\":");
    (void) mst_json_string(out, t->bytes);
    (void) mst_reply_put(out, ",\"logprob\":");
    mst_reply_logprob(t->logprob, out);
    (void) mst_reply_put(out, ",\"bytes\":");
    mst_reply_bytes(t->bytes, out);
}


/* written so that NaN is the floor too */

static void
mst_reply_logprob(float x, mst_buf_t *out)
{
    (void) mst_json_float(out, x >= MST_REPLY_FLOOR ? x : MST_REPLY_FLOOR);
}


static void
mst_reply_bytes(mst_str_t s, mst_buf_t *out)
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
mst_reply_spelling(mst_str_t s, mst_buf_t *out)
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

    (void) mst_reply_put(out, "\"bytes:");

    for (i = 0; i < s.len; i++) {
        (void) mst_buf_printf(out, "\\\\x%02x", p[i]);
    }

    (void) mst_buf_char(out, '"');
}


int
mst_reply_model(const mst_reply_model_t *m, mst_buf_t *out)
{
    (void) mst_reply_put(out, "{\"id\":");
    (void) mst_json_string(out, m->id);
    (void) mst_reply_put(out, ",\"object\":\"model\",\"created\":");
    (void) mst_buf_uint(out, (uint64_t) m->created);
    (void) mst_reply_put(out, ",\"owned_by\":\"nginx\",\"max_model_len\":");
    (void) mst_buf_uint(out, m->max_model_len);
    (void) mst_reply_put(out, ",\"type\":\"base\",\"max_context_length\":");
    (void) mst_buf_uint(out, m->max_model_len);
    (void) mst_reply_put(out, ",\"capabilities\":{\"completion_chat\":");
    (void) mst_buf_text(out, m->chat ? "true" : "false");

    (void) mst_reply_put(out, ",\"completion_fim\":");
    (void) mst_buf_text(out, m->fim ? "true" : "false");

    (void) mst_reply_put(out, ",\"function_calling\":");
    (void) mst_buf_text(out, m->tools ? "true" : "false");

    return mst_reply_put(out, ",\"fine_tuning\":false,\"vision\":false}}");
}


int
mst_reply_models(const mst_reply_model_t *m, size_t n, mst_buf_t *out)
{
    size_t  i;

    (void) mst_reply_put(out, "{\"object\":\"list\",\"data\":[");

    for (i = 0; i < n; i++) {
        if (i) {
            (void) mst_buf_char(out, ',');
        }

        (void) mst_reply_model(&m[i], out);
    }

    return mst_reply_put(out, "]}");
}


/* the t->done-th, with what stands before it */

static void
mst_reply_token(const mst_reply_tokens_t *t, mst_buf_t *out)
{
    size_t  i;

    i = t->done % t->n;

    if (i) {
        (void) mst_buf_char(out, ',');
    }

    if (t->done < t->n) {
        (void) mst_buf_uint(out, t->ids[i]);

    } else {
        (void) mst_json_string(out, t->name(t->data, t->ids[i]));
    }
}


static void
mst_reply_count(const mst_reply_tokens_t *t, mst_buf_t *out)
{
    (void) mst_reply_put(out, "],\"count\":");
    (void) mst_buf_uint(out, t->n);
    (void) mst_reply_put(out, ",\"max_model_len\":");
    (void) mst_buf_uint(out, t->max_model_len);

    if (t->name) {
        (void) mst_reply_put(out, ",\"token_strs\":[");
    }
}


int
mst_reply_tokens(mst_reply_tokens_t *t, size_t budget, mst_buf_t *out)
{
    size_t  all, stop;

    all = t->name ? 2 * t->n : t->n;
    stop = all - t->done > budget ? t->done + budget : all;

    if (t->done == 0) {
        (void) mst_reply_put(out, "{\"tokens\":[");
    }

    for ( /* void */ ; t->done < stop; t->done++) {

        if (t->name && t->done == t->n) {
            mst_reply_count(t, out);
        }

        mst_reply_token(t, out);
    }

    if (out->failed) {
        return MST_ERROR;
    }

    if (stop < all) {
        return MST_AGAIN;
    }

    if (t->name == NULL || t->n == 0) {
        mst_reply_count(t, out);
    }

    return mst_buf_text(out, t->name ? "]}" : "}");
}


int
mst_reply_detokenize(mst_str_t text, mst_buf_t *out)
{
    (void) mst_reply_put(out, "{\"prompt\":");
    (void) mst_json_string(out, text);

    return mst_buf_char(out, '}');
}
