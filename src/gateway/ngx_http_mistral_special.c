
/*
 * What nginx itself refuses in a location of ours, in the OpenAI form: too
 * large a body (413), a missing password (401), a limit (429, 503), a broken
 * chunk (400).  Clients of an API parse the body of an error.
 *
 * A header filter looks for nginx's own page on its way out and sends
 * ours instead; an answer below 400 costs one comparison.  An error_page
 * leads away from the location and is left alone, as is "return 503 text".
 * Before there is a location (400, 414, 501, too large a header) the URI
 * says what it was meant for.  Workers only.
 */

#include "gateway/ngx_http_mistral_auth.h"
#include "gateway/ngx_http_mistral_request.h"


typedef struct {
    ngx_uint_t   status;
    const char  *code;
    const char  *text;
} ngx_http_mistral_special_t;


static ngx_int_t ngx_http_mistral_special_filter(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mistral_special_ours(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mistral_special_early(ngx_http_request_t *r);


static const ngx_http_mistral_special_t  ngx_http_mistral_specials[] = {
    { 400, "bad_request", "The request is malformed or its header too large." },
    { 401, "unauthorized", "Valid credentials are needed." },
    { 403, "forbidden", "Access is denied." },
    { 404, "not_found", "There is nothing at this URL." },
    { 405, "method_not_allowed", "The method is not allowed here." },
    { 408, "request_timeout", "The request came too slowly." },
    { 411, "length_required", "The request needs a Content-Length." },
    { 413, "request_too_large", "The request's body is too large." },
    { 414, "uri_too_long", "The request's URI is too long." },
    { 429, "rate_limit_exceeded", "Too many requests, try again later." },
    { 500, "internal_error", "The server failed to process the request." },
    { 501, "not_implemented", "The server does not know how to do this." },
    { 502, "bad_gateway", "The server behind this one failed." },
    { 503, "unavailable", "The server takes no more requests now, try again "
                          "soon." },
    { 504, "gateway_timeout", "The server behind this one is silent." },
    { 0, "refused", "The server refused the request." }
};


static ngx_http_output_header_filter_pt  ngx_http_mistral_next_header_filter;


ngx_int_t
ngx_http_mistral_special_init(ngx_conf_t *cf)
{
    ngx_http_mistral_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_mistral_special_filter;

    return NGX_OK;
}


void
ngx_http_mistral_special_error(ngx_uint_t status, mst_api_error_t *e)
{
    const ngx_http_mistral_special_t  *s;

    for (s = ngx_http_mistral_specials; s->status; s++) {
        if (s->status == status) {
            break;
        }
    }

    ngx_memzero(e, sizeof(mst_api_error_t));
    (void) mst_api_error_set(e, (int) status, s->code, "", "%s", s->text);
}


static ngx_int_t
ngx_http_mistral_special_filter(ngx_http_request_t *r)
{
    mst_buf_t        body;
    ngx_int_t        rc;
    mst_api_error_t  e;

    if (r->err_status < NGX_HTTP_BAD_REQUEST
        || !ngx_http_mistral_special_ours(r))
    {
        return ngx_http_mistral_next_header_filter(r);
    }

    if (!ngx_http_mistral_auth_error(r, &e)) {
        ngx_http_mistral_special_error(r->err_status, &e);
    }

    mst_buf_init(&body);
    (void) mst_api_error_json(&e, &body);

    /* passes here once more, as JSON */

    rc = ngx_http_mistral_send_json(r, r->err_status, &body);

    if (rc > NGX_OK) {
        return NGX_ERROR;
    }

    /* nothing may follow */

    r->header_only = 1;

    return rc;
}


static ngx_uint_t
ngx_http_mistral_special_ours(ngx_http_request_t *r)
{
    ngx_str_t                    *type;
    ngx_http_core_srv_conf_t     *cscf;
    ngx_http_mistral_loc_conf_t  *mlcf;

    type = &r->headers_out.content_type;

    /* nginx's pages only; HEAD has none to replace */

    if (r != r->main || type->len != sizeof("text/html") - 1
        || ngx_strncmp(type->data, "text/html", type->len) != 0)
    {
        return 0;
    }

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);

    if (mlcf->model || mlcf->pass || ngx_http_mistral_auth_error(r, NULL)) {
        return 1;
    }

    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);

    return r->loc_conf == cscf->ctx->loc_conf
           && ngx_http_mistral_special_early(r);
}


static ngx_uint_t
ngx_http_mistral_special_early(ngx_http_request_t *r)
{
    u_char                        *p, *end;
    ngx_uint_t                     i;
    ngx_http_mistral_main_conf_t  *mmcf;

    static const char *const  ends[] = {
        "/completions", "/models", "/tokenize", "/detokenize"
    };

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);

    if (mmcf->models.nelts == 0
        || (r->err_status != NGX_HTTP_BAD_REQUEST
            && r->err_status != NGX_HTTP_REQUEST_URI_TOO_LARGE
            && r->err_status != NGX_HTTP_NOT_IMPLEMENTED))
    {
        return 0;
    }

    p = r->uri.data;
    end = p + r->uri.len;

    if (r->uri.len == 0) {

        if (r->uri_start == NULL || r->header_in == NULL
            || r->uri_start < r->header_in->start
            || r->uri_start > r->header_in->last)
        {
            return 0;
        }

        p = r->uri_start;
        end = r->uri_end >= p && r->uri_end <= r->header_in->last
              ? r->uri_end : r->header_in->last;
    }

    for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (memmem(p, end - p, ends[i], ngx_strlen(ends[i]))) {
            return 1;
        }
    }

    return 0;
}
