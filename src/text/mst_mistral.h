
/*
 * Chats in Mistral's own formats, by version: 1, 2, 3 and 7 of SentencePiece
 * models and of tekken.json, 11, 13 and 15 of the latter.
 *
 * A chat is checked as Mistral's library checks what it serves, with its
 * sentences; neighbours of one role become one turn; then control tokens are
 * put down by id and every text between them is encoded by itself.  Nothing
 * is ever parsed from text, so nothing can be injected (in version 1, which
 * has no control tokens but the ends of answers, "[INST]" is text).
 *
 * Immutable after it was made.
 */

#ifndef MST_MISTRAL_H
#define MST_MISTRAL_H

#include "text/mst_template.h"
#include "text/mst_text.h"
#include "text/mst_value.h"
#include "text/mst_work.h"


typedef enum {
    MST_MISTRAL_BOS,
    MST_MISTRAL_EOS,
    MST_MISTRAL_INST,
    MST_MISTRAL_INST_END,
    MST_MISTRAL_CALLS,
    MST_MISTRAL_TOOLS,
    MST_MISTRAL_TOOLS_END,
    MST_MISTRAL_RESULTS,
    MST_MISTRAL_RESULTS_END,
    MST_MISTRAL_SYSTEM,
    MST_MISTRAL_SYSTEM_END,
    MST_MISTRAL_CONTENT,
    MST_MISTRAL_CALL_ID,
    MST_MISTRAL_ARGS,
    MST_MISTRAL_THINK,
    MST_MISTRAL_THINK_END,
    MST_MISTRAL_SETTINGS,
    MST_MISTRAL_SETTINGS_END,
    MST_MISTRAL_TOKENS
} mst_mistral_token_t;


typedef struct {
    uint32_t  version;
    int64_t   ids[MST_MISTRAL_TOKENS];     /* -1: not of this version */
    uint32_t  efforts;         /* bits of mst_mistral_effort()'s numbers that
                                  the model knows; 0: it has no setting */
    int       effort;          /* where none is given */
} mst_mistral_t;


/* one piece of a turn: text, or a thought */
typedef struct {
    int          thinking;
    int          open;
    mst_text_t  *text;
} mst_mistral_chunk_t;

typedef struct {
    mst_role_t            role;
    mst_mistral_chunk_t  *chunks;      /* [n_chunks]; empty texts are none */
    size_t                n_chunks;
    mst_call_t           *calls;       /* [n_calls] */
    size_t                n_calls;
    mst_str_t             call_id;     /* of a result */
    mst_str_t             name;        /* of a result */
    int                   prefix;      /* goes on: no end of sequence */
} mst_mistral_turn_t;

typedef struct {
    mst_mistral_turn_t  *turns;        /* [n] */
    size_t               n;
    mst_text_t          *system;       /* before version 7; NULL: none */
    size_t               first_user;   /* n: none */
    size_t               last_user;
} mst_mistral_turns_t;


/* MST_ERROR with a sentence: no such version, or a token is missing */
int mst_mistral_init(mst_mistral_t *f, uint32_t version,
    const mst_tokenizer_t *t, mst_err_t *err);

int mst_mistral_render(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_prompt_t *out, mst_err_t *err);

/* "none", "minimal", ... as 0, 1, ...; -1: no such effort */
int mst_mistral_effort(mst_str_t name);
const char *mst_mistral_effort_name(int effort);

/* mst_mistral_check.c */

int mst_mistral_check(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_err_t *err);

/* the id as the format has it: before version 13 the last nine letters */
mst_str_t mst_mistral_call_id(const mst_mistral_t *f, mst_str_t id);

/* mst_mistral_turns.c: turns in w's memory, of messages that were checked */

int mst_mistral_turns(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_work_t *w, mst_mistral_turns_t *turns);

/* mst_mistral_json.c: values in w's memory */

/* what is JSON as its value, else as a string; nothing is {} */
int mst_mistral_json_value(mst_work_t *w, mst_str_t s, mst_value_t *v);

/* the fields of each tool that are shown, in the order of the library */
int mst_mistral_json_tools(mst_work_t *w, mst_str_t tools, mst_value_t *v);

/* {"reasoning_effort": ...} */
int mst_mistral_json_settings(mst_work_t *w, int effort, mst_value_t *v);

/* versions 2 to 7: [{"name": ..., "arguments": ...}], from 3 on with an id */
int mst_mistral_json_calls(const mst_mistral_t *f, mst_work_t *w,
    const mst_mistral_turn_t *turn, mst_value_t *v);

/* version 2: [{"name": ..., "content": ...}], version 3: {"content": ...,
   "call_id": ...} */
int mst_mistral_json_result(const mst_mistral_t *f, mst_work_t *w,
    const mst_mistral_turn_t *turn, mst_str_t content, mst_value_t *v);

/* mst_mistral_write.c */

int mst_mistral_write(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_work_t *w, const mst_mistral_turns_t *turns, mst_prompt_t *out);


#endif /* MST_MISTRAL_H */
