
/*
 * Calls of tools in prompts and answers.  Workers only.
 */

#ifndef NGX_HTTP_MISTRAL_TOOLS_H
#define NGX_HTTP_MISTRAL_TOOLS_H

#include "gateway/ngx_http_mistral_request.h"


/* the prompt: NGX_OK, NGX_DECLINED: ctx->error, NGX_ERROR: no memory */
ngx_int_t ngx_http_mistral_tools_check(ngx_http_mistral_ctx_t *ctx);
ngx_int_t ngx_http_mistral_tools_force(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source);
ngx_int_t ngx_http_mistral_tools_bias(ngx_http_mistral_ctx_t *ctx);

/* the answer */
ngx_int_t ngx_http_mistral_tools_init(ngx_http_mistral_choice_t *choice);
void ngx_http_mistral_tools_fini(ngx_http_mistral_choice_t *choice);
int ngx_http_mistral_tools_token(ngx_http_mistral_choice_t *choice,
    uint32_t id);
int ngx_http_mistral_tools_finish(ngx_http_mistral_choice_t *choice);


#endif /* NGX_HTTP_MISTRAL_TOOLS_H */
