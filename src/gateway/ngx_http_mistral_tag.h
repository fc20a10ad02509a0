
/*
 * mistral_tag: what other files ask of tags.
 */

#ifndef NGX_HTTP_MISTRAL_TAG_H
#define NGX_HTTP_MISTRAL_TAG_H

#include "gateway/ngx_http_mistral.h"


/* configuration phase, after all was read: some location has this tag */
ngx_uint_t ngx_http_mistral_tag_known(ngx_conf_t *cf, ngx_str_t *name);

/* what the tag says of this request; len 0: nothing */
ngx_int_t ngx_http_mistral_tag_value(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value);


#endif /* NGX_HTTP_MISTRAL_TAG_H */
