
/*
 * The text of a choice: tokens detokenised, cut at stop strings, as chunks
 * into what is to be sent, or gathered as the whole answer.  Nothing is sent
 * here.  Workers only.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_tools.h"

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_BEHIND  65536         /* bytes of unsent chunks */


static uint32_t ngx_http_mistral_echoes(ngx_http_mistral_choice_t *choice);
static uint32_t ngx_http_mistral_expected(ngx_http_mistral_choice_t *choice);
static int ngx_http_mistral_prompt_token(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top);
static int ngx_http_mistral_tokens_follow(ngx_http_mistral_choice_t *choice,
    const mst_rec_tokens_t *rec);
static int ngx_http_mistral_sampled(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top, uint32_t paid);
static int ngx_http_mistral_token(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top);
static int ngx_http_mistral_logprob(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top);
static int ngx_http_mistral_end_text(ngx_http_mistral_choice_t *choice,
    const char **reason);
static int ngx_http_mistral_start_choice(ngx_http_mistral_choice_t *choice);
static int ngx_http_mistral_echo(ngx_http_mistral_choice_t *choice);
static void ngx_http_mistral_gather(ngx_http_mistral_choice_t *choice);
static int ngx_http_mistral_chunk(ngx_http_mistral_choice_t *choice);
static ngx_uint_t ngx_http_mistral_is_stop(ngx_http_mistral_ctx_t *ctx,
    uint32_t id);
static size_t ngx_http_mistral_unsent(
    const ngx_http_mistral_choice_t *choice);
static size_t ngx_http_mistral_count(const char *text, size_t len);


int
ngx_http_mistral_tokens(ngx_http_mistral_choice_t *choice,
    const mst_rec_tokens_t *rec)
{
    uint32_t                 max, n, paid;
    const unsigned char     *p;
    const mst_rec_top_t     *top;
    const mst_rec_token_t   *token;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;

    if (ngx_http_mistral_tokens_follow(choice, rec) != MST_OK) {
        return MST_ERROR;
    }

    ctx->token_ms = ngx_current_msec;

    if (ngx_http_mistral_start_choice(choice) != MST_OK) {
        return MST_ERROR;
    }

    max = ngx_http_mistral_echoes(choice);
    p = (const unsigned char *) (rec + 1);

    /* what comes after an end counts for nobody */

    n = rec->n - ngx_min(max - choice->echoed, rec->n);
    paid = choice->tokens;

    if (n && !choice->stopped && !choice->cut) {
        paid += ngx_http_mistral_policy_tokens(choice, n);
    }

    while ((token = mst_record_next_token(rec, &p, &top)) != NULL) {

        if (choice->echoed < max) {

            if (ngx_http_mistral_prompt_token(choice, token, top) != MST_OK) {
                return MST_ERROR;
            }

        } else if (ngx_http_mistral_sampled(choice, token, top, paid)
                   != MST_OK)
        {
            return MST_ERROR;
        }
    }

    /* a client that is behind gets larger chunks instead of more of them */

    if (ngx_http_mistral_unsent(choice) == 0
        || (ctx->busy && ctx->out.len > NGX_HTTP_MISTRAL_BEHIND))
    {
        return MST_OK;
    }

    return ngx_http_mistral_chunk(choice);
}


/* the engine's tokens go on where its last ones ended, and no further than
   they may */

static int
ngx_http_mistral_tokens_follow(ngx_http_mistral_choice_t *choice,
    const mst_rec_tokens_t *rec)
{
    uint32_t                 max, all;
    ngx_http_mistral_ctx_t  *ctx;

    max = ngx_http_mistral_expected(choice);
    all = choice->echoed + choice->tokens;

    if (rec->first == all && rec->n <= max - all) {
        return MST_OK;
    }

    ctx = choice->ctx;

    ngx_log_error(NGX_LOG_ALERT, ctx->request->connection->log, 0,
                  "mistral: request \"%V\": %uD tokens of the engine from "
                  "%uD on, %uD of %uD are there", &ctx->id, rec->n,
                  rec->first, all, max);

    ctx->fault = 1;
    ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN,
                                             &ctx->error);
    return MST_ERROR;
}


/* a token of the answer, of which so many are paid for */

static int
ngx_http_mistral_sampled(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top, uint32_t paid)
{
    if (choice->ctx->first_ns == 0) {
        choice->ctx->first_ns = mst_time_ns();
    }

    choice->tokens++;

    if (choice->stopped || choice->cut) {
        return MST_OK;
    }

    if (choice->tokens > paid) {
        choice->cut = 1;
        choice->kept = paid;
        ngx_http_mistral_link_cancel(&choice->call);
        return MST_OK;
    }

    return ngx_http_mistral_token(choice, token, top);
}


/* tokens of the prompt that come before the answer's */

static uint32_t
ngx_http_mistral_echoes(ngx_http_mistral_choice_t *choice)
{
    return (choice->ctx->body->params.flags & MST_PARAMS_ECHO)
           ? (uint32_t) choice->source->n_ids : 0;
}


/* it samples at least one, and never more than it was asked for */

static uint32_t
ngx_http_mistral_expected(ngx_http_mistral_choice_t *choice)
{
    return ngx_http_mistral_echoes(choice) + ngx_max(choice->max_tokens, 1);
}


/* its text is there already: the echo as the client wrote it */

static int
ngx_http_mistral_prompt_token(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top)
{
    mst_buf_t        *piece;
    ngx_uint_t        control;
    mst_tokenizer_t  *t;

    t = choice->ctx->model->tokenizer;
    piece = &choice->piece;
    mst_buf_reset(piece);

    if (ngx_http_mistral_logprob(choice, token, top) != MST_OK) {
        return MST_ERROR;
    }

    choice->echoed++;

    /* control tokens among a client's ids are spelled, those that the
       tokenizer begins and ends a text with are not */

    control = choice->source->input->ids
              && mst_tokenizer_is_control(t, token->id);

    if (!control) {
        (void) mst_detok_push(&choice->detok, token->id, piece);
    }

    if (control || choice->echoed == choice->source->n_ids) {
        (void) mst_detok_finish(&choice->detok, piece);
        mst_detok_init(&choice->detok, t);
    }

    if (choice->echoed == choice->source->n_ids) {
        mst_detok_continue(&choice->detok);
    }

    if (control) {
        (void) mst_buf_str(piece, mst_tokenizer_name(t, token->id));
    }

    choice->offset += ngx_http_mistral_count(piece->data, piece->len);

    return piece->failed ? MST_ERROR : MST_OK;
}


static int
ngx_http_mistral_token(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top)
{
    int                      rc;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;
    mst_buf_reset(&choice->piece);

    if (ctx->body->logprobs
        && ngx_http_mistral_logprob(choice, token, top) != MST_OK)
    {
        return MST_ERROR;
    }

    if (ngx_http_mistral_is_stop(ctx, token->id)) {
        return MST_OK;
    }

    if (choice->parser) {
        rc = ngx_http_mistral_tools_token(choice, token->id);

    } else {
        rc = mst_detok_push(&choice->detok, token->id, &choice->piece);

        if (rc == MST_OK) {
            rc = ngx_http_mistral_say(choice, choice->piece.data,
                                       choice->piece.len);
        }
    }

    if (ctx->body->logprobs) {
        choice->offset += ngx_http_mistral_count(choice->piece.data,
                                                 choice->piece.len);
    }

    if (choice->stopped) {
        choice->kept = choice->tokens;
        ngx_http_mistral_link_cancel(&choice->call);
    }

    return rc;
}


int
ngx_http_mistral_say(ngx_http_mistral_choice_t *choice, const char *p,
    size_t n)
{
    int  rc;

    if (n == 0 || choice->stopped) {
        return MST_OK;
    }

    /* no stop string before min_tokens, as no stop id */

    if (choice->stop == NULL
        || choice->tokens <= choice->ctx->body->params.min_tokens)
    {
        return mst_buf_append(&choice->text, p, n);
    }

    rc = mst_stop_push(choice->stop, p, n, &choice->text);

    if (rc == MST_DONE) {
        choice->stopped = 1;
        rc = MST_OK;
    }

    return rc;
}


static int
ngx_http_mistral_logprob(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top)
{
    uint32_t             i;
    mst_tokenizer_t     *t;
    mst_reply_top_t      tops[MST_MAX_TOP_LOGPROBS];
    mst_reply_logprob_t  lp;

    t = choice->ctx->model->tokenizer;

    lp.token.bytes = mst_tokenizer_name(t, token->id);
    lp.token.logprob = token->logprob;
    lp.top = tops;
    lp.n_top = ngx_min(token->n_top, MST_MAX_TOP_LOGPROBS);
    lp.text_offset = choice->offset;
    lp.none = choice->echoed == 0
              && (choice->ctx->body->params.flags & MST_PARAMS_ECHO);

    for (i = 0; i < lp.n_top; i++) {
        tops[i].bytes = mst_tokenizer_name(t, top[i].id);
        tops[i].logprob = top[i].logprob;
    }

    return mst_reply_logprobs_add(&choice->logprobs, &lp);
}


int
ngx_http_mistral_end_choice(ngx_http_mistral_choice_t *choice,
    const char *reason)
{
    uint32_t                 i;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;

    if (ngx_http_mistral_start_choice(choice) != MST_OK) {
        return MST_ERROR;
    }

    if (!choice->stopped
        && ngx_http_mistral_end_text(choice, &reason) != MST_OK)
    {
        return MST_ERROR;
    }

    /* a call that broke off in a stream is none */

    if (choice->calls.n && choice->parser->complete
        && ngx_strcmp(reason, "stop") == 0)
    {
        reason = "tool_calls";
    }

    choice->done = 1;
    choice->reason = reason;
    ctx->n_done++;

    if (!ctx->body->stream) {
        return MST_OK;
    }

    if ((ngx_http_mistral_unsent(choice) || choice->logprobs.n)
        && ngx_http_mistral_chunk(choice) != MST_OK)
    {
        return MST_ERROR;
    }

    ngx_http_mistral_gather(choice);

    for (i = 0; i < ctx->n_copies; i++) {
        (void) mst_reply_sse_finish(&ctx->reply, choice->index + i, reason,
                                    &ctx->out);
    }

    return ctx->out.failed ? MST_ERROR : MST_OK;
}


/* what the detokenizer and the stop strings still hold */

static int
ngx_http_mistral_end_text(ngx_http_mistral_choice_t *choice,
    const char **reason)
{
    int  rc;

    mst_buf_reset(&choice->piece);

    if (mst_detok_finish(&choice->detok, &choice->piece) != MST_OK) {
        return MST_ERROR;
    }

    rc = choice->parser ? ngx_http_mistral_tools_finish(choice)
                        : ngx_http_mistral_say(choice, choice->piece.data,
                                                choice->piece.len);

    if (rc != MST_OK || choice->stop == NULL) {
        return rc;
    }

    if (choice->stopped) {
        *reason = "stop";
        return MST_OK;
    }

    return mst_stop_finish(choice->stop, &choice->text);
}


static int
ngx_http_mistral_start_choice(ngx_http_mistral_choice_t *choice)
{
    uint32_t                 i;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;

    if (choice->started) {
        return MST_OK;
    }

    choice->started = 1;

    if (ctx->body->echo && ngx_http_mistral_echo(choice) != MST_OK) {
        return MST_ERROR;
    }

    if (!ctx->body->stream || mst_api_form(ctx->api) != MST_API_CHAT) {
        return MST_OK;
    }

    for (i = 0; i < ctx->n_copies; i++) {
        (void) mst_reply_sse_first(&ctx->reply, choice->index + i, &ctx->out);
    }

    return ctx->out.failed ? MST_ERROR : MST_OK;
}


/* the text that the answer begins with and that nobody samples */

static int
ngx_http_mistral_echo(ngx_http_mistral_choice_t *choice)
{
    mst_request_t           *body;
    const mst_input_t       *input;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;
    body = ctx->body;
    input = choice->source->input;

    if (input && input->ids) {
        return ngx_http_mistral_spell(ctx, input->ids, input->n_ids,
                                      &choice->text);
    }

    if (input) {
        return mst_buf_str(&choice->text, input->text);
    }

    if (!body->continue_last) {
        return MST_OK;
    }

    return mst_buf_str(&choice->text,
                       body->messages[body->n_messages - 1].content);
}


/* all of its tokens until now are in chunks, or have no text */

static void
ngx_http_mistral_gather(ngx_http_mistral_choice_t *choice)
{
    choice->ctx->gathered += choice->tokens - choice->gathered;
    choice->gathered = choice->tokens;
}


/* what is certain of a stream's text becomes one chunk */

static int
ngx_http_mistral_chunk(ngx_http_mistral_choice_t *choice)
{
    uint32_t                 i;
    mst_reply_part_t         part;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;

    if (!ctx->body->stream) {
        return MST_OK;
    }

    part.text = mst_str(choice->text.data, choice->text.len);
    part.thought = mst_str(choice->thought.data, choice->thought.len);
    part.calls = mst_reply_call_take(&choice->calls);

    for (i = 0; i < ctx->n_copies; i++) {
        (void) mst_reply_sse_part(&ctx->reply, choice->index + i, &part,
                                  ctx->body->logprobs ? &choice->logprobs
                                                      : NULL,
                                  &ctx->out);
    }

    mst_buf_reset(&choice->text);
    mst_buf_reset(&choice->thought);
    mst_reply_call_reset(&choice->calls);
    mst_reply_logprobs_reset(&choice->logprobs);

    ngx_http_mistral_gather(choice);

    return ctx->out.failed ? MST_ERROR : MST_OK;
}


/* the client reads again: all text that waited */

int
ngx_http_mistral_chunks(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t  i;

    for (i = 0; i < ctx->n_choices; i++) {
        if (ngx_http_mistral_unsent(&ctx->choices[i])
            && !ctx->choices[i].done
            && ngx_http_mistral_chunk(&ctx->choices[i]) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* bytes that a stream holds for its client */

size_t
ngx_http_mistral_pending(ngx_http_mistral_ctx_t *ctx)
{
    size_t                      n;
    uint32_t                    i;
    ngx_http_mistral_choice_t  *choice;

    n = ctx->out.len;

    for (i = 0; i < ctx->n_choices; i++) {
        choice = &ctx->choices[i];

        n += ngx_http_mistral_unsent(choice)
             + mst_reply_logprobs_size(&choice->logprobs);
    }

    return n;
}


/* of its answer, of whatever kind */

static size_t
ngx_http_mistral_unsent(const ngx_http_mistral_choice_t *choice)
{
    return choice->text.len + choice->thought.len + choice->calls.json.len;
}


static ngx_uint_t
ngx_http_mistral_is_stop(ngx_http_mistral_ctx_t *ctx, uint32_t id)
{
    uint32_t  i;

    for (i = 0; i < ctx->n_stop_ids; i++) {
        if (ctx->stop_ids[i] == id) {
            return 1;
        }
    }

    return 0;
}


static size_t
ngx_http_mistral_count(const char *text, size_t len)
{
    size_t  i, n;

    n = 0;

    for (i = 0; i < len; i++) {
        n += (text[i] & 0xc0) != 0x80;
    }

    return n;
}


/* what the engine sampled between a stop string, or a limit's end, and the
   CANCEL is chance */

void
ngx_http_mistral_take_usage(ngx_http_mistral_choice_t *choice,
    const mst_rec_done_t *rec)
{
    choice->usage = rec->usage;

    if (choice->stopped || choice->cut) {
        choice->ctx->beyond += rec->usage.completion
                               - ngx_min(rec->usage.completion, choice->kept);
        choice->usage.completion = choice->kept;
    }
}


/* of all answers together; before their end: what is known so far */

void
ngx_http_mistral_usage(ngx_http_mistral_ctx_t *ctx, mst_usage_t *u)
{
    uint32_t                    i;
    ngx_http_mistral_choice_t  *choice;

    ngx_memzero(u, sizeof(mst_usage_t));

    u->prompt = (uint32_t) ctx->n_ids;

    for (i = 0; i < ctx->n_sources; i++) {
        u->cached += ctx->sources[i].cached;
    }

    for (i = 0; i < ctx->n_choices; i++) {
        choice = &ctx->choices[i];

        u->completion += choice->done ? choice->usage.completion
                         : choice->stopped || choice->cut ? choice->kept
                                                          : choice->tokens;
        u->preemptions += choice->usage.preemptions;
        u->queue_ns = ngx_max(u->queue_ns, choice->usage.queue_ns);
        u->prefill_ns = ngx_max(u->prefill_ns, choice->usage.prefill_ns);
        u->decode_ns = ngx_max(u->decode_ns, choice->usage.decode_ns);
    }
}
