
/*
 * Fields that are known and not served: see mst_unserved.h.
 *
 * A field leaves this table in the change that serves it.
 */

#include <string.h>

#include "api/mst_unserved.h"


#define MST_UNSERVED_CHAT        (1u << MST_API_CHAT)
#define MST_UNSERVED_COMPLETION  (1u << MST_API_COMPLETION)
#define MST_UNSERVED_FIM         (1u << MST_API_FIM)
#define MST_UNSERVED_TOKENIZE    (1u << MST_API_TOKENIZE)
#define MST_UNSERVED_TEXT        (MST_UNSERVED_COMPLETION | MST_UNSERVED_FIM)
#define MST_UNSERVED_ANSWER      (MST_UNSERVED_CHAT | MST_UNSERVED_TEXT)
#define MST_UNSERVED_MESSAGES    (MST_UNSERVED_CHAT | MST_UNSERVED_TOKENIZE)


/* true for a value that asks for nothing beyond the default */
typedef int (*mst_unserved_pt)(const json_t *value);

typedef struct {
    const char       *name;
    unsigned          apis;
    mst_unserved_pt   inert;           /* NULL: none but null */
} mst_unserved_t;


static int mst_unserved_error(const mst_field_t *f, const char *name,
    const json_t *value);
static int mst_unserved_false(const json_t *value);
static int mst_unserved_true(const json_t *value);
static int mst_unserved_empty(const json_t *value);
static int mst_unserved_tool_choice(const json_t *value);
static int mst_unserved_response_format(const json_t *value);
static int mst_unserved_modalities(const json_t *value);
static int mst_unserved_effort(const json_t *value);
static int mst_unserved_verbosity(const json_t *value);


static const mst_unserved_t  mst_unserved_table[] = {

    /* OpenAI */

    { "functions", MST_UNSERVED_CHAT, mst_unserved_empty },
    { "function_call", MST_UNSERVED_CHAT, mst_unserved_tool_choice },
    { "response_format", MST_UNSERVED_ANSWER, mst_unserved_response_format },
    { "audio", MST_UNSERVED_CHAT, NULL },
    { "modalities", MST_UNSERVED_CHAT, mst_unserved_modalities },
    { "prediction", MST_UNSERVED_CHAT, NULL },
    { "reasoning_effort", MST_UNSERVED_TEXT, mst_unserved_effort },
    { "verbosity", MST_UNSERVED_CHAT, mst_unserved_verbosity },
    { "web_search_options", MST_UNSERVED_CHAT, NULL },
    { "suffix", MST_UNSERVED_COMPLETION, mst_unserved_empty },

    /* Mistral */

    { "safe_prompt", MST_UNSERVED_TEXT, mst_unserved_false },
    { "prompt_mode", MST_UNSERVED_CHAT, NULL },
    { "guardrails", MST_UNSERVED_CHAT, mst_unserved_empty },
    { "documents", MST_UNSERVED_CHAT, mst_unserved_empty },

    /* other engines: what would change the answer */

    { "structured_outputs", MST_UNSERVED_ANSWER, mst_unserved_empty },
    { "guided_json", MST_UNSERVED_ANSWER, NULL },
    { "guided_regex", MST_UNSERVED_ANSWER, NULL },
    { "guided_choice", MST_UNSERVED_ANSWER, NULL },
    { "guided_grammar", MST_UNSERVED_ANSWER, NULL },
    { "json_schema", MST_UNSERVED_ANSWER, NULL },
    { "grammar", MST_UNSERVED_ANSWER, NULL },
    { "regex", MST_UNSERVED_ANSWER, NULL },
    { "ebnf", MST_UNSERVED_ANSWER, NULL },
    { "bad_words", MST_UNSERVED_ANSWER, mst_unserved_empty },
    { "allowed_token_ids", MST_UNSERVED_ANSWER, NULL },
    { "prompt_logprobs", MST_UNSERVED_ANSWER, NULL },
    { "prompt_embeds", MST_UNSERVED_TEXT, NULL },
    { "use_beam_search", MST_UNSERVED_ANSWER, mst_unserved_false },
    { "include_stop_str_in_output", MST_UNSERVED_ANSWER, mst_unserved_false },
    { "skip_special_tokens", MST_UNSERVED_ANSWER, mst_unserved_true },
    { "return_token_ids", MST_UNSERVED_ANSWER, mst_unserved_false },
    { "return_tokens_as_token_ids", MST_UNSERVED_ANSWER, mst_unserved_false },
    { "truncate_prompt_tokens", MST_UNSERVED_ANSWER, NULL },
    { "chat_template", MST_UNSERVED_MESSAGES, NULL }
};


int
mst_unserved_check(const mst_field_t *f, mst_api_t api)
{
    size_t                 i, n;
    json_t                *value;
    const mst_unserved_t  *u;

    n = sizeof(mst_unserved_table) / sizeof(mst_unserved_table[0]);

    for (i = 0; i < n; i++) {
        u = &mst_unserved_table[i];

        if (!(u->apis & 1u << api)) {
            continue;
        }

        value = mst_field_get(f, u->name);

        if (value && (u->inert == NULL || !u->inert(value))) {
            return mst_unserved_error(f, u->name, value);
        }
    }

    return MST_OK;
}


/* of a format it is the type that is not served */

static int
mst_unserved_error(const mst_field_t *f, const char *name,
    const json_t *value)
{
    json_t       *type;
    mst_field_t   format;

    type = json_object_get(value, "type");

    if (type == NULL || strcmp(name, "response_format") != 0) {
        return mst_field_unsupported(f, name, value);
    }

    format = *f;
    format.object = value;
    (void) strcpy(format.path, "response_format.");

    return mst_field_unsupported(&format, "type", type);
}


static int
mst_unserved_is(const json_t *value, const char *text)
{
    return json_is_string(value)
           && mst_str_eq(mst_field_as_string(value), text);
}


static int
mst_unserved_false(const json_t *value)
{
    return json_is_false(value);
}


static int
mst_unserved_true(const json_t *value)
{
    return json_is_true(value);
}


static int
mst_unserved_empty(const json_t *value)
{
    switch (json_typeof(value)) {

    case JSON_STRING:
        return json_string_length(value) == 0;

    case JSON_ARRAY:
        return json_array_size(value) == 0;

    case JSON_OBJECT:
        return json_object_size(value) == 0;

    default:
        return 0;
    }
}


static int
mst_unserved_tool_choice(const json_t *value)
{
    return mst_unserved_is(value, "none") || mst_unserved_is(value, "auto");
}


static int
mst_unserved_response_format(const json_t *value)
{
    return mst_unserved_is(json_object_get(value, "type"), "text");
}


static int
mst_unserved_modalities(const json_t *value)
{
    return json_array_size(value) == 1
           && mst_unserved_is(json_array_get(value, 0), "text");
}


static int
mst_unserved_effort(const json_t *value)
{
    return mst_unserved_is(value, "none");
}


static int
mst_unserved_verbosity(const json_t *value)
{
    return mst_unserved_is(value, "medium");
}
