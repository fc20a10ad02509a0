
/*
 * Prompts: see mst_input.h.
 *
 * "text", [1, 2], ["text", "text"] or [[1, 2], [3]]; texts and lists of ids
 * may stand side by side in one list.
 */

#include <stdio.h>

#include "api/mst_chat.h"
#include "api/mst_input.h"
#include "api/mst_sampling.h"
#include "base/mst_mem.h"


#define MST_INPUT_WHAT  "a string, a list of token ids or a list of these"


static int mst_input_list(const mst_field_t *f, const json_t *list,
    mst_request_t *r, mst_buf_t *text);
static int mst_input_one(const mst_field_t *f, size_t i, const json_t *value,
    mst_request_t *r, mst_buf_t *text);
static int mst_input_reserve(const mst_field_t *f, mst_request_t *r,
    size_t n);
static int mst_input_add_ids(const mst_field_t *f, const char *name,
    const json_t *list, mst_request_t *r);


int
mst_input_parse(const mst_field_t *f, mst_request_t *r, mst_buf_t *text)
{
    json_t  *value;

    value = mst_field_get(f, "prompt");

    if (value == NULL) {
        return mst_field_missing(f, "prompt", MST_INPUT_WHAT);
    }

    r->has_prompt = 1;

    if (json_is_array(value)) {
        return mst_input_list(f, value, r, text);
    }

    if (!json_is_string(value)) {
        return mst_field_error(f, "prompt", MST_FIELD_TYPE, value,
                               "must be " MST_INPUT_WHAT);
    }

    if (mst_input_reserve(f, r, 1) != MST_OK) {
        return MST_ERROR;
    }

    r->inputs[r->n_inputs++].text = mst_chat_copy(text,
                                                  mst_field_as_string(value));

    return MST_OK;
}


static int
mst_input_list(const mst_field_t *f, const json_t *list, mst_request_t *r,
    mst_buf_t *text)
{
    size_t   i, n;
    json_t  *first;

    n = json_array_size(list);
    first = json_array_get(list, 0);

    if (first == NULL) {
        return mst_field_error(f, "prompt", MST_FIELD_VALUE, list,
                               "must hold a string or token ids");
    }

    if (!json_is_string(first) && !json_is_array(first)) {
        return mst_input_ids(f, "prompt", list, 0, r);
    }

    if (n > MST_INPUT_MAX) {
        return mst_api_error_set(f->e, 400, MST_FIELD_VALUE, "prompt",
                                 "prompt has %zu prompts, must have at most "
                                 "%d", n, MST_INPUT_MAX);
    }

    if (mst_input_reserve(f, r, n) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {

        if (mst_input_one(f, i, json_array_get(list, i), r, text) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_input_one(const mst_field_t *f, size_t i, const json_t *value,
    mst_request_t *r, mst_buf_t *text)
{
    char  name[32];

    (void) snprintf(name, sizeof(name), "prompt[%zu]", i);

    if (json_is_array(value)) {

        if (json_array_size(value) == 0) {
            return mst_field_error(f, name, MST_FIELD_VALUE, value,
                                   "must hold at least one token id");
        }

        return mst_input_add_ids(f, name, value, r);
    }

    if (!json_is_string(value)) {
        return mst_field_error(f, name, MST_FIELD_TYPE, value,
                               "must be a string or a list of token ids");
    }

    r->inputs[r->n_inputs++].text = mst_chat_copy(text,
                                                  mst_field_as_string(value));

    return MST_OK;
}


int
mst_input_ids(const mst_field_t *f, const char *name, const json_t *list,
    int empty, mst_request_t *r)
{
    if (json_array_size(list) == 0 && !empty) {
        return mst_field_error(f, name, MST_FIELD_VALUE, list,
                               "must hold at least one token id");
    }

    r->has_prompt = 1;

    if (mst_input_reserve(f, r, 1) != MST_OK) {
        return MST_ERROR;
    }

    return mst_input_add_ids(f, name, list, r);
}


static int
mst_input_reserve(const mst_field_t *f, mst_request_t *r, size_t n)
{
    r->inputs = mst_calloc(n, sizeof(mst_input_t));

    if (r->inputs == NULL) {
        return mst_api_error_set(f->e, 500, NULL, NULL, "out of memory");
    }

    return MST_OK;
}


static int
mst_input_add_ids(const mst_field_t *f, const char *name, const json_t *list,
    mst_request_t *r)
{
    int           rc;
    uint32_t     *ids;
    mst_input_t  *input;

    input = &r->inputs[r->n_inputs++];

    rc = mst_sampling_ids(f, name, list, &ids, &input->n_ids);

    input->ids = ids;

    return rc;
}


void
mst_input_destroy(mst_request_t *r)
{
    size_t  i;

    for (i = 0; i < r->n_inputs; i++) {
        mst_free((void *) r->inputs[i].ids);
    }

    mst_free(r->inputs);
    r->inputs = NULL;
    r->n_inputs = 0;
}
