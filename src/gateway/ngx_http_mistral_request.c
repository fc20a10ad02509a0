
/*
 * The content handler: checks, body, model; and the life of a request's
 * context.  Workers only.
 *
 * What can be refused is refused as early as it is known, and before the
 * first token with a status of its own.  An engine that is known to be down
 * is 503 before the body is read, so that a fallback costs nothing.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_wait.h"

#include <sys/random.h>

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_RANDOM  1024          /* bytes at a time */


static ngx_int_t ngx_http_mistral_not_found(ngx_http_request_t *r);
static ngx_http_mistral_ctx_t *ngx_http_mistral_enter(ngx_http_request_t *r,
    mst_api_t api);
static ngx_int_t ngx_http_mistral_create_id(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_read_handler(ngx_http_request_t *r);
static void ngx_http_mistral_body_handler(ngx_http_request_t *r);
static void ngx_http_mistral_parsed(ngx_http_mistral_ctx_t *ctx,
    ngx_int_t rc);
static ngx_int_t ngx_http_mistral_resolve(ngx_http_mistral_ctx_t *ctx);
static void ngx_http_mistral_cleanup(void *data);
static void ngx_http_mistral_forget_variables(ngx_http_request_t *r);
static void ngx_http_mistral_free(void *data);


ngx_int_t
ngx_http_mistral_handler(ngx_http_request_t *r)
{
    ngx_int_t                     rc;
    mst_api_t                     api;
    mst_str_t                     id;
    const char                   *allow;
    mst_api_error_t               e;
    ngx_http_mistral_ctx_t       *ctx;
    ngx_http_mistral_loc_conf_t  *mlcf;

    api = mst_api_find(mst_str((char *) r->uri.data, r->uri.len), &id);

    if (api == MST_API_UNKNOWN) {
        return ngx_http_mistral_not_found(r);
    }

    ctx = ngx_http_mistral_enter(r, api);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    allow = mst_api_allow(api);

    if (r->method == NGX_HTTP_OPTIONS) {
        return ngx_http_mistral_send_options(r, allow);
    }

    if (!ngx_http_mistral_method_allowed(r, allow)) {
        return ngx_http_mistral_refuse_method(r, allow);
    }

    if (api == MST_API_MODELS || api == MST_API_MODEL) {
        return ngx_http_mistral_models(r, api, &id);
    }

    ngx_memzero(&e, sizeof(mst_api_error_t));

    if (ngx_http_mistral_check_type(r, &e) != NGX_OK) {
        return ngx_http_mistral_refuse(r, &e, NULL);
    }

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);

    /* mistral_preread may know already what is wrong with the body */

    rc = mlcf->model && !ctx->error.status
         ? ngx_http_mistral_look(ctx, mlcf->model) : NGX_OK;

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DECLINED) {

        if (!ngx_http_mistral_policy_elsewhere(ctx)) {
            ngx_http_mistral_log_state(ctx);
            return ngx_http_mistral_refuse(r, &ctx->error, ctx->shed);
        }

        ngx_http_mistral_forget_error(ctx);
    }

    if (rc != NGX_OK) {
        ctx->model = NULL;
    }

    rc = ngx_http_mistral_read_body(r, ngx_http_mistral_body_handler);

    return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
}


/* what mistral_preread began is gone on with */

static ngx_http_mistral_ctx_t *
ngx_http_mistral_enter(ngx_http_request_t *r, mst_api_t api)
{
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_mistral_get_ctx(r);

    if (ctx == NULL || ctx->entered || ctx->api != api) {
        ctx = ngx_http_mistral_create_ctx(r, api);
    }

    if (ctx) {
        ctx->entered = 1;
        ctx->loc_conf = r->loc_conf;
        ngx_http_set_ctx(r, ctx, ngx_http_mistral_module);
    }

    return ctx;
}


ngx_int_t
ngx_http_mistral_read_body(ngx_http_request_t *r,
    ngx_http_client_body_handler_pt handler)
{
    ngx_int_t                rc;
    ngx_http_mistral_ctx_t  *ctx;

    rc = ngx_http_read_client_request_body(r, handler);

    /* after NGX_OK the request may be gone */

    if (rc == NGX_AGAIN) {
        ctx = ngx_http_get_module_ctx(r, ngx_http_mistral_module);

        ctx->read_body = r->read_event_handler;
        r->read_event_handler = ngx_http_mistral_read_handler;
    }

    return rc;
}


static ngx_int_t
ngx_http_mistral_not_found(ngx_http_request_t *r)
{
    mst_api_error_t  e;

    ngx_memzero(&e, sizeof(mst_api_error_t));
    (void) mst_api_error_set(&e, NGX_HTTP_NOT_FOUND, "unknown_url", "",
                             "There is no API at this URL (%.*s).",
                             (int) ngx_min(r->uri.len, 200),
                             (char *) r->uri.data);

    return ngx_http_mistral_refuse(r, &e, NULL);
}


ngx_http_mistral_ctx_t *
ngx_http_mistral_create_ctx(ngx_http_request_t *r, mst_api_t api)
{
    ngx_pool_cleanup_t      *pcln;
    ngx_http_cleanup_t      *cln;
    ngx_http_mistral_ctx_t  *ctx;

    cln = ngx_http_cleanup_add(r, 0);
    pcln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_mistral_ctx_t));

    if (cln == NULL || pcln == NULL) {
        return NULL;
    }

    ctx = pcln->data;
    ngx_memzero(ctx, sizeof(ngx_http_mistral_ctx_t));

    ctx->request = r;
    ctx->loc_conf = r->loc_conf;
    ctx->api = api;
    ctx->start_ns = mst_time_ns();
    ctx->start_ms = ngx_current_msec;
    ctx->timer.handler = ngx_http_mistral_timeout;
    ctx->timer.data = ctx;
    ctx->timer.log = r->connection->log;

    mst_buf_init(&ctx->out);
    mst_buf_init(&ctx->spare);

    /*
     * Two ends: when the request is closed its calls are cancelled; memory
     * lives on until the access log is written and the pool destroyed.
     */

    cln->handler = ngx_http_mistral_cleanup;
    cln->data = ctx;
    pcln->handler = ngx_http_mistral_free;

    if (ngx_http_mistral_create_id(ctx) != NGX_OK) {
        return NULL;
    }

    ngx_http_set_ctx(r, ctx, ngx_http_mistral_module);

    return ctx;
}


static ngx_int_t
ngx_http_mistral_create_id(ngx_http_mistral_ctx_t *ctx)
{
    u_char    *p;
    uint64_t   rnd[3];

    if (!mst_api_answers(ctx->api)) {
        return NGX_OK;
    }

    if (ngx_http_mistral_random((u_char *) rnd, sizeof(rnd),
                                ctx->request->connection->log)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(ctx->request->pool, sizeof("chatcmpl-") - 1 + 32);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ctx->seed = rnd[2];
    ctx->id.data = p;

    p = ngx_sprintf(p, mst_api_form(ctx->api) == MST_API_CHAT ? "chatcmpl-"
                                                             : "cmpl-");
    p = ngx_hex_dump(p, (u_char *) rnd, 16);

    ctx->id.len = p - ctx->id.data;

    return NGX_OK;
}


/* a system call takes longer than all else about an id: one for many */

ngx_int_t
ngx_http_mistral_random(u_char *p, size_t n, ngx_log_t *log)
{
    static u_char  bytes[NGX_HTTP_MISTRAL_RANDOM];
    static size_t  left;

    if (left < n) {
        if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
            ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                          "getrandom() failed");
            return NGX_ERROR;
        }

        left = sizeof(bytes);
    }

    left -= n;
    ngx_memcpy(p, &bytes[left], n);
    ngx_memzero(&bytes[left], n);

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_check_type(ngx_http_request_t *r, mst_api_error_t *e)
{
    size_t            len;
    ngx_table_elt_t  *h;

    h = r->headers_in.content_type;

    if (h) {
        for (len = 0; len < h->value.len; len++) {
            if (h->value.data[len] == ';' || h->value.data[len] == ' ') {
                break;
            }
        }

        if (len != sizeof("application/json") - 1
            || ngx_strncasecmp(h->value.data, (u_char *) "application/json",
                               len)
               != 0)
        {
            (void) mst_api_error_set(e, NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                     "unsupported_media_type", "",
                                     "Content-Type must be application/json.");
            return NGX_ERROR;
        }
    }

    h = ngx_http_mistral_header_in(r, "content-encoding");

    if (h && (h->value.len != sizeof("identity") - 1
              || ngx_strncasecmp(h->value.data, (u_char *) "identity",
                                 h->value.len)
                 != 0))
    {
        (void) mst_api_error_set(e, NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                 "unsupported_media_type", "",
                                 "Content-Encoding must be identity.");
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_table_elt_t *
ngx_http_mistral_header_in(ngx_http_request_t *r, const char *name)
{
    size_t            len;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    len = ngx_strlen(name);

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (h[i].key.len == len
                && ngx_strncasecmp(h[i].key.data, (u_char *) name, len) == 0)
            {
                return &h[i];
            }
        }
    }

    return NULL;
}


/* nginx closes the connection of a client that is too slow without a word */

static void
ngx_http_mistral_read_handler(ngx_http_request_t *r)
{
    ngx_event_t             *rev;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_mistral_module);
    rev = r->connection->read;

    if (!rev->timedout) {
        ctx->read_body(r);
        return;
    }

    ngx_log_error(NGX_LOG_INFO, r->connection->log, NGX_ETIMEDOUT,
                  "client timed out");

    rev->timedout = 0;
    r->keepalive = 0;
    r->read_event_handler = ngx_http_block_reading;

    ngx_http_mistral_special_error(NGX_HTTP_REQUEST_TIME_OUT, &ctx->error);
    ngx_http_mistral_fail(ctx);
}


static void
ngx_http_mistral_body_handler(ngx_http_request_t *r)
{
    ngx_http_mistral_parse(ngx_http_get_module_ctx(r, ngx_http_mistral_module),
                           ngx_http_mistral_parsed);
}


/* here and below: NGX_DECLINED says that ctx->error is set */

static void
ngx_http_mistral_parsed(ngx_http_mistral_ctx_t *ctx, ngx_int_t rc)
{
    if (rc == NGX_OK) {
        rc = ngx_http_mistral_resolve(ctx);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_mistral_policy_resolved(ctx);
    }

    if (rc == NGX_OK) {
        ngx_http_mistral_begin(ctx);

    } else if (rc == NGX_DECLINED) {
        ngx_http_mistral_fail(ctx);

    } else {
        ngx_http_mistral_fail_internal(ctx);
    }
}


/*
 * Who answers is the location's choice; what the client may ask for follows
 * from it.  A variable is looked at only now, so that it may depend on the
 * body ($mistral_model).
 */

static ngx_int_t
ngx_http_mistral_resolve(ngx_http_mistral_ctx_t *ctx)
{
    ngx_str_t                      value, name;
    ngx_uint_t                     known, level;
    ngx_http_request_t            *r;
    ngx_http_mistral_model_t      *m;
    ngx_http_mistral_loc_conf_t   *mlcf;
    ngx_http_mistral_main_conf_t  *mmcf;

    r = ctx->request;
    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);
    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);

    name.len = ctx->body->model.len;
    name.data = (u_char *) ctx->body->model.data;
    m = mlcf->model;

    if (m == NULL) {
        if (ngx_http_complex_value(r, mlcf->pass, &value) != NGX_OK) {
            return NGX_ERROR;
        }

        m = ngx_http_mistral_find_model(mmcf, &value);
        known = name.len == 0 || ngx_http_mistral_find_model(mmcf, &name);

        if (m == NULL && known) {

            /* an empty one may be the client's, which named none */

            level = value.len ? NGX_LOG_ERR : NGX_LOG_INFO;

            ngx_log_error(level, r->connection->log, 0,
                          "mistral: \"mistral_pass\" evaluates to \"%V\", "
                          "which is no mistral_model", &value);
        }

    } else {
        known = name.len == 0 || ngx_http_mistral_model_has_name(m, &name);
    }

    if (m == NULL || !known) {
        if (name.len == 0) {
            (void) mst_api_error_set(&ctx->error, NGX_HTTP_NOT_FOUND,
                                     "model_not_found", "model",
                                     "The request names no model.");
        } else {
            (void) mst_api_error_set(&ctx->error, NGX_HTTP_NOT_FOUND,
                                     "model_not_found", "model",
                                     "The model \"%.*s\" does not exist.",
                                     (int) ngx_min(name.len, 128),
                                     (char *) name.data);
        }

        return NGX_DECLINED;
    }

    ctx->model = m;
    ctx->name = name.len ? name : m->name;

    return NGX_OK;
}


void
ngx_http_mistral_release(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t  i;

    if (ctx->turning || ctx->handing) {
        ctx->turning = 0;
        ctx->handing = 0;
        ngx_queue_remove(&ctx->queue);
    }

    ngx_http_mistral_wait_leave(ctx);

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }

    for (i = 0; i < ctx->n_choices; i++) {
        ngx_http_mistral_link_end(&ctx->choices[i].call);
    }
}


/* the request is closed: by its end, by an error, or since its client left */

static void
ngx_http_mistral_cleanup(void *data)
{
    ngx_http_mistral_ctx_t  *ctx;

    ctx = data;

    if (ngx_http_mistral_leave(ctx) != NGX_OK) {
        ngx_http_mistral_closed(ctx);
    }
}


void
ngx_http_mistral_mark_aborted(ngx_http_mistral_ctx_t *ctx)
{
    if (ctx->aborted == NULL) {
        ctx->aborted = "abort";
        ctx->phase = ctx->first_ns ? "decode"
                     : ctx->admitted ? "prefill" : "queue";
    }
}


void
ngx_http_mistral_closed(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_request_t  *r;

    if (ctx->n_done < ctx->n_choices && !ctx->error.status) {
        ngx_http_mistral_mark_aborted(ctx);
    }

    r = ctx->request;

    /* nginx logs the 200 of a header that was sent, whatever came then */

    if (ctx->aborted && ctx->header_sent && r == r->main) {
        r->headers_out.status = ctx->error.status ? (ngx_uint_t)
                                                    ctx->error.status
                                : r->connection->timedout
                                ? NGX_HTTP_REQUEST_TIME_OUT
                                : NGX_HTTP_CLIENT_CLOSED_REQUEST;
    }

    ctx->closed = 1;

    ngx_http_mistral_policy_settle(ctx);
    ngx_http_mistral_metrics_end(ctx);
    ngx_http_mistral_release(ctx);
    ngx_http_mistral_forget_variables(r);
}


/*
 * The access log comes next, and takes values that were computed before,
 * by an add_header for one, as they are.
 */

static void
ngx_http_mistral_forget_variables(ngx_http_request_t *r)
{
    ngx_uint_t                  i;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    for (i = 0; i < cmcf->variables.nelts; i++) {
        if (r->variables[i].no_cacheable) {
            r->variables[i].valid = 0;
            r->variables[i].not_found = 0;
        }
    }
}


static void
ngx_http_mistral_free(void *data)
{
    ngx_http_mistral_ctx_t  *ctx;

    ctx = data;

    ngx_http_mistral_choices_fini(ctx);
    ngx_http_mistral_sources_fini(ctx);
    ngx_http_mistral_body_fini(ctx);
    mst_request_destroy(ctx->body);
    mst_buf_fini(&ctx->out);
    mst_buf_fini(&ctx->spare);
}


/*
 * An internal redirect (error_page) clears the contexts of a request.  The
 * pool still knows ours, as realip finds its own; the newest comes first.
 */

ngx_http_mistral_ctx_t *
ngx_http_mistral_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t      *cln;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_mistral_module);

    if (ctx || !(r->internal || r->filter_finalize)) {
        return ctx;
    }

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_mistral_free) {
            ctx = cln->data;

            if (ctx->request == r) {
                return ctx;
            }
        }
    }

    return NULL;
}


ngx_http_mistral_ctx_t *
ngx_http_mistral_outer_ctx(ngx_http_request_t *r)
{
    ngx_http_mistral_ctx_t  *ctx;

    for (ctx = NULL; ctx == NULL && r != NULL; r = r->parent) {
        ctx = ngx_http_mistral_get_ctx(r);
    }

    return ctx;
}
