
/*
 * Mistral's formats on a pipe, for mistral_common_test.py: each line of stdin
 * is {"file": "...", "version": N, "body": {...}}, a tokenizer's file and the
 * body of a chat, or of a prompt with a suffix; each line of stdout is
 * {"ids": [...]} or {"error": "..."}.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "api/mst_request.h"
#include "text/mst_fim.h"
#include "text/mst_mistral.h"


#define FILES  16


static struct {
    char              path[1000];
    mst_tokenizer_t  *tokenizer;
} files[FILES];


/* freed by nobody: the program ends with its input */

static mst_tokenizer_t *
tokenizer(const char *path)
{
    int        i;
    FILE      *f;
    char      *text;
    long       n;
    uint32_t   version;
    mst_err_t  err = { "" };

    for (i = 0; files[i].tokenizer; i++) {

        if (strcmp(files[i].path, path) == 0) {
            return files[i].tokenizer;
        }
    }

    f = fopen(path, "re");

    if (f == NULL || i + 1 == FILES || strlen(path) >= sizeof(files[i].path)) {
        perror(path);
        exit(1);
    }

    (void) fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    text = malloc((size_t) n + 1);

    if (text == NULL || fread(text, 1, (size_t) n, f) != (size_t) n) {
        perror(path);
        exit(1);
    }

    (void) fclose(f);
    (void) strcpy(files[i].path, path);

    files[i].tokenizer = strstr(path, ".json")
        ? mst_tokenizer_create_tekken(text, (size_t) n, path, &version, &err)
        : mst_tokenizer_create_spm(text, (size_t) n, path, &err);
    free(text);

    if (files[i].tokenizer == NULL) {
        (void) fprintf(stderr, "%s\n", err.text);
        exit(1);
    }

    return files[i].tokenizer;
}


static int
render(const mst_mistral_t *f, const char *body, mst_prompt_t *p,
    mst_err_t *err)
{
    int                   rc;
    mst_request_t        *r;
    mst_api_error_t       e;
    mst_template_chat_t   c;

    memset(&e, 0, sizeof(e));
    memset(&c, 0, sizeof(c));

    r = mst_request_parse(MST_API_CHAT, body, strlen(body), &e);

    if (r == NULL) {
        return mst_err_set(err, "%s", e.message);
    }

    c.messages = r->messages;
    c.n = r->n_messages;
    c.tools = r->tools.json;
    c.effort = r->effort;
    c.end = r->continue_last ? MST_TEMPLATE_CONTINUE
            : r->closed ? MST_TEMPLATE_CLOSED : MST_TEMPLATE_ANSWER;

    rc = mst_mistral_render(f, &c, p, err);
    mst_request_destroy(r);

    return rc;
}


static int
fill(const mst_tokenizer_t *t, const json_t *body, mst_prompt_t *p,
    mst_err_t *err)
{
    const json_t  *prompt, *suffix;

    prompt = json_object_get(body, "prompt");
    suffix = json_object_get(body, "suffix");

    if (!mst_fim_can(t)) {
        return mst_err_set(err, "no tokens for it");
    }

    return mst_fim_render(t, mst_str(json_string_value(prompt),
                                     json_string_length(prompt)),
                          mst_str(json_string_value(suffix),
                                  json_string_length(suffix)), p);
}


static json_t *
answer(const mst_tokenizer_t *t, const mst_prompt_t *p)
{
    size_t           i, n;
    json_t          *list;
    mst_encode_t    *e;
    const uint32_t  *ids;

    e = mst_encode_create(t, p);
    list = json_array();

    if (e == NULL || list == NULL || mst_encode_run(e, SIZE_MAX) != MST_OK) {
        exit(1);
    }

    ids = mst_encode_ids(e, &n);

    for (i = 0; i < n; i++) {
        (void) json_array_append_new(list, json_integer(ids[i]));
    }

    mst_encode_destroy(e);

    return json_pack("{s:o}", "ids", list);
}


static void
line(const char *data, size_t len)
{
    int               rc;
    char             *text;
    json_t           *root, *body, *out;
    mst_err_t         err = { "" };
    mst_prompt_t      p;
    mst_mistral_t     f;
    mst_tokenizer_t  *t;

    root = json_loadb(data, len, JSON_ALLOW_NUL, NULL);
    body = json_object_get(root, "body");

    if (body == NULL) {
        (void) fprintf(stderr, "no body: %.*s\n", (int) len, data);
        exit(1);
    }

    t = tokenizer(json_string_value(json_object_get(root, "file")));
    mst_prompt_init(&p);

    rc = mst_mistral_init(&f, (uint32_t) json_integer_value(
                              json_object_get(root, "version")), t, &err);

    if (rc == MST_OK && json_object_get(body, "messages")) {
        text = json_dumps(body, 0);
        rc = render(&f, text, &p, &err);
        free(text);

    } else if (rc == MST_OK) {
        rc = fill(t, body, &p, &err);
    }

    out = rc == MST_OK ? answer(t, &p) : json_pack("{s:s}", "error",
                                                   err.text);
    text = json_dumps(out, JSON_COMPACT);
    (void) puts(text);
    (void) fflush(stdout);

    free(text);
    json_decref(out);
    json_decref(root);
    mst_prompt_fini(&p);
}


int
main(void)
{
    char     *buf;
    size_t    size;
    ssize_t   len;

    buf = NULL;
    size = 0;

    while ((len = getline(&buf, &size, stdin)) > 0) {
        line(buf, (size_t) len);
    }

    free(buf);

    return 0;
}
