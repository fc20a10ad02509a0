
/*
 * What a location says of pressure (pressure_conf.c), and what the request's
 * files ask of pressure.c: places, statuses and times of those who are turned
 * away.
 */

#ifndef NGX_HTTP_MISTRAL_PRESSURE_H
#define NGX_HTTP_MISTRAL_PRESSURE_H

#include "gateway/ngx_http_mistral_request.h"


#define NGX_HTTP_MISTRAL_PRESSURE_AUTO  ((ngx_uint_t) -2)  /* retry_after */


typedef struct {
    ngx_uint_t                  reserve;       /* per cent of the answer */
    ngx_http_complex_value_t   *ttft;          /* NULL: off */
    ngx_http_complex_value_t   *priority;
    ngx_flag_t                  preempt;
    ngx_http_complex_value_t   *fair;
    ngx_http_complex_value_t   *weight;        /* NULL: 1 */
    ngx_uint_t                  retry;         /* seconds, 0 = off, or AUTO */
    ngx_uint_t                  status;
} ngx_http_mistral_pressure_loc_conf_t;


extern ngx_module_t  ngx_http_mistral_pressure_module;


/* a number of digits, maybe with a sign; NGX_OK or NGX_ERROR */
ngx_int_t ngx_http_mistral_pressure_integer(ngx_str_t *value, int low,
    int high, int *n);

/* of the places of a queue those that this request may take */
ngx_uint_t ngx_http_mistral_pressure_places(ngx_http_mistral_ctx_t *ctx,
    ngx_uint_t waiting);

/* the status of a refusal: mistral_shed_status where it is one of those */
void ngx_http_mistral_pressure_status(ngx_http_request_t *r,
    mst_api_error_t *e, const char *shed);

/* seconds for Retry-After; 0: no such header */
ngx_uint_t ngx_http_mistral_pressure_retry(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, const char *shed);


#endif /* NGX_HTTP_MISTRAL_PRESSURE_H */
