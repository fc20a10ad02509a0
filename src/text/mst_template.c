
/*
 * Chat templates: see mst_template.h.
 *
 * A model file carries its template as a program (Jinja).  It is not run:
 * each one known here has a function that does the same, and the text in
 * the file says which.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_template.h"


#define MST_TEMPLATE_KEY  "tokenizer.chat_template"

typedef int (*mst_template_pt)(const mst_template_t *t,
    const mst_message_t *m, size_t n, mst_template_end_t end,
    mst_prompt_t *out);


struct mst_template_s {
    const char       *name;
    mst_template_pt   render;
    uint32_t          im_start;    /* ids of ChatML's control tokens */
    uint32_t          im_end;
};


static const char *const  mst_template_roles[] = {
    "system", "user", "assistant", "tool"      /* in mst_role_t's order */
};


static const char  mst_template_smollm2[] =
    "{% for message in messages %}"
    "{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}"
    "{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n'}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}"
    "{% endif %}";

static const mst_str_t  mst_template_smollm2_system =
    mst_string("You are a helpful AI assistant named SmolLM, trained by "
               "Hugging Face");


static int
mst_template_literal(mst_prompt_t *out, const char *text)
{
    return mst_prompt_text(out, text, strlen(text));
}


/* "<|im_start|>ROLE\nCONTENT" */

static int
mst_template_chatml_open(const mst_template_t *t, mst_role_t role,
    mst_str_t content, mst_prompt_t *out)
{
    if (mst_prompt_control(out, t->im_start) != MST_OK
        || mst_template_literal(out, mst_template_roles[role]) != MST_OK
        || mst_template_literal(out, "\n") != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_prompt_text(out, content.data, content.len);
}


/* "<|im_start|>ROLE\nCONTENT<|im_end|>\n" */

static int
mst_template_chatml_turn(const mst_template_t *t, mst_role_t role,
    mst_str_t content, mst_prompt_t *out)
{
    if (mst_template_chatml_open(t, role, content, out) != MST_OK
        || mst_prompt_control(out, t->im_end) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_template_literal(out, "\n");
}


static int
mst_template_chatml(const mst_template_t *t, const mst_message_t *m,
    size_t n, mst_template_end_t end, mst_prompt_t *out)
{
    size_t  i, whole;

    if (m[0].role != MST_ROLE_SYSTEM
        && mst_template_chatml_turn(t, MST_ROLE_SYSTEM,
                                    mst_template_smollm2_system, out)
           != MST_OK)
    {
        return MST_ERROR;
    }

    whole = end == MST_TEMPLATE_CONTINUE ? n - 1 : n;

    for (i = 0; i < whole; i++) {

        if (mst_template_chatml_turn(t, m[i].role, m[i].content, out)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    switch (end) {

    case MST_TEMPLATE_ANSWER:
        return mst_template_chatml_open(t, MST_ROLE_ASSISTANT,
                                        mst_str("", 0), out);

    case MST_TEMPLATE_CONTINUE:
        return mst_template_chatml_open(t, MST_ROLE_ASSISTANT,
                                        m[whole].content, out);

    default:
        return MST_OK;
    }
}


static int
mst_template_plain(const mst_template_t *t, const mst_message_t *m,
    size_t n, mst_template_end_t end, mst_prompt_t *out)
{
    size_t  i;

    (void) t;

    for (i = 0; i < n; i++) {

        if (mst_template_literal(out, mst_template_roles[m[i].role])
            != MST_OK
            || mst_template_literal(out, ": ") != MST_OK
            || mst_prompt_text(out, m[i].content.data, m[i].content.len)
               != MST_OK)
        {
            return MST_ERROR;
        }

        if ((i + 1 < n || end != MST_TEMPLATE_CONTINUE)
            && mst_template_literal(out, "\n") != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return end == MST_TEMPLATE_ANSWER
           ? mst_template_literal(out, "assistant: ") : MST_OK;
}


int
mst_template_render(const mst_template_t *t, const mst_message_t *m,
    size_t n, mst_prompt_t *out, mst_err_t *err)
{
    return mst_template_render_as(t, m, n, MST_TEMPLATE_ANSWER, out, err);
}


int
mst_template_render_as(const mst_template_t *t, const mst_message_t *m,
    size_t n, mst_template_end_t end, mst_prompt_t *out, mst_err_t *err)
{
    size_t  i;

    if (n == 0) {
        return mst_err_set(err, "a chat needs at least one message");
    }

    for (i = 0; i < n; i++) {

        if ((unsigned) m[i].role > MST_ROLE_TOOL) {
            return mst_err_set(err, "message %zu has role number %u, which "
                               "does not exist", i, (unsigned) m[i].role);
        }
    }

    if (end == MST_TEMPLATE_CONTINUE && m[n - 1].role != MST_ROLE_ASSISTANT) {
        return mst_err_set(err, "only a last message of the assistant can be "
                           "continued");
    }

    return t->render(t, m, n, end, out);
}


static mst_template_t *
mst_template_create(const char *name, mst_template_pt render, mst_err_t *err)
{
    mst_template_t  *t;

    t = mst_calloc(1, sizeof(mst_template_t));
    if (t == NULL) {
        (void) mst_err_set(err, "no memory for a chat template");
        return NULL;
    }

    t->name = name;
    t->render = render;

    return t;
}


/* key stands in sentences: what holds the template */

static int
mst_template_token(const mst_tokenizer_t *tokenizer, const char *key,
    const char *name, uint32_t *id, mst_err_t *err)
{
    int64_t  found;

    found = mst_tokenizer_control(tokenizer, name);

    if (found < 0) {
        return mst_err_set(err, "%s needs the control token \"%s\", which the "
                           "vocabulary lacks", key, name);
    }

    *id = (uint32_t) found;

    return MST_OK;
}


/* the place where the file's text leaves the known one */

static size_t
mst_template_same(mst_str_t s, const char *known)
{
    size_t  i;

    for (i = 0; i < s.len && known[i] && s.data[i] == known[i]; i++) {
        /* void */
    }

    return i;
}


static mst_template_t *
mst_template_create_text(mst_str_t s, const mst_tokenizer_t *tokenizer,
    const char *key, mst_err_t *err)
{
    mst_template_t  *t;

    if (!mst_str_eq(s, mst_template_smollm2)) {
        (void) mst_err_set(err, "%s (%zu bytes) is unknown: supported is that "
                           "of SmolLM2, from which it differs at byte %zu",
                           key, s.len,
                           mst_template_same(s, mst_template_smollm2));
        return NULL;
    }

    t = mst_template_create("ChatML (SmolLM2)", mst_template_chatml, err);

    if (t == NULL
        || mst_template_token(tokenizer, key, "<|im_start|>", &t->im_start,
                              err) != MST_OK
        || mst_template_token(tokenizer, key, "<|im_end|>", &t->im_end, err)
           != MST_OK)
    {
        mst_template_destroy(t);
        return NULL;
    }

    return t;
}


mst_template_t *
mst_template_create_gguf(const mst_gguf_t *g,
    const mst_tokenizer_t *tokenizer, mst_err_t *err)
{
    int              rc;
    mst_err_t        why;
    mst_str_t        s;
    mst_template_t  *t;

    rc = mst_gguf_string(g, MST_TEMPLATE_KEY, &s, err);

    if (rc == MST_DECLINED) {
        (void) mst_gguf_error(g, err, MST_TEMPLATE_KEY " is missing: the "
                              "model has no chat template");
    }

    if (rc != MST_OK) {
        return NULL;
    }

    why.text[0] = '\0';
    t = mst_template_create_text(s, tokenizer, MST_TEMPLATE_KEY, &why);

    if (t == NULL) {
        (void) mst_gguf_error(g, err, "%s", why.text);
    }

    return t;
}


int
mst_template_create_dir(const mst_tokenizer_dir_t *d, const char *name,
    mst_template_t **t, mst_err_t *err)
{
    mst_err_t  why;

    *t = NULL;

    if (d->version) {
        return mst_err_set(err, "%s: chats in Mistral's format of version %u "
                           "are not supported yet", name, d->version);
    }

    if (d->chat == NULL) {
        return MST_DECLINED;
    }

    why.text[0] = '\0';
    *t = mst_template_create_text(mst_str(d->chat, strlen(d->chat)),
                                  d->tokenizer, "its chat template", &why);

    return *t ? MST_OK : mst_err_set(err, "%s: %s", name, why.text);
}


mst_template_t *
mst_template_create_plain(mst_err_t *err)
{
    return mst_template_create("plain", mst_template_plain, err);
}


void
mst_template_destroy(mst_template_t *t)
{
    mst_free(t);
}


const char *
mst_template_name(const mst_template_t *t)
{
    return t->name;
}
