
/*
 * What a vocabulary has for calls of tools: the control tokens around them,
 * their ids and names, and how an answer is made to begin with one.  The
 * forms themselves: mst_toolcall.h.
 */

#ifndef MST_TOOLMARK_H
#define MST_TOOLMARK_H

#include <stdint.h>

#include "base/mst_str.h"
#include "text/mst_prompt.h"
#include "text/mst_tokenizer.h"


#define MST_TOOLMARK_ID    9                   /* characters of a call's id */
#define MST_TOOLMARK_NAME  64                  /* of a name, at most */

#define MST_TOOLMARK_TAG      "<tool_call>"
#define MST_TOOLMARK_TAG_END  "</tool_call>"
#define MST_TOOLMARK_PYTHON   "<|python_tag|>"


/* what a template's own text names decides, never the name of a model */
typedef enum {
    MST_TOOLMARK_BRACKETS,     /* [TOOL_CALLS], where the vocabulary has it */
    MST_TOOLMARK_TAGS,         /* <tool_call> object </tool_call> */
    MST_TOOLMARK_BARE          /* an object on a line of its own, or behind
                                  <|python_tag|> */
} mst_toolmark_form_t;


/* control tokens of a vocabulary, -1: it has none */
typedef struct {
    int64_t  calls;            /* [TOOL_CALLS] */
    int64_t  id;               /* [CALL_ID] */
    int64_t  arguments;        /* [ARGS] */
    int64_t  think;            /* [THINK] */
    int64_t  think_end;        /* [/THINK] */
    int64_t  tag;              /* <tool_call>, <|python_tag|> */
    int      ids;              /* calls that are forced have one */
    int      form;             /* mst_toolmark_form_t */
} mst_toolmark_t;


/* the form that the text of a template names; text may be NULL */
mst_toolmark_form_t mst_toolmark_form(const char *text);

void mst_toolmark_find(mst_toolmark_t *m, const mst_tokenizer_t *t,
    mst_toolmark_form_t form);

/* calls can be told at all */
static inline int
mst_toolmark_can(const mst_toolmark_t *m)
{
    return m->calls >= 0 || m->form != MST_TOOLMARK_BRACKETS;
}

/* none of them from here on; thoughts are told all the same */
void mst_toolmark_drop(mst_toolmark_t *m);

/* the form in words, for people */
const char *mst_toolmark_name(const mst_toolmark_t *m);

/* ids of 9 letters and digits, the same for the same seed and n; with NUL */
void mst_toolmark_id(uint64_t seed, uint32_t n, char id[MST_TOOLMARK_ID + 1]);

int mst_toolmark_is_alnum(char c);

/* [a-zA-Z0-9_-]{1,64} */
int mst_toolmark_is_name(mst_str_t name);

/*
 * Appends the beginning of a call to a prompt, so that the answer is one: of
 * "name", or of any tool where its length is 0.  MST_OK, MST_ERROR: memory,
 * MST_DECLINED: this model's calls are not known.
 */
int mst_toolmark_force(const mst_toolmark_t *m, mst_str_t name,
    const char *id, mst_prompt_t *prompt);


#endif /* MST_TOOLMARK_H */
