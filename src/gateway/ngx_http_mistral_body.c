
/*
 * From the bytes of a body to the request that they are, in turns where they
 * are many.  Nobody awaits anything meanwhile, so a timer says that the worker
 * may not exit yet.  Workers only.
 */

#include "gateway/ngx_http_mistral_request.h"

#include "base/mst_mem.h"
#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_BODY_BUDGET  8192     /* bytes between two looks at
                                                  the clock */
#define NGX_HTTP_MISTRAL_BODY_ALIVE   1000     /* ms */


static ngx_int_t ngx_http_mistral_body_open(ngx_http_mistral_ctx_t *ctx);
static u_char *ngx_http_mistral_body_gather(ngx_http_request_t *r,
    size_t *len);
static ngx_int_t ngx_http_mistral_body_run(ngx_http_mistral_ctx_t *ctx,
    uint64_t end);
static void ngx_http_mistral_body_turn(ngx_http_mistral_ctx_t *ctx,
    uint64_t end);
static void ngx_http_mistral_body_alive(ngx_event_t *ev);


void
ngx_http_mistral_parse(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_parsed_pt handler)
{
    ngx_int_t  rc;

    if (ctx->parsed) {
        handler(ctx, ctx->body ? NGX_OK : ctx->error.status ? NGX_DECLINED
                                                            : NGX_ERROR);
        return;
    }

    ctx->parsed = 1;
    rc = ngx_http_mistral_body_open(ctx);

    if (rc == NGX_OK && ctx->text_len > NGX_HTTP_MISTRAL_AT_ONCE) {
        ctx->parsed_handler = handler;
        ctx->request->write_event_handler = ngx_http_request_empty_handler;

        ctx->timer.handler = ngx_http_mistral_body_alive;
        ngx_add_timer(&ctx->timer, NGX_HTTP_MISTRAL_BODY_ALIVE);

        ngx_http_mistral_take_turn(ctx, ngx_http_mistral_body_turn);
        return;
    }

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_body_run(ctx, 0);
    }

    ngx_http_mistral_body_fini(ctx);
    handler(ctx, rc);
}


static ngx_int_t
ngx_http_mistral_body_open(ngx_http_mistral_ctx_t *ctx)
{
    u_char       *data;
    ngx_chain_t  *cl;

    cl = ctx->request->request_body ? ctx->request->request_body->bufs : NULL;

    if (cl && cl->next == NULL && ngx_buf_in_memory(cl->buf)) {
        data = cl->buf->pos;
        ctx->text_len = cl->buf->last - cl->buf->pos;

    } else {
        data = ngx_http_mistral_body_gather(ctx->request, &ctx->text_len);
        ctx->text = data;

        if (data == NULL) {
            return NGX_ERROR;
        }
    }

    ctx->reader = mst_json_read_create((char *) data, ctx->text_len);

    return ctx->reader ? NGX_OK : NGX_ERROR;
}


void
ngx_http_mistral_body_fini(ngx_http_mistral_ctx_t *ctx)
{
    mst_json_read_destroy(ctx->reader);
    ctx->reader = NULL;

    if (ctx->text) {
        mst_free(ctx->text);
        ctx->text = NULL;
    }
}


/* the buffers stay as they are: a fallback sends them to somebody else */

static u_char *
ngx_http_mistral_body_gather(ngx_http_request_t *r, size_t *len)
{
    off_t         size;
    u_char       *p, *copy;
    ssize_t       n;
    ngx_buf_t    *b;
    ngx_chain_t  *cl, *bufs;

    bufs = r->request_body ? r->request_body->bufs : NULL;
    size = 0;

    for (cl = bufs; cl; cl = cl->next) {
        size += ngx_buf_size(cl->buf);
    }

    copy = mst_alloc((size_t) size + 1);
    if (copy == NULL) {
        return NULL;
    }

    p = copy;

    for (cl = bufs; cl; cl = cl->next) {
        b = cl->buf;

        if (ngx_buf_in_memory(b)) {
            p = ngx_cpymem(p, b->pos, b->last - b->pos);
            continue;
        }

        if (!b->in_file) {
            continue;                          /* the end of the chunks */
        }

        n = ngx_read_file(b->file, p, (size_t) (b->file_last - b->file_pos),
                          b->file_pos);

        if (n != (ssize_t) (b->file_last - b->file_pos)) {
            mst_free(copy);
            return NULL;
        }

        p += n;
    }

    *len = p - copy;

    return copy;
}


/* NGX_AGAIN: it is past "end", which 0 is not, or what comes next is better
   done in another turn */

static ngx_int_t
ngx_http_mistral_body_run(ngx_http_mistral_ctx_t *ctx, uint64_t end)
{
    int  rc;

    if (!ctx->read) {
        do {
            rc = mst_json_read_run(ctx->reader, NGX_HTTP_MISTRAL_BODY_BUDGET,
                                   &ctx->error);
        } while (rc == MST_AGAIN && (end == 0 || mst_time_ns() < end));

        if (rc == MST_ERROR) {
            return NGX_DECLINED;
        }

        ctx->read = (rc == MST_OK);

        if (end) {
            return NGX_AGAIN;
        }
    }

    ctx->body = mst_request_take(ctx->api, mst_json_read_take(ctx->reader),
                                 ctx->text_len, &ctx->error);

    return ctx->body ? NGX_OK : ctx->error.status ? NGX_DECLINED : NGX_ERROR;
}


static void
ngx_http_mistral_body_turn(ngx_http_mistral_ctx_t *ctx, uint64_t end)
{
    ngx_int_t  rc;

    rc = ngx_http_mistral_body_run(ctx, end);

    if (rc == NGX_AGAIN) {
        ngx_http_mistral_take_turn(ctx, ngx_http_mistral_body_turn);
        return;
    }

    ngx_del_timer(&ctx->timer);
    ctx->timer.handler = ngx_http_mistral_timeout;

    ngx_http_mistral_body_fini(ctx);
    ctx->parsed_handler(ctx, rc);
}


static void
ngx_http_mistral_body_alive(ngx_event_t *ev)
{
    ngx_add_timer(ev, NGX_HTTP_MISTRAL_BODY_ALIVE);
}
