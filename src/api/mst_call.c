
/*
 * Calls in messages: see mst_call.h.
 */

#include <stdio.h>
#include <string.h>

#include "api/mst_call.h"
#include "api/mst_chat.h"
#include "base/mst_mem.h"


static int mst_call_one(const mst_field_t *f, mst_buf_t *text,
    mst_call_t *call);
static int mst_call_function(const mst_field_t *f, mst_buf_t *text,
    mst_call_t *call);
static int mst_call_arguments(const mst_field_t *f, mst_buf_t *text,
    mst_call_t *call);
static int mst_call_append(const char *data, size_t len, void *out);


size_t
mst_call_count(const json_t *message)
{
    size_t  n;

    n = json_array_size(json_object_get(message, "tool_calls"));

    return n ? n : json_is_object(json_object_get(message, "function_call"));
}


int
mst_call_parse(const mst_field_t *f, mst_buf_t *text, mst_call_t *calls,
    size_t *n)
{
    int            rc;
    mst_field_t    call;
    const json_t  *list;

    *n = 0;
    call.e = f->e;
    rc = mst_field_array(f, "tool_calls", &list);

    if (rc == MST_ERROR) {
        return MST_ERROR;
    }

    if (rc != MST_OK || json_array_size(list) == 0) {
        rc = mst_field_object(f, "function_call", &call.object);

        if (rc != MST_OK) {
            return rc == MST_ERROR ? MST_ERROR : MST_OK;
        }

        (void) snprintf(call.path, sizeof(call.path), "%.40sfunction_call.",
                        f->path);
        *n = 1;

        return mst_call_function(&call, text, calls);
    }

    for (*n = 0; *n < json_array_size(list); ++*n) {
        call.object = json_array_get(list, *n);

        (void) snprintf(call.path, sizeof(call.path), "%.40stool_calls[%u]",
                        f->path, (unsigned) *n);

        if (!json_is_object(call.object)) {
            return mst_field_error(&call, "", MST_FIELD_TYPE, call.object,
                                   "must be an object");
        }

        (void) strcat(call.path, ".");

        if (mst_call_one(&call, text, &calls[*n]) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_call_one(const mst_field_t *f, mst_buf_t *text, mst_call_t *call)
{
    int          rc;
    mst_str_t    s;
    mst_field_t  function;

    rc = mst_field_string(f, "id", &s);

    if (rc == MST_OK) {
        call->id = mst_chat_copy(text, s);
    }

    if (rc == MST_ERROR) {
        return MST_ERROR;
    }

    rc = mst_field_string(f, "type", &s);

    if (rc == MST_OK && !mst_str_eq(s, "function")) {
        return mst_field_error(f, "type", MST_FIELD_VALUE,
                               mst_field_get(f, "type"),
                               "must be \"function\"");
    }

    if (rc == MST_ERROR) {
        return MST_ERROR;
    }

    rc = mst_field_object(f, "function", &function.object);

    if (rc != MST_OK) {
        return rc == MST_ERROR ? MST_ERROR
               : mst_field_missing(f, "function", "an object");
    }

    function.e = f->e;
    (void) snprintf(function.path, sizeof(function.path), "%.50sfunction.",
                    f->path);

    return mst_call_function(&function, text, call);
}


static int
mst_call_function(const mst_field_t *f, mst_buf_t *text, mst_call_t *call)
{
    int        rc;
    mst_str_t  name;

    rc = mst_field_string(f, "name", &name);

    if (rc != MST_OK) {
        return rc == MST_ERROR ? MST_ERROR
               : mst_field_missing(f, "name", "the name of a function");
    }

    call->name = mst_chat_copy(text, name);

    return mst_call_arguments(f, text, call);
}


static int
mst_call_arguments(const mst_field_t *f, mst_buf_t *text, mst_call_t *call)
{
    size_t   len;
    json_t  *value;

    value = mst_field_get(f, "arguments");

    if (value == NULL) {
        return MST_OK;
    }

    if (json_is_string(value)) {
        call->arguments = mst_chat_copy(text, mst_field_as_string(value));
        return MST_OK;
    }

    if (!json_is_object(value)) {
        return mst_field_error(f, "arguments", MST_FIELD_TYPE, value,
                               "must be a string of JSON or an object");
    }

    /* numbers may be longer than they were sent: not in "text" */

    call->owned = mst_call_dump(value, &len);

    if (call->owned == NULL) {
        return mst_api_error_set(f->e, 500, NULL, NULL, "out of memory");
    }

    call->arguments = mst_str(call->owned, len);

    return MST_OK;
}


char *
mst_call_dump(const json_t *value, size_t *len)
{
    mst_buf_t  out;

    mst_buf_init(&out);

    if (json_dump_callback(value, mst_call_append, &out, JSON_COMPACT) != 0
        || out.failed)
    {
        mst_buf_fini(&out);
        return NULL;
    }

    *len = out.len;

    return out.data;
}


static int
mst_call_append(const char *data, size_t len, void *out)
{
    return mst_buf_append(out, data, len) == MST_OK ? 0 : -1;
}


void
mst_call_free(mst_call_t *calls, size_t n)
{
    size_t  i;

    for (i = 0; calls && i < n; i++) {
        mst_free(calls[i].owned);
    }

    mst_free(calls);
}
