
/*
 * Requests: see mst_request.h.
 *
 * All text of a request is copied into one block of the body's size, and
 * the JSON tree, which is many times larger, is freed before the request
 * waits for its turn.
 */

#include <stddef.h>
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


typedef struct {
    mst_request_t  request;            /* first: what the caller holds */
    mst_buf_t      text;               /* behind every mst_str_t in it */
} mst_request_owner_t;


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

    if (prompt == NULL) {
        return mst_field_missing(f, "prompt", "a string, or messages a list");
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
