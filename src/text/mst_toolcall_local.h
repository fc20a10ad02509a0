
/*
 * Inside of mst_toolcall: the states of a parser, which stand in
 * mst_toolcall.c as far as they are text around calls and in
 * mst_toolobject.c where they are a call itself.
 *
 * A state is a function that takes some bytes of the text: those that are
 * its own, none where only the state changes.  Every change without a byte
 * goes forward, so that each byte costs a few steps at most.  *rc is MST_OK
 * before it; t->bad is set where the call turns out to be none.
 */

#ifndef MST_TOOLCALL_LOCAL_H
#define MST_TOOLCALL_LOCAL_H

#include "text/mst_toolcall.h"


#define MST_TOOLCALL_WORD     256              /* bytes of a key or an id */


typedef enum {
    MST_CALL_TEXT,             /* of the answer */
    MST_CALL_THOUGHT,
    MST_CALL_BETWEEN,          /* behind a call: space that nobody wrote */
    MST_CALL_NAME,             /* behind [TOOL_CALLS] */
    MST_CALL_ID,               /* behind [CALL_ID] */
    MST_CALL_ITEM,             /* an object must begin */
    MST_CALL_KEY,              /* its first key, or its end */
    MST_CALL_NEXT_KEY,
    MST_CALL_WORD,             /* in a key */
    MST_CALL_COLON,
    MST_CALL_VALUE,
    MST_CALL_STRING,           /* in the name's string */
    MST_CALL_SKIP,             /* in a value that is of no use */
    MST_CALL_COMMA,            /* behind a value */
    MST_CALL_NEXT,             /* behind an object of a list */
    MST_CALL_BEGIN,            /* arguments must begin */
    MST_CALL_ARGUMENTS,
    MST_CALL_TAG_END
} mst_call_state_t;


/* a call may begin: nothing of it is known */
void mst_toolcall_start(mst_toolcall_t *t, mst_call_state_t state);

/* the name is known: the rest may go out as it comes */
int mst_toolcall_stream(mst_toolcall_t *t);

/* all of it has come; what comes then is of state "next" */
int mst_toolcall_complete(mst_toolcall_t *t, mst_call_state_t next);

/* how many of n bytes are space, from the first on */
size_t mst_toolcall_space(const char *p, size_t n);


/* the name, the id that t->word holds */
int mst_toolobject_take_name(mst_toolcall_t *t);
void mst_toolobject_take_id(mst_toolcall_t *t);

/* states */
size_t mst_toolobject_name(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
size_t mst_toolobject_id(mst_toolcall_t *t, const char *p, size_t n, int *rc);
size_t mst_toolobject_syntax(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
size_t mst_toolobject_word(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
size_t mst_toolobject_value(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
size_t mst_toolobject_skip(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
size_t mst_toolobject_begin(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);
size_t mst_toolobject_arguments(mst_toolcall_t *t, const char *p, size_t n,
    int *rc);


#endif /* MST_TOOLCALL_LOCAL_H */
