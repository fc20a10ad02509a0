
/*
 * A request that ends before its answer does: its client left, or an operator
 * ended it.  The calls are cancelled, but what they cost is known only when
 * the engine has said DONE, after the step that it is in.  So the request
 * stays that long, deaf to everything else: usage, limits and the log are
 * exact for a cancelled answer as for a whole one.
 *
 * A client that left leaves a request that nginx closes at once; "blocked"
 * is nginx's own way to keep it, as for a file that is being read.
 * Workers only.
 */

#include "gateway/ngx_http_mistral_policy.h"


/* a hung engine is found out earlier; this is for whatever else */
#define NGX_HTTP_MISTRAL_UNWIND   60000        /* ms */

#define NGX_HTTP_MISTRAL_BLOCKED  255          /* nginx has eight bits */


static void ngx_http_mistral_unwind_record(ngx_http_mistral_call_t *call,
    const mst_record_t *rec);
static void ngx_http_mistral_unwind_lost(ngx_http_mistral_call_t *call);
static void ngx_http_mistral_unwind_pass(ngx_http_mistral_call_t *call);
static void ngx_http_mistral_unwind_timeout(ngx_event_t *ev);
static void ngx_http_mistral_unwind_end(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_left(ngx_http_mistral_ctx_t *ctx);


ngx_int_t
ngx_http_mistral_unwind(ngx_http_mistral_ctx_t *ctx,
    void (*handler)(ngx_http_mistral_ctx_t *ctx))
{
    uint32_t                    i;
    ngx_http_mistral_choice_t  *choice;

    ctx->unwound = handler;

    if (ctx->unwinding) {
        return NGX_OK;
    }

    for (i = 0; i < ctx->n_choices; i++) {
        choice = &ctx->choices[i];

        if (!choice->call.inflight) {
            ngx_http_mistral_link_end(&choice->call);
            continue;
        }

        ctx->unwinding = 1;

        choice->call.record = ngx_http_mistral_unwind_record;
        choice->call.lost = ngx_http_mistral_unwind_lost;
        choice->call.pass = ngx_http_mistral_unwind_pass;

        ngx_http_mistral_link_cancel(&choice->call);
    }

    if (!ctx->unwinding) {
        return NGX_DECLINED;
    }

    if (ctx->handing) {
        ctx->handing = 0;
        ngx_queue_remove(&ctx->queue);
    }

    ctx->timer.handler = ngx_http_mistral_unwind_timeout;
    ngx_add_timer(&ctx->timer, NGX_HTTP_MISTRAL_UNWIND);

    return NGX_OK;
}


static void
ngx_http_mistral_unwind_record(ngx_http_mistral_call_t *call,
    const mst_record_t *rec)
{
    const mst_rec_tokens_t     *tokens;
    ngx_http_mistral_choice_t  *choice;

    choice = call->data;

    if (rec->type == MST_REC_ADMIT && !choice->source->admitted) {
        choice->source->cached = ((const mst_rec_admit_t *) rec)->cached;
        choice->source->admitted = 1;
    }

    if (rec->type == MST_REC_TOKENS) {
        tokens = (const mst_rec_tokens_t *) rec;

        if (tokens->first == choice->tokens
            && tokens->n <= ngx_max(choice->max_tokens, 1) - choice->tokens)
        {
            choice->tokens += tokens->n;
        }
    }

    if (rec->type == MST_REC_DONE) {
        ngx_http_mistral_take_usage(choice, (const mst_rec_done_t *) rec);

        choice->done = 1;
        choice->reason = "cancelled";
        choice->ctx->n_done++;
    }
}


/* the engine died with what it knew: what came from it is all there is */

static void
ngx_http_mistral_unwind_lost(ngx_http_mistral_call_t *call)
{
}


static void
ngx_http_mistral_unwind_pass(ngx_http_mistral_call_t *call)
{
    uint32_t                    i;
    ngx_http_mistral_ctx_t     *ctx;
    ngx_http_mistral_choice_t  *choice;

    choice = call->data;
    ctx = choice->ctx;

    for (i = 0; i < ctx->n_choices; i++) {
        if (ctx->choices[i].call.inflight) {
            return;
        }
    }

    ngx_http_mistral_unwind_end(ctx);
}


static void
ngx_http_mistral_unwind_timeout(ngx_event_t *ev)
{
    ngx_http_mistral_unwind_end(ev->data);
}


static void
ngx_http_mistral_unwind_end(ngx_http_mistral_ctx_t *ctx)
{
    ngx_connection_t  *c;

    c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    ctx->unwinding = 0;
    ngx_http_mistral_release(ctx);

    ctx->unwound(ctx);

    ngx_http_run_posted_requests(c);
}


/*
 * The request is being closed, by its client that left or by our failing to
 * send: the only ways for it to end with calls in flight and no error.
 * NGX_OK: it is kept.
 */

ngx_int_t
ngx_http_mistral_leave(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_request_t  *r;

    r = ctx->request;

    /* with nobody who counts the request nothing keeps it */

    if (ctx->left || r->main->count == 0
        || r->main->blocked == NGX_HTTP_MISTRAL_BLOCKED
        || (ctx->error.status && !ctx->unwinding)
        || ngx_http_mistral_unwind(ctx, ngx_http_mistral_left) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    ctx->left = 1;

    ngx_http_mistral_mark_aborted(ctx);

    r->main->blocked++;
    r->read_event_handler = ngx_http_block_reading;

    return NGX_OK;
}


static void
ngx_http_mistral_left(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_request_t  *mr;

    mr = ctx->request->main;

    ngx_http_mistral_closed(ctx);

    mr->blocked--;

    ngx_http_finalize_request(mr, NGX_ERROR);
}
