
/*
 * Typed fields of a JSON object: see mst_field.h.
 */

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/mst_field.h"


/* bytes of a client's string that an error message repeats */
#define MST_FIELD_SHOWN  40


static void mst_field_show(const json_t *value, char *text, size_t size);
static void mst_field_show_string(mst_str_t s, char *text, size_t size);


json_t *
mst_field_get(const mst_field_t *f, const char *name)
{
    json_t  *value;

    value = json_object_get(f->object, name);

    return json_is_null(value) ? NULL : value;
}


int
mst_field_number(const mst_field_t *f, const char *name, double low,
    double high, double *value)
{
    double   x;
    json_t  *v;

    v = mst_field_get(f, name);

    if (v == NULL) {
        return MST_DECLINED;
    }

    if (!json_is_number(v)) {
        return mst_field_error(f, name, MST_FIELD_TYPE, v,
                               "must be a number from %g to %g", low, high);
    }

    x = json_number_value(v);

    if (!(x >= low && x <= high)) {
        return mst_field_error(f, name, MST_FIELD_VALUE, v,
                               "must be a number from %g to %g", low, high);
    }

    *value = x;

    return MST_OK;
}


int
mst_field_integer(const mst_field_t *f, const char *name, int64_t low,
    int64_t high, int64_t *value)
{
    json_t   *v;
    int64_t   n;

    v = mst_field_get(f, name);

    if (v == NULL) {
        return MST_DECLINED;
    }

    if (mst_field_as_integer(v, &n) != MST_OK) {
        return mst_field_error(f, name, MST_FIELD_TYPE, v,
                               "must be an integer from %lld to %lld",
                               (long long) low, (long long) high);
    }

    if (n < low || n > high) {
        return mst_field_error(f, name, MST_FIELD_VALUE, v,
                               "must be an integer from %lld to %lld",
                               (long long) low, (long long) high);
    }

    *value = n;

    return MST_OK;
}


int
mst_field_flag(const mst_field_t *f, const char *name, int *value)
{
    json_t  *v;

    v = mst_field_get(f, name);

    if (v == NULL) {
        return MST_DECLINED;
    }

    if (!json_is_boolean(v)) {
        return mst_field_error(f, name, MST_FIELD_TYPE, v,
                               "must be true or false");
    }

    *value = json_is_true(v);

    return MST_OK;
}


int
mst_field_string(const mst_field_t *f, const char *name, mst_str_t *value)
{
    json_t  *v;

    v = mst_field_get(f, name);

    if (v == NULL) {
        return MST_DECLINED;
    }

    if (!json_is_string(v)) {
        return mst_field_error(f, name, MST_FIELD_TYPE, v,
                               "must be a string");
    }

    *value = mst_field_as_string(v);

    return MST_OK;
}


int
mst_field_array(const mst_field_t *f, const char *name, const json_t **value)
{
    json_t  *v;

    v = mst_field_get(f, name);

    if (v == NULL) {
        return MST_DECLINED;
    }

    if (!json_is_array(v)) {
        return mst_field_error(f, name, MST_FIELD_TYPE, v, "must be a list");
    }

    *value = v;

    return MST_OK;
}


int
mst_field_object(const mst_field_t *f, const char *name,
    const json_t **value)
{
    json_t  *v;

    v = mst_field_get(f, name);

    if (v == NULL) {
        return MST_DECLINED;
    }

    if (!json_is_object(v)) {
        return mst_field_error(f, name, MST_FIELD_TYPE, v,
                               "must be an object");
    }

    *value = v;

    return MST_OK;
}


int
mst_field_as_integer(const json_t *value, int64_t *n)
{
    double  x;

    if (json_is_integer(value)) {
        *n = json_integer_value(value);
        return MST_OK;
    }

    if (!json_is_real(value)) {
        return MST_ERROR;
    }

    x = json_real_value(value);

    /* both bounds are exact doubles; the upper one is 2^63 itself */

    if (x != floor(x) || x < -0x1p63 || x >= 0x1p63) {
        return MST_ERROR;
    }

    *n = (int64_t) x;

    return MST_OK;
}


mst_str_t
mst_field_as_string(const json_t *value)
{
    return mst_str(json_string_value(value), json_string_length(value));
}


int
mst_field_error(const mst_field_t *f, const char *name, const char *code,
    const json_t *value, const char *fmt, ...)
{
    char     shown[128], must[256], param[96];
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(must, sizeof(must), fmt, args);
    va_end(args);

    mst_field_show(value, shown, sizeof(shown));

    (void) snprintf(param, sizeof(param), "%s%s", f->path, name);

    return mst_api_error_set(f->e, 400, code, param, "%s is %s, %s", param,
                             shown, must);
}


int
mst_field_unsupported(const mst_field_t *f, const char *name,
    const json_t *value)
{
    return mst_field_error(f, name, MST_FIELD_UNSUPPORTED, value,
                           "which this server does not support");
}


int
mst_field_missing(const mst_field_t *f, const char *name, const char *what)
{
    char  param[96];

    (void) snprintf(param, sizeof(param), "%s%s", f->path, name);

    /* a null counts as absent, but the client knows that it sent one */

    return mst_api_error_set(f->e, 400, MST_FIELD_MISSING, param,
                             "%s is %s, must be %s", param,
                             json_object_get(f->object, name) ? "null"
                                                              : "missing",
                             what);
}


static void
mst_field_show(const json_t *value, char *text, size_t size)
{
    switch (json_typeof(value)) {

    case JSON_OBJECT:
        (void) snprintf(text, size, "%s", json_object_size(value)
                                          ? "an object" : "an empty object");
        break;

    case JSON_ARRAY:
        (void) snprintf(text, size, "%s", json_array_size(value)
                                          ? "a list" : "an empty list");
        break;

    case JSON_STRING:
        mst_field_show_string(mst_field_as_string(value), text, size);
        break;

    case JSON_INTEGER:
        (void) snprintf(text, size, "%lld",
                        (long long) json_integer_value(value));
        break;

    case JSON_REAL:
        (void) snprintf(text, size, "%.9g", json_real_value(value));
        break;

    default:
        (void) snprintf(text, size, "%s", json_is_true(value) ? "true"
                                          : json_is_false(value) ? "false"
                                          : "null");
    }
}


/* control characters, NUL among them, would spoil a log line */

static void
mst_field_show_string(mst_str_t s, char *text, size_t size)
{
    size_t  i, n;
    char    copy[MST_FIELD_SHOWN];

    n = s.len < MST_FIELD_SHOWN ? s.len : MST_FIELD_SHOWN;

    /* not in the middle of a character: the string is valid UTF-8 */

    while (n < s.len && n && (s.data[n] & 0xc0) == 0x80) {
        n--;
    }

    for (i = 0; i < n; i++) {
        copy[i] = (unsigned char) s.data[i] < ' ' ? '?' : s.data[i];
    }

    (void) snprintf(text, size, "\"%.*s%s\"", (int) n, copy,
                    n < s.len ? "..." : "");
}
