
/*
 * Tools of a chat: see mst_tools.h.
 */

#include <stdio.h>
#include <string.h>

#include "api/mst_call.h"
#include "api/mst_chat.h"
#include "api/mst_tools.h"
#include "base/mst_mem.h"


#define MST_TOOLS_NAME  64         /* bytes of a name, at most */


static const json_t *mst_tools_name_of(const json_t *tool);
static int mst_tools_keep(const json_t *list, mst_tools_t *tools);
static int mst_tools_one(const mst_field_t *f);
static int mst_tools_function(const mst_field_t *f);
static int mst_tools_name(const mst_field_t *f, mst_str_t *name);
static int mst_tools_type(const mst_field_t *f);
static int mst_tools_choice(const mst_field_t *f, const json_t *list,
    mst_buf_t *text, mst_tools_t *tools);
static int mst_tools_word(const mst_field_t *f, json_t *value,
    mst_tools_t *tools);
static int mst_tools_named(const mst_field_t *f, const json_t *list,
    json_t *value, mst_str_t *name);


int
mst_tools_parse(const mst_field_t *f, mst_buf_t *text, mst_tools_t *tools)
{
    int            parallel;
    size_t         i, n;
    mst_field_t    tool;
    const json_t  *list;

    list = NULL;
    parallel = 1;

    if (mst_field_array(f, "tools", &list) == MST_ERROR
        || mst_field_flag(f, "parallel_tool_calls", &parallel) == MST_ERROR)
    {
        return MST_ERROR;
    }

    n = json_array_size(list);

    if (n > MST_TOOLS_MAX) {
        return mst_api_error_set(f->e, 400, MST_FIELD_VALUE, "tools",
                                 "tools has %zu entries, may have at most %d",
                                 n, MST_TOOLS_MAX);
    }

    tool.e = f->e;

    for (i = 0; i < n; i++) {
        tool.object = json_array_get(list, i);

        (void) snprintf(tool.path, sizeof(tool.path), "tools[%u]",
                        (unsigned) i);

        if (!json_is_object(tool.object)) {
            return mst_field_error(&tool, "", MST_FIELD_TYPE, tool.object,
                                   "must be an object");
        }

        (void) strcat(tool.path, ".");

        if (mst_tools_one(&tool) != MST_OK) {
            return MST_ERROR;
        }
    }

    if (n) {
        if (mst_tools_keep(list, tools) != MST_OK) {
            return mst_api_error_set(f->e, 500, NULL, NULL, "out of memory");
        }
    }

    tools->n = (uint32_t) n;
    tools->single = !parallel;

    return mst_tools_choice(f, list, text, tools);
}


static const json_t *
mst_tools_name_of(const json_t *tool)
{
    return json_object_get(json_object_get(tool, "function"), "name");
}


static int
mst_tools_keep(const json_t *list, mst_tools_t *tools)
{
    char    *p;
    size_t   i, len, size;
    json_t  *tool;

    tools->owned = mst_call_dump(list, &len);
    if (tools->owned == NULL) {
        return MST_ERROR;
    }

    size = len;

    json_array_foreach(list, i, tool) {
        size += json_string_length(mst_tools_name_of(tool)) + 1;
    }

    p = mst_realloc(tools->owned, size, 1);
    if (p == NULL) {
        return MST_ERROR;
    }

    tools->owned = p;
    tools->json = mst_str(p, len);
    p += len;

    json_array_foreach(list, i, tool) {
        p = stpcpy(p, json_string_value(mst_tools_name_of(tool)));
        *p++ = '\n';
    }

    tools->names = mst_str(tools->json.data + len, size - len);

    return MST_OK;
}


int
mst_tools_has(const mst_tools_t *tools, mst_str_t name)
{
    size_t      n;
    mst_str_t   rest;

    for (rest = tools->names; rest.len; /* void */) {
        n = (size_t) ((const char *) memchr(rest.data, '\n', rest.len)
                      - rest.data);

        if (n == name.len && memcmp(rest.data, name.data, n) == 0) {
            return 1;
        }

        rest = mst_str(rest.data + n + 1, rest.len - n - 1);
    }

    return 0;
}


static int
mst_tools_one(const mst_field_t *f)
{
    int            rc;
    mst_field_t    function;

    if (mst_tools_type(f) != MST_OK) {
        return MST_ERROR;
    }

    rc = mst_field_object(f, "function", &function.object);

    if (rc == MST_DECLINED) {
        return mst_field_missing(f, "function", "an object");
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    function.e = f->e;
    (void) snprintf(function.path, sizeof(function.path), "%.40sfunction.",
                    f->path);

    return mst_tools_function(&function);
}


/* "type" may be left out: Mistral's clients do */

static int
mst_tools_type(const mst_field_t *f)
{
    mst_str_t  type;

    switch (mst_field_string(f, "type", &type)) {

    case MST_OK:
        return mst_str_eq(type, "function") ? MST_OK
               : mst_field_error(f, "type", MST_FIELD_VALUE,
                                 mst_field_get(f, "type"),
                                 "must be \"function\"");

    case MST_DECLINED:
        return MST_OK;

    default:
        return MST_ERROR;
    }
}


static int
mst_tools_function(const mst_field_t *f)
{
    int            strict;
    mst_str_t      name, description;
    const json_t  *parameters;

    if (mst_tools_name(f, &name) != MST_OK
        || mst_field_string(f, "description", &description) == MST_ERROR
        || mst_field_object(f, "parameters", &parameters) == MST_ERROR
        || mst_field_flag(f, "strict", &strict) == MST_ERROR)
    {
        return MST_ERROR;
    }

    return MST_OK;
}


static int
mst_tools_name(const mst_field_t *f, mst_str_t *name)
{
    int     rc;
    size_t  i;

    rc = mst_field_string(f, "name", name);

    if (rc == MST_DECLINED) {
        return mst_field_missing(f, "name", "the name of a function");
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    i = name->len ? strspn(name->data, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "abcdefghijklmnopqrstuvwxyz0123456789_-") : 0;

    if (i == name->len && i >= 1 && i <= MST_TOOLS_NAME) {
        return MST_OK;
    }

    return mst_field_error(f, "name", MST_FIELD_VALUE,
                           mst_field_get(f, "name"), "must be 1 to %d "
                           "letters, digits, \"_\" and \"-\"",
                           MST_TOOLS_NAME);
}


static int
mst_tools_choice(const mst_field_t *f, const json_t *list, mst_buf_t *text,
    mst_tools_t *tools)
{
    int      rc;
    json_t  *value;

    value = mst_field_get(f, "tool_choice");

    if (value == NULL) {
        return MST_OK;
    }

    if (json_is_string(value)) {
        rc = mst_tools_word(f, value, tools);

    } else {
        tools->choice = MST_TOOLS_NAMED;
        rc = mst_tools_named(f, list, value, &tools->name);
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    if (tools->choice >= MST_TOOLS_REQUIRED && tools->n == 0) {
        return mst_field_error(f, "tool_choice", MST_FIELD_VALUE, value,
                               "which needs \"tools\"");
    }

    tools->name = mst_chat_copy(text, tools->name);

    return MST_OK;
}


static int
mst_tools_word(const mst_field_t *f, json_t *value, mst_tools_t *tools)
{
    size_t  i;

    static const struct {
        const char          *name;
        mst_tools_choice_t   choice;
    } words[] = {
        { "auto", MST_TOOLS_AUTO },
        { "none", MST_TOOLS_NONE },
        { "required", MST_TOOLS_REQUIRED },
        { "any", MST_TOOLS_REQUIRED }
    };

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {

        if (mst_str_eq(mst_field_as_string(value), words[i].name)) {
            tools->choice = words[i].choice;
            return MST_OK;
        }
    }

    return mst_field_error(f, "tool_choice", MST_FIELD_VALUE, value,
                           "must be one of auto, none, any, required and a "
                           "function's name in an object");
}


/* {"type": "function", "function": {"name": "f"}}, one of the list */

static int
mst_tools_named(const mst_field_t *f, const json_t *list, json_t *value,
    mst_str_t *name)
{
    size_t         i;
    json_t        *tool;
    mst_field_t    choice;
    const json_t  *known;

    choice.object = json_is_object(value)
                    ? json_object_get(value, "function") : NULL;
    choice.e = f->e;
    (void) strcpy(choice.path, "tool_choice.function.");

    if (!json_is_object(choice.object)) {
        return mst_field_error(f, "tool_choice", MST_FIELD_TYPE, value,
                               "must be a string, or an object with a "
                               "function's name");
    }

    if (mst_tools_name(&choice, name) != MST_OK) {
        return MST_ERROR;
    }

    json_array_foreach(list, i, tool) {
        known = mst_tools_name_of(tool);

        if (json_string_length(known) == name->len
            && memcmp(json_string_value(known), name->data, name->len) == 0)
        {
            return MST_OK;
        }
    }

    return mst_field_error(&choice, "name", MST_FIELD_VALUE,
                           json_object_get(choice.object, "name"),
                           "must be one of the tools");
}
