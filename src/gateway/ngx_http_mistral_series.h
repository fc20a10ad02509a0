
/*
 * What requests cost by who asked: the usage_* metrics, with the labels of
 * mistral_metrics_labels.
 */

#ifndef NGX_HTTP_MISTRAL_SERIES_H
#define NGX_HTTP_MISTRAL_SERIES_H

#include "gateway/ngx_http_mistral_request.h"


/* log phase: a request of this model ("" = of none) has ended */
void ngx_http_mistral_series_count(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, ngx_str_t *model, ngx_uint_t status);

/* all families as text, nothing where no labels are asked for */
void ngx_http_mistral_series_show(ngx_http_request_t *r, mst_buf_t *out);


#endif /* NGX_HTTP_MISTRAL_SERIES_H */
