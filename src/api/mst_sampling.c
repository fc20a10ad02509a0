
/*
 * Sampling parameters, stops and limits of a request: see mst_sampling.h.
 */

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/mst_chat.h"
#include "api/mst_sampling.h"
#include "base/mst_mem.h"


#define MST_SAMPLING_MAX_N      128
#define MST_SAMPLING_MAX_STOPS  16
#define MST_SAMPLING_MAX_STOP   256            /* bytes of one stop string */

/* the least top_p that is told from none: one token stays */
#define MST_SAMPLING_MIN_TOP_P  1e-6f


typedef struct {
    const char  *name;
    double       low;
    double       high;
    size_t       offset;               /* of the float in mst_params_t */
    uint32_t     given;                /* MST_GIVEN_* */
} mst_sampling_number_t;

typedef struct {
    const char  *name;
    int64_t      low;
    size_t       offset;               /* of the uint32_t in mst_request_t */
    uint32_t     given;
} mst_sampling_count_t;


static int mst_sampling_numbers(const mst_field_t *f, mst_request_t *r);
static int mst_sampling_top_p(const mst_field_t *f, mst_request_t *r);
static int mst_sampling_integers(const mst_field_t *f, mst_request_t *r);
static int mst_sampling_n(const mst_field_t *f, mst_request_t *r);
static int mst_sampling_counts(const mst_field_t *f, mst_request_t *r);
static int mst_sampling_max_tokens(const mst_field_t *f, mst_request_t *r);
static int mst_sampling_logprobs(const mst_field_t *f, mst_request_t *r);
static int mst_sampling_top_logprobs(const mst_field_t *f,
    mst_request_t *r);
static int mst_sampling_bias(const mst_field_t *f, mst_request_t *r);
static int mst_sampling_bias_id(const char *key, size_t len, uint32_t *id);
static int mst_sampling_stop(const mst_field_t *f, mst_request_t *r,
    mst_buf_t *text);
static int mst_sampling_stop_add(const mst_field_t *f, const char *name,
    const json_t *value, mst_request_t *r, mst_buf_t *text);
static int mst_sampling_stop_ids(const mst_field_t *f, mst_request_t *r);
static int mst_sampling_memory(const mst_field_t *f);


static const mst_sampling_number_t  mst_sampling_table[] = {
    { "temperature", 0, 2, offsetof(mst_params_t, temperature),
      MST_GIVEN_TEMPERATURE },
    { "min_p", 0, 1, offsetof(mst_params_t, min_p), MST_GIVEN_MIN_P },
    { "frequency_penalty", -2, 2, offsetof(mst_params_t, frequency_penalty),
      MST_GIVEN_FREQUENCY_PENALTY },
    { "presence_penalty", -2, 2, offsetof(mst_params_t, presence_penalty),
      MST_GIVEN_PRESENCE_PENALTY },
    { "repetition_penalty", 0.01, 100,
      offsetof(mst_params_t, repetition_penalty),
      MST_GIVEN_REPETITION_PENALTY }
};

static const mst_sampling_count_t  mst_sampling_limits[] = {
    { "max_new_tokens", 1, offsetof(mst_request_t, max_new_tokens),
      MST_GIVEN_LENGTH },
    { "hard_max_new_tokens", 1, offsetof(mst_request_t, hard_max_new_tokens),
      MST_GIVEN_LENGTH },
    { "min_tokens", 0, offsetof(mst_request_t, params.min_tokens), 0 },
    { "num_experts_per_tok", 1, offsetof(mst_request_t, params.experts), 0 }
};


int
mst_sampling_parse(const mst_field_t *f, mst_request_t *r, mst_buf_t *text)
{
    mst_params_default(&r->params);

    if (mst_sampling_n(f, r) != MST_OK
        || mst_sampling_numbers(f, r) != MST_OK
        || mst_sampling_integers(f, r) != MST_OK
        || mst_sampling_max_tokens(f, r) != MST_OK
        || mst_sampling_counts(f, r) != MST_OK
        || mst_sampling_logprobs(f, r) != MST_OK
        || mst_sampling_bias(f, r) != MST_OK
        || mst_sampling_stop(f, r, text) != MST_OK
        || mst_sampling_stop_ids(f, r) != MST_OK)
    {
        return MST_ERROR;
    }

    return MST_OK;
}


static int
mst_sampling_n(const mst_field_t *f, mst_request_t *r)
{
    int64_t  n, best;

    n = 1;

    if (mst_field_integer(f, "n", 1, MST_SAMPLING_MAX_N, &n) == MST_ERROR) {
        return MST_ERROR;
    }

    r->n = (uint32_t) n;

    if (mst_api_form(r->api) == MST_API_CHAT) {
        return MST_OK;
    }

    best = n;

    if (mst_field_integer(f, "best_of", n, MST_SAMPLING_MAX_N, &best)
        == MST_ERROR)
    {
        return MST_ERROR;
    }

    if (best > n) {
        return mst_field_unsupported(f, "best_of",
                                     mst_field_get(f, "best_of"));
    }

    return MST_OK;
}


static int
mst_sampling_numbers(const mst_field_t *f, mst_request_t *r)
{
    int                           rc;
    float                         value;
    double                        x;
    size_t                        i, n;
    const mst_sampling_number_t  *t;

    n = sizeof(mst_sampling_table) / sizeof(mst_sampling_table[0]);

    for (i = 0; i < n; i++) {
        t = &mst_sampling_table[i];

        rc = mst_field_number(f, t->name, t->low, t->high, &x);

        if (rc == MST_ERROR) {
            return MST_ERROR;
        }

        if (rc == MST_OK) {
            value = (float) x;
            memcpy((char *) &r->params + t->offset, &value, sizeof(float));
            r->given |= t->given;
        }
    }

    return mst_sampling_top_p(f, r);
}


static int
mst_sampling_top_p(const mst_field_t *f, mst_request_t *r)
{
    double   x;
    json_t  *value;

    value = mst_field_get(f, "top_p");

    if (value == NULL) {
        return MST_OK;
    }

    x = json_number_value(value);

    if (!json_is_number(value) || !(x > 0 && x <= 1)) {
        return mst_field_error(f, "top_p", json_is_number(value)
                                           ? MST_FIELD_VALUE : MST_FIELD_TYPE,
                               value, "must be a number above 0 and at "
                               "most 1");
    }

    /* 1e-300 is no float */

    r->params.top_p = x < MST_SAMPLING_MIN_TOP_P ? MST_SAMPLING_MIN_TOP_P
                                                 : (float) x;
    r->given |= MST_GIVEN_TOP_P;

    return MST_OK;
}


static int
mst_sampling_integers(const mst_field_t *f, mst_request_t *r)
{
    int      given, rc, ignore_eos;
    int64_t  top_k, seed;

    top_k = 0;
    ignore_eos = 0;

    rc = mst_field_integer(f, "top_k", -1, INT32_MAX, &top_k);

    if (rc == MST_ERROR
        || mst_field_flag(f, "ignore_eos", &ignore_eos) == MST_ERROR)
    {
        return MST_ERROR;
    }

    r->params.top_k = top_k > 0 ? (int32_t) top_k : 0;

    if (rc == MST_OK) {
        r->given |= MST_GIVEN_TOP_K;
    }

    if (ignore_eos) {
        r->params.flags |= MST_PARAMS_IGNORE_EOS;
    }

    /* the losing one is checked too */

    given = mst_field_integer(f, "random_seed", INT64_MIN, INT64_MAX, &seed);

    if (given == MST_ERROR) {
        return MST_ERROR;
    }

    rc = mst_field_integer(f, "seed", INT64_MIN, INT64_MAX, &seed);

    if (rc == MST_ERROR) {
        return MST_ERROR;
    }

    if (rc == MST_OK || given == MST_OK) {
        r->params.seed = (uint64_t) seed;
        r->has_seed = 1;
        r->given |= MST_GIVEN_SEED;
    }

    return MST_OK;
}


/* 0 asks for the prompt alone, which only an echo can show */

static int
mst_sampling_max_tokens(const mst_field_t *f, mst_request_t *r)
{
    int      rc, given;
    int64_t  n, low;

    low = r->api == MST_API_COMPLETION && r->echo ? 0 : 1;

    /* the losing one is checked too */

    given = mst_field_integer(f, "max_tokens", low, INT32_MAX, &n);

    if (given == MST_ERROR) {
        return MST_ERROR;
    }

    rc = mst_field_integer(f, "max_completion_tokens", low, INT32_MAX, &n);

    if (rc == MST_ERROR) {
        return MST_ERROR;
    }

    if (rc == MST_OK || given == MST_OK) {
        r->max_tokens = (uint32_t) n;
        r->prompt_only = n == 0;
        r->given |= MST_GIVEN_LENGTH;
    }

    return MST_OK;
}


static int
mst_sampling_counts(const mst_field_t *f, mst_request_t *r)
{
    int                          rc;
    size_t                       i, n;
    int64_t                      x;
    uint32_t                     value;
    const mst_sampling_count_t  *t;

    n = sizeof(mst_sampling_limits) / sizeof(mst_sampling_limits[0]);

    for (i = 0; i < n; i++) {
        t = &mst_sampling_limits[i];

        rc = mst_field_integer(f, t->name, t->low, INT32_MAX, &x);

        if (rc == MST_ERROR) {
            return MST_ERROR;
        }

        if (rc == MST_OK) {
            value = (uint32_t) x;
            memcpy((char *) r + t->offset, &value, sizeof(uint32_t));
            r->given |= t->given;
        }
    }

    if (r->hard_max_new_tokens
        && r->hard_max_new_tokens < r->max_new_tokens)
    {
        return mst_field_error(f, "hard_max_new_tokens", MST_FIELD_VALUE,
                               mst_field_get(f, "hard_max_new_tokens"),
                               "must be at least max_new_tokens, %u",
                               r->max_new_tokens);
    }

    if ((r->max_tokens || r->prompt_only)
        && r->params.min_tokens > r->max_tokens)
    {
        return mst_field_error(f, "min_tokens", MST_FIELD_VALUE,
                               mst_field_get(f, "min_tokens"),
                               "must be at most the answer's limit, %u",
                               r->max_tokens);
    }

    return MST_OK;
}


/* a switch and a count for chat, one count for text completions */

static int
mst_sampling_logprobs(const mst_field_t *f, mst_request_t *r)
{
    int      rc;
    int64_t  n;

    if (mst_api_form(r->api) == MST_API_CHAT) {

        if (mst_field_flag(f, "logprobs", &r->logprobs) == MST_ERROR
            || mst_sampling_top_logprobs(f, r) != MST_OK)
        {
            return MST_ERROR;
        }

    } else {
        rc = mst_field_integer(f, "logprobs", 0, MST_MAX_TOP_LOGPROBS, &n);

        if (rc == MST_ERROR) {
            return MST_ERROR;
        }

        if (rc == MST_OK) {
            r->logprobs = 1;
            r->params.n_top = (uint32_t) n;
        }
    }

    if (r->logprobs) {
        r->params.flags |= MST_PARAMS_LOGPROBS;
    }

    return MST_OK;
}


static int
mst_sampling_top_logprobs(const mst_field_t *f, mst_request_t *r)
{
    int      rc;
    int64_t  n;

    rc = mst_field_integer(f, "top_logprobs", 0, MST_MAX_TOP_LOGPROBS, &n);

    if (rc != MST_OK) {
        return rc == MST_ERROR ? MST_ERROR : MST_OK;
    }

    if (!r->logprobs) {
        return mst_field_error(f, "top_logprobs", MST_FIELD_VALUE,
                               mst_field_get(f, "top_logprobs"),
                               "which needs \"logprobs\": true");
    }

    r->params.n_top = (uint32_t) n;

    return MST_OK;
}


static int
mst_sampling_bias(const mst_field_t *f, mst_request_t *r)
{
    int            rc;
    size_t         len;
    double         x;
    json_t        *value, *object;
    const char    *key;
    const json_t  *list;

    rc = mst_field_object(f, "logit_bias", &list);

    if (rc != MST_OK) {
        return rc == MST_ERROR ? MST_ERROR : MST_OK;
    }

    object = mst_field_get(f, "logit_bias");

    if (json_object_size(object) > MST_MAX_BIAS) {
        return mst_api_error_set(f->e, 400, MST_FIELD_VALUE, "logit_bias",
                                 "logit_bias has %zu entries, must have at "
                                 "most %d", json_object_size(object),
                                 MST_MAX_BIAS);
    }

    r->bias = mst_calloc(json_object_size(object), sizeof(mst_bias_t));

    if (r->bias == NULL) {
        return mst_sampling_memory(f);
    }

    json_object_keylen_foreach(object, key, len, value) {

        if (mst_sampling_bias_id(key, len, &r->bias[r->n_bias].id)
            != MST_OK)
        {
            return mst_api_error_set(f->e, 400, MST_FIELD_VALUE, "logit_bias",
                                     "logit_bias has the key \"%.40s\", must "
                                     "be a token id", key);
        }

        x = json_number_value(value);

        if (!json_is_number(value) || !(x >= -100 && x <= 100)) {
            return mst_api_error_set(f->e, 400, json_is_number(value)
                                     ? MST_FIELD_VALUE : MST_FIELD_TYPE,
                                     "logit_bias", "logit_bias of token "
                                     "%.10s must be a number from -100 to "
                                     "100", key);
        }

        r->bias[r->n_bias++].value = (float) x;
    }

    return MST_OK;
}


/* plain decimal; "+1", "01" or " 1" would let one id stand there twice */

static int
mst_sampling_bias_id(const char *key, size_t len, uint32_t *id)
{
    size_t    i;
    uint64_t  n;

    if (len == 0 || len > 10 || (key[0] == '0' && len > 1)) {
        return MST_ERROR;
    }

    n = 0;

    for (i = 0; i < len; i++) {

        if (key[i] < '0' || key[i] > '9') {
            return MST_ERROR;
        }

        n = n * 10 + (uint64_t) (key[i] - '0');
    }

    if (n > UINT32_MAX) {
        return MST_ERROR;
    }

    *id = (uint32_t) n;

    return MST_OK;
}


static int
mst_sampling_stop(const mst_field_t *f, mst_request_t *r, mst_buf_t *text)
{
    char           name[32];
    size_t         i, n;
    const json_t  *value;

    value = mst_field_get(f, "stop");

    if (value == NULL) {
        return MST_OK;
    }

    r->given |= MST_GIVEN_STOP;
    n = json_is_array(value) ? json_array_size(value) : 1;

    if (n > MST_SAMPLING_MAX_STOPS) {
        return mst_api_error_set(f->e, 400, MST_FIELD_VALUE, "stop",
                                 "stop has %zu strings, must have at most %d",
                                 n, MST_SAMPLING_MAX_STOPS);
    }

    r->stop = mst_calloc(n, sizeof(mst_str_t));

    if (r->stop == NULL) {
        return mst_sampling_memory(f);
    }

    if (!json_is_array(value)) {
        return mst_sampling_stop_add(f, "stop", value, r, text);
    }

    for (i = 0; i < n; i++) {
        (void) snprintf(name, sizeof(name), "stop[%zu]", i);

        if (mst_sampling_stop_add(f, name, json_array_get(value, i), r, text)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_sampling_stop_add(const mst_field_t *f, const char *name,
    const json_t *value, mst_request_t *r, mst_buf_t *text)
{
    mst_str_t  s;

    if (!json_is_string(value)) {
        return mst_field_error(f, name, MST_FIELD_TYPE, value,
                               "must be a string");
    }

    s = mst_field_as_string(value);

    if (s.len == 0 || s.len > MST_SAMPLING_MAX_STOP) {
        return mst_field_error(f, name, MST_FIELD_VALUE, value,
                               "must have 1 to %d bytes, has %zu",
                               MST_SAMPLING_MAX_STOP, s.len);
    }

    r->stop[r->n_stop++] = mst_chat_copy(text, s);

    return MST_OK;
}


static int
mst_sampling_stop_ids(const mst_field_t *f, mst_request_t *r)
{
    int            rc;
    const json_t  *list;

    rc = mst_field_array(f, "stop_token_ids", &list);

    if (rc != MST_OK) {
        return rc == MST_ERROR ? MST_ERROR : MST_OK;
    }

    if (json_array_size(list) > MST_MAX_STOP_IDS) {
        return mst_api_error_set(f->e, 400, MST_FIELD_VALUE,
                                 "stop_token_ids", "stop_token_ids has %zu "
                                 "ids, must have at most %d",
                                 json_array_size(list), MST_MAX_STOP_IDS);
    }

    return mst_sampling_ids(f, "stop_token_ids", list, &r->stop_ids,
                            &r->n_stop_ids);
}


int
mst_sampling_ids(const mst_field_t *f, const char *name, const json_t *list,
    uint32_t **ids, size_t *n)
{
    char           path[64];
    size_t         i, size;
    int64_t        id;
    const json_t  *value;

    size = json_array_size(list);

    *ids = mst_calloc(size, sizeof(uint32_t));

    if (*ids == NULL) {
        return mst_sampling_memory(f);
    }

    for (i = 0; i < size; i++) {
        value = json_array_get(list, i);

        if (mst_field_as_integer(value, &id) != MST_OK || id < 0
            || id > UINT32_MAX)
        {
            (void) snprintf(path, sizeof(path), "%.30s[%zu]", name, i);

            return mst_field_error(f, path, json_is_number(value)
                                   ? MST_FIELD_VALUE : MST_FIELD_TYPE, value,
                                   "must be a token id");
        }

        (*ids)[i] = (uint32_t) id;
    }

    *n = size;

    return MST_OK;
}


static int
mst_sampling_memory(const mst_field_t *f)
{
    return mst_api_error_set(f->e, 500, NULL, NULL, "out of memory");
}
