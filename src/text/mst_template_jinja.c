
/*
 * Programs as templates: see mst_template_jinja.h.
 *
 * Text of the template and of messages that stand side by side are one piece
 * for the tokenizer, as the libraries that models are trained with do it;
 * control tokens are searched for in the template's text alone.
 */

#include <string.h>
#include <time.h>

#include "base/mst_mem.h"
#include "text/mst_encode.h"
#include "text/mst_python_loads.h"
#include "text/mst_template_jinja.h"


#define MST_TEMPLATE_JINJA_FACTOR  8       /* bytes of memory for one of a
                                              message */


static const char *const  mst_template_jinja_roles[] = {
    "system", "user", "assistant", "tool"      /* in mst_role_t's order */
};


static mst_str_t
mst_template_jinja_spelling(const mst_tokenizer_t *t, int64_t id)
{
    return id < 0 ? mst_str("", 0) : mst_tokenizer_name(t, (uint32_t) id);
}


static int
mst_template_jinja_special(mst_template_jinja_t *j)
{
    int             rc;
    uint32_t        i;
    unsigned char  *wanted;

    wanted = mst_calloc(j->vocab->n + 1, 1);
    if (wanted == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < j->vocab->n; i++) {
        wanted[i] = (j->vocab->type[i] == MST_VOCAB_CONTROL
                     || j->vocab->type[i] == MST_VOCAB_USER)
                    && mst_vocab_token(j->vocab, i).len != 0;
    }

    rc = mst_trie_init(&j->special, j->vocab, wanted);
    mst_free(wanted);

    return rc;
}


int
mst_template_jinja_init(mst_template_jinja_t *j, mst_str_t text,
    const mst_tokenizer_t *t, mst_err_t *err)
{
    const mst_tokenizer_info_t  *info;

    memset(j, 0, sizeof(mst_template_jinja_t));

    info = mst_tokenizer_info(t);

    j->vocab = &t->vocab;
    j->bos = mst_template_jinja_spelling(t, info->bos_id);
    j->eos = mst_template_jinja_spelling(t, info->eos_id);
    j->jinja = mst_jinja_create(text, err);

    return j->jinja ? mst_template_jinja_special(j) : MST_ERROR;
}


void
mst_template_jinja_fini(mst_template_jinja_t *j)
{
    mst_jinja_destroy(j->jinja);
    mst_trie_fini(&j->special);
    j->jinja = NULL;
}


static int
mst_template_jinja_put(mst_work_t *w, mst_dict_t *d, const char *key,
    mst_str_t s, mst_text_from_t from)
{
    mst_value_t  v;

    return mst_value_str(w, s.data, s.len, from, &v) == MST_OK
           ? mst_dict_put(w, d, key, v) : MST_ERROR;
}


/* arguments are what their JSON says, or the string that is none */

static int
mst_template_jinja_call(mst_work_t *w, const mst_call_t *call,
    mst_value_t *v)
{
    int           rc;
    mst_dict_t   *d, *function;
    mst_value_t   arguments;

    d = mst_dict_create(w, 4);
    function = mst_dict_create(w, 4);
    *v = mst_value_dict(MST_VALUE_DICT, d);

    if (d == NULL || function == NULL) {
        return MST_ERROR;
    }

    rc = mst_python_loads(w, call->arguments, &arguments);

    if (rc == MST_DECLINED) {
        rc = mst_value_str(w, call->arguments.data, call->arguments.len,
                           MST_TEXT_VALUE, &arguments);
    }

    if (rc != MST_OK
        || (call->id.len
            && mst_template_jinja_put(w, d, "id", call->id, MST_TEXT_VALUE)
               != MST_OK)
        || mst_template_jinja_put(w, d, "type", mst_str("function", 8),
                                  MST_TEXT_VALUE) != MST_OK
        || mst_template_jinja_put(w, function, "name", call->name,
                                  MST_TEXT_VALUE) != MST_OK
        || mst_dict_put(w, function, "arguments", arguments) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_dict_put(w, d, "function",
                        mst_value_dict(MST_VALUE_DICT, function));
}


static int
mst_template_jinja_calls(mst_work_t *w, const mst_message_t *m,
    mst_dict_t *d)
{
    size_t        i;
    mst_list_t   *list;
    mst_value_t   v;

    if (m->n_calls == 0) {
        return MST_OK;
    }

    list = mst_list_create(w, m->n_calls);
    if (list == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < m->n_calls; i++) {

        if (mst_template_jinja_call(w, &m->calls[i], &v) != MST_OK
            || mst_list_add(w, list, v) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return mst_dict_put(w, d, "tool_calls",
                        mst_value_list(MST_VALUE_LIST, list));
}


/* thoughts, of parts or beside them, are "reasoning_content" */

static int
mst_template_jinja_thinking(mst_work_t *w, const mst_message_t *m,
    mst_dict_t *d)
{
    size_t       i;
    mst_text_t  *all, *t;

    all = mst_text_of(w, m->thinking.data, m->thinking.len, MST_TEXT_VALUE);

    for (i = 0; all && i < m->n_parts; i++) {

        if (m->parts[i].thinking) {
            t = mst_text_of(w, m->parts[i].text.data, m->parts[i].text.len,
                            MST_TEXT_VALUE);
            all = t ? mst_text_sum(w, all, t) : NULL;
        }
    }

    if (all == NULL) {
        return MST_ERROR;
    }

    return all->len ? mst_dict_put(w, d, "reasoning_content",
                                   mst_value_text(all)) : MST_OK;
}


/* a name of a role is one of ours, whoever sent it */

static int
mst_template_jinja_message(mst_work_t *w, const mst_message_t *m,
    mst_text_from_t from, mst_value_t *v)
{
    mst_dict_t  *d;
    const char  *role;

    d = mst_dict_create(w, 4);
    role = mst_template_jinja_roles[m->role];
    *v = mst_value_dict(MST_VALUE_DICT, d);

    if (d == NULL
        || mst_template_jinja_put(w, d, "role", mst_str(role, strlen(role)),
                                  MST_TEXT_TEMPLATE) != MST_OK
        || mst_template_jinja_put(w, d, "content", m->content, from)
           != MST_OK
        || (m->name.len
            && mst_template_jinja_put(w, d, "name", m->name, MST_TEXT_VALUE)
               != MST_OK)
        || (m->call_id.len
            && mst_template_jinja_put(w, d, "tool_call_id", m->call_id,
                                      MST_TEXT_VALUE) != MST_OK)
        || mst_template_jinja_thinking(w, m, d) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_template_jinja_calls(w, m, d);
}


static int
mst_template_jinja_messages(mst_work_t *w, const mst_template_chat_t *c,
    mst_dict_t *d)
{
    size_t            i;
    mst_list_t       *list;
    mst_value_t       v;
    mst_text_from_t   from;

    list = mst_list_create(w, c->n);
    if (list == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < c->n; i++) {
        from = c->end == MST_TEMPLATE_CONTINUE && i + 1 == c->n
               ? MST_TEXT_FINAL : MST_TEXT_VALUE;

        if (mst_template_jinja_message(w, &c->messages[i], from, &v) != MST_OK
            || mst_list_add(w, list, v) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return mst_dict_put(w, d, "messages",
                        mst_value_list(MST_VALUE_LIST, list));
}


static int
mst_template_jinja_tools(mst_work_t *w, mst_str_t tools, mst_dict_t *d)
{
    int          rc;
    mst_value_t  v;

    v = mst_value(MST_VALUE_NONE);

    if (tools.len) {
        rc = mst_python_loads(w, tools, &v);

        if (rc != MST_OK) {
            return rc == MST_DECLINED
                   ? mst_err_set(w->err, "the tools are no JSON") : rc;
        }
    }

    return mst_dict_put(w, d, "tools", v);
}


/* what a client sets beside: never what the server says */

static int
mst_template_jinja_own(mst_work_t *w, const mst_template_chat_t *c,
    mst_dict_t *d)
{
    int                rc;
    size_t             i, k;
    mst_str_t          key;
    mst_value_t        v;
    mst_dict_entry_t  *e;

    static const char *const  taken[] = {
        "messages", "tools", "documents", "add_generation_prompt",
        "bos_token", "eos_token"
    };

    if (c->variables.len == 0) {
        return MST_OK;
    }

    rc = mst_python_loads(w, c->variables, &v);

    if (rc == MST_ERROR) {
        return MST_ERROR;
    }

    if (rc != MST_OK || v.type != MST_VALUE_DICT) {
        return mst_err_set(w->err, "chat_template_kwargs is no object");
    }

    for (i = 0; i < v.u.dict->n; i++) {
        e = &v.u.dict->entries[i];
        key = mst_text_str(e->key.u.text);

        for (k = 0; k < sizeof(taken) / sizeof(taken[0]); k++) {

            if (mst_str_eq(key, taken[k])) {
                return mst_err_set(w->err, "chat_template_kwargs sets \"%s\","
                                   " which the server does", taken[k]);
            }
        }

        if (mst_dict_set(w, d, e->key, e->value) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* a token that the vocabulary lacks is no variable, as elsewhere */

static int
mst_template_jinja_token(mst_work_t *w, mst_dict_t *d, const char *name,
    mst_str_t token)
{
    mst_value_t  v;

    if (token.len == 0) {
        return MST_OK;
    }

    return mst_value_str(w, token.data, token.len, MST_TEXT_TEMPLATE, &v)
           == MST_OK ? mst_dict_put(w, d, name, v) : MST_ERROR;
}


static mst_dict_t *
mst_template_jinja_variables(const mst_template_jinja_t *j, mst_work_t *w,
    const mst_template_chat_t *c)
{
    mst_dict_t  *d;

    d = mst_dict_create(w, 8);

    if (d == NULL
        || (c->effort.len
            && mst_template_jinja_put(w, d, "reasoning_effort", c->effort,
                                      MST_TEXT_VALUE) != MST_OK)
        || mst_template_jinja_own(w, c, d) != MST_OK
        || mst_template_jinja_messages(w, c, d) != MST_OK
        || mst_template_jinja_tools(w, c->tools, d) != MST_OK
        || mst_dict_put(w, d, "documents", mst_value(MST_VALUE_NONE))
           != MST_OK
        || mst_dict_put(w, d, "add_generation_prompt",
                        mst_value_bool(c->end == MST_TEMPLATE_ANSWER))
           != MST_OK
        || mst_template_jinja_token(w, d, "bos_token", j->bos) != MST_OK
        || mst_template_jinja_token(w, d, "eos_token", j->eos) != MST_OK)
    {
        return NULL;
    }

    return d;
}


/* bytes of the prompt's own text */

static int
mst_template_jinja_literal(const mst_template_jinja_t *j, mst_prompt_t *out,
    size_t from, size_t end)
{
    size_t    i;
    uint32_t  id;

    for (i = from; i < end; /* void */) {
        id = mst_trie_longest(&j->special, out->text.data + i, end - i);

        if (id == MST_TRIE_NONE) {
            i++;
            continue;
        }

        if (mst_prompt_keep(out, from, i - from) != MST_OK
            || mst_prompt_control(out, id) != MST_OK)
        {
            return MST_ERROR;
        }

        i += mst_vocab_token(j->vocab, id).len;
        from = i;
    }

    return mst_prompt_keep(out, from, end - from);
}


/* the first "size" bytes of the output, which becomes the prompt's text */

static int
mst_template_jinja_spans(const mst_template_jinja_t *j, mst_text_out_t *text,
    size_t size, mst_prompt_t *out)
{
    int     rc;
    size_t  i, from, end;

    mst_prompt_take(out, &text->buf);

    for (i = 0, from = 0; i < text->n && from < size; i++, from = end) {
        end = text->runs[i].end < size ? text->runs[i].end : size;

        rc = text->runs[i].from == MST_TEXT_TEMPLATE
             ? mst_template_jinja_literal(j, out, from, end)
             : mst_prompt_keep(out, from, end - from);

        if (rc != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_template_jinja_run(const mst_template_jinja_t *j,
    const mst_template_chat_t *c, mst_text_out_t *text, mst_err_t *err)
{
    int                   rc;
    size_t                i, k, size;
    mst_dict_t           *d;
    mst_work_t            w;
    const mst_message_t  *m;

    size = c->tools.len + c->variables.len;

    for (i = 0; i < c->n; i++) {
        m = &c->messages[i];
        size += m->content.len + m->thinking.len + sizeof(mst_message_t);

        for (k = 0; k < m->n_calls; k++) {
            size += m->calls[k].arguments.len + sizeof(mst_call_t);
        }
    }

    mst_work_init(&w, MST_JINJA_MEMORY + MST_TEMPLATE_JINJA_FACTOR * size,
                  MST_JINJA_STEPS, err);

    d = mst_template_jinja_variables(j, &w, c);
    rc = d ? mst_jinja_render(j->jinja, &w, d, time(NULL), text) : MST_ERROR;

    mst_work_fini(&w);

    return rc;
}


/* the bytes of the output before and with the last message's, 0: it is not
   there */

static size_t
mst_template_jinja_final(const mst_text_out_t *text, size_t *start)
{
    size_t  i;

    for (i = text->n; i > 0; i--) {

        if (text->runs[i - 1].from == MST_TEXT_FINAL) {
            *start = i > 1 ? text->runs[i - 2].end : 0;
            return text->runs[i - 1].end;
        }
    }

    return 0;
}


/*
 * The output ends where the last message does.  One of which nothing shows,
 * since it is empty or all white space, is rendered once more as something
 * else: the output ends where that begins.
 */

static int
mst_template_jinja_continue(const mst_template_jinja_t *j,
    const mst_template_chat_t *c, mst_text_out_t *text, size_t *size,
    mst_err_t *err)
{
    int                   rc;
    size_t                i, start;
    mst_text_t            last;
    mst_message_t        *copy;
    mst_template_chat_t   again;

    *size = mst_template_jinja_final(text, &start);

    if (*size) {
        return MST_OK;
    }

    last.data = c->messages[c->n - 1].content.data;
    last.len = c->messages[c->n - 1].content.len;

    for (i = 0; i < last.len; i += mst_text_char(&last, i)) {

        if (!mst_text_is_space(mst_text_decode(last.data + i, last.data
                                               + last.len, &start)))
        {
            return mst_err_set(err, "the chat template does not show the "
                               "last message, so it cannot be continued");
        }
    }

    copy = mst_alloc(c->n * sizeof(mst_message_t));
    if (copy == NULL) {
        return MST_ERROR;
    }

    memcpy(copy, c->messages, c->n * sizeof(mst_message_t));
    copy[c->n - 1].content = mst_str("x", 1);

    again = *c;
    again.messages = copy;

    mst_text_out_fini(text);
    rc = mst_template_jinja_run(j, &again, text, err);
    mst_free(copy);

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    return mst_template_jinja_final(text, size) ? MST_OK
           : mst_err_set(err, "the chat template does not show the last "
                         "message, so it cannot be continued");
}


int
mst_template_jinja_render(const mst_template_jinja_t *j,
    const mst_template_chat_t *c, mst_prompt_t *out, mst_err_t *err)
{
    int             rc;
    size_t          size;
    mst_text_out_t  text;

    mst_text_out_init(&text);

    rc = mst_template_jinja_run(j, c, &text, err);
    size = text.buf.len;

    if (rc == MST_OK && c->end == MST_TEMPLATE_CONTINUE) {
        rc = mst_template_jinja_continue(j, c, &text, &size, err);
    }

    if (rc == MST_OK) {
        rc = mst_template_jinja_spans(j, &text, size, out);
    }

    mst_text_out_fini(&text);

    return rc;
}
