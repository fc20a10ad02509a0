
/*
 * One look at all models: see ngx_http_mistral_sample.h.  Engines are read
 * from their stats page, never asked.  Workers only.
 */

#include "gateway/ngx_http_mistral_sample.h"
#include "gateway/ngx_http_mistral_route.h"
#include "gateway/ngx_http_mistral_wait.h"


static void ngx_http_mistral_sample_engine(ngx_http_mistral_sample_t *s,
    ngx_http_mistral_model_t *m);


ngx_int_t
ngx_http_mistral_sample(ngx_http_request_t *r, ngx_array_t *samples)
{
    ngx_uint_t                      i;
    ngx_http_mistral_model_t      **models;
    ngx_http_mistral_sample_t      *s;
    ngx_http_mistral_main_conf_t   *mmcf;

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);
    models = mmcf->models.elts;

    s = ngx_array_push(samples);
    if (s == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(s, sizeof(ngx_http_mistral_sample_t));

    if (mmcf->table != NULL) {
        s->mx = &mmcf->table->entries[0];
    }

    for (i = 0; i < mmcf->models.nelts; i++) {

        s = ngx_array_push(samples);
        if (s == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(s, sizeof(ngx_http_mistral_sample_t));

        s->name = models[i]->name;
        s->mx = models[i]->metrics;

        ngx_http_mistral_sample_engine(s, models[i]);
    }

    return NGX_OK;
}


static void
ngx_http_mistral_sample_engine(ngx_http_mistral_sample_t *s,
    ngx_http_mistral_model_t *m)
{
    size_t                          i;
    uint64_t                        wait;
    const mst_map_t                *map;
    _Atomic uint64_t               *to;
    uint32_t                        state;
    const _Atomic uint64_t         *from;
    ngx_http_mistral_canary_sum_t   sum;

    s->ready = ngx_http_mistral_link_state(m) == NGX_HTTP_MISTRAL_READY;
    s->breaker = ngx_http_mistral_breaker_state(m, &wait);
    s->canary = ngx_http_mistral_canary_sum(m, &sum) != 0;
    s->rolled_back = sum.rolled_back;

    map = ngx_http_mistral_link_map(m);
    if (map == NULL) {
        return;
    }

    ngx_http_mistral_metrics_fold(s->mx, map);

    s->engine = 1;
    s->max_batch = atomic_load(&map->shm->max_batch);
    s->held = ngx_http_mistral_wait_held(m);

    state = atomic_load(&map->shm->state);

    if (state == MST_STATE_LOADING || state == MST_STATE_READY) {
        s->loaded = mst_stat_get(&map->shm->stat.loaded);
    }

    if (state != MST_STATE_READY) {
        return;                                /* its gauges are a dead one's */
    }

    from = (const _Atomic uint64_t *) &map->shm->stat;
    to = (_Atomic uint64_t *) &s->stat;

    for (i = 0; i < MST_STAT_FIRST; i++) {
        mst_stat_set(&to[i], mst_stat_get(&from[i]));
    }
}
