
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


/* a name of a role is one of ours, whoever sent it */

static int
mst_template_jinja_message(mst_work_t *w, const mst_message_t *m,
    mst_text_from_t from, mst_value_t *v)
{
    mst_dict_t   *d;
    const char   *role;
    mst_value_t   text;

    d = mst_dict_create(w, 4);
    role = mst_template_jinja_roles[m->role];
    *v = mst_value_dict(MST_VALUE_DICT, d);

    if (d == NULL
        || mst_value_str(w, role, strlen(role), MST_TEXT_TEMPLATE, &text)
           != MST_OK
        || mst_dict_put(w, d, "role", text) != MST_OK
        || mst_value_str(w, m->content.data, m->content.len, from, &text)
           != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_dict_put(w, d, "content", text);
}


static int
mst_template_jinja_messages(mst_work_t *w, const mst_message_t *m, size_t n,
    mst_template_end_t end, mst_dict_t *d)
{
    size_t            i;
    mst_list_t       *list;
    mst_value_t       v;
    mst_text_from_t   from;

    list = mst_list_create(w, n);
    if (list == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        from = end == MST_TEMPLATE_CONTINUE && i + 1 == n ? MST_TEXT_FINAL
                                                          : MST_TEXT_VALUE;

        if (mst_template_jinja_message(w, &m[i], from, &v) != MST_OK
            || mst_list_add(w, list, v) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return mst_dict_put(w, d, "messages",
                        mst_value_list(MST_VALUE_LIST, list));
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
    const mst_message_t *m, size_t n, mst_template_end_t end)
{
    mst_dict_t  *d;

    d = mst_dict_create(w, 8);

    if (d == NULL
        || mst_template_jinja_messages(w, m, n, end, d) != MST_OK
        || mst_dict_put(w, d, "tools", mst_value(MST_VALUE_NONE)) != MST_OK
        || mst_dict_put(w, d, "documents", mst_value(MST_VALUE_NONE))
           != MST_OK
        || mst_dict_put(w, d, "add_generation_prompt",
                        mst_value_bool(end == MST_TEMPLATE_ANSWER)) != MST_OK
        || mst_template_jinja_token(w, d, "bos_token", j->bos) != MST_OK
        || mst_template_jinja_token(w, d, "eos_token", j->eos) != MST_OK)
    {
        return NULL;
    }

    return d;
}


static int
mst_template_jinja_literal(const mst_template_jinja_t *j, const char *data,
    size_t len, mst_prompt_t *out)
{
    size_t    i, from;
    uint32_t  id;

    for (i = 0, from = 0; i < len; /* void */) {
        id = mst_trie_longest(&j->special, data + i, len - i);

        if (id == MST_TRIE_NONE) {
            i++;
            continue;
        }

        if (mst_prompt_text(out, data + from, i - from) != MST_OK
            || mst_prompt_control(out, id) != MST_OK)
        {
            return MST_ERROR;
        }

        i += mst_vocab_token(j->vocab, id).len;
        from = i;
    }

    return mst_prompt_text(out, data + from, len - from);
}


/* the first "size" bytes of the output */

static int
mst_template_jinja_spans(const mst_template_jinja_t *j,
    const mst_text_out_t *text, size_t size, mst_prompt_t *out)
{
    int     rc;
    size_t  i, from, end;

    for (i = 0, from = 0; i < text->n && from < size; i++, from = end) {
        end = text->runs[i].end < size ? text->runs[i].end : size;

        rc = text->runs[i].from == MST_TEXT_TEMPLATE
             ? mst_template_jinja_literal(j, text->buf.data + from,
                                          end - from, out)
             : mst_prompt_text(out, text->buf.data + from, end - from);

        if (rc != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_template_jinja_run(const mst_template_jinja_t *j, const mst_message_t *m,
    size_t n, mst_template_end_t end, mst_text_out_t *text, mst_err_t *err)
{
    int          rc;
    size_t       i, size;
    mst_dict_t  *d;
    mst_work_t   w;

    for (i = 0, size = 0; i < n; i++) {
        size += m[i].content.len + sizeof(mst_message_t);
    }

    mst_work_init(&w, MST_JINJA_MEMORY + MST_TEMPLATE_JINJA_FACTOR * size,
                  MST_JINJA_STEPS, err);

    d = mst_template_jinja_variables(j, &w, m, n, end);
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
    const mst_message_t *m, size_t n, mst_text_out_t *text, size_t *size,
    mst_err_t *err)
{
    int             rc;
    size_t          i, start;
    mst_text_t      last;
    mst_message_t  *copy;

    *size = mst_template_jinja_final(text, &start);

    if (*size) {
        return MST_OK;
    }

    last.data = m[n - 1].content.data;
    last.len = m[n - 1].content.len;

    for (i = 0; i < last.len; i += mst_text_char(&last, i)) {

        if (!mst_text_is_space(mst_text_decode(last.data + i, last.data
                                               + last.len, &start)))
        {
            return mst_err_set(err, "the chat template does not show the "
                               "last message, so it cannot be continued");
        }
    }

    copy = mst_alloc(n * sizeof(mst_message_t));
    if (copy == NULL) {
        return MST_ERROR;
    }

    memcpy(copy, m, n * sizeof(mst_message_t));
    copy[n - 1].content = mst_str("x", 1);

    mst_text_out_fini(text);
    rc = mst_template_jinja_run(j, copy, n, MST_TEMPLATE_CONTINUE, text, err);
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
    const mst_message_t *m, size_t n, mst_template_end_t end,
    mst_prompt_t *out, mst_err_t *err)
{
    int             rc;
    size_t          size;
    mst_text_out_t  text;

    mst_text_out_init(&text);

    rc = mst_template_jinja_run(j, m, n, end, &text, err);
    size = text.buf.len;

    if (rc == MST_OK && end == MST_TEMPLATE_CONTINUE) {
        rc = mst_template_jinja_continue(j, m, n, &text, &size, err);
    }

    if (rc == MST_OK) {
        rc = mst_template_jinja_spans(j, &text, size, out);
    }

    mst_text_out_fini(&text);

    return rc;
}
