
/*
 * mistral_preread: what other files ask of it, or tell it.
 */

#ifndef NGX_HTTP_MISTRAL_PREREAD_H
#define NGX_HTTP_MISTRAL_PREREAD_H

#include "gateway/ngx_http_mistral.h"


/* a variable of the body is asked for and there is no body yet: says so,
   once, where that is the configuration's fault */
void ngx_http_mistral_preread_missed(ngx_http_request_t *r);


#endif /* NGX_HTTP_MISTRAL_PREREAD_H */
