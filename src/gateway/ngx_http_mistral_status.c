
/*
 * What is answered without a call: /models, mistral_health, mistral_status.
 * Engines are read from their stats page, never asked.  Workers only.
 */

#include "gateway/ngx_http_mistral_route.h"

#include "api/mst_json.h"
#include "base/mst_time.h"
#include "shm/mst_place.h"


/* a reading of one engine; each number is right by itself */
typedef struct {
    ngx_http_mistral_model_t  *model;
    ngx_http_mistral_state_e   state;
    const mst_shm_t           *shm;            /* NULL: no engine yet */
    uint64_t                   running;
    uint64_t                   waiting;
    uint64_t                   step_ns;
    ngx_uint_t                 stuck;          /* work, but no step in time */
    mst_breaker_state_t        breaker;
    double                     kv_usage;       /* of all blocks: 0 .. 1 */
} ngx_http_mistral_reading_t;


static ngx_int_t ngx_http_mistral_list(ngx_http_request_t *r,
    ngx_array_t *list);
static ngx_int_t ngx_http_mistral_list_model(ngx_http_request_t *r,
    ngx_array_t *list, ngx_http_mistral_model_t *m);
static ngx_int_t ngx_http_mistral_list_name(ngx_http_request_t *r,
    ngx_array_t *list, ngx_http_mistral_model_t *m, ngx_str_t *name);
static ngx_int_t ngx_http_mistral_model_unknown(ngx_http_request_t *r,
    mst_str_t *id);
static void ngx_http_mistral_read(ngx_http_mistral_model_t *m,
    ngx_http_mistral_reading_t *rd);
static ngx_uint_t ngx_http_mistral_well(ngx_http_mistral_reading_t *rd);
static void ngx_http_mistral_health_fields(ngx_http_mistral_reading_t *rd,
    ngx_uint_t live, mst_buf_t *out);
static ngx_int_t ngx_http_mistral_health_send(ngx_http_request_t *r,
    ngx_uint_t status, const char *retry, mst_buf_t *out);
static void ngx_http_mistral_status_model(ngx_http_mistral_reading_t *rd,
    mst_buf_t *out);
static void ngx_http_mistral_status_route(ngx_http_mistral_reading_t *rd,
    mst_buf_t *out);
static void ngx_http_mistral_status_engine(ngx_http_mistral_reading_t *rd,
    mst_buf_t *out);
static void ngx_http_mistral_status_counters(const mst_stat_t *st,
    mst_buf_t *out);


#define ngx_http_mistral_load(word)                                           \
    atomic_load_explicit(&(word), memory_order_relaxed)


ngx_int_t
ngx_http_mistral_models(ngx_http_request_t *r, mst_api_t api, mst_str_t *id)
{
    int                 rc;
    mst_buf_t           out;
    ngx_int_t           discard;
    ngx_uint_t          i;
    ngx_array_t         list;
    mst_reply_model_t  *m;

    if (ngx_array_init(&list, r->pool, 8, sizeof(mst_reply_model_t)) != NGX_OK
        || ngx_http_mistral_list(r, &list) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    discard = ngx_http_discard_request_body(r);
    if (discard != NGX_OK) {
        return discard;
    }

    mst_buf_init(&out);
    m = list.elts;

    if (api == MST_API_MODELS) {
        rc = mst_reply_models(m, list.nelts, &out);

    } else {
        for (i = 0; i < list.nelts; i++) {
            if (m[i].id.len == id->len
                && ngx_memcmp(m[i].id.data, id->data, id->len) == 0)
            {
                break;
            }
        }

        if (i == list.nelts) {
            return ngx_http_mistral_model_unknown(r, id);
        }

        rc = mst_reply_model(&m[i], &out);
    }

    if (rc != MST_OK) {
        mst_buf_fini(&out);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mistral_send_json(r, NGX_HTTP_OK, &out);
}


/* what a client of this location may ask for */

static ngx_int_t
ngx_http_mistral_list(ngx_http_request_t *r, ngx_array_t *list)
{
    ngx_uint_t                     i;
    ngx_http_mistral_model_t     **models;
    ngx_http_mistral_loc_conf_t   *mlcf;
    ngx_http_mistral_main_conf_t  *mmcf;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);
    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);

    if (mlcf->model) {
        return ngx_http_mistral_list_model(r, list, mlcf->model);
    }

    models = mmcf->models.elts;

    for (i = 0; i < mmcf->models.nelts; i++) {
        if (ngx_http_mistral_list_model(r, list, models[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_list_model(ngx_http_request_t *r, ngx_array_t *list,
    ngx_http_mistral_model_t *m)
{
    ngx_str_t   *alias;
    ngx_uint_t   i;

    if (ngx_http_mistral_list_name(r, list, m, &m->name) != NGX_OK) {
        return NGX_ERROR;
    }

    alias = m->aliases.elts;

    for (i = 0; i < m->aliases.nelts; i++) {
        if (ngx_http_mistral_list_name(r, list, m, &alias[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_list_name(ngx_http_request_t *r, ngx_array_t *list,
    ngx_http_mistral_model_t *m, ngx_str_t *name)
{
    mst_reply_model_t  *entry;

    if (!ngx_http_mistral_route_allows(r, m, name)) {
        return NGX_OK;
    }

    entry = ngx_array_push(list);
    if (entry == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(entry, sizeof(mst_reply_model_t));

    entry->id = mst_str((char *) name->data, name->len);
    entry->created = m->created;
    entry->max_model_len = ngx_http_mistral_context(m);
    entry->chat = m->template != NULL;
    entry->fim = m->fim;
    entry->tools = m->tools;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_model_unknown(ngx_http_request_t *r, mst_str_t *id)
{
    mst_api_error_t  e;

    ngx_memzero(&e, sizeof(mst_api_error_t));
    (void) mst_api_error_set(&e, NGX_HTTP_NOT_FOUND, "model_not_found",
                             "model", "The model \"%.*s\" does not exist.",
                             (int) ngx_min(id->len, 128), id->data);

    return ngx_http_mistral_refuse(r, &e, NULL);
}


static void
ngx_http_mistral_read(ngx_http_mistral_model_t *m,
    ngx_http_mistral_reading_t *rd)
{
    uint64_t          total, now, stepped, wait;
    const mst_map_t  *map;

    ngx_memzero(rd, sizeof(ngx_http_mistral_reading_t));

    rd->model = m;
    rd->state = ngx_http_mistral_link_state(m);
    rd->breaker = ngx_http_mistral_breaker_state(m, &wait);

    map = ngx_http_mistral_link_map(m);
    if (map == NULL) {
        return;
    }

    rd->shm = map->shm;
    rd->running = ngx_http_mistral_load(rd->shm->stat.running);
    rd->waiting = ngx_http_mistral_load(rd->shm->stat.waiting);
    rd->step_ns = ngx_http_mistral_load(rd->shm->stat.last_step_ns);

    stepped = ngx_http_mistral_load(rd->shm->stat.stepped_ns);
    now = mst_time_ns();

    rd->stuck = rd->running != 0 && now > stepped
                && now - stepped > m->engine_timeout * MST_MS;

    total = ngx_http_mistral_load(rd->shm->stat.blocks_total);

    if (total) {
        rd->kv_usage = (double) ngx_http_mistral_load(rd->shm->stat.blocks_used)
                       / (double) total;
    }
}


/*
 * The top of the answer is the first model that is not ready, or the first;
 * several models stand in an array too.
 */

ngx_int_t
ngx_http_mistral_health_handler(ngx_http_request_t *r)
{
    mst_buf_t                       out;
    ngx_uint_t                      i, n, live, decode, top;
    ngx_http_mistral_model_t      **models;
    ngx_http_mistral_loc_conf_t    *mlcf;
    ngx_http_mistral_main_conf_t   *mmcf;
    ngx_http_mistral_reading_t     *rd;

    if (!ngx_http_mistral_method_allowed(r, "GET, HEAD")) {
        return ngx_http_mistral_refuse_method(r, "GET, HEAD");
    }

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);
    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);

    live = mlcf->health == NGX_HTTP_MISTRAL_HEALTH_LIVE;
    decode = mlcf->health == NGX_HTTP_MISTRAL_HEALTH_DECODE;
    models = mmcf->models.elts;
    n = mmcf->models.nelts;

    rd = ngx_palloc(r->pool, (n + 1) * sizeof(ngx_http_mistral_reading_t));
    if (rd == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    top = n;

    for (i = 0; i < n; i++) {
        ngx_http_mistral_read(models[i], &rd[i]);

        rd[i].stuck = rd[i].stuck && decode;

        if (top == n && !ngx_http_mistral_well(&rd[i])) {
            top = i;
        }
    }

    mst_buf_init(&out);
    (void) mst_buf_char(&out, '{');

    if (n == 0) {
        (void) mst_buf_text(&out, "\"status\":\"ok\"");

    } else {
        ngx_http_mistral_health_fields(&rd[top == n ? 0 : top], live, &out);
    }

    if (n > 1) {
        (void) mst_buf_text(&out, ",\"models\":[");

        for (i = 0; i < n; i++) {
            (void) mst_buf_text(&out, i ? ",{" : "{");
            ngx_http_mistral_health_fields(&rd[i], 0, &out);
            (void) mst_buf_char(&out, '}');
        }

        (void) mst_buf_char(&out, ']');
    }

    (void) mst_buf_text(&out, "}\n");

    if (live || top == n) {
        return ngx_http_mistral_health_send(r, NGX_HTTP_OK, NULL, &out);
    }

    return ngx_http_mistral_health_send(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                        "1", &out);
}


/* a half-open breaker is well: who sends requests only to what is ready must
   send some there */

static ngx_uint_t
ngx_http_mistral_well(ngx_http_mistral_reading_t *rd)
{
    return rd->state == NGX_HTTP_MISTRAL_READY && !rd->stuck
           && rd->breaker != MST_BREAKER_OPEN;
}


static void
ngx_http_mistral_health_fields(ngx_http_mistral_reading_t *rd,
    ngx_uint_t live, mst_buf_t *out)
{
    const char  *state;

    state = rd->state != NGX_HTTP_MISTRAL_READY
            ? ngx_http_mistral_state_name(rd->state)
            : rd->stuck ? "stuck" : rd->running ? "running" : "idle";

    (void) mst_buf_printf(out, "\"status\":\"%s\",\"scheduler_status\":"
                          "\"%s\",\"kv_cache_usage\":",
                          live || ngx_http_mistral_well(rd) ? "ok"
                          : rd->state == NGX_HTTP_MISTRAL_READY && !rd->stuck
                          ? "breaker_open" : state, state);

    (void) mst_json_number(out, rd->kv_usage);

    (void) mst_buf_printf(out, ",\"active_requests\":%llu"
                          ",\"queued_requests\":%llu,\"last_step_ms\":",
                          (unsigned long long) rd->running,
                          (unsigned long long) rd->waiting);

    (void) mst_json_number(out, (double) (rd->step_ns / 1000) / 1000);

    (void) mst_buf_printf(out, ",\"breaker\":\"%s\",\"model\":",
                          ngx_http_mistral_breaker_name(rd->breaker));
    (void) mst_json_string(out, mst_str((char *) rd->model->name.data,
                                        rd->model->name.len));
}


static ngx_int_t
ngx_http_mistral_health_send(ngx_http_request_t *r, ngx_uint_t status,
    const char *retry, mst_buf_t *out)
{
    ngx_int_t  rc;
    ngx_str_t  value;

    rc = ngx_http_discard_request_body(r);

    if (rc == NGX_OK) {
        ngx_str_set(&value, "no-store");
        rc = ngx_http_mistral_add_header(r, "Cache-Control", &value);
    }

    if (rc == NGX_OK && retry) {
        value.data = (u_char *) retry;
        value.len = ngx_strlen(retry);
        rc = ngx_http_mistral_add_header(r, "Retry-After", &value);
    }

    if (rc != NGX_OK) {
        mst_buf_fini(out);
        return rc == NGX_ERROR ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
    }

    return ngx_http_mistral_send_json(r, status, out);
}


ngx_int_t
ngx_http_mistral_status_handler(ngx_http_request_t *r)
{
    mst_buf_t                       out;
    ngx_uint_t                      i;
    ngx_http_mistral_model_t      **models;
    ngx_http_mistral_main_conf_t   *mmcf;
    ngx_http_mistral_reading_t      rd;

    if (!ngx_http_mistral_method_allowed(r, "GET, HEAD")) {
        return ngx_http_mistral_refuse_method(r, "GET, HEAD");
    }

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);
    models = mmcf->models.elts;

    mst_buf_init(&out);
    (void) mst_buf_text(&out, "{\"models\":[");

    for (i = 0; i < mmcf->models.nelts; i++) {
        ngx_http_mistral_read(models[i], &rd);

        (void) mst_buf_text(&out, i ? ",{" : "{");
        ngx_http_mistral_status_model(&rd, &out);
        (void) mst_buf_char(&out, '}');
    }

    (void) mst_buf_text(&out, "]}\n");

    return ngx_http_mistral_health_send(r, NGX_HTTP_OK, NULL, &out);
}


static void
ngx_http_mistral_status_model(ngx_http_mistral_reading_t *rd, mst_buf_t *out)
{
    ngx_str_t   *alias;
    ngx_uint_t   i;

    (void) mst_buf_text(out, "\"model\":");
    (void) mst_json_string(out, mst_str((char *) rd->model->name.data,
                                        rd->model->name.len));
    (void) mst_buf_text(out, ",\"aliases\":[");

    alias = rd->model->aliases.elts;

    for (i = 0; i < rd->model->aliases.nelts; i++) {
        if (i) {
            (void) mst_buf_char(out, ',');
        }

        (void) mst_json_string(out, mst_str((char *) alias[i].data,
                                            alias[i].len));
    }

    (void) mst_buf_printf(out, "],\"state\":\"%s\",\"context\":%u",
                          ngx_http_mistral_state_name(rd->state),
                          (unsigned) ngx_http_mistral_context(rd->model));

    ngx_http_mistral_status_route(rd, out);

    if (rd->shm) {
        ngx_http_mistral_status_engine(rd, out);
        ngx_http_mistral_status_counters(&rd->shm->stat, out);
    }
}


static void
ngx_http_mistral_status_route(ngx_http_mistral_reading_t *rd, mst_buf_t *out)
{
    ngx_http_mistral_canary_sum_t  sum;

    (void) mst_buf_printf(out, ",\"breaker\":\"%s\"",
                          ngx_http_mistral_breaker_name(rd->breaker));

    if (ngx_http_mistral_canary_sum(rd->model, &sum)) {
        (void) mst_buf_printf(out, ",\"canary\":{\"rolled_back\":%s"
                              ",\"requests\":%llu,\"errors\":%llu}",
                              sum.rolled_back ? "true" : "false",
                              (unsigned long long) sum.requests,
                              (unsigned long long) sum.errors);
    }
}


static void
ngx_http_mistral_status_engine(ngx_http_mistral_reading_t *rd, mst_buf_t *out)
{
    char              backend[64];
    uint32_t          requests;
    uint64_t          tokens, beat, now;
    const mst_shm_t  *shm;

    shm = rd->shm;
    mst_place_held(shm, &requests, &tokens);

    /* a copy: another process may write there while we look */

    mst_stat_backend(&shm->stat, backend);

    (void) mst_buf_text(out, ",\"backend\":");
    (void) mst_json_string(out, mst_str(backend, strlen(backend)));

    now = mst_time_ns();
    beat = ngx_http_mistral_load(shm->stat.beat_ns);

    (void) mst_buf_printf(out, ",\"engine_pid\":%u,\"restarts\":%u"
                          ",\"max_batch\":%u,\"heartbeat_age_ms\":%llu"
                          ",\"queue_places\":%u,\"queue_place_tokens\":%llu",
                          ngx_http_mistral_load(shm->engine_pid),
                          ngx_http_mistral_load(shm->restarts),
                          ngx_http_mistral_load(shm->max_batch),
                          (unsigned long long) (now > beat ? (now - beat)
                                                             / MST_MS : 0),
                          requests, (unsigned long long) tokens);
}


static void
ngx_http_mistral_status_counters(const mst_stat_t *st, mst_buf_t *out)
{
    size_t  i;

    const struct {
        const char              *name;
        const _Atomic uint64_t  *word;
    } list[] = {
        { "load_ns", &st->load_ns },
        { "load_percent", &st->loaded },
        { "steps", &st->steps },
        { "last_step_ns", &st->last_step_ns },
        { "running", &st->running },
        { "waiting", &st->waiting },
        { "waiting_tokens", &st->waiting_tokens },
        { "paused", &st->paused },
        { "prompt_rate", &st->prompt_rate },
        { "token_rate", &st->token_rate },
        { "finish_rate", &st->finish_rate },
        { "kv_blocks_total", &st->blocks_total },
        { "kv_blocks_used", &st->blocks_used },
        { "kv_blocks_cached", &st->blocks_cached },
        { "kv_block_tokens", &st->block_tokens },
        { "kv_slack_tokens", &st->slack_tokens },
        { "weight_bytes", &st->weight_size },
        { "device_celsius", &st->celsius },
        { "device_milliwatts", &st->milliwatts },
        { "device_mhz", &st->mhz },
        { "device_memory_used", &st->memory_used },
        { "device_memory_total", &st->memory_total },
        { "total_steps", &st->total_steps },
        { "prompt_tokens", &st->prompt_tokens },
        { "cached_tokens", &st->cached_tokens },
        { "completion_tokens", &st->completion_tokens },
        { "preemptions", &st->preemptions },
        { "finished", &st->finished },
        { "refused", &st->refused },
        { "cancelled", &st->cancelled },
        { "slots_reclaimed", &st->slots_reclaimed },
        { "bad_records", &st->bad_records }
    };

    for (i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        (void) mst_buf_printf(out, ",\"%s\":%llu", list[i].name,
                              (unsigned long long)
                              ngx_http_mistral_load(*list[i].word));
    }
}


const char *
ngx_http_mistral_state_name(ngx_http_mistral_state_e state)
{
    switch (state) {

    case NGX_HTTP_MISTRAL_READY:
        return "ready";

    case NGX_HTTP_MISTRAL_LOADING:
        return "loading";

    case NGX_HTTP_MISTRAL_DRAINING:
        return "draining";

    default:
        return "down";
    }
}
