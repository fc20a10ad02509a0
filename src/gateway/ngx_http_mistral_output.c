
/*
 * What the client gets: a stream's chunks or one JSON object.
 *
 * A stream's chunks are gathered in ctx->out and passed to the filters once
 * per turn of the ring, and only when the previous buffer is sent: nginx's
 * write filter walks its whole chain at each call, so that a buffer per token
 * would cost O(n^2) with a slow reader.  ctx->out is bounded; a client that
 * falls further behind is dropped and its sequences with it.
 *
 * The 200 goes out with the first text: until then a failure has a status of
 * its own.  Afterwards it is an error event and a closed connection, never
 * the last chunk.  Workers only.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_stream.h"


#define NGX_HTTP_MISTRAL_MAX_PENDING  (1024 * 1024)    /* bytes */


static void ngx_http_mistral_answer(ngx_http_mistral_ctx_t *ctx);
static int ngx_http_mistral_end_stream(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_stream_header(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_answer_headers(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_stream(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_flush(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_send_buf(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_wait_writable(ngx_http_request_t *r);
static void ngx_http_mistral_client_gone(ngx_http_mistral_ctx_t *ctx,
    ngx_int_t rc);
static void ngx_http_mistral_unheard(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_write_handler(ngx_http_request_t *r);


void
ngx_http_mistral_advance(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t  rc;

    if (ctx->unwinding) {
        return;
    }

    if (!ctx->error.status) {
        rc = ngx_http_mistral_policy_progress(ctx);

        if (rc != NGX_OK && rc != NGX_DECLINED) {
            ngx_http_mistral_fail_internal(ctx);
            return;
        }
    }

    if (ctx->error.status && !ctx->header_sent) {
        ngx_http_mistral_fail(ctx);
        return;
    }

    if (ctx->error.status || ctx->n_done == ctx->n_choices) {
        ngx_http_mistral_policy_settle(ctx);
    }

    if (!ctx->body->stream) {
        if (ctx->n_done == ctx->n_choices) {
            ngx_http_mistral_answer(ctx);
        }

        return;
    }

    if (ctx->error.status) {
        if (!ctx->closing) {
            ctx->closing = 1;
            ctx->aborted = "error";
            ngx_http_mistral_release(ctx);
            (void) ngx_http_mistral_chunks(ctx);
            (void) mst_reply_sse_error(&ctx->error, &ctx->out);
        }

    } else if (ctx->n_done == ctx->n_choices && !ctx->last) {
        ctx->last = 1;
        (void) ngx_http_mistral_end_stream(ctx);
    }

    ngx_http_mistral_stream(ctx);
}


static void
ngx_http_mistral_answer(ngx_http_mistral_ctx_t *ctx)
{
    int                         rc;
    uint32_t                    i, n;
    mst_buf_t                   out;
    mst_usage_t                 usage;
    mst_reply_choice_t         *list;
    ngx_http_mistral_choice_t  *choice;

    mst_buf_init(&out);
    ngx_http_mistral_usage(ctx, &usage);

    n = ctx->n_choices * ctx->n_copies;

    list = ngx_pcalloc(ctx->request->pool, n * sizeof(mst_reply_choice_t));
    if (list == NULL) {
        ngx_http_mistral_fail_internal(ctx);
        return;
    }

    for (i = 0; i < n; i++) {
        choice = &ctx->choices[i / ctx->n_copies];

        list[i].part.text = mst_str(choice->text.data, choice->text.len);
        list[i].part.thought = mst_str(choice->thought.data,
                                       choice->thought.len);
        list[i].part.calls = mst_reply_call_take(&choice->calls);
        list[i].logprobs = ctx->body->logprobs ? &choice->logprobs : NULL;
        list[i].reason = choice->reason;
    }

    rc = mst_reply_json(&ctx->reply, list, n, &usage, &out);

    if (rc != MST_OK || ngx_http_mistral_answer_headers(ctx) != NGX_OK) {
        mst_buf_fini(&out);
        ngx_http_mistral_fail_internal(ctx);
        return;
    }

    ctx->header_sent = 1;

    ngx_http_mistral_finish(ctx, ngx_http_mistral_send_json(ctx->request,
                                                            NGX_HTTP_OK,
                                                            &out));
}


static int
ngx_http_mistral_end_stream(ngx_http_mistral_ctx_t *ctx)
{
    mst_usage_t  usage;

    if (ctx->body->include_usage) {
        ngx_http_mistral_usage(ctx, &usage);

        if (mst_reply_sse_usage(&ctx->reply, &usage, &ctx->out) != MST_OK) {
            return MST_ERROR;
        }
    }

    return mst_reply_sse_done(&ctx->out);
}


static void
ngx_http_mistral_stream(ngx_http_mistral_ctx_t *ctx)
{
    size_t               pending;
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = ctx->request;

    if (ctx->gone) {
        ngx_http_mistral_unheard(ctx);
        return;
    }

    if (!ctx->header_sent) {
        if (ctx->out.len == 0) {
            return;
        }

        ctx->header_sent = 1;
        rc = ngx_http_mistral_stream_header(ctx);

        if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
            ngx_http_mistral_finish(ctx, rc);
            return;
        }
    }

    if (ctx->out.failed) {
        ngx_http_mistral_finish(ctx, NGX_ERROR);
        return;
    }

    if (ngx_http_mistral_flush(ctx) != NGX_OK) {
        ngx_http_mistral_client_gone(ctx, NGX_ERROR);
        return;
    }

    if (ctx->closing && (r != r->main
                         || (ctx->out.len == 0 && ctx->busy == NULL)))
    {
        ngx_http_mistral_finish(ctx, NGX_ERROR);
        return;
    }

    /* from here nginx itself sends what is left */

    if (ctx->last && ctx->out.len == 0) {
        ngx_http_mistral_finish(ctx, NGX_OK);
        return;
    }

    pending = ngx_http_mistral_pending(ctx);

    if (pending > NGX_HTTP_MISTRAL_MAX_PENDING) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "mistral: request \"%V\": client is too slow, %uz bytes "
                      "are waiting for it", &ctx->id, pending);

        r->connection->timedout = 1;
        ngx_http_mistral_client_gone(ctx, NGX_ERROR);
        return;
    }

    ngx_http_mistral_stream_behind(ctx, pending);
}


/* whatever was for the client is for nobody now */

static void
ngx_http_mistral_client_gone(ngx_http_mistral_ctx_t *ctx, ngx_int_t rc)
{
    ngx_event_t  *wev;

    ngx_http_mistral_mark_aborted(ctx);

    if (ctx->closing || ctx->last || !ngx_http_mistral_stream_goes_on(ctx)) {
        ngx_http_mistral_finish(ctx, rc);
        return;
    }

    ctx->gone = 1;
    wev = ctx->request->connection->write;

    if (ctx->request == ctx->request->main && wev->timer_set) {
        ngx_del_timer(wev);
    }

    ngx_http_mistral_stream_pause(ctx, 0);
    ngx_http_mistral_unheard(ctx);
}


static void
ngx_http_mistral_unheard(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t  i;

    mst_buf_reset(&ctx->out);

    for (i = 0; i < ctx->n_choices; i++) {
        mst_buf_reset(&ctx->choices[i].text);
        mst_buf_reset(&ctx->choices[i].thought);
        mst_reply_call_reset(&ctx->choices[i].calls);
        mst_reply_logprobs_reset(&ctx->choices[i].logprobs);
    }

    if (ctx->last || ctx->closing) {
        ngx_http_mistral_finish(ctx, NGX_HTTP_CLIENT_CLOSED_REQUEST);
    }
}


static ngx_int_t
ngx_http_mistral_stream_header(ngx_http_mistral_ctx_t *ctx)
{
    ngx_str_t            value;
    ngx_http_request_t  *r;

    r = ctx->request;

    r->headers_out.status = NGX_HTTP_OK;
    ngx_str_set(&r->headers_out.content_type, "text/event-stream");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    ngx_http_clear_content_length(r);
    ngx_http_clear_accept_ranges(r);
    r->disable_not_modified = 1;

    if (ngx_http_mistral_answer_headers(ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_str_set(&value, "no-cache");

    if (ngx_http_mistral_add_header(r, "Cache-Control", &value) != NGX_OK) {
        return NGX_ERROR;
    }

    /* for another nginx before this one */

    ngx_str_set(&value, "no");

    if (ngx_http_mistral_add_header(r, "X-Accel-Buffering", &value) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_send_header(r);
}


static ngx_int_t
ngx_http_mistral_answer_headers(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_request_t  *r;

    r = ctx->request;

    if (ngx_http_mistral_add_header(r, "X-Mistral-Model", &ctx->model->name)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mistral_policy_headers(ctx);
}


static ngx_int_t
ngx_http_mistral_flush(ngx_http_mistral_ctx_t *ctx)
{
    ngx_chain_t         *out;
    ngx_http_request_t  *r;

    r = ctx->request;

    if (ctx->busy || r->connection->write->delayed) {
        if (ngx_http_output_filter(r, NULL) == NGX_ERROR) {
            return NGX_ERROR;
        }

        out = NULL;
        ngx_chain_update_chains(r->pool, &ctx->free, &ctx->busy, &out,
                                (ngx_buf_tag_t) &ngx_http_mistral_module);

        if (ctx->busy == NULL) {
            ctx->delivered = ctx->sending;
        }
    }

    if (ctx->busy == NULL && ngx_http_mistral_chunks(ctx) != MST_OK) {
        return NGX_ERROR;
    }

    if (ctx->busy == NULL && ctx->out.len
        && ngx_http_mistral_send_buf(ctx) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return r == r->main ? ngx_http_mistral_wait_writable(r) : NGX_OK;
}


/* all that is gathered as one buffer; gathering goes on in the spare one */

static ngx_int_t
ngx_http_mistral_send_buf(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t            rc;
    ngx_buf_t           *b;
    mst_buf_t            full;
    ngx_chain_t         *cl;
    ngx_http_request_t  *r;

    r = ctx->request;

    cl = ngx_chain_get_free_buf(r->pool, &ctx->free);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    full = ctx->out;
    ctx->out = ctx->spare;
    ctx->spare = full;
    mst_buf_reset(&ctx->out);

    b = cl->buf;
    ngx_memzero(b, sizeof(ngx_buf_t));

    b->start = (u_char *) full.data;
    b->pos = b->start;
    b->last = b->start + full.len;
    b->end = b->start + full.size;
    b->temporary = 1;
    b->flush = 1;
    b->tag = (ngx_buf_tag_t) &ngx_http_mistral_module;

    if (ctx->last) {
        b->last_buf = (r == r->main) ? 1 : 0;
        b->last_in_chain = 1;
    }

    ctx->sending = ctx->gathered;
    ctx->sent_ms = ngx_current_msec;

    rc = ngx_http_output_filter(r, cl);

    ngx_chain_update_chains(r->pool, &ctx->free, &ctx->busy, &cl,
                            (ngx_buf_tag_t) &ngx_http_mistral_module);

    if (rc != NGX_ERROR && ctx->busy == NULL) {
        ctx->delivered = ctx->sending;
    }

    return rc == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


static ngx_int_t
ngx_http_mistral_wait_writable(ngx_http_request_t *r)
{
    ngx_event_t               *wev;
    ngx_http_core_loc_conf_t  *clcf;

    wev = r->connection->write;
    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (r->connection->buffered || r->buffered) {

        if (!wev->delayed && !wev->timer_set) {
            ngx_add_timer(wev, clcf->send_timeout);
        }

        if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
            return NGX_ERROR;
        }

    } else if (wev->timer_set && !wev->delayed) {
        ngx_del_timer(wev);
    }

    return NGX_OK;
}


static void
ngx_http_mistral_write_handler(ngx_http_request_t *r)
{
    ngx_event_t             *wev;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_mistral_module);
    wev = r->connection->write;

    if (ctx->gone) {
        return;
    }

    if (wev->timedout) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, NGX_ETIMEDOUT,
                      "client timed out");

        r->connection->timedout = 1;
        wev->timedout = 0;
        ngx_http_mistral_client_gone(ctx, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    /* HTTP/3: STOP_SENDING shows here only */

    if (wev->error) {
        ngx_http_mistral_client_gone(ctx, NGX_HTTP_CLIENT_CLOSED_REQUEST);
        return;
    }

    if (!ctx->header_sent) {
        return;
    }

    /* the client reads: its time starts anew */

    if (r == r->main && wev->timer_set && !wev->delayed && wev->ready) {
        ngx_del_timer(wev);
    }

    ngx_http_mistral_stream(ctx);
}


/*
 * From now on the client's leaving is noticed at once.  A FIN that came
 * together with the request raises no new event: look once.
 */

ngx_int_t
ngx_http_mistral_watch(ngx_http_mistral_ctx_t *ctx)
{
    ngx_event_t         *rev;
    ngx_http_request_t  *r;

    if (ctx->watched) {
        return NGX_OK;
    }

    ctx->watched = 1;

    r = ctx->request;
    r->write_event_handler = ngx_http_mistral_write_handler;

    if (r != r->main) {
        return NGX_OK;
    }

    if (ngx_http_mistral_stream_goes_on(ctx)) {
        r->read_event_handler = ngx_http_block_reading;
        return NGX_OK;
    }

    r->read_event_handler = ngx_http_test_reading;
    rev = r->connection->read;

    if (rev->ready) {
        ngx_post_event(rev, &ngx_posted_events);
        return NGX_OK;
    }

    return ngx_handle_read_event(rev, 0);
}


uint64_t
ngx_http_mistral_delivered(ngx_http_mistral_ctx_t *ctx)
{
    mst_usage_t          usage;
    ngx_http_request_t  *r;

    r = ctx->request;

    if (ctx->n_choices == 0 || !ctx->header_sent) {
        return 0;
    }

    if (!ctx->closed) {
        return ctx->delivered;
    }

    ngx_http_mistral_usage(ctx, &usage);

    /* nginx itself has sent what was left at the end */

    if (ctx->aborted == NULL && !r->connection->error
        && !r->connection->timedout && !r->connection->buffered)
    {
        return usage.completion;
    }

    if (ctx->busy && ngx_buf_size(ctx->busy->buf) == 0) {
        ctx->delivered = ctx->sending;
    }

    return ngx_min(ctx->delivered, usage.completion);
}


void
ngx_http_mistral_finish(ngx_http_mistral_ctx_t *ctx, ngx_int_t rc)
{
    ngx_http_request_t  *r;

    r = ctx->request;

    if (ctx->unwinding) {
        return;                                /* it will be closed, or fail */
    }

    /* who goes without an error of ours is followed by leave() */

    if (ctx->error.status
        || (rc != NGX_ERROR && rc != NGX_HTTP_REQUEST_TIME_OUT
            && rc != NGX_HTTP_CLIENT_CLOSED_REQUEST))
    {
        ngx_http_mistral_release(ctx);
    }

    if (r->read_event_handler == ngx_http_test_reading) {
        r->read_event_handler = ngx_http_block_reading;
    }

    ngx_http_finalize_request(r, rc);
}
