
/*
 * One message of a chat, as both the API and the templates know it.
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


typedef struct {
    mst_role_t  role;
    mst_str_t   content;       /* UTF-8, may be empty and may hold NUL */
} mst_message_t;


#endif /* MST_MESSAGE_H */
