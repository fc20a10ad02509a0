
/*
 * Turns to spans: see mst_mistral.h.
 *
 * Every text is encoded apart from what stands around it, as the library
 * does it, and JSON is spelled as Python spells it.
 */

#include <string.h>

#include "text/mst_python_dumps.h"
#include "text/mst_mistral.h"


typedef struct {
    const mst_mistral_t        *f;
    const mst_mistral_turns_t  *t;
    mst_work_t                 *w;
    mst_prompt_t               *out;
    mst_str_t                   tools;     /* JSON as sent; len 0: none */
    mst_str_t                   effort;    /* len 0: the model's own */
} mst_mistral_write_t;


static int
mst_mistral_write_id(const mst_mistral_write_t *o, mst_mistral_token_t token)
{
    return mst_prompt_control(o->out, (uint32_t) o->f->ids[token]);
}


/* several strings that are one text */

static int
mst_mistral_write_text(const mst_mistral_write_t *o, const mst_str_t *s,
    size_t n)
{
    size_t  i;

    mst_prompt_part(o->out, 0, 0);

    for (i = 0; i < n; i++) {

        if (mst_prompt_text(o->out, s[i].data, s[i].len) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_mistral_write_json(const mst_mistral_write_t *o, mst_value_t v)
{
    int             rc;
    mst_str_t       s;
    mst_text_out_t  text;

    mst_text_out_init(&text);

    rc = mst_python_dumps(o->w, v, NULL, &text);

    if (rc == MST_OK) {
        s = mst_str(text.buf.data, text.buf.len);
        rc = mst_mistral_write_text(o, &s, 1);
    }

    mst_text_out_fini(&text);

    return rc;
}


static int
mst_mistral_write_tools(const mst_mistral_write_t *o)
{
    mst_value_t  v;

    if (o->tools.len == 0) {
        return MST_OK;
    }

    if (mst_mistral_json_tools(o->w, o->tools, &v) != MST_OK) {
        return MST_ERROR;
    }

    if (v.u.list->n == 0) {
        return MST_OK;
    }

    if (mst_mistral_write_id(o, MST_MISTRAL_TOOLS) != MST_OK
        || mst_mistral_write_json(o, v) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_mistral_write_id(o, MST_MISTRAL_TOOLS_END);
}


static int
mst_mistral_write_settings(const mst_mistral_write_t *o)
{
    int          effort;
    mst_value_t  v;

    if (o->f->efforts == 0) {
        return MST_OK;
    }

    effort = o->effort.len ? mst_mistral_effort(o->effort) : o->f->effort;

    if (mst_mistral_json_settings(o->w, effort, &v) != MST_OK
        || mst_mistral_write_id(o, MST_MISTRAL_SETTINGS) != MST_OK
        || mst_mistral_write_json(o, v) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_mistral_write_id(o, MST_MISTRAL_SETTINGS_END);
}


static int
mst_mistral_write_chunk(const mst_mistral_write_t *o,
    const mst_mistral_chunk_t *c)
{
    mst_str_t  s;

    if (mst_text_flat(o->w, c->text) != MST_OK) {
        return MST_ERROR;
    }

    s = mst_text_str(c->text);

    if (!c->thinking) {
        return mst_mistral_write_text(o, &s, 1);
    }

    if (o->f->version < 13 || o->f->ids[MST_MISTRAL_THINK] < 0
        || o->f->ids[MST_MISTRAL_THINK_END] < 0)
    {
        return mst_err_set(o->w->err, "the model has no tokens for thoughts");
    }

    if (mst_mistral_write_id(o, MST_MISTRAL_THINK) != MST_OK
        || mst_mistral_write_text(o, &s, 1) != MST_OK)
    {
        return MST_ERROR;
    }

    return c->open ? MST_OK : mst_mistral_write_id(o, MST_MISTRAL_THINK_END);
}


static int
mst_mistral_write_chunks(const mst_mistral_write_t *o,
    const mst_mistral_turn_t *turn)
{
    size_t  i;

    for (i = 0; i < turn->n_chunks; i++) {

        if (mst_mistral_write_chunk(o, &turn->chunks[i]) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* the text of a turn that has no thoughts */

static int
mst_mistral_write_plain(const mst_mistral_write_t *o,
    const mst_mistral_turn_t *turn, mst_str_t *s)
{
    *s = mst_str("", 0);

    if (turn->n_chunks == 0) {
        return MST_OK;
    }

    if (mst_text_flat(o->w, turn->chunks[0].text) != MST_OK) {
        return MST_ERROR;
    }

    *s = mst_text_str(turn->chunks[0].text);

    return MST_OK;
}


static int
mst_mistral_write_system(const mst_mistral_write_t *o,
    const mst_mistral_turn_t *turn)
{
    if (mst_mistral_write_id(o, MST_MISTRAL_SYSTEM) != MST_OK
        || mst_mistral_write_chunks(o, turn) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_mistral_write_id(o, MST_MISTRAL_SYSTEM_END);
}


/* version 1 has no tokens for it: all of it is one text */

static int
mst_mistral_write_user1(const mst_mistral_write_t *o, const mst_str_t *s)
{
    mst_str_t  all[5];

    all[0] = mst_str("[INST] ", 7);
    all[1] = s[0];
    all[2] = s[1];
    all[3] = s[2];
    all[4] = mst_str(" [/INST]", 8);

    return mst_mistral_write_text(o, all, 5);
}


static int
mst_mistral_write_user(const mst_mistral_write_t *o,
    const mst_mistral_turn_t *turn, size_t i)
{
    int        first;
    mst_str_t  s[3];

    s[0] = mst_str("", 0);
    s[1] = s[0];

    /* a system's text before the first user's of version 1, the last one's
       of 2 and 3 */

    if (o->t->system && o->t->system->len
        && i == (o->f->version == 1 ? o->t->first_user : o->t->last_user))
    {
        if (mst_text_flat(o->w, o->t->system) != MST_OK) {
            return MST_ERROR;
        }

        s[0] = mst_text_str(o->t->system);
        s[1] = mst_str("\n\n", 2);
    }

    if (mst_mistral_write_plain(o, turn, &s[2]) != MST_OK) {
        return MST_ERROR;
    }

    if (o->f->version == 1) {
        return mst_mistral_write_user1(o, s);
    }

    first = o->f->version >= 13;

    if (i == (first ? o->t->first_user : o->t->last_user)
        && (mst_mistral_write_tools(o) != MST_OK
            || mst_mistral_write_settings(o) != MST_OK))
    {
        return MST_ERROR;
    }

    if (mst_mistral_write_id(o, MST_MISTRAL_INST) != MST_OK
        || mst_mistral_write_text(o, s, 3) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_mistral_write_id(o, MST_MISTRAL_INST_END);
}


/* from version 11 on: [TOOL_CALLS] name [CALL_ID] id [ARGS] {...}, from 13 on
   without the id */

static int
mst_mistral_write_call(const mst_mistral_write_t *o, const mst_call_t *c)
{
    mst_str_t    id;
    mst_value_t  v;

    id = mst_mistral_call_id(o->f, c->id);

    if (mst_mistral_write_id(o, MST_MISTRAL_CALLS) != MST_OK
        || mst_mistral_write_text(o, &c->name, 1) != MST_OK
        || (o->f->version == 11
            && (mst_mistral_write_id(o, MST_MISTRAL_CALL_ID) != MST_OK
                || mst_mistral_write_text(o, &id, 1) != MST_OK))
        || mst_mistral_write_id(o, MST_MISTRAL_ARGS) != MST_OK
        || mst_mistral_json_value(o->w, c->arguments, &v) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_mistral_write_json(o, v);
}


static int
mst_mistral_write_calls(const mst_mistral_write_t *o,
    const mst_mistral_turn_t *turn)
{
    size_t       i;
    mst_value_t  v;

    if (turn->n_calls == 0) {
        return MST_OK;
    }

    /* up to version 7 all of them are one list */

    if (o->f->version < 11) {
        return mst_mistral_json_calls(o->f, o->w, turn, &v) != MST_OK
               || mst_mistral_write_id(o, MST_MISTRAL_CALLS) != MST_OK
               || mst_mistral_write_json(o, v) != MST_OK
               ? MST_ERROR : MST_OK;
    }

    for (i = 0; i < turn->n_calls; i++) {

        if (mst_mistral_write_call(o, &turn->calls[i]) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_mistral_write_said(const mst_mistral_write_t *o,
    const mst_mistral_turn_t *turn)
{
    mst_str_t  s;

    if (turn->n_chunks > 1 || (turn->n_chunks && turn->chunks[0].thinking)) {
        return mst_mistral_write_chunks(o, turn);
    }

    if (mst_mistral_write_plain(o, turn, &s) != MST_OK) {
        return MST_ERROR;
    }

    /* version 1 keeps the spaces at the end */

    while (o->f->version > 1 && s.len && s.data[s.len - 1] == ' ') {
        s.len--;
    }

    return mst_mistral_write_text(o, &s, 1);
}


/* version 2 forgets calls and results before the last question */

static int
mst_mistral_write_past(const mst_mistral_write_t *o, size_t i)
{
    return o->f->version == 2 && o->t->last_user < o->t->n
           && i < o->t->last_user;
}


static int
mst_mistral_write_assistant(const mst_mistral_write_t *o,
    const mst_mistral_turn_t *turn, size_t i)
{
    if (turn->n_chunks == 0 && turn->n_calls == 0 && !turn->prefix) {
        return mst_err_set(o->w->err, "Assistant message must have either "
                           "content or tool_calls");
    }

    if (turn->n_calls && o->f->version == 1) {
        return mst_err_set(o->w->err, "Tools not implemented for tokenizer "
                           "V1");
    }

    if (turn->n_calls && turn->n_chunks && o->f->version < 7) {
        return mst_err_set(o->w->err, "Assistant message must have either "
                           "content or tool_calls, but not both.");
    }

    if (turn->n_calls && mst_mistral_write_past(o, i)) {
        return MST_OK;
    }

    if (mst_mistral_write_said(o, turn) != MST_OK
        || mst_mistral_write_calls(o, turn) != MST_OK)
    {
        return MST_ERROR;
    }

    return turn->prefix ? MST_OK : mst_mistral_write_id(o, MST_MISTRAL_EOS);
}


static int
mst_mistral_write_answered(const mst_mistral_write_t *o,
    const mst_mistral_turn_t *turn, size_t i)
{
    mst_str_t    s;
    mst_value_t  v;

    if (o->f->version == 1) {
        return mst_err_set(o->w->err, "Tools not implemented for tokenizer "
                           "V1");
    }

    if (mst_mistral_write_past(o, i)) {
        return MST_OK;
    }

    if (mst_mistral_write_plain(o, turn, &s) != MST_OK
        || mst_mistral_write_id(o, MST_MISTRAL_RESULTS) != MST_OK)
    {
        return MST_ERROR;
    }

    if (o->f->version < 7) {

        if (mst_mistral_json_result(o->f, o->w, turn, s, &v) != MST_OK
            || mst_mistral_write_json(o, v) != MST_OK)
        {
            return MST_ERROR;
        }

        return mst_mistral_write_id(o, MST_MISTRAL_RESULTS_END);
    }

    if ((o->f->version < 13
         && (mst_mistral_write_text(o, &turn->call_id, 1) != MST_OK
             || mst_mistral_write_id(o, MST_MISTRAL_CONTENT) != MST_OK))
        || mst_mistral_write_text(o, &s, 1) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_mistral_write_id(o, MST_MISTRAL_RESULTS_END);
}


static int
mst_mistral_write_turn(const mst_mistral_write_t *o, size_t i)
{
    const mst_mistral_turn_t  *turn;

    turn = &o->t->turns[i];

    switch (turn->role) {

    case MST_ROLE_SYSTEM:
        return mst_mistral_write_system(o, turn);

    case MST_ROLE_USER:
        return mst_mistral_write_user(o, turn, i);

    case MST_ROLE_ASSISTANT:
        return mst_mistral_write_assistant(o, turn, i);

    default:
        return mst_mistral_write_answered(o, turn, i);
    }
}


/* version 2 has room for one result of an assistant's turn */

static int
mst_mistral_write_single(const mst_mistral_write_t *o)
{
    size_t  i;

    for (i = 1; o->f->version == 2 && i < o->t->n; i++) {

        if (o->t->turns[i].role == MST_ROLE_TOOL
            && o->t->turns[i - 1].role == MST_ROLE_TOOL
            && !mst_mistral_write_past(o, i))
        {
            return mst_err_set(o->w->err, "Tokenizer v2 does not support "
                               "multiple tool results for one assistant "
                               "turn.");
        }
    }

    return MST_OK;
}


int
mst_mistral_write(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_work_t *w, const mst_mistral_turns_t *turns, mst_prompt_t *out)
{
    size_t               i;
    mst_mistral_write_t  o;

    o.f = f;
    o.t = turns;
    o.w = w;
    o.out = out;
    o.tools = c->tools;
    o.effort = c->effort;

    if (mst_mistral_write_single(&o) != MST_OK
        || mst_mistral_write_id(&o, MST_MISTRAL_BOS) != MST_OK)
    {
        return MST_ERROR;
    }

    for (i = 0; i < turns->n; i++) {

        if (mst_mistral_write_turn(&o, i) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}
