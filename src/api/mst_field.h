
/*
 * The fields of a JSON object, read with their types and ranges checked.
 *
 * Every reader returns MST_OK with the value stored, MST_DECLINED when the
 * field is absent or null (the value stays as it was), or MST_ERROR with a
 * 400 that names field, value and limit.  Strings point into the JSON tree.
 */

#ifndef MST_FIELD_H
#define MST_FIELD_H

#include <stdint.h>

#include <jansson.h>

#include "api/mst_api_error.h"
#include "base/mst_str.h"


#define MST_FIELD_TYPE         "invalid_type"
#define MST_FIELD_VALUE        "invalid_value"
#define MST_FIELD_MISSING      "missing_required_parameter"
#define MST_FIELD_UNSUPPORTED  "unsupported"


typedef struct {
    const json_t     *object;
    char              path[64];    /* "messages[3].", "" at the top */
    mst_api_error_t  *e;
} mst_field_t;


int mst_field_number(const mst_field_t *f, const char *name, double low,
    double high, double *value);
int mst_field_integer(const mst_field_t *f, const char *name, int64_t low,
    int64_t high, int64_t *value);
int mst_field_flag(const mst_field_t *f, const char *name, int *value);
int mst_field_string(const mst_field_t *f, const char *name,
    mst_str_t *value);
int mst_field_array(const mst_field_t *f, const char *name,
    const json_t **value);
int mst_field_object(const mst_field_t *f, const char *name,
    const json_t **value);

/* the field itself; NULL where it is absent or null */
json_t *mst_field_get(const mst_field_t *f, const char *name);

/*
 * A value without a field: an element of a list.  5.0 is an integer, 5.5,
 * "5" and true are none.
 */
int mst_field_as_integer(const json_t *value, int64_t *n);
mst_str_t mst_field_as_string(const json_t *value);

/*
 * 400 for the field "name" of f: the sentence is the field's path, "is", the
 * value as JSON (cut short), and what it must be, as in
 * `temperature is 3, must be a number from 0 to 2`.
 */
int mst_field_error(const mst_field_t *f, const char *name, const char *code,
    const json_t *value, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* 400 "unsupported" */
int mst_field_unsupported(const mst_field_t *f, const char *name,
    const json_t *value);

/* 400 "missing_required_parameter"; what: "a list of messages" */
int mst_field_missing(const mst_field_t *f, const char *name,
    const char *what);


#endif /* MST_FIELD_H */
