
/*
 * What a call is made of: its name and id between marks, or an object with
 * both in it, and its arguments.  See mst_toolcall_local.h.
 */

#include <string.h>

#include "text/mst_toolcall_local.h"


int
mst_toolobject_take_name(mst_toolcall_t *t)
{
    size_t       n;
    const char  *p;

    p = t->word.data;
    n = t->word.len;

    while (n && (p[n - 1] == ' ' || p[n - 1] == '\n')) {
        n--;
    }

    if (!mst_toolmark_is_name(mst_str(p, n))) {
        t->bad = "its name is none of 1 to 64 letters, digits, \"_\" and "
                 "\"-\"";
        return MST_OK;
    }

    if (t->bare && !t->sink->known(t->data, mst_str(p, n))) {
        t->bad = "it names none of the tools";
        return MST_OK;
    }

    mst_buf_reset(&t->name);

    return mst_buf_append(&t->name, p, n);
}


/*
 * How many of n bytes a word may look at: it is bad if it does not end among
 * them.  All that is taken before a mistake is taken in every way to cut the
 * text, since what was not is looked at again, as text.
 */

static size_t
mst_toolobject_room(mst_toolcall_t *t, size_t n, const char *why)
{
    size_t  room;

    room = MST_TOOLCALL_WORD - t->word.len;

    if (n <= room) {
        return n;
    }

    t->bad = why;

    return room;
}


/* ends at its mark, or, where a model left that out, at the arguments */

size_t
mst_toolobject_name(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    i = t->word.len ? 0 : mst_toolcall_space(p, n);

    if (i || n == 0) {
        return i;
    }

    if (t->word.len == 0 && (p[0] == '[' || p[0] == '{')) {
        t->named = 0;
        t->list = p[0] == '[';
        t->state = MST_CALL_ITEM;
        return t->list;
    }

    n = mst_toolobject_room(t, n, "its name is too long");

    for (i = 0; i < n && p[i] != '{'; i++) { /* void */ }

    *rc = mst_buf_append(&t->word, p, i);

    if (*rc == MST_OK && i < n) {
        t->bad = NULL;
        *rc = mst_toolobject_take_name(t);
        t->state = MST_CALL_BEGIN;
    }

    return i;
}


size_t
mst_toolobject_id(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    n = mst_toolobject_room(t, n, "its id is too long");

    for (i = 0; i < n && p[i] != '{'; i++) { /* void */ }

    *rc = mst_buf_append(&t->word, p, i);

    if (i < n) {
        t->bad = NULL;
        t->state = MST_CALL_BEGIN;
    }

    return i;
}


/* an id that fits is taken over, another one is replaced */

void
mst_toolobject_take_id(mst_toolcall_t *t)
{
    size_t       i, n;
    const char  *p;

    p = t->word.data;
    n = t->word.len;

    for (i = mst_toolcall_space(p, n); i < n; i++) {
        if (!mst_toolmark_is_alnum(p[i])) {
            return;
        }
    }

    i = mst_toolcall_space(p, n);

    if (n - i == MST_TOOLMARK_ID) {
        memcpy(t->id, p + i, MST_TOOLMARK_ID);
        t->id[MST_TOOLMARK_ID] = '\0';
    }
}


/* behind an object that is complete */

static int
mst_toolobject_close(mst_toolcall_t *t)
{
    return mst_toolcall_complete(t, t->list ? MST_CALL_NEXT
                                    : t->tagged ? MST_CALL_TAG_END
                                                : MST_CALL_BETWEEN);
}


/* one byte of punctuation, and space before it */

size_t
mst_toolobject_syntax(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    static const struct {
        char  c;
        int   from;
        int   to;
    } steps[] = {
        { '{', MST_CALL_ITEM, MST_CALL_KEY },
        { '"', MST_CALL_KEY, MST_CALL_WORD },
        { '"', MST_CALL_NEXT_KEY, MST_CALL_WORD },
        { ':', MST_CALL_COLON, MST_CALL_VALUE },
        { ',', MST_CALL_COMMA, MST_CALL_NEXT_KEY },
        { ',', MST_CALL_NEXT, MST_CALL_ITEM },
        { ']', MST_CALL_NEXT, MST_CALL_BETWEEN }
    };

    i = mst_toolcall_space(p, n);

    if (i || n == 0) {
        return i;
    }

    for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {

        if (t->state != steps[i].from || p[0] != steps[i].c) {
            continue;
        }

        t->state = steps[i].to;

        if (t->state == MST_CALL_WORD) {
            mst_buf_reset(&t->word);
        }

        if (t->state == MST_CALL_BETWEEN) {
            mst_toolcall_start(t, MST_CALL_BETWEEN);
        }

        return 1;
    }

    if (p[0] == '}'
        && (t->state == MST_CALL_COMMA || t->state == MST_CALL_KEY))
    {
        *rc = mst_toolobject_close(t);
        return t->bad == NULL;
    }

    t->bad = "it is no JSON";

    return 0;
}


/* a string without escapes: no key that counts and no name has any */

size_t
mst_toolobject_word(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    n = mst_toolobject_room(t, n, "a key or its name is too long");

    for (i = 0; i < n; i++) {
        if (p[i] == '"' || p[i] == '\\' || (unsigned char) p[i] < 0x20) {
            break;
        }
    }

    *rc = mst_buf_append(&t->word, p, i);

    if (i == n || *rc != MST_OK) {
        return i;
    }

    t->bad = p[i] == '"' ? NULL : "a key or its name is no plain word";

    if (t->bad) {
        return i;
    }

    if (t->state == MST_CALL_WORD) {
        t->state = MST_CALL_COLON;
        return i + 1;
    }

    t->state = MST_CALL_COMMA;
    *rc = mst_toolobject_take_name(t);

    return t->bad ? i : i + 1;
}


static int
mst_toolobject_key_is(const mst_toolcall_t *t, const char *key)
{
    return mst_str_eq(mst_str(t->word.data, t->word.len), key);
}


/* which value comes says its key */

size_t
mst_toolobject_value(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    (void) rc;

    i = mst_toolcall_space(p, n);

    if (i || n == 0) {
        return i;
    }

    if (mst_toolobject_key_is(t, "name")) {

        if (p[0] != '"' || t->name.len) {
            t->bad = "its name is no string, or comes twice";
            return 0;
        }

        mst_buf_reset(&t->word);
        t->state = MST_CALL_STRING;
        return 1;
    }

    if (mst_toolobject_key_is(t, "arguments")
        || mst_toolobject_key_is(t, "parameters"))
    {
        if (t->args.len || t->opened) {
            t->bad = "its arguments come twice";
            return 0;
        }

        t->state = MST_CALL_BEGIN;
        return 0;
    }

    if (t->bare && !mst_toolobject_key_is(t, "type")
        && !mst_toolobject_key_is(t, "id"))
    {
        t->bad = "it has a key that no call has";
        return 0;
    }

    mst_json_scan_init(&t->scan);
    t->state = MST_CALL_SKIP;

    return 0;
}


size_t
mst_toolobject_skip(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    int     got;
    size_t  i;

    (void) rc;

    for (i = 0; i < n; i++) {
        got = mst_json_scan_push(&t->scan, p[i]);

        if (got == MST_OK) {
            continue;
        }

        if (got == MST_ERROR) {
            t->bad = "it is no JSON";
            return i;
        }

        t->state = MST_CALL_COMMA;

        return got == MST_DONE ? i + 1 : i;
    }

    return n;
}


size_t
mst_toolobject_begin(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    i = mst_toolcall_space(p, n);

    if (i || n == 0) {
        return i;
    }

    if (p[0] != '{') {
        t->bad = "its arguments are no object";
        return 0;
    }

    mst_json_scan_init(&t->scan);
    t->state = MST_CALL_ARGUMENTS;
    *rc = mst_toolcall_stream(t);

    return 0;
}


size_t
mst_toolobject_arguments(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    int     got;
    size_t  i;

    got = MST_OK;

    for (i = 0; i < n && got == MST_OK; i++) {
        got = mst_json_scan_push(&t->scan, p[i]);
    }

    i -= got == MST_ERROR;

    if (i) {
        *rc = t->opened ? t->sink->arguments(t->data, p, i)
                        : mst_buf_append(&t->args, p, i);
    }

    if (got == MST_ERROR) {
        t->bad = "its arguments are no JSON";

    } else if (got == MST_DONE && *rc == MST_OK) {

        if (t->named) {
            *rc = mst_toolcall_complete(t, MST_CALL_BETWEEN);

        } else {
            t->state = MST_CALL_COMMA;
        }
    }

    return i;
}
