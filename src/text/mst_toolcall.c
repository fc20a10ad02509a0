
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


int
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
