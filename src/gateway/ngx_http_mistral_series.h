
/*
 * What requests cost by who asked: the usage_* metrics.
 *
 *   labels.c  mistral_metrics_labels: which labels, and their values as text
 *   series.c  a row of counters for each text
 */

#ifndef NGX_HTTP_MISTRAL_SERIES_H
#define NGX_HTTP_MISTRAL_SERIES_H

#include "gateway/ngx_http_mistral_request.h"


#define NGX_HTTP_MISTRAL_SERIES_SPARE  128     /* rows "_overflow": one for
                                                  each model, or they share */

#define NGX_HTTP_MISTRAL_LABELS        4       /* beside the model */
#define NGX_HTTP_MISTRAL_LABEL_VALUE   64      /* bytes of a value */

/* tag_ and 32 bytes, ="", a comma, each byte escaped; then the model's */
#define NGX_HTTP_MISTRAL_LABEL_TEXT                                           \
    (4 + 32 + 4 + 2 * NGX_HTTP_MISTRAL_LABEL_VALUE)
#define NGX_HTTP_MISTRAL_SERIES_TEXT                                          \
    ((NGX_HTTP_MISTRAL_LABELS + 1) * NGX_HTTP_MISTRAL_LABEL_TEXT)


typedef struct ngx_http_mistral_series_s  ngx_http_mistral_series_t;


typedef struct {
    ngx_uint_t                  max;           /* rows */
    ngx_array_t                 labels;        /* labels.c */
    ngx_int_t                   consumer;      /* index of the variable */
    ngx_uint_t                  given;         /* the directive was */
    ngx_shm_zone_t             *zone;          /* NULL: no labels */
    ngx_http_mistral_series_t  *series;        /* in it */
} ngx_http_mistral_series_main_conf_t;


extern ngx_module_t  ngx_http_mistral_series_module;


/* labels.c: the labels of a request as the page shows them, into a buffer of
   NGX_HTTP_MISTRAL_SERIES_TEXT bytes; r NULL: those of the overflow */
size_t ngx_http_mistral_labels_text(ngx_http_request_t *r,
    ngx_http_mistral_series_main_conf_t *smcf, ngx_str_t *model,
    u_char *text);

/* series.c: the zone, in the configuration phase */
size_t ngx_http_mistral_series_size(ngx_uint_t max);
ngx_int_t ngx_http_mistral_series_init_zone(ngx_shm_zone_t *zone, void *old);

/* log phase: a request of this model ("" = of none) has ended */
void ngx_http_mistral_series_count(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, ngx_str_t *model, ngx_uint_t status);

/* all families as text, nothing where no labels are asked for */
void ngx_http_mistral_series_show(ngx_http_request_t *r, mst_buf_t *out);


#endif /* NGX_HTTP_MISTRAL_SERIES_H */
