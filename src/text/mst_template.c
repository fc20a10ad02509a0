
/*
 * Chat templates: see mst_template.h.
 */

#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_mistral.h"
#include "text/mst_template.h"
#include "text/mst_template_jinja.h"


#define MST_TEMPLATE_KEY  "tokenizer.chat_template"


struct mst_template_s {
    const char            *name;
    char                  *source;     /* of a program, with NUL; or NULL */
    mst_template_jinja_t   jinja;      /* where source is there */
    mst_mistral_t          mistral;    /* where its version is not 0 */
};


/* what names a template's kind, the surest first */

static const struct {
    const char  *mark;
    const char  *name;
} mst_template_kinds[] = {
    { "named SmolLM, trained by", "ChatML (SmolLM2)" },
    { "<|im_start|>", "ChatML" },
    { "<|start_header_id|>", "Llama 3" },
    { "<<SYS>>", "Llama 2" },
    { "[MODEL_SETTINGS]", "Mistral v15" },
    { "[THINK]", "Mistral v13" },
    { "[SYSTEM_PROMPT]", "Mistral v7" },
    { "[AVAILABLE_TOOLS]", "Mistral v3" },
    { "[INST]", "Mistral v1" },
    { "<|user|>", "Zephyr" },
    { "<start_of_turn>", "Gemma" }
};

static const char *const  mst_template_roles[] = {
    "system", "user", "assistant", "tool"      /* in mst_role_t's order */
};


static int
mst_template_literal(mst_prompt_t *out, const char *text)
{
    return mst_prompt_text(out, text, strlen(text));
}


static int
mst_template_plain(const mst_message_t *m, size_t n, mst_template_end_t end,
    mst_prompt_t *out)
{
    size_t  i;

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
    mst_template_chat_t  c;

    memset(&c, 0, sizeof(mst_template_chat_t));

    c.messages = m;
    c.n = n;
    c.end = end;

    return mst_template_render_chat(t, &c, out, err);
}


int
mst_template_render_chat(const mst_template_t *t,
    const mst_template_chat_t *c, mst_prompt_t *out, mst_err_t *err)
{
    size_t  i;

    if (c->n == 0) {
        return mst_err_set(err, "a chat needs at least one message");
    }

    for (i = 0; i < c->n; i++) {

        if ((unsigned) c->messages[i].role > MST_ROLE_TOOL) {
            return mst_err_set(err, "message %zu has role number %u, which "
                               "does not exist", i,
                               (unsigned) c->messages[i].role);
        }
    }

    if (c->end == MST_TEMPLATE_CONTINUE
        && c->messages[c->n - 1].role != MST_ROLE_ASSISTANT)
    {
        return mst_err_set(err, "only a last message of the assistant can be "
                           "continued");
    }

    if (t->mistral.version) {
        return mst_mistral_render(&t->mistral, c, out, err);
    }

    return t->source ? mst_template_jinja_render(&t->jinja, c, out, err)
                     : mst_template_plain(c->messages, c->n, c->end, out);
}


int
mst_template_shows_tools(const mst_template_t *t)
{
    return t->mistral.version >= 2 || mst_template_mentions(t, "tools");
}


void
mst_template_marks(const mst_template_t *t, const mst_tokenizer_t *vocab,
    mst_toolmark_t *m)
{
    mst_toolmark_find(m, vocab, mst_toolmark_form(t ? t->source : NULL));
}


static mst_template_t *
mst_template_create(const char *name, mst_err_t *err)
{
    mst_template_t  *t;

    t = mst_calloc(1, sizeof(mst_template_t));
    if (t == NULL) {
        (void) mst_err_set(err, "no memory for a chat template");
        return NULL;
    }

    t->name = name;

    return t;
}


static const char *
mst_template_kind(const mst_template_t *t)
{
    size_t  i;

    for (i = 0; i < sizeof(mst_template_kinds)
                    / sizeof(mst_template_kinds[0]); i++)
    {
        if (mst_template_mentions(t, mst_template_kinds[i].mark)) {
            return mst_template_kinds[i].name;
        }
    }

    return "Jinja";
}


static int
mst_template_mistral(mst_template_t *t, uint32_t version,
    const mst_tokenizer_t *tokenizer, mst_err_t *err)
{
    size_t  i;

    static const char *const  names[] = {
        "Mistral v1", "Mistral v2", "Mistral v3", "Mistral v7", "Mistral v11",
        "Mistral v13", "Mistral v15"
    };

    if (mst_mistral_init(&t->mistral, version, tokenizer, err) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {

        if (strtoul(names[i] + sizeof("Mistral v") - 1, NULL, 10)
            == version)
        {
            t->name = names[i];
        }
    }

    return MST_OK;
}


/* "mistral-v3" and "mistral-v3-tekken": some files carry no more; 0: no */

static uint32_t
mst_template_version(const char *name)
{
    char           *end;
    unsigned long   version;

    if (strncmp(name, "mistral-v", 9) != 0 || name[9] < '0' || name[9] > '9')
    {
        return 0;
    }

    version = strtoul(name + 9, &end, 10);

    return version <= 99 && (*end == '\0' || strcmp(end, "-tekken") == 0)
           ? (uint32_t) version : 0;
}


static int
mst_template_read(mst_template_t *t, mst_str_t text,
    const mst_tokenizer_t *tokenizer, mst_err_t *err)
{
    uint32_t  version;

    t->source = mst_alloc(text.len + 1);
    if (t->source == NULL) {
        return MST_ERROR;
    }

    if (text.len) {
        memcpy(t->source, text.data, text.len);
    }

    t->source[text.len] = '\0';

    version = mst_template_version(t->source);

    if (version) {
        mst_free(t->source);
        t->source = NULL;

        return mst_template_mistral(t, version, tokenizer, err);
    }

    if (!mst_template_mentions(t, "{{") && !mst_template_mentions(t, "{%")) {
        return mst_err_set(err, "it says the same whatever the chat: there "
                           "is neither \"{{\" nor \"{%%\" in it");
    }

    t->name = mst_template_kind(t);

    return mst_template_jinja_init(&t->jinja, text, tokenizer, err);
}


mst_template_t *
mst_template_create_text(mst_str_t text, const mst_tokenizer_t *tokenizer,
    const char *name, mst_err_t *err)
{
    mst_err_t        why;
    mst_template_t  *t;

    t = mst_template_create("Jinja", err);
    if (t == NULL) {
        return NULL;
    }

    why.text[0] = '\0';

    if (mst_template_read(t, text, tokenizer, &why) != MST_OK) {
        mst_template_destroy(t);
        (void) mst_err_set(err, "%s: %s", name, why.text[0] ? why.text
                           : "no memory for a chat template");
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

    why.text[0] = '\0';

    if (d->version && !(d->guessed && d->chat)) {
        *t = mst_template_create("Mistral", &why);

        if (*t && mst_template_mistral(*t, d->version, d->tokenizer, &why)
                  != MST_OK)
        {
            mst_template_destroy(*t);
            *t = NULL;
        }

        return *t ? MST_OK : mst_err_set(err, "%s: %s", name, why.text);
    }

    if (d->chat == NULL) {
        return MST_DECLINED;
    }

    *t = mst_template_create_text(mst_str(d->chat, strlen(d->chat)),
                                  d->tokenizer, "its chat template", &why);

    return *t ? MST_OK : mst_err_set(err, "%s: %s", name, why.text);
}


mst_template_t *
mst_template_create_plain(mst_err_t *err)
{
    return mst_template_create("plain", err);
}


void
mst_template_destroy(mst_template_t *t)
{
    if (t) {
        mst_template_jinja_fini(&t->jinja);
        mst_free(t->source);
        mst_free(t);
    }
}


const char *
mst_template_name(const mst_template_t *t)
{
    return t->name;
}


int
mst_template_mentions(const mst_template_t *t, const char *text)
{
    return t->source && strstr(t->source, text) != NULL;
}
