
/*
 * Calls in an answer: see mst_reply_call.h.
 */

#include <string.h>

#include "api/mst_json.h"
#include "api/mst_reply_call.h"


void
mst_reply_call_init(mst_reply_calls_t *c, int stream)
{
    mst_buf_init(&c->json);

    c->n = 0;
    c->stream = stream;
    c->open = 0;
}


void
mst_reply_call_fini(mst_reply_calls_t *c)
{
    mst_buf_fini(&c->json);
}


/* the string of the arguments stays open: pieces are put before its quote */

static void
mst_reply_call_close(mst_reply_calls_t *c)
{
    if (c->open) {
        (void) mst_buf_text(&c->json, "}}");
        c->open = 0;
    }
}


static void
mst_reply_call_element(mst_reply_calls_t *c)
{
    mst_reply_call_close(c);

    if (c->json.len) {
        (void) mst_buf_char(&c->json, ',');
    }

    (void) mst_buf_char(&c->json, '{');

    if (c->stream) {
        (void) mst_buf_text(&c->json, "\"index\":");
        (void) mst_buf_uint(&c->json, c->n - 1);
        (void) mst_buf_char(&c->json, ',');
    }

    c->open = 1;
}


int
mst_reply_call_begin(mst_reply_calls_t *c, mst_str_t name, const char *id)
{
    c->n++;

    mst_reply_call_element(c);

    (void) mst_buf_text(&c->json, "\"id\":");
    (void) mst_json_string(&c->json, mst_str(id, strlen(id)));
    (void) mst_buf_text(&c->json, ",\"type\":\"function\",\"function\":"
                                  "{\"name\":");
    (void) mst_json_string(&c->json, name);

    return mst_buf_text(&c->json, ",\"arguments\":\"\"");
}


int
mst_reply_call_arguments(mst_reply_calls_t *c, mst_str_t piece)
{
    size_t  at;

    if (!c->open) {
        mst_reply_call_element(c);

        /* Mistral's client insists on a name in each piece, OpenAI's adds
           the pieces up */

        (void) mst_buf_text(&c->json, "\"function\":{\"name\":\"\","
                                      "\"arguments\":\"\"");
    }

    if (c->json.failed) {
        return MST_ERROR;
    }

    /* the piece's own quotes take the place of the last one */

    at = c->json.len - 1;

    if (mst_json_string(&c->json, piece) != MST_OK) {
        return MST_ERROR;
    }

    c->json.len -= 2;
    memmove(c->json.data + at, c->json.data + at + 2, c->json.len - at);

    return MST_OK;
}


mst_str_t
mst_reply_call_take(mst_reply_calls_t *c)
{
    mst_reply_call_close(c);

    return mst_str(c->json.data, c->json.len);
}


void
mst_reply_call_reset(mst_reply_calls_t *c)
{
    mst_buf_reset(&c->json);
    c->open = 0;
}
