
/*
 * Scripts of the null model: see mst_script.h.
 */

#include <string.h>

#include <jansson.h>

#include "base/mst_mem.h"
#include "file/mst_script.h"


static int
mst_script_entry(mst_script_t *s, const json_t *entry, uint32_t *n,
    uint32_t n_vocab, mst_err_t *err)
{
    size_t         i;
    json_int_t     id;
    const json_t  *v;

    for (i = 0; i < json_array_size(entry); i++) {
        v = json_array_get(entry, i);
        id = json_is_integer(v) ? json_integer_value(v) : -1;

        if (id < 0 || id >= n_vocab) {
            return mst_err_set(err, "the script's entry %u has no token id "
                               "below %u at %zu", s->n, n_vocab, i);
        }

        s->ids[(*n)++] = (uint32_t) id;
    }

    if (i == 0) {
        return mst_err_set(err, "the script's entry %u is no list of token "
                           "ids, or is empty", s->n);
    }

    s->ends[s->n++] = *n;

    return MST_OK;
}


static int
mst_script_fill(mst_script_t *s, const json_t *root, uint32_t n_vocab,
    mst_err_t *err)
{
    size_t    i, entries, all;
    uint32_t  n;

    entries = json_array_size(root);

    if (entries == 0) {
        return mst_err_set(err, "a script is a list of lists of token ids, "
                           "one at least");
    }

    all = 0;

    for (i = 0; i < entries; i++) {
        all += json_array_size(json_array_get(root, i));
    }

    /* below 2^32: each of them takes two bytes of text */

    s->ids = mst_calloc(all + 1, sizeof(uint32_t));
    s->ends = mst_calloc(entries, sizeof(uint32_t));

    if (s->ids == NULL || s->ends == NULL) {
        return mst_err_set(err, "no memory for a script of %zu ids", all);
    }

    n = 0;

    for (i = 0; i < entries; i++) {

        if (mst_script_entry(s, json_array_get(root, i), &n, n_vocab, err)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_script_parse(mst_script_t *s, const char *text, size_t len,
    uint32_t n_vocab, mst_err_t *err)
{
    int            rc;
    json_t        *root;
    json_error_t   e;

    memset(s, 0, sizeof(mst_script_t));

    root = json_loadb(text, len, 0, &e);

    if (root == NULL) {
        return mst_err_set(err, "the script is no JSON: %.100s", e.text);
    }

    rc = mst_script_fill(s, root, n_vocab, err);
    json_decref(root);

    if (rc != MST_OK) {
        mst_script_fini(s);
    }

    return rc;
}


void
mst_script_fini(mst_script_t *s)
{
    mst_free(s->ids);
    mst_free(s->ends);
    memset(s, 0, sizeof(mst_script_t));
}
