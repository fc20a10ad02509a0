
/*
 * Calls of tools in a model's answer: see mst_toolcall.h, and
 * mst_toolcall_local.h for how.
 */

#include <string.h>

#include "text/mst_toolcall_local.h"


typedef size_t (*mst_toolcall_pt)(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);


static size_t mst_toolcall_plain(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
static size_t mst_toolcall_thought(mst_toolcall_t *t, const char *p,
    size_t n, int *rc);
static size_t mst_toolcall_between(mst_toolcall_t *t, const char *p,
    size_t n, int *rc);
static size_t mst_toolcall_tag_end(mst_toolcall_t *t, const char *p,
    size_t n, int *rc);


/* in mst_call_state_t's order */

static const mst_toolcall_pt  mst_toolcall_states[] = {
    mst_toolcall_plain, mst_toolcall_thought, mst_toolcall_between,
    mst_toolobject_name, mst_toolobject_id, mst_toolobject_syntax,
    mst_toolobject_syntax, mst_toolobject_syntax, mst_toolobject_word,
    mst_toolobject_syntax, mst_toolobject_value, mst_toolobject_word,
    mst_toolobject_skip, mst_toolobject_syntax, mst_toolobject_syntax,
    mst_toolobject_begin, mst_toolobject_arguments, mst_toolcall_tag_end
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
    t->fresh = 1;

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

void
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


/* is there only space between the line's beginning and what comes next? */

static void
mst_toolcall_line(mst_toolcall_t *t, const char *p, size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        t->fresh = p[i] == '\n' || (t->fresh && mst_toolcall_space(p + i, 1));
    }
}


/* text that the call is not made of any more; JSON that names no tool is
   nothing that a log should have */

static int
mst_toolcall_broken(mst_toolcall_t *t)
{
    if (!t->bare || t->name.len) {
        t->sink->broken(t->data, t->bad);
    }

    t->bad = NULL;
    t->state = MST_CALL_TEXT;
    t->matched = 0;

    mst_toolcall_line(t, t->raw.data, t->raw.len);

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


int
mst_toolcall_complete(mst_toolcall_t *t, mst_call_state_t next)
{
    if (t->name.len == 0) {
        t->bad = "it has no name";
        return MST_OK;
    }

    if (t->bare && t->args.len == 0 && !t->opened) {
        t->bad = "it has no arguments";
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

int
mst_toolcall_stream(mst_toolcall_t *t)
{
    return t->whole || t->name.len == 0 ? MST_OK : mst_toolcall_tell(t);
}


size_t
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


/* a tag that is looked for in the text; NULL: none is */

static const char *
mst_toolcall_tag(const mst_toolcall_t *t)
{
    switch (t->marks->form) {

    case MST_TOOLMARK_TAGS:
        return MST_TOOLMARK_TAG;

    case MST_TOOLMARK_BARE:
        return t->marks->tag < 0 ? MST_TOOLMARK_PYTHON : NULL;

    default:
        return NULL;
    }
}


/* an object behind a tag, or a mark that is one, or behind nothing */

static int
mst_toolcall_object(mst_toolcall_t *t, int bare, const char *tag)
{
    t->list = 0;
    t->named = 0;
    t->tagged = t->marks->form == MST_TOOLMARK_TAGS;
    t->bare = bare;
    t->matched = 0;

    mst_toolcall_start(t, MST_CALL_ITEM);

    return tag ? mst_buf_text(&t->raw, tag) : MST_OK;
}


/* the bytes of a tag that is none */

static int
mst_toolcall_release(mst_toolcall_t *t)
{
    size_t  n;

    n = t->matched;
    t->matched = 0;

    return n ? t->sink->text(t->data, mst_toolcall_tag(t), n) : MST_OK;
}


/* how many of n bytes are text for certain: neither a tag may begin behind
   them nor an object in a line of its own, and none may have begun before */

static size_t
mst_toolcall_sure(mst_toolcall_t *t, const char *tag, const char *p,
    size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {

        if ((tag && p[i] == tag[0])
            || (t->marks->form == MST_TOOLMARK_BARE && t->fresh
                && p[i] == '{'))
        {
            break;
        }

        mst_toolcall_line(t, p + i, 1);
    }

    return i;
}


/* "<" begins the tag and nothing else in it: a byte that does not go on is
   either the beginning of another one or none of it */

static size_t
mst_toolcall_plain(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t       i;
    const char  *tag;

    if (t->marks->form == MST_TOOLMARK_BRACKETS) {
        *rc = t->sink->text(t->data, p, n);
        return n;
    }

    tag = mst_toolcall_tag(t);

    if (t->matched && p[0] != tag[t->matched]) {
        *rc = mst_toolcall_release(t);
        return 0;
    }

    if (t->matched == 0) {
        i = mst_toolcall_sure(t, tag, p, n);

        if (i) {
            *rc = t->sink->text(t->data, p, i);
            return i;
        }

        if (p[0] == '{') {
            *rc = mst_toolcall_object(t, 1, NULL);
            return 0;
        }
    }

    t->fresh = 0;

    if (tag[++t->matched] == '\0') {
        *rc = mst_toolcall_object(t, 0, tag);
    }

    return 1;
}


static size_t
mst_toolcall_thought(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    *rc = t->sink->thought(t->data, p, n);

    return n;
}


/* what would have led to another call is text */

static int
mst_toolcall_behind(mst_toolcall_t *t)
{
    size_t  n;

    n = t->raw.len;
    t->raw.len = 0;
    t->fresh = 0;

    return n ? t->sink->text(t->data, t->raw.data, n) : MST_OK;
}


static size_t
mst_toolcall_between(mst_toolcall_t *t, const char *p, size_t n, int *rc)
{
    size_t  i;

    i = mst_toolcall_space(p, n);

    if (i) {
        *rc = t->raw.len ? mst_buf_append(&t->raw, p, i) : MST_OK;
        return i;
    }

    if (t->marks->form == MST_TOOLMARK_BARE) {

        if (p[0] == '{') {
            *rc = mst_toolcall_object(t, t->bare, NULL);
            return 0;
        }

        if (p[0] == ';' && t->raw.len == 0) {
            *rc = mst_buf_char(&t->raw, ';');
            return 1;
        }
    }

    *rc = mst_toolcall_behind(t);
    t->state = MST_CALL_TEXT;

    return 0;
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
        rc = mst_toolobject_take_name(t);
        mst_buf_reset(&t->word);
        t->state = MST_CALL_ID;

    } else if (id == t->marks->arguments && t->state == MST_CALL_NAME) {
        rc = mst_toolobject_take_name(t);
        t->state = MST_CALL_BEGIN;

    } else if (id == t->marks->arguments && t->state == MST_CALL_ID) {
        mst_toolobject_take_id(t);
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
        mst_toolcall_start(t, MST_CALL_BETWEEN);   /* that was complete */
        t->matched = 0;
    }

    if (mst_toolcall_release(t) != MST_OK
        || (t->state == MST_CALL_BETWEEN && mst_toolcall_behind(t) != MST_OK))
    {
        return MST_ERROR;
    }

    if (t->state >= MST_CALL_NAME) {

        if (mst_toolcall_mark_inside(t, id) != MST_OK) {
            return MST_ERROR;
        }

        if (t->state >= MST_CALL_NAME) {
            return MST_OK;
        }
    }

    if (id == m->tag) {
        return mst_toolcall_object(t, 0, m->form == MST_TOOLMARK_TAGS
                                         ? MST_TOOLMARK_TAG : NULL);
    }

    if (id == m->calls) {
        t->list = 0;
        t->named = 1;
        t->tagged = 0;
        t->bare = 0;
        mst_toolcall_start(t, MST_CALL_NAME);
        return MST_OK;
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
        return mst_toolcall_release(t);

    case MST_CALL_BETWEEN:
        return mst_toolcall_behind(t);

    case MST_CALL_THOUGHT:
    case MST_CALL_NEXT:
    case MST_CALL_TAG_END:
        return MST_OK;

    default:
        t->bad = "it is not complete";
        return mst_toolcall_broken(t);
    }
}
