
/*
 * What the gateway counts, by the name of the model: metrics.c writes it,
 * prometheus.c shows it.
 */

#ifndef NGX_HTTP_MISTRAL_METRICS_H
#define NGX_HTTP_MISTRAL_METRICS_H

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_cancel.h"
#include "gateway/ngx_http_mistral_request.h"


#define NGX_HTTP_MISTRAL_METRICS  128          /* models, and the nameless */
#define NGX_HTTP_MISTRAL_CODES    32
#define NGX_HTTP_MISTRAL_SEEN     4


typedef enum {
    NGX_HTTP_MISTRAL_SHED_QUEUE_FULL = 0,
    NGX_HTTP_MISTRAL_SHED_KV_FULL,
    NGX_HTTP_MISTRAL_SHED_DEADLINE,
    NGX_HTTP_MISTRAL_SHED_LOADING,
    NGX_HTTP_MISTRAL_SHED_DRAINING,
    NGX_HTTP_MISTRAL_SHED_ENGINE,
    NGX_HTTP_MISTRAL_SHED_BREAKER,
    NGX_HTTP_MISTRAL_SHED_THERMAL,
    NGX_HTTP_MISTRAL_SHEDS
} ngx_http_mistral_shed_e;


typedef enum {
    NGX_HTTP_MISTRAL_ABORT_QUEUE = 0,
    NGX_HTTP_MISTRAL_ABORT_PREFILL,
    NGX_HTTP_MISTRAL_ABORT_DECODE,
    NGX_HTTP_MISTRAL_ABORTS
} ngx_http_mistral_abort_e;


typedef struct {
    _Atomic uint32_t         code;             /* 0 = free; CAS */
    _Atomic uint64_t         requests;
} ngx_http_mistral_code_t;


/* how much of a segment's counters is in the totals */
typedef struct {
    _Atomic uint64_t         created_ns;       /* the segment's name; 0 =
                                                  none */
    _Atomic uint64_t         restarts;
    _Atomic uint64_t         words[MST_STAT_WORDS];
} ngx_http_mistral_seen_t;


struct ngx_http_mistral_metrics_s {
    char                     name[64];         /* the master's */
    _Atomic uint32_t         drained;          /* by mistral_control: takes no
                                                  new requests */
    ngx_http_mistral_code_t  codes[NGX_HTTP_MISTRAL_CODES];
    _Atomic uint64_t         sheds[NGX_HTTP_MISTRAL_SHEDS];
    _Atomic uint64_t         aborts[NGX_HTTP_MISTRAL_ABORTS];
    _Atomic uint64_t         cut;              /* answers that an error ended
                                                  after their 200 */
    _Atomic uint64_t         fallbacks;        /* went on to another model */
    _Atomic uint64_t         wasted;           /* tokens */
    mst_stat_hist_t          ttft;

    /* of all engines that this model has had */
    _Atomic uint64_t         restarts;
    mst_stat_t               total;            /* its counters only */

    uint32_t                 n_seen;           /* the master's */
    ngx_http_mistral_seen_t  seen[NGX_HTTP_MISTRAL_SEEN];
};


struct ngx_http_mistral_table_s {
    ngx_uint_t                  n;             /* in use; the master's */
    ngx_http_mistral_board_t    board;         /* of mistral_control */
    ngx_http_mistral_metrics_t  entries[NGX_HTTP_MISTRAL_METRICS];
                                               /* 0: of no model */
};


void ngx_http_mistral_metrics_fallback(ngx_http_mistral_ctx_t *ctx);


extern const char  *ngx_http_mistral_shed_names[NGX_HTTP_MISTRAL_SHEDS];
extern const char  *ngx_http_mistral_abort_names[NGX_HTTP_MISTRAL_ABORTS];


#endif /* NGX_HTTP_MISTRAL_METRICS_H */
