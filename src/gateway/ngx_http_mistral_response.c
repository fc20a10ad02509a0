
/*
 * Records of the engine to text: detokenised, cut at stop strings, as chunks
 * into what is to be sent, or gathered as the whole answer.  Nothing is sent
 * and nothing is finalized here but in the pass, which comes after all
 * records of a turn.  Workers only.
 */

#include "gateway/ngx_http_mistral_request.h"

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_BEHIND  65536         /* bytes of unsent chunks */


static ngx_int_t ngx_http_mistral_choice_init(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice);
static void ngx_http_mistral_record(ngx_http_mistral_call_t *call,
    const mst_record_t *rec);
static void ngx_http_mistral_lost(ngx_http_mistral_call_t *call);
static void ngx_http_mistral_pass_handler(ngx_http_mistral_call_t *call);
static void ngx_http_mistral_refused(ngx_http_mistral_choice_t *choice,
    const mst_rec_refuse_t *rec);
static int ngx_http_mistral_tokens(ngx_http_mistral_choice_t *choice,
    const mst_rec_tokens_t *rec);
static int ngx_http_mistral_token(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top);
static int ngx_http_mistral_logprob(ngx_http_mistral_choice_t *choice,
    const mst_rec_token_t *token, const mst_rec_top_t *top);
static int ngx_http_mistral_done(ngx_http_mistral_choice_t *choice,
    const mst_rec_done_t *rec);
static int ngx_http_mistral_end_choice(ngx_http_mistral_choice_t *choice,
    const char *reason);
static int ngx_http_mistral_end_text(ngx_http_mistral_choice_t *choice,
    const char **reason);
static int ngx_http_mistral_start_choice(ngx_http_mistral_choice_t *choice);
static int ngx_http_mistral_echo(ngx_http_mistral_choice_t *choice);
static int ngx_http_mistral_chunk(ngx_http_mistral_choice_t *choice);
static ngx_uint_t ngx_http_mistral_is_stop(ngx_http_mistral_ctx_t *ctx,
    uint32_t id);
static size_t ngx_http_mistral_count(const char *text, size_t len);


ngx_int_t
ngx_http_mistral_choices_init(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t                    i, each;
    ngx_http_mistral_choice_t  *choice;

    /* without chance all answers to a prompt are the same: once is enough */

    each = ctx->body->params.temperature > 0 ? ctx->body->n : 1;
    ctx->n_copies = ctx->body->n / each;

    ctx->choices = ngx_pcalloc(ctx->request->pool,
                               ctx->n_sources * each
                               * sizeof(ngx_http_mistral_choice_t));
    if (ctx->choices == NULL) {
        return NGX_ERROR;
    }

    ctx->reply.api = ctx->api;
    ctx->reply.id = mst_str((char *) ctx->id.data, ctx->id.len);
    ctx->reply.model = mst_str((char *) ctx->name.data, ctx->name.len);
    ctx->reply.created = ngx_time();
    ctx->reply.include_usage = ctx->body->include_usage;

    for (i = 0; i < ctx->n_sources * each; i++) {
        choice = &ctx->choices[i];

        choice->index = i * ctx->n_copies;
        choice->source = &ctx->sources[i / each];
        ctx->n_choices++;

        if (ngx_http_mistral_choice_init(ctx, choice) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_choice_init(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice)
{
    choice->ctx = ctx;
    choice->call.model = ctx->model;
    choice->call.data = choice;
    choice->call.record = ngx_http_mistral_record;
    choice->call.lost = ngx_http_mistral_lost;
    choice->call.pass = ngx_http_mistral_pass_handler;

    mst_detok_init(&choice->detok, ctx->model->tokenizer);
    mst_buf_init(&choice->piece);
    mst_buf_init(&choice->text);
    mst_reply_logprobs_init(&choice->logprobs, ctx->api);

    if (ctx->body->n_stop) {
        choice->stop = mst_stop_create(ctx->body->stop, ctx->body->n_stop);
        if (choice->stop == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_http_mistral_choices_fini(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t                    i;
    ngx_http_mistral_choice_t  *choice;

    for (i = 0; i < ctx->n_choices; i++) {
        choice = &ctx->choices[i];

        mst_stop_destroy(choice->stop);
        mst_buf_fini(&choice->piece);
        mst_buf_fini(&choice->text);
        mst_reply_logprobs_fini(&choice->logprobs);
    }
}


static void
ngx_http_mistral_record(ngx_http_mistral_call_t *call, const mst_record_t *rec)
{
    int                         rc;
    ngx_http_mistral_ctx_t     *ctx;
    ngx_http_mistral_choice_t  *choice;

    choice = call->data;
    ctx = choice->ctx;

    ngx_http_set_log_request(ctx->request->connection->log, ctx->request);

    if (ctx->error.status || choice->done) {
        return;
    }

    rc = MST_OK;

    switch (rec->type) {

    case MST_REC_ADMIT:
        ctx->admitted = 1;

        if (!choice->source->admitted) {
            choice->source->cached = ((const mst_rec_admit_t *) rec)->cached;
            choice->source->admitted = 1;
        }

        break;

    case MST_REC_REFUSE:
        ngx_http_mistral_refused(choice, (const mst_rec_refuse_t *) rec);
        break;

    case MST_REC_TOKENS:
        rc = ngx_http_mistral_tokens(choice, (const mst_rec_tokens_t *) rec);
        break;

    case MST_REC_DONE:
        rc = ngx_http_mistral_done(choice, (const mst_rec_done_t *) rec);
        break;
    }

    if (rc != MST_OK && !ctx->error.status) {
        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                      "mistral: no memory for the answer to request \"%V\"",
                      &ctx->id);

        (void) mst_api_error_set(&ctx->error, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                 "internal_error", "",
                                 "The gateway ran out of memory.");
    }

    ngx_http_mistral_keep_waiting(ctx);
}


/*
 * Nothing more will come.  An answer whose text was complete already is one,
 * though what the engine sampled beyond it is not known any more.
 */

static void
ngx_http_mistral_lost(ngx_http_mistral_call_t *call)
{
    ngx_http_mistral_ctx_t     *ctx;
    ngx_http_mistral_choice_t  *choice;

    choice = call->data;
    ctx = choice->ctx;

    ngx_http_set_log_request(ctx->request->connection->log, ctx->request);

    if (ctx->error.status || choice->done) {
        return;
    }

    if (choice->stopped) {
        choice->usage.prompt = (uint32_t) choice->source->n_ids;
        choice->usage.cached = choice->source->cached;
        choice->usage.completion = choice->kept;

        if (ngx_http_mistral_end_choice(choice, "stop") == MST_OK) {
            return;
        }
    }

    ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN,
                                             &ctx->error);

    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" lost after %uD tokens: the engine "
                  "of model \"%V\" is gone", &ctx->id, choice->tokens,
                  &ctx->model->name);
}


static void
ngx_http_mistral_pass_handler(ngx_http_mistral_call_t *call)
{
    ngx_connection_t           *c;
    ngx_http_mistral_ctx_t     *ctx;
    ngx_http_mistral_choice_t  *choice;

    choice = call->data;
    ctx = choice->ctx;
    c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    ngx_http_mistral_advance(ctx);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_mistral_refused(ngx_http_mistral_choice_t *choice,
    const mst_rec_refuse_t *rec)
{
    char                     text[sizeof(rec->text)];
    ngx_uint_t               level;
    mst_api_error_t         *e;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;
    e = &ctx->error;
    level = NGX_LOG_WARN;

    switch (rec->reason) {

    case MST_REFUSE_TOO_LONG:
        level = NGX_LOG_INFO;
        (void) mst_api_error_set(e, NGX_HTTP_BAD_REQUEST,
                                 "context_length_exceeded", "messages",
                                 "The prompt has %u tokens, the model's "
                                 "context %u.",
                                 (unsigned) choice->source->n_ids,
                                 (unsigned)
                                 ngx_http_mistral_context(ctx->model));
        break;

    case MST_REFUSE_KV_FULL:
        ctx->shed = "kv_full";
        (void) mst_api_error_set(e, NGX_HTTP_SERVICE_UNAVAILABLE, "kv_full",
                                 "", "The model's memory is full, try again "
                                 "soon.");
        break;

    case MST_REFUSE_DEADLINE:
        ctx->shed = "deadline";
        (void) mst_api_error_set(e, NGX_HTTP_SERVICE_UNAVAILABLE, "deadline",
                                 "", "The request waited too long for its "
                                 "start, try again soon.");
        break;

    case MST_REFUSE_DRAINING:
        ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DRAINING,
                                                 e);
        break;

    case MST_REFUSE_INVALID:
        level = NGX_LOG_ERR;
        (void) mst_api_error_set(e, NGX_HTTP_BAD_REQUEST, "invalid_value",
                                 "", "The engine does not accept the "
                                 "request's parameters.");
        break;

    default:
        level = NGX_LOG_ERR;
        ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN, e);
    }

    ngx_http_mistral_log_text(text, sizeof(text), rec->text);
    ngx_log_error(level, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" refused by the engine of model "
                  "\"%V\": %s%s%s%s", &ctx->id, &ctx->model->name,
                  mst_record_refuse_name(rec->reason),
                  text[0] ? ", " : "", text,
                  rec->reason == MST_REFUSE_KV_FULL
                  ? ", see \"kv_cache ... size=\""
                  : rec->reason == MST_REFUSE_DEADLINE
                  ? ", see \"mistral_queue ... timeout=\"" : "");
}


static int
ngx_http_mistral_tokens(ngx_http_mistral_choice_t *choice,
    const mst_rec_tokens_t *rec)
{
    uint32_t                 max;
    const unsigned char     *p;
    const mst_rec_top_t     *top;
    const mst_rec_token_t   *token;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;

    /* it samples at least one, and never more than it was asked for */

    max = ngx_max(ctx->body->params.max_tokens, 1);

    if (rec->first != choice->tokens || rec->n > max - choice->tokens) {
        ngx_log_error(NGX_LOG_ALERT, ctx->request->connection->log, 0,
                      "mistral: request \"%V\": %uD tokens of the engine from "
                      "%uD on, %uD of %uD are there", &ctx->id, rec->n,
                      rec->first, choice->tokens, max);

        ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN,
                                                 &ctx->error);
        return MST_ERROR;
    }

    if (ctx->first_ns == 0) {
        ctx->first_ns = mst_time_ns();
    }

    if (ngx_http_mistral_start_choice(choice) != MST_OK) {
        return MST_ERROR;
    }

    p = (const unsigned char *) (rec + 1);

    while ((token = mst_record_next_token(rec, &p, &top)) != NULL) {
        choice->tokens++;

        /* what came after a stop string counts, and is nobody's text */

        if (!choice->stopped
            && ngx_http_mistral_token(choice, token, top) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    /* a client that is behind gets larger chunks instead of more of them */

    if (choice->text.len == 0
        || (ctx->busy && ctx->out.len > NGX_HTTP_MISTRAL_BEHIND))
    {
        return MST_OK;
    }

    return ngx_http_mistral_chunk(choice);
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

    if (!ngx_http_mistral_is_stop(ctx, token->id)
        && mst_detok_push(&choice->detok, token->id, &choice->piece) != MST_OK)
    {
        return MST_ERROR;
    }

    if (choice->piece.len == 0) {
        return MST_OK;
    }

    if (ctx->body->logprobs) {
        choice->offset += ngx_http_mistral_count(choice->piece.data,
                                                 choice->piece.len);
    }

    /* no stop string before min_tokens, as no stop id */

    if (choice->stop == NULL
        || choice->tokens <= ctx->body->params.min_tokens)
    {
        return mst_buf_append(&choice->text, choice->piece.data,
                              choice->piece.len);
    }

    rc = mst_stop_push(choice->stop, choice->piece.data, choice->piece.len,
                       &choice->text);

    if (rc == MST_DONE) {
        choice->stopped = 1;
        choice->kept = choice->tokens;
        ngx_http_mistral_link_cancel(&choice->call);
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

    for (i = 0; i < lp.n_top; i++) {
        tops[i].bytes = mst_tokenizer_name(t, top[i].id);
        tops[i].logprob = top[i].logprob;
    }

    return mst_reply_logprobs_add(&choice->logprobs, &lp);
}


static int
ngx_http_mistral_done(ngx_http_mistral_choice_t *choice,
    const mst_rec_done_t *rec)
{
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;
    choice->usage = rec->usage;

    if (choice->stopped) {

        /* what the engine sampled until the CANCEL came is chance */

        choice->usage.completion = choice->kept;
    }

    if (choice->stopped || rec->finish == MST_FINISH_STOP) {
        return ngx_http_mistral_end_choice(choice, "stop");
    }

    if (rec->finish == MST_FINISH_LENGTH) {
        return ngx_http_mistral_end_choice(choice, "length");
    }

    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" failed in the engine of model "
                  "\"%V\" after %uD tokens: %s", &ctx->id, &ctx->model->name,
                  choice->tokens, mst_record_finish_name(rec->finish));

    if (rec->finish == MST_FINISH_NUMERIC) {
        (void) mst_api_error_set(&ctx->error, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                 "numeric_error", "",
                                 "The model's numbers are not finite for this "
                                 "request.");

    } else {
        ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN,
                                                 &ctx->error);
    }

    return MST_OK;
}


static int
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

    choice->done = 1;
    choice->reason = reason;
    ctx->n_done++;

    if (!ctx->body->stream) {
        return MST_OK;
    }

    if ((choice->text.len || choice->logprobs.n)
        && ngx_http_mistral_chunk(choice) != MST_OK)
    {
        return MST_ERROR;
    }

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

    if (choice->stop == NULL) {
        return mst_buf_append(&choice->text, choice->piece.data,
                              choice->piece.len);
    }

    rc = mst_stop_push(choice->stop, choice->piece.data, choice->piece.len,
                       &choice->text);

    if (rc == MST_DONE) {
        *reason = "stop";
        return MST_OK;
    }

    if (rc != MST_OK) {
        return MST_ERROR;
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

    if (!ctx->body->stream || ctx->api != MST_API_CHAT) {
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


/* what is certain of a stream's text becomes one chunk */

static int
ngx_http_mistral_chunk(ngx_http_mistral_choice_t *choice)
{
    uint32_t                 i;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;

    if (!ctx->body->stream) {
        return MST_OK;
    }

    for (i = 0; i < ctx->n_copies; i++) {
        (void) mst_reply_sse_text(&ctx->reply, choice->index + i,
                                  mst_str(choice->text.data,
                                          choice->text.len),
                                  ctx->body->logprobs ? &choice->logprobs
                                                      : NULL,
                                  &ctx->out);
    }

    mst_buf_reset(&choice->text);
    mst_reply_logprobs_reset(&choice->logprobs);

    return ctx->out.failed ? MST_ERROR : MST_OK;
}


/* the client reads again: all text that waited */

int
ngx_http_mistral_chunks(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t  i;

    for (i = 0; i < ctx->n_choices; i++) {
        if (ctx->choices[i].text.len && !ctx->choices[i].done
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

        n += choice->text.len + choice->logprobs.a.len + choice->logprobs.b.len
             + choice->logprobs.c.len + choice->logprobs.d.len;
    }

    return n;
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
                                      : choice->tokens;
        u->preemptions += choice->usage.preemptions;
        u->queue_ns = ngx_max(u->queue_ns, choice->usage.queue_ns);
        u->prefill_ns = ngx_max(u->prefill_ns, choice->usage.prefill_ns);
        u->decode_ns = ngx_max(u->decode_ns, choice->usage.decode_ns);
    }
}
