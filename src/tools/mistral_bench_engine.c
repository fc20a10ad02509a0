
/*
 * mistral bench --engine: the engine that nginx talks to, without nginx.
 *
 * decode_N: N prompts of 128 tokens; measured from when all of them have
 * their first token until the first one has 256 tokens of context, so that
 * every step in between is N answers and nothing else.  prefill_N: from the
 * submit of a prompt of N tokens to its first token.  Prompts are random
 * ids or, of decode_N, a file's; nothing is cached.
 *
 * The time of a step in which the engine does not wait for the device is the
 * host's: with a device it passes while the step before runs.
 */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/mst_cpu_pool.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "engine/mst_engine.h"
#include "model/mst_check.h"
#include "model/mst_checkpoint.h"
#include "tools/mistral_bench.h"
#include "tools/mistral_device.h"
#include "tools/mistral_stats.h"
#include "tools/mistral_tool.h"

#define MISTRAL_CASES         16
#define MISTRAL_CASE_REPEAT   5
#define MISTRAL_CASE_CHUNK    512              /* as prefill_chunk auto */
#define MISTRAL_CASE_DEVICE   1024             /* the same on a device */
#define MISTRAL_CASE_LARGE    2048             /* with longer prompts: all
                                                  have to begin before the
                                                  first has ended */
#define MISTRAL_CASE_PROMPT   128
#define MISTRAL_CASE_ANSWER   128
#define MISTRAL_CASE_STREAMS  256


typedef struct {
    char      name[24];
    int       prefill;
    uint32_t  n;               /* answers at once, or tokens of the prompt */
    double   *rates;           /* [n_rates] tokens per second */
    size_t    n_rates;
    double    step_ms;         /* mean of the last run */
    double    host_ms;         /* of it without waiting */
    double    median;
    double    best;
} mistral_case_t;


typedef struct {
    const mistral_bench_conf_t  *conf;
    mistral_case_t               cases[MISTRAL_CASES];
    size_t                       n_cases;
    uint32_t                     context;      /* tokens of the longest */
    uint32_t                     streams;
    uint64_t                     kv_tokens;    /* of the largest case */
    mst_engine_t                *engine;
    uint32_t                    *prompt;       /* [context] */
    json_t                      *prompts;      /* of a file; or NULL */
    uint32_t                     n_vocab;
    uint64_t                     random;
    mst_err_t                    err;

    /* one run; answers have their index as tag */
    uint32_t                     counts[MISTRAL_CASE_STREAMS];  /* tokens */
    uint32_t                     begun;        /* answers with a token */
    uint32_t                     ended;
    uint64_t                     tokens;       /* of all answers */
    int                          broken;
} mistral_cases_t;


static int
mistral_case_add(mistral_cases_t *b, const char *name, size_t len)
{
    char            *end;
    size_t           i, prefix;
    unsigned long    n, limit;
    mistral_case_t  *c;

    if (b->n_cases == MISTRAL_CASES || len >= sizeof(c->name)) {
        return MST_ERROR;
    }

    c = &b->cases[b->n_cases];
    memcpy(c->name, name, len);
    c->name[len] = '\0';

    c->prefill = (strncmp(c->name, "prefill_", 8) == 0);
    prefix = c->prefill ? 8 : 7;

    if ((!c->prefill && strncmp(c->name, "decode_", 7) != 0)
        || c->name[prefix] < '1' || c->name[prefix] > '9')
    {
        return MST_ERROR;
    }

    n = strtoul(c->name + prefix, &end, 10);
    limit = c->prefill ? 1000000 : MISTRAL_CASE_STREAMS;

    if (*end != '\0' || n > limit) {
        return MST_ERROR;
    }

    for (i = 0; i < b->n_cases; i++) {
        if (strcmp(b->cases[i].name, c->name) == 0) {
            return MST_ERROR;
        }
    }

    c->n = (uint32_t) n;
    b->n_cases++;

    return MST_OK;
}


static int
mistral_case_list(mistral_cases_t *b)
{
    size_t       len;
    const char  *s;

    s = b->conf->cases ? b->conf->cases
                       : "decode_1,prefill_512,prefill_2048,decode_8,"
                         "decode_16";

    for ( ;; ) {
        len = strcspn(s, ",");

        if (mistral_case_add(b, s, len) != MST_OK) {
            return mistral_complain(MISTRAL_USAGE, "bench", "--cases \"%s\" "
                                    "is no list of up to %d different decode_N"
                                    " (N up to %d) and prefill_N",
                                    b->conf->cases, MISTRAL_CASES,
                                    MISTRAL_CASE_STREAMS);
        }

        if (s[len] == '\0') {
            return MISTRAL_OK;
        }

        s += len + 1;
    }
}


/* --prompts; the length of the longest is that of all as far as room counts */

static int
mistral_case_prompts(mistral_cases_t *b, mistral_bench_conf_t *conf)
{
    size_t         i, k;
    json_t        *list, *id;
    json_error_t   err;

    b->prompts = json_load_file(conf->prompts, 0, &err);

    if (b->prompts == NULL) {
        return mistral_complain(MISTRAL_REFUSED, "bench", "%s: %s",
                                conf->prompts, err.text);
    }

    conf->prompt_tokens = 0;

    json_array_foreach(b->prompts, i, list) {
        json_array_foreach(list, k, id) {
            if (!json_is_integer(id) || json_integer_value(id) < 0
                || json_integer_value(id) > INT32_MAX)
            {
                k = 0;
                break;
            }
        }

        if (k == 0 || k > 1000000) {
            conf->prompt_tokens = 0;
            break;
        }

        conf->prompt_tokens = k > conf->prompt_tokens ? k
                                                      : conf->prompt_tokens;
    }

    if (conf->prompt_tokens == 0) {
        return mistral_complain(MISTRAL_REFUSED, "bench", "%s is no list of "
                                "lists of token ids", conf->prompts);
    }

    return MISTRAL_OK;
}


/* what the engine must have room for */

static int
mistral_case_room(mistral_cases_t *b)
{
    size_t           i;
    uint64_t         tokens;
    mistral_case_t  *c;

    b->streams = 1;

    for (i = 0; i < b->n_cases; i++) {
        c = &b->cases[i];
        c->rates = mst_calloc(b->conf->repeat, sizeof(double));

        if (c->rates == NULL) {
            return mistral_complain(MISTRAL_FAILED, "bench", "no memory for "
                                    "the times");
        }

        tokens = c->prefill ? c->n + 1 : b->conf->prompt_tokens
                                          + MISTRAL_CASE_ANSWER + 1;

        if (tokens > b->context) {
            b->context = (uint32_t) tokens;
        }

        if (!c->prefill && c->n > b->streams) {
            b->streams = c->n;
        }

        /* whole blocks, whatever their size up to 64 */

        tokens = (tokens + 64) * (c->prefill ? 1 : c->n);
        b->kv_tokens = tokens > b->kv_tokens ? tokens : b->kv_tokens;
    }

    b->prompt = mst_calloc(b->context, sizeof(uint32_t));

    if (b->prompt == NULL) {
        return mistral_complain(MISTRAL_FAILED, "bench", "no memory for the "
                                "prompt");
    }

    return MISTRAL_OK;
}


static void
mistral_case_event(void *data, const mst_event_t *ev)
{
    mistral_cases_t  *b;

    b = data;

    switch (ev->type) {

    case MST_EVENT_TOKEN:
        b->begun += (b->counts[ev->tag]++ == 0);
        b->tokens++;
        break;

    case MST_EVENT_REFUSE:
        b->ended++;
        b->broken = 1;
        break;

    case MST_EVENT_DONE:
        b->ended++;
        b->broken |= (ev->finish != MST_FINISH_LENGTH
                      && ev->finish != MST_FINISH_CANCELLED);
        break;

    case MST_EVENT_PROMPT:
    case MST_EVENT_ADMIT:
        break;
    }
}


/* the n-th prompt of the file; returns its length */

static uint32_t
mistral_case_read(mistral_cases_t *b, uint32_t n)
{
    size_t   k;
    json_t  *list, *id;

    list = json_array_get(b->prompts, n % json_array_size(b->prompts));

    json_array_foreach(list, k, id) {
        b->prompt[k] = (uint32_t) json_integer_value(id);
    }

    return (uint32_t) k;
}


/* the engine copies the prompt: each answer gets its own words */

static void
mistral_case_submit(mistral_cases_t *b, uint32_t tag, uint32_t prompt,
    uint32_t answer)
{
    uint32_t      i;
    mst_submit_t  s;

    for (i = 0; i < prompt; i++) {
        b->random = b->random * 6364136223846793005ull
                    + 1442695040888963407ull;
        b->prompt[i] = (uint32_t) ((b->random >> 33) % b->n_vocab);
    }

    if (b->prompts && answer > 1) {
        prompt = mistral_case_read(b, tag);
    }

    memset(&s, 0, sizeof(s));
    s.tag = tag;
    s.prompt = b->prompt;
    s.n_prompt = prompt;

    mst_params_default(&s.params);
    s.params.temperature = (float) b->conf->temperature;
    s.params.seed = b->random;
    s.params.max_tokens = answer;
    s.params.flags = MST_PARAMS_IGNORE_EOS;

    mst_engine_submit(b->engine, &s, mst_time_ns());
}


static int
mistral_case_step(mistral_cases_t *b)
{
    int       rc;
    uint64_t  wake;

    rc = mst_engine_step(b->engine, mst_time_ns(), &wake, &b->err);

    if (rc == MST_ERROR) {
        return MST_ERROR;
    }

    if (b->broken || (rc == MST_AGAIN && b->ended == 0)) {
        return mst_err_set(&b->err, "the engine refused or broke an answer");
    }

    if (mistral_bench_stop) {
        return mst_err_set(&b->err, "interrupted");
    }

    return MST_OK;
}


/* what a step took since "from", and what of it without waiting */

static void
mistral_case_share(mistral_cases_t *b, mistral_case_t *c,
    const mst_engine_stats_t *from, uint64_t ns)
{
    double              n;
    mst_engine_stats_t  to;

    mst_engine_stats(b->engine, &to);

    n = (double) (to.steps - from->steps) * 1e6;

    if (n > 0) {
        c->step_ms = (double) ns / n;
        c->host_ms = (double) (ns - (to.waited_ns - from->waited_ns)) / n;
    }
}


/* tokens per second of one run */

static int
mistral_case_run(mistral_cases_t *b, mistral_case_t *c, double *rate)
{
    uint32_t            i, n;
    uint64_t            start, tokens;
    mst_engine_stats_t  from;

    memset(b->counts, 0, sizeof(b->counts));
    b->begun = 0;
    b->ended = 0;
    b->tokens = 0;

    n = c->prefill ? 1 : c->n;
    mst_engine_stats(b->engine, &from);
    start = mst_time_ns();
    tokens = 0;

    for (i = 0; i < n; i++) {

        /* the last token is sampled and never computed */

        mistral_case_submit(b, i, c->prefill ? c->n
                                  : (uint32_t) b->conf->prompt_tokens,
                            c->prefill ? 1 : MISTRAL_CASE_ANSWER);
    }

    while (b->begun < n) {
        if (mistral_case_step(b) != MST_OK) {
            return MST_ERROR;
        }
    }

    if (!c->prefill) {
        mst_engine_stats(b->engine, &from);
        start = mst_time_ns();
        tokens = b->tokens;
    }

    while (b->ended == 0) {
        if (mistral_case_step(b) != MST_OK) {
            return MST_ERROR;
        }
    }

    tokens = c->prefill ? c->n : b->tokens - tokens;
    start = mst_time_ns() - start;
    *rate = (double) tokens * 1e9 / (double) start;
    mistral_case_share(b, c, &from, start);

    for (i = 0; i < n; i++) {
        mst_engine_cancel(b->engine, i, mst_time_ns());
    }

    return MST_OK;
}


static int
mistral_case_all(mistral_cases_t *b)
{
    size_t           i;
    double           rate;
    uint64_t         k;
    mistral_case_t  *c;

    for (i = 0; i < b->n_cases; i++) {
        c = &b->cases[i];

        if (mistral_case_run(b, c, &rate) != MST_OK) {     /* warm-up */
            return MST_ERROR;
        }

        for (k = 0; k < b->conf->repeat; k++) {
            if (isatty(STDERR_FILENO)) {
                (void) fprintf(stderr, "\r\033[K%s: run %llu of %llu",
                               c->name, (unsigned long long) k + 1,
                               (unsigned long long) b->conf->repeat);
            }

            if (mistral_case_run(b, c, &rate) != MST_OK) {
                return MST_ERROR;
            }

            c->rates[c->n_rates++] = rate;
        }

        c->median = mistral_stats_median(c->rates, c->n_rates);
        c->best = c->rates[c->n_rates - 1];            /* sorted now */

        if (isatty(STDERR_FILENO)) {
            (void) fputs("\r\033[K", stderr);
        }

        if (b->conf->json == NULL || strcmp(b->conf->json, "-") != 0) {
            (void) printf("%-14s %10.1f tokens/s   best of %zu: %10.1f   "
                          "step %.3f ms, host %.3f\n", c->name, c->median,
                          c->n_rates, c->best, c->step_ms, c->host_ms);
            (void) fflush(stdout);
        }
    }

    return MST_OK;
}


static uint32_t
mistral_case_chunk(const mistral_cases_t *b)
{
    if (b->conf->prompt_tokens > MISTRAL_CASE_PROMPT) {
        return MISTRAL_CASE_LARGE;
    }

    return b->conf->device && strncmp(b->conf->device, "cuda:", 5) == 0
           ? MISTRAL_CASE_DEVICE : MISTRAL_CASE_CHUNK;
}


static int
mistral_case_model(mistral_cases_t *b, mst_checkpoint_t *cp)
{
    mst_model_t        *model;
    mst_runner_t        runner;
    mst_model_conf_t    mc;
    mst_engine_conf_t   ec;
    const mst_config_t *c;

    memset(&mc, 0, sizeof(mc));
    memset(&ec, 0, sizeof(ec));

    c = mst_checkpoint_config(cp);

    if (b->context > c->context) {
        (void) mst_err_set(&b->err, "a case of %u tokens, the model was made "
                           "for %u", b->context, c->context);
        mst_checkpoint_close(cp);
        return MST_ERROR;
    }

    b->n_vocab = c->n_vocab;
    mc.threads = (uint32_t) b->conf->threads;
    mc.context = b->context;
    mc.max_rows = mistral_case_chunk(b);
    mc.max_seqs = b->streams;
    mc.isa = mistral_isa(b->conf->isa);
    mc.activations = (uint32_t) b->conf->activations;
    mc.weight_layouts = (uint32_t) b->conf->weight_layouts;
    mc.batch_invariant = b->conf->batch_invariant;

    if (mistral_device(b->conf->device, b->conf->dtype, b->conf->kv_cache, &mc,
                       &b->err)
        != MISTRAL_OK)
    {
        mst_checkpoint_close(cp);
        return MST_ERROR;
    }

    /* a bound: heads padded to 16 floats, keys and values of four bytes, or
       of two on a device */

    mc.kv_size = b->kv_tokens * c->n_layers * c->n_kv_heads
                 * (c->head_dim + 16ull) * 2 * (mc.library ? 2 : 4);

    model = mst_model_create(cp, &mc, &b->err);

    if (model == NULL) {
        mst_checkpoint_close(cp);
        return MST_ERROR;
    }

    if (mst_runner_model(&runner, model, &b->err) != MST_OK) {
        mst_model_destroy(model);
        return MST_ERROR;
    }

    ec.max_batch = b->streams;
    ec.prefill_chunk = mistral_case_chunk(b);
    ec.no_prefix_cache = 1;
    ec.handler = mistral_case_event;
    ec.data = b;

    b->engine = mst_engine_create(&ec, &runner, &b->err);

    if (b->engine == NULL) {
        runner.destroy(runner.data);
        return MST_ERROR;
    }

    return MST_OK;
}


/* a number for each case under its name, what it was measured with, and the
   best runs beside the medians */

static int
mistral_case_json(const mistral_cases_t *b)
{
    int      rc;
    FILE    *f;
    size_t   i;
    json_t  *o, *best;

    f = strcmp(b->conf->json, "-") == 0 ? stdout : fopen(b->conf->json, "we");

    if (f == NULL) {
        return mistral_complain(MISTRAL_FAILED, "bench", "%s: %s",
                                b->conf->json, strerror(errno));
    }

    o = json_object();
    best = json_object();

    for (i = 0; i < b->n_cases; i++) {
        (void) json_object_set_new(o, b->cases[i].name,
                                   json_real(b->cases[i].median));
        (void) json_object_set_new(best, b->cases[i].name,
                                   json_real(b->cases[i].best));
    }

    (void) json_object_update_new(o,
        json_pack("{s:o, s:s*, s:s, s:I, s:I}", "best", best,
                  "model", b->conf->model,
                  "isa", mistral_isa(b->conf->isa) ? mistral_isa(b->conf->isa)
                                                   : "auto",
                  "threads", (json_int_t) (b->conf->threads
                                           ? b->conf->threads
                                           : mst_cpu_pool_cores()),
                  "repeat", (json_int_t) b->conf->repeat));

    rc = json_dumpf(o, f, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    rc |= fputc('\n', f) == EOF;
    json_decref(o);

    rc |= f == stdout ? fflush(f) : fclose(f);

    return rc ? mistral_complain(MISTRAL_FAILED, "bench", "the report cannot "
                                 "be written: %s", strerror(errno))
              : MISTRAL_OK;
}


static int
mistral_case_measure(mistral_cases_t *b)
{
    int                rc;
    mst_checkpoint_t  *cp;
    mst_check_files_t  files;

    rc = mistral_case_list(b);

    if (rc == MISTRAL_OK) {
        rc = mistral_case_room(b);
    }

    if (rc != MISTRAL_OK) {
        return rc;
    }

    if (mst_check_open(b->conf->model, &files, &b->err) != MST_OK) {
        return mistral_complain(MISTRAL_REFUSED, "bench", "%s", b->err.text);
    }

    cp = mst_checkpoint_open(files.fd, files.n, b->conf->model, &b->err);
    mst_check_close(&files);

    if (cp == NULL || mistral_case_model(b, cp) != MST_OK) {
        return mistral_complain(MISTRAL_REFUSED, "bench", "%s", b->err.text);
    }

    if (mistral_case_all(b) != MST_OK) {
        return mistral_complain(MISTRAL_FAILED, "bench", "%s", b->err.text);
    }

    return b->conf->json ? mistral_case_json(b) : MISTRAL_OK;
}


int
mistral_bench_engine(const mistral_bench_conf_t *given)
{
    int                   rc;
    size_t                i;
    mistral_bench_conf_t  conf;

    static mistral_cases_t  b;

    conf = *given;
    conf.repeat = conf.repeat ? conf.repeat : MISTRAL_CASE_REPEAT;
    conf.prompt_tokens = conf.prompt_tokens ? conf.prompt_tokens
                                            : MISTRAL_CASE_PROMPT;
    b.conf = &conf;

    rc = conf.prompts ? mistral_case_prompts(&b, &conf) : MISTRAL_OK;

    if (rc == MISTRAL_OK) {
        rc = mistral_case_measure(&b);
    }

    mst_engine_destroy(b.engine);
    json_decref(b.prompts);
    mst_free(b.prompt);

    for (i = 0; i < b.n_cases; i++) {
        mst_free(b.cases[i].rates);
    }

    return rc;
}
