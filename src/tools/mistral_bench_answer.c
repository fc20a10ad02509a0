
/*
 * Bodies of answers: see mistral_bench_answer.h.
 *
 * Thousands of streams are read by one thread, so an event is not parsed to
 * see whether it brings text: within JSON a quote inside a string has a
 * backslash before it, so that the bytes "content": can only be a key.
 */

#include <jansson.h>
#include <string.h>

#include "tools/mistral_bench_answer.h"

#define MISTRAL_ANSWER_LINE  (1 << 20)         /* bytes of an event */
#define MISTRAL_ANSWER_BODY  (16 << 20)


void
mistral_answer_init(mistral_answer_t *a)
{
    memset(a, 0, sizeof(*a));
    mst_buf_init(&a->body);
    mst_buf_init(&a->data);
}


void
mistral_answer_fini(mistral_answer_t *a)
{
    mst_buf_fini(&a->body);
    mst_buf_fini(&a->data);
}


void
mistral_answer_reset(mistral_answer_t *a, int events)
{
    mst_buf_reset(&a->body);
    mst_buf_reset(&a->data);

    a->events = events;
    a->n_text = 0;
    a->done = 0;
    a->error = 0;
    a->has_usage = 0;
    a->prompt = 0;
    a->cached = 0;
    a->completion = 0;
    a->has_data = 0;
}


/* the first byte of a value whose key, with its quotes, is this */

static const char *
mistral_answer_value(const char *p, const char *end, const char *key)
{
    size_t       n;
    const char  *v;

    n = strlen(key);

    while ((p = memmem(p, (size_t) (end - p), key, n)) != NULL) {
        p += n;

        for (v = p; v < end && *v == ' '; v++) { /* void */ }

        if (v < end && *v == ':') {

            for (v++; v < end && *v == ' '; v++) { /* void */ }

            return v < end ? v : NULL;
        }
    }

    return NULL;
}


static int
mistral_answer_brings(const char *p, const char *end)
{
    size_t       i;
    const char  *v;

    static const char *const  keys[] = {
        "\"content\"", "\"text\"", "\"reasoning_content\""
    };

    for (i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        v = mistral_answer_value(p, end, keys[i]);

        if (v && end - v > 1 && v[0] == '"' && v[1] != '"') {
            return 1;
        }
    }

    return 0;
}


static uint64_t
mistral_answer_count(const json_t *object, const char *key)
{
    json_int_t  n;

    n = json_integer_value(json_object_get(object, key));

    return n > 0 ? (uint64_t) n : 0;
}


static void
mistral_answer_usage(mistral_answer_t *a, const json_t *root)
{
    const json_t  *usage;

    usage = json_object_get(root, "usage");

    if (!json_is_object(usage)) {
        return;
    }

    a->has_usage = 1;
    a->prompt = mistral_answer_count(usage, "prompt_tokens");
    a->completion = mistral_answer_count(usage, "completion_tokens");
    a->cached = mistral_answer_count(json_object_get(usage,
                                                     "prompt_tokens_details"),
                                     "cached_tokens");
}


static void
mistral_answer_event(mistral_answer_t *a, const char *p, size_t n)
{
    json_t      *root;
    const char  *end, *usage, *error;

    end = p + n;

    if (n == 6 && memcmp(p, "[DONE]", 6) == 0) {
        a->done = 1;
        return;
    }

    if (mistral_answer_brings(p, end)) {
        a->n_text++;
    }

    usage = mistral_answer_value(p, end, "\"usage\"");
    error = mistral_answer_value(p, end, "\"error\"");

    if ((usage == NULL || *usage != '{') && error == NULL) {
        return;
    }

    root = json_loadb(p, n, 0, NULL);
    mistral_answer_usage(a, root);

    if (json_is_object(json_object_get(root, "error")) || root == NULL) {
        a->error = 1;
    }

    json_decref(root);
}


/* one line of a stream, without its end */

static int
mistral_answer_line(mistral_answer_t *a, const char *p, size_t n)
{
    if (n && p[n - 1] == '\r') {
        n--;
    }

    if (n == 0) {
        if (a->has_data) {
            mistral_answer_event(a, a->data.data ? a->data.data : "",
                                 a->data.len);
        }

        mst_buf_reset(&a->data);
        a->has_data = 0;

        return MST_OK;
    }

    if (n < 5 || memcmp(p, "data:", 5) != 0) {
        return MST_OK;                         /* a comment, "event:" */
    }

    p += 5;
    n -= 5;

    if (n && *p == ' ') {
        p++;
        n--;
    }

    if (a->data.len + n > MISTRAL_ANSWER_LINE
        || (a->has_data && mst_buf_char(&a->data, '\n') != MST_OK))
    {
        return MST_ERROR;
    }

    a->has_data = 1;

    return mst_buf_append(&a->data, p, n);
}


int
mistral_answer_feed(mistral_answer_t *a, const char *p, size_t n)
{
    int          rc;
    size_t       len;
    const char  *end;

    if (!a->events) {
        return a->body.len + n > MISTRAL_ANSWER_BODY
               ? MST_ERROR : mst_buf_append(&a->body, p, n);
    }

    while (n) {
        end = memchr(p, '\n', n);
        len = end ? (size_t) (end - p) : n;

        if (end && a->body.len == 0) {
            rc = mistral_answer_line(a, p, len);

        } else if (a->body.len + len > MISTRAL_ANSWER_LINE
                   || mst_buf_append(&a->body, p, len) != MST_OK)
        {
            rc = MST_ERROR;

        } else if (end) {
            rc = mistral_answer_line(a, a->body.data, a->body.len);
            mst_buf_reset(&a->body);

        } else {
            rc = MST_OK;
        }

        if (rc != MST_OK) {
            return rc;
        }

        len += (end != NULL);
        p += len;
        n -= len;
    }

    return MST_OK;
}


int
mistral_answer_whole(mistral_answer_t *a)
{
    int      rc;
    json_t  *root;

    root = json_loadb(a->body.data ? a->body.data : "", a->body.len, 0, NULL);

    mistral_answer_usage(a, root);
    rc = json_is_array(json_object_get(root, "choices")) ? MST_OK : MST_ERROR;

    json_decref(root);

    return rc;
}
