
/*
 * Records of policies in nginx's shared memory that outlast reloads and the
 * death of workers: of one size, found by a 64-bit key, zeroed when they are
 * new.  The master alone gives them out, before it starts workers; what is
 * in them is the policy's.  A binary upgrade (USR2) begins with new ones.
 */

#ifndef NGX_HTTP_MISTRAL_KEEP_H
#define NGX_HTTP_MISTRAL_KEEP_H

#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_HTTP_MISTRAL_KEEP  128             /* records */


/* configuration: NULL is an error that was logged */
ngx_shm_zone_t *ngx_http_mistral_keep_add(ngx_conf_t *cf, ngx_str_t *name,
    ngx_module_t *module, size_t size);

/*
 * init_module: the record of the key, for this cycle; NULL: all are taken by
 * records of this configuration.  One that no configuration asked for since
 * the longest time makes room.
 */
void *ngx_http_mistral_keep_get(ngx_shm_zone_t *zone, uint64_t key);


#endif /* NGX_HTTP_MISTRAL_KEEP_H */
