
/*
 * The lines of mistral_canary: canary_conf.c reads them, canary.c follows
 * them.
 */

#ifndef NGX_HTTP_MISTRAL_CANARY_H
#define NGX_HTTP_MISTRAL_CANARY_H

#include "gateway/ngx_http_mistral_route.h"
#include "base/mst_canary.h"


/* a line; cycle pool */
typedef struct {
    ngx_str_t                  name;
    ngx_http_mistral_model_t  *model;
    uint32_t                   part;           /* of MST_CANARY_ALL */
    ngx_http_complex_value_t  *percent;        /* NULL: the part it is */
    ngx_http_complex_value_t  *key;            /* NULL: the client's address */
    ngx_http_complex_value_t  *header;         /* NULL: none */
    mst_canary_conf_t          conf;           /* window 0: never rolled
                                                  back */
    uint64_t                   hash;           /* of the line's text */
    mst_canary_t              *counts;         /* shared memory; NULL: none */
    u_char                    *file_name;
    ngx_uint_t                 line;
} ngx_http_mistral_canary_t;


typedef struct {
    ngx_shm_zone_t            *zone;           /* NULL: nothing is counted */
    ngx_array_t                lines;          /* of _canary_t *, all */
} ngx_http_mistral_canary_main_conf_t;


typedef struct {
    ngx_array_t               *lines;          /* of _canary_t *; NULL: as
                                                  the parent; empty: off */
} ngx_http_mistral_canary_loc_conf_t;


#endif /* NGX_HTTP_MISTRAL_CANARY_H */
