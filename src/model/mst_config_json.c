
/*
 * Typed values of a model's JSON configuration: see mst_config_json.h.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/mst_config_json.h"


int
mst_config_json_open(mst_config_json_t *j, const char *text, size_t len,
    const char *name, mst_faults_t *faults, mst_err_t *err)
{
    json_error_t  e;

    j->name = name;
    j->faults = faults;
    j->err = err;
    j->root = json_loadb(text, len, 0, &e);

    if (!json_is_object(j->root)) {
        mst_config_json_close(j);
        return mst_config_json_error(j, "no JSON object: %.120s", e.text);
    }

    return MST_OK;
}


void
mst_config_json_close(mst_config_json_t *j)
{
    json_decref(j->root);
    j->root = NULL;
}


int
mst_config_json_error(const mst_config_json_t *j, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    (void) mst_err_vset(j->err, j->name, fmt, args);
    va_end(args);

    return MST_ERROR;
}


int
mst_config_json_given(const json_t *o, const char *key)
{
    return json_object_get(o, key) != NULL;
}


static const json_t *
mst_config_json_value(const json_t *o, const char *key)
{
    const json_t  *v;

    v = json_object_get(o, key);

    return json_is_null(v) ? NULL : v;
}


int
mst_config_json_uint(const mst_config_json_t *j, const json_t *o,
    const char *key, uint32_t low, uint32_t high, uint32_t *value)
{
    json_int_t     n;
    const json_t  *v;

    v = mst_config_json_value(o, key);

    if (v == NULL) {
        return MST_DECLINED;
    }

    if (!json_is_integer(v)) {
        return mst_config_json_error(j, "%s is no integer", key);
    }

    n = json_integer_value(v);

    if (n < (json_int_t) low || n > (json_int_t) high) {
        return mst_config_json_error(j, "%s is %lld, limits are %u and %u",
                                     key, (long long) n, low, high);
    }

    *value = (uint32_t) n;

    return MST_OK;
}


int
mst_config_json_double(const mst_config_json_t *j, const json_t *o,
    const char *key, double *value)
{
    const json_t  *v;

    v = mst_config_json_value(o, key);

    if (v == NULL) {
        return MST_DECLINED;
    }

    if (!json_is_number(v)) {
        return mst_config_json_error(j, "%s is no number", key);
    }

    *value = json_number_value(v);

    return MST_OK;
}


int
mst_config_json_bool(const mst_config_json_t *j, const json_t *o,
    const char *key, int *value)
{
    const json_t  *v;

    v = mst_config_json_value(o, key);

    if (v == NULL) {
        return MST_DECLINED;
    }

    if (!json_is_boolean(v)) {
        return mst_config_json_error(j, "%s is neither true nor false", key);
    }

    *value = json_is_true(v);

    return MST_OK;
}


int
mst_config_json_string(const mst_config_json_t *j, const json_t *o,
    const char *key, const char **value)
{
    const json_t  *v;

    v = mst_config_json_value(o, key);
    *value = "";

    if (v == NULL) {
        return MST_OK;
    }

    if (!json_is_string(v)) {
        return mst_config_json_error(j, "%s is no string", key);
    }

    *value = json_string_value(v);

    return MST_OK;
}


int
mst_config_json_table(const mst_config_json_t *j, const json_t *o,
    const mst_config_json_key_t *keys, size_t n, mst_config_t *c)
{
    int       rc;
    size_t    i;
    uint32_t  value;

    for (i = 0; i < n; i++) {
        value = keys[i].absent;
        rc = mst_config_json_uint(j, o, keys[i].key, keys[i].low,
                                  keys[i].high, &value);

        if (rc == MST_DECLINED && value == 0) {
            rc = mst_config_json_error(j, "%s is missing", keys[i].key);
        }

        if (rc == MST_ERROR) {
            value = keys[i].high;
        }

        if (mst_fault_pass(j->faults, rc, j->err) != MST_OK) {
            return MST_ERROR;
        }

        memcpy((char *) c + keys[i].offset, &value, sizeof(value));
    }

    return MST_OK;
}


static int
mst_config_json_stop(const mst_config_json_t *j, const char *key,
    const json_t *v, mst_config_t *c)
{
    json_int_t  id;

    id = json_is_integer(v) ? json_integer_value(v) : -1;

    if (id < 0 || id >= (json_int_t) c->n_vocab) {
        return mst_config_json_error(j, "%s is no token of the vocabulary of "
                                     "%u", key, c->n_vocab);
    }

    if (c->n_stop < MST_CONFIG_STOPS) {
        c->stop_ids[c->n_stop++] = (uint32_t) id;
    }

    return MST_OK;
}


int
mst_config_json_stops(const mst_config_json_t *j, const json_t *o,
    const char *key, mst_config_t *c)
{
    size_t         i;
    const json_t  *v;

    v = mst_config_json_value(o, key);

    if (v == NULL) {
        return MST_OK;
    }

    if (!json_is_array(v)) {
        return mst_config_json_stop(j, key, v, c);
    }

    for (i = 0; i < json_array_size(v); i++) {
        if (mst_config_json_stop(j, key, json_array_get(v, i), c) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}
