
/*
 * "messages" of a chat: see mst_chat.h.
 */

#include <stdio.h>
#include <string.h>

#include "api/mst_call.h"
#include "api/mst_chat.h"
#include "api/mst_field.h"
#include "base/mst_mem.h"


typedef struct {
    const char  *name;
    mst_role_t   role;
} mst_chat_role_t;

/* where the parts and calls of the next message go */
typedef struct {
    mst_part_t  *part;
    mst_call_t  *call;
} mst_chat_place_t;


static int mst_chat_reserve(const json_t *list, mst_chat_t *chat,
    mst_api_error_t *e);
static int mst_chat_message(const mst_field_t *f, mst_buf_t *text,
    mst_chat_place_t *place, mst_message_t *m, int *prefix);
static int mst_chat_role(const mst_field_t *f, mst_role_t *role);
static int mst_chat_extras(const mst_field_t *f, mst_buf_t *text,
    mst_message_t *m, int *prefix);
static int mst_chat_content(const mst_field_t *f, mst_buf_t *text,
    mst_chat_place_t *place, mst_message_t *m);
static int mst_chat_parts(const mst_field_t *f, const json_t *list,
    mst_buf_t *text, mst_chat_place_t *place, mst_message_t *m);
static int mst_chat_part(const mst_field_t *f, mst_role_t role,
    mst_part_t *part);
static int mst_chat_thinking(const mst_field_t *f, mst_part_t *part);
static void mst_chat_join(mst_buf_t *text, mst_part_t *parts, size_t n,
    mst_message_t *m);


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
    "document_url", "reference", "refusal", NULL
};


int
mst_chat_parse(const json_t *list, mst_buf_t *text, mst_chat_t *chat,
    int *prefix, mst_api_error_t *e)
{
    size_t             i;
    mst_field_t        f;
    mst_chat_place_t   place;

    if (json_array_size(list) == 0) {
        return mst_api_error_set(e, 400, MST_FIELD_VALUE, "messages",
                                 "messages is an empty list, must hold at "
                                 "least one message");
    }

    if (mst_chat_reserve(list, chat, e) != MST_OK) {
        return MST_ERROR;
    }

    place.part = chat->parts;
    place.call = chat->calls;
    f.e = e;

    for (i = 0; i < chat->n; i++) {
        f.object = json_array_get(list, i);

        (void) snprintf(f.path, sizeof(f.path), "messages[%zu]", i);

        if (!json_is_object(f.object)) {
            return mst_field_error(&f, "", MST_FIELD_TYPE, f.object,
                                   "must be an object");
        }

        (void) strcat(f.path, ".");

        *prefix = 0;

        if (mst_chat_message(&f, text, &place, &chat->messages[i], prefix)
            != MST_OK)
        {
            return MST_ERROR;
        }

        if (*prefix && (i + 1 < chat->n
                        || chat->messages[i].role != MST_ROLE_ASSISTANT))
        {
            return mst_field_error(&f, "prefix", MST_FIELD_VALUE,
                                   mst_field_get(&f, "prefix"), "which only "
                                   "a last message of the assistant may be");
        }
    }

    return MST_OK;
}


static int
mst_chat_reserve(const json_t *list, mst_chat_t *chat, mst_api_error_t *e)
{
    size_t   i, parts;
    json_t  *message;

    chat->n = json_array_size(list);
    parts = 0;

    json_array_foreach(list, i, message) {
        parts += json_array_size(json_object_get(message, "content"));
        chat->n_calls += mst_call_count(message);
    }

    chat->messages = mst_calloc(chat->n, sizeof(mst_message_t));
    chat->parts = mst_calloc(parts + 1, sizeof(mst_part_t));
    chat->calls = mst_calloc(chat->n_calls + 1, sizeof(mst_call_t));

    return chat->messages && chat->parts && chat->calls ? MST_OK
           : mst_api_error_set(e, 500, NULL, NULL, "out of memory");
}


static int
mst_chat_message(const mst_field_t *f, mst_buf_t *text,
    mst_chat_place_t *place, mst_message_t *m, int *prefix)
{
    if (mst_chat_role(f, &m->role) != MST_OK
        || mst_chat_extras(f, text, m, prefix) != MST_OK)
    {
        return MST_ERROR;
    }

    /* calls of others are ignored, as unknown fields are */

    if (m->role == MST_ROLE_ASSISTANT) {

        if (mst_call_parse(f, text, place->call, &m->n_calls) != MST_OK) {
            return MST_ERROR;
        }

        m->calls = place->call;
        place->call += m->n_calls;
    }

    return mst_chat_content(f, text, place, m);
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
mst_chat_extras(const mst_field_t *f, mst_buf_t *text, mst_message_t *m,
    int *prefix)
{
    json_t     *audio;
    mst_str_t   name, id, thinking;

    name = mst_str("", 0);
    id = name;
    thinking = name;

    if (mst_field_string(f, "name", &name) == MST_ERROR
        || mst_field_string(f, "tool_call_id", &id) == MST_ERROR
        || mst_field_string(f, "reasoning_content", &thinking) == MST_ERROR
        || mst_field_flag(f, "prefix", prefix) == MST_ERROR)
    {
        return MST_ERROR;
    }

    m->name = mst_chat_copy(text, name);
    m->call_id = mst_chat_copy(text, id);

    if (m->role == MST_ROLE_ASSISTANT) {
        m->thinking = mst_chat_copy(text, thinking);
    }

    audio = mst_field_get(f, "audio");

    if (audio) {
        return mst_field_unsupported(f, "audio", audio);
    }

    return MST_OK;
}


static int
mst_chat_content(const mst_field_t *f, mst_buf_t *text,
    mst_chat_place_t *place, mst_message_t *m)
{
    json_t  *value;

    value = mst_field_get(f, "content");

    if (value == NULL) {

        if (m->n_calls) {
            m->content = mst_str("", 0);
            return MST_OK;
        }

        return mst_field_missing(f, "content", m->role == MST_ROLE_ASSISTANT
                                 ? "a string or a list of text parts where "
                                   "there are no tool_calls"
                                 : "a string or a list of text parts");
    }

    if (json_is_string(value)) {
        m->content = mst_chat_copy(text, mst_field_as_string(value));
        return MST_OK;
    }

    if (json_is_array(value)) {
        return mst_chat_parts(f, value, text, place, m);
    }

    return mst_field_error(f, "content", MST_FIELD_TYPE, value,
                           "must be a string or a list of text parts");
}


static int
mst_chat_parts(const mst_field_t *f, const json_t *list, mst_buf_t *text,
    mst_chat_place_t *place, mst_message_t *m)
{
    size_t       i, n;
    mst_field_t  part;

    n = json_array_size(list);

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

        if (mst_chat_part(&part, m->role, &place->part[i]) != MST_OK) {
            return MST_ERROR;
        }
    }

    mst_chat_join(text, place->part, n, m);
    place->part += n;

    return MST_OK;
}


/* texts are copied with newlines between them; thoughts stand apart */

static void
mst_chat_join(mst_buf_t *text, mst_part_t *parts, size_t n, mst_message_t *m)
{
    int     first;
    size_t  i, start;

    for (i = 0; i < n; i++) {

        if (parts[i].thinking) {
            parts[i].text = mst_chat_copy(text, parts[i].text);
        }
    }

    start = text->len;
    first = 1;

    for (i = 0; i < n; i++) {

        if (parts[i].thinking) {
            continue;
        }

        if (!first) {
            (void) mst_chat_copy(text, mst_str("\n", 1));
        }

        first = 0;
        parts[i].text = mst_chat_copy(text, parts[i].text);
    }

    m->content = mst_str(text->data + start, text->len - start);
    m->parts = parts;
    m->n_parts = n;
}


static int
mst_chat_part(const mst_field_t *f, mst_role_t role, mst_part_t *part)
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
        rc = mst_field_string(f, "text", &part->text);

        return rc != MST_DECLINED ? rc
               : mst_field_missing(f, "text", "a string");
    }

    if (mst_str_eq(type, "thinking")
        && (role == MST_ROLE_ASSISTANT || role == MST_ROLE_SYSTEM))
    {
        return mst_chat_thinking(f, part);
    }

    for (kind = mst_chat_kinds; *kind; kind++) {

        if (mst_str_eq(type, *kind)) {
            return mst_field_unsupported(f, "type", mst_field_get(f, "type"));
        }
    }

    return mst_field_error(f, "type", MST_FIELD_VALUE,
                           mst_field_get(f, "type"), "must be \"text\"");
}


/* Mistral's API sends a list of one text, its library a string */

static int
mst_chat_thinking(const mst_field_t *f, mst_part_t *part)
{
    int           rc, closed;
    json_t       *value;
    mst_field_t   text;

    closed = 1;
    part->thinking = 1;
    value = mst_field_get(f, "thinking");

    if (mst_field_flag(f, "closed", &closed) == MST_ERROR) {
        return MST_ERROR;
    }

    part->open = !closed;

    if (json_is_string(value)) {
        part->text = mst_field_as_string(value);
        return MST_OK;
    }

    if (json_array_size(value) != 1
        || !json_is_object(json_array_get(value, 0)))
    {
        return value ? mst_field_error(f, "thinking", MST_FIELD_TYPE, value,
                                       "must be a string or a list of one "
                                       "text part")
                     : mst_field_missing(f, "thinking", "a string");
    }

    text.object = json_array_get(value, 0);
    text.e = f->e;
    (void) snprintf(text.path, sizeof(text.path), "%.48sthinking[0].",
                    f->path);

    rc = mst_field_string(&text, "text", &part->text);

    return rc != MST_DECLINED ? rc
           : mst_field_missing(&text, "text", "a string");
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

    memset(m, 0, sizeof(mst_message_t));
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
