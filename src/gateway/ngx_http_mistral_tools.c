
/*
 * Tools: what an answer is made to begin with, and its calls and thoughts
 * told from its text.  Workers only.
 */

#include "gateway/ngx_http_mistral_request.h"
#include "gateway/ngx_http_mistral_tools.h"

#include "base/mst_hash.h"


#define NGX_HTTP_MISTRAL_BAN  -100.0f          /* on the logit of a token */


static int ngx_http_mistral_tools_text(void *data, const char *p, size_t n);
static int ngx_http_mistral_tools_thought(void *data, const char *p,
    size_t n);
static int ngx_http_mistral_tools_call(void *data, mst_str_t name,
    const char *id);
static int ngx_http_mistral_tools_arguments(void *data, const char *p,
    size_t n);
static void ngx_http_mistral_tools_broken(void *data, const char *why);
static int ngx_http_mistral_tools_known(void *data, mst_str_t name);


static const mst_toolcall_sink_t  ngx_http_mistral_tools_sink = {
    ngx_http_mistral_tools_text,
    ngx_http_mistral_tools_thought,
    ngx_http_mistral_tools_call,
    ngx_http_mistral_tools_arguments,
    ngx_http_mistral_tools_broken,
    ngx_http_mistral_tools_known
};


/* NGX_DECLINED: ctx->error is set */

ngx_int_t
ngx_http_mistral_tools_check(ngx_http_mistral_ctx_t *ctx)
{
    mst_tools_t  *tools;

    tools = &ctx->body->tools;

    if (tools->n == 0 || ctx->model->tools) {
        return NGX_OK;
    }

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                             "unsupported", "tools",
                             "tools is a list, which the model \"%.*s\" does "
                             "not support: its chat template shows no tools.",
                             (int) ctx->model->name.len,
                             (char *) ctx->model->name.data);

    return NGX_DECLINED;
}


/*
 * Without constrained decoding, an answer that must be a call is one since
 * the prompt ends with its beginning: it belongs to the prompt's tokens, and
 * to the answer's text.
 */

ngx_int_t
ngx_http_mistral_tools_force(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source)
{
    char          id[MST_TOOLMARK_ID + 1];
    mst_tools_t  *tools;

    tools = &ctx->body->tools;

    if (tools->choice < MST_TOOLS_REQUIRED || ctx->api != MST_API_CHAT
        || ctx->body->closed)
    {
        return NGX_OK;
    }

    mst_toolmark_id(mst_hash(0, ctx->id.data, ctx->id.len), 0, id);
    source->forced = source->prompt.n;

    switch (mst_toolmark_force(&ctx->model->marks, tools->name, id,
                               &source->prompt))
    {
    case MST_OK:
        return NGX_OK;

    case MST_ERROR:
        return NGX_ERROR;
    }

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                             "unsupported", "tool_choice",
                             "The model \"%.*s\" has no form of calls that an "
                             "answer could be made to begin with: tool_choice "
                             "must be auto or none.",
                             (int) ctx->model->name.len,
                             (char *) ctx->model->name.data);

    return NGX_DECLINED;
}


/* the biases of the request, and with "none" one more that makes a call all
   but impossible */

ngx_int_t
ngx_http_mistral_tools_bias(ngx_http_mistral_ctx_t *ctx)
{
    int64_t          mark;
    mst_bias_t      *bias;
    mst_request_t   *body;
    mst_toolmark_t  *marks;

    body = ctx->body;
    marks = &ctx->model->marks;
    mark = marks->form == MST_TOOLMARK_BRACKETS ? marks->calls : marks->tag;

    ctx->bias = body->bias;
    ctx->n_bias = (uint32_t) body->n_bias;

    if (body->tools.choice != MST_TOOLS_NONE || mark < 0
        || body->n_bias >= MST_MAX_BIAS)
    {
        return NGX_OK;
    }

    bias = ngx_palloc(ctx->request->pool,
                      (body->n_bias + 1) * sizeof(mst_bias_t));
    if (bias == NULL) {
        return NGX_ERROR;
    }

    if (body->n_bias) {
        ngx_memcpy(bias, body->bias, body->n_bias * sizeof(mst_bias_t));
    }

    bias[body->n_bias].id = (uint32_t) mark;
    bias[body->n_bias].value = NGX_HTTP_MISTRAL_BAN;

    ctx->bias = bias;
    ctx->n_bias++;

    return NGX_OK;
}


/* a chat's answer is parsed where the model has marks */

ngx_int_t
ngx_http_mistral_tools_init(ngx_http_mistral_choice_t *choice)
{
    mst_tools_t             *tools;
    mst_toolmark_t          *marks;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = choice->ctx;
    tools = &ctx->body->tools;
    marks = &ctx->marks;

    mst_buf_init(&choice->thought);
    mst_reply_call_init(&choice->calls, ctx->body->stream);

    *marks = ctx->model->marks;

    /* tags and objects are text: they are looked for where a call is
       expected */

    if (tools->choice == MST_TOOLS_NONE
        || (tools->n == 0 && marks->form != MST_TOOLMARK_BRACKETS))
    {
        mst_toolmark_drop(marks);
    }

    if (ctx->api != MST_API_CHAT
        || (!mst_toolmark_can(marks) && marks->think < 0))
    {
        return NGX_OK;
    }

    choice->parser = ngx_palloc(ctx->request->pool, sizeof(mst_toolcall_t));
    if (choice->parser == NULL) {
        return NGX_ERROR;
    }

    mst_toolcall_init(choice->parser, marks, &ngx_http_mistral_tools_sink,
                      choice);

    choice->parser->seed = mst_hash(choice->index, ctx->id.data, ctx->id.len);
    choice->parser->whole = !ctx->body->stream;
    choice->parser->single = tools->single;

    if (choice->source->forced
        && mst_toolcall_prime(choice->parser, &choice->source->prompt,
                              choice->source->forced)
           != MST_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_http_mistral_tools_fini(ngx_http_mistral_choice_t *choice)
{
    if (choice->parser) {
        mst_toolcall_fini(choice->parser);
    }

    mst_buf_fini(&choice->thought);
    mst_reply_call_fini(&choice->calls);
}


/* MST_OK or MST_ERROR: memory; choice->stopped: one call was enough */

int
ngx_http_mistral_tools_token(ngx_http_mistral_choice_t *choice, uint32_t id)
{
    int              mark, rc;
    mst_buf_t       *piece;
    mst_toolcall_t  *t;

    t = choice->parser;
    piece = &choice->piece;
    mark = mst_toolcall_is_mark(t, id);

    rc = mark ? mst_detok_finish(&choice->detok, piece)
              : mst_detok_push(&choice->detok, id, piece);

    if (rc == MST_OK) {
        rc = mst_toolcall_text(t, piece->data, piece->len);
    }

    if (rc == MST_OK && mark) {
        rc = mst_toolcall_mark(t, id);
    }

    if (rc != MST_DONE) {
        return rc;
    }

    if (!choice->stopped) {
        choice->stopped = 1;

        if (choice->stop) {
            return mst_stop_finish(choice->stop, &choice->text);
        }
    }

    return MST_OK;
}


int
ngx_http_mistral_tools_finish(ngx_http_mistral_choice_t *choice)
{
    int  rc;

    rc = mst_toolcall_text(choice->parser, choice->piece.data,
                           choice->piece.len);

    return rc == MST_OK ? mst_toolcall_finish(choice->parser)
           : rc == MST_DONE ? MST_OK : rc;
}


static int
ngx_http_mistral_tools_text(void *data, const char *p, size_t n)
{
    return ngx_http_mistral_say(data, p, n);
}


/* behind a stop string there is nothing of any kind */

static int
ngx_http_mistral_tools_thought(void *data, const char *p, size_t n)
{
    ngx_http_mistral_choice_t *choice = data;

    return choice->stopped ? MST_OK : mst_buf_append(&choice->thought, p, n);
}


static int
ngx_http_mistral_tools_call(void *data, mst_str_t name, const char *id)
{
    ngx_http_mistral_choice_t *choice = data;

    return choice->stopped ? MST_OK
           : mst_reply_call_begin(&choice->calls, name, id);
}


static int
ngx_http_mistral_tools_arguments(void *data, const char *p, size_t n)
{
    ngx_http_mistral_choice_t *choice = data;

    return choice->stopped ? MST_OK
           : mst_reply_call_arguments(&choice->calls, mst_str(p, n));
}


static void
ngx_http_mistral_tools_broken(void *data, const char *why)
{
    ngx_http_mistral_ctx_t     *ctx;
    ngx_http_mistral_choice_t  *choice;

    choice = data;
    ctx = choice->ctx;

    ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                  "mistral: request \"%V\": what model \"%V\" began as a call "
                  "of a tool is given as text: %s", &ctx->id,
                  &ctx->model->name, why);
}


static int
ngx_http_mistral_tools_known(void *data, mst_str_t name)
{
    ngx_http_mistral_choice_t *choice = data;

    return mst_tools_has(&choice->ctx->body->tools, name);
}
