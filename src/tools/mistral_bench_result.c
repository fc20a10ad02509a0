
/*
 * The report of "mistral bench": see mistral_bench_result.h.
 */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/mistral_bench_result.h"
#include "tools/mistral_tool.h"


static const char *const  mistral_result_faults[MISTRAL_FAULTS] = {
    "connect", "closed", "protocol", "stream_error", "incomplete", "timeout"
};

static const double  mistral_result_percents[] = { 50, 90, 99 };

#define MISTRAL_RESULT_PERCENTS                                               \
    (sizeof(mistral_result_percents) / sizeof(*mistral_result_percents))


void
mistral_result_init(mistral_result_t *r, uint64_t now_ns)
{
    memset(r, 0, sizeof(*r));

    r->start_ns = now_ns;
    r->end_ns = now_ns;

    mistral_stats_init(&r->first);
    mistral_stats_init(&r->gap);
    mistral_stats_init(&r->token);
    mistral_stats_init(&r->total);
}


void
mistral_result_sample(mistral_result_t *r, const char *text, size_t n)
{
    size_t  i;

    if (r->sample[0]) {
        return;
    }

    for (i = 0; i < n && i < sizeof(r->sample) - 1; i++) {
        r->sample[i] = (text[i] >= ' ' && text[i] <= '~') ? text[i] : ' ';
    }

    while (i && r->sample[i - 1] == ' ') {
        i--;
    }

    r->sample[i] = '\0';
}


void
mistral_result_progress(const mistral_result_t *r, uint64_t running,
    uint64_t now_ns, int last)
{
    double  s;

    if (!isatty(STDERR_FILENO)) {
        return;
    }

    (void) fputs("\r\033[K", stderr);

    if (!last) {
        s = (double) (now_ns - r->start_ns) / 1e9;

        (void) fprintf(stderr, "%.0f s: %llu done, %llu failed, %llu running, "
                       "%.1f requests/s, %.1f tokens/s", s,
                       (unsigned long long) r->ok,
                       (unsigned long long) r->failed,
                       (unsigned long long) running,
                       s > 0 ? (double) r->ok / s : 0,
                       s > 0 ? (double) r->completion / s : 0);
    }

    (void) fflush(stderr);
}


static double
mistral_result_seconds(const mistral_result_t *r)
{
    return (double) (r->end_ns - r->start_ns) / 1e9;
}


static double
mistral_result_rate(const mistral_result_t *r, uint64_t n)
{
    return r->end_ns > r->start_ns ? (double) n / mistral_result_seconds(r)
                                   : 0;
}


static void
mistral_result_times(const char *name, const mistral_stats_t *s)
{
    size_t  i;

    if (s->n == 0) {
        return;
    }

    (void) printf("%-18s %9.3f", name, mistral_stats_mean(s) / 1e6);

    for (i = 0; i < MISTRAL_RESULT_PERCENTS; i++) {
        (void) printf(" %9.3f",
                      (double) mistral_stats_percentile(s,
                                         mistral_result_percents[i]) / 1e6);
    }

    (void) printf(" %9.3f\n", (double) s->max / 1e6);
}


/* ms per token and stream while all streams run; 0: there was no such time */

static double
mistral_result_together(const mistral_result_t *r)
{
    return r->all_tokens > 0 ? (double) r->all_ns / r->all_tokens / 1e6 : 0;
}


static void
mistral_result_failures(const mistral_result_t *r)
{
    int          i;
    const char  *comma;

    comma = "";
    (void) printf("failures:          ");

    for (i = 0; i < 600; i++) {
        if (r->status[i]) {
            (void) printf("%sstatus %d: %llu", comma, i,
                          (unsigned long long) r->status[i]);
            comma = ", ";
        }
    }

    for (i = 0; i < MISTRAL_FAULTS; i++) {
        if (r->faults[i]) {
            (void) printf("%s%s: %llu", comma, mistral_result_faults[i],
                          (unsigned long long) r->faults[i]);
            comma = ", ";
        }
    }

    (void) printf("\n");

    if (r->sample[0]) {
        (void) printf("the first said:    %s\n", r->sample);
    }
}


static void
mistral_result_text(const mistral_result_t *r)
{
    (void) printf("requests:          %llu done, %llu failed in %.3f s, "
                  "%.2f/s\n", (unsigned long long) r->ok,
                  (unsigned long long) r->failed, mistral_result_seconds(r),
                  mistral_result_rate(r, r->ok));

    (void) printf("tokens in:         %llu, %.1f/s",
                  (unsigned long long) r->prompt,
                  mistral_result_rate(r, r->prompt));

    if (r->cached) {
        (void) printf(", %llu of them cached",
                      (unsigned long long) r->cached);
    }

    (void) printf("\ntokens out:        %llu, %.1f/s\n",
                  (unsigned long long) r->completion,
                  mistral_result_rate(r, r->completion));

    if (r->failed) {
        mistral_result_failures(r);
    }

    if (r->no_usage) {
        (void) printf("without usage:     %llu answers, whose tokens are not "
                      "counted\n", (unsigned long long) r->no_usage);
    }

    if (r->late) {
        (void) printf("late:              %llu requests were sent over 2 ms "
                      "after they were due\n",
                      (unsigned long long) r->late);
    }

    if (r->ok == 0) {
        return;
    }

    (void) printf("\n%-18s %9s %9s %9s %9s %9s\n", "milliseconds", "mean",
                  "p50", "p90", "p99", "max");

    mistral_result_times("to first token", &r->first);
    mistral_result_times("between events", &r->gap);
    mistral_result_times("per token", &r->token);
    mistral_result_times("end to end", &r->total);

    if (r->all_tokens > 0) {
        (void) printf("%-18s %9.3f\n", "per token, all on",
                      mistral_result_together(r));
    }
}


/* null where there is no sample */

static json_t *
mistral_result_object(const mistral_stats_t *s)
{
    char     name[16];
    size_t   i;
    json_t  *o;

    if (s->n == 0) {
        return json_null();
    }

    o = json_pack("{s:I, s:f, s:f}", "count", (json_int_t) s->n,
                  "mean", mistral_stats_mean(s) / 1e6,
                  "min", (double) s->min / 1e6);

    for (i = 0; i < MISTRAL_RESULT_PERCENTS; i++) {
        (void) snprintf(name, sizeof(name), "p%.0f",
                        mistral_result_percents[i]);
        (void) json_object_set_new(o, name,
                   json_real((double) mistral_stats_percentile(s,
                                         mistral_result_percents[i]) / 1e6));
    }

    (void) json_object_set_new(o, "max", json_real((double) s->max / 1e6));

    return o;
}


static json_t *
mistral_result_errors(const mistral_result_t *r)
{
    int      i;
    char     name[16];
    json_t  *o;

    o = json_object();

    for (i = 0; i < 600; i++) {
        if (r->status[i]) {
            (void) snprintf(name, sizeof(name), "%d", i);
            (void) json_object_set_new(o, name,
                                    json_integer((json_int_t) r->status[i]));
        }
    }

    for (i = 0; i < MISTRAL_FAULTS; i++) {
        if (r->faults[i]) {
            (void) json_object_set_new(o, mistral_result_faults[i],
                                    json_integer((json_int_t) r->faults[i]));
        }
    }

    return o;
}


static json_t *
mistral_result_json(const mistral_result_t *r,
    const mistral_bench_conf_t *conf, const mistral_url_t *url)
{
    char     address[1400];
    json_t  *o;

    (void) snprintf(address, sizeof(address), "http://%s:%s%s", url->host,
                    url->port, url->path);

    o = json_pack("{s:s, s:b, s:I, s:f, s:I, s:b, s:f}",
                  "url", address,
                  "stream", !conf->no_stream,
                  "concurrency", (json_int_t) conf->concurrency,
                  "rate", conf->rate,
                  "seed", (json_int_t) conf->seed,
                  "interrupted", mistral_bench_stop != 0,
                  "seconds", mistral_result_seconds(r));

    (void) json_object_update_new(o,
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}",
                  "done", (json_int_t) r->ok,
                  "failed", (json_int_t) r->failed,
                  "retried", (json_int_t) r->retried,
                  "late", (json_int_t) r->late,
                  "without_usage", (json_int_t) r->no_usage,
                  "prompt_tokens", (json_int_t) r->prompt,
                  "cached_tokens", (json_int_t) r->cached,
                  "completion_tokens", (json_int_t) r->completion,
                  "requests_per_second", mistral_result_rate(r, r->ok),
                  "prompt_tokens_per_second",
                  mistral_result_rate(r, r->prompt),
                  "completion_tokens_per_second",
                  mistral_result_rate(r, r->completion)));

    (void) json_object_update_new(o,
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:f, s:s}",
                  "errors", mistral_result_errors(r),
                  "ttft_ms", mistral_result_object(&r->first),
                  "inter_token_ms", mistral_result_object(&r->gap),
                  "per_token_ms", mistral_result_object(&r->token),
                  "end_to_end_ms", mistral_result_object(&r->total),
                  "together_ms", mistral_result_together(r),
                  "first_error", r->sample));
    return o;
}


int
mistral_result_report(const mistral_result_t *r,
    const mistral_bench_conf_t *conf, const mistral_url_t *url)
{
    int      rc;
    FILE    *f;
    json_t  *o;

    if (conf->json == NULL || strcmp(conf->json, "-") != 0) {
        mistral_result_text(r);
    }

    rc = 0;

    if (conf->json) {
        f = strcmp(conf->json, "-") == 0 ? stdout : fopen(conf->json, "we");

        if (f == NULL) {
            return mistral_complain(MISTRAL_FAILED, "bench", "%s: %s",
                                    conf->json, strerror(errno));
        }

        o = mistral_result_json(r, conf, url);
        rc = json_dumpf(o, f, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        rc |= fputc('\n', f) == EOF;
        json_decref(o);

        rc |= f == stdout ? 0 : fclose(f);
    }

    if (rc || fflush(stdout) == EOF || ferror(stdout)) {
        return mistral_complain(MISTRAL_FAILED, "bench", "the report cannot "
                                "be written: %s", strerror(errno));
    }

    return MISTRAL_OK;
}
