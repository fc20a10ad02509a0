
/*
 * Requests that an operator ends, whichever worker has them.
 *
 * A board in nginx's shared memory holds the orders that somebody waits for.
 * Who orders takes an entry whose time is over, writes it and has every worker
 * woken; each looks whether the id is one of its own, ends that request and
 * marks the entry.
 */

#ifndef NGX_HTTP_MISTRAL_CANCEL_H
#define NGX_HTTP_MISTRAL_CANCEL_H

#include "gateway/ngx_http_mistral.h"


#define NGX_HTTP_MISTRAL_ORDERS      1024
#define NGX_HTTP_MISTRAL_ORDER_ID    64        /* bytes with the NUL */
#define NGX_HTTP_MISTRAL_ORDER_WAIT  2500      /* ms that one waits */
#define NGX_HTTP_MISTRAL_ORDER_LIFE  5000      /* ms until an entry is free */


typedef struct {
    _Atomic uint64_t            taken;         /* ms, monotonic; 0: never */
    _Atomic uint64_t            number;        /* of the order; 0: nobody's, or
                                                  being written */
    _Atomic uint64_t            found;         /* = number: it was done */
    char                        id[NGX_HTTP_MISTRAL_ORDER_ID];
} ngx_http_mistral_order_t;


typedef struct {
    _Atomic uint64_t            next;          /* number given last */
    _Atomic uint64_t            published;     /* how many were written */
    ngx_http_mistral_order_t    orders[NGX_HTTP_MISTRAL_ORDERS];
} ngx_http_mistral_board_t;


/* "id" has a NUL and fits; the number of the order, 0: there are too many */
uint64_t ngx_http_mistral_cancel_order(ngx_http_mistral_main_conf_t *mmcf,
    const char *id);

/* 1: some worker had the request and ended it */
ngx_uint_t ngx_http_mistral_cancel_done(ngx_http_mistral_main_conf_t *mmcf,
    uint64_t number);

/* not inside of a request's handler: it may end requests of this worker */
void ngx_http_mistral_cancel_look(void);


#endif /* NGX_HTTP_MISTRAL_CANCEL_H */
