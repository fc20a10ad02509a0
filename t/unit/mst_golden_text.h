
/*
 * Golden token ids: files of one JSON object a line, and the tokenizer files
 * that "make tokenizers" takes out of mistral-common's wheel.
 */

#ifndef MST_GOLDEN_TEXT_H
#define MST_GOLDEN_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_detok.h"
#include "text/mst_tokenizer.h"

#define TOKENIZERS  "build/tokenizers/"


/* freed by the caller */

static inline char *
golden_read(const char *path, size_t *len)
{
    FILE  *f;
    long   n;
    char  *text;

    f = fopen(path, "re");

    if (f == NULL) {
        fail_msg("%s is missing (\"make tokenizers\" fetches it)", path);
    }

    (void) fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    text = malloc((size_t) n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t) n, f), n);
    text[n] = '\0';
    (void) fclose(f);
    *len = (size_t) n;

    return text;
}


/* ids of a text, in slices of "budget"; freed by the caller */

static inline uint32_t *
golden_encode(const mst_tokenizer_t *t, const char *text, size_t len,
    size_t budget, size_t *n)
{
    int              rc;
    uint32_t        *copy;
    mst_prompt_t     p;
    mst_encode_t    *e;
    const uint32_t  *ids;

    mst_prompt_init(&p);
    assert_int_equal(mst_prompt_text(&p, text, len), MST_OK);
    e = mst_encode_create(t, &p);
    assert_non_null(e);

    do {
        rc = mst_encode_run(e, budget);
    } while (rc == MST_AGAIN);

    assert_int_equal(rc, MST_OK);
    ids = mst_encode_ids(e, n);
    copy = malloc((*n + 1) * sizeof(uint32_t));

    if (*n) {
        memcpy(copy, ids, *n * sizeof(uint32_t));
    }

    mst_encode_destroy(e);
    mst_prompt_fini(&p);

    return copy;
}


static inline void
golden_decode(const mst_tokenizer_t *t, const json_t *ids, const json_t *want)
{
    size_t       i;
    mst_buf_t    b;
    mst_detok_t  d;

    mst_buf_init(&b);
    mst_detok_init(&d, t);

    for (i = 0; i < json_array_size(ids); i++) {
        assert_int_equal(mst_detok_push(&d, (uint32_t)
                             json_integer_value(json_array_get(ids, i)), &b),
                         MST_OK);
    }

    assert_int_equal(mst_detok_finish(&d, &b), MST_OK);
    assert_int_equal(b.len, json_string_length(want));
    assert_memory_equal(b.len ? b.data : "", json_string_value(want), b.len);
    mst_buf_fini(&b);
}


/* every line's ids under "key"; decoded: key of the text back, or NULL */

static inline void
golden_check(const mst_tokenizer_t *t, const char *path, const char *key,
    const char *decoded)
{
    FILE          *f;
    char          *line;
    size_t         i, lines, n, size;
    json_t        *o, *text, *want;
    uint32_t      *ids;
    json_error_t   e;

    f = fopen(path, "re");
    assert_non_null(f);
    line = NULL;
    size = 0;

    for (lines = 0; getline(&line, &size, f) > 0; lines++) {
        o = json_loads(line, JSON_ALLOW_NUL, &e);
        assert_non_null(o);
        text = json_object_get(o, "text");
        want = json_object_get(o, key);

        ids = golden_encode(t, json_string_value(text),
                            json_string_length(text), 1 + lines % 40, &n);

        if (n != json_array_size(want)) {
            fail_msg("%s: %zu ids, expected %zu: %.200s", key, n,
                     json_array_size(want), line);
        }

        for (i = 0; i < n; i++) {
            if (ids[i] != json_integer_value(json_array_get(want, i))) {
                fail_msg("%s: id %zu is %u: %.200s", key, i, ids[i], line);
            }
        }

        if (decoded) {
            golden_decode(t, want, json_object_get(o, decoded));
        }

        free(ids);
        json_decref(o);
    }

    assert_true(lines > 200);
    free(line);
    (void) fclose(f);
}


#endif /* MST_GOLDEN_TEXT_H */
