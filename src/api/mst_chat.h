
/*
 * "messages" of a chat: roles, texts, thoughts, and calls of tools.
 */

#ifndef MST_CHAT_H
#define MST_CHAT_H

#include <jansson.h>

#include "api/mst_api_error.h"
#include "base/mst_buf.h"
#include "base/mst_message.h"


typedef struct {
    mst_message_t  *messages;      /* [n] */
    size_t          n;
    mst_part_t     *parts;         /* of all messages */
    mst_call_t     *calls;         /* [n_calls] of all messages */
    size_t          n_calls;
} mst_chat_t;


/*
 * Checks the list and fills *chat, which is zero: mst_free() its messages and
 * parts and mst_call_free() its calls, also after an error.  The texts are
 * copied into "text", which must have room for them: it is never grown, so
 * that pointers into it stay good.  All text of a JSON document fits in the
 * document's own size.
 *
 * *prefix says whether the last message, an assistant's, is "prefix": true.
 */
int mst_chat_parse(const json_t *list, mst_buf_t *text, mst_chat_t *chat,
    int *prefix, mst_api_error_t *e);

/* "safe_prompt": Mistral's words for it as a first system message */
int mst_chat_safe(mst_message_t **messages, size_t *n, mst_api_error_t *e);

/* the copy of s in "text" */
mst_str_t mst_chat_copy(mst_buf_t *text, mst_str_t s);


#endif /* MST_CHAT_H */
