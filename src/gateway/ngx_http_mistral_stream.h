
/*
 * What output.c asks of stream.c.  Workers only.
 */

#ifndef NGX_HTTP_MISTRAL_STREAM_H
#define NGX_HTTP_MISTRAL_STREAM_H

#include "gateway/ngx_http_mistral_request.h"


/* the client's leaving is of no interest: its answer is computed to its end,
   and counted */
ngx_uint_t ngx_http_mistral_stream_goes_on(ngx_http_mistral_ctx_t *ctx);

/* after each try to send: how much the client is behind */
void ngx_http_mistral_stream_behind(ngx_http_mistral_ctx_t *ctx,
    size_t pending);

/* all sequences of the request out of the engine's steps, or into them */
void ngx_http_mistral_stream_pause(ngx_http_mistral_ctx_t *ctx,
    ngx_uint_t on);


#endif /* NGX_HTTP_MISTRAL_STREAM_H */
