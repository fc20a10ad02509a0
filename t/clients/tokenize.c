
/*
 * tokenize KIND FILE [REPEAT]: a JSON array of texts on stdin to an array of
 * arrays of token ids on stdout, for comparisons with other programs, and of
 * arrays of ids to their texts, as they stream; with REPEAT the texts are
 * encoded so often and only the seconds are printed.
 * KIND: spm, tekken, hf, gguf.
 */

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "text/mst_detok.h"
#include "text/mst_tokenizer.h"


static char *
slurp(const char *path, size_t *len)
{
    long   n;
    char  *text;
    FILE  *f;

    f = fopen(path, "re");

    if (f == NULL) {
        return NULL;
    }

    (void) fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    text = malloc((size_t) n + 1);

    if (text && fread(text, 1, (size_t) n, f) != (size_t) n) {
        free(text);
        text = NULL;
    }

    *len = (size_t) n;
    (void) fclose(f);

    return text;
}


static mst_tokenizer_t *
load(const char *kind, const char *path, mst_err_t *err)
{
    char             *text;
    size_t            len;
    uint32_t          version;
    mst_gguf_t       *g;
    mst_tokenizer_t  *t;

    if (strcmp(kind, "gguf") == 0) {
        g = mst_gguf_open(path, err);
        t = g ? mst_tokenizer_create_gguf(g, err) : NULL;
        mst_gguf_close(g);
        return t;
    }

    text = slurp(path, &len);

    if (text == NULL) {
        (void) mst_err_set(err, "%s cannot be read", path);
        return NULL;
    }

    t = strcmp(kind, "spm") == 0
        ? mst_tokenizer_create_spm(text, len, path, err)
        : strcmp(kind, "tekken") == 0
        ? mst_tokenizer_create_tekken(text, len, path, &version, err)
        : mst_tokenizer_create_hf(text, len, path, "<s>", "</s>", err);
    free(text);

    return t;
}


/* printed unless "quiet" */

static void
encode(const mst_tokenizer_t *t, const json_t *text, int first, int quiet)
{
    int              rc;
    size_t           i, n;
    mst_prompt_t     p;
    mst_encode_t    *e;
    const uint32_t  *ids;

    mst_prompt_init(&p);
    (void) mst_prompt_text(&p, json_string_value(text),
                           json_string_length(text));
    e = mst_encode_create(t, &p);

    do {
        rc = mst_encode_run(e, MST_ENCODE_SLICE);
    } while (rc == MST_AGAIN);

    ids = mst_encode_ids(e, &n);

    if (!quiet) {
        (void) printf("%s[", first ? "" : ",");

        for (i = 0; i < n; i++) {
            (void) printf("%s%u", i ? "," : "", ids[i]);
        }

        (void) printf("]\n");
    }

    mst_encode_destroy(e);
    mst_prompt_fini(&p);
}


static void
decode(const mst_tokenizer_t *t, const json_t *ids, int first)
{
    size_t       i;
    json_t      *text;
    mst_buf_t    out;
    mst_detok_t  d;

    mst_buf_init(&out);
    mst_detok_init(&d, t);

    for (i = 0; i < json_array_size(ids); i++) {
        (void) mst_detok_push(&d, (uint32_t) json_integer_value(
                              json_array_get(ids, i)), &out);
    }

    (void) mst_detok_finish(&d, &out);
    text = json_stringn(out.len ? out.data : "", out.len);

    (void) printf("%s", first ? "" : ",");
    (void) json_dumpf(text, stdout, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    (void) printf("\n");

    json_decref(text);
    mst_buf_fini(&out);
}


int
main(int argc, char **argv)
{
    long              k, repeat;
    json_t           *texts;
    size_t            i;
    uint64_t          start;
    mst_err_t         err = { "" };
    json_error_t      e;
    mst_tokenizer_t  *t;

    if (argc < 3) {
        (void) fprintf(stderr, "usage: tokenize KIND FILE [REPEAT]\n");
        return 2;
    }

    t = load(argv[1], argv[2], &err);
    texts = json_loadf(stdin, JSON_ALLOW_NUL, &e);

    if (t == NULL || texts == NULL) {
        (void) fprintf(stderr, "%s\n", t ? e.text : err.text);
        return 1;
    }

    repeat = argc > 3 ? atol(argv[3]) : 0;
    start = mst_time_ns();

    for (k = 0; k < repeat; k++) {
        for (i = 0; i < json_array_size(texts); i++) {
            encode(t, json_array_get(texts, i), 0, 1);
        }
    }

    if (repeat) {
        (void) printf("%.6f\n", (double) (mst_time_ns() - start) * 1e-9);

    } else {
        (void) printf("[");

        for (i = 0; i < json_array_size(texts); i++) {
            if (json_is_array(json_array_get(texts, i))) {
                decode(t, json_array_get(texts, i), i == 0);

            } else {
                encode(t, json_array_get(texts, i), i == 0, 0);
            }
        }

        (void) printf("]\n");
    }

    json_decref(texts);
    mst_tokenizer_destroy(t);

    return 0;
}
