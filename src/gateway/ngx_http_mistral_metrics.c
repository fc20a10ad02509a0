
/*
 * The gateway's counters, in nginx's shared memory.
 *
 * One table in the module's zone, which nginx hands from cycle to cycle: an
 * entry for each model's name, the first one for requests that had no model.
 * The master gives entries out, workers add to them with atomic operations
 * and no lock, so that nothing is lost with a worker and nothing waits for a
 * dead one.
 *
 * The engine's own counters stand in its segment.  A changed engine has a new
 * segment that begins at 0, while old workers may still use the old one.  So
 * all who have a segment fold its counters into the model's totals from time
 * to time, and at their end: what a segment's counter grew by since the last
 * fold is added.  "seen" says how far that is, and is moved by compare and
 * swap: two folds at once add everything once.
 */

#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_metrics.h"
#include "gateway/ngx_http_mistral_series.h"


static ngx_http_mistral_metrics_t *ngx_http_mistral_metrics_entry(
    ngx_http_mistral_main_conf_t *mmcf, ngx_str_t *name);
static void ngx_http_mistral_metrics_segment(ngx_http_mistral_metrics_t *mx,
    const mst_map_t *map);
static void ngx_http_mistral_metrics_code(ngx_http_mistral_metrics_t *mx,
    ngx_uint_t status);
static void ngx_http_mistral_metrics_grow(_Atomic uint64_t *seen,
    uint64_t value, _Atomic uint64_t *total);
static ngx_int_t ngx_http_mistral_metrics_handler(ngx_http_request_t *r);


#define NGX_HTTP_MISTRAL_METRICS_MAX  ((uint64_t) 1 << 60)

#define ngx_http_mistral_metrics_add(word, n)                                 \
    (void) atomic_fetch_add_explicit(word, n, memory_order_relaxed)


const char  *ngx_http_mistral_shed_names[NGX_HTTP_MISTRAL_SHEDS] = {
    "queue_full", "kv_full", "deadline", "loading", "draining", "engine",
    "breaker", "thermal"
};

const char  *ngx_http_mistral_abort_names[NGX_HTTP_MISTRAL_ABORTS] = {
    "queue", "prefill", "decode"
};


/* always the same, or a reload would get another zone */

size_t
ngx_http_mistral_metrics_size(void)
{
    return ngx_align(sizeof(ngx_http_mistral_table_t), ngx_pagesize)
           + 16 * ngx_pagesize;
}


/* init_zone: the table, which is there already but for the first time */

ngx_int_t
ngx_http_mistral_metrics_init(ngx_http_mistral_main_conf_t *mmcf)
{
    ngx_slab_pool_t           *pool;
    ngx_http_mistral_table_t  *table;

    pool = (ngx_slab_pool_t *) mmcf->zone->shm.addr;

    if (pool->data == NULL) {

        /* pages that no model needs are never touched */

        table = ngx_slab_alloc(pool, sizeof(ngx_http_mistral_table_t));
        if (table == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(&table->entries[0], sizeof(ngx_http_mistral_metrics_t));
        table->n = 1;

        pool->data = table;
    }

    mmcf->table = pool->data;

    return NGX_OK;
}


/* init_module: the entry of a model, and its engine's segment in it */

void
ngx_http_mistral_metrics_attach(ngx_cycle_t *cycle,
    ngx_http_mistral_main_conf_t *mmcf, ngx_http_mistral_model_t *m)
{
    m->metrics = ngx_http_mistral_metrics_entry(mmcf, &m->name);

    if (m->metrics == NULL) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "mistral model \"%V\": no metrics, there is room for %d "
                      "models", &m->name, NGX_HTTP_MISTRAL_METRICS - 1);

    } else if (m->engine != NULL) {
        ngx_http_mistral_metrics_segment(m->metrics, &m->engine->map);
    }
}


/* a model that is gone keeps its entry: it may come back */

static ngx_http_mistral_metrics_t *
ngx_http_mistral_metrics_entry(ngx_http_mistral_main_conf_t *mmcf,
    ngx_str_t *name)
{
    ngx_str_t                    other;
    ngx_uint_t                   i;
    ngx_http_mistral_table_t    *table;
    ngx_http_mistral_metrics_t  *mx, *old;

    table = mmcf->table;
    old = NULL;

    for (i = 1; i < table->n; i++) {
        mx = &table->entries[i];

        other.data = (u_char *) mx->name;
        other.len = ngx_strlen(mx->name);

        if (other.len == name->len
            && ngx_memcmp(other.data, name->data, name->len) == 0)
        {
            return mx;
        }

        if (old == NULL && ngx_http_mistral_find_model(mmcf, &other) == NULL) {
            old = mx;
        }
    }

    mx = old;

    if (table->n < NGX_HTTP_MISTRAL_METRICS) {
        mx = &table->entries[table->n++];
    }

    if (mx != NULL) {
        ngx_memzero(mx, sizeof(ngx_http_mistral_metrics_t));
        ngx_memcpy(mx->name, name->data,
                   ngx_min(name->len, sizeof(mx->name) - 1));
    }

    return mx;
}


/* a segment that is new to the model takes the place of its oldest */

static void
ngx_http_mistral_metrics_segment(ngx_http_mistral_metrics_t *mx,
    const mst_map_t *map)
{
    ngx_uint_t                i;
    ngx_http_mistral_seen_t  *seen;

    for (i = 0; i < NGX_HTTP_MISTRAL_SEEN; i++) {
        if (atomic_load(&mx->seen[i].created_ns) == map->shm->created_ns) {
            return;
        }
    }

    seen = &mx->seen[mx->n_seen++ % NGX_HTTP_MISTRAL_SEEN];

    atomic_store(&seen->created_ns, 0);
    atomic_store(&seen->restarts, 0);

    for (i = 0; i < MST_STAT_WORDS; i++) {
        atomic_store(&seen->words[i], 0);
    }

    atomic_store(&seen->created_ns, map->shm->created_ns);
}


void
ngx_http_mistral_metrics_fold(ngx_http_mistral_metrics_t *mx,
    const mst_map_t *map)
{
    ngx_uint_t                i;
    const _Atomic uint64_t   *now;
    _Atomic uint64_t         *total;
    ngx_http_mistral_seen_t  *seen;

    if (mx == NULL || map == NULL) {
        return;
    }

    for (i = 0; i < NGX_HTTP_MISTRAL_SEEN; i++) {
        if (atomic_load(&mx->seen[i].created_ns) == map->shm->created_ns) {
            break;
        }
    }

    if (i == NGX_HTTP_MISTRAL_SEEN) {
        return;
    }

    seen = &mx->seen[i];
    now = (const _Atomic uint64_t *) &map->shm->stat + MST_STAT_FIRST;
    total = (_Atomic uint64_t *) &mx->total + MST_STAT_FIRST;

    for (i = 0; i < MST_STAT_WORDS; i++) {
        ngx_http_mistral_metrics_grow(&seen->words[i], mst_stat_get(&now[i]),
                                      &total[i]);
    }

    ngx_http_mistral_metrics_grow(&seen->restarts,
                                  atomic_load(&map->shm->restarts),
                                  &mx->restarts);
}


static void
ngx_http_mistral_metrics_grow(_Atomic uint64_t *seen, uint64_t value,
    _Atomic uint64_t *total)
{
    uint64_t  old;

    old = mst_stat_get(seen);

    /* no counter gets that far, and a total must not wrap */

    while (value > old && value < NGX_HTTP_MISTRAL_METRICS_MAX) {
        if (atomic_compare_exchange_weak(seen, &old, value)) {
            ngx_http_mistral_metrics_add(total, value - old);
            return;
        }
    }
}


/* the request is closed: what only its context knows */

void
ngx_http_mistral_metrics_end(ngx_http_mistral_ctx_t *ctx)
{
    uint64_t                     ns;
    ngx_uint_t                   i;
    ngx_http_mistral_metrics_t  *mx;

    if (ctx->model == NULL || ctx->model->metrics == NULL) {
        return;
    }

    mx = ctx->model->metrics;

    if (ctx->first_ns) {
        ns = ctx->first_ns - ctx->start_ns;

        ngx_http_mistral_metrics_add(&mx->ttft.bucket[mst_stat_bucket(ns)], 1);
        ngx_http_mistral_metrics_add(&mx->ttft.sum_ns, ns);
    }

    for (i = 0; ctx->phase && i < NGX_HTTP_MISTRAL_ABORTS; i++) {
        if (ngx_strcmp(ctx->phase, ngx_http_mistral_abort_names[i]) == 0) {
            ngx_http_mistral_metrics_add(&mx->aborts[i], 1);
        }
    }

    ngx_http_mistral_metrics_add(&mx->wasted, ngx_http_mistral_wasted(ctx));

    if (ctx->header_sent) {
        ngx_http_mistral_metrics_add(&mx->cut, ctx->error.status != 0);
        return;
    }

    if (ctx->shed == NULL) {
        return;
    }

    for (i = 0; i < NGX_HTTP_MISTRAL_SHEDS; i++) {
        if (ngx_strcmp(ctx->shed, ngx_http_mistral_shed_names[i]) == 0) {
            ngx_http_mistral_metrics_add(&mx->sheds[i], 1);
        }
    }
}


uint64_t
ngx_http_mistral_wasted(ngx_http_mistral_ctx_t *ctx)
{
    mst_usage_t  usage;

    if (ctx->n_choices == 0) {
        return 0;
    }

    ngx_http_mistral_usage(ctx, &usage);

    return usage.completion - ngx_http_mistral_delivered(ctx) + ctx->beyond;
}


/* another model takes it: what this one has sampled is nobody's */

void
ngx_http_mistral_metrics_fallback(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_metrics_t  *mx;

    mx = ctx->model->metrics;

    if (mx != NULL) {
        ngx_http_mistral_metrics_add(&mx->fallbacks, 1);
        ngx_http_mistral_metrics_add(&mx->wasted,
                                     ngx_http_mistral_wasted(ctx));
    }
}


/* log phase: the status that the access log has, whoever answered */

static ngx_int_t
ngx_http_mistral_metrics_handler(ngx_http_request_t *r)
{
    ngx_str_t                      none = ngx_null_string;
    ngx_uint_t                     status;
    ngx_http_mistral_ctx_t        *ctx;
    ngx_http_mistral_model_t      *m;
    ngx_http_mistral_metrics_t    *mx;
    ngx_http_mistral_loc_conf_t   *mlcf;
    ngx_http_mistral_main_conf_t  *mmcf;

    ctx = ngx_http_mistral_get_ctx(r);
    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);
    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);

    m = mlcf->handler == ngx_http_mistral_handler ? mlcf->model : NULL;

    /* one that was only looked at is somebody else's */

    if ((ctx == NULL || !ctx->entered)
        && mlcf->handler != ngx_http_mistral_handler)
    {
        return NGX_OK;
    }

    if (ctx && ctx->model) {
        m = ctx->model;
    }

    mx = m ? m->metrics : mmcf->table ? &mmcf->table->entries[0] : NULL;

    if (mx == NULL) {
        return NGX_OK;
    }

    status = r->err_status ? r->err_status : r->headers_out.status;

    ngx_http_mistral_metrics_code(mx, status);
    ngx_http_mistral_series_count(r, ctx, m ? &m->name : &none, status);

    return NGX_OK;
}


/* a code has an entry of its own as long as there are any */

static void
ngx_http_mistral_metrics_code(ngx_http_mistral_metrics_t *mx,
    ngx_uint_t status)
{
    uint32_t                  code;
    ngx_uint_t                i;
    ngx_http_mistral_code_t  *c;

    status = ngx_max(ngx_min(status, 999), 1);

    for (i = 0; i < NGX_HTTP_MISTRAL_CODES - 1; i++) {
        c = &mx->codes[i];
        code = 0;

        if (atomic_compare_exchange_strong(&c->code, &code, (uint32_t) status)
            || code == status)
        {
            break;
        }
    }

    ngx_http_mistral_metrics_add(&mx->codes[i].requests, 1);
}


ngx_int_t
ngx_http_mistral_metrics_add_handler(ngx_conf_t *cf)
{
    ngx_http_handler_pt           *h;
    ngx_http_core_main_conf_t     *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_mistral_metrics_handler;

    return NGX_OK;
}
