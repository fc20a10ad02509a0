
/*
 * What a chat in Mistral's formats must be: see mst_mistral.h.  The rules and
 * sentences are those of Mistral's library when it serves.
 */

#include <string.h>

#include "text/mst_mistral.h"


#define MST_MISTRAL_ID    9        /* letters of a call's id */
#define MST_MISTRAL_NAME  64
#define MST_MISTRAL_MANY  1024     /* calls of one message: ids are compared
                                      each with each */


static const char *const  mst_mistral_roles[] = {
    "system", "user", "assistant", "tool"      /* in mst_role_t's order */
};


mst_str_t
mst_mistral_call_id(const mst_mistral_t *f, mst_str_t id)
{
    if (id.len > MST_MISTRAL_ID && f->version < 13) {
        return mst_str(id.data + id.len - MST_MISTRAL_ID, MST_MISTRAL_ID);
    }

    return id;
}


static int
mst_mistral_check_is(char c, const char *more)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
           || (c >= '0' && c <= '9') || (c && strchr(more, c));
}


static int
mst_mistral_check_name(mst_str_t name, mst_err_t *err)
{
    size_t  i;

    for (i = 0; i < name.len && mst_mistral_check_is(name.data[i], "_-");
         i++)
    {
        /* void */
    }

    if (i == name.len && i >= 1 && i <= MST_MISTRAL_NAME) {
        return MST_OK;
    }

    return mst_err_set(err, "Function name was %.*s but must be a-z, A-Z, "
                       "0-9, or contain underscores and dashes, with a "
                       "maximum length of 64.",
                       (int) (name.len < 100 ? name.len : 100), name.data);
}


/* what: whose id it is, where it has none */

static int
mst_mistral_check_id(const mst_mistral_t *f, mst_str_t id, const char *none,
    mst_err_t *err)
{
    size_t  i;

    if (f->version < 3) {
        return MST_OK;
    }

    if (f->version >= 13) {
        return id.len && !mst_str_eq(id, "null") ? MST_OK
               : mst_err_set(err, "Tool call id must be a non-empty string "
                             "other than 'null' for tokenizer version 13 or "
                             "newer.");
    }

    if (id.len == 0 || mst_str_eq(id, "null")) {
        return mst_err_set(err, "%s", none);
    }

    id = mst_mistral_call_id(f, id);

    for (i = 0; i < id.len && mst_mistral_check_is(id.data[i], ""); i++) {
        /* void */
    }

    if (i == id.len && i == MST_MISTRAL_ID) {
        return MST_OK;
    }

    return mst_err_set(err, "Tool call id was %.*s but must be a-z, A-Z, "
                       "0-9, with a length of 9.", (int) id.len, id.data);
}


static int
mst_mistral_check_order(const mst_template_chat_t *c, mst_err_t *err)
{
    size_t      i;
    mst_role_t  last, role;

    /* bits of the roles that may follow one */

    static const unsigned  after[] = {
        1u << MST_ROLE_USER | 1u << MST_ROLE_ASSISTANT
        | 1u << MST_ROLE_SYSTEM,
        1u << MST_ROLE_USER | 1u << MST_ROLE_ASSISTANT
        | 1u << MST_ROLE_SYSTEM,
        1u << MST_ROLE_USER | 1u << MST_ROLE_ASSISTANT | 1u << MST_ROLE_TOOL,
        1u << MST_ROLE_USER | 1u << MST_ROLE_ASSISTANT | 1u << MST_ROLE_TOOL
    };

    for (i = 1; i < c->n; i++) {
        last = c->messages[i - 1].role;
        role = c->messages[i].role;

        if (!(after[last] >> role & 1)) {
            return mst_err_set(err, "Unexpected role '%s' after role '%s'",
                               mst_mistral_roles[role],
                               mst_mistral_roles[last]);
        }
    }

    return MST_OK;
}


/* before version 11: as many results as calls */

static int
mst_mistral_check_counts(const mst_template_chat_t *c, mst_err_t *err)
{
    size_t   i;
    int64_t  open;

    for (i = 1, open = 0; i < c->n; i++) {

        if (c->messages[i].role == MST_ROLE_TOOL) {
            open--;

        } else if (c->messages[i].role == MST_ROLE_ASSISTANT) {

            if (open) {
                break;
            }

            open = (int64_t) c->messages[i].n_calls;
        }
    }

    return open == 0 ? MST_OK
           : mst_err_set(err, "Not the same number of function calls and "
                         "responses");
}


static int
mst_mistral_check_same(mst_str_t a, mst_str_t b)
{
    return a.len == b.len
           && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}


/* an assistant's calls must differ */

static int
mst_mistral_check_unique(const mst_mistral_t *f, const mst_message_t *m,
    mst_err_t *err)
{
    size_t     i, k;
    mst_str_t  id;

    for (i = 0; i < m->n_calls; i++) {
        id = mst_mistral_call_id(f, m->calls[i].id);

        for (k = 0; k < i; k++) {

            if (mst_mistral_check_same(id, mst_mistral_call_id(f,
                                               m->calls[k].id)))
            {
                return mst_err_set(err, "Duplicate tool call id %.*s in "
                                   "assistant message",
                                   (int) (id.len < 100 ? id.len : 100),
                                   id.data);
            }
        }
    }

    return MST_OK;
}


/* a result answers a call of the assistant's last message, each once */

static int
mst_mistral_check_result(const mst_mistral_t *f, const mst_message_t *m,
    size_t caller, size_t i, mst_err_t *err)
{
    size_t                k;
    mst_str_t             id;
    const mst_message_t  *from;

    id = mst_mistral_call_id(f, m[i].call_id);
    from = &m[caller];

    for (k = caller + 1; k < i; k++) {

        if (m[k].role == MST_ROLE_TOOL
            && mst_mistral_check_same(id, mst_mistral_call_id(f,
                                                          m[k].call_id)))
        {
            return mst_err_set(err, "Duplicate tool call id %.*s in tool "
                               "results",
                               (int) (id.len < 100 ? id.len : 100), id.data);
        }
    }

    for (k = 0; k < from->n_calls; k++) {

        if (caller && mst_mistral_check_same(id, mst_mistral_call_id(f,
                                                       from->calls[k].id)))
        {
            return MST_OK;
        }
    }

    return mst_err_set(err, "Unexpected tool call id %.*s in tool results",
                       (int) (id.len < 100 ? id.len : 100), id.data);
}


static int
mst_mistral_check_ids(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_err_t *err)
{
    size_t                i, caller, open;
    const mst_message_t  *m;

    caller = 0;
    open = 0;

    for (i = 1; i < c->n; i++) {
        m = &c->messages[i];

        if (m->role == MST_ROLE_TOOL) {

            if (mst_mistral_check_result(f, c->messages, caller, i, err)
                != MST_OK)
            {
                return MST_ERROR;
            }

            open--;

        } else if (m->role == MST_ROLE_ASSISTANT) {

            if (open) {
                break;
            }

            if (mst_mistral_check_unique(f, m, err) != MST_OK) {
                return MST_ERROR;
            }

            caller = i;
            open = m->n_calls;
        }
    }

    return open == 0 ? MST_OK
           : mst_err_set(err, "Not the same number of function calls and "
                         "responses");
}


static int
mst_mistral_check_structure(const mst_mistral_t *f,
    const mst_template_chat_t *c, mst_err_t *err)
{
    const mst_message_t  *last;

    if (c->n == 0) {
        return mst_err_set(err, "Conversation must have at least one "
                           "message");
    }

    if (c->n == 1 && c->messages[0].role != MST_ROLE_USER
        && c->messages[0].role != MST_ROLE_SYSTEM)
    {
        return mst_err_set(err, "Conversation must start with a user message "
                           "or system message");
    }

    last = &c->messages[c->n - 1];

    /* without an answer to come there is nothing to wait for */

    if (c->n > 1 && c->end == MST_TEMPLATE_ANSWER
        && last->role == MST_ROLE_ASSISTANT)
    {
        return mst_err_set(err, "Expected last role User or Tool (or "
                           "Assistant with prefix) for serving but got "
                           "assistant");
    }

    if (mst_mistral_check_order(c, err) != MST_OK) {
        return MST_ERROR;
    }

    return f->version >= 11 ? mst_mistral_check_ids(f, c, err)
                            : mst_mistral_check_counts(c, err);
}


/* thoughts: of assistants from version 11 on, of systems from 7 to 13; that
   the tokens for them came with 13 is found when they are written */

static int
mst_mistral_check_parts(const mst_mistral_t *f, const mst_message_t *m,
    mst_err_t *err)
{
    size_t  i;

    for (i = 0; i < m->n_parts; i++) {

        if (!m->parts[i].thinking
            || (m->role == MST_ROLE_ASSISTANT && f->version >= 11)
            || (m->role == MST_ROLE_SYSTEM && f->version >= 7
                && f->version < 15))
        {
            continue;
        }

        return mst_err_set(err, "Unexpected content chunk types in %s "
                           "message: ['ThinkChunk']",
                           mst_mistral_roles[m->role]);
    }

    return MST_OK;
}


static int
mst_mistral_check_assistant(const mst_mistral_t *f, const mst_message_t *m,
    mst_err_t *err)
{
    int     some;
    size_t  i;

    some = m->content.len != 0 || m->n_parts != 0;

    if (f->version < 7 && some == (m->n_calls != 0)) {
        return mst_err_set(err, "Assistant message must have either content "
                           "or tool_calls, but not both.");
    }

    for (i = 0; i < m->n_calls; i++) {

        if (mst_mistral_check_id(f, m->calls[i].id, "Tool call id has to be "
                                 "defined in serving mode.", err) != MST_OK
            || mst_mistral_check_name(m->calls[i].name, err) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_mistral_check_message(const mst_mistral_t *f, const mst_message_t *m,
    mst_err_t *err)
{
    if (mst_mistral_check_parts(f, m, err) != MST_OK) {
        return MST_ERROR;
    }

    if (m->role == MST_ROLE_ASSISTANT) {
        return mst_mistral_check_assistant(f, m, err);
    }

    if (m->role != MST_ROLE_TOOL) {
        return MST_OK;
    }

    if (m->name.len && mst_mistral_check_name(m->name, err) != MST_OK) {
        return MST_ERROR;
    }

    return mst_mistral_check_id(f, m->call_id,
                                "Tool call id has to be defined.", err);
}


static int
mst_mistral_check_effort(const mst_mistral_t *f, mst_str_t name,
    mst_err_t *err)
{
    int  effort;

    if (name.len == 0) {
        return MST_OK;
    }

    effort = mst_mistral_effort(name);

    if (f->efforts == 0 && effort == 0) {
        return MST_OK;
    }

    if (f->efforts == 0) {
        return mst_err_set(err, "reasoning_effort is not supported for this "
                           "model");
    }

    if (effort < 0 || !(f->efforts >> effort & 1)) {
        return mst_err_set(err, "reasoning_effort %.*s is not one that this "
                           "model has", (int) (name.len < 20 ? name.len : 20),
                           name.data);
    }

    return MST_OK;
}


int
mst_mistral_check(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_err_t *err)
{
    size_t  i;

    for (i = 0; i < c->n; i++) {

        if (c->messages[i].n_calls > MST_MISTRAL_MANY) {
            return mst_err_set(err, "a message has %zu tool calls, may have "
                               "at most %d", c->messages[i].n_calls,
                               MST_MISTRAL_MANY);
        }
    }

    if (mst_mistral_check_structure(f, c, err) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < c->n; i++) {

        if (mst_mistral_check_message(f, &c->messages[i], err) != MST_OK) {
            return MST_ERROR;
        }
    }

    return mst_mistral_check_effort(f, c->effort, err);
}
