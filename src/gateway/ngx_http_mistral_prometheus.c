
/*
 * mistral_status prometheus: the text exposition format, version 0.0.4.
 *
 * Counters come from the totals in nginx's shared memory, so that they go on
 * whatever process ended; gauges from ngx_http_mistral_sample.c.  Label
 * values are names of the configuration and words of this file: nothing that
 * a client sent can make a series.  Workers only.
 */

#include "gateway/ngx_http_mistral_limit.h"
#include "gateway/ngx_http_mistral_sample.h"
#include "gateway/ngx_http_mistral_series.h"

#include "api/mst_json.h"
#include "base/mst_time.h"


/* where "lines" finds its number: a counter or histogram, a gauge */

#define NGX_HTTP_MISTRAL_COUNTED(field)                                       \
    offsetof(ngx_http_mistral_metrics_t, field)
#define NGX_HTTP_MISTRAL_GAUGE(field)                                         \
    offsetof(ngx_http_mistral_sample_t, stat.field)


typedef struct ngx_http_mistral_family_s  ngx_http_mistral_family_t;

struct ngx_http_mistral_family_s {
    const char  *name;                         /* without "mistral_" */
    const char  *type;
    const char  *help;
    void       (*lines)(const ngx_http_mistral_family_t *f,
                        const ngx_http_mistral_sample_t *s, mst_buf_t *out);
    size_t       offset;                       /* of the word or histogram */
};


static void ngx_http_mistral_families(const ngx_http_mistral_family_t *f,
    const char *prefix, ngx_array_t *samples, mst_buf_t *out);
static void ngx_http_mistral_line(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, const char *label, const char *value,
    uint64_t n, mst_buf_t *out);
static void ngx_http_mistral_line_number(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, double n, mst_buf_t *out);
static void ngx_http_mistral_line_ratio(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, uint64_t part, uint64_t all,
    mst_buf_t *out);
static void ngx_http_mistral_show_requests(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_sheds(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_aborts(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_counter(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_gauge(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_breaker(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_canary(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_ready(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_loaded(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_held(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_drained(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_blocks(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_usage(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_efficiency(
    const ngx_http_mistral_family_t *f, const ngx_http_mistral_sample_t *s,
    mst_buf_t *out);
static void ngx_http_mistral_show_hits(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_batch(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_device(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_hist(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out);
static void ngx_http_mistral_show_buckets(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, const mst_stat_hist_t *h,
    mst_buf_t *out);


static const ngx_http_mistral_family_t  ngx_http_mistral_names[] = {

    { "requests_total", "counter",
      "Requests answered, by the status in the access log.",
      ngx_http_mistral_show_requests, 0 },

    { "prompt_tokens_total", "counter",
      "Prompt tokens of requests that were started.",
      ngx_http_mistral_show_counter,
      NGX_HTTP_MISTRAL_COUNTED(total.prompt_tokens) },

    { "cached_tokens_total", "counter",
      "Prompt tokens found in the prefix cache.",
      ngx_http_mistral_show_counter,
      NGX_HTTP_MISTRAL_COUNTED(total.cached_tokens) },

    { "completion_tokens_total", "counter",
      "Tokens sampled, those that nobody waited for any more included.",
      ngx_http_mistral_show_counter,
      NGX_HTTP_MISTRAL_COUNTED(total.completion_tokens) },

    { "wasted_tokens_total", "counter",
      "Tokens sampled that no client got.",
      ngx_http_mistral_show_counter, NGX_HTTP_MISTRAL_COUNTED(wasted) },

    { "time_to_first_token_seconds", "histogram",
      "From the request's head to its first token.",
      ngx_http_mistral_show_hist, NGX_HTTP_MISTRAL_COUNTED(ttft) },

    { "inter_token_latency_seconds", "histogram",
      "From one token of an answer to its next, in the engine.",
      ngx_http_mistral_show_hist, NGX_HTTP_MISTRAL_COUNTED(total.token) },

    { "queue_time_seconds", "histogram",
      "From the engine's receipt of a request to its start.",
      ngx_http_mistral_show_hist, NGX_HTTP_MISTRAL_COUNTED(total.queue) },

    { "step_seconds", "histogram",
      "Duration of the engine's steps.",
      ngx_http_mistral_show_hist, NGX_HTTP_MISTRAL_COUNTED(total.step) },

    { "preemptions_total", "counter",
      "Running requests that gave way for lack of KV blocks.",
      ngx_http_mistral_show_counter,
      NGX_HTTP_MISTRAL_COUNTED(total.preemptions) },

    { "shed_total", "counter",
      "Requests refused for lack of capacity or engine, by reason.",
      ngx_http_mistral_show_sheds, 0 },

    { "cut_answers_total", "counter",
      "Answers that an error ended after their 200.",
      ngx_http_mistral_show_counter, NGX_HTTP_MISTRAL_COUNTED(cut) },

    { "client_aborts_total", "counter",
      "Requests whose client left, by the phase in which they were.",
      ngx_http_mistral_show_aborts, 0 },

    { "engine_restarts_total", "counter",
      "Engines that died or hung and were started again.",
      ngx_http_mistral_show_counter, NGX_HTTP_MISTRAL_COUNTED(restarts) },

    { "fallbacks_total", "counter",
      "Requests that the model did not take and that went to another one.",
      ngx_http_mistral_show_counter, NGX_HTTP_MISTRAL_COUNTED(fallbacks) },

    { "breaker_state", "gauge",
      "0: closed, 1: half-open, 2: open.",
      ngx_http_mistral_show_breaker, 0 },

    { "canary_rolled_back", "gauge",
      "1: too many requests of this canary failed, it gets none.",
      ngx_http_mistral_show_canary, 0 },

    { "engine_ready", "gauge",
      "1 if the engine is loaded, its heartbeat fresh and requests taken.",
      ngx_http_mistral_show_ready, 0 },

    { "engine_loaded_ratio", "gauge",
      "Part of the weights that is loaded.",
      ngx_http_mistral_show_loaded, 0 },

    { "engine_waiting", "gauge",
      "Answers that mistral_engine_wait holds until the engine is ready.",
      ngx_http_mistral_show_held, 0 },

    { "drained", "gauge",
      "1 if mistral_control has taken the model out of service.",
      ngx_http_mistral_show_drained, 0 },

    { "scheduler_running", "gauge",
      "Requests being computed.",
      ngx_http_mistral_show_gauge, NGX_HTTP_MISTRAL_GAUGE(running) },

    { "scheduler_queue_length", "gauge",
      "Requests waiting in the engine.",
      ngx_http_mistral_show_gauge, NGX_HTTP_MISTRAL_GAUGE(waiting) },

    { "scheduler_waiting_tokens", "gauge",
      "Tokens of the requests waiting in the engine.",
      ngx_http_mistral_show_gauge, NGX_HTTP_MISTRAL_GAUGE(waiting_tokens) },

    { "scheduler_paused", "gauge",
      "Requests whose client does not read, running or waiting.",
      ngx_http_mistral_show_gauge, NGX_HTTP_MISTRAL_GAUGE(paused) },

    { "kv_cache_blocks", "gauge",
      "Blocks of the KV cache: held by running requests, by the prefix cache "
      "alone, free.",
      ngx_http_mistral_show_blocks, 0 },

    { "kv_cache_usage_ratio", "gauge",
      "Part of the KV blocks that running requests hold.",
      ngx_http_mistral_show_usage, 0 },

    { "kv_cache_efficiency_ratio", "gauge",
      "Part of the memory of used KV blocks that holds tokens.",
      ngx_http_mistral_show_efficiency, 0 },

    { "kv_cache_hit_rate", "gauge",
      "Part of all prompt tokens that were found in the prefix cache.",
      ngx_http_mistral_show_hits, 0 },

    { "batch_utilization_ratio", "gauge",
      "Requests being computed as a part of max_batch.",
      ngx_http_mistral_show_batch, 0 },

    { "device_temperature_celsius", "gauge",
      "Temperature of the device.",
      ngx_http_mistral_show_device, NGX_HTTP_MISTRAL_GAUGE(celsius) },

    { "device_power_watts", "gauge",
      "What the device takes.",
      ngx_http_mistral_show_device, NGX_HTTP_MISTRAL_GAUGE(milliwatts) },

    { "device_clock_hertz", "gauge",
      "Clock of the device's multiprocessors.",
      ngx_http_mistral_show_device, NGX_HTTP_MISTRAL_GAUGE(mhz) },

    { "device_memory_used_bytes", "gauge",
      "Memory of the device that is in use, by whomever.",
      ngx_http_mistral_show_device, NGX_HTTP_MISTRAL_GAUGE(memory_used) },

    { "device_memory_bytes", "gauge",
      "Memory of the device.",
      ngx_http_mistral_show_device, NGX_HTTP_MISTRAL_GAUGE(memory_total) },

    { NULL, NULL, NULL, NULL, 0 }
};


/* what Kubernetes' inference gateway asks a server for */

static const ngx_http_mistral_family_t  ngx_http_mistral_vllm_names[] = {

    { "num_requests_waiting", "gauge",
      "Requests waiting in the engine.",
      ngx_http_mistral_show_gauge, NGX_HTTP_MISTRAL_GAUGE(waiting) },

    { "num_requests_running", "gauge",
      "Requests being computed.",
      ngx_http_mistral_show_gauge, NGX_HTTP_MISTRAL_GAUGE(running) },

    { "kv_cache_usage_perc", "gauge",
      "Part of the KV blocks that running requests hold, 1 is all.",
      ngx_http_mistral_show_usage, 0 },

    { NULL, NULL, NULL, NULL, 0 }
};


ngx_int_t
ngx_http_mistral_prometheus_handler(ngx_http_request_t *r)
{
    mst_buf_t                     out;
    ngx_int_t                     rc;
    ngx_str_t                     type;
    ngx_array_t                   samples;
    ngx_http_mistral_loc_conf_t  *mlcf;

    if (!ngx_http_mistral_method_allowed(r, "GET, HEAD")) {
        return ngx_http_mistral_refuse_method(r, "GET, HEAD");
    }

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_module);

    if (ngx_array_init(&samples, r->pool, 4,
                       sizeof(ngx_http_mistral_sample_t))
        != NGX_OK
        || ngx_http_mistral_sample(r, &samples) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    mst_buf_init(&out);

    ngx_http_mistral_families(ngx_http_mistral_names, "mistral_", &samples,
                              &out);

    ngx_http_mistral_series_show(r, &out);

    if (mlcf->vllm) {
        ngx_http_mistral_families(ngx_http_mistral_vllm_names, "vllm:",
                                  &samples, &out);
    }

    ngx_http_mistral_limit_show(r, &out);

    ngx_str_set(&type, "no-store");

    if (ngx_http_mistral_add_header(r, "Cache-Control", &type) != NGX_OK) {
        mst_buf_fini(&out);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_str_set(&type, "text/plain; version=0.0.4; charset=utf-8");

    return ngx_http_mistral_send_body(r, NGX_HTTP_OK, &type, &out);
}


static void
ngx_http_mistral_families(const ngx_http_mistral_family_t *f,
    const char *prefix, ngx_array_t *samples, mst_buf_t *out)
{
    char                              name[64];
    ngx_uint_t                        i;
    const ngx_http_mistral_sample_t  *s;
    ngx_http_mistral_family_t         g;

    for ( /* void */ ; f->name != NULL; f++) {

        (void) snprintf(name, sizeof(name), "%s%s", prefix, f->name);

        g = *f;
        g.name = name;

        (void) mst_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name,
                              f->help, name, f->type);

        s = samples->elts;

        for (i = 0; i < samples->nelts; i++) {

            /* the nameless first one has nothing but statuses */

            if (i > 0 || f->lines == ngx_http_mistral_show_requests) {
                f->lines(&g, &s[i], out);
            }
        }
    }
}


/* NAME{model="...",LABEL="VALUE"} N */

static void
ngx_http_mistral_line(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, const char *label, const char *value,
    uint64_t n, mst_buf_t *out)
{
    (void) mst_buf_printf(out, "%s{%s=\"%.*s\"", f->name,
                          f->name[0] == 'v' ? "model_name" : "model",
                          (int) s->name.len, (char *) s->name.data);

    if (label) {
        (void) mst_buf_printf(out, ",%s=\"%s\"", label, value);
    }

    (void) mst_buf_printf(out, "} %llu\n", (unsigned long long) n);
}


static void
ngx_http_mistral_line_number(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, double n, mst_buf_t *out)
{
    (void) mst_buf_printf(out, "%s{%s=\"%.*s\"} ", f->name,
                          f->name[0] == 'v' ? "model_name" : "model",
                          (int) s->name.len, (char *) s->name.data);
    (void) mst_json_number(out, n);
    (void) mst_buf_char(out, '\n');
}


/* a part of "all", whatever stands in the segment */

static void
ngx_http_mistral_line_ratio(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, uint64_t part, uint64_t all,
    mst_buf_t *out)
{
    part = ngx_min(part, all);

    ngx_http_mistral_line_number(f, s, all ? (double) part / (double) all : 0,
                                 out);
}


static void
ngx_http_mistral_show_requests(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    char        code[16];
    uint64_t    n;
    ngx_uint_t  i;

    for (i = 0; s->mx != NULL && i < NGX_HTTP_MISTRAL_CODES; i++) {

        n = mst_stat_get(&s->mx->codes[i].requests);

        if (n == 0) {
            continue;
        }

        (void) snprintf(code, sizeof(code), "%03u",
                        (unsigned) atomic_load(&s->mx->codes[i].code));

        ngx_http_mistral_line(f, s, "code",
                              i < NGX_HTTP_MISTRAL_CODES - 1 ? code : "other",
                              n, out);
    }
}


static void
ngx_http_mistral_show_sheds(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    ngx_uint_t  i;

    for (i = 0; s->mx != NULL && i < NGX_HTTP_MISTRAL_SHEDS; i++) {
        ngx_http_mistral_line(f, s, "reason", ngx_http_mistral_shed_names[i],
                              mst_stat_get(&s->mx->sheds[i]), out);
    }
}


static void
ngx_http_mistral_show_aborts(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    ngx_uint_t  i;

    for (i = 0; s->mx != NULL && i < NGX_HTTP_MISTRAL_ABORTS; i++) {
        ngx_http_mistral_line(f, s, "phase", ngx_http_mistral_abort_names[i],
                              mst_stat_get(&s->mx->aborts[i]), out);
    }
}


static void
ngx_http_mistral_show_breaker(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    ngx_http_mistral_line(f, s, NULL, NULL, s->breaker, out);
}


static void
ngx_http_mistral_show_canary(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    if (s->canary) {
        ngx_http_mistral_line(f, s, NULL, NULL, s->rolled_back, out);
    }
}


static void
ngx_http_mistral_show_counter(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    const char  *p;

    if (s->mx != NULL) {
        p = (const char *) s->mx + f->offset;
        ngx_http_mistral_line(f, s, NULL, NULL,
                              mst_stat_get((const _Atomic uint64_t *) p),
                              out);
    }
}


static void
ngx_http_mistral_show_gauge(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    const char  *p;

    if (s->engine) {
        p = (const char *) s + f->offset;
        ngx_http_mistral_line(f, s, NULL, NULL,
                              mst_stat_get((const _Atomic uint64_t *) p),
                              out);
    }
}


static void
ngx_http_mistral_show_ready(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    ngx_http_mistral_line(f, s, NULL, NULL, s->ready, out);
}


static void
ngx_http_mistral_show_loaded(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    ngx_http_mistral_line_ratio(f, s, ngx_min(s->loaded, 100), 100, out);
}


static void
ngx_http_mistral_show_held(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    if (s->engine) {
        ngx_http_mistral_line(f, s, NULL, NULL, s->held, out);
    }
}


static void
ngx_http_mistral_show_drained(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    if (s->mx != NULL) {
        ngx_http_mistral_line(f, s, NULL, NULL, atomic_load(&s->mx->drained),
                              out);
    }
}


static void
ngx_http_mistral_show_blocks(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    uint64_t  all, used, cached;

    if (!s->engine) {
        return;
    }

    all = mst_stat_get(&s->stat.blocks_total);
    used = ngx_min(mst_stat_get(&s->stat.blocks_used), all);
    cached = ngx_min(mst_stat_get(&s->stat.blocks_cached), all - used);

    ngx_http_mistral_line(f, s, "state", "used", used, out);
    ngx_http_mistral_line(f, s, "state", "cached", cached, out);
    ngx_http_mistral_line(f, s, "state", "free", all - used - cached, out);
}


static void
ngx_http_mistral_show_usage(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    if (s->engine) {
        ngx_http_mistral_line_ratio(f, s, mst_stat_get(&s->stat.blocks_used),
                                    mst_stat_get(&s->stat.blocks_total), out);
    }
}


/* the two numbers may be a second apart */

static void
ngx_http_mistral_show_efficiency(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    uint64_t  room, slack;

    if (s->engine) {
        room = mst_stat_get(&s->stat.blocks_used)
               * mst_stat_get(&s->stat.block_tokens);
        slack = ngx_min(mst_stat_get(&s->stat.slack_tokens), room);

        ngx_http_mistral_line_ratio(f, s, room ? room - slack : 1,
                                    room ? room : 1, out);
    }
}


static void
ngx_http_mistral_show_hits(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    if (s->mx != NULL) {
        ngx_http_mistral_line_ratio(f, s,
                                mst_stat_get(&s->mx->total.cached_tokens),
                                mst_stat_get(&s->mx->total.prompt_tokens),
                                out);
    }
}


static void
ngx_http_mistral_show_batch(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    if (s->engine) {
        ngx_http_mistral_line_ratio(f, s, mst_stat_get(&s->stat.running),
                                    s->max_batch, out);
    }
}


/* no line of what nobody knows */

static void
ngx_http_mistral_show_device(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    uint64_t     n;
    const char  *p;

    p = (const char *) s + f->offset;
    n = s->engine ? mst_stat_get((const _Atomic uint64_t *) p) : 0;

    if (n == 0) {
        return;
    }

    if (f->offset == NGX_HTTP_MISTRAL_GAUGE(milliwatts)) {
        ngx_http_mistral_line_ratio(f, s, n, 1000, out);
        return;
    }

    ngx_http_mistral_line(f, s, NULL, NULL,
                          f->offset == NGX_HTTP_MISTRAL_GAUGE(mhz)
                          ? n * 1000000 : n, out);
}


static void
ngx_http_mistral_show_hist(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, mst_buf_t *out)
{
    const char  *p;

    if (s->mx != NULL) {
        p = (const char *) s->mx + f->offset;
        ngx_http_mistral_show_buckets(f, s, (const mst_stat_hist_t *) p, out);
    }
}


static void
ngx_http_mistral_show_buckets(const ngx_http_mistral_family_t *f,
    const ngx_http_mistral_sample_t *s, const mst_stat_hist_t *h,
    mst_buf_t *out)
{
    uint64_t    n;
    ngx_uint_t  i;

    n = 0;

    for (i = 0; i <= MST_STAT_BUCKETS; i++) {
        n += mst_stat_get(&h->bucket[i]);

        (void) mst_buf_printf(out, "%s_bucket{model=\"%.*s\",le=\"", f->name,
                              (int) s->name.len, (char *) s->name.data);

        if (i < MST_STAT_BUCKETS) {
            (void) mst_json_number(out, (double) mst_stat_bounds[i]
                                        / (double) MST_S);
        } else {
            (void) mst_buf_text(out, "+Inf");
        }

        (void) mst_buf_printf(out, "\"} %llu\n", (unsigned long long) n);
    }

    (void) mst_buf_printf(out, "%s_sum{model=\"%.*s\"} ", f->name,
                          (int) s->name.len, (char *) s->name.data);
    (void) mst_json_number(out, (double) mst_stat_get(&h->sum_ns)
                                / (double) MST_S);
    (void) mst_buf_char(out, '\n');

    (void) mst_buf_printf(out, "%s_count{model=\"%.*s\"} %llu\n", f->name,
                          (int) s->name.len, (char *) s->name.data,
                          (unsigned long long) n);
}
