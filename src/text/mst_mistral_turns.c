
/*
 * Messages to turns: see mst_mistral.h.  Neighbours of the same role, user or
 * assistant, become one; before version 7 all system messages become one text
 * that a user's turn takes in; from 11 on results stand in the order of the
 * calls.
 */

#include <string.h>

#include "text/mst_mistral.h"


typedef struct {
    const mst_mistral_t  *f;
    mst_work_t           *w;
    mst_mistral_turn_t   *turn;        /* whose chunks grow */
    mst_text_t           *text;        /* not yet a chunk; NULL: none */
    size_t                size;        /* chunks allocated */
} mst_mistral_grow_t;


static int
mst_mistral_turns_chunk(mst_mistral_grow_t *g, mst_text_t *text,
    int thinking, int open)
{
    size_t                size;
    mst_mistral_chunk_t  *chunks;

    if (g->turn->n_chunks == g->size) {
        size = g->size ? g->size * 2 : 2;
        chunks = mst_work_array(g->w, size, sizeof(mst_mistral_chunk_t));

        if (chunks == NULL) {
            return MST_ERROR;
        }

        if (g->size) {
            memcpy(chunks, g->turn->chunks,
                   g->size * sizeof(mst_mistral_chunk_t));
        }

        g->turn->chunks = chunks;
        g->size = size;
    }

    chunks = &g->turn->chunks[g->turn->n_chunks++];
    chunks->text = text;
    chunks->thinking = thinking;
    chunks->open = open;

    return MST_OK;
}


static int
mst_mistral_turns_flush(mst_mistral_grow_t *g)
{
    mst_text_t  *text;

    text = g->text;
    g->text = NULL;

    return text ? mst_mistral_turns_chunk(g, text, 0, 0) : MST_OK;
}


static int
mst_mistral_turns_text(mst_mistral_grow_t *g, mst_str_t s, const char *glue)
{
    mst_text_t  *t, *between;

    t = mst_text_of(g->w, s.data, s.len, MST_TEXT_VALUE);

    if (t == NULL || g->text == NULL) {
        g->text = t;
        return t ? MST_OK : MST_ERROR;
    }

    between = mst_text_of(g->w, glue, strlen(glue), MST_TEXT_VALUE);
    g->text = between ? mst_text_sum(g->w, g->text, between) : NULL;
    g->text = g->text ? mst_text_sum(g->w, g->text, t) : NULL;

    return g->text ? MST_OK : MST_ERROR;
}


static int
mst_mistral_turns_thought(mst_mistral_grow_t *g, mst_str_t s, int open)
{
    mst_text_t  *t;

    t = mst_text_of(g->w, s.data, s.len, MST_TEXT_VALUE);

    return t == NULL || mst_mistral_turns_flush(g) != MST_OK
           ? MST_ERROR : mst_mistral_turns_chunk(g, t, 1, open);
}


/* thoughts that stand beside the content come first, where the format has a
   place for them and the content brings none of its own */

static int
mst_mistral_turns_beside(mst_mistral_grow_t *g, const mst_message_t *m)
{
    size_t  i;

    if (m->thinking.len == 0 || g->f->version < 13
        || g->f->ids[MST_MISTRAL_THINK] < 0
        || g->f->ids[MST_MISTRAL_THINK_END] < 0)
    {
        return MST_OK;
    }

    for (i = 0; i < m->n_parts; i++) {

        if (m->parts[i].thinking) {
            return MST_OK;
        }
    }

    return mst_mistral_turns_thought(g, m->thinking, 0);
}


/* the content of one more message: texts of messages are two lines apart,
   texts of one message, too, or (version 15) not at all */

static int
mst_mistral_turns_add(mst_mistral_grow_t *g, const mst_message_t *m)
{
    int                fresh;
    size_t             i;
    const mst_part_t  *p;

    if (mst_mistral_turns_beside(g, m) != MST_OK) {
        return MST_ERROR;
    }

    if (m->n_parts == 0) {
        return m->content.len == 0 ? MST_OK
               : mst_mistral_turns_text(g, m->content, "\n\n");
    }

    fresh = g->text != NULL;

    for (i = 0; i < m->n_parts; i++) {
        p = &m->parts[i];

        if (p->thinking) {
            if (mst_mistral_turns_thought(g, p->text, p->open) != MST_OK) {
                return MST_ERROR;
            }

            continue;
        }

        if (p->text.len == 0) {
            continue;
        }

        if (mst_mistral_turns_text(g, p->text, fresh || g->f->version < 15
                                   ? "\n\n" : "") != MST_OK)
        {
            return MST_ERROR;
        }

        fresh = 0;
    }

    return MST_OK;
}


/* the calls of m behind those that the turn has */

static int
mst_mistral_turns_calls(mst_mistral_grow_t *g, const mst_message_t *m)
{
    mst_call_t  *calls;

    if (m->n_calls == 0) {
        return MST_OK;
    }

    calls = mst_work_array(g->w, g->turn->n_calls + m->n_calls,
                           sizeof(mst_call_t));
    if (calls == NULL
        || mst_work_steps(g->w, g->turn->n_calls) != MST_OK)
    {
        return MST_ERROR;
    }

    if (g->turn->n_calls) {
        memcpy(calls, g->turn->calls, g->turn->n_calls * sizeof(mst_call_t));
    }

    memcpy(calls + g->turn->n_calls, m->calls,
           m->n_calls * sizeof(mst_call_t));

    g->turn->calls = calls;
    g->turn->n_calls += m->n_calls;

    return MST_OK;
}


/* n messages that become one turn */

static int
mst_mistral_turns_one(const mst_mistral_t *f, mst_work_t *w,
    const mst_message_t *m, size_t n, mst_mistral_turn_t *turn)
{
    size_t              i;
    mst_mistral_grow_t  g;

    memset(turn, 0, sizeof(mst_mistral_turn_t));
    memset(&g, 0, sizeof(mst_mistral_grow_t));

    g.f = f;
    g.w = w;
    g.turn = turn;

    turn->role = m->role;
    turn->call_id = mst_mistral_call_id(f, m->call_id);
    turn->name = m->name;

    for (i = 0; i < n; i++) {

        if (mst_mistral_turns_add(&g, &m[i]) != MST_OK
            || mst_mistral_turns_calls(&g, &m[i]) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return mst_mistral_turns_flush(&g);
}


/* before version 7: the texts of all system messages, each by itself */

static int
mst_mistral_turns_system(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_work_t *w, mst_mistral_turns_t *t)
{
    size_t                i;
    mst_str_t             s;
    mst_mistral_grow_t    g;
    mst_mistral_turn_t    turn;
    const mst_message_t  *m;

    memset(&g, 0, sizeof(mst_mistral_grow_t));
    g.w = w;

    for (i = 0; i < c->n; i++) {
        m = &c->messages[i];

        /* parts without letters are a text, too */

        if (m->role != MST_ROLE_SYSTEM
            || (m->content.len == 0 && m->n_parts == 0))
        {
            continue;
        }

        if (mst_mistral_turns_one(f, w, m, 1, &turn) != MST_OK
            || (turn.n_chunks
                && mst_text_flat(w, turn.chunks[0].text) != MST_OK))
        {
            return MST_ERROR;
        }

        s = turn.n_chunks ? mst_text_str(turn.chunks[0].text)
                          : mst_str("", 0);

        if (mst_mistral_turns_text(&g, s, "\n\n") != MST_OK) {
            return MST_ERROR;
        }
    }

    t->system = g.text;

    return MST_OK;
}


/* the place of an id among the calls; behind them all where it is none's */

static size_t
mst_mistral_turns_rank(const mst_mistral_t *f, const mst_mistral_turn_t *from,
    mst_str_t id)
{
    size_t     i;
    mst_str_t  call;

    for (i = from->n_calls; i > 0; i--) {
        call = mst_mistral_call_id(f, from->calls[i - 1].id);

        if (call.len == id.len && id.len
            && memcmp(call.data, id.data, id.len) == 0)
        {
            return i - 1;
        }
    }

    return from->n_calls;
}


/* n results behind an assistant's turn, each in the place of its call: they
   were checked to be one for each */

static int
mst_mistral_turns_sort(const mst_mistral_t *f, mst_work_t *w,
    const mst_mistral_turn_t *from, mst_mistral_turn_t *results, size_t n)
{
    size_t               i, rank;
    mst_mistral_turn_t  *sorted;

    sorted = mst_work_array(w, n, sizeof(mst_mistral_turn_t));
    if (sorted == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        rank = mst_mistral_turns_rank(f, from, results[i].call_id);

        if (rank >= n) {
            return MST_OK;
        }

        sorted[rank] = results[i];
    }

    memcpy(results, sorted, n * sizeof(mst_mistral_turn_t));

    return MST_OK;
}


static int
mst_mistral_turns_order(const mst_mistral_t *f, mst_work_t *w,
    mst_mistral_turns_t *t)
{
    size_t  i, n;

    for (i = 1; i < t->n; i += n + 1) {

        for (n = 0; i + n < t->n && t->turns[i + n].role == MST_ROLE_TOOL;
             n++)
        {
            /* void */
        }

        if (n > 1
            && mst_mistral_turns_sort(f, w, &t->turns[i - 1], &t->turns[i], n)
               != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* messages that become one turn with the first */

static size_t
mst_mistral_turns_group(const mst_message_t *m, size_t n)
{
    size_t  i;

    if (m->role == MST_ROLE_TOOL || m->role == MST_ROLE_SYSTEM) {
        return 1;
    }

    for (i = 1; i < n && m[i].role == m->role; i++) {
        /* void */
    }

    return i;
}


static int
mst_mistral_turns_all(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_work_t *w, mst_mistral_turns_t *t)
{
    size_t  i, n;

    for (i = 0; i < c->n; i += n) {
        n = mst_mistral_turns_group(&c->messages[i], c->n - i);

        if (f->version < 7 && c->messages[i].role == MST_ROLE_SYSTEM) {
            continue;
        }

        if (mst_mistral_turns_one(f, w, &c->messages[i], n,
                                  &t->turns[t->n])
            != MST_OK)
        {
            return MST_ERROR;
        }

        t->turns[t->n++].prefix = c->end == MST_TEMPLATE_CONTINUE
                                  && i + n == c->n;
    }

    return MST_OK;
}


/* before version 7 a user begins, if need be one who says nothing */

static void
mst_mistral_turns_begin(const mst_mistral_t *f, mst_mistral_turns_t *t)
{
    if (t->n && (f->version >= 7 || t->turns[0].role == MST_ROLE_USER)) {
        return;
    }

    memmove(t->turns + 1, t->turns, t->n * sizeof(mst_mistral_turn_t));
    memset(t->turns, 0, sizeof(mst_mistral_turn_t));

    t->turns[0].role = MST_ROLE_USER;
    t->n++;
}


int
mst_mistral_turns(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_work_t *w, mst_mistral_turns_t *t)
{
    size_t  i;

    memset(t, 0, sizeof(mst_mistral_turns_t));

    t->turns = mst_work_array(w, c->n + 1, sizeof(mst_mistral_turn_t));

    if (t->turns == NULL
        || (f->version < 7 && mst_mistral_turns_system(f, c, w, t) != MST_OK)
        || mst_mistral_turns_all(f, c, w, t) != MST_OK
        || (f->version >= 11 && mst_mistral_turns_order(f, w, t) != MST_OK))
    {
        return MST_ERROR;
    }

    mst_mistral_turns_begin(f, t);

    t->first_user = t->n;
    t->last_user = t->n;

    for (i = t->n; i > 0; i--) {

        if (t->turns[i - 1].role == MST_ROLE_USER) {
            t->first_user = i - 1;
            t->last_user = t->last_user == t->n ? i - 1 : t->last_user;
        }
    }

    return MST_OK;
}
