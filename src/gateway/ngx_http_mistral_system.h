
/*
 * A system prompt of the configuration: a text with variables, or a file
 * that is read with the configuration.
 */

#ifndef NGX_HTTP_MISTRAL_SYSTEM_H
#define NGX_HTTP_MISTRAL_SYSTEM_H

#include "gateway/ngx_http_mistral_request.h"

#include "api/mst_system.h"


typedef struct {
    ngx_http_complex_value_t   value;
    mst_system_how_t           how;
} ngx_http_mistral_system_t;


/*
 * "TEXT | file:PATH [prepend | append | replace]", n words.  NULL, or a
 * sentence was logged.
 */
ngx_http_mistral_system_t *ngx_http_mistral_system_parse(ngx_conf_t *cf,
    ngx_str_t *words, ngx_uint_t n);

/* what it is for this request; s->text.len is 0 where it is nothing */
ngx_int_t ngx_http_mistral_system_eval(ngx_http_request_t *r,
    ngx_http_mistral_system_t *system, mst_system_t *s);

/* how many of the ids are the system message's first "bytes" bytes and what
   the template says before; 0: they do not stand at the head */
uint32_t ngx_http_mistral_system_ids(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source, size_t bytes);

/* the same text for each request */
#define ngx_http_mistral_system_static(system)                                \
    ((system)->value.lengths == NULL)


#endif /* NGX_HTTP_MISTRAL_SYSTEM_H */
