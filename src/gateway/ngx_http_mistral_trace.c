
/*
 * Ids by which a request is found again: in our log, in the client's, and in
 * those of the servers that it passed.
 *
 * The trace is that of "traceparent" (W3C Trace Context), else of
 * "X-Trace-ID", else a new one; the span is always ours.  The answer, a
 * refusal by nginx itself too, has X-Trace-ID, and X-Request-ID: the client's
 * own if it sent one, else the answer's id.  What a client sends is a client's
 * bytes: one that is no plain token is as good as absent.
 *
 * They are made when they are first asked for and live as long as the
 * request, over internal redirects.  Workers only.
 */

#include "gateway/ngx_http_mistral_request.h"


#define NGX_HTTP_MISTRAL_TRACE_TOKEN   128     /* bytes of a client's id */
#define NGX_HTTP_MISTRAL_TRACE_PARENT  55      /* 00-32-16-2 hex digits */


typedef struct {
    ngx_http_request_t  *request;
    ngx_str_t            trace;
    ngx_str_t            parent;               /* the client's span; len 0:
                                                  none */
    ngx_str_t            request_id;           /* the client's; len 0: none */
    u_char               new_trace[32];
    u_char               span[16];
    u_char               flags[2];
    unsigned             context:1;            /* the trace's id is one of
                                                  traceparent's form */
    unsigned             echoed:1;
} ngx_http_mistral_trace_t;


typedef enum {
    NGX_HTTP_MISTRAL_TRACE_ID = 0,
    NGX_HTTP_MISTRAL_TRACE_SPAN,
    NGX_HTTP_MISTRAL_TRACE_PARENT_ID,
    NGX_HTTP_MISTRAL_TRACE_REQUEST,
    NGX_HTTP_MISTRAL_TRACE_CONTEXT
} ngx_http_mistral_trace_e;


static ngx_int_t ngx_http_mistral_trace_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mistral_trace_add_variables(ngx_conf_t *cf);
static ngx_http_mistral_trace_t *ngx_http_mistral_trace_get(
    ngx_http_request_t *r);
static void ngx_http_mistral_trace_cleanup(void *data);
static ngx_int_t ngx_http_mistral_trace_make(ngx_http_mistral_trace_t *t);
static void ngx_http_mistral_trace_headers(ngx_http_mistral_trace_t *t,
    ngx_str_t *context, ngx_str_t *trace);
static ngx_uint_t ngx_http_mistral_trace_parse(ngx_http_mistral_trace_t *t,
    ngx_str_t *context);
static ngx_uint_t ngx_http_mistral_trace_hex(u_char *p, size_t len,
    ngx_uint_t zero);
static ngx_uint_t ngx_http_mistral_trace_token(ngx_str_t *value);
static ngx_int_t ngx_http_mistral_trace_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mistral_trace_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_mistral_trace_echo(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, ngx_uint_t ours);


static ngx_http_module_t  ngx_http_mistral_trace_module_ctx = {
    ngx_http_mistral_trace_add_variables,  /* preconfiguration */
    ngx_http_mistral_trace_init,           /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_trace_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_trace_module_ctx,    /* module context */
    NULL,                                  /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_http_variable_t  ngx_http_mistral_trace_vars[] = {

    { ngx_string("mistral_trace_id"), NULL,
      ngx_http_mistral_trace_variable, NGX_HTTP_MISTRAL_TRACE_ID, 0, 0 },

    { ngx_string("mistral_span_id"), NULL,
      ngx_http_mistral_trace_variable, NGX_HTTP_MISTRAL_TRACE_SPAN, 0, 0 },

    { ngx_string("mistral_parent_id"), NULL,
      ngx_http_mistral_trace_variable, NGX_HTTP_MISTRAL_TRACE_PARENT_ID,
      0, 0 },

    { ngx_string("mistral_traceparent"), NULL,
      ngx_http_mistral_trace_variable, NGX_HTTP_MISTRAL_TRACE_CONTEXT, 0, 0 },

    { ngx_string("mistral_client_request_id"), NULL,
      ngx_http_mistral_trace_variable, NGX_HTTP_MISTRAL_TRACE_REQUEST, 0, 0 },

      ngx_http_null_variable
};


static ngx_http_output_header_filter_pt  ngx_http_mistral_trace_next_filter;


static ngx_int_t
ngx_http_mistral_trace_init(ngx_conf_t *cf)
{
    ngx_http_mistral_trace_next_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_mistral_trace_filter;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_trace_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mistral_add_table(cf, ngx_http_mistral_trace_vars);
}


/* of the main request; an internal redirect clears contexts, not the pool */

static ngx_http_mistral_trace_t *
ngx_http_mistral_trace_get(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_mistral_trace_t  *t;

    r = r->main;

    t = ngx_http_get_module_ctx(r, ngx_http_mistral_trace_module);

    if (t != NULL) {
        return t;
    }

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_mistral_trace_cleanup) {
            t = cln->data;
            ngx_http_set_ctx(r, t, ngx_http_mistral_trace_module);
            return t;
        }
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_mistral_trace_t));
    if (cln == NULL) {
        return NULL;
    }

    t = cln->data;
    ngx_memzero(t, sizeof(ngx_http_mistral_trace_t));
    t->request = r;

    if (ngx_http_mistral_trace_make(t) != NGX_OK) {
        return NULL;
    }

    cln->handler = ngx_http_mistral_trace_cleanup;
    ngx_http_set_ctx(r, t, ngx_http_mistral_trace_module);

    return t;
}


/* it only marks the place where the ids are found */

static void
ngx_http_mistral_trace_cleanup(void *data)
{
}


static ngx_int_t
ngx_http_mistral_trace_make(ngx_http_mistral_trace_t *t)
{
    u_char     rnd[24];
    ngx_str_t  context, trace;

    if (ngx_http_mistral_random(rnd, sizeof(rnd), t->request->connection->log)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    (void) ngx_hex_dump(t->span, rnd, 8);
    ngx_memcpy(t->flags, "01", 2);

    ngx_http_mistral_trace_headers(t, &context, &trace);

    if (ngx_http_mistral_trace_parse(t, &context)) {
        return NGX_OK;
    }

    if (trace.len) {
        t->trace = trace;
        t->context = trace.len == 32
                     && ngx_http_mistral_trace_hex(trace.data, 32, 0);
        return NGX_OK;
    }

    t->trace.len = ngx_hex_dump(t->new_trace, &rnd[8], 16) - t->new_trace;
    t->trace.data = t->new_trace;
    t->context = 1;

    return NGX_OK;
}


/* two headers of one name are none */

static void
ngx_http_mistral_trace_headers(ngx_http_mistral_trace_t *t,
    ngx_str_t *context, ngx_str_t *trace)
{
    ngx_str_t        *to;
    ngx_uint_t        i, k, n[3];
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    static const ngx_str_t  names[] = {
        ngx_string("traceparent"),
        ngx_string("x-trace-id"),
        ngx_string("x-request-id")
    };

    ngx_str_t  *values[] = { context, trace, &t->request_id };

    ngx_memzero(n, sizeof(n));

    for (k = 0; k < 3; k++) {
        ngx_str_null(values[k]);
    }

    for (part = &t->request->headers_in.headers.part; part; part = part->next)
    {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            for (k = 0; k < 3; k++) {

                if (h[i].key.len == names[k].len
                    && ngx_strncasecmp(h[i].key.data, names[k].data,
                                       names[k].len)
                       == 0)
                {
                    *values[k] = h[i].value;
                    n[k]++;
                }
            }
        }
    }

    for (k = 0; k < 3; k++) {
        to = values[k];

        if (n[k] != 1 || !ngx_http_mistral_trace_token(to)) {
            ngx_str_null(to);
        }
    }
}


/* later versions begin as the first one does */

static ngx_uint_t
ngx_http_mistral_trace_parse(ngx_http_mistral_trace_t *t, ngx_str_t *context)
{
    u_char  *p;

    p = context->data;

    if (context->len < NGX_HTTP_MISTRAL_TRACE_PARENT
        || p[2] != '-' || p[35] != '-' || p[52] != '-'
        || !ngx_http_mistral_trace_hex(p, 2, 1)
        || !ngx_http_mistral_trace_hex(p + 3, 32, 0)
        || !ngx_http_mistral_trace_hex(p + 36, 16, 0)
        || !ngx_http_mistral_trace_hex(p + 53, 2, 1)
        || ngx_memcmp(p, "ff", 2) == 0)
    {
        return 0;
    }

    if (context->len > NGX_HTTP_MISTRAL_TRACE_PARENT
        && (p[NGX_HTTP_MISTRAL_TRACE_PARENT] != '-'
            || ngx_memcmp(p, "00", 2) == 0))
    {
        return 0;
    }

    t->trace.data = p + 3;
    t->trace.len = 32;
    t->parent.data = p + 36;
    t->parent.len = 16;
    t->context = 1;

    /* of the flags we know one: sampled */

    t->flags[1] = ((p[54] <= '9' ? p[54] : p[54] - 'a' + 10) & 1) ? '1' : '0';

    return 1;
}


static ngx_uint_t
ngx_http_mistral_trace_hex(u_char *p, size_t len, ngx_uint_t zero)
{
    size_t  i;

    for (i = 0; i < len; i++) {

        if ((p[i] < '0' || p[i] > '9') && (p[i] < 'a' || p[i] > 'f')) {
            return 0;
        }

        zero |= p[i] != '0';
    }

    return zero;
}


/* nothing that means something in a header, a log or a shell */

static ngx_uint_t
ngx_http_mistral_trace_token(ngx_str_t *value)
{
    u_char  c;
    size_t  i;

    for (i = 0; i < value->len; i++) {
        c = value->data[i];

        if ((c < '0' || c > '9') && ((c | 0x20) < 'a' || (c | 0x20) > 'z')
            && (c == '\0' || ngx_strchr("-_.:+=/@~", c) == NULL))
        {
            return 0;
        }
    }

    return value->len >= 1 && value->len <= NGX_HTTP_MISTRAL_TRACE_TOKEN;
}


static ngx_int_t
ngx_http_mistral_trace_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                  text;
    ngx_http_mistral_trace_t  *t;

    t = ngx_http_mistral_trace_get(r);
    if (t == NULL) {
        return NGX_ERROR;
    }

    ngx_str_null(&text);

    switch (data) {

    case NGX_HTTP_MISTRAL_TRACE_ID:
        text = t->trace;
        break;

    case NGX_HTTP_MISTRAL_TRACE_SPAN:
        text.data = t->span;
        text.len = sizeof(t->span);
        break;

    case NGX_HTTP_MISTRAL_TRACE_PARENT_ID:
        text = t->parent;
        break;

    case NGX_HTTP_MISTRAL_TRACE_REQUEST:
        text = t->request_id;
        break;

    default:
        if (!t->context) {
            break;
        }

        text.data = ngx_pnalloc(r->pool, NGX_HTTP_MISTRAL_TRACE_PARENT);
        if (text.data == NULL) {
            return NGX_ERROR;
        }

        text.len = ngx_sprintf(text.data, "00-%V-%*s-%*s", &t->trace,
                               sizeof(t->span), t->span, sizeof(t->flags),
                               t->flags)
                   - text.data;
    }

    v->data = text.data;
    v->len = text.len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    if (text.len == 0) {
        v->valid = 0;
        v->not_found = 1;
    }

    return NGX_OK;
}


/* answers of our locations, and of those that a request of ours went on to */

static ngx_int_t
ngx_http_mistral_trace_filter(ngx_http_request_t *r)
{
    ngx_uint_t                    ours;
    ngx_http_mistral_ctx_t       *ctx;
    ngx_http_mistral_loc_conf_t  *mlcf;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);

    ctx = ngx_http_mistral_get_ctx(r);
    ours = mlcf->model || mlcf->pass;

    if ((ctx || ours) && ngx_http_mistral_trace_echo(r, ctx, ours) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mistral_trace_next_filter(r);
}


/* another server's answer has an X-Request-ID of its own, or none */

static ngx_int_t
ngx_http_mistral_trace_echo(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, ngx_uint_t ours)
{
    ngx_str_t                 *id;
    ngx_http_mistral_trace_t  *t;

    t = ngx_http_mistral_trace_get(r);

    if (t == NULL) {
        return NGX_ERROR;
    }

    /* a subrequest's header is for whoever captures it */

    if (r == r->main) {
        if (t->echoed) {
            return NGX_OK;
        }

        t->echoed = 1;
    }

    id = t->request_id.len && r == r->main ? &t->request_id
         : ctx && ctx->id.len ? &ctx->id : &t->trace;

    if (ours
        && ngx_http_mistral_add_header(r, "X-Request-ID", id) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mistral_add_header(r, "X-Trace-ID", &t->trace);
}
