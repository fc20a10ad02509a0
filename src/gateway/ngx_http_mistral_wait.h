
/*
 * mistral_engine_wait: requests that are held until their engine is ready.
 * wait.c, and what the files of a request and of a link ask of it.  Workers
 * only.
 */

#ifndef NGX_HTTP_MISTRAL_WAIT_H
#define NGX_HTTP_MISTRAL_WAIT_H

#include "gateway/ngx_http_mistral_link.h"
#include "gateway/ngx_http_mistral_request.h"


extern ngx_module_t  ngx_http_mistral_wait_module;


/* the engine does not take this request (ctx->error): may it be held? */
ngx_uint_t ngx_http_mistral_wait_may(ngx_http_mistral_ctx_t *ctx);

/* may so many more answers be held as this request needs? */
ngx_uint_t ngx_http_mistral_wait_room(ngx_http_mistral_ctx_t *ctx);

/* the engine is ready, but others of this worker came before */
ngx_uint_t ngx_http_mistral_wait_behind(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m);

/* holds it: NGX_OK, and ngx_http_mistral_start() or _fail() follow; else as
   the steps of a request: NGX_DECLINED: ctx->error */
ngx_int_t ngx_http_mistral_wait_hold(ngx_http_mistral_ctx_t *ctx);

/* no longer, whatever the reason; idempotent */
void ngx_http_mistral_wait_leave(ngx_http_mistral_ctx_t *ctx);

/* a worker's link: begins, may have changed its state, can never be READY
   again, ends */
void ngx_http_mistral_wait_init(ngx_http_mistral_link_t *link);
void ngx_http_mistral_wait_wake(ngx_http_mistral_link_t *link);
void ngx_http_mistral_wait_lost(ngx_http_mistral_link_t *link);
void ngx_http_mistral_wait_fini(ngx_http_mistral_link_t *link);

/* answers that all workers hold for this model's engine */
uint64_t ngx_http_mistral_wait_held(ngx_http_mistral_model_t *m);


#endif /* NGX_HTTP_MISTRAL_WAIT_H */
