
/*
 * Requests of "mistral bench": see mistral_bench_plan.h.
 */

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "tools/mistral_bench_plan.h"

#define MISTRAL_PLAN_PROMPT  128               /* words */
#define MISTRAL_PLAN_ANSWER  64                /* tokens */
#define MISTRAL_PLAN_MIXES   10000
#define MISTRAL_PLAN_WORDS   1000000
#define MISTRAL_PLAN_TIMES   0x9e3779b97f4a7c15ull


/* words that are one token each for about every vocabulary; 64 of them */
static const char *const  mistral_plan_words[] = {
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was",
    "with", "be", "by", "on", "not", "he", "this", "are", "or", "his", "from",
    "at", "which", "but", "have", "an", "had", "they", "you", "were", "their",
    "one", "all", "we", "can", "her", "has", "there", "been", "if", "more",
    "when", "will", "would", "who", "so", "no", "time", "water", "people",
    "house", "day", "year", "work", "world", "life", "way", "hand", "part",
    "place", "case", "week", "point"
};

#define MISTRAL_PLAN_WORD                                                     \
    (sizeof(mistral_plan_words) / sizeof(*mistral_plan_words))


/* splitmix64 */

static uint64_t
mistral_plan_random(uint64_t *state)
{
    uint64_t  z;

    *state += 0x9e3779b97f4a7c15ull;

    z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;

    return z ^ (z >> 31);
}


static double
mistral_plan_uniform(uint64_t *state)          /* in [0, 1) */
{
    return (double) (mistral_plan_random(state) >> 11) * 0x1p-53;
}


static char *
mistral_plan_quote(const char *text, size_t n)
{
    char    *z;
    json_t  *s;

    s = json_stringn(text, n);
    z = json_dumps(s, JSON_ENCODE_ANY);
    json_decref(s);

    return z;
}


/* a number of tokens in an entry of a profile; the fallback where it lacks */

static int
mistral_plan_count(const json_t *entry, const char *key, uint64_t *value,
    uint64_t limit)
{
    const json_t  *n;

    n = json_object_get(entry, key);

    if (n == NULL) {
        return MST_OK;
    }

    if (!json_is_integer(n) || json_integer_value(n) < 1
        || (uint64_t) json_integer_value(n) > limit)
    {
        return MST_ERROR;
    }

    *value = (uint64_t) json_integer_value(n);

    return MST_OK;
}


static int
mistral_plan_entry(mistral_plan_t *p, const json_t *entry, mst_err_t *err)
{
    size_t          i;
    const json_t   *weight, *prompt;
    mistral_mix_t  *m;

    i = p->n_mixes;
    m = &p->mixes[i];
    m->weight = 1;
    m->prompt_tokens = MISTRAL_PLAN_PROMPT;
    m->max_tokens = MISTRAL_PLAN_ANSWER;

    if (!json_is_object(entry)) {
        return mst_err_set(err, "%s: entry %zu is no object",
                           p->conf->profile, i);
    }

    weight = json_object_get(entry, "weight");
    prompt = json_object_get(entry, "prompt");

    if (weight) {
        m->weight = json_number_value(weight);
    }

    if (!(m->weight > 0 && m->weight < 1e9)) {
        return mst_err_set(err, "%s: entry %zu: \"weight\" is no number "
                           "above 0", p->conf->profile, i);
    }

    if (mistral_plan_count(entry, "prompt_tokens", &m->prompt_tokens,
                           MISTRAL_PLAN_WORDS)
        != MST_OK
        || mistral_plan_count(entry, "max_tokens", &m->max_tokens, INT32_MAX)
           != MST_OK)
    {
        return mst_err_set(err, "%s: entry %zu: \"prompt_tokens\" and "
                           "\"max_tokens\" are whole numbers above 0",
                           p->conf->profile, i);
    }

    if (prompt == NULL) {
        p->n_mixes++;
        return MST_OK;
    }

    if (!json_is_string(prompt) || json_object_get(entry, "prompt_tokens")) {
        return mst_err_set(err, "%s: entry %zu: \"prompt\" is a text and "
                           "stands in place of \"prompt_tokens\"",
                           p->conf->profile, i);
    }

    m->prompt = mistral_plan_quote(json_string_value(prompt),
                                   json_string_length(prompt));

    if (m->prompt == NULL) {
        return mst_err_set(err, "no memory for the profile");
    }

    p->n_mixes++;

    return MST_OK;
}


static int
mistral_plan_profile(mistral_plan_t *p, mst_err_t *err)
{
    int           rc;
    size_t        i, n;
    json_t       *list;
    json_error_t  bad;

    list = json_load_file(p->conf->profile, 0, &bad);

    if (list == NULL) {
        return bad.line > 0
               ? mst_err_set(err, "%s: no JSON: line %d: %s",
                             p->conf->profile, bad.line, bad.text)
               : mst_err_set(err, "%s", bad.text);
    }

    n = json_array_size(list);
    rc = MST_OK;

    if (n < 1 || n > MISTRAL_PLAN_MIXES) {
        rc = mst_err_set(err, "%s: a list of 1 .. %d objects is needed",
                         p->conf->profile, MISTRAL_PLAN_MIXES);

    } else {
        p->mixes = mst_calloc(n, sizeof(mistral_mix_t));

        if (p->mixes == NULL) {
            rc = mst_err_set(err, "no memory for the profile");
        }
    }

    for (i = 0; i < n && rc == MST_OK; i++) {
        rc = mistral_plan_entry(p, json_array_get(list, i), err);
    }

    json_decref(list);

    return rc;
}


static int
mistral_plan_single(mistral_plan_t *p, mst_err_t *err)
{
    p->mixes = mst_calloc(1, sizeof(mistral_mix_t));

    if (p->mixes == NULL) {
        return mst_err_set(err, "no memory for the requests");
    }

    p->n_mixes = 1;
    p->mixes[0].weight = 1;
    p->mixes[0].prompt_tokens = p->conf->prompt_tokens
                                ? p->conf->prompt_tokens
                                : MISTRAL_PLAN_PROMPT;
    p->mixes[0].max_tokens = p->conf->max_tokens ? p->conf->max_tokens
                                                 : MISTRAL_PLAN_ANSWER;
    return MST_OK;
}


int
mistral_plan_init(mistral_plan_t *p, const mistral_bench_conf_t *conf,
    const mistral_url_t *url, mst_err_t *err)
{
    int     rc;
    size_t  i;

    memset(p, 0, sizeof(*p));
    mst_buf_init(&p->body);

    p->conf = conf;
    p->url = url;
    p->words = conf->seed;
    p->times = conf->seed ^ MISTRAL_PLAN_TIMES;
    p->chat = strstr(url->path, "/chat/") != NULL;

    if (conf->model) {
        p->model = mistral_plan_quote(conf->model, strlen(conf->model));

        if (p->model == NULL) {
            return mst_err_set(err, "--model is no UTF-8");
        }
    }

    rc = conf->profile ? mistral_plan_profile(p, err)
                       : mistral_plan_single(p, err);

    p->dealt = 1;

    for (i = 0; i < p->n_mixes; i++) {
        p->weights += p->mixes[i].weight;
        p->dealt &= p->mixes[i].weight == floor(p->mixes[i].weight);
    }

    return rc;
}


void
mistral_plan_fini(mistral_plan_t *p)
{
    size_t  i;

    for (i = 0; i < p->n_mixes; i++) {
        free(p->mixes[i].prompt);              /* jansson's */
    }

    mst_free(p->mixes);
    free(p->model);
    mst_buf_fini(&p->body);
}


/* no two prompts are alike, so that no prefix cache knows them */

static void
mistral_plan_prompt(mistral_plan_t *p, const mistral_mix_t *m, mst_buf_t *b)
{
    uint64_t  i, r;

    if (m->prompt) {
        (void) mst_buf_text(b, m->prompt);
        return;
    }

    (void) mst_buf_char(b, '"');

    for (i = 0, r = 0; i < m->prompt_tokens; i++) {
        r = (i % 8) ? r >> 8 : mistral_plan_random(&p->words);

        if (i) {
            (void) mst_buf_char(b, ' ');
        }

        (void) mst_buf_text(b, mistral_plan_words[r % MISTRAL_PLAN_WORD]);
    }

    (void) mst_buf_char(b, '"');
}


/* with whole weights as cards are dealt, so that so many requests hold exactly
   so many of each */

static const mistral_mix_t *
mistral_plan_draw(mistral_plan_t *p)
{
    size_t  i;
    double  at;

    if (p->n_mixes == 1) {
        return p->mixes;
    }

    if (!p->dealt || p->left < 1) {
        for (i = 0; i < p->n_mixes; i++) {
            p->mixes[i].left = p->mixes[i].weight;
        }

        p->left = p->weights;
    }

    at = mistral_plan_uniform(&p->words) * p->left;

    for (i = 0; i < p->n_mixes - 1; i++) {
        at -= p->mixes[i].left;

        if (at < 0) {
            break;
        }
    }

    /* what rounding made of the end */

    while (p->mixes[i].left <= 0) {
        i--;
    }

    p->mixes[i].left--;
    p->left--;

    return &p->mixes[i];
}


int
mistral_plan_request(mistral_plan_t *p, mst_buf_t *out)
{
    size_t                i;
    mst_buf_t            *b;
    const mistral_mix_t  *m;

    m = mistral_plan_draw(p);
    b = &p->body;

    mst_buf_reset(b);
    mst_buf_reset(out);

    /* errors stay in b->failed */

    (void) mst_buf_char(b, '{');

    if (p->model) {
        (void) mst_buf_printf(b, "\"model\":%s,", p->model);
    }

    (void) mst_buf_text(b, p->chat ? "\"messages\":[{\"role\":\"user\","
                                     "\"content\":" : "\"prompt\":");
    mistral_plan_prompt(p, m, b);
    (void) mst_buf_text(b, p->chat ? "}]" : "");

    (void) mst_buf_printf(b, ",\"max_tokens\":%llu,\"temperature\":0%s%s}",
                          (unsigned long long) m->max_tokens,
                          p->conf->ignore_eos ? ",\"ignore_eos\":true" : "",
                          p->conf->no_stream
                          ? "" : ",\"stream\":true,\"stream_options\":"
                                 "{\"include_usage\":true}");

    (void) mst_buf_printf(out, "POST %s HTTP/1.1\r\n"
                          "Host: %s:%s\r\n"
                          "User-Agent: mistral-bench\r\n"
                          "Accept: */*\r\n"
                          "Content-Type: application/json\r\n"
                          "Content-Length: %zu\r\n",
                          p->url->path, p->url->host, p->url->port, b->len);

    for (i = 0; p->conf->headers[i]; i++) {
        (void) mst_buf_text(out, p->conf->headers[i]);
        (void) mst_buf_text(out, "\r\n");
    }

    (void) mst_buf_text(out, "\r\n");

    if (b->failed || mst_buf_append(out, b->data, b->len) != MST_OK) {
        return MST_ERROR;
    }

    return MST_OK;
}


uint64_t
mistral_plan_gap(mistral_plan_t *p)
{
    return (uint64_t) (-log1p(-mistral_plan_uniform(&p->times))
                       / p->conf->rate * 1e9);
}
