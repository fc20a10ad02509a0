
/*
 * From messages or text to token ids, in the worker.
 *
 * A text above NGX_HTTP_MISTRAL_AT_ONCE bytes is encoded in slices of about
 * 1.5 ms, one slice per turn of the event loop for all such requests
 * together, so that a stream of this worker never waits longer however many
 * long prompts arrive.
 */

#include "gateway/ngx_http_mistral_request.h"

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_AT_ONCE  32768        /* bytes of text */
#define NGX_HTTP_MISTRAL_SLICE    (1500 * 1000)  /* ns */
#define NGX_HTTP_MISTRAL_BUDGET   4096         /* bytes between two looks at
                                                  the clock */


static ngx_int_t ngx_http_mistral_build(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_build_chat(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_build_text(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_encode_handler(ngx_event_t *ev);
static void ngx_http_mistral_enqueue(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_encoded(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_tokenize(ngx_http_mistral_ctx_t *ctx);
static int ngx_http_mistral_add_text(ngx_http_mistral_ctx_t *ctx,
    mst_buf_t *text);


/* of this worker: the requests that encode, each in its turn */
static ngx_queue_t  ngx_http_mistral_encode_queue;
static ngx_event_t  ngx_http_mistral_encode_event;


void
ngx_http_mistral_prompt(ngx_http_mistral_ctx_t *ctx)
{
    int                           rc;
    ngx_http_mistral_loc_conf_t  *mlcf;

    if (ctx->body->prompt_ids) {
        ctx->ids = ctx->body->prompt_ids;
        ctx->n_ids = ctx->body->n_prompt_ids;
        ngx_http_mistral_encoded(ctx);
        return;
    }

    switch (ngx_http_mistral_build(ctx)) {

    case NGX_OK:
        break;

    case NGX_DECLINED:
        ngx_http_mistral_fail(ctx);
        return;

    default:
        ngx_http_mistral_fail_internal(ctx);
        return;
    }

    if (ctx->prompt.text.len > NGX_HTTP_MISTRAL_AT_ONCE) {
        mlcf = ngx_http_get_module_loc_conf(ctx->request,
                                            ngx_http_mistral_module);

        ngx_add_timer(&ctx->timer, mlcf->queue_timeout);
        ngx_http_mistral_enqueue(ctx);

        if (ngx_http_mistral_watch(ctx) != NGX_OK) {
            ngx_http_mistral_finish(ctx, NGX_ERROR);
        }

        return;
    }

    do {
        rc = mst_encode_run(ctx->encode, ctx->prompt.text.len + 1);
    } while (rc == MST_AGAIN);

    if (rc != MST_OK) {
        ngx_http_mistral_fail_internal(ctx);
        return;
    }

    ngx_http_mistral_encoded(ctx);
}


static ngx_int_t
ngx_http_mistral_build(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t  rc;

    rc = ctx->body->n_messages ? ngx_http_mistral_build_chat(ctx)
                               : ngx_http_mistral_build_text(ctx);
    if (rc != NGX_OK) {
        return rc;
    }

    ctx->encode = mst_encode_create(ctx->model->tokenizer, &ctx->prompt);

    return ctx->encode ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_mistral_build_chat(ngx_http_mistral_ctx_t *ctx)
{
    mst_err_t  err;

    err.text[0] = '\0';

    if (ctx->model->template == NULL) {
        (void) mst_err_set(&err, "The model \"%.*s\" has no chat template.",
                           (int) ctx->model->name.len,
                           (char *) ctx->model->name.data);

    } else if (mst_template_render(ctx->model->template, ctx->body->messages,
                                   ctx->body->n_messages, &ctx->prompt, &err)
               == MST_OK)
    {
        return NGX_OK;
    }

    if (err.text[0] == '\0') {
        return NGX_ERROR;
    }

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                             "invalid_value", "messages", "%s", err.text);

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mistral_build_text(ngx_http_mistral_ctx_t *ctx)
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
        rc = mst_prompt_control(&ctx->prompt, (uint32_t) info->bos_id);
    }

    if (rc == MST_OK) {
        rc = mst_prompt_text(&ctx->prompt, body->prompt.data,
                             body->prompt.len);
    }

    if (rc == MST_OK && eos) {
        rc = mst_prompt_control(&ctx->prompt, (uint32_t) info->eos_id);
    }

    return rc == MST_OK ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_mistral_enqueue(ngx_http_mistral_ctx_t *ctx)
{
    ngx_event_t  *ev;

    ev = &ngx_http_mistral_encode_event;

    if (ev->handler == NULL) {
        ngx_queue_init(&ngx_http_mistral_encode_queue);
        ev->handler = ngx_http_mistral_encode_handler;
        ev->log = ngx_cycle->log;
    }

    ngx_queue_insert_tail(&ngx_http_mistral_encode_queue, &ctx->queue);
    ctx->encoding = 1;

    ngx_post_event(ev, &ngx_posted_next_events);
}


static void
ngx_http_mistral_encode_handler(ngx_event_t *ev)
{
    int                      rc;
    uint64_t                 end;
    ngx_queue_t             *q;
    ngx_connection_t        *c;
    ngx_http_mistral_ctx_t  *ctx;

    if (ngx_queue_empty(&ngx_http_mistral_encode_queue)) {
        return;
    }

    q = ngx_queue_head(&ngx_http_mistral_encode_queue);
    ngx_queue_remove(q);

    if (!ngx_queue_empty(&ngx_http_mistral_encode_queue)) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }

    ctx = ngx_queue_data(q, ngx_http_mistral_ctx_t, queue);
    ctx->encoding = 0;

    c = ctx->request->connection;
    ngx_http_set_log_request(c->log, ctx->request);

    end = mst_time_ns() + NGX_HTTP_MISTRAL_SLICE;

    do {
        rc = mst_encode_run(ctx->encode, NGX_HTTP_MISTRAL_BUDGET);
    } while (rc == MST_AGAIN && mst_time_ns() < end);

    if (rc == MST_AGAIN) {
        ngx_http_mistral_enqueue(ctx);
        return;
    }

    ngx_del_timer(&ctx->timer);

    if (rc == MST_OK) {
        ngx_http_mistral_encoded(ctx);

    } else {
        ngx_http_mistral_fail_internal(ctx);
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_mistral_encoded(ngx_http_mistral_ctx_t *ctx)
{
    if (ctx->encode) {
        ctx->ids = mst_encode_ids(ctx->encode, &ctx->n_ids);
    }

    if (ctx->api == MST_API_TOKENIZE) {
        ngx_http_mistral_tokenize(ctx);

    } else {
        ngx_http_mistral_submit(ctx);
    }
}


static void
ngx_http_mistral_tokenize(ngx_http_mistral_ctx_t *ctx)
{
    int           rc;
    size_t        i;
    mst_buf_t     out;
    mst_str_t    *strs;

    strs = NULL;

    if (ctx->body->return_token_strs) {
        strs = ngx_alloc((ctx->n_ids + 1) * sizeof(mst_str_t),
                         ctx->request->connection->log);
        if (strs == NULL) {
            ngx_http_mistral_fail_internal(ctx);
            return;
        }

        for (i = 0; i < ctx->n_ids; i++) {
            strs[i] = mst_tokenizer_name(ctx->model->tokenizer, ctx->ids[i]);
        }
    }

    mst_buf_init(&out);

    rc = mst_reply_tokens(ctx->ids, strs, ctx->n_ids, ctx->model->context,
                          &out);
    ngx_free(strs);

    if (rc != MST_OK) {
        mst_buf_fini(&out);
        ngx_http_mistral_fail_internal(ctx);
        return;
    }

    ngx_http_mistral_finish(ctx, ngx_http_mistral_send_json(ctx->request,
                                                            NGX_HTTP_OK,
                                                            &out));
}


void
ngx_http_mistral_detokenize(ngx_http_mistral_ctx_t *ctx)
{
    int        rc;
    mst_buf_t  text, out;

    mst_buf_init(&text);
    mst_buf_init(&out);

    rc = ngx_http_mistral_add_text(ctx, &text);

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

static int
ngx_http_mistral_add_text(ngx_http_mistral_ctx_t *ctx, mst_buf_t *text)
{
    int               rc;
    size_t            i;
    uint32_t          id;
    mst_detok_t       detok;
    mst_tokenizer_t  *t;

    t = ctx->model->tokenizer;
    mst_detok_init(&detok, t);

    for (i = 0; i < ctx->body->n_prompt_ids; i++) {
        id = ctx->body->prompt_ids[i];

        if (!mst_tokenizer_is_control(t, id)) {
            rc = mst_detok_push(&detok, id, text);

        } else if ((rc = mst_detok_finish(&detok, text)) == MST_OK) {
            rc = mst_buf_str(text, mst_tokenizer_name(t, id));
            mst_detok_init(&detok, t);
        }

        if (rc != MST_OK) {
            return rc;
        }
    }

    return mst_detok_finish(&detok, text);
}
