
/*
 * Records by key, see the header.  Master only.
 */

#include "gateway/ngx_http_mistral_keep.h"


typedef struct {
    uint64_t    key;
    uint64_t    asked;                         /* the table's clock when it
                                                  was; 0 = free */
} ngx_http_mistral_keep_entry_t;


/* in the zone; the records stand behind it */
typedef struct {
    uint64_t                       clock;      /* counts calls of _get() */
    ngx_http_mistral_keep_entry_t  entries[NGX_HTTP_MISTRAL_KEEP];
} ngx_http_mistral_keep_table_t;


/* of one cycle, in its pool */
typedef struct {
    ngx_http_mistral_keep_table_t *table;
    size_t                         size;       /* of a record */
    uint64_t                       began;      /* the clock then: what was
                                                  asked for later is ours */
} ngx_http_mistral_keep_t;


static ngx_int_t ngx_http_mistral_keep_init(ngx_shm_zone_t *zone, void *old);
static void *ngx_http_mistral_keep_record(ngx_http_mistral_keep_t *keep,
    ngx_uint_t i);


ngx_shm_zone_t *
ngx_http_mistral_keep_add(ngx_conf_t *cf, ngx_str_t *name,
    ngx_module_t *module, size_t size)
{
    ngx_shm_zone_t           *zone;
    ngx_http_mistral_keep_t  *keep;

    keep = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_keep_t));
    if (keep == NULL) {
        return NULL;
    }

    keep->size = ngx_align(size, NGX_ALIGNMENT);

    /* always the same, or a reload would get another zone */

    size = sizeof(ngx_http_mistral_keep_table_t)
           + NGX_HTTP_MISTRAL_KEEP * keep->size;
    size = ngx_align(size, ngx_pagesize) + 16 * ngx_pagesize;

    zone = ngx_shared_memory_add(cf, name, size, module);
    if (zone == NULL) {
        return NULL;
    }

    zone->data = keep;
    zone->init = ngx_http_mistral_keep_init;

    return zone;
}


static ngx_int_t
ngx_http_mistral_keep_init(ngx_shm_zone_t *zone, void *old)
{
    size_t                          size;
    ngx_slab_pool_t                *pool;
    ngx_http_mistral_keep_t        *keep;
    ngx_http_mistral_keep_table_t  *table;

    keep = zone->data;
    pool = (ngx_slab_pool_t *) zone->shm.addr;

    if (pool->data == NULL) {
        size = sizeof(ngx_http_mistral_keep_table_t);

        table = ngx_slab_alloc(pool, size
                                     + NGX_HTTP_MISTRAL_KEEP * keep->size);
        if (table == NULL) {
            return NGX_ERROR;
        }

        /* pages that no record needs are never touched */

        ngx_memzero(table, size);
        pool->data = table;
    }

    keep->table = pool->data;
    keep->began = keep->table->clock;

    return NGX_OK;
}


void *
ngx_http_mistral_keep_get(ngx_shm_zone_t *zone, uint64_t key)
{
    void                           *record;
    ngx_uint_t                      i, oldest;
    ngx_http_mistral_keep_t        *keep;
    ngx_http_mistral_keep_entry_t  *entries;

    keep = zone->data;
    entries = keep->table->entries;
    oldest = 0;

    for (i = 0; i < NGX_HTTP_MISTRAL_KEEP; i++) {

        if (entries[i].asked && entries[i].key == key) {
            entries[i].asked = ++keep->table->clock;
            return ngx_http_mistral_keep_record(keep, i);
        }

        if (entries[i].asked < entries[oldest].asked) {
            oldest = i;
        }
    }

    if (entries[oldest].asked > keep->began) {
        return NULL;
    }

    record = ngx_http_mistral_keep_record(keep, oldest);
    ngx_memzero(record, keep->size);

    entries[oldest].key = key;
    entries[oldest].asked = ++keep->table->clock;

    return record;
}


static void *
ngx_http_mistral_keep_record(ngx_http_mistral_keep_t *keep, ngx_uint_t i)
{
    return (u_char *) &keep->table[1] + i * keep->size;
}
