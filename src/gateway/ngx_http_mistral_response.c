
/*
 * Records of the engine: what each means for the request.  Nothing is sent and
 * nothing is finalized here but in the pass, which comes after all records of
 * a turn.  Workers only.
 */

#include "gateway/ngx_http_mistral_request.h"
#include "gateway/ngx_http_mistral_tools.h"

#include "base/mst_time.h"


static ngx_int_t ngx_http_mistral_head(ngx_http_mistral_ctx_t *ctx);
static ngx_uint_t ngx_http_mistral_continues(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_choice_init(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice);
static void ngx_http_mistral_record(ngx_http_mistral_call_t *call,
    const mst_record_t *rec);
static void ngx_http_mistral_lost(ngx_http_mistral_call_t *call);
static void ngx_http_mistral_pass_handler(ngx_http_mistral_call_t *call);
static void ngx_http_mistral_refused(ngx_http_mistral_choice_t *choice,
    const mst_rec_refuse_t *rec);
static int ngx_http_mistral_done(ngx_http_mistral_choice_t *choice,
    const mst_rec_done_t *rec);
static ngx_uint_t ngx_http_mistral_done_fits(
    ngx_http_mistral_choice_t *choice, const mst_rec_done_t *rec);


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

    ctx->reply.api = mst_api_form(ctx->api);
    ctx->reply.id = mst_str((char *) ctx->id.data, ctx->id.len);
    ctx->reply.model = mst_str((char *) ctx->name.data, ctx->name.len);
    ctx->reply.created = ngx_time();
    ctx->reply.include_usage = ctx->body->include_usage;

    if (ctx->body->stream && ngx_http_mistral_head(ctx) != NGX_OK) {
        return NGX_ERROR;
    }

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


/* what is the same in all chunks, for as long as the request */

static ngx_int_t
ngx_http_mistral_head(ngx_http_mistral_ctx_t *ctx)
{
    char       *p;
    mst_buf_t   head;

    mst_buf_init(&head);

    p = NULL;

    if (mst_reply_sse_head(&ctx->reply, &head) == MST_OK) {
        p = ngx_pnalloc(ctx->request->pool, head.len);
    }

    if (p != NULL) {
        ngx_memcpy(p, head.data, head.len);
        ctx->reply.head = mst_str(p, head.len);
    }

    mst_buf_fini(&head);

    return p != NULL ? NGX_OK : NGX_ERROR;
}


/* an answer that goes on with the client's text keeps the space that it begins
   with; one that is a text of its own, or begins with an echo, does not */

static ngx_uint_t
ngx_http_mistral_continues(ngx_http_mistral_ctx_t *ctx)
{
    return (ctx->api != MST_API_CHAT || ctx->body->continue_last)
           && !(ctx->body->params.flags & MST_PARAMS_ECHO);
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

    if (ngx_http_mistral_continues(ctx)) {
        mst_detok_continue(&choice->detok);
    }

    mst_buf_init(&choice->piece);
    mst_buf_init(&choice->text);
    mst_reply_logprobs_init(&choice->logprobs, ctx->api);

    if (ctx->body->n_stop) {
        choice->stop = mst_stop_create(ctx->body->stop, ctx->body->n_stop);
        if (choice->stop == NULL) {
            return NGX_ERROR;
        }
    }

    return ngx_http_mistral_tools_init(choice);
}


void
ngx_http_mistral_choices_fini(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t                    i;
    ngx_http_mistral_choice_t  *choice;

    for (i = 0; i < ctx->n_choices; i++) {
        choice = &ctx->choices[i];

        mst_stop_destroy(choice->stop);
        ngx_http_mistral_tools_fini(choice);
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
        if (!ctx->admitted) {
            ctx->admitted = 1;
            ctx->token_ms = ngx_current_msec;
            ctx->sent_ms = ngx_current_msec;
        }

        choice->usage.queue_ns = mst_time_ns() - choice->submit_ns;

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

    ctx->heard_ms = ngx_current_msec;
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

    if (choice->stopped || choice->cut) {
        choice->usage.prompt = (uint32_t) choice->source->n_ids;
        choice->usage.cached = choice->source->cached;
        choice->usage.completion = choice->kept;

        if (ngx_http_mistral_end_choice(choice, choice->cut ? "length"
                                                            : "stop")
            == MST_OK)
        {
            return;
        }
    }

    if (call->cut) {
        ctx->shed = "draining";
        (void) mst_api_error_set(&ctx->error, NGX_HTTP_SERVICE_UNAVAILABLE,
                                 "shutting_down", "",
                                 "The server is shutting down, try again.");

        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                      "mistral: request \"%V\" is cut after %uD tokens, see "
                      "\"worker_shutdown_timeout\"", &ctx->id,
                      choice->tokens);
        return;
    }

    ctx->fault = 1;
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

    ngx_http_mistral_rearm(ctx);
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

    case MST_REFUSE_YIELD:
        ctx->shed = "queue_full";
        (void) mst_api_error_set(e, NGX_HTTP_SERVICE_UNAVAILABLE,
                                 "queue_full", "", "Requests of a higher "
                                 "class are waiting, try again soon.");
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
                  : rec->reason == MST_REFUSE_YIELD
                  ? ", see \"mistral_priority\""
                  : rec->reason == MST_REFUSE_DEADLINE
                  ? ", see \"mistral_queue ... timeout=\"" : "");
}


static int
ngx_http_mistral_done(ngx_http_mistral_choice_t *choice,
    const mst_rec_done_t *rec)
{
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;

    if (!ngx_http_mistral_done_fits(choice, rec)) {
        ctx->fault = 1;
        ctx->shed = ngx_http_mistral_unavailable(NGX_HTTP_MISTRAL_DOWN,
                                                 &ctx->error);
        return MST_OK;
    }

    ngx_http_mistral_take_usage(choice, rec);

    if (choice->cut) {
        return ngx_http_mistral_end_choice(choice, "length");
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

    ctx->fault = rec->finish == MST_FINISH_NUMERIC
                 || rec->finish == MST_FINISH_ERROR;

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


/* what is billed is what came: counts of an engine that lies, or that lost
   tokens, are nobody's usage */

static ngx_uint_t
ngx_http_mistral_done_fits(ngx_http_mistral_choice_t *choice,
    const mst_rec_done_t *rec)
{
    const mst_usage_t  *u;

    u = &rec->usage;

    if ((rec->finish != MST_FINISH_STOP && rec->finish != MST_FINISH_LENGTH)
        || (u->completion == choice->tokens
            && u->prompt == choice->source->n_ids && u->cached <= u->prompt))
    {
        return 1;
    }

    ngx_log_error(NGX_LOG_ALERT,
                  choice->ctx->request->connection->log, 0,
                  "mistral: request \"%V\": the engine of model \"%V\" counts "
                  "%uD + %uD tokens, %uD of them cached, but it is %uz + %uD",
                  &choice->ctx->id, &choice->ctx->model->name, u->prompt,
                  u->completion, u->cached, choice->source->n_ids,
                  choice->tokens);

    return 0;
}
