
/*
 * The real vocabulary for tests: SmolLM2's, out of the model that "make
 * model" fetches.  Its absence is a failure.
 */

#ifndef MST_REAL_MODEL_H
#define MST_REAL_MODEL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/mst_gguf.h"
#include "text/mst_template.h"
#include "text/mst_tokenizer.h"

#define REAL_MODEL  "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"


typedef struct {
    mst_tokenizer_t  *tokenizer;
    mst_template_t   *template;
} real_t;


static inline void
real_open(real_t *r)
{
    mst_err_t    err = { "" };
    mst_gguf_t  *g;

    g = mst_gguf_open(REAL_MODEL, &err);

    if (g == NULL) {
        fail_msg("%s (\"make model\" fetches it)", err.text);
    }

    r->tokenizer = mst_tokenizer_create_gguf(g, &err);
    r->template = r->tokenizer
                  ? mst_template_create_gguf(g, r->tokenizer, &err) : NULL;
    mst_gguf_close(g);

    if (r->template == NULL) {
        fail_msg("%s", err.text);
    }
}


static inline void
real_close(real_t *r)
{
    mst_template_destroy(r->template);
    mst_tokenizer_destroy(r->tokenizer);
}


/* the next object of a file of lines, or NULL at its end */

static inline json_t *
real_next_line(FILE *f)
{
    json_t        *j;
    json_error_t   error;

    j = json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error);

    if (j == NULL && !feof(f)) {
        fail_msg("line %d: %s", error.line, error.text);
    }

    return j;
}


static inline void
real_expect_ids(const json_t *want, const uint32_t *ids, size_t n)
{
    size_t  i;

    assert_int_equal(n, json_array_size(want));

    for (i = 0; i < n; i++) {
        assert_int_equal(ids[i], json_integer_value(json_array_get(want, i)));
    }
}


#endif /* MST_REAL_MODEL_H */
