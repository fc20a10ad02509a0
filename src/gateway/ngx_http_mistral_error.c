
/*
 * Refusals in the OpenAI form, and small answers as a whole.
 *
 * A status that the location's error_page takes over is left to nginx, with
 * the request's body as it was read, so that "error_page 503 = @elsewhere"
 * can pass it on.  Workers only.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_pressure.h"


static ngx_http_err_page_t *ngx_http_mistral_error_page(ngx_http_request_t *r,
    ngx_int_t status);
static ngx_int_t ngx_http_mistral_shed_headers(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, const char *shed);
static void ngx_http_mistral_free_body(void *data);


ngx_int_t
ngx_http_mistral_refuse(ngx_http_request_t *r, const mst_api_error_t *error,
    const char *shed)
{
    char                     text[sizeof(error->message)];
    mst_buf_t                body;
    mst_api_error_t          copy, *e;
    ngx_http_err_page_t     *page;
    ngx_http_mistral_ctx_t  *ctx;

    copy = *error;
    e = &copy;

    ngx_http_mistral_pressure_status(r, e, shed);

    if (e->status < NGX_HTTP_INTERNAL_SERVER_ERROR) {
        ngx_http_mistral_log_text(text, sizeof(text), e->message);
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "mistral: refused with %d: %s", e->status, text);
    }

    page = ngx_http_mistral_error_page(r, e->status);
    ctx = ngx_http_get_module_ctx(r, ngx_http_mistral_module);

    /* not for an answer of somebody else with a status of its own */

    if (ctx && (page == NULL || page->overwrite == -1)
        && ngx_http_mistral_policy_headers(ctx) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if ((shed || (e->status == NGX_HTTP_SERVICE_UNAVAILABLE
                  && !(ctx && ctx->limited)))
        && (page == NULL || page->overwrite == -1)
        && ngx_http_mistral_shed_headers(r, ctx, shed) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (page) {
        return e->status;
    }

    r->expect_tested = 1;

    if (ngx_http_discard_request_body(r) != NGX_OK) {
        r->keepalive = 0;
    }

    mst_buf_init(&body);
    (void) mst_api_error_json(e, &body);

    return ngx_http_mistral_send_json(r, e->status, &body);
}


/*
 * The same choice as ngx_http_special_response_handler() will make; a 408
 * never comes to it, ngx_http_finalize_request() closes the connection.
 */

static ngx_http_err_page_t *
ngx_http_mistral_error_page(ngx_http_request_t *r, ngx_int_t status)
{
    ngx_uint_t                 i;
    ngx_http_err_page_t       *page;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (r->error_page || clcf->error_pages == NULL || r->uri_changes == 0
        || status == NGX_HTTP_REQUEST_TIME_OUT)
    {
        return NULL;
    }

    page = clcf->error_pages->elts;

    for (i = 0; i < clcf->error_pages->nelts; i++) {
        if (page[i].status == status) {
            return &page[i];
        }
    }

    return NULL;
}


static ngx_int_t
ngx_http_mistral_shed_headers(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, const char *shed)
{
    ngx_str_t   value;
    ngx_uint_t  seconds;

    seconds = ngx_http_mistral_pressure_retry(r, ctx, shed);

    if (seconds) {
        value.data = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
        if (value.data == NULL) {
            return NGX_ERROR;
        }

        value.len = ngx_sprintf(value.data, "%ui", seconds) - value.data;

        if (ngx_http_mistral_add_header(r, "Retry-After", &value) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (shed == NULL) {
        return NGX_OK;
    }

    value.data = (u_char *) shed;
    value.len = ngx_strlen(shed);

    return ngx_http_mistral_add_header(r, "X-Mistral-Shed-Reason", &value);
}


void
ngx_http_mistral_fail(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_request_t  *r;

    r = ctx->request;

    if (ctx->unwinding) {
        return;
    }

    if (ctx->header_sent) {
        ngx_http_mistral_advance(ctx);
        return;
    }

    if (ngx_http_mistral_policy_refused(ctx) == NGX_OK) {
        return;
    }

    if (ctx->admitted) {
        ctx->aborted = "error";
    }

    ngx_http_mistral_policy_settle(ctx);
    ngx_http_mistral_release(ctx);
    ngx_http_mistral_finish(ctx, ngx_http_mistral_refuse(r, &ctx->error,
                                                         ctx->shed));
}


void
ngx_http_mistral_fail_internal(ngx_http_mistral_ctx_t *ctx)
{
    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                  "mistral: no memory for request \"%V\"", &ctx->id);

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_INTERNAL_SERVER_ERROR,
                             "internal_error", "",
                             "The gateway could not process the request.");
    ngx_http_mistral_fail(ctx);
}


const char *
ngx_http_mistral_unavailable(ngx_http_mistral_state_e state,
    mst_api_error_t *e)
{
    switch (state) {

    case NGX_HTTP_MISTRAL_LOADING:
        (void) mst_api_error_set(e, NGX_HTTP_SERVICE_UNAVAILABLE, "loading",
                                 "", "The model is being loaded, try again "
                                 "soon.");
        return "loading";

    case NGX_HTTP_MISTRAL_DRAINING:
        (void) mst_api_error_set(e, NGX_HTTP_SERVICE_UNAVAILABLE, "draining",
                                 "", "The model's engine takes no new "
                                 "requests, try again soon.");
        return "draining";

    case NGX_HTTP_MISTRAL_HOT:
        (void) mst_api_error_set(e, NGX_HTTP_SERVICE_UNAVAILABLE, "thermal",
                                 "", "The model's device is too hot, try "
                                 "again soon.");
        return "thermal";

    default:
        (void) mst_api_error_set(e, NGX_HTTP_SERVICE_UNAVAILABLE,
                                 "engine_unavailable", "",
                                 "The model's engine is not available, try "
                                 "again soon.");
        return "engine";
    }
}


ngx_uint_t
ngx_http_mistral_method_allowed(ngx_http_request_t *r, const char *allow)
{
    if (allow[0] == 'P') {
        return r->method == NGX_HTTP_POST;
    }

    return (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD)) != 0;
}


ngx_int_t
ngx_http_mistral_refuse_method(ngx_http_request_t *r, const char *allow)
{
    char                 *rest;
    size_t                len;
    ngx_str_t             value;
    mst_api_error_t       e;
    ngx_http_err_page_t  *page;

    rest = ngx_strstr(allow, ", OPTIONS");
    len = rest ? (size_t) (rest - allow) : ngx_strlen(allow);

    page = ngx_http_mistral_error_page(r, NGX_HTTP_NOT_ALLOWED);

    value.data = (u_char *) allow;
    value.len = ngx_strlen(allow);

    if ((page == NULL || page->overwrite == -1)
        && ngx_http_mistral_add_header(r, "Allow", &value) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memzero(&e, sizeof(mst_api_error_t));
    (void) mst_api_error_set(&e, NGX_HTTP_NOT_ALLOWED, "method_not_allowed",
                             "", "The method is not allowed here, use %.*s.",
                             (int) len, allow);

    return ngx_http_mistral_refuse(r, &e, NULL);
}


/* headers of CORS are the configuration's: add_header ... always */

ngx_int_t
ngx_http_mistral_send_options(ngx_http_request_t *r, const char *allow)
{
    ngx_int_t  rc;
    ngx_str_t  value;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    value.data = (u_char *) allow;
    value.len = ngx_strlen(allow);

    if (ngx_http_mistral_add_header(r, "Allow", &value) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = NGX_HTTP_NO_CONTENT;
    r->header_only = 1;
    ngx_http_clear_content_length(r);

    return ngx_http_send_header(r);
}


ngx_int_t
ngx_http_mistral_send_json(ngx_http_request_t *r, ngx_uint_t status,
    mst_buf_t *body)
{
    ngx_str_t  type;

    ngx_str_set(&type, "application/json");

    return ngx_http_mistral_send_body(r, status, &type, body);
}


ngx_int_t
ngx_http_mistral_send_body(ngx_http_request_t *r, ngx_uint_t status,
    ngx_str_t *type, mst_buf_t *body)
{
    ngx_int_t            rc;
    ngx_buf_t           *b;
    mst_buf_t           *kept;
    ngx_chain_t          out;
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(mst_buf_t));
    if (cln == NULL || body->failed || body->len == 0) {
        mst_buf_fini(body);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    kept = cln->data;
    *kept = *body;
    mst_buf_init(body);
    cln->handler = ngx_http_mistral_free_body;

    r->headers_out.status = status;
    r->headers_out.content_length_n = kept->len;
    r->headers_out.content_type = *type;
    r->headers_out.content_type_len = strcspn((char *) type->data, ";");
    r->headers_out.content_type_lowcase = NULL;

    /* "If-Match" and the like ask for what has an ETag or a date */

    r->disable_not_modified = 1;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->pos = (u_char *) kept->data;
    b->last = b->pos + kept->len;
    b->start = b->pos;
    b->end = b->last;
    b->temporary = 1;
    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


static void
ngx_http_mistral_free_body(void *data)
{
    mst_buf_fini(data);
}


ngx_int_t
ngx_http_mistral_add_header(ngx_http_request_t *r, const char *name,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    /* later versions of nginx link equal headers: all of it is set */

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);
    h->value = *value;

    return NGX_OK;
}


void
ngx_http_mistral_log_text(char *dst, size_t size, const char *src)
{
    size_t  i;

    for (i = 0; i + 1 < size && src[i]; i++) {
        dst[i] = ((u_char) src[i] < 0x20 || src[i] == 0x7f) ? '?' : src[i];
    }

    dst[i] = '\0';
}
