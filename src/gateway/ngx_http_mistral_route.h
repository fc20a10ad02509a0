
/*
 * Which model answers: what the files of that subject (route.c, canary.c,
 * breaker.c, fallback.c) say to each other and to those that show it.
 * Workers only.
 */

#ifndef NGX_HTTP_MISTRAL_ROUTE_H
#define NGX_HTTP_MISTRAL_ROUTE_H

#include "gateway/ngx_http_mistral_request.h"


extern ngx_module_t  ngx_http_mistral_route_module;
extern ngx_module_t  ngx_http_mistral_canary_module;
extern ngx_module_t  ngx_http_mistral_breaker_module;
extern ngx_module_t  ngx_http_mistral_fallback_module;


/* of all lines with this canary that count */
typedef struct {
    ngx_uint_t  lines;
    uint64_t    requests;
    uint64_t    errors;
    ngx_uint_t  rolled_back;                   /* one of them is */
} ngx_http_mistral_canary_sum_t;


/* route.c: may a client here ask for this name (empty: for none) of "m"? */
ngx_uint_t ngx_http_mistral_route_allows(ngx_http_request_t *r,
    ngx_http_mistral_model_t *m, ngx_str_t *name);

/* breaker.c: "closed", "half_open", "open"; *wait_ns as mst_breaker_state()
   has it */
mst_breaker_state_t ngx_http_mistral_breaker_state(
    ngx_http_mistral_model_t *m, uint64_t *wait_ns);
const char *ngx_http_mistral_breaker_name(mst_breaker_state_t state);

/* an operator knows better: closed, as if nothing had been */
void ngx_http_mistral_breaker_resume(ngx_http_mistral_model_t *m);

/* no refusal is set by it */
ngx_uint_t ngx_http_mistral_breaker_allows(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m);

/* fallback.c: is there another model for a request with this ctx->error? */
ngx_uint_t ngx_http_mistral_fallback_takes(ngx_http_mistral_ctx_t *ctx);

/* canary.c: 0: no line of this model counts; two lines of one text are one */
ngx_uint_t ngx_http_mistral_canary_sum(ngx_http_mistral_model_t *m,
    ngx_http_mistral_canary_sum_t *sum);

/* its lines begin anew, rolled back or not */
void ngx_http_mistral_canary_resume(ngx_http_mistral_model_t *m);


#endif /* NGX_HTTP_MISTRAL_ROUTE_H */
