
/*
 * What a model writes, told apart while it comes: text, thoughts, and calls
 * of tools.
 *
 *   [TOOL_CALLS] [{"name": "f", "arguments": {...}}, ...]      v2, v3, v7
 *   [TOOL_CALLS] f [CALL_ID] id [ARGS] {...}  [TOOL_CALLS] ... v11
 *   [TOOL_CALLS] f [ARGS] {...}  [TOOL_CALLS] ...              v13 and later
 *   <tool_call>{"name": "f", "arguments": {...}}</tool_call>   Hermes, Qwen
 *   {"name": "f", "parameters": {...}}; {"name": ...           Llama 3.1
 *   <|python_tag|>{"name": "f", "parameters": {...}}           Llama 3.1
 *   [THINK] ... [/THINK]                                       v13 and later
 *
 * The words in brackets are control tokens and known by their ids alone, so
 * that no text is ever taken for one; "<tool_call>" is text, <|python_tag|>
 * where the vocabulary has no such token.  Which of the first three it is
 * shows in what follows [TOOL_CALLS].
 *
 * A bare object is a call when it begins a line, or follows another one
 * behind ";" or space, has both a name, which one of the tools must have, and
 * arguments, and has no key of another kind: an answer may be JSON, too.
 *
 * What is no call is text, to the last byte.  "whole": a call is told when
 * it is complete, so one that turns out malformed is all text.  Otherwise it
 * is told as soon as its name is certain and its arguments as they come; what
 * makes it malformed, and all behind that, is text, and "broken" says so.
 *
 * A parser belongs to one answer and one thread.
 */

#ifndef MST_TOOLCALL_H
#define MST_TOOLCALL_H

#include "base/mst_buf.h"
#include "base/mst_str.h"
#include "text/mst_json_scan.h"
#include "text/mst_prompt.h"
#include "text/mst_toolmark.h"


/* who listens; each MST_OK or MST_ERROR, which ends everything */
typedef struct {
    int  (*text)(void *data, const char *p, size_t n);
    int  (*thought)(void *data, const char *p, size_t n);

    /* a call begins; then come its arguments, JSON, in pieces */
    int  (*call)(void *data, mst_str_t name, const char *id);
    int  (*arguments)(void *data, const char *p, size_t n);

    /* for the log: what began as a call is none */
    void (*broken)(void *data, const char *why);

    /* has a tool this name?  Asked of bare objects alone. */
    int  (*known)(void *data, mst_str_t name);
} mst_toolcall_sink_t;


typedef struct {
    const mst_toolmark_t        *marks;
    const mst_toolcall_sink_t   *sink;
    void                        *data;     /* the sink's */
    uint64_t                     seed;     /* of the ids */
    int                          whole;    /* calls are told when complete */
    int                          single;   /* one call is enough */

    int                          state;
    int                          named;    /* name [ARGS], not an object */
    int                          list;     /* objects in brackets */
    int                          tagged;   /* an object between tags */
    int                          bare;     /* an object without any mark */
    int                          fresh;    /* only space in this line */
    int                          opened;   /* the sink knows of this call */
    int                          ended;    /* single: it has come */
    uint32_t                     n;        /* calls that the sink knows of */
    uint32_t                     complete; /* of them */
    uint32_t                     matched;  /* bytes of a tag */
    const char                  *bad;      /* why it is none; NULL: it is */
    char                         id[MST_TOOLMARK_ID + 1];
    mst_buf_t                    raw;      /* of this call, not yet told */
    mst_buf_t                    word;     /* a key, a string, a name */
    mst_buf_t                    name;
    mst_buf_t                    args;     /* before the call is told */
    mst_json_scan_t              scan;
} mst_toolcall_t;


/* marks and sink stay the caller's, as they are */
void mst_toolcall_init(mst_toolcall_t *t, const mst_toolmark_t *marks,
    const mst_toolcall_sink_t *sink, void *data);
void mst_toolcall_fini(mst_toolcall_t *t);     /* may be called twice */

/* is id one of the marks?  Then text that is held before it comes first. */
int mst_toolcall_is_mark(const mst_toolcall_t *t, uint32_t id);

/*
 * MST_OK; MST_DONE: one call was enough, nothing more may be pushed;
 * MST_ERROR: memory, or the sink's.
 */
int mst_toolcall_mark(mst_toolcall_t *t, uint32_t id);
int mst_toolcall_text(mst_toolcall_t *t, const char *p, size_t n);

/* what mst_toolmark_force() appended to a prompt, from span "first" on, is
   the beginning of the answer */
int mst_toolcall_prime(mst_toolcall_t *t, const mst_prompt_t *prompt,
    size_t first);

/* the answer ends here */
int mst_toolcall_finish(mst_toolcall_t *t);


#endif /* MST_TOOLCALL_H */
