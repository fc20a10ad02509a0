
/*
 * Calls of tools in a model's answer: see mst_toolcall.h.
 *
 * A state is a function that takes some bytes of the text: those that are
 * its own, none where only the state changes.  Every change without a byte
 * goes forward, so that each byte costs a few steps at most.
 */

#include <string.h>

#include "text/mst_toolcall.h"


#define MST_TOOLCALL_WORD     256              /* bytes of a key or an id */


typedef enum {
    MST_CALL_TEXT,             /* of the answer */
    MST_CALL_THOUGHT,
    MST_CALL_BETWEEN,          /* behind a call: space that nobody wrote */
    MST_CALL_NAME,             /* behind [TOOL_CALLS] */
    MST_CALL_ID,               /* behind [CALL_ID] */
    MST_CALL_ITEM,             /* an object must begin */
    MST_CALL_KEY,              /* its first key, or its end */
    MST_CALL_NEXT_KEY,
    MST_CALL_WORD,             /* in a key */
    MST_CALL_COLON,
    MST_CALL_VALUE,
    MST_CALL_STRING,           /* in the name's string */
    MST_CALL_SKIP,             /* in a value that is of no use */
    MST_CALL_COMMA,            /* behind a value */
    MST_CALL_NEXT,             /* behind an object of a list */
    MST_CALL_BEGIN,            /* arguments must begin */
    MST_CALL_ARGUMENTS,
    MST_CALL_TAG_END
} mst_call_state_t;


typedef size_t (*mst_toolcall_pt)(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);


static size_t mst_toolcall_plain(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
static size_t mst_toolcall_thought(mst_toolcall_t *t, const char *p,
    size_t n, int *rc);
static size_t mst_toolcall_between(mst_toolcall_t *t, const char *p,
    size_t n, int *rc);
static size_t mst_toolcall_name(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
static size_t mst_toolcall_call_id(mst_toolcall_t *t, const char *p,
    size_t n, int *rc);
static size_t mst_toolcall_syntax(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
static size_t mst_toolcall_word(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
static size_t mst_toolcall_value(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
static size_t mst_toolcall_skip(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
static size_t mst_toolcall_begin(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
static size_t mst_toolcall_arguments(mst_toolcall_t *t, const char *p,
    size_t n, int *rc);
static size_t mst_toolcall_tag_end(mst_toolcall_t *t, const char *p,
    size_t n, int *rc);


/* in mst_call_state_t's order */

static const mst_toolcall_pt  mst_toolcall_states[] = {
    mst_toolcall_plain, mst_toolcall_thought, mst_toolcall_between,
    mst_toolcall_name, mst_toolcall_call_id, mst_toolcall_syntax,
    mst_toolcall_syntax, mst_toolcall_syntax, mst_toolcall_word,
    mst_toolcall_syntax, mst_toolcall_value, mst_toolcall_word,
    mst_toolcall_skip, mst_toolcall_syntax, mst_toolcall_syntax,
    mst_toolcall_begin, mst_toolcall_arguments, mst_toolcall_tag_end
};


void
mst_toolcall_init(mst_toolcall_t *t, const mst_toolmark_t *marks,
    const mst_toolcall_sink_t *sink, void *data)
{
    memset(t, 0, sizeof(mst_toolcall_t));

    t->marks = marks;
    t->sink = sink;
    t->data = data;
    t->state = MST_CALL_TEXT;

    mst_buf_init(&t->raw);
    mst_buf_init(&t->word);
    mst_buf_init(&t->name);
    mst_buf_init(&t->args);
}


void
mst_toolcall_fini(mst_toolcall_t *t)
{
    mst_buf_fini(&t->raw);
    mst_buf_fini(&t->word);
    mst_buf_fini(&t->name);
    mst_buf_fini(&t->args);
}


/* a call may begin: nothing of it is known */

static void
mst_toolcall_start(mst_toolcall_t *t, mst_call_state_t state)
{
    t->state = state;
    t->opened = 0;
    t->id[0] = '\0';

    mst_buf_reset(&t->raw);
    mst_buf_reset(&t->word);
    mst_buf_reset(&t->name);
    mst_buf_reset(&t->args);
}


/* text that the call is not made of any more */

static int
mst_toolcall_broken(mst_toolcall_t *t)
{
    t->sink->broken(t->data, t->bad);
    t->bad = NULL;
    t->state = MST_CALL_TEXT;
    t->matched = 0;

    return t->raw.len ? t->sink->text(t->data, t->raw.data, t->raw.len)
                      : MST_OK;
}


/* name, and arguments so far, are certain */

static int
mst_toolcall_tell(mst_toolcall_t *t)
{
    if (t->opened) {
        return MST_OK;
    }

    if (t->id[0] == '\0') {
        mst_toolmark_id(t->seed, t->n, t->id);
    }

    t->opened = 1;
    t->n++;
    mst_buf_reset(&t->raw);

    if (t->sink->call(t->data, mst_str(t->name.data, t->name.len), t->id)
        != MST_OK)
    {
        return MST_ERROR;
    }

    return t->args.len == 0 ? MST_OK
           : t->sink->arguments(t->data, t->args.data, t->args.len);
}


static int
mst_toolcall_complete(mst_toolcall_t *t, mst_call_state_t next)
{
    if (t->name.len == 0) {
        t->bad = "it has no name";
        return MST_OK;
    }

    if (t->args.len == 0 && !t->opened
        && mst_buf_text(&t->args, "{}") != MST_OK)
    {
        return MST_ERROR;
    }

    if (mst_toolcall_tell(t) != MST_OK) {
        return MST_ERROR;
    }

    t->complete++;
    t->ended = t->single;
    mst_toolcall_start(t, next);

    return MST_OK;
}


/* the rest may go out as it comes */

static int
mst_toolcall_stream(mst_toolcall_t *t)
{
    return t->whole || t->name.len == 0 ? MST_OK : mst_toolcall_tell(t);
}


static int
mst_toolcall_take_name(mst_toolcall_t *t)
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

    mst_buf_reset(&t->name);

    return mst_buf_append(&t->name, p, n);
}


static size_t
mst_toolcall_space(const char *p, size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        if (p[i] != ' ' && p[i] != '\n' && p[i] != '\r' && p[i] != '\t') {
            break;
        }
    }

    return i;
}


/* "<" begins the tag and nothing else in it: a byte that does not go on is
   either the beginning of another one or none of it */

static size_t
mst_toolcall_plain(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i, start;

    if (!t->marks->tags) {
        *rc = t->sink->text(t->data, p, n);
        return n;
    }

    start = 0;

    for (i = 0; i < n && *rc == MST_OK; i++) {

        if (p[i] == MST_TOOLMARK_TAG[t->matched]) {

            if (t->matched == 0 && i > start) {
                *rc = t->sink->text(t->data, p + start, i - start);
            }

            t->matched++;
            start = i + 1;

            if (t->matched == sizeof(MST_TOOLMARK_TAG) - 1) {
                t->matched = 0;
                t->list = 0;
                t->named = 0;
                t->tagged = 1;
                mst_toolcall_start(t, MST_CALL_ITEM);
                *rc = *rc == MST_OK
                      ? mst_buf_text(&t->raw, MST_TOOLMARK_TAG) : *rc;
                return i + 1;
            }

            continue;
        }

        if (t->matched) {
            *rc = t->sink->text(t->data, MST_TOOLMARK_TAG, t->matched);
            t->matched = 0;
            start = i;
            i--;
        }
    }

    if (*rc == MST_OK && i > start) {
        *rc = t->sink->text(t->data, p + start, i - start);
    }

    return n;
}


static size_t
mst_toolcall_thought(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    *rc = t->sink->thought(t->data, p, n);

    return n;
}


static size_t
mst_toolcall_between(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    (void) rc;

    i = mst_toolcall_space(p, n);

    if (i < n) {
        t->state = MST_CALL_TEXT;
    }

    return i;
}


/*
 * How many of n bytes a word may look at: it is bad if it does not end among
 * them.  All that is taken before a mistake is taken in every way to cut the
 * text, since what was not is looked at again, as text.
 */

static size_t
mst_toolcall_room(mst_toolcall_t *t, size_t n, const char *why)
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

static size_t
mst_toolcall_name(mst_toolcall_t *t, const char *p, size_t n, int *rc)
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

    n = mst_toolcall_room(t, n, "its name is too long");

    for (i = 0; i < n && p[i] != '{'; i++) { /* void */ }

    *rc = mst_buf_append(&t->word, p, i);

    if (*rc == MST_OK && i < n) {
        t->bad = NULL;
        *rc = mst_toolcall_take_name(t);
        t->state = MST_CALL_BEGIN;
    }

    return i;
}


static size_t
mst_toolcall_call_id(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    n = mst_toolcall_room(t, n, "its id is too long");

    for (i = 0; i < n && p[i] != '{'; i++) { /* void */ }

    *rc = mst_buf_append(&t->word, p, i);

    if (i < n) {
        t->bad = NULL;
        t->state = MST_CALL_BEGIN;
    }

    return i;
}


/* an id that fits is taken over, another one is replaced */

static void
mst_toolcall_take_id(mst_toolcall_t *t)
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
mst_toolcall_close(mst_toolcall_t *t)
{
    return mst_toolcall_complete(t, t->list ? MST_CALL_NEXT
                                    : t->tagged ? MST_CALL_TAG_END
                                                : MST_CALL_BETWEEN);
}


/* one byte of punctuation, and space before it */

static size_t
mst_toolcall_syntax(mst_toolcall_t *t, const char *p, size_t n, int *rc)
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
        *rc = mst_toolcall_close(t);
        return t->bad == NULL;
    }

    t->bad = "it is no JSON";

    return 0;
}


/* a string without escapes: no key that counts and no name has any */

static size_t
mst_toolcall_word(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    n = mst_toolcall_room(t, n, "a key or its name is too long");

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
    *rc = mst_toolcall_take_name(t);

    return t->bad ? i : i + 1;
}


static int
mst_toolcall_key_is(const mst_toolcall_t *t, const char *key)
{
    return mst_str_eq(mst_str(t->word.data, t->word.len), key);
}


/* which value comes says its key */

static size_t
mst_toolcall_value(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    (void) rc;

    i = mst_toolcall_space(p, n);

    if (i || n == 0) {
        return i;
    }

    if (mst_toolcall_key_is(t, "name")) {

        if (p[0] != '"' || t->name.len) {
            t->bad = "its name is no string, or comes twice";
            return 0;
        }

        mst_buf_reset(&t->word);
        t->state = MST_CALL_STRING;
        return 1;
    }

    if (mst_toolcall_key_is(t, "arguments")
        || mst_toolcall_key_is(t, "parameters"))
    {
        if (t->args.len || t->opened) {
            t->bad = "its arguments come twice";
            return 0;
        }

        t->state = MST_CALL_BEGIN;
        return 0;
    }

    mst_json_scan_init(&t->scan);
    t->state = MST_CALL_SKIP;

    return 0;
}


static size_t
mst_toolcall_skip(mst_toolcall_t *t, const char *p, size_t n, int *rc)
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


static size_t
mst_toolcall_begin(mst_toolcall_t *t, const char *p, size_t n, int *rc)
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


static size_t
mst_toolcall_arguments(mst_toolcall_t *t, const char *p, size_t n, int *rc)
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


/* a call is complete whether its tag is closed or not */

static size_t
mst_toolcall_tag_end(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    (void) rc;

    i = t->matched ? 0 : mst_toolcall_space(p, n);

    for ( /* void */ ; i < n; i++) {

        if (p[i] != MST_TOOLMARK_TAG_END[t->matched]) {
            t->bad = "its tag is not closed";
            return i;
        }

        t->matched++;

        if (t->matched == sizeof(MST_TOOLMARK_TAG_END) - 1) {
            t->matched = 0;
            mst_toolcall_start(t, MST_CALL_BETWEEN);
            return i + 1;
        }
    }

    return i;
}


/* states that have text of a call which nobody was told of */

static int
mst_toolcall_holds(const mst_toolcall_t *t)
{
    return t->state >= MST_CALL_NAME && !t->opened;
}


int
mst_toolcall_text(mst_toolcall_t *t, const char *p, size_t n)
{
    int       rc, holds;
    size_t    k;
    uint32_t  told;

    while (n && !t->ended) {
        rc = MST_OK;
        told = t->n;
        holds = mst_toolcall_holds(t);

        k = mst_toolcall_states[t->state](t, p, n, &rc);

        if (rc == MST_OK && holds && t->n == told && mst_toolcall_holds(t)) {
            rc = mst_buf_append(&t->raw, p, k);
        }

        if (rc == MST_OK && t->bad) {
            rc = mst_toolcall_broken(t);
        }

        if (rc != MST_OK) {
            return MST_ERROR;
        }

        p += k;
        n -= k;
    }

    return t->ended ? MST_DONE : MST_OK;
}


int
mst_toolcall_is_mark(const mst_toolcall_t *t, uint32_t id)
{
    const mst_toolmark_t  *m;

    m = t->marks;

    return id == m->calls || id == m->arguments || id == m->id
           || id == m->think || id == m->think_end || id == m->tag;
}


/* inside of a call: its own marks lead on, any other one breaks it */

static int
mst_toolcall_mark_inside(mst_toolcall_t *t, uint32_t id)
{
    int  rc;

    rc = MST_OK;

    if (id == t->marks->id && t->state == MST_CALL_NAME) {
        rc = mst_toolcall_take_name(t);
        mst_buf_reset(&t->word);
        t->state = MST_CALL_ID;

    } else if (id == t->marks->arguments && t->state == MST_CALL_NAME) {
        rc = mst_toolcall_take_name(t);
        t->state = MST_CALL_BEGIN;

    } else if (id == t->marks->arguments && t->state == MST_CALL_ID) {
        mst_toolcall_take_id(t);
        t->state = MST_CALL_BEGIN;

    } else {
        t->bad = "it is not complete";
    }

    return rc == MST_OK && t->bad ? mst_toolcall_broken(t) : rc;
}


int
mst_toolcall_mark(mst_toolcall_t *t, uint32_t id)
{
    const mst_toolmark_t  *m;

    m = t->marks;

    if (t->ended) {
        return MST_DONE;
    }

    if (t->state == MST_CALL_NEXT || t->state == MST_CALL_TAG_END) {
        t->state = MST_CALL_BETWEEN;           /* what it had is complete */
        t->matched = 0;
    }

    if (t->matched) {
        if (t->sink->text(t->data, MST_TOOLMARK_TAG, t->matched) != MST_OK) {
            return MST_ERROR;
        }

        t->matched = 0;
    }

    if (t->state >= MST_CALL_NAME) {

        if (mst_toolcall_mark_inside(t, id) != MST_OK) {
            return MST_ERROR;
        }

        if (t->state >= MST_CALL_NAME) {
            return MST_OK;
        }
    }

    if (id == m->calls || id == m->tag) {
        t->tagged = id == m->tag;
        t->named = !t->tagged;
        t->list = 0;
        mst_toolcall_start(t, t->tagged ? MST_CALL_ITEM : MST_CALL_NAME);

        return t->tagged ? mst_buf_text(&t->raw, MST_TOOLMARK_TAG) : MST_OK;
    }

    if (id == m->think) {
        t->state = MST_CALL_THOUGHT;

    } else if (id == m->think_end) {
        t->state = MST_CALL_TEXT;
    }

    return MST_OK;
}


int
mst_toolcall_prime(mst_toolcall_t *t, const mst_prompt_t *prompt, size_t first)
{
    int                rc;
    size_t             i;
    const mst_span_t  *s;

    for (i = first; i < prompt->n; i++) {
        s = &prompt->spans[i];

        rc = s->len ? mst_toolcall_text(t, prompt->text.data + s->off, s->len)
                    : mst_toolcall_mark(t, s->id);

        if (rc != MST_OK) {
            return rc;
        }
    }

    return MST_OK;
}


int
mst_toolcall_finish(mst_toolcall_t *t)
{
    switch (t->state) {

    case MST_CALL_TEXT:
        return t->matched == 0 ? MST_OK
               : t->sink->text(t->data, MST_TOOLMARK_TAG, t->matched);

    case MST_CALL_THOUGHT:
    case MST_CALL_BETWEEN:
    case MST_CALL_NEXT:
    case MST_CALL_TAG_END:
        return MST_OK;

    default:
        t->bad = "it is not complete";
        return mst_toolcall_broken(t);
    }
}
