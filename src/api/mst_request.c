
/*
 * Requests: see mst_request.h.
 *
 * All text of a request is copied into one block of the body's size, and
 * the JSON tree, which is many times larger, is freed before the request
 * waits for its turn.
 */

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/mst_call.h"
#include "api/mst_chat.h"
#include "api/mst_field.h"
#include "api/mst_input.h"
#include "api/mst_json.h"
#include "api/mst_request.h"
#include "api/mst_sampling.h"
#include "api/mst_unserved.h"
#include "base/mst_buf.h"
#include "base/mst_mem.h"


/* OpenAI's default for text completions, tokens */
#define MST_REQUEST_COMPLETION_TOKENS  16

#define MST_REQUEST_POST  "POST, OPTIONS"
#define MST_REQUEST_GET   "GET, HEAD, OPTIONS"

/* hard_max_new_tokens where max_new_tokens came alone, tokens */
#define MST_REQUEST_HARD_TOKENS        1024


typedef struct {
    mst_request_t  request;            /* first: what the caller holds */
    mst_buf_t      text;               /* behind every mst_str_t in it */
} mst_request_owner_t;

typedef struct {
    mst_str_t      end;
    mst_api_t      api;
    const char    *allow;
} mst_request_end_t;


static int mst_request_fill(mst_request_owner_t *o, const json_t *root,
    mst_api_error_t *e);
static int mst_request_name(const mst_field_t *f, const char *name,
    const char *what, mst_buf_t *text, mst_str_t *value);
static int mst_request_chat(const mst_field_t *f, mst_request_owner_t *o);
static int mst_request_messages(const mst_field_t *f,
    mst_request_owner_t *o);
static int mst_request_completion(const mst_field_t *f,
    mst_request_owner_t *o);
static int mst_request_fim(const mst_field_t *f, mst_request_owner_t *o);
static int mst_request_one_text(const mst_field_t *f);
static int mst_request_turn(const mst_field_t *f, mst_request_t *r);
static int mst_request_settings(const mst_field_t *f, mst_request_owner_t *o);
static int mst_request_answer(const mst_field_t *f, mst_request_owner_t *o);
static int mst_request_stream(const mst_field_t *f, mst_request_t *r);
static int mst_request_tokenize(const mst_field_t *f,
    mst_request_owner_t *o);
static int mst_request_detokenize(const mst_field_t *f,
    mst_request_owner_t *o);
static uint32_t mst_request_hard(const mst_request_t *r);
static int mst_request_check_input(const mst_input_t *input, const char *name,
    uint32_t n_vocab, mst_api_error_t *e);


/* "/chat/completions" ends in "/completions" too: the longer ones are
   first */

static const mst_request_end_t  mst_request_ends[] = {
    { mst_string("/chat/completions"), MST_API_CHAT, MST_REQUEST_POST },
    { mst_string("/fim/completions"), MST_API_FIM, MST_REQUEST_POST },
    { mst_string("/completions"), MST_API_COMPLETION, MST_REQUEST_POST },
    { mst_string("/models"), MST_API_MODELS, MST_REQUEST_GET },
    { mst_string("/tokenize"), MST_API_TOKENIZE, MST_REQUEST_POST },
    { mst_string("/detokenize"), MST_API_DETOKENIZE, MST_REQUEST_POST },
    { mst_string(""), MST_API_MODEL, MST_REQUEST_GET }
};


mst_api_t
mst_request_api(mst_str_t uri, mst_str_t *id)
{
    const char               *p;
    mst_str_t                 rest;
    const mst_request_end_t  *t;

    *id = mst_str("", 0);

    for (t = mst_request_ends; t->end.len; t++) {

        if (uri.len >= t->end.len
            && memcmp(uri.data + uri.len - t->end.len, t->end.data,
                      t->end.len) == 0)
        {
            return t->api;
        }
    }

    /*
     * An ID may hold slashes, even "/models/": the first one counts, but one
     * behind "/v1" is surer than one that may belong to the prefix.
     */

    p = memmem(uri.data, uri.len, "/v1/models/", 11);

    if (p) {
        p += 11;

    } else {
        p = memmem(uri.data, uri.len, "/models/", 8);

        if (p == NULL) {
            return MST_API_UNKNOWN;
        }

        p += 8;
    }

    rest = mst_str(p, (size_t) (uri.data + uri.len - p));

    if (rest.len == 0) {
        return MST_API_UNKNOWN;
    }

    *id = rest;

    return MST_API_MODEL;
}


const char *
mst_request_allow(mst_api_t api)
{
    size_t  i;

    for (i = 0; i < sizeof(mst_request_ends) / sizeof(mst_request_end_t);
         i++)
    {
        if (mst_request_ends[i].api == api) {
            return mst_request_ends[i].allow;
        }
    }

    return NULL;
}


mst_request_t *
mst_request_parse(mst_api_t api, const char *body, size_t len,
    mst_api_error_t *e)
{
    json_t  *root;

    root = mst_json_parse(body, len, e);

    return root ? mst_request_take(api, root, len, e) : NULL;
}


mst_request_t *
mst_request_take(mst_api_t api, json_t *root, size_t len, mst_api_error_t *e)
{
    int                   rc;
    mst_request_owner_t  *o;

    o = mst_calloc(1, sizeof(mst_request_owner_t));

    if (o == NULL || mst_buf_reserve(&o->text, len) != MST_OK) {
        rc = mst_api_error_set(e, 500, NULL, NULL, "out of memory");

    } else {
        o->request.api = api;
        rc = mst_request_fill(o, root, e);
    }

    json_decref(root);

    if (rc != MST_OK) {
        mst_request_destroy(o ? &o->request : NULL);
        return NULL;
    }

    return &o->request;
}


void
mst_request_destroy(mst_request_t *r)
{
    mst_request_owner_t  *o;

    if (r == NULL) {
        return;
    }

    o = (mst_request_owner_t *) r;

    mst_free(r->messages);
    mst_free(r->parts);
    mst_call_free(r->calls, r->n_calls);
    mst_free(r->system);
    mst_free(r->tools.owned);
    mst_free(r->variables_owned);
    mst_input_destroy(r);
    mst_free(r->bias);
    mst_free(r->stop_ids);
    mst_free(r->stop);
    mst_buf_fini(&o->text);
    mst_free(o);
}


static int
mst_request_fill(mst_request_owner_t *o, const json_t *root,
    mst_api_error_t *e)
{
    mst_field_t  f;

    f.object = root;
    f.path[0] = '\0';
    f.e = e;

    if (mst_request_name(&f, "model", "the name of a model", &o->text,
                         &o->request.model)
        != MST_OK)
    {
        return MST_ERROR;
    }

    switch (o->request.api) {

    case MST_API_CHAT:
        return mst_request_chat(&f, o);

    case MST_API_COMPLETION:
        return mst_request_completion(&f, o);

    case MST_API_FIM:
        return mst_request_fim(&f, o);

    case MST_API_TOKENIZE:
        return mst_request_tokenize(&f, o);

    case MST_API_DETOKENIZE:
        return mst_request_detokenize(&f, o);

    default:
        return mst_api_error_set(e, 404, NULL, NULL,
                                 "this resource takes no body");
    }
}


/* a string that is not empty where it is given */

static int
mst_request_name(const mst_field_t *f, const char *name, const char *what,
    mst_buf_t *text, mst_str_t *value)
{
    int        rc;
    mst_str_t  s;

    rc = mst_field_string(f, name, &s);

    if (rc != MST_OK) {
        return rc == MST_ERROR ? MST_ERROR : MST_OK;
    }

    if (s.len == 0) {
        return mst_field_error(f, name, MST_FIELD_VALUE,
                               mst_field_get(f, name), "must be %s", what);
    }

    *value = mst_chat_copy(text, s);

    return MST_OK;
}


static int
mst_request_chat(const mst_field_t *f, mst_request_owner_t *o)
{
    if (mst_field_flag(f, "echo", &o->request.echo) == MST_ERROR
        || mst_request_messages(f, o) == MST_ERROR)
    {
        return MST_ERROR;
    }

    if (o->request.n_messages == 0) {
        return mst_field_missing(f, "messages", "a list of messages");
    }

    return mst_request_answer(f, o);
}


static int
mst_request_messages(const mst_field_t *f, mst_request_owner_t *o)
{
    int             rc, safe, prefix;
    mst_chat_t      chat;
    const json_t   *list;
    mst_request_t  *r;

    r = &o->request;
    safe = 0;
    prefix = 0;

    rc = mst_field_array(f, "messages", &list);

    if (rc != MST_OK) {
        return rc;
    }

    memset(&chat, 0, sizeof(mst_chat_t));

    rc = mst_chat_parse(list, &o->text, &chat, &prefix, f->e);

    r->messages = chat.messages;
    r->n_messages = chat.n;
    r->parts = chat.parts;
    r->calls = chat.calls;
    r->n_calls = chat.n_calls;

    if (rc != MST_OK
        || mst_field_flag(f, "safe_prompt", &safe) == MST_ERROR
        || mst_request_turn(f, r) != MST_OK
        || mst_request_settings(f, o) != MST_OK)
    {
        return MST_ERROR;
    }

    /* Mistral's answers repeat the prefix that they were given */

    if (prefix) {
        r->continue_last = 1;
        r->echo = 1;
    }

    r->safe = safe;

    return safe ? mst_chat_safe(&r->messages, &r->n_messages, f->e) : MST_OK;
}


/* what follows the last message */

static int
mst_request_turn(const mst_field_t *f, mst_request_t *r)
{
    int  rc, opening, go_on;

    opening = 1;
    go_on = 0;

    rc = mst_field_flag(f, "add_generation_prompt", &opening);

    if (rc == MST_ERROR
        || mst_field_flag(f, "continue_final_message", &go_on) == MST_ERROR)
    {
        return MST_ERROR;
    }

    if (go_on && rc == MST_OK && opening) {
        return mst_field_error(f, "continue_final_message", MST_FIELD_VALUE,
                               mst_field_get(f, "continue_final_message"),
                               "must not stand beside "
                               "\"add_generation_prompt\": true");
    }

    if (go_on && r->messages[r->n_messages - 1].role != MST_ROLE_ASSISTANT) {
        return mst_field_error(f, "continue_final_message", MST_FIELD_VALUE,
                               mst_field_get(f, "continue_final_message"),
                               "which needs a last message of the assistant");
    }

    r->continue_last = go_on;
    r->closed = !opening;

    return MST_OK;
}


/* what the template gets beside messages; which of it is known is the
   template's business */

static int
mst_request_settings(const mst_field_t *f, mst_request_owner_t *o)
{
    size_t          i;
    mst_str_t       effort;
    const json_t   *variables;
    mst_request_t  *r;

    static const char *const  efforts[] = {
        "none", "minimal", "low", "medium", "high", "xhigh", "max"
    };

    r = &o->request;
    effort = mst_str("", 0);
    variables = NULL;

    if (mst_field_string(f, "reasoning_effort", &effort) == MST_ERROR
        || mst_field_object(f, "chat_template_kwargs", &variables)
           == MST_ERROR
        || mst_tools_parse(f, &o->text, &r->tools) != MST_OK)
    {
        return MST_ERROR;
    }

    if (json_object_size(variables)) {
        r->variables_owned = mst_call_dump(variables, &r->variables.len);
        r->variables.data = r->variables_owned;

        if (r->variables_owned == NULL) {
            return mst_api_error_set(f->e, 500, NULL, NULL, "out of memory");
        }
    }

    if (mst_field_get(f, "reasoning_effort") == NULL) {
        return MST_OK;
    }

    for (i = 0; i < sizeof(efforts) / sizeof(efforts[0]); i++) {

        if (mst_str_eq(effort, efforts[i])) {
            r->effort = mst_chat_copy(&o->text, effort);
            return MST_OK;
        }
    }

    return mst_field_error(f, "reasoning_effort", MST_FIELD_VALUE,
                           mst_field_get(f, "reasoning_effort"), "must be "
                           "one of none, minimal, low, medium, high, xhigh "
                           "and max");
}


static int
mst_request_completion(const mst_field_t *f, mst_request_owner_t *o)
{
    mst_request_t  *r;

    r = &o->request;

    if (mst_field_flag(f, "echo", &r->echo) == MST_ERROR
        || mst_input_parse(f, r, &o->text) != MST_OK
        || mst_request_answer(f, o) != MST_OK)
    {
        return MST_ERROR;
    }

    /* what is echoed has log-probabilities, too */

    if (r->echo && r->logprobs) {
        r->params.flags |= MST_PARAMS_ECHO;
    }

    if (r->n_inputs * r->n > MST_INPUT_MAX) {
        return mst_api_error_set(f->e, 400, MST_FIELD_VALUE, "n",
                                 "n is %u for %zu prompts, must ask for at "
                                 "most %d answers", r->n, r->n_inputs,
                                 MST_INPUT_MAX);
    }

    return MST_OK;
}


static int
mst_request_fim(const mst_field_t *f, mst_request_owner_t *o)
{
    int             rc;
    mst_str_t       suffix;
    mst_request_t  *r;

    r = &o->request;
    rc = mst_field_string(f, "suffix", &suffix);

    if (rc == MST_OK) {
        r->suffix = mst_chat_copy(&o->text, suffix);
    }

    if (rc == MST_ERROR
        || mst_request_one_text(f) != MST_OK
        || mst_input_parse(f, r, &o->text) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_request_answer(f, o);
}


/* a list of prompts has no one answer */

static int
mst_request_one_text(const mst_field_t *f)
{
    json_t  *prompt;

    prompt = mst_field_get(f, "prompt");

    return prompt == NULL || json_is_string(prompt) ? MST_OK
           : mst_field_error(f, "prompt", MST_FIELD_TYPE, prompt,
                             "must be a string");
}


/* what the answers of all kinds share */

static int
mst_request_answer(const mst_field_t *f, mst_request_owner_t *o)
{
    int             rc;
    mst_str_t       user;
    const json_t   *metadata;
    mst_request_t  *r;

    r = &o->request;

    if (mst_unserved_check(f, r->api) != MST_OK
        || mst_sampling_parse(f, r, &o->text) != MST_OK
        || mst_request_stream(f, r) != MST_OK
        || mst_request_name(f, "task", "the name of a task", &o->text,
                            &r->task)
           != MST_OK
        || mst_request_name(f, "cache_salt", "a string with at least one "
                            "byte", &o->text, &r->cache_salt)
           != MST_OK
        || mst_field_object(f, "metadata", &metadata) == MST_ERROR)
    {
        return MST_ERROR;
    }

    rc = mst_field_string(f, "user", &user);

    if (rc == MST_OK) {
        r->user = mst_chat_copy(&o->text, user);
    }

    return rc == MST_ERROR ? MST_ERROR : MST_OK;
}


static int
mst_request_stream(const mst_field_t *f, mst_request_t *r)
{
    int            rc;
    mst_field_t    options;
    const json_t  *object;

    if (mst_field_flag(f, "stream", &r->stream) == MST_ERROR) {
        return MST_ERROR;
    }

    rc = mst_field_object(f, "stream_options", &object);

    if (rc != MST_OK) {
        return rc == MST_ERROR ? MST_ERROR : MST_OK;
    }

    if (!r->stream) {
        return mst_field_error(f, "stream_options", MST_FIELD_VALUE, object,
                               "which needs \"stream\": true");
    }

    options.object = object;
    (void) strcpy(options.path, "stream_options.");
    options.e = f->e;

    rc = mst_field_flag(&options, "include_usage", &r->include_usage);

    return rc == MST_ERROR ? MST_ERROR : MST_OK;
}


static int
mst_request_tokenize(const mst_field_t *f, mst_request_owner_t *o)
{
    json_t         *prompt;
    mst_request_t  *r;

    r = &o->request;
    r->add_special_tokens = 1;

    if (mst_field_flag(f, "add_special_tokens", &r->add_special_tokens)
        == MST_ERROR
        || mst_field_flag(f, "return_token_strs", &r->return_token_strs)
           == MST_ERROR
        || mst_unserved_check(f, r->api) != MST_OK
        || mst_request_messages(f, o) == MST_ERROR)
    {
        return MST_ERROR;
    }

    prompt = mst_field_get(f, "prompt");

    if (r->n_messages && prompt) {
        return mst_field_error(f, "prompt", MST_FIELD_VALUE, prompt,
                               "must not stand beside messages");
    }

    if (r->n_messages) {
        return MST_OK;
    }

    return mst_request_one_text(f) == MST_OK
           ? mst_input_parse(f, r, &o->text) : MST_ERROR;
}


static int
mst_request_detokenize(const mst_field_t *f, mst_request_owner_t *o)
{
    int            rc;
    const json_t  *list;

    rc = mst_field_array(f, "tokens", &list);

    if (rc == MST_DECLINED) {
        return mst_field_missing(f, "tokens", "a list of token ids");
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    return mst_input_ids(f, "tokens", list, 1, &o->request);
}


int
mst_request_check_experts(const mst_request_t *r, uint32_t n_experts,
    mst_api_error_t *e)
{
    uint32_t  n;

    n = r->params.experts;

    if (n <= n_experts) {
        return MST_OK;
    }

    if (n_experts == 0) {
        return mst_api_error_set(e, 400, MST_FIELD_VALUE,
                                 "num_experts_per_tok", "num_experts_per_tok "
                                 "is %u, which is for mixtures of experts, "
                                 "and the model is none", n);
    }

    return mst_api_error_set(e, 400, MST_FIELD_VALUE, "num_experts_per_tok",
                             "num_experts_per_tok is %u, must be at most the "
                             "model's %u experts", n, n_experts);
}


int
mst_request_limits(mst_request_t *r, size_t i, size_t n_prompt,
    uint32_t context, mst_api_error_t *e)
{
    char         name[32];
    uint32_t     left, hard;
    const char  *param, *what;

    param = r->api == MST_API_CHAT ? "messages" : "prompt";
    what = "the prompt";

    if (r->n_inputs > 1) {
        (void) snprintf(name, sizeof(name), "prompt[%zu]", i);
        param = name;
        what = name;
    }

    if (n_prompt == 0) {
        return mst_api_error_set(e, 400, MST_FIELD_VALUE, param,
                                 "%s is empty, must have at least one token",
                                 what);
    }

    if (n_prompt >= context) {
        return mst_api_error_set(e, 400, "context_length_exceeded", param,
                                 "this model's maximum context length is %u "
                                 "tokens, but %s has %zu and the answer needs "
                                 "room", context, what, n_prompt);
    }

    left = context - (uint32_t) n_prompt;
    hard = mst_request_hard(r);

    r->params.max_tokens = r->prompt_only ? 0
                           : hard && hard < left ? hard : left;

    /* a soft limit that the hard one cuts off would never be reached */

    r->params.soft_tokens = r->max_new_tokens < r->params.max_tokens
                            ? r->max_new_tokens : 0;

    return MST_OK;
}


/* the least of the limits; 0 = none at all */

static uint32_t
mst_request_hard(const mst_request_t *r)
{
    uint32_t  hard;

    hard = r->hard_max_new_tokens;

    if (hard == 0 && r->max_new_tokens) {
        hard = r->max_new_tokens > MST_REQUEST_HARD_TOKENS
               ? r->max_new_tokens : MST_REQUEST_HARD_TOKENS;
    }

    if (r->max_tokens && (hard == 0 || r->max_tokens < hard)) {
        hard = r->max_tokens;
    }

    if (hard == 0 && r->api == MST_API_COMPLETION) {
        hard = MST_REQUEST_COMPLETION_TOKENS;
    }

    if (r->cap && (hard == 0 || r->cap < hard)) {
        hard = r->cap;
    }

    return hard;
}


void
mst_request_default_length(mst_request_t *r, uint32_t n)
{
    if (r->given & MST_GIVEN_LENGTH) {
        return;
    }

    r->given |= MST_GIVEN_LENGTH;
    r->max_tokens = n < r->params.min_tokens ? r->params.min_tokens : n;
}


int
mst_request_check_ids(const mst_request_t *r, uint32_t n_vocab,
    mst_api_error_t *e)
{
    char    name[48];
    size_t  i;

    for (i = 0; i < r->n_inputs; i++) {

        if (r->api == MST_API_DETOKENIZE) {
            (void) strcpy(name, "tokens");

        } else if (r->n_inputs == 1) {
            (void) strcpy(name, "prompt");

        } else {
            (void) snprintf(name, sizeof(name), "prompt[%zu]", i);
        }

        if (mst_request_check_input(&r->inputs[i], name, n_vocab, e)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    for (i = 0; i < r->n_bias; i++) {

        if (r->bias[i].id >= n_vocab) {
            return mst_api_error_set(e, 400, MST_FIELD_VALUE, "logit_bias",
                                     "logit_bias has the key %u, must be a "
                                     "token id below %u", r->bias[i].id,
                                     n_vocab);
        }
    }

    for (i = 0; i < r->n_stop_ids; i++) {

        if (r->stop_ids[i] >= n_vocab) {
            (void) snprintf(name, sizeof(name), "stop_token_ids[%zu]", i);

            return mst_api_error_set(e, 400, MST_FIELD_VALUE, name, "%s is "
                                     "%u, must be a token id below %u", name,
                                     r->stop_ids[i], n_vocab);
        }
    }

    return MST_OK;
}


static int
mst_request_check_input(const mst_input_t *input, const char *name,
    uint32_t n_vocab, mst_api_error_t *e)
{
    char    path[64];
    size_t  i;

    for (i = 0; i < input->n_ids; i++) {

        if (input->ids[i] >= n_vocab) {
            (void) snprintf(path, sizeof(path), "%.30s[%zu]", name, i);

            return mst_api_error_set(e, 400, MST_FIELD_VALUE, path, "%s is "
                                     "%u, must be a token id below %u", path,
                                     input->ids[i], n_vocab);
        }
    }

    return MST_OK;
}
