
/*
 * "messages" of a chat: see mst_chat.h.
 *
 * Calls of tools in a history (assistant messages with tool_calls) are
 * accepted, since roles and texts of such a chat are plain messages; it is
 * the template's business what it shows of them.
 */

#include <stdio.h>
#include <string.h>

#include "api/mst_chat.h"
#include "api/mst_field.h"
#include "base/mst_mem.h"


typedef struct {
    const char  *name;
    mst_role_t   role;
} mst_chat_role_t;


static int mst_chat_message(const mst_field_t *f, mst_buf_t *text,
    mst_message_t *m, int *prefix);
static int mst_chat_role(const mst_field_t *f, mst_role_t *role);
static int mst_chat_extras(const mst_field_t *f, int *prefix);
static int mst_chat_calls(const mst_field_t *f);
static int mst_chat_content(const mst_field_t *f, mst_role_t role,
    mst_buf_t *text, mst_str_t *content);
static int mst_chat_parts(const mst_field_t *f, const json_t *list,
    mst_buf_t *text, mst_str_t *content);
static int mst_chat_part(const mst_field_t *f, mst_str_t *s);


static const mst_chat_role_t  mst_chat_roles[] = {
    { "system", MST_ROLE_SYSTEM },
    { "developer", MST_ROLE_SYSTEM },
    { "user", MST_ROLE_USER },
    { "assistant", MST_ROLE_ASSISTANT },
    { "tool", MST_ROLE_TOOL }
};

/* parts that OpenAI or Mistral know; others are mistakes */

static const char  *mst_chat_kinds[] = {
    "image_url", "input_audio", "audio_url", "video_url", "file",
    "document_url", "reference", "refusal", "thinking", NULL
};


int
mst_chat_parse(const json_t *list, mst_buf_t *text,
    mst_message_t **messages, size_t *n, int *prefix, mst_api_error_t *e)
{
    size_t       i;
    mst_field_t  f;

    *n = json_array_size(list);

    if (*n == 0) {
        return mst_api_error_set(e, 400, MST_FIELD_VALUE, "messages",
                                 "messages is an empty list, must hold at "
                                 "least one message");
    }

    *messages = mst_calloc(*n, sizeof(mst_message_t));

    if (*messages == NULL) {
        return mst_api_error_set(e, 500, NULL, NULL, "out of memory");
    }

    f.e = e;

    for (i = 0; i < *n; i++) {
        f.object = json_array_get(list, i);

        (void) snprintf(f.path, sizeof(f.path), "messages[%zu]", i);

        if (!json_is_object(f.object)) {
            return mst_field_error(&f, "", MST_FIELD_TYPE, f.object,
                                   "must be an object");
        }

        (void) strcat(f.path, ".");

        *prefix = 0;

        if (mst_chat_message(&f, text, &(*messages)[i], prefix) != MST_OK) {
            return MST_ERROR;
        }

        if (*prefix && (i + 1 < *n
                        || (*messages)[i].role != MST_ROLE_ASSISTANT))
        {
            return mst_field_error(&f, "prefix", MST_FIELD_VALUE,
                                   mst_field_get(&f, "prefix"), "which only "
                                   "a last message of the assistant may be");
        }
    }

    return MST_OK;
}


static int
mst_chat_message(const mst_field_t *f, mst_buf_t *text, mst_message_t *m,
    int *prefix)
{
    if (mst_chat_role(f, &m->role) != MST_OK
        || mst_chat_extras(f, prefix) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_chat_content(f, m->role, text, &m->content);
}


static int
mst_chat_role(const mst_field_t *f, mst_role_t *role)
{
    int        rc;
    size_t     i;
    mst_str_t  name;

    rc = mst_field_string(f, "role", &name);

    if (rc == MST_DECLINED) {
        return mst_field_missing(f, "role", "one of system, developer, user, "
                                 "assistant and tool");
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < sizeof(mst_chat_roles) / sizeof(mst_chat_role_t); i++) {

        if (mst_str_eq(name, mst_chat_roles[i].name)) {
            *role = mst_chat_roles[i].role;
            return MST_OK;
        }
    }

    return mst_field_error(f, "role", MST_FIELD_VALUE,
                           mst_field_get(f, "role"),
                           "must be one of system, developer, user, "
                           "assistant and tool");
}


/* what may stand beside role and content */

static int
mst_chat_extras(const mst_field_t *f, int *prefix)
{
    json_t    *audio;
    mst_str_t  s;

    if (mst_field_string(f, "name", &s) == MST_ERROR
        || mst_field_string(f, "tool_call_id", &s) == MST_ERROR
        || mst_field_flag(f, "prefix", prefix) == MST_ERROR)
    {
        return MST_ERROR;
    }

    audio = mst_field_get(f, "audio");

    if (audio) {
        return mst_field_unsupported(f, "audio", audio);
    }

    return MST_OK;
}


static int
mst_chat_content(const mst_field_t *f, mst_role_t role, mst_buf_t *text,
    mst_str_t *content)
{
    int      rc;
    json_t  *value;

    value = mst_field_get(f, "content");

    if (value == NULL) {

        if (role == MST_ROLE_ASSISTANT) {
            rc = mst_chat_calls(f);

            if (rc != MST_DECLINED) {
                *content = mst_str("", 0);
                return rc;
            }
        }

        return mst_field_missing(f, "content", role == MST_ROLE_ASSISTANT
                                 ? "a string or a list of text parts where "
                                   "there are no tool_calls"
                                 : "a string or a list of text parts");
    }

    if (json_is_string(value)) {
        *content = mst_chat_copy(text, mst_field_as_string(value));
        return MST_OK;
    }

    if (json_is_array(value)) {
        return mst_chat_parts(f, value, text, content);
    }

    return mst_field_error(f, "content", MST_FIELD_TYPE, value,
                           "must be a string or a list of text parts");
}


/* MST_OK: the message calls a tool; MST_DECLINED: it does not */

static int
mst_chat_calls(const mst_field_t *f)
{
    const json_t  *calls;

    switch (mst_field_array(f, "tool_calls", &calls)) {

    case MST_OK:
        return json_array_size(calls) ? MST_OK : MST_DECLINED;

    case MST_ERROR:
        return MST_ERROR;

    default:
        return mst_field_object(f, "function_call", &calls);
    }
}


static int
mst_chat_parts(const mst_field_t *f, const json_t *list, mst_buf_t *text,
    mst_str_t *content)
{
    size_t       i, n, start;
    mst_str_t    s;
    mst_field_t  part;

    n = json_array_size(list);
    start = text->len;

    if (n == 0) {
        return mst_field_error(f, "content", MST_FIELD_VALUE, list,
                               "must hold at least one text part");
    }

    part.e = f->e;

    for (i = 0; i < n; i++) {
        part.object = json_array_get(list, i);

        (void) snprintf(part.path, sizeof(part.path), "%.40scontent[%u]",
                        f->path, (unsigned) i);

        if (!json_is_object(part.object)) {
            return mst_field_error(&part, "", MST_FIELD_TYPE, part.object,
                                   "must be an object");
        }

        (void) strcat(part.path, ".");

        if (mst_chat_part(&part, &s) != MST_OK) {
            return MST_ERROR;
        }

        if (i) {
            (void) mst_chat_copy(text, mst_str("\n", 1));
        }

        (void) mst_chat_copy(text, s);
    }

    *content = mst_str(text->data + start, text->len - start);

    return MST_OK;
}


static int
mst_chat_part(const mst_field_t *f, mst_str_t *s)
{
    int          rc;
    mst_str_t    type;
    const char **kind;

    rc = mst_field_string(f, "type", &type);

    if (rc == MST_DECLINED) {
        return mst_field_missing(f, "type", "\"text\"");
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    if (mst_str_eq(type, "text")) {
        rc = mst_field_string(f, "text", s);

        return rc != MST_DECLINED ? rc
               : mst_field_missing(f, "text", "a string");
    }

    for (kind = mst_chat_kinds; *kind; kind++) {

        if (mst_str_eq(type, *kind)) {
            return mst_field_unsupported(f, "type", mst_field_get(f, "type"));
        }
    }

    return mst_field_error(f, "type", MST_FIELD_VALUE,
                           mst_field_get(f, "type"), "must be \"text\"");
}


int
mst_chat_safe(mst_message_t **messages, size_t *n, mst_api_error_t *e)
{
    mst_message_t  *m;

    static const mst_str_t  safe = mst_string(
        "Always assist with care, respect, and truth. Respond with utmost "
        "utility yet securely. Avoid harmful, unethical, prejudiced, or "
        "negative content. Ensure replies promote fairness and positivity.");

    m = mst_realloc(*messages, *n + 1, sizeof(mst_message_t));

    if (m == NULL) {
        return mst_api_error_set(e, 500, NULL, NULL, "out of memory");
    }

    memmove(m + 1, m, *n * sizeof(mst_message_t));

    m[0].role = MST_ROLE_SYSTEM;
    m[0].content = safe;

    *messages = m;
    *n += 1;

    return MST_OK;
}


mst_str_t
mst_chat_copy(mst_buf_t *text, mst_str_t s)
{
    mst_str_t  copy;

    if (s.len == 0 || s.len > text->size - text->len) {
        return mst_str("", 0);
    }

    copy = mst_str(text->data + text->len, s.len);

    (void) mst_buf_append(text, s.data, s.len);

    return copy;
}
