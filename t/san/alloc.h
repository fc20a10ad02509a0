
/*
 * Included before everything else of the gateway in a build with SAN=1: each
 * allocation of the module is one of malloc(), so that AddressSanitizer sees
 * its ends.  nginx's pools would hand out pieces of a page, and a byte too
 * far is the neighbour's.  What a pool owns, it still frees.
 *
 * configure's feature tests include it too, and find no nginx.
 */

#if defined(__has_include) && __has_include(<ngx_http.h>)

#ifndef MST_SAN_ALLOC_H
#define MST_SAN_ALLOC_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#define MST_SAN_ALIGN  16


static inline void *
ngx_http_mistral_san_palloc(ngx_pool_t *pool, size_t size)
{
    return ngx_pmemalign(pool, size ? size : 1, MST_SAN_ALIGN);
}


static inline void *
ngx_http_mistral_san_pcalloc(ngx_pool_t *pool, size_t size)
{
    void  *p;

    p = ngx_http_mistral_san_palloc(pool, size);
    if (p) {
        ngx_memzero(p, size);
    }

    return p;
}


#define ngx_palloc(pool, size)   ngx_http_mistral_san_palloc(pool, size)
#define ngx_pnalloc(pool, size)  ngx_http_mistral_san_palloc(pool, size)
#define ngx_pcalloc(pool, size)  ngx_http_mistral_san_pcalloc(pool, size)

/* not nginx's, whose own leaks are nobody's business (t/san/nginx.supp) */

#define ngx_alloc(size, log)     ((void) (log), malloc(size))
#define ngx_calloc(size, log)    ((void) (log), calloc(1, size))

#endif /* MST_SAN_ALLOC_H */

#endif
