
/*
 * A chat as both the API and the templates know it: messages, what stands in
 * them, and what stands beside them.  Strings are owned elsewhere.
 */

#ifndef MST_MESSAGE_H
#define MST_MESSAGE_H

#include "base/mst_str.h"


typedef enum {
    MST_ROLE_SYSTEM,           /* "developer" is the same role */
    MST_ROLE_USER,
    MST_ROLE_ASSISTANT,
    MST_ROLE_TOOL
} mst_role_t;


/* one piece of a message whose content is a list */
typedef struct {
    int        thinking;       /* a thought, else text */
    int        open;           /* a thought that is not closed */
    mst_str_t  text;
} mst_part_t;

/* a call of a tool by the assistant */
typedef struct {
    mst_str_t  id;             /* len 0: none */
    mst_str_t  name;
    mst_str_t  arguments;      /* JSON as it was sent; may be none at all */
    char      *owned;          /* the API's: arguments' memory, or NULL */
} mst_call_t;


typedef struct {
    mst_role_t         role;
    mst_str_t          content;    /* UTF-8, may be empty and may hold NUL; of
                                      a list its texts, joined by newlines */
    const mst_part_t  *parts;      /* [n_parts] of a list; else none */
    size_t             n_parts;
    const mst_call_t  *calls;      /* [n_calls] of an assistant's */
    size_t             n_calls;
    mst_str_t          thinking;   /* "reasoning_content"; len 0: none */
    mst_str_t          call_id;    /* that a tool answers; len 0: none */
    mst_str_t          name;       /* len 0: none */
} mst_message_t;


#endif /* MST_MESSAGE_H */
