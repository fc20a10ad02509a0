
/*
 * What is told of limits: in the headers of each answer, in variables, and in
 * the metrics.  Workers only.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include "api/mst_json.h"


static ngx_http_mistral_debit_t *ngx_http_mistral_limit_tightest(
    ngx_http_mistral_limit_ctx_t *lctx);
static ngx_int_t ngx_http_mistral_limit_header(ngx_http_request_t *r,
    const char *name, const char *fmt, ...);
static ngx_int_t ngx_http_mistral_limit_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


static ngx_str_t  ngx_http_mistral_limit_names[] = {
    ngx_string("PASSED"),
    ngx_string("REJECTED"),
    ngx_string("REJECTED_DRY_RUN")
};


static const char  *ngx_http_mistral_limit_labels[] = {
    "passed", "rejected", "rejected_dry_run"
};


static ngx_http_variable_t  ngx_http_mistral_limit_vars[] = {

    { ngx_string("mistral_limit_status"), NULL,
      ngx_http_mistral_limit_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_limit_remaining"), NULL,
      ngx_http_mistral_limit_variable, 1,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_mistral_limit_headers(ngx_http_mistral_ctx_t *ctx)
{
    char                           reset[32];
    uint64_t                       seconds;
    ngx_http_request_t            *r;
    ngx_http_mistral_debit_t      *d;
    ngx_http_mistral_limit_ctx_t  *lctx;

    r = ctx->request;
    lctx = ngx_http_mistral_limit_get_ctx(r);

    if (lctx == NULL || lctx->dry_run) {
        return NGX_OK;
    }

    d = ngx_http_mistral_limit_tightest(lctx);

    if (d == NULL) {
        return NGX_OK;
    }

    if (ngx_http_mistral_limit_header(r, "x-ratelimit-limit-tokens", "%uL",
                                      d->rate.burst)
        != NGX_OK
        || ngx_http_mistral_limit_header(r, "x-ratelimit-remaining-tokens",
                                         "%uL", d->left)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    mst_bucket_duration(d->reset_ns, reset);

    if (d->reset_ns != UINT64_MAX
        && ngx_http_mistral_limit_header(r, "x-ratelimit-reset-tokens", "%s",
                                         reset)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    seconds = ctx->limited ? ngx_http_mistral_limit_seconds(d) : 0;

    return seconds ? ngx_http_mistral_limit_header(r, "Retry-After", "%uL",
                                                   seconds)
                   : NGX_OK;
}


/* the one that refused, or the one with the least left */

static ngx_http_mistral_debit_t *
ngx_http_mistral_limit_tightest(ngx_http_mistral_limit_ctx_t *lctx)
{
    ngx_uint_t                 i;
    ngx_http_mistral_debit_t  *d, *least;

    if (lctx->refusal.limit) {
        return &lctx->refusal;
    }

    d = lctx->debits.elts;
    least = NULL;

    for (i = 0; i < lctx->debits.nelts; i++) {
        if (least == NULL || d[i].left < least->left) {
            least = &d[i];
        }
    }

    return least;
}


static ngx_int_t
ngx_http_mistral_limit_header(ngx_http_request_t *r, const char *name,
    const char *fmt, ...)
{
    va_list     args;
    ngx_str_t   value;

    value.data = ngx_pnalloc(r->pool, NGX_INT64_LEN + 32);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    va_start(args, fmt);
    value.len = ngx_vslprintf(value.data, value.data + NGX_INT64_LEN + 32, fmt,
                              args)
                - value.data;
    va_end(args);

    return ngx_http_mistral_add_header(r, name, &value);
}


static ngx_int_t
ngx_http_mistral_limit_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_mistral_debit_t      *d;
    ngx_http_mistral_limit_ctx_t  *lctx;

    lctx = ngx_http_mistral_limit_get_ctx(r);
    d = lctx ? ngx_http_mistral_limit_tightest(lctx) : NULL;

    if (lctx == NULL || !lctx->asked || (data && d == NULL)) {
        v->not_found = 1;
        return NGX_OK;
    }

    if (data) {
        return ngx_http_mistral_number(r, d->left, v);
    }

    return ngx_http_mistral_string(v,
                                  &ngx_http_mistral_limit_names[lctx->status]);
}


ngx_int_t
ngx_http_mistral_limit_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mistral_add_table(cf, ngx_http_mistral_limit_vars);
}


/* the counters of all zones for Prometheus */

void
ngx_http_mistral_limit_show(ngx_http_request_t *r, mst_buf_t *out)
{
    ngx_uint_t                           i, k;
    ngx_http_mistral_limit_zone_t      **zones;
    ngx_http_mistral_limit_main_conf_t  *lmcf;

    lmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_limit_module);
    zones = lmcf->zones.elts;

    if (lmcf->zones.nelts == 0) {
        return;
    }

    (void) mst_buf_text(out, "# HELP mistral_limit_total Requests that came "
                        "to a limit or quota, by its zone.\n"
                        "# TYPE mistral_limit_total counter\n");

    for (i = 0; i < lmcf->zones.nelts; i++) {
        for (k = 0; k < NGX_HTTP_MISTRAL_LIMIT_STATUSES; k++) {
            (void) mst_buf_text(out, "mistral_limit_total{zone=");
            (void) mst_json_string(out, mst_str((char *) zones[i]->name.data,
                                                zones[i]->name.len));
            (void) mst_buf_printf(out, ",status=\"%s\"} %llu\n",
                                  ngx_http_mistral_limit_labels[k],
                                  (unsigned long long)
                                  atomic_load(&zones[i]->table->counts[k]));
        }
    }
}
