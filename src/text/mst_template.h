
/*
 * Chat messages to a prompt.  A model of Mistral's own files has a format of
 * that name (mst_mistral.h).  The template that another carries is a program
 * (mst_jinja.h) and is run; one that cannot be is refused with one sentence
 * when the configuration is read.
 *
 * Control tokens come from the template alone: its own text is searched for
 * their spellings, and what a message says is plain text whatever it spells.
 * The template owns the token that begins a text, too: none is put before
 * what it wrote.  Immutable after it was created.
 */

#ifndef MST_TEMPLATE_H
#define MST_TEMPLATE_H

#include <stddef.h>

#include "base/mst_err.h"
#include "base/mst_message.h"
#include "file/mst_gguf.h"
#include "text/mst_prompt.h"
#include "text/mst_tokenizer_dir.h"
#include "text/mst_toolmark.h"


typedef struct mst_template_s  mst_template_t;


/* the template of a model file */
mst_template_t *mst_template_create_gguf(const mst_gguf_t *g,
    const mst_tokenizer_t *t, mst_err_t *err);

/*
 * The template of a checkpoint's directory, whose tokenizer d still has; name
 * stands before sentences.  MST_DECLINED: there is none, which is no error,
 * and *t is NULL.
 */
int mst_template_create_dir(const mst_tokenizer_dir_t *d, const char *name,
    mst_template_t **t, mst_err_t *err);

/*
 * The text of one, or the name of one of Mistral's formats, "mistral-v7" or
 * "mistral-v7-tekken"; name stands before sentences.
 */
mst_template_t *mst_template_create_text(mst_str_t text,
    const mst_tokenizer_t *t, const char *name, mst_err_t *err);

/* the null model's: "role: content\n" per message, then "assistant: " */
mst_template_t *mst_template_create_plain(mst_err_t *err);

void mst_template_destroy(mst_template_t *t);  /* t may be NULL */

/* its kind, as far as its text shows: "ChatML", "Llama 3" */
const char *mst_template_name(const mst_template_t *t);

/* the template's own text has this in it */
int mst_template_mentions(const mst_template_t *t, const char *text);

/*
 * The spans of the whole chat, the opening of the assistant's turn included,
 * into a prompt that is empty.  n >= 1.  MST_ERROR with a sentence that the
 * client may read, or without text: memory.
 */
int mst_template_render(const mst_template_t *t, const mst_message_t *m,
    size_t n, mst_prompt_t *out, mst_err_t *err);


/* what stands behind the last message */
typedef enum {
    MST_TEMPLATE_ANSWER,       /* the opening of the assistant's turn */
    MST_TEMPLATE_CONTINUE,     /* nothing, the last message's own end neither:
                                  it is the assistant's and goes on */
    MST_TEMPLATE_CLOSED        /* nothing */
} mst_template_end_t;

int mst_template_render_as(const mst_template_t *t, const mst_message_t *m,
    size_t n, mst_template_end_t end, mst_prompt_t *out, mst_err_t *err);


/* a chat with what stands beside its messages; strings of length 0: none */
typedef struct {
    const mst_message_t  *messages;    /* [n] */
    size_t                n;
    mst_template_end_t    end;
    mst_str_t             tools;       /* a JSON list in OpenAI's form */
    mst_str_t             variables;   /* a JSON object: a program's own */
    mst_str_t             effort;      /* reasoning_effort */
} mst_template_chat_t;

int mst_template_render_chat(const mst_template_t *t,
    const mst_template_chat_t *c, mst_prompt_t *out, mst_err_t *err);

/* tools are shown to the model */
int mst_template_shows_tools(const mst_template_t *t);

/* how a model with this template, which may be NULL, calls them */
void mst_template_marks(const mst_template_t *t, const mst_tokenizer_t *vocab,
    mst_toolmark_t *m);


#endif /* MST_TEMPLATE_H */
