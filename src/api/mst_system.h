
/*
 * The host's own system prompts around those of a chat.
 *
 * However many texts there are, the chat then begins with one system message
 * and templates that know one system prompt show it whole.
 *
 * For one request, on its thread.
 */

#ifndef MST_SYSTEM_H
#define MST_SYSTEM_H

#include "api/mst_request.h"


typedef enum {
    MST_SYSTEM_PREPEND,
    MST_SYSTEM_APPEND,
    MST_SYSTEM_REPLACE                 /* the client's system messages,
                                          wherever they stand */
} mst_system_how_t;


typedef struct {
    mst_str_t         text;            /* UTF-8, not empty */
    mst_system_how_t  how;
} mst_system_t;


/*
 * Puts n >= 1 texts, the outermost first, around the system messages that
 * the chat begins with, with an empty line between each.  safe_prompt's
 * message is kept by MST_SYSTEM_REPLACE: the client asked for it, and it is
 * no text of the client's.  Once for a request.  MST_OK or MST_ERROR
 * (memory).
 */
int mst_system_apply(mst_request_t *r, const mst_system_t *s, size_t n);


#endif /* MST_SYSTEM_H */
