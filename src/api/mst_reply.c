
/*
 * Answers: see mst_reply.h.
 *
 * A chunk of a stream is a few short copies: what never changes in it is put
 * together once, and the rest of it is literals.
 */

#include <string.h>

#include "api/mst_json.h"
#include "api/mst_reply.h"


#define MST_REPLY_ID  8            /* digits of a token, and a comma */


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


int
mst_reply_sse_first(const mst_reply_t *r, uint32_t index, mst_buf_t *out)
{
    if (r->api != MST_API_CHAT) {
        return MST_OK;
    }

    mst_reply_head(r, out);
    mst_reply_index(index, out);
    (void) mst_buf_text(out, ",\"delta\":{\"role\":\"assistant\","
                             "\"content\":\"\"},\"logprobs\":null");

    return mst_reply_tail(r, NULL, out);
}


int
mst_reply_sse_part(const mst_reply_t *r, uint32_t index,
    const mst_reply_part_t *part, const mst_reply_logprobs_t *logprobs,
    mst_buf_t *out)
{
    mst_reply_head(r, out);
    mst_reply_index(index, out);

    if (r->api == MST_API_CHAT) {
        (void) mst_buf_text(out, ",\"delta\":{");
        mst_reply_delta(part, out);
        (void) mst_buf_text(out, "},\"logprobs\":");

    } else {
        (void) mst_buf_text(out, ",\"text\":");
        (void) mst_json_string(out, part->text);
        (void) mst_buf_text(out, ",\"logprobs\":");
    }

    if (logprobs == NULL && !r->include_usage) {

        /* nearly all chunks there are */

        return mst_buf_text(out, "null,\"finish_reason\":null}]}\n\n");
    }

    mst_reply_logprobs_write(logprobs, out);

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
        (void) mst_buf_text(out, "\"content\":");
        (void) mst_json_string(out, part->text);
    }

    mst_reply_calls(part, text || part->thought.len, out);
}


static void
mst_reply_thought(const mst_reply_part_t *part, mst_buf_t *out)
{
    (void) mst_buf_text(out, "\"reasoning_content\":");
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
        (void) mst_buf_text(out, ",\"delta\":{},\"logprobs\":null");

    } else {
        (void) mst_buf_text(out, ",\"text\":\"\",\"logprobs\":null");
    }

    return mst_reply_tail(r, reason, out);
}


int
mst_reply_sse_usage(const mst_reply_t *r, const mst_usage_t *u,
    mst_buf_t *out)
{
    mst_reply_head(r, out);
    (void) mst_buf_text(out, "],\"usage\":");
    mst_reply_usage(u, out);

    return mst_buf_text(out, "}\n\n");
}


int
mst_reply_sse_done(mst_buf_t *out)
{
    return mst_buf_text(out, "data: [DONE]\n\n");
}


int
mst_reply_sse_error(const mst_api_error_t *e, mst_buf_t *out)
{
    (void) mst_buf_text(out, "data: ");
    (void) mst_api_error_json(e, out);             /* ends in one newline */

    return mst_buf_text(out, "\n");
}


int
mst_reply_sse_head(const mst_reply_t *r, mst_buf_t *out)
{
    (void) mst_buf_text(out, "data: ");

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
    (void) mst_buf_text(out, "{\"id\":");
    (void) mst_json_string(out, r->id);
    (void) mst_buf_text(out, ",\"object\":\"");
    (void) mst_buf_text(out, object);
    (void) mst_buf_text(out, "\",\"created\":");
    (void) mst_buf_uint(out, (uint64_t) r->created);
    (void) mst_buf_text(out, ",\"model\":");
    (void) mst_json_string(out, r->model);

    return mst_buf_text(out, ",\"choices\":[");
}


static void
mst_reply_index(uint32_t index, mst_buf_t *out)
{
    (void) mst_buf_text(out, "{\"index\":");
    (void) mst_buf_uint(out, index);
}


/* from the finish reason to the end of the event */

static int
mst_reply_tail(const mst_reply_t *r, const char *reason, mst_buf_t *out)
{
    mst_reply_reason(reason, out);

    if (r->include_usage) {
        return mst_buf_text(out, "}],\"usage\":null}\n\n");
    }

    return mst_buf_text(out, "}]}\n\n");
}


static void
mst_reply_reason(const char *reason, mst_buf_t *out)
{
    (void) mst_buf_text(out, ",\"finish_reason\":");

    if (reason == NULL) {
        (void) mst_buf_text(out, "null");
        return;
    }

    (void) mst_json_string(out, mst_str(reason, strlen(reason)));
}


static void
mst_reply_usage(const mst_usage_t *u, mst_buf_t *out)
{
    (void) mst_buf_text(out, "{\"prompt_tokens\":");
    (void) mst_buf_uint(out, u->prompt);
    (void) mst_buf_text(out, ",\"completion_tokens\":");
    (void) mst_buf_uint(out, u->completion);
    (void) mst_buf_text(out, ",\"total_tokens\":");
    (void) mst_buf_uint(out, (uint64_t) u->prompt + u->completion);
    (void) mst_buf_text(out, ",\"prompt_tokens_details\":"
                             "{\"cached_tokens\":");
    (void) mst_buf_uint(out, u->cached);
    (void) mst_buf_text(out, "}}");
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

    (void) mst_buf_text(out, "],\"usage\":");
    mst_reply_usage(u, out);

    return mst_buf_text(out, ",\"system_fingerprint\":null}");
}


static void
mst_reply_choice(const mst_reply_t *r, uint32_t index,
    const mst_reply_choice_t *c, mst_buf_t *out)
{
    mst_reply_index(index, out);

    if (r->api == MST_API_CHAT) {
        (void) mst_buf_text(out, ",\"message\":{\"role\":\"assistant\",");

        if (c->part.thought.len) {
            mst_reply_thought(&c->part, out);
            (void) mst_buf_char(out, ',');
        }

        (void) mst_buf_text(out, "\"content\":");

        if (c->part.text.len == 0 && c->part.calls.len) {
            (void) mst_buf_text(out, "null");

        } else {
            (void) mst_json_string(out, c->part.text);
        }

        mst_reply_calls(&c->part, 1, out);
        (void) mst_buf_text(out, ",\"refusal\":null},\"logprobs\":");

    } else {
        (void) mst_buf_text(out, ",\"text\":");
        (void) mst_json_string(out, c->part.text);
        (void) mst_buf_text(out, ",\"logprobs\":");
    }

    mst_reply_logprobs_write(c->logprobs, out);
    mst_reply_reason(c->reason, out);
    (void) mst_buf_char(out, '}');
}


int
mst_reply_model(const mst_reply_model_t *m, mst_buf_t *out)
{
    (void) mst_buf_text(out, "{\"id\":");
    (void) mst_json_string(out, m->id);
    (void) mst_buf_text(out, ",\"object\":\"model\",\"created\":");
    (void) mst_buf_uint(out, (uint64_t) m->created);
    (void) mst_buf_text(out, ",\"owned_by\":\"nginx\",\"max_model_len\":");
    (void) mst_buf_uint(out, m->max_model_len);
    (void) mst_buf_text(out, ",\"type\":\"base\",\"max_context_length\":");
    (void) mst_buf_uint(out, m->max_model_len);
    (void) mst_buf_text(out, ",\"capabilities\":{\"completion_chat\":");
    (void) mst_buf_text(out, m->chat ? "true" : "false");

    (void) mst_buf_text(out, ",\"completion_fim\":");
    (void) mst_buf_text(out, m->fim ? "true" : "false");

    (void) mst_buf_text(out, ",\"function_calling\":");
    (void) mst_buf_text(out, m->tools ? "true" : "false");

    return mst_buf_text(out, ",\"fine_tuning\":false,\"vision\":false}}");
}


int
mst_reply_models(const mst_reply_model_t *m, size_t n, mst_buf_t *out)
{
    size_t  i;

    (void) mst_buf_text(out, "{\"object\":\"list\",\"data\":[");

    for (i = 0; i < n; i++) {
        if (i) {
            (void) mst_buf_char(out, ',');
        }

        (void) mst_reply_model(&m[i], out);
    }

    return mst_buf_text(out, "]}");
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
    (void) mst_buf_text(out, "],\"count\":");
    (void) mst_buf_uint(out, t->n);
    (void) mst_buf_text(out, ",\"max_model_len\":");
    (void) mst_buf_uint(out, t->max_model_len);

    if (t->name) {
        (void) mst_buf_text(out, ",\"token_strs\":[");
    }
}


int
mst_reply_tokens(mst_reply_tokens_t *t, size_t budget, mst_buf_t *out)
{
    size_t  all, stop;

    all = t->name ? 2 * t->n : t->n;
    stop = all - t->done > budget ? t->done + budget : all;

    if (t->done == 0) {

        /* a long list is not moved while it grows: that takes too long */

        (void) mst_buf_reserve(out, t->n * MST_REPLY_ID);
        (void) mst_buf_text(out, "{\"tokens\":[");
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
    (void) mst_buf_text(out, "{\"prompt\":");
    (void) mst_json_string(out, text);

    return mst_buf_char(out, '}');
}
