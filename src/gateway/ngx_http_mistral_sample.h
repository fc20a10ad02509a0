
/*
 * What the models and their engines are at one moment, for mistral_status.
 */

#ifndef NGX_HTTP_MISTRAL_SAMPLE_H
#define NGX_HTTP_MISTRAL_SAMPLE_H

#include "gateway/ngx_http_mistral_metrics.h"


/* one model at one time; each number is right by itself */
typedef struct {
    ngx_str_t                    name;
    ngx_http_mistral_metrics_t  *mx;           /* NULL: no counters */
    mst_stat_t                   stat;         /* gauges; all 0 while no
                                                  engine is ready */
    uint64_t                     max_batch;
    uint64_t                     loaded;       /* percent */
    uint64_t                     held;         /* answers that wait until the
                                                  engine is ready */
    ngx_uint_t                   ready;
    ngx_uint_t                   engine;       /* there is a segment */
    mst_breaker_state_t          breaker;
    ngx_uint_t                   canary;       /* one that is counted */
    ngx_uint_t                   rolled_back;
} ngx_http_mistral_sample_t;


/* of ngx_http_mistral_sample_t: what had no model, then the models in the
   configuration's order */
ngx_int_t ngx_http_mistral_sample(ngx_http_request_t *r,
    ngx_array_t *samples);


#endif /* NGX_HTTP_MISTRAL_SAMPLE_H */
