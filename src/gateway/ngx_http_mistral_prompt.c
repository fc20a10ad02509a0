
/*
 * From messages or text to token ids, in the worker; a text above
 * NGX_HTTP_MISTRAL_AT_ONCE bytes in turns.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_tools.h"

#include "base/mst_time.h"
#include "text/mst_fim.h"


#define NGX_HTTP_MISTRAL_BUDGET   4096         /* bytes between two looks at
                                                  the clock */
#define NGX_HTTP_MISTRAL_TURN     32           /* bytes around a message */
#define NGX_HTTP_MISTRAL_TOKENS   2048         /* of a list, the same */


static ngx_int_t ngx_http_mistral_sources_init(ngx_http_mistral_ctx_t *ctx);
static size_t ngx_http_mistral_text_size(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_encode(ngx_http_mistral_ctx_t *ctx,
    uint64_t end);
static ngx_int_t ngx_http_mistral_build(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source);
static ngx_int_t ngx_http_mistral_build_chat(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source);
static ngx_int_t ngx_http_mistral_build_text(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source);
static ngx_int_t ngx_http_mistral_build_fim(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source);
static void ngx_http_mistral_encode_turn(ngx_http_mistral_ctx_t *ctx,
    uint64_t end);
static void ngx_http_mistral_encoded(ngx_http_mistral_ctx_t *ctx,
    ngx_int_t rc);
static void ngx_http_mistral_tokenize(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_list_turn(ngx_http_mistral_ctx_t *ctx,
    uint64_t end);


void
ngx_http_mistral_prompt(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                     rc;
    ngx_http_mistral_loc_conf_t  *mlcf;

    if (ngx_http_mistral_sources_init(ctx) != NGX_OK) {
        ngx_http_mistral_fail_internal(ctx);
        return;
    }

    if (ngx_http_mistral_text_size(ctx) <= NGX_HTTP_MISTRAL_AT_ONCE) {
        rc = ngx_http_mistral_encode(ctx, 0);

        if (rc != NGX_AGAIN) {
            ngx_http_mistral_encoded(ctx, rc);
            return;
        }
    }

    mlcf = ngx_http_get_module_loc_conf(ctx->request, ngx_http_mistral_module);

    ngx_add_timer(&ctx->timer, mlcf->queue_timeout);
    ngx_http_mistral_take_turn(ctx, ngx_http_mistral_encode_turn);

    if (ngx_http_mistral_watch(ctx) != NGX_OK) {
        ngx_http_mistral_finish(ctx, NGX_ERROR);
    }
}


static ngx_int_t
ngx_http_mistral_sources_init(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t        i, n;
    mst_request_t  *body;

    body = ctx->body;
    n = body->n_messages ? 1 : (uint32_t) body->n_inputs;

    ctx->sources = ngx_pcalloc(ctx->request->pool,
                               n * sizeof(ngx_http_mistral_source_t));
    if (ctx->sources == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        mst_prompt_init(&ctx->sources[i].prompt);

        if (body->n_messages == 0) {
            ctx->sources[i].input = &body->inputs[i];
        }
    }

    ctx->n_sources = n;

    return NGX_OK;
}


/* the engine has its copy of the ids, or the request ends */

void
ngx_http_mistral_sources_fini(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t                    i;
    ngx_http_mistral_source_t  *source;

    for (i = 0; i < ctx->n_sources; i++) {
        source = &ctx->sources[i];

        mst_encode_destroy(source->encode);
        mst_prompt_fini(&source->prompt);

        source->encode = NULL;
        source->ids = NULL;
    }
}


static size_t
ngx_http_mistral_text_size(ngx_http_mistral_ctx_t *ctx)
{
    size_t          i, k, size;
    mst_request_t  *body;
    mst_message_t  *m;

    body = ctx->body;
    size = body->tools.json.len + body->variables.len + body->suffix.len;

    for (i = 0; i < body->n_messages; i++) {
        m = &body->messages[i];
        size += m->content.len + m->thinking.len + m->name.len
                + m->call_id.len + NGX_HTTP_MISTRAL_TURN;

        for (k = 0; k < m->n_parts; k++) {
            size += m->parts[k].thinking ? m->parts[k].text.len : 0;
        }
    }

    for (i = 0; i < body->n_calls; i++) {
        size += body->calls[i].arguments.len + body->calls[i].name.len
                + body->calls[i].id.len + NGX_HTTP_MISTRAL_TURN;
    }

    for (i = 0; i < body->n_inputs; i++) {
        size += body->inputs[i].text.len;
    }

    return size;
}


/*
 * NGX_AGAIN: it is past "end", which 0 is not; the policies' part, whose
 * time does not follow from the text's size, has an end in any case.
 */

static ngx_int_t
ngx_http_mistral_encode(ngx_http_mistral_ctx_t *ctx, uint64_t end)
{
    int                         again;
    ngx_int_t                   rc;
    ngx_http_mistral_source_t  *source;

    rc = ngx_http_mistral_policy_examine(ctx, end ? end : mst_time_ns()
                                              + NGX_HTTP_MISTRAL_SLICE);
    if (rc != NGX_OK) {
        return rc;
    }

    while (ctx->n_encoded < ctx->n_sources) {

        source = &ctx->sources[ctx->n_encoded];

        if (source->input && source->input->ids) {
            source->ids = source->input->ids;
            source->n_ids = source->input->n_ids;
            ctx->n_ids += source->n_ids;
            ctx->n_encoded++;
            continue;
        }

        if (source->encode == NULL) {
            rc = ngx_http_mistral_build(ctx, source);
            if (rc != NGX_OK) {
                return rc;
            }

            if (end && mst_time_ns() >= end) {
                return NGX_AGAIN;
            }
        }

        again = mst_encode_run(source->encode, NGX_HTTP_MISTRAL_BUDGET);

        if (again == MST_OK) {
            source->ids = mst_encode_ids(source->encode, &source->n_ids);
            ctx->n_ids += source->n_ids;
            ctx->n_encoded++;

        } else if (again != MST_AGAIN) {
            return NGX_ERROR;
        }

        if (end && mst_time_ns() >= end && ctx->n_encoded < ctx->n_sources) {
            return NGX_AGAIN;
        }
    }

    return NGX_OK;
}


/* NGX_DECLINED: ctx->error is set */

static ngx_int_t
ngx_http_mistral_build(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source)
{
    ngx_int_t  rc;

    rc = ctx->api == MST_API_FIM ? ngx_http_mistral_build_fim(ctx, source)
         : source->input ? ngx_http_mistral_build_text(ctx, source)
                         : ngx_http_mistral_build_chat(ctx, source);
    if (rc != NGX_OK) {
        return rc;
    }

    source->encode = mst_encode_create(ctx->model->tokenizer,
                                       &source->prompt);

    return source->encode ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_mistral_build_chat(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source)
{
    mst_err_t             err;
    const char           *param;
    mst_request_t        *body;
    mst_template_chat_t   chat;

    body = ctx->body;

    chat.messages = body->messages;
    chat.n = body->n_messages;
    chat.end = body->continue_last ? MST_TEMPLATE_CONTINUE
               : body->closed ? MST_TEMPLATE_CLOSED : MST_TEMPLATE_ANSWER;
    chat.tools = body->tools.json;
    chat.variables = body->variables;
    chat.effort = body->effort;

    if (ngx_http_mistral_tools_check(ctx) != NGX_OK) {
        return NGX_DECLINED;
    }

    err.text[0] = '\0';

    if (ctx->model->template == NULL) {
        (void) mst_err_set(&err, "The model \"%.*s\" has no chat template.",
                           (int) ctx->model->name.len,
                           (char *) ctx->model->name.data);

    } else if (mst_template_render_chat(ctx->model->template, &chat,
                                        &source->prompt, &err)
               == MST_OK)
    {
        return ngx_http_mistral_tools_force(ctx, source);
    }

    if (err.text[0] == '\0') {
        return NGX_ERROR;
    }

    /* a template's sentence begins with the field, unless it is about these */

    param = "chat_template_kwargs";

    if (ngx_strncmp(err.text, param, ngx_strlen(param)) != 0) {
        param = "messages";
    }

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                             "invalid_value", param, "%s", err.text);

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mistral_build_text(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source)
{
    int                          bos, eos, rc;
    mst_request_t               *body;
    const mst_tokenizer_info_t  *info;

    body = ctx->body;
    info = mst_tokenizer_info(ctx->model->tokenizer);

    bos = info->add_bos && info->bos_id >= 0;
    eos = 0;

    if (ctx->api == MST_API_TOKENIZE) {
        bos = bos && body->add_special_tokens;
        eos = info->add_eos && info->eos_id >= 0 && body->add_special_tokens;
    }

    rc = MST_OK;

    if (bos) {
        rc = mst_prompt_control(&source->prompt, (uint32_t) info->bos_id);
    }

    if (rc == MST_OK) {
        rc = mst_prompt_text(&source->prompt, source->input->text.data,
                             source->input->text.len);
    }

    if (rc == MST_OK && eos) {
        rc = mst_prompt_control(&source->prompt, (uint32_t) info->eos_id);
    }

    return rc == MST_OK ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_mistral_build_fim(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source)
{
    if (ctx->model->fim) {
        return mst_fim_render(ctx->model->tokenizer, source->input->text,
                              ctx->body->suffix, &source->prompt)
               == MST_OK ? NGX_OK : NGX_ERROR;
    }

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                             "unsupported", "model",
                             "The model \"%.*s\" cannot fill in the middle: "
                             "its vocabulary has no tokens [PREFIX] and "
                             "[SUFFIX].",
                             (int) ctx->model->name.len,
                             (char *) ctx->model->name.data);

    return NGX_DECLINED;
}


static void
ngx_http_mistral_encode_turn(ngx_http_mistral_ctx_t *ctx, uint64_t end)
{
    ngx_int_t  rc;

    rc = ngx_http_mistral_encode(ctx, end);

    if (rc == NGX_AGAIN) {
        ngx_http_mistral_take_turn(ctx, ngx_http_mistral_encode_turn);
        return;
    }

    ngx_del_timer(&ctx->timer);

    ngx_http_mistral_encoded(ctx, rc);
}


static void
ngx_http_mistral_encoded(ngx_http_mistral_ctx_t *ctx, ngx_int_t rc)
{
    if (rc == NGX_DECLINED) {
        ngx_http_mistral_fail(ctx);

    } else if (rc != NGX_OK) {
        ngx_http_mistral_fail_internal(ctx);

    } else if (ctx->api == MST_API_TOKENIZE) {
        ngx_http_mistral_tokenize(ctx);

    } else {
        ngx_http_mistral_submit(ctx);
    }
}


static mst_str_t
ngx_http_mistral_token_name(const void *data, uint32_t id)
{
    return mst_tokenizer_name(data, id);
}


static void
ngx_http_mistral_tokenize(ngx_http_mistral_ctx_t *ctx)
{
    mst_reply_tokens_t           *list;
    ngx_http_mistral_loc_conf_t  *mlcf;

    list = ngx_pcalloc(ctx->request->pool, sizeof(mst_reply_tokens_t));
    if (list == NULL) {
        ngx_http_mistral_fail_internal(ctx);
        return;
    }

    list->ids = ctx->sources[0].ids;
    list->n = ctx->sources[0].n_ids;
    list->max_model_len = ngx_http_mistral_context(ctx->model);
    list->name = ctx->body->return_token_strs ? ngx_http_mistral_token_name
                                              : NULL;
    list->data = ctx->model->tokenizer;

    ctx->list = list;

    if (list->n <= NGX_HTTP_MISTRAL_TOKENS) {
        ngx_http_mistral_list_turn(ctx, 0);
        return;
    }

    mlcf = ngx_http_get_module_loc_conf(ctx->request, ngx_http_mistral_module);

    ngx_add_timer(&ctx->timer, mlcf->queue_timeout);
    ngx_http_mistral_take_turn(ctx, ngx_http_mistral_list_turn);
}


static void
ngx_http_mistral_list_turn(ngx_http_mistral_ctx_t *ctx, uint64_t end)
{
    int        rc;
    mst_buf_t  out;

    do {
        rc = mst_reply_tokens(ctx->list, NGX_HTTP_MISTRAL_TOKENS, &ctx->out);
    } while (rc == MST_AGAIN && (end == 0 || mst_time_ns() < end));

    if (rc == MST_AGAIN) {
        ngx_http_mistral_take_turn(ctx, ngx_http_mistral_list_turn);
        return;
    }

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }

    if (rc != MST_OK) {
        ngx_http_mistral_fail_internal(ctx);
        return;
    }

    out = ctx->out;
    mst_buf_init(&ctx->out);

    ngx_http_mistral_finish(ctx, ngx_http_mistral_send_json(ctx->request,
                                                            NGX_HTTP_OK,
                                                            &out));
}


void
ngx_http_mistral_detokenize(ngx_http_mistral_ctx_t *ctx)
{
    int                 rc;
    mst_buf_t           text, out;
    const mst_input_t  *input;

    input = &ctx->body->inputs[0];

    mst_buf_init(&text);
    mst_buf_init(&out);

    rc = ngx_http_mistral_spell(ctx, input->ids, input->n_ids, &text);

    if (rc == MST_OK) {
        rc = mst_reply_detokenize(mst_str(text.data, text.len), &out);
    }

    mst_buf_fini(&text);

    if (rc != MST_OK) {
        mst_buf_fini(&out);
        ngx_http_mistral_fail_internal(ctx);
        return;
    }

    ngx_http_mistral_finish(ctx, ngx_http_mistral_send_json(ctx->request,
                                                            NGX_HTTP_OK,
                                                            &out));
}


/* unlike an answer's text this shows control tokens, as they are spelled */

int
ngx_http_mistral_spell(ngx_http_mistral_ctx_t *ctx, const uint32_t *ids,
    size_t n, mst_buf_t *text)
{
    int               rc;
    size_t            i;
    mst_detok_t       detok;
    mst_tokenizer_t  *t;

    t = ctx->model->tokenizer;
    mst_detok_init(&detok, t);

    for (i = 0; i < n; i++) {

        if (!mst_tokenizer_is_control(t, ids[i])) {
            rc = mst_detok_push(&detok, ids[i], text);

        } else if ((rc = mst_detok_finish(&detok, text)) == MST_OK) {
            rc = mst_buf_str(text, mst_tokenizer_name(t, ids[i]));
            mst_detok_init(&detok, t);
        }

        if (rc != MST_OK) {
            return rc;
        }
    }

    return mst_detok_finish(&detok, text);
}
