
/*
 * Typed values of a model's JSON configuration: a range for each number, a
 * sentence with file and key for what is out of it.  "null" and a missing
 * key are the same here unless the caller asks (mst_config_json_given).
 *
 * Inside the model room.
 */

#ifndef MST_CONFIG_JSON_H
#define MST_CONFIG_JSON_H

#include <jansson.h>

#include "model/mst_config.h"
#include "model/mst_fault.h"


typedef struct {
    const char    *name;           /* of the file, for sentences */
    json_t        *root;
    mst_faults_t  *faults;         /* NULL: the first one is the end */
    mst_err_t     *err;
} mst_config_json_t;


/* MST_ERROR: no JSON object */
int mst_config_json_open(mst_config_json_t *j, const char *text, size_t len,
    const char *name, mst_faults_t *faults, mst_err_t *err);
void mst_config_json_close(mst_config_json_t *j);

int mst_config_json_error(const mst_config_json_t *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* the key is there, maybe as null */
int mst_config_json_given(const json_t *o, const char *key);

/* MST_OK; MST_DECLINED: not there; MST_ERROR */
int mst_config_json_uint(const mst_config_json_t *j, const json_t *o,
    const char *key, uint32_t low, uint32_t high, uint32_t *value);
int mst_config_json_double(const mst_config_json_t *j, const json_t *o,
    const char *key, double *value);
int mst_config_json_bool(const mst_config_json_t *j, const json_t *o,
    const char *key, int *value);

/* a string, "" where there is none; MST_ERROR: something else */
int mst_config_json_string(const mst_config_json_t *j, const json_t *o,
    const char *key, const char **value);

/* a table of numbers that may be absent where the default is not 0; one that
   is told of becomes the highest, which others are not complained of for */
typedef struct {
    const char  *key;
    size_t       offset;           /* of the uint32_t in mst_config_t */
    uint32_t     low;
    uint32_t     high;
    uint32_t     absent;           /* value then; 0: an error */
} mst_config_json_key_t;

int mst_config_json_table(const mst_config_json_t *j, const json_t *o,
    const mst_config_json_key_t *keys, size_t n, mst_config_t *c);

/* "stop" tokens: a number or a list of them */
int mst_config_json_stops(const mst_config_json_t *j, const json_t *o,
    const char *key, mst_config_t *c);


#endif /* MST_CONFIG_JSON_H */
