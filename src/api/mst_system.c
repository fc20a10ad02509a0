
/*
 * The host's system prompts: see mst_system.h.
 */

#include <string.h>

#include "api/mst_system.h"
#include "base/mst_buf.h"
#include "base/mst_mem.h"


static void mst_system_drop(mst_request_t *r);
static size_t mst_system_head(const mst_request_t *r);
static int mst_system_join(const mst_request_t *r, const mst_system_t *s,
    size_t n, mst_buf_t *text);
static void mst_system_add(mst_buf_t *text, mst_str_t s);


int
mst_system_apply(mst_request_t *r, const mst_system_t *s, size_t n)
{
    size_t          i, head;
    mst_buf_t       text;
    mst_message_t  *m;

    for (i = 0; i < n; i++) {

        if (s[i].how == MST_SYSTEM_REPLACE) {
            mst_system_drop(r);
            break;
        }
    }

    mst_buf_init(&text);

    if (mst_system_join(r, s, n, &text) != MST_OK) {
        mst_buf_fini(&text);
        return MST_ERROR;
    }

    head = mst_system_head(r);
    m = mst_realloc(r->messages, r->n_messages + 1, sizeof(mst_message_t));

    if (m == NULL) {
        mst_buf_fini(&text);
        return MST_ERROR;
    }

    memmove(m + 1, m + head, (r->n_messages - head) * sizeof(mst_message_t));

    memset(m, 0, sizeof(mst_message_t));
    m[0].role = MST_ROLE_SYSTEM;
    m[0].content = mst_str(text.data, text.len);

    r->messages = m;
    r->n_messages += 1 - head;
    r->system = text.data;

    return MST_OK;
}


static void
mst_system_drop(mst_request_t *r)
{
    size_t  i, n;

    n = r->safe ? 1 : 0;

    for (i = n; i < r->n_messages; i++) {

        if (r->messages[i].role != MST_ROLE_SYSTEM) {
            r->messages[n++] = r->messages[i];
        }
    }

    r->n_messages = n;
}


/* the system messages that the chat begins with */

static size_t
mst_system_head(const mst_request_t *r)
{
    size_t  n;

    for (n = 0; n < r->n_messages; n++) {

        if (r->messages[n].role != MST_ROLE_SYSTEM) {
            break;
        }
    }

    return n;
}


static int
mst_system_join(const mst_request_t *r, const mst_system_t *s, size_t n,
    mst_buf_t *text)
{
    size_t  i, head;

    for (i = 0; i < n; i++) {

        if (s[i].how != MST_SYSTEM_APPEND) {
            mst_system_add(text, s[i].text);
        }
    }

    head = mst_system_head(r);

    for (i = 0; i < head; i++) {
        mst_system_add(text, r->messages[i].content);
    }

    for (i = n; i > 0; i--) {

        if (s[i - 1].how == MST_SYSTEM_APPEND) {
            mst_system_add(text, s[i - 1].text);
        }
    }

    return text->failed ? MST_ERROR : MST_OK;
}


static void
mst_system_add(mst_buf_t *text, mst_str_t s)
{
    if (s.len == 0) {
        return;
    }

    if (text->len) {
        (void) mst_buf_text(text, "\n\n");
    }

    (void) mst_buf_str(text, s);
}
